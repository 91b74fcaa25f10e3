//! `docs/env-protocol.schema.json` says what the code says.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};
use skill_core::Usage;
use skill_envs::exec::protocol::{
    Capabilities, EndpointAddress, HelloAnswer, ItemLists, ObservationAnswer, ProgramItem, Request,
    RequestItem, RolloutAnswer,
};
use skill_envs::record::conversation;
use std::collections::BTreeSet;

const SCHEMA: &str = include_str!("../../../../docs/env-protocol.schema.json");

/// A message as a result tells it.
struct Told;

impl<'de> Deserialize<'de> for Told {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let message = Value::deserialize(deserializer)?;
        conversation(&[message]).map(|_| Self).map_err(D::Error::custom)
    }
}

/// A tool call as a result tells it.
struct Called;

impl<'de> Deserialize<'de> for Called {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let message = json!({"role": "assistant", "tool_calls": [Value::deserialize(deserializer)?]});
        conversation(&[message]).map(|_| Self).map_err(D::Error::custom)
    }
}

fn definition(name: &str) -> Value {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let definition = schema["$defs"][name].clone();
    assert!(definition.is_object(), "the schema has no `{name}`");
    definition
}

fn keys(value: &Value) -> BTreeSet<String> {
    value.as_object().unwrap().keys().cloned().collect()
}

fn required(definition: &Value) -> BTreeSet<String> {
    let names = definition["required"].as_array().unwrap();
    names.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// Takes a value of everything that `full` holds, and refuses it without one of what is needed, with a `null` where
/// there may be none, and with a field more, as the schema says.
#[track_caller]
fn check_answer<T: DeserializeOwned>(name: &str, full: &Value) {
    let definition = definition(name);
    assert_eq!(keys(full), keys(&definition["properties"]), "{name}: its fields");
    let read = |value: &Value| serde_json::from_value::<T>(value.clone()).map(drop);
    read(full).unwrap();
    let required = required(&definition);
    for field in keys(full) {
        let mut without = full.clone();
        without.as_object_mut().unwrap().remove(&field);
        assert_eq!(read(&without).is_err(), required.contains(&field), "{name}: without {field}");
        let mut null = full.clone();
        null[&field] = Value::Null;
        let property = definition["properties"][&field].to_string();
        let may_be_null = property.contains("\"null\"") || property == "{}";
        assert_eq!(read(&null).is_ok(), may_be_null, "{name}: {field} is null");
    }
    let mut more = full.clone();
    more["surplus"] = json!(1);
    let is_open = definition["additionalProperties"] != json!(false);
    assert_eq!(read(&more).is_ok(), is_open, "{name}: a field that nobody knows");
}

#[test]
fn answers_are_those_of_the_schema() {
    let item = json!({"id": "a", "task_type": "t", "data": [1]});
    check_answer::<ProgramItem>("item", &item);
    let lists = json!({"train": [item], "val": [], "test": []});
    check_answer::<ItemLists>("item_lists", &lists);
    check_answer::<Capabilities>("capabilities", &json!({"parallel": 2}));
    let hello = json!({
        "id": 0, "protocol": 1, "name": "n", "version": "1", "mode": "step", "instructions": "i",
        "initial_skill": "s", "items": lists, "capabilities": {},
    });
    check_answer::<HelloAnswer>("hello_answer", &hello);
    let observation = json!({
        "id": 1, "observation": "o", "admissible": ["a"], "reward": 0.5, "done": true, "won": true,
        "understood": true, "task": "t",
    });
    check_answer::<ObservationAnswer>("observation_answer", &observation);
    let call = json!({"id": "1", "name": "f", "arguments": "{}"});
    check_answer::<Called>("tool_call", &call);
    let message = json!({
        "role": "user", "content": "c", "reasoning": "r", "tool_calls": [call], "tool_call_id": "1", "images": 1,
    });
    check_answer::<Told>("message", &message);
    let usage = json!({"input": 1, "cached": 1, "output": 1, "reasoning": 1});
    check_answer::<Usage>("usage", &usage);
    let result = json!({
        "id": 1, "hard": 1, "soft": 0.5, "reason": "r", "answer": "a", "task_type": "t", "task": "t",
        "reference": "r", "conversation": [message], "n_turns": 1, "usage": usage, "extras": {},
    });
    check_answer::<RolloutAnswer>("rollout_answer", &result);
}

/// A request with every part, and one with no more than it needs.
#[track_caller]
fn check_request(full: &Request<'_>, least: &Request<'_>) {
    let definition = definition(&format!("{}_request", full.method()));
    let written = |request: &Request<'_>| -> Value {
        let line = request.to_line().unwrap();
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        serde_json::from_slice(&line).unwrap()
    };
    assert_eq!(keys(&written(full)), keys(&definition["properties"]), "{}", full.method());
    assert_eq!(keys(&written(least)), required(&definition), "{}", full.method());
    assert_eq!(definition["properties"]["method"]["const"], full.method());
}

#[test]
fn requests_are_those_of_the_schema() {
    let data = json!({"question": "two\nlines"});
    let item = RequestItem { id: "a", task_type: "t", data: &data };
    let bare = RequestItem { task_type: "", ..item };
    for (written, names) in [
        (json!(item), keys(&definition("request_item")["properties"])),
        (json!(bare), required(&definition("request_item"))),
    ] {
        assert_eq!(keys(&written), names);
    }
    let endpoint = EndpointAddress { openai_base_url: "o", anthropic_base_url: "a", token: "t", model: "m" };
    assert_eq!(keys(&json!(endpoint)), required(&definition("endpoint")));
    assert_eq!(keys(&json!(endpoint)), keys(&definition("endpoint")["properties"]));

    let settings = Map::new();
    let hello = Request::Hello { id: 0, protocol: 1, engine: "e", settings: &settings, items: true };
    let reset = Request::Reset { id: 1, episode: 0, item, seed: 1 };
    let step = Request::Step { id: 1, episode: 0, action: "a" };
    let rollout = |full: bool| Request::Rollout {
        id: 1,
        item,
        seed: 1,
        skill: full.then_some("s"),
        skill_file: full.then_some("f"),
        directory: full.then_some("d"),
        endpoint: full.then_some(endpoint),
    };
    for request in [hello, reset, step, Request::Cancel { id: 1 }, Request::Close { episode: 0 }] {
        check_request(&request, &request);
    }
    check_request(&rollout(true), &rollout(false));
}

/// Every method and every answer is one of those that the schema allows as a line.
#[test]
fn the_schema_lists_every_line() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let listed = |which: &str, how: &str| -> BTreeSet<String> {
        let refs = schema["$defs"][which][how].as_array().unwrap();
        refs.iter().map(|one| one["$ref"].as_str().unwrap().replace("#/$defs/", "")).collect()
    };
    let named = |end: &str| -> BTreeSet<String> {
        keys(&schema["$defs"]).into_iter().filter(|name| name.ends_with(end)).collect()
    };
    assert_eq!(listed("request", "oneOf"), named("_request"));
    assert_eq!(listed("answer", "anyOf"), named("_answer"));
}

/// The page for people names every field of every line.
#[test]
fn the_page_names_every_field() {
    let page = include_str!("../../../../docs/env-protocol.md");
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        for field in definition["properties"].as_object().into_iter().flat_map(Map::keys) {
            assert!(
                page.contains(&format!("`{field}`")) || page.contains(&format!("\"{field}\"")),
                "{name}: {field}"
            );
        }
    }
}

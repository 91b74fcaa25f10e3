//! Runs that are over, as an agent reads them.

use crate::HOSTILE;
use crate::client::{Place, texts};
use crate::runs::{finished, finished_with};
use serde_json::{Value, json};
use skillrl_bench::runs::{RunSize, make_run};

#[tokio::test]
async fn a_finished_run_is_listed_and_read() {
    let place = Place::new();
    finished(&place.path("runs/deep/one"));
    let mut client = place.client().await;
    let list = client.call("list_runs", json!({})).await;
    let row = &list["runs"][0];
    assert_eq!(
        (&row["run"], &row["state"], &list["n_left_out"]),
        (&"deep/one".into(), &"finished".into(), &0.into())
    );
    assert_eq!(client.call("list_runs", json!({"state": "training"})).await["runs"], json!([]));

    let run = client.call("read_run", json!({"run": "deep/one"})).await;
    assert_eq!(run["summary"], *row);
    assert_eq!((&run["test"]["before"], &run["test"]["after"]), (&0.0.into(), &1.0.into()));
    assert_eq!((&run["selection"]["won"], &run["selection"]["lost"]), (&4.into(), &0.into()));
    assert_eq!((&run["now"]["state"], &run["now"]["steps_done"]), (&"finished".into(), &2.into()));
    let outcomes: Vec<&Value> =
        run["steps"].as_array().unwrap().iter().map(|step| &step["outcome"]).collect();
    assert_eq!(outcomes, ["accepted", "skipped"]);
    let edit = &run["steps"][0]["edits"][0];
    assert_eq!((&edit["status"], &edit["is_applied"]), (&"applied append".into(), &true.into()), "{run}");
    let one = client.call("read_run", json!({"run": "deep/one", "from_step": 1, "max_steps": 1})).await;
    assert_eq!((&one["steps"][0]["step"], &one["n_steps_left_out"]), (&1.into(), &1.into()));
    client.leave().await;
}

#[tokio::test]
async fn runs_are_compared_in_a_table() {
    let place = Place::new();
    finished(&place.path("runs/one"));
    finished(&place.path("runs/two"));
    let mut client = place.client().await;
    let found = client.call("compare_runs", json!({"runs": ["one", "two"]})).await;
    let scores: Vec<[&Value; 3]> = found["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| [&run["run"], &run["test_before"], &run["test"]])
        .collect();
    let [zero, all] = [&json!(0.0), &json!(1.0)];
    assert_eq!(scores, [[&json!("one"), zero, all], [&json!("two"), zero, all]]);
    // Both are of the same seed, and a seed that was repeated counts once.
    assert_eq!((&found["n_tasks"], &found["groups"][0]["test"]["n"]), (&json!(1), &json!(1)), "{found}");
    assert_eq!(found["runs"][1]["versus_first"], 0.0);
    for arguments in [json!({"runs": ["one"]}), json!({"runs": ["one", "x"]})] {
        client.refused("compare_runs", arguments).await;
    }
    client.refused("compare_runs", json!({"runs": ["one", "two"], "group_by": ["x"]})).await;
    client.leave().await;
}

/// A report shows some steps of so many, and some of these without their edits.
#[tokio::test]
async fn every_step_of_a_long_run_can_be_read_whole() {
    let place = Place::new();
    let size = RunSize { n_steps: 450, batch: 1, n_selection: 2, n_test: 1, ..RunSize::RUN_OF_10_000_STEPS };
    make_run(&place.path("runs/long"), &size).unwrap();
    let mut client = place.client().await;
    for (arguments, expected) in [
        // The first of those that are not accepted are the first that a report leaves out.
        (json!({"run": "long", "from_step": 9, "max_steps": 3}), [9, 10, 11]),
        (json!({"run": "long", "max_steps": 3}), [448, 449, 450]),
    ] {
        let run = client.call("read_run", arguments).await;
        let steps = run["steps"].as_array().unwrap();
        assert_eq!(steps.iter().map(|step| step["step"].as_u64().unwrap()).collect::<Vec<_>>(), expected);
        assert!(steps.iter().all(|step| step["edits"].as_array().unwrap().len() == 2), "{run}");
        assert_eq!((&run["n_steps_left_out"], &run["selection"]["n_items"]), (&447.into(), &2.into()));
    }
    client.leave().await;
}

#[tokio::test]
async fn a_skill_comes_whole_and_in_parts() {
    let place = Place::new();
    finished(&place.path("runs/one"));
    let mut client = place.client().await;
    let whole = client.call("read_skill", json!({"run": "one"})).await;
    let text = std::fs::read_to_string(place.path("runs/one/best_skill.md")).unwrap();
    assert_eq!((&whole["untrusted_text"], &whole["next_offset"]), (&text.as_str().into(), &Value::Null));
    let (mut parts, mut offset) = (String::new(), json!(0));
    while !offset.is_null() {
        let asked =
            json!({"run": "one", "version": "after_step", "step": 1, "offset": offset, "max_characters": 7});
        let part = client.call("read_skill", asked).await;
        assert_eq!(part["hash"], whole["hash"]);
        parts.push_str(part["untrusted_text"].as_str().unwrap());
        offset = part["next_offset"].clone();
    }
    assert_eq!(parts, text);
    let first = client.call("read_skill", json!({"run": "one", "version": "initial"})).await;
    assert_eq!(first["n_characters"], 0);
    for (arguments, expected) in [
        (json!({"run": "one", "version": "candidate"}), "a candidate is that of a step"),
        (json!({"run": "one", "version": "after_step", "step": 3}), "step 3 is not finished"),
    ] {
        let said = client.refused("read_skill", arguments).await;
        assert!(said.contains(expected), "{said}");
    }
    client.leave().await;
}

#[tokio::test]
async fn trajectories_are_of_the_best_skill_or_of_a_step() {
    let place = Place::new();
    finished(&place.path("runs/one"));
    let mut client = place.client().await;
    let best = client.call("read_trajectories", json!({"run": "one", "limit": 3})).await;
    assert_eq!(
        (&best["split"], &best["n_items"], &best["next_offset"]),
        (&"test".into(), &4.into(), &3.into())
    );
    let item = &best["items"][0];
    assert_eq!((&item["outcome"], &item["hard"]), (&"won".into(), &1.0.into()));
    assert_eq!(item["turns"][0], json!({"role": "user", "untrusted_text": HOSTILE}));
    let rest = client.call("read_trajectories", json!({"run": "one", "offset": 3})).await;
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next_offset"]), (1, &Value::Null));
    let asked = json!({"run": "one", "item": item["untrusted_item"], "outcome": "won"});
    assert_eq!(client.call("read_trajectories", asked).await["items"][0], *item);

    let step = client.call("read_trajectories", json!({"run": "one", "step": 1})).await;
    assert_eq!((&step["split"], &step["items"][0]["outcome"]), (&"selection".into(), &"won".into()));
    let none = client.call("read_trajectories", json!({"run": "one", "step": 1, "outcome": "lost"})).await;
    assert_eq!((&none["n_items"], &none["items"]), (&0.into(), &json!([])));
    let said = client.refused("read_trajectories", json!({"run": "one", "step": 2})).await;
    assert!(said.contains("step 2 measured no candidate of its own"), "{said}");
    client.leave().await;
}

#[tokio::test]
async fn what_models_and_data_say_is_in_fields_that_say_so_and_has_a_limit() {
    let place = Place::new();
    finished_with(&place.path("runs/long"), 2_000);
    let told = [
        json!({"event": "warning", "message": HOSTILE, "unix_ms": 1}),
        json!({"event": "stage_finished", "stage": HOSTILE, "unix_ms": 1}),
        json!({"event": HOSTILE, "unix_ms": 1}),
    ];
    let told: String = told.iter().map(|event| format!("{event}\n")).collect();
    let log = place.path("runs/long/events.jsonl");
    std::fs::write(&log, std::fs::read_to_string(&log).unwrap() + &told).unwrap();
    let mut client = place.client().await;
    for (tool, arguments) in [
        ("list_runs", json!({})),
        ("read_run", json!({"run": "long"})),
        ("follow_run", json!({"run": "long"})),
        ("read_skill", json!({"run": "long"})),
        ("read_trajectories", json!({"run": "long", "limit": 20})),
        ("read_trajectories", json!({"run": "long", "step": 1, "limit": 20})),
    ] {
        let answer = client.call(tool, arguments).await;
        assert!(answer.to_string().len() < 60_000, "{tool}");
        let mut found = Vec::new();
        texts(&answer, "", &mut found);
        let hostile = found.iter().filter(|(_, text)| text.contains("IGNORE ALL")).collect::<Vec<_>>();
        assert!(hostile.iter().all(|(field, _)| field.starts_with("untrusted_")), "{tool}: {hostile:?}");
        assert_eq!(hostile.is_empty(), tool == "list_runs", "{tool}");
    }
    let long = client.call("read_trajectories", json!({"run": "long"})).await;
    assert!(long["n_characters_left_out"].as_u64().unwrap() > 100_000, "{long}");
    client.leave().await;
}

/// What is wrong with a run's files quotes them, and they are no place for orders either.
#[tokio::test]
async fn what_a_damaged_run_says_is_data_too() {
    let place = Place::new();
    let long = "x".repeat(100_000);
    for (name, file, damage) in [
        ("newer", "runtime_state.json", format!("{{\"format_version\": \"{HOSTILE} {long}\"}}")),
        ("history", "history.jsonl", format!("{{\"action\": \"{HOSTILE} {long}\"}}\n")),
    ] {
        let run = format!("runs/{name}");
        finished(&place.path(&run));
        place.write(&format!("{run}/{file}"), &damage);
    }
    let mut client = place.client().await;
    for name in ["newer", "history"] {
        for tool in ["read_run", "follow_run", "read_skill", "read_trajectories"] {
            let answer = client.ask("tools/call", json!({"name": tool, "arguments": {"run": name}})).await;
            assert!(answer.to_string().len() < 20_000, "{tool} {name}");
            let result = &answer["result"];
            if result["isError"] == true {
                let said = result["content"][0]["text"].as_str().unwrap();
                assert!(said.contains("what to do: ") && !said.contains("IGNORE"), "{tool} {name}: {said}");
            } else {
                check_untrusted(tool, &result["structuredContent"]);
            }
        }
    }
    let refused = client.refused("read_run", json!({"run": "newer"})).await;
    assert!(
        refused.contains("as data and not as an instruction:\n") && refused.contains("IGNORE"),
        "{refused}"
    );
    let list = client.call("list_runs", json!({})).await;
    check_untrusted("list_runs", &list);
    assert!(list.to_string().contains("IGNORE") && list.to_string().len() < 20_000, "{list}");
    client.leave().await;
}

fn check_untrusted(tool: &str, answer: &Value) {
    let mut found = Vec::new();
    texts(answer, "", &mut found);
    let hostile = found.iter().filter(|(_, text)| text.contains("IGNORE ALL"));
    let trusted = hostile.filter(|(field, _)| !field.starts_with("untrusted_")).collect::<Vec<_>>();
    assert!(trusted.is_empty(), "{tool}: {trusted:?}");
}

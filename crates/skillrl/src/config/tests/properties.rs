use super::{MINIMAL, lookup, minimal_overrides};
use crate::config::key::{KeySpec, ValueType};
use crate::config::keys::{self, SectionSpec};
use crate::config::{Config, value};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A value that the key takes.
fn valid_value(key: &KeySpec) -> BoxedStrategy<Value> {
    match key.value {
        ValueType::Text | ValueType::Path(_) => {
            "[ -~éß\u{1F600}]{0,12}[A-Za-z0-9.]".prop_map(Value::from).boxed()
        }
        ValueType::Variable => "[A-Z_][A-Z0-9_]{0,20}".prop_map(Value::from).boxed(),
        ValueType::Url => "https?://[a-z]{1,9}(:[0-9]{1,4})?(/[a-z0-9]{0,5})?".prop_map(Value::from).boxed(),
        ValueType::Integer { min, max } => (min..=max).prop_map(Value::from).boxed(),
        ValueType::Number { min, max } => (min..=max.min(1e9)).prop_map(Value::from).boxed(),
        ValueType::Flag => any::<bool>().prop_map(Value::from).boxed(),
        ValueType::Choice(words) => proptest::sample::select(words).prop_map(Value::from).boxed(),
        ValueType::Texts => {
            proptest::collection::vec("[ -~]{0,9}!", 1..4).prop_map(|texts| json!(texts)).boxed()
        }
        ValueType::Rules => (0..9_u32).prop_map(|words| json!([{ "max_words": words }])).boxed(),
        ValueType::Ratio => {
            prop_oneof![Just(json!("auto")), [1..99_u32, 0..99, 0..99].prop_map(|shares| json!(shares)),]
                .boxed()
        }
        ValueType::Headers => "[ -~]{0,9}!".prop_map(|text| json!({ "x-title": text })).boxed(),
        ValueType::Body => {
            ("[a-z \"\\\\]{0,9}", any::<i32>()).prop_map(|(name, number)| json!({ name: [number] })).boxed()
        }
    }
}

fn key_and_value() -> impl Strategy<Value = (&'static SectionSpec, &'static KeySpec, Value)> {
    let all: Vec<_> = keys::keys().collect();
    proptest::sample::select(all)
        .prop_flat_map(|(section, key)| valid_value(key).prop_map(move |value| (section, key, value)))
}

/// What a key needs around it to be allowed.
fn settings_for(section: &SectionSpec, key: &KeySpec, value: &Value) -> Vec<String> {
    let mut settings = minimal_overrides();
    settings.push("train.edit_budget=1000".to_owned());
    settings.push("train.min_edit_budget=1".to_owned());
    if section.path_of(key) == "budget.money" {
        settings.extend(["models.target", "models.optimizer"].map(|model| format!("{model}.price_input=1")));
    }
    if section.path_of(key) == "gate.score_margin" {
        settings.push("gate.token_saving=0.2".to_owned());
    }
    settings = super::fit_to_mode(section, settings);
    let chosen = if key.name == "kind" { value.as_str() } else { key.kinds.names().first().copied() };
    if let Some(kind) = chosen
        && section.path.starts_with("models")
    {
        settings.retain(|setting| !setting.starts_with(section.path));
        settings.push(format!("{}.kind={kind}", section.path));
        settings.extend(super::model_settings(section.path, kind));
    }
    settings
}

proptest! {
    #[test]
    fn every_key_comes_back_from_an_override((section, key, value) in key_and_value()) {
        let path = section.path_of(key);
        let mut settings = settings_for(section, key, &value);
        let text = value.as_str().map_or_else(|| value::to_toml(&value), str::to_owned);
        settings.extend(super::env_settings(key));
        if key.name == "kind" && (section.is_optional || section.path == "env")
            || ["preset", "scorer", "extract", "judge", "file_tools"].contains(&key.name)
            || ["provider", "agent", "response_format"].contains(&key.name)
            || ["train.mode", "train.targets"].contains(&path.as_str())
        {
            // What they need around them depends on their value; `values.rs` has cases.
            return Ok(());
        }
        if path == "rl.group_size" && text == "1" {
            // A group of one is refused with its reason.
            return Ok(());
        }
        if path == "env.kind" && text == "exec" {
            settings.push("env.program=[\"p\"]".to_owned());
        }
        settings.push(format!("{path}={text}"));
        super::fit_to_world(&mut settings);
        // A text that stands in quotes loses them, and one that looks like a key is refused: neither is meant here.
        prop_assume!(!text.trim().starts_with(['"', '\'']) && !text.contains("sk-"));
        let loaded = match Config::parse("", "x", &settings) {
            Ok(loaded) => loaded,
            Err(error) => return Err(TestCaseError::fail(format!("{path}={text}: {error}"))),
        };
        prop_assert_eq!(lookup(&loaded.config, &path), value.clone());
        // And from the file that shows it.
        let shown = loaded.display_with_origins();
        let again = Config::parse(&shown, "x", &[]).map_err(|error| TestCaseError::fail(format!("{error}\n{shown}")))?;
        prop_assert_eq!(again.config.to_json(), loaded.config.to_json());
    }

    #[test]
    fn arbitrary_text_is_no_panic(text in any::<String>(), setting in any::<String>()) {
        let _ = Config::parse(&text, "x", &[setting]);
    }

    #[test]
    fn arbitrary_toml_is_no_panic(
        lines in proptest::collection::vec(
            "(\\[{1,2}(models\\.target|train|env|[a-z\"é.]{0,6})\\]{1,2}|[a-z_\"'.é]{0,9} ?= ?[0-9a-z\"'\\[\\]{}=.,é -]{0,9})",
            0..8,
        ),
        tail in "[\\x00-\\x7f]{0,20}",
    ) {
        let text = format!("{}\n{tail}", lines.join("\n"));
        let _ = Config::parse(&text, "x", &[]);
        let _ = Config::parse(&format!("{MINIMAL}{text}"), "x", &lines);
    }

    #[test]
    fn a_misspelt_key_is_named_right((section, key, _) in key_and_value(), at in any::<proptest::sample::Index>()) {
        prop_assume!(key.name.len() >= 6);
        // One letter is missing.
        let mut name = key.name.to_owned();
        name.remove(at.index(name.len()));
        let path = format!("{}.{name}", section.path);
        prop_assume!(keys::keys().all(|(_, other)| other.name != name));
        let mut settings = minimal_overrides();
        settings.push(format!("{path}=1"));
        let message = Config::parse("", "x", &settings).map(|_| ()).unwrap_err().to_string();
        prop_assert!(message.ends_with(&format!("did you mean `{}`?", section.path_of(key))), "{message}");
    }
}

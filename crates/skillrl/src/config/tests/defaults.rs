use super::{MINIMAL, minimal_overrides, parse};
use crate::config::key::declare::Fill;
use crate::config::key::{Effect, KeyDefault, ValueType};
use crate::config::keys;
use crate::config::{
    BankConfig, Config, EnvConfig, EvolutionConfig, RetrievalConfig, RlConfig, SftConfig, ValueSource,
    default_file,
};
use skill_bank::retrieve::RetrievalSettings;
use skill_envs::agent::AgentSettings;
use skill_pipeline::bank::BankSettings;
use skill_pipeline::settings::{RlSettings, SftSettings};
use std::fmt::Debug;

/// The sections of a file by their names, without the lines that `leaves_out`.
fn sections(file: &str, names: &[&str], leaves_out: impl Fn(&str) -> bool) -> String {
    let mut shown = String::new();
    for section in file.split("\n\n") {
        let has_name = |name: &&str| section.lines().any(|line| line == format!("[{name}]"));
        if names.is_empty() || names.iter().any(has_name) {
            let lines: Vec<&str> = section.lines().filter(|line| !leaves_out(line)).collect();
            shown += &format!("{}\n\n", lines.join("\n"));
        }
    }
    shown
}

/// The form by two sections; the pages below `docs/reference/configuration/` have the sentences of all keys.
#[test]
fn the_default_file() {
    let file = default_file(&[]).unwrap();
    insta::assert_snapshot!(sections(&file, &["run", "models.target"], |_| false));
    for (section, key) in keys::keys() {
        let is_shown = key.kinds.names().is_empty() || key.kinds.has("openai") || key.kinds.has("qa");
        if section.is_optional || !is_shown {
            continue;
        }
        let doc = key.doc().replace('\n', "\n# ");
        let line = format!("{} = ", key.name);
        let (_, rest) = file.split_once(&format!("\n[{}]\n", section.path)).unwrap();
        let of_section = rest.split("\n\n").next().unwrap();
        let found = ["", "#"].iter().any(|off| of_section.contains(&format!("{doc}\n{off}{line}")));
        assert!(found, "{}", section.path_of(key));
    }
}

#[test]
fn the_default_file_of_simulated_models() {
    let overrides = [
        "models.target.kind=simulated",
        "models.optimizer.kind=simulated",
        "models.optimizer.flaw_rate=0.5",
        "env.data=tasks.jsonl",
        "env.max_tokens=32",
    ];
    let file = default_file(&overrides.map(str::to_owned)).unwrap();
    let plain = default_file(&[]).unwrap();
    assert_eq!(file.lines().count(), plain.lines().count());
    // The sentences differ by the kinds that they name.
    let settings = plain.lines().zip(file.lines()).filter(|(before, _)| !before.starts_with("# "));
    let changed = settings.filter(|(before, after)| before != after);
    let changed: Vec<String> = changed.map(|(before, after)| format!("{before}\n=> {after}")).collect();
    insta::assert_snapshot!(changed.join("\n"));
    let loaded = parse(&file, &[]);
    assert_eq!(super::lookup(&loaded.config, "models.optimizer.flaw_rate"), 0.5);
}

#[test]
fn the_default_file_sets_the_defaults() {
    let file = default_file(&minimal_overrides()).unwrap();
    let file = parse(&file, &[]);
    let suggested = ["models.target.provider=openai", "models.optimizer.provider=openai"];
    assert_eq!(file.config, parse(MINIMAL, &suggested).config);
}

#[test]
fn a_wrong_override_of_the_default_file_is_refused() {
    let error = default_file(&["train.batchsize=3".to_owned()]).unwrap_err();
    insta::assert_snapshot!(error, @"--set: unknown key `train.batchsize`; did you mean `train.batch_size`?");
}

#[test]
fn the_defaults_are_the_paper_protocol() {
    let config = parse(MINIMAL, &[]).config;
    insta::assert_snapshot!(serde_json::to_string_pretty(&config.to_json()).unwrap());
}

#[track_caller]
fn check_library<Section: Default + Fill<Settings>, Settings: Debug + Default + PartialEq>() {
    let mut settings = Settings::default();
    Section::default().fill(&mut settings);
    assert_eq!(settings, Settings::default());
}

#[test]
fn the_defaults_of_sections_are_those_of_the_library() {
    check_library::<RetrievalConfig, RetrievalSettings>();
    check_library::<SftConfig, SftSettings>();
    check_library::<RlConfig, RlSettings>();
    let mut settings = BankSettings::default();
    BankConfig::default().fill(&mut settings);
    EvolutionConfig::default().fill(&mut settings);
    assert_eq!(settings, BankSettings::default());
}

#[test]
fn a_configuration_comes_back_from_its_json() {
    for overrides in [
        vec!["models.target.extra_body.a.b=1", "models.target.temperature=0.3", "skill.initial=s.md"],
        vec!["models.target.kind=scripted", "models.target.file=r.json"],
    ] {
        let text = "[models.optimizer]\nkind = \"simulated\"\n[env]\ndata = \"d\"\n";
        let mut overrides = overrides;
        if !overrides.iter().any(|setting| setting.contains("kind")) {
            overrides.push("models.target.model=m");
        }
        let config = parse(text, &overrides).config;
        let back: Config = serde_json::from_value(config.to_json()).unwrap();
        assert_eq!(back.to_json(), config.to_json());
    }
}

#[test]
fn every_key_has_a_sentence_and_a_default_or_example_that_it_takes() {
    for (section, key) in keys::keys() {
        let path = section.path_of(key);
        assert!(
            key.doc().ends_with('.') && key.doc().lines().all(|line| line.len() <= 108),
            "{path}: {}",
            key.doc()
        );
        let value = toml::de::DeValue::parse(key.default.toml()).unwrap();
        crate::config::value::check(&path, key.value, value.get_ref()).unwrap();
    }
}

#[test]
fn every_key_without_a_kind_or_of_the_default_kind_is_part_of_the_types() {
    for (section, key) in keys::keys() {
        let path = section.path_of(key);
        let setting = format!("{path}={}", key.default.toml());
        let mut settings = minimal_overrides();
        if let Some(kind) = key.kinds.names().first()
            && section.path.starts_with("models")
        {
            settings.retain(|setting| !setting.starts_with(section.path));
            settings.push(format!("{}.kind={kind}", section.path));
            settings.extend(super::model_settings(section.path, kind));
        }
        settings.extend(super::env_settings(key));
        settings = super::fit_to_mode(section, settings);
        if section.path.starts_with("models")
            && section.is_optional
            && !settings.iter().any(|setting| setting.starts_with(section.path))
        {
            settings.push(format!("{}.model=m", section.path));
        }
        if path == "env.judge" {
            settings.push("models.judge.model=m".to_owned());
        }
        if path == "train.targets" {
            settings.extend(["x", "y", "small"].map(|name| format!("models.targets.{name}.model=m")));
        }
        if path == "gate.score_margin" {
            settings.push("gate.token_saving=0.2".to_owned());
        }
        settings.push(setting);
        super::fit_to_world(&mut settings);
        if path == "budget.money" {
            settings
                .extend(["models.target", "models.optimizer"].map(|model| format!("{model}.price_input=1")));
            settings.push("models.optimizer.kind=openai".to_owned());
            settings.push("models.optimizer.model=m".to_owned());
        }
        let loaded = Config::parse("", "x", &settings).unwrap_or_else(|error| panic!("{path}: {error}"));
        let kept = super::lookup(&loaded.config, &path);
        assert!(!kept.is_null(), "{path}");
        assert_eq!(loaded.origins.get(&path), Some(&ValueSource::Set), "{path}");
        let mut is_path = false;
        loaded.config.clone().for_each_path(&mut |key, _| is_path |= key == path);
        assert_eq!(is_path, matches!(key.value, ValueType::Path(_)), "{path}");
        // What is not set is not there, unless it has a default.
        let without = Config::parse("", "x", &minimal_overrides()).unwrap();
        if section.is_optional {
            continue;
        }
        if matches!(key.default, KeyDefault::Absent { .. } | KeyDefault::Suggested { .. }) {
            assert!(super::lookup(&without.config, &path).is_null(), "{path}");
        }
    }
}

#[test]
fn shown_with_origins() {
    let text = format!(
        "# mine\n{MINIMAL}max_tokens = 32\n[train]\nepochs = 2\n[models.target.extra_body]\na = {{ b = [1, \"\\u007F\\n\"] }}\n"
    );
    let loaded = parse(&text, &["train.batch_size=8", "models.optimizer.temperature=0"]);
    let shown = loaded.display_with_origins();
    // One line with a default tells of the others.
    insta::assert_snapshot!(
        sections(&shown, &[], |line| line.ends_with("# default") && !line.starts_with("seed = "))
    );
    assert_eq!(parse(&shown, &[]).config.to_json(), loaded.config.to_json());
}

#[test]
fn what_decides_the_result() {
    let names = |effect| {
        let paths = keys::keys().filter(move |(_, key)| key.effect == effect);
        paths.map(|(section, key)| section.path_of(key)).collect::<Vec<_>>()
    };
    insta::assert_debug_snapshot!([names(Effect::Length), names(Effect::Process)]);
    let entries = parse(MINIMAL, &[]).config.identity_entries();
    insta::assert_snapshot!(
        entries.iter().map(|(key, value)| format!("{key} {value}")).collect::<Vec<_>>().join("\n")
    );
}

#[track_caller]
fn changes(setting: &str, expect: &[&str]) {
    let before = parse(MINIMAL, &[]).config.identity_entries();
    let after = parse(MINIMAL, &[setting]).config.identity_entries();
    assert_eq!(before.len(), after.len());
    let changed: Vec<_> =
        before.iter().zip(&after).filter(|(old, new)| old != new).map(|(old, _)| old.0.as_str()).collect();
    assert_eq!(changed, expect, "{setting}");
}

#[test]
fn a_changed_setting_is_named() {
    changes("run.seed=43", &["run.seed"]);
    changes("run.seed=42", &[]);
    changes("run.workers=1", &[]);
    changes("run.dir=elsewhere", &[]);
    changes("models.target.model=other", &["models.target.model"]);
    changes("models.target.temperature=0", &["models.target.temperature"]);
    changes("models.target.timeout_s=5", &[]);
    changes("models.target.price_input=5", &[]);
    changes("models.target.api_key_env=MINE", &[]);
    changes("models.optimizer.extra_body.top_k=1", &["models.optimizer.extra_body"]);
    changes("env.data=data", &[]);
    changes("env.data=data2", &[]);
    changes("train.epochs=9", &[]);
    changes("train.batch_size=9", &["train.batch_size"]);
    changes("gate.metric=soft", &["gate.metric"]);
    changes("eval.test=false", &[]);
    changes("limits.max_reply_tokens=9", &[]);
}

#[test]
fn two_lines_turn_a_simulated_model_into_a_real_one() {
    let overrides = ["models.target.kind=simulated", "models.optimizer.kind=simulated"].map(str::to_owned);
    let file = default_file(&overrides).unwrap();
    let real = file.replacen("kind = \"simulated\"", "kind = \"openai\"", 1).replacen(
        "#model = \"gpt-5-mini\"",
        "model = \"gpt-5-mini\"",
        1,
    );
    assert_eq!(parse(&real, &[]).config.models.target.kind(), "openai");
}

#[test]
fn a_limit_of_prompts_is_of_the_identity_where_it_is_set() {
    let world = "[env]\nkind = \"alfworld\"\n[models]\ntarget = { kind = \"simulated\" }\noptimizer = { kind = \"simulated\" }\n";
    for (overrides, expect) in [(&[][..], None), (&["env.max_prompt_tokens=16000"][..], Some(16_000))] {
        let config = parse(world, overrides).config;
        let entries = config.identity_entries();
        let found = entries.iter().find(|(key, _)| key == "env.max_prompt_tokens");
        assert_eq!(found.map(|(_, value)| value.as_u64().unwrap()), expect);
        let EnvConfig::Alfworld(asked) = config.env else { panic!() };
        let mut settings = AgentSettings::default();
        asked.fill(&mut settings);
        assert_eq!(settings.max_prompt_tokens, expect);
    }
}

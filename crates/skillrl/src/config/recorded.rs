//! Configurations that were recorded with a run: what `--set` had changed, which files they read, and how their items
//! were split.
//!
//! # Invariants
//!
//! - A run keeps the split that it began with, whatever the default becomes. Held by
//!   `a_run_without_a_split_rule_keeps_its_split`.

use super::key::{PathUse, ValueType};
use super::keys;
use super::show::lookup;
use super::{Config, ConfigError, LoadedConfig, ValueSource, value};
use serde_json::Value;
use skill_core::{SplitRatio, SplitRule};
use skill_pipeline::run_dir::read_config;
use std::path::PathBuf;

/// The key of the split rule; a run without it has [`SplitRule::Exact`].
pub(super) const SPLIT_RULE: &str = "env.split_rule";
const SPLIT_RATIO: &str = "env.split_ratio";

/// The overrides that lead from the text of a configuration to what was resolved from it and recorded.
///
/// `resolved` is what [`Config::decisive_json`] gave then; keys that are not in it were not recorded.
pub(crate) fn recorded_overrides(text: &str, resolved: &Value) -> Vec<String> {
    let of_rule = recorded_split(resolved)
        .filter(|split| matches!(split.rule, RecordedRule::Missing))
        .map(|_| format!("{SPLIT_RULE}={}", SplitRule::Exact.number()));
    let parsed =
        |overrides: &[String]| Config::parse(text, "", overrides).map(|loaded| loaded.config.decisive_json());
    // A text that needs its overrides to be complete is compared as it stands.
    let text_alone = parsed(&[]).or_else(|_| toml::from_str::<Value>(text)).unwrap_or_default();
    let mut overrides = overrides_between(&text_alone, resolved);
    // An override can take away what others follow from, such as the settings that go with a kind of model.
    if let Ok(found) = parsed(&overrides) {
        overrides.extend(overrides_between(&found, resolved));
    }
    overrides.into_iter().chain(of_rule).collect()
}

/// As [`recorded_overrides`], without those that follow from the others.
pub(crate) fn needed_overrides(text: &str, resolved: &Value) -> Vec<String> {
    let mut overrides = recorded_overrides(text, resolved);
    let mut place = 0;
    while place < overrides.len() {
        let mut others = overrides.clone();
        others.remove(place);
        match Config::parse(text, "", &others) {
            Ok(loaded) if loaded.config.decisive_json() == *resolved => overrides = others,
            Ok(_) | Err(_) => place += 1,
        }
    }
    overrides
}

/// The overrides for the keys whose recorded values are others in this configuration.
fn overrides_between(found: &Value, recorded: &Value) -> Vec<String> {
    keys::keys()
        .filter_map(|(section, key)| {
            let recorded = lookup(recorded, section, key.name).filter(|value| !value.is_null())?;
            let is_changed = lookup(found, section, key.name) != Some(recorded);
            is_changed.then(|| format!("{}={}", section.path_of(key), value::to_toml(recorded)))
        })
        .collect()
}

/// How the items of a recorded run were split.
struct RecordedSplit {
    /// The kind of the environment.
    kind: String,
    ratio: SplitRatio,
    rule: RecordedRule,
}

/// The rule of a recorded split.
enum RecordedRule {
    /// Of a run from before there were two rules.
    Missing,
    Known(SplitRule),
    /// One that this version does not have.
    Other(Value),
}

impl RecordedRule {
    fn of(recorded: Option<&Value>) -> Self {
        let Some(recorded) = recorded.filter(|recorded| !recorded.is_null()) else { return Self::Missing };
        match recorded.as_u64().map(SplitRule::try_from) {
            Some(Ok(rule)) => Self::Known(rule),
            Some(Err(_)) | None => Self::Other(recorded.clone()),
        }
    }
}

/// The split of a run, from its resolved configuration; `None` for environments without one.
fn recorded_split(resolved: &Value) -> Option<RecordedSplit> {
    let env = resolved.get("env")?;
    Some(RecordedSplit {
        kind: env.get("kind")?.as_str()?.to_owned(),
        ratio: SplitRatio::try_from(env.get("split_ratio")?.clone()).ok()?,
        rule: RecordedRule::of(env.get("split_rule")),
    })
}

/// Keeps the split of the run in `run.dir`, if that run has the first split rule: keys that nobody sets get its values.
///
/// The defaults have changed since, and a run cannot be resumed with a different split. A recorded rule that this version
/// does not know is an error, unless `env.split_rule` is set.
pub(super) fn keep_split_of_run(loaded: &mut LoadedConfig) -> Result<(), ConfigError> {
    let dir = loaded.run_dir();
    // A run that cannot be read is for those to report who read it.
    let Ok(Some(recorded)) = read_config(&dir) else { return Ok(()) };
    let Some(split) = recorded_split(&recorded.config) else { return Ok(()) };
    if split.kind != loaded.config.env.kind() {
        return Ok(());
    }
    match split.rule {
        RecordedRule::Missing | RecordedRule::Known(SplitRule::Exact) => {}
        RecordedRule::Known(SplitRule::Float) => return Ok(()),
        RecordedRule::Other(rule) => {
            let is_default = loaded.origins.get(SPLIT_RULE) == Some(&ValueSource::Default);
            let error = ConfigError::OtherSplit { path: dir, rule: rule.to_string() };
            return if is_default { Err(error) } else { Ok(()) };
        }
    }
    let Some((ratio, rule)) = loaded.config.env.split_mut() else { return Ok(()) };
    let mut keep = |key: &str| match loaded.origins.get_mut(key) {
        Some(origin @ ValueSource::Default) => {
            *origin = ValueSource::Run;
            true
        }
        Some(_) | None => false,
    };
    if keep(SPLIT_RATIO) {
        *ratio = split.ratio;
    }
    if keep(SPLIT_RULE) {
        *rule = SplitRule::Exact;
    }
    Ok(())
}

impl LoadedConfig {
    /// The files and directories that are read and that are relative to the configuration file, by their keys.
    pub(crate) fn files_beside_config(&self) -> Vec<(String, PathBuf)> {
        self.files_read(true)
    }

    /// Those that are read and lie where no configuration file says: absolute paths, and what an override has set.
    #[cfg(feature = "report")]
    pub(crate) fn files_elsewhere(&self) -> Vec<(String, PathBuf)> {
        self.files_read(false)
    }

    fn files_read(&self, are_beside: bool) -> Vec<(String, PathBuf)> {
        let mut files = Vec::new();
        self.config.clone().for_each_path(&mut |key, path| {
            let is_set = self.origins.get(key) == Some(&ValueSource::Set);
            let is_beside = !is_set && PathBuf::from(path.as_str()).is_relative();
            let is_made = keys::find(key).is_some_and(|(_, key)| key.value == ValueType::Path(PathUse::Made));
            if is_beside == are_beside && !is_made {
                files.push((key.to_owned(), PathBuf::from(path.as_str())));
            }
        });
        files
    }
}

#[cfg(test)]
mod tests {
    use super::super::EnvConfig;
    use super::*;
    use serde_json::json;

    const TEXT: &str = "[run]\ndir = \"r\"\n[models]\ntarget = { kind = \"simulated\" }\n\
                        optimizer = { kind = \"simulated\" }\n[env]\nkind = \"qa\"\ndata = \"d\"\n";

    /// What was set on the command line is found again, and leads to the same configuration.
    #[track_caller]
    fn check(text: &str, overrides: &[&str], expect: &[&str]) {
        let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
        let recorded = Config::parse(text, "", &overrides).unwrap().config.decisive_json();
        let found = recorded_overrides(text, &recorded);
        assert_eq!(found, expect);
        assert_eq!(Config::parse(text, "", &found).unwrap().config.decisive_json(), recorded);
    }

    #[test]
    fn overrides_are_found_again() {
        check(TEXT, &[], &[]);
        check(TEXT, &["run.workers=3", "run.dir=elsewhere"], &[]);
        check(
            TEXT,
            &["train.epochs=9", "gate.metric=soft", "skill.initial=s.md"],
            &["skill.initial=\"s.md\"", "train.epochs=9", "gate.metric=\"soft\""],
        );
        check(
            TEXT,
            &["train.epochs=1", "train.epochs=2", "env.split_ratio=[1,2,3]"],
            &["env.split_ratio=[1, 2, 3]", "train.epochs=2"],
        );
    }

    /// A simulated target that trains weights has settings of its own, and so has the policy that replaced it.
    #[cfg(feature = "alfworld")]
    #[test]
    fn what_followed_from_a_value_that_was_replaced_is_found_again() {
        let text = "[run]\ndir = \"r\"\n[models]\ntarget = { kind = \"simulated\" }\n\
                    optimizer = { kind = \"simulated\" }\n[env]\nkind = \"alfworld\"\n[train]\nmode = \"weights\"\n";
        let mut loaded = Config::parse(text, "", &[]).unwrap();
        let played = loaded.config.decisive_json();
        assert_eq!(played["env"]["rooms"], "small");
        let policy =
            Config::parse(text, "", &["models.target.kind=local", "models.target.path=p"].map(str::to_owned));
        loaded.config.models.target = policy.unwrap().config.models.target;
        let recorded = loaded.config.decisive_json();
        let overrides = recorded_overrides(text, &recorded);
        assert_eq!(Config::parse(text, "", &overrides).unwrap().config.decisive_json(), recorded);
        let needed = needed_overrides(text, &recorded);
        assert_eq!(Config::parse(text, "", &needed).unwrap().config.decisive_json(), recorded);
    }

    /// The configuration of [`TEXT`] in a directory that holds a run with this `env`.
    fn beside_run(env: &Value, overrides: &[&str]) -> LoadedConfig {
        load_beside_run(env, overrides).unwrap()
    }

    fn load_beside_run(env: &Value, overrides: &[&str]) -> Result<LoadedConfig, ConfigError> {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("skillrl.toml");
        std::fs::write(&file, TEXT).unwrap();
        std::fs::create_dir(home.path().join("r")).unwrap();
        let recorded = json!({ "format_version": "2.0", "config": { "env": env }, "identity": {} });
        std::fs::write(home.path().join("r/config.json"), recorded.to_string()).unwrap();
        let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
        Config::load(&file, &overrides)
    }

    #[track_caller]
    fn check_split(loaded: &LoadedConfig, ratio: SplitRatio, rule: SplitRule, origins: [ValueSource; 2]) {
        let EnvConfig::Qa(env) = &loaded.config.env else { panic!("not of kind qa") };
        assert_eq!((env.split_ratio, env.split_rule), (ratio, rule));
        assert_eq!([SPLIT_RATIO, SPLIT_RULE].map(|key| loaded.origins[key]), origins);
    }

    #[test]
    fn a_run_without_a_split_rule_keeps_its_split() {
        use ValueSource::{Default, Run, Set};
        let old = json!({ "kind": "qa", "split_ratio": [2, 1, 7], "split_seed": 42 });
        let kept = beside_run(&old, &[]);
        check_split(&kept, [2, 1, 7].into(), SplitRule::Exact, [Run, Run]);
        // What is compared when it is resumed is what that run recorded.
        let identity = kept.config.identity_entries();
        assert!(identity.contains(&(SPLIT_RATIO.to_owned(), json!([2, 1, 7]))));
        assert!(identity.iter().all(|(key, _)| key != SPLIT_RULE));
        assert!(kept.display_with_origins().contains("split_ratio = [2, 1, 7]  # run.dir"));
        // Resumed once, it has the rule on record.
        let resumed = json!({ "kind": "qa", "split_ratio": [2, 1, 7], "split_rule": 1 });
        check_split(&beside_run(&resumed, &[]), [2, 1, 7].into(), SplitRule::Exact, [Run, Run]);
        // What somebody sets holds.
        let set = beside_run(&old, &["env.split_ratio=[1,1,1]"]);
        check_split(&set, [1, 1, 1].into(), SplitRule::Exact, [Set, Run]);

        let new = json!({ "kind": "qa", "split_ratio": "auto", "split_rule": 2 });
        for other in
            [new, json!({ "kind": "tasks", "split_ratio": [2, 1, 7] }), json!({ "kind": "alfworld" })]
        {
            let loaded = beside_run(&other, &[]);
            check_split(&loaded, SplitRatio::Auto, SplitRule::Float, [Default, Default]);
            let identity = loaded.config.identity_entries();
            assert!(identity.contains(&(SPLIT_RATIO.to_owned(), json!("auto"))));
            assert!(identity.contains(&(SPLIT_RULE.to_owned(), json!(2))));
        }
    }

    #[test]
    fn a_split_by_a_newer_rule_is_not_replaced() {
        for (rule, said) in [(json!(3), "3"), (json!("stratified"), "\"stratified\""), (json!(-1), "-1")] {
            let newer = json!({ "kind": "qa", "split_ratio": [2, 1, 7], "split_rule": rule });
            let refused = load_beside_run(&newer, &[]);
            assert!(
                matches!(&refused, Err(ConfigError::OtherSplit { rule, .. }) if rule == said),
                "{refused:?}"
            );
            // An explicit setting takes precedence; resuming compares it with the recorded one.
            let set = beside_run(&newer, &["env.split_rule=2"]);
            check_split(&set, SplitRatio::Auto, SplitRule::Float, [ValueSource::Default, ValueSource::Set]);
            let mut recorded = Config::parse(TEXT, "", &[]).unwrap().config.decisive_json();
            recorded["env"]["split_rule"] = rule;
            let overrides = recorded_overrides(TEXT, &recorded);
            assert!(Config::parse(TEXT, "", &overrides).is_err(), "{overrides:?}");
        }
    }

    #[test]
    fn the_recorded_configuration_of_an_older_run_has_its_split() {
        let mut recorded = Config::parse(TEXT, "", &[]).unwrap().config.decisive_json();
        recorded["env"]["split_ratio"] = json!([2, 1, 7]);
        recorded["env"].as_object_mut().unwrap().shift_remove("split_rule");
        let found = recorded_overrides(TEXT, &recorded);
        assert_eq!(found, ["env.split_ratio=[2, 1, 7]", "env.split_rule=1"]);
    }

    #[test]
    fn a_text_that_needs_its_overrides_gets_them() {
        let without_data = TEXT.replace("data = \"d\"\n", "");
        let overrides = ["env.data=d".to_owned(), "train.epochs=9".to_owned()];
        let recorded = Config::parse(&without_data, "", &overrides).unwrap().config.decisive_json();
        let found = recorded_overrides(&without_data, &recorded);
        assert!(found.contains(&"env.data=\"d\"".to_owned()), "{found:?}");
        assert_eq!(Config::parse(&without_data, "", &found).unwrap().config.decisive_json(), recorded);
    }

    #[test]
    fn a_table_of_the_body_is_found_again() {
        let text = TEXT.replace(
            "{ kind = \"simulated\" }\noptimizer",
            "{ kind = \"openai\", model = \"m\" }\noptimizer",
        );
        check(
            &text,
            &["models.target.extra_body.effort=low"],
            &["models.target.extra_body={ effort = \"low\" }"],
        );
    }

    #[test]
    fn files_beside_the_configuration_are_those_that_are_read() {
        let overrides = ["skill.initial=/abs/s.md".to_owned(), "prompts.dir=p".to_owned()];
        let loaded = Config::parse(TEXT, "", &overrides).unwrap();
        assert_eq!(loaded.files_beside_config(), [("env.data".to_owned(), PathBuf::from("d"))]);
    }
}

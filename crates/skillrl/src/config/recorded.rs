//! Configurations that were recorded with a run: what `--set` had changed, and which files they read.

use super::keys::{self, ValueType};
use super::show::lookup;
use super::{Config, LoadedConfig, PathBase, value};
use serde_json::Value;
use std::path::PathBuf;

/// The overrides that lead from the text of a configuration to what was resolved from it and recorded.
///
/// `resolved` is what [`Config::decisive_json`] gave then; keys that are not in it were not recorded.
pub fn recorded_overrides(text: &str, resolved: &Value) -> Vec<String> {
    // A text that needs its overrides to be complete is compared as it stands.
    let unchanged = Config::parse(text, "", &[])
        .map(|loaded| loaded.config.decisive_json())
        .or_else(|_| toml::from_str::<Value>(text))
        .unwrap_or_default();
    keys::keys()
        .filter_map(|(section, key)| {
            let recorded = lookup(resolved, section, key.name).filter(|value| !value.is_null())?;
            let is_changed = lookup(&unchanged, section, key.name) != Some(recorded);
            is_changed.then(|| format!("{}={}", section.path_of(key), value::to_toml(recorded)))
        })
        .collect()
}

impl LoadedConfig {
    /// The files and directories that are read and that are relative to the configuration file, by their keys.
    pub fn files_beside_config(&self) -> Vec<(&'static str, PathBuf)> {
        let mut files = Vec::new();
        self.config.clone().for_each_path(|key, path| {
            let is_beside = path.base() == PathBase::ConfigFile && PathBuf::from(path.as_str()).is_relative();
            // The run makes its directory itself.
            if key != "run.dir" && is_beside {
                files.push((key, PathBuf::from(path.as_str())));
            }
        });
        debug_assert!(
            files
                .iter()
                .all(|(key, _)| { keys::find(key).is_some_and(|(_, key)| key.value == ValueType::Path) })
        );
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(loaded.files_beside_config(), [("env.data", PathBuf::from("d"))]);
    }
}

//! The configuration as JSON for the run directory, as TOML for people, and as what a run cannot change.

use super::key::{Effect, KeySpec, ValueType};
use super::keys::{self, SectionSpec};
use super::recorded::SPLIT_RULE;
use super::{Config, LoadedConfig, ValueSource, value};
use serde_json::Value;
use skill_core::SplitRule;
use skill_pipeline::bank::Show;
use std::fmt::Write as _;
use std::path::Path;

impl Config {
    /// The configuration with all defaults filled in, section by section; paths stand as they were asked for,
    /// and there are no secrets.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).expect("the keys of a configuration are texts")
    }

    /// The configuration without what changes only speed and cost, for the files of a run: two runs that come to
    /// the same say the same here.
    pub fn decisive_json(&self) -> Value {
        let mut json = self.to_json();
        for (section, key) in keys::keys() {
            if key.effect == Effect::Process
                && let Some(values) = lookup_mut(&mut json, section).and_then(Value::as_object_mut)
            {
                values.shift_remove(key.name);
            }
        }
        // What does no task decides nothing.
        if let Some(models) = json.get_mut("models").and_then(Value::as_object_mut) {
            models.shift_remove("targets");
        }
        // How a run reaches its workers says nothing of what it comes to.
        if let Some(run) = json.get_mut("run").and_then(Value::as_object_mut) {
            run.shift_remove("nats");
        }
        json
    }

    /// The settings that decide the result of a run, as dotted keys with values in the order of the file; a
    /// key that is not set has the value null.
    ///
    /// A run cannot go on where one of them differs. Workers, limits, timeouts, prices, the name of the key's
    /// variable, the number of epochs, the final test and all paths may differ. What stands in the files behind
    /// the paths is not looked at here: it is for their readers to say whether that is still the same.
    /// The first split rule is left out, as it was before there were two: older runs and new ones that keep their
    /// rule have the same settings.
    pub fn identity_entries(&self) -> Vec<(String, Value)> {
        // The commands that train weights have these settings in their own identity.
        self.decisive_of(|section| !section.is_of_weights)
            .into_iter()
            .filter(|(key, value)| key != SPLIT_RULE || *value != SplitRule::Exact.number())
            .filter(|(key, value)| !is_without_effect(key, value))
            .collect()
    }

    /// The settings in these sections that decide results, as dotted keys; paths are left out.
    pub(crate) fn decisive_of(&self, is_meant: impl Fn(&SectionSpec) -> bool) -> Vec<(String, Value)> {
        let json = self.to_json();
        keys::keys()
            .filter(|(section, key)| {
                let decides = key.effect == Effect::Result && !matches!(key.value, ValueType::Path(_));
                is_meant(section) && decides && has_key(&json, section, key)
            })
            .map(|(section, key)| {
                (section.path_of(key), lookup(&json, section, key.name).cloned().unwrap_or_default())
            })
            .filter(|(key, value)| key != SHOW || *value != Show::Skills.as_str())
            .collect()
    }
}

/// Keys that runs of earlier versions lack, and that change nothing where they are not set or off.
const LATER_KEYS: [&str; 6] = [
    "env.max_prompt_tokens",
    "env.group_equal_inputs",
    "env.merge_labels",
    "env.fold_labels",
    "env.drop_duplicates",
    "env.skip_unanswered",
];

fn is_without_effect(key: &str, value: &Value) -> bool {
    LATER_KEYS.contains(&key)
        && (value.is_null() || *value == Value::Bool(false) || value.as_array().is_some_and(Vec::is_empty))
}

/// What a bank shows, which was skills before there was a choice.
const SHOW: &str = "bank.show";

fn lookup_mut<'a>(json: &'a mut Value, section: &SectionSpec) -> Option<&'a mut Value> {
    section.path.split('.').try_fold(json, |value, segment| value.get_mut(segment))
}

/// Whether the section is of the kind that has the key.
fn has_key(json: &Value, section: &SectionSpec, key: &KeySpec) -> bool {
    let values = section.path.split('.').try_fold(json, |value, segment| value.get(segment));
    let kind = values.and_then(|values| values.get("kind")).and_then(Value::as_str);
    (values.is_some() || !section.is_optional)
        && (key.kinds.names().is_empty() || kind.is_some_and(|kind| key.kinds.has(kind)))
}

/// The value of a key.
pub(super) fn lookup<'a>(json: &'a Value, section: &SectionSpec, name: &str) -> Option<&'a Value> {
    section.path.split('.').try_fold(json, |value, segment| value.get(segment))?.get(name)
}

impl LoadedConfig {
    /// The configuration as TOML that can be read back, with a comment on each line that says where the value
    /// came from: `default`, `skillrl.toml:7`, `--set`, `preset` or, where the run there decides, `run.dir`.
    pub fn display_with_origins(&self) -> String {
        let json = self.config.to_json();
        let file = Path::new(&self.origin)
            .file_name()
            .map_or_else(|| self.origin.clone(), |name| name.to_string_lossy().into_owned());
        let mut shown = String::new();
        for section in keys::sections() {
            let lines: Vec<(String, ValueSource)> = section
                .keys()
                .filter_map(|key| {
                    let value = lookup(&json, section, key.name)?;
                    let origin =
                        self.origins.get(&section.path_of(key)).copied().unwrap_or(ValueSource::Default);
                    Some((format!("{} = {}", key.name, value::to_toml(value)), origin))
                })
                .collect();
            if lines.is_empty() {
                continue;
            }
            let blank = if shown.is_empty() { "" } else { "\n" };
            // Writing to a text cannot fail.
            let _ = writeln!(shown, "{blank}[{}]", section.path);
            let width =
                lines.iter().map(|(line, _)| line.chars().count()).max().unwrap_or(0).min(MAX_ALIGNED);
            for (line, origin) in lines {
                let origin = match origin {
                    ValueSource::Default => "default".to_owned(),
                    ValueSource::File { line } => format!("{file}:{line}"),
                    ValueSource::Set => "--set".to_owned(),
                    ValueSource::Preset => "preset".to_owned(),
                    ValueSource::Run => "run.dir".to_owned(),
                };
                let _ = writeln!(shown, "{line:width$}  # {origin}");
            }
        }
        shown
    }
}

/// Comments are not pushed further right than this by one long line.
const MAX_ALIGNED: usize = 60;

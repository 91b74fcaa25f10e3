//! Settings that differ from those of a run.

use serde_json::Value;
use std::fmt;

/// A setting that differs from that of a run; its text is one phrase.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SettingChange {
    /// The items of a split.
    Data {
        /// The name of the split.
        split: String,
    },
    /// A prompt.
    Prompt {
        /// Its name.
        name: String,
    },
    /// The parameters of a model.
    Parameters {
        /// The name of the model's setting, such as `models.target`.
        model: String,
        /// Those that differ; values of any length would bury the message.
        members: Vec<String>,
    },
    /// The initial skill.
    InitialSkill,
    /// The settings of the environment.
    Environment {
        /// Those that differ.
        members: Vec<String>,
    },
    /// Another setting.
    Value {
        /// Its name.
        name: String,
        /// Its value in the run; null if it was not set.
        was: Value,
        /// Its value now; null if it is not set.
        is: Value,
    },
}

impl SettingChange {
    pub(crate) fn of(name: &str, was: &Value, is: &Value) -> Self {
        if let Some(split) = name.strip_prefix("data.") {
            return Self::Data { split: split.to_owned() };
        }
        if let Some(prompt) = name.strip_prefix("prompts.") {
            return Self::Prompt { name: prompt.to_owned() };
        }
        if let Some(model) = name.strip_suffix(".parameters") {
            return Self::Parameters { model: model.to_owned(), members: changed_members(was, is) };
        }
        match name {
            "skill.initial" => Self::InitialSkill,
            "env.settings" => Self::Environment { members: changed_members(was, is) },
            _ => Self::Value { name: name.to_owned(), was: was.clone(), is: is.clone() },
        }
    }

    /// The name of a setting whose values are said.
    fn name(&self) -> Option<&str> {
        match self {
            Self::Value { name, .. } => Some(name),
            Self::Data { .. }
            | Self::Prompt { .. }
            | Self::Parameters { .. }
            | Self::InitialSkill
            | Self::Environment { .. } => None,
        }
    }
}

impl fmt::Display for SettingChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data { split } => write!(f, "the data of the {split} split has changed"),
            Self::Prompt { name } => write!(f, "the prompt `{name}` has changed"),
            Self::Parameters { model, members } => {
                write!(f, "the parameters of `{model}` have changed ({})", members.join(", "))
            }
            Self::InitialSkill => f.write_str("the initial skill has changed"),
            Self::Environment { members } => {
                write!(f, "the environment's settings have changed ({})", members.join(", "))
            }
            Self::Value { name, was, is } => write!(f, "`{name}` was {}, is {}", shown(was), shown(is)),
        }
    }
}

/// The phrases of all changes, as a part of a sentence.
///
/// Another model is one change: its name and its address are not named again.
pub fn describe_changes(changes: &[SettingChange]) -> String {
    let is_changed = |of: &str| changes.iter().any(|change| change.name() == Some(of));
    let is_part = |change: &&SettingChange| {
        let (whole, _) = change.name().and_then(|name| name.rsplit_once('.')).unwrap_or_default();
        whole.starts_with("models.") && is_changed(whole)
    };
    let said = changes.iter().filter(|change| !is_part(change));
    said.map(SettingChange::to_string).collect::<Vec<_>>().join("; ")
}

/// The members of two objects that differ.
fn changed_members(was: &Value, is: &Value) -> Vec<String> {
    let empty = serde_json::Map::new();
    let (was, is) = (was.as_object().unwrap_or(&empty), is.as_object().unwrap_or(&empty));
    let mut names: Vec<&str> = was
        .iter()
        .chain(is.iter())
        .map(|(name, _)| name.as_str())
        .filter(|name| was.get(*name) != is.get(*name))
        .collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(str::to_owned).collect()
}

fn shown(value: &Value) -> String {
    const MAX_CHARS: usize = 80;
    let text = match value {
        Value::Null => "not set".to_owned(),
        other => other.to_string(),
    };
    if text.chars().count() <= MAX_CHARS {
        return text;
    }
    text.chars().take(MAX_CHARS).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn another_model_is_one_change() {
        let of = |name: &str| SettingChange::of(name, &json!("a"), &json!("b"));
        let said = describe_changes(&[
            of("models.target"),
            of("models.target.model"),
            of("models.targets.small.model"),
            of("train.epochs"),
        ]);
        assert_eq!(said.split("; ").count(), 3, "{said}");
        assert!(!said.contains("`models.target.model`"), "{said}");
    }
}

//! Files that are taken for a skill by mistake: configurations, data, and what is no text.

use serde::de::IgnoredAny;
use skill_core::encoding::EncodingFault;
use std::path::Path;

/// What a file is that is not a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotASkill {
    /// A configuration of this program, or another file of TOML.
    Configuration,
    /// Records of a data set, or another file of JSON or CSV.
    Data,
    /// Bytes that are not a text.
    NoText(EncodingFault),
}

impl NotASkill {
    /// What a file is, by its name and its text; `None` for what may be a skill.
    pub fn of(path: &Path, text: &str) -> Option<Self> {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        match ending.as_deref() {
            Some("toml") => Some(Self::Configuration),
            Some("json" | "jsonl" | "ndjson" | "csv") => Some(Self::Data),
            Some(_) | None if is_json(text) => Some(Self::Data),
            Some(_) | None => None,
        }
    }

    /// What it is, in words.
    pub fn describe(self) -> String {
        match self {
            Self::Configuration => "is a configuration, not a skill".to_owned(),
            Self::Data => "is a file of data, not a skill".to_owned(),
            Self::NoText(fault) => fault.to_string(),
        }
    }

    /// What a person can do about it, as one sentence.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Configuration => {
                "`skillrl config show FILE` reads it; name a Markdown file, a skill's folder or a run"
            }
            Self::Data => {
                "`skillrl env check CONFIG` reads the data that a configuration names; name a Markdown file, a skill's \
                 folder or a run"
            }
            Self::NoText(_) => {
                "name a Markdown file, a skill's folder or a run; `file FILE` tells its encoding"
            }
        }
    }
}

/// Whether the text is one JSON object or array, or its first line is: no instructions are written like this.
fn is_json(text: &str) -> bool {
    let text = text.trim();
    let is_value = |text: &str| serde_json::from_str::<IgnoredAny>(text).is_ok();
    text.starts_with(['{', '[']) && (is_value(text) || text.lines().next().is_some_and(is_value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, expect: Option<NotASkill>) {
        assert_eq!(NotASkill::of(Path::new(path), text), expect);
    }

    #[test]
    fn configurations_and_data_are_no_skills_and_markdown_is() {
        check("skillrl.toml", "[run]\n", Some(NotASkill::Configuration));
        check("Train.JSONL", "", Some(NotASkill::Data));
        check("train.csv", "id,question\n", Some(NotASkill::Data));
        check("train", "{\"id\": 1}\n{\"id\": 2}\n", Some(NotASkill::Data));
        check("train.txt", "[\n  {\"id\": 1}\n]\n", Some(NotASkill::Data));
        check("skill.md", "", None);
        check("skill.md", "# Trivia\n\n- Be brief.\n", None);
        check("skill", "---\nname: trivia\n---\n# Trivia\n", None);
        check("skill.md", "[A link](https://example.org) says more.\n", None);
        check("skill.md", "{placeholder} stands for the name.\n", None);
    }
}

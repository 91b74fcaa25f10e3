//! Benchmarks whose own files are read, with the prompt and the scorer of the paper's protocol.

use super::config::{Extraction, FieldNames, TasksConfig};
use super::python_literal::python_strings;
use super::scorers::ScorerConfig;
use super::task::ANSWER_FIELDS;
use crate::score::ChoiceBy;
use serde_json::{Map, Value};
use std::path::PathBuf;

/// The seed of the order of choices in SkillOpt's evaluations.
const CHOICE_SEED: u64 = 42;

skill_core::named_enum! {
    /// A benchmark.
    #[non_exhaustive]
    pub enum Preset {
        /// SearchQA: a question over search results.
        SearchQa = "searchqa",
        /// HotpotQA: a question over several paragraphs.
        HotpotQa = "hotpotqa",
        /// LiveMathematicianBench: multiple choice over theorems.
        LiveMath = "livemath",
        /// OfficeQA: a question over documents, answered by a figure.
        OfficeQa = "officeqa",
        /// DocVQA: a question over the image of a document.
        DocVqa = "docvqa",
    }
}

impl Preset {
    /// The name of its prompt.
    pub fn prompt_name(self) -> &'static str {
        match self {
            Self::SearchQa => "rollout_searchqa",
            Self::HotpotQa => "rollout_hotpotqa",
            Self::LiveMath => "rollout_livemath",
            Self::OfficeQa => "rollout_officeqa",
            Self::DocVqa => "rollout_docvqa",
        }
    }

    /// Its prompt.
    pub fn prompt(self) -> &'static str {
        match self {
            Self::SearchQa => include_str!("../../prompts/rollout_searchqa.md"),
            Self::HotpotQa => include_str!("../../prompts/rollout_hotpotqa.md"),
            Self::LiveMath => include_str!("../../prompts/rollout_livemath.md"),
            Self::OfficeQa => include_str!("../../prompts/rollout_officeqa.md"),
            Self::DocVqa => include_str!("../../prompts/rollout_docvqa.md"),
        }
    }

    /// The settings of the benchmark for files at this place.
    pub fn config(self, data: impl Into<PathBuf>) -> TasksConfig {
        let mut config = TasksConfig { preset: Some(self), ..TasksConfig::new(data) };
        config.settings.extraction = Extraction::LastTag { tag: "answer".to_owned() };
        let field = |name: &str| Some(name.to_owned());
        match self {
            Self::SearchQa => {}
            Self::HotpotQa => {}
            Self::LiveMath => {
                config.fields = FieldNames { answer: field("correct_choice"), ..FieldNames::default() };
                config.choice_seed = Some(CHOICE_SEED);
                config.settings.scorer = ScorerConfig::Choice { by: ChoiceBy::SkillOpt };
            }
            Self::OfficeQa => config.settings.scorer = ScorerConfig::OfficeQa,
            Self::DocVqa => {
                config.fields = FieldNames { images: field("image"), ..FieldNames::default() };
                config.settings.scorer = ScorerConfig::Anls { threshold: super::DEFAULT_ANLS_THRESHOLD };
            }
        }
        config
    }

    /// The field that names the documents of an item, for benchmarks that have some.
    pub fn files_field(self) -> Option<&'static str> {
        match self {
            Self::OfficeQa => Some("source_files"),
            Self::SearchQa | Self::HotpotQa | Self::LiveMath | Self::DocVqa => None,
        }
    }

    /// Brings a record of the benchmark's own files into the shape that the settings expect; `number` counts the
    /// records of the file from 1.
    pub(super) fn shape(self, fields: &mut Map<String, Value>, number: usize) {
        match self {
            Self::SearchQa => rename(fields, "id", &["key"]),
            Self::HotpotQa => {
                rename(fields, "task_type", &["type"]);
            }
            Self::LiveMath => shape_livemath(fields, number),
            Self::OfficeQa => rename(fields, "task_type", &["category", "difficulty"]),
            Self::DocVqa => {
                rename(fields, "image", &["image_path", "image_paths"]);
                rename(fields, "task_type", &["subtask"]);
                for name in ANSWER_FIELDS {
                    if let Some(Value::String(text)) = fields.get(name)
                        && let Some(answers) = python_strings(text)
                    {
                        fields.insert(name.to_owned(), answers.into());
                    }
                }
            }
        }
    }
}

/// Gives a field the name that is expected, where only one of the others is there.
fn rename(fields: &mut Map<String, Value>, name: &str, others: &[&str]) {
    if fields.contains_key(name) {
        return;
    }
    if let Some(value) =
        others.iter().find_map(|other| fields.get(*other).filter(|value| !value.is_null()).cloned())
    {
        fields.insert(name.to_owned(), value);
    }
}

/// The monthly files have the question inside `mcq` or beside it, and an id of month and number.
fn shape_livemath(fields: &mut Map<String, Value>, number: usize) {
    if let Some(Value::Object(inner)) = fields.get("mcq").cloned() {
        for (name, value) in inner {
            fields.insert(name, value);
        }
    }
    rename(fields, "task_type", &["theorem_type"]);
    if !fields.contains_key("id") {
        let text =
            |value: &Value| value.as_str().map_or_else(|| value.to_string(), |text| text.trim().to_owned());
        let no = fields.get("no").map_or_else(|| number.to_string(), text);
        let id = match fields.get("month").filter(|month| !month.is_null()).map(text) {
            Some(month) if !month.is_empty() => format!("{month}:{no}"),
            Some(_) | None => no,
        };
        fields.insert("id".to_owned(), Value::String(id));
    }
}

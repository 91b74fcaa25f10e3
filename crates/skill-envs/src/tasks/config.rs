//! What a `tasks` environment is made from.

use super::files::FilesConfig;
use super::preset::Preset;
use super::scorers::ScorerConfig;
use crate::item::Split;
use serde::{Deserialize, Serialize};
use skill_core::RatioSplit;
use skill_llm::ToolSpec;
use std::path::PathBuf;

/// Where the data is, how it is read and split, and how replies are asked for and scored.
#[derive(Debug, Clone, PartialEq)]
pub struct TasksConfig {
    /// The benchmark whose files are read; `None` for a person's own data.
    pub preset: Option<Preset>,
    /// A directory with `train`, `val` and `test`, one of files that belong together, or one file.
    pub data: PathBuf,
    /// How the items are split.
    pub splitting: Splitting,
    /// Whether items that ask the same are in one split. A split by shares keeps them together; of other splits the one that
    /// is measured later keeps them.
    pub group_equal_inputs: bool,
    /// True if right answers that differ only in case or whitespace are one label; see [`skill_core::labels::respelled`].
    pub merge_labels: bool,
    /// Labels that count as another, as `FROM=TO`.
    pub fold_labels: Vec<String>,
    /// Whether records with the same fields and values count once.
    pub drop_duplicates: bool,
    /// Whether records without a right answer are left out instead of refused.
    pub skip_unanswered: bool,
    /// Splits that the data may lack, such as the test split for a run that does not read it.
    pub optional: Vec<Split>,
    /// Which fields mean what.
    pub fields: FieldNames,
    /// The directory that image files are relative to; `None` takes that of the data.
    pub image_dir: Option<PathBuf>,
    /// The seed of the order in which choices are shown; `None` leaves them as they are.
    pub choice_seed: Option<u64>,
    /// Files that the agent may look into; `None` asks for the answer at once.
    pub files: Option<FilesConfig>,
    /// Whether references that cannot be scored are listed by [`crate::Env::faults`] instead of refused, for those who look
    /// at the data alone.
    pub lists_faults: bool,
    /// How items are asked and scored.
    pub settings: TasksSettings,
}

impl TasksConfig {
    /// The defaults for this data: parts of the directory or the automatic split by the seed 42, the whole reply
    /// scored by exact match and F1.
    pub fn new(data: impl Into<PathBuf>) -> Self {
        Self {
            preset: None,
            data: data.into(),
            splitting: Splitting::default(),
            group_equal_inputs: false,
            merge_labels: false,
            fold_labels: Vec::new(),
            drop_duplicates: false,
            skip_unanswered: false,
            optional: Vec::new(),
            fields: FieldNames::default(),
            image_dir: None,
            choice_seed: None,
            files: None,
            lists_faults: false,
            settings: TasksSettings::default(),
        }
    }
}

/// How items are split into train, val and test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Splitting {
    /// As the parts of the directory say; what has no parts is shuffled and split like this.
    PartsOrRatio(RatioSplit),
    /// By the value of this field: `train`, `val` or `test`.
    Field(String),
    /// By lists of ids: a directory with `train`, `val` and `test`, each `.txt` (an id a line), `.json`, `.jsonl` or
    /// `.csv`. Items in none of the lists are left out.
    Ids(PathBuf),
}

impl Default for Splitting {
    fn default() -> Self {
        Self::PartsOrRatio(RatioSplit::default())
    }
}

/// The names of the fields that mean something; `None` takes the usual ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldNames {
    /// The id; without it `id`, `_id`, `uid`, `questionId`, `question_id` or `qid`, and where there is none of these,
    /// the file's name and the number of the record.
    pub id: Option<String>,
    /// What is right; without it `answers`, `answer`, `ground_truth` or `correct_choice`.
    pub answer: Option<String>,
    /// A category for reports; without it `task_type`.
    pub task_type: Option<String>,
    /// The choices; without it `choices` or `options`.
    pub choices: Option<String>,
    /// Image files, a name or a list of them; without it there are none.
    pub images: Option<String>,
    /// Rules that only this item has; without it there are none.
    pub rules: Option<String>,
}

/// The part of a [`TasksConfig`] that is not about data files.
#[derive(Debug, Clone, PartialEq)]
pub struct TasksSettings {
    /// The template that asks, with its name for messages; `None` takes the preset's or the built-in one.
    pub prompt: Option<NamedPrompt>,
    /// Tools that the model is offered.
    pub tools: Vec<ToolSpec>,
    /// The most tokens of a reply; `None` leaves it to the model's configuration.
    pub max_tokens: Option<u32>,
    /// Which part of a reply is its answer.
    pub extraction: Extraction,
    /// How an answer is scored.
    pub scorer: ScorerConfig,
    /// A second scorer, for a gate with a guard.
    pub guard: Option<ScorerConfig>,
}

impl Default for TasksSettings {
    fn default() -> Self {
        Self {
            prompt: None,
            tools: Vec::new(),
            max_tokens: None,
            extraction: Extraction::Whole,
            scorer: ScorerConfig::EmF1,
            guard: None,
        }
    }
}

/// A template with the name that is in messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPrompt {
    /// A file or a key.
    pub name: String,
    /// The text of the template.
    pub source: String,
}

/// Which part of a reply is its answer; see [`super::Extractor`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Extraction {
    /// All of it.
    Whole,
    /// What is in the last pair of these tags; without one, the last line.
    LastTag {
        /// The tag's name without brackets.
        tag: String,
    },
    /// The last line that is not blank.
    LastLine,
    /// The last match of a pattern: its first group, or all of it.
    Regex {
        /// The pattern.
        pattern: String,
    },
    /// A member of the JSON object in the reply.
    Json {
        /// Its name; dots lead into objects.
        field: String,
    },
}

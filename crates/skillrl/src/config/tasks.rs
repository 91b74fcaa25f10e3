//! `[env]` with `kind = "tasks"` as plain data.

use super::path::AskedPath;
use super::types::choice;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skill_core::{SplitRatio, SplitRule};

/// An environment with `kind = "tasks"`; `docs/tasks.md` says what each key means.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TasksConfig {
    /// A directory with the three splits, or files to be split.
    pub data: AskedPath,
    /// The shares of train, val and test; not all 0.
    pub split_ratio: SplitRatio,
    /// How they become whole numbers.
    pub split_rule: SplitRule,
    /// Decides which item falls into which split; below 2^53.
    pub split_seed: u64,
    /// How an answer is scored.
    pub scorer: TasksScorer,
    /// The most tokens of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// The benchmark whose own files are read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<TasksPreset>,
    /// The field that names the split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_field: Option<String>,
    /// A directory with lists of ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_ids: Option<AskedPath>,
    /// The file of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<AskedPath>,
    /// The user block of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_prompt: Option<String>,
    /// The file of tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<AskedPath>,
    /// The field with the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_field: Option<String>,
    /// The field with what is right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_field: Option<String>,
    /// The field with the category.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub type_field: Option<String>,
    /// The field with the choices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choices_field: Option<String>,
    /// The field with images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_field: Option<String>,
    /// The directory of images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_dir: Option<AskedPath>,
    /// The directory of documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_dir: Option<AskedPath>,
    /// The field with the names of an item's files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_field: Option<String>,
    /// The field that names pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages_field: Option<String>,
    /// The tools over files; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub file_tools: Vec<String>,
    /// How they are called.
    pub file_calls: TasksFileCalls,
    /// The most replies that may use them.
    pub max_tool_turns: u32,
    /// The field with rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules_field: Option<String>,
    /// Whether choices are shown in another order.
    pub shuffle_choices: bool,
    /// Decides that order; below 2^53.
    pub choice_seed: u64,
    /// Which part of a reply is the answer.
    pub extract: TasksExtract,
    /// The tag of [`TasksExtract::LastTag`].
    pub extract_tag: String,
    /// The pattern of [`TasksExtract::Regex`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extract_pattern: Option<String>,
    /// The member of [`TasksExtract::Json`].
    pub extract_field: String,
    /// Whether case does not count.
    pub ignore_case: bool,
    /// By what an answer names a choice.
    pub choice_by: TasksChoiceBy,
    /// The greatest difference of numbers.
    pub tolerance: f64,
    /// The greatest difference as a share of the reference.
    pub relative_tolerance: f64,
    /// What becomes of units.
    pub units: TasksUnits,
    /// What a percent sign means.
    pub percent: TasksPercent,
    /// The normalized distance from which an answer is worth nothing.
    pub anls_threshold: f64,
    /// The pattern of [`TasksScorer::Regex`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The fields of [`TasksScorer::JsonFields`]; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub json_fields: Vec<String>,
    /// The rules of [`TasksScorer::Rules`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Value>,
    /// What a good answer is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rubric: Option<String>,
    /// The file that says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rubric_file: Option<AskedPath>,
    /// Which model grades.
    pub judge: TasksJudge,
    /// The share of the points from which a task counts as solved.
    pub pass_score: f64,
    /// The program of [`TasksScorer::Command`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Environment variables of this process that it gets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pass_env: Vec<String>,
    /// Seconds that it may take.
    pub command_timeout_s: u64,
}

choice! {
    /// A benchmark.
    TasksPreset {
        /// SearchQA.
        SearchQa = "searchqa",
        /// HotpotQA.
        HotpotQa = "hotpotqa",
        /// LiveMathematicianBench.
        LiveMath = "livemath",
        /// OfficeQA.
        OfficeQa = "officeqa",
        /// DocVQA.
        DocVqa = "docvqa",
    }
}

choice! {
    /// How an answer is scored.
    TasksScorer {
        /// Exact match and F1 as SQuAD has them.
        EmF1 = "em_f1",
        /// A reference stands in the answer.
        Contains = "contains",
        /// Equality.
        Exact = "exact",
        /// Which choice is named.
        Choice = "choice",
        /// Numbers.
        Numeric = "numeric",
        /// Similarity of texts.
        Anls = "anls",
        /// A pattern is found.
        Regex = "regex",
        /// Fields of a JSON object.
        JsonFields = "json_fields",
        /// Rules.
        Rules = "rules",
        /// A judge with a rubric.
        Rubric = "rubric",
        /// A program.
        Command = "command",
        /// As SkillOpt scores OfficeQA.
        OfficeQa = "officeqa",
    }
}

choice! {
    /// Which part of a reply is the answer.
    TasksExtract {
        /// All of it.
        Whole = "whole",
        /// What stands in the last tag.
        LastTag = "last_tag",
        /// The last line.
        LastLine = "last_line",
        /// The last match of a pattern.
        Regex = "regex",
        /// A member of a JSON object.
        Json = "json",
    }
}

choice! {
    /// By what an answer names a choice.
    TasksChoiceBy {
        /// Label or text.
        Either = "either",
        /// The label.
        Label = "label",
        /// The text.
        Text = "text",
        /// As SkillOpt reads LiveMathematicianBench.
        SkillOpt = "skillopt",
    }
}

choice! {
    /// What becomes of units.
    TasksUnits {
        /// They may be left out.
        Optional = "optional",
        /// They may not.
        Required = "required",
        /// They are not looked at.
        Ignored = "ignored",
    }
}

choice! {
    /// What a percent sign means.
    TasksPercent {
        /// It is a unit.
        Unit = "unit",
        /// It is a hundredth too.
        Fraction = "fraction",
    }
}

choice! {
    /// How tools over files are called.
    TasksFileCalls {
        /// As tool calls.
        Calls = "calls",
        /// As text.
        Text = "text",
    }
}

choice! {
    /// Which model grades.
    TasksJudge {
        /// The one of `[models.judge]`.
        Judge = "judge",
        /// The optimizer.
        Optimizer = "optimizer",
        /// The target.
        Target = "target",
    }
}

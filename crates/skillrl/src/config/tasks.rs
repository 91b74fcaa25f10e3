//! Words of `[env]` that choose among what other keys set: scorers, extractions and their like.

use skill_core::named_enum;

named_enum! {
    /// How an answer is scored.
    pub enum TasksScorer {
        /// Exact match and F1 as SQuAD has them.
        EmF1 = "em_f1",
        /// A reference stands in the answer.
        Contains = "contains",
        /// Equality.
        Exact = "exact",
        /// Several labels, all of which belong.
        LabelSet = "label_set",
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

/// The scorers that look at a key, for keys that not all of them look at.
pub(in crate::config) const KEYS_OF_SCORERS: &[(&str, &[&str])] = &[
    ("ignore_case", &["exact", "json_fields"]),
    ("choice_by", &["choice"]),
    ("tolerance", &["numeric", "json_fields"]),
    ("relative_tolerance", &["numeric"]),
    ("units", &["numeric"]),
    ("percent", &["numeric"]),
    ("anls_threshold", &["anls"]),
    ("pattern", &["regex"]),
    ("json_fields", &["json_fields"]),
    ("rules", &["rules"]),
    ("rules_field", &["rules"]),
    ("rubric", &["rubric"]),
    ("rubric_file", &["rubric"]),
    ("judge", &["rubric"]),
    ("pass_score", &["rubric"]),
    ("command", &["command"]),
    ("command_timeout_s", &["command"]),
    ("sandbox", &["command"]),
    ("pass_env", &["command"]),
];

named_enum! {
    /// Which part of a reply is the answer.
    pub enum TasksExtract {
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

named_enum! {
    /// Which model grades.
    pub enum TasksJudge {
        /// The one of `[models.judge]`.
        Judge = "judge",
        /// The optimizer.
        Optimizer = "optimizer",
        /// The target.
        Target = "target",
    }
}

named_enum! {
    /// How goals become splits.
    pub enum GoalSplit {
        /// The paper's ranges with a product file, a ratio without.
        Auto = "auto",
        /// By the ratio.
        Ratio = "ratio",
    }
}

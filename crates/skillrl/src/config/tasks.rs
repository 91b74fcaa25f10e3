//! Words of `[env]` that choose among what other keys set: scorers, extractions and their like.

use indexmap::IndexMap;
use skill_core::named_enum;

pub use skill_envs::tasks::ScorerKind as TasksScorer;

/// The scorers that look at a key, for keys that not all of them look at.
pub(in crate::config) fn keys_of_scorers() -> IndexMap<&'static str, Vec<&'static str>> {
    let mut owners = IndexMap::<_, Vec<_>>::new();
    for scorer in TasksScorer::ALL {
        for key in scorer.spec().keys {
            owners.entry(*key).or_default().push(scorer.as_str());
        }
    }
    owners
}

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

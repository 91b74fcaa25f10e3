//! The names of the prompts and the texts that are built in.

use std::fmt;

/// One of the optimizer's prompts; the names are those of the reference systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PromptName {
    /// An analyst reads failed trajectories.
    AnalystError,
    /// An analyst reads successful trajectories.
    AnalystSuccess,
    /// Patches from failures become one.
    MergeFailure,
    /// Patches from successes become one.
    MergeSuccess,
    /// The patch from failures and the patch from successes become one.
    MergeFinal,
    /// The most important edits are chosen.
    Ranking,
}

impl PromptName {
    /// All prompts, in the order in which a step uses them.
    pub const ALL: [Self; 6] = [
        Self::AnalystError,
        Self::AnalystSuccess,
        Self::MergeFailure,
        Self::MergeSuccess,
        Self::MergeFinal,
        Self::Ranking,
    ];

    /// The name used in files and by [`skill_envs::Env::prompt_override`].
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AnalystError => "analyst_error",
            Self::AnalystSuccess => "analyst_success",
            Self::MergeFailure => "merge_failure",
            Self::MergeSuccess => "merge_success",
            Self::MergeFinal => "merge_final",
            Self::Ranking => "ranking",
        }
    }

    /// The name of the file that holds the prompt, such as `ranking.md`.
    pub fn file_name(self) -> String {
        format!("{}.md", self.as_str())
    }

    /// The prompt of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|prompt| prompt.as_str() == name)
    }

    /// The text that is built in.
    pub fn embedded_source(self) -> &'static str {
        match self {
            Self::AnalystError => include_str!("../../prompts/analyst_error.md"),
            Self::AnalystSuccess => include_str!("../../prompts/analyst_success.md"),
            Self::MergeFailure => include_str!("../../prompts/merge_failure.md"),
            Self::MergeSuccess => include_str!("../../prompts/merge_success.md"),
            Self::MergeFinal => include_str!("../../prompts/merge_final.md"),
            Self::Ranking => include_str!("../../prompts/ranking.md"),
        }
    }
}

impl fmt::Display for PromptName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Name and text of every built-in prompt, in the order of [`PromptName::ALL`].
pub fn embedded_sources() -> [(&'static str, &'static str); 6] {
    PromptName::ALL.map(|name| (name.as_str(), name.embedded_source()))
}

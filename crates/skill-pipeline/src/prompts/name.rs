//! The names of the prompts and the texts that are built in.

use skill_llm::{PromptError, PromptTemplate};
use std::fmt;

/// Defines the names of all prompts and what holds a template for each: one line adds a prompt.
macro_rules! prompts {
    ($($(#[$meta:meta])* $variant:ident = $name:ident,)+) => {
        /// One of the optimizer's prompts; the names are those of the reference systems.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum PromptName {
            $($(#[$meta])* $variant,)+
        }

        impl PromptName {
            /// All prompts, in the order in which a step uses them.
            pub const ALL: [Self; [$(stringify!($name)),+].len()] = [$(Self::$variant),+];

            /// The name used in files and by [`skill_envs::Env::prompt_override`].
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($name),)+
                }
            }

            /// The text that is built in.
            pub fn embedded_source(self) -> &'static str {
                match self {
                    $(Self::$variant => include_str!(concat!("../../prompts/", stringify!($name), ".md")),)+
                }
            }
        }

        /// A template for each prompt.
        #[derive(Debug, Clone)]
        pub(super) struct Templates {
            $($name: PromptTemplate,)+
        }

        impl Templates {
            /// Those that are built in.
            pub(super) fn embedded() -> Result<Self, PromptError> {
                let template = |name: PromptName| PromptTemplate::parse(name.as_str(), name.embedded_source());
                Ok(Self { $($name: template(PromptName::$variant)?,)+ })
            }

            pub(super) fn get(&self, name: PromptName) -> &PromptTemplate {
                match name {
                    $(PromptName::$variant => &self.$name,)+
                }
            }

            pub(super) fn get_mut(&mut self, name: PromptName) -> &mut PromptTemplate {
                match name {
                    $(PromptName::$variant => &mut self.$name,)+
                }
            }
        }
    };
}

prompts! {
    /// An analyst reads failed trajectories.
    AnalystError = analyst_error,
    /// An analyst reads successful trajectories.
    AnalystSuccess = analyst_success,
    /// An analyst suggests how the skill is to be rewritten.
    AnalystRewrite = analyst_rewrite,
    /// An analyst rewrites the whole skill.
    AnalystFullRewrite = analyst_full_rewrite,
    /// Patches from failures become one.
    MergeFailure = merge_failure,
    /// Patches from successes become one.
    MergeSuccess = merge_success,
    /// The patch from failures and the patch from successes become one.
    MergeFinal = merge_final,
    /// Suggestions for a rewrite become one list.
    MergeRewrite = merge_rewrite,
    /// Whole new skills become one.
    MergeFullRewrite = merge_full_rewrite,
    /// The optimizer chooses how many edits are applied.
    LrAutonomous = lr_autonomous,
    /// The most important edits are chosen.
    Ranking = ranking,
    /// The most important suggestions are chosen.
    RankingRewrite = ranking_rewrite,
    /// The skill is rewritten by suggestions.
    RewriteSkill = rewrite_skill,
    /// The notes of a long appendix become fewer.
    AppendixConsolidate = appendix_consolidate,
    /// The guidance of an epoch's end is written.
    SlowUpdate = slow_update,
    /// The optimizer's own notes are written.
    MetaSkill = meta_skill,
}

impl PromptName {
    /// The name of the file that holds the prompt, such as `ranking.md`.
    pub fn file_name(self) -> String {
        format!("{}.md", self.as_str())
    }

    /// The prompt of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|prompt| prompt.as_str() == name)
    }
}

impl fmt::Display for PromptName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Name and text of every built-in prompt, in the order of [`PromptName::ALL`].
pub fn embedded_sources() -> [(&'static str, &'static str); PromptName::ALL.len()] {
    PromptName::ALL.map(|name| (name.as_str(), name.embedded_source()))
}

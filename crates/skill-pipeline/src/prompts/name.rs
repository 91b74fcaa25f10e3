//! The names of the prompts and the texts that are built in.

use std::fmt;

skill_llm::prompts! {
    /// One of the optimizer's prompts, in the order in which a step uses them; the names are those of the reference
    /// systems, and of [`skill_envs::Env::prompt_override`].
    pub enum PromptName;

    /// A template for each prompt.
    pub(super) struct Templates;

    /// An analyst reads failed trajectories.
    AnalystError = analyst_error,
    /// An analyst of a planned search makes a proposal.
    Propose = propose,
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

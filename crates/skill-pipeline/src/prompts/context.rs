//! The variables that the templates get.

use super::trajectory::{render_pairs, render_trajectories};
use crate::settings::TrajectoryLimits;
use crate::text::{escape_closing, escape_in_skill, fence_for, score_text};
use serde::Serialize;
use skill_core::package::{main_file, tree};
use skill_core::rewrite::UpdateMode;
use skill_core::{
    ComparisonPair, Edit, PairCategory, Patch, RolloutResult, SkillDoc, SourceType, slow_update_guidance,
};

/// Stands for the text of a blank skill.
const NO_SKILL: &str = "(empty: there is no skill yet)";

/// Variables of the analysts' prompts.
#[derive(Debug, Serialize)]
pub(super) struct AnalystContext {
    skill: String,
    files: String,
    edit_budget: u32,
    n_trajectories: usize,
    trajectories: String,
    failed: bool,
    skill_aware: bool,
    solved: String,
}

impl AnalystContext {
    pub(super) fn new(
        source: SourceType,
        skill: &SkillDoc,
        edit_budget: u32,
        trajectories: &[&RolloutResult],
        limits: TrajectoryLimits,
    ) -> Self {
        Self {
            skill: skill_text(skill),
            files: tree(skill),
            edit_budget,
            n_trajectories: trajectories.len(),
            trajectories: render_trajectories(skill, trajectories, limits),
            failed: source == SourceType::Failure,
            skill_aware: false,
            solved: String::new(),
        }
    }

    /// The same with what the failures of all tasks have in common, before the trajectories.
    pub(super) fn after(self, patterns: &str) -> Self {
        if patterns.is_empty() {
            return self;
        }
        Self { trajectories: format!("{patterns}\n\n{}", self.trajectories), ..self }
    }

    /// The same with tasks that the same skill solved.
    pub(super) fn beside(
        self,
        skill: &SkillDoc,
        solved: &[&RolloutResult],
        limits: TrajectoryLimits,
    ) -> Self {
        Self { solved: render_trajectories(skill, solved, limits), ..self }
    }

    /// The same for an analyst that tells lapses of the agent apart from defects of the skill.
    pub(super) fn skill_aware(self) -> Self {
        Self { skill_aware: true, ..self }
    }
}

/// Variables of `appendix_consolidate`.
#[derive(Debug, Serialize)]
pub(super) struct AppendixContext {
    n_notes: usize,
    notes: String,
    fence: String,
}

impl AppendixContext {
    pub(super) fn new(notes: &[String]) -> serde_json::Result<Self> {
        let json = serde_json::to_string_pretty(notes)?;
        Ok(Self { n_notes: notes.len(), fence: fence_for(&json), notes: json })
    }
}

/// Variables of `merge_failure`, `merge_success`, `merge_rewrite` and `merge_full_rewrite`.
#[derive(Debug, Serialize)]
pub(super) struct MergeContext {
    skill: String,
    files: String,
    n_patches: usize,
    level: u32,
    source: &'static str,
    patches: String,
    fence: String,
}

impl MergeContext {
    pub(super) fn new(
        mode: UpdateMode,
        source: SourceType,
        skill: &SkillDoc,
        patches: &[Patch],
        level: u32,
    ) -> serde_json::Result<Self> {
        let source = match source {
            SourceType::Failure => "failed tasks",
            SourceType::Success => "solved tasks",
        };
        Self::of(mode, source, skill, &patches.iter().collect::<Vec<_>>(), level)
    }

    /// The last merge in the rewriting modes.
    pub(super) fn of_both(
        mode: UpdateMode,
        skill: &SkillDoc,
        failure: &Patch,
        success: &Patch,
    ) -> serde_json::Result<Self> {
        Self::of(
            mode,
            "failed tasks (the first patch) and solved tasks (the second patch)",
            skill,
            &[failure, success],
            0,
        )
    }

    fn of(
        mode: UpdateMode,
        source: &'static str,
        skill: &SkillDoc,
        patches: &[&Patch],
        level: u32,
    ) -> serde_json::Result<Self> {
        let views: Vec<PatchView<'_>> = patches.iter().map(|patch| PatchView::new(patch, mode)).collect();
        let json = serde_json::to_string_pretty(&views)?;
        Ok(Self {
            skill: skill_text(skill),
            files: tree(skill),
            n_patches: patches.len(),
            level,
            source,
            fence: fence_for(&json),
            patches: json,
        })
    }
}

/// Variables of `rewrite_skill`.
#[derive(Debug, Serialize)]
pub(super) struct RewriteContext {
    skill: String,
    files: String,
    n_edits: usize,
    suggestions: String,
    fence: String,
}

impl RewriteContext {
    pub(super) fn new(skill: &SkillDoc, suggestions: &[Edit]) -> serde_json::Result<Self> {
        let views: Vec<SuggestionView<'_>> = suggestions.iter().map(SuggestionView::new).collect();
        let json = serde_json::to_string_pretty(&views)?;
        let fence = fence_for(&json);
        let (skill, files) = (skill_text(skill), tree(skill));
        Ok(Self { skill, files, n_edits: suggestions.len(), suggestions: json, fence })
    }
}

/// Variables of `merge_final`.
#[derive(Debug, Serialize)]
pub(super) struct FinalMergeContext {
    skill: String,
    files: String,
    n_failure_edits: usize,
    n_success_edits: usize,
    groups: String,
    fence: String,
}

impl FinalMergeContext {
    pub(super) fn new(skill: &SkillDoc, failure: &Patch, success: &Patch) -> serde_json::Result<Self> {
        let views = [failure, success].map(|patch| PatchView::new(patch, UpdateMode::Patch));
        let groups = serde_json::to_string_pretty(&views)?;
        let fence = fence_for(&groups);
        Ok(Self {
            skill: skill_text(skill),
            files: tree(skill),
            n_failure_edits: failure.edits.len(),
            n_success_edits: success.edits.len(),
            groups,
            fence,
        })
    }
}

/// Variables of `ranking` and `ranking_rewrite`.
#[derive(Debug, Serialize)]
pub(super) struct RankingContext {
    skill: String,
    files: String,
    edit_budget: u32,
    n_edits: usize,
    edits: String,
}

impl RankingContext {
    pub(super) fn new(
        mode: UpdateMode,
        skill: &SkillDoc,
        edits: &[Edit],
        budget: u32,
    ) -> serde_json::Result<Self> {
        Ok(Self {
            skill: skill_text(skill),
            files: tree(skill),
            edit_budget: budget,
            n_edits: edits.len(),
            edits: edit_lines(edits, mode)?,
        })
    }
}

/// How the agent did on a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchScore {
    /// Tasks.
    pub n_rollouts: usize,
    /// Mean `hard`.
    pub hard: f64,
    /// Mean `soft`.
    pub soft: f64,
}

/// Variables of `lr_autonomous`.
#[derive(Debug, Serialize)]
pub(super) struct BudgetContext {
    skill: String,
    n_rollouts: usize,
    hard: String,
    soft: String,
    n_edits: usize,
    edits: String,
}

impl BudgetContext {
    pub(super) fn new(
        mode: UpdateMode,
        skill: &SkillDoc,
        edits: &[Edit],
        batch: BatchScore,
    ) -> serde_json::Result<Self> {
        Ok(Self {
            skill: skill_text(skill),
            n_rollouts: batch.n_rollouts,
            hard: score_text(batch.hard),
            soft: score_text(batch.soft),
            n_edits: edits.len(),
            edits: edit_lines(edits, mode)?,
        })
    }
}

/// One line for each edit, with its index in brackets.
fn edit_lines(edits: &[Edit], mode: UpdateMode) -> serde_json::Result<String> {
    let lines: Result<Vec<String>, _> = edits
        .iter()
        .enumerate()
        .map(|(index, edit)| {
            serde_json::to_string(&ProposalView::new(edit, mode).with_source(edit.source_type))
                .map(|json| format!("[{index}] {json}"))
        })
        .collect();
    Ok(lines?.join("\n"))
}

/// Variables of `slow_update` and `meta_skill`.
#[derive(Debug, Serialize)]
pub(super) struct ComparisonContext {
    previous_skill: String,
    skill: String,
    guidance: String,
    n_pairs: usize,
    n_regressed: usize,
    n_persistent_fail: usize,
    n_improved: usize,
    n_stable_success: usize,
    pairs: String,
}

impl ComparisonContext {
    pub(super) fn new(previous: &SkillDoc, current: &SkillDoc, pairs: &[ComparisonPair]) -> Self {
        let count = |category| pairs.iter().filter(|pair| pair.category == category).count();
        let main = SkillDoc::new(main_file(current));
        let guidance = slow_update_guidance(&main).unwrap_or_default();
        Self {
            previous_skill: escape_closing(&skill_text(previous), "</previous_skill").into_owned(),
            skill: skill_text(current),
            guidance: escape_closing(guidance, "</guidance").into_owned(),
            n_pairs: pairs.len(),
            n_regressed: count(PairCategory::Regressed),
            n_persistent_fail: count(PairCategory::PersistentFail),
            n_improved: count(PairCategory::Improved),
            n_stable_success: count(PairCategory::StableSuccess),
            pairs: render_pairs(previous, current, pairs),
        }
    }
}

/// A patch as the optimizer sees and writes it.
#[derive(Debug, Serialize)]
struct PatchView<'a> {
    reasoning: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    edits: Option<Vec<ProposalView<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revise_suggestions: Option<Vec<ProposalView<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    skill_candidates: Option<Vec<ProposalView<'a>>>,
}

impl<'a> PatchView<'a> {
    fn new(patch: &'a Patch, mode: UpdateMode) -> Self {
        let views = Some(patch.edits.iter().map(|edit| ProposalView::new(edit, mode)).collect());
        let nothing = Self {
            reasoning: &patch.reasoning,
            edits: None,
            revise_suggestions: None,
            skill_candidates: None,
        };
        match mode {
            UpdateMode::Patch => Self { edits: views, ..nothing },
            UpdateMode::RewriteFromSuggestions => Self { revise_suggestions: views, ..nothing },
            UpdateMode::FullRewriteMinibatch => Self { skill_candidates: views, ..nothing },
        }
    }
}

/// What is proposed, as the optimizer sees and writes it.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum ProposalView<'a> {
    Edit(EditView<'a>),
    Suggestion(SuggestionView<'a>),
    Skill(NewSkillView<'a>),
}

impl<'a> ProposalView<'a> {
    fn new(edit: &'a Edit, mode: UpdateMode) -> Self {
        match mode {
            UpdateMode::Patch => Self::Edit(EditView::new(edit)),
            UpdateMode::RewriteFromSuggestions => Self::Suggestion(SuggestionView::new(edit)),
            UpdateMode::FullRewriteMinibatch => Self::Skill(NewSkillView {
                title: &edit.target,
                new_skill: &edit.content,
                support_count: edit.support_count,
            }),
        }
    }

    /// The same with the kind of trajectories that it answers, where it has a place for that.
    fn with_source(self, source_type: Option<SourceType>) -> Self {
        match self {
            Self::Edit(view) => Self::Edit(EditView { source_type, ..view }),
            Self::Suggestion(view) => Self::Suggestion(SuggestionView { source_type, ..view }),
            Self::Skill(view) => Self::Skill(view),
        }
    }
}

#[derive(Debug, Serialize)]
struct SuggestionView<'a> {
    title: &'a str,
    instruction: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    support_count: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_type: Option<SourceType>,
}

impl<'a> SuggestionView<'a> {
    fn new(edit: &'a Edit) -> Self {
        Self {
            title: &edit.target,
            instruction: &edit.content,
            support_count: edit.support_count,
            source_type: None,
        }
    }
}

#[derive(Debug, Serialize)]
struct NewSkillView<'a> {
    title: &'a str,
    new_skill: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    support_count: Option<u32>,
}

/// An edit as the optimizer sees and writes it: every field that it has to write is there, empty or not.
#[derive(Debug, Serialize)]
struct EditView<'a> {
    op: &'a str,
    target: &'a str,
    content: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    support_count: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_type: Option<SourceType>,
}

impl<'a> EditView<'a> {
    fn new(edit: &'a Edit) -> Self {
        Self {
            op: edit.op.as_str(),
            target: &edit.target,
            content: &edit.content,
            file: edit.file.as_deref(),
            support_count: edit.support_count,
            source_type: None,
        }
    }
}

/// The skill without blank lines around it: leading white space of a line may be part of an anchor and stays.
fn skill_text(skill: &SkillDoc) -> String {
    if skill.is_blank() {
        return NO_SKILL.to_owned();
    }
    escape_in_skill(skill.optimizer_view().trim_end().trim_start_matches(['\n', '\r'])).into_owned()
}

//! What a person should know before more is paid for: what is wrong with replies, whatever they score, with the data,
//! and with what was found in the directory.

use super::TrainState;
use super::run::{Run, StageWatch};
use crate::error::PipelineError;
use crate::event::StageKind;
use crate::records::StageTokens;
use crate::records::document::StepRecord;
use crate::run_dir::{EvaluationDir, SKILL_FILE_STEMS};
use crate::stage::silence::{
    Spoken, answers_without_number, check_target_speaks, cut_replies, never_activated, reach_warnings,
};
use crate::warning::{RunModel, SMALL_SELECTION_SPLIT, Warning};
use skill_core::{RolloutResult, SkillDoc, StepIdx};
use skill_envs::Split;

/// What was said once in this process.
#[derive(Debug, Default)]
pub(super) struct Warned {
    of_cut: bool,
    of_empty: bool,
    of_no_number: bool,
    of_reach: [bool; 4],
    of_never_activated: bool,
    of_uncounted_target: bool,
    of_uncounted_optimizer: bool,
}

impl Run<'_> {
    /// Emits a warning, with what the program that trains advises.
    pub(super) fn warn(&self, step: Option<StepIdx>, warning: Warning) {
        self.open.warn(step, warning);
    }

    /// Says once that replies of the target are cut, and once that they are empty: they are scored as they stand, which
    /// may be all that is wrong.
    pub(super) fn warn_of_replies(&mut self, step: Option<StepIdx>, results: &[RolloutResult]) {
        let n = results.len();
        if !self.warned.of_cut
            && let Some(warning) = cut_replies(results)
        {
            self.warned.of_cut = true;
            self.warn(step, warning);
        }
        let n_empty = results.iter().filter(|result| result.is_silent()).count();
        // Where most are empty, that is worth saying each time.
        if n_empty > 0 && (!self.warned.of_empty || 2 * n_empty > n) {
            self.warned.of_empty = true;
            self.warn(step, Warning::EmptyReplies { n_empty, n_items: n });
        }
        if !self.warned.of_never_activated
            && let Some(warning) = never_activated(results)
        {
            self.warned.of_never_activated = true;
            self.warn(step, warning);
        }
        if !self.warned.of_no_number
            && let Some(warning) = answers_without_number(results)
        {
            self.warned.of_no_number = true;
            self.warn(step, warning);
        }
        for (at, warning) in reach_warnings(results).into_iter().enumerate() {
            if let (Some(warning), Some(is_told @ false)) = (warning, self.warned.of_reach.get_mut(at)) {
                *is_told = true;
                self.warn(step, warning);
            }
        }
    }

    /// Says once of each model that its replies come without token counts, so that nobody knows what it costs.
    pub(super) fn warn_of_uncounted_tokens(&mut self, watch: &StageWatch, used: StageTokens) {
        if used.has_counts() {
            return;
        }
        let (model, is_warned) = match watch.stage().kind() {
            StageKind::Optimizer => (RunModel::Optimizer, &mut self.warned.of_uncounted_optimizer),
            StageKind::Training
            | StageKind::Trial
            | StageKind::Selection
            | StageKind::Fresh
            | StageKind::Test => (RunModel::Target, &mut self.warned.of_uncounted_target),
        };
        if !std::mem::replace(is_warned, true) {
            self.warn(watch.step(), Warning::UncountedTokens { model });
        }
    }

    /// An error if the target said nothing in a stage, and nothing either when it is asked once more for what it has
    /// spoken on at the baseline.
    pub(super) async fn check_target_speaks(
        &self,
        watch: &StageWatch,
        tested: &SkillDoc,
        results: &[RolloutResult],
    ) -> Result<(), PipelineError> {
        if !results.iter().all(RolloutResult::is_silent) {
            return Ok(());
        }
        let baseline = self.dir.read_results(EvaluationDir::Baseline)?;
        let spoken = Spoken::among(&baseline, self.env, Split::Val, &self.initial_skill);
        check_target_speaks(&self.rollouts, spoken, (tested, results), &self.stage_ctx(watch)).await
    }

    /// Says that the optimizer proposed nothing in the whole run: then nothing was tried, however the skill fared.
    pub(super) fn warn_of_no_edits(&self, history: &[StepRecord]) {
        if !history.is_empty() && history.iter().all(StepRecord::has_no_edit) {
            self.warn(None, Warning::NoEdits { n_steps: history.len() });
        }
    }

    /// Keeps what a person made of the skill files, which are written again.
    pub(super) fn keep_changed_skills(&self, state: Option<&TrainState>) -> Result<(), PipelineError> {
        let of_state = state.into_iter().flat_map(|state| [&state.current.skill, &state.best.skill]);
        let own: Vec<&SkillDoc> = of_state.chain([&self.initial_skill]).collect();
        for name in SKILL_FILE_STEMS {
            if let Some(kept) = self.dir.keep_changed_skill(name, &own)? {
                let kept = kept.file_name().unwrap_or_default().display().to_string();
                self.warn(None, Warning::ChangedSkill { file: format!("{name}.md"), kept });
            }
        }
        Ok(())
    }

    /// Says that files of finished steps are gone or damaged, which no step needs and every reader does.
    pub(super) fn warn_of_damaged_files(&self, state: &TrainState) {
        let damaged = self.dir.damaged_files(&state.history);
        let Some(first) = damaged.first() else { return };
        let first = first.strip_prefix(self.dir.path()).unwrap_or(first).to_owned();
        self.warn(None, Warning::DamagedFiles { first, n_others: damaged.len() - 1 });
    }

    /// Says that the gate decides by few items.
    pub(super) fn warn_of_a_small_split(&self) {
        let n_items = self.env.items(Split::Val).len();
        if n_items < SMALL_SELECTION_SPLIT {
            self.warn(None, Warning::SmallSelectionSplit { n_items });
        }
    }

    /// Warns that the journal is missing earlier requests.
    pub(super) fn warn_of_a_lost_journal(&self) {
        self.warn(None, Warning::LostJournal { n_requests: self.journal.requests_committed() });
    }
}

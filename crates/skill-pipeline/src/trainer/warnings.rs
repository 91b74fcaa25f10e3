//! What a person should know before more is paid for: what is wrong with replies, whatever they score, with the data, and
//! with what was found in the directory.

use super::TrainState;
use super::run::Run;
use crate::error::PipelineError;
use crate::event::{Event, EventSink as _};
use crate::run_dir::SKILLS;
use crate::run_dir::format::{StepAction, StepRecord};
use crate::stage::reflect::Spoken;
use skill_core::{RolloutResult, StepIdx};
use skill_envs::Split;

/// With fewer items in the selection split a person is warned.
const SMALL_SELECTION_SPLIT: usize = 20;

/// What was said once in this process.
#[derive(Debug, Default)]
pub(super) struct Warned {
    of_cut: bool,
    of_empty: bool,
}

/// Whether nothing came of a step for want of edits.
fn has_no_edit(record: &StepRecord) -> bool {
    matches!(record.action, StepAction::SkipNoPatches | StepAction::SkipNoRewrite)
        && record.n_appendix_notes_added.is_none()
}

/// An error if the optimizer said nothing at all in a step, and no step before came to an edit either: rollouts that
/// nobody has read are not worth their price. One empty reply by itself may be chance.
pub(super) fn check_optimizer_spoken(
    step: StepIdx,
    history: &[StepRecord],
    Spoken { n, n_empty, n_cut }: Spoken,
) -> Result<(), PipelineError> {
    let is_silent = n > 0 && n_empty == n && history.iter().all(has_no_edit);
    if !is_silent || (n == 1 && history.is_empty()) {
        return Ok(());
    }
    Err(PipelineError::SilentOptimizer { step: step.0, n, n_cut })
}

impl Run<'_> {
    /// Says once that replies of the target are cut, and once that they are empty: they are scored as they stand, which
    /// may be all that is wrong.
    pub(super) fn warn_of_replies(&mut self, step: Option<StepIdx>, results: &[RolloutResult]) {
        let warn = |message| self.log.emit(&Event::Warning { step, message });
        let n = results.len();
        let n_cut = results.iter().filter(|result| result.is_cut()).count();
        if n_cut > 0 && !self.warned.of_cut {
            self.warned.of_cut = true;
            warn(format!(
                "{n_cut} of {n} replies of the target were cut at their length limit and are scored as they stand; \
                 raise the limit (`env.max_tokens`, `models.target.max_tokens`) if the task needs longer ones"
            ));
        }
        let n_empty = results.iter().filter(|result| result.is_silent()).count();
        if n_empty > 0 && !self.warned.of_empty {
            self.warned.of_empty = true;
            warn(format!(
                "the target said nothing on {n_empty} of {n} items, which are scored as they stand; `skillrl journal list` \
                 shows its calls, `skillrl doctor` asks it one question"
            ));
        }
    }

    /// Says that the optimizer proposed nothing in the whole run: then nothing was tried, however the skill fared.
    pub(super) fn warn_of_no_edits(&self, history: &[StepRecord]) {
        if !history.is_empty() && history.iter().all(has_no_edit) {
            let message = format!(
                "none of the {} steps came to an edit; `skillrl doctor` asks the optimizer for edits, \
                 `skillrl journal list RUN --place \"step 1 / reflect\"` shows what it said",
                history.len()
            );
            self.log.emit(&Event::Warning { step: None, message });
        }
    }

    /// Keeps what a person made of the skill files, which are written again.
    pub(super) fn keep_changed_skills(&self, state: &TrainState) -> Result<(), PipelineError> {
        let own = [&state.current.skill, &state.best.skill, &self.initial_skill];
        for name in SKILLS {
            if let Some(kept) = self.dir.keep_changed_skill(name, &own)? {
                let message = format!(
                    "{name}.md was changed after the run wrote it; what it held is kept in {}",
                    kept.file_name().unwrap_or_default().display()
                );
                self.log.emit(&Event::Warning { step: None, message });
            }
        }
        Ok(())
    }

    /// Says that the gate decides by few items.
    pub(super) fn warn_of_a_small_split(&self) {
        let n_val = self.env.items(Split::Val).len();
        if n_val < SMALL_SELECTION_SPLIT {
            let message = format!(
                "the selection split has {n_val} item{}, so one item more or less decides: give it at least {SMALL_SELECTION_SPLIT}",
                if n_val == 1 { "" } else { "s" }
            );
            self.log.emit(&Event::Warning { step: None, message });
        }
    }

    /// Says that the run goes on with a journal that does not hold all that it has held.
    pub(super) fn warn_of_a_lost_journal(&self) {
        let message = format!(
            "the journal has lost what the run had sent before: caps begin at its {} requests, and what is lost is in no sum of it",
            self.journal.requests_committed()
        );
        self.log.emit(&Event::Warning { step: None, message });
    }
}

//! What is wrong with replies of the target, whatever they score: a person should know before they are paid for again.

use super::run::Run;
use crate::event::{Event, EventSink as _};
use crate::run_dir::format::{StepAction, StepRecord};
use skill_core::{RolloutResult, StepIdx};

/// What was said once in this process.
#[derive(Debug, Default)]
pub(super) struct Warned {
    of_cut: bool,
    of_empty: bool,
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
        let has_none = |record: &StepRecord| {
            matches!(record.action, StepAction::SkipNoPatches | StepAction::SkipNoRewrite)
                && record.n_appendix_notes_added.is_none()
        };
        if !history.is_empty() && history.iter().all(has_none) {
            let message = format!(
                "none of the {} steps came to an edit; `skillrl doctor` asks the optimizer for edits, \
                 `skillrl journal list RUN --place \"step 1 / reflect\"` shows what it said",
                history.len()
            );
            self.log.emit(&Event::Warning { step: None, message });
        }
    }
}

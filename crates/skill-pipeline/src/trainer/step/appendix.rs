//! The end of a step with skill-aware reflection: what the agent did not keep to goes into the current skill's appendix.

use super::{StepWork, note_tokens};
use crate::error::PipelineError;
use crate::event::Stage;
use crate::stage::appendix::consolidate;
use crate::trainer::run::Run;
use serde_json::json;
use skill_core::SkillDoc;
use skill_core::appendix::{append_to_appendix, appendix_notes, replace_appendix};

impl Run<'_> {
    /// The skill that is current after the gate with this step's notes in its appendix; `None` without notes.
    ///
    /// As in the reference, the skill is not measured again for them: a reminder brings no new rule.
    pub(super) async fn flush_appendix(
        &mut self,
        skill: &SkillDoc,
        work: &mut StepWork,
    ) -> Result<Option<SkillDoc>, PipelineError> {
        let Some(aware) = self.settings.skill_aware else { return Ok(None) };
        if work.appendix_notes.is_empty() {
            return Ok(None);
        }
        let StepWork { record, prompts, appendix_notes: notes, .. } = work;
        let n_before = appendix_notes(skill).len();
        let mut flushed = append_to_appendix(skill, notes);
        let after = appendix_notes(&flushed);
        record.n_execution_lapse_notes = Some(notes.len());
        record.n_appendix_notes_added = Some(after.len().saturating_sub(n_before));
        record.n_appendix_notes_total = Some(after.len());
        let file = json!({"step_notes": notes, "appendix_after": after});
        self.dir.put_json(&self.dir.step_dir(record.step).join("appendix_notes.json"), &file)?;
        // Of one note there is nothing to join.
        if aware.consolidate_above > 0 && after.len() > aware.consolidate_above.max(1) {
            let watch = self.begin(Some(record.step), Stage::Appendix);
            let ctx = self.stage_ctx(&watch);
            let (shorter, said) = consolidate(&after, prompts, &self.optimizer(), &ctx).await?;
            note_tokens(record, Stage::Appendix, self.end(&watch));
            self.note(record.step, record, said);
            if let Some(shorter) = shorter {
                flushed = replace_appendix(skill, &shorter);
                let n_left = appendix_notes(&flushed).len();
                record.n_appendix_notes_consolidated = Some(n_left);
                record.n_appendix_notes_total = Some(n_left);
            }
        }
        Ok(Some(flushed))
    }
}

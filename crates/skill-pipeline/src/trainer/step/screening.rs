//! Several candidates of a step, of which the best on failed tasks of its batch goes to the gate.

use super::{StepWork, note_tokens};
use crate::error::PipelineError;
use crate::event::Stage;
use crate::records::screening::{ScreenedRecord, ScreeningRecord};
use crate::stage::screen::{Screened, parts, screen, winner};
use crate::stage::update::update;
use crate::trainer::ScoredSkill;
use crate::trainer::run::{Run, StepPlan};
use skill_core::search_plan::screened_items;
use skill_core::{Patch, SkillDoc};
use skill_envs::Item;

impl Run<'_> {
    /// The part of a patch that is tried at the gate: the whole, unless another part does better on failed tasks.
    ///
    /// The gate sees one candidate of a step, and its tasks are others than those of the screening, so that its evidence
    /// is as good as without one.
    pub(super) async fn screened(
        &mut self,
        current: &ScoredSkill,
        plan: &StepPlan,
        patch: Patch,
        work: &mut StepWork,
    ) -> Result<Patch, PipelineError> {
        if self.settings.n_screened() == 0 {
            return Ok(patch);
        }
        let candidates = self.candidates_of(&current.skill, &patch, work);
        let batches = self.batches(&plan.batches);
        let failed = batches.iter().flat_map(|batch| &batch.items).copied();
        let failed = failed.filter(|item| work.failed.contains(&item.id));
        let items: Vec<&Item> = failed.take(screened_items(self.n_draws())).collect();
        if candidates.len() < 2 || items.is_empty() {
            return Ok(patch);
        }
        let watch = self.begin(Some(plan.step), Stage::Screen);
        let skills: Vec<SkillDoc> = candidates.iter().map(|(_, skill)| skill.clone()).collect();
        let rows = screen(&self.rollouts, &items, &skills, &self.stage_ctx(&watch)).await?;
        note_tokens(&mut work.record, Stage::Screen, self.end(&watch));
        let chosen = winner(&rows).unwrap_or_default();
        let row = |((part, _), row): (&(Patch, SkillDoc), &Screened)| ScreenedRecord {
            n_edits: part.edits.len(),
            n_seen: row.n_seen,
            n_solved: row.n_solved,
        };
        let tried = candidates.iter().zip(&rows).map(row).collect();
        work.record.screening = Some(ScreeningRecord { n_items: items.len(), candidates: tried, chosen });
        let Some((part, _)) = candidates.into_iter().nth(chosen).filter(|_| chosen > 0) else {
            return Ok(patch);
        };
        // What the files and the memory say of the step's edits is about those that the gate decides on.
        let path = self.dir.step_dir(plan.step).join("ranked_patch.json");
        self.dir.put_json(&path, &part)?;
        work.trace.keep_edits(&part);
        Ok(part)
    }

    /// Different skills that parts of the patch make, the whole patch first.
    fn candidates_of(&self, current: &SkillDoc, patch: &Patch, work: &StepWork) -> Vec<(Patch, SkillDoc)> {
        let (front_matter, rules) = (self.settings.front_matter, &self.settings.edit_rules);
        let mut made: Vec<(Patch, SkillDoc)> = Vec::new();
        for part in parts(patch) {
            let candidate = update(current, &part, front_matter, rules, &work.constraints).skill;
            let is_new = candidate != *current && made.iter().all(|(_, skill)| *skill != candidate);
            if is_new && made.len() < self.settings.candidates {
                made.push((part, candidate));
            }
        }
        made
    }
}

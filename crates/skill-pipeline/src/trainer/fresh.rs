//! The initial and the best skill on the selection split once more, in draws that no decision was made by.
//!
//! The best of many noisy scores is optimistic: it was chosen because it was high. A score from new draws is not, and the
//! initial skill is re-measured too, since the skills that beat it did so where it was unlucky.

use super::ScoredSkill;
use super::finish::Place;
use super::run::Run;
use crate::error::PipelineError;
use crate::records::TokensByStage;
use crate::records::arm::ArmName;
use crate::records::paired::{FreshRecord, LEVEL, PairedRecord};
use crate::run_dir::EvaluationDir;
use skill_core::exact::round_6;
use skill_core::stats::score_interval;
use skill_core::{GateRule, ItemScore};
use skill_envs::Split;

impl Run<'_> {
    /// Measures both skills; one pass where the best skill is still the initial one.
    pub(super) async fn measure_fresh(
        &mut self,
        best: &ScoredSkill,
        tokens: &mut TokensByStage,
    ) -> Result<Option<FreshRecord>, PipelineError> {
        if !self.settings.evidence.fresh {
            return Ok(None);
        }
        let initial = self.initial_skill.clone();
        let baseline = self.measure(Place::FRESH_BASELINE, &initial, tokens).await?;
        let measured = self.measure(Place::FRESH_BEST, &best.skill, tokens).await?;
        let gate = self.settings.gate;
        let n_items = self.env.items(Split::Val).len();
        let best_score = gate.score(measured);
        let rule = GateRule { repeats: self.settings.evidence.selection_repeats, ..GateRule::strict(gate) };
        let paired = match initial == best.skill {
            true => None,
            false => self.compare_files(rule, EvaluationDir::FreshBest, EvaluationDir::FreshBaseline)?,
        };
        Ok(Some(FreshRecord {
            baseline_score: gate.score(baseline),
            best_score,
            best_interval: score_interval(best_score, n_items, LEVEL).map(round_6),
            paired,
        }))
    }

    /// The best skill against another arm on the test split, by the gate's metric.
    pub(super) fn compare_with(&self, arm: ArmName) -> Result<Option<PairedRecord>, PipelineError> {
        let rule = GateRule::strict(self.settings.gate);
        self.compare_files(rule, EvaluationDir::of_arm(ArmName::Trained), EvaluationDir::of_arm(arm))
    }

    fn compare_files(
        &self,
        rule: GateRule,
        candidate: EvaluationDir,
        other: EvaluationDir,
    ) -> Result<Option<PairedRecord>, PipelineError> {
        let scores = |dir| -> Result<Vec<ItemScore>, PipelineError> {
            Ok(self.dir.read_results(dir)?.iter().map(ItemScore::from).collect())
        };
        let paired = rule.compare(&scores(candidate)?, &scores(other)?);
        Ok(paired.map(|paired| PairedRecord::of(&rule, &paired, self.settings.seed)))
    }
}

//! The tasks of an iteration, and an optimizer step on its episodes.

use super::calls::Call;
use super::lessons::{Lesson, loss, weighed};
use super::run::to_u32;
use super::trainer::RlTrainer;
use crate::policy::micro_batches;
use skill_core::EpochIdx;
use skill_core::plan::EpochPlan;
use skill_envs::{Item, Split};
use skill_pipeline::records::rl::RlIteration;
use skill_train::TrainError;
use skill_train::seam::{AdamSettings, CallId, ForwardBackward, Loss, LossMetrics, OptimStep, Pass, Policy};

/// The name of the run in the calls of the back end.
pub(super) const RUN: &str = "rl";

impl RlTrainer {
    /// The tasks of an iteration: each pass over the training tasks has an order of its own.
    pub(super) fn tasks(&self, iteration: u64) -> Vec<&Item> {
        let settings = &self.settings;
        let items = self.env.items(Split::Train);
        let n_tasks = settings.tasks.min(items.len()).max(1);
        let per_epoch = items.len().div_ceil(n_tasks).max(1) as u64;
        let before = iteration.saturating_sub(1);
        let epoch = EpochIdx(to_u32(before / per_epoch + 1));
        let plan = EpochPlan::train(items.len(), epoch, 1, n_tasks, settings.seed);
        let batch = plan.batches.get(usize::try_from(before % per_epoch).unwrap_or(usize::MAX));
        batch.into_iter().flat_map(|batch| &batch.item_idx).filter_map(|place| items.get(*place)).collect()
    }

    /// One optimizer step over some episodes: that of this number in this iteration. Returns the metrics of the loss, and
    /// the norm of the gradient before clipping.
    pub(super) async fn update(
        &self,
        (iteration, number): (u64, u64),
        batch: &[Lesson],
        record: &mut RlIteration,
    ) -> Result<(LossMetrics, f64), TrainError> {
        let settings = &self.settings;
        let (rows, denominator) = weighed(settings, batch);
        let mut metrics = LossMetrics::default();
        for (pass_idx, mut rows) in (0_u64..).zip(micro_batches(rows, settings.micro_batch_tokens)) {
            record.rows += rows.len();
            record.tokens += rows.iter().map(|row| row.tokens.len() as u64).sum::<u64>();
            if settings.kl_coeff > 0.0 {
                let call = CallId::new(RUN, iteration, Call::Reference.number(number, pass_idx));
                let pass = Pass::LogProbs { policy: Policy::Reference };
                let temperature = settings.temperature as f32;
                let request = ForwardBackward { call, rows: rows.clone(), temperature, pass };
                let reference = self.backend.forward_backward(request).await?.logprobs;
                for (row, logprobs) in rows.iter_mut().zip(reference) {
                    row.reference_logprobs = logprobs;
                }
            }
            let pass = Pass::Gradient { loss: Loss::Policy(loss(settings)), denominator };
            let call = CallId::new(RUN, iteration, Call::Train.number(number, pass_idx));
            let temperature = settings.temperature as f32;
            let request = ForwardBackward { call, rows, temperature, pass };
            metrics.add(&self.backend.forward_backward(request).await?.metrics);
        }
        let adam = AdamSettings {
            learning_rate: settings.learning_rate,
            weight_decay: settings.weight_decay,
            max_grad_norm: Some(settings.max_grad_norm).filter(|norm| *norm > 0.0),
            ..AdamSettings::default()
        };
        let call = CallId::new(RUN, iteration, Call::Optimize.number(number, 0));
        let stepped = self.backend.optim_step(OptimStep { call, settings: adam }).await?;
        Ok((metrics, stepped.grad_norm))
    }

    /// Records the means over the optimizer steps of an iteration.
    pub(super) fn note_means(&self, steps: &[(LossMetrics, f64)], record: &mut RlIteration) {
        let mean = |of: fn(&(LossMetrics, f64)) -> f64| {
            (!steps.is_empty()).then(|| steps.iter().map(of).sum::<f64>() / steps.len() as f64)
        };
        record.steps = steps.len() as u64;
        record.loss = mean(|(loss, _)| loss.loss);
        record.kl = mean(|(loss, _)| loss.kl).filter(|_| self.settings.kl_coeff > 0.0);
        record.entropy = mean(|(loss, _)| loss.entropy);
        record.grad_norm = mean(|(_, norm)| *norm);
        record.clipped =
            mean(|(loss, _)| (loss.n_clipped + loss.n_dual_clipped) as f64 / loss.n_tokens.max(1) as f64);
    }
}

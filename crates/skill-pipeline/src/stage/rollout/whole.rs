//! Rollouts of an environment that works on whole batches: made together when the first of them is wanted.

use super::{Agent, KIND, Rollout, RolloutFile, draw_name, read};
use crate::error::PipelineError;
use crate::stage::own::{OwnBatch, OwnBatches, OwnModels};
use parking_lot::Mutex;
use skill_core::{ItemId, RolloutResult, Usage};
use skill_envs::{EnvError, Item, Split};
use skill_llm::journal::{ResultKey, StoredResult};
use skill_llm::{CallCtx, LlmError, MeterReading};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// How the batches of an environment are made: by itself, with these models.
#[derive(Clone)]
pub(crate) struct Whole {
    pub(crate) own: Arc<dyn OwnBatches>,
    pub(crate) models: OwnModels,
}

/// The results of a batch, or why there are none, for the first who takes it.
type Made = Result<HashMap<ItemId, Rollout>, Mutex<Option<PipelineError>>>;

/// The batch that the rollouts of an agent belong to, in each sample.
pub(super) struct WholeBatch<'run> {
    whole: &'run Whole,
    split: Split,
    seed: Option<u64>,
    items: Vec<&'run Item>,
    first_draw: usize,
    draws: Vec<OnceCell<Made>>,
}

impl<'run> WholeBatch<'run> {
    /// A batch of these items in these samples.
    pub(super) fn new(
        whole: &'run Whole,
        split: Split,
        seed: Option<u64>,
        items: Vec<&'run Item>,
        draws: std::ops::Range<usize>,
    ) -> Self {
        let first_draw = draws.start;
        Self { whole, split, seed, items, first_draw, draws: draws.map(|_| OnceCell::new()).collect() }
    }

    /// A rollout of the batch, which is made if it is not yet.
    pub(super) async fn rollout_of(
        &self,
        agent: &Agent<'_>,
        item: &Item,
        draw: usize,
    ) -> Result<Rollout, PipelineError> {
        let cell = draw.checked_sub(self.first_draw).and_then(|at| self.draws.get(at));
        let cell = cell.ok_or(PipelineError::Halted)?;
        let make = async || self.look_up_or_make(agent, draw).await.map_err(|error| Mutex::new(Some(error)));
        match cell.get_or_init(make).await {
            Ok(rollouts) => rollouts.get(&item.id).cloned().ok_or(PipelineError::Halted),
            Err(error) => {
                let error = error.lock().take();
                Err(error.unwrap_or(PipelineError::Halted))
            }
        }
    }

    async fn look_up_or_make(
        &self,
        agent: &Agent<'_>,
        draw: usize,
    ) -> Result<HashMap<ItemId, Rollout>, PipelineError> {
        let call = match draw_name(draw) {
            Some(name) => agent.ctx.call(format_args!("{name} / all items")),
            None => agent.ctx.call("all items"),
        };
        let Some(first) = self.items.first() else { return Ok(HashMap::new()) };
        let failed =
            |source| PipelineError::Rollout { place: call.place.to_string(), item: first.id.clone(), source };
        let mut keys = Vec::with_capacity(self.items.len());
        for item in &self.items {
            let (skill, _) = agent.skill_for(item, &call).await.map_err(failed)?;
            keys.push(agent.key(item, draw, &skill));
        }
        if let Some(recorded) = self.recorded(agent, &keys)? {
            return Ok(recorded);
        }
        let results = self.made(agent, draw, &call).await.map_err(failed)?;
        let used = call.scope.used();
        let mut rollouts = HashMap::with_capacity(results.len());
        for (((item, key), mut result), used) in
            self.items.iter().zip(keys).zip(results).zip(shares(used, self.items.len()))
        {
            result.id = item.id.clone();
            if result.task_type.is_empty() {
                result.task_type.clone_from(&item.task_type);
            }
            result.trajectory.sample = u32::try_from(draw).unwrap_or(u32::MAX);
            result.usage = used.usage;
            if let Some(journal) = &agent.ctx.journal {
                let file = RolloutFile { result, calls: used.calls, usage: used.usage };
                let content = serde_json::to_string(&file).map_err(|error| {
                    failed(EnvError::Model(LlmError::Journal {
                        message: format!("a result cannot be written: {error}"),
                    }))
                })?;
                let stored = StoredResult { place: call.place.to_string(), content };
                journal.record_result(key, KIND, item.id.as_str(), stored);
                result = file.result;
            }
            rollouts.insert(item.id.clone(), Rollout { result, used, key });
        }
        Ok(rollouts)
    }

    /// The whole batch from the journal; `None` if any part is missing.
    fn recorded(
        &self,
        agent: &Agent<'_>,
        keys: &[ResultKey],
    ) -> Result<Option<HashMap<ItemId, Rollout>>, PipelineError> {
        let Some(journal) = &agent.ctx.journal else { return Ok(None) };
        let mut recorded = HashMap::with_capacity(keys.len());
        for (item, key) in self.items.iter().zip(keys) {
            let Some(stored) = journal.result(*key)? else { return Ok(None) };
            let RolloutFile { result, calls, usage } = read(&stored, journal)?;
            let used = MeterReading { calls, failed: 0, usage };
            recorded.insert(item.id.clone(), Rollout { result, used, key: *key });
        }
        Ok(Some(recorded))
    }

    async fn made(
        &self,
        agent: &Agent<'_>,
        draw: usize,
        call: &CallCtx,
    ) -> Result<Vec<RolloutResult>, EnvError> {
        let batch = OwnBatch {
            step: agent.ctx.step,
            stage: agent.ctx.stage,
            batch_idx: agent.ctx.batch_idx,
            split: self.split,
            seed: self.seed,
            sample: draw,
            items: &self.items,
        };
        let Whole { own, models } = self.whole;
        let ctx = models.ctx(call.clone());
        let results = own.rollout(batch, agent.source.as_ref(), models.target.as_ref(), &ctx).await?;
        if results.len() != self.items.len() {
            let (n_results, n_items) = (results.len(), self.items.len());
            let message = format!("a batch of {n_items} items came to {n_results} results");
            return Err(EnvError::Program { message });
        }
        Ok(results)
    }
}

/// What a batch has used in equal parts, one for each item: which call was for which item is not known.
fn shares(used: MeterReading, n_items: usize) -> Vec<MeterReading> {
    let n = u64::try_from(n_items).unwrap_or(u64::MAX).max(1);
    let share = |total: u64, at: u64| total / n + u64::from(at < total % n);
    (0..n)
        .map(|at| MeterReading {
            calls: share(used.calls, at),
            failed: share(used.failed, at),
            usage: Usage {
                input: share(used.usage.input, at),
                cached: share(used.usage.cached, at),
                cache_written: share(used.usage.cache_written, at),
                output: share(used.usage.output, at),
                reasoning: share(used.usage.reasoning, at),
            },
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_what_a_batch_used_add_up() {
        let usage = Usage { input: 11, output: 2, ..Usage::default() };
        let used = MeterReading { calls: 7, failed: 1, usage };
        let parts = shares(used, 3);
        assert_eq!(parts.len(), 3);
        assert_eq!(parts.into_iter().fold(MeterReading::default(), MeterReading::plus), used);
    }
}

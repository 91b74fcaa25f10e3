//! An environment in Python that works on whole batches: an adapter as SkillOpt has them.

use crate::agent::PyAgent;
use crate::callback::{Failure, Rollout, Shared, call};
use crate::client::Extras;
use crate::environment::Described;
use crate::threads::start;
use async_trait::async_trait;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};
use skillrl::core::plan::BatchPlan;
use skillrl::core::{RolloutResult, SkillDoc, SourceType};
use skillrl::env::{Agent, play};
use skillrl::envs::source::document;
use skillrl::envs::{Env, EnvError, Item, RolloutCtx, SkillSource, Split};
use skillrl::llm::{ChatModel, LlmError};
use skillrl::pipeline::Stage;
use skillrl::pipeline::stage::own::{OwnBatch, OwnBatches, OwnReflection, Proposal, ReflectedBatch};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// An object of Python with methods `rollout` and `reflect` for whole batches; see `skillrl._adapter`.
pub(crate) struct PyAdapter {
    described: Described,
    epochs: Vec<Vec<BatchPlan>>,
    /// `rollout(batch, skill, target, optimizer)`, which returns the results as JSON.
    rollout: Arc<Py<PyAny>>,
    /// `reflect(batch, skill, target, optimizer)`, which returns proposals as JSON; None leaves it to the engine.
    reflect: Option<Arc<Py<PyAny>>>,
    /// For each item of a batch.
    timeout: Duration,
    extras: [Option<Arc<Extras>>; 2],
    shared: Arc<Shared>,
}

/// A function of the adapter with what it is called on.
struct Work<'a> {
    function: &'a Arc<Py<PyAny>>,
    name: &'static str,
    batch: Value,
    items: &'a [&'a Item],
}

impl PyAdapter {
    /// Reads the description of an adapter that `skillrl._adapter` makes; `extras` are those of target and optimizer.
    pub(crate) fn new(
        described: &Bound<'_, PyAny>,
        timeout: Duration,
        extras: [Option<Arc<Extras>>; 2],
        shared: Arc<Shared>,
    ) -> PyResult<Self> {
        let reflect = described.getattr("reflect")?;
        let read = Described::new(described)?;
        let ids: HashMap<String, usize> = read.splits[Split::Train]
            .iter()
            .enumerate()
            .map(|(at, item)| (item.id.to_string(), at))
            .collect();
        let planned: Vec<Vec<(u64, Vec<String>)>> = described.getattr("epochs")?.extract()?;
        let at = |id: &String| {
            let found = ids.get(id).copied();
            found.ok_or_else(|| {
                PyValueError::new_err(format!("the plan has the item {id:?}, which is not there"))
            })
        };
        let batch = |(seed, ids): (u64, Vec<String>)| {
            Ok::<_, PyErr>(BatchPlan { seed, item_idx: ids.iter().map(at).collect::<PyResult<_>>()? })
        };
        let epochs = planned.into_iter().map(|batches| batches.into_iter().map(batch).collect());
        Ok(Self {
            epochs: epochs.collect::<PyResult<_>>()?,
            described: read,
            rollout: Arc::new(described.getattr("batch")?.unbind()),
            reflect: (!reflect.is_none()).then(|| Arc::new(reflect.unbind())),
            timeout,
            extras,
            shared,
        })
    }

    /// True if the adapter reflects itself.
    pub(crate) fn reflects(&self) -> bool {
        self.reflect.is_some()
    }

    /// Calls a function of the adapter with agents that ask the two models; returns the JSON that it returns.
    async fn made(
        &self,
        Work { function, name, batch, items }: Work<'_>,
        source: &dyn SkillSource,
        target: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<String, EnvError> {
        let (Some(first), Some(optimizer)) = (items.first(), &ctx.judge) else {
            return Err(EnvError::Model(LlmError::Cancelled));
        };
        let threads = Arc::new(Rollout::default());
        let failed =
            |why: String| EnvError::Program { message: format!("`{name}` of {} {why}", self.described.name) };
        let [extras_of_target, extras_of_optimizer] = self.extras.clone();
        let (of_target, of_optimizer, shared) = (Arc::clone(&threads), Arc::clone(&threads), &self.shared);
        let work = |optimizer: Agent| async move {
            let agent = PyAgent::new(optimizer, extras_of_optimizer, of_optimizer, Arc::clone(shared));
            let work = |target: Agent| async move {
                let (function, batch, skill) = (Arc::clone(function), batch.to_string(), target.skill());
                let target = PyAgent::new(target, extras_of_target, of_target, Arc::clone(shared));
                let start = start(move |py| {
                    let arguments = (batch, skill, Py::new(py, target)?, Py::new(py, agent)?);
                    Ok((function.bind(py).clone(), arguments.into_pyobject(py)?))
                });
                match call(shared, false, None, start, |made| made.extract::<String>()).await {
                    Ok(made) => Ok(made),
                    Err(Failure::Raised(message)) => Err(failed(format!("raised {message}"))),
                    Err(Failure::Ended) => Err(EnvError::Model(LlmError::Cancelled)),
                }
            };
            play(first, source, target, ctx, work).await
        };
        let nothing = document(&SkillDoc::default());
        let of_optimizer = RolloutCtx { target: ctx.judge.clone(), ..RolloutCtx::new(ctx.call.clone()) };
        let limit = self.timeout.saturating_mul(u32::try_from(items.len()).unwrap_or(u32::MAX));
        tokio::select! {
            biased;
            made = play(first, nothing.as_ref(), optimizer.as_ref(), &of_optimizer, work) => Ok(made?.0.0),
            // A function that blocks its thread never ends by itself: the thread is left to it.
            () = ctx.call.cancel.cancelled() => Err(EnvError::Model(LlmError::Cancelled)),
            after = threads.late() => {
                let provider = target.id().to_string();
                Err(EnvError::Model(LlmError::Timeout { provider, after }))
            }
            () = tokio::time::sleep(limit) => {
                let seconds = limit.as_secs_f64();
                Err(failed(format!("did not return within {seconds} s (`rollout_timeout` for each item)")))
            }
        }
    }

    fn read<T: serde::de::DeserializeOwned>(&self, name: &str, json: &str) -> Result<T, EnvError> {
        serde_json::from_str(json).map_err(|error| EnvError::Program {
            message: format!("`{name}` of {} returned what cannot be read: {error}", self.described.name),
        })
    }
}

fn ids(items: &[&Item]) -> Vec<String> {
    items.iter().map(|item| item.id.to_string()).collect()
}

#[async_trait]
impl Env for PyAdapter {
    fn name(&self) -> &str {
        &self.described.name
    }

    fn items(&self, split: Split) -> &[Item] {
        &self.described.splits[split]
    }

    fn settings(&self) -> Value {
        self.described.settings.clone()
    }

    fn initial_skill(&self) -> Option<SkillDoc> {
        self.described.initial_skill.clone()
    }

    fn prompt_override(&self, name: &str) -> Option<&str> {
        self.described.prompts.get(name).map(String::as_str)
    }

    /// A batch of one.
    async fn rollout(
        &self,
        item: &Item,
        source: &dyn SkillSource,
        target: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<RolloutResult, EnvError> {
        let is_in = |split: &Split| self.items(*split).iter().any(|known| known.id == item.id);
        let split = Split::ALL.into_iter().find(is_in).ok_or_else(|| EnvError::Program {
            message: format!("the item {} is in no split of {}", item.id, self.described.name),
        })?;
        let batch = OwnBatch {
            step: None,
            stage: Stage::Evaluate,
            batch_idx: None,
            split,
            seed: None,
            sample: 0,
            items: &[item],
        };
        let results = OwnBatches::rollout(self, batch, source, target, ctx).await?;
        results.into_iter().next().ok_or(EnvError::Model(LlmError::Cancelled))
    }
}

#[async_trait]
impl OwnBatches for PyAdapter {
    fn epochs(&self) -> &[Vec<BatchPlan>] {
        &self.epochs
    }

    async fn rollout(
        &self,
        batch: OwnBatch<'_>,
        source: &dyn SkillSource,
        target: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<Vec<RolloutResult>, EnvError> {
        let told = json!({
            "step": batch.step.map(|step| step.0),
            "stage": batch.stage.as_str(),
            "batch_idx": batch.batch_idx,
            "split": batch.split.as_str(),
            "seed": batch.seed,
            "sample": batch.sample,
            "place": ctx.call.place.to_string(),
            "ids": ids(batch.items),
        });
        let work = Work { function: &self.rollout, name: "rollout", batch: told, items: batch.items };
        let made = self.made(work, source, target, ctx).await?;
        self.read("rollout", &made)
    }
}

/// A proposal as `skillrl._adapter` writes it.
#[derive(Deserialize)]
struct Proposed {
    json: String,
    source_type: SourceType,
    batch_size: Option<u32>,
}

#[async_trait]
impl OwnReflection for PyAdapter {
    async fn reflect(
        &self,
        reflected: ReflectedBatch<'_>,
        target: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<Vec<Proposal>, EnvError> {
        let Some(function) = &self.reflect else { return Ok(Vec::new()) };
        let batch = json!({
            "step": reflected.step.map(|step| step.0),
            "batch_idx": reflected.batch.batch_idx,
            "seed": reflected.batch.seed,
            "place": ctx.call.place.to_string(),
            "ids": ids(reflected.items),
            "memory": reflected.memory,
            "meta_skill": reflected.meta_skill,
            "results": reflected.batch.results,
        });
        let work = Work { function, name: "reflect", batch, items: reflected.items };
        let made = self.made(work, document(reflected.skill).as_ref(), target, ctx).await?;
        let proposed: Vec<Proposed> = self.read("reflect", &made)?;
        let proposal =
            |Proposed { json, source_type, batch_size }| Proposal { json, source_type, batch_size };
        Ok(proposed.into_iter().map(proposal).collect())
    }
}

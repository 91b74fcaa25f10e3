//! The stages that ask an optimizer as functions: what `skillrl.pipeline` calls.

use crate::callback::Shared;
use crate::client::PyClient;
use crate::environment::templates;
use crate::errors::{config_error, run_error};
use crate::json::{read, written};
use crate::model::native;
use crate::train::TICK;
use parking_lot::Mutex;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use skillrl::Error;
use skillrl::core::{Patch, RawPatch, RolloutResult, SkillDoc};
use skillrl::llm::ChatModel;
use skillrl::pipeline::prompts::PromptName;
use skillrl::pipeline::stage::reflect::{ReflectBatch, ReflectSettings};
use skillrl::pipeline::stage::{Optimizer, StageCtx, aggregate, reflect, select};
use skillrl::pipeline::{NoEvents, PipelineError, PromptLibrary, Stage};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// The model, prompts and limits of a stage.
struct Asks {
    model: Arc<dyn ChatModel>,
    max_tokens: u32,
    prompts: PromptLibrary,
    workers: usize,
    shared: Arc<Shared>,
}

impl Asks {
    /// Reads a description that `skillrl.pipeline` makes.
    fn new(described: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = described.py();
        let workers = described.getattr("workers")?.extract::<usize>()?.max(1);
        let shared = Arc::new(Shared::new(described, workers, workers)?);
        let client = described.getattr("client")?;
        let model: Arc<dyn ChatModel> = if client.getattr("is_native")?.extract()? {
            let key: Option<String> = client.getattr("api_key")?.extract()?;
            native(py, &described.getattr("sections")?.extract::<String>()?, key.as_deref())?
        } else {
            Arc::new(PyClient::new(&client, Duration::MAX, Arc::clone(&shared))?)
        };
        let prompt_error = |error: &dyn std::fmt::Display| config_error(py, error.to_string());
        let mut prompts = PromptLibrary::embedded().map_err(|error| prompt_error(&error))?;
        for (name, source) in templates(described.getattr("prompts")?.extract()?)? {
            let Some(name) = PromptName::parse(&name) else { continue };
            prompts = prompts.with_override(name, &source).map_err(|error| prompt_error(&error))?;
        }
        prompts = prompts.with_task(&described.getattr("context")?.extract::<String>()?);
        Ok(Self { model, max_tokens: described.getattr("max_tokens")?.extract()?, prompts, workers, shared })
    }

    fn optimizer(&self) -> Optimizer<'_> {
        Optimizer { model: &*self.model, max_tokens: self.max_tokens }
    }

    /// Runs the stage in its own thread, so that Ctrl-C ends it even while a function blocks.
    fn run<T: Send + 'static>(
        self,
        py: Python<'_>,
        stage: Stage,
        work: impl FnOnce(&Self, &StageCtx<'_>, &Runtime) -> Result<T, PipelineError> + Send + 'static,
    ) -> PyResult<T> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|error| PyRuntimeError::new_err(format!("the engine cannot be started: {error}")))?;
        let (sender, receiver) = channel();
        let shared = Arc::clone(&self.shared);
        let ctx = StageCtx { workers: self.workers, ..StageCtx::new(stage, &NoEvents) };
        let cancel = ctx.cancel.clone();
        let worker = thread::Builder::new().name("skillrl".to_owned()).spawn(move || {
            let outcome = work(&self, &ctx, &runtime);
            runtime.shutdown_background();
            let _ = sender.send(outcome);
        });
        worker.map_err(|error| PyRuntimeError::new_err(format!("no thread can be started: {error}")))?;
        let receiver = Mutex::new(receiver);
        let ended = loop {
            let wait = || receiver.lock().recv_timeout(TICK);
            match py.detach(wait) {
                Ok(outcome) => {
                    break outcome.map_err(|error| run_error(py, &Error::from(error), shared.take_first()));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    break Err(PyRuntimeError::new_err("the thread of the stage ended without a result"));
                }
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(interrupt) = py.check_signals() {
                        cancel.cancel();
                        break Err(interrupt);
                    }
                }
            }
        };
        shared.end(py);
        ended
    }
}

/// Asks an analyst for each minibatch of trajectories; returns the patches, as JSON, and what was wrong with replies.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "they are those of skillrl 1.0")]
pub(crate) fn run_reflect(
    py: Python<'_>,
    described: &Bound<'_, PyAny>,
    results: &str,
    skill: String,
    minibatch_size: usize,
    edit_budget: u32,
    failure_only: bool,
    seed: u64,
) -> PyResult<(String, Vec<String>)> {
    let results: Vec<RolloutResult> = read("rollout_results", results)?;
    let settings = ReflectSettings {
        minibatch_size: minibatch_size.max(1),
        edit_budget,
        failure_only,
        appendix_source: None,
        ends_in_silence: false,
    };
    let reflections = Asks::new(described)?.run(py, Stage::Reflect, move |asks, ctx, runtime| {
        let batch = ReflectBatch { batch_idx: None, seed, results: &results };
        let skill = SkillDoc::new(skill);
        runtime.block_on(reflect::reflect(&[batch], &skill, settings, &asks.prompts, &asks.optimizer(), ctx))
    })?;
    let notes = reflections.iter().flat_map(|reflection| reflection.notes.iter().cloned()).collect();
    let patches: Vec<&RawPatch> = reflections.iter().flat_map(|reflection| &reflection.patches).collect();
    Ok((written(&patches)?, notes))
}

/// Merges patches, failures first; returns the patch, as JSON, and what was wrong with replies.
#[pyfunction]
pub(crate) fn run_merge(
    py: Python<'_>,
    described: &Bound<'_, PyAny>,
    patches: &str,
    skill: String,
    batch_size: usize,
) -> PyResult<(String, Vec<String>)> {
    let patches: Vec<RawPatch> = read("raw_patches", patches)?;
    let merged = Asks::new(described)?.run(py, Stage::Aggregate, move |asks, ctx, runtime| {
        let (skill, optimizer) = (SkillDoc::new(skill), asks.optimizer());
        let merging = aggregate::aggregate(&patches, &skill, batch_size, &asks.prompts, &optimizer, ctx);
        runtime.block_on(merging)
    })?;
    Ok((written(&merged.patch)?, merged.notes))
}

/// Keeps as many edits as the budget has; returns the patch, as JSON, and what was wrong with the reply.
#[pyfunction]
pub(crate) fn run_select(
    py: Python<'_>,
    described: &Bound<'_, PyAny>,
    patch: &str,
    skill: String,
    max_edits: u32,
) -> PyResult<(String, Vec<String>)> {
    let patch: Patch = read("patch", patch)?;
    let selected = Asks::new(described)?.run(py, Stage::Select, move |asks, ctx, runtime| {
        let skill = SkillDoc::new(skill);
        runtime.block_on(select::select(patch, &skill, max_edits, &asks.prompts, &asks.optimizer(), ctx))
    })?;
    Ok((written(&selected.patch)?, selected.notes))
}

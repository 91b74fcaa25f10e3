//! `evaluate`: skills measured on all items of an environment, under the eyes of the thread that called it.

use crate::environment::PyEnv;
use crate::errors::run_error;
use crate::events::Events;
use crate::job::{judged, models, run_dir, seconds, settings, shared, with_keys};
use crate::json::written;
use crate::package::of_texts;
use crate::train::{runtime, watch};
use parking_lot::Mutex;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use serde_json::{Value, json};
use skillrl::core::stats::{Paired, difference_interval, score_interval};
use skillrl::core::{Gate, ItemScore, RolloutResult, SkillDoc};
use skillrl::engine::Engine;
use skillrl::envs::source::document;
use skillrl::envs::{Env, Split};
use skillrl::measurement::Measurement;
use skillrl::pipeline::run_dir::RunDir;
use skillrl::pipeline::{PipelineError, StopSignal};
use skillrl::{Error, trainer};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

/// The level of intervals, as in reports.
pub(crate) const LEVEL: f64 = 0.95;

/// Measures each of these skills on the items of the validation split; returns what each came to as JSON, and the
/// difference of each to the first.
///
/// With a directory, replies and results are kept in its journal, and the same call goes on.
#[pyfunction]
pub(crate) fn evaluate(
    py: Python<'_>,
    described: &Bound<'_, PyAny>,
    skills: Vec<Vec<(String, String)>>,
    on_events: &Bound<'_, PyAny>,
) -> PyResult<String> {
    let failed = |error: PipelineError| run_error(py, &Error::from(error), None);
    let loaded = settings(py, &described.getattr("settings")?.extract::<String>()?)?;
    let shared = shared(described, &loaded)?;
    let mut engine = with_keys(described, Engine::new(&loaded))?;
    let (models, [extras, _]) = models(described, &mut engine, &shared)?;
    let is_native = extras.is_none();
    let env = described.getattr("env")?;
    let env = PyEnv::new(&env, seconds(described, "rollout_timeout")?, extras, Arc::clone(&shared))?;
    let env = judged(described, Arc::new(env) as Arc<dyn Env>, models.judge)?;
    let skills = skills.into_iter().map(of_texts).collect::<PyResult<Vec<SkillDoc>>>()?;
    let gate = trainer::settings(&loaded.config).map_err(|error| run_error(py, &error, None))?.gate;
    let journal = match described.getattr("out")?.extract::<Option<PathBuf>>()? {
        Some(dir) => {
            let dir = RunDir::open(&run_dir(py, dir)?).map_err(failed)?;
            Some(dir.open_journal(Default::default(), false).map_err(failed)?)
        }
        None => None,
    };
    let measurement =
        Measurement::new(&loaded, &env, Split::Val, models.target, journal.as_ref()).map_err(failed)?;
    let (events, stop) = (Events::default(), StopSignal::default());
    let (of_work, of_stop) = (events.clone(), stop.clone());
    let runtime = runtime(is_native)?;
    let (sender, receiver) = channel();
    let worker = thread::Builder::new().name("skillrl".to_owned()).spawn(move || {
        let outcome: Result<Vec<Vec<RolloutResult>>, PipelineError> = runtime.block_on(async {
            let mut measured = Vec::with_capacity(skills.len());
            for skill in &skills {
                let measured_skill = measurement.results(&document(skill), (&of_work, &of_stop)).await?;
                measured.push(measured_skill.evaluation.results);
            }
            measurement.finish().await?;
            Ok(measured)
        });
        runtime.shutdown_background();
        // The caller waits as long as this thread lives.
        let _ = sender.send(outcome);
    });
    worker.map_err(|error| PyRuntimeError::new_err(format!("no thread can be started: {error}")))?;
    let (outcome, raised) = watch(py, &Mutex::new(receiver), &events, &stop, on_events, &shared);
    shared.end(py);
    let spent = engine.budget().spent();
    match (raised, outcome) {
        (Some(raised), _) => Err(raised),
        (None, Some(Ok(measured))) => {
            let spent = json!({"calls": spent.calls, "tokens": spent.tokens, "money": spent.money});
            written(&json!({"arms": arms(&measured, gate), "spent": spent}))
        }
        (None, Some(Err(error))) => {
            let cause = shared.take_first().or_else(|| shared.take_aside());
            Err(run_error(py, &Error::from(error), cause))
        }
        (None, None) => Err(PyRuntimeError::new_err("the thread of the measurement ended without a result")),
    }
}

/// What each skill came to; all but the first are compared with it.
fn arms(measured: &[Vec<RolloutResult>], gate: Gate) -> Vec<Value> {
    let scores = |results: &[RolloutResult]| results.iter().map(ItemScore::from).collect::<Vec<_>>();
    let first = measured.first().map(|results| scores(results)).unwrap_or_default();
    let arm = |(at, results): (usize, &Vec<RolloutResult>)| {
        let n = results.len().max(1) as f64;
        let hard = results.iter().map(|result| result.hard).sum::<f64>() / n;
        let soft = results.iter().map(|result| result.soft).sum::<f64>() / n;
        let interval = score_interval(hard, results.len(), LEVEL);
        let paired = (at > 0).then(|| Paired::of(gate, 1, &scores(results), &first)).flatten();
        let compared = paired.map(|paired| {
            json!({
                "difference": paired.mean(), "interval": difference_interval(&paired, LEVEL),
                "improved": paired.counts.wins, "regressed": paired.counts.losses, "same": paired.counts.ties,
            })
        });
        json!({"hard": hard, "soft": soft, "interval": interval, "compared": compared, "results": results})
    };
    measured.iter().enumerate().map(arm).collect()
}

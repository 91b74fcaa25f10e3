//! `evaluate_file`: a skill, or a bank against no bank, measured by a configuration file.

use crate::callback::Shared;
use crate::errors::run_error;
use crate::evaluate::LEVEL;
use crate::events::Events;
use crate::json::written;
use crate::train::{runtime, watch};
use parking_lot::Mutex;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use serde_json::{Map, Value, json};
use skillrl::config::Config;
use skillrl::core::stats::score_interval;
use skillrl::engine::Engine;
use skillrl::envs::Split;
use skillrl::measurement::bank::BankMeasurement;
use skillrl::measurement::{Earlier, SkillMeasurement};
use skillrl::pipeline::StopSignal;
use skillrl::pipeline::records::evaluation::Evaluation;
use skillrl::reports::Comparison;
use skillrl::{Error, world};
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::thread;

/// What is measured.
enum Prepared<'run> {
    Skill(Box<SkillMeasurement<'run>>),
    Bank(Box<BankMeasurement<'run>>),
}

/// Measures the described skill or bank on one split; returns its scores as JSON, with the difference to an earlier
/// measurement or to no bank.
///
/// With a directory, replies and results are kept there, and the same call goes on.
#[pyfunction]
pub(crate) fn evaluate_file(
    py: Python<'_>,
    described: &Bound<'_, PyAny>,
    on_events: &Bound<'_, PyAny>,
) -> PyResult<String> {
    let failed = |error: Error| run_error(py, &error, None);
    let path = |name: &str| described.getattr(name)?.extract::<Option<PathBuf>>();
    let [skill, bank, against, out] = [path("skill")?, path("bank")?, path("against")?, path("out")?];
    let split = described.getattr("split")?.extract::<Option<String>>()?;
    let split = split.as_deref().map(world::split).transpose().map_err(failed)?;
    let file: PathBuf = described.getattr("file")?.extract()?;
    let set: Vec<String> = described.getattr("set")?.extract()?;
    let loaded = Config::load(&file, &set).map_err(|error| failed(error.into()))?;
    loaded.check_paths().map_err(|error| failed(error.into()))?;
    let mut engine = Engine::new(&loaded);
    let prepare = |engine: &mut Engine<'_>| -> Result<Prepared<'_>, Error> {
        if let Some(bank) = &bank {
            let (split, measured) = (split.unwrap_or(Split::Val), (bank.as_path(), skill.as_deref()));
            let mut measurement = BankMeasurement::new(&loaded, engine, split, measured)?;
            if let Some(out) = &out {
                measurement.keep_in(out, false, engine)?;
            }
            return Ok(Prepared::Bank(Box::new(measurement)));
        }
        let mut measurement = SkillMeasurement::new(&loaded, engine, split, skill.as_deref())?;
        if let Some(against) = &against {
            measurement.compare_with(Earlier::read(against)?, None)?;
        }
        if let Some(out) = &out {
            measurement.keep_in(out, false, engine)?;
        }
        Ok(Prepared::Skill(Box::new(measurement)))
    };
    let prepared = py.detach(|| prepare(&mut engine)).map_err(failed)?;
    let shared = Shared::new(described, 1, 1)?;
    let (events, stop) = (Events::default(), StopSignal::default());
    let runtime = runtime(true)?;
    let (sender, receiver) = channel();
    let (outcome, raised) = thread::scope(|scope| {
        let (events, stop) = (&events, &stop);
        scope.spawn(move || {
            let outcome = runtime.block_on(measured(prepared, (events, stop), bank.zip(out)));
            runtime.shutdown_background();
            // The caller waits as long as this thread lives.
            let _ = sender.send(outcome);
        });
        watch(py, &Mutex::new(receiver), events, stop, on_events, &shared)
    });
    shared.end(py);
    let spent = engine.budget().spent();
    match (raised, outcome) {
        (Some(raised), _) => Err(raised),
        (None, Some(Ok(mut measured))) => {
            let spent = json!({"calls": spent.calls, "tokens": spent.tokens, "money": spent.money});
            measured.insert("spent".to_owned(), spent);
            written(&measured)
        }
        (None, Some(Err(error))) => Err(failed(error)),
        (None, None) => Err(PyRuntimeError::new_err("the thread of the measurement ended without a result")),
    }
}

async fn measured(
    prepared: Prepared<'_>,
    (events, stop): (&Events, &StopSignal),
    kept: Option<(PathBuf, PathBuf)>,
) -> Result<Map<String, Value>, Error> {
    match prepared {
        Prepared::Skill(measurement) => {
            let of_skill = [("skill", json!(measurement.name)), ("split", json!(measurement.split))];
            let found = measurement.measure((events, stop)).await?;
            Ok(scores(&found.evaluation, found.compared.as_ref(), of_skill))
        }
        Prepared::Bank(measurement) => {
            let found = measurement.measure((events, stop)).await?;
            if let Some((bank, out)) = kept {
                BankMeasurement::write(&out, &measurement.to_json(&bank, &found))?;
            }
            let without = json!(scores(&found.without, None, []));
            let of_bank = [("without", without), ("split", json!(measurement.split))];
            Ok(scores(&found.with, found.difference.as_ref(), of_bank))
        }
    }
}

/// Scores as Python has them, with further fields.
fn scores<const N: usize>(
    evaluation: &Evaluation,
    compared: Option<&Comparison>,
    further: [(&str, Value); N],
) -> Map<String, Value> {
    let score = evaluation.score;
    let compared = compared.map(|compared| {
        json!({
            "difference": compared.difference, "interval": compared.difference_interval,
            "improved": compared.counts.wins, "regressed": compared.counts.losses, "same": compared.counts.ties,
        })
    });
    let own = [
        ("hard", json!(score.hard)),
        ("soft", json!(score.soft)),
        ("interval", json!(score_interval(score.hard, evaluation.results.len(), LEVEL))),
        ("compared", json!(compared)),
        ("results", json!(evaluation.results)),
    ];
    own.into_iter().chain(further).map(|(name, value)| (name.to_owned(), value)).collect()
}

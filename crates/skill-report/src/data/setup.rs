//! How a run was set up, when it began and how long it worked: the head of every page.

use super::models;
use super::weights_files::open;
use serde::Serialize;
use serde_json::Value;
use skill_pipeline::kind::trains_weights;
use skill_pipeline::{PipelineError, RunReader};
use std::io::{BufRead as _, BufReader, Read as _};

/// The longest first event that is read.
const MAX_EVENT_BYTES: u64 = 64 * 1024;

/// How a run was set up.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Setup {
    /// When it began, in milliseconds since 1970; `None` for a run without events, such as an imported one.
    pub started_unix_ms: Option<u64>,
    /// How long its processes worked, in seconds; `None` where nobody can say.
    pub seconds: Option<f64>,
    /// The models by their part in it.
    pub models: Vec<(String, String)>,
    /// What it was asked to do, by name: data, items, scorer, gate, protocol and caps.
    pub asked: Vec<(&'static str, String)>,
    /// The template of the prompts of tasks, where the environment has one.
    pub prompt: Option<String>,
}

impl Setup {
    /// Reads it; `seconds` is how long the processes of the run worked.
    pub(super) fn read(run: &RunReader, seconds: Option<f64>) -> Result<Self, PipelineError> {
        let first = first_event(run)?;
        let config = &run.config().config;
        let n_items = first.get("n_items").and_then(Value::as_array).map(|numbers| {
            let numbers: Vec<String> = numbers.iter().map(Value::to_string).collect();
            numbers.join(" / ")
        });
        let text = |path: &str| config.pointer(path).and_then(Value::as_str).map(str::to_owned);
        let trains_skills = !trains_weights(run.path());
        let of_skills = |value: Option<String>| value.filter(|_| trains_skills);
        let asked = [
            ("data", text("/env/data")),
            ("items of train / validation / test", n_items),
            ("scorer", text("/env/scorer")),
            ("gate", of_skills(gate(config))),
            ("protocol", of_skills(text("/train/protocol"))),
            ("caps", caps(config)),
            ("seed", config.pointer("/run/seed").map(Value::to_string)),
        ];
        let prompt = run.config().identity.get("env.settings").and_then(|settings| settings.get("prompt"));
        Ok(Self {
            started_unix_ms: first.get("unix_ms").and_then(Value::as_u64),
            seconds: seconds.filter(|seconds| *seconds > 0.0),
            models: models(run),
            asked: asked.into_iter().filter_map(|(name, words)| Some((name, words?))).collect(),
            prompt: prompt.and_then(Value::as_str).map(str::to_owned),
        })
    }
}

/// The rule of the gate, and its metric where it is not the usual one.
fn gate(config: &Value) -> Option<String> {
    let mode = config.pointer("/gate/mode").and_then(Value::as_str)?;
    let metric = config.pointer("/gate/metric").and_then(Value::as_str).filter(|metric| *metric != "hard");
    Some(metric.map_or_else(|| mode.to_owned(), |metric| format!("{mode}, by the {metric} metric")))
}

/// The caps of the configuration.
fn caps(config: &Value) -> Option<String> {
    let caps = config.get("budget")?.as_object()?;
    let words: Vec<String> = caps
        .iter()
        .filter_map(|(name, cap)| {
            let cap = cap.as_f64()?;
            Some(match name.as_str() {
                "money" => crate::words::dollars(cap),
                "time_s" => crate::words::seconds(cap),
                name => format!("{} {name}", crate::words::grouped(cap as u64)),
            })
        })
        .collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// When the run began, in milliseconds since 1970; `None` for a run without events.
pub(crate) fn started_unix_ms(run: &RunReader) -> Result<Option<u64>, PipelineError> {
    Ok(first_event(run)?.get("unix_ms").and_then(Value::as_u64))
}

/// The first event of a run, which says when it began; null without one.
fn first_event(run: &RunReader) -> Result<Value, PipelineError> {
    let Some(file) = open(&run.path().join("events.jsonl"))? else { return Ok(Value::Null) };
    let mut line = Vec::new();
    // A log that cannot be read says nothing: everything else of the run is in other files.
    let _ = BufReader::new(file.take(MAX_EVENT_BYTES)).read_until(b'\n', &mut line);
    Ok(serde_json::from_slice(&line).unwrap_or_default())
}

//! The decisions of `skill-core` as functions: what `skillrl.core` and `skillrl.prompts` call.

use crate::json::read;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use serde_json::Value;
use skillrl::core::editor::EditRules;
use skillrl::core::schedule::{EditBudget, EditBudgetSchedule};
use skillrl::core::{Edit, Gate, GateMetric, MeanScore, SkillDoc, SkillHash, StepIdx};
use skillrl::pipeline::PromptName;

/// Applies edits, given as JSON, in order; returns the skill and a row for each edit as JSON.
#[pyfunction]
pub(crate) fn apply_patch(
    skill: &str,
    edits: &str,
    fold_anchors: bool,
    drop_duplicates: bool,
) -> PyResult<(String, String)> {
    let edits: Vec<Edit> = read("edits", edits)?;
    let rules = EditRules { fold_anchors, drop_duplicates, ..EditRules::reference() };
    let (skill, rows) = rules.apply(&SkillDoc::new(skill), &edits);
    let rows = serde_json::to_string(&rows).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((skill.source_text().to_owned(), rows))
}

/// The edit budget of a step, which counts from 1.
#[pyfunction]
pub(crate) fn edit_budget(schedule: &str, max: u32, min: u32, total_steps: u32, step: u32) -> PyResult<u32> {
    let found = EditBudgetSchedule::parse(schedule);
    let schedule = found.ok_or_else(|| PyValueError::new_err(format!("unknown schedule {schedule:?}")))?;
    let budget = EditBudget::new(schedule, max, min);
    let budget = budget.map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(budget.at(StepIdx(step), total_steps))
}

/// The score that the gate compares.
#[pyfunction]
pub(crate) fn gate_score(hard: f64, soft: f64, metric: &str, mixed_weight: f64) -> PyResult<f64> {
    let metric = match metric {
        "hard" => GateMetric::Hard,
        "soft" => GateMetric::Soft,
        "mixed" if (0.0..=1.0).contains(&mixed_weight) => GateMetric::Mixed,
        "mixed" => {
            let text = format!("mixed_weight is {mixed_weight}; it is a number from 0 to 1");
            return Err(PyValueError::new_err(text));
        }
        other => {
            let text = format!("unknown metric {other:?}; use \"hard\", \"soft\" or \"mixed\"");
            return Err(PyValueError::new_err(text));
        }
    };
    Ok(Gate { metric, mixed_weight }.score(MeanScore { hard, soft }))
}

/// The mean hard and soft scores; 0 for no results.
#[pyfunction]
pub(crate) fn mean_score(scores: Vec<(f64, f64)>) -> (f64, f64) {
    let mean = MeanScore::of(scores);
    (mean.hard, mean.soft)
}

/// The JSON object in a reply.
#[pyfunction]
pub(crate) fn extract_json(text: &str) -> Option<String> {
    skillrl::core::json::extract_json(text).filter(Value::is_object).map(|value| value.to_string())
}

/// The first 16 digits of the SHA-256 of a text.
#[pyfunction]
pub(crate) fn skill_hash(text: &str) -> String {
    SkillHash::of(text).as_str().to_owned()
}

/// The names of the prompts.
#[pyfunction]
pub(crate) fn prompt_names() -> Vec<&'static str> {
    PromptName::ALL.into_iter().map(PromptName::as_str).collect()
}

/// The built-in prompt of this name, a template with a system and a user message.
#[pyfunction]
pub(crate) fn prompt(name: &str) -> PyResult<&'static str> {
    let found = PromptName::parse(name).map(PromptName::embedded_source);
    found.ok_or_else(|| PyKeyError::new_err(format!("unknown prompt {name:?}")))
}

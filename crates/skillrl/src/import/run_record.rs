//! Records of steps, results and tokens of other systems in our form.

use super::run_step::StepFacts;
use indexmap::IndexMap;
use serde_json::{Map, Value, json};
use skill_core::{Gate, GateMetric, MeanScore, RolloutResult, Trajectory, TrajectoryMessage};
use skill_pipeline::records::document::StepRecord;
use skill_pipeline::records::{StageTokens, TokensByStage};
use std::collections::{BTreeMap, BTreeSet};

/// Keys of a step that say what ours say, by their name or another, or what follows from others.
const KNOWN: [&str; 32] = [
    "step",
    "epoch",
    "step_in_epoch",
    "rollout_hard",
    "rollout_soft",
    "rollout_n",
    "n_failure_patches",
    "n_success_patches",
    "n_patches",
    "n_edits_merged",
    "n_edits_ranked",
    "edit_budget",
    "candidate_hash",
    "candidate_skill_len",
    "selection_hard",
    "selection_soft",
    "gate_metric",
    "candidate_gate_score",
    "action",
    "current_score",
    "best_score",
    "best_step",
    "tokens",
    "edit_apply_summary",
    "apply_report",
    "accumulation_batches",
    "skill_len",
    "timing",
    "wall_time_s",
    "current_origin",
    "best_origin",
    "lr_control_mode",
];

/// Fields of a result that hold text here.
const TEXTS: [&str; 8] = [
    "fail_reason",
    "task_type",
    "task_description",
    "predicted_answer",
    "question",
    "reference_text",
    "target_system_prompt",
    "target_user_prompt",
];

/// The initial skill's scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Baseline {
    pub(super) mean: MeanScore,
    /// Under the gate's metric.
    pub(super) score: f64,
}

impl Baseline {
    pub(super) fn new(mean: MeanScore, config: &Value) -> Self {
        Self { mean, score: gate(config).score(mean) }
    }
}

/// The gate of a run, by its configuration.
pub(super) fn gate(config: &Value) -> Gate {
    let metric = match config.get("gate_metric").and_then(Value::as_str) {
        Some("soft") => GateMetric::Soft,
        Some("mixed") => GateMetric::Mixed,
        Some(_) | None => GateMetric::Hard,
    };
    let mixed_weight = config.get("gate_mixed_weight").and_then(Value::as_f64);
    Gate { metric, mixed_weight: mixed_weight.unwrap_or(Gate::default().mixed_weight) }
}

/// The steps in our form; what of them has no counterpart goes to `notes`, with the reason.
pub(super) fn history(
    rows: &[Value],
    config: &Value,
    baseline: Baseline,
    facts: &BTreeMap<u64, StepFacts>,
    notes: &mut Vec<(String, String)>,
) -> Vec<StepRecord> {
    let seed = config.get("seed").and_then(Value::as_u64).unwrap_or(42);
    let (mut records, mut before) = (Vec::new(), baseline.score);
    let mut unknown = BTreeSet::new();
    for row in rows {
        let Some(fields) = row.as_object() else {
            notes.push(("history.json".to_owned(), "a row that is not an object was left out".to_owned()));
            continue;
        };
        unknown.extend(fields.keys().filter(|key| !KNOWN.contains(&key.as_str())).cloned());
        let (record, action) = record(fields, seed, before, facts);
        match serde_json::from_value::<StepRecord>(record) {
            Ok(record) => {
                before = record.current_score;
                records.push(record);
            }
            Err(error) => {
                let step = fields.get("step").map(Value::to_string).unwrap_or_default();
                notes.push((format!("history.json step {step}"), format!("is not a step: {error}")));
            }
        }
        if let Some(action) = action {
            notes.push((
                format!("action {action}"),
                "no counterpart of this action; the step's notes name it".to_owned(),
            ));
        }
    }
    for key in unknown {
        notes.push((format!("history.json {key}"), "no counterpart in the records".to_owned()));
    }
    let has = |name: &str| rows.iter().any(|row| row.get(name).is_some());
    for name in ["timing", "wall_time_s"].into_iter().filter(|name| has(name)) {
        notes.push((format!("history.json {name}"), "records here have no times".to_owned()));
    }
    if !has("accumulation_batches") && !rows.is_empty() {
        let reason = "is not in the files; the seed that SkillOpt's rule gives is used instead";
        notes.push(("history.json batch_seed".to_owned(), reason.to_owned()));
    }
    for name in ["current_origin", "best_origin", "lr_control_mode"].into_iter().filter(|name| has(name)) {
        notes.push((format!("history.json {name}"), "no counterpart in the records".to_owned()));
    }
    notes.sort();
    notes.dedup();
    records
}

/// One step, and its action if there is none like it.
fn record(
    fields: &Map<String, Value>,
    seed: u64,
    before: f64,
    facts: &BTreeMap<u64, StepFacts>,
) -> (Value, Option<String>) {
    let count = |key: &str| fields.get(key).and_then(Value::as_u64);
    let number = |key: &str| fields.get(key).and_then(Value::as_f64);
    let (step, epoch) = (count("step").unwrap_or_default(), count("epoch").unwrap_or(1));
    let in_epoch = count("step_in_epoch").unwrap_or_default();
    let facts = facts.get(&step).cloned().unwrap_or_default();
    let ids = facts.batch_item_ids;
    let batch_seed = fields
        .get("accumulation_batches")
        .and_then(|batches| batches.get(0)?.get("batch_seed")?.as_u64())
        .unwrap_or(seed + 1000 * epoch + in_epoch + 1);
    let asked = fields.get("action").and_then(Value::as_str).unwrap_or_default();
    let (action, note) = match asked {
        "accept_new_best" | "accept" | "force_accept" | "reject" | "skip_no_patches" | "skip_no_rewrite" => {
            (asked, None)
        }
        _ => ("skip_no_patches", Some("the action there is not known here")),
    };
    let mut record = json!({
        "step": step, "epoch": epoch, "step_in_epoch": in_epoch, "batch_seed": batch_seed,
        "rollout_n": count("rollout_n").unwrap_or(ids.len() as u64), "batch_item_ids": ids,
        "rollout_hard": number("rollout_hard").unwrap_or_default(),
        "rollout_soft": number("rollout_soft").unwrap_or_default(),
        "n_failure_patches": count("n_failure_patches").unwrap_or_default(),
        "n_success_patches": count("n_success_patches").unwrap_or_default(),
        "edit_budget": count("edit_budget").unwrap_or_default(),
        "gate_metric": fields.get("gate_metric").and_then(Value::as_str).unwrap_or("hard"),
        "action": action, "score_before": before,
        "current_score": number("current_score").unwrap_or(before),
        "best_score": number("best_score").unwrap_or(before),
        "best_step": count("best_step").unwrap_or_default(),
        "tokens": tokens(fields.get("tokens")),
    });
    if let Some(record) = record.as_object_mut() {
        for key in [
            "n_edits_merged",
            "n_edits_ranked",
            "candidate_hash",
            "candidate_skill_len",
            "selection_hard",
            "selection_soft",
            "candidate_gate_score",
        ] {
            if let Some(value) = fields.get(key).filter(|value| !value.is_null()) {
                record.insert(key.to_owned(), value.clone());
            }
        }
        if let Some(n_items) = facts.n_selection {
            record.insert("selection_n_seen".to_owned(), json!(n_items));
            record.insert("selection_n".to_owned(), json!(n_items));
        }
        if let Some(report) = fields.get("apply_report").or_else(|| fields.get("edit_apply_summary")) {
            let of = |key: &str| report.get(key).and_then(Value::as_u64).unwrap_or_default();
            let counts = json!({"total": of("total"), "applied": of("applied"), "skipped": of("skipped") + of("errors")});
            record.insert("apply_report".to_owned(), counts);
        }
        let micro = fields.get("accumulation_batches").and_then(Value::as_array);
        if let Some(micro) = micro.filter(|micro| micro.len() > 1) {
            record.insert("accumulation_batches".to_owned(), micro.iter().map(micro_batch).collect());
        }
        if let Some(note) = note {
            record.insert("notes".to_owned(), json!([note]));
        }
    }
    (record, note.map(|_| asked.to_owned()))
}

/// One of several micro-batches.
fn micro_batch(row: &Value) -> Value {
    let count = |key: &str| row.get(key).and_then(Value::as_u64).unwrap_or_default();
    let number = |key: &str| row.get(key).and_then(Value::as_f64).unwrap_or_default();
    json!({
        "batch_idx": count("batch_idx"), "batch_seed": count("batch_seed"), "n_envs": count("n_envs"),
        "hard": number("hard"), "soft": number("soft"),
        "n_failure_patches": count("n_failure_patches"), "n_success_patches": count("n_success_patches"),
    })
}

/// Calls and tokens by stage; the sum of all is left out.
pub(super) fn tokens(asked: Option<&Value>) -> TokensByStage {
    let mut by_stage = IndexMap::new();
    for (stage, used) in asked.and_then(Value::as_object).into_iter().flatten() {
        let of = |key: &str| used.get(key).and_then(Value::as_u64).unwrap_or_default();
        if stage != "_total" && used.is_object() {
            let mut tokens = StageTokens::default();
            tokens.calls = of("calls");
            tokens.prompt_tokens = of("prompt_tokens");
            tokens.cached_tokens = of("cached_tokens");
            tokens.completion_tokens = of("completion_tokens");
            by_stage.insert(stage.clone(), tokens);
        }
    }
    by_stage
}

/// A result in our form: what we have no field for is an extra. `None` for what has no id.
pub(super) fn result(row: &Value) -> Option<RolloutResult> {
    let fields = row.as_object()?;
    let id = match fields.get("id")? {
        Value::String(id) => id.clone(),
        Value::Number(id) => id.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    let score = |key: &str| match fields.get(key) {
        Some(Value::Bool(is_solved)) => f64::from(u8::from(*is_solved)),
        Some(value) => value.as_f64().unwrap_or_default(),
        None => 0.0,
    };
    let mut result = RolloutResult::new(id.into(), score("hard"), score("soft"));
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("id" | "hard" | "soft", _) => {}
            ("n_turns", Value::Number(turns)) => {
                result.n_turns =
                    turns.as_u64().and_then(|turns| u32::try_from(turns).ok()).unwrap_or_default();
            }
            ("conversation", said)
                if serde_json::from_value::<Vec<TrajectoryMessage>>(said.clone()).is_ok() =>
            {
                let messages: Vec<TrajectoryMessage> =
                    serde_json::from_value(said.clone()).unwrap_or_default();
                result.trajectory = Trajectory::of_messages(messages);
            }
            ("extras", Value::Object(extras)) => result.extras.extend(extras.clone()),
            (name, Value::String(text)) if TEXTS.contains(&name) => {
                let place = match name {
                    "fail_reason" => &mut result.fail_reason,
                    "task_type" => &mut result.task_type,
                    "task_description" => &mut result.task_description,
                    "predicted_answer" => &mut result.predicted_answer,
                    "question" => &mut result.question,
                    "reference_text" => &mut result.reference_text,
                    "target_system_prompt" => &mut result.target_system_prompt,
                    _ => &mut result.target_user_prompt,
                };
                place.clone_from(text);
            }
            (_, value) => drop(result.extras.insert(key.clone(), value.clone())),
        }
    }
    Some(result)
}

/// A configuration without keys: three names are redacted there, others are written as they are.
pub(super) fn without_secrets(config: &Value) -> Value {
    match config {
        Value::Object(members) => {
            let is_secret =
                |name: &str| ["api_key", "secret", "token", "password"].iter().any(|end| name.ends_with(end));
            let kept = members.iter().map(|(name, value)| {
                let value =
                    if is_secret(name) && value.is_string() { json!("") } else { without_secrets(value) };
                (name.clone(), value)
            });
            Value::Object(kept.collect())
        }
        other => other.clone(),
    }
}

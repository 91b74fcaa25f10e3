//! Records of steps, results and tokens of other systems in our form.

use super::run_step::StepFacts;
use indexmap::IndexMap;
use serde_json::{Map, Value, json};
use skill_core::member;
use skill_core::{Gate, GateMetric, MeanScore, NamedEnum as _, RolloutResult, Trajectory, TrajectoryMessage};
use skill_pipeline::records::document::StepRecord;
use skill_pipeline::records::{StageTokens, TokensByStage};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

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

/// The seed of a run whose configuration names none.
const USUAL_SEED: u64 = 42;

/// How a run decided, by its configuration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Settings {
    pub(super) gate: Gate,
    seed: u64,
}

impl Settings {
    /// Reads a configuration; the error is what is wrong with it.
    pub(super) fn of(config: &Value) -> Result<Self, String> {
        let fields = object(config)?;
        let seed = member::count(fields, "seed").map_err(wrong)?;
        Ok(Self { gate: gate(fields)?, seed: seed.unwrap_or(USUAL_SEED) })
    }
}

/// The members of a file of one object; a file that is missing has none.
pub(super) fn object(file: &Value) -> Result<&Map<String, Value>, String> {
    static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    match file {
        Value::Object(fields) => Ok(fields),
        Value::Null => Ok(&EMPTY),
        other => Err(format!("is {}; expected an object", member::kind_of(other))),
    }
}

/// What is wrong with a member, as the end of "config.json ...".
pub(super) fn wrong(error: impl std::fmt::Display) -> String {
    format!("has a wrong value: {error}")
}

/// The gate of a run, by its configuration; names and numbers are read as SkillOpt reads them.
fn gate(config: &Map<String, Value>) -> Result<Gate, String> {
    let metric = match member::text(config, "gate_metric").map_err(wrong)? {
        Some(name) => metric_of(name).map_err(wrong)?,
        None => GateMetric::default(),
    };
    let mixed_weight = match config.get("gate_mixed_weight") {
        Some(Value::String(text)) => match text.trim().parse::<f64>() {
            Ok(weight) if weight.is_finite() => Some(weight),
            Ok(_) | Err(_) => {
                return Err(wrong(format!("`gate_mixed_weight` is {text:?}; expected a number")));
            }
        },
        _ => member::number(config, "gate_mixed_weight").map_err(wrong)?,
    };
    Ok(Gate { metric, mixed_weight: mixed_weight.unwrap_or(Gate::default().mixed_weight) })
}

fn metric_of(name: &str) -> Result<GateMetric, String> {
    GateMetric::parse(&name.trim().to_lowercase())
        .ok_or_else(|| format!("`gate_metric` is {name:?}; expected {}", GateMetric::NAMES.join(", ")))
}

/// The initial skill's scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Baseline {
    pub(super) mean: MeanScore,
    /// Under the gate's metric.
    pub(super) score: f64,
}

impl Baseline {
    pub(super) fn new(mean: MeanScore, gate: Gate) -> Self {
        Self { mean, score: gate.score(mean) }
    }
}

/// The steps in our form; what of them has no counterpart goes to `notes`, with the reason.
pub(super) fn history(
    rows: &[Value],
    settings: Settings,
    baseline: Baseline,
    facts: &BTreeMap<u64, StepFacts>,
    notes: &mut Vec<(String, String)>,
) -> Vec<StepRecord> {
    let mut records = Vec::new();
    let mut before = Scores { current: baseline.score, best: baseline.score, best_step: 0 };
    let mut unknown = BTreeSet::new();
    for row in rows {
        let Some(fields) = row.as_object() else {
            notes.push(("history.json".to_owned(), "a row that is not an object was left out".to_owned()));
            continue;
        };
        unknown.extend(fields.keys().filter(|key| !KNOWN.contains(&key.as_str())).cloned());
        let step = fields.get("step").map_or_else(|| "without a number".to_owned(), Value::to_string);
        let place = format!("history.json step {step}");
        let read = record(fields, settings, before, facts).and_then(|step| {
            let record: StepRecord =
                serde_json::from_value(step.record).map_err(|error| error.to_string())?;
            Ok((record, step.missing, step.action))
        });
        match read {
            Ok((record, missing, action)) => {
                before = Scores {
                    current: record.current_score,
                    best: record.best_score,
                    best_step: u64::from(record.best_step.0),
                };
                records.push(record);
                if !missing.is_empty() {
                    let keys: Vec<String> = missing.iter().map(|key| format!("`{key}`")).collect();
                    let reason = format!(
                        "{} missing: scores and the best step are those of the step before, other numbers 0",
                        keys.join(", ")
                    );
                    notes.push((place, reason));
                }
                if let Some(action) = action {
                    notes.push((
                        format!("action {action}"),
                        "no counterpart of this action; the step's notes name it".to_owned(),
                    ));
                }
            }
            Err(fault) => notes.push((place, format!("was left out: {fault}"))),
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

/// Scores of the run after a step.
#[derive(Debug, Clone, Copy)]
struct Scores {
    current: f64,
    best: f64,
    best_step: u64,
}

/// A step as it was read.
struct Step {
    record: Value,
    /// The keys that every step has there, and this one has not.
    missing: Vec<&'static str>,
    /// Its action, if there is none like it.
    action: Option<String>,
}

/// The members of an object that should all be there.
struct Row<'a> {
    fields: &'a Map<String, Value>,
    missing: Vec<&'static str>,
}

impl Row<'_> {
    fn count(&mut self, key: &'static str, otherwise: u64) -> Result<u64, String> {
        let found = member::count(self.fields, key).map_err(|error| error.to_string())?;
        Ok(found.unwrap_or_else(|| self.without(key, otherwise)))
    }

    fn number(&mut self, key: &'static str, otherwise: f64) -> Result<f64, String> {
        let found = member::number(self.fields, key).map_err(|error| error.to_string())?;
        Ok(found.unwrap_or_else(|| self.without(key, otherwise)))
    }

    fn without<T>(&mut self, key: &'static str, otherwise: T) -> T {
        self.missing.push(key);
        otherwise
    }
}

/// One step; the error is what its row has that no step has.
fn record(
    fields: &Map<String, Value>,
    settings: Settings,
    before: Scores,
    facts: &BTreeMap<u64, StepFacts>,
) -> Result<Step, String> {
    let say = |error: member::WrongType| error.to_string();
    let step = member::count(fields, "step").map_err(say)?.ok_or("`step` is missing")?;
    let mut row = Row { fields, missing: Vec::new() };
    let (epoch, in_epoch) = (row.count("epoch", 1)?, row.count("step_in_epoch", 0)?);
    let facts = facts.get(&step).cloned().unwrap_or_default();
    let ids = facts.batch_item_ids;
    let micro = member::list(fields, "accumulation_batches").map_err(say)?.unwrap_or_default();
    let first_seed = match micro.first() {
        Some(first) => member::count(micro_fields(first)?, "batch_seed").map_err(say)?,
        None => None,
    };
    let batch_seed = first_seed.unwrap_or(settings.seed + 1000 * epoch + in_epoch + 1);
    let asked = member::text(fields, "action").map_err(say)?.unwrap_or_default();
    let (action, note) = match asked {
        "accept_new_best" | "accept" | "force_accept" | "reject" | "skip_no_patches" | "skip_no_rewrite" => {
            (asked, None)
        }
        _ => ("skip_no_patches", Some("the action there is not known here")),
    };
    let metric = match member::text(fields, "gate_metric").map_err(say)? {
        Some(name) => metric_of(name)?,
        None => settings.gate.metric,
    };
    let rollout_n = member::count(fields, "rollout_n").map_err(say)?.unwrap_or(ids.len() as u64);
    let mut record = json!({
        "step": step, "epoch": epoch, "step_in_epoch": in_epoch, "batch_seed": batch_seed,
        "rollout_n": rollout_n, "batch_item_ids": ids,
        "rollout_hard": row.number("rollout_hard", 0.0)?,
        "rollout_soft": row.number("rollout_soft", 0.0)?,
        "n_failure_patches": row.count("n_failure_patches", 0)?,
        "n_success_patches": row.count("n_success_patches", 0)?,
        "gate_metric": metric, "action": action, "score_before": before.current,
        "current_score": row.number("current_score", before.current)?,
        "best_score": row.number("best_score", before.best)?,
        "best_step": row.count("best_step", before.best_step)?,
        "tokens": tokens(fields, "tokens")?,
    });
    let members = record.as_object_mut().expect("a step is written as an object");
    // Those that a step has only if it came so far.
    for key in [
        "edit_budget",
        "n_edits_merged",
        "n_edits_ranked",
        "candidate_hash",
        "candidate_skill_len",
        "selection_hard",
        "selection_soft",
        "candidate_gate_score",
    ] {
        if let Some(value) = fields.get(key).filter(|value| !value.is_null()) {
            members.insert(key.to_owned(), value.clone());
        }
    }
    if let Some(n_items) = facts.n_selection {
        members.insert("selection_n_seen".to_owned(), json!(n_items));
        members.insert("selection_n".to_owned(), json!(n_items));
    }
    for key in ["apply_report", "edit_apply_summary"] {
        let Some(report) = member::object(fields, key).map_err(say)? else { continue };
        let of = |key: &str| Ok::<_, String>(member::count(report, key).map_err(say)?.unwrap_or_default());
        let counts = json!({"total": of("total")?, "applied": of("applied")?, "skipped": of("skipped")? + of("errors")?});
        members.entry("apply_report").or_insert(counts);
    }
    if micro.len() > 1 {
        let micro = micro.iter().map(micro_batch).collect::<Result<Value, _>>()?;
        members.insert("accumulation_batches".to_owned(), micro);
    }
    if let Some(note) = note {
        members.insert("notes".to_owned(), json!([note]));
    }
    Ok(Step { record, missing: row.missing, action: note.map(|_| asked.to_owned()) })
}

fn micro_fields(value: &Value) -> Result<&Map<String, Value>, String> {
    object(value).map_err(|fault| format!("an entry of `accumulation_batches` {fault}"))
}

/// One of several micro-batches.
fn micro_batch(value: &Value) -> Result<Value, String> {
    let mut row = Row { fields: micro_fields(value)?, missing: Vec::new() };
    let record = json!({
        "batch_idx": row.count("batch_idx", 0)?, "batch_seed": row.count("batch_seed", 0)?,
        "n_envs": row.count("n_envs", 0)?, "hard": row.number("hard", 0.0)?, "soft": row.number("soft", 0.0)?,
        "n_failure_patches": row.count("n_failure_patches", 0)?,
        "n_success_patches": row.count("n_success_patches", 0)?,
    });
    match row.missing.first() {
        None => Ok(record),
        Some(key) => Err(format!("an entry of `accumulation_batches` has no `{key}`")),
    }
}

/// Calls and tokens by stage, which are below this key; the sum of all is left out.
pub(super) fn tokens(fields: &Map<String, Value>, key: &str) -> Result<TokensByStage, String> {
    let say = |error: member::WrongType| error.to_string();
    let mut by_stage = IndexMap::new();
    let stages = member::object(fields, key).map_err(say)?;
    for (stage, used) in stages.into_iter().flatten() {
        let within = |fault: String| format!("`{key}.{stage}`: {fault}");
        if stage == "_total" || used.is_null() {
            continue;
        }
        let used = object(used).map_err(within)?;
        let of = |key: &str| {
            let found = member::count(used, key).map_err(|error| within(error.to_string()))?;
            Ok::<_, String>(found.unwrap_or_default())
        };
        let mut tokens = StageTokens::default();
        tokens.calls = of("calls")?;
        tokens.prompt_tokens = of("prompt_tokens")?;
        tokens.cached_tokens = of("cached_tokens")?;
        tokens.completion_tokens = of("completion_tokens")?;
        by_stage.insert(stage.clone(), tokens);
    }
    Ok(by_stage)
}

/// The results of a file, and what is missing in its rows.
#[derive(Debug, Default)]
pub(super) struct Results {
    pub(super) results: Vec<RolloutResult>,
    /// Rows without an id.
    pub(super) n_nameless: usize,
    /// By the name of a score, the items that have none: it counts as 0, as SkillOpt has it.
    pub(super) without_score: BTreeMap<&'static str, Vec<String>>,
}

/// Results in our form; the error names the row and what is wrong with it.
pub(super) fn results(rows: &[Value]) -> Result<Results, String> {
    let mut read = Results::default();
    for (row, number) in rows.iter().zip(1..) {
        let id = match row.get("id") {
            Some(Value::String(id)) => id.clone(),
            Some(Value::Number(id)) => id.to_string(),
            Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => {
                read.n_nameless += 1;
                continue;
            }
        };
        let fields = object(row)?;
        let mut score = |key: &'static str| match fields.get(key) {
            Some(Value::Bool(is_solved)) => Ok(f64::from(u8::from(*is_solved))),
            _ => match member::number(fields, key) {
                Ok(Some(score)) => Ok(score),
                Ok(None) => {
                    read.without_score.entry(key).or_default().push(id.clone());
                    Ok(0.0)
                }
                Err(error) => Err(format!("has a wrong score in row {number}, item `{id}`: {error}")),
            },
        };
        let (hard, soft) = (score("hard")?, score("soft")?);
        read.results.push(result(fields, RolloutResult::new(id.into(), hard, soft)));
    }
    Ok(read)
}

/// A result in our form: what we have no field for is an extra.
fn result(fields: &Map<String, Value>, mut result: RolloutResult) -> RolloutResult {
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("id" | "hard" | "soft", _) => {}
            ("n_turns", Value::Number(turns)) => {
                match turns.as_u64().and_then(|turns| u32::try_from(turns).ok()) {
                    Some(n_turns) => result.n_turns = n_turns,
                    None => drop(result.extras.insert(key.clone(), value.clone())),
                }
            }
            ("conversation", said) => match serde_json::from_value::<Vec<TrajectoryMessage>>(said.clone()) {
                Ok(messages) => result.trajectory = Trajectory::of_messages(messages),
                Err(_) => drop(result.extras.insert(key.clone(), value.clone())),
            },
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
    result
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

//! A configuration of SkillOpt as one of ours.

use super::Outcome;
use super::config_file::{Entry, load};
use super::error::ImportError;
use super::skillopt_env::{self, Found};
use super::skillopt_model;
use crate::config::{Config, keys};
use serde_json::Value;
use skill_core::rewrite::UpdateMode;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// What becomes of a key.
#[derive(Debug, Clone, Copy)]
enum Rule {
    /// It is this one here, with the same values; where there is no such key, the value that changes nothing is the
    /// second.
    Same(&'static str, Off),
    /// It is this one here, if the second, a flag there, is on; else it has no effect.
    Part(&'static str, &'static str),
    /// There is none: this value changes nothing, and any other has this consequence.
    None(Off, &'static str),
    /// It says what follows from other settings anyway.
    Derived(&'static str),
}

/// The value of a key that switches off what it is about.
#[derive(Debug, Clone, Copy)]
enum Off {
    No,
    Yes,
    Number(i64),
    Word(&'static str),
    Never,
}

impl Off {
    fn is(self, value: &Value) -> bool {
        match self {
            Self::No => flag(value) == Some(false),
            Self::Yes => flag(value) == Some(true),
            Self::Number(number) => value.as_i64() == Some(number),
            Self::Word(word) => value.as_str() == Some(word),
            Self::Never => false,
        }
    }
}

const REWRITE: &str = "is about rewriting whole skills";
const SUBSET: &str =
    "only so many items are evaluated there; here it is the whole split: give it fewer items";

/// Keys of training, gate and evaluation; those of models and environments have modules of their own.
const RULES: [(&str, Rule); 44] = [
    ("num_epochs", Rule::Same("train.epochs", Off::Never)),
    ("batch_size", Rule::Same("train.batch_size", Off::Never)),
    ("accumulation", Rule::Same("train.accumulation", Off::Number(1))),
    ("minibatch_size", Rule::Same("train.minibatch_size", Off::Never)),
    ("merge_batch_size", Rule::Same("train.merge_batch_size", Off::Never)),
    ("edit_budget", Rule::Same("train.edit_budget", Off::Never)),
    ("min_edit_budget", Rule::Same("train.min_edit_budget", Off::Never)),
    ("lr_scheduler", Rule::Same("train.schedule", Off::Never)),
    ("seed", Rule::Same("run.seed", Off::Never)),
    ("failure_only", Rule::Same("train.failure_only", Off::No)),
    ("gate_metric", Rule::Same("gate.metric", Off::Never)),
    ("gate_mixed_weight", Rule::Same("gate.mixed_weight", Off::Never)),
    ("eval_test", Rule::Same("eval.test", Off::Never)),
    ("skill_update_mode", Rule::Same("train.update_mode", Off::Word("patch"))),
    ("use_gate", Rule::Same("gate.enabled", Off::Yes)),
    ("use_semantic_density", Rule::None(Off::No, "a bonus for words like `must` is added to scores there")),
    ("semantic_density_weight", Rule::None(Off::Never, "belongs to use_semantic_density")),
    ("leading_words", Rule::None(Off::Never, "belongs to use_semantic_density")),
    ("slow_update_samples", Rule::Part("train.slow_update_samples", "use_slow_update")),
    ("slow_update_gate_with_selection", Rule::Part("train.slow_update", "use_slow_update")),
    ("longitudinal_pair_policy", Rule::Part("train.pair_policy", "use_slow_update")),
    // After its parts, which ask whether it is on.
    ("use_slow_update", Rule::Same("train.slow_update", Off::No)),
    ("use_meta_skill", Rule::Same("train.meta_skill", Off::No)),
    ("skill_aware_appendix_source", Rule::Part("train.appendix_source", "use_skill_aware_reflection")),
    ("skill_aware_consolidate_threshold", Rule::Part("train.appendix_limit", "use_skill_aware_reflection")),
    ("use_skill_aware_reflection", Rule::Same("train.skill_aware", Off::No)),
    ("sel_env_num", Rule::None(Off::Number(0), SUBSET)),
    ("test_env_num", Rule::None(Off::Number(0), SUBSET)),
    ("limit", Rule::None(Off::Number(0), SUBSET)),
    ("rewrite_reasoning_effort", Rule::None(Off::Never, REWRITE)),
    ("rewrite_max_completion_tokens", Rule::None(Off::Never, REWRITE)),
    ("codex_trace_to_optimizer", Rule::None(Off::Never, "belongs to an agent program as target")),
    ("human_feedback.enabled", Rule::None(Off::No, "a person decides at each gate")),
    ("human_feedback.timeout_seconds", Rule::None(Off::Never, "belongs to human_feedback.enabled")),
    ("human_feedback.on_timeout", Rule::None(Off::Never, "belongs to human_feedback.enabled")),
    ("human_feedback.max_retries_per_step", Rule::None(Off::Never, "belongs to human_feedback.enabled")),
    ("train_size", Rule::Derived("the number of items decides")),
    ("steps_per_epoch", Rule::Derived("SkillOpt computes it too")),
    ("batches_per_epoch", Rule::Derived("SkillOpt computes it too")),
    ("samples_per_epoch", Rule::Derived("SkillOpt computes it too")),
    ("meta_edit_budget", Rule::Derived("SkillOpt does not use it")),
    ("max_analyst_rounds", Rule::Derived("SkillOpt no longer uses it")),
    ("codex_exec_full_auto", Rule::Derived("SkillOpt no longer uses it")),
    ("resolved_qwen_thinking_modes", Rule::Derived("SkillOpt computes it")),
];

/// The keys that are read, and what was made of them.
pub(super) struct Draft {
    entries: BTreeMap<String, Entry>,
    /// Keys here with their values in TOML.
    set: Vec<(String, String)>,
    pub(super) outcome: Outcome,
    /// The first value that is nothing of what it should be.
    fault: Option<String>,
}

impl Draft {
    pub(super) fn new(entries: Vec<Entry>) -> Self {
        let entries = entries.into_iter().map(|entry| (entry.flat.clone(), entry)).collect();
        Self { entries, set: Vec::new(), outcome: Outcome::default(), fault: None }
    }

    /// Takes a key, so that nothing else speaks of it; blank ones are not set.
    pub(super) fn take(&mut self, flat: &str) -> Option<Entry> {
        self.entries.remove(flat).filter(|entry| !is_blank(&entry.value))
    }

    /// Takes a key that may be blank.
    pub(super) fn take_even_blank(&mut self, flat: &str) -> Option<Entry> {
        self.entries.remove(flat)
    }

    /// Looks at a key and leaves it for another.
    pub(super) fn text(&self, flat: &str) -> Option<String> {
        self.entries.get(flat).and_then(|entry| text(&entry.value))
    }

    /// Sets a key here; the first value stays.
    pub(super) fn set(&mut self, key: &str, value: impl Into<Value>) {
        if !self.set.iter().any(|(set, _)| set == key) {
            self.set.push((key.to_owned(), crate::config::to_toml(&value.into())));
        }
    }

    /// Sets a key here from one there.
    pub(super) fn set_from(&mut self, entry: &Entry, key: &str, value: impl Into<Value>) {
        self.set(key, value);
        self.outcome.map(entry.key.as_str(), key);
    }

    pub(super) fn lose(&mut self, entry: &Entry, reason: impl Into<String>) {
        self.outcome.lose(entry.key.as_str(), shown(&entry.key, &entry.value), reason);
    }

    pub(super) fn idle(&mut self, entry: &Entry, reason: impl Into<String>) {
        let value = shown(&entry.key, &entry.value);
        self.outcome.idle.push(super::Unmapped::new(entry.key.as_str(), value, reason));
    }

    /// The value of a key that is left for another.
    pub(super) fn value(&self, flat: &str) -> Option<&Value> {
        self.entries.get(flat).map(|entry| &entry.value).filter(|value| !is_blank(value))
    }

    /// The keys that nobody has taken, as the flat form has them.
    pub(super) fn names(&self) -> Vec<String> {
        self.entries.keys().cloned().collect()
    }

    /// Whether a key here has a value already.
    pub(super) fn has(&self, key: &str) -> bool {
        self.set.iter().any(|(set, _)| set == key)
    }

    /// Sets the keys of a section here to those that another has, where it has none of its own.
    pub(super) fn copy_section(&mut self, from: &str, to: &str) {
        let copies: Vec<(String, String)> = self
            .set
            .iter()
            .filter_map(|(key, value)| {
                let name = key.strip_prefix(from)?.strip_prefix('.')?;
                Some((format!("{to}.{name}"), value.clone()))
            })
            .filter(|(key, _)| !self.has(key))
            .collect();
        self.set.extend(copies);
    }

    fn is_set(&self, flat: &str, off: Off) -> bool {
        self.entries.get(flat).is_some_and(|entry| !is_blank(&entry.value) && !off.is(&entry.value))
    }
}

/// Reads a configuration; `dir` is where ours will stand, and `name` what it is called.
pub(super) fn import(path: &Path, dir: &Path, name: &str) -> Result<Outcome, ImportError> {
    let mut draft = Draft::new(load(path)?);
    let found = |asked: &str| skillopt_env::find(path, asked);
    skillopt_model::map(&mut draft);
    let files = skillopt_env::map(&mut draft, &Found { find: &found, dir });
    map_training(&mut draft);
    // SkillOpt measures nothing once more at the end.
    draft.set("eval.fresh", false);
    let mut outcome = finish(path, name, draft)?;
    outcome.files.extend(files);
    Ok(outcome)
}

/// Lists the keys that nobody has taken, and writes the configuration.
pub(super) fn finish(path: &Path, name: &str, draft: Draft) -> Result<Outcome, ImportError> {
    let (text, mut outcome) = written(path, draft)?;
    let origin = path.file_name().unwrap_or_default().to_string_lossy();
    if let Err(error) = Config::parse(&text, &origin, &[]) {
        let message = error.to_string();
        outcome.lose(origin.as_ref(), "", format!("what was written is not complete yet: {message}"));
    }
    outcome.files = vec![(name.to_owned(), text.into_bytes())];
    Ok(outcome)
}

/// Lists the keys that nobody has taken, and returns the text of the configuration, complete or not.
pub(super) fn written(path: &Path, mut draft: Draft) -> Result<(String, Outcome), ImportError> {
    let rest: Vec<Entry> = std::mem::take(&mut draft.entries).into_values().collect();
    for entry in rest.iter().filter(|entry| !is_blank(&entry.value)) {
        draft.lose(entry, "no counterpart");
    }
    if let Some(fault) = draft.fault.take() {
        let advice = "fix the value, there or in the file of `_base_` that has it";
        return Err(ImportError::bad(path, fault, advice));
    }
    Ok((render(path, &draft), draft.outcome))
}

/// Reads the settings that a run of skillrl 1.0 keeps. Models and tasks were objects in Python, and are in no file.
pub(super) fn import_skillrl(path: &Path, name: &str) -> Result<Outcome, ImportError> {
    let mut draft = Draft::new(load(path)?);
    skillopt_env::map_run_dir(&mut draft);
    for (flat, usual) in SKILLRL_SPLITS {
        if let Some(entry) = draft.take(flat) {
            match text(&entry.value).as_deref() {
                Some(word) if word == usual => draft.idle(&entry, "is the split that is read here too"),
                _ => draft.lose(&entry, format!("the split that is read here is `{usual}`")),
            }
        }
    }
    for (flat, reason) in SKILLRL_IDLE {
        if let Some(entry) = draft.take(flat) {
            draft.idle(&entry, reason);
        }
    }
    if let Some(entry) = draft.take("optimizer_max_completion_tokens") {
        match entry.value.as_u64() {
            Some(tokens) => draft.set_from(&entry, "models.optimizer.max_tokens", tokens),
            None => draft.lose(&entry, "is not a whole number"),
        }
    }
    map_training(&mut draft);
    // What skillrl 1.0 does not have, and is on by default here.
    draft.set("train.slow_update", "off");
    draft.set("train.meta_skill", false);
    draft.set("eval.fresh", false);
    draft.outcome.lose("models", "", "were objects in Python: write [models.target] and [models.optimizer]");
    draft.outcome.lose("environment", "", "was an object in Python: write [env]");
    finish(path, name, draft)
}

/// Splits of skillrl 1.0 by the key that names them, with the names that they have here.
const SKILLRL_SPLITS: [(&str, &str); 2] = [("selection_split", "val"), ("test_split", "test")];

/// Settings of skillrl 1.0 without effect on results.
const SKILLRL_IDLE: [(&str, &str); 2] =
    [("save_every_step", "a run here keeps the skill after each step"), ("verbose", "is --quiet or -v here")];

fn map_training(draft: &mut Draft) {
    // What belongs to something that is off is idle, so the switches are looked at before they are taken.
    let rewrites = draft.is_set("skill_update_mode", Off::Word("patch"));
    let switched = ["use_semantic_density", "human_feedback.enabled"]
        .map(|switch| (switch, draft.is_set(switch, Off::No)));
    map_slow_update(draft);
    map_budget_control(draft);
    for (flat, rule) in RULES {
        let Some(mut entry) = draft.take(flat) else { continue };
        if flat == "skill_update_mode"
            && let Some(mode) = entry.value.as_str().and_then(UpdateMode::from_reference)
        {
            entry.value = mode.as_str().into();
        }
        match rule {
            Rule::Same(key, off) => same(draft, &entry, key, off),
            Rule::Part(key, switch) if draft.is_set(switch, Off::No) => same(draft, &entry, key, Off::Never),
            Rule::Part(_, switch) => draft.idle(&entry, format!("has no effect: belongs to {switch}")),
            Rule::Derived(reason) => draft.idle(&entry, reason),
            Rule::None(off, reason) if off.is(&entry.value) => draft.idle(
                &entry,
                format!("changes nothing with this value; other values have no counterpart: {reason}"),
            ),
            Rule::None(_, reason) => {
                let belongs = switched.iter().find(|(switch, _)| reason.ends_with(switch));
                let is_on = match (flat, belongs) {
                    (_, Some((_, is_on))) => *is_on,
                    (_, None) => reason != REWRITE || rewrites,
                };
                if is_on {
                    draft.lose(&entry, reason);
                } else {
                    draft.idle(&entry, format!("has no effect: {reason}"));
                }
            }
        }
    }
    for flat in ["workers", "analyst_workers"] {
        let Some(entry) = draft.take(flat) else { continue };
        match entry.value.as_u64() {
            Some(workers) if flat == "workers" || !draft.set.iter().any(|(key, _)| key == "run.workers") => {
                draft.set_from(&entry, "run.workers", workers.clamp(1, 4096));
            }
            _ => draft.idle(&entry, "one number bounds all calls in flight: run.workers"),
        }
    }
}

/// One key here, of two there: whether there is a slow update, and whether the gate decides about it.
fn map_slow_update(draft: &mut Draft) {
    const KEY: &str = "train.slow_update";
    if keys::find(KEY).is_none() || draft.value("use_slow_update").is_none() {
        return;
    }
    let is_gated = draft.value("slow_update_gate_with_selection").and_then(flag);
    let word = match (draft.is_set("use_slow_update", Off::No), is_gated) {
        (false, _) => "off",
        (true, Some(true)) => "gated",
        (true, Some(false) | None) => "force",
    };
    draft.set(KEY, word);
}

/// Who decides the number of edits: one mode of control there is a schedule here.
fn map_budget_control(draft: &mut Draft) {
    const AUTONOMOUS: &str = "autonomous";
    let is_rewritten = draft.text("skill_update_mode").as_deref().and_then(UpdateMode::from_reference)
        == Some(UpdateMode::FullRewriteMinibatch);
    let Some(entry) = draft.take("lr_control_mode") else { return };
    match text(&entry.value).as_deref() {
        _ if is_rewritten => draft.idle(&entry, "has no effect: a whole rewrite has no number of edits"),
        Some("fixed") => draft.idle(&entry, "train.schedule decides here too"),
        Some(AUTONOMOUS) => {
            draft.set_from(&entry, "train.schedule", AUTONOMOUS);
            if let Some(entry) = draft.take("lr_scheduler") {
                draft.idle(&entry, "has no effect: the optimizer chooses the number of edits");
            }
        }
        _ => draft.lose(&entry, "the number of edits has no limit there; here train.edit_budget is one"),
    }
}

/// Sets a key here to the value of one there.
pub(super) fn same_value(draft: &mut Draft, entry: &Entry, key: &str) {
    same(draft, entry, key, Off::Never);
}

fn same(draft: &mut Draft, entry: &Entry, key: &str, off: Off) {
    let Some((_, spec)) = keys::find(key) else {
        if off.is(&entry.value) {
            return draft.idle(entry, "changes nothing with this value, and has no counterpart");
        }
        return draft.lose(entry, "no counterpart");
    };
    if draft.has(key) {
        // Several keys there are one here, and have been read together.
        return draft.outcome.map(entry.key.as_str(), key);
    }
    match read_as(spec.value, &entry.value) {
        Ok(value) => draft.set_from(entry, key, value),
        Err(Misfit::OutOfRange) => {
            draft.lose(entry, format!("`{key}` takes {}", spec.value.expectation()));
        }
        Err(Misfit::Kind) => {
            let expected = spec.value.expectation();
            let fault = format!("has {} for `{}`, which takes {expected}", entry.value, entry.key);
            draft.fault.get_or_insert(fault);
        }
    }
}

/// Why a value cannot are here.
enum Misfit {
    /// It is of the right kind, and beyond what we take.
    OutOfRange,
    /// It is nothing of the kind.
    Kind,
}

/// A value as one of our keys takes it.
fn read_as(value_type: keys::ValueType, value: &Value) -> Result<Value, Misfit> {
    match value_type {
        keys::ValueType::Flag => flag(value).map(Value::from).ok_or(Misfit::Kind),
        keys::ValueType::Choice(words) => match value.as_str() {
            Some(word) if words.contains(&word) => Ok(value.clone()),
            Some(_) => Err(Misfit::OutOfRange),
            None => Err(Misfit::Kind),
        },
        keys::ValueType::Integer { min, max } => match value.as_u64() {
            Some(number) if (min..=max).contains(&number) => Ok(value.clone()),
            Some(_) => Err(Misfit::OutOfRange),
            None if value.is_number() => Err(Misfit::OutOfRange),
            None => Err(Misfit::Kind),
        },
        keys::ValueType::Number { min, max } => match value.as_f64() {
            Some(number) if (min..=max).contains(&number) => Ok(value.clone()),
            Some(_) => Err(Misfit::OutOfRange),
            None => Err(Misfit::Kind),
        },
        _ => Ok(value.clone()),
    }
}

/// The configuration file: sections in the order of the table of keys.
fn render(path: &Path, draft: &Draft) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut text = format!("# Made by `skillrl import` from {name}.\n");
    for section in keys::sections() {
        let mut lines = String::new();
        for key in section.keys() {
            let path = section.path_of(key);
            for (_, value) in draft.set.iter().filter(|(set, _)| *set == path) {
                let _ = writeln!(lines, "{} = {value}", key.name);
            }
        }
        if !lines.is_empty() {
            let _ = write!(text, "\n[{}]\n{lines}", section.path);
        }
    }
    text
}

/// Whether a key is there without a value.
fn is_blank(value: &Value) -> bool {
    value.is_null()
        || value.as_str().is_some_and(|text| text.trim().is_empty())
        || value.as_object().is_some_and(serde_json::Map::is_empty)
}

/// A flag, also in the words of YAML 1.1.
pub(super) fn flag(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(word) => match word.to_lowercase().as_str() {
            "true" | "yes" | "on" => Some(true),
            "false" | "no" | "off" => Some(false),
            _ => None,
        },
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A value as text: names that look like numbers were meant as names.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A value for a list; secrets are not shown.
fn shown(key: &str, value: &Value) -> String {
    const MAX_CHARS: usize = 80;
    if key.ends_with("api_key") || key.ends_with("secret") || key.ends_with("token") {
        return "(a secret)".to_owned();
    }
    value.as_str().map_or_else(|| value.to_string(), str::to_owned).chars().take(MAX_CHARS).collect()
}

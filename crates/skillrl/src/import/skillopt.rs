//! A configuration of SkillOpt as one of ours.

use super::Outcome;
use super::config_file::load;
use super::skillopt_env::{self, Found};
use super::skillopt_model;
use crate::config::mapping::draft::{Draft, Entry, flag, text};
use crate::config::{Config, keys};
use crate::error::ImportError;
use serde_json::Value;
use skill_core::rewrite::UpdateMode;
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

/// Reads a configuration; `dir` is where ours will stand, and `name` what it is called.
pub(super) fn import(path: &Path, dir: &Path, name: &str) -> Result<Outcome, ImportError> {
    let mut draft = Draft::new(load(path)?);
    let found = |asked: &str| skillopt_env::find(path, asked);
    skillopt_model::map(&mut draft);
    let files = skillopt_env::map(&mut draft, &Found { find: &found, dir })?;
    map_training(&mut draft);
    // SkillOpt measures nothing once more at the end.
    draft.set("eval.fresh", false);
    let mut outcome = finish(path, name, draft)?;
    outcome.files.extend(files);
    Ok(outcome)
}

/// Lists the keys that nobody has taken, and writes the configuration.
pub(super) fn finish(path: &Path, name: &str, draft: Draft) -> Result<Outcome, ImportError> {
    const ADVICE: &str = "fix the value, there or in the file of `_base_` that has it";
    let (text, mut mapping) = draft.written(path).map_err(|fault| ImportError::bad(path, fault, ADVICE))?;
    let origin = path.file_name().unwrap_or_default().to_string_lossy();
    if let Err(error) = Config::parse(&text, &origin, &[]) {
        let message = error.to_string();
        if mapping.missing.is_empty() {
            mapping.need(message.clone());
        }
        mapping.lose(origin.as_ref(), "", format!("what was written is not complete yet: {message}"));
    }
    Ok(Outcome { files: vec![(name.to_owned(), text.into_bytes())], mapping })
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
    draft.mapping.lose("models", "", "were objects in Python: write [models.target] and [models.optimizer]");
    draft.mapping.lose("environment", "", "was an object in Python: write [env]");
    finish(path, name, draft)
}

/// Splits of skillrl 1.0 by the key that names them, with the names that they have here.
const SKILLRL_SPLITS: [(&str, &str); 2] = [("selection_split", "val"), ("test_split", "test")];

/// Settings of skillrl 1.0 without effect on results.
const SKILLRL_IDLE: [(&str, &str); 2] =
    [("save_every_step", "a run here keeps the skill after each step"), ("verbose", "is --quiet or -v here")];

fn map_training(draft: &mut Draft) {
    // What belongs to something that is off is idle, so the switches are looked at before they are taken.
    let rewrites = is_set(draft, "skill_update_mode", Off::Word("patch"));
    let switched = ["use_semantic_density", "human_feedback.enabled"]
        .map(|switch| (switch, is_set(draft, switch, Off::No)));
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
            Rule::Part(key, switch) if is_set(draft, switch, Off::No) => same(draft, &entry, key, Off::Never),
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
            Some(workers) if flat == "workers" || !draft.has("run.workers") => {
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
    let word = match (is_set(draft, "use_slow_update", Off::No), is_gated) {
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

fn is_set(draft: &Draft, flat: &str, off: Off) -> bool {
    draft.value(flat).is_some_and(|value| !off.is(value))
}

/// Sets a key here to the value of one there; where there is no such key, `off` is the value that changes nothing.
fn same(draft: &mut Draft, entry: &Entry, key: &str, off: Off) {
    if keys::find(key).is_none() && off.is(&entry.value) {
        return draft.idle(entry, "changes nothing with this value, and has no counterpart");
    }
    draft.same(entry, key);
}

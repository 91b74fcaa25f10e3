//! Pruning a skill as configured: in which order its rules are tried, and where the result is kept.

use crate::call_cache::CallCache;
use crate::config::{LoadedConfig, ModelRole};
use crate::engine::Engine;
use crate::error::Error;
use crate::trainer;
use serde_json::Value;
use skill_core::rules::SkillRule;
use skill_core::{NonInferiority, SkillDoc, SkillPackage};
use skill_envs::Env;
use skill_envs::folder::write_folder;
use skill_pipeline::provenance::{Blame, LineOrigin, Version, blame};
use skill_pipeline::prune::{PruneRecord, PruneSettings, RuleToTry};
use skill_pipeline::run_dir::{atomic, read_text};
use skill_pipeline::stage::{Draws, StageCtx};
use skill_pipeline::{EventSink, PipelineError, RunReader, Stage, StopSignal};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directory of a pruning below that of its run.
pub const PRUNED_DIR: &str = "pruned";
/// The record of a pruning.
pub const RECORD_FILE: &str = "prune.json";
/// The skill that is left, if it is one document.
const SKILL_FILE: &str = "skill.md";
/// The skill that is left, if it is a folder.
const SKILL_DIR: &str = "skill";

/// What is pruned, and how far.
#[derive(Debug, Clone, PartialEq)]
pub struct PruneOptions {
    /// The skill.
    pub skill: SkillDoc,
    /// The rules to try, in order; see [`order`].
    pub order: Vec<RuleToTry>,
    /// How much lower the score may be.
    pub margin: f64,
    /// Where the skill that is left and the record are written.
    pub out: PathBuf,
}

/// The order in which rules are tried, with what put each into the skill, where a run knows that: rules that no step
/// comes after come first, then those whose step won least. Equals keep the order of the skill.
///
/// # Errors
///
/// A run that cannot be read; a directory without one, or without a measured skill, knows nothing.
pub fn order(run: &Path, skill: &SkillDoc, rules: &[SkillRule]) -> Result<Vec<RuleToTry>, PipelineError> {
    let blamed = match RunReader::open(run).and_then(|run| blame(&run, Version::Text(skill))) {
        Ok(blamed) => Some(blamed),
        Err(PipelineError::NoRun { .. } | PipelineError::NotMeasured { .. }) => None,
        Err(error) => return Err(error),
    };
    let mut order: Vec<(Option<i64>, RuleToTry)> = rules
        .iter()
        .enumerate()
        .map(|(rule_idx, rule)| {
            let origin = blamed.as_ref().and_then(|blamed| origin_of(blamed, rule));
            let won = blamed.as_ref().zip(origin).and_then(|(blamed, origin)| net_wins(blamed, origin));
            (won, RuleToTry { rule_idx, origin })
        })
        .collect();
    order.sort_by_key(|(won, _)| *won);
    Ok(order.into_iter().map(|(_, tried)| tried).collect())
}

/// What put a rule into the skill: the last step that wrote a line of it.
fn origin_of(blamed: &Blame, rule: &SkillRule) -> Option<LineOrigin> {
    let lines = blamed.lines.get(rule.lines.clone()).unwrap_or_default();
    lines.iter().map(|line| line.origin).max_by_key(|origin| origin.step())
}

/// How many items the step behind an origin won, less those that it lost.
fn net_wins(blamed: &Blame, origin: LineOrigin) -> Option<i64> {
    let step = origin.step()?;
    let evidence = blamed.steps.iter().find(|evidence| evidence.step == step)?;
    let count = |items: usize| i64::try_from(items).unwrap_or(i64::MAX);
    Some(count(evidence.won.len()) - count(evidence.lost.len()))
}

/// Prunes a skill with the models of the configuration, through the journal of its run: what is there is not paid for
/// again, and the same call goes on where another one stopped.
///
/// The draws are those of a fresh evaluation, which decided nothing in training: a score that a skill was selected by
/// would be a bar that is too high.
///
/// # Errors
///
/// Models that cannot be built, a place that cannot be written or holds another pruning, and faults of the models or the
/// environment. What was decided before is in the record.
pub async fn prune(
    loaded: &LoadedConfig,
    engine: &mut Engine<'_>,
    env: &Arc<dyn Env>,
    options: &PruneOptions,
    events: &dyn EventSink,
    stop: &StopSignal,
) -> Result<(PathBuf, PruneRecord), Error> {
    let settings = trainer::settings(&loaded.config)?;
    let target = engine.model(ModelRole::Target)?;
    let rule = NonInferiority { gate: settings.gate, margin: options.margin };
    check_place(options, settings.gate.metric.as_str())?;
    let calls = CallCache::in_dir(&loaded.run_dir())?;
    calls.count_spent(engine);
    let per_item = settings.evidence.selection_repeats;
    let ctx = StageCtx {
        draws: Draws { first: per_item, per_item },
        workers: settings.workers,
        halt: stop.soon.clone(),
        cancel: stop.now.clone(),
        journal: Some(calls.journal.clone()),
        ..StageCtx::new(Stage::Evaluate, events)
    };
    let prune_settings = PruneSettings { rule, early_stop: settings.early_stop, seed: settings.seed };
    let mut written = PathBuf::new();
    let told = |record: &PruneRecord, skill: &SkillDoc| {
        written = write_skill(&options.out, skill)?;
        atomic::write_json(&options.out.join(RECORD_FILE), record)
    };
    let rollouts = calls.rollouts(env, target);
    let pruned =
        skill_pipeline::prune::prune(&rollouts, &options.skill, &options.order, &prune_settings, &ctx, told)
            .await;
    // What was paid for is kept, however it ended.
    calls.journal.flush().await.map_err(PipelineError::from)?;
    let (_, record) = pruned?;
    Ok((written, record))
}

/// Refuses a place with a pruning of something else.
fn check_place(options: &PruneOptions, metric: &str) -> Result<(), Error> {
    let path = options.out.join(RECORD_FILE);
    let Some(text) = read_text(&path)? else { return Ok(()) };
    let corrupt = |error: serde_json::Error| PipelineError::Corrupt {
        path: path.clone(),
        message: format!("is not JSON: {error}"),
    };
    let stored: Value = serde_json::from_str(&text).map_err(corrupt)?;
    let asked = [
        ("skill", "skill_before", Value::from(options.skill.hash().as_str())),
        ("--margin", "margin", Value::from(options.margin)),
        ("gate.metric", "gate_metric", Value::from(metric)),
    ];
    for (name, key, asked) in asked {
        let was = stored.get(key).unwrap_or(&Value::Null);
        if *was != asked {
            let change = format!("{name} was {was} and is {asked}");
            return Err(Error::OtherPruning { path: options.out.clone(), change });
        }
    }
    Ok(())
}

/// Writes the skill that is left: a document, or a folder.
fn write_skill(out: &Path, skill: &SkillDoc) -> Result<PathBuf, PipelineError> {
    let package = SkillPackage::of(skill);
    if package.references.is_empty() && package.carried.is_empty() {
        let path = out.join(SKILL_FILE);
        atomic::write(&path, skill.source_text().as_bytes())?;
        return Ok(path);
    }
    let path = out.join(SKILL_DIR);
    write_folder(&path, &package).map_err(atomic::failed("write", &path))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A directory with this file; without bytes it is a directory itself.
    fn dir_with(name: &str, bytes: Option<&[u8]>) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        match bytes {
            Some(bytes) => fs::write(dir.path().join(name), bytes).unwrap(),
            None => fs::create_dir(dir.path().join(name)).unwrap(),
        }
        dir
    }

    #[test]
    fn a_run_that_cannot_be_read_is_not_one_that_knows_nothing() {
        const CONFIG: &[u8] = br#"{"format_version": "2.0", "config": null, "identity": {}}"#;
        let skill = SkillDoc::new("- One.\n");
        for (name, bytes, is_read) in [
            ("other", Some(&b""[..]), true),
            ("config.json", Some(CONFIG), true),
            ("config.json", Some(b"{"), false),
            ("config.json", Some(&[0xff]), false),
        ] {
            let run = dir_with(name, bytes);
            let found = order(run.path(), &skill, &skill_core::rules::skill_rules(&skill));
            assert_eq!(found.as_ref().ok().map(Vec::len), is_read.then_some(1), "{found:?}");
        }
    }

    #[test]
    fn a_place_whose_record_cannot_be_read_is_not_an_empty_one() {
        let skill = SkillDoc::new("- One.\n");
        for (name, bytes, is_empty) in [
            ("other", Some(&b""[..]), true),
            (RECORD_FILE, Some(b"{"), false),
            (RECORD_FILE, Some(&[0xff]), false),
            (RECORD_FILE, None, false),
        ] {
            let dir = dir_with(name, bytes);
            let out = dir.path().to_owned();
            let options = PruneOptions { skill: skill.clone(), order: Vec::new(), margin: 0.0, out };
            let checked = check_place(&options, "hard");
            assert_eq!(checked.is_ok(), is_empty, "{checked:?}");
            if let Err(error) = checked {
                let is_named = matches!(
                    &error,
                    Error::Pipeline(PipelineError::RunDir { path, .. } | PipelineError::Corrupt { path, .. })
                        if path.ends_with(RECORD_FILE)
                );
                assert!(is_named, "{error:?}");
            }
        }
    }
}

//! `skillrl eval --out`: the directory that one measurement is kept in.

use super::UsageError;
use serde_json::Value;
use skillrl::core::{RolloutResult, SkillDoc};
use skillrl::envs::Item;
use skillrl::llm::{Journal, JournalOptions};
use skillrl::pipeline::PipelineError;
use skillrl::pipeline::run_dir::format::EvaluationSummary;
use skillrl::pipeline::run_dir::{RESULTS_FILE, RunDir, SUMMARY_FILE, atomic, is_run};
use std::collections::BTreeSet;
use std::path::Path;

/// The directory, held, with the journal of its calls: what was measured there before is not measured again.
pub(super) struct EvalOut {
    dir: RunDir,
    pub(super) journal: Journal,
}

impl EvalOut {
    /// Takes the directory, before anything is paid for.
    ///
    /// # Errors
    ///
    /// A directory that is a run's, or holds the measurement of another skill or of other items, unless that is to be
    /// replaced; one that cannot be written.
    pub(super) fn open(path: &Path, skill: &SkillDoc, items: &[Item], force: bool) -> anyhow::Result<Self> {
        if is_run(path) {
            // Its summary and its journal would become those of this evaluation.
            let message = format!("{} is the directory of a run, which this would damage", path.display());
            return Err(UsageError::new(message).with_hint("name another directory with `--out`").into());
        }
        if let Some(other) = other_measurement(path, skill, items).filter(|_| !force) {
            let message = format!("{} holds {other}, which this would replace", path.display());
            let hint = "name another directory with `--out`, or replace it with --force";
            return Err(UsageError::new(message).with_hint(hint).into());
        }
        let dir = RunDir::open(path).map_err(skillrl::Error::Pipeline)?;
        let journal = dir.open_journal(JournalOptions::default(), false).map_err(skillrl::Error::Pipeline)?;
        Ok(Self { dir, journal })
    }

    pub(super) fn write(
        &self,
        results: &[RolloutResult],
        summary: &EvaluationSummary,
    ) -> Result<(), PipelineError> {
        // Who is killed in between leaves results without a summary, and not with one of something else.
        self.dir.remove_summary()?;
        atomic::write_json(&self.dir.path().join(RESULTS_FILE), &results)?;
        atomic::write_json(&self.dir.path().join(SUMMARY_FILE), summary)
    }
}

/// What else than this measurement a directory holds, in words.
fn other_measurement(path: &Path, skill: &SkillDoc, items: &[Item]) -> Option<String> {
    let read = |name: &str| match std::fs::read(path.join(name)) {
        Ok(bytes) => Some(serde_json::from_slice::<Value>(&bytes).unwrap_or_default()),
        Err(_) => None,
    };
    if let Some(summary) = read(SUMMARY_FILE) {
        match summary.get("skill_hash").and_then(Value::as_str) {
            None => return Some(format!("a {SUMMARY_FILE} that is no measurement")),
            Some(hash) if hash != skill.hash().as_str() => {
                return Some(format!("the measurement of another skill ({hash})"));
            }
            Some(_) => {}
        }
    }
    let results = read(RESULTS_FILE)?;
    let ids = results.as_array().into_iter().flatten().filter_map(|result| result.get("id")?.as_str());
    let (ids, asked): (BTreeSet<&str>, BTreeSet<&str>) =
        (ids.collect(), items.iter().map(|item| item.id.as_str()).collect());
    (ids != asked).then(|| "a measurement on other items".to_owned())
}

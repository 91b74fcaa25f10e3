//! Runs of this program as episodes for a teacher: a collection that is already paid for.
//!
//! Only rollouts of training tasks become episodes. Those of tasks for trials, for validation and for the test are
//! counted and left out.
//!
//! # Invariants
//!
//! - A teacher reads only rollouts of training tasks of a run, never those of trials, validation or test. Held by
//!   `rollouts_of_training_tasks_of_a_run_become_skills`,
//!   `an_episode_of_a_run_names_the_skill_that_the_agent_was_shown`.

use crate::error::PipelineError;
use crate::event::{Stage, StageKind};
use crate::run_dir::{JOURNAL_FILE, RunReader};
use crate::stage::rollout::recorded_result;
use skill_bank::Episode;
use skill_core::{ItemId, RolloutResult, SkillDoc, StepIdx};
use skill_llm::journal::JournalReader;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// How many results are read from the journal at once.
const PAGE: u32 = 256;

skill_core::named_enum! {
    /// What the tasks of a rollout are for.
    #[derive(PartialOrd, Ord)]
    pub enum RolloutUse {
        /// Training: a teacher may read them.
        Train = "train",
        /// Trials of skills: only their scores are used.
        Trial = "trial",
        /// Decisions about what is kept.
        Val = "val",
        /// The last measurement.
        Test = "test",
        /// Something outside of training, such as a check by hand.
        Other = "other",
    }
}

impl RolloutUse {
    fn of(stage: Stage) -> Self {
        match stage.kind() {
            StageKind::Training => Self::Train,
            StageKind::Trial => Self::Trial,
            StageKind::Selection | StageKind::Fresh => Self::Val,
            StageKind::Test => Self::Test,
            StageKind::Optimizer => Self::Other,
        }
    }

    /// The use of the rollouts at a place of the journal, such as `step 3 / rollout / q7`.
    fn at(place: &str) -> Self {
        let is_step =
            |part: &&str| part.strip_prefix("step ").is_some_and(|step| step.parse::<u32>().is_ok());
        let stage = place.split(" / ").find(|part| !is_step(part)).unwrap_or_default();
        Stage::parse(stage).map_or(Self::Other, Self::of)
    }
}

/// The rollouts of a run.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct RunEpisodes {
    /// Those of training tasks, in the order of the run. Each has its item, its scores, the document or the skills that
    /// were shown, and its place in the run.
    pub episodes: Vec<Episode>,
    /// How many of each other use were left out.
    pub left_out: BTreeMap<RolloutUse, usize>,
}

/// Reads the rollouts of a run that trained a document or a bank from its directory and its journal.
///
/// # Errors
///
/// A directory without a run, a journal that is missing or cannot be read, a rollout in it that cannot be read, and a
/// history or a skill of the run that cannot be read.
pub fn run_episodes(run: &Path) -> Result<RunEpisodes, PipelineError> {
    let reader = RunReader::open(run)?;
    let environment =
        reader.config().identity.get("env.name").and_then(|name| name.as_str()).unwrap_or_default();
    let journal_path = run.join(JOURNAL_FILE);
    let journal = JournalReader::open_at_rest(&journal_path)?;
    let mut read = RunEpisodes::default();
    let mut found: Vec<(String, RolloutResult)> = Vec::new();
    let mut held_out: BTreeSet<ItemId> = BTreeSet::new();
    let mut last = 0;
    loop {
        let rows = journal.next_results(last, PAGE)?;
        let Some(row) = rows.last() else { break };
        last = row.id;
        for row in rows {
            let Some(result) = recorded_result(&row, &journal_path)? else { continue };
            match RolloutUse::at(&row.place) {
                RolloutUse::Train => found.push((row.place, result)),
                other => {
                    if matches!(other, RolloutUse::Trial | RolloutUse::Val | RolloutUse::Test) {
                        held_out.insert(result.id.clone());
                    }
                    *read.left_out.entry(other).or_default() += 1;
                }
            }
        }
    }
    // A task of two uses is not a task for training.
    let n_found = found.len();
    found.retain(|(_, result)| !held_out.contains(&result.id));
    if n_found > found.len() {
        *read.left_out.entry(RolloutUse::Other).or_default() += n_found - found.len();
    }
    found.sort_by_cached_key(|(place, result)| {
        (step_of(place), place_of(place, result), result.id.clone(), result.trajectory.sample)
    });
    let documents = documents(&reader)?;
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    for (place, result) in found {
        let place = place_of(&place, &result);
        let id = format!("{}/{place}/{}", result.id, result.trajectory.sample);
        // What was begun ahead with a skill that did not stay is there twice.
        let number = numbers.entry(id.clone()).or_default();
        *number += 1;
        let id = if *number > 1 { format!("{id}/{number}") } else { id };
        let mut episode = Episode::of_rollout(id, environment, &result);
        episode.skill = shown(&documents, &result);
        episode.place = place;
        read.episodes.push(episode);
    }
    Ok(read)
}

fn step_of(place: &str) -> u32 {
    let first = place.split(" / ").next().unwrap_or_default();
    first.strip_prefix("step ").and_then(|step| step.parse().ok()).unwrap_or(0)
}

/// The place without its item.
fn place_of(place: &str, result: &RolloutResult) -> String {
    let item = format!(" / {}", result.id);
    place.strip_suffix(&item).unwrap_or(place).to_owned()
}

/// The documents of a run, the longest first; empty for a run that keeps none.
fn documents(reader: &RunReader) -> Result<Vec<SkillDoc>, PipelineError> {
    let history = reader.history()?;
    let skills = reader.skills(&history)?;
    // A run that trains a bank has no initial document.
    let initial = [skills.after(StepIdx(0)).ok(), reader.skill_of(StepIdx(0), None).ok()];
    let mut documents: Vec<SkillDoc> = initial.into_iter().flatten().collect();
    for record in &history {
        documents.extend([skills.after(record.step)?, reader.skill_of(record.step, None)?]);
    }
    documents.sort_by_key(|skill| std::cmp::Reverse(skill.agent_view().len()));
    documents.dedup();
    Ok(documents)
}

/// The hash of the document that is in the prompt of a rollout; empty where none is.
fn shown(documents: &[SkillDoc], result: &RolloutResult) -> String {
    let is_in = |text: &str| {
        let first = result.trajectory.messages.iter().take(2).map(|message| message.content.as_str());
        std::iter::once(result.target_system_prompt.as_str()).chain(first).any(|prompt| prompt.contains(text))
    };
    let found = documents.iter().find(|skill| is_in(skill.agent_view().trim()));
    found.map(|skill| skill.hash().to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{ConfigFile, RunIdentity};
    use crate::run_dir::RunDir;
    use skill_llm::journal::{ResultKey, StoredResult};
    use skill_llm::{Journal, JournalOptions};
    use std::fs;

    /// The items of the episodes of a run whose journal has a result of this kind and content; an error names the file.
    async fn check(kind: &str, content: &str, state: Option<&str>, expect: Result<usize, &str>) {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::open(dir.path()).unwrap();
        run.write_config(&ConfigFile::new(serde_json::Value::Null, RunIdentity::default()), None).unwrap();
        if let Some(state) = state {
            fs::write(dir.path().join("runtime_state.json"), state).unwrap();
        }
        let path = dir.path().join(JOURNAL_FILE);
        let journal = Journal::open(&path, JournalOptions::default()).unwrap();
        let stored = StoredResult { place: "collect / q1".to_owned(), content: content.to_owned() };
        journal.record_result(ResultKey::new(kind, &[]), kind, "q1", stored);
        journal.flush().await.unwrap();
        drop(journal);
        let found = run_episodes(dir.path()).map(|read| read.episodes.len()).map_err(|error| match error {
            PipelineError::Corrupt { path, .. } => path,
            other => panic!("{other:?}"),
        });
        assert_eq!(found, expect.map_err(|name| dir.path().join(name)));
    }

    #[tokio::test]
    async fn a_rollout_or_a_history_that_cannot_be_read_is_no_missing_one() {
        let result = RolloutResult::new(ItemId::new("q1"), 1.0, 1.0);
        let whole = serde_json::json!({"result": result, "calls": 1, "usage": skill_core::Usage::default()});
        let whole = whole.to_string();
        check("rollout", &whole, None, Ok(1)).await;
        check("another kind", "{}", None, Ok(0)).await;
        check("rollout", "{}", None, Err(JOURNAL_FILE)).await;
        check("rollout", &whole, Some("{"), Err("runtime_state.json")).await;
    }

    #[test]
    fn the_place_tells_what_a_rollout_was_for() {
        for (place, expect) in [
            ("collect / q1", RolloutUse::Train),
            ("step 3 / rollout / q1", RolloutUse::Train),
            ("step 3 / rollout / batch 2 / draw 2 / q1", RolloutUse::Train),
            ("step 3 / rollout_prev / q1", RolloutUse::Train),
            ("step 3 / trial / batch 1 / q1", RolloutUse::Trial),
            ("baseline / q1", RolloutUse::Val),
            ("step 3 / evaluate / q1", RolloutUse::Val),
            ("evaluate / rollout / q1", RolloutUse::Val),
            ("fresh_best / q1", RolloutUse::Val),
            ("test_baseline / q1", RolloutUse::Test),
            ("test_best / rollout", RolloutUse::Test),
            ("try / rollout / q1", RolloutUse::Other),
            ("step three / rollout / q1", RolloutUse::Other),
            ("", RolloutUse::Other),
        ] {
            assert_eq!(RolloutUse::at(place), expect, "{place}");
        }
    }
}

//! Whole trainings of skillrl in a world, in this process.

use crate::search::models::{Count, INITIAL_SKILL, SimEnv, SimModel};
use crate::search::world::{Family, Sizes, World};
use serde::{Deserialize, Serialize};
use skill_core::SkillDoc;
use skill_llm::JournalOptions;
use skill_pipeline::{
    Event, EventSink, PipelineError, RunReader, StepAction, StepRecord, StopSignal, TrainSettings, Trainer,
};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Attempts at each task of the test split that a score is the mean of: they cost nothing here.
const TEST_ATTEMPTS: usize = 5;

/// Why a training has no outcome.
pub type TrainFailure = Box<dyn std::error::Error + Send + Sync>;

/// What a training came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The share of test tasks that an agent with the best skill solves.
    pub score: f64,
    /// Calls of the agent for the search.
    pub target_calls: u64,
    /// Calls of the optimizer.
    pub optimizer_calls: u64,
    /// Tokens of both.
    pub tokens: u64,
    /// Candidates that were proposed.
    pub candidates: u64,
    /// Candidates that were taken.
    pub accepted: u64,
}

/// Stops a run after the step in which its calls are used up.
struct StopAt {
    calls: u64,
    counts: [Arc<Count>; 2],
    stop: CancellationToken,
}

impl EventSink for StopAt {
    fn emit(&self, event: &Event) {
        let is_end = matches!(event, Event::StepFinished { .. } | Event::EpochEnded { .. });
        if is_end && self.counts.iter().map(|count| count.calls()).sum::<u64>() >= self.calls {
            self.stop.cancel();
        }
    }
}

/// Trains with these settings in the world of a seed, and stops after the step in which so many calls of both models
/// are used up.
///
/// # Errors
///
/// Those of training.
pub async fn train(
    family: Family,
    seed: u64,
    sizes: Sizes,
    settings: &TrainSettings,
    calls: u64,
) -> Result<Outcome, TrainFailure> {
    let world = Arc::new(World::new(family, seed, sizes));
    let dir = tempfile::tempdir()?;
    let (target, optimizer) = (SimModel::target(&world), SimModel::optimizer(&world));
    let counts = [Arc::clone(&target.count), Arc::clone(&optimizer.count)];
    let settings = TrainSettings {
        seed,
        workers: 1,
        eval_test: false,
        evidence: skill_pipeline::Evidence { fresh: false, ..settings.evidence },
        ..settings.clone()
    };
    // Nothing here is worth a wait for the disk.
    let journal = JournalOptions { group_window: Duration::ZERO, ..JournalOptions::default() };
    let stop = StopSignal::default();
    let stop_at = StopAt { calls, counts: counts.clone(), stop: stop.after_step.clone() };
    let run = dir.path().join("run");
    let trained = Trainer::new(Arc::new(SimEnv::new(&world)), Arc::new(target), Arc::new(optimizer))
        .with_settings(settings)
        .with_initial_skill(SkillDoc::new(INITIAL_SKILL))
        .with_journal_options(journal)
        .with_events(Arc::new(stop_at))
        .with_stop(stop)
        .train(&run)
        .await;
    match trained {
        Ok(_) | Err(PipelineError::Stopped { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let skill = std::fs::read_to_string(run.join("best_skill.md"))?;
    let history = RunReader::open(&run)?.history()?;
    Ok(Outcome::of(&world, &skill, &counts, &history))
}

impl Outcome {
    fn of(world: &World, skill: &str, [target, optimizer]: &[Arc<Count>; 2], history: &[StepRecord]) -> Self {
        let count = |is_one: fn(StepAction) -> bool| {
            history.iter().filter(|record| is_one(record.action)).count() as u64
        };
        Self {
            score: world.measure(2, skill, TEST_ATTEMPTS),
            target_calls: target.calls(),
            optimizer_calls: optimizer.calls(),
            tokens: target.tokens() + optimizer.tokens(),
            candidates: count(|action| !action.is_skip()),
            accepted: count(StepAction::is_accept),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skill_core::search_plan::SearchBudget;
    use skill_pipeline::{Protocol, SearchLimits};

    #[test]
    fn a_training_learns_within_its_calls_and_comes_out_the_same_twice() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let budget = SearchBudget { calls: Some(250.0), ..SearchBudget::default() };
        let search = SearchLimits { budget, ..SearchLimits::default() };
        let settings = TrainSettings { protocol: Protocol::Auto, search, ..TrainSettings::default() };
        let sizes = Sizes { train: 20, val: 20, test: 50 };
        let outcomes =
            [0, 1].map(|_| runtime.block_on(train(Family::Additive, 1, sizes, &settings, u64::MAX)).unwrap());
        assert_eq!(outcomes[0], outcomes[1]);
        let Outcome { score, target_calls, optimizer_calls, .. } = outcomes[0];
        assert!(score > 0.1, "{score}");
        assert!(target_calls + optimizer_calls <= 250, "{target_calls} {optimizer_calls}");
    }
}

//! A run of reinforcement learning in short, for lists of runs and for those who look on.

use super::metrics::trained;
use super::{RlFiles, RlRow};
use crate::data::ending::last_event;
use indexmap::IndexMap;
use serde::Serialize;
use serde_json::Value;
use skill_pipeline::records::sft::SftGames;
use skill_pipeline::records::signs::{RlFinding, signs_of};
use skill_pipeline::run_dir::is_held;
use skill_pipeline::{PipelineError, RunReader};

/// A run of reinforcement learning in short. What has no other name is of the last finished iteration.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct RlBrief {
    /// True if the run has come to its end.
    pub is_finished: bool,
    /// Finished iterations.
    pub iteration: u64,
    /// Iterations of the whole run, where that is known.
    pub total_iterations: Option<u64>,
    /// The mean return of the first iteration: scores less penalties.
    pub first_reward: Option<f64>,
    /// The mean return.
    pub reward: Option<f64>,
    /// Won and played episodes of the first iteration.
    pub first_episodes: Option<[usize; 2]>,
    /// Won and played episodes.
    pub episodes: Option<[usize; 2]>,
    /// Won and played episodes by type of task.
    pub by_task_type: IndexMap<String, [usize; 2]>,
    /// The share of groups without a signal.
    pub groups_without_signal: Option<f64>,
    /// The KL divergence from the reference policy, in nats per token; `None` where it was not computed.
    pub kl: Option<f64>,
    /// The share of tokens whose gradient was clipped away.
    pub clipped: Option<f64>,
    /// The mean entropy of the sampled tokens of the first iteration that trained, in nats.
    pub first_entropy: Option<f64>,
    /// The mean entropy of the last iteration that trained.
    pub entropy: Option<f64>,
    /// The mean number of sampled tokens of an episode in the first iteration.
    pub first_reply_tokens: Option<f64>,
    /// The mean number of sampled tokens of an episode.
    pub reply_tokens: Option<f64>,
    /// The mean number of invalid actions of an episode.
    pub invalid_actions: Option<f64>,
    /// The norm of the gradient, before clipping.
    pub grad_norm: Option<f64>,
    /// Games before the first iteration, where games are played.
    pub first_games: Option<SftGames>,
    /// Games with the last weights that were measured.
    pub games: Option<SftGames>,
    /// Signs of a run that goes wrong which hold after the last iteration, with what to try.
    pub signs: Vec<RlFinding>,
    /// Tokens that were trained on.
    pub tokens: u64,
    /// Tokens that were sampled.
    pub sampled_tokens: u64,
    /// Seconds of the last iteration.
    pub iteration_seconds: Option<f64>,
    /// Sampled tokens per second of the last iteration, with its training.
    pub tokens_per_second: Option<f64>,
    /// Seconds of work, up to the last checkpoint.
    pub seconds: Option<f64>,
    /// The last finished iteration.
    #[serde(skip)]
    pub last: Option<RlRow>,
    /// Seconds until the last iteration is done, while a process works on the run: from the iterations that it has
    /// done, with their games.
    pub seconds_left: Option<f64>,
}

impl RlBrief {
    /// Reads a run.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is not what it should be. Files that do not exist yet are not errors.
    pub fn read(run: &RunReader) -> Result<Self, PipelineError> {
        Ok(Self::of(run, &RlFiles::read(run.path())?))
    }

    pub(super) fn of(run: &RunReader, files: &RlFiles) -> Self {
        let RlFiles { iterations, validations, summary, times } = files;
        let live = run.live();
        let iteration = iterations.last().map_or(0, |last| last.iteration);
        // A finished run may be extended, and its summary stays until the longer run has one.
        let finished = summary.as_ref().filter(|summary| summary.iterations >= iteration);
        let finished = finished.filter(|_| !is_held(run.path()));
        let started = || {
            let event =
                last_event(run.path(), "step_started").or_else(|| last_event(run.path(), "run_started"));
            event?.get("total_steps")?.as_u64()
        };
        let total_iterations = match (&live, finished) {
            (Some(live), _) => Some(live.total_steps.into()),
            (None, Some(summary)) => Some(summary.iterations),
            (None, None) => started(),
        };
        let event = last_event(run.path(), "rl_iteration_finished");
        let iteration_seconds = event
            .as_ref()
            .filter(|event| event.pointer("/record/iteration").and_then(Value::as_u64) == Some(iteration))
            .and_then(|event| event.get("seconds")?.as_f64());
        let row =
            |record: Option<&_>| record.map(|record: &_| RlRow::new(Clone::clone(record), iteration_seconds));
        let (first, last) = (row(iterations.first()), row(iterations.last()));
        // An iteration without a step has none.
        let mut entropies =
            iterations.iter().filter(|found| found.steps > 0).filter_map(|found| found.entropy);
        let first_entropy = entropies.next();
        let games =
            |place: Option<&skill_pipeline::records::rl::RlValidation>| place.map(|found| found.games);
        Self {
            is_finished: finished.is_some(),
            iteration,
            total_iterations,
            first_reward: first.as_ref().map(|first| first.record.reward),
            reward: last.as_ref().map(|last| last.record.reward),
            first_episodes: first.as_ref().map(|first| [first.record.won, first.record.episodes]),
            episodes: last.as_ref().map(|last| [last.record.won, last.record.episodes]),
            groups_without_signal: last.as_ref().map(|last| last.record.groups_without_signal),
            kl: last.as_ref().and_then(|last| trained(last, |record| record.kl)),
            clipped: last.as_ref().and_then(|last| trained(last, |record| record.clipped)),
            first_entropy,
            entropy: entropies.next_back().or(first_entropy),
            first_reply_tokens: first.as_ref().map(|first| first.reply_tokens),
            reply_tokens: last.as_ref().map(|last| last.reply_tokens),
            invalid_actions: last.as_ref().map(|last| last.invalid_actions),
            grad_norm: last.as_ref().and_then(|last| trained(last, |record| record.grad_norm)),
            first_games: games(validations.first().filter(|found| found.iteration == 0)),
            games: games(validations.last()),
            signs: signs_of(iterations).into_iter().filter(|found| found.holds_at(iteration)).collect(),
            tokens: iterations.iter().map(|found| found.tokens).sum(),
            sampled_tokens: iterations.iter().map(|found| found.sampled_tokens).sum(),
            iteration_seconds,
            tokens_per_second: last.as_ref().and_then(|last| last.tokens_per_second),
            seconds: times.map(|times| times.seconds),
            seconds_left: live.and_then(|live| live.run_seconds_left()),
            by_task_type: last.as_ref().map(|last| last.record.by_task_type.clone()).unwrap_or_default(),
            last,
        }
    }
}

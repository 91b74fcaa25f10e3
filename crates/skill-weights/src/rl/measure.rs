//! The time that GRPO takes on this machine, from a few episodes and a step on them.

use super::lessons::lessons;
use super::rollout::{Group, Table};
use super::run::record_of;
use super::trainer::RlTrainer;
use crate::policy::weights_error;
use crate::sft::peak_memory;
use serde::Serialize;
use skill_envs::Split;
use skill_pipeline::error::PipelineError;
use std::sync::Arc;
use std::time::Instant;

/// Measured episodes, and what a run of this length would take.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RlCost {
    /// Episodes that were played: the group of one task.
    pub measured_episodes: usize,
    /// Seconds in which they were played, side by side.
    pub play_seconds: f64,
    /// Seconds of an optimizer step on all of them.
    pub step_seconds: f64,
    /// Tokens that the step trained on.
    pub step_tokens: u64,
    /// Episodes of an iteration.
    pub episodes: usize,
    /// Iterations of the run.
    pub iterations: u64,
    /// Seconds of an iteration at the measured rates.
    pub iteration_seconds: f64,
    /// Seconds of the whole run, with the games along the way.
    pub seconds: f64,
    /// The most memory that this process has used, in bytes; `None` where the system does not tell.
    pub peak_memory: Option<u64>,
}

impl RlTrainer {
    /// Plays the group of one task, trains a step on it that changes no weight, and scales both up to the run. Nothing is
    /// written. It is an upper estimate: groups without a signal are not trained on, and larger waves are faster.
    ///
    /// # Errors
    ///
    /// Settings that cannot work, no training task, and faults of the model or the environment.
    pub async fn measured(&self) -> Result<RlCost, PipelineError> {
        self.settings.validate()?;
        let mut trainer = self.clone();
        (trainer.settings.learning_rate, trainer.settings.weight_decay) = (0.0, 0.0);
        let settings = &trainer.settings;
        let failed = weights_error(1, settings.iterations);
        // No iteration of a run has this number.
        let iteration = 0;
        let tasks = trainer.tasks(iteration);
        let groups: Vec<Group<'_>> = tasks.iter().take(1).map(|item| Group::whole(item)).collect();
        if groups.is_empty() {
            let env = trainer.env.name().to_owned();
            return Err(PipelineError::EmptySplit { env, split: Split::Train });
        }
        let table = Table {
            env: &trainer.env,
            source: Arc::clone(&trainer.source),
            backend: &trainer.backend,
            text: &trainer.text,
            settings,
            cancel: &trainer.shell.stop.now,
            events: &trainer.shell.events,
        };
        let began = Instant::now();
        let mut played = table.play(iteration, &groups).await?;
        let play_seconds = began.elapsed().as_secs_f64();
        // A group in which all episodes end alike would leave nothing to train on.
        for (place, played) in played.iter_mut().enumerate() {
            played.reward = (place % 2) as f64;
            played.outcome.score = played.reward;
        }
        let (lessons, share) = lessons(settings, &played).map_err(&failed)?;
        let mut record = record_of(iteration, groups.len(), &played, share);
        let began = Instant::now();
        if !lessons.is_empty() {
            trainer.update((iteration, 0), &lessons, &mut record).await.map_err(&failed)?;
        }
        let step_seconds = began.elapsed().as_secs_f64();
        let measured_episodes = played.len();
        let episodes = tasks.len() * settings.group_size;
        let per_episode = |seconds: f64| seconds / measured_episodes.max(1) as f64;
        let iteration_seconds = per_episode(play_seconds + step_seconds) * episodes as f64;
        let n_games = trainer.games.as_ref().map_or(0, |games| games.n_games()) as f64;
        let n_validations = (settings.iterations.div_ceil(settings.validation_interval) + 1) as f64;
        let seconds = iteration_seconds * settings.iterations as f64
            + n_games * n_validations * per_episode(play_seconds);
        Ok(RlCost {
            measured_episodes,
            play_seconds,
            step_seconds,
            step_tokens: record.tokens,
            episodes,
            iterations: settings.iterations,
            iteration_seconds,
            seconds,
            peak_memory: peak_memory(),
        })
    }
}

//! Groups of episodes, played side by side.

use super::settings::RlSettings;
use crate::error::PipelineError;
use crate::weights::{EpisodeChat, EpisodeRow, PolicyText, Wave, WaveCalls, shared_fault};
use futures_util::future::join_all;
use skill_envs::{Env, EnvError, Item, RolloutCtx, SkillSource};
use skill_llm::{CallCtx, CallPlace, ErrorClass};
use skill_train::seam::{GenerationSettings, TrainBackend};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// How the runs of calls are called.
const RUN: &str = "rl waves";

/// An episode that was played.
#[derive(Debug, Clone)]
pub(super) struct Played {
    /// The place of its task in the iteration.
    pub(super) group: usize,
    pub(super) task_type: String,
    pub(super) is_success: bool,
    pub(super) invalid_actions: u32,
    /// The score less the penalties.
    pub(super) reward: f64,
    pub(super) rows: Vec<EpisodeRow>,
}

/// What episodes are played with.
pub(super) struct Table<'run> {
    pub(super) env: &'run dyn Env,
    pub(super) source: &'run dyn SkillSource,
    pub(super) backend: &'run Arc<dyn TrainBackend>,
    pub(super) text: &'run PolicyText,
    pub(super) settings: &'run RlSettings,
    pub(super) cancel: &'run CancellationToken,
}

impl Table<'_> {
    /// A group of episodes of each of these tasks, in their order.
    ///
    /// A prompt that has outgrown its limit ends its episode, which keeps what it has said.
    pub(super) async fn play(&self, iteration: u64, items: &[&Item]) -> Result<Vec<Played>, PipelineError> {
        let settings = self.settings;
        let n_episodes = items.len() * settings.group_size;
        let generation = GenerationSettings {
            temperature: settings.temperature,
            max_tokens: settings.max_reply_tokens,
            stop_tokens: self.text.stop_tokens.clone(),
            ..GenerationSettings::default()
        };
        let backend = Arc::clone(self.backend);
        let calls = WaveCalls { run: RUN, step: iteration, seed: settings.seed };
        let wave = Arc::new(Wave::new(backend, generation, calls, n_episodes));
        let episodes = (0..n_episodes).filter_map(|seat| {
            let group = seat / settings.group_size;
            let item = *items.get(group)?;
            Some(self.episode(iteration, Arc::clone(&wave), seat, group, item))
        });
        join_all(episodes).await.into_iter().collect()
    }

    async fn episode(
        &self,
        iteration: u64,
        wave: Arc<Wave>,
        seat: usize,
        group: usize,
        item: &Item,
    ) -> Result<Played, PipelineError> {
        let limit = self.settings.max_prompt_tokens;
        let chat = EpisodeChat::new(Arc::clone(&wave), seat, self.text.clone(), limit);
        let sample = seat % self.settings.group_size;
        let place = CallPlace::new(format_args!("iteration {iteration}"))
            .child("rollouts")
            .child(&item.id)
            .child(format_args!("{sample}"));
        let call = CallCtx { cancel: self.cancel.clone(), ..CallCtx::new(place.clone()) };
        let outcome = self.env.rollout(item, self.source, &chat, &RolloutCtx::new(call)).await;
        wave.leave().await;
        let (rows, fault) = chat.take();
        if let Some(fault) = fault {
            return Err(PipelineError::Weights {
                step: iteration,
                total_steps: 0,
                source: Box::new(shared_fault(&fault)),
            });
        }
        let penalty = |n: u32| self.settings.invalid_action_penalty * f64::from(n);
        let played = |is_success, score: f64, invalid_actions| Played {
            group,
            task_type: item.task_type.clone(),
            is_success,
            invalid_actions,
            reward: score - penalty(invalid_actions),
            rows,
        };
        match outcome {
            Ok(result) => Ok(played(result.is_success(), result.soft, result.trajectory.invalid_actions)),
            Err(EnvError::Model(error)) if error.class() == ErrorClass::ContextTooLong => {
                Ok(played(false, 0.0, 0))
            }
            Err(EnvError::Model(_)) if self.cancel.is_cancelled() => Err(PipelineError::Halted),
            Err(source) => {
                Err(PipelineError::Rollout { place: place.to_string(), item: item.id.clone(), source })
            }
        }
    }
}

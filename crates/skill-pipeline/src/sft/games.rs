//! Games of the environment along the way: what the loss is worth.

use super::chat::{PolicyChat, PolicyText};
use super::record::SftGames;
use crate::error::PipelineError;
use async_trait::async_trait;
use skill_envs::{Env, EnvError, Item, RolloutCtx, SkillSource, Split};
use skill_llm::{CallCtx, CallPlace};
use skill_train::seam::TrainBackend;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Plays games with the weights that a back end has now.
#[async_trait]
pub trait PolicyGames: Send + Sync {
    /// Plays, after this step.
    ///
    /// # Errors
    ///
    /// Games that could not be played; and [`PipelineError::Halted`] for a cancellation.
    async fn play(
        &self,
        backend: &Arc<dyn TrainBackend>,
        step: u64,
        cancel: &CancellationToken,
    ) -> Result<SftGames, PipelineError>;
}

/// Games of the selection split of an environment, greedily: the same ones each time.
pub struct EnvGames {
    env: Arc<dyn Env>,
    source: Arc<dyn SkillSource>,
    text: PolicyText,
    n_games: usize,
}

impl EnvGames {
    /// The first `n_games` tasks of the selection split, each played once with the skills that `source` selects.
    pub fn new(env: Arc<dyn Env>, source: Arc<dyn SkillSource>, text: PolicyText, n_games: usize) -> Self {
        Self { env, source, text, n_games }
    }

    fn items(&self) -> &[Item] {
        let items = self.env.items(Split::Val);
        items.get(..self.n_games.min(items.len())).unwrap_or_default()
    }
}

#[async_trait]
impl PolicyGames for EnvGames {
    async fn play(
        &self,
        backend: &Arc<dyn TrainBackend>,
        step: u64,
        cancel: &CancellationToken,
    ) -> Result<SftGames, PipelineError> {
        let model = PolicyChat::new(Arc::clone(backend), self.text.clone(), format!("step-{step}"));
        let mut outcomes = Vec::with_capacity(self.items().len());
        for item in self.items() {
            let place = CallPlace::new(format_args!("step {step}")).child("games").child(&item.id);
            let call = CallCtx { cancel: cancel.clone(), ..CallCtx::new(place.clone()) };
            let played = self.env.rollout(item, self.source.as_ref(), &model, &RolloutCtx::new(call)).await;
            match played {
                Ok(result) => outcomes.push((result.is_success(), result.soft)),
                Err(EnvError::Model(_)) if cancel.is_cancelled() => return Err(PipelineError::Halted),
                // A prompt that has outgrown the model's context ends the game, which is lost.
                Err(EnvError::Model(error)) if is_too_long(&error) => outcomes.push((false, 0.0)),
                Err(source) => {
                    let (place, item) = (place.to_string(), item.id.clone());
                    return Err(PipelineError::Rollout { place, item, source });
                }
            }
        }
        Ok(SftGames::new(outcomes))
    }
}

fn is_too_long(error: &skill_llm::LlmError) -> bool {
    error.class() == skill_llm::ErrorClass::ContextTooLong
}

//! The settings of GRPO; the defaults are those of the SkillRL paper.

use crate::error::PipelineError;
use crate::settings::SettingsError;
#[cfg(feature = "weights")]
use serde_json::{Value, json};

/// How to train.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RlSettings {
    /// Seed of the order of tasks and of every sampled token.
    pub seed: u64,
    /// Iterations of the run: each samples episodes once and passes over them once.
    pub iterations: u64,
    /// Training tasks of an iteration, each of which has a group of episodes.
    pub tasks: usize,
    /// Episodes of each task in an iteration; at least 2, since they are compared with each other.
    pub group_size: usize,
    /// Episodes of an optimizer step; the last step of an iteration may have fewer.
    pub batch_size: usize,
    /// The learning rate.
    pub learning_rate: f64,
    /// Decoupled weight decay of matrices.
    pub weight_decay: f64,
    /// The largest norm of the gradient; larger ones are scaled down.
    pub max_grad_norm: f64,
    /// The coefficient of the divergence from the reference policy; 0 computes none.
    pub kl_coeff: f64,
    /// The ratio of new and old probability is clipped to 1 minus and 1 plus this.
    pub clip_epsilon: f64,
    /// What an action that means nothing to the world takes from the return of its episode.
    pub invalid_action_penalty: f64,
    /// The divisor of the logits while episodes are sampled.
    pub temperature: f64,
    /// The most tokens of a prompt, the earlier turns of its episode included; a longer one ends the episode.
    pub max_prompt_tokens: usize,
    /// The most tokens of a reply.
    pub max_reply_tokens: usize,
    /// Tokens of one forward pass at most. A batch with more is split, which changes rounding and nothing else.
    pub micro_batch_tokens: usize,
    /// Games are played after each so many iterations, where any are configured, and after the last one.
    pub validation_interval: u64,
}

impl Default for RlSettings {
    fn default() -> Self {
        Self {
            seed: 42,
            iterations: 150,
            tasks: 16,
            group_size: 8,
            batch_size: 64,
            learning_rate: 1e-6,
            weight_decay: 0.01,
            max_grad_norm: 1.0,
            kl_coeff: 0.01,
            clip_epsilon: 0.2,
            invalid_action_penalty: 0.1,
            temperature: 1.0,
            max_prompt_tokens: 6_000,
            max_reply_tokens: 1_024,
            micro_batch_tokens: 8_192,
            validation_interval: 5,
        }
    }
}

impl RlSettings {
    /// Refuses settings that cannot work.
    ///
    /// # Errors
    ///
    /// [`PipelineError::Settings`] naming the field.
    pub fn validate(&self) -> Result<(), PipelineError> {
        let smallest = [
            ("iterations", self.iterations, 1),
            ("tasks", self.tasks as u64, 1),
            ("group_size", self.group_size as u64, 2),
            ("batch_size", self.batch_size as u64, 1),
            ("max_prompt_tokens", self.max_prompt_tokens as u64, 2),
            ("max_reply_tokens", self.max_reply_tokens as u64, 1),
            ("micro_batch_tokens", self.micro_batch_tokens as u64, 2),
            ("validation_interval", self.validation_interval, 1),
        ];
        if let Some((setting, found, least)) = smallest.into_iter().find(|(_, found, least)| found < least) {
            return Err(SettingsError::TooSmall { setting, found, least }.into());
        }
        Ok(())
    }

    /// The settings that decide the weights, by name. A run can be extended by iterations.
    #[cfg(feature = "weights")]
    pub(crate) fn identity(&self) -> impl Iterator<Item = (&'static str, Value)> {
        [
            ("run.seed", json!(self.seed)),
            ("rl.tasks", json!(self.tasks)),
            ("rl.group_size", json!(self.group_size)),
            ("rl.batch_size", json!(self.batch_size)),
            ("rl.learning_rate", json!(self.learning_rate)),
            ("rl.weight_decay", json!(self.weight_decay)),
            ("rl.max_grad_norm", json!(self.max_grad_norm)),
            ("rl.kl_coeff", json!(self.kl_coeff)),
            ("rl.clip_epsilon", json!(self.clip_epsilon)),
            ("rl.invalid_action_penalty", json!(self.invalid_action_penalty)),
            ("rl.temperature", json!(self.temperature)),
            ("rl.max_prompt_tokens", json!(self.max_prompt_tokens)),
            ("rl.max_reply_tokens", json!(self.max_reply_tokens)),
            ("rl.micro_batch_tokens", json!(self.micro_batch_tokens)),
        ]
        .into_iter()
    }
}

//! The arithmetic of GRPO: from rewards to advantages, and from log-probs to a loss with its gradient.
//!
//! Everything is a function of numbers in `f64`; the back end computes log-probs and takes
//! [`LossReport::gradients`], which is d loss / d log-prob for each token, back into the model. GRPO is from Shao et
//! al., "DeepSeekMath", 2024; the clipped ratio from Schulman et al., "Proximal Policy Optimization", 2017. Where
//! SkillRL's copy of verl, verl and TRL disagree, each of their forms is a setting; the defaults are those of the
//! SkillRL paper with the safeguards of verl.
//!
//! - [`AdvantageSettings::advantages`]: the reward of each rollout relative to the others of its group.
//! - [`GrpoLoss::compute`]: the loss of rows of tokens, each with one advantage.
//! - [`KlEstimator::per_token`]: the distance to the reference policy.
//! - [`Aggregation::weights`]: the weight of a row's tokens in the loss.
//! - [`step_scores`] and [`episode_return`]: rewards with the penalty for invalid actions.

mod advantage;
mod aggregate;
mod entropy;
mod kl;
mod loss;
mod ratio;
mod reward;
mod visits;

pub use advantage::{
    AdvantageSettings, Advantages, Baseline, GroupSignal, Mean, Rollout, Scale, SingleRollout, Statistics,
};
pub use aggregate::{Aggregation, AggregationMode, BatchTotals, EmptyRows};
pub use entropy::{EntropyOfLogits, entropy_of_logits};
pub use kl::{KlEstimator, KlGradient, KlOfToken, KlPenalty, KlValue, KlWeight};
pub use loss::{GrpoLoss, LossReport, LossRow};
pub use ratio::{PolicyClip, RatioLevel};
pub use reward::{StepReward, StepScore, episode_return, step_scores, valid_action_ratio};
pub use visits::{Visit, discounted_returns};

use thiserror::Error;

/// Why advantages or a loss cannot be computed.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum GrpoError {
    /// A group, or its part that shares a baseline, has only one rollout, so that nothing can be compared.
    #[error("group {group}{} has a single rollout, which has no advantage", arm.map(|arm| format!(" (arm {arm})")).unwrap_or_default())]
    SingleRollout {
        /// The group.
        group: u64,
        /// The arm of the group, where arms have baselines of their own.
        arm: Option<u32>,
    },
    /// A group size that is configured cannot give advantages.
    #[error("groups of {n_rollouts} rollouts cannot give advantages, at least {needed} are needed")]
    GroupSize {
        /// The configured size.
        n_rollouts: usize,
        /// The smallest size that can.
        needed: usize,
    },
    /// A reward is NaN or infinite. An unknown reward is `None`.
    #[error("the reward of rollout {rollout} is {reward}")]
    Reward {
        /// The place of the rollout in the input.
        rollout: usize,
        /// NaN or infinity.
        reward: f64,
    },
    /// A row has lists of different lengths.
    #[error("row {row}: {what} has {n} values, the log-probs have {expected}")]
    Lengths {
        /// The place of the row in the input.
        row: usize,
        /// The name of the list.
        what: &'static str,
        /// Its length.
        n: usize,
        /// The number of log-probs.
        expected: usize,
    },
    /// A row lacks numbers that the settings need.
    #[error("row {row} has no {what}")]
    Missing {
        /// The place of the row in the input.
        row: usize,
        /// The name of the list.
        what: &'static str,
    },
    /// A number of a token that counts is NaN or infinite.
    #[error("row {row}, token {token}: {what} is {value}")]
    NotFinite {
        /// The place of the row in the input.
        row: usize,
        /// The place of the token in the row.
        token: usize,
        /// The name of the list.
        what: &'static str,
        /// NaN or infinity.
        value: f64,
    },
    /// A setting is outside its range.
    #[error("`{setting}` is {value}, expected {expected}")]
    Setting {
        /// The name of the setting.
        setting: &'static str,
        /// Its value.
        value: f64,
        /// The range in words.
        expected: &'static str,
    },
}

/// A count as a number: exact below 2^32.
fn count(n: usize) -> f64 {
    f64::from(u32::try_from(n).unwrap_or(u32::MAX))
}

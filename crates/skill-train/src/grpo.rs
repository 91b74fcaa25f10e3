//! The advantages of GRPO: rewards beside those of the same group, in `f64`.
//!
//! GRPO is from Shao et al., "DeepSeekMath", 2024. Where SkillRL's copy of verl, verl and TRL disagree, each of their
//! forms is a setting; the defaults are those of the SkillRL paper. The loss is [`PolicyLoss`](crate::seam::PolicyLoss).
//!
//! - [`AdvantageSettings::advantages`]: the reward of each rollout relative to the others of its group.
//! - [`AdvantageSettings::visit_advantages`]: the same for single replies to the same state.
//!
//! # Invariants
//!
//! - A loss is finite or an error, and numbers of a request that are not finite are refused by row and list. Held
//!   by `a_ratio_that_overflows_gives_a_finite_loss_and_gradient`,
//!   `numbers_that_are_not_finite_and_settings_outside_their_range_are_refused_by_name`.

mod advantage;
mod visits;

pub use advantage::{
    AdvantageSettings, Advantages, Baseline, GroupSignal, Mean, Rollout, Scale, SingleRollout, Statistics,
};
pub use visits::{Visit, discounted_returns};

use thiserror::Error;

/// Why advantages cannot be computed.
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
    /// A reward is NaN or infinite. An unknown reward is `None`.
    #[error("the reward of rollout {rollout} is {reward}")]
    Reward {
        /// The place of the rollout in the input.
        rollout: usize,
        /// NaN or infinity.
        reward: f64,
    },
}

/// A count as a number: exact below 2^32.
fn count(n: usize) -> f64 {
    f64::from(u32::try_from(n).unwrap_or(u32::MAX))
}

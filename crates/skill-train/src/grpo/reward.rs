//! Rewards with the penalty for invalid actions.

use super::count;

/// One step of an episode as a row of its own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepReward {
    /// Tokens of the reply.
    pub n_tokens: usize,
    /// The return of the whole episode.
    pub reward: f64,
    /// True if the reply named an action that the environment knows.
    pub valid: bool,
}

/// The score of a step and the token that carries it.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct StepScore {
    /// The last token of the reply; `None` for an empty one, whose score no token carries. (SkillRL's copy of verl
    /// writes it into the last column of the padding, which the mask hides.)
    pub token: Option<usize>,
    /// The episode's return, less the penalty if this step's action was invalid.
    pub score: f64,
}

/// Scores of steps as rows: each carries the episode's return at its last token, less `penalty` if it is invalid.
pub fn step_scores(steps: &[StepReward], penalty: f64) -> Vec<StepScore> {
    let score = |step: &StepReward| StepScore {
        token: step.n_tokens.checked_sub(1),
        score: step.reward - if step.valid { 0.0 } else { penalty },
    };
    steps.iter().map(score).collect()
}

/// The return of an episode that is one row: its reward, less `penalty` for each invalid action.
pub fn episode_return(reward: f64, n_invalid_actions: usize, penalty: f64) -> f64 {
    reward - count(n_invalid_actions) * penalty
}

/// The share of steps with a valid action, from 0 to 1; 1 without steps.
pub fn valid_action_ratio(steps: &[StepReward]) -> f64 {
    let valid = steps.iter().filter(|step| step.valid).count();
    if steps.is_empty() { 1.0 } else { count(valid) / count(steps.len()) }
}

//! Losses as functions of log-probabilities and entropies, with their derivatives.
//!
//! A back end computes the log-probability and the entropy of each token; a [`Loss`] makes of them a number and its
//! derivative by each, in f64. It knows no tensors, and tokens do not depend on each other, so that a back end can hand
//! over any chunk of tokens.

use crate::error::TrainError;
use crate::seam::{KlEstimator, KlPenalty, Loss, LossMetrics, PolicyLoss, Row};

/// A token with all that a loss needs to know of it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct TokenInput {
    /// The weight of the token in the sum.
    pub weight: f64,
    /// `log p(token)` under the weights that are trained, in nats.
    pub logprob: f64,
    /// Entropy of the prediction, in nats.
    pub entropy: f64,
    /// The advantage.
    pub advantage: f64,
    /// `log p(token)` under the policy that sampled.
    pub old_logprob: f64,
    /// `log p(token)` under the reference policy.
    pub reference_logprob: f64,
}

/// The derivatives of a loss by what a model computed for a token.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct TokenGradient {
    /// `d loss / d log p`.
    pub by_logprob: f64,
    /// `d loss / d entropy`.
    pub by_entropy: f64,
}

/// The part of the policy for one token, and how it was clipped.
struct PolicyTerm {
    value: f64,
    derivative: f64,
    is_clipped: bool,
    is_dual_clipped: bool,
}

impl Loss {
    /// Adds one token to the metrics and returns the derivatives.
    ///
    /// `denominator` divides the sum over tokens.
    pub fn token(&self, token: &TokenInput, denominator: f64, metrics: &mut LossMetrics) -> TokenGradient {
        let share = token.weight / denominator;
        metrics.n_tokens += 1;
        match self {
            Self::CrossEntropy => {
                metrics.loss -= share * token.logprob;
                TokenGradient { by_logprob: -share, by_entropy: 0.0 }
            }
            Self::Policy(settings) => settings.token(token, share, metrics),
        }
    }

    /// Checks the settings and that rows have the lists that the loss needs, each with a number for each token.
    ///
    /// # Errors
    /// [`TrainError::Request`] with the setting, or the row and its list.
    pub fn check(&self, rows: &[Row]) -> Result<(), TrainError> {
        let Self::Policy(settings) = self else { return Ok(()) };
        settings.check()?;
        for (index, row) in rows.iter().enumerate() {
            let mut lists = vec![("advantages", &row.advantages), ("old_logprobs", &row.old_logprobs)];
            if settings.kl.is_some() {
                lists.push(("reference_logprobs", &row.reference_logprobs));
            }
            for (name, list) in lists {
                let field = format!("rows[{index}].{name}");
                if list.len() != row.tokens.len() {
                    let fault = format!("{} numbers for {} tokens", list.len(), row.tokens.len());
                    return Err(TrainError::request(field, fault));
                }
                if let Some(index) = list.iter().position(|value| !value.is_finite()) {
                    return Err(TrainError::request(field, format!("number {index} is not finite")));
                }
            }
        }
        Ok(())
    }
}

impl PolicyLoss {
    fn check(&self) -> Result<(), TrainError> {
        let fault = |field: &str, fault: &str| Err(TrainError::request(format!("loss.{field}"), fault));
        let kl = self.kl.as_ref().map_or(0.0, |kl| kl.coefficient);
        if !(0.0..1.0).contains(&self.clip_low) {
            return fault("clip_low", "not at least 0 and below 1");
        }
        if self.clip_high.is_nan() || self.clip_high < 0.0 {
            return fault("clip_high", "not at least 0");
        }
        if self.dual_clip.is_some_and(|cap| cap.is_nan() || cap <= 1.0) {
            return fault("dual_clip", "not above 1");
        }
        if !kl.is_finite() || !self.entropy_coefficient.is_finite() {
            return fault("kl", "a coefficient is not finite");
        }
        Ok(())
    }

    fn token(&self, token: &TokenInput, share: f64, metrics: &mut LossMetrics) -> TokenGradient {
        let policy = self.policy_term(token);
        let mut loss = policy.value;
        let mut by_logprob = policy.derivative;
        if let Some(kl) = &self.kl {
            let (value, derivative) = kl.term(token.reference_logprob - token.logprob);
            metrics.kl += share * value;
            loss += kl.coefficient * value;
            by_logprob += kl.coefficient * derivative;
        }
        loss -= self.entropy_coefficient * token.entropy;
        metrics.loss += share * loss;
        metrics.policy += share * policy.value;
        metrics.entropy += share * token.entropy;
        metrics.n_clipped += u64::from(policy.is_clipped);
        metrics.n_dual_clipped += u64::from(policy.is_dual_clipped);
        metrics.sum_log_ratio += token.old_logprob - token.logprob;
        TokenGradient { by_logprob: share * by_logprob, by_entropy: -share * self.entropy_coefficient }
    }

    /// The clipped surrogate with its derivative by the log-probability. At a tie of the two sides the derivative is
    /// that of the unclipped one.
    fn policy_term(&self, token: &TokenInput) -> PolicyTerm {
        let (log_ratio, slope) = limited(token.logprob - token.old_logprob, self.max_log_ratio);
        let ratio = log_ratio.exp();
        let plain = -token.advantage * ratio;
        let clipped = -token.advantage * ratio.clamp(1.0 - self.clip_low, 1.0 + self.clip_high);
        let is_clipped = clipped > plain;
        let (value, derivative) = if is_clipped { (clipped, 0.0) } else { (plain, plain * slope) };
        match self.dual_clip.map(|cap| -token.advantage * cap) {
            Some(cap) if token.advantage < 0.0 && cap < value => {
                PolicyTerm { value: cap, derivative: 0.0, is_clipped, is_dual_clipped: true }
            }
            _ => PolicyTerm { value, derivative, is_clipped, is_dual_clipped: false },
        }
    }
}

impl KlPenalty {
    /// The penalty for `d = lp_ref - lp`, with its derivative by `lp`.
    fn term(&self, difference: f64) -> (f64, f64) {
        const MAX_K3: f64 = 10.0;
        match self.estimator {
            KlEstimator::K1 => (-difference, 1.0),
            KlEstimator::K2 => (difference * difference / 2.0, -difference),
            KlEstimator::K3 => {
                let (difference, slope) = limited(difference, self.max_log_ratio);
                let value = difference.exp() - difference - 1.0;
                if value > MAX_K3 { (MAX_K3, 0.0) } else { (value, slope * (1.0 - difference.exp())) }
            }
        }
    }
}

/// A number limited to ±`limit`, with the derivative: 1 inside, 0 beyond.
fn limited(value: f64, limit: Option<f64>) -> (f64, f64) {
    match limit {
        Some(limit) if value.abs() > limit => (value.clamp(-limit, limit), 0.0),
        _ => (value, 1.0),
    }
}

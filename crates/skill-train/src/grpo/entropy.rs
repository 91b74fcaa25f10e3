//! The entropy of the next token.

/// Entropy and its derivative by the logits.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct EntropyOfLogits {
    /// In nats.
    pub entropy: f64,
    /// d entropy / d logit for each token: `-p (ln p + entropy)`.
    pub gradient: Vec<f64>,
}

/// The entropy `-Σ p ln p` of the softmax of these logits; a token of probability 0 adds nothing.
pub fn entropy_of_logits(logits: &[f64]) -> EntropyOfLogits {
    let best = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logits.iter().map(|logit| (logit - best).exp()).sum();
    let log_prob = |logit: &f64| logit - best - sum.ln();
    let weighted =
        |log_prob: f64, by: f64| if log_prob == f64::NEG_INFINITY { 0.0 } else { log_prob.exp() * by };
    let entropy: f64 = logits.iter().map(log_prob).map(|lp| -weighted(lp, lp)).sum();
    let gradient = logits.iter().map(log_prob).map(|lp| -weighted(lp, lp + entropy)).collect();
    EntropyOfLogits { entropy, gradient }
}

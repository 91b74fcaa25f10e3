//! The distance to the reference policy, estimated from the sampled tokens.
//!
//! The estimators are those of J. Schulman, "Approximating KL Divergence", 2020.

/// The KL penalty of a loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KlPenalty {
    /// Factor of the penalty in the loss.
    pub coefficient: f64,
    /// The estimator of the distance.
    pub estimator: KlEstimator,
    /// The weight of a token's estimate.
    pub weight: KlWeight,
}

impl Default for KlPenalty {
    fn default() -> Self {
        Self { coefficient: 0.01, estimator: KlEstimator::default(), weight: KlWeight::One }
    }
}

/// The weight of a token's estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KlWeight {
    /// Nothing.
    One,
    /// The importance ratio, which makes the estimate unbiased off policy (TRL's `use_bias_correction_kl`); the
    /// gradient goes through both.
    Ratio,
}

/// An estimate of the KL divergence from the reference for one token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KlEstimator {
    /// The formula.
    pub value: KlValue,
    /// The expression that is differentiated.
    pub gradient: KlGradient,
    /// `ref - log_prob` is clamped to this on both sides in `K3`, so that its exponential stays finite.
    pub log_ratio_limit: Option<f64>,
    /// The result is clamped to this on both sides in `K3`; a clamped token has no gradient.
    pub value_limit: Option<f64>,
}

impl Default for KlEstimator {
    fn default() -> Self {
        Self {
            value: KlValue::K3,
            gradient: KlGradient::OfValue,
            log_ratio_limit: Some(20.0),
            value_limit: Some(10.0),
        }
    }
}

/// The formula of an estimate, with `d = ref - log_prob`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KlValue {
    /// `-d`: unbiased, and of either sign.
    K1,
    /// `|d|`.
    Abs,
    /// `d² / 2`.
    K2,
    /// `exp(d) - d - 1`: unbiased and never negative (`low_var_kl`).
    K3,
}

/// The expression that is differentiated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KlGradient {
    /// The value.
    OfValue,
    /// `d² / 2`, whose expected gradient is that of the divergence (verl's `k1+` and `k3+`).
    OfK2,
}

/// The estimate for one token.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct KlOfToken {
    /// The estimate in nats.
    pub value: f64,
    /// Its derivative by the policy's log-prob.
    pub gradient: f64,
}

impl KlEstimator {
    /// The estimate from the log-probs of policy and reference, in nats.
    pub fn per_token(&self, log_prob: f64, reference: f64) -> KlOfToken {
        let d = reference - log_prob;
        let (value, gradient) = match self.value {
            KlValue::K1 => (-d, 1.0),
            KlValue::Abs if d == 0.0 => (0.0, 0.0),
            KlValue::Abs => (d.abs(), -d.signum()),
            KlValue::K2 => (d * d / 2.0, -d),
            KlValue::K3 => self.k3(d),
        };
        match self.gradient {
            KlGradient::OfValue => KlOfToken { value, gradient },
            KlGradient::OfK2 => KlOfToken { value, gradient: -d },
        }
    }

    fn k3(&self, d: f64) -> (f64, f64) {
        let limit = self.log_ratio_limit.unwrap_or(f64::INFINITY);
        let clamped = d.clamp(-limit, limit);
        // exp_m1 keeps the digits of a small difference, which exp(d) - 1 would cancel.
        let value = clamped.exp_m1() - clamped;
        let highest = self.value_limit.unwrap_or(f64::INFINITY);
        let moves = d == clamped && value <= highest;
        (value.min(highest), if moves { -clamped.exp_m1() } else { 0.0 })
    }
}

//! The importance ratio and its clipping.

use super::GrpoError;

/// The ratio of new to old probability, and its clipping.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PolicyClip {
    /// The ratio is clipped at `1 - low`.
    pub low: f64,
    /// The ratio is clipped at `1 + high`; above `low` it is DAPO's "clip-higher" (Yu et al., 2025).
    pub high: f64,
    /// For negative advantages the loss is at most `-A` times this (dual clip; Ye et al., "Mastering Complex Control
    /// in MOBA Games", 2020).
    pub dual: Option<f64>,
    /// The unclipped ratio is capped at this for both signs of the advantage (TRL's `delta`).
    pub ratio_cap: Option<f64>,
    /// The log of the ratio is clamped to this on both sides, so that it cannot overflow.
    pub log_ratio_limit: Option<f64>,
    /// The unit that has a ratio of its own.
    pub level: RatioLevel,
}

impl Default for PolicyClip {
    fn default() -> Self {
        Self {
            low: 0.2,
            high: 0.2,
            dual: Some(3.0),
            ratio_cap: None,
            log_ratio_limit: Some(20.0),
            level: RatioLevel::Token,
        }
    }
}

/// The unit that has a ratio of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RatioLevel {
    /// Each token has its own.
    Token,
    /// All tokens of a row share the geometric mean of theirs (GSPO; Zheng et al., "Group Sequence Policy
    /// Optimization", 2025).
    Sequence,
}

/// The ratio of a token, or of a whole row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ratio {
    /// The log before it is clamped, and after.
    pub(super) log: f64,
    pub(super) clamped_log: f64,
}

impl Ratio {
    /// The ratio that the loss sees without clipping.
    pub(super) fn uncapped(&self) -> f64 {
        self.clamped_log.exp()
    }

    /// A derivative by the ratio as one by the log-ratio; 0 where the log is clamped or nothing depends on the ratio,
    /// however large the ratio is.
    pub(super) fn through(&self, by_ratio: f64) -> f64 {
        if self.log == self.clamped_log && by_ratio != 0.0 { by_ratio * self.uncapped() } else { 0.0 }
    }
}

/// The loss of a token as a function of the ratio.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ClippedLoss {
    pub(super) value: f64,
    /// d value / d ratio.
    pub(super) slope: f64,
    /// The clipped branch is the larger loss.
    pub(super) clipped: bool,
    /// Dual clip cuts the loss.
    pub(super) dual_clipped: bool,
    /// The ratio is below `1 - low` with a negative advantage, or above `1 + high` with a positive one.
    pub(super) low: bool,
    pub(super) high: bool,
}

impl PolicyClip {
    /// Checks every setting against its range.
    ///
    /// # Errors
    ///
    /// [`GrpoError::Setting`] for the first one that is outside.
    pub fn check(&self) -> Result<(), GrpoError> {
        let at_least = |value: f64, least: f64| !value.is_nan() && value >= least;
        let (dual, cap) = (self.dual.unwrap_or(f64::INFINITY), self.ratio_cap.unwrap_or(f64::INFINITY));
        let limit = self.log_ratio_limit.unwrap_or(f64::INFINITY);
        let rules = [
            ((0.0..=1.0).contains(&self.low), "low", self.low, "0 to 1"),
            (at_least(self.high, 0.0), "high", self.high, "0 or more"),
            (at_least(dual, 1.0), "dual", dual, "1 or more"),
            (at_least(cap, 1.0), "ratio_cap", cap, "1 or more"),
            (at_least(limit, 0.0), "log_ratio_limit", limit, "0 or more"),
        ];
        match rules.into_iter().find(|(holds, ..)| !holds) {
            Some((_, setting, value, expected)) => Err(GrpoError::Setting { setting, value, expected }),
            None => Ok(()),
        }
    }

    pub(super) fn ratio(&self, log: f64) -> Ratio {
        let limit = self.log_ratio_limit.unwrap_or(f64::INFINITY);
        Ratio { log, clamped_log: log.clamp(-limit, limit) }
    }

    /// `max(-A r, -A clip(r))`, and for negative advantages at most `-A dual`.
    pub(super) fn loss(&self, advantage: f64, ratio: Ratio) -> ClippedLoss {
        let uncapped = ratio.uncapped();
        let cap = self.ratio_cap.unwrap_or(f64::INFINITY);
        let (r, moves) = (uncapped.min(cap), uncapped <= cap);
        let (floor, ceiling) = (1.0 - self.low, 1.0 + self.high);
        let plain = -advantage * r;
        let bounded = -advantage * r.clamp(floor, ceiling);
        let clipped = bounded > plain;
        let dual = self.dual.filter(|_| advantage < 0.0).map_or(f64::INFINITY, |c| -advantage * c);
        let dual_clipped = plain.max(bounded) > dual;
        let slope = if clipped || dual_clipped || !moves { 0.0 } else { -advantage };
        ClippedLoss {
            value: plain.max(bounded).min(dual),
            slope,
            clipped,
            dual_clipped,
            low: uncapped < floor && advantage < 0.0,
            high: uncapped > ceiling && advantage > 0.0,
        }
    }
}

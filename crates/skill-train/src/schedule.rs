//! Learning rates over the steps of a run.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

/// How the learning rate changes over a run. The rate of a step is the peak rate times
/// [`LearningRateSchedule::factor`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum LearningRateSchedule {
    /// The same rate in every step after the warm-up.
    Constant {
        /// Steps of the warm-up, during which the rate rises from 0.
        n_warmup_steps: u64,
    },
    /// Falls along half a cosine from the peak rate after the warm-up to 0 at the end.
    Cosine {
        /// Steps of the warm-up, during which the rate rises from 0.
        n_warmup_steps: u64,
        /// Steps of the whole run, with the warm-up.
        n_steps: u64,
    },
    /// Falls along a line from the peak rate after the warm-up to 0 at the end.
    Linear {
        /// Steps of the warm-up, during which the rate rises from 0.
        n_warmup_steps: u64,
        /// Steps of the whole run, with the warm-up.
        n_steps: u64,
    },
}

impl LearningRateSchedule {
    /// The factor of the peak rate in this step, counted from 0; between 0 and 1.
    ///
    /// The formulas are those of `get_cosine_schedule_with_warmup` and its siblings in transformers: with a warm-up,
    /// step 0 has rate 0.
    ///
    /// ```
    /// use skill_train::schedule::LearningRateSchedule;
    ///
    /// let schedule = LearningRateSchedule::Cosine { n_warmup_steps: 2, n_steps: 10 };
    /// assert_eq!(schedule.factor(0), 0.0);
    /// assert_eq!(schedule.factor(2), 1.0);
    /// assert!((schedule.factor(6) - 0.5).abs() < 1e-12);
    /// ```
    pub fn factor(self, step: u64) -> f64 {
        let (n_warmup_steps, n_steps) = match self {
            Self::Constant { n_warmup_steps } => (n_warmup_steps, None),
            Self::Cosine { n_warmup_steps, n_steps } | Self::Linear { n_warmup_steps, n_steps } => {
                (n_warmup_steps, Some(n_steps))
            }
        };
        if step < n_warmup_steps {
            return step as f64 / n_warmup_steps.max(1) as f64;
        }
        let progress = n_steps.map_or(0.0, |n_steps| {
            let past = (step - n_warmup_steps) as f64;
            (past / n_steps.saturating_sub(n_warmup_steps).max(1) as f64).min(1.0)
        });
        match self {
            Self::Constant { .. } => 1.0,
            Self::Cosine { .. } => 0.5 * (1.0 + (PI * progress).cos()),
            Self::Linear { .. } => 1.0 - progress,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LearningRateSchedule;

    #[track_caller]
    fn check(schedule: LearningRateSchedule, expected: &[f64]) {
        for (step, expected) in expected.iter().enumerate() {
            let found = schedule.factor(step as u64);
            assert!((found - expected).abs() < 1e-12, "step {step}: {found}, not {expected}");
        }
    }

    #[test]
    fn rates_rise_and_fall_as_configured() {
        check(LearningRateSchedule::Constant { n_warmup_steps: 0 }, &[1.0, 1.0, 1.0]);
        check(LearningRateSchedule::Constant { n_warmup_steps: 2 }, &[0.0, 0.5, 1.0, 1.0]);
        check(
            LearningRateSchedule::Linear { n_warmup_steps: 1, n_steps: 5 },
            &[0.0, 1.0, 0.75, 0.5, 0.25, 0.0, 0.0],
        );
        check(LearningRateSchedule::Cosine { n_warmup_steps: 0, n_steps: 2 }, &[1.0, 0.5, 0.0, 0.0]);
        check(
            LearningRateSchedule::Cosine { n_warmup_steps: 3, n_steps: 3 },
            &[0.0, 1.0 / 3.0, 2.0 / 3.0, 1.0, 0.0],
        );
    }
}

//! The edit budget: how many edits a step may apply, and how that number decays over a run.
//!
//! It plays the part of a learning rate. The main type is [`EditBudget`].
//!
//! ```
//! use skill_core::{EditBudget, EditBudgetSchedule, StepIdx};
//!
//! let budget = EditBudget::new(EditBudgetSchedule::Linear, 4, 2)?;
//! assert_eq!([1, 4, 8].map(|step| budget.at(StepIdx(step), 8)), [4, 3, 2]);
//! # Ok::<(), skill_core::ScheduleError>(())
//! ```

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};
use thiserror::Error;

crate::named_enum! {
    /// How the edit budget goes from its maximum to its minimum.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum EditBudgetSchedule {
        /// The maximum at every step.
        Constant = "constant",
        /// `max + (min - max) * t`.
        Linear = "linear",
        /// `min + (max - min) * (1 + cos(pi * t)) / 2`.
        #[default]
        Cosine = "cosine",
    }
}

crate::named_enum! {
    /// Who decides how many edits a step may apply.
    #[derive(Default)]
    pub enum BudgetControl {
        /// The schedule.
        #[default]
        Fixed = "fixed",
        /// The optimizer, at each step.
        Autonomous = "autonomous",
        /// Nobody: a rewrite of the whole skill has no edits to count. Where there are edits it is [`Self::Fixed`], as
        /// in the reference.
        None = "none",
    }
}

impl BudgetControl {
    /// What a configuration of the reference means by a name; it knows several for each, in any case.
    pub fn from_reference(name: &str) -> Option<Self> {
        match name.trim().to_lowercase().as_str() {
            "" | "fixed" | "manual" | "scheduler" | "scheduled" => Some(Self::Fixed),
            "autonomous" | "auto" | "optimizer" => Some(Self::Autonomous),
            "none" | "off" | "no_lr" => Some(Self::None),
            _ => None,
        }
    }
}

/// Why an edit budget cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The minimum is above the maximum.
    #[error("the minimum edit budget {min} is above the maximum {max}")]
    MinAboveMax {
        /// The minimum asked for.
        min: u32,
        /// The maximum asked for.
        max: u32,
    },
}

/// How many edits each step may apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EditBudget {
    /// How the budget decays.
    pub schedule: EditBudgetSchedule,
    /// The budget, in edits, before the first step.
    pub max: u32,
    /// The budget, in edits, at the last step.
    pub min: u32,
}

impl Default for EditBudget {
    /// The paper's protocol: from 4 edits down to 2 by cosine.
    fn default() -> Self {
        Self { schedule: EditBudgetSchedule::Cosine, max: 4, min: 2 }
    }
}

impl EditBudget {
    /// A budget that goes from `max` edits to `min` edits.
    ///
    /// # Errors
    ///
    /// [`ScheduleError::MinAboveMax`] where `min` is more than `max`.
    pub fn new(schedule: EditBudgetSchedule, max: u32, min: u32) -> Result<Self, ScheduleError> {
        if min > max {
            return Err(ScheduleError::MinAboveMax { min, max });
        }
        Ok(Self { schedule, max, min })
    }

    /// The budget of a step, in edits, with `t = min(step, total_steps) / total_steps`.
    ///
    /// The schedule's value is rounded half to even and is at least the minimum. Steps count from 1, and those past
    /// the end keep the last budget. With one step in total, or none, the budget is the maximum.
    pub fn at(&self, step: crate::StepIdx, total_steps: u32) -> u32 {
        if total_steps <= 1 {
            return self.max;
        }
        let t = f64::from(step.0.min(total_steps)) / f64::from(total_steps);
        let (max, min) = (f64::from(self.max), f64::from(self.min));
        let exact = match self.schedule {
            EditBudgetSchedule::Constant => return self.max,
            EditBudgetSchedule::Linear => max + (min - max) * t,
            EditBudgetSchedule::Cosine => min + 0.5 * (max - min) * (1.0 + cos_to_pi(PI * t)),
        };
        rounded(exact).max(self.min)
    }
}

/// The nearest integer, the even one of two.
fn rounded(exact: f64) -> u32 {
    // A schedule's value lies between two budgets, so that the cast, which saturates anyway, is exact.
    exact.round_ties_even() as u32
}

/// The cosine of an angle between 0 and pi, the same on every machine.
///
/// The standard library takes the cosine of the platform's C library, whose last bit differs between platforms; at
/// a tie that bit decides over an edit. The polynomials are those of FreeBSD's msun (`k_cos.c` and `k_sin.c`), with an
/// error below one unit in the last place.
fn cos_to_pi(angle: f64) -> f64 {
    /// What is missing from the constant for half of pi.
    const FRAC_PI_2_TAIL: f64 = 6.123_233_995_736_766e-17;
    // Both differences are exact; the tail corrects for the constant.
    if angle <= FRAC_PI_4 {
        kernel_cos(angle, 0.0)
    } else if angle <= 3.0 * FRAC_PI_4 {
        let (near, tail) = two_sum(angle - FRAC_PI_2, -FRAC_PI_2_TAIL);
        -kernel_sin(near, tail)
    } else {
        let (near, tail) = two_sum(angle - PI, -2.0 * FRAC_PI_2_TAIL);
        -kernel_cos(near, tail)
    }
}

/// A sum, and what rounding it lost, where the first term is the larger one or 0.
fn two_sum(large: f64, small: f64) -> (f64, f64) {
    let sum = large + small;
    (sum, (large - sum) + small)
}

/// The cosine of `x + tail`, where `x` is at most a quarter of pi.
fn kernel_cos(x: f64, tail: f64) -> f64 {
    let z = x * x;
    let w = z * z;
    let low = z * (0.0416666666666666 + z * (-0.001388888888887411 + z * 2.480158728947673e-05));
    let high = w * w * (-2.7557314351390663e-07 + z * (2.087572321298175e-09 + z * -1.1359647557788195e-11));
    let half = 0.5 * z;
    let near = 1.0 - half;
    near + (((1.0 - near) - half) + (z * (low + high) - x * tail))
}

/// The sine of `x + tail`, where `x` is at most a quarter of pi.
fn kernel_sin(x: f64, tail: f64) -> f64 {
    let z = x * x;
    let w = z * z;
    let rest = 0.00833333333332249
        + z * (-0.0001984126982985795 + z * 2.7557313707070068e-06)
        + z * w * (-2.5050760253406863e-08 + z * 1.58969099521155e-10);
    let cube = z * x;
    x - ((z * (0.5 * tail - cube * rest) - tail) - cube * -0.16666666666666632)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StepIdx;
    use proptest::prelude::*;

    #[track_caller]
    fn check(schedule: &str, max: u32, min: u32, total: u32, expect: &[u32]) {
        let budget = EditBudget::new(EditBudgetSchedule::parse(schedule).unwrap(), max, min).unwrap();
        let found: Vec<u32> = (1..).take(expect.len()).map(|step| budget.at(StepIdx(step), total)).collect();
        assert_eq!(found, expect, "{schedule} from {max} to {min} over {total}");
    }

    /// Budgets in runs: (budget, how often).
    fn runs(runs: &[(u32, usize)]) -> Vec<u32> {
        runs.iter().flat_map(|(budget, times)| vec![*budget; *times]).collect()
    }

    #[test]
    fn budgets_are_those_of_the_reference() {
        check("cosine", 4, 2, 40, &runs(&[(4, 13), (3, 13), (2, 16)]));
        check("cosine", 10, 2, 4, &[9, 6, 3, 2, 2, 2]);
        check("cosine", 100, 0, 4, &[85, 50, 15, 0, 0, 0]);
        check("linear", 10, 2, 4, &[8, 6, 4, 2, 2, 2]);
        check("linear", 10, 2, 10, &[9, 8, 8, 7, 6, 5, 4, 4, 3, 2, 2, 2]);
        check("linear", 4, 2, 40, &runs(&[(4, 10), (3, 19), (2, 13)]));
        check("linear", 16, 2, 16, &[15, 14, 13, 12, 12, 11, 10, 9, 8, 7, 6, 6, 5, 4, 3, 2, 2, 2]);
        check("constant", 8, 2, 3, &[8, 8, 8, 8, 8]);
        check("cosine", 10, 2, 1, &[10, 10, 10]);
        check("linear", 10, 2, 0, &[10, 10, 10]);
    }

    #[test]
    fn the_state_before_the_first_step_has_the_whole_budget() {
        for schedule in EditBudgetSchedule::ALL {
            assert_eq!(EditBudget::new(schedule, 7, 3).unwrap().at(StepIdx(0), 10), 7);
        }
    }

    #[test]
    fn a_minimum_above_the_maximum_is_an_error() {
        let refused = Err(ScheduleError::MinAboveMax { min: 3, max: 2 });
        assert_eq!(EditBudget::new(EditBudgetSchedule::Linear, 2, 3), refused);
    }

    #[test]
    fn names_are_read_back() {
        for schedule in EditBudgetSchedule::ALL {
            assert_eq!(EditBudgetSchedule::parse(schedule.as_str()), Some(schedule));
            assert_eq!(serde_json::to_value(schedule).unwrap(), schedule.as_str());
        }
        assert_eq!(EditBudgetSchedule::parse("Cosine"), None);
    }

    #[test]
    fn the_cosine_is_within_one_unit_in_the_last_place() {
        for part in 0..=200_000_u32 {
            let angle = PI * (f64::from(part) / 200_000.0);
            let (found, expect) = (cos_to_pi(angle), angle.cos());
            let distance = found.to_bits().abs_diff(expect.to_bits());
            assert!(distance <= 1, "cos({angle}) = {found}, not {expect}");
        }
    }

    proptest! {
        #[test]
        fn a_budget_stays_in_its_range_and_never_grows(
            schedule in prop::sample::select(&EditBudgetSchedule::ALL[..]), a: u32, b: u32, step: u32, total: u32,
        ) {
            let (max, min) = (a.max(b), a.min(b));
            let budget = EditBudget::new(schedule, max, min).unwrap();
            let now = budget.at(StepIdx(step), total);
            prop_assert!((min..=max).contains(&now));
            prop_assert!(budget.at(StepIdx(step.saturating_add(1)), total) <= now);
        }
    }
}

//! Advantages of single replies: what followed a state, beside what followed the same state in the group's episodes.
//!
//! The advantage of a whole episode is the same for its good replies and its bad ones. Episodes of one task begin alike
//! and pass through the same states, so replies to the same state can be compared as well: Feng et al., "Group-in-Group
//! Policy Optimization for LLM Agent Training" (`GiGPO`), 2025.

use super::{AdvantageSettings, Advantages, GrpoError, Rollout, SingleRollout, Statistics};
use std::collections::BTreeMap;

/// A reply to a state of the environment.
#[derive(Debug, Clone, PartialEq)]
pub struct Visit<'state> {
    /// Rollouts of the same task in the same iteration.
    pub group: u64,
    /// The arm of a trial that runs inside the group; the same number for all where there is none.
    pub arm: u32,
    /// What identifies the state inside the group, such as the observation that the reply answers.
    pub state: &'state str,
    /// The discounted return from here on; `None` if it could not be judged.
    pub value: Option<f64>,
}

/// The discounted return of each step: its reward, and what follows times `discount`.
pub fn discounted_returns(rewards: &[f64], discount: f64) -> Vec<f64> {
    let mut returns = rewards.to_vec();
    let mut following = 0.0;
    for value in returns.iter_mut().rev() {
        *value += discount * following;
        following = *value;
    }
    returns
}

impl AdvantageSettings {
    /// The advantage of each visit among the visits of the same state in its group or arm, by these settings.
    ///
    /// Every visit counts once, also where an episode comes back to a state. A state that was visited once has
    /// no other visit to be compared with: its advantage is 0.
    ///
    /// # Errors
    ///
    /// [`GrpoError::Reward`] for a return that is not finite.
    pub fn visit_advantages(&self, visits: &[Visit<'_>]) -> Result<Advantages, GrpoError> {
        let mut states: BTreeMap<(u64, &str), u64> = BTreeMap::new();
        for visit in visits {
            let number = states.len() as u64;
            states.entry((visit.group, visit.state)).or_insert(number);
        }
        let rollout = |(trajectory, visit): (u64, &Visit<'_>)| Rollout {
            group: *states.get(&(visit.group, visit.state)).expect("every visit has put in its state"),
            arm: visit.arm,
            trajectory,
            reward: visit.value,
        };
        let rollouts: Vec<Rollout> = (0..).zip(visits).map(rollout).collect();
        let settings = Self { single: SingleRollout::Zero, statistics: Statistics::Trajectories, ..*self };
        settings.advantages(&rollouts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpo::Scale;

    fn visit(group: u64, state: &str, value: f64) -> Visit<'_> {
        Visit { group, arm: 0, state, value: Some(value) }
    }

    #[test]
    fn later_rewards_are_discounted() {
        assert_eq!(discounted_returns(&[0.0, -0.5, 1.0], 0.5), [0.0, 0.0, 1.0]);
        assert_eq!(discounted_returns(&[1.0, 1.0], 0.0), [1.0, 1.0]);
        assert_eq!(discounted_returns(&[], 0.9), [0.0; 0]);
    }

    #[test]
    fn replies_to_one_state_of_a_group_are_compared() {
        let settings = AdvantageSettings { scale: Scale::None, ..AdvantageSettings::default() };
        let visits = [
            visit(0, "hall", 1.0),
            visit(0, "kitchen", 0.9),
            visit(0, "hall", 0.0),
            visit(1, "hall", 0.5),
            visit(0, "hall", 0.5),
        ];
        // The kitchen and the other group's hall were visited once each.
        assert_eq!(settings.visit_advantages(&visits).unwrap().values, [0.5, 0.0, -0.5, 0.0, 0.0]);
    }

    #[test]
    fn arms_of_a_trial_are_compared_apart() {
        let settings = AdvantageSettings { scale: Scale::None, ..AdvantageSettings::default() };
        let with = Visit { arm: 1, ..visit(0, "hall", 1.0) };
        let visits = [visit(0, "hall", 0.0), with.clone(), Visit { value: Some(0.0), ..with }];
        assert_eq!(settings.visit_advantages(&visits).unwrap().values, [0.0, 0.5, -0.5]);
    }

    #[test]
    fn the_deviation_scales_where_that_is_set() {
        let visits = [visit(0, "hall", 1.0), visit(0, "hall", 0.0)];
        let values = AdvantageSettings::default().visit_advantages(&visits).unwrap().values;
        assert!(
            (values[0] - std::f64::consts::FRAC_1_SQRT_2).abs() < 1e-5
                && (values[0] + values[1]).abs() < 1e-12,
            "{values:?}"
        );
    }

    #[test]
    fn a_return_that_is_not_finite_is_refused() {
        let visits = [visit(0, "hall", f64::NAN), visit(0, "hall", 0.0)];
        let refused = AdvantageSettings::default().visit_advantages(&visits);
        assert!(matches!(refused, Err(GrpoError::Reward { rollout: 0, .. })), "{refused:?}");
    }
}

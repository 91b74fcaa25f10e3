//! Advantages: rewards beside those of the same group.

use super::{GrpoError, count};
use std::collections::{BTreeMap, BTreeSet};

/// Rules that turn rewards into advantages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdvantageSettings {
    /// The divisor of the difference to the mean.
    pub scale: Scale,
    /// The unit that counts once in mean and deviation.
    pub statistics: Statistics,
    /// The rollouts that are compared with each other.
    pub baseline: Baseline,
    /// The rewards in a rollout's baseline.
    pub mean: Mean,
    /// Added to the deviation before the division, so that tiny differences are not blown up.
    pub epsilon: f64,
    /// Treatment of a rollout that has no other to be compared with.
    pub single: SingleRollout,
}

impl Default for AdvantageSettings {
    fn default() -> Self {
        Self {
            scale: Scale::Group,
            statistics: Statistics::Trajectories,
            baseline: Baseline::Arm,
            mean: Mean::All,
            epsilon: 1e-6,
            single: SingleRollout::Refuse,
        }
    }
}

/// The divisor of the difference to the mean; a standard deviation is the unbiased one, plus epsilon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scale {
    /// The standard deviation of the group, or of the arm where arms have baselines of their own.
    Group,
    /// The standard deviation of all rewards of the batch (TRL's `scale_rewards = "batch"`).
    Batch,
    /// Nothing, as in Liu et al., "Understanding R1-Zero-Like Training" (Dr. GRPO), 2025.
    None,
}

/// The unit that counts once in mean and deviation of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Statistics {
    /// Each trajectory once, by its first row: long episodes do not weigh more than short ones.
    Trajectories,
    /// Each row, so each step of a trajectory where steps are rows: the SkillRL paper's code.
    Steps,
}

/// The rollouts of a group that are compared with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Baseline {
    /// All of a group.
    Group,
    /// Those of the same arm of a trial: rollouts with a candidate skill among themselves, and those without it.
    Arm,
}

/// The rewards in a rollout's baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mean {
    /// The mean of all.
    All,
    /// The mean of all other trajectories, as in Ahmadian et al., "Back to Basics" (RLOO), 2024.
    LeaveOneOut,
}

/// Treatment of a rollout that has no other to be compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SingleRollout {
    /// It is an error: the group size is configured wrongly.
    Refuse,
    /// Its mean is 0 and its deviation 1, so that the advantage is the reward (verl).
    KeepReward,
    /// Its advantage is 0 (TRL).
    Zero,
}

/// A row of the batch: a whole episode, or one step of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rollout {
    /// Rollouts of the same task in the same iteration.
    pub group: u64,
    /// The arm of a trial that runs inside the group; the same number for all where there is none.
    pub arm: u32,
    /// The episode, unique in its group; rows of one episode share it.
    pub trajectory: u64,
    /// The reward; `None` if it could not be judged: its advantage is 0, and it counts in no mean.
    pub reward: Option<f64>,
}

/// The advantages of a batch.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Advantages {
    /// One for each rollout of the input, in its order.
    pub values: Vec<f64>,
    /// Each group, or arm of a group, with what its rewards say, by ascending group and arm.
    pub groups: Vec<GroupSignal>,
}

impl Advantages {
    /// The share of groups without a signal, from 0 to 1; 0 without groups.
    pub fn share_without_signal(&self) -> f64 {
        let silent = self.groups.iter().filter(|group| !group.has_signal).count();
        if self.groups.is_empty() { 0.0 } else { count(silent) / count(self.groups.len()) }
    }
}

/// Statistics of a group's rewards.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct GroupSignal {
    /// The group.
    pub group: u64,
    /// The arm, where arms have baselines of their own.
    pub arm: Option<u32>,
    /// The number of values in mean and deviation: trajectories or steps with a reward.
    pub n: usize,
    /// The mean of these rewards.
    pub mean: f64,
    /// Their unbiased standard deviation; 0 for fewer than two.
    pub std: f64,
    /// False if all rewards are equal: every advantage is exactly 0, and the group is left out of the update.
    pub has_signal: bool,
}

/// A part of the batch that is compared with itself: a group, and its arm where that counts.
type PartKey = (u64, Option<u32>);

impl AdvantageSettings {
    /// The advantage of each rollout: `(R - mean) / (std + epsilon)` over its group or arm, by these settings.
    ///
    /// # Errors
    ///
    /// [`GrpoError::Reward`] for a reward that is not finite, [`GrpoError::SingleRollout`] for a rollout without
    /// others, unless [`SingleRollout`] says what to do.
    pub fn advantages(&self, rollouts: &[Rollout]) -> Result<Advantages, GrpoError> {
        let bad = rollouts.iter().enumerate().find_map(|(rollout, row)| {
            row.reward
                .filter(|reward| !reward.is_finite())
                .map(|reward| GrpoError::Reward { rollout, reward })
        });
        if let Some(bad) = bad {
            return Err(bad);
        }
        let mut parts: BTreeMap<PartKey, Vec<(u64, f64)>> = BTreeMap::new();
        for rollout in rollouts {
            let values = parts.entry(self.part(rollout)).or_default();
            values.extend(rollout.reward.map(|reward| (rollout.trajectory, reward)));
        }
        let counted: BTreeMap<PartKey, Counted> =
            parts.into_iter().map(|(key, values)| (key, self.counted(values))).collect();
        let batch_std =
            std_of(counted.values().flat_map(|part| part.values.iter().map(|(_, reward)| *reward)));
        let value = |rollout: &Rollout| match (rollout.reward, counted.get(&self.part(rollout))) {
            (Some(reward), Some(part)) => self.advantage(rollout, reward, part, batch_std),
            (None, _) | (_, None) => Ok(0.0),
        };
        let values: Vec<f64> = rollouts.iter().map(value).collect::<Result<_, _>>()?;
        let groups = counted.iter().map(|((group, arm), part)| part.signal(*group, *arm)).collect();
        Ok(Advantages { values, groups })
    }

    fn part(&self, rollout: &Rollout) -> PartKey {
        match self.baseline {
            Baseline::Group => (rollout.group, None),
            Baseline::Arm => (rollout.group, Some(rollout.arm)),
        }
    }

    /// The values of a part that count in its statistics.
    fn counted(&self, mut values: Vec<(u64, f64)>) -> Counted {
        let all_equal = values.windows(2).all(|pair| matches!(pair, [(_, a), (_, b)] if a == b));
        if self.statistics == Statistics::Trajectories {
            let mut seen = BTreeSet::new();
            values.retain(|(trajectory, _)| seen.insert(*trajectory));
        }
        Counted { values, all_equal }
    }

    fn advantage(
        &self,
        rollout: &Rollout,
        reward: f64,
        part: &Counted,
        batch_std: f64,
    ) -> Result<f64, GrpoError> {
        let others = part.values.iter().filter(|(trajectory, _)| *trajectory != rollout.trajectory);
        let alone = match self.mean {
            Mean::All => part.values.len() < 2,
            Mean::LeaveOneOut => others.clone().count() == 0,
        };
        if alone {
            return self.of_single(rollout, reward);
        }
        if part.all_equal {
            return Ok(0.0);
        }
        let mean = match self.mean {
            Mean::All => mean_of(part.values.iter().map(|(_, reward)| *reward)),
            Mean::LeaveOneOut => mean_of(others.map(|(_, reward)| *reward)),
        };
        Ok(match self.scale {
            Scale::None => reward - mean,
            Scale::Group => (reward - mean) / (part.std() + self.epsilon),
            Scale::Batch => (reward - mean) / (batch_std + self.epsilon),
        })
    }

    fn of_single(&self, rollout: &Rollout, reward: f64) -> Result<f64, GrpoError> {
        let (group, arm) = self.part(rollout);
        match (self.single, self.scale) {
            (SingleRollout::Refuse, _) => Err(GrpoError::SingleRollout { group, arm }),
            (SingleRollout::Zero, _) => Ok(0.0),
            (SingleRollout::KeepReward, Scale::None) => Ok(reward),
            (SingleRollout::KeepReward, Scale::Group | Scale::Batch) => Ok(reward / (1.0 + self.epsilon)),
        }
    }
}

/// The rewards of a part that are in its statistics, with their trajectories.
struct Counted {
    values: Vec<(u64, f64)>,
    /// Also over the rows that are not in the statistics.
    all_equal: bool,
}

impl Counted {
    fn std(&self) -> f64 {
        std_of(self.values.iter().map(|(_, reward)| *reward))
    }

    fn signal(&self, group: u64, arm: Option<u32>) -> GroupSignal {
        let mean = mean_of(self.values.iter().map(|(_, reward)| *reward));
        let has_signal = !self.all_equal;
        GroupSignal { group, arm, n: self.values.len(), mean, std: self.std(), has_signal }
    }
}

fn mean_of(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0_usize), |(sum, n), value| (sum + value, n + 1));
    if n == 0 { 0.0 } else { sum / count(n) }
}

/// The unbiased standard deviation; 0 for fewer than two values.
fn std_of(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let n = values.clone().count();
    if n < 2 {
        return 0.0;
    }
    let mean = mean_of(values.clone());
    let squares: f64 = values.map(|value| (value - mean).powi(2)).sum();
    (squares / (count(n) - 1.0)).sqrt()
}

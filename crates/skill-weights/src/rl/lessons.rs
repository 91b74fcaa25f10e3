//! From played episodes to what an optimizer step learns: advantages, weights of tokens, and the loss.

use super::replies::reply_advantages;
use super::rollout::Played;
use crate::policy::EpisodeRow;
use skill_bank::trial::Half;
use skill_pipeline::settings::GROUP_SIZE;
use skill_pipeline::settings::{
    RlAdvantage, RlAggregation, RlBaseline, RlKlEstimator, RlSettings, RlStatistics,
};
use skill_train::TrainError;
use skill_train::grpo::{AdvantageSettings, Baseline, GrpoError, Mean, Rollout, Scale, Statistics};
use skill_train::seam::{KlEstimator, KlPenalty, PolicyLoss, Row};

/// Why nothing is learnt from these episodes.
fn train_error(error: GrpoError) -> TrainError {
    match error {
        GrpoError::Reward { rollout, reward } => {
            TrainError::NotFinite { quantity: format!("the reward of rollout {rollout}, {reward}") }
        }
        // A group of one episode, or a setting.
        other => TrainError::Request { field: GROUP_SIZE.to_owned(), fault: other.to_string() },
    }
}

/// An episode that the policy learns from, with its advantage.
pub(super) struct Lesson {
    rows: Vec<Row>,
}

/// The episodes of groups with a signal, in order, with their advantages; and the share of groups without one.
pub(super) fn lessons(settings: &RlSettings, played: &[Played]) -> Result<(Vec<Lesson>, f64), TrainError> {
    let by_reply = settings.reply_advantage > 0.0;
    // Where replies count, an episode is listed once for each of its replies; all of them have the same advantage.
    let n_copies = |played: &Played| match settings.statistics {
        RlStatistics::Trajectories => 1,
        RlStatistics::Steps => played.rows.iter().map(EpisodeRow::n_replies).sum::<usize>().max(1),
    };
    let mut rollouts = Vec::with_capacity(played.len());
    let mut first_copies = Vec::with_capacity(played.len());
    for (trajectory, played) in (0..).zip(played) {
        first_copies.push(rollouts.len());
        // Where replies have advantages of their own, the penalty belongs to them.
        let reward = if by_reply { played.outcome.score } else { played.reward };
        let rollout =
            Rollout { group: played.group as u64, arm: arm(played), trajectory, reward: Some(reward) };
        rollouts.extend(std::iter::repeat_n(rollout, n_copies(played)));
    }
    let rules = advantage_settings(settings);
    let advantages = rules.advantages(&rollouts).map_err(train_error)?;
    let of_replies = match by_reply {
        true => reply_advantages(settings, &rules, played).map_err(train_error)?,
        false => vec![Vec::new(); played.len()],
    };
    let values = first_copies.iter().filter_map(|place| advantages.values.get(*place));
    // Half a group whose returns are all equal teaches nothing, whatever the other half does.
    let has_signal = |played: &Played| {
        let (group, arm) = (played.group as u64, arm(played));
        advantages
            .groups
            .iter()
            .any(|found| found.group == group && found.arm.is_none_or(|of| of == arm) && found.has_signal)
    };
    let lesson = |((played, advantage), of_replies): ((&Played, &f64), &Vec<f64>)| {
        let teaches = has_signal(played) || of_replies.iter().any(|value| *value != 0.0);
        let mut of_replies = of_replies.iter().map(|value| advantage + settings.reply_advantage * value);
        let rows = played.rows.iter().map(|row| {
            let weights: Vec<f32> = row.sampled.iter().map(|sampled| f32::from(u8::from(*sampled))).collect();
            Row {
                tokens: row.tokens.clone(),
                advantages: token_advantages(row, || of_replies.next().unwrap_or(*advantage)),
                weights,
                old_logprobs: row.logprobs.clone(),
                reference_logprobs: Vec::new(),
            }
        });
        let rows = rows.filter(|row| row.weights.iter().any(|weight| *weight > 0.0));
        teaches.then(|| Lesson { rows: rows.collect() })
    };
    let lessons = played
        .iter()
        .zip(values)
        .zip(&of_replies)
        .filter_map(lesson)
        .filter(|lesson| !lesson.rows.is_empty());
    Ok((lessons.collect(), advantages.share_without_signal()))
}

/// The advantage of each token: that of its reply, and 0 where the token was not sampled.
fn token_advantages(row: &EpisodeRow, mut next_reply: impl FnMut() -> f64) -> Vec<f32> {
    let mut reply = None;
    let of_token = |sampled: &bool| match sampled {
        true => *reply.get_or_insert_with(&mut next_reply) as f32,
        false => {
            reply = None;
            0.0
        }
    };
    row.sampled.iter().map(of_token).collect()
}

/// Episodes of a group that were shown the same have one number.
pub(super) fn arm(played: &Played) -> u32 {
    u32::from(played.half == Some(Half::With))
}

/// The rows of an optimizer step with the weights of their tokens, and what the loss is divided by.
///
/// An episode counts once in means over episodes, even where a prompt that was not continued made it several rows.
pub(super) fn weighed(settings: &RlSettings, batch: &[Lesson]) -> (Vec<Row>, f64) {
    let n_targets = |lesson: &Lesson| -> usize {
        lesson.rows.iter().map(|row| row.weights.iter().filter(|weight| **weight != 0.0).count()).sum()
    };
    let n_episodes = batch.iter().filter(|lesson| n_targets(lesson) > 0).count() as f64;
    let denominator = match settings.aggregation {
        RlAggregation::TokenMean => batch.iter().map(n_targets).sum::<usize>() as f64,
        RlAggregation::SeqMeanTokenMean | RlAggregation::SeqMeanTokenSum => n_episodes,
        RlAggregation::SeqMeanTokenSumNorm => n_episodes * settings.max_reply_tokens as f64,
    };
    let mut rows = Vec::new();
    for lesson in batch {
        let weight = match settings.aggregation {
            RlAggregation::SeqMeanTokenMean => 1.0 / n_targets(lesson).max(1) as f64,
            RlAggregation::TokenMean
            | RlAggregation::SeqMeanTokenSum
            | RlAggregation::SeqMeanTokenSumNorm => 1.0,
        };
        rows.extend(lesson.rows.iter().cloned().map(|mut row| {
            row.weights.iter_mut().for_each(|each| *each *= weight as f32);
            row
        }));
    }
    (rows, denominator)
}

/// The loss of a token.
pub(super) fn loss(settings: &RlSettings) -> PolicyLoss {
    let estimator = match settings.kl_estimator {
        RlKlEstimator::K1 => KlEstimator::K1,
        RlKlEstimator::K2 => KlEstimator::K2,
        RlKlEstimator::K3 => KlEstimator::K3,
    };
    let kl = KlPenalty { estimator, coefficient: settings.kl_coeff, ..KlPenalty::default() };
    PolicyLoss {
        clip_low: settings.clip_epsilon,
        clip_high: settings.clip_epsilon_high.unwrap_or(settings.clip_epsilon),
        dual_clip: Some(settings.dual_clip).filter(|cap| *cap > 0.0),
        kl: Some(kl).filter(|kl| kl.coefficient > 0.0),
        entropy_coefficient: settings.entropy_coeff,
        ..PolicyLoss::default()
    }
}

/// From returns to advantages.
fn advantage_settings(settings: &RlSettings) -> AdvantageSettings {
    let (scale, mean) = match settings.advantage {
        RlAdvantage::Standardized => (Scale::Group, Mean::All),
        RlAdvantage::Centered => (Scale::None, Mean::All),
        RlAdvantage::LeaveOneOut => (Scale::None, Mean::LeaveOneOut),
    };
    let statistics = match settings.statistics {
        RlStatistics::Trajectories => Statistics::Trajectories,
        RlStatistics::Steps => Statistics::Steps,
    };
    let baseline = match settings.baseline {
        RlBaseline::Arm => Baseline::Arm,
        RlBaseline::Group => Baseline::Group,
    };
    AdvantageSettings { scale, statistics, baseline, mean, ..AdvantageSettings::default() }
}
#[cfg(test)]
mod tests {
    use super::*;
    use skill_bank::trial::TrialResult;

    /// An episode with a row for each list of replies; a reply of `n` tokens follows one that is shown.
    fn played(reward: f64, half: Option<Half>, rows: &[&[usize]]) -> Played {
        let row = |replies: &&[usize]| {
            let parts = replies.iter().map(|n| [&[false][..], &vec![true; *n]].concat());
            let sampled: Vec<bool> = parts.flatten().collect();
            EpisodeRow { tokens: vec![1; sampled.len()], logprobs: vec![-0.5; sampled.len()], sampled }
        };
        Played {
            group: 0,
            task_type: String::new(),
            is_success: false,
            invalid_actions: 0,
            reward,
            outcome: TrialResult { is_success: false, score: reward },
            half,
            result: None,
            rows: rows.iter().map(row).collect(),
        }
    }

    fn advantages(settings: &RlSettings, played: &[Played]) -> Vec<f32> {
        let (lessons, _) = lessons(settings, played).unwrap();
        lessons.iter().map(|lesson| *lesson.rows[0].advantages.last().unwrap()).collect()
    }

    fn close(found: &[f32], expected: &[f32]) {
        let differs = |(found, expected): (&f32, &f32)| (found - expected).abs() > 1e-4;
        assert!(found.len() == expected.len() && !found.iter().zip(expected).any(differs), "{found:?}");
    }

    #[test]
    fn the_switches_of_advantages_do_what_they_say() {
        let won_and_lost =
            [played(1.0, None, &[&[1]]), played(0.0, None, &[&[1, 1, 1]]), played(0.0, None, &[&[1]])];
        let usual = RlSettings::default();
        close(&advantages(&usual, &won_and_lost), &[1.1547, -0.57735, -0.57735]);
        let centered = RlSettings { advantage: RlAdvantage::Centered, ..usual.clone() };
        close(&advantages(&centered, &won_and_lost), &[0.66667, -0.33333, -0.33333]);
        let others = RlSettings { advantage: RlAdvantage::LeaveOneOut, ..usual.clone() };
        close(&advantages(&others, &won_and_lost), &[1.0, -0.5, -0.5]);
        // The mean of five replies is 0.2.
        let steps = RlSettings { statistics: RlStatistics::Steps, ..centered };
        close(&advantages(&steps, &won_and_lost), &[0.8, -0.2, -0.2]);
    }

    #[test]
    fn a_group_that_cannot_be_compared_is_told_from_a_reward_that_is_no_number() {
        let single = lessons(&RlSettings::default(), &[played(1.0, None, &[&[1]])]).err().unwrap();
        assert!(matches!(&single, TrainError::Request { field, .. } if field == GROUP_SIZE), "{single:?}");
        let rewards = [1.0, f64::NAN].map(|reward| played(reward, None, &[&[1]]));
        let not_a_number = lessons(&RlSettings::default(), &rewards).err().unwrap();
        assert!(matches!(not_a_number, TrainError::NotFinite { .. }), "{not_a_number:?}");
    }

    #[test]
    fn tokens_have_the_advantage_of_their_reply() {
        let row = EpisodeRow {
            tokens: vec![1; 7],
            sampled: [false, true, true, false, true, false, true].to_vec(),
            logprobs: vec![-0.5; 7],
        };
        let mut values = [0.5, -1.0].into_iter();
        let found = token_advantages(&row, || values.next().unwrap_or(0.25));
        assert_eq!(found, [0.0, 0.5, 0.5, 0.0, -1.0, 0.0, 0.25]);
    }

    #[test]
    fn halves_of_a_group_have_a_baseline_each_unless_it_is_switched_off() {
        let one = |reward, half| played(reward, Some(half), &[&[1]]);
        let played =
            [one(1.0, Half::With), one(0.0, Half::With), one(1.0, Half::Without), one(1.0, Half::Without)];
        let centered = RlSettings { advantage: RlAdvantage::Centered, ..RlSettings::default() };
        // The half whose games all ended alike has nothing to say.
        close(&advantages(&centered, &played), &[0.5, -0.5]);
        let by_group = RlSettings { baseline: RlBaseline::Group, ..centered };
        close(&advantages(&by_group, &played), &[0.25, -0.75, 0.25, 0.25]);
    }

    #[test]
    fn aggregations_weigh_tokens_and_episodes() {
        let episodes = [played(1.0, None, &[&[4]]), played(0.0, None, &[&[1], &[1]])];
        // The weight of a token of each episode, over what the sum is divided by.
        let shares = |aggregation| {
            let settings = RlSettings { aggregation, max_reply_tokens: 10, ..RlSettings::default() };
            let (lessons, _) = lessons(&settings, &episodes).unwrap();
            let (rows, denominator) = weighed(&settings, &lessons);
            let share = |row: &Row| f64::from(*row.weights.last().unwrap()) / denominator;
            assert_eq!(rows.len(), 3);
            [share(&rows[0]), share(&rows[1]), share(&rows[2])]
        };
        let sixth = 1.0 / 6.0;
        assert_eq!(shares(RlAggregation::TokenMean), [sixth; 3]);
        assert_eq!(shares(RlAggregation::SeqMeanTokenMean), [0.125, 0.25, 0.25]);
        assert_eq!(shares(RlAggregation::SeqMeanTokenSum), [0.5; 3]);
        assert_eq!(shares(RlAggregation::SeqMeanTokenSumNorm), [0.05; 3]);
    }

    #[test]
    fn the_loss_has_the_settings() {
        let settings = RlSettings {
            kl_estimator: RlKlEstimator::K1,
            clip_epsilon_high: Some(0.28),
            dual_clip: 0.0,
            entropy_coeff: 0.01,
            ..RlSettings::default()
        };
        let found = loss(&settings);
        assert_eq!((found.clip_low, found.clip_high, found.dual_clip), (0.2, 0.28, None));
        assert_eq!(found.entropy_coefficient, 0.01);
        assert_eq!(found.kl.map(|kl| kl.estimator), Some(KlEstimator::K1));
        assert_eq!(loss(&RlSettings { kl_coeff: 0.0, ..settings }).kl, None);
        assert_eq!(loss(&RlSettings::default()), PolicyLoss::default());
    }
}

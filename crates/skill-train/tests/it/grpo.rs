//! GRPO: defaults, switches that no reference has, what is refused, and the gradients of the loss against differences.

use proptest::prelude::*;
use skill_train::grpo::{
    AdvantageSettings, Advantages, Baseline, GrpoError, Mean, Rollout, Scale, SingleRollout, Statistics,
};
use skill_train::loss::{TokenGradient, TokenInput};
use skill_train::seam::{KlEstimator, KlPenalty, Loss, LossMetrics, PolicyLoss, Row};

/// One rollout for each reward, in one group; the arms alternate.
fn group(rewards: &[f64]) -> Vec<Rollout> {
    let rollout = |(index, reward): (u32, &f64)| Rollout {
        group: 3,
        arm: index % 2,
        trajectory: u64::from(index),
        reward: Some(*reward),
    };
    (0_u32..).zip(rewards).map(rollout).collect()
}

fn of(settings: AdvantageSettings, rewards: &[f64]) -> Advantages {
    settings.advantages(&group(rewards)).unwrap()
}

#[track_caller]
fn near(ours: &[f64], expect: &[f64]) {
    assert_eq!(ours.len(), expect.len());
    for (ours, expect) in ours.iter().zip(expect) {
        assert!((ours - expect).abs() < 1e-5, "{ours} is not {expect}");
    }
}

#[test]
fn defaults_are_those_of_the_paper() {
    let settings = AdvantageSettings::default();
    assert_eq!((settings.scale, settings.epsilon), (Scale::Group, 1e-6));
    assert_eq!((settings.statistics, settings.baseline), (Statistics::Trajectories, Baseline::Arm));
    assert_eq!((settings.mean, settings.single), (Mean::All, SingleRollout::Refuse));
    let loss = PolicyLoss::default();
    assert_eq!((loss.clip_low, loss.clip_high, loss.dual_clip), (0.2, 0.2, Some(3.0)));
    assert_eq!((loss.max_log_ratio, loss.entropy_coefficient), (Some(20.0), 0.0));
    let kl = loss.kl.unwrap();
    assert_eq!((kl.coefficient, kl.estimator, kl.max_log_ratio), (0.01, KlEstimator::K3, Some(20.0)));
}

#[test]
fn a_half_of_a_group_has_a_baseline_of_its_own() {
    let rewards = [1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0];
    let arms = of(AdvantageSettings { scale: Scale::None, ..AdvantageSettings::default() }, &rewards);
    near(&arms.values, &[0.25, -0.25, 0.25, -0.25, -0.75, -0.25, 0.25, 0.75]);
    assert_eq!(
        arms.groups.iter().map(|part| (part.arm, part.n)).collect::<Vec<_>>(),
        [(Some(0), 4), (Some(1), 4)]
    );
    let whole =
        AdvantageSettings { scale: Scale::None, baseline: Baseline::Group, ..AdvantageSettings::default() };
    let whole = of(whole, &rewards);
    near(&whole.values, &[0.5, -0.5, 0.5, -0.5, -0.5, -0.5, 0.5, 0.5]);
    assert_eq!(whole.groups.iter().map(|part| (part.arm, part.mean)).collect::<Vec<_>>(), [(None, 0.5)]);
}

#[test]
fn a_rollout_that_is_left_out_of_its_baseline_is_compared_with_the_others() {
    let settings = AdvantageSettings {
        mean: Mean::LeaveOneOut,
        scale: Scale::None,
        baseline: Baseline::Group,
        ..AdvantageSettings::default()
    };
    near(&of(settings, &[1.0, 0.0, 0.5]).values, &[0.75, -0.75, 0.0]);
}

#[test]
fn equal_rewards_give_exactly_0_and_no_signal() {
    for reward in [0.1, 1.0 / 3.0, -7.3, 0.0] {
        let ours = of(AdvantageSettings::default(), &[reward; 8]);
        assert_eq!(ours.values, [0.0; 8]);
        assert_eq!(ours.share_without_signal(), 1.0);
    }
    let half = of(AdvantageSettings::default(), &[1.0, 0.3, 0.0, 0.3, 1.0, 0.3]);
    assert_eq!(half.share_without_signal(), 0.5);
    assert_eq!(half.values[1], 0.0);
}

#[test]
fn a_group_of_one_is_an_error_of_the_configuration() {
    let settings = AdvantageSettings::default();
    let error = |rewards: &[f64]| settings.advantages(&group(rewards)).unwrap_err();
    assert_eq!(error(&[1.0]), GrpoError::SingleRollout { group: 3, arm: Some(0) });
    assert_eq!(error(&[1.0, 0.0, 0.5]), GrpoError::SingleRollout { group: 3, arm: Some(1) });
}

#[test]
fn rewards_that_are_no_numbers_are_errors_and_unknown_ones_are_left_out() {
    let mut rollouts = group(&[1.0, 0.0, 0.0, 1.0, 0.0, 1.0]);
    rollouts[4].reward = Some(f64::NAN);
    let error = AdvantageSettings::default().advantages(&rollouts).unwrap_err();
    assert!(matches!(error, GrpoError::Reward { rollout: 4, .. }), "{error:?}");
    rollouts[4].reward = None;
    let ours = AdvantageSettings { scale: Scale::None, ..AdvantageSettings::default() };
    let ours = ours.advantages(&rollouts).unwrap();
    assert_eq!(ours.values[4], 0.0);
    near(&ours.values[..3], &[0.5, -2.0 / 3.0, -0.5]);
}

#[test]
fn nothing_has_no_advantage() {
    let ours = AdvantageSettings::default().advantages(&[]).unwrap();
    assert!(ours.values.is_empty() && ours.groups.is_empty());
    assert_eq!(ours.share_without_signal(), 0.0);
}

/// The loss of a token of weight 1, and its derivatives.
fn loss_of(settings: &PolicyLoss, token: &TokenInput) -> (f64, TokenGradient) {
    let mut metrics = LossMetrics::default();
    let gradient = Loss::Policy(settings.clone()).token(token, 1.0, &mut metrics);
    (metrics.loss, gradient)
}

fn token(advantage: f64, logprob: f64, old_logprob: f64, reference_logprob: f64) -> TokenInput {
    let mut token = TokenInput::default();
    (token.weight, token.advantage, token.entropy) = (1.0, advantage, 1.5);
    (token.logprob, token.old_logprob, token.reference_logprob) = (logprob, old_logprob, reference_logprob);
    token
}

fn settings_of(estimator: KlEstimator, dual_clip: Option<f64>) -> PolicyLoss {
    let kl = Some(KlPenalty { estimator, coefficient: 0.3, ..KlPenalty::default() });
    PolicyLoss { dual_clip, kl, entropy_coefficient: 0.1, ..PolicyLoss::default() }
}

fn estimators() -> impl Strategy<Value = KlEstimator> {
    prop::sample::select(vec![KlEstimator::K1, KlEstimator::K2, KlEstimator::K3])
}

#[test]
fn numbers_that_are_not_finite_and_settings_outside_their_range_are_refused_by_name() {
    let row = || Row {
        tokens: vec![1, 2],
        weights: vec![0.0, 1.0],
        advantages: vec![0.0, 1.0],
        old_logprobs: vec![0.0, -0.5],
        reference_logprobs: vec![0.0, -0.6],
    };
    type Change = fn(&mut Row, &mut PolicyLoss);
    let cases: [(&str, Change); 9] = [
        ("rows[1].advantages", |row, _| row.advantages[1] = f32::INFINITY),
        ("rows[1].old_logprobs", |row, _| row.old_logprobs[1] = f32::NAN),
        ("rows[1].reference_logprobs", |row, _| row.reference_logprobs.clear()),
        ("loss.clip_low", |_, loss| loss.clip_low = 1.5),
        ("loss.clip_high", |_, loss| loss.clip_high = -0.1),
        ("loss.dual_clip", |_, loss| loss.dual_clip = Some(0.5)),
        ("loss.kl", |_, loss| loss.entropy_coefficient = f64::NAN),
        ("loss.kl", |_, loss| loss.kl.as_mut().unwrap().coefficient = f64::INFINITY),
        ("", |_, _| ()),
    ];
    for (expected, change) in cases {
        let (mut changed, mut loss) = (row(), PolicyLoss::default());
        change(&mut changed, &mut loss);
        match Loss::Policy(loss).check(&[row(), changed]) {
            Err(skill_train::TrainError::Request { field, .. }) => assert_eq!(field, expected),
            other => assert!(other.is_ok() && expected.is_empty(), "{expected}: {other:?}"),
        }
    }
}

proptest! {
    /// The loss is differentiable but at the borders of its clips, which random numbers do not hit.
    #[test]
    fn gradients_are_those_of_finite_differences(
        logprobs in prop::array::uniform3(-3.0_f64..-0.01),
        advantage in -2.0_f64..2.0,
        estimator in estimators(),
        dual_clip in prop::option::of(1.5_f64..4.0),
    ) {
        const STEP: f64 = 1e-6;
        let (settings, [new, old, reference]) = (settings_of(estimator, dual_clip), logprobs);
        let at = |delta: f64| loss_of(&settings, &token(advantage, new + delta, old, reference));
        let difference = (at(STEP).0 - at(-STEP).0) / (2.0 * STEP);
        let gradient = at(0.0).1.by_logprob;
        prop_assert!((difference - gradient).abs() < 1e-4 * gradient.abs().max(1.0), "{gradient}, {difference}");
    }

    #[test]
    fn a_ratio_that_overflows_gives_a_finite_loss_and_gradient(
        logprobs in prop::array::uniform3(-1e4_f64..0.0),
        advantage in prop::sample::select(vec![1.0, -1.0, 0.0]),
        estimator in estimators(),
        dual_clip in prop::option::of(1.5_f64..4.0),
    ) {
        let [new, old, reference] = logprobs;
        let (loss, gradient) = loss_of(&settings_of(estimator, dual_clip), &token(advantage, new, old, reference));
        prop_assert!(loss.is_finite() && gradient.by_logprob.is_finite() && gradient.by_entropy.is_finite());
    }

    #[test]
    fn advantages_of_a_group_add_up_to_0(
        rewards in prop::collection::vec(-5.0_f64..5.0, 2..12),
        by_std in any::<bool>(),
    ) {
        let settings = AdvantageSettings {
            baseline: Baseline::Group,
            scale: if by_std { Scale::Group } else { Scale::None },
            ..AdvantageSettings::default()
        };
        let sum: f64 = of(settings, &rewards).values.iter().sum();
        prop_assert!(sum.abs() < 1e-9, "{sum}");
    }
}

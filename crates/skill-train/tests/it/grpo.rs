//! GRPO: defaults, switches that no reference has, what is refused, and gradients against differences.

use proptest::prelude::*;
use skill_train::grpo::{
    AdvantageSettings, Advantages, Aggregation, AggregationMode, Baseline, BatchTotals, EmptyRows, GrpoError,
    GrpoLoss, KlEstimator, KlGradient, KlPenalty, KlValue, KlWeight, LossRow, Mean, PolicyClip, RatioLevel,
    Rollout, Scale, SingleRollout, Statistics, entropy_of_logits, episode_return,
};

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
    let loss = GrpoLoss::default();
    assert_eq!((loss.clip.low, loss.clip.high, loss.clip.dual), (0.2, 0.2, Some(3.0)));
    assert_eq!((loss.clip.log_ratio_limit, loss.clip.level), (Some(20.0), RatioLevel::Token));
    let kl = loss.kl.unwrap();
    assert_eq!((kl.coefficient, kl.estimator.value, kl.weight), (0.01, KlValue::K3, KlWeight::One));
    assert_eq!((kl.estimator.log_ratio_limit, kl.estimator.value_limit), (Some(20.0), Some(10.0)));
    assert_eq!((loss.aggregation.mode, loss.entropy_coefficient), (AggregationMode::TokenMean, 0.0));
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
    assert_eq!(settings.check_group_size(1, 1), Err(GrpoError::GroupSize { n_rollouts: 1, needed: 2 }));
    assert_eq!(settings.check_group_size(3, 2), Err(GrpoError::GroupSize { n_rollouts: 3, needed: 4 }));
    assert_eq!(settings.check_group_size(2, 1), Ok(()));
    let whole = AdvantageSettings { baseline: Baseline::Group, ..settings };
    assert_eq!(whole.check_group_size(2, 2), Ok(()));
    let kept = AdvantageSettings { single: SingleRollout::Zero, ..settings };
    assert_eq!(kept.check_group_size(1, 1), Ok(()));
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

#[test]
fn the_return_loses_a_penalty_for_each_invalid_action() {
    assert_eq!(episode_return(1.0, 0, 0.1), 1.0);
    assert!((episode_return(1.0, 3, 0.1) - 0.7).abs() < 1e-12);
}

/// Rows with the mask of their first tokens.
struct Rows {
    new: Vec<Vec<f64>>,
    old: Vec<Vec<f64>>,
    reference: Vec<Vec<f64>>,
    masks: Vec<Vec<bool>>,
    advantages: Vec<f64>,
}

impl Rows {
    fn rows(&self) -> Vec<LossRow<'_>> {
        let row = |row: usize| LossRow {
            log_probs: &self.new[row],
            old_log_probs: &self.old[row],
            reference_log_probs: Some(&self.reference[row]),
            entropies: None,
            mask: &self.masks[row],
            advantage: self.advantages[row],
        };
        (0..self.new.len()).map(row).collect()
    }
}

fn three_rows() -> Rows {
    Rows {
        new: vec![vec![-0.5, -1.0, -2.0], vec![-0.3, -0.1, -0.7], vec![-1.0, -1.5, -0.2]],
        old: vec![vec![-0.6, -0.8, -2.1], vec![-1.9, -0.15, -0.7], vec![-1.1, -1.5, -0.9]],
        reference: vec![vec![-0.4, -1.2, -2.0], vec![-0.5, -0.3, -0.6], vec![-1.4, -1.1, -0.8]],
        masks: vec![vec![true, true, false], vec![false; 3], vec![true, false, true]],
        advantages: vec![0.8, -1.0, -0.6],
    }
}

#[test]
fn bad_rows_are_named() {
    let mut rows = three_rows();
    let error = |rows: &Rows| GrpoLoss::default().compute(&rows.rows()).unwrap_err();
    rows.old[2].pop();
    assert!(matches!(error(&rows), GrpoError::Lengths { row: 2, n: 2, expected: 3, .. }));
    let mut rows = three_rows();
    rows.masks[0].push(true);
    assert!(matches!(error(&rows), GrpoError::Lengths { row: 0, n: 4, expected: 3, .. }));
    let mut rows = three_rows();
    rows.new[2][2] = f64::NAN;
    assert!(matches!(error(&rows), GrpoError::NotFinite { row: 2, token: 2, .. }));
    // A masked token may be anything: padding has no log-prob.
    rows.masks[2][2] = false;
    assert!(GrpoLoss::default().compute(&rows.rows()).unwrap().loss.is_finite());
    let mut rows = three_rows();
    rows.advantages[1] = f64::INFINITY;
    assert!(matches!(error(&rows), GrpoError::NotFinite { row: 1, .. }));
    let rows = three_rows();
    let mut missing = rows.rows();
    missing[1].reference_log_probs = None;
    let error = GrpoLoss::default().compute(&missing).unwrap_err();
    assert!(matches!(error, GrpoError::Missing { row: 1, .. }), "{error:?}");
    let entropy = GrpoLoss { entropy_coefficient: 0.01, ..GrpoLoss::default() };
    assert!(matches!(entropy.compute(&rows.rows()), Err(GrpoError::Missing { row: 0, .. })));
}

#[track_caller]
fn clip_refused(clip: PolicyClip, expect: &str) {
    let loss = GrpoLoss { clip, ..GrpoLoss::default() };
    match loss.compute(&three_rows().rows()) {
        Err(GrpoError::Setting { setting, .. }) => assert_eq!(setting, expect),
        other => panic!("{other:?}"),
    }
}

#[test]
fn settings_outside_their_range_are_refused() {
    let plain = PolicyClip::default();
    clip_refused(PolicyClip { low: 1.5, ..plain }, "low");
    clip_refused(PolicyClip { high: -0.1, ..plain }, "high");
    clip_refused(PolicyClip { dual: Some(0.5), ..plain }, "dual");
    clip_refused(PolicyClip { ratio_cap: Some(f64::NAN), ..plain }, "ratio_cap");
    clip_refused(PolicyClip { log_ratio_limit: Some(-1.0), ..plain }, "log_ratio_limit");
    let length = Aggregation::new(AggregationMode::SequenceSum { length: 0.0 });
    assert!(matches!(length.weights(&[1]), Err(GrpoError::Setting { setting: "length", .. })));
    let nothing = Some(BatchTotals { n_tokens: 0, n_rows: 0 });
    let totals = Aggregation { totals: nothing, ..Aggregation::new(AggregationMode::TokenMean) };
    assert!(matches!(totals.weights(&[0, 1]), Err(GrpoError::Setting { setting: "totals", .. })));
    assert_eq!(totals.weights(&[0, 0]), Ok(vec![0.0, 0.0]));
}

#[test]
fn micro_batches_with_totals_add_up_to_the_mini_batch() {
    let rows = three_rows();
    let rows = rows.rows();
    let modes = [
        AggregationMode::TokenMean,
        AggregationMode::TokenSum,
        AggregationMode::SequenceMeanTokenMean,
        AggregationMode::SequenceMeanTokenSum,
        AggregationMode::SequenceSum { length: 7.0 },
        AggregationMode::SequenceMeanOfSums { length: 7.0 },
    ];
    for mode in modes {
        let mut loss = GrpoLoss { aggregation: Aggregation::new(mode), ..GrpoLoss::default() };
        let whole = loss.compute(&rows).unwrap();
        loss.aggregation.totals = Some(BatchTotals { n_tokens: whole.n_tokens, n_rows: 2 });
        let parts = [loss.compute(&rows[..1]).unwrap(), loss.compute(&rows[1..]).unwrap()];
        assert!((parts[0].loss + parts[1].loss - whole.loss).abs() < 1e-12, "{mode:?}");
    }
}

#[test]
fn rows_without_tokens_change_nothing() {
    let rows = three_rows();
    let rows = rows.rows();
    for mode in [AggregationMode::SequenceMeanTokenMean, AggregationMode::SequenceMeanTokenSum] {
        let loss = GrpoLoss { aggregation: Aggregation::new(mode), ..GrpoLoss::default() };
        let without = loss.compute(&[rows[0], rows[2]]).unwrap();
        assert_eq!(loss.compute(&rows).unwrap().loss, without.loss);
        let empty = loss.compute(&rows[1..2]).unwrap();
        assert_eq!((empty.loss, empty.n_tokens, empty.gradients), (0.0, 0, vec![vec![0.0; 3]]));
    }
    assert_eq!(GrpoLoss::default().compute(&[]).unwrap().loss, 0.0);
}

#[test]
fn a_ratio_that_overflows_gives_a_finite_loss_and_gradient() {
    for limit in [Some(20.0), None] {
        for advantage in [1.0, -1.0, 0.0] {
            let mut rows = three_rows();
            rows.old[0][0] = -800.0;
            rows.advantages[0] = advantage;
            let clip = PolicyClip { log_ratio_limit: limit, ..PolicyClip::default() };
            let report = GrpoLoss { clip, ..GrpoLoss::default() }.compute(&rows.rows()).unwrap();
            assert!(report.loss.is_finite(), "{limit:?} {advantage}");
            assert!(report.gradients.iter().flatten().all(|gradient| gradient.is_finite()));
        }
    }
}

#[test]
fn the_entropy_of_a_certain_token_is_0() {
    let certain = entropy_of_logits(&[0.0, f64::NEG_INFINITY]);
    assert_eq!((certain.entropy, certain.gradient), (0.0, vec![0.0, 0.0]));
}

/// Every loss is differentiable but at the borders of its clips, which random numbers do not hit.
fn check_gradient(loss: &GrpoLoss, rows: &Rows) -> Result<(), TestCaseError> {
    const STEP: f64 = 1e-6;
    let gradients = loss.compute(&rows.rows()).unwrap().gradients;
    for row in 0..rows.new.len() {
        for token in 0..rows.new[row].len() {
            let at = |delta: f64| {
                let mut moved = rows.new.clone();
                moved[row][token] += delta;
                let moved = Rows {
                    new: moved,
                    old: rows.old.clone(),
                    reference: rows.reference.clone(),
                    masks: rows.masks.clone(),
                    advantages: rows.advantages.clone(),
                };
                loss.compute(&moved.rows()).unwrap().loss
            };
            let difference = (at(STEP) - at(-STEP)) / (2.0 * STEP);
            let gradient = gradients[row][token];
            let allowed = 1e-4 * gradient.abs().max(1.0);
            prop_assert!((difference - gradient).abs() < allowed, "{row}, {token}: {gradient}, {difference}");
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn gradients_are_those_of_finite_differences(
        new in prop::collection::vec(prop::collection::vec(-3.0_f64..-0.01, 4), 3),
        old in prop::collection::vec(prop::collection::vec(-3.0_f64..-0.01, 4), 3),
        reference in prop::collection::vec(prop::collection::vec(-3.0_f64..-0.01, 4), 3),
        masks in prop::collection::vec(prop::collection::vec(any::<bool>(), 4), 3),
        advantages in prop::collection::vec(-2.0_f64..2.0, 3),
        value in prop::sample::select(vec![KlValue::K1, KlValue::Abs, KlValue::K2, KlValue::K3]),
        level in prop::sample::select(vec![RatioLevel::Token, RatioLevel::Sequence]),
        weight in prop::sample::select(vec![KlWeight::One, KlWeight::Ratio]),
        dual in prop::option::of(1.5_f64..4.0),
        ratio_cap in prop::option::of(1.5_f64..4.0),
        mean_of_rows in any::<bool>(),
    ) {
        let rows = Rows { new, old, reference, masks, advantages };
        let estimator = KlEstimator { value, gradient: KlGradient::OfValue, ..KlEstimator::default() };
        let mode = if mean_of_rows {
            AggregationMode::SequenceMeanTokenMean
        } else {
            AggregationMode::TokenMean
        };
        let loss = GrpoLoss {
            clip: PolicyClip { dual, ratio_cap, level, ..PolicyClip::default() },
            kl: Some(KlPenalty { coefficient: 0.3, estimator, weight }),
            entropy_coefficient: 0.0,
            aggregation: Aggregation { empty_rows: EmptyRows::Counted, ..Aggregation::new(mode) },
        };
        check_gradient(&loss, &rows)?;
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

//! Trials of scores between 0 and 1.

use super::{ANY_TIME, FIXED_END, design, group, with_settings};
use proptest::prelude::*;
use skill_bank::trial::{
    Decision, Ground, Half, TrialDesign, TrialError, TrialGroup, TrialGroups, TrialOutcome, TrialResult,
    TrialSettings, TrialState,
};
use skill_bank::{Evidence, TrialVerdict};
use skill_core::PyRandom;
use skill_core::stats::stratified::TrialRule;

fn of_scores(n_items: usize, n_groups: u64, rule: TrialRule) -> TrialDesign {
    let settings = TrialSettings { max_rollouts: 8 * n_groups, rule, ..TrialSettings::default() };
    with_settings(n_items, &TrialSettings { outcome: TrialOutcome::Score, ..settings })
}

/// The group at this place, whose rollouts score by their half and their number in it; 1 is a success.
fn scored(design: &TrialDesign, place: u64, score: impl Fn(Half, usize) -> f64) -> TrialGroup {
    let planned = design.group(place).unwrap();
    let mut n_of_half = [0, 0];
    let results: Vec<Option<TrialResult>> = planned
        .halves
        .iter()
        .map(|half| {
            let number = &mut n_of_half[usize::from(*half == Half::With)];
            let score = score(*half, *number);
            *number += 1;
            Some(TrialResult { is_success: score >= 1.0, score })
        })
        .collect();
    planned.of_rollouts(&results).unwrap()
}

fn decide(design: &TrialDesign, score: impl Fn(u64, Half, usize) -> f64) -> Decision {
    let mut state = TrialState::new(design.clone());
    for place in 0..design.n_groups() {
        let group = scored(design, place, |half, number| score(place, half, number));
        if let Some(decision) = state.push(place, group).unwrap() {
            let text = serde_json::to_string(decision).unwrap();
            assert_eq!(serde_json::from_str::<Decision>(&text).unwrap(), *decision);
            return *decision;
        }
    }
    panic!("no decision");
}

#[track_caller]
fn check(
    rule: TrialRule,
    n_groups: u64,
    score: impl Fn(u64, Half, usize) -> f64 + Copy,
    expect: (TrialVerdict, Ground, u64),
) {
    let decision = decide(&of_scores(4, n_groups, rule), score);
    assert_eq!((decision.verdict, decision.ground, decision.n_groups), expect, "{:?}", decision.numbers);
}

#[test]
fn scores_decide_where_no_rollout_succeeds() {
    let part = |_, half, number: usize| {
        let more = if half == Half::With { 0.5 } else { 0.0 };
        more + 0.1 * number as f64
    };
    // Successes tell nothing.
    for rule in [ANY_TIME, FIXED_END] {
        let decision = decide(&design(4, 24, rule), part);
        assert_eq!((decision.verdict, decision.numbers.informative_groups), (TrialVerdict::Reject, 0));
        assert_eq!(decision.numbers.mean_scores, None);
    }
    // The e-value of 8 differences of 1/2 is 8, that of 12 is 30.
    check(ANY_TIME, 24, part, (TrialVerdict::Admit, Ground::Better, 12));
    check(FIXED_END, 6, part, (TrialVerdict::Admit, Ground::Better, 6));
    let numbers = decide(&of_scores(4, 24, ANY_TIME), part).numbers;
    assert_eq!((numbers.groups, numbers.informative_groups), (12, 12));
    assert_eq!((numbers.with, numbers.without), ([0, 48], [0, 48]));
    let [with, without] = numbers.mean_scores.unwrap();
    assert!((with - 0.65).abs() < 1e-9 && (without - 0.15).abs() < 1e-9);
    assert!((numbers.difference - 0.5).abs() < 1e-9 && numbers.interval[0] > 0.4, "{numbers:?}");
    assert!(numbers.p_better < 0.001 && numbers.p_worse > 0.999 && numbers.e_better >= 20.0, "{numbers:?}");
    let utility = numbers.utility().unwrap();
    assert_eq!((utility.difference, utility.informative_groups), (numbers.difference, 12));
}

#[test]
fn a_trial_of_scores_ends_for_harm_and_out_of_reach() {
    let worse = |_, half, _| if half == Half::With { 0.25 } else { 0.75 };
    let even = |_, _, number: usize| 0.25 * number as f64;
    let nothing = |_, _, _| 0.5;
    let slightly = |place: u64, half, number: usize| {
        let is_more = half == Half::With && (place, number) == (0, 0);
        if is_more { 0.6 } else { 0.5 }
    };
    for rule in [ANY_TIME, FIXED_END] {
        // Harm is seen after any group, and not only at looks: ten differences of 1/2 have an e-value of 16, eleven 21.
        check(rule, 40, worse, (TrialVerdict::Reject, Ground::Worse, 11));
    }
    // Six groups with a difference of 1 give 18, seven 32.
    check(ANY_TIME, 24, even, (TrialVerdict::Reject, Ground::OutOfReach, 18));
    check(ANY_TIME, 24, nothing, (TrialVerdict::Reject, Ground::OutOfReach, 18));
    check(FIXED_END, 8, even, (TrialVerdict::Reject, Ground::Limit, 8));
    check(FIXED_END, 8, slightly, (TrialVerdict::Undecided, Ground::Limit, 8));
}

#[test]
fn the_design_names_what_is_compared() {
    let (successes, scores) = (design(3, 6, ANY_TIME), of_scores(3, 6, ANY_TIME));
    let read = |text: &str| TrialDesign::from_json(text, &Evidence::default()).unwrap().unwrap();
    assert_eq!((successes.outcome(), scores.outcome()), (TrialOutcome::Success, TrialOutcome::Score));
    assert_ne!(successes.sha256(), scores.sha256());
    assert!(scores.to_json().contains(r#""outcome":"score""#), "{}", scores.to_json());
    assert_eq!(read(&scores.to_json()), scores);
    // A design that does not say so is of successes, and is written and named as ever.
    assert!(!successes.to_json().contains("outcome"));
    assert_eq!(read(&successes.to_json()), successes);
    let named = scores.to_json().replace(r#""outcome":"score""#, r#""outcome":"success""#);
    assert_eq!(read(&named), successes);
    let unknown = named.replace("success", "steps");
    assert!(TrialDesign::from_json(&unknown, &Evidence::default()).is_err());
    let text =
        serde_json::to_string(&TrialSettings { outcome: TrialOutcome::Score, ..TrialSettings::default() });
    let settings: TrialSettings = serde_json::from_str(&text.unwrap()).unwrap();
    assert_eq!(settings.outcome, TrialOutcome::Score);
}

#[test]
fn rollouts_that_could_not_be_made_have_no_score() {
    let design = of_scores(2, 4, ANY_TIME);
    let planned = design.group(0).unwrap();
    let result = TrialResult { is_success: false, score: 0.5 };
    let with_alone: Vec<Option<TrialResult>> =
        planned.halves.iter().map(|half| (*half == Half::With).then_some(result)).collect();
    let group_of_one_half = planned.of_rollouts(&with_alone).unwrap();
    assert_eq!((group_of_one_half.shape().new, group_of_one_half.shape().old), (4, 0));
    let mut groups = TrialGroups::new(&design);
    groups.push(group_of_one_half);
    let numbers = groups.numbers();
    assert_eq!((numbers.groups, numbers.informative_groups, numbers.with), (1, 0, [0, 4]));
    assert_eq!((numbers.mean_scores, numbers.utility()), (Some([0.5, 0.0]), None));
    let short = planned.of_rollouts(&with_alone[1..]).unwrap_err();
    assert!(matches!(short, TrialError::WrongRollouts { group: 0, found: 7, planned: 8 }));
    // A group of successes alone fits no trial of scores.
    let mut state = TrialState::new(design);
    let missing = state.push(1, group([1, 4], [1, 4])).unwrap_err();
    assert!(matches!(missing, TrialError::MissingScores { group: 1 }));
    assert_eq!((state.n_seen(), state.n_informative()), (0, 0));
}

#[test]
fn scores_are_compared_where_one_is_neither_0_nor_1() {
    for (scores, expect) in [
        (&[] as &[f64], TrialOutcome::Success),
        (&[0.0, 1.0, 1.0], TrialOutcome::Success),
        (&[0.0, 0.999], TrialOutcome::Score),
        (&[-0.5, 1.5, f64::NAN], TrialOutcome::Success),
    ] {
        assert_eq!(TrialOutcome::of_scores(scores.iter().copied()), expect, "{scores:?}");
    }
}

/// The verdict on a candidate that raises scores by this much, on tasks whose scores vary by task and rollout.
fn simulated(rule: TrialRule, raise: f64, seed: u64) -> TrialVerdict {
    let design = of_scores(8, 24, rule);
    let mut random = PyRandom::new(seed);
    let levels: Vec<f64> = (0..8).map(|_| random.random()).collect();
    let mut state = TrialState::new(design.clone());
    for place in 0..design.n_groups() {
        let noise: Vec<f64> = (0..8).map(|_| random.random()).collect();
        let group = scored(&design, place, |half, number| {
            let (raise, noise) = match half {
                Half::With => (raise, noise[number]),
                Half::Without => (0.0, noise[number + 4]),
            };
            (0.5 * levels[place as usize % 8] + 0.5 * noise + raise).clamp(0.0, 1.0)
        });
        if let Some(decision) = state.push(place, group).unwrap() {
            return decision.verdict;
        }
    }
    panic!("no decision");
}

#[test]
fn useful_skills_pass_trials_of_scores_and_useless_ones_do_not() {
    for rule in [TrialRule::AnyTime { threshold: 20.0, groups_per_look: 8 }, FIXED_END] {
        let shares = |raise| {
            let verdicts: Vec<TrialVerdict> = (0..12).map(|seed| simulated(rule, raise, seed)).collect();
            [TrialVerdict::Admit, TrialVerdict::Reject].map(|verdict| {
                verdicts.iter().filter(|found| **found == verdict).count() as f64 / verdicts.len() as f64
            })
        };
        let [[useful, _], [useless, _], [harmful, rejected]] = [0.3, 0.0, -0.3].map(shares);
        println!(
            "{rule:?}: admitted {useful:.2} useful, {useless:.2} useless; rejected {rejected:.2} harmful"
        );
        assert!(useful >= 0.95 && useless <= 0.1 && harmful == 0.0 && rejected >= 0.95, "{rule:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn the_order_of_arrival_of_scores_decides_nothing(
        (scores, places) in prop::collection::vec(prop::collection::vec(0.0..=1.0, 8), 6)
            .prop_flat_map(|scores| (Just(scores), Just((0..6_usize).collect::<Vec<_>>()).prop_shuffle())),
        is_fixed: bool,
    ) {
        let design = of_scores(3, 6, if is_fixed { FIXED_END } else { ANY_TIME });
        let groups: Vec<TrialGroup> = (0..6)
            .map(|place| scored(&design, place, |half, number| {
                scores[place as usize][number + if half == Half::With { 0 } else { 4 }]
            }))
            .collect();
        let mut in_order = TrialState::new(design.clone());
        for (place, group) in (0..).zip(&groups) {
            in_order.push(place, group.clone()).unwrap();
        }
        let mut shuffled = TrialState::new(design);
        for place in places {
            shuffled.push(place as u64, groups[place].clone()).unwrap();
        }
        prop_assert!(in_order.decision().is_some());
        prop_assert_eq!(shuffled.decision(), in_order.decision());
    }
}

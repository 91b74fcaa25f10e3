//! The decision of a trial depends on the shortest prefix that decides, and on nothing else.

use super::{ANY_TIME, FIXED_END, design, group, with_settings};
use proptest::prelude::*;
use skill_bank::TrialVerdict;
use skill_bank::trial::{Decision, Ground, TrialError, TrialSettings, TrialState};
use skill_core::stats::stratified::{
    OddsEProcess, Stratified, TaskStratum, TrialRule, has_reached, is_at_most,
};

/// Pushes groups in order; returns the decision.
fn decide(state: &mut TrialState, groups: impl IntoIterator<Item = TaskStratum>) -> Option<Decision> {
    for (place, group) in (0..).zip(groups) {
        if let Some(decision) = state.push(place, group).unwrap() {
            return Some(*decision);
        }
    }
    None
}

#[track_caller]
fn check(
    rule: TrialRule,
    n_groups: u64,
    each: impl Fn(u64) -> TaskStratum,
    expect: (TrialVerdict, Ground, u64),
) {
    let mut state = TrialState::new(design(4, n_groups, rule));
    let decision = decide(&mut state, (0..n_groups).map(each)).unwrap();
    assert_eq!((decision.verdict, decision.ground, decision.n_groups), expect, "{:?}", decision.numbers);
    let text = serde_json::to_string(&decision).unwrap();
    assert_eq!(serde_json::from_str::<Decision>(&text).unwrap(), decision);
    assert_eq!(state.n_seen(), decision.n_groups);
}

#[test]
fn trials_end_as_soon_as_they_are_decided() {
    let won = |_| group([4, 4], [0, 4]);
    let lost = |_| group([0, 4], [4, 4]);
    let even = |_| group([2, 4], [2, 4]);
    let nothing = |_| group([4, 4], [4, 4]);
    let slightly =
        |place: u64| if place.is_multiple_of(6) { group([3, 4], [2, 4]) } else { group([2, 4], [2, 4]) };
    // Two groups have an e-value of 50, but the first look is after four.
    check(ANY_TIME, 40, won, (TrialVerdict::Admit, Ground::Better, 4));
    check(FIXED_END, 6, won, (TrialVerdict::Admit, Ground::Better, 6));
    // Harm is seen after any group.
    check(ANY_TIME, 40, lost, (TrialVerdict::Reject, Ground::Worse, 2));
    check(FIXED_END, 40, lost, (TrialVerdict::Reject, Ground::Worse, 2));
    // The best outcome of what is left falls short.
    check(ANY_TIME, 8, even, (TrialVerdict::Reject, Ground::OutOfReach, 6));
    check(ANY_TIME, 8, nothing, (TrialVerdict::Reject, Ground::OutOfReach, 7));
    // One group can show it at the fixed end, down to a p-value of 1/70.
    check(FIXED_END, 8, nothing, (TrialVerdict::Reject, Ground::Limit, 8));
    check(FIXED_END, 8, even, (TrialVerdict::Reject, Ground::OutOfReach, 7));
    // A little better than nothing stays a candidate.
    check(ANY_TIME, 12, slightly, (TrialVerdict::Undecided, Ground::OutOfReach, 10));
}

#[test]
fn a_long_trial_looks_seldom_whether_its_candidate_is_out_of_reach() {
    let rule = TrialRule::FixedEnd { alpha: 1e-9 };
    let mut state = TrialState::new(design(4, 300, rule));
    let decision = decide(&mut state, (0..300).map(|_| group([2, 4], [2, 4]))).unwrap();
    assert_eq!((decision.verdict, decision.ground), (TrialVerdict::Reject, Ground::OutOfReach));
    assert!(decision.n_groups.is_multiple_of(3) && decision.n_groups > 240, "{decision:?}");
}

#[test]
fn a_trial_ends_after_enough_groups_that_say_something() {
    let settings = TrialSettings {
        max_rollouts: 8 * 100,
        max_informative_groups: Some(3),
        rule: TrialRule::FixedEnd { alpha: 0.05 },
        ..TrialSettings::default()
    };
    let mut state = TrialState::new(with_settings(4, &settings));
    let groups = [group([4, 4], [4, 4]), group([4, 4], [1, 4]), group([3, 4], [1, 4])];
    let decision = decide(&mut state, groups.into_iter().cycle()).unwrap();
    // The third informative group comes fifth.
    assert_eq!((decision.n_groups, decision.numbers.informative_groups), (5, 3));
    assert_eq!((decision.verdict, decision.ground), (TrialVerdict::Admit, Ground::Better));
}

#[test]
fn the_numbers_are_those_of_the_groups_that_decided() {
    let mut state = TrialState::new(design(4, 40, ANY_TIME));
    // Beyond the deciding prefix nothing is looked at.
    for place in (0..9).rev() {
        state.push(place, if place < 4 { group([4, 4], [0, 4]) } else { group([0, 4], [4, 4]) }).unwrap();
    }
    let decision = *state.decision().unwrap();
    let numbers = decision.numbers;
    assert_eq!((numbers.groups, numbers.with, numbers.without), (4, [16, 16], [0, 16]));
    assert_eq!((numbers.difference, numbers.odds, numbers.odds_interval.high), (1.0, None, None));
    assert!(numbers.p_better < 1e-6 && numbers.e_better > 1_000.0 && numbers.e_worse < 0.1);
    let utility = numbers.utility().unwrap();
    assert_eq!((utility.with, utility.informative_groups), ([16, 16], 4));
    assert_eq!(TrialState::new(design(4, 40, ANY_TIME)).numbers().utility(), None);
    // A later result changes nothing.
    assert_eq!(state.push(4, group([0, 4], [4, 4])).unwrap().copied(), Some(decision));
}

#[test]
fn results_that_do_not_fit_are_refused() {
    let mut state = TrialState::new(design(4, 8, ANY_TIME));
    assert!(matches!(
        state.push(8, group([1, 4], [1, 4])),
        Err(TrialError::UnknownGroup { group: 8, n_groups: 8 })
    ));
    assert!(matches!(
        state.push(0, group([1, 5], [1, 3])),
        Err(TrialError::WrongRollouts { group: 0, found: 8, planned: 8 })
    ));
    assert_eq!(state.n_seen(), 0);
    // Fewer rollouts, since some could not be made; the first result of a place counts.
    state.push(0, group([3, 3], [0, 4])).unwrap();
    state.push(0, group([0, 4], [4, 4])).unwrap();
    assert_eq!((state.n_seen(), state.numbers().with), (1, [3, 3]));
    // A group without results passes the trial on.
    state.push(2, group([4, 4], [0, 4])).unwrap();
    state.push(1, group([0, 0], [0, 0])).unwrap();
    assert_eq!(state.n_seen(), 3);
}

fn any_group() -> impl Strategy<Value = TaskStratum> {
    let arm = (0_u32..=4).prop_flat_map(|rollouts| (0..=rollouts, Just(rollouts)));
    // Often full halves, and often a clear result.
    let full = (0_u32..=4, 0_u32..=4).prop_map(|(with, without)| group([with, 4], [without, 4]));
    prop_oneof![
        3 => full,
        1 => (arm.clone(), arm).prop_map(|((with, new), (without, old))| group([with, new], [without, old])),
        2 => Just(group([4, 4], [1, 4])),
    ]
}

fn any_rule() -> impl Strategy<Value = TrialRule> {
    prop_oneof![Just(ANY_TIME), Just(FIXED_END), Just(TrialRule::FixedEnd { alpha: 0.3 })]
}

proptest! {
    #[test]
    fn the_order_of_arrival_decides_nothing(
        rule in any_rule(),
        (groups, places) in prop::collection::vec(any_group(), 12)
            .prop_flat_map(|groups| (Just(groups), Just((0..12_usize).collect::<Vec<_>>()).prop_shuffle())),
    ) {
        let mut in_order = TrialState::new(design(4, 12, rule));
        let expect = decide(&mut in_order, groups.clone()).unwrap();
        let mut shuffled = TrialState::new(design(4, 12, rule));
        for place in places {
            shuffled.push(place as u64, groups[place]).unwrap();
        }
        prop_assert_eq!(shuffled.decision().copied(), Some(expect));
    }

    /// A trial that ends early is not admitted by the groups that it saves.
    #[test]
    fn an_early_end_is_the_decision_of_the_whole_trial(
        rule in any_rule(), groups in prop::collection::vec(any_group(), 12),
    ) {
        let decision = decide(&mut TrialState::new(design(4, 12, rule)), groups.clone()).unwrap();
        let (mut all, mut process, mut is_admitted) = (Stratified::default(), OddsEProcess::default(), false);
        for (n_seen, group) in (1..).zip(groups) {
            all.push(group);
            process.push(group);
            is_admitted |= rule.is_look(n_seen, 12) && match rule {
                TrialRule::FixedEnd { alpha } => is_at_most(all.p_better(), alpha),
                TrialRule::AnyTime { threshold, .. } => has_reached(process.ln_better(), threshold),
                _ => false,
            };
        }
        match decision.ground {
            Ground::Better => prop_assert!(is_admitted),
            // Dropped for harm: what comes after is another question.
            Ground::Worse => prop_assert!(decision.numbers.e_worse >= 19.999),
            _ => prop_assert!(!is_admitted, "{:?}", decision),
        }
        prop_assert_eq!(decision.verdict == TrialVerdict::Admit, decision.ground == Ground::Better);
    }
}

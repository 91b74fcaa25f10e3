//! A removal stands unless it loses more than its margin, and is rejected as soon as that is certain.

use crate::oracle::{any_gate, any_pair, one, total, units, worth};
use num_bigint::BigUint;
use proptest::prelude::*;
use skill_core::{EarlyVerdict, Gate, ItemScore, NonInferiority, PrefixFold};

/// What `n_items` items may lose together by this margin, in units of 2^-2148.
fn allowance(margin: f64, n_items: usize) -> BigUint {
    let margin = if margin > 0.0 { margin.next_up().min(1.0) } else { 0.0 };
    (units(margin) << 1074) * n_items
}

/// The shortest prefix at which the upper bound is below the current score less the margin, if there is one.
fn shortest_prefix(rule: NonInferiority, candidate: &[ItemScore], current: &[ItemScore]) -> Option<usize> {
    let bar = total(rule.gate, current);
    let mut most = (BigUint::from(candidate.len()) << 2148) + allowance(rule.margin, candidate.len());
    for (n_seen, score) in candidate.iter().enumerate() {
        if most < bar {
            return Some(n_seen);
        }
        most = most + worth(rule.gate, *score) - (one() << 1074);
    }
    (most < bar || candidate.is_empty()).then_some(candidate.len())
}

fn any_margin() -> impl Strategy<Value = f64> {
    prop_oneof![
        3 => Just(0.0),
        3 => prop::sample::select(vec![0.05, 0.1, 0.2, 0.25, 0.3, 1.0, 5e-324, f64::NAN, -1.0]),
        2 => 0.0..=1.0_f64,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn a_removal_is_rejected_iff_the_upper_bound_is_below_the_bar(
        gate in any_gate(), margin in any_margin(), (candidate, current) in any_pair(14),
    ) {
        let rule = NonInferiority { gate, margin };
        let prefix = shortest_prefix(rule, &candidate, &current);
        prop_assert_eq!(rule.holds(&candidate, &current), prefix.is_none());

        let mut arriving = PrefixFold::new(rule.early(&current));
        let mut rejection = rule.early(&current);
        for (position, score) in candidate.iter().enumerate() {
            let is_lost = prefix.is_some_and(|prefix| position >= prefix);
            prop_assert_eq!(rejection.verdict() == EarlyVerdict::Rejected, is_lost, "at {}", position);
            prop_assert!(rejection.n_certain() <= prefix.unwrap_or(candidate.len()));
            rejection.push(*score);
        }
        prop_assert_eq!(rejection.verdict() == EarlyVerdict::Rejected, prefix.is_some());
        prop_assert_eq!(rejection.n_seen(), prefix.unwrap_or(candidate.len()));
        // Whatever arrives first, the same prefix decides.
        for (position, score) in candidate.iter().enumerate().rev() {
            arriving.push(position, *score);
        }
        prop_assert_eq!(arriving.rejection().n_seen(), rejection.n_seen());
    }

    #[test]
    fn what_the_gate_accepts_stands_and_a_wider_margin_takes_nothing_away(
        gate in any_gate(), margins in (0.0..=1.0_f64, 0.0..=1.0_f64), (candidate, current) in any_pair(14),
    ) {
        let holds = |margin| NonInferiority { gate, margin }.holds(&candidate, &current);
        prop_assert!(!gate.decide(&candidate, &current, &current).is_accepted() || holds(0.0));
        prop_assert!(!holds(margins.0.min(margins.1)) || holds(margins.0.max(margins.1)));
        let same = NonInferiority { gate, margin: 0.0 };
        prop_assert!(current.is_empty() || same.holds(&current, &current));
    }
}

/// Whether a skill that solves `n_solved` items of ten may take the place of one that solves nine.
#[track_caller]
fn check(n_solved: usize, margin: f64, expect: bool) {
    let scores = |n_solved: usize| -> Vec<ItemScore> {
        (0..10).map(|item| ItemScore { hard: f64::from(u8::from(item < n_solved)), soft: 0.0 }).collect()
    };
    let rule = NonInferiority { gate: Gate::default(), margin };
    assert_eq!(rule.holds(&scores(n_solved), &scores(9)), expect, "{n_solved} with a margin of {margin}");
}

#[test]
fn the_margin_is_what_was_written() {
    check(9, 0.0, true);
    check(8, 0.0, false);
    check(8, 0.1, true);
    check(7, 0.1, false);
    // The numbers nearest to 0.3 and 0.7 are below them.
    check(6, 0.3, true);
    check(5, 0.3, false);
    check(2, 0.7, true);
    check(1, 0.7, false);
    check(8, f64::NAN, false);
    let rule = NonInferiority { gate: Gate::default(), margin: 1.0 };
    assert!(!rule.holds(&[], &[]));
    assert!(!rule.holds(&[ItemScore::default()], &[ItemScore::default(); 2]));
}

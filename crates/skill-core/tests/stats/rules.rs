//! Rules decide as their definitions say, and early rejection decides as the whole evaluation does under each.

use crate::oracle::{any_gate, any_pair};
use proptest::prelude::*;
use skill_core::stats::{Paired, mcnemar_p};
use skill_core::{EarlyRejection, EarlyVerdict, Gate, GateAction, GateMode, GateRule, ItemScore, PrefixFold};

fn hard(scores: &[f64]) -> Vec<ItemScore> {
    scores.iter().map(|&hard| ItemScore { hard, soft: 0.0 }).collect()
}

/// Scores of 0 and 1: `wins` items that the candidate gains, `losses` that it loses, and ties of both kinds.
fn tally(wins: usize, losses: usize, ties: usize) -> (Vec<ItemScore>, Vec<ItemScore>) {
    let candidate = [vec![1.0; wins], vec![0.0; losses], vec![0.0; ties]].concat();
    let current = [vec![0.0; wins], vec![1.0; losses], vec![0.0; ties]].concat();
    (hard(&candidate), hard(&current))
}

#[track_caller]
fn check(mode: GateMode, (wins, losses, ties): (usize, usize, usize), expect: &str) {
    let (candidate, current) = tally(wins, losses, ties);
    let rule = GateRule { gate: Gate::default(), mode, repeats: 1 };
    let found = rule.decide(&candidate, &current, &current);
    assert_eq!(found.as_str(), expect, "{wins} wins, {losses} losses and {ties} ties under {mode:?}");
}

#[test]
fn paired_needs_more_than_so_many_standard_errors() {
    let paired = |standard_errors| GateMode::Paired { standard_errors };
    check(paired(0.0), (1, 0, 0), "accept_new_best");
    check(paired(0.0), (3, 3, 9), "reject");
    // One win is a mean of just one standard error, whatever the number of items.
    check(paired(1.0), (1, 0, 49), "indecisive");
    check(paired(1.0), (2, 0, 48), "accept_new_best");
    // 4 - 1 of 20: mean 0.15, standard error 0.1094.
    check(paired(1.0), (4, 1, 15), "accept_new_best");
    check(paired(1.5), (4, 1, 15), "reject");
    check(paired(1.0), (3, 2, 15), "reject");
    check(paired(2.0), (3, 0, 47), "indecisive");
    check(paired(2.0), (4, 0, 46), "accept_new_best");
}

#[test]
fn mcnemar_needs_a_small_p_value() {
    let mcnemar = |alpha| GateMode::Mcnemar { alpha };
    check(mcnemar(0.05), (5, 0, 45), "accept_new_best");
    check(mcnemar(0.05), (4, 0, 46), "indecisive");
    check(mcnemar(0.05), (1, 3, 46), "reject");
    check(mcnemar(0.05), (6, 1, 43), "reject");
    check(mcnemar(0.07), (6, 1, 43), "accept_new_best");
    check(mcnemar(1.0 / 16.0), (4, 0, 46), "accept_new_best");
    // Every item is a tie or a loss, so nothing could be ahead; with four that could be won nothing could be shown.
    let rule = GateRule { gate: Gate::default(), mode: mcnemar(0.05), repeats: 1 };
    for (n_open, expect) in [(0, GateAction::Reject), (4, GateAction::Indecisive), (5, GateAction::Reject)] {
        let current: Vec<f64> = (0..50).map(|item| f64::from(u8::from(item >= n_open))).collect();
        let current = hard(&current);
        assert_eq!(rule.decide(&current, &current, &current), expect, "{n_open} open items");
        assert_eq!(rule.can_show(&current), expect == GateAction::Reject);
    }
}

#[test]
fn eprocess_needs_a_large_e_value() {
    let eprocess = |alpha| GateMode::EProcess { alpha };
    check(eprocess(0.05), (7, 0, 43), "accept_new_best");
    check(eprocess(0.05), (6, 0, 44), "indecisive");
    check(eprocess(0.05), (10, 1, 39), "accept_new_best");
    check(eprocess(0.05), (9, 1, 40), "reject");
    check(eprocess(0.05), (8, 2, 40), "reject");
    check(eprocess(0.05), (0, 9, 41), "reject");
}

#[test]
fn no_regression_counts_what_is_lost() {
    let no_regression = |max_losses| GateMode::NoRegression { max_losses };
    check(no_regression(0), (1, 0, 49), "accept_new_best");
    check(no_regression(0), (9, 1, 40), "reject");
    check(no_regression(1), (9, 1, 40), "accept_new_best");
    check(no_regression(9), (2, 2, 46), "reject");
}

#[test]
fn tests_that_share_an_alpha_become_stricter() {
    let mode = GateMode::Mcnemar { alpha: 0.05 };
    assert!((mode.at_test(1).alpha().unwrap() - 0.0304).abs() < 1e-4);
    assert_eq!(
        (1..=4).map(|test| mode.at_test(test).least_discordant(50)).collect::<Vec<_>>(),
        [6, 8, 9, 10]
    );
    assert_eq!(GateMode::Strict.at_test(9), GateMode::Strict);
}

#[test]
fn draws_of_an_item_count_together() {
    let rule =
        GateRule { mode: GateMode::Mcnemar { alpha: 0.05 }, repeats: 3, ..GateRule::strict(Gate::default()) };
    // Five items, on each of which the candidate has one draw of three more.
    let (candidate, current) = (hard(&[1.0, 0.0, 1.0].repeat(5)), hard(&[0.0, 1.0, 0.0].repeat(5)));
    assert_eq!(rule.decide(&candidate, &current, &current), GateAction::AcceptNewBest);
    // Thirds add up exactly: three thirds are a whole.
    let strict = GateRule { repeats: 3, ..GateRule::strict(Gate::default()) };
    let spread = hard(&[1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
    let together = hard(&[1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(strict.decide(&together, &spread, &spread), GateAction::Reject);
    assert_eq!(strict.decide(&spread, &together, &together), GateAction::Reject);
    // A list that is not a whole number of items is of none.
    assert_eq!(rule.decide(&candidate[1..], &current[1..], &current[1..]), GateAction::Reject);
}

fn any_mode() -> impl Strategy<Value = GateMode> {
    let alpha = || prop::sample::select(vec![0.05, 0.2, 0.3, 0.5, 0.9, 1e-9]);
    let k = prop::sample::select(vec![0.0, 0.3, 0.7, 1.0, 1.5, 2.5]);
    prop_oneof![
        1 => Just(GateMode::Strict),
        3 => k.prop_map(|standard_errors| GateMode::Paired { standard_errors }),
        2 => alpha().prop_map(|alpha| GateMode::Mcnemar { alpha }),
        2 => alpha().prop_map(|alpha| GateMode::EProcess { alpha }),
        2 => (0_usize..3).prop_map(|max_losses| GateMode::NoRegression { max_losses }),
    ]
}

/// A rule, two skills with whole items, and an order of the draws.
fn any_case() -> impl Strategy<Value = (GateRule, Vec<ItemScore>, Vec<ItemScore>, Vec<usize>)> {
    let binary = prop::collection::vec((any::<bool>(), any::<bool>()), 0..24).prop_map(|pairs| {
        let score = |is_solved: bool| ItemScore { hard: f64::from(u8::from(is_solved)), soft: 0.0 };
        pairs.into_iter().map(|(ours, theirs)| (score(ours), score(theirs))).unzip()
    });
    let pair = prop_oneof![2 => any_pair(14), 3 => binary];
    (any_gate(), any_mode(), 1_usize..4, pair)
        .prop_map(|(gate, mode, repeats, (mut candidate, mut current))| {
            let whole = candidate.len() / repeats * repeats;
            candidate.truncate(whole);
            current.truncate(whole);
            (GateRule { gate, mode, repeats }, candidate, current)
        })
        .prop_flat_map(|(rule, candidate, current)| {
            let order = Just((0..current.len()).collect::<Vec<usize>>()).prop_shuffle();
            (Just(rule), Just(candidate), Just(current), order)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn early_rejection_decides_as_the_whole_evaluation_does_under_every_rule(
        (rule, candidate, current, order) in any_case(),
    ) {
        let decision = rule.decide(&candidate, &current, &current);
        let mut rejection = EarlyRejection::of_rule(rule, &current, &order);
        let mut arriving = PrefixFold::new(rejection.clone());
        for &draw in &order {
            rejection.push(candidate[draw]);
        }
        if rejection.verdict() == EarlyVerdict::Rejected {
            let expect = if rule.can_show(&current) { GateAction::Reject } else { GateAction::Indecisive };
            prop_assert_eq!(decision, expect, "{} of {} seen", rejection.n_seen(), order.len());
        } else {
            prop_assert_eq!(rejection.n_seen(), order.len());
            prop_assert_ne!(decision, GateAction::Reject);
        }
        // Whatever arrives first, the same prefix decides.
        for (position, &draw) in order.iter().enumerate().rev() {
            arriving.push(position, candidate[draw]);
        }
        prop_assert_eq!(arriving.rejection().n_seen(), rejection.n_seen());
        prop_assert_eq!(arriving.rejection().verdict(), rejection.verdict());
    }

    #[test]
    fn every_rule_accepts_a_part_of_what_the_strict_gate_accepts((rule, candidate, current, _) in any_case()) {
        let strict = rule.gate.decide(&candidate, &current, &current).is_accepted();
        let found = rule.decide(&candidate, &current, &current);
        prop_assert!(strict || !found.is_accepted());
        prop_assert!(rule.mode != GateMode::Strict || (found.is_accepted() == strict && found != GateAction::Indecisive));
        if let (GateMode::Mcnemar { alpha }, true) = (rule.mode, found.is_accepted()) {
            let paired = Paired::of(rule.gate, rule.repeats, &candidate, &current).unwrap();
            prop_assert!(mcnemar_p(paired.counts) <= alpha);
        }
    }

    /// A rule that says "too few" would not have accepted anything on as many items that differ.
    #[test]
    fn too_few_is_too_few_whichever_way_they_fall(mode in any_mode(), n_items in 1_usize..40) {
        let least = mode.least_discordant(n_items);
        if least <= n_items {
            let (candidate, current) = tally(least, 0, n_items - least);
            let rule = GateRule { gate: Gate::default(), mode, repeats: 1 };
            prop_assert!(rule.decide(&candidate, &current, &current).is_accepted());
        }
        for n_wins in 1..least.min(n_items + 1) {
            let (candidate, current) = tally(n_wins, 0, n_items - n_wins);
            let rule = GateRule { gate: Gate::default(), mode, repeats: 1 };
            prop_assert_eq!(rule.decide(&candidate, &current, &current), GateAction::Indecisive);
        }
    }
}

/// What early rejection saves under a rule is no less than under the strict gate.
#[test]
fn a_rule_rejects_no_later_than_the_strict_gate() {
    let mut random = skill_core::PyRandom::new(5);
    let (mut n_strict, mut n_rule) = (0, 0);
    for _ in 0..200 {
        let current: Vec<f64> = (0..60).map(|_| f64::from(u8::from(random.random() < 0.7))).collect();
        let candidate: Vec<f64> =
            current.iter().map(|&score| if random.random() < 0.15 { 1.0 - score } else { score }).collect();
        let (candidate, current) = (hard(&candidate), hard(&current));
        let mut order: Vec<usize> = (0..60).collect();
        order.sort_by_key(|&item| current[item].is_success());
        let seen = |mode: GateMode| {
            let rule = GateRule { mode, ..GateRule::strict(Gate::default()) };
            let mut rejection = EarlyRejection::of_rule(rule, &current, &order);
            for &item in &order {
                rejection.push(candidate[item]);
            }
            rejection.n_seen()
        };
        let strict = seen(GateMode::Strict);
        for mode in [
            GateMode::Paired { standard_errors: 1.0 },
            GateMode::Mcnemar { alpha: 0.05 },
            GateMode::EProcess { alpha: 0.05 },
            GateMode::NoRegression { max_losses: 1 },
        ] {
            assert!(seen(mode) <= strict, "{mode:?}");
        }
        n_strict += strict;
        n_rule += seen(GateMode::Mcnemar { alpha: 0.05 });
    }
    assert!((n_rule as f64) < 0.9 * n_strict as f64, "{n_rule} of {n_strict}");
}

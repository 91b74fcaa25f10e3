//! Early rejection decides as the whole evaluation does, at the shortest prefix, whatever arrives first.

use crate::oracle::{any_gate, any_pair, shortest_prefix, total};
use proptest::prelude::*;
use skill_core::{EarlyRejection, EarlyVerdict, Gate, GateAction, ItemScore, PrefixFold};

/// The verdict for a prefix of `n_seen` items if the candidate is rejected at `prefix`.
fn verdict_at(n_seen: usize, prefix: Option<usize>) -> EarlyVerdict {
    if prefix.is_some_and(|prefix| n_seen >= prefix) { EarlyVerdict::Rejected } else { EarlyVerdict::Open }
}

/// What an evaluation with calls in flight came to.
struct Flight {
    fold: PrefixFold,
    n_started: usize,
}

/// Measures a candidate with room for `in_flight` calls; `picks` says which of the open calls ends next.
fn fly(
    gate: Gate,
    candidate: &[ItemScore],
    current: &[ItemScore],
    in_flight: usize,
    picks: &[usize],
) -> Flight {
    let mut fold = PrefixFold::new(EarlyRejection::new(gate, current));
    let (mut n_started, mut open) = (0, Vec::new());
    let mut picks = picks.iter().cycle();
    while fold.rejection().verdict() == EarlyVerdict::Open {
        while open.len() < in_flight && n_started < fold.n_startable(in_flight) {
            open.push(n_started);
            n_started += 1;
        }
        if open.is_empty() {
            break;
        }
        let position = open.swap_remove(picks.next().unwrap() % open.len());
        fold.push(position, candidate[position]);
    }
    Flight { fold, n_started }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn the_exact_gate_compares_whole_numbers(
        gate in any_gate(), (candidate, current) in any_pair(8), use_current in any::<bool>(), seed in any::<u8>(),
    ) {
        let mut best = if use_current { current.clone() } else { candidate.clone() };
        if let Some(score) = best.first_mut() {
            score.hard = f64::from(seed) / 255.0;
        }
        let totals = [&candidate, &current, &best].map(|scores| total(gate, scores));
        let expect = match (totals[0] > totals[1], totals[0] > totals[2]) {
            (true, true) => GateAction::AcceptNewBest,
            (true, false) => GateAction::Accept,
            (false, _) => GateAction::Reject,
        };
        prop_assert_eq!(gate.decide(&candidate, &current, &best), expect);
    }

    #[test]
    fn early_rejection_decides_as_the_whole_evaluation_does(gate in any_gate(), (candidate, current) in any_pair(14)) {
        let prefix = shortest_prefix(gate, &candidate, &current);
        let is_rejected = gate.decide(&candidate, &current, &current) == GateAction::Reject;
        prop_assert_eq!(prefix.is_some(), is_rejected);

        let mut rejection = EarlyRejection::new(gate, &current);
        prop_assert_eq!(rejection.verdict(), verdict_at(0, prefix));
        let mut interval = rejection.interval();
        prop_assert_eq!(interval, (0.0, if candidate.is_empty() { 0.0 } else { 1.0 }));
        for (position, score) in candidate.iter().enumerate() {
            prop_assert!(rejection.n_certain() <= prefix.unwrap_or(candidate.len()));
            prop_assert!(rejection.n_certain() > position || prefix.is_some_and(|prefix| position >= prefix));
            prop_assert_eq!(rejection.push(*score), verdict_at(position + 1, prefix));
            let (lower, upper) = rejection.interval();
            prop_assert!(interval.0 <= lower && lower <= upper && upper <= interval.1, "{:?}", (lower, upper));
            interval = (lower, upper);
        }
        prop_assert_eq!(rejection.n_seen(), prefix.unwrap_or(candidate.len()));
        prop_assert_eq!(rejection.n_certain(), rejection.n_seen());
        prop_assert_eq!(rejection.verdict() == EarlyVerdict::Rejected, is_rejected);

        // What comes later changes nothing.
        let (verdict, n_seen) = (rejection.verdict(), rejection.n_seen());
        prop_assert_eq!(rejection.push(ItemScore { hard: 1.0, soft: 1.0 }), verdict);
        prop_assert_eq!((rejection.n_seen(), rejection.interval()), (n_seen, interval));
    }

    #[test]
    fn neither_completion_order_nor_calls_in_flight_change_the_prefix(
        gate in any_gate(),
        (candidate, current) in any_pair(14),
        in_flight in 1_usize..20,
        picks in prop::collection::vec(any::<usize>(), 1..40),
    ) {
        let prefix = shortest_prefix(gate, &candidate, &current);
        let one_by_one = fly(gate, &candidate, &current, 1, &[0]);
        let flight = fly(gate, &candidate, &current, in_flight, &picks);
        let n_needed = prefix.unwrap_or(candidate.len());
        for Flight { fold, .. } in [&one_by_one, &flight] {
            prop_assert_eq!(fold.rejection().n_seen(), n_needed);
            prop_assert_eq!(fold.rejection().verdict(), verdict_at(n_needed, prefix));
        }
        prop_assert_eq!(one_by_one.fold.rejection().interval(), flight.fold.rejection().interval());
        prop_assert_eq!(one_by_one.n_started, n_needed);
        // Where nothing has to be seen, nothing is started.
        let most = if prefix == Some(0) { 0 } else { (n_needed + in_flight - 1).min(candidate.len()) };
        prop_assert!((n_needed..=most).contains(&flight.n_started), "{} of {}", flight.n_started, most);
    }

    #[test]
    fn a_prefix_fold_takes_results_in_any_order_and_more_than_once(
        gate in any_gate(),
        (candidate, current) in any_pair(14),
        arrivals in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let mut fold = PrefixFold::new(EarlyRejection::new(gate, &current));
        for index in arrivals {
            let position = index.index(candidate.len() + 2);
            let score = candidate.get(position).copied().unwrap_or_default();
            fold.push(position, score);
            // A second result of the same position is not looked at.
            fold.push(position, ItemScore { hard: 1.0 - score.hard, soft: 1.0 - score.soft });
        }
        for (position, score) in candidate.iter().enumerate().rev() {
            fold.push(position, *score);
        }
        let prefix = shortest_prefix(gate, &candidate, &current);
        prop_assert_eq!(fold.rejection().n_seen(), prefix.unwrap_or(candidate.len()));
        prop_assert_eq!(fold.rejection().verdict(), verdict_at(candidate.len(), prefix));
    }
}

/// Checks at how many items a candidate is rejected by the hard metric, and what is known of its score then.
#[track_caller]
fn check_hard(
    candidate: &[f64],
    current: &[f64],
    n_seen: usize,
    verdict: EarlyVerdict,
    interval: (f64, f64),
) {
    let scores =
        |hard: &[f64]| -> Vec<ItemScore> { hard.iter().map(|&hard| ItemScore { hard, soft: 0.0 }).collect() };
    let mut rejection = EarlyRejection::new(Gate::default(), &scores(current));
    for score in scores(candidate) {
        rejection.push(score);
    }
    assert_eq!((rejection.n_seen(), rejection.verdict()), (n_seen, verdict), "{candidate:?} and {current:?}");
    assert_eq!(rejection.interval(), interval, "{candidate:?} and {current:?}");
}

#[test]
fn the_shortest_prefix_is_found() {
    use EarlyVerdict::{Open, Rejected};
    check_hard(&[0.0, 0.0, 1.0, 1.0], &[0.0, 0.0, 1.0, 1.0], 2, Rejected, (0.0, 0.5));
    check_hard(&[1.0, 0.0, 1.0, 1.0], &[0.0, 0.0, 1.0, 1.0], 4, Open, (0.75, 0.75));
    check_hard(&[1.0, 0.0, 1.0, 0.0], &[0.0, 0.0, 1.0, 1.0], 4, Rejected, (0.5, 0.5));
    check_hard(&[1.0, 0.0, 0.0, 1.0], &[0.0, 0.0, 1.0, 1.0], 3, Rejected, (0.25, 0.5));
    check_hard(&[0.5, 0.5, 0.0, 1.0], &[0.0, 0.0, 1.0, 1.0], 3, Rejected, (0.25, 0.5));
    check_hard(&[0.1, 0.2, 0.3], &[0.3, 0.2, 0.1], 3, Rejected, (0.6 / 3.0, 0.6 / 3.0));
    // A perfect skill is not beaten, and neither is one that was measured on nothing.
    check_hard(&[1.0, 1.0], &[1.0, 1.0], 0, Rejected, (0.0, 1.0));
    check_hard(&[], &[], 0, Rejected, (0.0, 0.0));
    // A current score that is not a number is 0, so that any success is above it.
    check_hard(&[0.0, 5e-324], &[f64::NAN, f64::NAN], 2, Open, (0.0, 0.0));
}

#[test]
fn a_slow_item_holds_back_only_what_may_not_be_needed() {
    let hard = |hard| ItemScore { hard, soft: 0.0 };
    let fold_against = |n_failed: usize| {
        let current: Vec<ItemScore> =
            (0..10).map(|item_idx| hard(if item_idx < n_failed { 0.0 } else { 1.0 })).collect();
        PrefixFold::new(EarlyRejection::new(Gate::default(), &current))
    };
    // One failed item: the first result may already decide, so that two more are at risk.
    let mut fold = fold_against(1);
    assert_eq!(fold.n_startable(3), 3);
    fold.push(1, hard(1.0));
    fold.push(2, hard(1.0));
    assert_eq!(fold.n_startable(3), 3);
    assert_eq!(fold.push(0, hard(0.0)), EarlyVerdict::Rejected);
    assert_eq!((fold.n_startable(3), fold.rejection().n_seen()), (1, 1));
    // Five failed items: five results are needed in any case, and one more for each success among them.
    let mut fold = fold_against(5);
    assert_eq!(fold.n_startable(3), 5);
    fold.push(1, hard(1.0));
    assert_eq!(fold.n_startable(3), 5);
    fold.push(0, hard(1.0));
    assert_eq!(fold.n_startable(3), 7);
    assert_eq!((fold.n_startable(7), fold.n_startable(64)), (9, 10));
}

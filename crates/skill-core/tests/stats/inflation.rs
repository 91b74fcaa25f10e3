//! How much a report flatters after many steps without effect: the best of many noisy scores, and a fresh one.

#[path = "../../examples/gate_table/simulation.rs"]
#[expect(dead_code, reason = "the example prints more than is held here")]
mod simulation;

use simulation::{MODES, false_accepts, inflation, outcomes};
use skill_core::GateMode;

/// In points: the mean errors that are allowed.
#[track_caller]
fn check(
    n_items: usize,
    selected: std::ops::RangeInclusive<f64>,
    first_accepts: std::ops::RangeInclusive<f64>,
) {
    let found = inflation(n_items, 40, 1_000);
    let points = |errors: simulation::Errors| 100.0 * errors.mean();
    assert!(selected.contains(&points(found.selected)), "{n_items} items: {found:?}");
    assert!(first_accepts.contains(&found.first_accepts), "{n_items} items: {found:?}");
    for reported in [found.fresh, found.refreshed_fresh] {
        assert!(points(reported).abs() <= 1.0, "{n_items} items: {found:?}");
    }
    // An incumbent that is measured again still stays longer where it was lucky, but it flatters less.
    assert!(points(found.refreshed) < 0.7 * points(found.selected), "{n_items} items: {found:?}");
}

#[test]
fn a_fresh_score_does_not_flatter_on_50_items() {
    check(50, 9.5..=12.0, 0.40..=0.48);
}

#[test]
fn a_fresh_score_does_not_flatter_on_200_items() {
    check(200, 5.0..=6.0, 0.42..=0.50);
}

#[test]
fn tests_hold_their_level_and_find_what_the_power_table_says() {
    for (n_items, strict) in [(50, 0.40..0.50), (200, 0.42..0.54)] {
        let found = outcomes(n_items, 0.0, 600);
        for (outcomes, mode) in found.into_iter().zip(MODES) {
            match mode {
                GateMode::Strict => assert!(strict.contains(&outcomes.accepted), "{outcomes:?}"),
                GateMode::Mcnemar { alpha } | GateMode::EProcess { alpha } => {
                    assert!(outcomes.accepted <= alpha, "{mode:?}: {outcomes:?}");
                }
                GateMode::Paired { .. } | GateMode::NoRegression { .. } => {}
            }
            assert!(mode != GateMode::Strict || outcomes.indecisive == 0.0);
        }
    }
    let found = outcomes(200, 0.05, 600);
    for (name, expect) in [("strict", 0.90), ("paired", 0.64), ("mcnemar", 0.35), ("eprocess", 0.06)] {
        // The first of its name: one standard error.
        let (outcomes, _) = found.iter().zip(MODES).find(|(_, mode)| mode.as_str() == name).unwrap();
        assert!((outcomes.accepted - expect).abs() < 0.06, "{name}: {outcomes:?} instead of {expect}");
    }
}

#[test]
fn a_level_that_is_shared_holds_for_the_whole_run_and_one_for_each_step_does_not() {
    let [each, shared] = [false, true].map(|spends_alpha| false_accepts(50, 40, spends_alpha, 60));
    for ((mode, each), shared) in MODES.into_iter().zip(each).zip(shared) {
        let [each, shared] = [each, shared].map(|found| found.any);
        match mode {
            GateMode::Strict => assert!(each > 0.9, "{each}"),
            GateMode::Mcnemar { alpha } => {
                assert!(each > 3.0 * alpha && shared <= alpha, "{each} and {shared}");
            }
            GateMode::EProcess { alpha } => assert!(shared <= alpha, "{shared}"),
            GateMode::Paired { .. } | GateMode::NoRegression { .. } => {
                assert!(each <= 0.9, "{mode:?}: {each}");
            }
        }
    }
}

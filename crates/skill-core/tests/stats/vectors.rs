//! The statistics against values that were computed by other means, see `data/make_vectors.py`.

use proptest::prelude::*;
use serde_json::Value;
use skill_core::stats::{
    EProcess, Paired, PairedCounts, difference_interval, ln_e_value, ln_e_value_of, ln_mcnemar_p, mcnemar_p,
    normal, score_interval, sign_flip_p,
};
use skill_core::{Gate, ItemScore};
use std::cmp::Ordering;

fn vectors(group: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(include_str!("data/vectors.json")).unwrap();
    all[group].as_array().unwrap().clone()
}

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("{row} has no {name}"))
}

fn counts(row: &Value) -> PairedCounts {
    let count = |name: &str| row[name].as_u64().unwrap_or_default() as usize;
    PairedCounts { wins: count("wins"), losses: count("losses"), ties: count("ties") }
}

fn differences(row: &Value) -> Vec<f64> {
    row["differences"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

/// A comparison of these differences, for functions that look at nothing else.
fn paired_of(differences: Vec<f64>) -> Paired {
    Paired { counts: PairedCounts::default(), differences, ordering: Ordering::Equal }
}

#[track_caller]
fn check_near(found: f64, expect: f64, tolerance: f64, row: &Value) {
    let allowed = tolerance * expect.abs().max(1e-300);
    assert!((found - expect).abs() <= allowed, "{found:e} instead of {expect:e} at {row}");
}

#[test]
fn p_values_are_those_of_whole_numbers() {
    for row in vectors("mcnemar") {
        check_near(mcnemar_p(counts(&row)), number(&row, "p"), 1e-11, &row);
        let ln_p = number(&row, "ln_p");
        assert!((ln_mcnemar_p(counts(&row)) - ln_p).abs() <= 1e-11 * ln_p.abs().max(1.0), "{row}");
    }
}

#[test]
fn e_values_are_those_of_the_beta_function() {
    for row in vectors("e_value") {
        let ln_e = number(&row, "ln_e");
        assert!((ln_e_value(counts(&row)) - ln_e).abs() <= 1e-10 * ln_e.abs().max(1.0), "{row}");
    }
}

#[test]
fn e_values_of_graded_differences_are_those_of_a_fine_quadrature() {
    for row in vectors("e_value_of") {
        let (found, ln_e) = (ln_e_value_of(&differences(&row)), number(&row, "ln_e"));
        assert!((found - ln_e).abs() <= 1e-10 * ln_e.abs().max(1.0), "{found} at {row}");
    }
}

#[test]
fn the_normal_distribution_is_that_of_scipy() {
    for row in vectors("upper_tail") {
        check_near(normal::upper_tail(number(&row, "x")), number(&row, "p"), 1e-12, &row);
    }
    for row in vectors("upper_quantile") {
        let found = normal::upper_quantile(number(&row, "p"));
        assert!((found - number(&row, "x")).abs() < 1e-11, "{found} at {row}");
    }
}

#[test]
fn intervals_are_those_of_their_tables() {
    for row in vectors("difference_interval") {
        let PairedCounts { wins, losses, ties } = counts(&row);
        let values = [(1.0, wins), (-1.0, losses), (0.0, ties)];
        let all = values.into_iter().flat_map(|(value, count)| vec![value; count]).collect();
        let [low, high] = difference_interval(&paired_of(all), number(&row, "level"));
        assert!(
            (low - number(&row, "low")).abs() < 1e-12 && (high - number(&row, "high")).abs() < 1e-12,
            "{row}"
        );
    }
    for row in vectors("score_interval") {
        let n_items = row["n"].as_u64().unwrap() as usize;
        let [low, high] = score_interval(number(&row, "mean"), n_items, number(&row, "level"));
        assert!((low - number(&row, "low").max(0.0)).abs() < 1e-12, "{low} at {row}");
        assert!((high - number(&row, "high").min(1.0)).abs() < 1e-12, "{high} at {row}");
    }
}

#[test]
fn sign_flips_are_those_of_scipy() {
    for row in vectors("sign_flip") {
        check_near(sign_flip_p(&differences(&row), 42), number(&row, "p"), 1e-12, &row);
    }
    // 0.1 + 0.2 and 0.3 are as large, whatever the last digit of an `f64` says: of the eight ways, five reach 0.
    assert_eq!(sign_flip_p(&[0.1, 0.2, -0.3], 42), 0.625);
}

#[test]
fn random_sign_flips_come_near_the_exact_test() {
    // Of wins and losses alone the sign-flip test is McNemar's.
    let of = |wins: usize, losses: usize| [vec![1.0; wins], vec![-1.0; losses]].concat();
    for (wins, losses) in [(18, 12), (30, 10), (22, 22)] {
        let exact = mcnemar_p(PairedCounts { wins, losses, ties: 0 });
        let found = sign_flip_p(&of(wins, losses), 7);
        assert!(
            (found - exact).abs() < 4.0 * (exact * (1.0 - exact) / 20_000.0).sqrt() + 1e-4,
            "{found} {exact}"
        );
        assert_eq!(found, sign_flip_p(&of(wins, losses), 7));
    }
    assert!(sign_flip_p(&of(200, 0), 7) > 0.0);
}

proptest! {
    #[test]
    fn evidence_grows_with_wins_and_shrinks_with_losses(wins in 0_usize..300, losses in 0_usize..300) {
        let at = |wins, losses| PairedCounts { wins, losses, ties: 0 };
        // Near 1 two p-values may differ by less than a float can say.
        prop_assert!(mcnemar_p(at(wins + 1, losses)) <= mcnemar_p(at(wins, losses)) + 1e-12);
        prop_assert!(mcnemar_p(at(wins, losses + 1)) >= mcnemar_p(at(wins, losses)) - 1e-12);
        prop_assert!(ln_e_value(at(wins + 1, losses)) > ln_e_value(at(wins, losses)));
        prop_assert!(ln_e_value(at(wins, losses + 1)) < ln_e_value(at(wins, losses)));
    }

    /// Markov's inequality, in whole numbers: no e-value is above 1 / p.
    #[test]
    fn an_e_value_promises_no_more_than_the_p_value(wins in 0_usize..200, losses in 0_usize..200) {
        let counts = PairedCounts { wins, losses, ties: 0 };
        prop_assert!(ln_e_value(counts) <= -ln_mcnemar_p(counts) + 1e-9);
    }

    /// A fair coin: the capital is worth 1 on average, whatever is still to come.
    #[test]
    fn nobody_gains_by_a_fair_coin(wins in 0_usize..100, losses in 0_usize..100) {
        let at = |wins, losses| ln_e_value(PairedCounts { wins, losses, ties: 0 }).exp();
        let after = (at(wins + 1, losses) + at(wins, losses + 1)) / 2.0;
        prop_assert!((after / at(wins, losses) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_order_of_differences_does_not_matter_for_an_e_value(
        (differences, shuffled) in prop::collection::vec(-1.0..=1.0_f64, 0..30)
            .prop_flat_map(|differences| (Just(differences.clone()), Just(differences).prop_shuffle())),
    ) {
        let found = ln_e_value_of(&differences);
        prop_assert_eq!(found, ln_e_value_of(&shuffled));
        let mut process = EProcess::default();
        let last = differences.iter().fold(0.0, |_, difference| process.push(*difference));
        prop_assert!(differences.is_empty() || found == last);
    }

    #[test]
    fn no_numbers_break_anything(
        differences in prop::collection::vec(prop_oneof![-1.0..=1.0_f64, any::<f64>()], 0..30),
        hard in prop::collection::vec((any::<f64>(), any::<f64>()), 0..12),
        level in any::<f64>(), repeats in 0_usize..4,
    ) {
        let _ = ln_e_value_of(&differences);
        let p = sign_flip_p(&differences, 1);
        prop_assert!((0.0..=1.0).contains(&p));
        let (ours, theirs): (Vec<_>, Vec<_>) = hard
            .into_iter()
            .map(|(ours, theirs)| (ItemScore { hard: ours, soft: 0.0 }, ItemScore { hard: theirs, soft: 0.0 }))
            .unzip();
        if let Some(paired) = Paired::of(Gate::default(), repeats, &ours, &theirs) {
            let [low, high] = difference_interval(&paired, 0.95);
            prop_assert!(low <= paired.mean() && paired.mean() <= high, "{low} {high}");
            prop_assert!((-1.0..=1.0).contains(&low) && (-1.0..=1.0).contains(&high));
            let _ = difference_interval(&paired, level);
            prop_assert_eq!(paired.counts.n_items(), paired.differences.len());
        }
    }
}

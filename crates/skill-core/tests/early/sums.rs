//! Sums are those of whole numbers.

use crate::oracle::{any_raw_score, any_score, clean_units, one, units};
use num_bigint::BigUint;
use proptest::prelude::*;
use skill_core::ExactSum;

/// One summand: a score, a product or a blend.
#[derive(Debug, Clone, Copy)]
enum Summand {
    Score(f64),
    Product(f64, f64),
    Blend(f64, f64, f64),
    Whole(u8),
}

fn any_summand() -> impl Strategy<Value = Summand> {
    let score = any_raw_score;
    prop_oneof![
        score().prop_map(Summand::Score),
        (score(), score()).prop_map(|(left, right)| Summand::Product(left, right)),
        (score(), score(), score()).prop_map(|(weight, first, second)| Summand::Blend(weight, first, second)),
        (0_u8..4).prop_map(Summand::Whole),
    ]
}

fn exact_sum(summands: &[Summand]) -> ExactSum {
    let mut sum = ExactSum::ZERO;
    for summand in summands {
        match *summand {
            Summand::Score(score) => sum.add(score),
            Summand::Product(left, right) => sum.add_product(left, right),
            Summand::Blend(weight, first, second) => sum.add_blend(weight, first, second),
            Summand::Whole(n_items) => sum = sum.plus_whole(usize::from(n_items)),
        }
    }
    sum
}

/// The same sum as a multiple of 2^-2148.
fn oracle_sum(summands: &[Summand]) -> BigUint {
    let worth = |summand: &Summand| match *summand {
        Summand::Score(score) => clean_units(score) * one(),
        Summand::Product(left, right) => clean_units(left) * clean_units(right),
        Summand::Blend(weight, first, second) => {
            let weight = clean_units(weight);
            (one() - &weight) * clean_units(first) + weight * clean_units(second)
        }
        Summand::Whole(n_items) => BigUint::from(n_items) << 2148,
    };
    summands.iter().map(worth).sum()
}

fn distance(left: &BigUint, right: &BigUint) -> BigUint {
    if left > right { left - right } else { right - left }
}

/// Checks that no `f64` is nearer to the sum, and that of two equally near ones the even one is taken.
#[track_caller]
fn check_is_nearest(found: f64, sum: &BigUint) {
    let error = |number: f64| distance(&(units(number) << 1074), sum);
    if found < f64::MIN_POSITIVE {
        // Where `f64` has no bits left, being on one side of the sum or the other is all that is promised.
        assert!(error(found) <= one(), "{found:e}");
        return;
    }
    for other in [found.next_down(), found.next_up()] {
        let is_better = error(found) < error(other);
        let is_even_tie = error(found) == error(other) && found.to_bits().is_multiple_of(2);
        assert!(is_better || is_even_tie, "{found:e} and {other:e}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn sums_compare_as_whole_numbers_do(
        left in prop::collection::vec(any_summand(), 0..12),
        right in prop::collection::vec(any_summand(), 0..12),
    ) {
        let (exact_left, exact_right) = (exact_sum(&left), exact_sum(&right));
        let (oracle_left, oracle_right) = (oracle_sum(&left), oracle_sum(&right));
        prop_assert_eq!(exact_left.cmp(&exact_right), oracle_left.cmp(&oracle_right));
        prop_assert_eq!(exact_left == exact_right, oracle_left == oracle_right);
    }

    #[test]
    fn the_order_of_summands_does_not_matter(
        (summands, shuffled) in prop::collection::vec(any_summand(), 0..24)
            .prop_flat_map(|summands| (Just(summands.clone()), Just(summands).prop_shuffle())),
        extra in any_score(),
    ) {
        let sum = exact_sum(&summands);
        prop_assert_eq!(&sum, &exact_sum(&shuffled));
        prop_assert_eq!(sum < sum.clone().plus(extra), extra > 0.0);
    }

    #[test]
    fn the_nearest_number_is_shown(summands in prop::collection::vec(any_summand(), 0..12)) {
        check_is_nearest(exact_sum(&summands).to_f64(), &oracle_sum(&summands));
    }

    #[test]
    fn a_score_comes_back_as_it_is(score in any_score()) {
        prop_assert_eq!(ExactSum::ZERO.plus(score).to_f64(), score);
    }

    #[test]
    fn excess_is_rounded_up(
        left in prop::collection::vec(any_summand(), 0..8),
        right in prop::collection::vec(any_summand(), 0..8),
    ) {
        let (exact_left, exact_right) = (exact_sum(&left), exact_sum(&right));
        let excess = exact_left.whole_excess(&exact_right);
        prop_assert!(exact_left <= exact_right.clone().plus_whole(excess));
        prop_assert!(excess == 0 || exact_left > exact_right.plus_whole(excess - 1));
    }
}

/// Compares `n_times` times `score` with one score that is as large in exact arithmetic, and with its neighbours.
#[track_caller]
fn check_multiple(score: f64, n_times: usize, multiple: f64) {
    let sum = (0..n_times).fold(ExactSum::ZERO, |sum, _| sum.plus(score));
    assert_eq!(sum, ExactSum::ZERO.plus(multiple), "{n_times} times {score:e}");
    assert!(sum > ExactSum::ZERO.plus(multiple.next_down()));
    if multiple < 1.0 {
        assert!(sum < ExactSum::ZERO.plus(multiple.next_up()));
    }
    assert_eq!(sum.to_f64(), multiple);
}

#[test]
fn equal_sums_are_equal_at_every_exponent() {
    for exponent in 1..1021_u64 {
        let score = f64::from_bits(exponent << 52 | 0xf_0f0f);
        check_multiple(score, 4, score * 4.0);
    }
    check_multiple(5e-324, 3, 1.5e-323);
    check_multiple(f64::MIN_POSITIVE / 2.0, 2, f64::MIN_POSITIVE);
    check_multiple(f64::from_bits((1 << 52) - 1), 8, f64::from_bits((1 << 52) - 1) * 8.0);
    check_multiple(0.25, 4, 1.0);
}

#[test]
fn a_carry_runs_through_all_digits_and_back() {
    let smallest = f64::from_bits(1);
    // 1 - 2^-2148 has every digit set.
    let mut sum = ExactSum::ZERO;
    sum.add_blend(smallest, 1.0, 1.0 - f64::EPSILON);
    assert!(sum < ExactSum::ZERO.plus_whole(1));
    assert_eq!(sum.to_f64(), 1.0);
    let mut least = ExactSum::ZERO;
    least.add_product(smallest, smallest);
    assert!(least > ExactSum::ZERO);
    // 1 - w * s, with w and s the smallest numbers, and then w * s again.
    let mut almost = ExactSum::ZERO.plus(1.0);
    almost.add_blend(smallest, smallest, 0.0);
    almost.add_product(smallest, smallest);
    assert_eq!(almost, ExactSum::ZERO.plus(1.0).plus(smallest));
    assert_eq!(ExactSum::ZERO.plus_whole(usize::MAX).to_f64(), usize::MAX as f64);
}

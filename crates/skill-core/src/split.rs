//! Splits of a data set by a ratio.
//!
//! The counts come from integer arithmetic alone, so that no rounding depends on the machine.

use crate::random::PyRandom;
use std::cmp::Reverse;

/// How many of `n_items` each part gets, by largest remainder.
///
/// Each part gets the whole share of its weight; what is left goes, one each, to the parts whose share was cut
/// most, and among equals to the heavier, then to the earlier one. The counts sum to `n_items`.
/// Weights that are all 0 count as equal, and no weights give no parts.
pub fn split_counts(n_items: usize, ratio: &[u32]) -> Vec<usize> {
    let weights: Vec<u128> = if ratio.iter().all(|weight| *weight == 0) {
        vec![1; ratio.len()]
    } else {
        ratio.iter().map(|weight| u128::from(*weight)).collect()
    };
    let total: u128 = weights.iter().sum();
    if total == 0 {
        return Vec::new();
    }
    let n_wide = n_items as u128;
    // A share is at most `n_items`, so that it always fits.
    let mut counts: Vec<usize> =
        weights.iter().map(|weight| usize::try_from(n_wide * weight / total).unwrap_or(n_items)).collect();
    let mut order: Vec<(Reverse<u128>, Reverse<u128>, usize)> = weights
        .iter()
        .enumerate()
        .map(|(part, weight)| (Reverse(n_wide * weight % total), Reverse(*weight), part))
        .collect();
    order.sort_unstable();
    let n_left = n_items.saturating_sub(counts.iter().sum());
    for (_, _, part) in order.into_iter().take(n_left) {
        if let Some(count) = counts.get_mut(part) {
            *count += 1;
        }
    }
    counts
}

/// Shuffles the items by CPython's `Random(seed)` and cuts them into three consecutive parts.
///
/// The sizes are those of [`split_counts`]; the parts are train, selection and test where the ratio is.
pub fn split_by_ratio<T>(items: Vec<T>, ratio: [u32; 3], seed: u64) -> [Vec<T>; 3] {
    let mut rest = items;
    PyRandom::new(seed).shuffle(&mut rest);
    let mut sizes = split_counts(rest.len(), &ratio).into_iter();
    let mut next_size = || sizes.next().unwrap_or_default();
    let mut second = rest.split_off(next_size().min(rest.len()));
    let third = second.split_off(next_size().min(second.len()));
    [rest, second, third]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(n_items: usize, ratio: &[u32], expect: &[usize]) {
        assert_eq!(split_counts(n_items, ratio), expect, "{n_items} items by {ratio:?}");
    }

    #[test]
    fn counts_are_those_of_the_reference() {
        check(400, &[2, 1, 7], &[80, 40, 280]);
        check(3, &[1, 1, 1], &[1, 1, 1]);
        check(99, &[2, 1, 7], &[20, 10, 69]);
        check(174, &[4, 2, 4], &[70, 35, 69]);
    }

    #[test]
    fn counts_at_the_edges() {
        check(0, &[2, 1, 7], &[0, 0, 0]);
        check(1, &[2, 1, 7], &[0, 0, 1]);
        check(2, &[1, 1, 1], &[1, 1, 0]);
        check(1, &[1, 3], &[0, 1]);
        check(2, &[1, 3], &[0, 2]);
        check(5, &[0, 0, 1], &[0, 0, 5]);
        check(4, &[0, 0, 0], &[2, 1, 1]);
        check(5, &[3], &[5]);
        check(5, &[], &[]);
        check(usize::MAX, &[u32::MAX, u32::MAX], &[usize::MAX / 2 + 1, usize::MAX / 2]);
    }

    #[test]
    fn parts_are_consecutive_slices_of_the_shuffle() {
        let parts = split_by_ratio((0..10).collect(), [5, 2, 3], 42);
        assert_eq!(parts, [vec![7, 3, 2, 8, 5], vec![6, 9], vec![4, 0, 1]]);
        assert!(split_by_ratio(Vec::<u8>::new(), [2, 1, 7], 42).concat().is_empty());
    }

    proptest! {
        #[test]
        fn counts_sum_to_the_whole(n_items in 0_usize..100_000, ratio in prop::collection::vec(0_u32..1000, 1..6)) {
            prop_assert_eq!(split_counts(n_items, &ratio).iter().sum::<usize>(), n_items);
        }

        #[test]
        fn each_count_is_within_one_of_its_share(n_items in 0_usize..100_000, ratio in prop::collection::vec(1_u32..1000, 1..6)) {
            let total: f64 = ratio.iter().copied().map(f64::from).sum();
            for (count, weight) in split_counts(n_items, &ratio).iter().zip(&ratio) {
                let share = n_items as f64 * f64::from(*weight) / total;
                prop_assert!((*count as f64 - share).abs() < 1.0 + 1e-6);
            }
        }

        #[test]
        fn a_split_loses_and_doubles_nothing(n_items in 0_usize..300, ratio: [u32; 3], seed: u64) {
            let mut all = split_by_ratio((0..n_items).collect(), ratio, seed).concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..n_items).collect::<Vec<_>>());
        }
    }
}

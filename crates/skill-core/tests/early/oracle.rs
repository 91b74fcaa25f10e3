//! The same arithmetic the slow way, and inputs that are hard on it.

use num_bigint::BigUint;
use proptest::prelude::*;
use skill_core::{Gate, GateMetric, ItemScore};

/// How often 2^-1074, of which every `f64` in [0, 1] is a multiple, goes into 1.
pub(crate) fn one() -> BigUint {
    BigUint::from(1_u8) << 1074
}

/// How often 2^-1074 goes into a number that is not negative.
pub(crate) fn units(number: f64) -> BigUint {
    assert!(number >= 0.0 && number.is_finite(), "{number}");
    let bits = number.to_bits();
    let (field, fraction) = (bits >> 52 & 0x7ff, bits & ((1 << 52) - 1));
    if field == 0 { BigUint::from(fraction) } else { BigUint::from(fraction | 1 << 52) << (field - 1) }
}

/// The units of a score, or of a weight, as everything reads it.
pub(crate) fn clean_units(score: f64) -> BigUint {
    units(if score > 0.0 { score.min(1.0) } else { 0.0 })
}

/// How often 2^-2148 goes into what one item is worth to the gate.
pub(crate) fn worth(gate: Gate, score: ItemScore) -> BigUint {
    let (hard, soft) = (clean_units(score.hard), clean_units(score.soft));
    match gate.metric {
        GateMetric::Hard => hard << 1074,
        GateMetric::Soft => soft << 1074,
        GateMetric::Mixed => {
            let weight = clean_units(gate.mixed_weight);
            (one() - &weight) * hard + weight * soft
        }
    }
}

/// What the items are worth together.
pub(crate) fn total(gate: Gate, scores: &[ItemScore]) -> BigUint {
    scores.iter().map(|score| worth(gate, *score)).sum()
}

/// The length of the shortest prefix at which `candidate` can no longer win, if there is one.
pub(crate) fn shortest_prefix(gate: Gate, candidate: &[ItemScore], current: &[ItemScore]) -> Option<usize> {
    let current_total = total(gate, current);
    let mut most = BigUint::from(candidate.len()) << 2148;
    for (n_seen, score) in candidate.iter().enumerate() {
        if most <= current_total {
            return Some(n_seen);
        }
        most = most + worth(gate, *score) - (one() << 1074);
    }
    (most <= current_total).then_some(candidate.len())
}

/// Scores of every kind, with many that are equal.
pub(crate) fn any_score() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => prop::sample::select(vec![0.0, 1.0]),
        2 => (0_u8..=8).prop_map(|eighths| f64::from(eighths) / 8.0),
        2 => prop::sample::select(vec![0.1, 0.2, 0.3, 1.0 / 3.0, 0.7, 0.9, 1.0 - f64::EPSILON / 2.0]),
        2 => 0.0..=1.0_f64,
        // Any exponent, down to the subnormal numbers.
        2 => (0..=1.0_f64.to_bits()).prop_map(f64::from_bits),
        1 => (0_u64..1 << 53).prop_map(f64::from_bits),
        1 => prop::sample::select(vec![5e-324, f64::MIN_POSITIVE, f64::EPSILON, 1e-9, -0.0]),
    ]
}

/// Scores as a careless environment may give them.
pub(crate) fn any_raw_score() -> impl Strategy<Value = f64> {
    prop_oneof![
        12 => any_score(),
        1 => prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 2.0]),
    ]
}

pub(crate) fn any_item_score() -> impl Strategy<Value = ItemScore> {
    (any_raw_score(), any_raw_score()).prop_map(|(hard, soft)| ItemScore { hard, soft })
}

pub(crate) fn any_gate() -> impl Strategy<Value = Gate> {
    let weight = prop_oneof![prop::sample::select(vec![0.5, 0.3, 0.1, 1e-20, 2.0]), any_raw_score()];
    (prop::sample::select(GateMetric::ALL.to_vec()), weight)
        .prop_map(|(metric, mixed_weight)| Gate { metric, mixed_weight })
}

/// Two skills on the same items: unrelated, or the same scores with a few changes and in another order, so that ties
/// and near ties are common.
pub(crate) fn any_pair(max_items: usize) -> impl Strategy<Value = (Vec<ItemScore>, Vec<ItemScore>)> {
    let unrelated = prop::collection::vec((any_item_score(), any_item_score()), 0..=max_items)
        .prop_map(|pairs| pairs.into_iter().unzip());
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any_item_score()), 0..3);
    let related = (prop::collection::vec(any_item_score(), 0..=max_items), changes)
        .prop_flat_map(|(current, changes)| {
            (Just(current.clone()).prop_shuffle(), Just(current), Just(changes))
        })
        .prop_map(|(mut candidate, current, changes)| {
            for (index, score) in changes {
                if !candidate.is_empty() {
                    let item_idx = index.index(candidate.len());
                    candidate[item_idx] = score;
                }
            }
            (candidate, current)
        });
    prop_oneof![1 => unrelated, 3 => related]
}

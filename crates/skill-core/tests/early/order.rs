//! Which items are measured first, and how flips are counted.

use proptest::prelude::*;
use skill_core::{FlipCounts, ItemId, ItemScore, evaluation_order};

fn hard(hard: f64) -> ItemScore {
    ItemScore { hard, soft: 0.0 }
}

fn flips(json: &str) -> FlipCounts {
    serde_json::from_str(json).unwrap()
}

/// Items are given as `(id, hard score of the current skill)`.
#[track_caller]
fn check_order(items: &[(&str, f64)], counts: &str, expect: &[&str]) {
    let ids: Vec<ItemId> = items.iter().map(|(id, _)| ItemId::new(*id)).collect();
    let scores: Vec<ItemScore> = items.iter().map(|(_, score)| hard(*score)).collect();
    let found = evaluation_order(&ids, &scores, &flips(counts));
    let found: Vec<&str> = found.into_iter().map(|item_idx| ids[item_idx].as_str()).collect();
    assert_eq!(found, expect, "{items:?} with {counts}");
}

#[test]
fn failed_items_go_first_and_then_those_that_flipped_most() {
    let items = [("d", 1.0), ("c", 0.0), ("b", 1.0), ("a", 0.0), ("e", 1.0)];
    check_order(&items, "{}", &["a", "c", "b", "d", "e"]);
    check_order(&items, r#"{"d": 1}"#, &["a", "c", "d", "b", "e"]);
    check_order(&items, r#"{"d": 1, "e": 3, "c": 1, "x": 9}"#, &["c", "a", "e", "d", "b"]);
    check_order(&[("2", 1.0), ("10", 1.0), ("1", 1.0)], "{}", &["1", "10", "2"]);
    // The threshold is that of a success, and what is not a number is none.
    check_order(&[("a", 1e-9), ("b", 9e-10), ("c", f64::NAN), ("d", 0.5)], "{}", &["b", "c", "a", "d"]);
    check_order(&[], "{}", &[]);
}

#[test]
fn an_item_without_a_score_counts_as_failed() {
    let ids = ["a", "b", "c"].map(ItemId::from);
    assert_eq!(evaluation_order(&ids, &[hard(1.0)], &FlipCounts::default()), [1, 2, 0]);
    assert_eq!(evaluation_order(&ids[..1], &[hard(1.0), hard(0.0)], &FlipCounts::default()), [0]);
}

#[test]
fn flips_are_counted_in_both_directions_and_only_of_what_was_seen() {
    let ids = ["w", "l", "same", "soft", "z"].map(ItemId::from);
    let candidate = [hard(1.0), hard(0.0), hard(0.3), ItemScore { hard: 0.0, soft: 1.0 }, hard(f64::NAN)];
    let current = [hard(0.0), hard(1e-9), hard(1.0), hard(0.0), hard(0.0)];
    let mut counts = FlipCounts::default();
    let triples = |n_seen| {
        let scores = candidate.iter().copied().zip(current);
        ids.iter().zip(scores).map(|(id, (candidate, current))| (id, candidate, current)).take(n_seen)
    };
    counts.record(triples(5));
    counts.record(triples(1));
    counts.record(triples(0));
    assert_eq!(serde_json::to_string(&counts).unwrap(), r#"{"l":1,"w":2}"#);
    assert_eq!(counts.of(&ids[0]), 2);
    assert_eq!(counts.of(&ids[2]), 0);
}

#[test]
fn counts_of_zero_are_not_kept() {
    let counts = flips(r#"{"b": 2, "a": 0, "A": 1}"#);
    assert_eq!(serde_json::to_string(&counts).unwrap(), r#"{"A":1,"b":2}"#);
    assert_eq!(flips(r#"{"a": 0}"#), FlipCounts::default());
    for refused in [r#"{"a": -1}"#, r#"{"a": 0.5}"#, r#"["a"]"#, "null"] {
        assert!(serde_json::from_str::<FlipCounts>(refused).is_err(), "{refused}");
    }
}

proptest! {
    #[test]
    fn an_order_has_every_item_once(
        items in prop::collection::vec(("[a-c]{0,2}", prop::sample::select(vec![0.0, 1.0]), 0_u64..3), 0..20),
        n_scores in 0_usize..24,
    ) {
        let ids: Vec<ItemId> = items.iter().map(|(id, _, _)| ItemId::new(id.as_str())).collect();
        let scores: Vec<ItemScore> = items.iter().map(|(_, score, _)| hard(*score)).take(n_scores).collect();
        let counts: serde_json::Map<String, serde_json::Value> =
            items.iter().map(|(id, _, count)| (id.clone(), (*count).into())).collect();
        let order = evaluation_order(&ids, &scores, &flips(&serde_json::Value::from(counts).to_string()));
        let mut sorted = order.clone();
        sorted.sort_unstable();
        prop_assert_eq!(sorted, (0..ids.len()).collect::<Vec<_>>());
        let first_solved = order.iter().position(|&item_idx| scores.get(item_idx).is_some_and(|score| score.is_success()));
        let n_failed = first_solved.unwrap_or(order.len());
        prop_assert!(order[n_failed..].iter().all(|&item_idx| scores[item_idx].is_success()));
    }
}

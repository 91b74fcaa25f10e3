//! A candidate that may win by its tokens too is rejected early exactly if the whole evaluation rejects it.

use crate::oracle::{any_gate, any_pair};
use proptest::prelude::*;
use skill_core::objective::{Measures, Objective};
use skill_core::{EarlyVerdict, GateAction, GateMode, GateRule, ItemScore, PrefixFold, TokenSaving};

fn any_saving() -> impl Strategy<Value = TokenSaving> {
    (prop::sample::select(vec![0.01, 0.2, 0.5]), prop::sample::select(vec![0.0, 0.1, 0.3]))
        .prop_map(|(least, margin)| TokenSaving { least, margin })
}

fn any_tokens() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(0..6_u64, 14)
}

fn any_mode() -> impl Strategy<Value = GateMode> {
    prop::sample::select(vec![
        GateMode::Strict,
        GateMode::NoRegression { max_losses: 1 },
        GateMode::Mcnemar { alpha: 0.2 },
        GateMode::Paired { standard_errors: 1.0 },
    ])
}

fn of<'run>(scores: &'run [ItemScore], tokens: &'run [u64]) -> Measures<'run> {
    Measures { scores, tokens, bar: scores }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn early_rejection_decides_as_the_whole_evaluation_does_with_tokens(
        gate in any_gate(), mode in any_mode(), saving in any_saving(),
        (candidate, current) in any_pair(14), ours in any_tokens(), theirs in any_tokens(),
    ) {
        let n = candidate.len();
        let (ours, theirs) = (&ours[..n], &theirs[..n]);
        let objective = Objective { rule: GateRule { mode, ..GateRule::strict(gate) }, saving: Some(saving) };
        let current = of(&current, theirs);
        let action = objective.decide(of(&candidate, ours), current, current).action;
        let order: Vec<usize> = (0..n).rev().collect();
        let mut rejection = objective.early(current, &order);
        let mut n_certain = rejection.n_certain();
        for draw_idx in &order {
            prop_assert!(rejection.n_certain() >= n_certain);
            n_certain = rejection.n_certain();
            rejection.push_counted(candidate[*draw_idx], ours[*draw_idx]);
        }
        prop_assert!(n_certain <= rejection.n_seen());
        match rejection.verdict() {
            EarlyVerdict::Rejected => prop_assert!(!action.is_accepted(), "{:?}", action),
            EarlyVerdict::Open => prop_assert!(action != GateAction::Reject, "{:?}", action),
        }
        // Without the other way to win nothing is rejected later, and nothing is accepted that was not.
        let alone = Objective { saving: None, ..objective };
        let by_score = alone.decide(of(&candidate, ours), current, current).action;
        prop_assert!(!by_score.is_accepted() || action.is_accepted());
        let mut plain = alone.early(current, &order);
        for draw_idx in &order {
            plain.push(candidate[*draw_idx]);
        }
        prop_assert!(plain.n_seen() <= rejection.n_seen());
    }

    #[test]
    fn the_prefix_does_not_depend_on_what_arrives_first(
        gate in any_gate(), saving in any_saving(), (candidate, current) in any_pair(14),
        ours in any_tokens(), theirs in any_tokens(), seed in any::<u64>(),
    ) {
        let n = candidate.len();
        let objective = Objective { rule: GateRule::strict(gate), saving: Some(saving) };
        let order: Vec<usize> = (0..n).collect();
        let start = || PrefixFold::new(objective.early(of(&current, &theirs[..n]), &order));
        let (mut in_order, mut shuffled) = (start(), start());
        let mut arrival = order.clone();
        arrival.sort_by_key(|place| (*place as u64).wrapping_add(seed).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        for place in order {
            in_order.push_counted(place, candidate[place], ours[place]);
        }
        for place in arrival {
            shuffled.push_counted(place, candidate[place], ours[place]);
        }
        prop_assert_eq!(in_order.rejection().n_seen(), shuffled.rejection().n_seen());
        prop_assert_eq!(in_order.rejection().verdict(), shuffled.rejection().verdict());
    }
}

#[test]
fn a_candidate_that_cannot_score_higher_is_measured_until_it_cannot_save_either() {
    let solved = [ItemScore { hard: 1.0, soft: 1.0 }; 4];
    let objective = Objective {
        rule: GateRule::strict(skill_core::Gate::default()),
        saving: Some(TokenSaving { least: 0.2, margin: 0.0 }),
    };
    let current = of(&solved, &[100; 4]);
    let order = [0, 1, 2, 3];
    let n_seen = |tokens: [u64; 4]| {
        let mut rejection = objective.early(current, &order);
        for tokens in tokens {
            rejection.push_counted(solved[0], tokens);
        }
        (rejection.n_seen(), rejection.verdict())
    };
    assert_eq!(n_seen([80; 4]), (4, EarlyVerdict::Open));
    assert_eq!(n_seen([81; 4]), (4, EarlyVerdict::Rejected));
    // 320 tokens may be left, and each open draw takes one at least.
    assert_eq!(n_seen([318, 1, 1, 1]), (1, EarlyVerdict::Rejected));
    assert_eq!(n_seen([317, 1, 1, 1]), (4, EarlyVerdict::Open));
    assert_eq!(n_seen([321, 1, 1, 1]), (1, EarlyVerdict::Rejected));
}

#[test]
fn scores_that_were_given_up_for_tokens_have_to_be_beaten_still() {
    let scores = |n_solved: usize| -> Vec<ItemScore> {
        (0..10).map(|item| ItemScore { hard: f64::from(u8::from(item < n_solved)), soft: 0.0 }).collect()
    };
    let objective = Objective {
        rule: GateRule::strict(skill_core::Gate::default()),
        saving: Some(TokenSaving { least: 0.2, margin: 0.1 }),
    };
    let (eight, seven, six) = (scores(8), scores(7), scores(6));
    let (long, short, shorter) = ([100; 10], [80; 10], [60; 10]);
    let first = of(&eight, &long);
    let saver = Measures { scores: &seven, tokens: &short, bar: &eight };
    let decide = |candidate, current| objective.decide(candidate, current, current);
    let verdict = decide(of(&seven, &short), first);
    assert_eq!((verdict.action, verdict.is_for_tokens), (GateAction::AcceptNewBest, true));
    // A second loss is not within the margin of the first skill, and 8 of 10 is not a gain over it.
    assert_eq!(decide(of(&six, &shorter), saver).action, GateAction::Reject);
    assert_eq!(decide(of(&eight, &long), saver).action, GateAction::Reject);
    assert_eq!(decide(of(&seven, &shorter), saver).action, GateAction::AcceptNewBest);
    assert_eq!(decide(of(&scores(9), &long), saver).action, GateAction::AcceptNewBest);
}

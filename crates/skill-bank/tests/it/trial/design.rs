//! Which tasks a trial runs, and how chance splits their rollouts.

use super::{ANY_TIME, FIXED_END, design, evidence, group, items, skill, with_settings};
use proptest::prelude::*;
use skill_bank::Evidence;
use skill_bank::trial::{
    Half, ItemRate, TrialDesign, TrialError, TrialSettings, TriedItems, halves, preflight,
};
use skill_core::ItemId;
use skill_core::stats::stratified::{GroupShape, TaskPrior, TrialRule};
use std::collections::BTreeSet;

fn rate(id: &str, successes: u32, rollouts: u32) -> ItemRate {
    ItemRate { item: ItemId::new(id), successes, rollouts }
}

fn chosen(rates: &[ItemRate], most: usize) -> Vec<String> {
    let items = TriedItems::choose(&skill("gen_001"), &Evidence::default(), rates, most, 3).unwrap();
    items.as_slice().iter().map(ToString::to_string).collect()
}

#[test]
fn tasks_that_tell_most_come_first() {
    let rates = [
        rate("always", 16, 16),
        rate("half", 8, 16),
        rate("never", 0, 16),
        rate("often", 13, 16),
        rate("unknown", 0, 0),
        rate("mostly", 11, 16),
    ];
    let order = chosen(&rates, 6);
    assert_eq!(order[..4], ["half", "mostly", "unknown", "often"]);
    assert_eq!(order[4..].iter().map(String::as_str).collect::<BTreeSet<_>>(), ["always", "never"].into());
    assert_eq!(chosen(&rates, 2), ["half", "mostly"]);
    let other_way: Vec<ItemRate> = rates.iter().rev().cloned().collect();
    assert_eq!(chosen(&other_way, 6), order);
}

#[test]
fn equal_tasks_are_chosen_by_chance_and_not_by_id() {
    let of_seed =
        |seed| TriedItems::choose(&skill("gen_001"), &Evidence::default(), &items(40), 8, seed).unwrap();
    assert_eq!(of_seed(1), of_seed(1));
    assert_ne!(of_seed(1), of_seed(2));
    let of_other = TriedItems::choose(&skill("gen_002"), &Evidence::default(), &items(40), 8, 1).unwrap();
    assert_ne!(of_seed(1), of_other);
}

#[test]
fn no_task_of_the_evidence_is_tried() {
    let candidate = skill("hea_001");
    let read = evidence(&["item 00", "item 02", "elsewhere"]);
    let chosen = TriedItems::choose(&candidate, &read, &items(4), 9, 1).unwrap();
    let ids: BTreeSet<&str> = chosen.as_slice().iter().map(ItemId::as_str).collect();
    assert_eq!(ids, ["item 01", "item 03"].into());

    let none = TriedItems::choose(&candidate, &read, &items(1), 9, 1).unwrap_err();
    assert!(matches!(none, TrialError::NoItems { n_eligible: 1, n_evidence: 1, .. }), "{none}");
    let none = TriedItems::choose(&candidate, &read, &[], 9, 1).unwrap_err();
    assert!(matches!(none, TrialError::NoItems { n_eligible: 0, .. }));
    let twice = TriedItems::choose(&candidate, &read, &[rate("a", 0, 0), rate("a", 1, 2)], 9, 1).unwrap_err();
    assert!(matches!(twice, TrialError::DuplicateItem { item } if item.as_str() == "a"));
}

#[test]
fn a_written_design_is_checked_against_the_evidence() {
    let design = design(3, 6, ANY_TIME);
    let text = design.to_json();
    let read = |text: &str, evidence: &Evidence| TrialDesign::from_json(text, evidence).unwrap();
    let back = read(&text, &Evidence::default()).unwrap();
    assert_eq!((&back, back.sha256()), (&design, design.sha256()));
    let refused = read(&text, &evidence(&["item 01"])).unwrap_err();
    assert!(matches!(refused, TrialError::EvidenceItem { item, .. } if item.as_str() == "item 01"));
    let twice = text.replace("item 01", "item 02");
    assert!(matches!(read(&twice, &Evidence::default()), Err(TrialError::DuplicateItem { .. })));
    let one_sided = text.replace(r#""new":4"#, r#""new":0"#);
    assert!(matches!(read(&one_sided, &Evidence::default()), Err(TrialError::EmptyHalf { .. })));
    assert!(TrialDesign::from_json(&text.replace("seed", "sead"), &Evidence::default()).is_err());
    assert!(TrialDesign::from_json(text.trim_start_matches('{'), &Evidence::default()).is_err());
}

#[track_caller]
fn check_refused(settings: TrialSettings, is_expected: impl Fn(&TrialError) -> bool) {
    let items = TriedItems::choose(&skill("gen_001"), &Evidence::default(), &items(2), 2, 1).unwrap();
    let error = TrialDesign::new(skill("gen_001"), items, &settings, 1).unwrap_err();
    assert!(is_expected(&error), "{error}");
}

#[test]
fn designs_that_decide_nothing_are_refused() {
    let plain = TrialSettings::default();
    for rollouts_per_group in [0, 1] {
        check_refused(
            TrialSettings { rollouts_per_group, ..plain },
            |error| matches!(error, TrialError::EmptyHalf { rollouts } if *rollouts == rollouts_per_group),
        );
    }
    check_refused(TrialSettings { max_rollouts: 7, ..plain }, |error| {
        matches!(error, TrialError::TooFewRollouts { max_rollouts: 7, group: 8 })
    });
    for alpha in [0.0, 1.0, -0.1, f64::NAN] {
        check_refused(TrialSettings { rule: TrialRule::FixedEnd { alpha }, ..plain }, |error| {
            matches!(error, TrialError::BadRule { name: "alpha", .. })
        });
    }
    for threshold in [1.0, 0.5, f64::NAN, f64::INFINITY] {
        let rule = TrialRule::AnyTime { threshold, groups_per_look: 1 };
        check_refused(TrialSettings { rule, ..plain }, |error| {
            matches!(error, TrialError::BadRule { name: "threshold", .. })
        });
    }
}

#[test]
fn settings_come_back_from_their_file() {
    for rule in [ANY_TIME, FIXED_END] {
        let settings = TrialSettings { rule, max_informative_groups: Some(30), ..TrialSettings::default() };
        let text = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<TrialSettings>(&text).unwrap(), settings, "{text}");
    }
    assert_eq!(serde_json::from_str::<TrialSettings>("{}").unwrap(), TrialSettings::default());
}

#[test]
fn a_trial_passes_over_its_tasks_and_runs_no_others() {
    let design = design(3, 7, ANY_TIME);
    let planned: Vec<_> = (0..design.n_groups()).map(|place| design.group(place).unwrap()).collect();
    assert_eq!(planned.iter().map(|group| group.pass).collect::<Vec<_>>(), [0, 0, 0, 1, 1, 1, 2]);
    for (place, group) in planned.iter().enumerate() {
        assert_eq!(group.item, design.items()[place % 3]);
        assert_eq!(group.halves.iter().filter(|half| **half == Half::With).count(), 4);
    }
    // Passes are randomized independently.
    assert_ne!(planned[0].halves, planned[3].halves);
    assert_eq!((design.n_groups(), design.n_rollouts()), (7, 56));
    assert!(matches!(design.group(7), Err(TrialError::UnknownGroup { group: 7, n_groups: 7 })));
    // A limit that is not a multiple of the group size is rounded down.
    let odd = with_settings(3, &TrialSettings { max_rollouts: 23, ..TrialSettings::default() });
    assert_eq!((odd.n_groups(), odd.n_rollouts()), (2, 16));
}

#[test]
fn results_become_the_group_of_their_halves() {
    let planned = design(2, 2, ANY_TIME).group(1).unwrap();
    let as_half: Vec<Option<bool>> = planned.halves.iter().map(|half| Some(*half == Half::With)).collect();
    assert_eq!(planned.of_results(&as_half).unwrap(), group([4, 4], [0, 4]));
    // A rollout that could not be made is not a failure.
    let made: Vec<Option<bool>> =
        planned.halves.iter().map(|half| (*half == Half::With).then_some(true)).collect();
    assert_eq!(planned.of_results(&made).unwrap(), group([4, 4], [0, 0]));
    let short = planned.of_results(&as_half[1..]).unwrap_err();
    assert!(matches!(short, TrialError::WrongRollouts { group: 1, found: 7, planned: 8 }));
}

#[test]
fn two_candidates_that_meet_in_a_task_have_coins_of_their_own() {
    let shape = GroupShape::halves(8);
    let (mut both, n_samples) = (0, 8 * 500);
    for task in 0..500 {
        let item = ItemId::new(format!("task {task}"));
        let [one, other] = ["gen_001", "gen_002"].map(|id| halves(1, &skill(id), &item, 0, shape));
        both += one.iter().zip(&other).filter(|(one, other)| **one == Half::With && one == other).count();
    }
    // A quarter of the samples, within four standard errors.
    assert!((both as f64 / f64::from(n_samples) - 0.25).abs() < 0.028, "{both}");
}

proptest! {
    #[test]
    fn halves_are_exact_and_depend_on_what_names_them(seed: u64, new in 1_u32..9, old in 1_u32..9, pass: u32) {
        let shape = GroupShape { new, old };
        let of = |seed| halves(seed, &skill("gen_001"), &ItemId::new("a"), pass, shape);
        let found = of(seed);
        prop_assert_eq!(found.len() as u32, new + old);
        prop_assert_eq!(found.iter().filter(|half| **half == Half::With).count() as u32, new);
        prop_assert_eq!(found, of(seed));
    }
}

#[test]
fn each_sample_is_as_often_in_each_half() {
    let mut counts = [0_u32; 8];
    for task in 0..2_000 {
        let item = ItemId::new(format!("task {task}"));
        for (count, half) in
            counts.iter_mut().zip(halves(5, &skill("gen_001"), &item, 0, GroupShape::halves(8)))
        {
            *count += u32::from(half == Half::With);
        }
    }
    // Four standard errors of 2,000 coins.
    assert!(counts.iter().all(|count| count.abs_diff(1_000) < 90), "{counts:?}");
}

#[test]
fn a_preflight_says_what_cannot_be_seen() {
    let of = |n_groups, rule| preflight(&design(16, n_groups, rule), TaskPrior::default());
    let rule = TrialRule::AnyTime { threshold: 20.0, groups_per_look: 16 };
    let (short, long) = (of(16, rule), of(80, rule));
    assert_eq!((short.rollouts, short.items, long.rollouts), (128, 16, 640));
    let chances =
        |of: &skill_bank::trial::Preflight| of.rows.iter().map(|row| row.chance).collect::<Vec<_>>();
    assert!(chances(&short)[0] < 0.1 && chances(&short)[2] > 0.5, "{short:?}");
    assert!(chances(&long)[2] > 0.95, "{long:?}");
    let needed: Vec<u32> = long.rows.iter().map(|row| row.rollouts_needed.unwrap()).collect();
    assert!(needed[0] > 1_280 && needed[1] > 400 && needed[2] <= 256, "{needed:?}");
    for rule in [rule, FIXED_END] {
        let limited = |max_informative_groups| {
            let settings = TrialSettings { rule, max_informative_groups, ..TrialSettings::default() };
            preflight(&with_settings(16, &settings), TaskPrior::default())
        };
        let (few, whole) = (limited(Some(4)), limited(None));
        assert!(chances(&few)[2] + 0.2 < chances(&whole)[2], "{few:?} {whole:?}");
        assert_eq!(few.rows[2].rollouts_needed, whole.rows[2].rollouts_needed);
        assert_eq!(limited(Some(80)), whole);
    }
    assert!(chances(&of(80, FIXED_END)).iter().zip(chances(&long)).all(|(end, any)| *end >= any));
    assert_eq!(
        serde_json::from_str::<skill_bank::trial::Preflight>(&serde_json::to_string(&long).unwrap()).unwrap(),
        long
    );
}

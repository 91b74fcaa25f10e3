//! The standing check of active skills, and tiers over their cap.

use super::skill;
use crate::log::principle;
use skill_bank::trial::{HideRule, Standing, StandingRollout, over_cap};
use skill_bank::{SkillRef, Tier, Utility, ViewedSkill};
use skill_core::{ItemId, SkillPartId};
use std::collections::{BTreeMap, BTreeSet};

fn three() -> Vec<SkillRef> {
    ["gen_001", "gen_002", "hea_001@2"].map(skill).into()
}

#[test]
fn one_rollout_in_eight_hides_one_skill_at_random() {
    let (rule, shown) = (HideRule::new(11), three());
    let reversed: Vec<SkillRef> = shown.iter().rev().cloned().collect();
    let mut counts: BTreeMap<Option<&SkillRef>, u32> = BTreeMap::new();
    for (task, sample) in (0..1_000).flat_map(|task| (0..8).map(move |sample| (task, sample))) {
        let item = ItemId::new(format!("task {task}"));
        let hidden = rule.hidden(&item, 1, sample, &shown);
        assert_eq!(hidden, rule.hidden(&item, 1, sample, &reversed));
        *counts.entry(hidden).or_default() += 1;
    }
    // Of 8,000 rollouts 1,000 hide a skill, each of three in a third of them: within five standard errors.
    assert!(counts[&None].abs_diff(7_000) < 150, "{counts:?}");
    assert!(shown.iter().all(|skill| counts[&Some(skill)].abs_diff(333) < 90), "{counts:?}");
    let item = ItemId::new("task");
    let hides = |rule: HideRule, shown: &[SkillRef]| {
        (0..200).any(|sample| rule.hidden(&item, 1, sample, shown).is_some())
    };
    assert!(hides(rule, &shown) && !hides(rule, &[]) && !hides(HideRule { one_in: 0, ..rule }, &shown));
    let pattern = |seed, round| {
        let rule = HideRule::new(seed);
        (0..100).map(|sample| rule.hidden(&item, round, sample, &shown)).collect::<Vec<_>>()
    };
    assert!(pattern(1, 1) != pattern(2, 1) && pattern(1, 1) != pattern(1, 2));
}

/// So many rollouts that hid this skill, or nothing.
fn rollouts(hidden: Option<&SkillRef>, successes: u32, n: u32) -> Vec<StandingRollout> {
    (0..n).map(|i| StandingRollout { hidden: hidden.cloned(), is_success: i < successes }).collect()
}

#[test]
fn a_skill_is_compared_with_rollouts_that_hid_it_alone() {
    let shown = three();
    let mut standing = Standing::default();
    let task = [
        rollouts(None, 3, 6),
        rollouts(Some(&shown[0]), 1, 1),
        // Counts against the second skill, and not as a rollout with the first one.
        rollouts(Some(&shown[1]), 0, 1),
    ]
    .concat();
    standing.push(&shown, &task);
    let [first, second, third] = [0, 1, 2].map(|idx: usize| standing.numbers(&shown[idx]));
    assert_eq!(first.map(|numbers| (numbers.with, numbers.without)), Some(([3, 6], [1, 1])));
    assert_eq!(second.map(|numbers| (numbers.with, numbers.without)), Some(([3, 6], [0, 1])));
    assert_eq!(third, None, "it was never hidden");
    let text = serde_json::to_string(&standing).unwrap();
    assert_eq!(serde_json::from_str::<Standing>(&text).unwrap(), standing, "{text}");
    assert_eq!(standing.all().count(), 2);
}

#[test]
fn harm_retires_a_skill_but_not_on_few_groups() {
    let shown = vec![skill("gen_001"), skill("gen_002")];
    let mut standing = Standing::default();
    let mut n_groups = 0;
    while standing.harmful(0).is_empty() {
        // Hiding the first skill helps; the second one makes no difference.
        let task = [
            rollouts(None, n_groups % 2, 6),
            rollouts(Some(&shown[0]), 1, 1),
            rollouts(Some(&shown[1]), 0, 1),
        ];
        standing.push(&shown, &task.concat());
        n_groups += 1;
        assert!(n_groups < 100);
    }
    assert_eq!(standing.harmful(0), [&shown[0]]);
    let n_informative = standing.numbers(&shown[0]).unwrap().informative_groups;
    assert_eq!(standing.harmful(n_informative), [&shown[0]]);
    assert!(standing.harmful(n_informative + 1).is_empty());
    assert!(n_informative < 10, "{n_informative}");
}

fn viewed(id: &str, lower: Option<f64>, informative_groups: u64) -> ViewedSkill {
    let utility = lower.map(|lower| Utility {
        difference: lower + 0.1,
        interval: [lower, lower + 0.2],
        with: [0, 0],
        without: [0, 0],
        informative_groups,
    });
    ViewedSkill { id: skill(id), tier: Tier::General, content: principle(id), utility }
}

#[track_caller]
fn check_over(cap: usize, pinned: &[&str], retired: &[&str], remaining: usize) {
    let tier = [
        viewed("gen_001", Some(0.05), 20),
        viewed("gen_002", Some(-0.10), 20),
        viewed("gen_003", None, 0),
        viewed("gen_004", Some(-0.10), 20),
        viewed("gen_005", Some(-0.50), 3),
        viewed("gen_006", Some(0.01), 20),
    ];
    let pinned: BTreeSet<SkillPartId> = pinned.iter().map(|id| SkillPartId::new(*id)).collect();
    let found = over_cap(&tier, cap, &pinned, 10);
    let ids: Vec<String> = found.retired.iter().map(ToString::to_string).collect();
    assert_eq!((ids, found.remaining), (retired.iter().map(ToString::to_string).collect(), remaining));
}

#[test]
fn the_lowest_lower_bound_leaves_a_tier_that_is_too_large() {
    check_over(6, &[], &[], 0);
    check_over(9, &[], &[], 0);
    // Of equal bounds the latest; what is not measured enough stays.
    check_over(5, &[], &["gen_004"], 0);
    check_over(3, &[], &["gen_004", "gen_002", "gen_006"], 0);
    check_over(0, &[], &["gen_004", "gen_002", "gen_006", "gen_001"], 2);
    check_over(4, &["gen_004", "gen_006"], &["gen_002", "gen_001"], 0);
    check_over(3, &["gen_004", "gen_006", "gen_001"], &["gen_002"], 2);
}

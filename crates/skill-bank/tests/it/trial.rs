//! Trials of skills, and the standing check.

mod design;
mod scores;
mod standing;
mod state;
mod worlds;

use skill_bank::trial::{ItemRate, TrialDesign, TrialSettings, TriedItems};
use skill_bank::{Evidence, SkillRef};
use skill_core::stats::stratified::{TaskStratum, TrialRule};
use skill_core::{ItemId, SkillPartId};

fn skill(id: &str) -> SkillRef {
    SkillRef::of_part(&SkillPartId::new(id))
}

fn items(n: usize) -> Vec<ItemRate> {
    (0..n).map(|item| ItemRate::unknown(ItemId::new(format!("item {item:02}")))).collect()
}

fn evidence(ids: &[&str]) -> Evidence {
    let mut evidence = Evidence::default();
    evidence.items = ids.iter().map(|id| ItemId::new(*id)).collect();
    evidence
}

fn group(new: [u32; 2], old: [u32; 2]) -> TaskStratum {
    TaskStratum { new: new.try_into().unwrap(), old: old.try_into().unwrap() }
}

/// A design on so many tasks with groups of eight.
fn design(n_items: usize, n_groups: u64, rule: TrialRule) -> TrialDesign {
    let settings = TrialSettings { max_rollouts: 8 * n_groups, rule, ..TrialSettings::default() };
    with_settings(n_items, &settings)
}

fn with_settings(n_items: usize, settings: &TrialSettings) -> TrialDesign {
    let candidate = skill("hea_001");
    let items = TriedItems::choose(&candidate, &Evidence::default(), &items(n_items), n_items, 1).unwrap();
    TrialDesign::new(candidate, items, settings, 7).unwrap()
}

const ANY_TIME: TrialRule = TrialRule::AnyTime { threshold: 20.0, groups_per_look: 4 };
const FIXED_END: TrialRule = TrialRule::FixedEnd { alpha: 0.05 };

//! The standing check: shown skills are hidden at random, so that every active skill is measured while it is used.

use super::HARM_THRESHOLD;
use super::numbers::TrialNumbers;
use crate::skill::{SkillRef, ViewedSkill};
use serde::{Deserialize, Serialize};
use skill_core::random::Dice;
use skill_core::stats::stratified::{Arm, Stratified, TaskStratum, has_reached};
use skill_core::{ItemId, SkillPartId};
use std::collections::{BTreeMap, BTreeSet};

/// Which shown skill is hidden in which rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HideRule {
    /// In one rollout of so many, one shown skill is hidden; 0 hides none.
    pub one_in: u32,
    /// The seed of the run.
    pub seed: u64,
}

impl HideRule {
    /// One rollout of eight.
    pub fn new(seed: u64) -> Self {
        Self { one_in: 8, seed }
    }

    /// The skill to hide in this sample of a task in this round, of those that would be shown.
    ///
    /// Each rollout is decided by itself, from what names it and before it is made; each shown skill is as likely as
    /// any other, in whatever order they are listed.
    pub fn hidden<'a>(
        &self,
        item: &ItemId,
        round: u32,
        sample: u32,
        shown: &'a [SkillRef],
    ) -> Option<&'a SkillRef> {
        if self.one_in == 0 {
            return None;
        }
        let texts = ["hide", item.as_str(), &round.to_string(), &sample.to_string()];
        let dice = Dice::new(self.seed, &texts);
        if !dice.chance("hides", 1.0 / f64::from(self.one_in)) {
            return None;
        }
        one_of(&dice, shown)
    }

    /// Whether a skill is hidden from half of the rollouts of this task in this pass, where the rollouts of a task are
    /// compared with each other, as in GRPO: in one group of so many.
    pub fn hides_in_group(&self, item: &ItemId, pass: u32) -> bool {
        self.one_in > 0 && self.of_group(item, pass).chance("hides", 1.0 / f64::from(self.one_in))
    }

    /// The skill to hide from half of such a group, of those that would be shown.
    pub fn hidden_in_group<'a>(
        &self,
        item: &ItemId,
        pass: u32,
        shown: &'a [SkillRef],
    ) -> Option<&'a SkillRef> {
        one_of(&self.of_group(item, pass), shown)
    }

    fn of_group(&self, item: &ItemId, pass: u32) -> Dice {
        Dice::new(self.seed, &["hide in group", item.as_str(), &pass.to_string()])
    }
}

/// One of these skills by chance, in whatever order they are listed.
fn one_of<'a>(dice: &Dice, shown: &'a [SkillRef]) -> Option<&'a SkillRef> {
    let mut sorted: Vec<&SkillRef> = shown.iter().collect();
    sorted.sort_unstable();
    dice.pick("which", &sorted).copied()
}

/// A rollout of the standing check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StandingRollout {
    /// The skill that was hidden, if one was.
    pub hidden: Option<SkillRef>,
    /// Whether the rollout succeeded.
    pub is_success: bool,
}

/// The standing check of all active skills: for each, its groups so far.
///
/// In files it is an object of versions, each with a list of groups and their counts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Standing {
    skills: BTreeMap<SkillRef, Stratified>,
}

impl Standing {
    /// Takes the rollouts of one task in one round, to all of which these skills would have been shown.
    ///
    /// For each skill, the rollouts in which it alone was hidden are compared with those in which nothing was: a rollout
    /// in which another skill was hidden would count against that one.
    pub fn push(&mut self, shown: &[SkillRef], rollouts: &[StandingRollout]) {
        let arm = |hidden: Option<&SkillRef>| {
            let mut arm = Arm::default();
            let of_arm = rollouts.iter().filter(|rollout| rollout.hidden.as_ref() == hidden);
            of_arm.for_each(|rollout| arm.add(rollout.is_success));
            arm
        };
        let new = arm(None);
        let skills: BTreeSet<&SkillRef> = shown.iter().collect();
        for skill in skills {
            let group = TaskStratum { new, old: arm(Some(skill)) };
            // An uninformative group only makes the file longer.
            if group.difference().is_some() {
                self.skills.entry(skill.clone()).or_default().push(group);
            }
        }
    }

    /// Adds what another check has found.
    pub fn add(&mut self, other: &Self) {
        for (skill, groups) in &other.skills {
            self.skills.entry(skill.clone()).or_default().add(groups);
        }
    }

    /// Forgets a skill.
    pub fn forget(&mut self, skill: &SkillRef) {
        self.skills.remove(skill);
    }

    /// What is known of a skill; `None` if it was never hidden.
    pub fn numbers(&self, skill: &SkillRef) -> Option<TrialNumbers> {
        self.skills.get(skill).map(TrialNumbers::of)
    }

    /// The skills that are known, with their numbers.
    pub fn all(&self) -> impl Iterator<Item = (&SkillRef, TrialNumbers)> {
        self.skills.iter().map(|(skill, groups)| (skill, TrialNumbers::of(groups)))
    }

    /// The skills that were shown to harm and are to be retired, in the order of their ids.
    ///
    /// None is retired on fewer informative groups than this: a skill that is retired too early costs more than one
    /// that stays a round longer.
    pub fn harmful(&self, min_informative_groups: u64) -> Vec<&SkillRef> {
        let is_harmful = |groups: &Stratified| {
            groups.n_informative() >= min_informative_groups
                && has_reached(groups.e_process().ln_worse(), HARM_THRESHOLD)
        };
        self.skills.iter().filter(|(_, groups)| is_harmful(groups)).map(|(skill, _)| skill).collect()
    }
}

/// The skills that a tier over its cap gives up.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overflow {
    /// The versions to retire, the one that is worth least first.
    pub retired: Vec<SkillRef>,
    /// Skills over the cap that stay, because the rest is pinned or not measured enough.
    pub remaining: usize,
}

/// Which active skills of one tier are retired when there are more than `cap`: those whose worth has the lowest lower
/// bound, and of equal ones the latest in the bank.
///
/// A pinned skill stays, and so does one that was measured on fewer informative groups than this: of that one it is not
/// known what it is worth.
pub fn over_cap(
    tier: &[ViewedSkill],
    cap: usize,
    pinned: &BTreeSet<SkillPartId>,
    min_informative_groups: u64,
) -> Overflow {
    let n_over = tier.len().saturating_sub(cap);
    let is_measured = |skill: &ViewedSkill| {
        skill.utility.is_some_and(|utility| utility.informative_groups >= min_informative_groups)
    };
    let mut measured: Vec<&ViewedSkill> =
        tier.iter().filter(|skill| !pinned.contains(&skill.id.skill) && is_measured(skill)).collect();
    measured.reverse();
    // Stable: of equal bounds the latest stays in front.
    measured.sort_by(|one, other| one.lower_bound().total_cmp(&other.lower_bound()));
    let retired: Vec<SkillRef> = measured.into_iter().take(n_over).map(|skill| skill.id.clone()).collect();
    Overflow { remaining: n_over - retired.len(), retired }
}

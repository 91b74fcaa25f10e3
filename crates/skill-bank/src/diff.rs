//! What is different between two banks.

use crate::bank::Bank;
use crate::skill::{Content, Skill, State, Tier, Utility};
use serde::Serialize;
use skill_core::SkillPartId;

/// What is different in a later bank: skills are the same if they have the same id.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct BankDiff {
    /// Skills that only the later bank has, in its order.
    pub added: Vec<SkillPartId>,
    /// Skills that only the earlier bank has, in its order.
    pub removed: Vec<SkillPartId>,
    /// Skills of both that are not the same in both, in the order of the later bank.
    pub changed: Vec<SkillChange>,
}

/// What is different about a skill; `None` for what is the same.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SkillChange {
    /// The skill.
    pub id: SkillPartId,
    /// Its tier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<FieldChange<Tier>>,
    /// Its state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<FieldChange<State>>,
    /// Whether a person keeps it as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<FieldChange<bool>>,
    /// The number of its [current](Skill::current) version; 0 for a skill without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<FieldChange<u32>>,
    /// What its current version says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<FieldChange<Option<Content>>>,
    /// The worth of its current version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utility: Option<FieldChange<Option<Utility>>>,
}

/// A value in the earlier bank and in the later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FieldChange<T> {
    /// In the earlier bank.
    pub before: T,
    /// In the later bank.
    pub after: T,
}

impl<T: PartialEq> FieldChange<T> {
    fn of(before: T, after: T) -> Option<Self> {
        (before != after).then_some(Self { before, after })
    }
}

impl BankDiff {
    /// The difference between two banks.
    pub fn between(before: &Bank, after: &Bank) -> Self {
        let only_in = |bank: &Bank, other: &Bank| -> Vec<SkillPartId> {
            let ids = bank.skills().map(|skill| &skill.id);
            ids.filter(|id| other.skill(id).is_none()).cloned().collect()
        };
        let changed = |skill: &Skill| SkillChange::between(before.skill(&skill.id)?, skill);
        Self {
            added: only_in(after, before),
            removed: only_in(before, after),
            changed: after.skills().filter_map(changed).collect(),
        }
    }

    /// Whether the banks have the same skills in the same states.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

impl SkillChange {
    fn between(before: &Skill, after: &Skill) -> Option<Self> {
        let (old, new) = (before.current(), after.current());
        let change = Self {
            id: after.id.clone(),
            tier: FieldChange::of(before.tier.clone(), after.tier.clone()),
            state: FieldChange::of(before.state(), after.state()),
            pinned: FieldChange::of(before.is_pinned, after.is_pinned),
            version: FieldChange::of(
                old.map_or(0, |version| version.number),
                new.map_or(0, |version| version.number),
            ),
            content: FieldChange::of(
                old.map(|version| version.content.clone()),
                new.map(|version| version.content.clone()),
            ),
            utility: FieldChange::of(
                old.and_then(|version| version.utility),
                new.and_then(|version| version.utility),
            ),
        };
        let is_same = change.tier.is_none()
            && change.state.is_none()
            && change.pinned.is_none()
            && change.version.is_none()
            && change.content.is_none()
            && change.utility.is_none();
        (!is_same).then_some(change)
    }
}

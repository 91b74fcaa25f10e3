//! What agents may be shown of a bank, at one moment.

use crate::skill::{SkillRef, Tier, ViewedSkill};
use skill_core::canonical::hex_sha256;
use std::collections::BTreeMap;

/// The skills of a bank that agents may be shown, in the order of the bank, with the places of each tier.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BankView {
    skills: Vec<ViewedSkill>,
    tiers: BTreeMap<Tier, Vec<usize>>,
    version: String,
}

impl BankView {
    /// A view of these skills.
    pub fn new(skills: Vec<ViewedSkill>) -> Self {
        let mut tiers: BTreeMap<Tier, Vec<usize>> = BTreeMap::new();
        for (skill_idx, skill) in skills.iter().enumerate() {
            tiers.entry(skill.tier.clone()).or_default().push(skill_idx);
        }
        let text = serde_json::to_string(&skills).expect("skills serialize");
        Self { skills, tiers, version: hex_sha256(text.as_bytes()) }
    }

    /// The skills, in the order of the bank.
    pub fn skills(&self) -> &[ViewedSkill] {
        &self.skills
    }

    /// The skills of a tier, in the order of the bank, each with its place in [`skills`](Self::skills).
    pub fn tier(&self, tier: &Tier) -> impl Iterator<Item = (usize, &ViewedSkill)> {
        let places = self.tiers.get(tier).map(Vec::as_slice).unwrap_or_default();
        places.iter().filter_map(|&skill_idx| Some((skill_idx, self.skills.get(skill_idx)?)))
    }

    /// The types of task that have skills, in alphabetical order.
    pub fn task_types(&self) -> impl Iterator<Item = &str> {
        self.tiers.keys().filter_map(Tier::task_type)
    }

    /// Names everything that is shown: views of one version are equal.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The same with a candidate, in the place of the skills that it would replace: the arm of a trial that has it.
    #[must_use]
    pub fn with(&self, candidate: ViewedSkill, replaced: &[SkillRef]) -> Self {
        let mut skills = self.skills.clone();
        let place = skills.iter().position(|skill| replaced.contains(&skill.id));
        skills.retain(|skill| !replaced.contains(&skill.id));
        match place {
            Some(place) => skills.insert(place.min(skills.len()), candidate),
            None => skills.push(candidate),
        }
        Self::new(skills)
    }

    /// The same without a skill.
    #[must_use]
    pub fn without(&self, hidden: &SkillRef) -> Self {
        Self::new(self.skills.iter().filter(|skill| skill.id != *hidden).cloned().collect())
    }
}

//! A bank in numbers, for people who want to know what they have before they use it.

use crate::bank::Bank;
use crate::skill::{Skill, State, Tier, Version};
use crate::words::words;
use serde::Serialize;
use skill_core::{SkillPartId, estimate_tokens};
use std::collections::BTreeMap;

/// A bank in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct BankSummary {
    /// The skills that were ever proposed.
    pub skills: u64,
    /// The active skills whose worth was measured.
    pub measured: u64,
    /// The active skills whose worth was never measured.
    pub unmeasured: u64,
    /// The skills that a person keeps as they are.
    pub pinned: u64,
    /// The round of the last event.
    pub round: u32,
    /// Each tier that has skills: general, the types of task in alphabetical order, mistakes.
    pub tiers: Vec<TierSummary>,
    /// The active skill with the longest text.
    pub longest: Option<LongestSkill>,
    /// Skills that are not retired and have the same words in their titles, in the order of the bank.
    pub near_duplicates: Vec<Vec<SkillPartId>>,
    /// An estimate of the tokens that an agent would read if it were shown every active skill.
    pub tokens_if_all_shown: u64,
}

/// Episodes against the skills that were distilled from them, in estimated tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TokenCompression {
    /// Tokens of the teacher's input episodes.
    pub episode_tokens: u64,
    /// Tokens of the skills.
    pub skill_tokens: u64,
    /// The first divided by the second.
    pub ratio: f64,
}

impl TokenCompression {
    /// `None` if there are no skills, or no episodes are known.
    pub fn new<'skill>(
        episode_tokens: u64,
        skills: impl IntoIterator<Item = &'skill Version>,
    ) -> Option<Self> {
        let skill_tokens = skills.into_iter().map(|version| version.content.tokens()).sum();
        let ratio = episode_tokens as f64 / skill_tokens as f64;
        (episode_tokens > 0 && skill_tokens > 0).then_some(Self { episode_tokens, skill_tokens, ratio })
    }
}

/// A tier in numbers of skills, by their states.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TierSummary {
    /// The tier.
    pub tier: Tier,
    /// Proposed, and not measured yet or without a decision.
    pub candidate: u64,
    /// Being measured.
    pub trial: u64,
    /// Shown to agents.
    pub active: u64,
    /// Shown to nobody.
    pub retired: u64,
    /// The active ones whose worth was measured.
    pub measured: u64,
}

/// The longest skill of a bank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LongestSkill {
    /// The skill.
    pub id: SkillPartId,
    /// The bytes of its texts.
    pub bytes: u64,
    /// An estimate of their tokens.
    pub tokens: u64,
}

impl BankSummary {
    /// The numbers of a bank, in a time that grows with its size and no faster (but for sorting).
    pub fn of(bank: &Bank) -> Self {
        let mut summary =
            Self { round: bank.round(), near_duplicates: near_duplicates(bank), ..Self::default() };
        let mut tiers: BTreeMap<&Tier, TierSummary> = BTreeMap::new();
        for skill in bank.skills() {
            summary.skills += 1;
            summary.pinned += u64::from(skill.is_pinned);
            let tier = tiers.entry(&skill.tier).or_insert_with(|| TierSummary::empty(&skill.tier));
            tier.add(skill);
            summary.add_active(skill);
        }
        summary.measured = tiers.values().map(|tier| tier.measured).sum();
        summary.unmeasured = tiers.values().map(|tier| tier.active - tier.measured).sum();
        summary.tiers = tiers.into_values().collect();
        summary
    }

    fn add_active(&mut self, skill: &Skill) {
        let Some(version) = skill.active() else { return };
        let texts = version.content.texts();
        let bytes = texts.iter().map(|text| text.len() as u64).sum();
        let tokens = estimate_tokens(&texts.join("\n"));
        self.tokens_if_all_shown += tokens;
        if self.longest.as_ref().is_none_or(|longest| bytes > longest.bytes) {
            self.longest = Some(LongestSkill { id: skill.id.clone(), bytes, tokens });
        }
    }
}

impl TierSummary {
    fn empty(tier: &Tier) -> Self {
        Self { tier: tier.clone(), candidate: 0, trial: 0, active: 0, retired: 0, measured: 0 }
    }

    fn add(&mut self, skill: &Skill) {
        match skill.state() {
            State::Candidate => self.candidate += 1,
            State::Trial => self.trial += 1,
            State::Active => self.active += 1,
            State::Retired => self.retired += 1,
        }
        self.measured += u64::from(skill.active().is_some_and(|version| version.utility.is_some()));
    }

    /// All skills of the tier.
    pub fn skills(&self) -> u64 {
        self.candidate + self.trial + self.active + self.retired
    }
}

/// Groups of skills whose titles have the same words: case, order, punctuation and a plural's `s` do not count.
fn near_duplicates(bank: &Bank) -> Vec<Vec<SkillPartId>> {
    let mut groups: BTreeMap<Vec<String>, Vec<(usize, &SkillPartId)>> = BTreeMap::new();
    for (skill_idx, skill) in bank.skills().enumerate() {
        let Some(version) = skill.current().filter(|_| skill.state() != State::Retired) else { continue };
        let words = title_words(version.content.title());
        if !words.is_empty() {
            groups.entry(words).or_default().push((skill_idx, &skill.id));
        }
    }
    let mut groups: Vec<Vec<(usize, &SkillPartId)>> =
        groups.into_values().filter(|group| group.len() > 1).collect();
    groups.sort();
    groups.into_iter().map(|group| group.into_iter().map(|(_, id)| id.clone()).collect()).collect()
}

fn title_words(title: &str) -> Vec<String> {
    let mut words: Vec<String> = words(title)
        .map(|word| match word.strip_suffix('s') {
            Some(singular) if singular.chars().count() > 2 && !singular.ends_with('s') => singular.to_owned(),
            _ => word,
        })
        .collect();
    words.sort();
    words.dedup();
    words
}

//! The skills of a bank's run: versions, state, worth, evidence, and how often they were shown.

use super::MAX_TITLE_CHARACTERS;
use super::measured::{BankMeasurement, Evaluations};
use crate::data::ReportOptions;
use crate::data::conversation::clip;
use serde::Serialize;
use skill_bank::{
    Bank, BankEvent, Content, Evidence, Occasion, Skill, SkillProvenance, SkillRef, State, Tier, Utility,
    Version,
};
use skill_core::{RolloutResult, SkillPartId};
use skill_pipeline::records::bank::RoundRecord;
use std::collections::BTreeSet;

/// A skill with all of its versions.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BankSkill {
    /// Its id.
    pub id: SkillPartId,
    /// Its tier.
    pub tier: Tier,
    /// The same in words: `general`, a type of task, or `mistakes`.
    pub tier_name: String,
    /// What became of it.
    pub state: State,
    /// True if a person keeps it as it is.
    pub is_pinned: bool,
    /// The title of the current version.
    pub title: String,
    /// The number of the current version: the active one, else the newest.
    pub version: u32,
    /// The worth of the current version by its last measurement; `None` if it was never measured.
    pub utility: Option<Utility>,
    /// The occasion of that measurement.
    pub occasion: Option<Occasion>,
    /// Training rollouts of all finished rounds in which any of its versions was shown.
    pub shown_in_training: u64,
    /// Training rollouts of all finished rounds.
    pub training_rollouts: u64,
    /// Selection items that were shown it in the last validation, and all selection items; `None` before one.
    pub shown_in_validation: Option<[usize; 2]>,
    /// Test items that were shown it, and all test items; `None` where the test split was not measured.
    pub shown_in_test: Option<[usize; 2]>,
    /// What the standing check, which hides the skill in some training rollouts, has found.
    pub standing: Option<BankMeasurement>,
    /// The versions, newest first.
    pub versions: Vec<BankVersion>,
}

/// A version of a skill.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BankVersion {
    /// Its number, from 1.
    pub number: u32,
    /// What it says, each text with the name of its field; empty texts are left out.
    pub texts: Vec<(&'static str, String)>,
    /// What became of it.
    pub state: State,
    /// Who it comes from.
    pub source: SkillProvenance,
    /// The round in which it was proposed.
    pub round: u32,
    /// The versions that it was made from.
    pub parents: Vec<SkillRef>,
    /// The tasks, trajectories and calls that it was made from.
    pub evidence: Evidence,
    /// Its measurements in order, each with its round.
    pub measurements: Vec<(u32, Occasion, Option<BankMeasurement>)>,
}

/// The skills, in the order of the bank: the active ones first count for [`ReportOptions::max_skills`], then those that
/// wait.
pub(super) fn of(
    bank: &Bank,
    records: &[RoundRecord],
    evaluations: &Evaluations,
    options: &ReportOptions,
) -> Vec<BankSkill> {
    let mut chosen: Vec<&Skill> = bank.skills().collect();
    chosen.sort_by_key(|skill| match skill.state() {
        State::Active => 0,
        State::Candidate | State::Trial => 1,
        State::Retired => 2,
    });
    let chosen: BTreeSet<&SkillPartId> =
        chosen.into_iter().take(options.max_skills).map(|skill| &skill.id).collect();
    let training_rollouts =
        records.iter().flat_map(|record| &record.rates).map(|rate| rate.rollouts as u64).sum();
    let last = records.iter().rev().find_map(|record| record.validation.as_ref());
    bank.skills()
        .filter(|skill| chosen.contains(&skill.id))
        .map(|skill| {
            let is_it = |part: &SkillPartId| SkillRef::of_part(part).skill == skill.id;
            let shown_in_training = records
                .iter()
                .flat_map(|record| &record.shown)
                .filter(|(shown, _)| shown.skill == skill.id)
                .map(|(_, n)| n)
                .sum();
            let shown_in_validation = last.map(|last| {
                let shows =
                    |shown: &&Vec<String>| shown.iter().any(|part| is_it(&SkillPartId::new(part.as_str())));
                [last.shown.values().filter(shows).count(), last.n]
            });
            let shown_in_test = evaluations.test.as_ref().map(|[_, after]| {
                let shows = |result: &&RolloutResult| result.trajectory.shown_parts.iter().any(is_it);
                [after.iter().filter(shows).count(), after.len()]
            });
            let current = skill.current();
            let versions: Vec<BankVersion> = skill
                .versions
                .iter()
                .rev()
                .map(|version| version_of(bank, skill, version, options))
                .collect();
            let number = current.map_or(0, |version| version.number);
            let standing = records
                .iter()
                .rev()
                .find_map(|record| record.standing.get(&SkillRef::new(skill.id.clone(), number).to_string()));
            let occasion = versions
                .iter()
                .find(|version| version.number == number)
                .and_then(|version| version.measurements.iter().rev().find(|(_, _, of)| of.is_some()))
                .map(|(_, occasion, _)| *occasion);
            BankSkill {
                id: skill.id.clone(),
                tier: skill.tier.clone(),
                tier_name: skill.tier.to_string(),
                state: skill.state(),
                is_pinned: skill.is_pinned,
                title: current
                    .map(|version| clip(version.content.title(), MAX_TITLE_CHARACTERS))
                    .unwrap_or_default(),
                version: number,
                utility: current.and_then(|version| version.utility),
                occasion,
                shown_in_training,
                training_rollouts,
                shown_in_validation,
                shown_in_test,
                standing: standing.map(BankMeasurement::from),
                versions,
            }
        })
        .collect()
}

fn version_of(bank: &Bank, skill: &Skill, version: &Version, options: &ReportOptions) -> BankVersion {
    let named = SkillRef::new(skill.id.clone(), version.number);
    let measurements = bank.log().iter().filter_map(|record| match &record.event {
        BankEvent::Measured { skill, occasion, utility, e_better, e_worse, p_better, .. }
            if *skill == named =>
        {
            let measured = utility.as_ref().map(|utility| BankMeasurement {
                e_better: *e_better,
                e_worse: *e_worse,
                p_better: *p_better,
                ..BankMeasurement::from(utility)
            });
            Some((record.round, *occasion, measured))
        }
        _ => None,
    });
    let names = match version.content {
        Content::Principle { .. } => ["title", "principle", "when to apply"],
        Content::Mistake { .. } => ["what goes wrong", "why", "instead"],
        Content::Episode { .. } => ["task", "outcome", "steps"],
    };
    let texts = names.into_iter().zip(version.content.texts()).filter(|(_, text)| !text.is_empty());
    BankVersion {
        number: version.number,
        texts: texts.map(|(name, text)| (name, clip(text, options.max_skill_characters))).collect(),
        state: version.state,
        source: version.source,
        round: version.round,
        parents: version.parents.clone(),
        evidence: version.evidence.clone(),
        measurements: measurements.collect(),
    }
}

//! The bank: the events so far, and the state that they add up to.
//!
//! # Invariants
//!
//! - No process retires, revises or merges a skill that a person has pinned. Held by
//!   `no_process_changes_what_a_person_pinned`.

use crate::error::BankError;
use crate::event::{Author, BankEvent, Basis, Reason, Record, TrialVerdict};
use crate::log::{LogChain, check_header, log_header, log_line, read_line};
use crate::skill::{Skill, SkillRef, State, Tier, Version, ViewedSkill};
use crate::view::BankView;
use indexmap::IndexMap;
use skill_core::SkillPartId;
use std::collections::BTreeMap;

/// A skill bank: an event log, and the state computed from it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bank {
    log: Vec<Record>,
    skills: IndexMap<SkillPartId, Skill>,
    /// The highest number of each prefix that an id of the bank ever had.
    numbers: BTreeMap<String, u32>,
}

/// A bank that was read from its log.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ReadLog {
    /// The bank.
    pub bank: Bank,
    /// The hash of the log, for the next event.
    pub chain: LogChain,
    /// Events at the end of the log that no hash covers: a change of these is not noticed.
    pub n_unchained: usize,
}

impl Bank {
    /// An empty bank.
    pub fn new() -> Self {
        Self::default()
    }

    /// The bank of a log, see [`read_log`](Self::read_log).
    ///
    /// # Errors
    ///
    /// As [`read_log`](Self::read_log).
    pub fn from_log(text: &str) -> Result<Self, BankError> {
        Ok(Self::read_log(text)?.bank)
    }

    /// Reads a log with hashes, as [`chained_log_text`](Self::chained_log_text) writes it, or one without, as
    /// [`log_text`](Self::log_text) and earlier versions do.
    ///
    /// # Errors
    ///
    /// A log of another format or a later version, and the first line that cannot be read, was changed, has an event or a
    /// field that is not known, or does not follow from those before it.
    pub fn read_log(text: &str) -> Result<ReadLog, BankError> {
        let mut lines = text.lines();
        let header = lines.next().unwrap_or_default();
        check_header(header)?;
        let (mut bank, mut chain, mut n_unchained) = (Self::new(), LogChain::of_header(header), 0);
        for (line, text) in (2..).zip(lines) {
            let bad = |message: String| BankError::BadLog { line, message };
            let (plain, is_chained) = chain.follow(text).map_err(&bad)?;
            let record = read_line(&plain).map_err(&bad)?;
            if !is_chained && n_unchained < bank.log.len() {
                return Err(bad("its hash, `chain`, is missing".to_owned()));
            }
            n_unchained = if is_chained { 0 } else { n_unchained + 1 };
            let expected = bank.next_number();
            if record.n != expected {
                return Err(bad(format!("event {} where event {expected} was expected", record.n)));
            }
            bank.record(record.round, record.by, record.event).map_err(|error| bad(error.to_string()))?;
        }
        Ok(ReadLog { bank, chain, n_unchained })
    }

    /// The log as it is in a file, with the hash of each line, and the hash of all of it.
    pub fn chained_log_text(&self) -> (String, LogChain) {
        let mut text = log_header();
        let mut chain = LogChain::of_header(text.trim_end());
        for record in &self.log {
            text.push_str(&chain.line(record));
        }
        (text, chain)
    }

    /// The log as lines of JSON without their hashes: a header, then one line for each event. It names the bank, so it is
    /// what identities are made of; files hold [`chained_log_text`](Self::chained_log_text).
    pub fn log_text(&self) -> String {
        let mut text = log_header();
        for record in &self.log {
            text.push_str(&log_line(record));
        }
        text
    }

    /// The events so far.
    pub fn log(&self) -> &[Record] {
        &self.log
    }

    /// All skills that were ever proposed, in the order in which they were.
    pub fn skills(&self) -> impl ExactSizeIterator<Item = &Skill> {
        self.skills.values()
    }

    /// How many episodes and how many skills it has, whatever became of them.
    pub fn contents(&self) -> (usize, usize) {
        let is_episode = |skill: &&Skill| skill.latest().is_some_and(|version| version.content.is_episode());
        let n_episodes = self.skills().filter(is_episode).count();
        (n_episodes, self.skills.len() - n_episodes)
    }

    /// A skill by its id.
    pub fn skill(&self, id: &SkillPartId) -> Option<&Skill> {
        self.skills.get(id)
    }

    /// A version of a skill.
    pub fn version(&self, skill: &SkillRef) -> Option<&Version> {
        self.skills.get(&skill.skill)?.version(skill.version)
    }

    /// The round of the last event; 0 before the first round.
    pub fn round(&self) -> u32 {
        self.log.last().map_or(0, |record| record.round)
    }

    /// The first version of a new skill of this tier, under an id that was never used.
    pub fn next_skill(&self, tier: &Tier) -> SkillRef {
        let prefix = tier.id_prefix();
        let number = self.numbers.get(&prefix).copied().unwrap_or(0).saturating_add(1);
        SkillRef::new(SkillPartId::new(format!("{prefix}_{number:03}")), 1)
    }

    /// The version of a skill that comes after its newest one.
    ///
    /// # Errors
    ///
    /// [`BankError::UnknownSkill`].
    pub fn next_version(&self, id: &SkillPartId) -> Result<SkillRef, BankError> {
        let skill = self.skills.get(id).ok_or_else(|| BankError::UnknownSkill { id: id.clone() })?;
        Ok(SkillRef::new(id.clone(), skill.latest().map_or(0, |version| version.number).saturating_add(1)))
    }

    /// The versions that wait for a trial, in the order of the bank.
    pub fn candidates(&self) -> impl Iterator<Item = SkillRef> {
        self.skills.values().flat_map(|skill| {
            let waiting = skill.versions.iter().filter(|version| version.state == State::Candidate);
            waiting.map(|version| SkillRef::new(skill.id.clone(), version.number))
        })
    }

    /// What agents are shown: the active version of each skill.
    pub fn view(&self) -> BankView {
        let viewed = |skill: &Skill| Some(viewed(skill, skill.active()?));
        BankView::new(self.skills.values().filter_map(viewed).collect())
    }

    /// A version as a trial shows it, whatever its state.
    pub fn viewed(&self, skill: &SkillRef) -> Option<ViewedSkill> {
        let owner = self.skills.get(&skill.skill)?;
        Some(viewed(owner, owner.version(skill.version)?))
    }

    /// The active versions whose place this version would take: those that it was made from.
    pub fn replaced_by(&self, skill: &SkillRef) -> Vec<SkillRef> {
        let Some(version) = self.version(skill) else { return Vec::new() };
        let of_itself = self.skills.get(&skill.skill).and_then(Skill::active);
        let of_itself = of_itself.map(|active| SkillRef::new(skill.skill.clone(), active.number));
        let of_parents = version.parents.iter().filter(|parent| parent.skill != skill.skill);
        let active_parents = of_parents.filter_map(|parent| {
            let active = self.skills.get(&parent.skill)?.active()?;
            Some(SkillRef::new(parent.skill.clone(), active.number))
        });
        of_itself.into_iter().chain(active_parents).filter(|replaced| replaced != skill).collect()
    }

    /// Adds an event, and returns its record.
    ///
    /// # Errors
    ///
    /// An event that does not follow from the state; nothing has changed then.
    pub fn record(&mut self, round: u32, by: Author, event: BankEvent) -> Result<&Record, BankError> {
        self.apply(round, by, &event)?;
        let n = self.next_number();
        self.log.push(Record { n, round, by, event });
        // The element was pushed just now.
        self.log.last().ok_or(BankError::BadLog { line: n, message: "the log is empty".to_owned() })
    }

    fn next_number(&self) -> u64 {
        u64::try_from(self.log.len()).unwrap_or(u64::MAX).saturating_add(1)
    }

    fn apply(&mut self, round: u32, by: Author, event: &BankEvent) -> Result<(), BankError> {
        match event {
            BankEvent::Imported { .. } => Ok(()),
            BankEvent::Proposed { skill, tier, content, source, parents, evidence } => {
                let version = Version {
                    number: skill.version,
                    content: content.clone(),
                    state: State::Candidate,
                    source: *source,
                    parents: parents.clone(),
                    evidence: evidence.clone(),
                    round,
                    utility: None,
                };
                self.propose(skill, tier, version)
            }
            // A skill whose retirement is tried stays active meanwhile.
            BankEvent::TrialOpened { skill, .. } if self.version_mut(skill)?.state == State::Active => Ok(()),
            BankEvent::TrialOpened { skill, .. } => {
                self.set_state(skill, &[State::Candidate, State::Trial], State::Trial, "tried")
            }
            BankEvent::Measured { skill, utility, verdict, .. } => {
                let version = self.version_mut(skill)?;
                if utility.is_some() {
                    version.utility = *utility;
                }
                if *verdict == Some(TrialVerdict::Undecided) && version.state == State::Trial {
                    version.state = State::Candidate;
                }
                Ok(())
            }
            BankEvent::Admitted { skill, basis } => {
                self.check_admission(skill, *basis)?;
                if let Some(active) = self.skills.get(&skill.skill).and_then(Skill::active) {
                    let skill = SkillRef::new(skill.skill.clone(), active.number);
                    return Err(BankError::WrongState {
                        skill,
                        state: State::Active,
                        action: "admitted again",
                    });
                }
                self.set_state(skill, &[State::Candidate, State::Trial], State::Active, "admitted")
            }
            BankEvent::Revised { skill, from, basis } => {
                self.check_admission(skill, *basis)?;
                self.check_not_pinned(&skill.skill, by, "revised")?;
                let earlier = SkillRef::new(skill.skill.clone(), *from);
                self.check_state(
                    skill,
                    &[State::Candidate, State::Trial],
                    "put in place of another version",
                )?;
                self.set_state(&earlier, &[State::Active], State::Retired, "revised")?;
                self.set_state(skill, &[State::Candidate, State::Trial], State::Active, "admitted")
            }
            BankEvent::Merged { skill, from, basis } => {
                self.check_admission(skill, *basis)?;
                self.check_state(skill, &[State::Candidate, State::Trial], "put in place of other skills")?;
                let mut replaced = Vec::with_capacity(from.len());
                for id in from {
                    self.check_not_pinned(id, by, "merged")?;
                    let owner =
                        self.skills.get(id).ok_or_else(|| BankError::UnknownSkill { id: id.clone() })?;
                    let active = owner.active().ok_or_else(|| BankError::WrongState {
                        skill: SkillRef::new(id.clone(), owner.latest().map_or(1, |version| version.number)),
                        state: owner.state(),
                        action: "merged",
                    })?;
                    let active = SkillRef::new(id.clone(), active.number);
                    if !replaced.contains(&active) {
                        replaced.push(active);
                    }
                }
                for earlier in &replaced {
                    self.set_state(earlier, &[State::Active], State::Retired, "merged")?;
                }
                self.set_state(skill, &[State::Candidate, State::Trial], State::Active, "admitted")
            }
            BankEvent::Pinned { skill } => self.set_pinned(skill, true),
            BankEvent::Unpinned { skill } => self.set_pinned(skill, false),
            BankEvent::Retired { skill, reason } => {
                // What a trial rejects may be a candidate beside the version that a person keeps.
                if *reason != Reason::Trial || self.version_mut(skill)?.state == State::Active {
                    self.check_not_pinned(&skill.skill, by, "retired")?;
                }
                self.set_state(
                    skill,
                    &[State::Candidate, State::Trial, State::Active],
                    State::Retired,
                    "retired",
                )
            }
            BankEvent::Restored { skill } => {
                if let Some(active) = self.skills.get(&skill.skill).and_then(Skill::active) {
                    let other = SkillRef::new(skill.skill.clone(), active.number);
                    self.check_not_pinned(&skill.skill, by, "replaced by an earlier version")?;
                    self.check_state(skill, &[State::Retired], "restored")?;
                    self.set_state(&other, &[State::Active], State::Retired, "retired")?;
                }
                self.set_state(skill, &[State::Retired], State::Active, "restored")
            }
        }
    }

    fn propose(&mut self, skill: &SkillRef, tier: &Tier, version: Version) -> Result<(), BankError> {
        let taken = || BankError::IdTaken { skill: skill.clone() };
        match self.skills.get_mut(&skill.skill) {
            None if skill.version == 1 => {
                self.note_number(&skill.skill);
                let new = Skill {
                    id: skill.skill.clone(),
                    tier: tier.clone(),
                    is_pinned: false,
                    versions: vec![version],
                };
                self.skills.insert(skill.skill.clone(), new);
                Ok(())
            }
            None => Err(BankError::UnknownVersion { skill: skill.clone() }),
            Some(owner) => {
                let newest = owner.latest().map_or(0, |version| version.number);
                if skill.version <= newest {
                    return Err(taken());
                }
                if skill.version != newest + 1 || owner.tier != *tier {
                    return Err(BankError::UnknownVersion { skill: skill.clone() });
                }
                owner.versions.push(version);
                Ok(())
            }
        }
    }

    /// Remembers the number of an id of the form `prefix_number`.
    fn note_number(&mut self, id: &SkillPartId) {
        if let Some((prefix, number)) = id.as_str().rsplit_once('_')
            && let Ok(number) = number.parse::<u32>()
        {
            let highest = self.numbers.entry(prefix.to_owned()).or_default();
            *highest = (*highest).max(number);
        }
    }

    fn version_mut(&mut self, skill: &SkillRef) -> Result<&mut Version, BankError> {
        let owner = self
            .skills
            .get_mut(&skill.skill)
            .ok_or_else(|| BankError::UnknownSkill { id: skill.skill.clone() })?;
        owner.version_mut(skill.version).ok_or_else(|| BankError::UnknownVersion { skill: skill.clone() })
    }

    fn check_state(
        &self,
        skill: &SkillRef,
        expected: &[State],
        action: &'static str,
    ) -> Result<(), BankError> {
        let owner = self
            .skills
            .get(&skill.skill)
            .ok_or_else(|| BankError::UnknownSkill { id: skill.skill.clone() })?;
        let version =
            owner.version(skill.version).ok_or_else(|| BankError::UnknownVersion { skill: skill.clone() })?;
        if expected.contains(&version.state) {
            Ok(())
        } else {
            Err(BankError::WrongState { skill: skill.clone(), state: version.state, action })
        }
    }

    fn set_state(
        &mut self,
        skill: &SkillRef,
        expected: &[State],
        state: State,
        action: &'static str,
    ) -> Result<(), BankError> {
        self.check_state(skill, expected, action)?;
        self.version_mut(skill)?.state = state;
        Ok(())
    }

    fn set_pinned(&mut self, id: &SkillPartId, is_pinned: bool) -> Result<(), BankError> {
        let owner = self.skills.get_mut(id).ok_or_else(|| BankError::UnknownSkill { id: id.clone() })?;
        owner.is_pinned = is_pinned;
        Ok(())
    }

    fn check_not_pinned(&self, id: &SkillPartId, by: Author, action: &'static str) -> Result<(), BankError> {
        match self.skills.get(id) {
            Some(owner) if owner.is_pinned && by == Author::Process => {
                Err(BankError::Pinned { id: id.clone(), action })
            }
            _ => Ok(()),
        }
    }

    /// A version that a trial admits has been in one.
    fn check_admission(&self, skill: &SkillRef, basis: Basis) -> Result<(), BankError> {
        match basis {
            Basis::Trial => self.check_state(skill, &[State::Trial], "admitted without a trial"),
            Basis::Unmeasured | Basis::Person => Ok(()),
        }
    }
}

fn viewed(skill: &Skill, version: &Version) -> ViewedSkill {
    ViewedSkill {
        id: SkillRef::new(skill.id.clone(), version.number),
        tier: skill.tier.clone(),
        content: version.content.clone(),
        utility: version.utility,
    }
}

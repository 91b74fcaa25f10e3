//! What a teacher proposes, and how it gets into a bank.

use crate::bank::Bank;
use crate::error::BankError;
use crate::event::{Author, BankEvent, Basis, Reason};
use crate::lint::LintFinding;
use crate::skill::{Content, Evidence, SkillProvenance, SkillRef, State, Tier};
use crate::words::words;
use serde::{Deserialize, Serialize};
use skill_core::SkillPartId;
use std::collections::BTreeSet;
use std::fmt;
use thiserror::Error;

/// A change of a bank that a teacher proposes. Ids of new skills are not a part of it: the bank gives them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Proposal {
    /// The change.
    pub change: Change,
    /// Who it comes from.
    pub source: SkillProvenance,
    /// What it was made from.
    pub evidence: Evidence,
}

impl Proposal {
    /// A proposal of this change.
    pub fn new(change: Change, source: SkillProvenance, evidence: Evidence) -> Self {
        Self { change, source, evidence }
    }
}

/// A change of a bank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Change {
    /// A new skill.
    Add {
        /// Its tier.
        tier: Tier,
        /// What it says.
        content: Content,
    },
    /// A new version of a skill.
    Revise {
        /// The skill.
        of: SkillPartId,
        /// What it says then.
        content: Content,
    },
    /// One skill in the place of several.
    Merge {
        /// The skills that it replaces, at least two.
        from: Vec<SkillPartId>,
        /// Its tier.
        tier: Tier,
        /// What it says.
        content: Content,
    },
    /// Stop showing a skill.
    Retire {
        /// The skill.
        of: SkillPartId,
    },
}

impl Change {
    /// The text that would be shown; `None` for a retirement.
    pub fn content(&self) -> Option<&Content> {
        match self {
            Self::Add { content, .. } | Self::Revise { content, .. } | Self::Merge { content, .. } => {
                Some(content)
            }
            Self::Retire { .. } => None,
        }
    }
}

/// A skill of a reply that is not proposed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// The tier that it was meant for.
    pub tier: Tier,
    /// Its title, or the beginning of what the teacher wrote.
    pub name: String,
    /// The reason.
    pub reason: LeftOutReason,
}

impl LeftOut {
    pub(crate) fn new(tier: &Tier, name: impl Into<String>, reason: LeftOutReason) -> Self {
        Self { tier: tier.clone(), name: name.into(), reason }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`: {}", self.tier, self.name, self.reason)
    }
}

/// Why a skill of a reply is not proposed, or not applied.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LeftOutReason {
    /// The element of the list is not an object.
    #[error("not an object")]
    NotAnObject,
    /// A field is missing or empty.
    #[error("`{field}` is missing or empty")]
    MissingField {
        /// The field.
        field: &'static str,
    },
    /// A field has another kind than text.
    #[error("`{field}` is not text")]
    NotText {
        /// The field.
        field: &'static str,
    },
    /// The reply has more skills than were requested.
    #[error("more than {limit} were proposed")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// Another skill says the same.
    #[error("a duplicate of `{of}`")]
    Duplicate {
        /// The title or the id of the other one.
        of: String,
    },
    /// The skill must not get into a bank.
    #[error("refused: {}", findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Refused {
        /// The reasons.
        findings: Vec<LintFinding>,
    },
    /// It changes a skill that the bank does not have or no longer shows.
    #[error("the bank has no skill `{id}` that could be changed")]
    UnknownSkill {
        /// The id.
        id: String,
    },
    /// It changes a skill of a tier that this round is not about.
    #[error("`{id}` is not in a tier of this round")]
    OtherTier {
        /// The id.
        id: String,
    },
    /// It changes what a person has pinned.
    #[error("`{id}` is pinned by a person")]
    Pinned {
        /// The id.
        id: SkillPartId,
    },
    /// It does not name one of the weak types, and there are several.
    #[error("it names none of the weak types")]
    NoType,
    /// The operation is not known.
    #[error("the operation `{op}` is not known")]
    UnknownOperation {
        /// The operation.
        op: String,
    },
}

/// How proposals enter a bank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Admit {
    /// As candidates, which a trial has to admit.
    Candidate,
    /// At once and without a measurement, as the paper does.
    Unmeasured,
}

/// What applying proposals did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Applied {
    /// The versions that were proposed, in order.
    pub proposed: Vec<SkillRef>,
    /// The versions whose retirement was proposed; retired already with [`Admit::Unmeasured`].
    pub retirements: Vec<SkillRef>,
    /// The proposals that were not applied.
    pub left_out: Vec<LeftOut>,
}

/// Applies all proposals to a bank, or, after an error, none of them.
///
/// A new skill whose title a skill of its tier has already, retired ones excepted, is left out and reported. A revision
/// or a merger has the tasks and trajectories of its parents among its evidence: what a parent says can be in its text,
/// so no trial of it may use these tasks.
///
/// # Errors
///
/// An event that the bank refuses.
pub fn apply(
    bank: &mut Bank,
    round: u32,
    proposals: &[Proposal],
    admit: Admit,
) -> Result<Applied, BankError> {
    let mut changed = bank.clone();
    let mut applied = Applied::default();
    for proposal in proposals {
        apply_one(&mut changed, round, proposal, admit, &mut applied)?;
    }
    *bank = changed;
    Ok(applied)
}

fn apply_one(
    bank: &mut Bank,
    round: u32,
    proposal: &Proposal,
    admit: Admit,
    applied: &mut Applied,
) -> Result<(), BankError> {
    let (skill, tier, parents) = match &proposal.change {
        Change::Add { tier, content } => {
            // Several attempts at one task are several episodes.
            if !content.is_episode()
                && let Some(same) = same_title(bank, tier, content)
            {
                let reason = LeftOutReason::Duplicate { of: same.to_string() };
                applied.left_out.push(LeftOut::new(tier, content.title(), reason));
                return Ok(());
            }
            (bank.next_skill(tier), tier.clone(), Vec::new())
        }
        Change::Revise { of, content } => {
            let (tier, parent) = match changeable(bank, of) {
                Ok(found) => found,
                Err(reason) => return leave_out(bank, applied, of, content.title(), reason),
            };
            (bank.next_version(of)?, tier, vec![parent])
        }
        Change::Merge { from, tier, content } => {
            let mut parents = Vec::with_capacity(from.len());
            for id in from {
                match changeable(bank, id) {
                    Ok((_, parent)) => parents.push(parent),
                    Err(reason) => return leave_out(bank, applied, id, content.title(), reason),
                }
            }
            (bank.next_skill(tier), tier.clone(), parents)
        }
        Change::Retire { of } => {
            let (_, skill) = match changeable(bank, of) {
                Ok(found) => found,
                Err(reason) => return leave_out(bank, applied, of, of.as_str(), reason),
            };
            if admit == Admit::Unmeasured {
                let event = BankEvent::Retired { skill: skill.clone(), reason: Reason::Proposed };
                bank.record(round, Author::Process, event)?;
            }
            applied.retirements.push(skill);
            return Ok(());
        }
    };
    let Some(content) = proposal.change.content() else { return Ok(()) };
    let of_parents = parents.iter().filter_map(|parent| Some(&bank.version(parent)?.evidence));
    let evidence = with_tasks_of(&proposal.evidence, of_parents);
    let event = BankEvent::Proposed {
        skill: skill.clone(),
        tier,
        content: content.clone(),
        source: proposal.source,
        parents: parents.clone(),
        evidence,
    };
    bank.record(round, Author::Process, event)?;
    if admit == Admit::Unmeasured {
        let event = admission(bank, &skill, &parents);
        bank.record(round, Author::Process, event)?;
    }
    applied.proposed.push(skill);
    Ok(())
}

/// The event by which a version becomes active unmeasured.
fn admission(bank: &Bank, skill: &SkillRef, parents: &[SkillRef]) -> BankEvent {
    let basis = Basis::Unmeasured;
    let active_of = |id: &SkillPartId| Some(bank.skill(id)?.active()?.number);
    if let Some(from) = active_of(&skill.skill) {
        return BankEvent::Revised { skill: skill.clone(), from, basis };
    }
    let others = parents.iter().filter(|parent| parent.skill != skill.skill);
    let from: Vec<SkillPartId> = others
        .filter(|parent| active_of(&parent.skill).is_some())
        .map(|parent| parent.skill.clone())
        .collect();
    if from.is_empty() {
        BankEvent::Admitted { skill: skill.clone(), basis }
    } else {
        BankEvent::Merged { skill: skill.clone(), from, basis }
    }
}

fn leave_out(
    bank: &Bank,
    applied: &mut Applied,
    id: &SkillPartId,
    name: &str,
    reason: LeftOutReason,
) -> Result<(), BankError> {
    let tier = bank.skill(id).map_or(Tier::General, |skill| skill.tier.clone());
    applied.left_out.push(LeftOut::new(&tier, name, reason));
    Ok(())
}

/// The tier and the version of a skill that a process may change: the active one, else the newest that is not retired.
pub(crate) fn changeable(bank: &Bank, id: &SkillPartId) -> Result<(Tier, SkillRef), LeftOutReason> {
    let unknown = || LeftOutReason::UnknownSkill { id: id.to_string() };
    let skill = bank.skill(id).ok_or_else(unknown)?;
    if skill.is_pinned {
        return Err(LeftOutReason::Pinned { id: id.clone() });
    }
    let newest = || skill.latest().filter(|version| version.state != State::Retired);
    let version = skill.active().or_else(newest).ok_or_else(unknown)?;
    Ok((skill.tier.clone(), SkillRef::new(id.clone(), version.number)))
}

/// The skill of this tier, not retired, one of whose versions has this title.
fn same_title(bank: &Bank, tier: &Tier, content: &Content) -> Option<SkillPartId> {
    let title = normalised(content.title());
    let in_use = bank.skills().filter(|skill| skill.tier == *tier && skill.state() != State::Retired);
    let mut same = in_use.filter(|skill| {
        let mut versions = skill.versions.iter().filter(|version| version.state != State::Retired);
        versions.any(|version| normalised(version.content.title()) == title)
    });
    same.next().map(|skill| skill.id.clone())
}

/// A title as duplicates are told by it: words in lower case, without punctuation.
pub fn normalised(title: &str) -> String {
    words(title).collect::<Vec<_>>().join(" ")
}

/// This evidence with the tasks and trajectories of others. The prompt, the teacher, calls and tokens stay its own.
fn with_tasks_of<'a>(own: &'a Evidence, others: impl IntoIterator<Item = &'a Evidence>) -> Evidence {
    let Evidence { items, trajectories, .. } = joined(std::iter::once(own).chain(others));
    Evidence { items, trajectories, ..own.clone() }
}

/// Evidence of several replies as one: every task and every trajectory of each, in order and once.
///
/// Several skills of one reply have the hash of its prompt; its calls and tokens count once.
pub(crate) fn joined<'a>(parts: impl IntoIterator<Item = &'a Evidence>) -> Evidence {
    let mut joined = Evidence::default();
    let mut counted: BTreeSet<Option<&str>> = BTreeSet::new();
    let (mut items, mut trajectories) = (BTreeSet::new(), BTreeSet::new());
    for part in parts {
        joined.items.extend(part.items.iter().filter(|item| items.insert(*item)).cloned());
        let new = part.trajectories.iter().filter(|trajectory| trajectories.insert(trajectory.as_str()));
        joined.trajectories.extend(new.cloned());
        joined.teacher.clone_from(&part.teacher);
        if counted.insert(part.prompt_sha256.as_deref()) {
            joined.calls = joined.calls.saturating_add(part.calls);
            joined.usage += part.usage;
        }
    }
    joined
}

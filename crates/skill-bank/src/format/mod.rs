//! Files of banks: those of the SkillRL paper, of krill, and our own.
//!
//! Files of other systems are read into a bank whose skills are active and unmeasured. A bank that has not changed since
//! is written byte for byte as it was read; one that has changed keeps what the file held besides skills, the order and
//! the layout. What these formats have no place for (states, versions, measurements) is in the bank's log.
//!
//! # Invariants
//!
//! - The time to read a bank grows linearly with its size: 10,000 skills in 100 ms, measured by
//!   `benches/format.rs`. Held by `ten_thousand_skills_without_ids_are_numbered_in_a_moment`.
//! - A bank's file of another system is written byte for byte as it was read, until the bank changes. Held by
//!   `an_unchanged_bank_is_written_byte_for_byte`, `conformance_with_recorded_banks`.

mod agent_skills;
mod document;
mod krill;
mod paper;
mod style;

pub use agent_skills::{AgentSkill, agent_skills};

use crate::bank::{Bank, ReadLog};
use crate::distill::Admit;
use crate::error::BankError;
use crate::event::{Author, BankEvent, Basis};
use crate::lint::{LintFinding, lint_text};
use crate::skill::{Content, Evidence, SkillProvenance, SkillRef, Tier};
use document::Entry;
use serde_json::Value;
use skill_core::canonical::hex_sha256;
use skill_core::{SkillPartId, python_json};
use std::collections::BTreeMap;

skill_core::named_enum! {
    /// The format of a bank's file.
    pub enum BankFormat {
        /// The JSON of the SkillRL paper's banks.
        Paper = "skillrl",
        /// The JSON of krill's banks.
        Krill = "krill",
        /// The log of a bank of this program.
        Log = "log",
    }
}

/// So many ids are named in a note.
const MAX_NAMED: usize = 8;

/// The longest text of a skill that is read without a note, in bytes.
const LONG_SKILL_BYTES: usize = 4_096;

/// A bank that was read, and what is worth knowing about it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ReadBank {
    /// The bank.
    pub bank: Bank,
    /// The format of the text.
    pub format: BankFormat,
    /// What a person should know.
    pub notes: Vec<Note>,
}

/// Something about a bank's file that a person should know.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// Skills had no id and got one.
    IdsGiven {
        /// The ids.
        ids: Vec<SkillPartId>,
    },
    /// A skill is so long that agents are shown only its beginning.
    LongSkill {
        /// The skill.
        id: SkillPartId,
        /// Its texts, in bytes.
        bytes: usize,
    },
    /// A skill holds a secret, or gives orders against the task or the user: a teacher's would be refused for it.
    Suspicious {
        /// The skill.
        id: SkillPartId,
        /// What was found.
        finding: LintFinding,
    },
    /// A tier has no skills.
    EmptyTier {
        /// The tier.
        tier: Tier,
    },
    /// The log ends within a line: a process was stopped while it wrote that, and the event did not happen.
    CutLog {
        /// The bytes of the line.
        bytes: usize,
    },
    /// The log has no hashes, as earlier versions wrote it: a changed line is not noticed.
    UnchainedLog {
        /// Its events.
        events: usize,
    },
}

impl Note {
    /// True if it is about the file of the log, and not about a skill.
    pub fn is_of_log(&self) -> bool {
        match self {
            Self::CutLog { .. } | Self::UnchainedLog { .. } => true,
            Self::IdsGiven { .. }
            | Self::LongSkill { .. }
            | Self::Suspicious { .. }
            | Self::EmptyTier { .. } => false,
        }
    }
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::IdsGiven { ids } => {
                let ids: Vec<&str> = ids.iter().map(SkillPartId::as_str).collect();
                let noun = if ids.len() == 1 { "skill" } else { "skills" };
                let named: Vec<&str> = ids.iter().copied().take(MAX_NAMED).collect();
                let more = ids.len().saturating_sub(MAX_NAMED);
                let more = if more == 0 { String::new() } else { format!(" and {more} more") };
                write!(f, "{} {noun} had no id and got one: {}{more}", ids.len(), named.join(", "))
            }
            Self::LongSkill { id, bytes } => {
                write!(f, "`{id}` has {bytes} bytes of text; agents are shown its beginning")
            }
            Self::Suspicious { id, finding } => {
                write!(
                    f,
                    "`{id}` would be refused if a teacher proposed it: {finding}; read it before agents see it"
                )
            }
            Self::UnchainedLog { events } => {
                write!(
                    f,
                    "the log's {events} events have no hashes, so a changed line is not noticed; the next event adds one \
                     for all of them"
                )
            }
            Self::EmptyTier { tier } => write!(f, "the tier `{tier}` has no skills"),
            Self::CutLog { bytes } => {
                write!(
                    f,
                    "the log ends within a line, whose {bytes} bytes are left out; the events before it are whole"
                )
            }
        }
    }
}

/// The keys that only banks have.
const KEYS: [&str; 4] =
    ["\"general_skills\"", "\"task_specific_skills\"", "\"query_type_skills\"", "\"common_mistakes\""];

/// Whether a text was meant to be a bank, readable or not: what is wrong with others is not that they are bad banks.
pub fn is_meant_as_bank(text: &str) -> bool {
    let text = text.trim_start();
    if text.lines().next().is_some_and(is_log_header) {
        return true;
    }
    text.starts_with(['{', '[']) && KEYS.iter().any(|key| text.contains(key))
        || text.starts_with('{') && text.contains("\"principle\"")
}

fn is_log_header(line: &str) -> bool {
    line.contains("\"skillrl-bank\"")
}

/// Reads a bank of any format; skills of another system's bank are active and not measured, as they are there.
///
/// # Errors
///
/// A text that is not JSON or not a bank, a skill that cannot be used, two skills with one id.
pub fn read(text: &str) -> Result<ReadBank, BankError> {
    read_as(text, Admit::Unmeasured)
}

/// Reads a bank of any format; skills of another system's bank enter as said, those of a log as the log says.
///
/// # Errors
///
/// As [`read`].
pub fn read_as(text: &str, admit: Admit) -> Result<ReadBank, BankError> {
    let first_line = text.lines().next().unwrap_or_default();
    if is_log_header(first_line) {
        let ReadLog { bank, n_unchained, .. } = Bank::read_log(text)?;
        let notes = (n_unchained > 0).then_some(Note::UnchainedLog { events: n_unchained });
        return Ok(ReadBank { bank, format: BankFormat::Log, notes: notes.into_iter().collect() });
    }
    let (format, entries) = entries(&parse(text)?)?;
    let mut bank = Bank::new();
    let imported =
        BankEvent::Imported { format: format.as_str().to_owned(), sha256: hex_sha256(text.as_bytes()) };
    bank.record(0, Author::Process, imported)?;
    let mut notes = Vec::new();
    let given: Vec<SkillPartId> =
        entries.iter().filter(|entry| entry.is_id_given).map(|entry| entry.id.clone()).collect();
    if !given.is_empty() {
        notes.push(Note::IdsGiven { ids: given });
    }
    let can_be_empty = |tier: &Tier| format == BankFormat::Krill && *tier == Tier::Mistakes;
    let is_empty = |tier: &Tier| entries.iter().all(|entry| entry.tier != *tier);
    let empty: Vec<Tier> = [Tier::General, Tier::Mistakes]
        .into_iter()
        .filter(|tier| !can_be_empty(tier) && is_empty(tier))
        .collect();
    for Entry { id, tier, content, .. } in entries {
        let bytes = content.texts().iter().map(|text| text.len()).sum();
        if bytes > LONG_SKILL_BYTES {
            notes.push(Note::LongSkill { id: id.clone(), bytes });
        }
        for finding in lint_text(&content) {
            notes.push(Note::Suspicious { id: id.clone(), finding });
        }
        let skill = SkillRef::new(id, 1);
        let evidence = Evidence::default();
        let proposed = BankEvent::proposed(skill.clone(), tier, content, SkillProvenance::Imported, evidence);
        bank.record(0, Author::Process, proposed)?;
        if admit == Admit::Unmeasured {
            let admitted = BankEvent::Admitted { skill, basis: Basis::Unmeasured };
            bank.record(0, Author::Process, admitted)?;
        }
    }
    notes.extend(empty.into_iter().map(|tier| Note::EmptyTier { tier }));
    Ok(ReadBank { bank, format, notes })
}

/// A bank as a file of another system.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrittenBank {
    /// The text of the file.
    pub text: String,
    /// Active skills that the format has no place for.
    pub left_out: Vec<SkillPartId>,
}

/// Writes the active skills in a format of another system.
///
/// `original` is the text that the bank was read from, if it was read from this format. `now` is the time that new
/// entries of krill's history get, such as `2026-01-31T12:00:00Z`.
///
/// # Errors
///
/// An original that cannot be read any longer, and [`BankFormat::Log`], for which there is [`Bank::log_text`].
pub fn write(
    bank: &Bank,
    format: BankFormat,
    original: Option<&str>,
    now: &str,
) -> Result<WrittenBank, BankError> {
    let original = match original {
        Some(text) => {
            let value = parse(text)?;
            let (found, entries) = entries(&value)?;
            (found == format).then(|| Original {
                style: style::Style::of(text, &value),
                value,
                entries,
                text,
            })
        }
        None => None,
    };
    let (episodes, skills): (Vec<_>, Vec<_>) =
        active(bank).into_iter().partition(|skill| skill.content.is_episode());
    let (value, mut left_out) = match format {
        BankFormat::Paper => (paper::write(original.as_ref(), &skills), Vec::new()),
        BankFormat::Krill => krill::write(original.as_ref(), &skills, now),
        BankFormat::Log => {
            let message = "a log is written as it is and not as a file of another system".to_owned();
            return Err(BankError::NotABank { message });
        }
    };
    left_out.extend(episodes.into_iter().map(|episode| episode.id.clone()));
    let text = match original {
        Some(original) if original.value == value => original.text.to_owned(),
        Some(original) => original.style.write(&value),
        None => style::Style::default().write(&value),
    };
    Ok(WrittenBank { text, left_out })
}

/// A file that a bank was read from.
struct Original<'text> {
    text: &'text str,
    value: Value,
    entries: Vec<Entry>,
    style: style::Style,
}

/// An active skill, as a file shows it.
struct ActiveSkill<'bank> {
    id: &'bank SkillPartId,
    tier: &'bank Tier,
    content: &'bank Content,
}

fn active(bank: &Bank) -> Vec<ActiveSkill<'_>> {
    bank.skills()
        .filter_map(|skill| {
            Some(ActiveSkill { id: &skill.id, tier: &skill.tier, content: &skill.active()?.content })
        })
        .collect()
}

/// The skills of each tier, in the order of the bank.
fn by_tier<'skills>(
    skills: &'skills [ActiveSkill<'_>],
) -> BTreeMap<&'skills Tier, Vec<&'skills ActiveSkill<'skills>>> {
    let mut tiers: BTreeMap<&Tier, Vec<&ActiveSkill<'_>>> = BTreeMap::new();
    for skill in skills {
        tiers.entry(skill.tier).or_default().push(skill);
    }
    tiers
}

fn parse(text: &str) -> Result<Value, BankError> {
    python_json::read(text).map_err(|error| BankError::NotJson { message: error.to_string() })
}

/// The skills of a file, with ids that no two of them share.
fn entries(value: &Value) -> Result<(BankFormat, Vec<Entry>), BankError> {
    let Some(object) = value.as_object() else {
        let message = format!("{} where an object was expected", document::kind(value));
        return Err(BankError::NotABank { message });
    };
    let (format, mut entries) = if krill::is_one(object) {
        (BankFormat::Krill, krill::entries(object)?)
    } else {
        (BankFormat::Paper, paper::entries(object)?)
    };
    let mut places: BTreeMap<SkillPartId, String> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| !entry.is_id_given) {
        if let Some(first) = places.insert(entry.id.clone(), entry.place.clone()) {
            return Err(BankError::DuplicateId { id: entry.id.clone(), first, second: entry.place.clone() });
        }
    }
    document::give_ids(&mut entries);
    Ok((format, entries))
}

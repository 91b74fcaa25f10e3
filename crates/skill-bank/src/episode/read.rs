//! Files of episodes, whatever system wrote them.

use super::{Episode, eto, krill, memory, own};
use serde::de::{Deserializer as _, SeqAccess, Visitor};
use serde_json::Value;
use skill_core::python_json;
use std::collections::BTreeSet;
use std::fmt;
use thiserror::Error;

skill_core::named_enum! {
    /// The format of a file of episodes.
    #[non_exhaustive]
    pub enum EpisodeFormat {
        /// Episodes as this program writes them, one a line.
        Episodes = "episodes",
        /// Rollout results of a run of this program.
        Rollouts = "rollouts",
        /// Memories of the SkillRL paper.
        Memories = "skillrl_memories",
        /// Conversations of the ETO data set.
        Eto = "eto",
        /// Trajectories of krill.
        Krill = "krill",
    }
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct EpisodeFile {
    /// The episodes, in the order of the file; no two have the same id.
    pub episodes: Vec<Episode>,
    /// The format, told by the shape of the records.
    pub format: EpisodeFormat,
    /// The records that were left out, each with the reason.
    pub skipped: Vec<Skipped>,
}

impl EpisodeFile {
    /// The line in which the file was cut off; `None` for a whole file.
    pub fn cut_at(&self) -> Option<usize> {
        self.skipped.iter().find(|skipped| skipped.fault == SkipReason::CutOff).map(|skipped| skipped.line)
    }
}

/// A record that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// The number of the record, from 1.
    pub record: usize,
    /// The line of the file, from 1; 0 for a record of a list, whose line is not known.
    pub line: usize,
    /// The reason.
    pub fault: SkipReason,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.fault, self.line) {
            (SkipReason::CutOff, line) => write!(f, "line {line}: the file is cut off here"),
            (fault, 0) => write!(f, "record {}: {fault}", self.record),
            (fault, line) => write!(f, "line {line}: {fault}"),
        }
    }
}

/// Why a record was left out.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SkipReason {
    /// The file ends in the middle of this record.
    #[error("the file is cut off in this record")]
    CutOff,
    /// The line is not JSON.
    #[error("not JSON: {message}")]
    NotJson {
        /// What the parser says.
        message: String,
    },
    /// The record has another shape than the first one.
    #[error("not a record of the format `{}`", format.as_str())]
    OtherShape {
        /// The format of the file.
        format: EpisodeFormat,
    },
    /// A field is missing or has the wrong kind.
    #[error("{message}")]
    BadRecord {
        /// What is wrong.
        message: String,
    },
    /// An earlier record has the same id.
    #[error("the id `{id}` occurred before")]
    SameId {
        /// The id.
        id: String,
    },
}

/// Why a file of episodes cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EpisodeError {
    /// The text holds no record.
    #[error("the file has no episodes")]
    Empty,
    /// The text is neither JSON nor lines of JSON.
    #[error("line {line}: not JSON: {message}")]
    NotJson {
        /// The line, from 1.
        line: usize,
        /// What the parser says.
        message: String,
    },
    /// The file is cut off before its first record is whole.
    #[error("line {line}: the file is cut off in its first record")]
    CutOff {
        /// The line, from 1.
        line: usize,
    },
    /// The records are of no known format.
    #[error("the records are not episodes of a known format; their keys are {keys}")]
    UnknownFormat {
        /// The keys of the first record.
        keys: String,
    },
    /// The file was written by a later version of this program.
    #[error("record {record} is an episode of version {version}; this program reads versions up to {newest}")]
    NewerVersion {
        /// The number of the record, from 1.
        record: usize,
        /// Its version.
        version: u64,
        /// The newest version that is known.
        newest: u64,
    },
    /// No record could be read.
    #[error("none of the {n_records} records can be read; the first one: {first}")]
    NothingUsable {
        /// How many records there are.
        n_records: usize,
        /// What is wrong with the first one.
        first: Skipped,
    },
}

/// Reads a file of episodes: a JSON list, or lines of JSON; its format is told by the shape of its records.
///
/// A file that is cut off gives all whole records before the cut and reports the cut in [`EpisodeFile::skipped`].
///
/// # Errors
///
/// A file without a record that can be read, or of a later version.
pub fn read_episodes(text: &str) -> Result<EpisodeFile, EpisodeError> {
    let text = &*python_json::plain(text);
    let Records { records, mut skipped } = match text.trim_start().chars().next() {
        None => return Err(EpisodeError::Empty),
        Some('[') => records_of_list(text)?,
        Some(_) => records_of_lines(text)?,
    };
    let first = records.first().ok_or(EpisodeError::Empty)?;
    let known = records.iter().find_map(|record| format_of(&record.value));
    let format = known.ok_or_else(|| EpisodeError::UnknownFormat { keys: keys_of(&first.value) })?;
    let (n_records, mut ids, mut episodes) = (records.len(), BTreeSet::new(), Vec::new());
    for Record { number, line, value } in records {
        let newer = own::newer_version(&value);
        if let (EpisodeFormat::Episodes, Some(version)) = (format, newer) {
            let newest = own::EPISODE_VERSION;
            return Err(EpisodeError::NewerVersion { record: number, version, newest });
        }
        match read_record(format, value) {
            Ok(episode) if ids.insert(episode.id.clone()) => episodes.push(episode),
            Ok(Episode { id, .. }) => {
                skipped.push(Skipped { record: number, line, fault: SkipReason::SameId { id } });
            }
            Err(fault) => skipped.push(Skipped { record: number, line, fault }),
        }
    }
    skipped.sort_by_key(|skipped| skipped.record);
    if let (true, Some(first)) = (episodes.is_empty(), skipped.first()) {
        return Err(EpisodeError::NothingUsable { n_records, first: first.clone() });
    }
    Ok(EpisodeFile { episodes, format, skipped })
}

/// Tells records of a format by their shape.
type HasShape = fn(&Value) -> bool;

fn format_of(record: &Value) -> Option<EpisodeFormat> {
    let shapes: [(HasShape, EpisodeFormat); 5] = [
        (own::is_episode, EpisodeFormat::Episodes),
        (memory::is_memory, EpisodeFormat::Memories),
        (eto::is_conversation, EpisodeFormat::Eto),
        (own::is_rollout, EpisodeFormat::Rollouts),
        (krill::is_trajectory, EpisodeFormat::Krill),
    ];
    shapes.into_iter().find(|(has_shape, _)| has_shape(record)).map(|(_, format)| format)
}

fn read_record(format: EpisodeFormat, record: Value) -> Result<Episode, SkipReason> {
    if format_of(&record) != Some(format) {
        return Err(SkipReason::OtherShape { format });
    }
    let read = match format {
        EpisodeFormat::Episodes => own::read(record),
        EpisodeFormat::Rollouts => own::read_rollout(record),
        EpisodeFormat::Memories => memory::read(&record),
        EpisodeFormat::Eto => eto::read(&record),
        EpisodeFormat::Krill => krill::read(&record),
    };
    read.map_err(|message| SkipReason::BadRecord { message })
}

fn keys_of(record: &Value) -> String {
    match record.as_object() {
        Some(object) => object.keys().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", "),
        None => "none, as they are not objects".to_owned(),
    }
}

struct Record {
    number: usize,
    line: usize,
    value: Value,
}

struct Records {
    records: Vec<Record>,
    skipped: Vec<Skipped>,
}

/// The elements of a list; of one that is cut off those before the cut.
fn records_of_list(text: &str) -> Result<Records, EpisodeError> {
    let mut values = Vec::new();
    let mut parser = serde_json::Deserializer::from_str(text);
    let outcome = parser.deserialize_seq(Elements(&mut values)).and_then(|()| parser.end());
    let mut skipped = Vec::new();
    if let Err(error) = outcome {
        let line = error.line();
        if !error.is_eof() {
            return Err(EpisodeError::NotJson { line, message: error.to_string() });
        }
        if values.is_empty() {
            return Err(EpisodeError::CutOff { line });
        }
        skipped.push(Skipped { record: values.len() + 1, line, fault: SkipReason::CutOff });
    }
    let records = (1..).zip(values).map(|(number, value)| Record { number, line: 0, value }).collect();
    Ok(Records { records, skipped })
}

/// Keeps the elements that were read before an error.
struct Elements<'a>(&'a mut Vec<Value>);

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of records")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        while let Some(value) = elements.next_element()? {
            self.0.push(value);
        }
        Ok(())
    }
}

/// The lines that are JSON; the whole text if it is one object over several lines.
fn records_of_lines(text: &str) -> Result<Records, EpisodeError> {
    let (mut records, mut skipped) = (Vec::new(), Vec::new());
    let lines = (1_usize..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let lines: Vec<(usize, &str)> = lines.collect();
    let last = lines.last().map_or(0, |(line, _)| *line);
    for (number, (line, content)) in (1..).zip(lines) {
        match serde_json::from_str(content) {
            Ok(value) => records.push(Record { number, line, value }),
            Err(error) if line == last && error.is_eof() => {
                skipped.push(Skipped { record: number, line, fault: SkipReason::CutOff });
            }
            Err(error) => {
                let fault = SkipReason::NotJson { message: error.to_string() };
                skipped.push(Skipped { record: number, line, fault });
            }
        }
    }
    if records.is_empty() {
        return match serde_json::from_str(text) {
            Ok(value) => {
                Ok(Records { records: vec![Record { number: 1, line: 1, value }], skipped: Vec::new() })
            }
            Err(error) if error.is_eof() => Err(EpisodeError::CutOff { line: error.line() }),
            Err(error) => Err(EpisodeError::NotJson { line: error.line(), message: error.to_string() }),
        };
    }
    Ok(Records { records, skipped })
}

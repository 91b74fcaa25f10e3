//! The answer of `measure`, out of what the program prints.

use crate::caps::Caps;
use crate::error::ToolError;
use crate::measuring::{Measurement, Waited, WaitedFor, spent_in};
use crate::room::Room;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use skill_core::stats::score_interval;
use skill_report::LEVEL;
use std::collections::BTreeMap;

/// Task types of one answer.
const MAX_TYPES: usize = 40;
const MAX_TYPE_NAME: usize = 100;

/// The tasks that are measured on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Split {
    /// What a run learns from.
    Train,
    /// What a run chooses its skill by.
    #[default]
    Val,
    /// What is left for the end: a skill that is chosen by its score there makes it worth nothing.
    Test,
}

impl Split {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Val => "val",
            Self::Test => "test",
        }
    }
}

/// Whether there is a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// It is at work.
    Measuring,
    /// All items are measured.
    Finished,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The measurement, whose name `against` takes.
    measurement: String,
    /// Whether there is a result.
    state: State,
    /// The split.
    split: Split,
    /// The skill as it was named; null where none was.
    skill: Option<String>,
    /// The bank as it was named; null without one.
    bank: Option<String>,
    /// The score of the skill; null before it is finished.
    score: Option<Score>,
    /// The score without the bank; null without one.
    without_bank: Option<Score>,
    /// The difference to no bank, or to the measurement named by `against`; null without either.
    difference: Option<Difference>,
    /// The first 16 hex digits of the SHA-256 of the skill, of a measurement of a skill.
    hash: Option<String>,
    /// Scores by task type, of a measurement of a skill.
    types: Vec<OfType>,
    /// Task types that are left out.
    n_types_left_out: usize,
    /// What it has spent.
    spent: Spend,
    /// What it may spend, over all its processes; null where another process started it and left no record.
    caps: Option<Caps>,
    /// What to do next.
    note: String,
}

/// What a measurement has spent.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Spend {
    /// Requests that the process which this call waited for has sent so far: 0 if every reply was known. Null if this
    /// server did not start it.
    requests_now: Option<u64>,
    /// Requests over all processes, so far.
    requests: u64,
    /// Their cost by the prices of the configuration; null if it has none, or nothing was sent.
    money: Option<f64>,
}

/// A mean over the items of the split.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Score {
    /// The share of items that are solved.
    hard: f64,
    /// The mean score where parts of an answer count.
    soft: f64,
    /// The 95 % interval of `hard`.
    interval: [f64; 2],
    /// Items.
    n_items: usize,
}

impl From<Scores> for Score {
    fn from(Scores { hard, soft, n }: Scores) -> Self {
        Self { hard, soft, interval: score_interval(hard, n, LEVEL), n_items: n }
    }
}

/// A difference over the items of both measurements.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Difference {
    /// The mean difference of the items.
    difference: f64,
    /// Its 95 % interval: with 0 in it, it may be chance.
    interval: [f64; 2],
    /// Items that are solved now and were not before.
    n_improved: usize,
    /// Items that were solved before and are not now.
    n_regressed: usize,
    /// Items of both.
    n_items: usize,
}

/// The score of the items of one type.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OfType {
    /// The type, as the data name it.
    untrusted_task_type: String,
    /// The share of its items that are solved.
    hard: f64,
    /// Its items.
    n_items: usize,
}

/// What the program prints of a bank.
#[derive(Deserialize)]
struct OfBank {
    without: Scores,
    with: Scores,
    difference: Option<Compared>,
}

/// What it prints of a skill.
#[derive(Deserialize)]
struct OfSkill {
    hard: f64,
    soft: f64,
    n: usize,
    skill_hash: String,
    #[serde(default)]
    by_task_type: BTreeMap<String, Scores>,
    #[serde(default)]
    against: Option<Compared>,
}

#[derive(Deserialize)]
struct Scores {
    hard: f64,
    soft: f64,
    n: usize,
}

#[derive(Deserialize)]
struct Compared {
    n: usize,
    difference: f64,
    difference_interval: [f64; 2],
    counts: Counts,
}

#[derive(Deserialize)]
struct Counts {
    wins: usize,
    losses: usize,
}

impl From<Compared> for Difference {
    fn from(Compared { n, difference, difference_interval, counts }: Compared) -> Self {
        let Counts { wins, losses } = counts;
        Self { difference, interval: difference_interval, n_improved: wins, n_regressed: losses, n_items: n }
    }
}

/// What has come of a measurement.
pub(super) fn answer(measurement: &Measurement, split: Split, waited: Waited) -> Result<Output, ToolError> {
    const AGAIN: &str = "it goes on by itself: call measure with the same arguments for the result";
    const ELSEWHERE: &str = "another server or a person has started it, and it goes on by itself: call measure with the \
                             same arguments for the result";
    let spent = spent_in(&measurement.dir, Some(&measurement.config))?;
    let asked = &measurement.asked;
    let output = Output {
        measurement: measurement.name.clone(),
        state: State::Measuring,
        split,
        skill: asked.skill.clone(),
        bank: asked.bank.clone(),
        score: None,
        without_bank: None,
        difference: None,
        hash: None,
        types: Vec::new(),
        n_types_left_out: 0,
        spent: Spend {
            requests_now: waited.requests_before.map(|before| spent.requests.saturating_sub(before)),
            requests: spent.requests,
            money: spent.money,
        },
        caps: waited.caps,
        note: AGAIN.to_owned(),
    };
    match waited.state {
        WaitedFor::Here => Ok(output),
        WaitedFor::Elsewhere => Ok(Output { note: ELSEWHERE.to_owned(), ..output }),
        WaitedFor::Printed(printed) if asked.bank.is_some() => of_bank(&printed, output),
        WaitedFor::Printed(printed) => of_skill(&printed, output),
    }
}

/// The scores of what the program has printed of a bank.
fn of_bank(printed: &[u8], output: Output) -> Result<Output, ToolError> {
    let OfBank { without, with, difference } = parsed(printed)?;
    Ok(Output {
        score: Some(with.into()),
        without_bank: Some(without.into()),
        difference: difference.map(Difference::from),
        ..finished(output)
    })
}

/// The scores of what the program has printed of a skill.
fn of_skill(printed: &[u8], output: Output) -> Result<Output, ToolError> {
    let OfSkill { hard, soft, n, skill_hash, by_task_type, against } = parsed(printed)?;
    let n_types_left_out = by_task_type.len().saturating_sub(MAX_TYPES);
    let mut room = Room::default();
    let types = by_task_type.into_iter().take(MAX_TYPES).map(|(name, Scores { hard, n, .. })| OfType {
        untrusted_task_type: room.take(&name, MAX_TYPE_NAME),
        hard,
        n_items: n,
    });
    Ok(Output {
        score: Some(Scores { hard, soft, n }.into()),
        difference: against.map(Difference::from),
        hash: Some(skill_hash.chars().take(16).collect()),
        types: types.collect(),
        n_types_left_out,
        ..finished(output)
    })
}

fn parsed<T: DeserializeOwned>(printed: &[u8]) -> Result<T, ToolError> {
    serde_json::from_slice(printed).map_err(|error| ToolError::internal(&error))
}

fn finished(output: Output) -> Output {
    let note = "measured: a difference whose interval holds 0 may be chance".to_owned();
    Output { state: State::Finished, note, ..output }
}

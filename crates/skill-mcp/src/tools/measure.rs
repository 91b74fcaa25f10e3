//! `measure`.

use crate::caps::Caps;
use crate::error::ToolError;
use crate::places;
use crate::room::Room;
use crate::shared::Shared;
use crate::start::settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skill_core::stats::score_interval;
use skill_pipeline::records::bank::BANK_DIR;
use skill_pipeline::run_dir::is_run;
use skill_report::LEVEL;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

pub(super) const DESCRIPTION: &str = "\
Measures a skill, or a bank against no bank, on one split of the tasks of a configuration, without training. With \
`against` it also compares with an earlier measurement, item by item. THIS SPENDS MONEY: one rollout for each item, two \
with a bank; agree on a cap with the person whom you work for. Without a cap on calls or money, here or in the \
configuration, it is refused. It answers with the scores, or with the state `measuring` when the time is up: call it \
again with the same arguments, which pays for nothing twice.";

/// Seconds that are waited where nobody says how long: clients give up on calls after a minute, as a rule.
const DEFAULT_WAIT_S: u32 = 45;
const MAX_WAIT_S: u32 = 600;
/// Where measurements are, in the directory of the runs.
const MEASUREMENTS: &str = "measurements";
const MAX_NAME: usize = 64;
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
    fn as_str(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Val => "val",
            Self::Test => "test",
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The name of the measurement: letters, digits, `-`, `_` and `.`. Another skill needs another name.
    name: String,
    /// The configuration file, as list_configurations gives it.
    config: String,
    /// The skill: a file or a folder below the directory of configurations, or the name of a run, whose best skill it
    /// is. By default the best skill of the configuration's run, else its initial one.
    #[serde(default)]
    skill: Option<String>,
    /// A bank to measure against no bank: a file or a folder below the directory of configurations, or the name of a run
    /// that trains one.
    #[serde(default)]
    bank: Option<String>,
    /// The split; `val` by default.
    #[serde(default)]
    split: Split,
    /// The name of an earlier measurement of a skill on the same split, to compare with.
    #[serde(default)]
    against: Option<String>,
    /// Settings to change, such as `gate.metric=soft`: keys of [train], [gate] and [eval].
    #[serde(default)]
    set: Vec<String>,
    /// The most requests that the measurement may send, over all its processes. A lower cap of the configuration holds.
    #[serde(default)]
    #[schemars(range(min = 1))]
    max_calls: Option<u64>,
    /// The most money by the prices of the configuration, likewise.
    #[serde(default)]
    max_money: Option<f64>,
    /// The most seconds to wait, up to 600; 45 by default. Stay below the time after which your client gives up.
    #[serde(default)]
    #[schemars(range(max = 600))]
    wait_s: Option<u32>,
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
    /// What it may spend, over all its processes.
    caps: Caps,
    /// What to do next.
    note: String,
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

pub(super) async fn run(shared: Arc<Shared>, input: Input) -> Result<Output, ToolError> {
    let wait_s = input.wait_s.unwrap_or(DEFAULT_WAIT_S).min(MAX_WAIT_S);
    let until = Instant::now() + Duration::from_secs(wait_s.into());
    let asked = Caps { calls: input.max_calls, money: input.max_money, ..Caps::default() };
    asked.check_money()?;
    let dir = directory(&shared, &input.name)?;
    let (of_thread, config, set) = (Arc::clone(&shared), input.config.clone(), input.set.clone());
    let (path, caps) = super::blocking(move || {
        let (path, loaded) = of_thread.configs.load(&config, &set)?;
        loaded.check_paths()?;
        let caps = Caps::from(loaded.config.budget).and(asked).and(of_thread.caps());
        caps.check()?;
        Ok((path, caps))
    })
    .await?;
    let is_of_bank = input.bank.is_some();
    let args = arguments(&shared, &input, (&path, &dir), caps).await?;
    let measuring = {
        let mut all = shared.measurements.lock().await;
        Arc::clone(all.entry(input.name.clone()).or_default())
    };
    let result = match timeout_at(until, measuring.lock()).await {
        Ok(mut held) => held.wait(&shared.options.program, args, &dir, until).await?,
        Err(_) => None,
    };
    let output = Output {
        measurement: input.name,
        state: State::Measuring,
        score: None,
        without_bank: None,
        difference: None,
        hash: None,
        types: Vec::new(),
        caps,
        note: "it goes on by itself: call measure with the same arguments for the result".to_owned(),
    };
    match result {
        None => Ok(output),
        Some(printed) => finished(&printed, is_of_bank, output),
    }
}

/// The directory of a measurement.
fn directory(shared: &Shared, name: &str) -> Result<PathBuf, ToolError> {
    let is_safe = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '_' | '.');
    if name.is_empty() || name.len() > MAX_NAME || name.starts_with('.') || !name.chars().all(is_safe) {
        let hint =
            "take letters, digits, `-`, `_` and `.`, at most 64 of them, and begin with a letter or a digit";
        return Err(ToolError::new("this is not the name of a measurement", hint));
    }
    let root = shared.runs.root();
    let dir = root.join(MEASUREMENTS).join(name);
    let place = places::name_of_run(root, &dir);
    if is_run(root) || place.is_none_or(|place| place != format!("{MEASUREMENTS}/{name}")) {
        return Err(ToolError::new(
            format!("{} is not a place for a measurement in {}", dir.display(), root.display()),
            "a person has to start this server with a directory of runs as --runs, without links out of it",
        ));
    }
    Ok(dir)
}

/// The arguments of the program.
async fn arguments(
    shared: &Shared,
    input: &Input,
    (config, dir): (&Path, &Path),
    caps: Caps,
) -> Result<Vec<OsString>, ToolError> {
    let mut args: Vec<OsString> = vec!["eval".into(), config.into()];
    args.extend(settings(&input.set).chain(settings(&caps.overrides())));
    args.extend(["--split".into(), input.split.as_str().into(), "--out".into(), dir.into(), "--json".into()]);
    if let Some(skill) = &input.skill {
        args.extend(["--skill".into(), source(shared, skill, best_skill).await?.into()]);
    }
    if let Some(bank) = &input.bank {
        args.extend(["--bank".into(), source(shared, bank, |run| run.join(BANK_DIR)).await?.into()]);
    }
    if let Some(against) = &input.against {
        args.extend(["--against".into(), directory(shared, against)?.into()]);
    }
    Ok(args)
}

/// The best skill of a run: its folder where it has several files.
fn best_skill(run: &Path) -> PathBuf {
    let folder = run.join("best_skill");
    if folder.is_dir() { folder } else { run.join("best_skill.md") }
}

/// What a run has made, or what is below the directory of configurations.
async fn source(
    shared: &Shared,
    name: &str,
    of_run: impl FnOnce(&Path) -> PathBuf,
) -> Result<PathBuf, ToolError> {
    let listing = shared.listing().await?;
    if let Some((found, _)) = listing.find(name) {
        let (root, found) = (shared.runs.root().to_owned(), found.clone());
        let path = of_run(&found.path);
        super::blocking(move || places::refuse_leaving(&root, &found)).await?;
        return Ok(path);
    }
    shared.configs.below(name).ok_or_else(|| {
        ToolError::new(
            format!("`{name}` is no run, and not found below {}", shared.configs.root().display()),
            "call list_runs for the names of runs; a path is relative to the directory of configurations",
        )
    })
}

/// The scores of what the program has printed.
fn finished(printed: &[u8], is_of_bank: bool, output: Output) -> Result<Output, ToolError> {
    let of_json = |error: serde_json::Error| ToolError::internal(&error);
    let note = "measured: a difference whose interval holds 0 may be chance".to_owned();
    let output = Output { state: State::Finished, note, ..output };
    if is_of_bank {
        let OfBank { without, with, difference } = serde_json::from_slice(printed).map_err(of_json)?;
        return Ok(Output {
            score: Some(with.into()),
            without_bank: Some(without.into()),
            difference: difference.map(Difference::from),
            ..output
        });
    }
    let OfSkill { hard, soft, n, skill_hash, by_task_type, against } =
        serde_json::from_slice(printed).map_err(of_json)?;
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
        ..output
    })
}

//! `read_run`.

use crate::answer::{Position, RunBrief};
use crate::error::ToolError;
use crate::room::Room;
use crate::shared::Shared;
use crate::tools::follow;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skill_core::{SkillDoc, StepIdx};
use skill_pipeline::RunReader;
use skill_pipeline::kind::{Trained, trained_at};
use skill_pipeline::records::bank::BANK_DIR;
use skill_report::watch::Told;
use skill_report::{BankComparison, BankReport, Comparison, EditLine, ReportOptions, StepRow, Verdict};
use skillrl::bank::State as BankState;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) const DESCRIPTION: &str = "\
Reads a training run, also while it goes on: where it stands, what it has spent and may spend, the result with its \
evidence, every step with its edits, its decision and why, and the beginning of the best skill; of a run that trains a \
bank, the titles of its active skills. Reads files and costs nothing.";

/// Steps that are shown where nobody says how many.
const DEFAULT_STEPS: u32 = 10;
const MAX_STEPS: u32 = 50;
/// The most characters of a text of an edit, of a note, and of the best skill.
const MAX_EDIT: usize = 600;
const MAX_NOTE: usize = 400;
const MAX_SKILL: usize = 6_000;
/// The most skills of a bank that are named, and the most characters of a title.
const MAX_BANK_SKILLS: usize = 100;
const MAX_TITLE: usize = 160;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The name of the run, as list_runs gives it.
    run: String,
    /// The first step to show, from 1; without it, the last steps are shown.
    #[serde(default)]
    from_step: Option<u32>,
    /// The most steps to show, up to 50; 10 by default.
    #[serde(default)]
    #[schemars(range(min = 1, max = 50))]
    max_steps: Option<u32>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The run in short.
    summary: RunBrief,
    /// Where it is now and what it has spent.
    now: Position,
    /// What it trains: `a skill`, `a bank`, `fine-tuning`, `reinforcement learning` or `weights and bank`.
    trains: &'static str,
    /// What it came to: `better`, `worse`, `worse than no skill`, `cannot tell`, `no better skill`, `not tested`,
    /// `not finished`, `trained` or `nothing learned`.
    verdict: &'static str,
    /// The same with its numbers, in one line.
    headline: String,
    /// The initial and the best skill, or no bank and the bank, on the test split; null until that is read, at the end.
    test: Option<Compared>,
    /// The same on the validation split, by which the best skill was chosen: optimistic (selection bias). Of a bank it is
    /// that of the last validation.
    selection: Option<Compared>,
    /// What to know before trusting the numbers, the weightiest first.
    cautions: Vec<String>,
    /// The bank of a run that trains one, and nothing else than that; null for any other.
    bank: Option<BankNow>,
    /// Steps in order, of a run that trains a skill.
    steps: Vec<Step>,
    /// Finished steps that are not shown: pass `from_step` for them.
    n_steps_left_out: usize,
    /// The beginning of the best skill; read_skill has the rest. A document for the agent that is trained, not for you.
    untrusted_best_skill: Option<String>,
    /// Characters that were cut from texts of this answer.
    n_characters_left_out: usize,
}

/// A bank.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BankNow {
    /// Its directory.
    directory: String,
    /// Skills that agents are shown.
    n_active: usize,
    /// Candidates and skills in a trial.
    n_waiting: usize,
    /// Retired skills.
    n_retired: usize,
    /// The active skills, in the order of the bank.
    active: Vec<BankTitle>,
    /// Active skills that are left out.
    n_left_out: usize,
}

/// An active skill of a bank.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BankTitle {
    /// The tasks that it is for.
    untrusted_tier: String,
    /// Its title.
    untrusted_title: String,
}

/// Two skills on the same items; scores are means from 0 to 1.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Compared {
    /// Items.
    n_items: usize,
    /// Score of the initial skill.
    before: f64,
    /// Score of the best skill.
    after: f64,
    /// The mean difference.
    difference: f64,
    /// Its 95 % interval: if 0 is inside, chance alone may have made the difference.
    difference_interval: [f64; 2],
    /// Items that only the best skill solved.
    won: usize,
    /// Items that only the initial skill solved.
    lost: usize,
    /// The exact one-sided p-value of "not better" (McNemar).
    p: f64,
}

impl From<Comparison> for Compared {
    fn from(both: Comparison) -> Self {
        Self {
            n_items: both.n,
            before: both.before,
            after: both.after,
            difference: both.difference,
            difference_interval: both.difference_interval,
            won: both.counts.wins,
            lost: both.counts.losses,
            p: both.p,
        }
    }
}

/// A finished step.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Step {
    /// The step, from 1.
    step: u32,
    /// Its epoch, from 1.
    epoch: u32,
    /// `accepted`, `rejected`, `indecisive` or `skipped`.
    outcome: String,
    /// The same in more words.
    decision: String,
    /// Score of the current skill before it, on the validation split.
    score_before: f64,
    /// Score of its candidate there; null if not every item was measured.
    candidate_score: Option<f64>,
    /// Where the score of a candidate lies that was rejected early, since it could not win any more.
    candidate_interval: Option<[f64; 2]>,
    /// How its items fell against those of the current skill, and what that shows.
    evidence: Option<String>,
    /// Items that were measured.
    n_measured: Option<usize>,
    /// Items of the validation split.
    n_items: Option<usize>,
    /// Its edits, with what became of each.
    edits: Vec<Edit>,
    /// What went wrong without stopping it.
    untrusted_notes: Vec<String>,
    /// What the end of its epoch came to, if it was the last step of one.
    epoch_end: Option<String>,
}

/// An edit that the optimizer proposed.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Edit {
    /// What became of it.
    status: String,
    /// Whether it changed the skill.
    is_applied: bool,
    /// The place in the skill that it names.
    untrusted_target: Option<String>,
    /// The text that it writes.
    untrusted_content: Option<String>,
    /// What else there is to say.
    untrusted_note: Option<String>,
}

pub(super) async fn run(shared: Arc<Shared>, input: Input) -> Result<Output, ToolError> {
    let (found, row) = shared.run(&input.run).await?;
    let limit = input.max_steps.unwrap_or(DEFAULT_STEPS).clamp(1, MAX_STEPS) as usize;
    let first = input.from_step.map(StepIdx);
    let read = super::in_depth(&shared, found.clone(), move |run| match trained_at(run.path()) {
        Trained::Skill => Read::of_document(run, first, limit),
        Trained::Bank => Read::of_bank(run),
        Trained::Weights => Ok(Read {
            rows: Vec::new(),
            n_steps: 0,
            skill: None,
            bank: None,
            verdict: skillrl::report::verdict(run.path())?,
            test: None,
            selection: None,
        }),
    })
    .await?;
    let now = follow::now(&shared, &input.run, &found, &mut Told::default()).await?;
    let trains = row.files.kind_words().unwrap_or("a skill");
    Ok(said(read, trains, (RunBrief::from(&row), Position::from(&now))))
}

/// What was read of a run.
struct Read {
    verdict: Verdict,
    test: Option<Comparison>,
    selection: Option<Comparison>,
    /// The steps that are shown.
    rows: Vec<StepRow>,
    /// Finished steps, of a run that trains a skill.
    n_steps: usize,
    /// The best skill, if there is one yet.
    skill: Option<SkillDoc>,
    /// The bank with its directory.
    bank: Option<(BankReport, PathBuf)>,
}

impl Read {
    fn of_document(run: &RunReader, first: Option<StepIdx>, limit: usize) -> Result<Self, ToolError> {
        let report = skillrl::report::read_with(run.path(), in_short())?;
        let (test, selection) = match report.headline {
            Some(headline) => (headline.test, Some(headline.selection)),
            None => (None, None),
        };
        Ok(Self {
            verdict: report.verdict,
            test,
            selection,
            rows: StepRow::read_from(run, first, limit)?,
            n_steps: report.n_steps,
            skill: run.kept_best_skill().ok(),
            bank: None,
        })
    }

    fn of_bank(run: &RunReader) -> Result<Self, ToolError> {
        let report = skillrl::report::bank_with(run.path(), &in_short())?;
        let paired = |found: &Option<BankComparison>| found.as_ref().and_then(|found| found.paired.clone());
        Ok(Self {
            test: paired(&report.test),
            selection: paired(&report.selection),
            verdict: report.verdict.clone(),
            rows: Vec::new(),
            n_steps: 0,
            skill: None,
            bank: Some((report, run.path().join(BANK_DIR))),
        })
    }
}

/// A report without its long parts: steps are read by themselves, since a report leaves some out.
fn in_short() -> ReportOptions {
    ReportOptions { max_steps: 0, max_items: 0, max_trajectories: 0, ..ReportOptions::default() }
}

fn said(read: Read, trains: &'static str, (summary, now): (RunBrief, Position)) -> Output {
    let Read { verdict, test, selection, rows, n_steps, skill, bank } = read;
    let mut room = Room::default();
    let untrusted_best_skill = skill.map(|skill| room.take(&skill.optimizer_view(), MAX_SKILL));
    let mut steps = Vec::new();
    for row in &rows {
        if room.is_used_up() {
            break;
        }
        steps.push(step(row, &mut room));
    }
    Output {
        summary,
        now,
        trains,
        verdict: verdict.outcome.as_str(),
        headline: verdict.line(),
        test: test.map(Compared::from),
        selection: selection.map(Compared::from),
        cautions: verdict.cautions.into_iter().map(|caution| caution.words).collect(),
        bank: bank.map(|(report, directory)| bank_now(&report, &directory, &mut room)),
        n_steps_left_out: n_steps.saturating_sub(steps.len()),
        steps,
        untrusted_best_skill,
        n_characters_left_out: room.n_left_out,
    }
}

fn bank_now(report: &BankReport, directory: &Path, room: &mut Room) -> BankNow {
    let active = report.skills.iter().filter(|skill| skill.state == BankState::Active);
    let active: Vec<BankTitle> = active
        .take(MAX_BANK_SKILLS)
        .map(|skill| BankTitle {
            untrusted_tier: room.take(&skill.tier_name, MAX_TITLE),
            untrusted_title: room.take(&skill.title, MAX_TITLE),
        })
        .collect();
    BankNow {
        directory: directory.display().to_string(),
        n_active: report.counts.active,
        n_waiting: report.counts.waiting,
        n_retired: report.counts.retired,
        n_left_out: report.counts.active.saturating_sub(active.len()),
        active,
    }
}

fn step(row: &StepRow, room: &mut Room) -> Step {
    let epoch_end = row.epoch_end.as_ref().and_then(|end| end.slow_update.as_ref());
    Step {
        step: row.step,
        epoch: row.epoch,
        outcome: row.outcome.to_owned(),
        decision: row.decision.to_owned(),
        score_before: row.before,
        candidate_score: row.score,
        candidate_interval: row.interval,
        evidence: row.evidence.clone(),
        n_measured: row.n_seen,
        n_items: row.n_items,
        edits: row.edits.iter().map(|line| edit(line, room)).collect(),
        untrusted_notes: row.notes.iter().map(|note| room.take(note, MAX_NOTE)).collect(),
        epoch_end: epoch_end.map(|update| format!("slow update: {}", update.decision)),
    }
}

fn edit(line: &EditLine, room: &mut Room) -> Edit {
    Edit {
        status: line.status.clone(),
        is_applied: line.is_applied,
        untrusted_target: room.take_some(&line.target, MAX_EDIT),
        untrusted_content: room.take_some(&line.content, MAX_EDIT),
        untrusted_note: line.note.as_ref().and_then(|note| room.take_some(note, MAX_NOTE)),
    }
}

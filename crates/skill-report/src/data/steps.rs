//! The steps of a run: edits, differences and decisions.

use super::epochs::{self, EpochRow};
use super::headline::{p_words, points};
use serde::Serialize;
use similar::{ChangeTag, TextDiff};
use skill_core::{EditRow, StepIdx};
use skill_pipeline::run_dir::format::{StepAction, StepRecord};
use skill_pipeline::run_dir::paired_format::PairedRecord;
use skill_pipeline::{PipelineError, RunReader};
use std::fmt::Write as _;

/// Lines around a change that are shown with it.
const CONTEXT: usize = 2;

/// A step of the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepRow {
    /// The step, from 1.
    pub step: u32,
    /// The epoch, from 1.
    pub epoch: u32,
    /// What it came to.
    pub action: StepAction,
    /// The same in words.
    pub decision: String,
    /// `accepted`, `rejected`, `indecisive` or `skipped`: what it came to in the rough.
    pub outcome: &'static str,
    /// The mean score of the agent on the step's batch.
    pub batch: f64,
    /// Items of the batch.
    pub batch_n: usize,
    /// The most edits it might apply; absent if nobody said.
    pub edit_budget: Option<u32>,
    /// The score of the current skill before it.
    pub before: f64,
    /// The candidate's score; `None` if not every item was measured.
    pub score: Option<f64>,
    /// The interval of a candidate that was rejected early.
    pub interval: Option<[f64; 2]>,
    /// How its items fell against the current skill's, and what that shows.
    pub paired: Option<PairedRecord>,
    /// The same in words.
    pub evidence: Option<String>,
    /// Items that were measured.
    pub n_seen: Option<usize>,
    /// Items of the selection split.
    pub n_items: Option<usize>,
    /// The score of the current skill after it.
    pub current: f64,
    /// The score of the best skill after it.
    pub best: f64,
    /// Its edits.
    pub edits: Vec<EditLine>,
    /// What its edits changed.
    pub diff: Vec<DiffLine>,
    /// What went wrong without stopping it.
    pub notes: Vec<String>,
    /// The end of its epoch, if it is the last step of one and the end is done.
    pub epoch_end: Option<EpochRow>,
}

/// An edit, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EditLine {
    /// What became of it.
    pub status: String,
    /// Whether it changed the skill.
    pub is_applied: bool,
    /// Its anchor.
    pub target: String,
    /// Its text.
    pub content: String,
    /// What else there is to say.
    pub note: Option<String>,
}

/// A line of a difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DiffLine {
    /// `+`, `-` or a blank; `@` stands between parts that are far from each other.
    pub sign: char,
    /// The line.
    pub text: String,
}

impl StepRow {
    /// Reads one step of a run.
    ///
    /// # Errors
    ///
    /// A file of the step that cannot be read or is not what it should be.
    pub fn read(run: &RunReader, record: &StepRecord) -> Result<Self, PipelineError> {
        row(run, record)
    }
}

pub(super) fn read(run: &RunReader, history: &[StepRecord]) -> Result<Vec<StepRow>, PipelineError> {
    let ends = run.epoch_ends()?;
    let nexts = history.iter().skip(1).map(Some).chain([None]);
    let rows = history.iter().zip(nexts).map(|(record, next)| {
        let epoch_end = epochs::after_step(run, &ends, record, next)?;
        Ok(StepRow { epoch_end, ..row(run, record)? })
    });
    rows.collect()
}

fn row(run: &RunReader, record: &StepRecord) -> Result<StepRow, PipelineError> {
    let rows = run.apply_report(record.step)?.unwrap_or_default();
    let before = run.skill_after(StepIdx(record.step.0.saturating_sub(1)))?;
    let diff = match run.candidate(record.step)? {
        Some(candidate) => difference(before.text(), candidate.text()),
        None => Vec::new(),
    };
    Ok(StepRow {
        step: record.step.0,
        epoch: record.epoch.0,
        action: record.action,
        decision: decision(record),
        outcome: outcome(record.action),
        batch: record.rollout_hard,
        batch_n: record.rollout_n,
        edit_budget: record.edit_budget,
        before: record.score_before,
        score: record.candidate_gate_score,
        interval: record.selection_interval,
        paired: record.paired.clone(),
        evidence: record.paired.as_ref().map(evidence),
        n_seen: record.selection_n_seen,
        n_items: record.selection_n,
        current: record.current_score,
        best: record.best_score,
        edits: rows.into_iter().map(edit_line).collect(),
        diff,
        notes: record.notes.clone(),
        epoch_end: None,
    })
}

fn edit_line(row: EditRow) -> EditLine {
    EditLine {
        status: row.status.as_str().replace('_', " "),
        is_applied: row.status.is_applied(),
        target: row.target,
        content: row.content_preview,
        note: row.note,
    }
}

fn decision(record: &StepRecord) -> String {
    record.action.as_str().replace('_', " ")
}

fn outcome(action: StepAction) -> &'static str {
    match (action.is_accept(), action.is_skip()) {
        (true, _) => "accepted",
        (false, true) => "skipped",
        (false, false) if action == StepAction::Indecisive => "indecisive",
        (false, false) => "rejected",
    }
}

/// What is known about a candidate beside its score.
pub(super) fn evidence(paired: &PairedRecord) -> String {
    let PairedRecord { wins, losses, ties, .. } = paired;
    let mut said = format!("{wins} won, {losses} lost, {ties} the same");
    if paired.repeats > 1 {
        let _ = write!(said, ", {} draws of each item", paired.repeats);
    }
    if let (Some(difference), Some([low, high])) = (paired.difference, paired.interval) {
        let _ = write!(
            said,
            "; difference {} (95 % interval {} to {})",
            points(difference),
            points(low),
            points(high)
        );
    }
    // What was given up early is no sample, so that only its bounds are known.
    if let Some([low, high]) = paired.bounds {
        let _ = write!(
            said,
            " (of what was measured); the difference lies from {} to {}",
            points(low),
            points(high)
        );
    }
    if let Some(p) = paired.mcnemar_p {
        let _ = write!(said, "; McNemar p {}", p_words(p));
    }
    if let Some(p) = paired.sign_flip_p {
        let _ = write!(said, "; sign-flip p {}", p_words(p));
    }
    if let Some(ln_e_value) = paired.ln_e_value {
        let _ = write!(said, "; e-value {:.3}", ln_e_value.exp());
    }
    if let Some(alpha) = paired.alpha {
        let _ = write!(said, "; level {alpha:.4}");
    }
    said
}

/// The lines that differ, with a few around them.
pub fn difference(before: &str, after: &str) -> Vec<DiffLine> {
    let diff = TextDiff::from_lines(before, after);
    let mut lines = Vec::new();
    for group in diff.grouped_ops(CONTEXT) {
        if !lines.is_empty() {
            lines.push(DiffLine { sign: '@', text: String::new() });
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            lines.push(DiffLine { sign, text: change.value().trim_end_matches(['\n', '\r']).to_owned() });
        }
    }
    lines
}

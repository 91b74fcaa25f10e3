//! The steps of a run: edits, differences and decisions.

use super::epochs::{self, EpochRow};
use super::source::Source;
use crate::words::{p_words, points};
use serde::Serialize;
use similar::{ChangeTag, TextDiff};
use skill_core::{EditRow, StepIdx};
use skill_pipeline::records::document::{StepAction, StepRecord};
use skill_pipeline::records::epoch::EpochRecords;
use skill_pipeline::records::paired::PairedRecord;
use skill_pipeline::run_dir::RunSkills;
use skill_pipeline::{PipelineError, RunReader};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Lines around a change that are shown with it.
const CONTEXT: usize = 2;
/// About as many characters a page needs around a line of a difference.
const LINE_MARKUP: usize = 12;

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
    pub decision: &'static str,
    /// `accepted`, `rejected`, `indecisive`, `skipped`, or of a proposal `dropped` or `taken`: what it came to in the rough.
    pub outcome: &'static str,
    /// The mean score of the agent on the step's batch.
    pub batch: f64,
    /// Items of the batch.
    pub batch_n: usize,
    /// The most edits it might apply; absent if no budget was set.
    pub edit_budget: Option<u32>,
    /// Edits that changed the skill.
    pub n_applied: usize,
    /// Edits that there were.
    pub n_edits: usize,
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
    /// Items of the validation split.
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
    /// Whether its edits, its difference, its notes and the end of its epoch are left out for the size of the report.
    pub is_cut: bool,
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
    /// `+`, `-` or a blank; `@` is between parts that are far from each other.
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
        row(run, &run.skills(&run.history()?)?, record)
    }

    /// Reads the steps of a run from one on, at most so many, or the last ones if none is named: whole, and each with
    /// the end of its epoch.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read).
    pub fn read_from(
        run: &RunReader,
        first: Option<StepIdx>,
        max_steps: usize,
    ) -> Result<Vec<Self>, PipelineError> {
        let history = run.history()?;
        let (skills, ends) = (run.skills(&history)?, run.epoch_ends()?);
        let n_before = match first {
            Some(first) => history.partition_point(|record| record.step < first),
            None => history.len().saturating_sub(max_steps),
        };
        let shown = history.iter().enumerate().skip(n_before).take(max_steps);
        shown.map(|(place, record)| whole(run, &skills, &ends, record, history.get(place + 1))).collect()
    }

    /// How many characters of a run's texts it holds.
    fn n_characters(&self) -> usize {
        let of_edits = self.edits.iter().map(|edit| edit.target.len() + edit.content.len());
        let of_notes = self.notes.iter().map(String::len);
        of_edits.chain(of_notes).sum::<usize>()
            + n_characters(&self.diff)
            + self.epoch_end.as_ref().map_or(0, EpochRow::n_characters)
    }
}

/// How many characters a difference has; each line has some for its markup.
pub(super) fn n_characters(diff: &[DiffLine]) -> usize {
    diff.iter().map(|line| line.text.len() + LINE_MARKUP).sum()
}

/// The steps that are shown one by one.
pub(super) struct Chosen<'run> {
    /// The place of each in the history, and its record.
    records: BTreeMap<StepIdx, (usize, &'run StepRecord)>,
}

impl<'run> Chosen<'run> {
    /// Of too many steps those that were accepted, and the last of the others; of too many of these the last ones.
    pub(super) fn of(history: &'run [StepRecord], max_steps: usize) -> Self {
        let is_accepted = |(_, record): &(usize, &StepRecord)| record.action.is_accept();
        let latest = || history.iter().enumerate().rev();
        let accepted = latest().filter(is_accepted);
        let others = latest().filter(|step| !is_accepted(step));
        let chosen = accepted.chain(others).take(max_steps);
        Self { records: chosen.map(|(place, record)| (record.step, (place, record))).collect() }
    }

    pub(super) fn holds(&self, step: StepIdx) -> bool {
        self.records.contains_key(&step)
    }
}

pub(super) fn read(
    source: &Source<'_>,
    chosen: &Chosen<'_>,
    max_characters: usize,
) -> Result<Vec<StepRow>, PipelineError> {
    let (run, history) = (source.run, &source.history);
    let skills = run.skills(history)?;
    // Where there is not room for all, what became part of the skill comes first, and what is newer before the rest.
    let mut in_order: Vec<_> = chosen.records.values().collect();
    in_order.sort_by_key(|(_, record)| (!record.action.is_accept(), Reverse(record.step)));
    let mut n_characters = 0;
    let mut rows = Vec::with_capacity(in_order.len());
    for (place, record) in in_order {
        let is_whole = n_characters < max_characters;
        let row = if is_whole {
            whole(run, &skills, &source.ends, record, history.get(place + 1))?
        } else {
            brief(record)
        };
        n_characters += row.n_characters();
        rows.push(row);
    }
    rows.sort_by_key(|row| row.step);
    Ok(rows)
}

/// A step with the end of its epoch; `next` is the step after it.
fn whole(
    run: &RunReader,
    skills: &RunSkills<'_>,
    ends: &[EpochRecords],
    record: &StepRecord,
    next: Option<&StepRecord>,
) -> Result<StepRow, PipelineError> {
    let epoch_end = epochs::after_step(skills, run, ends, record, next)?;
    Ok(StepRow { epoch_end, ..row(run, skills, record)? })
}

fn row(run: &RunReader, skills: &RunSkills<'_>, record: &StepRecord) -> Result<StepRow, PipelineError> {
    let rows = run.apply_report(record.step)?.unwrap_or_default();
    let candidate = match run.candidate(record.step)? {
        // The candidate of a comparison is that of its proposals together.
        None if record.comparison.is_some() && record.action.is_accept() => Some(skills.after(record.step)?),
        candidate => candidate,
    };
    let diff = match candidate {
        Some(candidate) => {
            let before = skills.after(StepIdx(record.step.0.saturating_sub(1)))?;
            difference(before.source_text(), candidate.source_text())
        }
        None => Vec::new(),
    };
    let edits = rows.into_iter().map(edit_line).collect();
    Ok(StepRow { edits, diff, is_cut: false, notes: record.notes.clone(), ..brief(record) })
}

/// A step as its record has it, without its files.
fn brief(record: &StepRecord) -> StepRow {
    StepRow {
        step: record.step.0,
        epoch: record.epoch.0,
        action: record.action,
        decision: record.action.words(),
        outcome: outcome(record.action),
        batch: record.rollout_hard,
        batch_n: record.rollout_n,
        edit_budget: record.edit_budget,
        n_applied: record.apply_report.map_or(0, |report| report.applied),
        n_edits: record.apply_report.map_or(0, |report| report.total),
        before: record.score_before,
        score: record.candidate_gate_score,
        interval: record.selection_interval,
        paired: record.paired.clone(),
        evidence: record.paired.as_ref().map(evidence),
        n_seen: record.selection_n_seen,
        n_items: record.selection_n,
        current: record.current_score,
        best: record.best_score,
        edits: Vec::new(),
        diff: Vec::new(),
        notes: Vec::new(),
        epoch_end: None,
        is_cut: true,
    }
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

fn outcome(action: StepAction) -> &'static str {
    match (action.is_accept(), action.is_skip()) {
        (true, _) => "accepted",
        (false, true) => "skipped",
        (false, false) if action == StepAction::Indecisive => "indecisive",
        (false, false) if action == StepAction::Dropped => "dropped",
        (false, false) if action == StepAction::Taken => "taken",
        (false, false) => "rejected",
    }
}

/// What is known about a candidate beside its score.
pub(super) fn evidence(paired: &PairedRecord) -> String {
    let PairedRecord { wins, losses, ties, .. } = paired;
    let mut said = format!("{wins} improved, {losses} regressed, {ties} the same");
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
    // What was given up early is not a sample, so that only its bounds are known.
    if let Some([low, high]) = paired.bounds {
        let _ = write!(
            said,
            " (partial evaluation); the difference lies from {} to {}",
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

/// The lines in which the best skill differs from the first one.
pub(super) fn change(run: &RunReader) -> Result<Vec<DiffLine>, PipelineError> {
    let best = match run.best_skill() {
        Err(PipelineError::ChangedSkill { .. }) => run.kept_best_skill()?,
        best => best?,
    };
    Ok(difference(run.skill_after(StepIdx(0))?.source_text(), best.source_text()))
}

/// The lines that differ, with a few around them.
pub fn difference(before: &str, after: &str) -> Vec<DiffLine> {
    // A last line without an end is the same line with one.
    let [before, after] = [before, after].map(whole_lines);
    let diff = TextDiff::from_lines(&before, &after);
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

/// A text whose last line ends, too.
pub fn whole_lines(text: &str) -> Cow<'_, str> {
    if text.is_empty() || text.ends_with('\n') {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("{text}\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn a_last_line_without_an_end_is_no_change() {
        let found: Vec<(char, String)> = difference("Write.", "Write.\n\n- Read.\n")
            .into_iter()
            .map(|line| (line.sign, line.text))
            .collect();
        let expect =
            [(' ', "Write."), ('+', ""), ('+', "- Read.")].map(|(sign, text)| (sign, text.to_owned()));
        assert_eq!(found, expect);
        assert!(difference("Write.", "Write.\n").is_empty() && difference("", "").is_empty());
    }
}

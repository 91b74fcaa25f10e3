//! The step memory: what earlier steps tried and what came of it, for every prompt of the optimizer.
//!
//! Each step leaves a [`MemoryEntry`] in `trajectory_digest.json`. Entries are bounded when they are made, and so is
//! what is shown of them: the newest steps that fit. The memory goes on over epochs and is read back on resume.

use crate::records::FORMAT_VERSION;
use crate::records::document::{StepAction, StepRecord};
use crate::records::memory::{EditIssue, EditNote, FailurePattern, MemoryEntry, RememberedEdit};
use crate::settings::MAX_MEMORY_STEPS;
use crate::text::{clip, escape_in_memory, one_line, score_text};
use serde::Serialize;
use skill_core::editor::{EditRow, EditStatus};
use skill_core::rewrite::REWRITE;
use skill_core::{Edit, Patch, RolloutResult};
use std::collections::VecDeque;

/// The most failure patterns that one step leaves.
pub const MAX_PATTERNS: usize = 6;

/// The most edits, and the most notes about edits, that one step leaves.
pub(crate) const MAX_REMEMBERED_EDITS: usize = 12;

/// The most characters of one text of an entry: a description, a target, a content.
pub const MAX_TEXT_CHARS: usize = 400;

fn phrase(issue: EditIssue) -> &'static str {
    match issue {
        EditIssue::AnchorMissed => "Not applied, because its anchor is not in the skill",
        EditIssue::AnchorMissedAppended => "Appended, because its anchor is not in the skill",
        EditIssue::Duplicate => "Not applied, because the skill already says it",
        EditIssue::OverSizeLimit => "Not applied, because the skill would exceed its size limit",
        EditIssue::Protected => "Not applied, because it would change a protected region",
        EditIssue::Pinned => "Not applied, because it would remove a line that the user pinned",
        EditIssue::Forbidden => "Not applied, because the user forbids it",
        EditIssue::ControlCharacters => {
            "Not applied, because its text contains control characters; double every backslash and propose it again"
        }
    }
}

/// What a row of the editor's report tells the optimizer; `None` if the edit did what was meant.
pub fn edit_note(row: &EditRow) -> Option<EditNote> {
    use EditStatus as Status;
    let issue = match row.status {
        Status::SkippedReplaceTargetNotFound | Status::SkippedDeleteTargetNotFound => EditIssue::AnchorMissed,
        Status::AppliedInsertAfterFallbackAppend
        | Status::AppliedInsertAfterFallbackBeforeProtectedRegion => EditIssue::AnchorMissedAppended,
        Status::SkippedDuplicateContent => EditIssue::Duplicate,
        Status::SkippedOverSizeLimit => EditIssue::OverSizeLimit,
        Status::SkippedPinned => EditIssue::Pinned,
        Status::SkippedForbidden => EditIssue::Forbidden,
        Status::SkippedProtectedRegion => EditIssue::Protected,
        Status::SkippedControlCharacters => EditIssue::ControlCharacters,
        Status::AppliedAppend
        | Status::AppliedAppendBeforeProtectedRegion
        | Status::AppliedInsertAfter
        | Status::AppliedReplace
        | Status::AppliedDelete
        | Status::SkippedEmptyContent
        | Status::SkippedReplaceMissingTarget
        | Status::SkippedDeleteMissingTarget
        | Status::SkippedUnknownFile
        | Status::SkippedFileNotEditable
        | Status::SkippedUnknownOp
        | Status::Error => return None,
    };
    let edit = remembered(row.op.as_str(), &row.target, &row.content_preview);
    Some(EditNote { issue, edit, nearest: row.nearest.clone() })
}

fn remembered(op: &str, target: &str, content: &str) -> RememberedEdit {
    let clipped = |text: &str| clip(text, MAX_TEXT_CHARS).into_owned();
    RememberedEdit { op: clipped(op), target: clipped(target), content: clipped(content) }
}

/// An edit as the memory keeps it, with texts of at most [`MAX_TEXT_CHARS`].
pub fn remembered_edit(edit: &Edit) -> RememberedEdit {
    remembered(edit.op.as_str(), &edit.target, &edit.content)
}

/// What a step saw and tried, as far as it has come.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StepTrace {
    n_total: usize,
    n_fail: usize,
    failure_patterns: Vec<FailurePattern>,
    tried: Vec<RememberedEdit>,
    edit_notes: Vec<EditNote>,
}

impl StepTrace {
    /// Takes in the batch: what failed in the analysts' words, or by the environment's reasons where they name none.
    pub fn observe(&mut self, results: &[RolloutResult], patterns: Vec<FailurePattern>) {
        self.n_total = results.len();
        self.n_fail = results.iter().filter(|result| !result.is_success()).count();
        let patterns = if patterns.is_empty() { patterns_of_reasons(results) } else { patterns };
        self.failure_patterns = folded(patterns);
    }

    /// Takes in what is tried.
    pub(crate) fn try_patch(&mut self, patch: &Patch) {
        self.tried = patch.edits.iter().take(MAX_REMEMBERED_EDITS).map(remembered_edit).collect();
    }

    /// Takes in that a whole new skill is tried: its title, and the lines that it changes.
    pub(crate) fn try_rewrite(&mut self, title: &str, changed_lines: &[String]) {
        self.tried = vec![remembered(REWRITE, title, &changed_lines.join("\n"))];
    }

    /// Takes in what became of the edits.
    pub fn report(&mut self, rows: &[EditRow]) {
        self.edit_notes = rows.iter().filter_map(edit_note).take(MAX_REMEMBERED_EDITS).collect();
    }

    /// What the step leaves for the memory, now that it is finished.
    pub fn entry(self, record: &StepRecord) -> MemoryEntry {
        let StepTrace { n_total, n_fail, failure_patterns, tried, edit_notes } = self;
        let is_in_vain = match record.action {
            StepAction::Reject | StepAction::Indecisive | StepAction::SkipNoOp | StepAction::Dropped => true,
            StepAction::AcceptNewBest
            | StepAction::Accept
            | StepAction::ForceAccept
            | StepAction::SkipNoPatches
            | StepAction::SkipNoRewrite
            | StepAction::Taken => false,
        };
        MemoryEntry {
            format_version: FORMAT_VERSION.to_owned(),
            step: record.step,
            epoch: record.epoch,
            action: record.action,
            n_total,
            n_fail,
            failure_patterns,
            score_before: record.score_before,
            score_after: record.candidate_gate_score,
            score_interval: record.selection_interval,
            saved_tokens: record.saving.filter(|saving| saving.n > 0).map(|saving| saving.saved),
            n_measured: record.selection_n_seen.zip(record.selection_n).map(|(seen, n)| [seen, n]),
            rejected_edits: if is_in_vain { tried } else { Vec::new() },
            edit_notes,
        }
    }
}

/// Patterns by the part of each failure's reason before the colon, in order of appearance.
fn patterns_of_reasons(results: &[RolloutResult]) -> Vec<FailurePattern> {
    let reasons = results.iter().filter(|result| !result.is_success()).map(|result| &result.fail_reason);
    reasons
        .filter_map(|reason| reason.split(':').next())
        .map(str::trim)
        .filter(|reason| !reason.is_empty())
        .map(|reason| FailurePattern {
            failure_type: reason.to_owned(),
            count: 1,
            description: String::new(),
        })
        .collect()
}

/// Patterns of the same name as one, the commonest first.
fn folded(patterns: Vec<FailurePattern>) -> Vec<FailurePattern> {
    let mut folded: Vec<FailurePattern> = Vec::new();
    for pattern in patterns {
        let shortened = |text: &str| clip(&one_line(text), MAX_TEXT_CHARS).into_owned();
        let name = shortened(&pattern.failure_type);
        match folded.iter_mut().find(|known| known.failure_type.eq_ignore_ascii_case(&name)) {
            Some(known) => known.count = known.count.saturating_add(pattern.count),
            None => folded.push(FailurePattern {
                failure_type: name,
                count: pattern.count,
                description: shortened(&pattern.description),
            }),
        }
    }
    folded.sort_by_key(|pattern| std::cmp::Reverse(pattern.count));
    folded.truncate(MAX_PATTERNS);
    folded
}

/// The entry as the optimizer reads it: one line says what became of the step, and each further line one thing.
fn render(entry: &MemoryEntry) -> String {
    let mut lines = vec![format!("Step {} (epoch {}): {}", entry.step, entry.epoch, outcome(entry))];
    lines.extend(entry.rejected_edits.iter().map(|edit| format!("- Tried: {}", json(edit))));
    if let Some(saved) = entry.saved_tokens {
        let percent = 100.0 * saved.abs();
        let change = if saved < 0.0 { "more" } else { "fewer" };
        lines.push(format!("- The agent used {percent:.1} % {change} tokens with the edits."));
    }
    if entry.n_fail > 0 {
        lines.push(format!("- {} of {} tasks failed.", entry.n_fail, entry.n_total));
    }
    for FailurePattern { failure_type, count, description } in &entry.failure_patterns {
        let description = if description.is_empty() { String::new() } else { format!(": {description}") };
        lines.push(format!("- Failures ({count}): {failure_type}{description}"));
    }
    for EditNote { issue, edit, nearest } in &entry.edit_notes {
        let nearest = nearest.as_ref().map(|text| format!("; the nearest text is {}", json(text)));
        lines.push(format!("- {}: {}{}", phrase(*issue), json(edit), nearest.unwrap_or_default()));
    }
    escape_in_memory(&lines.join("\n")).into_owned()
}

fn outcome(entry: &MemoryEntry) -> String {
    let before = score_text(entry.score_before);
    let with = |found: &str| match (entry.score_after, entry.score_interval, entry.n_measured) {
        (Some(after), _, _) => {
            format!("{found}; the score was {before} before and {} with the edits.", score_text(after))
        }
        // Only some items were measured, so the score is known as an interval.
        (None, Some([low, high]), Some([seen, n])) => format!(
            "{found} after {seen} of {n} items; the score was {before} before and between {} and {} with the edits.",
            score_text(low),
            score_text(high)
        ),
        (None, _, _) => format!("{found}."),
    };
    match entry.action {
        StepAction::AcceptNewBest => with("accepted as the best so far"),
        StepAction::Accept => with("accepted"),
        StepAction::ForceAccept => with("accepted without a comparison"),
        StepAction::Reject => with("rejected"),
        StepAction::Indecisive => with("not accepted for lack of evidence"),
        StepAction::SkipNoOp if entry.rejected_edits.is_empty() => "no edit was applied.".to_owned(),
        StepAction::SkipNoOp => "the edits changed nothing.".to_owned(),
        StepAction::SkipNoPatches => "no edits were proposed.".to_owned(),
        StepAction::Dropped => "dropped before any comparison.".to_owned(),
        StepAction::Taken => "part of the skill, and not compared yet.".to_owned(),
        StepAction::SkipNoRewrite => "the rewrite produced no new skill.".to_owned(),
    }
}

/// One line of JSON.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("values of the memory serialize")
}

/// What the last steps left, the oldest first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StepMemory {
    entries: VecDeque<MemoryEntry>,
}

impl StepMemory {
    /// The memory of these steps, in order.
    pub fn new(entries: impl IntoIterator<Item = MemoryEntry>) -> Self {
        let mut memory = Self::default();
        entries.into_iter().for_each(|entry| memory.push(entry));
        memory
    }

    /// Remembers a step, and forgets the oldest one if there are too many.
    pub fn push(&mut self, entry: MemoryEntry) {
        self.entries.push_back(entry);
        if self.entries.len() > MAX_MEMORY_STEPS {
            self.entries.pop_front();
        }
    }

    /// The newest steps, at most `n_steps` of them and as many as fit into `max_chars`; empty if none is left.
    pub fn render(&self, n_steps: usize, max_chars: usize) -> String {
        let mut shown = Vec::new();
        let mut left = max_chars;
        for entry in self.entries.iter().rev().take(n_steps) {
            let text = render(entry);
            // With a blank line between two.
            let Some(rest) = left.checked_sub(text.chars().count() + 2) else { break };
            left = rest;
            shown.push(text);
        }
        shown.reverse();
        shown.join("\n\n")
    }
}

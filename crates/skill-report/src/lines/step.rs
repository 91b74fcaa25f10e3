//! Steps and ends of epochs in words.

use super::Tone;
use crate::words::{counted, p_value, percent};
use skill_core::EpochIdx;
use skill_pipeline::records::document::{SavingRecord, StepAction, StepRecord};
use skill_pipeline::records::epoch::{MetaSkillAction, MetaSkillRecord};
use skill_pipeline::records::paired::PairedRecord;
use skill_pipeline::records::proposal::{ComparisonRecord, PlayPurpose, ProposalRecord};
use skill_pipeline::{SlowUpdateAction, SlowUpdateRecord};
use std::fmt::Write as _;

/// How many steps a run has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StepTotal {
    /// Nobody knows.
    #[default]
    Unknown,
    /// So many.
    Exactly(u32),
    /// About so many: a planned search learns it as it goes.
    About(u32),
}

impl StepTotal {
    /// The number, if it is known.
    pub fn number(self) -> Option<u32> {
        match self {
            Self::Unknown => None,
            Self::Exactly(total) | Self::About(total) => Some(total),
        }
    }

    /// The number of a step with the total where it is known, such as `6/12` and `6 (about 12)`.
    pub fn place(self, step: u32) -> String {
        match self {
            Self::Unknown => step.to_string(),
            Self::Exactly(total) => format!("{step:>width$}/{total}", width = total.to_string().len()),
            Self::About(total) => format!("{step} (about {total})"),
        }
    }
}

/// One step in one line: edits proposed and applied, the score before and after, the decision.
pub fn step_line(record: &StepRecord, total: StepTotal) -> String {
    let place = total.place(record.step.0);
    let mut line = match &record.comparison {
        Some(comparison) => format!("step {place}  compares {}", compared_words(comparison)),
        None => format!("step {place}  batch {}", percent(record.rollout_hard)),
    };
    let n_patches = record.n_failure_patches + record.n_success_patches;
    match (record.n_edits_merged, record.n_edits_ranked) {
        // A comparison has no edits of its own.
        _ if record.comparison.is_some() => {}
        (Some(merged), Some(ranked)) if ranked < merged => {
            let _ = write!(line, "  {merged} edits proposed, {ranked} kept");
        }
        (Some(merged), _) => {
            let _ = write!(line, "  {} proposed", counted(merged as u64, "edit"));
        }
        (None, _) => {
            let _ = write!(line, "  {}", counted(n_patches as u64, "patch"));
        }
    }
    if let Some(report) = record.apply_report {
        let _ = write!(line, ", {} applied", report.applied);
        if report.skipped > 0 {
            let _ = write!(line, ", {} skipped", report.skipped);
        }
    }
    let decision = decision_words(record);
    match record.candidate_gate_score {
        Some(score) => {
            let _ = write!(line, "  {} → {}  {decision}", percent(record.score_before), percent(score));
        }
        None => {
            let _ = write!(line, "  {decision}");
            let seen = (record.selection_interval, record.selection_n_seen, record.selection_n);
            line.push_str(&early_words(seen, record.score_before));
        }
    }
    if let (Some(paired), Some(_)) = (&record.paired, record.candidate_gate_score) {
        line.push_str(&tally_words(paired));
    }
    if let Some(saving) = record.saving.filter(|saving| saving.n > 0) {
        line.push_str(&saving_words(saving));
    }
    if let Some(guard) = record.guard.filter(|guard| guard.falls) {
        let _ = write!(
            line,
            ", the second score falls: {} → {}",
            percent(guard.current),
            percent(guard.candidate)
        );
    }
    line
}

/// The proposals of steps 5, 7 and 11 as a comparison names them.
pub fn compared_words(comparison: &ComparisonRecord) -> String {
    let steps: Vec<String> = comparison.proposals.iter().map(|step| step.0.to_string()).collect();
    match steps.split_last() {
        None => "no proposal".to_owned(),
        Some((only, [])) => format!("the proposal of step {only}"),
        Some((last, before)) => format!("the proposals of steps {} and {last}", before.join(", ")),
    }
}

/// ` after 10 of 40 items (cannot beat 77.5 %)`, for a candidate that was not measured whole; else nothing.
fn early_words(seen: (Option<[f64; 2]>, Option<usize>, Option<usize>), before: f64) -> String {
    let (Some([_, most]), Some(seen), Some(n)) = seen else { return String::new() };
    // A rule may ask for more than a higher score.
    let why = match most > before {
        true => format!("at most {}", percent(most)),
        false => format!("cannot beat {}", percent(before)),
    };
    format!(" after {seen} of {n} items ({why})")
}

/// `, 24.0 % fewer tokens`.
fn saving_words(saving: SavingRecord) -> String {
    let change = if saving.saved < 0.0 { "more" } else { "fewer" };
    format!(", {:.1} % {change} tokens", 100.0 * saving.saved.abs())
}

/// The decision, with an explanation if nothing was evaluated.
pub(crate) fn decision_words(record: &StepRecord) -> &'static str {
    let is_checked = |proposal: &ProposalRecord| proposal.plays_for(PlayPurpose::Regression).next().is_some();
    match record.action {
        StepAction::Dropped if record.proposal.as_ref().is_some_and(is_checked) => {
            "dropped: tasks that were solved before regressed"
        }
        StepAction::Dropped => "dropped: it did not solve the tasks that it was made from",
        StepAction::SkipNoOp => "no change: the edits change nothing, so nothing was evaluated",
        StepAction::SkipNoPatches => "no edits: nothing to evaluate",
        StepAction::SkipNoRewrite => "no new skill: nothing to evaluate",
        other => other.words(),
    }
}

/// One step where there is not much room: the score and the decision, which matter most, come first.
pub(crate) fn short_step_line(record: &StepRecord, total: StepTotal) -> String {
    let mut line = format!("{}  {}", total.place(record.step.0), percent(record.current_score));
    let decision = decision_words(record);
    let _ = write!(line, "  {}", decision.split_once(": ").map_or(decision, |(short, _)| short));
    if let Some(report) = record.apply_report {
        let _ = write!(line, ", {} applied", counted(report.applied as u64, "edit"));
    }
    line
}

/// The slow update of an epoch in one line.
pub fn slow_update_line(epoch: EpochIdx, record: &SlowUpdateRecord) -> String {
    let mut line = format!("epoch {} ends", epoch.0);
    if let (Some(before), Some(after)) = (record.prev_hard, record.curr_hard) {
        let _ = write!(line, "  its tasks {} → {}", percent(before), percent(after));
    }
    if let Some(score) = record.candidate_gate_score {
        let _ = write!(line, "  with guidance {} → {}", percent(record.score_before), percent(score));
    }
    let decision = match record.action {
        // The first epoch has nothing to compare with.
        SlowUpdateAction::InjectPlaceholder => return format!("epoch {} done", epoch.0),
        SlowUpdateAction::NoContent => "no guidance: nothing to evaluate",
        other => other.words(),
    };
    let _ = write!(line, "  {decision}");
    if record.candidate_gate_score.is_none() {
        let seen = (record.selection_interval, record.selection_n_seen, record.selection_n);
        line.push_str(&early_words(seen, record.score_before));
    }
    line
}

/// How the items fell, for a step that was measured.
fn tally_words(paired: &PairedRecord) -> String {
    let PairedRecord { wins, losses, .. } = paired;
    let p = paired.mcnemar_p.map(|p| format!(", {}", p_value(p))).unwrap_or_default();
    format!(" ({wins} improved, {losses} regressed{p})")
}

/// The tone of a decision.
pub(crate) fn tone(action: StepAction) -> Tone {
    match action {
        action if action.is_accept() => Tone::Good,
        StepAction::Reject => Tone::Bad,
        StepAction::Indecisive => Tone::Warning,
        action if action.is_skip() || action == StepAction::Dropped => Tone::Faint,
        _ => Tone::Plain,
    }
}

/// The end of an epoch, with what became of its guidance and of the optimizer's notes, where it has any.
pub(super) fn epoch_line(
    epoch: EpochIdx,
    slow_update: Option<&SlowUpdateRecord>,
    meta_skill: Option<&MetaSkillRecord>,
) -> String {
    let line = slow_update
        .map_or_else(|| format!("epoch {} done", epoch.0), |record| slow_update_line(epoch, record));
    match meta_skill.map(|record| record.action) {
        Some(MetaSkillAction::WriteMetaSkill) => line + "; notes written",
        Some(MetaSkillAction::NoContent) => line + "; no notes",
        // The first epoch has nothing to compare with.
        Some(_) | None => line,
    }
}

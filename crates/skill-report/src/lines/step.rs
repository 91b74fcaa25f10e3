//! Steps and ends of epochs in words.

use super::Tone;
use crate::words::counted;
use skill_core::EpochIdx;
use skill_pipeline::records::document::{SavingRecord, StepAction, StepRecord};
use skill_pipeline::records::epoch::{MetaSkillAction, MetaSkillRecord};
use skill_pipeline::records::paired::PairedRecord;
use skill_pipeline::{SlowUpdateAction, SlowUpdateRecord};
use std::fmt::Write as _;

/// One step in one line: edits proposed and applied, the score before and after, the decision.
pub fn step_line(record: &StepRecord, total_steps: u32) -> String {
    let mut line = format!("step {}  batch {:.3}", place(record, total_steps), record.rollout_hard);
    let n_patches = record.n_failure_patches + record.n_success_patches;
    match (record.n_edits_merged, record.n_edits_ranked) {
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
    let decision = decision_words(record.action);
    if let Some(score) = record.candidate_gate_score {
        let _ = write!(line, "  {:.4} → {score:.4}", record.score_before);
    } else if let (Some([_, most]), Some(seen), Some(n)) =
        (record.selection_interval, record.selection_n_seen, record.selection_n)
    {
        let _ = write!(line, "  {:.4} → at most {most:.4} ({seen} of {n} items)", record.score_before);
    }
    let _ = write!(line, "  {decision}");
    if let (Some(paired), Some(_)) = (&record.paired, record.candidate_gate_score) {
        line.push_str(&tally_words(paired));
    }
    if let Some(saving) = record.saving.filter(|saving| saving.n > 0) {
        line.push_str(&saving_words(saving));
    }
    line
}

/// The step number, with the total where `total_steps` is not 0.
fn place(record: &StepRecord, total_steps: u32) -> String {
    match total_steps {
        0 => record.step.to_string(),
        total => format!("{:>width$}/{total}", record.step.0, width = total.to_string().len()),
    }
}

/// `, 24.0 % fewer tokens`.
fn saving_words(saving: SavingRecord) -> String {
    let change = if saving.saved < 0.0 { "more" } else { "fewer" };
    format!(", {:.1} % {change} tokens", 100.0 * saving.saved.abs())
}

/// The decision, with an explanation if nothing was evaluated.
pub fn decision_words(action: StepAction) -> &'static str {
    match action {
        StepAction::SkipNoOp => "no change: the edits change nothing, so nothing was evaluated",
        StepAction::SkipNoPatches => "no edits: nothing to evaluate",
        StepAction::SkipNoRewrite => "no new skill: nothing to evaluate",
        other => other.words(),
    }
}

/// One step where there is not much room: the score and the decision, which matter most, come first.
pub fn short_step_line(record: &StepRecord, total_steps: u32) -> String {
    let mut line = format!("{}  {:.4}", place(record, total_steps), record.current_score);
    let decision = decision_words(record.action);
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
        let _ = write!(line, "  its tasks {before:.3} → {after:.3}");
    }
    if let Some(score) = record.candidate_gate_score {
        let _ = write!(line, "  with guidance {:.4} → {score:.4}", record.score_before);
    } else if let (Some([_, most]), Some(seen), Some(n)) =
        (record.selection_interval, record.selection_n_seen, record.selection_n)
    {
        let _ = write!(
            line,
            "  with guidance {:.4} → at most {most:.4} ({seen} of {n} items)",
            record.score_before
        );
    }
    let decision = match record.action {
        // The first epoch has nothing to compare with.
        SlowUpdateAction::InjectPlaceholder => return format!("epoch {} done", epoch.0),
        SlowUpdateAction::NoContent => "no guidance: nothing to evaluate",
        other => other.words(),
    };
    let _ = write!(line, "  {decision}");
    line
}

/// How the items fell, for a step that was measured.
fn tally_words(paired: &PairedRecord) -> String {
    let PairedRecord { wins, losses, .. } = paired;
    let p = match paired.mcnemar_p {
        Some(p) if p < 0.001 => ", p below 0.001".to_owned(),
        Some(p) => format!(", p {p:.3}"),
        None => String::new(),
    };
    format!(" ({wins} won, {losses} lost{p})")
}

/// The tone of a decision.
pub(crate) fn tone(action: StepAction) -> Tone {
    match action {
        action if action.is_accept() => Tone::Good,
        StepAction::Reject => Tone::Bad,
        StepAction::Indecisive => Tone::Warning,
        action if action.is_skip() => Tone::Faint,
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

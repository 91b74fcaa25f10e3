//! Where the lines of a skill come from, in words.

use crate::table::{Column, counted, harmless, table, terminal_width};
use skillrl::core::ItemId;
use skillrl::pipeline::provenance::{
    Blame, EditEvidence, LineOrigin, PatchSource, SlowUpdateEvidence, StepEvidence,
};
use skillrl::reports::words::percent;
use std::fmt::Write as _;

/// So many items are named where not all are asked for.
const MAX_NAMED_ITEMS: usize = 8;

pub(crate) fn described(blame: &Blame, is_full: bool) -> String {
    let columns = [Column::number("line"), Column::text("from"), Column::text("text")];
    let rows = blame.lines.iter().map(|line| {
        // A table has no room for tabs, whose width depends on where they stand.
        let text = harmless(&line.text).replace('\t', "    ");
        let from = if text.trim().is_empty() { String::new() } else { line.origin.to_string() };
        vec![line.number.to_string(), from, text]
    });
    let mut shown = table(&columns, &rows.collect::<Vec<_>>(), terminal_width());
    for step in &blame.steps {
        let lines = blame.lines.iter().filter(|line| line.origin.step() == Some(step.step));
        let edits: Vec<usize> = lines
            .filter_map(|line| match line.origin {
                LineOrigin::Edit { index, .. } => Some(index),
                _ => None,
            })
            .collect();
        shown.push_str(&step_lines(step, &edits, is_full));
    }
    for slow_update in &blame.slow_updates {
        shown.push_str(&slow_update_lines(slow_update, is_full));
    }
    shown
}

/// What the guidance of an epoch's end is based on.
fn slow_update_lines(evidence: &SlowUpdateEvidence, is_full: bool) -> String {
    let mut text = String::new();
    let after = evidence.score_after.map(|score| format!(" → {}", percent(score))).unwrap_or_default();
    let action = evidence.action.words();
    let (epoch, step) = (evidence.epoch.0, evidence.step);
    let _ = writeln!(
        text,
        "\nslow update of epoch {epoch}, after step {step}: {action}, {}{after}",
        percent(evidence.score_before)
    );
    flips(&mut text, &evidence.won, &evidence.lost, is_full);
    for (category, items) in &evidence.pairs {
        let what = category.as_str().replace('_', " ");
        let _ = writeln!(
            text,
            "  from {} {what}: {}",
            counted(items.len() as u64, "task"),
            named(items, is_full)
        );
    }
    if is_full {
        argument(&mut text, "    ", &evidence.reasoning);
    }
    text
}

fn flips(text: &mut String, won: &[ItemId], lost: &[ItemId], is_full: bool) {
    for (what, items) in [("improved", won), ("regressed", lost)] {
        if !items.is_empty() {
            let _ = writeln!(text, "  {what:<9} {}", named(items, is_full));
        }
    }
}

fn argument(text: &mut String, indent: &str, reasoning: &str) {
    let reasoning = harmless(reasoning.trim());
    if !reasoning.is_empty() {
        let _ = writeln!(text, "{indent}\"{}\"", reasoning.replace('\n', &format!("\n{indent} ")));
    }
}

/// What a step is based on, with those of its edits that the skill still has.
pub(crate) fn step_lines(step: &StepEvidence, edits: &[usize], is_full: bool) -> String {
    let mut text = String::new();
    let after = step.score_after.map(|score| format!(" → {}", percent(score))).unwrap_or_default();
    let action = step.action.words();
    let _ = writeln!(text, "\nstep {}: {action}, {}{after}", step.step, percent(step.score_before));
    flips(&mut text, &step.won, &step.lost, is_full);
    for edit in step.edits.iter().filter(|edit| is_full || edits.contains(&edit.index)) {
        edit_lines(&mut text, edit, is_full);
    }
    text
}

fn edit_lines(text: &mut String, edit: &EditEvidence, is_full: bool) {
    let status = edit.status.map_or(edit.edit.op.as_str(), |status| status.as_str());
    let _ = writeln!(text, "  edit {} ({status})", edit.index);
    let merged = edit.sources.iter().any(|source| !source.is_same);
    if merged {
        let _ = writeln!(text, "    merged from all of these:");
    }
    for source in &edit.sources {
        let _ = writeln!(text, "    {}", seen(source, is_full));
        if is_full {
            argument(text, "      ", &source.reasoning);
        }
    }
}

pub(crate) fn seen(source: &PatchSource, is_full: bool) -> String {
    if source.item_ids.is_empty() {
        return format!("from a minibatch of {}, whose items were not recorded", source.source_type.as_str());
    }
    let n_items = source.item_ids.len() as u64;
    format!("from {}: {}", counted(n_items, source.source_type.as_str()), named(&source.item_ids, is_full))
        .replace("successs", "successes")
}

/// The ids of items, the first few of many.
fn named(items: &[ItemId], is_full: bool) -> String {
    let n_shown = if is_full { items.len() } else { MAX_NAMED_ITEMS };
    let shown: Vec<String> = items.iter().take(n_shown).map(|id| harmless(id.as_str())).collect();
    let more = items.len().saturating_sub(n_shown);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more}", shown.join(", "))
}

//! `skillrl inspect` of a bank: how many skills of which kind, and what a person should know about them.

use crate::banks::format_name;
use crate::banks::tier_name;
use crate::table::{Column, counted, grouped, harmless, table, terminal_width};
use serde_json::json;
use skillrl::bank::format::ReadBank;
use skillrl::bank::{BankSummary, TierSummary};
use skillrl::reports::words::measured;
use skillrl::skills::read_named_bank;
use std::fmt::Write as _;
use std::path::Path;

/// So many groups of near-duplicates are named.
const MAX_GROUPS: usize = 8;

pub(super) fn run(path: &Path, is_json: bool) -> crate::Result {
    let read = read_named_bank(path)?;
    let summary = BankSummary::of(&read.bank);
    if is_json {
        let notes: Vec<String> = read.notes.iter().map(ToString::to_string).collect();
        let value = json!({
            "path": path,
            "kind": "bank",
            "format": read.format.as_str(),
            "bank_version": read.bank.view().version(),
            "summary": summary,
            "notes": notes,
        });
        return crate::command::print_pretty_json(&value);
    }
    crate::command::print(&described(path, &read, &summary))
}

fn described(path: &Path, read: &ReadBank, summary: &BankSummary) -> String {
    let of = |count: fn(&TierSummary) -> u64| summary.tiers.iter().map(count).sum::<u64>();
    let measured = measured(of(|tier| tier.active), summary.unmeasured);
    let mut text = format!(
        "{}: {} of {}: {} active, {measured}; {} waiting; {} retired\n\n",
        path.display(),
        format_name(read.format),
        counted(summary.skills, "skill"),
        grouped(of(|tier| tier.active)),
        grouped(of(|tier| tier.candidate + tier.trial)),
        grouped(of(|tier| tier.retired))
    );
    let columns = [
        Column::text("tier"),
        Column::number("active"),
        Column::number("of them measured"),
        Column::number("trial"),
        Column::number("candidate"),
        Column::number("retired"),
    ];
    let row = |tier: &TierSummary| {
        let counts = [tier.active, tier.measured, tier.trial, tier.candidate, tier.retired];
        std::iter::once(tier_name(&tier.tier)).chain(counts.map(grouped)).collect::<Vec<_>>()
    };
    let rows: Vec<Vec<String>> = summary.tiers.iter().map(row).collect();
    text.push_str(&table(&columns, &rows, terminal_width()));
    text.push('\n');
    if summary.pinned > 0 {
        let _ = writeln!(text, "pinned: {}", counted(summary.pinned, "skill"));
    }
    if let Some(longest) = &summary.longest {
        let id = harmless(longest.id.as_str());
        let _ = writeln!(text, "longest skill: {id}, about {}", counted(longest.tokens, "token"));
    }
    let tokens = counted(summary.tokens_if_all_shown, "token");
    let _ = writeln!(text, "if all active skills were shown: about {tokens}");
    for group in summary.near_duplicates.iter().take(MAX_GROUPS) {
        let ids: Vec<String> = group.iter().map(|id| harmless(id.as_str())).collect();
        let _ = writeln!(text, "titles with the same words: {}", ids.join(", "));
    }
    if let Some(more) = summary.near_duplicates.len().checked_sub(MAX_GROUPS).filter(|more| *more > 0) {
        let _ = writeln!(text, "and {more} more groups of titles with the same words");
    }
    for note in &read.notes {
        let _ = writeln!(text, "note: {}", harmless(&note.to_string()));
    }
    text
}

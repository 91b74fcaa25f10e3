//! The report of `skillrl skill triggers` for people.

use skill_agents::rates::Rate;
use skill_agents::report::{NO_SKILL, QueryRow, Report, SkillRates};
use std::fmt::Write as _;

/// The most characters of a query that are shown.
const MAX_QUERY_CHARS: usize = 70;

/// The report for people.
pub(super) fn described(found: &Report) -> String {
    let mut text = String::new();
    let about: Vec<&str> = found.versions.iter().chain(&found.models).map(String::as_str).collect();
    let about = if about.is_empty() { String::new() } else { format!(" ({})", about.join(", ")) };
    let _ = writeln!(text, "{}{about}: {} of {} runs counted", found.agent, found.counted, found.planned);
    for (name, rates) in &found.skills {
        let SkillRates { recall, false_positives, near_misses, attempted, listing_tokens } = rates;
        let _ = writeln!(text, "\n{name} (about {listing_tokens} tokens in the listing)");
        let _ = writeln!(text, "  recall           {}", shown(recall.as_ref()));
        let _ = writeln!(text, "  false positives  {}", shown(false_positives.as_ref()));
        let _ = writeln!(text, "  near misses      {}", shown(near_misses.as_ref()));
        if *attempted > 0 {
            let _ = writeln!(text, "  asked for and not loaded: {attempted} runs");
        }
    }
    let names: Vec<&str> = found.skills.keys().map(String::as_str).collect();
    for wanted in names.into_iter().map(Some).chain([None]) {
        let rows: Vec<&QueryRow> =
            found.queries.iter().filter(|row| row.skill.as_deref() == wanted).collect();
        if rows.is_empty() {
            continue;
        }
        match wanted {
            Some(name) => {
                let _ =
                    writeln!(text, "\nqueries that should load {name}, with the runs in which it was loaded");
            }
            None => {
                text.push_str("\nqueries that should load no skill, with the runs in which one was loaded\n");
            }
        }
        for row in rows {
            let _ = writeln!(text, "  {}", query(row, found));
        }
    }
    if found.skills.len() > 1 {
        text.push_str("\nloaded (runs) for queries of\n");
        for (wanted, row) in &found.confusions {
            let row: Vec<String> = row.iter().map(|(name, n)| format!("{name} {n}")).collect();
            let _ = writeln!(text, "  {wanted}: {}", row.join(", "));
        }
    }
    if !found.failed.is_empty() {
        text.push('\n');
    }
    for run in &found.failed {
        let _ = writeln!(text, "failed: {} ({}): {}", run.query, run.repetition, run.said());
    }
    if !found.warnings.is_empty() {
        text.push('\n');
    }
    for warning in &found.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    let cost = found.cost.map(|cost| format!(", ${cost:.2}")).unwrap_or_default();
    let _ = writeln!(text, "\n{} tokens in, {} out{cost}", found.input, found.output);
    text
}

fn shown(rate: Option<&Rate>) -> String {
    match rate {
        Some(rate) => format!(
            "{:.0} % [{:.0}, {:.0}] (queries: {}, runs: {})",
            rate.rate * 100.0,
            rate.low * 100.0,
            rate.high * 100.0,
            rate.queries,
            rate.runs
        ),
        None => "not measured".to_owned(),
    }
}

fn query(row: &QueryRow, found: &Report) -> String {
    // No run has more than one load of a skill, and with one skill that should not be loaded this is their number.
    let n_loaded = match &row.skill {
        Some(name) => row.loaded.get(name).copied().unwrap_or(0),
        None => {
            let measured = row.loaded.iter().filter(|(name, _)| found.skills.contains_key(*name));
            measured.map(|(_, n)| *n).max().unwrap_or(0)
        }
    };
    let of = if row.runs == 0 { "not measured".to_owned() } else { format!("{n_loaded} of {}", row.runs) };
    let mut notes = Vec::new();
    if row.near_miss {
        notes.push("near miss".to_owned());
    }
    if let Some(turn) = row.first_turn.filter(|turn| *turn > 1.0) {
        notes.push(format!("first in turn {turn:.1}"));
    }
    let is_told =
        |name: &str| row.skill.as_deref() == Some(name) || (row.skill.is_none() && found.skills.len() == 1);
    let others = row.loaded.iter().filter(|(name, _)| *name != NO_SKILL);
    notes.extend(
        others
            .filter(|(name, _)| !is_told(name) || !found.skills.contains_key(*name))
            .map(|(name, n)| format!("{name} loaded in {n}")),
    );
    let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) };
    let text: String = row.query.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_long = text.chars().count() > MAX_QUERY_CHARS;
    let shown: String = text.chars().take(MAX_QUERY_CHARS).collect();
    format!("{of}  {shown}{}{notes}", if is_long { "…" } else { "" })
}

//! Where each skill of a bank comes from.

use super::{evidence_name, names, tier_name, title_line};
use crate::table::{Column, counted, grouped, harmless, table, terminal_width};
use serde_json::{Value, json};
use skillrl::bank::{Bank, Skill, SkillRef, Version};
use std::fmt::Write as _;
use std::path::Path;

/// Where the skills of a bank come from, or one of them.
pub(crate) fn of_bank(path: &Path, id: Option<&str>, is_json: bool) -> crate::Result {
    let read = super::read(path)?;
    let skills: Vec<&Skill> = match id {
        Some(id) => vec![super::skill(&read.bank, path, id)?],
        None => read.bank.skills().collect(),
    };
    if is_json {
        let skills: Vec<Value> = skills.into_iter().map(value).collect();
        return crate::output::print_pretty_json(&json!({"skills": skills}));
    }
    match (id, skills.first()) {
        (Some(_), Some(skill)) => crate::output::print_wrapped(&described(&read.bank, skill)),
        _ => crate::output::print(&listed(&skills)),
    }
}

fn value(skill: &Skill) -> Value {
    let version = |version: &Version| {
        json!({
            "version": version.number,
            "state": version.state,
            "source": version.source,
            "round": version.round,
            "parents": version.parents,
            "evidence": version.evidence,
        })
    };
    let versions: Vec<Value> = skill.versions.iter().map(version).collect();
    json!({"id": skill.id, "tier": skill.tier, "state": skill.state(), "versions": versions})
}

/// A line for each version.
fn listed(skills: &[&Skill]) -> String {
    let columns = [
        Column::name("version"),
        Column::name("source"),
        Column::number("round"),
        Column::text("made from"),
        Column::text("evidence"),
        Column::text("teacher"),
        Column::text("title"),
    ];
    let row = |skill: &Skill, version: &Version| {
        vec![
            harmless(&SkillRef::new(skill.id.clone(), version.number).to_string()),
            version.source.as_str().to_owned(),
            version.round.to_string(),
            names(&version.parents),
            evidence_name(&version.evidence),
            version.evidence.teacher.as_deref().map(harmless).unwrap_or_default(),
            title_line(version.content.title()),
        ]
    };
    let rows: Vec<Vec<String>> =
        skills.iter().flat_map(|skill| skill.versions.iter().map(|version| row(skill, version))).collect();
    table(&columns, &rows, terminal_width())
}

/// Everything that a skill was made from.
fn described(bank: &Bank, skill: &Skill) -> String {
    let mut text = format!("{}: {}\n", harmless(skill.id.as_str()), tier_name(&skill.tier));
    for version in &skill.versions {
        let _ = writeln!(
            text,
            "\nversion {} ({}): {}\n  source: {}, round {}",
            version.number,
            version.state.as_str(),
            title_line(version.content.title()),
            version.source.as_str(),
            version.round
        );
        for parent in &version.parents {
            let title = bank.version(parent).map(|parent| title_line(parent.content.title()));
            let _ = writeln!(
                text,
                "  made from {}: {}",
                harmless(&parent.to_string()),
                title.unwrap_or_default()
            );
        }
        evidence_lines(&mut text, version);
    }
    let heirs: Vec<SkillRef> = heirs(bank, skill);
    if !heirs.is_empty() {
        let _ = writeln!(text, "\nused for: {}", names(&heirs));
    }
    text
}

fn evidence_lines(text: &mut String, version: &Version) {
    let evidence = &version.evidence;
    let items: Vec<&str> = evidence.items.iter().map(|item| item.as_str()).collect();
    let trajectories: Vec<&str> = evidence.trajectories.iter().map(String::as_str).collect();
    for (name, ids) in [("tasks", items), ("trajectories", trajectories)] {
        if !ids.is_empty() {
            let ids: Vec<String> = ids.into_iter().map(harmless).collect();
            let _ = writeln!(text, "  {name}: {}", ids.join(", "));
        }
    }
    if let Some(teacher) = &evidence.teacher {
        let tokens = evidence.usage.input.saturating_add(evidence.usage.output);
        let _ = writeln!(
            text,
            "  teacher: {}, {}, {} tokens",
            harmless(teacher),
            counted(evidence.calls, "call"),
            grouped(tokens)
        );
    }
    if let Some(prompt) = &evidence.prompt_sha256 {
        let _ = writeln!(text, "  prompt: sha256 {}", harmless(prompt));
    }
}

/// The versions of other skills that were made from this one.
fn heirs(bank: &Bank, skill: &Skill) -> Vec<SkillRef> {
    let others = bank.skills().filter(|other| other.id != skill.id);
    let made_from = |other: &Skill| {
        let of_skill = |version: &&Version| version.parents.iter().any(|parent| parent.skill == skill.id);
        let versions = other.versions.iter().filter(of_skill);
        versions.map(|version| SkillRef::new(other.id.clone(), version.number)).collect::<Vec<_>>()
    };
    others.flat_map(made_from).collect()
}

//! `skillrl bank show`: the skills of a bank by tier, or everything about one.

use super::task::Task;
use crate::args::bank::BankShowArgs;
use crate::banks;
use crate::banks::{evidence_name, measurement, names, state_name, tier_name};
use crate::table::harmless;
use serde_json::{Value, json};
use skillrl::bank::format::ReadBank;
use skillrl::bank::{Bank, Record, Skill, Version};
use std::fmt::Write as _;

pub(super) fn run(args: &BankShowArgs) -> crate::Result {
    let path = &args.bank.bank;
    let task = Task::of(args)?;
    let read = banks::read(path)?;
    if let Some(task) = task {
        return crate::output::print(&task.explain(&read.bank, args.json)?);
    }
    let Some(id) = &args.id else {
        if args.json {
            return crate::output::print_pretty_json(&bank_value(path.display().to_string(), &read));
        }
        return crate::output::print(&banks::listed::listed(&read.bank));
    };
    let skill = banks::skill(&read.bank, path, id)?;
    if args.json {
        return crate::output::print_pretty_json(&skill_value(&read.bank, skill));
    }
    crate::output::print_wrapped(&described(&read.bank, skill))
}

fn bank_value(path: String, read: &ReadBank) -> Value {
    let tiers: Vec<Value> = banks::listed::by_tier(&read.bank)
        .into_iter()
        .map(|(tier, skills)| {
            let skills: Vec<Value> = skills.into_iter().map(skill_row).collect();
            json!({"tier": tier, "skills": skills})
        })
        .collect();
    let notes: Vec<String> = read.notes.iter().map(ToString::to_string).collect();
    json!({
        "path": path,
        "format": read.format.as_str(),
        "bank_version": read.bank.view().version(),
        "round": read.bank.round(),
        "notes": notes,
        "tiers": tiers,
    })
}

fn skill_row(skill: &Skill) -> Value {
    let current = skill.current();
    json!({
        "id": skill.id,
        "state": skill.state(),
        "pinned": skill.is_pinned,
        "measured": current.is_some_and(|version| version.utility.is_some()),
        "utility": current.and_then(|version| version.utility),
        "version": current.map(|version| version.number),
        "versions": skill.versions.len(),
        "title": current.map(|version| version.content.title()),
    })
}

fn skill_value(bank: &Bank, skill: &Skill) -> Value {
    let events: Vec<&Record> = events_of(bank, skill).collect();
    json!({
        "id": skill.id,
        "tier": skill.tier,
        "state": skill.state(),
        "pinned": skill.is_pinned,
        "measured": skill.current().is_some_and(|version| version.utility.is_some()),
        "versions": skill.versions,
        "events": events,
    })
}

fn events_of<'bank>(bank: &'bank Bank, skill: &'bank Skill) -> impl Iterator<Item = &'bank Record> {
    bank.log().iter().filter(|record| super::log::names_skill(&record.event, &skill.id))
}

fn described(bank: &Bank, skill: &Skill) -> String {
    let mut text =
        format!("{}: {}, {}\n", harmless(skill.id.as_str()), tier_name(&skill.tier), state_name(skill));
    for version in skill.versions.iter().rev() {
        version_lines(&mut text, version);
    }
    text.push_str("\nevents\n");
    for record in events_of(bank, skill) {
        let _ = writeln!(text, "  {}", super::log::line(record));
    }
    text
}

fn version_lines(text: &mut String, version: &Version) {
    let _ = writeln!(text, "\nversion {}, {}", version.number, version.state.as_str());
    banks::listed::content_lines(text, &version.content);
    let worth = version.utility.as_ref().map_or_else(|| "not measured".to_owned(), measurement);
    let _ = writeln!(text, "  utility: {worth}");
    let _ = writeln!(text, "  source: {}, round {}", version.source.as_str(), version.round);
    if !version.parents.is_empty() {
        let _ = writeln!(text, "  made from: {}", names(&version.parents));
    }
    let evidence = evidence_name(&version.evidence);
    if !evidence.is_empty() {
        let _ = writeln!(text, "  evidence: {evidence}; `skillrl bank blame` names them");
    }
    if let Some(teacher) = &version.evidence.teacher {
        let _ = writeln!(text, "  teacher: {}", harmless(teacher));
    }
}

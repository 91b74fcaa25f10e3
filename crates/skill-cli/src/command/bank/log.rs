//! `skillrl bank log`: what happened to a bank.

use crate::args::bank::BankLogArgs;
use crate::banks;
use crate::banks::{measurement, one_line, title_line};
use crate::table::{grouped, harmless};
use skillrl::bank::{BankEvent, Basis, Record, SkillRef, log_line};
use skillrl::core::SkillPartId;
use std::fmt::Write as _;

pub(super) fn run(args: &BankLogArgs) -> crate::Result {
    let read = banks::read(&args.bank.bank)?;
    let records = read.bank.log();
    if args.json {
        return crate::output::print(&records.iter().map(log_line).collect::<String>());
    }
    let text: String = records.iter().map(|record| line(record) + "\n").collect();
    crate::output::print_wrapped(if text.is_empty() { "nothing has happened yet\n" } else { &text })
}

/// An event as one line.
pub(super) fn line(record: &Record) -> String {
    format!("{:>4}  round {}  {:<7}  {}", record.n, record.round, record.by.as_str(), what(&record.event))
}

fn what(event: &BankEvent) -> String {
    let id = |skill: &SkillRef| one_line(&skill.to_string());
    match event {
        BankEvent::Imported { format, sha256 } => {
            let start = sha256.get(..12).unwrap_or(sha256);
            format!("read a bank of the format `{}` (sha256 {}…)", harmless(format), harmless(start))
        }
        BankEvent::Proposed { skill, tier, content, source, parents, .. } => {
            let mut text = format!(
                "{} proposed for {} ({}): {}",
                id(skill),
                banks::tier_name(tier),
                source.as_str(),
                title_line(content.title())
            );
            if !parents.is_empty() {
                let _ = write!(text, "; made from {}", banks::names(parents));
            }
            text
        }
        BankEvent::TrialOpened { skill, max_rollouts, .. } => {
            format!("{}: a trial began, of at most {} rollouts", id(skill), grouped(*max_rollouts))
        }
        BankEvent::Measured { skill, occasion, utility, verdict, .. } => {
            let worth = utility.as_ref().map_or_else(|| "no group told anything".to_owned(), measurement);
            let occasion = occasion.as_str().replace('_', " ");
            let verdict = verdict.map(|verdict| format!("; verdict: {}", verdict.as_str()));
            format!("{} measured ({occasion}): {worth}{}", id(skill), verdict.unwrap_or_default())
        }
        BankEvent::Admitted { skill, basis } => format!("{} admitted: {}", id(skill), basis_name(*basis)),
        BankEvent::Revised { skill, from, basis } => {
            format!("{} takes the place of version {from}: {}", id(skill), basis_name(*basis))
        }
        BankEvent::Merged { skill, from, basis } => {
            let from: Vec<String> = from.iter().map(|id| one_line(id.as_str())).collect();
            format!("{} takes the place of {}: {}", id(skill), from.join(", "), basis_name(*basis))
        }
        BankEvent::Pinned { skill } => format!("{} pinned", one_line(skill.as_str())),
        BankEvent::Unpinned { skill } => format!("{} unpinned", one_line(skill.as_str())),
        BankEvent::Retired { skill, reason } => {
            format!("{} retired: {}", id(skill), reason.as_str().replace('_', " "))
        }
        BankEvent::Restored { skill } => format!("{} restored", id(skill)),
        // Events of later versions are refused when the log is read.
        _ => "an event that this program has no words for".to_owned(),
    }
}

fn basis_name(basis: Basis) -> &'static str {
    match basis {
        Basis::Trial => "a trial showed that it helps",
        Basis::Unmeasured => "without a measurement",
        Basis::Person => "a person wanted it",
    }
}

/// Whether an event is about this skill.
pub(super) fn names_skill(event: &BankEvent, id: &SkillPartId) -> bool {
    match event {
        BankEvent::Imported { .. } => false,
        BankEvent::Proposed { skill, parents, .. } => {
            skill.skill == *id || parents.iter().any(|parent| parent.skill == *id)
        }
        BankEvent::Merged { skill, from, .. } => skill.skill == *id || from.contains(id),
        BankEvent::TrialOpened { skill, .. }
        | BankEvent::Measured { skill, .. }
        | BankEvent::Admitted { skill, .. }
        | BankEvent::Revised { skill, .. }
        | BankEvent::Retired { skill, .. }
        | BankEvent::Restored { skill } => skill.skill == *id,
        BankEvent::Pinned { skill } | BankEvent::Unpinned { skill } => skill == id,
        _ => false,
    }
}

//! `skillrl import`: configurations, runs and candidates of other systems.

use crate::args::package::ImportArgs;
use skillrl::import::{ImportKind, ImportOptions, Imported, Unmapped, import};
use std::fmt::Write as _;

/// The most files that are named; a run has hundreds.
const MAX_NAMED: usize = 10;

pub(crate) fn run(args: &ImportArgs) -> anyhow::Result<()> {
    let options = ImportOptions {
        from: args.from.clone(),
        to: args.to.clone(),
        candidate: args.candidate,
        force: args.force,
    };
    let imported = import(&options)?;
    if args.json {
        return super::print(&format!("{}\n", serde_json::to_string(&imported)?));
    }
    super::print(&describe(args, &imported))
}

fn describe(args: &ImportArgs, imported: &Imported) -> String {
    let mut text = format!("read {} from {}\n", imported.kind.describe(), args.from.display());
    let n_others = imported.written.len().saturating_sub(MAX_NAMED);
    for path in imported.written.iter().take(if n_others > 1 { MAX_NAMED } else { usize::MAX }) {
        let _ = writeln!(text, "wrote {}", path.display());
    }
    if n_others > 1 {
        let _ = writeln!(text, "wrote {n_others} more files");
    }
    if !imported.mapped.is_empty() {
        text.push_str("\ntaken:\n");
    }
    for mapped in &imported.mapped {
        let _ = writeln!(text, "  {} -> {}", mapped.key, mapped.to);
    }
    list(&mut text, "without a counterpart", &imported.unmapped);
    list(&mut text, "without a counterpart, and without effect there", &imported.idle);
    let list = imported.written.last().map(|path| path.display().to_string()).unwrap_or_default();
    let _ = writeln!(text, "\nthe same list is in {list}");
    let first = imported.written.first().cloned().unwrap_or_else(|| args.to.clone());
    let to = args.to.display();
    let _ = match imported.kind {
        ImportKind::SkilloptConfig | ImportKind::KrillConfig => {
            let config = first.display();
            writeln!(text, "next: look through {config}, then: skillrl estimate {config}")
        }
        ImportKind::SkillrlConfig => {
            writeln!(text, "next: write the models and the tasks into {}", first.display())
        }
        ImportKind::SkilloptRun | ImportKind::SkillrlRun => {
            writeln!(text, "next: skillrl report {to}, skillrl blame {to}, or skillrl export {to} --to DIR")
        }
        ImportKind::GepaCandidate => {
            let skill = match first.file_name() {
                Some(name) if name == "SKILL.md" => first.parent().unwrap_or(&first).to_owned(),
                _ => first,
            };
            let skill = skill.display();
            writeln!(text, "next: name {skill} as skill.initial, or: skillrl lint {skill}")
        }
    };
    text
}

fn list(text: &mut String, title: &str, entries: &[Unmapped]) {
    if entries.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{title}:");
    for entry in entries {
        let value = if entry.value.is_empty() { String::new() } else { format!(" = {}", entry.value) };
        let _ = writeln!(text, "  {}{value}: {}", entry.key, entry.reason);
    }
}

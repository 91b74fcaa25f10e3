//! `skillrl import`: configurations, runs and candidates of other systems.

use crate::args::package::ImportArgs;
use crate::table::counted;
use skillrl::import::{ImportKind, ImportOptions, Imported, import};
use std::fmt::Write as _;

/// The most files that are named; a run has hundreds.
const MAX_NAMED: usize = 10;

pub(crate) fn run(args: &ImportArgs) -> crate::Result {
    let options = ImportOptions {
        from: args.from.clone(),
        to: args.to.clone(),
        candidate: args.candidate,
        force: args.force,
    };
    let imported = import(&options)?;
    if args.json {
        return super::print_json(&imported);
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
    let list = imported.written.last().map(|path| path.display().to_string()).unwrap_or_default();
    let _ = writeln!(
        text,
        "\n{} taken, {} without a counterpart, {} of them without effect there: {list} has all of them",
        counted(imported.mapped.len() as u64, "key"),
        imported.unmapped.len() + imported.idle.len(),
        imported.idle.len()
    );
    if !imported.missing.is_empty() {
        text.push_str("\nBefore it runs:\n");
    }
    for (number, missing) in (1..).zip(&imported.missing) {
        let _ = writeln!(text, "  {number}. {missing}");
    }
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
            writeln!(text, "next: skillrl report {to}, skillrl blame {to}, or skillrl export {to} --out DIR")
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

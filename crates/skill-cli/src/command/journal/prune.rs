//! `skillrl journal prune`: calls are taken out of a journal that nobody works with.

use crate::args::journal::JournalPruneArgs;
use crate::table::counted;
use skillrl::llm::journal::{Pruned, prune};
use skillrl::pipeline::run_dir::RunDir;
use std::path::Path;

/// What is in the directory of a run, and holds it.
const LOCK_FILE: &str = "run.lock";

pub(super) fn run(args: &JournalPruneArgs) -> crate::Result {
    let filter = super::filter(&args.filter)?;
    if filter.is_everything() && !args.all {
        let error = super::super::CommandError::new("it is not said which calls are to go");
        return Err(error.with_hint("name a --place, a --model or an --outcome, or give --all").into());
    }
    let path = super::path(&args.run.run);
    let reader = super::open(&args.run.run)?;
    let held = if args.dry_run { None } else { hold(&path)? };
    let prunable = reader.prunable(&filter).map_err(super::of_journal)?;
    // The reader's connection has to be gone before the file is made smaller.
    drop(reader);
    let calls = describe(prunable);
    if args.dry_run || prunable == Pruned::default() {
        return super::super::print_wrapped(&format!("would take out of {}: {calls}\n", path.display()));
    }
    let say = super::super::say;
    say(&format!("taking out of {}: {calls}", path.display()));
    say("warning: if a resumed run still needs one of these calls, it is sent and billed again");
    let pruned = prune(&path, &filter).map_err(super::of_journal)?;
    drop(held);
    super::super::print_wrapped(&format!("took out: {}\n", describe(pruned)))
}

/// Holds the run that a journal belongs to; a file that lies alone has nobody who works on it.
fn hold(journal: &Path) -> crate::Result<Option<RunDir>> {
    match journal.parent() {
        Some(dir) if dir.join(LOCK_FILE).is_file() => Ok(Some(RunDir::open(dir)?)),
        Some(_) | None => Ok(None),
    }
}

fn describe(pruned: Pruned) -> String {
    let counted = |count: usize, noun: &str| counted(count as u64, noun);
    let mut text = format!(
        "{}, {}, {} that nothing else has",
        counted(pruned.calls, "call"),
        counted(pruned.results, "finished rollout"),
        counted(pruned.messages, "message")
    );
    if pruned.embeddings > 0 {
        text = format!("{text}, the vectors of {}", counted(pruned.embeddings, "text"));
    }
    text
}

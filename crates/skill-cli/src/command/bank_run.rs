//! Runs that train a bank: where they are, and what commands for documents say of them.

use super::UsageError;
use crate::bank_line::{bank_lines, round_line};
use skillrl::pipeline::bank::read_record;
use skillrl::pipeline::bank::record::{RECORD_FILE, ROUNDS_DIR, RoundRecord};
use skillrl::pipeline::run_dir::{is_bank_run, read_bank_summary};
use std::fmt::Write as _;
use std::path::Path;

/// Refuses a run that trains a bank, where a command knows documents alone.
pub(super) fn refuse(run: &Path, command: &str) -> Result<(), UsageError> {
    if !is_bank_run(run) {
        return Ok(());
    }
    let message = format!("{} trains a bank, and `{command}` is for runs that train a skill", run.display());
    let bank = run.join("bank");
    Err(UsageError::new(message).with_hint(format!(
        "`skillrl status` says where it is, `skillrl bank show {}` and `bank log` what became of its skills",
        bank.display()
    )))
}

/// The rounds of a run so far, and what it came to.
pub(super) fn described(run: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    for record in rounds(run) {
        let _ = writeln!(text, "  {}", round_line(&record));
    }
    if let Some(summary) = read_bank_summary(run).map_err(skillrl::Error::Pipeline)? {
        for line in bank_lines(&summary, run).lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    Ok(text)
}

fn rounds(run: &Path) -> impl Iterator<Item = RoundRecord> {
    let dir = run.join(ROUNDS_DIR);
    (0_u32..)
        .map_while(move |round| read_record(&dir.join(format!("round_{round:04}")).join(RECORD_FILE)).ok())
}

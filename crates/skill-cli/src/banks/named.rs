//! Banks that commands name: read, and refused where no skill of them would be shown.

use crate::error::CommandError;
#[cfg(feature = "weights")]
use crate::table::harmless;
use skillrl::bank::format::ReadBank;
use skillrl::bank::{Bank, State};
use skillrl::pipeline::bank_dir;
use std::path::Path;

/// Reads a bank.
pub(crate) fn read_silently(path: &Path) -> Result<ReadBank, skillrl::Error> {
    if let Err(source) = std::fs::metadata(path) {
        return Err(skillrl::Error::Read { what: "bank", path: path.to_owned(), source });
    }
    Ok(bank_dir::read_bank(path)?)
}

/// Reads a bank whose skills agents are to be shown; one without an active skill is refused.
pub(crate) fn read_shown(path: &Path) -> crate::Result<ReadBank> {
    let read = read_silently(path)?;
    if let Some(message) = shows_nothing(&read.bank, path) {
        let hint = "`skillrl train` tries them with `bank.initial`, and `skillrl distill --admit unmeasured` makes a bank without trials";
        return Err(CommandError::new(message).with_hint(hint).into());
    }
    Ok(read)
}

/// Refuses a bank that cannot be read, and warns of one without an active skill.
#[cfg(feature = "weights")]
pub(crate) fn check_named(path: &Path) -> crate::Result {
    if let Some(message) = shows_nothing(&read_silently(path)?.bank, path) {
        crate::output::say(&format!("warning: {}", harmless(&message)));
    }
    Ok(())
}

/// Says that no skill of a bank is active.
fn shows_nothing(bank: &Bank, path: &Path) -> Option<String> {
    let waiting = bank.skills().filter(|skill| skill.state() == State::Candidate).count();
    bank.view().skills().is_empty().then(|| {
        format!(
            "{} has no active skill, so no task would be shown anything; {waiting} candidates wait for a trial",
            path.display()
        )
    })
}

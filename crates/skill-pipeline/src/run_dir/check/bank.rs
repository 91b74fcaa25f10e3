//! A bank in a run: its log by the hashes in it, and the files that follow from the log by writing them again.

use super::{Checking, Fault, Remedy};
use crate::error::PipelineError;
use crate::records::bank::LOG_FILE;
use crate::run_dir::bank_dir::{SOURCE_FILE, read_bank, read_source, views, views_when_measured};
use skill_bank::format::{BankFormat, Note};
use skill_bank::{Bank, BankError};
use std::path::Path;

impl Checking<'_> {
    /// The bank in this directory; `is_expected` of one that has to be there, and `is_finished` of one that no process
    /// was changing when it was killed.
    pub(super) fn bank(&mut self, dir: &str, is_finished: bool, is_expected: bool) {
        let path = self.run.join(dir);
        let log = format!("{dir}/{LOG_FILE}");
        if !self.run.join(&log).exists() {
            if is_expected {
                self.damaged(&log, Fault::Missing, Remedy::OnlyCopy);
            }
            return;
        }
        let read = match read_bank(&path) {
            Ok(read) => read,
            Err(error) => {
                let detail = match &error {
                    PipelineError::Bank { source, .. } => Some(source.to_string()),
                    _ => None,
                };
                let is_empty = self.run.join(&log).metadata().is_ok_and(|file| file.len() == 0);
                let fault = if is_empty { Fault::Empty } else { Fault::Changed };
                return self.damage_of(&log, fault, Remedy::OnlyCopy, detail.as_deref());
            }
        };
        let is_cut = read.notes.iter().any(|note| matches!(note, Note::CutLog { .. }));
        let is_unchained = read.notes.iter().any(|note| matches!(note, Note::UnchainedLog { .. }));
        if is_cut && is_finished && !self.check.is_training {
            self.damage_of(&log, Fault::Changed, Remedy::OnlyCopy, Some("ends within a line"));
        } else if !is_unchained {
            self.whole(&log);
        }
        // They are written behind the log.
        if !self.check.is_training {
            self.views(dir, &read.bank, is_finished, is_expected);
        }
    }

    /// Notes a file of a bank that no view can be written from.
    fn unusable(&mut self, name: &str, error: &BankError) {
        self.damage_of(name, Fault::Unreadable, Remedy::OnlyCopy, Some(&error.to_string()));
    }

    fn views(&mut self, dir: &str, bank: &Bank, is_finished: bool, is_expected: bool) {
        let path = self.run.join(dir);
        let source_name = format!("{dir}/{SOURCE_FILE}");
        let log = format!("{dir}/{LOG_FILE}");
        let source = match read_source(&path, bank) {
            Ok(source) => source,
            Err(PipelineError::Bank { source, .. }) => return self.unusable(&log, &source),
            Err(error) => return self.unreadable(&source_name, &error, Remedy::OnlyCopy),
        };
        if source.is_some() {
            self.whole(&source_name);
        }
        let source = source.as_ref().map(|(format, text)| (*format, text.as_str()));
        let expected = match views(bank, source) {
            Ok(expected) => expected,
            // What cannot be written again follows from one of the two.
            Err(error) if source.is_some() => return self.unusable(&source_name, &error),
            Err(error) => return self.unusable(&log, &error),
        };
        for (file, text) in expected {
            let name = format!("{dir}/{file}");
            if !is_finished && !is_expected && !self.run.join(&name).exists() {
                continue;
            }
            let run = self.run;
            self.file(&name, Remedy::Resume, |bytes| {
                bytes == text.as_bytes()
                    || !is_finished && is_of_earlier(&run.join(dir), file, bytes, bank, source)
            });
        }
    }
}

/// True if a process was killed between an event and this file, which is that of the events before.
fn is_of_earlier(
    bank_dir: &Path,
    file: &str,
    bytes: &[u8],
    bank: &Bank,
    source: Option<(BankFormat, &str)>,
) -> bool {
    let earlier = views_when_measured(bank_dir, bank, source);
    earlier.iter().flatten().any(|(name, text)| *name == file && text.as_bytes() == bytes)
}

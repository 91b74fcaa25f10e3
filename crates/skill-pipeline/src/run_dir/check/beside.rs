//! Files with a checksum of their own: the page of a run, its warnings, its times, and the spend before a measurement.

use super::{Checking, Fault, Remedy};
use crate::kind::RunKind;
use crate::run_dir::checks::CHECKS_FILE;
use crate::run_dir::measurement::{BANK_EVALUATION_FILE, SPENT_FILE};
use crate::run_dir::path::REPORT_FILE;
use crate::run_dir::read::read_bytes;
use crate::run_dir::seal::{is_page_whole, is_sealed_whole};
use serde::de::IgnoredAny;

/// True if the bytes contain a SHA-256. Files of earlier versions do not, so a file with one and without a readable
/// checksum is damaged.
fn has_hash(bytes: &[u8]) -> bool {
    bytes.split(|byte| !byte.is_ascii_hexdigit()).any(|run| run.len() == 64)
}

impl Checking<'_> {
    /// Checks those of these files that exist: a run without warnings, times, a page or earlier calls has none of them.
    pub(super) fn beside(&mut self) {
        let times = RunKind::ALL.into_iter().filter_map(RunKind::times_file);
        for name in times.chain([CHECKS_FILE]) {
            self.carrying(name, Remedy::NotNeeded, |bytes| match is_sealed_whole(bytes) {
                None if has_hash(bytes) || serde_json::from_slice::<IgnoredAny>(bytes).is_err() => {
                    Some(false)
                }
                is_whole => is_whole,
            });
        }
        for name in [SPENT_FILE, &format!("{BANK_EVALUATION_FILE}.calls/{SPENT_FILE}")] {
            // Earlier versions wrote it without a checksum, and with another hash.
            self.carrying(name, Remedy::NotNeeded, |bytes| match is_sealed_whole(bytes) {
                None if serde_json::from_slice::<IgnoredAny>(bytes).is_err() => Some(false),
                is_whole => is_whole,
            });
        }
        let is_whole = |bytes: &[u8]| match is_page_whole(bytes) {
            // A page of an earlier version ends with its last tag.
            None if !bytes.trim_ascii_end().ends_with(b"</html>") => Some(false),
            is_whole => is_whole,
        };
        self.carrying(REPORT_FILE, Remedy::Report, is_whole);
    }

    /// Checks a file by its own checksum, which files of earlier versions do not have.
    fn carrying(&mut self, name: &str, remedy: Remedy, is_whole: impl FnOnce(&[u8]) -> Option<bool>) {
        if self.is_known(name) {
            return;
        }
        match read_bytes(&self.run.join(name)) {
            Ok(Some(bytes)) => match is_whole(&bytes) {
                Some(true) => self.whole(name),
                Some(false) if bytes.is_empty() => self.damaged(name, Fault::Empty, remedy),
                Some(false) => self.damaged(name, Fault::Changed, remedy),
                None => {}
            },
            Ok(None) => {}
            Err(error) => self.unreadable(name, &error, remedy),
        }
    }
}

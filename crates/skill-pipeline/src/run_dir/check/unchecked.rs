//! What a check has not looked at, so that nobody takes it for whole.

use super::Checking;
use crate::run_dir::path::LOCK_FILE;
use std::fs;
use std::path::Path;

/// How the names of the files end that SQLite keeps beside a journal; a check may leave them there too.
const BESIDE_JOURNALS: [&str; 2] = ["-wal", "-shm"];

impl Checking<'_> {
    /// Lists the files that are neither whole nor damaged.
    pub(super) fn note_unchecked(&mut self) {
        let mut found = Vec::new();
        self.unchecked_in(self.run, "", &mut found);
        found.sort_unstable();
        self.check.not_checked = found;
    }

    /// Adds the files below a directory; returns true if one of them was checked.
    fn unchecked_in(&self, dir: &Path, prefix: &str, found: &mut Vec<String>) -> bool {
        let mut has_checked = false;
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let (n_before, prefix) = (found.len(), format!("{name}/"));
                match self.unchecked_in(&entry.path(), &prefix, found) {
                    true => has_checked = true,
                    false if found.len() > n_before => {
                        found.truncate(n_before);
                        found.push(prefix);
                    }
                    false => {}
                }
            } else if self.is_checked(&name) {
                has_checked = true;
            } else if entry.file_name() == LOCK_FILE && entry.metadata().is_ok_and(|file| file.len() == 0) {
                // The lock file is never written to.
            } else if !BESIDE_JOURNALS.iter().any(|end| self.is_beside(&name, end)) {
                found.push(name);
            }
        }
        has_checked
    }

    fn is_checked(&self, name: &str) -> bool {
        self.whole.contains(name) || self.is_known(name)
    }

    /// True if a file is a part of a journal that was checked.
    fn is_beside(&self, name: &str, end: &str) -> bool {
        name.strip_suffix(end).is_some_and(|journal| self.is_checked(journal))
    }
}

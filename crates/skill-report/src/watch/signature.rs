//! The state of a run's files, to tell whether they changed since the last read.

use skill_pipeline::kind::shown_files;
use skill_pipeline::run_dir::JOURNAL_FILE;
use std::fs::Metadata;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The files of every run that a row depends on; `notes.jsonl` is the human feedback in reports.
const FILES: [&str; 4] = ["config.json", "config.toml", "events.jsonl", "notes.jsonl"];

/// Whether the files of a run are those of before: their times and lengths.
///
/// Of the log of events it is whether there is something in it: it grows all the time, and a row takes one number from it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Signature(Vec<Option<(Duration, u64)>>);

impl Signature {
    pub(crate) fn of(run: &Path) -> Self {
        let state = |name| {
            let metadata = std::fs::metadata(run.join(name)).ok()?;
            Some(if name == "events.jsonl" {
                (Duration::ZERO, metadata.len().min(1))
            } else {
                (modified(&metadata), metadata.len())
            })
        };
        Self(FILES.into_iter().chain(shown_files()).map(state).collect())
    }
}

fn modified(metadata: &Metadata) -> Duration {
    metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default()
}

/// When one of a run's files changed last, in milliseconds since 1970.
pub(crate) fn changed_unix_ms(run: &Path) -> u64 {
    let times = FILES.iter().filter_map(|name| std::fs::metadata(run.join(name)).ok());
    let changed = times.map(|metadata| modified(&metadata)).max().unwrap_or_default();
    u64::try_from(changed.as_millis()).unwrap_or(u64::MAX)
}

/// The time and the length of a file, where it exists.
pub(crate) type FileState = Option<(SystemTime, u64)>;

/// The states of a journal's files.
pub(crate) fn journal_state(run: &Path) -> [FileState; 2] {
    [JOURNAL_FILE.to_owned(), format!("{JOURNAL_FILE}-wal")].map(|name| {
        let metadata = std::fs::metadata(run.join(name)).ok()?;
        Some((metadata.modified().unwrap_or(UNIX_EPOCH), metadata.len()))
    })
}

//! Any file as a journal.

use crate::directory;
use rusqlite::Connection;
use rusqlite::types::Value as Cell;
use skill_llm::journal::{CallFilter, ResultKey, StoredResult};
use skill_llm::{Journal, JournalError, JournalOptions, JournalReader};
use std::path::Path;
use std::sync::OnceLock;

/// A whole journal with one call, as text.
const GOOD: &str = include_str!("../../../crates/skill-llm/tests/data/journal/v5.sql");
/// The columns that a damaged cell can be in.
const CELLS: [(&str, &str); 26] = [
    ("calls", "key"),
    ("calls", "place"),
    ("calls", "occurrence"),
    ("calls", "model"),
    ("calls", "messages"),
    ("calls", "request"),
    ("calls", "outcome"),
    ("calls", "reply"),
    ("calls", "tool_calls"),
    ("calls", "finish"),
    ("calls", "error"),
    ("calls", "input_tokens"),
    ("calls", "output_tokens"),
    ("calls", "finished_at"),
    ("attempts", "number"),
    ("attempts", "waited_us"),
    ("attempts", "took_us"),
    ("attempts", "cached_tokens"),
    ("messages", "role"),
    ("messages", "text"),
    ("messages", "whole"),
    ("models", "parameters"),
    ("models", "name"),
    ("processes", "elapsed_ms"),
    ("results", "content"),
    ("results", "key"),
];

/// Reads and writes a file as a journal: what opens says the same twice, what is refused as none is not touched, and
/// what was committed is there the next time.
///
/// The first byte of the input says what the rest is: the file itself; bytes for places of a good journal (two bytes
/// of place, one of length, the bytes); or values for cells of a good journal (one byte for the column, one for the
/// type, one for the length, the bytes).
pub fn journal(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    let dir = directory();
    let path = dir.path().join("journal.sqlite");
    let mut is_sound = false;
    match kind % 3 {
        0 => std::fs::write(&path, rest).unwrap(),
        1 => std::fs::write(&path, with_bytes(rest)).unwrap(),
        _ => {
            std::fs::write(&path, good()).unwrap();
            change_cells(&path, rest);
            is_sound = true;
        }
    }
    read(&path);
    write(&path, is_sound);
}

fn good() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let dir = directory();
        let path = dir.path().join("journal.sqlite");
        let database = Connection::open(&path).unwrap();
        database.execute_batch(GOOD).unwrap();
        drop(database);
        std::fs::read(&path).unwrap()
    })
}

fn with_bytes(mut changes: &[u8]) -> Vec<u8> {
    let mut file = good().to_vec();
    while let [high, low, len, rest @ ..] = changes {
        let at = (usize::from(*high) * 256 + usize::from(*low)) % file.len();
        let (bytes, left) = rest.split_at(usize::from(*len).min(rest.len()));
        for (byte, new) in file.iter_mut().skip(at).zip(bytes) {
            *byte = *new;
        }
        changes = left;
    }
    file
}

fn change_cells(path: &Path, mut changes: &[u8]) {
    let database = Connection::open(path).unwrap();
    while let [column, kind, len, rest @ ..] = changes {
        let (table, column) = CELLS[usize::from(*column) % CELLS.len()];
        let (bytes, left) = rest.split_at(usize::from(*len).min(rest.len()));
        let number = bytes.iter().fold(0_i64, |number, byte| number.wrapping_mul(256) | i64::from(*byte));
        let value = match kind % 5 {
            0 => Cell::Null,
            1 => Cell::Integer(number),
            2 => Cell::Real(f64::from_bits(number.unsigned_abs())),
            3 => Cell::Text(String::from_utf8_lossy(bytes).into_owned()),
            _ => Cell::Blob(bytes.to_vec()),
        };
        // What the tables themselves refuse cannot be in a file that they made.
        drop(database.execute(&format!("UPDATE {table} SET {column} = ?1"), [value]));
        changes = left;
    }
}

fn is_refusal(error: &JournalError) -> bool {
    matches!(error, JournalError::NotAJournal { .. } | JournalError::OtherSchema { .. })
}

/// Everything that a reader says; the texts of errors stand for themselves.
fn said(reader: &JournalReader) -> Vec<String> {
    let everything = CallFilter::default();
    let failed = CallFilter { outcome: Some("failed".to_owned()), last: Some(1), ..CallFilter::default() };
    let inside = CallFilter { place: Some("step 1".to_owned()), ..CallFilter::default() };
    let calls = reader.calls(&everything);
    let mut exported = Vec::new();
    let n_lines = reader.export(&everything, &mut exported);
    if let Ok(Ok(n_lines)) = n_lines {
        let newlines = exported.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(u64::try_from(newlines).unwrap(), n_lines, "a line of the export is not one line");
        for line in exported.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let line: serde_json::Value = serde_json::from_slice(line).unwrap();
            assert!(line.is_object());
        }
    }
    let mut said = vec![
        format!("{:?}", reader.totals()),
        format!("{:?}", reader.spent()),
        format!("{:?}", reader.calls(&failed)),
        format!("{:?}", reader.calls(&inside)),
        format!("{n_lines:?}"),
        String::from_utf8(exported).unwrap(),
    ];
    for call in calls.iter().flatten() {
        said.push(format!("{:?}", reader.call(call.id)));
    }
    said.push(format!("{calls:?}"));
    said
}

fn read(path: &Path) {
    let before = std::fs::read(path).unwrap();
    match JournalReader::open(path) {
        Ok(reader) => {
            let first = said(&reader);
            assert_eq!(first, said(&reader));
        }
        Err(error) => assert!(!error.hint().is_empty()),
    }
    assert_eq!(std::fs::read(path).unwrap(), before, "reading changed the file");
}

/// Opens the journal to be written, writes a result, and looks for it the next time.
fn write(path: &Path, is_sound: bool) {
    let before = std::fs::read(path).unwrap();
    let journal = match Journal::open(path, JournalOptions::default()) {
        Ok(journal) => journal,
        Err(error) => {
            assert!(
                !is_refusal(&error) || std::fs::read(path).unwrap() == before,
                "{error}: and was changed"
            );
            return;
        }
    };
    let key = ResultKey::new("fuzz", &["1"]);
    let stored = StoredResult { place: "here".to_owned(), content: "{}".to_owned() };
    journal.record_result(key, "fuzz", "1", stored.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let is_committed = runtime.block_on(journal.flush()).is_ok();
    drop(journal);
    if is_sound && is_committed {
        let again = Journal::open(path, JournalOptions::default()).unwrap();
        assert_eq!(*again.result(key).unwrap().unwrap(), stored);
    }
}

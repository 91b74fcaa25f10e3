//! Requests that are in flight, in a small file beside the journal: written before a request is sent, so that a process
//! that is killed loses no count.
//!
//! The journal itself is committed in groups and waits for the disk, which no request can wait for. This file has a slot
//! for each request in flight: its number, its model, and what is reserved for it, later what it used. A write takes
//! microseconds and survives the end of the process; nothing waits for the disk. The slot is free again once the journal
//! has committed the call, whose attempts carry the same numbers. What is left in the file when the journal is opened
//! next was sent by a process that was killed: it becomes rows of the table `unanswered`.
//!
//! The main type is [`SentFile`].
//!
//! # Invariants
//!
//! - A request is on record before it is sent, and its usage is on record before another one may reserve what it
//!   leaves. Held by `a_request_in_flight_is_counted_after_a_kill`,
//!   `a_reply_that_is_not_committed_is_counted_with_what_it_used`.

use super::error::JournalError;
use super::record::{ModelSpent, unix_ms, usage_at};
use crate::attempt::SendRecord;
use crate::error::LlmError;
use crate::regular_file;
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension as _, params};
use skill_core::Usage;
use std::collections::HashSet;
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// What is added to the name of the journal.
const SUFFIX: &str = "-sent";

/// A slot has seven numbers of eight bytes: number, model, start, tokens of the prompt, of the reply, and of the prompt that
/// went to the provider's cache, and a sum of these.
const SLOT_BYTES: usize = 56;
const SUMMED_BYTES: usize = 48;
/// Slots of earlier programs lack the tokens that went to the cache.
const OLD_SLOT_BYTES: usize = 48;

/// More slots than this were never in use.
const MAX_SLOTS: u64 = 1 << 20;

/// A call is committed at most so many calls before its slots are free.
const MAX_BEHIND: i64 = 65_536;

/// The file beside a journal.
pub(super) fn sent_path(journal: &Path) -> PathBuf {
    let mut path = journal.as_os_str().to_owned();
    path.push(SUFFIX);
    PathBuf::from(path)
}

/// A request as its slot holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SentRow {
    /// Never the same twice, in any journal.
    number: i64,
    /// The row of the table `models`.
    model: i64,
    started_at: i64,
    usage: Usage,
}

impl SentRow {
    fn to_bytes(self) -> [u8; SLOT_BYTES] {
        let tokens = |tokens: u64| tokens.to_le_bytes();
        let fields = [
            self.number.to_le_bytes(),
            self.model.to_le_bytes(),
            self.started_at.to_le_bytes(),
            tokens(self.usage.input),
            tokens(self.usage.output),
            tokens(self.usage.cache_written),
        ];
        let mut bytes = [0; SLOT_BYTES];
        let (summed, sum) = bytes.split_at_mut(SUMMED_BYTES);
        summed.copy_from_slice(fields.as_flattened());
        sum.copy_from_slice(&sum_of(summed).to_le_bytes());
        bytes
    }

    /// `None` for a slot that is free, or that was written in part when the machine went down.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (summed, sum) = bytes.split_at_checked(bytes.len().checked_sub(8)?)?;
        let (fields, _) = summed.as_chunks::<8>();
        let (number, model, started_at, input, output, cache_written) = match fields {
            [number, model, started_at, input, output] => (number, model, started_at, input, output, &[0; 8]),
            [number, model, started_at, input, output, cache_written] => {
                (number, model, started_at, input, output, cache_written)
            }
            _ => return None,
        };
        let is_whole = sum == sum_of(summed).to_le_bytes();
        let number = i64::from_le_bytes(*number);
        (number != 0 && is_whole).then(|| Self {
            number,
            model: i64::from_le_bytes(*model),
            started_at: i64::from_le_bytes(*started_at),
            usage: Usage {
                input: u64::from_le_bytes(*input),
                output: u64::from_le_bytes(*output),
                cache_written: u64::from_le_bytes(*cache_written),
                ..Usage::default()
            },
        })
    }
}

/// FNV-1a.
fn sum_of(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Reads the requests recorded in the file beside a journal; none if the file does not exist.
pub(super) fn read(journal: &Path) -> Result<Vec<SentRow>, JournalError> {
    let path = sent_path(journal);
    match std::fs::metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Ok(metadata) if metadata.len() > MAX_SLOTS * SLOT_BYTES as u64 => {
            return Err(JournalError::Corrupt { path, message: "is far too long".to_owned() });
        }
        Ok(_) | Err(_) => {}
    }
    match regular_file::read(&path) {
        Ok(bytes) => Ok(rows_of(&bytes)),
        // Somebody has just taken it away, with nothing in it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(JournalError::sent("read", path, &error)),
    }
}

/// The requests in the slots of a file; their sums say which size the slots have.
fn rows_of(bytes: &[u8]) -> Vec<SentRow> {
    let read = |size: usize| bytes.chunks_exact(size).filter_map(SentRow::from_bytes).collect::<Vec<_>>();
    let rows = read(SLOT_BYTES);
    if rows.is_empty() { read(OLD_SLOT_BYTES) } else { rows }
}

/// Takes what a process that was killed has left in the file into the journal, and the file away.
pub(super) fn absorb(connection: &mut Connection, journal: &Path) -> Result<(), JournalError> {
    let path = sent_path(journal);
    if !path.exists() {
        return Ok(());
    }
    let failed = |source| JournalError::sqlite("write", journal, source);
    let rows = unrecorded(connection, read(journal)?).map_err(failed)?;
    let transaction = connection.transaction().map_err(failed)?;
    for row in rows {
        // A model that the journal does not know is that of another copy of it.
        transaction
            .execute(
                "INSERT INTO unanswered (number, model, started_at, input_tokens, output_tokens, cache_written_tokens) \
                 SELECT ?1, id, ?3, ?4, ?5, ?6 FROM models WHERE id = ?2 ON CONFLICT DO NOTHING",
                params![
                    row.number,
                    row.model,
                    row.started_at,
                    column(row.usage.input),
                    column(row.usage.output),
                    column(row.usage.cache_written)
                ],
            )
            .map_err(failed)?;
    }
    transaction.commit().map_err(failed)?;
    std::fs::remove_file(&path).map_err(|error| JournalError::sent("remove", path, &error))
}

fn column(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}

/// Those that the journal does not count yet: neither with their call nor as unanswered.
fn unrecorded(connection: &Connection, mut rows: Vec<SentRow>) -> rusqlite::Result<Vec<SentRow>> {
    if rows.is_empty() {
        return Ok(rows);
    }
    let mut statement = connection.prepare(
        "SELECT sent FROM attempts WHERE sent IS NOT NULL \
         AND call > (SELECT coalesce(max(id), 0) - ?1 FROM calls) UNION SELECT number FROM unanswered",
    )?;
    let counted = statement.query_map(params![MAX_BEHIND], |row| row.get(0))?;
    let counted = counted.collect::<rusqlite::Result<HashSet<i64>>>()?;
    rows.retain(|row| !counted.contains(&row.number));
    Ok(rows)
}

/// What was sent without any record of an end, by model: by processes that were killed, and now. `sent` is what the file
/// held before anything else was read.
pub(super) fn unanswered(connection: &Connection, sent: Vec<SentRow>) -> rusqlite::Result<Vec<ModelSpent>> {
    let mut all = Vec::new();
    let mut statement = connection.prepare(
        "SELECT provider, name, count(*), CAST(total(input_tokens) AS INTEGER), 0, \
         CAST(total(output_tokens) AS INTEGER), 0, CAST(total(cache_written_tokens) AS INTEGER) FROM unanswered JOIN models ON models.id = unanswered.model \
         GROUP BY provider, name ORDER BY provider, name",
    )?;
    let rows = statement.query_map([], |row| {
        Ok(ModelSpent {
            provider: row.get(0)?,
            model: row.get(1)?,
            requests: row.get::<_, i64>(2)?.unsigned_abs(),
            usage: usage_at(row, 3)?,
            reported: 0.0,
        })
    })?;
    for spent in rows {
        ModelSpent::add_to(&mut all, spent?);
    }
    let mut names = connection.prepare("SELECT provider, name FROM models WHERE id = ?1")?;
    for row in unrecorded(connection, sent)? {
        let named = names.query_row(params![row.model], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        if let Some((provider, model)) = named {
            ModelSpent::add_to(
                &mut all,
                ModelSpent { provider, model, requests: 1, usage: row.usage, reported: 0.0 },
            );
        }
    }
    Ok(all)
}

/// The requests of this process that are in flight.
pub(super) struct SentFile {
    path: PathBuf,
    slots: Mutex<Slots>,
}

struct Slots {
    /// Made with the first request.
    file: Option<File>,
    free: Vec<u64>,
    /// How many slots the file has.
    n_slots: u64,
    next_number: i64,
}

/// A request in its slot, which it keeps until it is released.
#[derive(Debug)]
pub(super) struct Ticket {
    slot: u64,
    row: SentRow,
}

impl Ticket {
    /// What the attempt in the journal carries.
    pub(super) fn number(&self) -> i64 {
        self.row.number
    }
}

impl SentFile {
    /// The file beside this journal, which holds nothing.
    pub(super) fn new(journal: &Path) -> Self {
        // Numbers of another process or another copy of the journal are never the same.
        let random = RandomState::new().hash_one(std::process::id());
        let next_number = i64::try_from(random >> 2).unwrap_or_default().max(1);
        let slots = Slots { file: None, free: Vec::new(), n_slots: 0, next_number };
        Self { path: sent_path(journal), slots: Mutex::new(slots) }
    }

    /// Writes down that a request is about to be sent.
    fn take(&self, model: i64, reserved: Usage) -> Result<Ticket, JournalError> {
        let failed = |error: io::Error| JournalError::sent("write", self.path.clone(), &error);
        let mut slots = self.slots.lock();
        if slots.file.is_none() {
            let made = File::options().write(true).create(true).truncate(true).open(&self.path);
            slots.file = Some(made.map_err(failed)?);
        }
        let number = slots.next_number;
        slots.next_number = number.saturating_add(1);
        let slot = slots.free.pop().unwrap_or(slots.n_slots);
        slots.n_slots = slots.n_slots.max(slot + 1);
        let row = SentRow { number, model, started_at: unix_ms(SystemTime::now()), usage: reserved };
        match slots.write(slot, &row.to_bytes()) {
            Ok(()) => Ok(Ticket { slot, row }),
            Err(error) => {
                // What is there in part does not count.
                slots.free.push(slot);
                Err(failed(error))
            }
        }
    }

    /// Writes what a request used.
    fn settle(&self, ticket: &mut Ticket, used: Usage) {
        ticket.row.usage = used;
        // If it cannot be written, what was reserved stays.
        drop(self.slots.lock().write(ticket.slot, &ticket.row.to_bytes()));
    }

    /// Frees the slots of requests that the journal has committed, or that were never sent.
    pub(super) fn release<'ticket>(&self, tickets: impl IntoIterator<Item = &'ticket Ticket>) {
        let mut slots = self.slots.lock();
        for ticket in tickets {
            // A slot that cannot be written holds a number that the journal has.
            if slots.write(ticket.slot, &0_i64.to_le_bytes()).is_ok() {
                slots.free.push(ticket.slot);
            }
        }
    }

    /// Takes the file away if nothing is in it.
    pub(super) fn close(&self) {
        let mut slots = self.slots.lock();
        let is_empty = u64::try_from(slots.free.len()).is_ok_and(|n_free| n_free == slots.n_slots);
        if slots.file.take().is_some() && is_empty {
            // An empty one does no harm.
            drop(std::fs::remove_file(&self.path));
        }
    }
}

impl Slots {
    fn write(&mut self, slot: u64, bytes: &[u8]) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.seek(SeekFrom::Start(slot * SLOT_BYTES as u64))?;
        file.write_all(bytes)
    }
}

/// The requests of one call.
pub(crate) struct CallSends {
    file: Arc<SentFile>,
    model: i64,
    /// In the order in which they were sent; `None` for what was not sent after all.
    tickets: Mutex<Vec<Option<Ticket>>>,
}

impl CallSends {
    pub(super) fn new(file: Arc<SentFile>, model: i64) -> Self {
        Self { file, model, tickets: Mutex::default() }
    }

    /// The requests that were sent, for the record of the call: the slots are free once that is committed.
    ///
    /// Of a call that is never recorded they stay, and count as unanswered from the next start on.
    pub(super) fn take(&self) -> Vec<Ticket> {
        self.tickets.lock().drain(..).flatten().collect()
    }
}

impl SendRecord for CallSends {
    fn begin(&self, reserved: Usage) -> Result<usize, LlmError> {
        let ticket = self.file.take(self.model, reserved)?;
        let mut tickets = self.tickets.lock();
        tickets.push(Some(ticket));
        Ok(tickets.len() - 1)
    }

    fn settle(&self, request: usize, used: Usage) {
        if let Some(Some(ticket)) = self.tickets.lock().get_mut(request) {
            self.file.settle(ticket, used);
        }
    }

    fn retract(&self, request: usize) {
        let ticket = self.tickets.lock().get_mut(request).and_then(Option::take);
        self.file.release(&ticket);
    }
}

impl std::fmt::Debug for CallSends {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallSends").field("model", &self.model).finish_non_exhaustive()
    }
}

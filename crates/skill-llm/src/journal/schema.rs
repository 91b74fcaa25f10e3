//! The tables of the journal.
//!
//! # Invariants
//!
//! - A journal of another version is refused by its version, never misread. Held by
//!   `what_is_no_journal_is_refused_and_left_alone`, `a_recorded_journal_loads`.

use super::error::JournalError;
use super::sum::note_open;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What marks a SQLite file as one of ours, in its header: "skrl".
const APPLICATION_ID: i32 = 0x736b_726c;

/// How long one connection waits for another.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The size of a page in a new file.
const PAGE_BYTES: i64 = 8 * 1024;

/// How many pages the log may have before they are taken into the database: 32 MiB of a new file.
const CHECKPOINT_PAGES: i64 = 4_096;

/// The most memory for pages that a connection keeps, in KiB: entries are looked up by an index and read once, so pages
/// kept longer are not read again; SQLite's default is 2,000.
const CACHE_KIB: i64 = 512;

/// The tables of a new file.
const TABLES: &str = include_str!("tables.sql");

/// The version that this program reads and writes.
pub const SCHEMA_VERSION: u32 = 5;

/// The hash that the keys of calls are made with, as the table `keys` has it.
const KEY_HASH: &str = "blake3";

/// Opens a journal to be written, and makes it if there is none.
pub(super) fn open_to_write(path: &Path, max_bytes: u64) -> Result<Connection, JournalError> {
    let failed = |source| JournalError::sqlite("open", path, source);
    let mut connection = Connection::open(path).map_err(failed)?;
    configure(&connection).map_err(failed)?;
    let is_empty = check(&connection, path)?;
    // What is refused stays as it is, and nothing is changed before this.
    note_open(path)?;
    // Only a new file takes it: a prompt of some kilobytes then fits on a page, and does not spill onto others.
    connection.pragma_update(None, "page_size", PAGE_BYTES).map_err(failed)?;
    connection.pragma_update(None, "journal_mode", "wal").map_err(failed)?;
    // The pages of an index change with nearly every group: the fewer checkpoints, the less often they are copied.
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES).map_err(failed)?;
    // A committed reply survives the loss of power, not only the end of the process.
    connection.pragma_update(None, "synchronous", "full").map_err(failed)?;
    let page_size: i64 =
        connection.pragma_query_value(None, "page_size", |row| row.get(0)).map_err(failed)?;
    let max_pages = (max_bytes / page_size.max(1).unsigned_abs()).clamp(1, u64::from(u32::MAX - 1));
    let max_pages = i64::try_from(max_pages).unwrap_or(i64::MAX);
    connection.pragma_update(None, "max_page_count", max_pages).map_err(failed)?;
    connection.pragma_update(None, "foreign_keys", true).map_err(failed)?;
    if is_empty {
        make_tables(&mut connection).map_err(failed)?;
    } else {
        add_cache_written(&mut connection).map_err(failed)?;
    }
    Ok(connection)
}

/// Opens a journal that is there, to be read only.
pub(super) fn open_to_read(path: &Path) -> Result<Connection, JournalError> {
    let failed = |source| JournalError::sqlite("open", path, source);
    if !path.is_file() {
        return Err(JournalError::Missing { path: path.to_owned() });
    }
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.len() == 0) {
        // SQLite would take away the log of an empty database, which may be all that is left of one that was cut.
        return Err(JournalError::Empty { path: path.to_owned() });
    }
    match Connection::open_with_flags(path, READ_ONLY).map_err(failed).and_then(|found| to_read(found, path))
    {
        // Readers agree by files that they make, which is not possible where nothing can be written.
        Err(JournalError::Sqlite { is_full: false, .. }) if !has_log(path) => open_unchanging(path),
        Err(JournalError::Sqlite { is_full: false, .. }) if !beside(path, "-shm").exists() => {
            Err(JournalError::Sqlite {
                action: "open",
                path: path.to_owned(),
                message: "it has a -wal file that can only be read where a -shm file can be made beside it; \
                          copy the journal and its -wal file to another directory"
                    .to_owned(),
                is_full: false,
            })
        }
        opened => opened,
    }
}

/// The path of a file that SQLite makes beside a database.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Whether there are commits that the file itself does not hold.
fn has_log(path: &Path) -> bool {
    std::fs::metadata(beside(path, "-wal")).is_ok_and(|log| log.len() > 0)
}

/// As [`open_to_read`], for a look at a journal that nobody works with: then there is no log, and none is made.
pub(super) fn open_at_rest(path: &Path) -> Result<Connection, JournalError> {
    let is_empty = std::fs::metadata(path).is_ok_and(|metadata| metadata.len() == 0);
    if path.to_str().is_none() || !path.is_file() || is_empty || beside(path, "-wal").exists() {
        return open_to_read(path);
    }
    open_unchanging(path)
}

/// Opens a journal that has no log and that nobody changes meanwhile; nothing is made beside it.
fn open_unchanging(path: &Path) -> Result<Connection, JournalError> {
    let name = path.to_string_lossy();
    // Signs that have a meaning in an address.
    let name = name.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    // Two slashes at the beginning would begin the name of a machine.
    let address = format!("file:{}{name}?immutable=1", if name.starts_with('/') { "//" } else { "" });
    let connection = Connection::open_with_flags(address, READ_ONLY | OpenFlags::SQLITE_OPEN_URI)
        .map_err(|source| JournalError::sqlite("open", path, source))?;
    to_read(connection, path)
}

const READ_ONLY: OpenFlags = OpenFlags::SQLITE_OPEN_READ_ONLY.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

fn to_read(connection: Connection, path: &Path) -> Result<Connection, JournalError> {
    let failed = |source| JournalError::sqlite("open", path, source);
    configure(&connection).map_err(failed)?;
    if check(&connection, path)? {
        return Err(JournalError::Empty { path: path.to_owned() });
    }
    show_cache_written(&connection).map_err(failed)?;
    Ok(connection)
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // A negative number is KiB, a positive one pages.
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(())
}

/// True for a journal without tables; refuses what is none, and what a program with other tables or keys wrote.
fn check(connection: &Connection, path: &Path) -> Result<bool, JournalError> {
    let failed = |source| JournalError::sqlite("read", path, source);
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let n_pages = pragma("page_count").map_err(failed)?;
    if n_pages == 0 {
        return Ok(true);
    }
    let application_id = pragma("application_id").map_err(failed)?;
    let version = pragma("user_version").map_err(failed)?;
    // A process that died before its first commit leaves a file with a header and nothing else.
    let n_tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    if n_tables == 0 && version == 0 && (application_id == 0 || application_id == i64::from(APPLICATION_ID)) {
        return Ok(true);
    }
    if application_id != i64::from(APPLICATION_ID) {
        return Err(JournalError::NotAJournal { path: path.to_owned() });
    }
    if version != i64::from(SCHEMA_VERSION) {
        return Err(JournalError::OtherSchema { path: path.to_owned(), found: version });
    }
    let hash: String = connection.query_row("SELECT hash FROM keys", [], |row| row.get(0)).map_err(failed)?;
    if hash != KEY_HASH {
        let message = format!("the table `keys` names the hash `{hash}`, which this program does not know");
        return Err(JournalError::Corrupt { path: path.to_owned(), message });
    }
    Ok(false)
}

/// The tables that count tokens. Those of earlier programs lack the column of tokens written to the provider's cache.
const COUNTING: [&str; 4] = ["calls", "attempts", "pruned", "unanswered"];
const CACHE_WRITTEN: &str = "cache_written_tokens";

fn lacks_cache_written(connection: &Connection, table: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT count(*) FROM pragma_table_info(?1) WHERE name = ?2";
    connection.query_row(sql, [table, CACHE_WRITTEN], |row| row.get::<_, i64>(0)).map(|count| count == 0)
}

/// Adds the missing columns; an earlier program goes on reading and writing the others.
fn add_cache_written(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for table in COUNTING {
        if lacks_cache_written(&transaction, table)? {
            let sql = format!("ALTER TABLE {table} ADD COLUMN {CACHE_WRITTEN} INTEGER NOT NULL DEFAULT 0");
            transaction.execute_batch(&sql)?;
        }
    }
    transaction.commit()
}

/// Lets a reader see the missing columns: a view of the connection comes before the table of its name.
fn show_cache_written(connection: &Connection) -> rusqlite::Result<()> {
    for table in COUNTING {
        if lacks_cache_written(connection, table)? {
            let sql = format!("CREATE TEMP VIEW {table} AS SELECT *, 0 AS {CACHE_WRITTEN} FROM main.{table}");
            connection.execute_batch(&sql)?;
        }
    }
    Ok(())
}

fn make_tables(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(TABLES)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    transaction.commit()
}

//! The tables of the journal, and the way from older ones to these.

use super::error::JournalError;
use super::key::KeyHash;
use super::record::{OLDER_REPLY_COLUMNS, REPLY_COLUMNS};
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

/// What leads from each version to the next, from version 1 on.
const MIGRATIONS: [&str; 4] = [
    include_str!("v1_to_v2.sql"),
    include_str!("v2_to_v3.sql"),
    include_str!("v3_to_v4.sql"),
    include_str!("v4_to_v5.sql"),
];

/// The version that this program writes.
pub const SCHEMA_VERSION: u32 = 5;

/// The oldest version that can be read as it is.
const OLDEST_READABLE: u32 = 1;

/// Opens a journal to be written, and makes it or brings it up to date.
pub(super) fn open_to_write(path: &Path, max_bytes: u64) -> Result<Connection, JournalError> {
    let failed = |source| JournalError::sqlite("open", path, source);
    let mut connection = Connection::open(path).map_err(failed)?;
    configure(&connection).map_err(failed)?;
    let version = check(&connection, path)?;
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
    // A migration replaces tables that others refer to.
    connection.pragma_update(None, "foreign_keys", false).map_err(failed)?;
    migrate(&mut connection, version).map_err(failed)?;
    connection.pragma_update(None, "foreign_keys", true).map_err(failed)?;
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
        return Err(JournalError::OlderSchema { path: path.to_owned(), found: 0 });
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
    let version = check(&connection, path)?;
    if version < OLDEST_READABLE {
        return Err(JournalError::OlderSchema { path: path.to_owned(), found: version });
    }
    Ok(connection)
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // A negative number is KiB, a positive one pages.
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(())
}

/// The version of a journal; refuses what is none, and what a newer program wrote.
fn check(connection: &Connection, path: &Path) -> Result<u32, JournalError> {
    let failed = |source| JournalError::sqlite("read", path, source);
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let n_pages = pragma("page_count").map_err(failed)?;
    if n_pages == 0 {
        return Ok(0);
    }
    let application_id = pragma("application_id").map_err(failed)?;
    let version = pragma("user_version").map_err(failed)?;
    // A process that died before its first commit leaves a file with a header and nothing else.
    let n_tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    if n_tables == 0 && version == 0 && (application_id == 0 || application_id == i64::from(APPLICATION_ID)) {
        return Ok(0);
    }
    if application_id != i64::from(APPLICATION_ID) {
        return Err(JournalError::NotAJournal { path: path.to_owned() });
    }
    match u32::try_from(version) {
        Ok(version) if (1..=SCHEMA_VERSION).contains(&version) => Ok(version),
        Ok(_) | Err(_) => Err(JournalError::NewerSchema { path: path.to_owned(), found: version }),
    }
}

/// The version of the tables as they are in the file.
fn version_of(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Whether a journal keeps what pruned calls had cost; one that is read as an older program left it does not.
pub(super) fn counts_pruned(connection: &Connection) -> rusqlite::Result<bool> {
    Ok(version_of(connection)? >= 3)
}

/// Whether a journal keeps the requests of processes that were killed; one that is read as an older program left it does
/// not.
pub(super) fn counts_unanswered(connection: &Connection) -> rusqlite::Result<bool> {
    Ok(version_of(connection)? >= 4)
}

/// The columns of a reply; a journal that is read as an older program left it has fewer.
pub(super) fn reply_columns(connection: &Connection) -> rusqlite::Result<&'static str> {
    Ok(if version_of(connection)? >= 5 { REPLY_COLUMNS } else { OLDER_REPLY_COLUMNS })
}

/// True if a journal has tables for embeddings; one that is read as an older program left it has none.
pub(super) fn has_embeddings(connection: &Connection) -> rusqlite::Result<bool> {
    Ok(version_of(connection)? >= 5)
}

/// What the keys of a journal's calls are made with.
pub(super) fn key_hash(connection: &Connection, path: &Path) -> Result<KeyHash, JournalError> {
    let failed = |source| JournalError::sqlite("read", path, source);
    if version_of(connection).map_err(failed)? < 2 {
        return Ok(KeyHash::Sha256);
    }
    let name: String = connection.query_row("SELECT hash FROM keys", [], |row| row.get(0)).map_err(failed)?;
    KeyHash::from_name(&name).ok_or_else(|| JournalError::Corrupt {
        path: path.to_owned(),
        message: format!("the table `keys` names the hash `{name}`, which this program does not know"),
    })
}

fn migrate(connection: &mut Connection, version: u32) -> rusqlite::Result<()> {
    if version == 0 {
        return change(connection, TABLES, SCHEMA_VERSION);
    }
    let done = usize::try_from(version - 1).unwrap_or(usize::MAX);
    for (version, sql) in (2_u32..).zip(MIGRATIONS).skip(done) {
        change(connection, sql, version)?;
    }
    Ok(())
}

fn change(connection: &mut Connection, sql: &str, version: u32) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(sql)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", version)?;
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_has_a_way_to_the_next() {
        assert_eq!(MIGRATIONS.len() + 1, usize::try_from(SCHEMA_VERSION).unwrap());
    }
}

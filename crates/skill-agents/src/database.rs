//! OpenCode's sessions as records: one for each part of a message, with its message and session.

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const PARTS: &str = "SELECT part.id, part.time_created, part.data, message.id, message.data, session.id, \
    session.parent_id, session.version, message.time_created FROM part JOIN message ON part.message_id = message.id \
    JOIN session ON message.session_id = session.id ORDER BY message.time_created, message.id, part.id";

/// Records, and how many rows were not records: those whose text is not JSON.
type Parts = (Vec<Value>, usize);

/// The records of a database file; nothing is written into it.
pub(crate) fn of_file(path: &Path, ids: &BTreeSet<String>) -> Result<Parts, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    match Connection::open_with_flags(path, flags).and_then(|connection| parts(&connection, ids)) {
        Ok(records) => Ok(records),
        // A log beside it that a reader may not attach to: a copy of both is read.
        Err(error) => of_copy(path, ids).unwrap_or(Err(error)),
    }
}

fn of_copy(path: &Path, ids: &BTreeSet<String>) -> Option<Result<Parts, rusqlite::Error>> {
    let folder = tempfile::tempdir().ok()?;
    let copy = folder.path().join("copy.db");
    std::fs::copy(path, &copy).ok()?;
    for end in ["-wal", "-shm"] {
        let mut beside = path.as_os_str().to_owned();
        beside.push(end);
        if Path::new(&beside).exists() {
            std::fs::copy(&beside, folder.path().join(format!("copy.db{end}"))).ok()?;
        }
    }
    Some(Connection::open(&copy).and_then(|connection| parts(&connection, ids)))
}

/// The records of a database that was written as SQL.
pub(crate) fn of_dump(sql: &str, ids: &BTreeSet<String>) -> Result<Parts, rusqlite::Error> {
    let connection = Connection::open_in_memory()?;
    connection.execute_batch("PRAGMA foreign_keys = OFF;")?;
    connection.execute_batch(sql)?;
    parts(&connection, ids)
}

fn parts(connection: &Connection, ids: &BTreeSet<String>) -> Result<Parts, rusqlite::Error> {
    let mut statement = connection.prepare(PARTS)?;
    let mut rows = statement.query([])?;
    let (mut records, mut n_other) = (Vec::new(), 0);
    // The session in which a part of a message of this time was first.
    let mut first_in: BTreeMap<(i64, String), String> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let (session, parent): (String, Option<String>) = (row.get(5)?, row.get(6)?);
        let (message, part): (String, String) = (row.get(4)?, row.get(2)?);
        // A fork repeats the history of its parent under new ids, and names no parent.
        match first_in.entry((row.get::<_, i64>(8)?, part.clone())) {
            Entry::Vacant(place) => drop(place.insert(session.clone())),
            Entry::Occupied(place) if *place.get() != session => continue,
            Entry::Occupied(_) => {}
        }
        if !ids.is_empty() && !ids.contains(&session) && !parent.as_ref().is_some_and(|id| ids.contains(id)) {
            continue;
        }
        let parse = |text: &str| serde_json::from_str::<Value>(text);
        let (Ok(message), Ok(part)) = (parse(&message), parse(&part)) else {
            n_other += 1;
            continue;
        };
        records.push(json!({
            "id": row.get::<_, String>(0)?, "time": row.get::<_, i64>(1)?, "part": part,
            "message_id": row.get::<_, String>(3)?, "role": message.get("role"), "message": message,
            "session": session, "parent_session": parent, "version": row.get::<_, Option<String>>(7)?,
        }));
    }
    Ok((records, n_other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_is_not_json_is_counted() {
        let sql = "CREATE TABLE session (id TEXT, parent_id TEXT, version TEXT);
            CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
            CREATE TABLE part (id TEXT, message_id TEXT, time_created INTEGER, data TEXT);
            INSERT INTO session VALUES ('s', NULL, '1');
            INSERT INTO message VALUES ('m', 's', 1, '{\"role\": \"user\"}'), ('n', 's', 2, '{\"role\"');
            INSERT INTO part VALUES ('p', 'm', 1, '{}'), ('q', 'm', 2, '{'), ('r', 'n', 3, '{}');";
        let (records, n_other) = of_dump(sql, &BTreeSet::new()).unwrap();
        assert_eq!((records.len(), n_other), (1, 2));
    }
}

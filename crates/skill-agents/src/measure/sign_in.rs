//! What a run takes over of a person's configuration: the sign-in and the provider of the model, and nothing that acts.
//!
//! Settings files hold both, so of these only the keys that the table names are copied. Tool servers (MCP), hooks,
//! plugins, permissions and memories are left behind; servers follow only where a person asks for them.
//!
//! # Invariants
//!
//! - A key that the table does not name is in no file of a run. Held by
//!   `a_run_takes_over_the_sign_in_and_nothing_that_acts`.

use super::Setup;
use crate::table::{Home, SettingsFile};
use serde_json::{Map, Value};
use skill_core::json::extract;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// The largest settings file that is read.
const MAX_SETTINGS_BYTES: u64 = 16 << 20;

/// Copies the sign-in into a fresh home directory.
///
/// # Errors
///
/// A file that cannot be read or written, and a settings file that is not what its name says.
pub(crate) fn take_over(setup: &Setup, home: &Path) -> io::Result<()> {
    let start = &setup.agent.start;
    for file in &start.sign_in {
        let from = setup.moved.place(&setup.home, file);
        if from.is_file() {
            write_private(&home.join(file), &fs::read(from)?)?;
        }
    }
    for settings in &start.settings_of_user {
        let Some(found) = read(setup, settings)? else { continue };
        let servers = settings.servers.as_ref().filter(|_| setup.with_mcp);
        let mut kept = Map::new();
        for path in settings.keep.iter().chain(servers) {
            if let Some(value) = at(&found, path) {
                put(&mut kept, path, value.clone());
            }
        }
        if !kept.is_empty() {
            write_private(&home.join(&settings.file), written(&settings.file, kept)?.as_bytes())?;
        }
    }
    Ok(())
}

/// The tool servers (MCP) of the person's configuration by their names, which a run has only with `with_mcp`.
///
/// # Errors
///
/// A settings file that cannot be read.
pub fn servers(setup: &Setup) -> io::Result<BTreeMap<String, Value>> {
    let mut found = BTreeMap::new();
    for settings in &setup.agent.start.settings_of_user {
        let Some(path) = &settings.servers else { continue };
        if let Some(Value::Object(servers)) = read(setup, settings)?.as_ref().and_then(|all| at(all, path)) {
            found.extend(servers.clone());
        }
    }
    Ok(found)
}

/// Arguments that give an agent in the person's own home the servers of the person; the file is written into the
/// directory of the run.
///
/// # Errors
///
/// A file that cannot be read or written.
pub(crate) fn server_arguments(setup: &Setup, run: &Path) -> io::Result<Vec<String>> {
    let words = &setup.agent.start.server_arguments;
    if !setup.with_mcp || words.is_empty() || setup.agent.start.home != Home::Own {
        return Ok(Vec::new());
    }
    let path = run.join("servers.json");
    let servers: Map<String, Value> = servers(setup)?.into_iter().collect();
    write_private(&path, serde_json::json!({"mcpServers": servers}).to_string().as_bytes())?;
    Ok(words.iter().map(|word| word.replace("{servers}", &path.display().to_string())).collect())
}

/// A person's settings as one value: those below the home directory, and over them those of the file that a variable
/// names; `None` if there are none.
fn read(setup: &Setup, settings: &SettingsFile) -> io::Result<Option<Value>> {
    let own = read_file(&setup.moved.place(&setup.home, &settings.file), settings)?;
    let named = settings.variable.as_ref().and_then(|name| setup.named_files.get(name));
    let named = named.map(|path| read_file(path, settings)).transpose()?.flatten();
    Ok(match (own, named) {
        (Some(own), Some(named)) => Some(merged(own, named)),
        (own, named) => own.or(named),
    })
}

/// Settings with others over them, key by key.
fn merged(under: Value, over: Value) -> Value {
    match (under, over) {
        (Value::Object(mut under), Value::Object(over)) => {
            for (key, value) in over {
                let value = match under.remove(&key) {
                    Some(known) => merged(known, value),
                    None => value,
                };
                under.insert(key, value);
            }
            Value::Object(under)
        }
        (_, over) => over,
    }
}

/// A settings file as one value; `None` if there is none, or nothing in it.
fn read_file(path: &Path, settings: &SettingsFile) -> io::Result<Option<Value>> {
    if !path.is_file() {
        return Ok(None);
    }
    let wrong = |what: &str| {
        io::Error::new(io::ErrorKind::InvalidData, format!("the settings in {} {what}", path.display()))
    };
    if fs::metadata(path)?.len() > MAX_SETTINGS_BYTES {
        return Err(wrong("are larger than any settings"));
    }
    let text = fs::read_to_string(path)?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    let value = match settings.file.ends_with(".toml") {
        true => toml::from_str::<toml::Table>(&text).ok().and_then(|table| serde_json::to_value(table).ok()),
        // These programs allow comments and trailing commas.
        false => serde_json::from_str(&text)
            .ok()
            .or_else(|| extract(&text, Value::is_object).map(|found| found.value)),
    };
    value.filter(Value::is_object).map(Some).ok_or_else(|| wrong("cannot be read"))
}

/// The value at a path of keys with dots between them.
fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, key| value.get(key))
}

fn put(object: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            object.insert(path.to_owned(), value);
        }
        Some((key, rest)) => {
            let inner = object.entry(key).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

fn written(file: &str, kept: Map<String, Value>) -> io::Result<String> {
    match file.ends_with(".toml") {
        true => toml::to_string(&Value::Object(kept)).map_err(io::Error::other),
        false => Ok(Value::Object(kept).to_string()),
    }
}

/// Writes a file that only its owner may read.
fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    io::Write::write_all(&mut options.open(path)?, bytes)
}

//! Saved states: files by hash, written atomically.
//!
//! A [`StateStore`] is a directory. `objects/` holds files under the SHA-256 of their content, `states/` one manifest
//! for each state under the SHA-256 of the manifest, so equal states are one state, and files that did not change
//! between two states are stored once. A file is written under a temporary name, flushed and renamed; the manifest
//! comes last, so a state that exists is whole. Loading compares every hash.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::TrainError;
use crate::seam::SavedState;

type Result<T> = std::result::Result<T, TrainError>;

/// The version of the manifest that is written; others are refused.
const VERSION: u32 = 1;
/// The largest manifest that is read.
const MAX_MANIFEST_BYTES: u64 = 1 << 20;

/// A directory of saved states.
#[derive(Debug, Clone)]
pub struct StateStore {
    directory: PathBuf,
}

/// A file of a state: its name, such as `weights.safetensors`, and its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateFile {
    /// The name.
    pub name: String,
    /// The content.
    pub bytes: Vec<u8>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    version: u32,
    n_steps: u64,
    files: Vec<Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    hash: String,
    n_bytes: u64,
}

fn hash_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl StateStore {
    /// The store in this directory, which is created when the first state is saved.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// Saves a state after this many optimizer steps.
    ///
    /// # Errors
    /// [`TrainError::Io`] with the file that could not be written; no state exists under the hash then, unless it did
    /// before.
    pub fn save(&self, n_steps: u64, files: &[StateFile]) -> Result<SavedState> {
        let mut entries = Vec::with_capacity(files.len());
        for file in files {
            let hash = hash_of(&file.bytes);
            write(&self.directory.join("objects"), &hash, &file.bytes)?;
            entries.push(Entry { name: file.name.clone(), hash, n_bytes: file.bytes.len() as u64 });
        }
        let manifest = Manifest { version: VERSION, n_steps, files: entries };
        let bytes = serde_json::to_vec(&manifest)
            .map_err(|error| TrainError::State { hash: String::new(), fault: error.to_string() })?;
        let hash = hash_of(&bytes);
        write(&self.directory.join("states"), &hash, &bytes)?;
        Ok(saved(&hash, &manifest))
    }

    /// Reads a state and compares the hash of every file.
    ///
    /// # Errors
    /// [`TrainError::State`] if there is no such state, it is of another version, or a file is missing or changed.
    pub fn load(&self, hash: &str) -> Result<(SavedState, Vec<StateFile>)> {
        let manifest = self.manifest(hash)?;
        let fault = |fault: String| TrainError::State { hash: hash.to_owned(), fault };
        let mut files = Vec::with_capacity(manifest.files.len());
        for entry in &manifest.files {
            let path = self.directory.join("objects").join(&entry.hash);
            let bytes = match std::fs::read(&path) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    return Err(fault(format!("{} is missing", entry.name)));
                }
                Err(error) => return Err(TrainError::io(&path, error)),
            };
            if hash_of(&bytes) != entry.hash {
                return Err(fault(format!("{} was changed", entry.name)));
            }
            files.push(StateFile { name: entry.name.clone(), bytes });
        }
        Ok((saved(hash, &manifest), files))
    }

    /// Removes all states but these, and every file that only removed states use.
    ///
    /// # Errors
    /// [`TrainError::State`] if one of these does not exist, and nothing is removed then; [`TrainError::Io`] for a file
    /// that cannot be removed.
    pub fn retain(&self, hashes: &[&str]) -> Result<()> {
        let mut objects = Vec::new();
        for hash in hashes {
            objects.extend(self.manifest(hash)?.files.into_iter().map(|entry| entry.hash));
        }
        // Manifests go first: a state that exists is whole at any time.
        remove_others(&self.directory.join("states"), |name| hashes.contains(&name))?;
        remove_others(&self.directory.join("objects"), |name| objects.iter().any(|object| object == name))
    }

    fn manifest(&self, hash: &str) -> Result<Manifest> {
        let fault = |fault: &str| TrainError::State { hash: hash.to_owned(), fault: fault.to_owned() };
        if hash.len() != 64 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(fault("this is not a hash"));
        }
        let path = self.directory.join("states").join(hash);
        let size = match std::fs::metadata(&path) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(fault("not found")),
            Err(error) => return Err(TrainError::io(&path, error)),
        };
        if size > MAX_MANIFEST_BYTES {
            return Err(fault("its manifest is too large"));
        }
        let bytes = std::fs::read(&path).map_err(|source| TrainError::io(&path, source))?;
        if hash_of(&bytes) != hash {
            return Err(fault("its manifest was changed"));
        }
        let manifest: Manifest = serde_json::from_slice(&bytes).map_err(|error| fault(&error.to_string()))?;
        if manifest.version != VERSION {
            return Err(fault("its format is of another version"));
        }
        let is_hash = |entry: &Entry| entry.hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        if manifest.files.iter().all(is_hash) { Ok(manifest) } else { Err(fault("its manifest is invalid")) }
    }
}

fn saved(hash: &str, manifest: &Manifest) -> SavedState {
    SavedState {
        hash: hash.to_owned(),
        n_steps: manifest.n_steps,
        n_bytes: manifest.files.iter().map(|entry| entry.n_bytes).sum(),
    }
}

/// Writes a file that has its whole content from the moment it has its name. A file that exists with this content stays.
fn write(directory: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let path = directory.join(name);
    if std::fs::read(&path).is_ok_and(|found| found == bytes) {
        return Ok(());
    }
    std::fs::create_dir_all(directory).map_err(|source| TrainError::io(directory, source))?;
    let temporary = directory.join(format!(".{name}.{}", std::process::id()));
    let written = File::create(&temporary)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .and_then(|()| std::fs::rename(&temporary, &path))
        .and_then(|()| sync_directory(directory));
    written.map_err(|source| {
        // The error that counts is the first one; what is left of the file is of no use.
        let _ = std::fs::remove_file(&temporary);
        TrainError::io(&path, source)
    })
}

/// Puts a new name on the disk; systems whose directories cannot be opened do so themselves.
fn sync_directory(directory: &Path) -> std::io::Result<()> {
    if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
}

fn remove_others(directory: &Path, is_kept: impl Fn(&str) -> bool) -> Result<()> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(TrainError::io(directory, error)),
    };
    for entry in entries {
        let entry = entry.map_err(|source| TrainError::io(directory, source))?;
        if !is_kept(&entry.file_name().to_string_lossy()) {
            let path = entry.path();
            std::fs::remove_file(&path).map_err(|source| TrainError::io(&path, source))?;
        }
    }
    Ok(())
}

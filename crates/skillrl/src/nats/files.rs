//! Files on their way to workers: each is cut into pieces, which are named by their hash.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skill_core::canonical::hex_sha256;
use skill_envs::folder::is_executable;
use skill_nats::{Contents, FetchContent};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Component, Path, PathBuf};

/// The bytes of a piece at most.
const PIECE_BYTES: usize = 4 * 1024 * 1024;
/// The files and bytes that a run may send its workers.
const MAX_FILES: usize = 200_000;
const MAX_BYTES: u64 = 8 * 1024 * 1024 * 1024;

/// A file or a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tree {
    /// Its files by their paths inside it; a file by itself has the path `""` and its own name.
    pub(super) files: Vec<TreeFile>,
    /// Whether it is a file by itself.
    pub(super) is_file: bool,
}

/// A file of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TreeFile {
    /// Its path, with `/` between the names.
    pub(super) path: String,
    /// The hashes of its pieces.
    pub(super) pieces: Vec<String>,
    /// Whether it may be run.
    #[serde(default)]
    pub(super) is_executable: bool,
}

/// Where the pieces are read from.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    places: BTreeMap<String, (PathBuf, u64)>,
    held: BTreeMap<String, Bytes>,
    bytes: u64,
    n_files: usize,
}

impl Pieces {
    /// Adds a text of its own.
    pub(super) fn hold(&mut self, content: Vec<u8>) -> String {
        let hash = hex_sha256(&content);
        self.held.insert(hash.clone(), content.into());
        hash
    }

    /// Reads a file or directory, and remembers where its pieces are.
    pub(super) fn add(&mut self, path: &Path) -> io::Result<Tree> {
        if !path.is_dir() {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            return Ok(Tree { files: vec![self.file(path, name)?], is_file: true });
        }
        let mut files = Vec::new();
        self.walk(path, "", &mut files)?;
        Ok(Tree { files, is_file: false })
    }

    fn walk(&mut self, dir: &Path, inside: &str, files: &mut Vec<TreeFile>) -> io::Result<()> {
        let mut entries = std::fs::read_dir(dir)?.collect::<Result<Vec<_>, _>>()?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
                let message = format!("{} has a name that is not UTF-8", entry.path().display());
                return Err(io::Error::other(message));
            };
            let path = if inside.is_empty() { name } else { format!("{inside}/{name}") };
            // A link to a directory may lead in a circle.
            if entry.file_type()?.is_dir() {
                self.walk(&entry.path(), &path, files)?;
            } else if entry.path().is_file() {
                files.push(self.file(&entry.path(), path)?);
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, name: String) -> io::Result<TreeFile> {
        let mut file = File::open(path)?;
        let (mut pieces, mut offset) = (Vec::new(), 0);
        loop {
            let content = read_piece(&mut file)?;
            if content.is_empty() && !pieces.is_empty() {
                break;
            }
            let (hash, n_bytes) = (hex_sha256(&content), content.len() as u64);
            self.places.entry(hash.clone()).or_insert_with(|| (path.to_owned(), offset));
            pieces.push(hash);
            offset += n_bytes;
            if content.len() < PIECE_BYTES {
                break;
            }
        }
        self.bytes += offset;
        self.n_files += 1;
        if self.bytes > MAX_BYTES || self.n_files > MAX_FILES {
            let message = format!(
                "workers would be sent more than {MAX_FILES} files or {} GB",
                MAX_BYTES / (1024 * 1024 * 1024)
            );
            return Err(io::Error::other(message));
        }
        Ok(TreeFile { path: name, pieces, is_executable: is_executable(path) })
    }
}

fn read_piece(file: &mut File) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.take(PIECE_BYTES as u64).read_to_end(&mut content)?;
    Ok(content)
}

impl Contents for Pieces {
    fn content(&self, hash: &str) -> Option<Bytes> {
        if let Some(content) = self.held.get(hash) {
            return Some(content.clone());
        }
        let (path, offset) = self.places.get(hash)?;
        let read = || {
            let mut file = File::open(path)?;
            file.seek(SeekFrom::Start(*offset))?;
            read_piece(&mut file)
        };
        match read() {
            Ok(content) if hex_sha256(&content) == hash => Some(content.into()),
            Ok(_) => {
                tracing::warn!(path = %path.display(), "a file has changed since the run began, and is not sent");
                None
            }
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "a file cannot be read any longer, and is not sent");
                None
            }
        }
    }
}

/// Copies a tree into the cache unless it is cached; returns the local path that replaces the driver's.
pub(super) async fn bring(tree: &Tree, cache: &Path, contents: &dyn FetchContent) -> Result<PathBuf, String> {
    let description = serde_json::to_vec(tree).map_err(|error| error.to_string())?;
    let place = cache.join(hex_sha256(&description));
    let failed = |what: &str, error: io::Error| format!("{what} {}: {error}", place.display());
    if !place.is_dir() {
        // Whole or not at all: several workers may share the cache.
        std::fs::create_dir_all(cache).map_err(|error| failed("cannot make the cache of", error))?;
        let made = tempfile::tempdir_in(cache).map_err(|error| failed("cannot make", error))?;
        for file in &tree.files {
            let path = inside(&file.path)
                .ok_or_else(|| format!("the driver sends a file with the path {:?}", file.path))?;
            write_file(&made.path().join(path), file, contents).await?;
        }
        let made = made.keep();
        if let Err(error) = std::fs::rename(&made, &place) {
            // Another worker was quicker.
            drop(std::fs::remove_dir_all(&made));
            if !place.is_dir() {
                return Err(failed("cannot make", error));
            }
        }
    }
    match tree.files.as_slice() {
        [file] if tree.is_file => Ok(place.join(&file.path)),
        _ => Ok(place),
    }
}

/// A path that stays where it is put.
fn inside(path: &str) -> Option<PathBuf> {
    let path = PathBuf::from(path);
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    (is_plain && path.components().next().is_some()).then_some(path)
}

async fn write_file(path: &Path, file: &TreeFile, contents: &dyn FetchContent) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot write {}: {error}", path.display());
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    let mut written = File::create(path).map_err(failed)?;
    for piece in &file.pieces {
        let content = contents.fetch(piece).await?;
        written.write_all(&content).map_err(failed)?;
    }
    #[cfg(unix)]
    if file.is_executable {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use parking_lot::Mutex;

    struct Fetched<'a> {
        pieces: &'a Pieces,
        asked: Mutex<Vec<String>>,
    }

    #[async_trait]
    impl FetchContent for Fetched<'_> {
        async fn fetch(&self, hash: &str) -> Result<Bytes, String> {
            self.asked.lock().push(hash.to_owned());
            self.pieces.content(hash).ok_or_else(|| "no content".to_owned())
        }
    }

    #[tokio::test]
    async fn files_arrive_as_they_were_and_once() {
        let (there, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir_all(there.path().join("data/deep")).unwrap();
        let large = vec![7_u8; PIECE_BYTES + 3];
        for (path, content) in
            [("data/a.txt", b"alpha".as_slice()), ("data/empty", b""), ("data/deep/b", &large)]
        {
            std::fs::write(there.path().join(path), content).unwrap();
        }
        let mut pieces = Pieces::default();
        let tree = pieces.add(&there.path().join("data")).unwrap();
        let single = pieces.add(&there.path().join("data/a.txt")).unwrap();
        let contents = Fetched { pieces: &pieces, asked: Mutex::default() };
        let place = bring(&tree, here.path(), &contents).await.unwrap();
        assert_eq!(std::fs::read(place.join("a.txt")).unwrap(), b"alpha");
        assert_eq!(std::fs::read(place.join("empty")).unwrap(), b"");
        assert_eq!(std::fs::read(place.join("deep/b")).unwrap(), large);
        let n_asked = contents.asked.lock().len();
        assert_eq!(bring(&tree, here.path(), &contents).await.unwrap(), place);
        assert_eq!(contents.asked.lock().len(), n_asked, "nothing is sent twice");
        let file = bring(&single, here.path(), &contents).await.unwrap();
        assert_eq!(std::fs::read(file).unwrap(), b"alpha");
    }

    #[tokio::test]
    async fn a_file_that_has_changed_is_not_sent_and_no_path_leaves_the_cache() {
        let (there, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = there.path().join("a.txt");
        std::fs::write(&path, "alpha").unwrap();
        let mut pieces = Pieces::default();
        let tree = pieces.add(&path).unwrap();
        std::fs::write(&path, "beta").unwrap();
        let contents = Fetched { pieces: &pieces, asked: Mutex::default() };
        bring(&tree, here.path(), &contents).await.unwrap_err();
        for bad in ["../a", "/etc/a", "a/../../b", ""] {
            let files = vec![TreeFile { path: bad.to_owned(), pieces: Vec::new(), is_executable: false }];
            bring(&Tree { files, is_file: false }, here.path(), &contents).await.unwrap_err();
        }
        assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 0);
    }
}

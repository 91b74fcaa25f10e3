//! Saved weights by the name that clients give them.
//!
//! `states/` holds the weights by hash, `names/MODEL/KIND/NAME.json` says which state has a name. A name is given once.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use skill_llm::regular_file;
use skill_train::TrainError;
use skill_train::checkpoint::StateStore;

/// The ending of the file of a name.
const ENDING: &str = "json";
/// The most characters of a name.
const MAX_NAME: usize = 128;

/// What weights were saved for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// To go on training from them.
    Training,
    /// To sample from them.
    Sampler,
}

impl Kind {
    fn folder(self) -> &'static str {
        match self {
            Self::Training => "weights",
            Self::Sampler => "sampler_weights",
        }
    }
}

/// A name of saved weights.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Saved {
    pub(super) hash: String,
    pub(super) base_model: String,
    pub(super) rank: usize,
    pub(super) targets: Vec<String>,
}

/// Where weights are, as clients name them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Address {
    pub(super) model_id: String,
    pub(super) name: String,
}

#[derive(Debug)]
pub(super) struct Checkpoints {
    directory: PathBuf,
    store: StateStore,
}

impl Checkpoints {
    pub(super) fn open(directory: PathBuf) -> Result<Self, TrainError> {
        std::fs::create_dir_all(&directory)
            .map_err(|source| TrainError::Io { path: directory.clone(), source })?;
        let store = StateStore::new(directory.join("states"));
        Ok(Self { directory, store })
    }

    pub(super) fn store(&self) -> StateStore {
        self.store.clone()
    }

    /// The address in `tinker://MODEL/weights/NAME`, `tinker://MODEL/sampler_weights/NAME` or `tinker://MODEL/NAME`,
    /// the last of which means weights for sampling.
    pub(super) fn parse(path: &str, kind: Kind) -> Option<Address> {
        let rest = path.strip_prefix("tinker://")?;
        let parts: Vec<&str> = rest.split('/').collect();
        let (model_id, name) = match (parts.as_slice(), kind) {
            ([model_id, folder, name], kind) if *folder == kind.folder() => (*model_id, *name),
            ([model_id, name], Kind::Sampler) => (*model_id, *name),
            _ => return None,
        };
        let is_sound = is_name(model_id) && is_name(name);
        is_sound.then(|| Address { model_id: model_id.to_owned(), name: name.to_owned() })
    }

    pub(super) fn path(address: &Address, kind: Kind) -> String {
        format!("tinker://{}/{}/{}", address.model_id, kind.folder(), address.name)
    }

    fn file(&self, address: &Address, kind: Kind) -> PathBuf {
        let names = self.directory.join("names").join(&address.model_id).join(kind.folder());
        names.join(format!("{}.{ENDING}", address.name))
    }

    pub(super) fn exists(&self, address: &Address, kind: Kind) -> bool {
        self.file(address, kind).exists()
    }

    /// What a name is of; `None` if nothing was saved by it.
    pub(super) fn find(&self, address: &Address, kind: Kind) -> Result<Option<Saved>, TrainError> {
        read(self.file(address, kind))
    }

    /// One of the saved weights of a model.
    pub(super) fn any_of(&self, model_id: &str) -> Result<Option<Saved>, TrainError> {
        if !is_name(model_id) {
            return Ok(None);
        }
        let names = self.directory.join("names").join(model_id);
        for kind in [Kind::Training, Kind::Sampler] {
            let folder = names.join(kind.folder());
            let failed = |source| TrainError::Io { path: folder.clone(), source };
            let files = match std::fs::read_dir(&folder) {
                Ok(files) => files,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            };
            for file in files {
                let path = file.map_err(failed)?.path();
                // A process that was killed leaves half of a file beside it.
                let is_name = path.extension().is_some_and(|ending| ending == ENDING);
                if let Some(saved) = if is_name { read(path)? } else { None } {
                    return Ok(Some(saved));
                }
            }
        }
        Ok(None)
    }

    pub(super) fn note(&self, address: &Address, kind: Kind, saved: &Saved) -> Result<(), TrainError> {
        let path = self.file(address, kind);
        let bytes = serde_json::to_vec_pretty(saved).expect("the keys of records are texts");
        let folder = path.parent().map_or_else(|| self.directory.clone(), Path::to_path_buf);
        let beside = path.with_extension("new");
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&beside, bytes))
            .and_then(|()| std::fs::rename(&beside, &path))
            .map_err(|source| TrainError::Io { path, source })
    }
}

/// The record in a file; `None` if there is none.
fn read(path: PathBuf) -> Result<Option<Saved>, TrainError> {
    let failed = |source| TrainError::Io { path: path.clone(), source };
    let Some(bytes) = regular_file::read_if_there(&path).map_err(failed)? else { return Ok(None) };
    let parsed = serde_json::from_slice(&bytes);
    parsed.map(Some).map_err(|error| failed(io::Error::new(ErrorKind::InvalidData, error)))
}

/// True for a name that can be one of a file: letters, digits, `-`, `_` and `.`, which does not come first.
pub(super) fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=MAX_NAME).contains(&text.len()) && !text.starts_with('.') && text.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_cannot_be_read_is_not_a_name_that_is_free() {
        let directory = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::open(directory.path().to_owned()).unwrap();
        let address = Address { model_id: "m1".to_owned(), name: "w1".to_owned() };
        let path = checkpoints.file(&address, Kind::Training);
        let found = || {
            let found = [checkpoints.find(&address, Kind::Training), checkpoints.any_of("m1")];
            found.map(|found| match found {
                Ok(saved) => Ok(saved.map(|saved| saved.rank)),
                Err(TrainError::Io { path, .. }) => Err(path),
                Err(other) => panic!("{other:?}"),
            })
        };
        assert_eq!(found(), [Ok(None), Ok(None)]);
        assert!(checkpoints.any_of("../m1").unwrap().is_none());
        let saved = Saved { hash: "h".to_owned(), base_model: "b".to_owned(), rank: 3, targets: Vec::new() };
        checkpoints.note(&address, Kind::Training, &saved).unwrap();
        std::fs::write(path.with_extension("new"), "{").unwrap();
        assert_eq!(found(), [Ok(Some(3)), Ok(Some(3))]);
        std::fs::write(&path, "{").unwrap();
        assert_eq!(found(), [Err(path.clone()), Err(path.clone())]);
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert_eq!(found(), [Err(path.clone()), Err(path.clone())]);
    }

    #[test]
    fn addresses_name_a_model_and_weights_and_no_other_file() {
        let parsed =
            |path: &str, kind| Checkpoints::parse(path, kind).map(|found| (found.model_id, found.name));
        let expect = Some(("m1".to_owned(), "w1".to_owned()));
        assert_eq!(parsed("tinker://m1/weights/w1", Kind::Training), expect);
        assert_eq!(parsed("tinker://m1/w1", Kind::Sampler), expect);
        assert_eq!(parsed("tinker://m1/sampler_weights/w1", Kind::Sampler), expect);
        for path in [
            "tinker://m1/w1",
            "tinker://m1/sampler_weights/w1",
            "tinker://../weights/w1",
            "tinker://m1/weights/..",
            "tinker://m1/weights/a/b",
            "/m1/weights/w1",
        ] {
            assert_eq!(parsed(path, Kind::Training), None, "{path}");
        }
    }
}

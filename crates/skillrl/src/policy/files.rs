//! The files of a policy that this machine has trained.

use async_trait::async_trait;
use skill_llm::regular_file;
use skill_train::TrainError;
use skill_train::local::LocalBackend;
use skill_weights::policy::{PolicyFile, PolicyWriter};
use std::path::{Path, PathBuf};

/// Writes the model of a back end with the texts of its base: a peft adapter, or merged safetensors.
pub(crate) struct LocalPolicy {
    backend: LocalBackend,
    base: PathBuf,
}

impl LocalPolicy {
    pub(crate) fn new(backend: LocalBackend, base: &Path) -> Self {
        Self { backend, base: base.to_owned() }
    }
}

/// The file of a model's tokenizer.
pub(super) const TOKENIZER_FILE: &str = "tokenizer.json";
/// Files of a model's folder that stay as they are.
const TEXT_FILES: [&str; 7] = [
    TOKENIZER_FILE,
    "tokenizer_config.json",
    "chat_template.jinja",
    "generation_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "LICENSE",
];

#[async_trait]
impl PolicyWriter for LocalPolicy {
    async fn files(&self) -> Result<Vec<PolicyFile>, TrainError> {
        let model = self.backend.model();
        let mut files: Vec<PolicyFile> =
            model.adapter_files()?.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
        if files.is_empty() {
            files.push(("model.safetensors".to_owned(), model.base_file()?));
            let path = self.base.join("config.json");
            let bytes = regular_file::read(&path).map_err(|source| TrainError::Io { path, source })?;
            files.push(("config.json".to_owned(), bytes));
        }
        files.extend(texts_of_base(&self.base)?);
        Ok(files)
    }
}

/// The files of a model's folder that a policy takes over as they are, as far as it has them.
pub(crate) fn texts_of_base(base: &Path) -> Result<Vec<PolicyFile>, TrainError> {
    let mut files = Vec::new();
    for name in TEXT_FILES {
        let path = base.join(name);
        match regular_file::read_if_there(&path) {
            Ok(Some(bytes)) => files.push((name.to_owned(), bytes)),
            Ok(None) => {}
            Err(source) => return Err(TrainError::Io { path, source }),
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without its template a policy would be another model.
    #[test]
    fn a_text_that_cannot_be_read_is_not_absent() {
        let base = tempfile::tempdir().unwrap();
        std::fs::write(base.path().join(TOKENIZER_FILE), "{}").unwrap();
        let names: Vec<String> =
            texts_of_base(base.path()).unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, [TOKENIZER_FILE]);
        std::fs::create_dir(base.path().join("chat_template.jinja")).unwrap();
        match texts_of_base(base.path()) {
            Err(TrainError::Io { path, .. }) => assert_eq!(path, base.path().join("chat_template.jinja")),
            other => panic!("{other:?}"),
        }
    }
}

//! What coding agents came to on the cases of a skill, as it is kept in the directory of their measurements.

use crate::error::OfFile as _;
use serde_json::Value;
use skillrl::pipeline::PipelineError;
use skillrl::pipeline::run_dir::read_bytes;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The outcome of an agent, in its directory: what `--json` prints of it (`outcome`), and its `text`.
pub(crate) const OUTCOME_FILE: &str = "outcome.json";

/// The outcomes in a directory of measurements, by agent; empty for any other directory.
///
/// # Errors
///
/// A directory or an outcome that cannot be read: the others would look like all of them.
pub(crate) fn outcomes_in(dir: &Path) -> crate::Result<Vec<Value>> {
    let mut folders: Vec<PathBuf> = vec![dir.to_owned()];
    match std::fs::read_dir(dir) {
        Ok(entries) => {
            for entry in entries {
                folders.push(entry.reading(dir.display())?.path());
            }
        }
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
        Err(error) => return Err(error).reading(dir.display()),
    }
    folders.sort();
    let mut outcomes = Vec::new();
    for folder in folders {
        let path = folder.join(OUTCOME_FILE);
        let Some(bytes) = read_bytes(&path)? else { continue };
        outcomes.push(
            serde_json::from_slice(&bytes)
                .map_err(|error| PipelineError::Corrupt { path, message: format!("is not JSON: {error}") })?,
        );
    }
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit_code;

    #[test]
    fn an_outcome_that_cannot_be_read_is_not_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let outcomes = |place: &str| outcomes_in(&path(place)).map_err(|error| error.code());
        assert_eq!((outcomes("nowhere"), outcomes(".")), (Ok(Vec::new()), Ok(Vec::new())));
        for agent in ["codex", "pi"] {
            std::fs::create_dir(path(agent)).unwrap();
            std::fs::write(path(agent).join(OUTCOME_FILE), format!("\"{agent}\"")).unwrap();
        }
        assert_eq!(outcomes("."), Ok(vec!["codex".into(), "pi".into()]));
        assert_eq!((outcomes("pi"), outcomes("pi/outcome.json")), (Ok(vec!["pi".into()]), Ok(Vec::new())));
        std::fs::write(path("pi/outcome.json"), "{").unwrap();
        assert_eq!(outcomes("."), Err(exit_code::RUN_DIR));
        std::fs::remove_file(path("pi/outcome.json")).unwrap();
        std::fs::create_dir(path("pi/outcome.json")).unwrap();
        assert!(outcomes(".").is_err());
    }
}

//! `SHA256SUMS`: the hashes of the files of a trained policy, in its folder, so that they go wherever it goes.
//!
//! The form is that of `sha256sum`, which verifies the folder too: `cd policy && sha256sum -c SHA256SUMS`.

use super::atomic::{failed, write};
use super::read::{hash_of_file, read_bytes};
use crate::error::PipelineError;
use skill_core::canonical::hex_sha256;
use std::io::ErrorKind;
use std::path::Path;

/// The name of the file.
pub const HASHES_FILE: &str = "SHA256SUMS";

/// What is between a hash and a name.
const BETWEEN: &str = "  ";

/// The text of the file for these files.
pub fn hashes_text(files: &[(String, Vec<u8>)]) -> String {
    files.iter().map(|(name, bytes)| line(name, &hex_sha256(bytes))).collect()
}

fn line(name: &str, hash: &str) -> String {
    format!("{hash}{BETWEEN}{name}\n")
}

/// Writes the hashes of these files of a folder, which may be larger than memory.
///
/// # Errors
///
/// A file that cannot be read or written.
pub fn write_hashes<'name>(
    dir: &Path,
    names: impl IntoIterator<Item = &'name str>,
) -> Result<(), PipelineError> {
    let mut text = String::new();
    for name in names {
        let path = dir.join(name);
        text.push_str(&line(name, &hash_of_file(&path).map_err(failed("read", &path))?.hex()));
    }
    write(&dir.join(HASHES_FILE), text.as_bytes())
}

/// The names and the hashes of a text of this form; `None` for another text.
pub(super) fn parse_hashes(text: &str) -> Option<Vec<(&str, &str)>> {
    let lines = text.strip_suffix('\n')?.split('\n');
    lines
        .map(|line| {
            let (hash, name) = line.split_once(BETWEEN)?;
            let is_hash = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
            let is_name = !name.is_empty() && !name.contains(['/', '\\']) && name != "..";
            (is_hash && is_name).then_some((name, hash))
        })
        .collect()
}

/// Verifies that the files of a policy are those that training wrote; returns false for a folder without hashes.
///
/// # Errors
///
/// [`PipelineError::ChangedFile`] for a file that is missing or was changed, and a file that cannot be read.
pub fn verify_policy(policy: &Path) -> Result<bool, PipelineError> {
    let path = policy.join(HASHES_FILE);
    let Some(bytes) = read_bytes(&path)? else { return Ok(false) };
    let text = String::from_utf8_lossy(&bytes);
    let Some(files) = parse_hashes(&text) else { return Err(PipelineError::ChangedFile { path }) };
    for (name, hash) in files {
        let path = policy.join(name);
        // Weights may be larger than what is read whole.
        match hash_of_file(&path) {
            Ok(found) if found.hex() == hash => {}
            Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Err(failed("read", &path)(error));
            }
            Ok(_) | Err(_) => return Err(PipelineError::ChangedFile { path }),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn every_change_to_a_policy_is_found() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!verify_policy(dir.path()).unwrap(), "there are no hashes");
        let files =
            [("config.json".to_owned(), b"{}".to_vec()), ("a b.safetensors".to_owned(), vec![0, 1, 2])];
        for (name, bytes) in &files {
            fs::write(dir.path().join(name), bytes).unwrap();
        }
        fs::write(dir.path().join(HASHES_FILE), hashes_text(&files)).unwrap();
        assert!(verify_policy(dir.path()).unwrap());
        let names = files.iter().map(|(name, _)| name.as_str()).chain([HASHES_FILE]);
        for path in names.map(|name| dir.path().join(name)) {
            let whole = fs::read(&path).unwrap();
            for at in 0..whole.len() {
                let mut changed = whole.clone();
                changed[at] ^= 1;
                fs::write(&path, changed).unwrap();
                let found = verify_policy(dir.path());
                assert!(
                    matches!(found, Err(PipelineError::ChangedFile { .. })),
                    "{}, byte {at}",
                    path.display()
                );
            }
            fs::write(&path, &whole[..whole.len() - 1]).unwrap();
            assert!(verify_policy(dir.path()).is_err(), "{}", path.display());
            fs::write(&path, whole).unwrap();
        }
        fs::remove_file(dir.path().join("config.json")).unwrap();
        assert!(verify_policy(dir.path()).is_err());
    }
}

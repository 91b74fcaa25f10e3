//! The content of files among the words of a command, by their hash.

use crate::regular_file::too_large;
use skill_core::canonical::RunningSha256;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;

/// The largest file that is read for its hash: 4 GiB.
const MAX_BYTES: u64 = 1 << 32;
const READ_BYTES: usize = 64 * 1024;

/// The SHA-256 of the file at this path; `None` if the word is not the name of a file: nothing or a directory is there,
/// or it cannot be a path.
///
/// # Errors
///
/// A file that cannot be read, or is too large, as [`ErrorKind::FileTooLarge`].
pub fn file_hash(path: &Path) -> io::Result<Option<String>> {
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if is_no_path(error.kind()) => return Ok(None),
        Err(error) => return Err(error),
    };
    if !metadata.is_file() {
        return Ok(None);
    }
    let (mut file, mut hash, mut bytes) = (File::open(path)?, RunningSha256::default(), vec![0; READ_BYTES]);
    loop {
        let n_read = match file.read(&mut bytes) {
            Ok(n_read) => n_read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let Some(part) = bytes.get(..n_read).filter(|part| !part.is_empty()) else {
            return Ok(Some(hash.hex()));
        };
        hash.update(part);
        if hash.n_bytes() > MAX_BYTES {
            return Err(too_large(MAX_BYTES));
        }
    }
}

/// True for words that name nothing: options, long texts, texts with a zero byte.
fn is_no_path(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NotFound
            | ErrorKind::NotADirectory
            | ErrorKind::InvalidFilename
            | ErrorKind::InvalidInput
            | ErrorKind::IsADirectory
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use skill_core::canonical::hex_sha256;

    #[test]
    fn only_what_is_not_a_file_has_no_hash() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("score.py");
        std::fs::write(&path, "print(1)").unwrap();
        assert_eq!(file_hash(&path).unwrap(), Some(hex_sha256(b"print(1)")));
        let long = "x".repeat(5000);
        for word in ["--fast", "", "score.py/below", "a\0b", &long] {
            assert_eq!(file_hash(&dir.path().join(word)).unwrap(), None, "{word:?}");
        }
        #[cfg(unix)]
        {
            // A symbolic link to itself exists and is unreadable for every user, including root.
            let circle = dir.path().join("circle");
            std::os::unix::fs::symlink(&circle, &circle).unwrap();
            assert_ne!(file_hash(&circle).unwrap_err().kind(), ErrorKind::NotFound);
        }
    }
}

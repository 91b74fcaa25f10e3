//! Files that programs have written and that are read again: only regular ones, within a limit.
//!
//! What lies in a directory of runs may come from elsewhere. A named pipe there would never answer, a device or a link to
//! one would never end, and then one run would hold up all others that are shown beside it.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;

/// The most bytes of a file that is read whole: 2 GiB.
const MAX_BYTES: u64 = 1 << 31;

/// Opens a file for reading.
///
/// # Errors
///
/// A file that cannot be opened, and what is no regular file once links are resolved, as [`ErrorKind::InvalidInput`].
pub fn open(path: &Path) -> io::Result<File> {
    // Before it is opened, since opening a named pipe waits for a writer.
    if fs::metadata(path)?.is_file() { File::open(path) } else { Err(not_regular()) }
}

/// The bytes of a file.
///
/// # Errors
///
/// Those of [`open`], and a file of more than 2 GiB, as [`ErrorKind::FileTooLarge`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let n_bytes = file.metadata()?.len();
    let mut bytes = Vec::with_capacity(usize::try_from(n_bytes.min(MAX_BYTES)).unwrap_or_default());
    // One byte more than allowed tells a file that is too long, also where it grows.
    file.take(MAX_BYTES.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|n_bytes| n_bytes > MAX_BYTES) {
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("has more than {MAX_BYTES} bytes")));
    }
    Ok(bytes)
}

/// The text of a file in UTF-8.
///
/// # Errors
///
/// Those of [`read`], and bytes that are no text, as [`ErrorKind::InvalidData`].
pub fn read_to_string(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

fn not_regular() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "is not a regular file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        fs::write(&path, "two\nlines").unwrap();
        assert_eq!(read_to_string(&path).unwrap(), "two\nlines");
        assert_eq!(read(&dir.path().join("none")).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(read(dir.path()).unwrap_err().kind(), ErrorKind::InvalidInput);
        fs::write(&path, [0xff]).unwrap();
        assert_eq!(read_to_string(&path).unwrap_err().kind(), ErrorKind::InvalidData);
        #[cfg(unix)]
        {
            let (linked, endless) = (dir.path().join("linked"), dir.path().join("endless"));
            std::os::unix::fs::symlink(&path, &linked).unwrap();
            std::os::unix::fs::symlink("/dev/zero", &endless).unwrap();
            assert_eq!(read(&linked).unwrap(), [0xff]);
            assert_eq!(read(&endless).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    }
}

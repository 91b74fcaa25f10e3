//! Reads files that programs have written: regular files only, up to a limit.
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
/// A file that cannot be opened, and anything but a regular file (links are followed), as [`ErrorKind::InvalidInput`].
pub fn open(path: &Path) -> io::Result<File> {
    // Before it is opened, since opening a named pipe waits for a writer.
    match fs::metadata(path)?.is_file() {
        true => File::open(path),
        false => Err(io::Error::new(ErrorKind::InvalidInput, "is not a regular file")),
    }
}

/// The bytes of a file.
///
/// # Errors
///
/// Those of [`open`], and a file of more than 2 GiB, as [`ErrorKind::FileTooLarge`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    bytes_up_to(open(path)?, MAX_BYTES)
}

/// The bytes of a file that may be absent, as `None`.
///
/// # Errors
///
/// Those of [`read`], but for a path at which nothing is.
pub fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        // Below a file there is none.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The text of a file in UTF-8.
///
/// # Errors
///
/// Those of [`read`], and bytes that are not UTF-8, as [`ErrorKind::InvalidData`].
pub fn read_to_string(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

/// The bytes of an open file of at most this many; a larger one is [`ErrorKind::FileTooLarge`].
pub(crate) fn bytes_up_to(file: File, max_bytes: u64) -> io::Result<Vec<u8>> {
    let n_bytes = file.metadata()?.len();
    if n_bytes > max_bytes {
        return Err(too_large(max_bytes));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(n_bytes).unwrap_or_default());
    // A pipe has no length, and a file may grow: one byte more than allowed tells that there are too many.
    file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    match u64::try_from(bytes.len()).is_ok_and(|n_bytes| n_bytes > max_bytes) {
        true => Err(too_large(max_bytes)),
        false => Ok(bytes),
    }
}

pub(crate) fn too_large(max_bytes: u64) -> io::Error {
    io::Error::new(ErrorKind::FileTooLarge, format!("has more than {max_bytes} bytes"))
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
        let if_there = |path: &Path| read_if_there(path).map_err(|error| error.kind());
        assert_eq!(if_there(&path).unwrap().as_deref(), Some(&b"two\nlines"[..]));
        assert_eq!([if_there(&dir.path().join("none")), if_there(&path.join("below"))], [Ok(None), Ok(None)]);
        assert_eq!(if_there(dir.path()), Err(ErrorKind::InvalidInput));
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

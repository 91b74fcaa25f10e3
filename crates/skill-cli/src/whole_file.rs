//! Files that are written whole or not at all: on a full disk what was there before stays, and nothing half is left.
//!
//! A run's own files are written by `run_dir::atomic`; these are the user's, so what they may hold is written piece by
//! piece, their permissions stay, a link stays a link, and a device is written to.

use crate::error::{OfFile as _, Result};
use skillrl::core::canonical::hex_sha256;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Writes a file beside its place and puts it there at the end; a device or a pipe is written to.
pub(crate) fn write<T>(path: &Path, write: impl FnOnce(&mut dyn Write) -> Result<T>) -> Result<T> {
    if path.metadata().is_ok_and(|file| !file.is_file()) {
        let mut out = BufWriter::new(File::create(path).writing(path)?);
        let written = write(&mut out)?;
        out.flush().writing(path)?;
        return Ok(written);
    }
    // Where a link leads, and not in place of the link.
    let place = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let parent = place.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let prefix = format!(".writing-{}-", hex_sha256(name.as_bytes()).get(..8).unwrap_or_default());
    remove_left_over(parent, &prefix);
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // Those of a new file, as the user's mask has it.
        let before = place.metadata().map(|file| file.permissions());
        builder.permissions(before.unwrap_or_else(|_| std::fs::Permissions::from_mode(0o666)));
    }
    let file = builder.tempfile_in(parent).writing(path)?;
    // Held while it is written; without locks, what a kill leaves stays.
    let _ = file.as_file().try_lock();
    let mut out = BufWriter::new(file);
    let written = write(&mut out)?;
    let file = out.into_inner().map_err(std::io::IntoInnerError::into_error).writing(path)?;
    file.as_file().sync_all().writing(path)?;
    file.persist(&place).map_err(|error| error.error).writing(path)?;
    Ok(written)
}

/// Removes what killed processes have left of the same file.
fn remove_left_over(parent: &Path, prefix: &str) {
    for entry in parent.read_dir().into_iter().flatten().flatten() {
        let is_own = entry.file_name().to_string_lossy().starts_with(prefix);
        if is_own && File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok()) {
            // It is in nobody's way if it cannot be removed.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_goes_and_what_another_one_writes_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("traces.jsonl");
        let names = || {
            let entries = dir.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name());
            let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
            names.sort();
            names
        };
        let left = write(&path, |_| Ok(names())).unwrap().remove(0);
        assert!(left.starts_with(".writing-"), "{left}");
        for name in [left.as_str(), ".writing-other"] {
            std::fs::write(dir.path().join(name), "half").unwrap();
        }
        let held = File::open(dir.path().join(&left)).unwrap();
        held.try_lock().unwrap();
        write(&path, |out| out.write_all(b"whole").writing(&path)).unwrap();
        assert_eq!(names(), [left.as_str(), ".writing-other", "traces.jsonl"].map(str::to_owned));
        drop(held);
        write(&path, |out| out.write_all(b"whole").writing(&path)).unwrap();
        assert_eq!(names(), [".writing-other", "traces.jsonl"]);
    }
}

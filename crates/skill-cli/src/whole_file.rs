//! Files that are written whole or not at all: on a full disk what was there before stays, and nothing half is left.
//!
//! A run's own files are written by `run_dir::atomic`; these are the user's, so what they may hold is written piece by
//! piece, their permissions stay, a link stays a link, and a device is written to.

use crate::error::{OfFile as _, Result};
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
    let mut builder = tempfile::Builder::new();
    builder.prefix(".writing-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // Those of a new file, as the user's mask has it.
        let before = place.metadata().map(|file| file.permissions());
        builder.permissions(before.unwrap_or_else(|_| std::fs::Permissions::from_mode(0o666)));
    }
    let mut out = BufWriter::new(builder.tempfile_in(parent).writing(path)?);
    let written = write(&mut out)?;
    let file = out.into_inner().map_err(std::io::IntoInnerError::into_error).writing(path)?;
    file.as_file().sync_all().writing(path)?;
    file.persist(&place).map_err(|error| error.error).writing(path)?;
    Ok(written)
}

//! Files that commands write where a person asked for them.

use crate::error::{CommandError, OfFile as _, Result};
use skillrl::demo::DemoWorld;
use skillrl::pipeline::run_dir::atomic;
use std::path::{Path, PathBuf};

/// An error if a file is there that nobody asked to replace.
pub(crate) fn check_absent(path: &Path, force: bool) -> Result<(), CommandError> {
    if path.exists() && !force {
        return Err(CommandError::new(format!("{} is there already; --force replaces it", path.display())));
    }
    Ok(())
}

/// Writes files into a directory, all or none: nothing is replaced unless that is asked.
pub(crate) fn write_files<'a>(
    dir: &Path,
    files: impl IntoIterator<Item = (&'a str, &'a str)>,
    force: bool,
) -> Result<Vec<PathBuf>> {
    let files: Vec<(PathBuf, &str)> = files.into_iter().map(|(path, text)| (dir.join(path), text)).collect();
    files.iter().try_for_each(|(path, _)| check_absent(path, force))?;
    let mut written = Vec::with_capacity(files.len());
    for (path, text) in files {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(parent).trying_to(format_args!("create {}", parent.display()))?;
        crate::whole_file::write(&path, |out| out.write_all(text.as_bytes()).writing(&path))?;
        written.push(path);
    }
    Ok(written)
}

/// Refuses to replace what another command has made.
pub(crate) fn is_there_already(out: &Path) -> CommandError {
    let message = format!("{} is there already, and was made by another command", out.display());
    CommandError::new(message).with_hint("name another file as `--output`, or replace it with `--force`")
}

/// Writes a file that a command was asked for, and makes the directories above it.
pub(crate) fn write_with_parents(path: &Path, bytes: &[u8]) -> Result {
    let made = path.parent().filter(|parent| !parent.as_os_str().is_empty()).map(atomic::create_dir);
    let written = made.transpose().and_then(|_| atomic::write(path, bytes));
    Ok(written.map_err(skillrl::Error::of_output)?)
}

/// Writes the demo's files.
pub(crate) fn write_demo(dir: &Path, world: DemoWorld, force: bool) -> crate::Result {
    write_files(dir, world.files().iter().map(|file| (file.path, file.text)), force)?;
    Ok(())
}

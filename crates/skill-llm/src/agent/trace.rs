//! What programs printed, kept for people.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

/// Longer places are cut, since names of files have a limit.
const MAX_NAME_CHARS: usize = 120;
/// No place has this many calls.
const MAX_TRACES: u32 = 100_000;

/// Writes the two outputs of a call into a directory, under a name that tells its place.
///
/// A trace that cannot be kept is told and ends nothing.
pub(super) fn keep(directory: &Path, place: &str, stdout: &str, stderr: &str) {
    if let Err(error) = write(directory, &name_of(place), stdout, stderr) {
        tracing::warn!(%error, directory = %directory.display(), "the output of a program could not be kept");
    }
}

fn write(directory: &Path, name: &str, stdout: &str, stderr: &str) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let (number, mut file) = create(directory, name)?;
    file.write_all(stdout.as_bytes())?;
    if !stderr.trim().is_empty() {
        std::fs::write(directory.join(format!("{name}-{number}.stderr.txt")), stderr)?;
    }
    Ok(())
}

/// The first file of this name that is not there yet; several calls of one place may look for theirs at once.
fn create(directory: &Path, name: &str) -> std::io::Result<(u32, File)> {
    for number in 1..=MAX_TRACES {
        let path = directory.join(format!("{name}-{number}.stdout.txt"));
        match OpenOptions::new().write(true).create_new(true).open(path) {
            Ok(file) => return Ok((number, file)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(std::io::Error::other("there are too many traces of one place"))
}

/// A place as a name of a file.
fn name_of(place: &str) -> String {
    let words = place.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    let name = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-");
    let name: String = name.chars().take(MAX_NAME_CHARS).collect();
    if name.is_empty() { "call".to_owned() } else { name }
}

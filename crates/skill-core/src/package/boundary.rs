//! The lines that separate the files of a package in its text.

use super::path::check_path;
use crate::carried::CarriedName;
use memchr::{memchr, memmem};

/// What the line above a reference file begins with.
const REFERENCE: &str = "<!-- SKILL_FILE: ";
/// What the line of a carried file begins with.
const CARRIED: &str = "<!-- SKILL_CARRIED: ";
/// What both end with.
const END: &str = " -->";
/// What both begin with.
const START: &str = "<!-- SKILL_";

/// The digits of a SHA-256.
const HASH_DIGITS: usize = 64;

/// What a separating line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Boundary<'a> {
    /// A reference file begins below.
    Reference { path: &'a str },
    /// There is such a file.
    Carried { path: &'a str, name: CarriedName },
}

/// A text taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parts<'a> {
    /// The text of `SKILL.md`.
    pub(super) main: &'a str,
    /// What each separating line says, and the text between it and the next; carried files have none.
    pub(super) files: Vec<(Boundary<'a>, &'a str)>,
}

impl<'a> Parts<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let found = boundaries(text);
        let main = text.split_at(found.first().map_or(text.len(), |first| first.at)).0;
        let ends = found.iter().skip(1).map(|next| next.at).chain([text.len()]);
        let files = found
            .iter()
            .zip(ends)
            .map(|(boundary, end)| {
                (
                    boundary.says.clone(),
                    text.get(boundary.content..end.max(boundary.content))
                        .expect("boundaries are whole lines"),
                )
            })
            .collect();
        Self { main, files }
    }
}

/// Whether a file's text would be taken apart itself.
pub(super) fn has_boundary(text: &str) -> bool {
    let lines = |text: &str| !boundaries(text).is_empty();
    // What is in the first line has a line break in front of it once the file is part of a text.
    if text.starts_with(START) { lines(&["\n", text].concat()) } else { lines(text) }
}

pub(super) fn reference_line(path: &str) -> String {
    [REFERENCE, path, END].concat()
}

pub(super) fn carried_line(path: &str, name: &CarriedName) -> String {
    let mode = if name.is_executable { "755" } else { "644" };
    [CARRIED, mode, " ", &name.sha256, " ", path, END].concat()
}

struct Found<'a> {
    /// Where the line break in front of the line stands.
    at: usize,
    /// Where what belongs to it begins.
    content: usize,
    says: Boundary<'a>,
}

fn boundaries(text: &str) -> Vec<Found<'_>> {
    let mut found = Vec::new();
    for at in memmem::find_iter(text.as_bytes(), "\n<!-- SKILL_") {
        let Some(rest) = text.get(at + 1..) else { continue };
        let line_end = memchr(b'\n', rest.as_bytes());
        let Some(line) = rest.get(..line_end.unwrap_or(rest.len())) else { continue };
        let Some(says) = parse(line) else { continue };
        let line_end = at + 1 + line.len();
        // The line break below belongs to the line of a reference file, but to what follows that of a carried one.
        let content = match says {
            Boundary::Reference { .. } => (line_end + 1).min(text.len()),
            Boundary::Carried { .. } => line_end,
        };
        found.push(Found { at, content, says });
    }
    found
}

fn parse(line: &str) -> Option<Boundary<'_>> {
    let line = line.strip_suffix(END)?;
    if let Some(path) = line.strip_prefix(REFERENCE) {
        return check_path(path).is_ok().then_some(Boundary::Reference { path });
    }
    let (mode, rest) = line.strip_prefix(CARRIED)?.split_once(' ')?;
    let is_executable = match mode {
        "755" => true,
        "644" => false,
        _ => return None,
    };
    let (sha256, path) = rest.split_once(' ')?;
    let is_hash = sha256.len() == HASH_DIGITS && sha256.bytes().all(|digit| digit.is_ascii_hexdigit());
    let is_sound = is_hash && check_path(path).is_ok();
    is_sound
        .then(|| Boundary::Carried { path, name: CarriedName { sha256: sha256.to_owned(), is_executable } })
}

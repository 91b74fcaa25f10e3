//! Which runs there are: directories that look like one, below the root directory.
//!
//! Symbolic links are not followed: what one leads to inside the directory is found at its own place, and what one
//! leads to outside is not read.

use skill_llm::error::with_causes;
use skill_pipeline::run_dir::is_run;
use std::io;
use std::path::{Path, PathBuf};

/// How far below the root directory a run may be: `runs/experiment/seed-1`.
pub const MAX_DEPTH: usize = 3;
/// The most runs that are listed.
const MAX_RUNS: usize = 2_000;
/// The most directories that are looked into.
const MAX_DIRECTORIES: usize = 20_000;
/// The most entries of a run that are looked at for links; one of 10,000 steps has 130,000.
const MAX_ENTRIES: usize = 2_000_000;

/// A directory that looks like a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The way to it from the root directory, with slashes.
    pub name: String,
    /// Its directory.
    pub path: PathBuf,
    /// A link in it that leaves the root directory: nothing of such a run is read.
    pub leaving: Option<String>,
}

impl Found {
    /// What is wrong with it, in words; files are named from its directory on.
    pub fn problem(&self, error: &dyn std::error::Error) -> String {
        with_causes(error).replace(&format!("{}/", self.path.display()), "")
    }
}

/// All runs, in the order of their names, and whether there are more than are listed.
pub(crate) fn discover(root: &Path) -> io::Result<(Vec<Found>, bool)> {
    let mut search = Search { root, found: Vec::new(), n_directories: 0, is_cut: false };
    search.look(root, "", 0)?;
    search.found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok((search.found, search.is_cut))
}

struct Search<'a> {
    root: &'a Path,
    found: Vec<Found>,
    n_directories: usize,
    is_cut: bool,
}

impl Search<'_> {
    fn look(&mut self, dir: &Path, name: &str, depth: usize) -> io::Result<()> {
        self.n_directories += 1;
        if self.found.len() >= MAX_RUNS || self.n_directories > MAX_DIRECTORIES {
            self.is_cut = true;
            return Ok(());
        }
        let entries: Vec<_> = std::fs::read_dir(dir)?.collect::<Result<_, _>>()?;
        if is_run(dir) {
            let links = entries.iter().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
            let leaving = links.map(std::fs::DirEntry::path).find(|path| leaves(self.root, path));
            let leaving = leaving.map(|path| relative(dir, &path));
            let name = if name.is_empty() { own_name(dir) } else { name.to_owned() };
            self.found.push(Found { name, path: dir.to_owned(), leaving });
            return Ok(());
        }
        if depth == MAX_DEPTH {
            return Ok(());
        }
        for entry in &entries {
            let file_name = entry.file_name();
            let Some(own) = file_name.to_str() else { continue };
            if own.starts_with('.') || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let below = if name.is_empty() { own.to_owned() } else { format!("{name}/{own}") };
            // A directory that may not be read is not a run that could be shown.
            if let Err(error) = self.look(&entry.path(), &below, depth + 1) {
                tracing::debug!(%error, directory = %entry.path().display(), "a directory cannot be read");
            }
        }
        Ok(())
    }
}

fn own_name(dir: &Path) -> String {
    dir.file_name().map_or_else(|| "run".to_owned(), |name| name.to_string_lossy().into_owned())
}

fn relative(dir: &Path, path: &Path) -> String {
    path.strip_prefix(dir).unwrap_or(path).to_string_lossy().into_owned()
}

/// Whether what a link leads to lies outside; a link that leads nowhere stays inside.
fn leaves(root: &Path, link: &Path) -> bool {
    link.canonicalize().is_ok_and(|target| !target.starts_with(root))
}

/// A link anywhere in a run that leaves the root directory: what is read in depth is read of a run without one.
///
/// # Errors
///
/// A directory of the run that cannot be read, and a run with too many entries to look at: nobody knows where the rest
/// leads.
pub fn leaving_link(root: &Path, run: &Path) -> io::Result<Option<String>> {
    first_leaving(root, run, MAX_ENTRIES)
}

fn first_leaving(root: &Path, run: &Path, max_entries: usize) -> io::Result<Option<String>> {
    let (mut directories, mut n_entries) = (vec![run.to_owned()], 0);
    while let Some(dir) = directories.pop() {
        for entry in std::fs::read_dir(&dir)? {
            let entry = entry?;
            n_entries += 1;
            if n_entries > max_entries {
                let message =
                    format!("there are more than {max_entries} files, too many to look at for links");
                return Err(io::Error::other(message));
            }
            let kind = entry.file_type()?;
            if kind.is_symlink() && leaves(root, &entry.path()) {
                return Ok(Some(relative(run, &entry.path())));
            }
            if kind.is_dir() {
                directories.push(entry.path());
            }
        }
    }
    Ok(None)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_is_too_large_to_look_at_is_not_taken_for_one_without_links() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let run = root.join("run");
        std::fs::create_dir_all(run.join("steps")).unwrap();
        for name in ["a", "b"] {
            std::fs::write(run.join(name), "").unwrap();
        }
        assert_eq!(first_leaving(&root, &run, 3).unwrap(), None);
        assert!(first_leaving(&root, &run, 2).unwrap_err().to_string().contains("more than 2 files"));
        std::os::unix::fs::symlink("/", run.join("steps/out")).unwrap();
        assert_eq!(first_leaving(&root, &run, 9).unwrap().as_deref(), Some("steps/out"));
    }
}

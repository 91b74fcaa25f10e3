//! The directory of the runs, which a new project does not have yet: it is created by what is started first.

use skill_report::watch::Runs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The directory of the runs.
pub(crate) struct RunsDir {
    root: PathBuf,
    opened: OnceLock<Arc<Runs>>,
}

impl RunsDir {
    /// Opens it; one that does not exist has no runs, if there is a directory to create it in.
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        match open(dir) {
            Ok(runs) => Ok(Self { root: runs.root().to_owned(), opened: OnceLock::from(Arc::new(runs)) }),
            // A link that leads nowhere is there.
            Err(error) if error.kind() == io::ErrorKind::NotFound && dir.symlink_metadata().is_err() => {
                let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else { return Err(error) };
                let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
                let parent = parent.canonicalize()?;
                std::fs::read_dir(&parent)?;
                Ok(Self { root: parent.join(name), opened: OnceLock::new() })
            }
            Err(error) => Err(error),
        }
    }

    /// Its path, with all links on the way to it resolved.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Its runs; `None` while it does not exist.
    pub(crate) fn runs(&self) -> Option<&Arc<Runs>> {
        if self.opened.get().is_none() {
            // What has become a link leads elsewhere.
            let runs = open(&self.root).ok().filter(|runs| runs.root() == self.root)?;
            return Some(self.opened.get_or_init(|| Arc::new(runs)));
        }
        self.opened.get()
    }
}

fn open(dir: &Path) -> io::Result<Runs> {
    Runs::open(dir, skillrl::spend::terms_of)
}

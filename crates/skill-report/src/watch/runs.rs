//! The runs of a directory, in short, as of now.
//!
//! The directory is listed for every request, and a run is read again when its files have changed. What takes long to
//! read holds up no request: until it is there, the row of before is shown.

use super::discover::{Found, discover};
use super::row::{Row, read_files};
use super::signature::Signature;
use super::spend::{Ledger, TermsOf};
use crate::{RunOverview, RunPhase};
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long a request waits for runs that are being read.
const PATIENCE: Duration = Duration::from_millis(5);

/// The runs of a directory.
pub struct Runs {
    root: PathBuf,
    /// What the runs have spent.
    ledger: Arc<Ledger>,
    known: Mutex<HashMap<PathBuf, Known>>,
    listing: Mutex<Arc<Listing>>,
    /// Held by anyone who reads the directory.
    reading: tokio::sync::Mutex<()>,
}

/// What was read of a run, and when.
struct Known {
    signature: Signature,
    leaving: Option<String>,
    files: Result<RunOverview, String>,
}

/// All runs.
#[derive(Debug, Default, PartialEq)]
pub struct Listing {
    /// The directory was read at least once.
    pub is_read: bool,
    /// Those at work first, then the latest; runs that changed at once in the order of their names.
    pub rows: Vec<Row>,
    found: Vec<Found>,
    /// There are more than are listed.
    pub is_cut: bool,
    /// The directory cannot be read.
    pub problem: Option<String>,
}

impl Listing {
    /// Each with where it is.
    pub fn runs(&self) -> impl Iterator<Item = (&Found, &Row)> {
        self.found.iter().zip(&self.rows)
    }

    /// The run of this name: what a client sends is compared and nothing else.
    pub fn find(&self, name: &str) -> Option<(&Found, &Row)> {
        self.runs().find(|(found, _)| found.name == name)
    }
}

impl Runs {
    /// Opens a directory with runs in it, or that of one run; its runs are read when somebody asks for them.
    /// What a run may spend, and what its requests cost, is asked of `terms_of`.
    ///
    /// # Errors
    ///
    /// A directory that cannot be read.
    pub fn open(dir: &Path, terms_of: TermsOf) -> io::Result<Self> {
        let root = dir.canonicalize()?;
        discover(&root)?;
        Ok(Self {
            root,
            ledger: Arc::new(Ledger::new(terms_of)),
            known: Mutex::default(),
            listing: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
        })
    }

    /// The directory, with all links on the way to it resolved.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What the runs have spent.
    pub(crate) fn ledger(&self) -> Arc<Ledger> {
        Arc::clone(&self.ledger)
    }

    /// The runs as they are now, or as they were when reading takes long.
    pub async fn listing(self: &Arc<Self>) -> Arc<Listing> {
        // The reading goes on when it is no longer awaited.
        let reading = tokio::spawn(Arc::clone(self).read_in_turn());
        drop(tokio::time::timeout(PATIENCE, reading).await);
        Arc::clone(&self.listing.lock())
    }

    /// The runs as they are now, however long reading takes.
    pub async fn fresh(self: &Arc<Self>) -> Arc<Listing> {
        Arc::clone(self).read_in_turn().await;
        Arc::clone(&self.listing.lock())
    }

    /// Reads the directory when nobody else does.
    async fn read_in_turn(self: Arc<Self>) {
        let _turn = self.reading.lock().await;
        let runs = Arc::clone(&self);
        if let Err(error) = tokio::task::spawn_blocking(move || runs.read()).await {
            tracing::error!(%error, "the directory could not be read");
        }
    }

    fn read(&self) {
        let listing = match discover(&self.root) {
            Ok((found, is_cut)) => {
                let row = |found: Found| {
                    let row = Row::of(&found, self.files(&found), &self.ledger);
                    (found, row)
                };
                let mut runs: Vec<(Found, Row)> = found.into_iter().map(row).collect();
                // Runs at work change all the time, and keep their places.
                runs.sort_by_key(|(_, row)| match row.state {
                    RunPhase::Training => (false, Reverse(0)),
                    _ => (true, Reverse(row.changed_unix_ms)),
                });
                let (found, rows): (Vec<Found>, Vec<Row>) = runs.into_iter().unzip();
                let there: HashSet<&PathBuf> = found.iter().map(|found| &found.path).collect();
                self.known.lock().retain(|path, _| there.contains(path));
                Listing { is_read: true, rows, found, is_cut, problem: None }
            }
            Err(error) => {
                let problem = format!("cannot read {}: {error}", self.root.display());
                Listing { problem: Some(problem), ..Listing::default() }
            }
        };
        let mut known = self.listing.lock();
        // What is made of a listing is kept as long as it is the same one.
        if **known != listing {
            *known = Arc::new(listing);
        }
    }

    /// What is in the files of a run, read again if they have changed.
    fn files(&self, found: &Found) -> Result<RunOverview, String> {
        let signature = Signature::of(&found.path);
        if let Some(known) = self.known.lock().get(&found.path)
            && known.signature == signature
            && known.leaving == found.leaving
        {
            return known.files.clone();
        }
        let files = read_files(found);
        let known = Known { signature, leaving: found.leaving.clone(), files: files.clone() };
        self.known.lock().insert(found.path.clone(), known);
        files
    }
}

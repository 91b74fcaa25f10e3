//! Reports as they are shown: made when somebody looks, and kept until the run has changed.

use parking_lot::Mutex;
use skill_report::watch::{Found, leaving_link, report_version};
use skillrl::runs::Depth;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// How many reports are kept.
const MAX_KEPT: usize = 8;
/// The most bytes of those that are kept.
const MAX_KEPT_BYTES: usize = 16 * 1024 * 1024;
/// How many are made at once: each reads all results of its run.
const MAX_AT_ONCE: usize = 1;

/// A report that was made.
#[derive(Clone)]
pub(crate) struct Made {
    /// Changes when the report does.
    pub(crate) version: String,
    /// The content of the page, or what is wrong with the run.
    pub(crate) content: Result<Arc<str>, String>,
}

/// The reports that were looked at last, the latest at the end.
pub(crate) struct Reports {
    kept: Arc<Mutex<Vec<(PathBuf, Made)>>>,
    turns: Arc<Semaphore>,
}

impl Default for Reports {
    fn default() -> Self {
        Self { kept: Arc::default(), turns: Arc::new(Semaphore::new(MAX_AT_ONCE)) }
    }
}

impl Reports {
    /// The report of a run as it is now.
    pub(crate) async fn of(&self, root: &Path, found: &Found) -> Made {
        // Nobody closes the semaphore.
        let _turn = self.turns.acquire().await;
        let (root, found, kept) = (root.to_owned(), found.clone(), Arc::clone(&self.kept));
        let making = tokio::task::spawn_blocking(move || {
            let version = report_version(&found.path);
            let known = {
                let kept = kept.lock();
                kept.iter().find(|(path, made)| *path == found.path && made.version == version).cloned()
            };
            if let Some((_, made)) = known {
                return made;
            }
            let made = Made { version, content: make(&root, &found) };
            keep(&mut kept.lock(), found.path, made.clone());
            made
        });
        making.await.unwrap_or_else(|error| Made {
            version: String::new(),
            content: Err(format!("the report could not be made: {error}")),
        })
    }

    /// Two runs side by side or a table of more, as they are now, or what is wrong with them.
    pub(crate) async fn comparison(&self, root: &Path, runs: Vec<Found>) -> Result<String, String> {
        // Nobody closes the semaphore.
        let _turn = self.turns.acquire().await;
        let root = root.to_owned();
        let making = tokio::task::spawn_blocking(move || compare(&root, &runs));
        making.await.unwrap_or_else(|error| Err(format!("the comparison could not be made: {error}")))
    }
}

/// That nothing of a run is read outside of the served directory.
fn check_links(root: &Path, found: &Found) -> Result<(), String> {
    let leaving = leaving_link(root, &found.path).map_err(|error| found.problem(&error))?;
    match leaving {
        Some(link) => {
            Err(format!("{link} is a link that leaves the served directory; nothing of this run is read"))
        }
        None => Ok(()),
    }
}

fn compare(root: &Path, runs: &[Found]) -> Result<String, String> {
    runs.iter().try_for_each(|run| check_links(root, run))?;
    if let [first, second] = runs {
        let content = skillrl::report::comparison_content(&first.path, &second.path);
        return content.map_err(|error| first.problem(&error));
    }
    let paths: Vec<PathBuf> = runs.iter().map(|run| run.path.clone()).collect();
    let table = skillrl::runs::table(&paths, &[], Depth::Courses).map_err(|error| error.to_string())?;
    skill_report::runs_content(&table).map_err(|error| error.to_string())
}

fn make(root: &Path, found: &Found) -> Result<Arc<str>, String> {
    check_links(root, found)?;
    let report = skillrl::report::any(&found.path).map_err(|error| found.problem(&error))?;
    Ok(skill_report::content(&report).map_err(|error| found.problem(&error))?.into())
}

fn keep(kept: &mut Vec<(PathBuf, Made)>, path: PathBuf, made: Made) {
    kept.retain(|(other, _)| *other != path);
    kept.push((path, made));
    let size = |(_, made): &(PathBuf, Made)| made.content.as_ref().map_or(0, |content| content.len());
    while kept.len() > MAX_KEPT || (kept.len() > 1 && kept.iter().map(size).sum::<usize>() > MAX_KEPT_BYTES) {
        kept.remove(0);
    }
}

//! Tables of runs, with the prices of each run's own configuration.

use crate::spend::{Spending, configuration, unpriced};
use crate::{Error, cost};
use parking_lot::Mutex;
use serde_json::Value;
use skill_llm::error::with_causes;
use skill_pipeline::run_dir::config_copy::without_comments;
use skill_pipeline::run_dir::{atomic, read_text};
use skill_pipeline::{PipelineError, RunReader};
use skill_report::{MAX_PAIRED_RUNS, ReportError, RunOverview, RunRow, RunsTable, runs_in};
use std::collections::HashMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Which parts of each run are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// A row for each run, with paired differences where there are not too many runs.
    Rows,
    /// The scores over calls and money too, for a page.
    Courses,
}

/// The most threads that read runs.
const MAX_THREADS: usize = 8;

/// The table of these runs, grouped by the settings of these names; see [`RunsTable::of`].
///
/// What is wrong with a run is said in its row.
///
/// # Errors
///
/// No run at all, and [`ReportError::UnknownGroup`].
pub fn table(paths: &[PathBuf], group_by: &[String], depth: Depth) -> Result<RunsTable, Error> {
    let rows = rows(paths, depth);
    RunsTable::of(rows, group_by).map_err(|error| Error::Report(Box::new(error)))
}

/// The table of the runs in a directory, at most two levels below it.
///
/// # Errors
///
/// A directory without a run, and one that cannot be read.
pub fn table_of(dir: &Path, group_by: &[String], depth: Depth) -> Result<RunsTable, Error> {
    let paths = runs_in(dir)?;
    if paths.is_empty() {
        return Err(PipelineError::NoRun { path: dir.to_owned() }.into());
    }
    table(&paths, group_by, depth)
}

/// Writes the page of a table of runs, whole or not at all.
///
/// # Errors
///
/// A file that cannot be written.
pub fn write_page(table: &RunsTable, into: &Path) -> Result<(), Error> {
    let page = skill_report::runs_page(table).map_err(|error| Error::Report(Box::new(error)))?;
    atomic::write(into, page.as_bytes()).map_err(Error::of_output)
}

/// A row for each directory, in their order; several are read at a time.
fn rows(paths: &[PathBuf], depth: Depth) -> Vec<RunRow> {
    let has_scores = paths.len() <= MAX_PAIRED_RUNS;
    let n_threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
    let next = AtomicUsize::new(0);
    let terms = Terms::default();
    let work = || {
        let mut made = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = paths.get(place) else { return made };
            made.push((place, row(path, depth, has_scores, &terms)));
        }
    };
    let mut rows: Vec<(usize, RunRow)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..n_threads).map(|_| scope.spawn(work)).collect();
        let made = workers.into_iter().flat_map(|worker| match worker.join() {
            Ok(rows) => rows,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        made.collect()
    });
    rows.sort_by_key(|(place, _)| *place);
    rows.into_iter().map(|(_, row)| row).collect()
}

/// The prices of runs by their configurations: those of many runs are equal but for the seed, and reading one takes most
/// of the time of a row.
#[derive(Default)]
struct Terms(Mutex<HashMap<String, Arc<Spending>>>);

impl Terms {
    fn of(&self, run: &RunReader) -> Result<Option<Arc<Spending>>, Error> {
        let Some(text) = read_text(&run.path().join("config.toml"))? else { return Ok(None) };
        let mut config = run.config().config.clone();
        // No price depends on it.
        if let Some(seed) = config.pointer_mut("/run/seed") {
            *seed = Value::Null;
        }
        // The comments of the copy name the seed and the data.
        let key = format!("{}\0{config}", without_comments(&text));
        if let Some(known) = self.0.lock().get(&key) {
            return Ok(Some(Arc::clone(known)));
        }
        let read = Spending::of(run)?.map(Arc::new);
        if let Some(read) = &read {
            self.0.lock().insert(key, Arc::clone(read));
        }
        Ok(read)
    }
}

fn overview(path: &Path, terms: &Terms) -> Result<RunOverview, PipelineError> {
    let mut overview = RunOverview::read(path)?;
    if let Some(sent) = &overview.sent {
        match terms.of(&RunReader::open(path)?) {
            Ok(spending) => overview.money = spending.and_then(|spending| spending.money(sent)),
            Err(error) => overview.cautions.push(unpriced(&error)),
        }
    }
    Ok(overview)
}

fn row(path: &Path, depth: Depth, has_scores: bool, terms: &Terms) -> RunRow {
    let overview = match overview(path, terms) {
        Ok(overview) => overview,
        Err(error) => return RunRow::damaged(&RunOverview::unknown(path), with_causes(&error)),
    };
    let mut row = RunRow::read(&overview);
    if has_scores && let Err(error) = row.read_scores() {
        let cause = with_causes(&error);
        row.notes.push(format!(
            "not compared by items: {cause}; `skillrl check {}` lists what is damaged",
            path.display()
        ));
    }
    if depth == Depth::Courses
        && let Err(error) = read_course(&mut row)
    {
        row.notes.push(format!("its course cannot be read: {}", with_causes(&error)));
    }
    row
}

fn read_course(row: &mut RunRow) -> Result<(), ReportError> {
    if row.problem.is_some() {
        return Ok(());
    }
    let run = RunReader::open(&row.path)?;
    // The row says that a configuration cannot be read.
    let loaded = configuration(&run).unwrap_or(None);
    row.read_course(|used| loaded.as_ref().and_then(|loaded| cost::cost(&loaded.config, used)))
}

//! The report of a run, with what its configuration knows: the gate's metric and the prices.

use crate::config::LoadedConfig;
use crate::spend::{Spending, configuration, unpriced};
use crate::{Error, cost};
use indexmap::IndexMap;
use skill_core::Gate;
use skill_pipeline::kind::{is_of_document, trains_bank};
use skill_pipeline::records::TokensByStage;
use skill_pipeline::run_dir::atomic;
use skill_pipeline::run_dir::measurement::verify_evaluations;
use skill_pipeline::run_dir::seal::sealed_page;
use skill_pipeline::{PipelineError, RunReader};
use skill_report::{
    AnyReport, BankReport, Caution, CautionKind, DoubtfulLabel, Kept, MissingRule, Report, ReportError,
    ReportOptions, RunComparison, RunOverview, RunView, TENSORBOARD_FILE, TriggersView, Verdict,
    comparison_page, page, triggers_page,
};
use std::path::{Path, PathBuf};

pub use skill_pipeline::run_dir::REPORT_FILE;

/// Gathers the report of a run, also of one in progress.
///
/// # Errors
///
/// A directory without a run, and files of the run that cannot be read.
pub fn read(run: &Path) -> Result<Report, Error> {
    read_with(run, ReportOptions::default())
}

/// Gathers as much of the report of a run as is asked for; its gate and its prices are those of its configuration.
///
/// # Errors
///
/// As for [`read`].
pub fn read_with(run: &Path, options: ReportOptions) -> Result<Report, Error> {
    let run = RunReader::open(run)?;
    let options = ReportOptions { gate: gate(&run)?, ..options };
    let mut report = Report::read(&run, &options).map_err(of_report)?;
    name_commands(&mut report.verdict, run.path());
    let loaded = priced_by(&run, &mut report.verdict);
    let price = |used: &_| loaded.as_ref().and_then(|loaded| cost::cost(&loaded.config, used));
    report.read_spending(&run, price).map_err(of_report)?;
    if let Some(loaded) = loaded {
        let used = report.stages.iter().map(|stage| (stage.stage.clone(), stage.used)).collect();
        report.price(&cost::costs_by_stage(&loaded.config, &used, run.path()));
        report.sent.money = Spending::from(loaded).money(&report.sent.counted);
    }
    Ok(report)
}

/// Gathers the report of a run that trains a bank, also of one in progress, with the prices of its configuration.
///
/// # Errors
///
/// A directory without a run or without a bank, and files of the run that cannot be read.
pub fn bank(run: &Path) -> Result<BankReport, Error> {
    bank_with(run, &ReportOptions::default())
}

/// Gathers as much of the report of a run that trains a bank as is requested.
///
/// # Errors
///
/// As for [`bank`].
pub fn bank_with(run: &Path, options: &ReportOptions) -> Result<BankReport, Error> {
    let run = RunReader::open(run)?;
    let mut report = BankReport::read(&run, options).map_err(of_report)?;
    if let Some(loaded) = priced_by(&run, &mut report.verdict) {
        let used = report.stages.iter().map(|stage| (stage.stage.clone(), stage.used)).collect();
        report.price(&cost::costs_by_stage(&loaded.config, &used, run.path()));
        report.sent.money = Spending::from(loaded).money(&report.sent.counted);
    }
    Ok(report)
}

/// Reads where a run is and what it has spent, by the prices of its configuration. What cannot be read makes it
/// [`skill_report::RunPhase::Damaged`], with what is wrong.
///
/// # Errors
///
/// A directory without a run.
pub fn overview(run: &Path) -> Result<RunOverview, PipelineError> {
    let mut overview = RunOverview::read(run)?;
    if let Some(sent) = &overview.sent {
        match Spending::of(&RunReader::open(run)?) {
            Ok(spending) => overview.money = spending.and_then(|spending| spending.money(sent)),
            Err(error) => overview.cautions.push(unpriced(&error)),
        }
    }
    Ok(overview)
}

/// The configuration with the prices of a run; one that cannot be read is a caution of the verdict.
fn priced_by(run: &RunReader, verdict: &mut Verdict) -> Option<LoadedConfig> {
    match configuration(run) {
        Ok(loaded) => loaded,
        Err(error) => {
            verdict.add_caution(Caution::new(CautionKind::DamagedFile, unpriced(&error)));
            None
        }
    }
}

/// Reads a run with its course: what it has come to, its curves, and a row for each of its steps.
///
/// # Errors
///
/// A directory without a run, and files of the run that cannot be read.
pub fn view(run: &Path) -> Result<RunView, Error> {
    RunView::read(&RunReader::open(run)?, overview(run)?).map_err(of_report)
}

/// The gate by which a run decided: the one in its `config.json`, that of the run that it was imported from, or the usual
/// one.
fn gate(run: &RunReader) -> Result<Gate, Error> {
    match run.gate()? {
        Some(own) => Ok(own),
        None => Ok(crate::import::gate_of(run.path(), &run.config().config)?.unwrap_or_default()),
    }
}

/// What a run came to, whatever it trains, with what to know before its numbers are trusted.
///
/// # Errors
///
/// As for [`read`].
pub fn verdict(run: &Path) -> Result<Verdict, Error> {
    let options = ReportOptions { max_trajectories: 0, max_items: 0, ..ReportOptions::default() };
    if !is_of_document(run) {
        return Ok(any_with(run, options)?.verdict().clone());
    }
    let run = RunReader::open(run)?;
    let options = ReportOptions { gate: gate(&run)?, ..options };
    let loaded = configuration(&run);
    let costs = |used: &TokensByStage| match &loaded {
        Ok(Some(loaded)) => cost::costs_by_stage(&loaded.config, used, run.path()),
        Ok(None) | Err(_) => IndexMap::new(),
    };
    let mut verdict = Verdict::read(&run, &options, costs).map_err(of_report)?;
    if let Err(error) = &loaded {
        verdict.add_caution(Caution::new(CautionKind::DamagedFile, unpriced(error)));
    }
    name_commands(&mut verdict, run.path());
    Ok(verdict)
}

/// Says how arms that were not measured are added.
fn name_commands(verdict: &mut Verdict, run: &Path) {
    for arm in &mut verdict.missing_arms {
        arm.command = crate::hint::arm_command(arm.name, run);
    }
}

/// Items whose label in the data may be wrong, all of them; none where right answers are no class labels.
///
/// # Errors
///
/// As for [`read`].
pub fn doubtful_labels(run: &Path) -> Result<Vec<DoubtfulLabel>, Error> {
    let options = ReportOptions { max_items: usize::MAX, max_trajectories: 0, ..ReportOptions::default() };
    Ok(read_with(run, options)?.classes.map(|classes| classes.doubtful).unwrap_or_default())
}

/// The patterns of a run's deviating answers: classes whose items are answered with the same other class.
///
/// # Errors
///
/// As for [`read`].
pub fn missing_rules(run: &Path) -> Result<Vec<MissingRule>, Error> {
    Ok(read(run)?.classes.map(|classes| classes.missing_rules).unwrap_or_default())
}

/// Compares two runs: their best skills or banks on the items that both have, by the metric of the first run's gate;
/// for a bank that is the strict score.
///
/// # Errors
///
/// As for [`read`].
pub fn compare(first: &Path, second: &Path) -> Result<RunComparison, Error> {
    compared(first, second).map(|(comparison, _)| comparison)
}

/// Writes the comparison of two runs as one HTML page, whole or not at all; returns what it says.
///
/// # Errors
///
/// As for [`read`], and a file that cannot be written.
pub fn write_comparison(first: &Path, second: &Path, into: &Path) -> Result<RunComparison, Error> {
    let (comparison, [a, b]) = compared(first, second)?;
    let page = comparison_page(&comparison, [&a, &b]).map_err(of_report)?;
    write_page(into, &page).map_err(Error::of_output)?;
    Ok(comparison)
}

/// The comparison of two runs as HTML without the page around it: see [`skill_report::comparison_content`].
///
/// # Errors
///
/// As for [`read`].
pub fn comparison_content(first: &Path, second: &Path) -> Result<String, Error> {
    let (comparison, [a, b]) = compared(first, second)?;
    skill_report::comparison_content(&comparison, [&a, &b]).map_err(of_report)
}

/// Gathers the report of a run, whatever it trains, also of one in progress.
///
/// # Errors
///
/// A directory without a run, and files of the run that cannot be read.
pub fn any(run: &Path) -> Result<AnyReport, Error> {
    any_with(run, ReportOptions::default())
}

/// The runs of a coding agent in a directory, with any training of descriptions; `None` if the directory has no such
/// runs.
///
/// # Errors
///
/// A file that cannot be read or is damaged.
pub fn triggers(directory: &Path) -> Result<Option<Kept>, Error> {
    skill_report::triggers_at(directory).map_err(of_report)
}

fn any_with(run: &Path, options: ReportOptions) -> Result<AnyReport, Error> {
    if is_of_document(run) {
        return Ok(read_with(run, options)?.into());
    }
    if trains_bank(run) {
        return Ok(bank_with(run, &options)?.into());
    }
    let run = RunReader::open(run)?;
    let mut report = AnyReport::read(&run, &options).map_err(of_report)?;
    let (sent, verdict) = match &mut report {
        AnyReport::Sft(of) => (&mut of.sent, &mut of.verdict),
        AnyReport::Rl(of) => (&mut of.sent, &mut of.verdict),
        AnyReport::Phases(of) => (&mut of.sent, &mut of.verdict),
        AnyReport::Document(_) | AnyReport::Bank(_) => return Ok(report),
    };
    let loaded = priced_by(&run, verdict);
    sent.money = loaded.and_then(|loaded| Spending::from(loaded).money(&sent.counted));
    Ok(report)
}

fn compared(first: &Path, second: &Path) -> Result<(RunComparison, [AnyReport; 2]), Error> {
    for run in [first, second] {
        verify_evaluations(run)?;
    }
    let reports = [any(first)?, any(second)?];
    let runs = [RunReader::open(first)?, RunReader::open(second)?];
    let gate = match &reports[0] {
        // Trials of skills count successes.
        AnyReport::Document(_) => gate(&runs[0])?,
        _ => Gate::default(),
    };
    let sides = [(&runs[0], &reports[0]), (&runs[1], &reports[1])];
    Ok((RunComparison::of(sides, gate).map_err(of_report)?, reports))
}

/// Writes the report of a run, whole or not at all; returns its path. Without one it goes into the run's directory.
///
/// # Errors
///
/// As for [`read`], and a file that cannot be written.
pub fn write(run: &Path, into: Option<&Path>) -> Result<PathBuf, Error> {
    let page = match triggers(run)? {
        Some(kept) => {
            let name = run.canonicalize().unwrap_or_else(|_| run.to_owned());
            let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
            triggers_page(&name, &TriggersView::read(&kept))
        }
        None => page(&any(run)?),
    };
    let page = sealed_page(&page.map_err(of_report)?);
    let Some(path) = into else {
        let path = run.join(REPORT_FILE);
        write_page(&path, &page)?;
        return Ok(path);
    };
    write_page(path, &page).map_err(Error::of_output)?;
    Ok(path.to_owned())
}

/// Writes the curves of a run that trains weights as an event file of TensorBoard into this folder, which is created;
/// returns the path of the file. A file of an earlier time is replaced. A run of all phases has a folder for each phase
/// with curves, and the path is that of the folder.
///
/// # Errors
///
/// A run that trains no weights, files of the run that cannot be read, and a file that cannot be written.
pub fn write_tensorboard(run: &Path, folder: &Path) -> Result<PathBuf, Error> {
    let report = any(run)?;
    let bytes = match &report {
        AnyReport::Sft(report) => report.tensorboard(),
        AnyReport::Rl(report) => report.tensorboard(),
        AnyReport::Phases(of) if !of.runs.is_empty() => {
            for (phase, _) in &of.runs {
                write_tensorboard(&run.join(phase), &folder.join(phase))?;
            }
            return Ok(folder.to_owned());
        }
        AnyReport::Document(_) | AnyReport::Bank(_) | AnyReport::Phases(_) => {
            return Err(of_report(ReportError::NoCurves { name: run.display().to_string() }));
        }
    };
    let path = folder.join(TENSORBOARD_FILE);
    atomic::create_dir(folder).and_then(|_| atomic::write(&path, &bytes)).map_err(Error::of_output)?;
    Ok(path)
}

fn write_page(path: &Path, page: &str) -> Result<(), PipelineError> {
    if path.metadata().is_ok_and(|file| !file.is_file() && !file.is_dir()) {
        // A device or a pipe is written to, and not replaced by a file.
        return std::fs::write(path, page).map_err(atomic::failed("write", path));
    }
    atomic::write(path, page.as_bytes())
}

fn of_report(error: ReportError) -> Error {
    match error {
        ReportError::Run(error) => Error::Pipeline(error),
        other => Error::Report(Box::new(other)),
    }
}

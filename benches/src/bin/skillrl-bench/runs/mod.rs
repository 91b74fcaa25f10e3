//! Runs and journals of the sizes that people have, and larger ones: what the program takes to look at them.
//!
//! The directories are those of `skillrl_bench::runs`; the program `skillrl` is beside this one and is started as a person
//! starts it.

mod browser;
mod evaluation;
mod rows;

pub(crate) use rows::rows;

use crate::Failure;
use crate::plan::{Plan, RunsArgs};
use browser::ServeReport;
use skillrl_bench::runs::RunSize;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The program that is measured.
const PROGRAM: &str = "skillrl";
/// How often the memory of a program is looked at.
const PERIOD: Duration = Duration::from_millis(1);
/// How often a program is started that does nothing but say how it is used.
const STARTS: usize = 21;

/// What a command took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Took {
    pub(crate) seconds: f64,
    /// The most memory that it had, in bytes.
    pub(crate) peak_memory: u64,
}

/// What a command took each time.
#[derive(Debug, Clone)]
pub(crate) struct Timed {
    /// Which command, in words.
    pub(crate) what: String,
    pub(crate) took: Vec<Took>,
}

/// What was measured.
#[derive(Debug, Clone)]
pub(crate) struct RunReports {
    pub(crate) n_rollouts: usize,
    pub(crate) report: Timed,
    /// Bytes of the page.
    pub(crate) page_bytes: u64,
    /// Seconds until the page is there; nothing without a browser.
    pub(crate) opens: Vec<f64>,
    pub(crate) many_steps: u32,
    /// Commands over the run of many steps.
    pub(crate) of_many: Vec<Timed>,
    pub(crate) journal_bytes: u64,
    /// Commands over the large journal.
    pub(crate) of_journal: Vec<Timed>,
    pub(crate) evaluated_items: u32,
    pub(crate) evaluation: Timed,
    pub(crate) help: Vec<Took>,
    pub(crate) serve: Option<ServeReport>,
}

/// Makes a run into a directory that is not there.
pub(crate) fn make(dir: &Path, n_steps: Option<u32>) -> Result<(), Failure> {
    let size = match n_steps {
        None => RunSize::RUN_OF_40_STEPS,
        Some(n_steps) => RunSize { n_steps, ..RunSize::RUN_OF_10_000_STEPS },
    };
    Ok(skillrl_bench::runs::make_run(dir, &size)?)
}

/// Makes a journal of about this size: its calls have prompts and replies of 20,000 characters.
pub(crate) async fn make_journal(path: &Path, megabytes: u32) -> Result<(), Failure> {
    Ok(skillrl_bench::runs::make_journal(path, megabytes * 25, 20_000).await?)
}

/// Measures all of it.
pub(crate) async fn run(plan: &Plan) -> Result<RunReports, Failure> {
    let dir = skillrl_bench::runs::temporary_dir()?;
    let [paper, many, journal] = ["paper", "many", "journal.sqlite"].map(|name| dir.path().join(name));
    let RunsArgs { many_steps, journal_megabytes, evaluated_items, has_scripts } = plan.runs;
    eprintln!(
        "bench: making a run of 40 steps, one of {many_steps}, and a journal of {journal_megabytes} MB"
    );
    make(&paper, None)?;
    make(&many, Some(many_steps))?;
    make_journal(&journal, journal_megabytes).await?;
    let program = std::env::current_exe()?.with_file_name(PROGRAM);
    let measured = |what: &str, args: &[&OsStr]| -> Result<Timed, Failure> {
        eprintln!("bench: {what}");
        let took: Result<_, Failure> = (0..plan.repetitions).map(|_| take(&program, args)).collect();
        Ok(Timed { what: what.to_owned(), took: took? })
    };
    let (paper_path, many_path, journal_path) = (paper.as_os_str(), many.as_os_str(), journal.as_os_str());
    let report = measured("report", &["report".as_ref(), paper_path])?;
    let page = paper.join("report.html");
    let last = many_steps.to_string();
    let of_many: Vec<(&str, Vec<&OsStr>)> = vec![
        ("report", vec!["report".as_ref(), many_path]),
        ("status", vec!["status".as_ref(), many_path]),
        ("show", vec!["show".as_ref(), many_path]),
        ("show --step", vec!["show".as_ref(), many_path, "--step".as_ref(), last.as_ref()]),
        ("diff", vec!["diff".as_ref(), many_path]),
        ("blame", vec!["blame".as_ref(), many_path]),
        ("compare", vec!["compare".as_ref(), many_path, paper_path]),
    ];
    let exported = dir.path().join("export.jsonl");
    let of_journal: Vec<(&str, Vec<&OsStr>)> = vec![
        ("inspect", vec!["inspect".as_ref(), journal_path]),
        ("journal list", vec!["journal".as_ref(), "list".as_ref(), journal_path]),
        (
            "journal export",
            vec![
                "journal".as_ref(),
                "export".as_ref(),
                journal_path,
                "--force".as_ref(),
                "--out".as_ref(),
                exported.as_os_str(),
            ],
        ),
    ];
    let all = |commands: Vec<(&str, Vec<&OsStr>)>| -> Result<Vec<Timed>, Failure> {
        commands.into_iter().map(|(what, args)| measured(what, &args)).collect()
    };
    eprintln!("bench: eval --out of {evaluated_items} items");
    let evaluation = evaluation::evaluate(&program, dir.path(), evaluated_items, plan.repetitions)?;
    let help: Result<_, Failure> = (0..STARTS).map(|_| take(&program, &["--help".as_ref()])).collect();
    Ok(RunReports {
        n_rollouts: RunSize::RUN_OF_40_STEPS.n_rollouts(),
        page_bytes: page.metadata()?.len(),
        opens: if has_scripts { browser::open(&page, plan.repetitions)? } else { Vec::new() },
        report,
        many_steps,
        of_many: all(of_many)?,
        journal_bytes: journal.metadata()?.len(),
        of_journal: all(of_journal)?,
        evaluated_items,
        evaluation,
        help: help?,
        serve: if has_scripts { browser::serve(&program)? } else { None },
    })
}

/// Starts the program, whose output nobody reads, and waits for its end.
fn take(program: &Path, args: &[&OsStr]) -> Result<Took, Failure> {
    let began = Instant::now();
    let mut child = Command::new(program)
        .args(args)
        // A server that it asks is on this machine, whatever proxy the environment names.
        .env("NO_PROXY", "*")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    let mut peak_memory = 0;
    loop {
        // A program that has ended has no memory any more.
        peak_memory = crate::process::peak_memory_of(child.id()).unwrap_or(0).max(peak_memory);
        if let Some(status) = child.try_wait()? {
            let seconds = began.elapsed().as_secs_f64();
            let shown = args.iter().map(|arg| arg.to_string_lossy()).collect::<Vec<_>>().join(" ");
            return if status.success() {
                Ok(Took { seconds, peak_memory })
            } else {
                Err(format!("`skillrl {shown}` ended with {status}").into())
            };
        }
        std::thread::sleep(PERIOD);
    }
}

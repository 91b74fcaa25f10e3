//! All measurements of the table, in the order in which they are made.

use crate::Failure;
use crate::calls::{CallsReport, Stack};
use crate::plan::Plan;
use crate::process::measure;
use crate::runs::RunReports;
use crate::server::Server;
use crate::training::TrainReport;
use crate::worlds::WorldReports;

/// What the server takes for a reply, in milliseconds.
pub(crate) const LATENCY_MS: u64 = 50;
/// About how long prompts are.
pub(crate) const PROMPT_BYTES: usize = 5_000;
/// In flight in the training run.
pub(crate) const TRAINING_IN_FLIGHT: u32 = 64;
/// Milliseconds per reply where so many calls are in flight that a shorter time would leave most of them waiting for
/// the processor.
const WIDE_LATENCY_MS: u64 = 1_000;
/// Milliseconds per reply where only calls are counted.
const COUNTING_LATENCY_MS: u64 = 2;
/// About one of so many analysts finds an improvement: one of ten candidates of the run, with this seed.
const IMPROVE_EVERY: u64 = 50;
const SEED: u64 = 3;

/// The rates of all stacks with so many calls in flight: a list of one report per repetition for each stack.
#[derive(Debug, Clone)]
pub(crate) struct Rates {
    pub(crate) in_flight: u32,
    pub(crate) reports: [Vec<CallsReport>; 3],
}

/// How many of the validation calls were made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    pub(crate) in_flight: u32,
    pub(crate) started: usize,
    pub(crate) possible: usize,
    pub(crate) candidates: usize,
}

/// What was measured.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    /// Calls and training runs; `None`, as the others, where something else alone was asked for.
    pub(crate) engine: Option<EngineReports>,
    pub(crate) worlds: Option<WorldReports>,
    pub(crate) runs: Option<RunReports>,
}

/// What was measured of calls and training runs.
#[derive(Debug, Clone)]
pub(crate) struct EngineReports {
    pub(crate) rates: Vec<Rates>,
    /// Of the bare loop and of all layers with the journal.
    pub(crate) wide: [CallsReport; 2],
    /// How many calls the server has really seen at a time.
    pub(crate) wide_in_flight: u64,
    /// For each of [`Place::ALL`], one report per repetition.
    pub(crate) training: [Vec<TrainReport>; 3],
    pub(crate) shares: Vec<Share>,
}

/// Where a training run writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// All on the disk.
    Disk,
    /// The journal in memory, everything else on the disk.
    JournalInMemory,
    /// All in memory.
    Memory,
}

impl Place {
    const ALL: [Self; 3] = [Self::Disk, Self::JournalInMemory, Self::Memory];
}

/// Where files are in memory.
const MEMORY_DIR: &str = "/dev/shm";

/// Makes all measurements.
pub(crate) async fn engine(plan: &Plan) -> Result<EngineReports, Failure> {
    let mut rates = Vec::new();
    for in_flight in &plan.widths {
        rates.push(rates_with(plan, *in_flight)?);
    }
    let (wide, wide_in_flight) = wide(plan).await?;
    let training = training(plan).await?;
    let shares = plan.counted_widths.iter().map(|in_flight| share(plan, *in_flight));
    let shares = shares.collect::<Result<Vec<Share>, Failure>>()?;
    Ok(EngineReports { rates, wide, wide_in_flight, training, shares })
}

fn rates_with(plan: &Plan, in_flight: u32) -> Result<Rates, Failure> {
    let server = Server::start(&["--latency-ms", &LATENCY_MS.to_string()])?;
    let mut rates = Rates { in_flight, reports: [const { Vec::new() }; 3] };
    for repetition in 0..plan.repetitions {
        eprintln!("bench: {in_flight} in flight, repetition {} of {}", repetition + 1, plan.repetitions);
        for (stack, reports) in Stack::ALL.into_iter().zip(&mut rates.reports) {
            reports.push(calls(&server, stack, in_flight, [plan.warm_up_rounds, plan.rounds])?);
        }
    }
    Ok(rates)
}

fn calls(
    server: &Server,
    stack: Stack,
    in_flight: u32,
    [warm_up_rounds, rounds]: [u64; 2],
) -> Result<CallsReport, Failure> {
    let dir = tempfile::tempdir()?;
    measure([
        "calls",
        server.address(),
        "--stack",
        stack.as_str(),
        "--in-flight",
        &in_flight.to_string(),
        "--warm-up-rounds",
        &warm_up_rounds.to_string(),
        "--rounds",
        &rounds.to_string(),
        "--prompt-bytes",
        &PROMPT_BYTES.to_string(),
        "--dir",
        &dir.path().display().to_string(),
    ])
}

async fn wide(plan: &Plan) -> Result<([CallsReport; 2], u64), Failure> {
    eprintln!("bench: {} in flight", plan.wide);
    let latency = WIDE_LATENCY_MS.to_string();
    let bare = calls(&Server::start(&["--latency-ms", &latency])?, Stack::Bare, plan.wide, [1, 1])?;
    let server = Server::start(&["--latency-ms", &latency])?;
    // The pace doubles what is in flight in each round, up from 64.
    let journal = calls(&server, Stack::Journal, plan.wide, [plan.wide_rounds, plan.wide_rounds])?;
    let counts = server.counts().await?;
    Ok(([bare, journal], counts.max_in_flight))
}

async fn training(plan: &Plan) -> Result<[Vec<TrainReport>; 3], Failure> {
    let mut reports = [const { Vec::new() }; 3];
    let (improve_every, seed) = (IMPROVE_EVERY.to_string(), SEED.to_string());
    let latency = LATENCY_MS.to_string();
    for repetition in 0..plan.repetitions {
        eprintln!("bench: an epoch of training, repetition {} of {}", repetition + 1, plan.repetitions);
        for (place, reports) in Place::ALL.into_iter().zip(&mut reports) {
            let server = Server::start(&[
                "--workload",
                "--latency-ms",
                &latency,
                "--improve-every",
                &improve_every,
                "--seed",
                &seed,
            ])?;
            let report = train(&server, TRAINING_IN_FLIGHT, plan.items, PROMPT_BYTES, place)?;
            // A call that is cancelled while it waits for its turn is begun and not sent.
            let counts = server.counts().await?;
            if counts.requests > report.calls as u64 {
                return Err(format!("{} calls made {} requests", report.calls, counts.requests).into());
            }
            reports.push(report);
        }
    }
    Ok(reports)
}

fn share(plan: &Plan, in_flight: u32) -> Result<Share, Failure> {
    eprintln!("bench: validation calls, {in_flight} in flight");
    let latency = COUNTING_LATENCY_MS.to_string();
    let server = Server::start(&[
        "--workload",
        "--accuracy",
        "0.9",
        "--improve-every",
        "0",
        "--latency-ms",
        &latency,
    ])?;
    let [n_train, n_val] = plan.counted_items;
    let report = train(&server, in_flight, [n_train, n_val, 0], 0, Place::Disk)?;
    let candidates = report.candidates;
    Ok(Share { in_flight, started: report.evaluate_calls, possible: candidates * n_val, candidates })
}

fn train(
    server: &Server,
    in_flight: u32,
    [n_train, n_val, n_test]: [usize; 3],
    prompt_bytes: usize,
    place: Place,
) -> Result<TrainReport, Failure> {
    let dir = match place {
        Place::Disk | Place::JournalInMemory => tempfile::tempdir()?,
        Place::Memory => tempfile::tempdir_in(MEMORY_DIR)?,
    };
    let journal_dir =
        (place == Place::JournalInMemory).then(|| tempfile::tempdir_in(MEMORY_DIR)).transpose()?;
    let mut args = vec!["train".to_owned(), server.address().to_owned()];
    let mut option = |name: &str, value: String| args.extend([format!("--{name}"), value]);
    option("dir", dir.path().display().to_string());
    option("in-flight", in_flight.to_string());
    option("train", n_train.to_string());
    option("val", n_val.to_string());
    option("test", n_test.to_string());
    option("prompt-bytes", prompt_bytes.to_string());
    if let Some(journal_dir) = &journal_dir {
        option("journal-dir", journal_dir.path().display().to_string());
    }
    measure(args)
}

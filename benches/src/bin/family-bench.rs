//! Compares ways of searching for a skill on simulated families of tasks, at equal calls, and prints tables.

#![expect(clippy::print_stdout, reason = "the results of the program")]
#![expect(clippy::print_stderr, reason = "progress, for the person who waits")]

use clap::{Parser, Subcommand};
use skill_core::search_plan::SearchBudget;
use skill_core::{EditBudget, Schedule};
use skill_pipeline::{EpochEnd, Protocol, SearchLimits, TrainSettings};
use skillrl_bench::search::arm::{Outcome, train};
use skillrl_bench::search::peers::{self, Jobs};
use skillrl_bench::search::table::{Column, leads, scores};
use skillrl_bench::search::{Family, Sizes, World};
use std::error::Error;
use std::path::PathBuf;

/// Seeds of the first look, from whose spread the number of seeds follows.
const PILOT_SEEDS: u64 = 8;
/// The difference that the seeds are to show.
const DIFFERENCE: f64 = 0.03;
/// The least and the most seeds.
const SEEDS: [u64; 2] = [12, 200];

/// Compares ways of searching for a skill, and prints tables.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// Runs everything on two seeds: shows that the bench works, and nothing else.
    #[arg(long)]
    quick: bool,
    /// The number of seeds; by default as many as show a difference of 3 points.
    #[arg(long)]
    seeds: Option<u64>,
    /// The first seed: numbers on seeds that no choice was made by are the honest ones.
    #[arg(long, default_value_t = 0)]
    first_seed: u64,
    /// Calls of agent and optimizer together.
    #[arg(long, default_value_t = 750)]
    calls: u64,
    /// Training and selection tasks, such as `40,40`.
    #[arg(long, value_delimiter = ',', default_values_t = [40, 40])]
    items: Vec<usize>,
    /// Some of the families alone.
    #[arg(long, value_delimiter = ',')]
    families: Vec<String>,
    /// Ways of searching, the first of which is compared with the others: paper, paper-long (until the calls are used
    /// up), gepa, skillrl1, auto-r2 (rounds of two proposals), or settings such as b12-m3-e4 (batch,
    /// minibatch, edits; f: failures alone; r2: repeats).
    #[arg(long, value_delimiter = ',', default_value = "auto,paper,paper-long,gepa,skillrl1")]
    arms: Vec<String>,
    /// A Python that has the packages gepa 0.1.4 and skillrl 1.0.0: they search in the same worlds.
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Plays a world for another program, line by line on the standard streams.
    World {
        /// The family.
        family: String,
        /// The seed.
        seed: u64,
        /// Tasks of the three splits.
        train: usize,
        /// Tasks of the validation split.
        val: usize,
        /// Tasks of the test split.
        test: usize,
    },
}

/// How the arms of rounds of a size begin; the size follows.
const ROUNDS: &str = "auto-r";
/// The systems that a Python runs.
const PEERS: [&str; 2] = ["gepa", "skillrl1"];

type Failure = Box<dyn Error + Send + Sync>;
type Outcomes = Vec<(Family, u64, Outcome)>;

/// A way of searching with settings of its own.
struct Arm {
    name: String,
    settings: TrainSettings,
}

fn main() -> Result<(), Failure> {
    let cli = Cli::parse();
    if let Some(Command::World { family, seed, train, val, test }) = &cli.command {
        let world = World::new(family_of(family)?, *seed, Sizes { train: *train, val: *val, test: *test });
        return Ok(skillrl_bench::search::serve::serve(
            &world,
            std::io::stdin().lock(),
            std::io::stdout().lock(),
        )?);
    }
    let families: Vec<Family> = match cli.families.as_slice() {
        [] => Family::ALL.to_vec(),
        names => names.iter().map(|name| family_of(name)).collect::<Result<_, _>>()?,
    };
    let [train, val] = cli.items.as_slice() else { return Err("--items takes two numbers".into()) };
    let bench = Bench { families, sizes: Sizes { train: *train, val: *val, test: 200 }, calls: cli.calls };
    let python = cli.python.as_deref();
    let names: Vec<&str> = cli
        .arms
        .iter()
        .map(String::as_str)
        .filter(|name| python.is_some() || !PEERS.contains(name))
        .collect();
    let own = names.iter().filter(|name| !PEERS.contains(name));
    let arms: Vec<Arm> = own.map(|name| bench.arm(name)).collect::<Result<_, _>>()?;
    let mut columns: Vec<Column> = names.iter().map(|name| Column::new(*name)).collect();
    let grow = |columns: &mut Vec<Column>, seeds: std::ops::Range<u64>| -> Result<(), Failure> {
        for column in columns {
            let began = std::time::Instant::now();
            let outcomes = match arms.iter().find(|arm| arm.name == column.name) {
                Some(arm) => bench.run(arm, seeds.clone())?,
                None => {
                    let python = python.ok_or("no Python")?;
                    bench.run_peer(python, &column.name, seeds.clone())?
                }
            };
            outcomes.into_iter().for_each(|(family, seed, outcome)| column.add(family, seed, outcome));
            eprintln!("{}: seeds {seeds:?} in {:.0} s", column.name, began.elapsed().as_secs_f64());
        }
        Ok(())
    };
    let pilot = if cli.quick { 2 } else { cli.seeds.unwrap_or(PILOT_SEEDS) };
    let first = cli.first_seed;
    grow(&mut columns, first..first.saturating_add(pilot))?;
    let mut n_seeds = pilot;
    if !cli.quick
        && cli.seeds.is_none()
        && let Some((own, others)) = columns.split_first()
    {
        let needed = others.iter().map(|other| own.seeds_needed(other, DIFFERENCE)).max().unwrap_or_default();
        n_seeds = needed.clamp(SEEDS[0], SEEDS[1]);
        println!(
            "{pilot} seeds show a spread by which {needed} seeds show a difference of 3 points; {n_seeds} are run.\n"
        );
        grow(&mut columns, first.saturating_add(pilot)..first.saturating_add(n_seeds.max(pilot)))?;
    }
    let Sizes { train, val, test } = bench.sizes;
    println!(
        "{train} training, {val} selection and {test} test tasks; {n_seeds} seeds from {first} on; at most {} calls.\n",
        cli.calls
    );
    println!("{}\n", scores(&bench.families, &columns));
    if let Some((own, others)) = columns.split_first() {
        println!("{}", leads(&bench.families, own, &others.iter().collect::<Vec<_>>()));
    }
    Ok(())
}

fn family_of(name: &str) -> Result<Family, String> {
    let names = || Family::ALL.map(Family::as_str).join(", ");
    Family::parse(name).ok_or_else(|| format!("no family is called {name}: there are {}", names()))
}

struct Bench {
    families: Vec<Family>,
    sizes: Sizes,
    calls: u64,
}

impl Bench {
    /// The ways of searching by name, or as letters with numbers: `b12m3e4` has batches of 12, minibatches of 3 and 4 edits
    /// per step; `f` reads failures alone.
    fn arm(&self, name: &str) -> Result<Arm, String> {
        let paper = TrainSettings::default();
        let settings = match name {
            "paper" => paper,
            "auto" => TrainSettings { protocol: Protocol::Auto, search: self.limits(), ..paper },
            spec if spec.starts_with(ROUNDS) => {
                let round =
                    spec.trim_start_matches(ROUNDS).parse().map_err(|_| format!("{spec} names no number"))?;
                TrainSettings { protocol: Protocol::Auto, search: self.limits(), round, ..paper }
            }
            "paper-long" => TrainSettings { epochs: 1000, ..paper },
            spec => spec_settings(spec)?,
        };
        Ok(Arm { name: name.to_owned(), settings })
    }

    fn limits(&self) -> SearchLimits {
        let budget = SearchBudget { calls: Some(self.calls as f64), ..SearchBudget::default() };
        SearchLimits { budget, ..SearchLimits::default() }
    }

    fn run(&self, arm: &Arm, seeds: std::ops::Range<u64>) -> Result<Outcomes, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let jobs = self.families.iter().flat_map(|family| seeds.clone().map(move |seed| (*family, seed)));
        jobs.map(|(family, seed)| {
            let outcome = runtime.block_on(train(family, seed, self.sizes, &arm.settings, self.calls))?;
            Ok((family, seed, outcome))
        })
        .collect()
    }

    fn run_peer(
        &self,
        python: &std::path::Path,
        system: &str,
        seeds: std::ops::Range<u64>,
    ) -> Result<Outcomes, Failure> {
        let jobs = Jobs { system, families: &self.families, seeds, sizes: self.sizes, calls: self.calls };
        Ok(peers::run(python, &std::env::current_exe()?, &jobs)?)
    }
}

/// Settings out of letters with numbers.
fn spec_settings(spec: &str) -> Result<TrainSettings, String> {
    let mut settings = TrainSettings { epochs: 1000, epoch_end: EpochEnd::OFF, ..TrainSettings::default() };
    for part in spec.split('-') {
        let (letter, number) = part.split_at(part.len().min(1));
        let number =
            || number.parse::<u32>().map_err(|_| format!("{part} of {spec} is not a letter and a number"));
        match letter {
            "b" => settings.batch_size = number()? as usize,
            "m" => settings.minibatch_size = number()? as usize,
            "e" => {
                settings.edit_budget =
                    EditBudget { max: number()?, min: number()?, schedule: Schedule::Constant }
            }
            "r" => settings.evidence.selection_repeats = number()? as usize,
            "f" => settings.failure_only = true,
            _ => return Err(format!("no way of searching is called {spec}")),
        }
    }
    Ok(settings)
}

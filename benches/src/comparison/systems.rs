//! The systems that are compared: how each is started, and how much of its cap it may use for searching.

use crate::comparison::Failure;
use crate::comparison::real::results::RealRow;
use crate::comparison::real::{RealTasks, Sizes};
use crate::comparison::results::{Found, Place, Row, Search};
use crate::comparison::server::{OPTIMIZER, Run, Server, TARGET, World};
use crate::generator::text::Line;
use crate::generator::{Environment, Variant};
use serde_json::Value;
use skill_core::named_enum;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

/// The program that runs the peers that are Python packages.
const PEERS: &str = include_str!("../../python/peers.py");
/// Tasks of a step of the paper's protocol.
const PAPER_BATCH: usize = 40;
/// Calls of the optimizer in such a step, and calls at the end of an epoch.
const PAPER_OPTIMIZER: usize = 10;
/// See `PAPER_OPTIMIZER`.
const PAPER_EPOCH_END: usize = 42;
/// The most epochs of the paper's protocol.
const MOST_EPOCHS: usize = 30;

named_enum! {
    /// A way of searching.
    pub enum System {
        /// skillrl with `protocol = "auto"`.
        Auto = "auto",
        /// skillrl with the paper's protocol, for as many epochs as the calls allow.
        Paper = "paper",
        /// GEPA with its defaults.
        Gepa = "gepa",
        /// GEPA with twice the calls.
        Gepa2 = "gepa-twice",
        /// SkillOpt with its defaults, for as many epochs as the calls allow.
        Skillopt = "skillopt",
        /// The reply to one request with failures of the initial skill.
        OneShot = "one-shot",
        /// As many independent replies as the calls allow, of which the best by validation is taken.
        BestOf = "best-of-n",
    }
}

impl System {
    /// The Python package that it is, with the version that is compared.
    pub fn package(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Auto | Self::Paper => None,
            // One-shot and best of N ask by the prompt of GEPA.
            Self::Gepa | Self::Gepa2 | Self::OneShot | Self::BestOf => Some(("gepa", "0.1.4")),
            Self::Skillopt => Some(("skillopt", "0.2.0")),
        }
    }

    /// The cap on calls of all models.
    pub fn cap(self, calls: usize) -> usize {
        match self {
            Self::Gepa2 => 2 * calls,
            Self::Auto | Self::Paper | Self::Gepa | Self::Skillopt | Self::OneShot | Self::BestOf => calls,
        }
    }
}

/// The programs of a comparison.
#[derive(Debug, Clone)]
pub struct Programs {
    /// `skillrl`, and how its version is called in the results.
    pub skillrl: PathBuf,
    /// See `skillrl`.
    pub label: String,
    /// A Python with the packages of the peers.
    pub python: Option<PathBuf>,
    /// Further settings of skillrl, such as `train.patience=20`.
    pub settings: Vec<String>,
}

impl Programs {
    /// The version of a system in the results.
    pub fn version(&self, system: System) -> &str {
        system.package().map_or(&self.label, |(_, version)| version)
    }

    /// Searches in one simulated environment with one system.
    ///
    /// # Errors
    ///
    /// A program that cannot be started or fails, with what it said last.
    pub fn run(&self, server: &Server, place: &Place, system: System) -> Result<Row, Failure> {
        let variant =
            Variant::parse(&place.variant).ok_or_else(|| format!("no variant {}", place.variant))?;
        let environment = Arc::new(Environment::sample(place.seed, variant, place.repetition));
        let run = Run::new(World::Simulated(Arc::clone(&environment)));
        let name = format!("{}-{}-{}-{}", place.variant, place.seed, place.repetition, system.as_str());
        let found = self.search(server, run, &name, place.seed, system)?;
        Ok(Row {
            place: place.clone(),
            search: Search::of([system.as_str(), self.version(system)], &found),
            score: environment.expected(&found.skill),
            initial: environment.expected(&environment.initial_skill()),
            knowable: environment.expected(&environment.knowable_skill()),
            lines: Line::all_in(&found.skill).len() as u64,
        })
    }

    /// Searches in real tasks with one system; measures nothing.
    ///
    /// # Errors
    ///
    /// As [`Self::run`].
    pub fn run_real(
        &self,
        server: &Server,
        tasks: &RealTasks,
        seed: u64,
        system: System,
    ) -> Result<RealRow, Failure> {
        let name = format!("{}-{seed}-{}", tasks.task.as_str(), system.as_str());
        let run = Run::new(World::Real(tasks.clone(), seed));
        let found = self.search(server, run, &name, seed, system)?;
        Ok(RealRow::new(tasks, seed, [system.as_str(), self.version(system)], found))
    }

    fn search(
        &self,
        server: &Server,
        run: Run,
        name: &str,
        seed: u64,
        system: System,
    ) -> Result<Found, Failure> {
        let run = Arc::new(run);
        server.open(name, Arc::clone(&run));
        let dir = tempfile::Builder::new().prefix("skillrl-search-").tempdir()?;
        let began = Instant::now();
        let sizes = run.world.sizes();
        let cap = system.cap(sizes.calls);
        let job = Job { run: &run, url: server.address(name), dir: dir.path(), cap, seed };
        let skill = match system {
            System::Auto => self.skillrl(&job, None),
            System::Paper => self.skillrl(&job, Some(epochs(sizes))),
            System::Gepa | System::Gepa2 | System::Skillopt | System::OneShot | System::BestOf => {
                self.peer(&job, system)
            }
        };
        server.close(name);
        let skill = skill.map_err(|error| format!("{name}: {error}"))?;
        Ok(Found { skill, cap, counts: run.counts(), seconds: began.elapsed().as_secs_f64() })
    }

    /// The skill that skillrl's program leaves.
    fn skillrl(&self, job: &Job<'_>, epochs: Option<usize>) -> Result<String, Failure> {
        let world = &job.run.world;
        fs::create_dir(job.dir.join("data"))?;
        for (split, rows) in world.rows() {
            let rows: String = rows.iter().map(|row| row.to_string() + "\n").collect();
            fs::write(job.dir.join("data").join(split).with_extension("jsonl"), rows)?;
        }
        fs::write(job.dir.join("skill.md"), world.initial_skill())?;
        fs::write(job.dir.join("skillrl.toml"), configuration(job, epochs))?;
        let settings = self.settings.iter().flat_map(|setting| ["--set", setting.as_str()]);
        let output = Command::new(&self.skillrl)
            .args(["train", "--quiet"])
            .args(settings)
            .env_remove("SKILLRL_CONFIG")
            .current_dir(job.dir)
            .stdin(Stdio::null())
            .output()?;
        // A cap may end the paper's protocol: what it has found by then counts.
        match fs::read_to_string(job.dir.join("run/best_skill.md")) {
            Ok(skill) => Ok(skill),
            // On refusal the existing skill stays.
            Err(_) if !output.status.success() && job.run.counts().calls() == 0 => Ok(world.initial_skill()),
            Err(_) => Err(last_lines(&output.stderr).into()),
        }
    }

    /// The skill that a Python package leaves.
    fn peer(&self, job: &Job<'_>, system: System) -> Result<String, Failure> {
        let python = self.python.as_ref().ok_or("peers need `--python`")?;
        let sizes = job.run.world.sizes();
        let script = job.dir.join("peers.py");
        fs::write(&script, PEERS)?;
        let numbers = [job.cap - sizes.n_test, epochs(sizes), usize::try_from(job.seed).unwrap_or_default()];
        let output = Command::new(python)
            .arg(&script)
            .args([system.as_str(), &job.url])
            .args(numbers.map(|number| number.to_string()))
            .current_dir(job.dir)
            .stdin(Stdio::null())
            .output()?;
        let skill = fs::read_to_string(job.dir.join("found.md"));
        skill.map_err(|_| last_lines(&output.stderr).into())
    }
}

struct Job<'a> {
    run: &'a Run,
    url: String,
    dir: &'a Path,
    cap: usize,
    seed: u64,
}

/// Epochs of the paper's protocol that fit the calls.
fn epochs(Sizes { n_train, n_val, n_test, calls }: Sizes) -> usize {
    let steps = n_train.div_ceil(PAPER_BATCH);
    let batch = n_train.min(PAPER_BATCH);
    let epoch = steps * (batch + n_val + PAPER_OPTIMIZER) + PAPER_EPOCH_END;
    let ends = n_val + 2 * n_test;
    (calls.saturating_sub(ends) / epoch).clamp(1, MOST_EPOCHS)
}

/// A configuration as a person would write it, but for the address.
fn configuration(job: &Job<'_>, epochs: Option<usize>) -> String {
    let Job { run, url, cap, seed, .. } = job;
    let (scorer, metric) = match &run.world {
        World::Simulated(environment) if environment.parameters.is_graded => ("em_f1", "soft"),
        World::Real(tasks, _) if tasks.task.is_json() => ("json_fields", "hard"),
        World::Simulated(_) | World::Real(..) => ("exact", "hard"),
    };
    let search = match epochs {
        Some(epochs) => format!("protocol = \"paper\"\nepochs = {epochs}"),
        None => "protocol = \"auto\"".to_owned(),
    };
    let model = |role: &str, name: &str| {
        let url = Value::from(format!("{url}/v1"));
        format!("[models.{role}]\nkind = \"openai\"\nbase_url = {url}\nmodel = \"{name}\"\n")
    };
    format!(
        "[run]\ndir = \"run\"\nseed = {seed}\nworkers = 4\n\n{}\n{}\n\
         [env]\nkind = \"tasks\"\ndata = \"data\"\nuser_prompt = \"{{{{ question }}}}\"\nscorer = \"{scorer}\"\n\n\
         [gate]\nmetric = \"{metric}\"\n\n[skill]\ninitial = \"skill.md\"\n\n\
         [train]\n{search}\n\n[budget]\ncalls = {cap}\n",
        model("target", TARGET),
        model("optimizer", OPTIMIZER),
    )
}

fn last_lines(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text.lines().collect();
    lines.iter().skip(lines.len().saturating_sub(8)).copied().collect::<Vec<_>>().join("\n")
}

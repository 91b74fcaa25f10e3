//! The systems that are compared: how each is started, and how much of its cap it may use for searching.

use crate::comparison::Failure;
use crate::comparison::results::{Place, Row};
use crate::comparison::server::{OPTIMIZER, Run, Server, TARGET};
use crate::generator::text::Line;
use crate::generator::{Environment, Parameters, Variant};
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
        /// As many independent replies as the calls allow, of which the best by validation is taken.
        BestOf = "best-of-n",
    }
}

impl System {
    /// The Python package that it is, with the version that is compared.
    pub fn package(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Auto | Self::Paper => None,
            // Best of N asks by the prompt of GEPA.
            Self::Gepa | Self::Gepa2 | Self::BestOf => Some(("gepa", "0.1.4")),
            Self::Skillopt => Some(("skillopt", "0.2.0")),
        }
    }

    fn cap(self, parameters: &Parameters) -> usize {
        match self {
            Self::Gepa2 => 2 * parameters.calls,
            Self::Auto | Self::Paper | Self::Gepa | Self::Skillopt | Self::BestOf => parameters.calls,
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

    /// Searches in one environment with one system.
    ///
    /// # Errors
    ///
    /// A program that cannot be started or fails, with what it said last.
    pub fn run(&self, server: &Server, place: &Place, system: System) -> Result<Row, Failure> {
        let variant =
            Variant::parse(&place.variant).ok_or_else(|| format!("no variant {}", place.variant))?;
        let environment = Environment::sample(place.seed, variant, place.repetition);
        let run = Arc::new(Run::new(environment));
        let version = self.version(system);
        let name = format!("{}-{}-{}-{}", place.variant, place.seed, place.repetition, system.as_str());
        server.open(&name, Arc::clone(&run));
        let dir = tempfile::Builder::new().prefix("skillrl-search-").tempdir()?;
        let began = Instant::now();
        let cap = system.cap(&run.environment.parameters);
        let job = Job { run: &run, url: server.address(&name), dir: dir.path(), cap, seed: place.seed };
        let skill = match system {
            System::Auto => self.skillrl(&job, None),
            System::Paper => self.skillrl(&job, Some(epochs(&run.environment.parameters))),
            System::Gepa | System::Gepa2 | System::Skillopt | System::BestOf => self.peer(&job, system),
        };
        server.close(&name);
        let skill = skill.map_err(|error| format!("{name}: {error}"))?;
        let counts = run.counts();
        Ok(Row {
            place: place.clone(),
            system: system.as_str().to_owned(),
            version: version.to_owned(),
            cap: cap as u64,
            target_calls: counts.target,
            optimizer_calls: counts.optimizer,
            leaks: counts.leaks,
            score: run.environment.expected(&skill),
            initial: run.environment.expected(&run.environment.initial_skill()),
            knowable: run.environment.expected(&run.environment.knowable_skill()),
            lines: Line::all_in(&skill).len() as u64,
            seconds: began.elapsed().as_secs_f64(),
        })
    }

    /// The skill that skillrl's program leaves.
    fn skillrl(&self, job: &Job<'_>, epochs: Option<usize>) -> Result<String, Failure> {
        let environment = &job.run.environment;
        fs::create_dir(job.dir.join("data"))?;
        for (split, tasks) in environment.splits() {
            let rows: String = tasks.iter().map(|task| environment.row(task).to_string() + "\n").collect();
            fs::write(job.dir.join("data").join(split).with_extension("jsonl"), rows)?;
        }
        fs::write(job.dir.join("skill.md"), environment.initial_skill())?;
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
            Err(_) if !output.status.success() && job.run.counts().calls() == 0 => {
                Ok(environment.initial_skill())
            }
            Err(_) => Err(last_lines(&output.stderr).into()),
        }
    }

    /// The skill that a Python package leaves.
    fn peer(&self, job: &Job<'_>, system: System) -> Result<String, Failure> {
        let python = self.python.as_ref().ok_or("peers need `--python`")?;
        let parameters = &job.run.environment.parameters;
        let script = job.dir.join("peers.py");
        fs::write(&script, PEERS)?;
        let numbers = [
            job.cap - parameters.n_test(),
            epochs(parameters),
            usize::try_from(job.seed).unwrap_or_default(),
        ];
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
fn epochs(parameters: &Parameters) -> usize {
    let steps = parameters.n_train.div_ceil(PAPER_BATCH);
    let batch = parameters.n_train.min(PAPER_BATCH);
    let epoch = steps * (batch + parameters.n_val + PAPER_OPTIMIZER) + PAPER_EPOCH_END;
    let ends = parameters.n_val + 2 * parameters.n_test();
    (parameters.calls.saturating_sub(ends) / epoch).clamp(1, MOST_EPOCHS)
}

/// A configuration as a person would write it, but for the address.
fn configuration(job: &Job<'_>, epochs: Option<usize>) -> String {
    let Job { run, url, cap, seed, .. } = job;
    let (scorer, metric) =
        if run.environment.parameters.is_graded { ("em_f1", "soft") } else { ("exact", "hard") };
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

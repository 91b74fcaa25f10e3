//! The process that is killed: a run of the demo through the facade.

use crate::served::{Pace, Served, Signals};
use serde::{Deserialize, Serialize};
use skillrl::config::{Config, ModelRole, TrainMode};
use skillrl::engine::{Engine, RunModels};
use skillrl::llm::JournalOptions;
use skillrl::llm::journal::CommitPoint;
use skillrl::pipeline::bank::BankTrainer;
use skillrl::pipeline::{Event, EventSink, PipelineError, StopSignal};
use skillrl::{prompts, skills, trainer};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Holds the [`Plan`] of a child; without it there is no child.
pub(crate) const PLAN_VARIABLE: &str = "SKILLRL_CRASH_PLAN";

/// Far longer than anything here takes; only a failed test waits so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// What a child does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Counts the children of a world.
    pub(crate) number: u32,
    /// The directory with the demo's files.
    pub(crate) home: PathBuf,
    /// The configuration in it.
    pub(crate) config: String,
    /// Settings of the command line.
    pub(crate) overrides: Vec<String>,
    /// Where it holds still and waits to be killed.
    pub(crate) death: Option<Death>,
    pub(crate) commits: Commits,
    /// The most bytes of the journal.
    pub(crate) max_bytes: Option<u64>,
}

/// An append to the journal at which a child holds still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Death {
    pub(crate) point: DeathPoint,
    /// The number of the entry, counted by the child from 1.
    pub(crate) entry: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum DeathPoint {
    Before,
    After,
}

/// How replies are committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Commits {
    /// As a person's run does it.
    InGroups,
    /// Each entry by itself.
    OneByOne,
    /// Each entry by itself; and the server takes a call only when so many answers are committed that no more than
    /// `run.workers` can be lost.
    Paced,
    /// Only when somebody waits for it.
    OnlyWhenFlushed,
}

/// Starts a line of a child; libtest writes to standard output too.
pub(crate) const MARK: &str = ">>> ";

/// What a child says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Said {
    /// A request has reached the server.
    Request,
    /// An event, by its name.
    Event(String),
    /// The child holds still at its [`Death`].
    Dying,
    /// The run is finished.
    Finished { n_steps: usize },
    /// The run stopped.
    Stopped { failure: String, text: String, hint: String },
}

impl Said {
    /// A line that anyone who started the child reads.
    pub(crate) fn say(&self) {
        use std::io::Write as _;
        let line = format!("\n{MARK}{}\n", serde_json::to_string(self).unwrap());
        // Nobody may be listening any more.
        drop(std::io::stdout().lock().write_all(line.as_bytes()));
    }
}

struct SayEvents;

impl EventSink for SayEvents {
    fn emit(&self, event: &Event) {
        if !matches!(event, Event::StageProgress { .. }) {
            let name = serde_json::to_value(event).unwrap()["event"].as_str().unwrap().to_owned();
            Said::Event(name).say();
        }
    }
}

/// No test of its own: what the tests start this binary for.
#[test]
fn crash_child() {
    let Ok(plan) = std::env::var(PLAN_VARIABLE) else { return };
    let plan: Plan = serde_json::from_str(&plan).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let outcome = runtime.block_on(async { tokio::time::timeout(PATIENCE, train(&plan)).await });
    match outcome.expect("a run does not hang") {
        Ok(n_steps) => Said::Finished { n_steps }.say(),
        Err(error) => {
            let causes = std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
            let text = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
            let error = skillrl::Error::from(error);
            Said::Stopped { failure: format!("{:?}", error.failure()), text, hint: error.hint() }.say();
        }
    }
}

/// Trains, and returns how many steps or rounds it were.
async fn train(plan: &Plan) -> Result<usize, PipelineError> {
    let loaded = Config::load(&plan.home.join(&plan.config), &plan.overrides).unwrap();
    let signals = Arc::new(Signals::default());
    let pace = (plan.commits == Commits::Paced).then(|| {
        let journal = loaded.run_dir().join("journal.sqlite");
        Arc::new(Pace::new(journal, u64::from(loaded.config.run.workers), Arc::clone(&signals)))
    });
    let served = |role| {
        let inner = Engine::new(&loaded).model(role).unwrap();
        Arc::new(Served::new(inner, &plan.home, plan.number, pace.clone()))
    };
    let [target, optimizer] = ModelRole::of_training(&loaded.config).map(served);
    let models = RunModels { target, optimizer, judge: None };
    let base = trainer::document_with(&loaded, models, Arc::new(SayEvents), StopSignal::default()).unwrap();
    let base = base.with_journal_options(journal_options(plan, signals));
    let run_dir = loaded.run_dir();
    match loaded.config.train.mode {
        TrainMode::Document => Ok(base.train(&run_dir).await?.total_steps),
        TrainMode::Weights => unreachable!("the demos train documents and banks"),
        TrainMode::Bank => {
            let retrieval = skills::retrieval(loaded.config.retrieval.as_ref(), None).unwrap();
            let prompts = prompts::of_teacher(&loaded.config.prompts).unwrap();
            let trainer = BankTrainer::new(base, retrieval, prompts)
                .with_settings(trainer::bank_settings(&loaded.config));
            Ok(usize::try_from(trainer.train(&run_dir).await?.rounds).unwrap())
        }
    }
}

fn journal_options(plan: &Plan, signals: Arc<Signals>) -> JournalOptions {
    let mut options = JournalOptions::default();
    match plan.commits {
        Commits::InGroups => {}
        Commits::OneByOne | Commits::Paced => (options.group_window, options.max_group) = (Duration::ZERO, 1),
        Commits::OnlyWhenFlushed => {
            (options.group_window, options.max_group) = (PATIENCE * 2, usize::MAX);
        }
    }
    if let Some(max_bytes) = plan.max_bytes {
        options.max_bytes = max_bytes;
    }
    let death = plan.death;
    options.on_commit = Some(Arc::new(move |point, n_entries| {
        let dies = death.is_some_and(|death| {
            let at_point = match death.point {
                DeathPoint::Before => point == CommitPoint::Before,
                DeathPoint::After => point == CommitPoint::After,
            };
            at_point && death.entry == n_entries
        });
        if dies {
            Said::Dying.say();
            // This thread is the one that commits, so from here on nothing is.
            std::thread::park_timeout(PATIENCE);
            std::process::abort();
        }
        if point == CommitPoint::After {
            signals.committed();
        }
    }));
    options
}

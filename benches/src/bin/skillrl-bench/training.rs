//! A whole training run through the facade, with every call counted by its place.

use crate::Failure;
use crate::calls::configuration;
use crate::process::cpu_seconds;
use crate::provider::{DataSize, write_data};
use crate::waves::Waves;
use async_trait::async_trait;
use clap::Args;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skillrl::config::{Config, ModelRole};
use skillrl::engine::Engine;
use skillrl::llm::{CallCtx, ChatModel, ChatReply, ChatRequest, LlmError, ModelId};
use skillrl::pipeline::Trainer;
use skillrl::{trainer, world};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Which run to make.
#[derive(Debug, Clone, Args)]
pub(crate) struct TrainArgs {
    /// The server, such as http://127.0.0.1:8080.
    pub(crate) address: String,
    /// Where data and run directory go; they are left there.
    #[arg(long)]
    pub(crate) dir: PathBuf,
    /// Calls in flight.
    #[arg(long)]
    pub(crate) in_flight: u32,
    /// Items to train on.
    #[arg(long)]
    pub(crate) train: usize,
    /// Items to choose skills by.
    #[arg(long)]
    pub(crate) val: usize,
    /// Items to measure the result by; without any, nothing is measured at the end.
    #[arg(long)]
    pub(crate) test: usize,
    /// About how long each prompt is.
    #[arg(long)]
    pub(crate) prompt_bytes: usize,
    /// Puts the journal into this directory, such as one in memory, instead of into the run directory.
    #[arg(long)]
    pub(crate) journal_dir: Option<PathBuf>,
}

/// What the run took.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct TrainReport {
    /// How long the run took.
    pub(crate) seconds: f64,
    /// Processor time of the process in seconds.
    pub(crate) cpu_s: f64,
    /// Calls that were begun.
    pub(crate) calls: usize,
    /// Those that measured candidates.
    pub(crate) evaluate_calls: usize,
    /// Rounds of calls that have to follow each other.
    pub(crate) waves: usize,
    /// Steps whose candidate was measured.
    pub(crate) candidates: usize,
    /// Those whose candidate was accepted.
    pub(crate) accepted: usize,
}

/// Makes the run.
pub(crate) async fn run(args: &TrainArgs) -> Result<TrainReport, Failure> {
    let test = args.test.max(1);
    let size = DataSize { train: args.train, val: args.val, test, context_bytes: args.prompt_bytes };
    write_data(&args.dir.join("data"), &size)?;
    let mut text = configuration(&args.address, &args.dir, args.in_flight);
    if args.test == 0 {
        text.push_str("[eval]\ntest = false\n");
    }
    let loaded = Config::parse(&text, "the benchmark", &[])?;
    let run_dir = args.dir.join("run");
    if let Some(journal_dir) = &args.journal_dir {
        link_journal(&run_dir, journal_dir)?;
    }
    let waves = Arc::new(Mutex::new(Waves::default()));
    let mut engine = Engine::new(&loaded);
    let mut model = |role| -> Result<Arc<dyn ChatModel>, Failure> {
        Ok(Arc::new(Counted { inner: engine.model(role)?, waves: Arc::clone(&waves) }))
    };
    let (target, optimizer) = (model(ModelRole::Target)?, model(ModelRole::Optimizer)?);
    let trainer = Trainer::new(world::environment(&loaded, None)?, target, optimizer)
        .with_settings(trainer::settings(&loaded.config)?)
        .with_budget(engine.budget(), engine.prices());
    let cpu_before = cpu_seconds();
    let began = Instant::now();
    let summary = trainer.train(&run_dir).await?;
    let seconds = began.elapsed().as_secs_f64();
    let used = cpu_before.zip(cpu_seconds()).map(|(before, after)| after - before);
    let waves = waves.lock();
    Ok(TrainReport {
        seconds,
        cpu_s: used.ok_or("no /proc")?,
        calls: waves.n_calls(),
        evaluate_calls: waves.n_calls_of("evaluate"),
        waves: waves.n_waves(usize::try_from(args.in_flight)?),
        candidates: summary.total_accepts + summary.total_rejects,
        accepted: summary.total_accepts,
    })
}

/// SQLite follows the link, and keeps its log beside the file that it leads to.
#[cfg(unix)]
fn link_journal(run_dir: &std::path::Path, journal_dir: &std::path::Path) -> std::io::Result<()> {
    std::fs::create_dir_all(run_dir)?;
    std::os::unix::fs::symlink(journal_dir.join("journal.sqlite"), run_dir.join("journal.sqlite"))
}

#[cfg(not(unix))]
fn link_journal(_run_dir: &std::path::Path, _journal_dir: &std::path::Path) -> std::io::Result<()> {
    Err(std::io::Error::from(std::io::ErrorKind::Unsupported))
}

/// Counts what passes it, which is what the journal could not answer.
struct Counted {
    inner: Arc<dyn ChatModel>,
    waves: Arc<Mutex<Waves>>,
}

#[async_trait]
impl ChatModel for Counted {
    fn id(&self) -> &ModelId {
        self.inner.id()
    }

    fn parameters(&self) -> Value {
        self.inner.parameters()
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        self.waves.lock().count(call.place.as_str());
        self.inner.chat(request, call).await
    }
}

//! Calls, many at once: through a bare HTTP client, through all layers, and with the journal around them.

use crate::Failure;
use crate::process::{cpu_seconds, peak_memory};
use clap::{Args, ValueEnum};
use reqwest::Client;
use reqwest::header::CONTENT_TYPE;
use serde::{Deserialize, Serialize};
use skillrl::config::{Config, ModelRole};
use skillrl::engine::Engine;
use skillrl::llm::{
    CallCtx, CallPlace, ChatModel, ChatRequest, Journal, JournalOptions, Journaled, Message, Metered,
};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::task::JoinSet;

/// What makes the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Stack {
    /// A reqwest client and nothing around it.
    Bare,
    /// All layers that a run has, but the journal.
    Layers,
    /// All layers that a run has.
    Journal,
}

impl Stack {
    pub(crate) const ALL: [Self; 3] = [Self::Bare, Self::Layers, Self::Journal];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Layers => "layers",
            Self::Journal => "journal",
        }
    }
}

/// Which calls to make.
#[derive(Debug, Clone, Args)]
pub(crate) struct CallsArgs {
    /// The server, such as http://127.0.0.1:8080.
    pub(crate) address: String,
    /// What makes the calls.
    #[arg(long)]
    pub(crate) stack: Stack,
    /// Calls in flight.
    #[arg(long)]
    pub(crate) in_flight: u32,
    /// Rounds of calls before those that are measured: they open connections and find the pace.
    #[arg(long)]
    pub(crate) warm_up_rounds: u64,
    /// Rounds of calls that are measured.
    #[arg(long)]
    pub(crate) rounds: u64,
    /// About how long each prompt is.
    #[arg(long)]
    pub(crate) prompt_bytes: usize,
    /// Where the journal goes; it is left there.
    #[arg(long)]
    pub(crate) dir: PathBuf,
}

/// What the calls took.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct CallsReport {
    /// Calls per second.
    pub(crate) rate: f64,
    /// Processor time per call in milliseconds, the journal's thread included.
    pub(crate) cpu_ms: f64,
    /// The most memory that the process has had, in bytes.
    pub(crate) peak_memory: u64,
}

/// Makes the calls.
pub(crate) async fn run(args: &CallsArgs) -> Result<CallsReport, Failure> {
    let caller = Arc::new(Caller::new(args)?);
    let per_round = u64::from(args.in_flight);
    let warm_up = args.warm_up_rounds * per_round;
    let total = args.rounds * per_round;
    all(&caller, args.in_flight, 0..warm_up).await?;
    let cpu_before = cpu_seconds();
    let began = Instant::now();
    all(&caller, args.in_flight, warm_up..warm_up + total).await?;
    let seconds = began.elapsed().as_secs_f64();
    // What the calls have left to do is theirs too.
    caller.flush().await?;
    let used = cpu_before.zip(cpu_seconds()).map(|(before, after)| after - before);
    Ok(CallsReport {
        rate: total as f64 / seconds,
        cpu_ms: used.ok_or("no /proc")? * 1e3 / total as f64,
        peak_memory: peak_memory().ok_or("no /proc")?,
    })
}

/// Makes the calls of these numbers, so many at a time.
async fn all(caller: &Arc<Caller>, in_flight: u32, numbers: Range<u64>) -> Result<(), Failure> {
    let next = Arc::new(AtomicU64::new(numbers.start));
    let mut workers = JoinSet::new();
    for _ in 0..in_flight {
        let (caller, next, end) = (Arc::clone(caller), Arc::clone(&next), numbers.end);
        workers.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= end {
                    return Ok::<(), Failure>(());
                }
                caller.call(number).await?;
            }
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    Ok(())
}

/// A client without anything around it.
pub(crate) fn bare_client() -> Result<Client, Failure> {
    // An error means that a provider is chosen already, which is as good.
    drop(rustls::crypto::ring::default_provider().install_default());
    Ok(Client::builder().no_proxy().tls_certs_only([]).build()?)
}

struct Caller {
    filler: String,
    way: Way,
}

enum Way {
    Bare { client: Client, url: String },
    Model { model: Arc<dyn ChatModel>, journal: Option<Journal> },
}

impl Caller {
    fn new(args: &CallsArgs) -> Result<Self, Failure> {
        let sentence = "All work and no play. ";
        let filler = sentence.repeat(args.prompt_bytes / sentence.len());
        let way = match args.stack {
            Stack::Bare => {
                Way::Bare { client: bare_client()?, url: format!("{}/v1/chat/completions", args.address) }
            }
            Stack::Layers => Way::Model { model: layers(args)?, journal: None },
            Stack::Journal => {
                let journal = Journal::open(&args.dir.join("journal.sqlite"), JournalOptions::default())?;
                // As the trainer puts it around the models.
                let kept = Journaled::new(layers(args)?, journal.clone());
                Way::Model { model: Arc::new(Metered::new(Arc::new(kept))), journal: Some(journal) }
            }
        };
        Ok(Self { filler, way })
    }

    async fn call(&self, number: u64) -> Result<(), Failure> {
        let filler = &self.filler;
        match &self.way {
            Way::Bare { client, url } => {
                let body = format!(
                    r#"{{"model":"load","messages":[{{"role":"user","content":"{filler}{number}"}}]}}"#
                );
                let request = client.post(url).header(CONTENT_TYPE, "application/json").body(body);
                request.send().await?.error_for_status()?.bytes().await?;
            }
            Way::Model { model, .. } => {
                let request = ChatRequest::new(vec![Message::user(format!("{filler}{number}"))]);
                let call = CallCtx::new(CallPlace::new("bench").child(number));
                model.chat(&request, &call).await?;
            }
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), Failure> {
        match &self.way {
            Way::Model { journal: Some(journal), .. } => Ok(journal.flush().await?),
            Way::Bare { .. } | Way::Model { journal: None, .. } => Ok(()),
        }
    }
}

fn layers(args: &CallsArgs) -> Result<Arc<dyn ChatModel>, Failure> {
    let text = configuration(&args.address, &args.dir, args.in_flight);
    let loaded = Config::parse(&text, "the benchmark", &[])?;
    Ok(Engine::new(&loaded).model(ModelRole::Target)?)
}

/// The configuration of a run against the server, with all defaults but those that the benchmark is about.
pub(crate) fn configuration(address: &str, dir: &Path, workers: u32) -> String {
    let model = |role: &str| {
        format!("[models.{role}]\nkind = \"openai\"\nbase_url = \"{address}/v1\"\nmodel = \"{role}\"\n")
    };
    format!(
        "[run]\ndir = '{}'\nworkers = {workers}\n{}temperature = 0\n{}[env]\nkind = \"qa\"\ndata = '{}'\n[train]\nepochs = 1\n",
        dir.join("run").display(),
        model("target"),
        model("optimizer"),
        dir.join("data").display(),
    )
}

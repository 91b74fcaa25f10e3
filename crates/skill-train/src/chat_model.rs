//! Local models as chat models: replies to conversations from a GGUF file or from a folder with safetensors.
//!
//! [`ModelFiles`] reads headers, [`LocalModel`] checks the memory, loads the weights with the first request and decodes
//! all requests in flight together on a thread of its own, and [`LocalChatModel`] is a [`ChatModel`] over it. Several of
//! these, such as an agent and its optimizer, can share the weights.
//!
//! A reply depends on its request, its seed and its place, and not on what else is in flight, up to the rounding of
//! sums in f32.
//!
//! # Invariants
//!
//! - A reply depends on its request, seed and place, and not on other requests in flight. Held by
//!   `a_reply_is_that_of_its_request_whatever_else_is_in_flight`.
//! - The memory that the weights need is compared with that of the machine before they are read. Held by
//!   `too_little_memory_is_an_error_with_both_numbers`.
//! - The revision of a local model is the hash of its files and of its adapter's, so a recorded reply never answers
//!   for other weights. Held by `the_id_has_the_hash_of_the_weights_and_the_adapter`.

mod chat;
mod files;
mod memory;
mod prefix;
mod row;
mod runner;
mod worker;

use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};

pub use chat::{ChatDefaults, LocalChatModel, SchemaRule};
pub use files::{ModelFiles, WeightFormat};
pub use memory::{MemoryNeed, available_memory, shown_bytes};

use crate::error::TrainError;
use prefix::Prefixes;
use worker::{Counters, Job, PASS_TOKENS, Worker};

#[cfg(doc)]
use skill_llm::ChatModel;

/// The provider in the identity of local models.
pub(crate) const LOCAL_PROVIDER: &str = "local";

/// How a model is loaded and how much memory it may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalModelOptions {
    /// A GGUF file, or a folder with `config.json`, safetensors, `tokenizer.json` and a chat template.
    pub path: PathBuf,
    /// A folder with a LoRA adapter, as peft writes it.
    pub adapter: Option<PathBuf>,
    /// Tokens of a prompt and its reply together at most; never more than the model was made for.
    pub context: usize,
    /// Replies that are decoded together at most; further requests wait.
    pub max_rows: usize,
    /// Bytes of keys and values that are kept for prompts that begin alike.
    pub prefix_cache_bytes: u64,
}

impl LocalModelOptions {
    /// The model of a file or folder with a context of 8,192 tokens, 8 replies at a time and 512 MB for beginnings.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), adapter: None, context: 8192, max_rows: 8, prefix_cache_bytes: 512_000_000 }
    }
}

/// Numbers on what a model has computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct WorkDone {
    /// Tokens of all prompts.
    pub prompt_tokens: u64,
    /// Tokens that were computed, those of replies included; tokens of prompts that were kept are not.
    pub computed_tokens: u64,
    /// Tokens of all replies.
    pub reply_tokens: u64,
    /// Passes over the weights.
    pub passes: u64,
}

/// A model on this machine that answers requests, many at a time.
///
/// The weights are loaded with the first request. The thread that computes ends when the model is dropped.
#[derive(Debug)]
pub struct LocalModel {
    files: Arc<ModelFiles>,
    context: usize,
    need: MemoryNeed,
    counters: Arc<Counters>,
    thread: Mutex<Thread>,
}

#[derive(Debug)]
enum Thread {
    /// Nothing was requested yet.
    Idle(LocalModelOptions),
    /// It serves what comes through the channel.
    Running(Sender<Job>),
}

impl LocalModel {
    /// Opens the files and compares the memory that the model needs with what the machine has.
    ///
    /// # Errors
    /// As [`ModelFiles::open`], [`TrainError::Request`] for a context or a number of rows of 0, and
    /// [`TrainError::Memory`].
    pub fn open(options: LocalModelOptions) -> Result<Self, TrainError> {
        let files = ModelFiles::open(&options.path, options.adapter.as_deref())?;
        Self::of(files, options, available_memory())
    }

    /// The model of these files, on a machine with this much memory; `None` compares nothing.
    ///
    /// # Errors
    /// As [`LocalModel::open`].
    pub fn of(
        files: ModelFiles,
        options: LocalModelOptions,
        available: Option<u64>,
    ) -> Result<Self, TrainError> {
        for (name, value) in [("context", options.context), ("max_rows", options.max_rows)] {
            if value == 0 {
                return Err(TrainError::request(name, "0, where at least 1 is needed"));
            }
        }
        let context = options.context.min(files.config().max_positions);
        let need = MemoryNeed::of(
            files.config(),
            files.n_weight_bytes(),
            files.n_adapter_values(),
            context,
            options.max_rows,
            options.prefix_cache_bytes,
            PASS_TOKENS + options.max_rows,
        );
        if let Some(available) = available.filter(|available| *available < need.total()) {
            return Err(TrainError::Memory { path: options.path, needed: need.total(), available });
        }
        let thread = Mutex::new(Thread::Idle(options));
        Ok(Self { files: Arc::new(files), context, need, counters: Arc::default(), thread })
    }

    /// The files.
    pub fn files(&self) -> &ModelFiles {
        &self.files
    }

    /// Tokens of a prompt and its reply together at most.
    pub fn context(&self) -> usize {
        self.context
    }

    /// The memory that the model needs.
    pub fn need(&self) -> MemoryNeed {
        self.need
    }

    /// What was computed until now.
    pub fn work_done(&self) -> WorkDone {
        let Counters { prompt_tokens, computed_tokens, reply_tokens, passes } = self.counters.as_ref();
        WorkDone {
            prompt_tokens: prompt_tokens.load(Ordering::Relaxed),
            computed_tokens: computed_tokens.load(Ordering::Relaxed),
            reply_tokens: reply_tokens.load(Ordering::Relaxed),
            passes: passes.load(Ordering::Relaxed),
        }
    }

    /// Hands a request to the thread, which is started with the first one.
    fn submit(&self, job: Job) -> Result<(), TrainError> {
        let mut thread = self.thread.lock();
        if let Thread::Idle(options) = &*thread {
            let sender = self.start(options)?;
            *thread = Thread::Running(sender);
        }
        match &*thread {
            Thread::Running(sender) => sender.send(job).map_err(|_| ended()),
            Thread::Idle(_) => Err(ended()),
        }
    }

    fn start(&self, options: &LocalModelOptions) -> Result<Sender<Job>, TrainError> {
        let (sender, jobs) = std::sync::mpsc::channel();
        let (files, counters, options) =
            (Arc::clone(&self.files), Arc::clone(&self.counters), options.clone());
        let thread = std::thread::Builder::new().name("local-model".to_owned());
        let started = thread.spawn(move || serve(&files, &options, counters, &jobs));
        started.map_err(|source| TrainError::io(self.files.path.as_path(), source))?;
        Ok(sender)
    }
}

fn ended() -> TrainError {
    TrainError::Compute { what: "a reply", source: "the thread of the model has ended".into() }
}

/// The work of the thread: loads the weights, then answers.
fn serve(files: &ModelFiles, options: &LocalModelOptions, counters: Arc<Counters>, jobs: &Receiver<Job>) {
    let started = std::time::Instant::now();
    let decoder = match files.load() {
        Ok(decoder) => decoder,
        Err(error) => {
            let fault = skill_llm::error::with_causes(&error);
            for job in jobs {
                let _ = job.reply.send(Err(TrainError::file(&files.path, fault.clone())));
            }
            return;
        }
    };
    tracing::debug!(model = files.name(), seconds = started.elapsed().as_secs_f64(), "weights are loaded");
    let token_bytes = memory::token_bytes(files.config()).max(1);
    let kept = usize::try_from(options.prefix_cache_bytes / token_bytes).unwrap_or(usize::MAX);
    let worker = Worker {
        runner: decoder,
        codec: Arc::new(files.tokenizer.clone()),
        stop_tokens: files.stop_tokens.clone(),
        max_rows: options.max_rows,
        prefixes: Prefixes::new(kept),
        counters,
    };
    worker.run(jobs);
}

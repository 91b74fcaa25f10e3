//! The thread that computes: replies in flight are decoded together, and join and leave between tokens.
//!
//! Each pass continues every reply by a token, and every prompt that is not computed yet by a piece. A prompt first
//! takes what is kept of its beginning; a prompt that begins like one whose piece is in the pass waits for that piece.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};

use skill_core::TokenLogprob;
use tokio::sync::oneshot;

use super::prefix::{MIN_SHARED_TOKENS, Place, Prefixes, common};
use super::row::{End, Growing, ReplySettings};
use super::runner::{Runner, continued};
use crate::error::TrainError;
use crate::model::Cache;
use crate::tokenizer::TokenCodec;

/// Tokens of one prompt that a pass computes at most: what a cancelled request costs, and where prompts are split.
pub(super) const PIECE_TOKENS: usize = 128;
/// Tokens of all prompts that a pass computes at most.
pub(super) const PASS_TOKENS: usize = 512;

/// A request for a reply.
pub(super) struct Job {
    /// The tokens of the prompt, at least one and fewer than the context has.
    pub(super) prompt: Vec<u32>,
    pub(super) settings: ReplySettings,
    /// True when nothing that has not begun may begin.
    pub(super) is_halted: Box<dyn Fn() -> bool + Send>,
    /// The work ends when nobody waits for it.
    pub(super) reply: oneshot::Sender<Result<Finished, TrainError>>,
}

/// A whole reply.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) prompt: Vec<u32>,
    pub(super) text: String,
    pub(super) ids: Vec<u32>,
    pub(super) logprobs: Vec<TokenLogprob>,
    pub(super) end: End,
}

/// What a model has computed since it was loaded.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) prompt_tokens: AtomicU64,
    pub(super) computed_tokens: AtomicU64,
    pub(super) reply_tokens: AtomicU64,
    pub(super) passes: AtomicU64,
}

impl Counters {
    fn add(counter: &AtomicU64, n: usize) {
        counter.fetch_add(n as u64, Ordering::Relaxed);
    }
}

/// A prompt, or a reply to it.
struct Row {
    job: Job,
    growing: Growing,
    cache: Cache,
    /// Tokens of the prompt that the cache holds; all but the last one before the reply begins.
    n_computed: usize,
    /// Where the computed beginning is kept.
    place: Place,
    /// The tokens that the next pass computes.
    next: Vec<u32>,
}

impl Row {
    fn new(job: Job) -> Self {
        let growing = Growing::new(job.settings.clone());
        Self {
            job,
            growing,
            cache: Cache::default(),
            n_computed: 0,
            place: Place::default(),
            next: Vec::new(),
        }
    }

    /// The last token of a prompt is computed with the first pass of the reply, so its beginning can be kept.
    fn uncomputed(&self) -> &[u32] {
        let end = self.job.prompt.len().saturating_sub(1);
        self.job.prompt.get(self.n_computed..end).unwrap_or_default()
    }

    fn is_replying(&self) -> bool {
        self.uncomputed().is_empty()
    }

    fn finish(self, end: End) {
        let Growing { text, ids, logprobs, .. } = self.growing;
        let finished = Finished { prompt: self.job.prompt, text, ids, logprobs, end };
        // Anyone who no longer waits needs no reply.
        let _ = self.job.reply.send(Ok(finished));
    }
}

/// The scheduler of one model.
pub(super) struct Worker<R> {
    pub(super) runner: R,
    pub(super) codec: Arc<dyn TokenCodec>,
    pub(super) stop_tokens: Vec<u32>,
    pub(super) max_rows: usize,
    pub(super) prefixes: Prefixes,
    pub(super) counters: Arc<Counters>,
}

impl<R: Runner> Worker<R> {
    /// Serves requests until nobody can send any.
    pub(super) fn run(mut self, jobs: &Receiver<Job>) {
        let mut waiting = VecDeque::new();
        let mut rows: Vec<Row> = Vec::new();
        loop {
            if rows.is_empty() && waiting.is_empty() {
                match jobs.recv() {
                    Ok(job) => waiting.push_back(job),
                    Err(_) => return,
                }
            }
            loop {
                match jobs.try_recv() {
                    Ok(job) => waiting.push_back(job),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => {
                        // Nobody waits for any reply.
                        return;
                    }
                }
            }
            refuse_halted(&mut waiting);
            rows.retain(|row| !row.job.reply.is_closed());
            while rows.len() < self.max_rows
                && let Some(job) = waiting.pop_front()
            {
                Counters::add(&self.counters.prompt_tokens, job.prompt.len());
                rows.push(Row::new(job));
            }
            self.pass(&mut rows);
        }
    }

    fn pass(&mut self, rows: &mut Vec<Row>) {
        self.plan(rows);
        let mut extended: Vec<_> = rows
            .iter_mut()
            .filter(|row| !row.next.is_empty())
            .map(|row| continued(&mut row.cache, &row.next))
            .collect();
        if extended.is_empty() {
            return;
        }
        let n_tokens = extended.iter().map(|row| row.tokens.len()).sum();
        Counters::add(&self.counters.passes, 1);
        Counters::add(&self.counters.computed_tokens, n_tokens);
        let computed = self.runner.extend(&mut extended);
        drop(extended);
        match computed {
            Ok(logits) => self.take(rows, &logits),
            Err(error) => {
                // No row of the pass has a cache that can be used.
                let fault = skill_llm::error::with_causes(&error);
                for row in rows.drain(..) {
                    let error = TrainError::Compute { what: "a reply", source: fault.clone().into() };
                    let _ = row.job.reply.send(Err(error));
                }
            }
        }
    }

    /// Decides what each row computes in the next pass.
    fn plan(&mut self, rows: &mut [Row]) {
        let mut left = PASS_TOKENS;
        for index in 0..rows.len() {
            let Some((row, before)) = rows.get_mut(..=index).and_then(|rows| rows.split_last_mut()) else {
                return;
            };
            while !row.is_replying()
                && let Some((place, n_tokens, cache)) = self.prefixes.descend(row.place, row.uncomputed())
            {
                (row.place, row.cache) = (place, cache);
                row.n_computed += n_tokens;
            }
            if row.is_replying() {
                let last = row.growing.ids.last().or(row.job.prompt.last());
                row.next = last.copied().into_iter().collect();
                continue;
            }
            let rest = row.uncomputed();
            let mut n_tokens = rest.len().min(PIECE_TOKENS).min(left);
            let n_shared = self.prefixes.partial(row.place, rest);
            if n_shared >= MIN_SHARED_TOKENS {
                n_tokens = n_tokens.min(n_shared);
            }
            let place = row.place;
            let alike = before.iter_mut().filter(|other| !other.is_replying() && other.place == place);
            for other in alike {
                let n_shared = common(&other.next, rest);
                if n_shared >= MIN_SHARED_TOKENS {
                    other.next.truncate(n_shared);
                    n_tokens = 0;
                }
            }
            row.next = rest.get(..n_tokens).unwrap_or_default().to_vec();
            left -= n_tokens;
        }
    }

    /// Takes what a pass has computed.
    fn take(&mut self, rows: &mut Vec<Row>, logits: &[f32]) {
        let mut logits = logits.chunks_exact(self.runner.n_logits().max(1));
        for mut row in std::mem::take(rows) {
            if row.next.is_empty() {
                rows.push(row);
                continue;
            }
            let logits = logits.next().unwrap_or_default();
            if !row.is_replying() {
                // Where its place is gone, the rest of the prompt is not kept.
                let kept = self.prefixes.insert(row.place, &row.next, &mut row.cache);
                row.place = kept.unwrap_or(Place::NOWHERE);
                row.n_computed += row.next.len();
                rows.push(row);
                continue;
            }
            Counters::add(&self.counters.reply_tokens, 1);
            match row.growing.take(logits, self.codec.as_ref(), &self.stop_tokens) {
                Ok(None) => rows.push(row),
                Ok(Some(end)) => row.finish(end),
                Err(error) => {
                    let _ = row.job.reply.send(Err(error));
                }
            }
        }
    }
}

/// Ends what nobody waits for, or may not begin.
fn refuse_halted(waiting: &mut VecDeque<Job>) {
    for job in std::mem::take(waiting) {
        if (job.is_halted)() {
            let _ = job.reply.send(Err(TrainError::Cancelled));
        } else if !job.reply.is_closed() {
            waiting.push_back(job);
        }
    }
}

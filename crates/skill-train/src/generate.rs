//! Sampling of continuations, many at a time.
//!
//! Prompts that begin alike share the computation of their beginning, equal prompts share all of it, and a prompt that
//! continues a sequence of the last call starts behind it. The tokens of a sample depend on its prompt, its index and the
//! seed, and not on what else is in the batch or was kept, up to the rounding of sums.

mod kept;

pub use kept::KeptSequences;

use std::collections::BTreeMap;

use rayon::prelude::*;

use crate::error::TrainError;
use crate::model::{Adapters, Cache, Continued, Decoder};
use crate::parallel::min_rows;
use crate::sampling::{SamplingSettings, TokenDice};
use crate::seam::{Ended, GenerationSettings, Sample};

type Result<T> = std::result::Result<T, TrainError>;

/// Asks whether anyone still waits for the result; from any thread.
pub(crate) type IsCancelled<'a> = &'a (dyn Fn() -> bool + Sync);

/// Samples that are decoded together. More of them are decoded side by side.
const MAX_ROWS: usize = 64;
/// Tokens of prompts that are computed together; one longer prompt is a pass of its own.
const MAX_PASS_TOKENS: usize = 2_048;
/// The shortest common beginning that is computed apart.
const MIN_SHARED_TOKENS: usize = 8;

/// A sample that is being decoded.
struct Active {
    index: usize,
    cache: Cache,
    dice: TokenDice,
    sample: Sample,
}

/// Samples a continuation of each prompt, in the order of the prompts.
///
/// `kept` has the sequences of the last call, and those of this one afterwards. `is_cancelled` is asked before each token. The log-probabilities are those of `softmax(logits / temperature)` over
/// the whole vocabulary, see [`Sample::logprobs`].
///
/// # Errors
/// [`TrainError::Request`] for empty prompts, unknown tokens, prompts that fill the context and invalid settings;
/// [`TrainError::NotFinite`] for logits that are NaN; [`TrainError::Cancelled`].
pub fn generate(
    model: &Decoder,
    prompts: &[Vec<u32>],
    settings: &GenerationSettings,
    adapters: Adapters,
    kept: &mut KeptSequences,
    is_cancelled: IsCancelled<'_>,
) -> Result<Vec<Sample>> {
    let dice = |index: usize| TokenDice::new(settings.seed, &format!("prompt {index}"));
    let dice: Vec<TokenDice> = (0..prompts.len()).map(dice).collect();
    generate_by(model, prompts, &dice, settings, adapters, kept, is_cancelled)
}

/// Like [`generate`], with the random numbers of each prompt in the place of those of its index and the seed.
///
/// # Errors
/// As [`generate`], and [`TrainError::Request`] for another number of dice than of prompts.
pub(crate) fn generate_by(
    model: &Decoder,
    prompts: &[Vec<u32>],
    dice: &[TokenDice],
    settings: &GenerationSettings,
    adapters: Adapters,
    kept: &mut KeptSequences,
    is_cancelled: IsCancelled<'_>,
) -> Result<Vec<Sample>> {
    if dice.len() != prompts.len() {
        return Err(TrainError::request("dice", format!("{} for {} prompts", dice.len(), prompts.len())));
    }
    let sampling = SamplingSettings {
        repetition_penalty: settings.repetition_penalty,
        temperature: settings.temperature,
        top_k: settings.top_k,
        top_p: settings.top_p,
        min_p: settings.min_p,
    };
    sampling.check().map_err(|error| TrainError::request("settings", error.to_string()))?;
    let limit = model.config().max_positions;
    for (index, prompt) in prompts.iter().enumerate() {
        if prompt.is_empty() || prompt.len() >= limit {
            let fault = format!("{} tokens, where 1 to {} are possible", prompt.len(), limit - 1);
            return Err(TrainError::request(format!("prompts[{index}]"), fault));
        }
    }
    let mut starts: Vec<Option<Cache>> = prompts.iter().map(|prompt| kept.find(prompt)).collect();
    kept.clear();
    let new = prompts.iter().zip(&starts).filter(|(_, start)| start.is_none()).map(|(prompt, _)| prompt);
    let beginnings = Beginnings::of(model, &new.collect::<Vec<_>>(), adapters, is_cancelled)?;
    let decoding = Decoding { prompts, beginnings, dice, sampling, settings };
    let chunks = prompts.par_chunks(MAX_ROWS).zip(starts.par_chunks_mut(MAX_ROWS)).enumerate();
    let done = chunks.map(|(chunk_idx, (chunk, starts))| decoding.run(chunk, starts, chunk_idx * MAX_ROWS));
    let done = done.collect::<Result<Vec<_>>>()?;
    let (samples, caches): (Vec<Sample>, Vec<Cache>) = done.into_iter().flatten().unzip();
    let sequences = prompts.iter().zip(&samples).zip(caches).map(|((prompt, sample), cache)| {
        // The last token was sampled and never computed.
        let sampled = sample.tokens.get(..cache.n_tokens().saturating_sub(prompt.len()));
        ([prompt.as_slice(), sampled.unwrap_or_default()].concat(), cache)
    });
    kept.replace(model, sequences);
    Ok(samples)
}

/// What all samples of a call share.
struct Decoding<'a> {
    prompts: &'a [Vec<u32>],
    beginnings: Beginnings<'a>,
    dice: &'a [TokenDice],
    sampling: SamplingSettings,
    settings: &'a GenerationSettings,
}

impl Decoding<'_> {
    /// The samples of some prompts, the first of which has this index, in their order.
    fn run(
        &self,
        prompts: &[Vec<u32>],
        starts: &mut [Option<Cache>],
        first: usize,
    ) -> Result<Vec<(Sample, Cache)>> {
        let Beginnings { model, adapters, is_cancelled, .. } = self.beginnings;
        let n_logits = model.config().vocab_size;
        // Sampling takes several exponentials for each logit.
        let min_rows = min_rows(8 * n_logits);
        let mut done: BTreeMap<usize, (Sample, Cache)> = BTreeMap::new();
        let (mut active, mut logits) = self.beginnings.rows(prompts, starts, first, self.dice)?;
        if self.settings.max_tokens == 0 {
            done.extend(active.drain(..).map(|row| (row.index, (row.sample, row.cache))));
        }
        while !active.is_empty() {
            if is_cancelled() {
                return Err(TrainError::Cancelled);
            }
            let rows = active.par_iter_mut().zip(logits.par_chunks_exact(n_logits)).with_min_len(min_rows);
            let ends = rows.map(|(row, logits)| self.take(row, logits)).collect::<Result<Vec<bool>>>()?;
            let mut next = Vec::with_capacity(active.len());
            for (row, is_end) in active.into_iter().zip(ends) {
                if is_end {
                    done.insert(row.index, (row.sample, row.cache));
                } else {
                    next.push(row);
                }
            }
            active = next;
            logits = continue_all(model, &mut active, adapters)?;
        }
        Ok(done.into_values().collect())
    }

    fn take(&self, row: &mut Active, logits: &[f32]) -> Result<bool> {
        let prompt = self.prompts.get(row.index).map(Vec::as_slice).unwrap_or_default();
        let limit = self.beginnings.model.config().max_positions;
        row.take(prompt, logits, &self.sampling, self.settings, limit)
    }
}

impl Active {
    /// Samples a token; true if it is the last one.
    fn take(
        &mut self,
        prompt: &[u32],
        logits: &[f32],
        sampling: &SamplingSettings,
        settings: &GenerationSettings,
        limit: usize,
    ) -> Result<bool> {
        let not_finite =
            || TrainError::NotFinite { quantity: format!("the next token of prompt {}", self.index) };
        let position = self.sample.tokens.len();
        let mut previous = Vec::new();
        if settings.repetition_penalty != 1.0 {
            previous.extend_from_slice(prompt);
            previous.extend_from_slice(&self.sample.tokens);
        }
        let sampled =
            sampling.sample(logits, &previous, self.dice.throw(position)).map_err(|_| not_finite())?;
        let temperature = if settings.temperature == 0.0 { 1.0 } else { settings.temperature };
        let logprob = log_prob(logits, sampled.token, temperature);
        if !logprob.is_finite() {
            return Err(not_finite());
        }
        self.sample.tokens.push(sampled.token);
        self.sample.logprobs.push(logprob as f32);
        if settings.stop_tokens.contains(&sampled.token) {
            self.sample.ended = Ended::Stop;
            return Ok(true);
        }
        let n_tokens = self.sample.tokens.len();
        Ok(n_tokens >= settings.max_tokens || prompt.len() + n_tokens >= limit)
    }
}

/// `log softmax(logits / temperature)` of a token, in f64.
fn log_prob(logits: &[f32], token: u32, temperature: f64) -> f64 {
    let largest = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let scaled = |logit: &f32| (f64::from(*logit) - largest) / temperature;
    let sum: f64 = logits.iter().map(|logit| scaled(logit).exp()).sum();
    logits.get(token as usize).map_or(f64::NAN, |logit| scaled(logit) - sum.ln())
}

fn continue_all(model: &Decoder, active: &mut [Active], adapters: Adapters) -> Result<Vec<f32>> {
    if active.is_empty() {
        return Ok(Vec::new());
    }
    let mut rows: Vec<Continued<'_>> = active
        .iter_mut()
        .map(|row| {
            let Active { cache, sample, .. } = row;
            let last = sample.tokens.len().saturating_sub(1);
            Continued { cache, tokens: sample.tokens.get(last..).unwrap_or_default() }
        })
        .collect();
    model.extend(&mut rows, adapters)
}

/// A prompt, or its beginning, and the logits behind it.
type Computed = (Cache, Vec<f32>);

/// What is computed before the first token is sampled: the prompts, each distinct one once.
struct Beginnings<'a> {
    model: &'a Decoder,
    adapters: Adapters,
    is_cancelled: IsCancelled<'a>,
    /// The common beginning of all prompts that continue no kept sequence.
    common: Cache,
}

impl<'a> Beginnings<'a> {
    fn of(
        model: &'a Decoder,
        new: &[&Vec<u32>],
        adapters: Adapters,
        is_cancelled: IsCancelled<'a>,
    ) -> Result<Self> {
        let mut beginnings = Self { model, adapters, is_cancelled, common: Cache::default() };
        let Some((first, others)) = new.split_first() else { return Ok(beginnings) };
        let common = |other: &&Vec<u32>| first.iter().zip(*other).take_while(|(a, b)| a == b).count();
        // The last token of a prompt is never shared: its logits are needed.
        let longest = new.iter().map(|prompt| prompt.len()).min().unwrap_or(0).saturating_sub(1);
        let n_tokens = others.iter().map(common).fold(longest, usize::min);
        if let (Some(tokens), true) =
            (first.get(..n_tokens), n_tokens >= MIN_SHARED_TOKENS && !others.is_empty())
        {
            model.extend(&mut [Continued { cache: &mut beginnings.common, tokens }], adapters)?;
            // From here on a copy shares what there is.
            beginnings.common = beginnings.common.fork();
        }
        Ok(beginnings)
    }

    /// The rows of some prompts, with the logits behind each prompt. `starts` has the kept sequence that a prompt
    /// continues.
    fn rows(
        &self,
        prompts: &[Vec<u32>],
        starts: &mut [Option<Cache>],
        first: usize,
        dice: &[TokenDice],
    ) -> Result<(Vec<Active>, Vec<f32>)> {
        let mut distinct: BTreeMap<&[u32], Computed> = BTreeMap::new();
        for (prompt, start) in prompts.iter().zip(starts) {
            let mut cache = || start.take().unwrap_or_else(|| self.common.clone());
            distinct.entry(prompt).or_insert_with(|| (cache(), Vec::new()));
        }
        // The model computes whole fresh prompts in another way, and only if all of a pass are fresh.
        let (mut fresh, mut continued): (Vec<_>, Vec<_>) =
            distinct.iter_mut().partition(|(_, (cache, _))| cache.n_tokens() == 0);
        self.compute(&mut fresh)?;
        self.compute(&mut continued)?;
        let mut active = Vec::with_capacity(prompts.len());
        let mut logits = Vec::new();
        for (offset, prompt) in prompts.iter().enumerate() {
            let index = first + offset;
            if let (Some((cache, found)), Some(dice)) = (distinct.get_mut(prompt.as_slice()), dice.get(index))
            {
                active.push(Active {
                    index,
                    cache: cache.fork(),
                    dice: *dice,
                    sample: Sample { tokens: Vec::new(), logprobs: Vec::new(), ended: Ended::Length },
                });
                logits.extend_from_slice(found);
            }
        }
        Ok((active, logits))
    }

    /// Computes the rest of prompts, some at a time, and puts the logits behind each.
    fn compute(&self, mut prompts: &mut [(&&[u32], &mut Computed)]) -> Result<()> {
        while !prompts.is_empty() {
            if (self.is_cancelled)() {
                return Err(TrainError::Cancelled);
            }
            let mut n_tokens = 0;
            let n_prompts = prompts.iter().take_while(|(prompt, (cache, _))| {
                n_tokens += prompt.len() - cache.n_tokens();
                n_tokens <= MAX_PASS_TOKENS
            });
            let n_prompts = n_prompts.count().max(1);
            let (pass, rest) = prompts.split_at_mut(n_prompts);
            let mut rows = Vec::with_capacity(pass.len());
            for (prompt, (cache, _)) in pass.iter_mut() {
                let tokens = prompt.get(cache.n_tokens()..).unwrap_or_default();
                rows.push(Continued { cache, tokens });
            }
            let logits = self.model.extend(&mut rows, self.adapters)?;
            for ((_, (_, found)), logits) in
                pass.iter_mut().zip(logits.chunks_exact(self.model.config().vocab_size))
            {
                *found = logits.to_vec();
            }
            prompts = rest;
        }
        Ok(())
    }
}

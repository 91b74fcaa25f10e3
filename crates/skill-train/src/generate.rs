//! Sampling of continuations, many at a time.
//!
//! Prompts that begin alike share the computation of their beginning, and equal prompts share all of it. The tokens of
//! a sample depend on its prompt, its index and the seed, and not on what else is in the batch.

use std::collections::BTreeMap;

use crate::error::TrainError;
use crate::model::{Adapters, Cache, Continued, Decoder};
use crate::sampling::{SamplingSettings, TokenDice};
use crate::seam::{Ended, GenerationSettings, Sample};

type Result<T> = std::result::Result<T, TrainError>;

/// Samples that are decoded together.
const MAX_ROWS: usize = 64;
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
/// `is_cancelled` is asked before each token. The log-probabilities are those of `softmax(logits / temperature)` over
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
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Vec<Sample>> {
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
    let mut samples = BTreeMap::new();
    let mut beginning = Beginning::of(model, prompts, adapters)?;
    for (chunk_idx, chunk) in prompts.chunks(MAX_ROWS).enumerate() {
        let first = chunk_idx * MAX_ROWS;
        let (mut active, mut logits) =
            beginning.rows(model, chunk, first, settings.seed, adapters, is_cancelled)?;
        if settings.max_tokens == 0 {
            samples.extend(active.drain(..).map(|row| (row.index, row.sample)));
        }
        while !active.is_empty() {
            if is_cancelled() {
                return Err(TrainError::Cancelled);
            }
            let mut next = Vec::with_capacity(active.len());
            for (mut row, logits) in active.drain(..).zip(logits.chunks_exact(model.config().vocab_size)) {
                let prompt = prompts.get(row.index).map(Vec::as_slice).unwrap_or_default();
                if row.take(prompt, logits, &sampling, settings, limit)? {
                    samples.insert(row.index, row.sample);
                } else {
                    next.push(row);
                }
            }
            active = next;
            logits = continue_all(model, &mut active, adapters)?;
        }
    }
    Ok(samples.into_values().collect())
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

/// The common beginning of all prompts, computed once.
struct Beginning {
    n_tokens: usize,
    cache: Cache,
}

impl Beginning {
    fn of(model: &Decoder, prompts: &[Vec<u32>], adapters: Adapters) -> Result<Self> {
        let mut beginning = Self { n_tokens: 0, cache: Cache::default() };
        let Some((first, others)) = prompts.split_first() else { return Ok(beginning) };
        let common = |other: &Vec<u32>| first.iter().zip(other).take_while(|(a, b)| a == b).count();
        // The last token of a prompt is never shared: its logits are needed.
        let longest = prompts.iter().map(Vec::len).min().unwrap_or(0).saturating_sub(1);
        let n_tokens = others.iter().map(common).fold(longest, usize::min);
        if let (Some(tokens), true) =
            (first.get(..n_tokens), n_tokens >= MIN_SHARED_TOKENS && !others.is_empty())
        {
            model.extend(&mut [Continued { cache: &mut beginning.cache, tokens }], adapters)?;
            beginning.n_tokens = n_tokens;
        }
        Ok(beginning)
    }

    /// The rows of some prompts, with the logits behind each prompt.
    fn rows(
        &mut self,
        model: &Decoder,
        prompts: &[Vec<u32>],
        first: usize,
        seed: u64,
        adapters: Adapters,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<(Vec<Active>, Vec<f32>)> {
        let mut computed: BTreeMap<&[u32], (Cache, Vec<f32>)> = BTreeMap::new();
        let mut active = Vec::with_capacity(prompts.len());
        let mut logits = Vec::new();
        for (offset, prompt) in prompts.iter().enumerate() {
            if is_cancelled() {
                return Err(TrainError::Cancelled);
            }
            if !computed.contains_key(prompt.as_slice()) {
                let mut cache = self.cache.fork();
                let tokens = prompt.get(self.n_tokens..).unwrap_or_default();
                let found = model.extend(&mut [Continued { cache: &mut cache, tokens }], adapters)?;
                computed.insert(prompt, (cache, found));
            }
            if let Some((cache, found)) = computed.get_mut(prompt.as_slice()) {
                let index = first + offset;
                active.push(Active {
                    index,
                    cache: cache.fork(),
                    dice: TokenDice::new(seed, &format!("prompt {index}")),
                    sample: Sample { tokens: Vec::new(), logprobs: Vec::new(), ended: Ended::Length },
                });
                logits.extend_from_slice(found);
            }
        }
        Ok((active, logits))
    }
}

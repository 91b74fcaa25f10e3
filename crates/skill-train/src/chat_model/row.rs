//! One reply while it is sampled: its tokens, its text, and where it ends.

use skill_core::{TokenLogprob, TopLogprob};

use crate::error::TrainError;
use crate::sampling::{SamplingSettings, TokenDice};
use crate::tokenizer::{StreamDecoder, TokenCodec, TokenizerError};

/// How a reply is sampled and where it ends.
#[derive(Debug, Clone)]
pub(super) struct ReplySettings {
    pub(super) sampling: SamplingSettings,
    /// Tokens of the reply at most, the one that ends it included; at least 1.
    pub(super) max_tokens: usize,
    /// Texts at which the reply ends, none of which is a part of it; none is empty.
    pub(super) stop_texts: Vec<String>,
    /// Log-probabilities are wanted, and those of this many of the most likely tokens.
    pub(super) logprobs: Option<usize>,
    pub(super) dice: TokenDice,
}

/// A reply as it grows.
#[derive(Debug)]
pub(super) struct Growing {
    settings: ReplySettings,
    /// Tokens sampled so far, that which ended the reply included.
    pub(super) ids: Vec<u32>,
    /// One for each token, if they are wanted.
    pub(super) logprobs: Vec<TokenLogprob>,
    /// The text so far, without special tokens.
    pub(super) text: String,
    decoder: StreamDecoder,
}

/// Why a reply has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// A token or a text that ends it.
    Stop,
    /// The most tokens.
    Length,
}

impl Growing {
    pub(super) fn new(settings: ReplySettings) -> Self {
        Self {
            settings,
            ids: Vec::new(),
            logprobs: Vec::new(),
            text: String::new(),
            decoder: StreamDecoder::new(false),
        }
    }

    /// Samples a token from the logits behind the last one; `Some` if the reply ends with it.
    ///
    /// # Errors
    /// [`TrainError::NotFinite`] for logits that are NaN.
    pub(super) fn take(
        &mut self,
        logits: &[f32],
        codec: &dyn TokenCodec,
        stop_tokens: &[u32],
    ) -> Result<Option<End>, TrainError> {
        let position = self.ids.len();
        let not_finite = || TrainError::NotFinite { quantity: format!("token {position} of a reply") };
        let throw = self.settings.dice.throw(position);
        let sampled = self.settings.sampling.sample(logits, &[], throw).map_err(|_| not_finite())?;
        self.ids.push(sampled.token);
        if let Some(n_top) = self.settings.logprobs {
            let logprob = sampled.log_prob_plain.min(0.0);
            let mut entry = TokenLogprob::new(text_of(codec, sampled.token)?, logprob);
            entry.top = top(logits, n_top, logits.get(sampled.token as usize).copied(), logprob, codec)?;
            self.logprobs.push(entry);
        }
        if stop_tokens.contains(&sampled.token) {
            self.finish(codec)?;
            return Ok(Some(End::Stop));
        }
        let new = self.decoder.push(codec, sampled.token).map_err(of_tokenizer)?;
        if self.add(&new) {
            return Ok(Some(End::Stop));
        }
        if self.ids.len() >= self.settings.max_tokens {
            let is_stopped = self.finish(codec)?;
            return Ok(Some(if is_stopped { End::Stop } else { End::Length }));
        }
        Ok(None)
    }

    fn finish(&mut self, codec: &dyn TokenCodec) -> Result<bool, TrainError> {
        let rest = std::mem::take(&mut self.decoder).finish(codec).map_err(of_tokenizer)?;
        Ok(self.add(&rest))
    }

    /// Adds text; true if it completes one that ends the reply, which is cut off.
    fn add(&mut self, new: &str) -> bool {
        let before = self.text.len();
        self.text.push_str(new);
        let first = self.settings.stop_texts.iter().filter_map(|stop| {
            // It can begin in what was there before.
            let mut from = before.saturating_sub(stop.len());
            while !self.text.is_char_boundary(from) {
                from -= 1;
            }
            self.text.get(from..)?.find(stop.as_str()).map(|at| from + at)
        });
        match first.min() {
            Some(at) => {
                self.text.truncate(at);
                true
            }
            None => false,
        }
    }
}

fn of_tokenizer(error: TokenizerError) -> TrainError {
    TrainError::request("reply", error.to_string())
}

fn text_of(codec: &dyn TokenCodec, token: u32) -> Result<String, TrainError> {
    codec.decode(&[token], true).map_err(of_tokenizer)
}

/// The most likely tokens, the best first; equal ones by ascending id. `known` is the logit of a token whose
/// log-probability is `logprob`, from which the others follow.
fn top(
    logits: &[f32],
    n_top: usize,
    known: Option<f32>,
    logprob: f64,
    codec: &dyn TokenCodec,
) -> Result<Vec<TopLogprob>, TrainError> {
    let Some(known) = known.filter(|_| n_top > 0) else { return Ok(Vec::new()) };
    let mut best: Vec<(u32, f32)> = (0_u32..).zip(logits.iter().copied()).collect();
    let order = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    if n_top < best.len() {
        best.select_nth_unstable_by(n_top, order);
        best.truncate(n_top);
    }
    best.sort_unstable_by(order);
    let entry = |(token, logit): (u32, f32)| {
        let logprob = (logprob + f64::from(logit) - f64::from(known)).min(0.0);
        Ok(TopLogprob::new(text_of(codec, token)?, logprob))
    };
    best.into_iter().map(entry).collect()
}

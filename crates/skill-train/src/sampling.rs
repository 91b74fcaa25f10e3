//! Sampling of the next token from logits: which tokens are kept, with which probabilities, and which one it is.
//!
//! [`SamplingSettings::distribution`] applies repetition penalty, temperature, `top_k`, `top_p` and `min_p` in this
//! order, which is that of transformers' logits processors. All sums are in `f64`, so that the kept tokens do not
//! depend on how a back end adds up. [`TokenDice`] are throws by seed, sequence and position: a sequence that is
//! resumed in the middle gets the tokens that it would have got.
//!
//! # Invariants
//!
//! - A sampled token is a function of logits, settings, seed, sequence and position, on every back end. Held by
//!   `throws_depend_on_seed_sequence_and_position_alone`, `conformance_of_sampling_distributions`.

mod filter;

use skill_core::random::Dice;
use thiserror::Error;

/// Why no token can be sampled.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum SamplingError {
    /// A setting is outside its range.
    #[error("`{setting}` is {value}, expected {expected}")]
    Setting {
        /// The name of the setting, as in [`SamplingSettings`].
        setting: &'static str,
        /// Its value.
        value: f64,
        /// The range in words.
        expected: &'static str,
    },
    /// A logit is NaN or positive infinity, as after a step that diverged.
    #[error("the logit of token {token} is {value}")]
    NotFinite {
        /// The token's id.
        token: usize,
        /// NaN or infinity.
        value: f32,
    },
    /// Every logit is negative infinity, or there are none.
    #[error("none of {n_tokens} tokens has a finite logit")]
    NothingLeft {
        /// The size of the vocabulary.
        n_tokens: usize,
    },
}

/// Settings of sampling. The default changes nothing: all tokens at temperature 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SamplingSettings {
    /// Divides positive logits of tokens that occurred, and multiplies negative ones; 1 changes nothing.
    ///
    /// From Keskar et al., "CTRL: A Conditional Transformer Language Model for Controllable Generation", 2019.
    pub repetition_penalty: f64,
    /// Divides all logits; 0 takes the most probable token, the one with the smallest id among equals.
    pub temperature: f64,
    /// Keeps this many of the most probable tokens, and all that are as probable as the last of them.
    pub top_k: Option<usize>,
    /// Keeps the smallest set of most probable tokens whose probabilities add up to at least this; 1 keeps all.
    ///
    /// From Holtzman et al., "The Curious Case of Neural Text Degeneration", 2020. Among tokens of equal probability
    /// at the border, those with smaller ids are dropped first, as transformers does.
    pub top_p: f64,
    /// Keeps tokens with at least this fraction of the probability of the best token that is left; 0 keeps all.
    pub min_p: f64,
}

impl Default for SamplingSettings {
    fn default() -> Self {
        Self { repetition_penalty: 1.0, temperature: 1.0, top_k: None, top_p: 1.0, min_p: 0.0 }
    }
}

impl SamplingSettings {
    /// Settings that always take the most probable token.
    pub fn greedy() -> Self {
        Self { temperature: 0.0, ..Self::default() }
    }

    /// Checks every setting against its range.
    ///
    /// # Errors
    ///
    /// [`SamplingError::Setting`] for the first one that is outside.
    pub fn check(&self) -> Result<(), SamplingError> {
        let fraction = |value: f64| (0.0..=1.0).contains(&value);
        let positive = |value: f64| value.is_finite() && value > 0.0;
        let temperature = positive(self.temperature) || self.temperature == 0.0;
        let top_k = self.top_k != Some(0);
        let rules = [
            (positive(self.repetition_penalty), "repetition_penalty", self.repetition_penalty, "more than 0"),
            (temperature, "temperature", self.temperature, "0 or more"),
            (top_k, "top_k", 0.0, "at least 1"),
            (fraction(self.top_p), "top_p", self.top_p, "0 to 1"),
            (fraction(self.min_p), "min_p", self.min_p, "0 to 1"),
        ];
        match rules.into_iter().find(|(holds, ..)| !holds) {
            Some((_, setting, value, expected)) => Err(SamplingError::Setting { setting, value, expected }),
            None => Ok(()),
        }
    }

    /// The tokens that may follow, with their probabilities.
    ///
    /// `logits` has one value per token of the vocabulary; negative infinity excludes a token. `previous` holds the
    /// ids of prompt and reply so far, without padding; only the repetition penalty reads it, and ids outside the
    /// vocabulary are ignored.
    ///
    /// # Errors
    ///
    /// A setting outside its range, a logit that is NaN or infinite, or no finite logit at all.
    pub fn distribution(&self, logits: &[f32], previous: &[u32]) -> Result<Distribution, SamplingError> {
        self.check()?;
        check_logits(logits)?;
        let mut scores: Vec<f64> = logits.iter().copied().map(f64::from).collect();
        filter::penalize(&mut scores, previous, self.repetition_penalty);
        let mut left = filter::finite(&scores);
        if self.temperature == 0.0 {
            left = filter::best(left);
        } else {
            left.iter_mut().for_each(|candidate| candidate.score /= self.temperature);
        }
        if let Some(k) = self.top_k {
            filter::top_k(&mut left, k);
        }
        if self.top_p < 1.0 {
            filter::top_p(&mut left, self.top_p);
        }
        if self.min_p > 0.0 {
            filter::min_p(&mut left, self.min_p);
        }
        if left.is_empty() {
            return Err(SamplingError::NothingLeft { n_tokens: logits.len() });
        }
        Ok(Distribution { tokens: filter::probabilities(&left) })
    }

    /// Samples one token; `throw` is a number from 0 up to, but not including, 1.
    ///
    /// # Errors
    ///
    /// As [`SamplingSettings::distribution`].
    pub fn sample(&self, logits: &[f32], previous: &[u32], throw: f64) -> Result<Sampled, SamplingError> {
        let (token, probability) = self.distribution(logits, previous)?.at(throw);
        let log_prob_plain = log_prob_of(logits, token)?;
        Ok(Sampled { token, log_prob: probability.ln(), log_prob_plain })
    }
}

/// A token that was sampled.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Sampled {
    /// Its id.
    pub token: u32,
    /// The logarithm of its probability among the tokens that were kept, in nats; 0 where only one was.
    pub log_prob: f64,
    /// The logarithm of its probability at temperature 1 among all tokens, in nats: what training compares with.
    pub log_prob_plain: f64,
}

/// Tokens that may follow, with probabilities that add up to 1; never empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// Ids in ascending order.
    tokens: Vec<(u32, f64)>,
}

impl Distribution {
    /// The tokens that are left, by ascending id, with their probabilities.
    pub fn tokens(&self) -> &[(u32, f64)] {
        &self.tokens
    }

    /// The probability of a token; 0 if it was not kept.
    pub fn probability(&self, token: u32) -> f64 {
        let place = self.tokens.binary_search_by_key(&token, |(id, _)| *id);
        place.ok().and_then(|place| self.tokens.get(place)).map_or(0.0, |(_, probability)| *probability)
    }

    /// The token at this point of the cumulative distribution, from 0 to 1, and its probability.
    pub fn at(&self, throw: f64) -> (u32, f64) {
        let mut passed = 0.0;
        let found = self.tokens.iter().find(|(_, probability)| {
            passed += probability;
            throw < passed
        });
        // Rounding may leave the sum below the throw: then it is the last token that can be sampled at all.
        let last = self.tokens.iter().rfind(|(_, probability)| *probability > 0.0);
        found.or(last).copied().unwrap_or((0, 0.0))
    }
}

/// Throws for the tokens of one sequence: a function of seed, sequence and position, so that they depend neither on
/// the order of sequences in a batch nor on where a sequence was interrupted.
#[derive(Debug, Clone, Copy)]
pub struct TokenDice {
    dice: Dice,
}

impl TokenDice {
    /// The dice of a sequence, which is named by a key that is unique in its run, such as `iteration 3, task 7, rollout 2`.
    pub fn new(seed: u64, sequence: &str) -> Self {
        Self { dice: Dice::new(seed, &["token", sequence]) }
    }

    /// The throw for the token at this position, from 0 up to, but not including, 1; it has 53 random bits.
    pub fn throw(&self, position: usize) -> f64 {
        /// Values of the higher of two throws, each of 32 bits, that an `f64` has room for.
        const STEP: f64 = 1.0 / 4_294_967_296.0;
        const LOW_BITS: f64 = 2_097_152.0;
        let high = self.dice.unit(&format!("{position} high"));
        let low = (self.dice.unit(&format!("{position} low")) * LOW_BITS).floor() / LOW_BITS;
        high + low * STEP
    }
}

/// The logarithm of a token's probability at temperature 1 among all tokens, in nats.
///
/// # Errors
///
/// A logit that is NaN or infinite, or no finite logit at all.
pub fn log_prob_of(logits: &[f32], token: u32) -> Result<f64, SamplingError> {
    check_logits(logits)?;
    let best = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = logits.iter().map(|logit| (f64::from(*logit) - best).exp()).sum();
    let logit = usize::try_from(token).ok().and_then(|token| logits.get(token));
    Ok(logit.map_or(f64::NEG_INFINITY, |logit| f64::from(*logit) - best - sum.ln()))
}

fn check_logits(logits: &[f32]) -> Result<(), SamplingError> {
    let bad = logits.iter().enumerate().find(|(_, logit)| logit.is_nan() || **logit == f32::INFINITY);
    if let Some((token, value)) = bad {
        return Err(SamplingError::NotFinite { token, value: *value });
    }
    match logits.iter().any(|logit| logit.is_finite()) {
        true => Ok(()),
        false => Err(SamplingError::NothingLeft { n_tokens: logits.len() }),
    }
}

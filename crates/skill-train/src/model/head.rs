//! From states to log-probabilities, entropies and the gradient of a loss, in chunks of positions.
//!
//! Logits of a real vocabulary take 0.2 to 0.6 MB for each token, so they exist for a chunk of positions at a time, and
//! only for positions that are scored. A loss is a function of log-probabilities and entropies; it gives the derivative
//! by each, and the gradient by logits follows.

use candle_core::Tensor;
use rayon::prelude::*;

use super::math;
use super::ops::{gather, scatter_add};
use super::tensor::{edit, zeros};
use super::{Decoder, Forward, Gradients, HiddenGradient};
use crate::error::TrainError;
use crate::parallel::{rows, rows_mut};

type Result<T> = std::result::Result<T, TrainError>;

/// Logits that exist at a time: 128 MiB of f32.
const MAX_LOGITS: usize = 32 << 20;

/// A token whose prediction is scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Index in the batch of the token that predicts it: the one before it in its sequence.
    pub position: usize,
    /// The predicted token.
    pub token: u32,
}

/// Log-probability and entropy of predictions, in nats.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scores {
    /// `log p(token)` of each target.
    pub logprobs: Vec<f32>,
    /// Entropy of each prediction.
    pub entropies: Vec<f32>,
}

/// The derivatives of a loss by the log-probability and by the entropy of one target.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Coefficients {
    /// `d loss / d log p`.
    pub by_logprob: f32,
    /// `d loss / d entropy`.
    pub by_entropy: f32,
}

/// What a chunk needs of one row of logits.
#[derive(Debug, Clone, Copy)]
struct RowSums {
    log_sum: f32,
    entropy: f32,
}

impl Decoder {
    /// Logits of tokens of the batch, `[positions, vocabulary]` row-major; for inspection and tests.
    ///
    /// # Errors
    /// [`TrainError::Request`] for a position outside of the batch.
    pub fn logits(&self, forward: &Forward, positions: &[usize]) -> Result<Vec<f32>> {
        let hidden = gather(&forward.hidden, positions.iter().copied())?;
        super::tensor::values(&self.params.product(self.head, &hidden)?)
    }

    /// Scores targets under `softmax(logits / temperature)`.
    ///
    /// # Errors
    /// [`TrainError::NotFinite`] for a prediction that is NaN or infinite.
    pub fn log_probs(&self, forward: &Forward, targets: &[Target], temperature: f32) -> Result<Scores> {
        let mut scores = Scores::default();
        for chunk in targets.chunks(self.chunk_size()) {
            let (_, logits) = self.chunk_logits(forward, chunk)?;
            let (chunk_scores, _) = score_chunk(&logits, chunk, temperature)?;
            scores.logprobs.extend(chunk_scores.logprobs);
            scores.entropies.extend(chunk_scores.entropies);
        }
        Ok(scores)
    }

    /// Scores targets and computes the gradient of a loss by the states; that of the output layer is added to
    /// `gradients`.
    ///
    /// `loss(first, scores)` gets the scores of a chunk of targets, the first of which has this index, and returns
    /// the derivatives of the loss for each of them.
    ///
    /// # Errors
    /// Those of the loss, and [`TrainError::NotFinite`] for a prediction that is NaN or infinite.
    pub fn score(
        &self,
        forward: &Forward,
        targets: &[Target],
        temperature: f32,
        gradients: &mut Gradients,
        mut loss: impl FnMut(usize, &Scores) -> Result<Vec<Coefficients>>,
    ) -> Result<(Scores, HiddenGradient)> {
        let by_hidden = zeros(forward.hidden.dims())?;
        let head = &self.params.get(self.head)?;
        let mut scores = Scores::default();
        for chunk in targets.chunks(self.chunk_size()) {
            let (hidden, logits) = self.chunk_logits(forward, chunk)?;
            let (chunk_scores, sums) = score_chunk(&logits, chunk, temperature)?;
            let coefficients = loss(scores.logprobs.len(), &chunk_scores)?;
            differentiate_chunk(&logits, chunk, temperature, &sums, &coefficients)?;
            scatter_add(&by_hidden, chunk.iter().map(|target| target.position), &logits.matmul(head)?)?;
            if self.params.is_trainable(self.head) {
                gradients.add(self.head, logits.t()?.matmul(&hidden)?)?;
            }
            scores.logprobs.extend(chunk_scores.logprobs);
            scores.entropies.extend(chunk_scores.entropies);
        }
        Ok((scores, HiddenGradient(by_hidden)))
    }

    fn chunk_size(&self) -> usize {
        (MAX_LOGITS / self.config.vocab_size.max(1)).max(1)
    }

    fn chunk_logits(&self, forward: &Forward, chunk: &[Target]) -> Result<(Tensor, Tensor)> {
        let hidden = gather(&forward.hidden, chunk.iter().map(|target| target.position))?;
        let logits = self.params.product(self.head, &hidden)?;
        Ok((hidden, logits))
    }
}

fn score_chunk(logits: &Tensor, targets: &[Target], temperature: f32) -> Result<(Scores, Vec<RowSums>)> {
    let inverse = 1.0 / temperature;
    let floats = super::tensor::Floats::of(logits)?;
    let scored = rows(floats.slice()?, logits.dim(1)?).zip(targets).map(|(row, target)| {
        let largest = math::max(row);
        let (sum, weighted) = math::exponential_sums(row, largest, inverse);
        let log_sum = largest * inverse + sum.ln();
        let entropy = sum.ln() - weighted / sum;
        let logit = row.get(target.token as usize).copied().unwrap_or(f32::NAN);
        (logit * inverse - log_sum, RowSums { log_sum, entropy })
    });
    let scored: Vec<(f32, RowSums)> = scored.collect();
    let mut scores = Scores::default();
    let mut sums = Vec::with_capacity(targets.len());
    for ((logprob, row), target) in scored.into_iter().zip(targets) {
        if !logprob.is_finite() || !row.entropy.is_finite() {
            let quantity =
                format!("the log-probability of token {} behind position {}", target.token, target.position);
            return Err(TrainError::NotFinite { quantity });
        }
        scores.logprobs.push(logprob);
        scores.entropies.push(row.entropy);
        sums.push(row);
    }
    Ok((scores, sums))
}

/// From logits to the gradient by logits, in place.
///
/// With `p` the probabilities, `d log p(token) / d logit_j = (1[j = token] - p_j) / temperature` and
/// `d entropy / d logit_j = -p_j (log p_j + entropy) / temperature`.
fn differentiate_chunk(
    logits: &Tensor,
    targets: &[Target],
    temperature: f32,
    sums: &[RowSums],
    coefficients: &[Coefficients],
) -> Result<()> {
    let inverse = 1.0 / temperature;
    let width = logits.dim(1)?.max(1);
    edit(logits, |logits| {
        let rows = rows_mut(logits, width).zip(targets).zip(sums.par_iter().zip(coefficients));
        rows.for_each(|((row, target), (sums, coefficients))| {
            let by_logprob = coefficients.by_logprob * inverse;
            let by_entropy = coefficients.by_entropy * inverse;
            if by_entropy == 0.0 {
                differentiate_logprob(row, inverse, *sums, by_logprob);
            } else {
                differentiate_both(row, inverse, *sums, by_logprob, by_entropy);
            }
            if let Some(value) = row.get_mut(target.token as usize) {
                *value += by_logprob;
            }
        });
    })
}

math::vectorized! {
    fn differentiate_logprob<'a>(row: &'a mut [f32], inverse: f32, sums: RowSums, by_logprob: f32) -> () {
        for value in row {
            *value = -by_logprob * math::exp(*value * inverse - sums.log_sum);
        }
    }

    fn differentiate_both<'a>(
        row: &'a mut [f32],
        inverse: f32,
        sums: RowSums,
        by_logprob: f32,
        by_entropy: f32
    ) -> () {
        for value in row {
            let log_p = *value * inverse - sums.log_sum;
            *value = -math::exp(log_p) * (by_logprob + by_entropy * (log_p + sums.entropy));
        }
    }
}

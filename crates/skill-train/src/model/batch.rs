//! Sequences of tokens, one behind the other, without padding.

use super::math;
use crate::error::TrainError;

/// Sequences that are computed together and do not see each other.
///
/// Their tokens lie one behind the other, so no work is spent on padding, and several examples in one row need no mask:
/// attention runs inside each sequence.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Batch {
    tokens: Vec<u32>,
    positions: Vec<u32>,
    lengths: Vec<usize>,
}

impl Batch {
    /// A batch of these sequences, each with positions from 0.
    pub fn new<'a>(sequences: impl IntoIterator<Item = &'a [u32]>) -> Self {
        let mut batch = Self::default();
        for tokens in sequences {
            let n_tokens = u32::try_from(tokens.len()).unwrap_or(u32::MAX);
            batch.push(tokens, 0..n_tokens);
        }
        batch
    }

    /// Adds a sequence with these positions, one for each token.
    pub fn push(&mut self, tokens: &[u32], positions: impl IntoIterator<Item = u32>) {
        self.tokens.extend_from_slice(tokens);
        self.positions.extend(positions.into_iter().take(tokens.len()));
        self.positions.resize(self.tokens.len(), 0);
        self.lengths.push(tokens.len());
    }

    /// The tokens of all sequences.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The number of tokens of each sequence.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// First token and number of tokens of each sequence.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (usize, usize)> {
        self.lengths.iter().scan(0, |end, length| {
            let start = *end;
            *end += length;
            Some((start, *length))
        })
    }

    /// # Errors
    /// [`TrainError::Request`] for an unknown token.
    pub(crate) fn check(&self, vocab_size: usize) -> Result<(), TrainError> {
        match self.tokens.iter().find(|token| **token as usize >= vocab_size) {
            Some(token) => {
                let fault = format!("token {token} is not in the vocabulary of {vocab_size}");
                Err(TrainError::request("tokens", fault))
            }
            None => Ok(()),
        }
    }
}

/// Cosines and sines of the rotary position embedding (Su et al., 2021) for each token of a batch.
#[derive(Debug, Clone)]
pub(crate) struct Rotation {
    /// Half the width of a head.
    half: usize,
    /// `[tokens, half]`.
    cosines: Vec<f32>,
    sines: Vec<f32>,
}

impl Rotation {
    /// The rotation of tokens at these positions: by `position / theta^(2 i / head_dim)` in plane `i`.
    pub(crate) fn new(positions: &[u32], head_dim: usize, theta: f64) -> Self {
        let half = head_dim / 2;
        let frequencies: Vec<f64> =
            (0..half).map(|plane| theta.powf(-2.0 * plane as f64 / head_dim as f64)).collect();
        let angles = positions.iter().flat_map(|position| {
            frequencies.iter().map(move |frequency| (f64::from(*position) * frequency).sin_cos())
        });
        let (sines, cosines) = angles.map(|(sine, cosine)| (sine as f32, cosine as f32)).unzip();
        Self { half, cosines, sines }
    }

    pub(crate) fn of(batch: &Batch, head_dim: usize, theta: f64) -> Self {
        Self::new(&batch.positions, head_dim, theta)
    }

    /// Rotates the head of a token: `source` into `target`. Planes are pairs of a value of the first half and one of
    /// the second, as in transformers.
    pub(crate) fn turn(&self, token: usize, direction: Direction, source: &[f32], target: &mut [f32]) {
        let at = token * self.half..(token + 1) * self.half;
        let (Some(cosines), Some(sines)) = (self.cosines.get(at.clone()), self.sines.get(at)) else { return };
        let sign = match direction {
            Direction::Forward => 1.0,
            Direction::Back => -1.0,
        };
        let (source_low, source_high) = source.split_at(self.half.min(source.len()));
        let (target_low, target_high) = target.split_at_mut(self.half.min(source.len()));
        let sources = source_low.iter().zip(source_high);
        let targets = target_low.iter_mut().zip(target_high);
        for (((low, high), (to_low, to_high)), (cosine, sine)) in
            sources.zip(targets).zip(cosines.iter().zip(sines))
        {
            let sine = sign * sine;
            *to_low = low * cosine - high * sine;
            *to_high = high * cosine + low * sine;
        }
    }
}

/// The direction of a rotation; the gradient is rotated back.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Direction {
    Forward,
    Back,
}

/// Softmax of `scale * scores` over the first `n_valid` values of a row, in place, and zeros behind them; returns the
/// logarithm of the sum of exponentials.
pub(crate) fn masked_softmax(row: &mut [f32], n_valid: usize, scale: f32) -> f32 {
    let (valid, masked) = row.split_at_mut(n_valid.min(row.len()));
    masked.fill(0.0);
    math::softmax(valid, scale)
}

#[cfg(test)]
mod tests {
    use super::{Batch, Direction, Rotation, masked_softmax};

    #[test]
    fn a_rotation_back_undoes_a_rotation() {
        let rotation = Rotation::new(&[0, 7], 4, 10_000.0);
        let (mut turned, mut back) = ([0.0; 4], [0.0; 4]);
        rotation.turn(1, Direction::Forward, &[1.0, 2.0, 3.0, 4.0], &mut turned);
        assert!((turned[0] - (7.0_f32.cos() - 3.0 * 7.0_f32.sin())).abs() < 1e-6);
        rotation.turn(1, Direction::Back, &turned, &mut back);
        for (found, expected) in back.iter().zip([1.0, 2.0, 3.0, 4.0]) {
            assert!((found - expected).abs() < 1e-5);
        }
    }

    #[test]
    fn masked_scores_have_no_weight() {
        let mut row = [1.0, 2.0, 1e9];
        let log_sum = masked_softmax(&mut row, 2, 0.5);
        assert!((log_sum - (0.5_f32.exp() + 1.0_f32.exp()).ln()).abs() < 1e-6);
        assert_eq!(row[2], 0.0);
        assert!((row[0] + row[1] - 1.0).abs() < 1e-6);
    }

    #[test]
    fn sequences_lie_one_behind_the_other() {
        let mut batch = Batch::new([[1, 2].as_slice(), &[]]);
        batch.push(&[3], [9]);
        assert_eq!(batch.ranges().collect::<Vec<_>>(), [(0, 2), (2, 0), (2, 1)]);
        assert_eq!(batch.positions, [0, 1, 9]);
        assert!(batch.check(4).is_ok() && batch.check(3).is_err());
    }
}

//! What the scheduler needs of a model: to continue many sequences at once.

use crate::error::TrainError;
use crate::model::{Adapters, Cache, Continued, Decoder};

/// A loaded model.
pub(super) trait Runner {
    /// The size of the vocabulary.
    fn n_logits(&self) -> usize;

    /// Continues sequences; returns the logits behind the last token of each, `[rows, vocabulary]` row-major.
    ///
    /// # Errors
    /// Those of the model; the caches are of no use then.
    fn extend(&self, rows: &mut [Continued<'_>]) -> Result<Vec<f32>, TrainError>;
}

impl Runner for Decoder {
    fn n_logits(&self) -> usize {
        self.config().vocab_size
    }

    fn extend(&self, rows: &mut [Continued<'_>]) -> Result<Vec<f32>, TrainError> {
        Self::extend(self, rows, Adapters::On)
    }
}

/// Continues some tokens of one sequence, with the cache that it has.
pub(super) fn continued<'a>(cache: &'a mut Cache, tokens: &'a [u32]) -> Continued<'a> {
    Continued { cache, tokens }
}

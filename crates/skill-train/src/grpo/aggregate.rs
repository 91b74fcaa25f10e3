//! From losses of tokens to one number: how much each token weighs.

use super::{GrpoError, count};

/// Rules that turn the losses of tokens into the loss of a batch.
///
/// Every mode gives all tokens of a row the same weight, so that an aggregation is one weight for each row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Aggregation {
    /// Sums and means over tokens and rows.
    pub mode: AggregationMode,
    /// Treatment of rows without tokens in a mean over rows.
    pub empty_rows: EmptyRows,
    /// The size of the whole mini-batch where the rows are only a micro-batch of it: the losses of the micro-batches
    /// then add up to that of the mini-batch. `None` takes the rows as the whole.
    pub totals: Option<BatchTotals>,
    /// Added to the number of tokens that a mean over tokens is divided by: 1e-8 in SkillRL's copy of verl for all
    /// tokens, in verl for those of a row.
    pub epsilon: f64,
}

impl Default for Aggregation {
    fn default() -> Self {
        Self::new(AggregationMode::TokenMean)
    }
}

impl Aggregation {
    /// This mode over the rows as a whole mini-batch, without rows that are empty.
    pub fn new(mode: AggregationMode) -> Self {
        Self { mode, empty_rows: EmptyRows::LeftOut, totals: None, epsilon: 0.0 }
    }

    /// The weight of a token of each row; `n_tokens` counts the tokens of each row that are learnt.
    ///
    /// The loss is the sum of weight times loss over all these tokens. A row without tokens has the weight 0.
    ///
    /// # Errors
    ///
    /// [`GrpoError::Setting`] for a length that is not positive, and for totals of 0 beside rows with tokens.
    pub fn weights(&self, n_tokens: &[usize]) -> Result<Vec<f64>, GrpoError> {
        if let AggregationMode::SequenceSum { length } | AggregationMode::SequenceMeanOfSums { length } =
            self.mode
            && !(length.is_finite() && length > 0.0)
        {
            return Err(GrpoError::Setting { setting: "length", value: length, expected: "more than 0" });
        }
        let counted_rows = match self.empty_rows {
            EmptyRows::LeftOut => n_tokens.iter().filter(|n| **n > 0).count(),
            EmptyRows::Counted => n_tokens.len(),
        };
        let tokens = self.totals.map_or_else(|| n_tokens.iter().sum(), |totals| totals.n_tokens);
        let rows = self.totals.map_or(counted_rows, |totals| totals.n_rows);
        let weight = |n: usize| match self.mode {
            AggregationMode::TokenMean => 1.0 / (count(tokens) + self.epsilon),
            AggregationMode::TokenSum => 1.0,
            AggregationMode::SequenceMeanTokenMean => 1.0 / (count(rows) * (count(n) + self.epsilon)),
            AggregationMode::SequenceMeanTokenSum => 1.0 / count(rows),
            AggregationMode::SequenceSum { length } => 1.0 / length,
            AggregationMode::SequenceMeanOfSums { length } => 1.0 / (count(rows) * length),
        };
        let weights = n_tokens.iter().map(|n| if *n == 0 { 0.0 } else { weight(*n) });
        let weights: Vec<f64> = weights.collect();
        match weights.iter().all(|weight| weight.is_finite()) {
            true => Ok(weights),
            // Rows with tokens in a mini-batch that has none.
            false => Err(GrpoError::Setting { setting: "totals", value: 0.0, expected: "more than 0" }),
        }
    }
}

/// Sums and means over tokens and rows; the names of verl and TRL are in parentheses.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum AggregationMode {
    /// The mean over all tokens of the batch (`token-mean`; `bnpo`, and `dapo` with totals): long rows weigh more.
    TokenMean,
    /// The sum over all tokens (`token-sum`).
    TokenSum,
    /// The mean over rows of the mean over their tokens (`seq-mean-token-mean`; `grpo`).
    SequenceMeanTokenMean,
    /// The mean over rows of the sum over their tokens (`seq-mean-token-sum`).
    SequenceMeanTokenSum,
    /// The sum of all tokens by a constant length (`seq-mean-token-sum-norm` of SkillRL's copy of verl).
    SequenceSum {
        /// The constant, such as the longest reply that is allowed, in tokens.
        length: f64,
    },
    /// The mean over rows of the sum over their tokens by a constant length (`seq-mean-token-sum-norm` of verl,
    /// `dr_grpo`): no row weighs more for its length.
    SequenceMeanOfSums {
        /// The constant, such as the longest reply that is allowed, in tokens.
        length: f64,
    },
}

/// Treatment of rows without tokens in a mean over rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EmptyRows {
    /// They do not (verl).
    LeftOut,
    /// They count as a loss of 0 (TRL; SkillRL's copy of verl in sums).
    Counted,
}

/// The size of a mini-batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchTotals {
    /// Tokens that are learnt.
    pub n_tokens: usize,
    /// Rows, as [`EmptyRows`] counts them.
    pub n_rows: usize,
}

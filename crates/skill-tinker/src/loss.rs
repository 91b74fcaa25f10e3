//! Rows and losses as the interface has them.
//!
//! Servers know a few losses of their own. Ours are differentiated here instead: a first pass gives the log-probability
//! of each token, the loss and its derivative by them are computed in f64, and a second pass adds the gradient of
//! `sum(weight * -log p)` with the negative derivatives as weights. The gradient of the second is that of the loss, on
//! every server that knows `cross_entropy`.

use skill_train::TrainError;
use skill_train::loss::TokenInput;
use skill_train::seam::{Loss, LossMetrics, Row};

use crate::wire::{Datum, LossInputs, ModelInput, Tensor, TokenTensor};

/// A row with these weights, one for each token; `None` for a row without a prediction.
///
/// The interface has inputs and targets that are shifted by one, so the weight of the first token has no place in it.
pub(crate) fn datum(row: &Row, weights: &[f32]) -> Option<Datum> {
    let (_, targets) = row.tokens.split_first()?;
    let (_, input) = row.tokens.split_last()?;
    if targets.is_empty() {
        return None;
    }
    Some(Datum {
        model_input: ModelInput::of(input),
        loss_fn_inputs: LossInputs {
            target_tokens: TokenTensor::of(targets),
            weights: Some(Tensor::of_floats(weights.get(1..).unwrap_or_default())),
            logprobs: None,
            advantages: None,
        },
    })
}

/// The derivative of a loss by the log-probability of each token, negated, and what it adds up to.
///
/// `logprobs` has a number for each token of each row. An entropy is not known; minus the log-probability of a token
/// that was sampled is an unbiased estimate of it, which metrics take and no gradient does.
pub(crate) fn linear_weights(
    loss: &Loss,
    denominator: f64,
    rows: &[Row],
    logprobs: &[Vec<f32>],
    metrics: &mut LossMetrics,
) -> Vec<Vec<f32>> {
    let at = |list: &[f32], token: usize| f64::from(list.get(token).copied().unwrap_or(0.0));
    let of_row = |(row, logprobs): (&Row, &Vec<f32>)| {
        let mut of_token = |(token, weight): (usize, &f32)| {
            if *weight == 0.0 || token == 0 {
                return 0.0;
            }
            let mut input = TokenInput::default();
            input.weight = f64::from(*weight);
            input.logprob = at(logprobs, token);
            input.entropy = -input.logprob;
            input.advantage = at(&row.advantages, token);
            input.old_logprob = at(&row.old_logprobs, token);
            input.reference_logprob = at(&row.reference_logprobs, token);
            -loss.token(&input, denominator, metrics).by_logprob as f32
        };
        row.weights.iter().enumerate().map(&mut of_token).collect()
    };
    rows.iter().zip(logprobs).map(of_row).collect()
}

/// Refuses what the interface has no place for.
pub(crate) fn check(loss: &Loss, rows: &[Row]) -> Result<(), TrainError> {
    loss.check(rows)?;
    match loss {
        Loss::Policy(settings) if settings.entropy_coefficient != 0.0 => Err(TrainError::Request {
            field: "loss.entropy_coefficient".to_owned(),
            fault: "a training server reports no entropies, so it has no gradient for them; set it to 0"
                .to_owned(),
        }),
        _ => Ok(()),
    }
}

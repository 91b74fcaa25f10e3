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
            weights: Some(Tensor::of_floats(weights.get(1..).expect("a weight for each token"))),
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
    let at = |list: &[f32], token: usize| f64::from(*list.get(token).expect("a number for each token"));
    // A loss that uses none of these numbers does not look at them.
    let if_used = |list: &[f32], token: usize| if list.is_empty() { 0.0 } else { at(list, token) };
    let of_row = |(row, logprobs): (&Row, &Vec<f32>)| {
        let mut of_token = |(token, weight): (usize, &f32)| {
            if *weight == 0.0 || token == 0 {
                return 0.0;
            }
            let mut input = TokenInput::default();
            input.weight = f64::from(*weight);
            input.logprob = at(logprobs, token);
            input.entropy = -input.logprob;
            input.advantage = if_used(&row.advantages, token);
            input.old_logprob = if_used(&row.old_logprobs, token);
            input.reference_logprob = if_used(&row.reference_logprobs, token);
            -loss.token(&input, denominator, metrics).by_logprob as f32
        };
        row.weights.iter().enumerate().map(&mut of_token).collect()
    };
    rows.iter().zip(logprobs).map(of_row).collect()
}

/// Refuses what the interface has no place for, and rows without a number for each token.
pub(crate) fn check(loss: &Loss, rows: &[Row]) -> Result<(), TrainError> {
    loss.check(rows)?;
    for (index, row) in rows.iter().enumerate() {
        let lists = [
            ("weights", &row.weights, false),
            ("advantages", &row.advantages, true),
            ("old_logprobs", &row.old_logprobs, true),
            ("reference_logprobs", &row.reference_logprobs, true),
        ];
        for (name, list, may_be_empty) in lists {
            if list.len() != row.tokens.len() && !(may_be_empty && list.is_empty()) {
                return Err(TrainError::Request {
                    field: format!("rows[{index}].{name}"),
                    fault: format!("{} numbers for {} tokens", list.len(), row.tokens.len()),
                });
            }
        }
    }
    match loss {
        Loss::Policy(settings) if settings.entropy_coefficient != 0.0 => Err(TrainError::Request {
            field: "loss.entropy_coefficient".to_owned(),
            fault: "a training server reports no entropies, so it has no gradient for them; set it to 0"
                .to_owned(),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skill_train::seam::PolicyLoss;

    /// The field that is refused of a row of three tokens with lists of these lengths: weights, advantages,
    /// log-probabilities of the sampling policy and of the reference.
    #[track_caller]
    fn check_lengths(loss: &Loss, lengths: [usize; 4], expect: Option<&str>) {
        let [weights, advantages, old_logprobs, reference_logprobs] = lengths.map(|length| vec![1.0; length]);
        let row = Row { tokens: vec![1, 2, 3], weights, advantages, old_logprobs, reference_logprobs };
        let field = check(loss, &[row]).err().map(|error| match error {
            TrainError::Request { field, .. } => field,
            other => panic!("{other:?}"),
        });
        assert_eq!(field.as_deref(), expect, "{lengths:?}");
    }

    #[test]
    fn a_list_that_is_too_short_is_refused_and_one_that_is_not_used_may_be_empty() {
        let policy = Loss::Policy(PolicyLoss { kl: None, ..PolicyLoss::default() });
        for loss in [&Loss::CrossEntropy, &policy] {
            check_lengths(loss, [3, 3, 3, 3], None);
            check_lengths(loss, [3, 3, 3, 0], None);
            check_lengths(loss, [2, 3, 3, 0], Some("rows[0].weights"));
            check_lengths(loss, [0, 3, 3, 0], Some("rows[0].weights"));
            check_lengths(loss, [3, 2, 3, 0], Some("rows[0].advantages"));
            check_lengths(loss, [3, 3, 4, 0], Some("rows[0].old_logprobs"));
            check_lengths(loss, [3, 3, 3, 1], Some("rows[0].reference_logprobs"));
        }
        check_lengths(&Loss::CrossEntropy, [3, 0, 0, 0], None);
        check_lengths(&policy, [3, 0, 3, 0], Some("rows[0].advantages"));
    }
}

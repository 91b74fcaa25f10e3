//! From rows, losses and optimizer settings of the interface to those of the back end, and from its numbers to results.

use std::collections::BTreeMap;

use skill_train::TrainError;
use skill_train::loss::TokenInput;
use skill_train::seam::{AdamSettings, Decayed, ForwardOutput, Loss, LossMetrics, PolicyLoss, Row};

use crate::wire::{AdamParams, Datum, ForwardBackwardInput, ForwardBackwardResult, LossOutput, Tensor};

/// The losses that are computed here.
pub(super) const LOSSES: [&str; 3] = ["cross_entropy", "importance_sampling", "ppo"];
/// The ratios between which `ppo` has a gradient, unless the request says otherwise.
const CLIP: [f64; 2] = [0.8, 1.2];
/// As good as no lower limit of a ratio; the back end takes none below 0.
const NO_LOWER_CLIP: f64 = 1.0 - 1e-12;

/// The settings of an optimizer step, or the field that is wrong and how.
pub(super) fn adam_of(asked: &AdamParams) -> Result<AdamSettings, (String, String)> {
    let settings = AdamSettings {
        learning_rate: asked.learning_rate,
        beta1: asked.beta1,
        beta2: asked.beta2,
        epsilon: asked.eps,
        weight_decay: asked.weight_decay,
        decayed: Decayed::All,
        max_grad_norm: Some(asked.grad_clip_norm).filter(|norm| *norm != 0.0),
    };
    let named = |field: String| match field.as_str() {
        "epsilon" => "eps".to_owned(),
        "max_grad_norm" => "grad_clip_norm".to_owned(),
        _ => field,
    };
    match settings.check() {
        Ok(()) => Ok(settings),
        Err(TrainError::Request { field, fault }) => Err((named(field), fault)),
        Err(other) => Err((String::new(), other.to_string())),
    }
}

/// The loss of this name, or what is wrong with its settings.
pub(super) fn loss_of(input: &ForwardBackwardInput) -> Result<Loss, String> {
    let empty = BTreeMap::new();
    let settings = input.loss_fn_config.as_ref().unwrap_or(&empty);
    let known: &[&str] =
        if input.loss_fn == "ppo" { &["clip_low_threshold", "clip_high_threshold"] } else { &[] };
    if let Some(unknown) = settings.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(format!("{} has no setting {unknown}", input.loss_fn));
    }
    let policy = |clip_low, clip_high| {
        Loss::Policy(PolicyLoss {
            clip_low,
            clip_high,
            dual_clip: None,
            max_log_ratio: None,
            kl: None,
            entropy_coefficient: 0.0,
        })
    };
    let [low, high] = CLIP;
    let setting = |key: &str, default: f64| settings.get(key).copied().unwrap_or(default);
    match input.loss_fn.as_str() {
        "cross_entropy" => Ok(Loss::CrossEntropy),
        "importance_sampling" => Ok(policy(NO_LOWER_CLIP, f64::MAX)),
        "ppo" => {
            Ok(policy(1.0 - setting("clip_low_threshold", low), setting("clip_high_threshold", high) - 1.0))
        }
        other => Err(format!("{other} is not one of {}", LOSSES.join(", "))),
    }
}

/// The rows of a request, or what is wrong with one.
pub(super) fn rows_of(data: &[Datum], loss: &Loss) -> Result<Vec<Row>, String> {
    let row = |(index, datum): (usize, &Datum)| {
        row_of(datum, loss).map_err(|fault| format!("data[{index}]: {fault}"))
    };
    if data.is_empty() {
        return Err("data is empty".to_owned());
    }
    data.iter().enumerate().map(row).collect()
}

fn row_of(datum: &Datum, loss: &Loss) -> Result<Row, String> {
    let input = datum.model_input.tokens();
    let inputs = &datum.loss_fn_inputs;
    let targets = &inputs.target_tokens.data;
    let Some(last) = targets.last() else { return Err("target_tokens is empty".to_owned()) };
    let is_shifted = targets.len() == input.len()
        && input.get(1..).unwrap_or_default() == targets.get(..targets.len() - 1).unwrap_or_default();
    if !is_shifted {
        return Err("target_tokens is not model_input shifted by one".to_owned());
    }
    // Nothing predicts the first token.
    let list = |name: &str, found: &Option<Tensor>| -> Result<Option<Vec<f32>>, String> {
        let Some(tensor) = found else { return Ok(None) };
        if tensor.data.len() != targets.len() {
            let n = tensor.data.len();
            return Err(format!("{name} has {n} numbers for {} targets", targets.len()));
        }
        let values = tensor.data.iter().map(|value| *value as f32);
        Ok(Some(std::iter::once(0.0).chain(values).collect()))
    };
    let mut row = Row { tokens: [input.as_slice(), &[*last]].concat(), ..Row::default() };
    let all = || std::iter::once(0.0).chain(targets.iter().map(|_| 1.0)).collect();
    row.weights = list("weights", &inputs.weights)?.unwrap_or_else(all);
    if matches!(loss, Loss::Policy(_)) {
        let needed = |name: &str, found: &Option<Tensor>| {
            list(name, found)?.ok_or_else(|| format!("{name} is missing"))
        };
        row.advantages = needed("advantages", &inputs.advantages)?;
        row.old_logprobs = needed("logprobs", &inputs.logprobs)?;
    }
    Ok(row)
}

/// The result of a pass: for each target its log-probability, and the loss of it where one was computed.
pub(super) fn result_of(rows: &[Row], output: &ForwardOutput, loss: Option<&Loss>) -> ForwardBackwardResult {
    let of_row = |(row, logprobs): (&Row, &Vec<f32>)| {
        let logprobs = logprobs.get(1..).unwrap_or_default();
        let elementwise_loss = loss.map(|loss| {
            let values = logprobs.iter().enumerate().map(|(place, logprob)| {
                let at = |list: &[f32]| f64::from(list.get(place + 1).copied().unwrap_or(0.0));
                let mut token = TokenInput::default();
                token.weight = at(&row.weights);
                token.logprob = f64::from(*logprob);
                token.advantage = at(&row.advantages);
                token.old_logprob = at(&row.old_logprobs);
                let mut metrics = LossMetrics::default();
                if token.weight != 0.0 {
                    loss.token(&token, 1.0, &mut metrics);
                }
                metrics.loss as f32
            });
            Tensor::of_floats(&values.collect::<Vec<_>>())
        });
        LossOutput { logprobs: Tensor::of_floats(logprobs), elementwise_loss }
    };
    ForwardBackwardResult {
        loss_fn_output_type: "scalar".to_owned(),
        loss_fn_outputs: rows.iter().zip(&output.logprobs).map(of_row).collect(),
        metrics: loss.map(|_| ("loss:sum".to_owned(), output.metrics.loss)).into_iter().collect(),
    }
}

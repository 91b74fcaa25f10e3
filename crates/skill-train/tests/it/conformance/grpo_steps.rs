//! Whole GRPO steps of verl through the seam: log-probabilities, losses, gradients, clipping, steps.

use serde_json::Value;
use skill_train::checkpoint::StateStore;
use skill_train::local::LocalBackend;
use skill_train::model::{Adapters, Batch, Gradients, Keep, Target};
use skill_train::seam::{
    CallId, Decayed, ForwardBackward, ForwardOutput, KlPenalty, Loss, LossMetrics, OptimStep, Pass, Policy,
    PolicyLoss, Row, TrainBackend,
};

use super::local::{
    GRADIENT, GRADIENT_NORM, PARAMETER, PARAMETER_NORM, adam, coefficients, compare, model, rows, total_norm,
};
use crate::recorded::{Counted, Tolerance, close, json, matrix, number, path};

/// With an absolute part, since a loss of the first step is near 0 or 0.
const FIRST_LOSS: Tolerance = Tolerance { relative: 1e-5, absolute: 2e-6 };
const LATER_LOSS: Tolerance = Tolerance { relative: 1e-4, absolute: 2e-5 };
const LOGPROB: Tolerance = Tolerance { relative: 0.0, absolute: 2e-4 };
const LATER_LOGPROB: Tolerance = Tolerance { relative: 0.0, absolute: 5e-4 };

/// The layout of the recorded batch: for each row its tokens and the tokens of the response among them.
struct Layout {
    rows: Vec<(Vec<u32>, std::ops::Range<usize>)>,
    n_columns: usize,
}

impl Layout {
    fn new(recorded: &Value) -> Self {
        let masks = matrix(&recorded["response_mask"]);
        let n_responses = masks.iter().map(|mask| mask.iter().sum::<f64>() as usize);
        let rows = rows(recorded).into_iter().zip(n_responses);
        let rows = rows.map(|(row, n)| (row.tokens.clone(), row.tokens.len() - n..row.tokens.len()));
        Self { rows: rows.collect(), n_columns: masks[0].len() }
    }

    /// Rows of the seam, with lists of the response spread over them.
    fn rows(&self, weights: impl Fn(usize) -> f32, lists: [&[Vec<f64>]; 3]) -> Vec<Row> {
        self.rows
            .iter()
            .enumerate()
            .map(|(index, (tokens, response))| {
                let spread = |list: &[Vec<f64>]| {
                    let mut all = vec![0.0; tokens.len()];
                    for (at, value) in response.clone().zip(&list[index]) {
                        all[at] = *value as f32;
                    }
                    all
                };
                let mut row = Row { tokens: tokens.clone(), ..Row::default() };
                row.weights = vec![0.0; tokens.len()];
                row.weights[response.clone()].fill(weights(response.len()));
                [row.advantages, row.old_logprobs, row.reference_logprobs] = lists.map(spread);
                row
            })
            .collect()
    }

    /// Lists of the response, padded with zeros as recorded.
    fn columns(&self, lists: &[Vec<f32>]) -> Vec<Vec<f64>> {
        let rows = self.rows.iter().zip(lists);
        rows.map(|((_, response), list)| {
            let mut values: Vec<f64> = list[response.clone()].iter().map(|value| f64::from(*value)).collect();
            values.resize(self.n_columns, 0.0);
            values
        })
        .collect()
    }

    fn compare(&self, found: &[Vec<f32>], recorded: &Value, tolerance: Tolerance, what: &str) {
        for (found, recorded) in self.columns(found).iter().zip(matrix(recorded)) {
            for (found, recorded) in found.iter().zip(recorded) {
                close(*found, recorded, tolerance, what);
            }
        }
    }
}

struct Run<'a> {
    layout: &'a Layout,
    backend: LocalBackend,
    temperature: f32,
    sequence: u64,
}

impl Run<'_> {
    async fn forward(&mut self, step: u64, rows: Vec<Row>, pass: Pass) -> ForwardOutput {
        self.sequence += 1;
        let call = CallId::new("run", step, self.sequence);
        let request = ForwardBackward { call, rows, temperature: self.temperature, pass };
        self.backend.forward_backward(request).await.unwrap()
    }

    async fn logprobs(&mut self, step: u64, policy: Policy) -> ForwardOutput {
        let nothing = vec![vec![]; self.layout.rows.len()];
        let rows = self.layout.rows(|_| 1.0, [&nothing, &nothing, &nothing]);
        self.forward(step, rows, Pass::LogProbs { policy }).await
    }
}

#[tokio::test]
async fn conformance_grpo_steps() {
    let recorded = json("grpo/grpo-steps.json");
    let mut counted = Counted::new("grpo, steps");
    let layout = Layout::new(&recorded["layout"]);
    for (name, expected) in recorded["runs"].as_object().unwrap() {
        run(&layout, name, expected, &mut counted).await;
    }
}

async fn run(layout: &Layout, name: &str, expected: &Value, counted: &mut Counted) {
    let model_of = |key: &str| expected[key].as_str().unwrap().strip_prefix("models/").map(model);
    let mut policy = model_of("policy").unwrap();
    if let Some(adapter) = expected["adapter"].as_str() {
        policy.attach_from(&path(adapter)).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let backend =
        LocalBackend::new(policy, model_of("reference"), Keep::Activations, StateStore::new(folder.path()));
    let temperature = number(&expected["temperature"]) as f32;
    let mut run = Run { layout, backend, temperature, sequence: 0 };

    let hyper = &expected["hyper"];
    let loss = Loss::Policy(PolicyLoss {
        clip_low: number(&hyper["clip_ratio_low"]),
        clip_high: number(&hyper["clip_ratio_high"]),
        dual_clip: Some(number(&hyper["clip_ratio_c"])),
        entropy_coefficient: number(&hyper["entropy_coeff"]),
        kl: Some(KlPenalty {
            coefficient: number(&hyper["kl_loss_coef"]),
            max_log_ratio: None,
            ..KlPenalty::default()
        }),
        ..PolicyLoss::default()
    });
    let mut adam = adam(hyper);
    adam.decayed = Decayed::All;

    let lengths: Vec<usize> = layout.rows.iter().map(|(_, response)| response.len()).collect();
    let n_tokens: usize = lengths.iter().sum();
    let (is_mean_of_rows, denominator) = match expected["loss_agg_mode"].as_str().unwrap() {
        "token-mean" => (false, n_tokens as f64),
        "seq-mean-token-mean" => (true, lengths.len() as f64),
        "seq-mean-token-sum-norm" => (false, layout.n_columns as f64),
        other => panic!("unknown aggregation {other}"),
    };
    let weight = |length: usize| if is_mean_of_rows { 1.0 / length as f32 } else { 1.0 };
    let advantages = matrix(&expected["advantages"]);
    let is_on_policy = expected["mode"] == "on_policy";
    let reference = run.logprobs(0, Policy::Reference).await.logprobs;
    let mut old = Vec::new();

    for (step, expected) in expected["steps"].as_array().unwrap().iter().enumerate() {
        let what = format!("{name} step {step}");
        let tolerance = if step == 0 { LOGPROB } else { LATER_LOGPROB };
        if is_on_policy || step == 0 {
            old = layout.columns(&run.logprobs(step as u64, Policy::Current).await.logprobs);
        }
        layout.compare(&reference, &expected["ref_log_prob"], LOGPROB, &what);
        for (old, recorded) in old.iter().flatten().zip(matrix(&expected["old_log_prob"]).iter().flatten()) {
            close(*old, *recorded, tolerance, &what);
        }
        let rows = layout.rows(weight, [&advantages, &old, &layout.columns(&reference)]);
        if step == 0 {
            first_gradients(&run.backend, &rows, temperature, &loss, denominator, &expected["grads"], &what);
        }
        let pass = Pass::Gradient { loss: loss.clone(), denominator };
        let output = run.forward(step as u64, rows, pass).await;
        layout.compare(&output.logprobs, &expected["log_prob"], tolerance, &what);
        layout.compare(&output.entropies, &expected["entropy"], tolerance, &what);
        let metrics = output.metrics;
        let tolerance = if step == 0 { FIRST_LOSS } else { LATER_LOSS };
        let share = |count: u64| count as f64 / n_tokens as f64;
        for (found, key) in [
            (metrics.loss, "loss"),
            (metrics.policy, "pg_loss"),
            (metrics.kl, "kl_loss"),
            (metrics.entropy, "entropy_loss"),
            (share(metrics.n_clipped), "pg_clipfrac"),
            (share(metrics.n_dual_clipped), "pg_clipfrac_lower"),
            (metrics.sum_log_ratio / n_tokens as f64, "ppo_kl"),
        ] {
            close(found, number(&expected[key]), tolerance, &format!("{what} {key}"));
        }
        let call = CallId::new("run", step as u64, 1_000);
        let stepped = run.backend.optim_step(OptimStep { call, settings: adam.clone() }).await.unwrap();
        let norm = Tolerance { relative: if step == 0 { 1e-4 } else { 1e-3 }, absolute: 1e-6 };
        close(stepped.grad_norm, number(&expected["grads"]["total_norm"]), norm, &what);
        close(total_norm(&run.backend.model()), number(&expected["param_norm_after"]), PARAMETER_NORM, &what);
        let after = run.logprobs(step as u64, Policy::Current).await;
        layout.compare(&after.logprobs, &expected["new_log_prob"], LATER_LOGPROB, &what);
        counted.add();
    }
    let after = run.backend.model().trainable().unwrap();
    compare(&after, &expected["final_params"], [PARAMETER_NORM, PARAMETER], name);
}

/// The gradient of each parameter in the first step.
fn first_gradients(
    backend: &LocalBackend,
    rows: &[Row],
    temperature: f32,
    loss: &Loss,
    denominator: f64,
    expected: &Value,
    what: &str,
) {
    let model = backend.model();
    let (mut targets, mut inputs) = (Vec::new(), Vec::new());
    let mut start = 0;
    for row in rows {
        for index in (1..row.tokens.len()).filter(|index| row.weights[*index] != 0.0) {
            targets.push(Target { position: start + index - 1, token: row.tokens[index] });
            let lists = [&row.weights, &row.advantages, &row.old_logprobs, &row.reference_logprobs];
            inputs.push(lists.map(|list| f64::from(list[index])));
        }
        start += row.tokens.len();
    }
    let batch = Batch::new(rows.iter().map(|row| row.tokens.as_slice()));
    let forward = model.forward(batch, Adapters::On, Keep::LayerInputs).unwrap();
    let mut gradients = Gradients::default();
    let (_, hidden) = model
        .score(&forward, &targets, temperature, &mut gradients, |_, scores| {
            Ok(coefficients(scores, |index, mut input| {
                [input.weight, input.advantage, input.old_logprob, input.reference_logprob] = inputs[index];
                loss.token(&input, denominator, &mut LossMetrics::default())
            }))
        })
        .unwrap();
    model.backward(forward, hidden, &mut gradients).unwrap();
    close(gradients.norm().unwrap(), number(&expected["total_norm"]), GRADIENT_NORM, what);
    let found = model.named_gradients(&gradients).unwrap();
    compare(&found, &expected["params"], [GRADIENT_NORM, GRADIENT], what);
}

//! The loss that trains, as SkillRL's copy of verl, verl and TRL compute it: losses, shares and gradients by the
//! log-probs. Options of theirs that it does not have are left out.

use super::grpo::{each, flag};
use crate::recorded::{Tolerance, close, matrix, number, numbers};
use serde_json::Value;
use skill_train::loss::TokenInput;
use skill_train::seam::{KlEstimator, KlPenalty, Loss, LossMetrics, PolicyLoss};

/// Computed in `f64` on both sides; both copies of verl add 1e-8 to a number of tokens that they divide by.
const F64: Tolerance = Tolerance { relative: 2e-8, absolute: 1e-9 };

/// What a loss gives for the rows of a case.
struct Found {
    metrics: LossMetrics,
    gradients: Vec<Vec<f64>>,
}

/// The tokens of the mask, each with the weight of its row.
fn found(input: &Value, settings: PolicyLoss, weights: &[f64]) -> Found {
    let (loss, mut metrics) = (Loss::Policy(settings), LossMetrics::default());
    let list = |name: &str| input.get(name).map(matrix);
    let [new, old, reference, entropy, mask] =
        ["log_prob", "old_log_prob", "ref_log_prob", "entropy", "mask"].map(list);
    let (new, mask, advantages) = (new.unwrap(), mask.unwrap(), input.get("advantages").map(numbers));
    let at = |list: &Option<Vec<Vec<f64>>>, row: usize, token: usize| {
        list.as_ref().map_or(0.0, |list| list[row][token])
    };
    let mut gradients: Vec<Vec<f64>> = new.iter().map(|row| vec![0.0; row.len()]).collect();
    for (row, logprobs) in new.iter().enumerate() {
        for (token, logprob) in logprobs.iter().enumerate().filter(|(token, _)| mask[row][*token] > 0.0) {
            let mut given = TokenInput::default();
            (given.weight, given.logprob) = (weights[row], *logprob);
            given.advantage = advantages.as_ref().map_or(0.0, |advantages| advantages[row]);
            given.old_logprob = at(&old, row, token);
            given.reference_logprob = at(&reference, row, token);
            given.entropy = at(&entropy, row, token);
            gradients[row][token] = loss.token(&given, 1.0, &mut metrics).by_logprob;
        }
    }
    Found { metrics, gradients }
}

/// The weight of a token of each row; rows without tokens count where `counts_empty` says so.
fn weights(input: &Value, mode: &str, counts_empty: bool, length: f64) -> Vec<f64> {
    let lengths: Vec<f64> = matrix(&input["mask"]).iter().map(|row| row.iter().sum()).collect();
    let whole = &input["global_batch_info"];
    let total = |key: &str, own: f64| whole.get(key).map_or(own, number);
    let n_rows = lengths.iter().filter(|length| counts_empty || **length > 0.0).count() as f64;
    let n_rows = total("global_batch_size", n_rows);
    let n_tokens = total("batch_num_tokens", lengths.iter().sum());
    let weight = |n: &f64| match mode {
        "token-mean" => 1.0 / n_tokens,
        "seq-mean-token-mean" => 1.0 / (n_rows * n),
        "seq-mean-token-sum" => 1.0 / n_rows,
        "seq-mean-token-sum-norm" => 1.0 / (n_rows * total("loss_scale_factor", length)),
        other => panic!("aggregation {other}"),
    };
    lengths.iter().map(weight).collect()
}

/// The weights of SkillRL's copy of verl, or of verl; the one's norm of sums is by the length alone.
fn verl_weights(source: &str, input: &Value) -> Vec<f64> {
    let (mode, masks) = (input["loss_agg_mode"].as_str().unwrap(), matrix(&input["mask"]));
    let (n_rows, width) = (masks.len() as f64, masks[0].len() as f64);
    match source {
        "skillrl-verl" => weights(input, mode, true, width / n_rows),
        _ => weights(input, mode, false, width),
    }
}

fn verl_loss(source: &str, input: &Value) -> PolicyLoss {
    PolicyLoss {
        clip_low: number(&input["clip_low"]),
        clip_high: number(&input["clip_high"]),
        dual_clip: Some(number(&input["clip_ratio_c"])),
        max_log_ratio: (source == "verl").then_some(20.0),
        kl: None,
        entropy_coefficient: 0.0,
    }
}

/// The penalty with an estimator of the copies of verl; `None` for those that the loss does not have.
fn penalty(source: &str, name: &str, coefficient: f64) -> Option<KlPenalty> {
    let estimator = match name {
        "k1" => KlEstimator::K1,
        "k2" => KlEstimator::K2,
        "k3" | "low_var_kl" => KlEstimator::K3,
        "abs" | "k1+" | "k3+" => return None,
        other => panic!("estimator {other}"),
    };
    Some(KlPenalty { estimator, coefficient, max_log_ratio: (source == "verl").then_some(20.0) })
}

/// A recorded NaN is a fault of its source; ours is a number there.
#[track_caller]
fn same(ours: f64, recorded: &Value, what: &str) {
    let recorded = number(recorded);
    match recorded.is_nan() {
        true => assert!(ours.is_finite(), "{what}: {ours}"),
        false => close(ours, recorded, F64, what),
    }
}

#[track_caller]
fn same_gradients(ours: &[Vec<f64>], recorded: &Value, what: &str) {
    for (row, ours) in ours.iter().enumerate() {
        for (token, ours) in ours.iter().enumerate() {
            same(*ours, &recorded[row][token], &format!("{what}, gradient of row {row}, token {token}"));
        }
    }
}

#[test]
fn conformance_of_policy_losses() {
    each("policy_loss", |case, source, what| match source {
        "trl" => same_as_trl(case, what),
        _ => {
            let (input, out) = (&case["in"], &case["out"]);
            let ours = found(input, verl_loss(source, input), &verl_weights(source, input));
            same(ours.metrics.policy, &out["pg_loss"], what);
            same_gradients(&ours.gradients, &out["grad_log_prob"], what);
            let n_tokens = (ours.metrics.n_tokens as f64).max(1.0);
            for (n, key) in [
                (ours.metrics.n_clipped as f64, "pg_clipfrac"),
                (ours.metrics.n_dual_clipped as f64, "pg_clipfrac_lower"),
            ] {
                same(n / n_tokens, &out[key], &format!("{what}, {key}"));
            }
            // verl takes the mean of the limited log-ratios.
            if source != "verl" {
                same(ours.metrics.sum_log_ratio / n_tokens, &out["ppo_kl"], &format!("{what}, ppo_kl"));
            }
        }
    });
}

/// Without a cap of the ratio, a ratio of the whole row, and KL estimates that are corrected or above 10, which the loss
/// does not have.
#[track_caller]
fn same_as_trl(case: &Value, what: &str) {
    let (input, out) = (&case["in"], &case["out"]);
    let has_others = !input["delta"].is_null()
        || input["importance_sampling_level"] != "token"
        || flag(&input["use_bias_correction_kl"])
        || case["name"].as_str().unwrap().contains("kl is not clamped");
    if has_others {
        return;
    }
    let coefficient = number(&input["beta"]);
    let kl = KlPenalty { estimator: KlEstimator::K3, coefficient, max_log_ratio: None };
    let settings = PolicyLoss {
        clip_low: number(&input["epsilon"]),
        clip_high: number(&input["epsilon_high"]),
        dual_clip: None,
        max_log_ratio: None,
        kl: (coefficient > 0.0).then_some(kl),
        entropy_coefficient: number(&input["entropy_coef"]),
    };
    let weights = match input["loss_type"].as_str().unwrap() {
        "grpo" => weights(input, "seq-mean-token-mean", true, 1.0),
        "bnpo" => weights(input, "token-mean", true, 1.0),
        "dr_grpo" => weights(input, "seq-mean-token-sum-norm", true, number(&input["max_completion_length"])),
        "dapo" => vec![1.0 / number(&input["num_items_in_batch"]); matrix(&input["mask"]).len()],
        other => panic!("loss_type {other}"),
    };
    let ours = found(input, settings, &weights);
    same(ours.metrics.loss, &out["loss"], what);
    same_gradients(&ours.gradients, &out["grad_log_prob"], what);
    // TRL takes the mean of flags in f32.
    let flags = Tolerance { relative: 1e-7, absolute: 1e-9 };
    let clipped = ours.metrics.n_clipped as f64 / (ours.metrics.n_tokens as f64).max(1.0);
    close(clipped, number(&out["clip_ratio/region_mean"]), flags, &format!("{what}, region"));
}

#[test]
fn conformance_of_kl_estimates() {
    each("kl", |case, source, what| {
        let (input, out) = (&case["in"], &case["out"]);
        let Some(kl) = penalty(source, input["estimator"].as_str().unwrap(), 1.0) else { return };
        let settings = PolicyLoss { kl: Some(kl), ..PolicyLoss::default() };
        let [new, reference] = ["log_prob", "ref_log_prob"].map(|name| numbers(&input[name]));
        for (token, (new, reference)) in new.into_iter().zip(reference).enumerate() {
            let (mut given, mut metrics) = (TokenInput::default(), LossMetrics::default());
            (given.weight, given.logprob, given.old_logprob) = (1.0, new, new);
            given.reference_logprob = reference;
            let gradient = Loss::Policy(settings.clone()).token(&given, 1.0, &mut metrics);
            same(metrics.kl, &out["kl"][token], &format!("{what}, token {token}"));
            same(
                gradient.by_logprob,
                &out["grad_log_prob"][token],
                &format!("{what}, gradient of token {token}"),
            );
        }
    });
}

#[test]
fn conformance_of_whole_losses() {
    each("actor_loss", |case, source, what| {
        let (input, out) = (&case["in"], &case["out"]);
        let kl = penalty(source, input["kl_loss_type"].as_str().unwrap(), number(&input["kl_loss_coef"]));
        let entropy_coefficient = number(&input["entropy_coeff"]);
        let settings = PolicyLoss { kl, entropy_coefficient, ..verl_loss(source, input) };
        let ours = found(input, settings, &verl_weights(source, input));
        for (found, key) in [
            (ours.metrics.policy, "pg_loss"),
            (ours.metrics.kl, "kl_loss"),
            (ours.metrics.entropy, "entropy_loss"),
            (ours.metrics.loss, "loss"),
        ] {
            same(found, &out[key], &format!("{what}, {key}"));
        }
        same_gradients(&ours.gradients, &out["grad_log_prob"], what);
    });
}

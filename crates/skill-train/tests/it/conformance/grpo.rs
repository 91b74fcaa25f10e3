//! Advantages, rewards, KL estimates, aggregation and entropy, as SkillRL's copy of verl, verl and TRL compute them.
//!
//! Each case names its source; a function here says by which settings the source is reproduced.

use crate::recorded::{self, Counted, Tolerance, close, matrix, number, numbers};
use serde_json::Value;
use skill_train::grpo::{
    AdvantageSettings, Aggregation, AggregationMode, Baseline, EmptyRows, KlEstimator, KlGradient, KlValue,
    Mean, Rollout, Scale, SingleRollout, Statistics, StepReward, entropy_of_logits, step_scores,
    valid_action_ratio,
};

/// Computed in `f64` on both sides.
pub(super) const F64: Tolerance = Tolerance { relative: 1e-9, absolute: 1e-9 };
/// The reference computed in `f32`.
const F32: Tolerance = Tolerance { relative: 1e-5, absolute: 1e-7 };
/// The reference takes mean and deviation in `f32`.
const ADVANTAGE: Tolerance = Tolerance { relative: 2e-6, absolute: 1e-7 };
/// The number that SkillRL's copy of verl adds to the count of tokens in a masked mean.
pub(super) const MASKED_MEAN: f64 = 1e-8;

/// Runs `check` on every case of a group, and counts them.
pub(super) fn each(group: &str, check: impl Fn(&Value, &str, &str)) {
    let Some(recorded) = recorded::json("grpo/grpo-numerics.json") else { return };
    let mut counted = Counted::new(format!("grpo {group}"));
    for case in recorded["cases"].as_array().unwrap().iter().filter(|case| case["group"] == group) {
        let source = case["source"].as_str().unwrap();
        check(case, source, &format!("{group}, {source}, {}", case["name"].as_str().unwrap()));
        counted.add();
    }
}

pub(super) fn flag(value: &Value) -> bool {
    value.as_bool().unwrap()
}

pub(super) fn sizes(value: &Value) -> Vec<usize> {
    value.as_array().unwrap().iter().map(|n| usize::try_from(n.as_u64().unwrap()).unwrap()).collect()
}

#[test]
fn every_group_of_recorded_cases_has_a_test() {
    let Some(recorded) = recorded::json("grpo/grpo-numerics.json") else { return };
    let known = [
        "advantage",
        "policy_loss",
        "policy_loss_gspo",
        "kl",
        "aggregate",
        "invalid_action",
        "entropy",
        "actor_loss",
    ];
    for case in recorded["cases"].as_array().unwrap() {
        assert!(known.contains(&case["group"].as_str().unwrap()), "{}", case["group"]);
    }
}

fn advantage_settings(source: &str, input: &Value) -> AdvantageSettings {
    let plain = AdvantageSettings {
        baseline: Baseline::Group,
        mean: Mean::All,
        epsilon: number(&input["epsilon"]),
        ..AdvantageSettings::default()
    };
    let by_std = |key: &str| if flag(&input[key]) { Scale::Group } else { Scale::None };
    match source {
        "skillrl-verl" => AdvantageSettings {
            scale: by_std("norm_adv_by_std_in_grpo"),
            statistics: match flag(&input["compute_mean_std_cross_steps"]) {
                true => Statistics::Steps,
                false => Statistics::Trajectories,
            },
            single: SingleRollout::KeepReward,
            ..plain
        },
        "verl" => AdvantageSettings {
            scale: by_std("norm_adv_by_std_in_grpo"),
            statistics: Statistics::Steps,
            single: SingleRollout::KeepReward,
            ..plain
        },
        "trl" => AdvantageSettings {
            scale: match input["scale_rewards"].as_str().unwrap() {
                "group" => Scale::Group,
                "batch" => Scale::Batch,
                "none" => Scale::None,
                other => panic!("scale_rewards {other}"),
            },
            statistics: Statistics::Steps,
            single: SingleRollout::Zero,
            ..plain
        },
        other => panic!("source {other}"),
    }
}

/// The rows of a case: TRL's groups are runs of rows, the others' have names.
fn rollouts(source: &str, input: &Value) -> Vec<Rollout> {
    let scores = numbers(if source == "trl" { &input["rewards"] } else { &input["scores"] });
    let name = |list: &str, row: usize| -> u64 {
        let names = input[list].as_array().unwrap();
        u64::try_from(names.iter().position(|name| *name == names[row]).unwrap()).unwrap()
    };
    let rollout = |(row, score): (usize, &f64)| {
        let own = u64::try_from(row).unwrap();
        let (group, trajectory) = match source {
            "trl" => (own / input["num_generations"].as_u64().unwrap(), own),
            "verl" => (name("uid", row), own),
            _ => (name("uid", row), name("traj_uid", row)),
        };
        Rollout { group, arm: 0, trajectory, reward: Some(*score).filter(|score| !score.is_nan()) }
    };
    scores.iter().enumerate().map(rollout).collect()
}

#[test]
fn conformance_of_advantages() {
    each("advantage", |case, source, what| {
        let input = &case["in"];
        let ours = advantage_settings(source, input).advantages(&rollouts(source, input)).unwrap().values;
        let recorded = &case["out"]["advantages"];
        if source == "trl" {
            for (row, (ours, recorded)) in ours.iter().zip(numbers(recorded)).enumerate() {
                close(*ours, recorded, ADVANTAGE, &format!("{what}, row {row}"));
            }
            return;
        }
        let lengths = sizes(&input["response_lengths"]);
        for (row, recorded) in matrix(recorded).into_iter().enumerate() {
            for (column, recorded) in recorded.into_iter().enumerate() {
                let ours = if column < lengths[row] { ours[row] } else { 0.0 };
                close(ours, recorded, ADVANTAGE, &format!("{what}, row {row}, column {column}"));
            }
        }
    });
}

pub(super) fn aggregation(source: &str, mode: &str, length: f64) -> Aggregation {
    let mode = match (mode, source) {
        ("token-mean", _) => AggregationMode::TokenMean,
        ("token-sum", _) => AggregationMode::TokenSum,
        ("seq-mean-token-mean", _) => AggregationMode::SequenceMeanTokenMean,
        ("seq-mean-token-sum", _) => AggregationMode::SequenceMeanTokenSum,
        ("seq-mean-token-sum-norm", "verl") => AggregationMode::SequenceMeanOfSums { length },
        ("seq-mean-token-sum-norm", "skillrl-verl") => AggregationMode::SequenceSum { length },
        other => panic!("aggregation {other:?}"),
    };
    let plain = Aggregation::new(mode);
    let epsilon = match (source, mode) {
        ("skillrl-verl", AggregationMode::TokenMean) => MASKED_MEAN,
        ("verl", AggregationMode::SequenceMeanTokenMean) => MASKED_MEAN,
        _ => 0.0,
    };
    match source {
        "skillrl-verl" => Aggregation { empty_rows: EmptyRows::Counted, epsilon, ..plain },
        _ => Aggregation { epsilon, ..plain },
    }
}

pub(super) fn masks(value: &Value) -> Vec<Vec<bool>> {
    matrix(value).into_iter().map(|row| row.into_iter().map(|shown| shown > 0.0).collect()).collect()
}

pub(super) fn n_tokens(mask: &[bool]) -> usize {
    mask.iter().filter(|shown| **shown).count()
}

#[test]
fn conformance_of_aggregation() {
    each("aggregate", |case, source, what| {
        let (losses, masks) = (matrix(&case["in"]["loss_mat"]), masks(&case["in"]["mask"]));
        let length = f64::from(u32::try_from(losses[0].len()).unwrap());
        let counts: Vec<usize> = masks.iter().map(|mask| n_tokens(mask)).collect();
        let aggregation = aggregation(source, case["in"]["mode"].as_str().unwrap(), length);
        let weights = aggregation.weights(&counts).unwrap();
        let of_row = |row: usize| -> f64 {
            losses[row].iter().zip(&masks[row]).filter(|(_, shown)| **shown).map(|(loss, _)| loss).sum()
        };
        let ours: f64 = weights.iter().enumerate().map(|(row, weight)| weight * of_row(row)).sum();
        let recorded = number(&case["out"]["loss"]);
        match recorded.is_nan() {
            // The source divides 0 by 0 where a row has no token.
            true => assert!(ours.is_finite(), "{what}: {ours}"),
            false => close(ours, recorded, F64, what),
        }
    });
}

pub(super) fn estimator(source: &str, name: &str) -> KlEstimator {
    let (name, gradient) = match name.strip_suffix('+') {
        Some(name) => (name, KlGradient::OfK2),
        None => (name, KlGradient::OfValue),
    };
    let value = match name {
        "k1" => KlValue::K1,
        "abs" => KlValue::Abs,
        "k2" => KlValue::K2,
        "k3" | "low_var_kl" => KlValue::K3,
        other => panic!("estimator {other}"),
    };
    let log_ratio_limit = (source == "verl").then_some(20.0);
    KlEstimator { value, gradient, log_ratio_limit, value_limit: Some(10.0) }
}

#[test]
fn conformance_of_kl_estimates() {
    each("kl", |case, source, what| {
        let input = &case["in"];
        let estimator = estimator(source, input["estimator"].as_str().unwrap());
        let (values, gradients) = (numbers(&case["out"]["kl"]), numbers(&case["out"]["grad_log_prob"]));
        let pairs = numbers(&input["log_prob"]).into_iter().zip(numbers(&input["ref_log_prob"]));
        for (token, (log_prob, reference)) in pairs.enumerate() {
            let ours = estimator.per_token(log_prob, reference);
            close(ours.value, values[token], F64, &format!("{what}, token {token}"));
            close(ours.gradient, gradients[token], F64, &format!("{what}, gradient of token {token}"));
        }
    });
}

#[test]
fn conformance_of_invalid_action_penalties() {
    each("invalid_action", |case, _, what| {
        let input = &case["in"];
        let rewards = numbers(&input["episode_rewards"]);
        let valid = input["is_action_valid"].as_array().unwrap().iter().map(flag);
        let steps: Vec<StepReward> = sizes(&input["response_lengths"])
            .into_iter()
            .zip(rewards)
            .zip(valid)
            .map(|((n_tokens, reward), valid)| StepReward { n_tokens, reward, valid })
            .collect();
        let scores = step_scores(&steps, number(&input["coef"]));
        for (row, recorded) in matrix(&case["out"]["token_level_scores"]).into_iter().enumerate() {
            // The source writes the score of an empty reply into the last column.
            let place = scores[row].token.unwrap_or(recorded.len() - 1);
            for (column, recorded) in recorded.into_iter().enumerate() {
                let ours = if column == place { scores[row].score } else { 0.0 };
                close(ours, recorded, F32, &format!("{what}, row {row}, column {column}"));
            }
        }
        close(valid_action_ratio(&steps), number(&case["out"]["valid_action_ratio"]), F32, what);
    });
}

#[test]
fn conformance_of_entropies() {
    each("entropy", |case, source, what| {
        let masks = masks(&case["in"]["mask"]);
        let counts: Vec<usize> = masks.iter().map(|mask| n_tokens(mask)).collect();
        let aggregation = aggregation(source, case["in"]["loss_agg_mode"].as_str().unwrap(), 1.0);
        let weights = aggregation.weights(&counts).unwrap();
        let (entropies, gradients) = (matrix(&case["out"]["entropy"]), &case["out"]["grad_logits"]);
        let mut total = 0.0;
        for (row, logits) in case["in"]["logits"].as_array().unwrap().iter().enumerate() {
            for (token, logits) in matrix(logits).into_iter().enumerate() {
                let ours = entropy_of_logits(&logits);
                close(ours.entropy, entropies[row][token], F64, &format!("{what}, row {row}, token {token}"));
                let weight = if masks[row][token] { weights[row] } else { 0.0 };
                total += weight * ours.entropy;
                for (ours, recorded) in ours.gradient.iter().zip(numbers(&gradients[row][token])) {
                    close(weight * ours, recorded, F64, &format!("{what}, gradient of {row}, {token}"));
                }
            }
        }
        close(total, number(&case["out"]["entropy_loss"]), F64, what);
    });
}

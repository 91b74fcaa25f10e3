//! Advantages, as SkillRL's copy of verl, verl and TRL compute them.
//!
//! Each case names its source; a function here says by which settings the source is reproduced.

use crate::recorded::{self, Counted, Tolerance, close, matrix, number, numbers};
use serde_json::Value;
use skill_train::grpo::{AdvantageSettings, Baseline, Mean, Rollout, Scale, SingleRollout, Statistics};

/// The reference takes mean and deviation in `f32`.
const ADVANTAGE: Tolerance = Tolerance { relative: 2e-6, absolute: 1e-7 };

/// Runs `check` on every case of a group, and counts them.
pub(super) fn each(group: &str, check: impl Fn(&Value, &str, &str)) {
    let recorded = recorded::json("grpo/grpo-numerics.json");
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

fn sizes(value: &Value) -> Vec<usize> {
    value.as_array().unwrap().iter().map(|n| usize::try_from(n.as_u64().unwrap()).unwrap()).collect()
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

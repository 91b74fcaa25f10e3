//! Groups about schedules, sampling, the gate, hashes, plans and JSON.

use super::Verdict::{self, Differs, Ours};
use serde_json::{Value, json};
use skill_core::autonomous::BudgetChoice;
use skill_core::gate::{Gate, GateAction, GateMetric, ItemScore};
use skill_core::plan::{plan_minibatches, plan_train_epoch as plan_epoch};
use skill_core::rewrite::UpdateMode;
use skill_core::schedule::{BudgetControl, EditBudget, EditBudgetSchedule};
use skill_core::{EpochIdx, MeanScore, PyRandom, SkillHash, StepIdx};

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn count(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}

pub(crate) fn scheduler(input: &Value, recorded: &Value) -> Verdict {
    let name = input[0].as_str().unwrap();
    let Some(schedule) = EditBudgetSchedule::parse(name) else {
        assert_eq!(name, "autonomous");
        assert!(recorded.as_array().unwrap().iter().all(|budget| budget == 999), "{recorded}");
        return Differs("the optimizer chooses: the number 999 stands for no bound");
    };
    let [max, min, total] = [1, 2, 3].map(|idx| u32::try_from(input[idx].as_u64().unwrap()).unwrap());
    let Ok(budget) = EditBudget::new(schedule, max, min) else {
        assert!(min > max);
        return Differs("defect 27: a minimum above the maximum is an error of the configuration");
    };
    let n_steps = u32::try_from(recorded.as_array().unwrap().len()).unwrap();
    Ours((1..=n_steps).map(|step| budget.at(StepIdx(step), total)).collect())
}

pub(crate) fn lr_autonomous(input: &Value, _: &Value) -> Verdict {
    let reply = skill_core::extract_json(input.as_str().unwrap());
    Ours(json!(BudgetChoice::read(reply.as_ref(), 5)))
}

pub(crate) fn lr_control_mode(input: &Value, _: &Value) -> Verdict {
    Ours(json!(BudgetControl::from_reference(input.as_str().unwrap_or_default())))
}

pub(crate) fn update_mode(input: &Value, recorded: &Value) -> Verdict {
    match UpdateMode::from_reference(input.as_str().unwrap_or_default()) {
        Some(mode) => Ours(json!(mode)),
        None => {
            assert_eq!(recorded, "patch");
            Differs("defect 18: a name that nothing has is an error")
        }
    }
}

pub(crate) fn py_shuffle(input: &Value, _: &Value) -> Verdict {
    let mut items: Vec<usize> = (0..count(&input[1])).collect();
    PyRandom::new(input[0].as_u64().unwrap()).shuffle(&mut items);
    Ours(json!(items))
}

pub(crate) fn py_random_raw(input: &Value, _: &Value) -> Verdict {
    let mut random = PyRandom::new(input.as_u64().unwrap());
    let floats: Vec<f64> = (0..3).map(|_| random.random()).collect();
    let bits: Vec<u64> = (0..3).map(|_| random.getrandbits(32)).collect();
    let below: Vec<u64> = (0..5).map(|_| random.randbelow(10)).collect();
    Ours(json!([floats, bits, below]))
}

pub(crate) fn select_gate_score(input: &Value, _: &Value) -> Verdict {
    let metric = GateMetric::parse(input[2].as_str().unwrap()).unwrap();
    let gate = Gate { metric, mixed_weight: number(&input[3]) };
    Ours(json!(gate.score(MeanScore { hard: number(&input[0]), soft: number(&input[1]) })))
}

pub(crate) fn evaluate_gate(input: &Value, _: &Value) -> Verdict {
    let either = |names: [&str; 2]| names.iter().find_map(|name| input.get(name));
    let metric = either(["metric", "gate_metric"])
        .map_or(GateMetric::Hard, |name| GateMetric::parse(name.as_str().unwrap()).unwrap());
    let weight = either(["mixed_weight", "gate_mixed_weight"]).map_or(0.5, number);
    let hard = number(&input["cand_hard"]);
    let candidate = MeanScore { hard, soft: input.get("cand_soft").map_or(0.0, number) };
    let score = Gate { metric, mixed_weight: weight }.score(candidate);
    let (current, best) = (number(&input["current"]), number(&input["best"]));
    // The reference compares means: as many scores of one item.
    let of = |score| [ItemScore { hard: score, soft: score }];
    let action = Gate::default().decide(&of(score), &of(current), &of(best));
    let (step, best_step) = (count(&input["step"]), count(&input["best_step"]));
    let (current, best) = match action {
        GateAction::AcceptNewBest => (("C", score), ("C", score, step)),
        GateAction::Accept => (("C", score), ("B", best, best_step)),
        GateAction::Reject | GateAction::Indecisive => (("A", current), ("B", best, best_step)),
    };
    Ours(json!({
        "action": action,
        "current_skill": current.0,
        "current_score": current.1,
        "best_skill": best.0,
        "best_score": best.1,
        "best_step": best.2,
    }))
}

pub(crate) fn skill_hash(input: &Value, _: &Value) -> Verdict {
    Ours(json!(SkillHash::of(input.as_str().unwrap())))
}

pub(crate) fn compute_score(input: &Value, _: &Value) -> Verdict {
    let part = |row: &Value, key: &str| row.get(key).and_then(Value::as_f64).unwrap_or(0.0);
    let rows = input.as_array().unwrap().iter();
    let mean = MeanScore::of(rows.map(|row| (part(row, "hard"), part(row, "soft"))));
    Ours(json!([mean.hard, mean.soft]))
}

pub(crate) fn extract_json(input: &Value, _: &Value) -> Verdict {
    Ours(skill_core::extract_json(input.as_str().unwrap()).unwrap_or(Value::Null))
}

pub(crate) fn minibatch_groups(input: &Value, recorded: &Value) -> Verdict {
    let hard: Vec<f64> = input["hard"].as_array().unwrap().iter().map(number).collect();
    let is_success: Vec<bool> =
        hard.iter().map(|&hard| hard >= skill_core::rollout::SUCCESS_THRESHOLD).collect();
    let groups = plan_minibatches(&is_success, count(&input["M"]), input["seed"].as_u64());
    let named = |groups: &[Vec<usize>]| -> Value {
        groups
            .iter()
            .map(|group| json!(group.iter().map(|idx| format!("t{idx}")).collect::<Vec<_>>()))
            .collect()
    };
    let ours = json!({"fail": named(&groups.failures), "succ": named(&groups.successes)});
    if !hard.iter().any(|&hard| hard > 0.0 && hard < skill_core::rollout::SUCCESS_THRESHOLD) {
        return Ours(ours);
    }
    assert_eq!(ours["fail"], recorded["fail"]);
    let mut successes: Vec<usize> = groups.successes.concat();
    successes.sort_unstable();
    let expected: Vec<usize> = (0..hard.len()).filter(|&idx| is_success[idx]).collect();
    assert_eq!(successes, expected);
    // The shuffles of CPython over the four items that are left.
    let held = match input["seed"].as_u64() {
        Some(1043) => Some(json!([["t1", "t5", "t9"], ["t3"]])),
        Some(43) => Some(json!([["t3", "t1", "t5"], ["t9"]])),
        None => Some(json!([["t1", "t3", "t5"], ["t9"]])),
        Some(_) => None,
    };
    if let Some(held) = held
        && expected == [1, 3, 5, 9]
        && count(&input["M"]) == 3
    {
        assert_eq!(ours["succ"], held);
    }
    Differs("defect 25: a score below 1e-9 is a failure and nothing else")
}

pub(crate) fn split_counts(input: &Value, _: &Value) -> Verdict {
    let ratio: Vec<u32> = input[1]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| u32::try_from(part.as_u64().unwrap()).unwrap())
        .collect();
    Ours(json!(skill_core::split_counts(skill_core::SplitRule::Float, count(&input[0]), &ratio)))
}

pub(crate) fn plan_train_epoch(input: &Value, _: &Value) -> Verdict {
    let [n, steps, accumulation, batch_size] = ["n", "steps", "accum", "bs"].map(|key| count(&input[key]));
    let epoch = EpochIdx(u32::try_from(count(&input["epoch"])).unwrap());
    let plan = plan_epoch(n, epoch, steps, accumulation, batch_size, input["seed"].as_u64().unwrap());
    Ours(plan.iter().map(|batch| json!([batch.seed, batch.item_idx.len(), batch.item_idx])).collect())
}

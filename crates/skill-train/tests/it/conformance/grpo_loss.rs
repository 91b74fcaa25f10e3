//! Policy losses with their gradients and shares, as SkillRL's copy of verl, verl and TRL compute them.

use super::grpo::{F64, MASKED_MEAN, aggregation, each, estimator, flag, masks, n_tokens};
use crate::recorded::{close, matrix, number, numbers};
use serde_json::Value;
use skill_train::grpo::{
    Aggregation, AggregationMode, BatchTotals, EmptyRows, GrpoLoss, KlEstimator, KlGradient, KlPenalty,
    KlValue, KlWeight, LossReport, LossRow, PolicyClip, RatioLevel,
};

/// The lists of a case.
struct Lists {
    new: Vec<Vec<f64>>,
    old: Vec<Vec<f64>>,
    reference: Option<Vec<Vec<f64>>>,
    entropy: Option<Vec<Vec<f64>>>,
    masks: Vec<Vec<bool>>,
    advantages: Vec<f64>,
}

impl Lists {
    fn of(input: &Value) -> Self {
        Self {
            new: matrix(&input["log_prob"]),
            old: matrix(&input["old_log_prob"]),
            reference: input.get("ref_log_prob").map(matrix),
            entropy: input.get("entropy").map(matrix),
            masks: masks(&input["mask"]),
            advantages: numbers(&input["advantages"]),
        }
    }

    fn rows(&self) -> Vec<LossRow<'_>> {
        let row = |row: usize| LossRow {
            log_probs: &self.new[row],
            old_log_probs: &self.old[row],
            reference_log_probs: self.reference.as_ref().map(|lists| lists[row].as_slice()),
            entropies: self.entropy.as_ref().map(|lists| lists[row].as_slice()),
            mask: &self.masks[row],
            advantage: self.advantages[row],
        };
        (0..self.new.len()).map(row).collect()
    }

    fn n_tokens(&self) -> f64 {
        f64::from(u32::try_from(self.masks.iter().map(|mask| n_tokens(mask)).sum::<usize>()).unwrap())
    }
}

/// The loss of SkillRL's copy of verl, and of verl.
fn verl_loss(source: &str, input: &Value, width: usize) -> GrpoLoss {
    let clip = PolicyClip {
        low: number(&input["clip_low"]),
        high: number(&input["clip_high"]),
        dual: Some(number(&input["clip_ratio_c"])),
        log_ratio_limit: (source == "verl").then_some(20.0),
        ..PolicyClip::default()
    };
    let whole = input.get("global_batch_info");
    let length = whole.and_then(|whole| whole.get("loss_scale_factor"));
    let length = length.map_or(f64::from(u32::try_from(width).unwrap()), number);
    let mut aggregation = aggregation(source, input["loss_agg_mode"].as_str().unwrap(), length);
    let size = |whole: &Value, key: &str| usize::try_from(whole[key].as_u64().unwrap()).unwrap();
    aggregation.totals = whole.map(|whole| BatchTotals {
        n_tokens: size(whole, "batch_num_tokens"),
        n_rows: size(whole, "global_batch_size"),
    });
    GrpoLoss { clip, kl: None, entropy_coefficient: 0.0, aggregation }
}

fn trl_loss(input: &Value) -> GrpoLoss {
    let level = match input["importance_sampling_level"].as_str().unwrap() {
        "token" => RatioLevel::Token,
        "sequence" => RatioLevel::Sequence,
        other => panic!("level {other}"),
    };
    let clip = PolicyClip {
        low: number(&input["epsilon"]),
        high: number(&input["epsilon_high"]),
        dual: None,
        ratio_cap: Some(&input["delta"]).filter(|delta| !delta.is_null()).map(number),
        log_ratio_limit: None,
        level,
    };
    let weight = if flag(&input["use_bias_correction_kl"]) { KlWeight::Ratio } else { KlWeight::One };
    let estimator = KlEstimator {
        value: KlValue::K3,
        gradient: KlGradient::OfValue,
        log_ratio_limit: None,
        value_limit: None,
    };
    let coefficient = number(&input["beta"]);
    let kl = (coefficient > 0.0).then_some(KlPenalty { coefficient, estimator, weight });
    let counted = |mode| Aggregation { empty_rows: EmptyRows::Counted, ..Aggregation::new(mode) };
    let aggregation = match input["loss_type"].as_str().unwrap() {
        "grpo" => counted(AggregationMode::SequenceMeanTokenMean),
        "bnpo" => Aggregation::new(AggregationMode::TokenMean),
        "dr_grpo" => {
            counted(AggregationMode::SequenceMeanOfSums { length: number(&input["max_completion_length"]) })
        }
        "dapo" => {
            let n_tokens = usize::try_from(input["num_items_in_batch"].as_u64().unwrap()).unwrap();
            let totals = Some(BatchTotals { n_tokens, n_rows: 0 });
            Aggregation { totals, ..Aggregation::new(AggregationMode::TokenMean) }
        }
        other => panic!("loss_type {other}"),
    };
    GrpoLoss { clip, kl, entropy_coefficient: number(&input["entropy_coef"]), aggregation }
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
fn same_gradients(ours: &LossReport, recorded: &Value, what: &str) {
    for (row, (ours, recorded)) in ours.gradients.iter().zip(recorded.as_array().unwrap()).enumerate() {
        for (token, (ours, recorded)) in ours.iter().zip(recorded.as_array().unwrap()).enumerate() {
            same(*ours, recorded, &format!("{what}, gradient of row {row}, token {token}"));
        }
    }
}

/// Both copies of verl report means over tokens with a tiny number added to the count.
#[track_caller]
fn same_as_verl(case: &Value, loss: &GrpoLoss, lists: &Lists, what: &str) {
    let (ours, out) = (loss.compute(&lists.rows()).unwrap(), &case["out"]);
    let shrink = lists.n_tokens() / (lists.n_tokens() + MASKED_MEAN);
    same(ours.policy, &out["pg_loss"], what);
    same(ours.clip_fraction * shrink, &out["pg_clipfrac"], &format!("{what}, clipped"));
    same(ours.dual_clip_fraction * shrink, &out["pg_clipfrac_lower"], &format!("{what}, dual clip"));
    same_gradients(&ours, &out["grad_log_prob"], what);
    // Without a limit their mean log-ratio is that of the numbers as they are.
    same(ours.approximate_kl * shrink, &out["ppo_kl"], &format!("{what}, ppo_kl"));
}

#[track_caller]
fn same_as_trl(case: &Value, loss: &GrpoLoss, lists: &Lists, what: &str) {
    let (ours, out) = (loss.compute(&lists.rows()).unwrap(), &case["out"]);
    same(ours.loss, &out["loss"], what);
    same_gradients(&ours, &out["grad_log_prob"], what);
    same(ours.mean_entropy, &out["entropy"], &format!("{what}, entropy"));
    let (low, high) = match loss.clip.level {
        RatioLevel::Token => (ours.low_fraction, ours.high_fraction),
        // With one ratio for a row TRL takes the mean over rows.
        _ => {
            let rows = lists.rows();
            let alone: Vec<LossReport> = rows.iter().map(|row| loss.compute(&[*row]).unwrap()).collect();
            let n = f64::from(u32::try_from(alone.len()).unwrap());
            let mean = |of: fn(&LossReport) -> f64| alone.iter().map(of).sum::<f64>() / n;
            (mean(|row| row.low_fraction), mean(|row| row.high_fraction))
        }
    };
    // TRL takes the mean of flags in f32.
    let flags = crate::recorded::Tolerance { relative: 1e-7, absolute: 1e-9 };
    close(low, number(&out["clip_ratio/low_mean"]), flags, &format!("{what}, low"));
    close(high, number(&out["clip_ratio/high_mean"]), flags, &format!("{what}, high"));
    close(low + high, number(&out["clip_ratio/region_mean"]), flags, &format!("{what}, region"));
    if let Some(kl) = out.get("kl") {
        same(ours.mean_kl, kl, &format!("{what}, kl"));
    }
}

#[test]
fn conformance_of_policy_losses() {
    each("policy_loss", |case, source, what| {
        let lists = Lists::of(&case["in"]);
        match source {
            "trl" => same_as_trl(case, &trl_loss(&case["in"]), &lists, what),
            _ => same_as_verl(case, &verl_loss(source, &case["in"], lists.new[0].len()), &lists, what),
        }
    });
}

#[test]
fn conformance_of_sequence_ratios() {
    each("policy_loss_gspo", |case, source, what| {
        let lists = Lists::of(&case["in"]);
        let mut loss = verl_loss(source, &case["in"], lists.new[0].len());
        loss.clip.level = RatioLevel::Sequence;
        same_as_verl(case, &loss, &lists, what);
    });
}

#[test]
fn conformance_of_whole_losses() {
    each("actor_loss", |case, source, what| {
        let (input, out, lists) = (&case["in"], &case["out"], Lists::of(&case["in"]));
        let kl = KlPenalty {
            coefficient: number(&input["kl_loss_coef"]),
            estimator: estimator(source, input["kl_loss_type"].as_str().unwrap()),
            weight: KlWeight::One,
        };
        let entropy_coefficient = number(&input["entropy_coeff"]);
        let loss =
            GrpoLoss { kl: Some(kl), entropy_coefficient, ..verl_loss(source, input, lists.new[0].len()) };
        let ours = loss.compute(&lists.rows()).unwrap();
        same(ours.policy, &out["pg_loss"], &format!("{what}, policy"));
        same(ours.kl, &out["kl_loss"], &format!("{what}, kl"));
        same(ours.entropy, &out["entropy_loss"], &format!("{what}, entropy"));
        same(ours.loss, &out["loss"], what);
        same_gradients(&ours, &out["grad_log_prob"], what);
    });
}

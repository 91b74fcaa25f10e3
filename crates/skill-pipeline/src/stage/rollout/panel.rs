//! Evaluations under several targets: an item is done by each of them, and counts once.

use super::{Rollout, Rollouts};
use serde_json::json;
use skill_core::RolloutResult;
use skill_llm::MeterReading;

/// The key of [`RolloutResult::extras`] with what each target scored.
pub(super) const TARGETS_KEY: &str = "targets";

skill_core::named_enum! {
    /// The score of an item that several targets have done.
    #[derive(Default)]
    pub enum TargetsScore {
        /// The mean of their scores.
        #[default]
        Mean = "mean",
        /// The lowest of their scores.
        Worst = "worst",
    }
}

/// The targets of all evaluations, each with its name and what makes its rollouts.
#[derive(Clone)]
pub(crate) struct Panel {
    pub(crate) score: TargetsScore,
    pub(crate) targets: Vec<(String, Rollouts)>,
}

/// One rollout of those of an item under several targets; `None` where there are none.
///
/// Its trajectory is that of the first target that said nothing, or else of the first one that scored lowest: what there
/// is to learn of it.
pub(super) fn combined(score: TargetsScore, made: Vec<(&str, Rollout)>) -> Option<Rollout> {
    let mut used = MeterReading::default();
    let mut by_target = serde_json::Map::new();
    let (mut hard, mut soft, mut usage) = (Vec::new(), Vec::new(), skill_core::Usage::default());
    for (name, rollout) in &made {
        used = used.plus(rollout.used);
        usage += rollout.result.usage;
        hard.push(rollout.result.hard);
        soft.push(rollout.result.soft);
        let tokens = rollout.result.usage.tokens();
        let scores = json!({"hard": rollout.result.hard, "soft": rollout.result.soft, "tokens": tokens});
        by_target.insert((*name).to_owned(), scores);
    }
    let of = |scores: &[f64]| match score {
        TargetsScore::Mean => scores.iter().sum::<f64>() / scores.len().max(1) as f64,
        TargetsScore::Worst => scores.iter().copied().fold(1.0, f64::min),
    };
    let (hard, soft) = (of(&hard), of(&soft));
    let told = made.iter().map(|(_, rollout)| &rollout.result).enumerate().min_by(|(_, one), (_, other)| {
        let order = |result: &RolloutResult| (!result.is_silent(), result.hard, result.soft);
        let ((one_spoke, one_hard, one_soft), (other_spoke, other_hard, other_soft)) =
            (order(one), order(other));
        one_spoke
            .cmp(&other_spoke)
            .then(one_hard.total_cmp(&other_hard))
            .then(one_soft.total_cmp(&other_soft))
    });
    let told = told.map(|(place, _)| place)?;
    let (name, Rollout { mut result, key, .. }) = made.into_iter().nth(told)?;
    if !result.fail_reason.is_empty() {
        result.fail_reason = format!("{name}: {}", result.fail_reason);
    }
    (result.hard, result.soft, result.usage) = (hard, soft, usage);
    result.extras.insert(TARGETS_KEY.to_owned(), by_target.into());
    Some(Rollout { result, used, key })
}

#[cfg(test)]
mod tests {
    use super::*;
    use skill_core::{ItemId, Usage};
    use skill_llm::journal::ResultKey;

    fn rollout(hard: f64, tokens: u64) -> Rollout {
        let mut result = RolloutResult::new(ItemId::new("a"), hard, hard);
        result.usage = Usage { input: tokens, ..Usage::default() };
        result.fail_reason = if hard < 1.0 { "no".to_owned() } else { String::new() };
        Rollout {
            result,
            used: MeterReading { calls: 1, ..MeterReading::default() },
            key: ResultKey::new("k", &[]),
        }
    }

    #[test]
    fn an_item_counts_the_mean_or_the_worst_of_its_targets() {
        let made = || vec![("large", rollout(1.0, 10)), ("small", rollout(0.0, 20))];
        let of = |score| combined(score, made()).unwrap();
        assert_eq!(of(TargetsScore::Mean).result.hard, 0.5);
        let worst = of(TargetsScore::Worst);
        assert_eq!((worst.result.hard, worst.result.usage.input, worst.used.calls), (0.0, 30, 2));
        assert_eq!(worst.result.fail_reason, "small: no");
        assert_eq!(worst.result.extras[TARGETS_KEY]["large"]["hard"], 1.0);
        assert!(combined(TargetsScore::Mean, Vec::new()).is_none());
    }
}

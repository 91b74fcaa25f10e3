//! Where the training of a bank is, in words.

use crate::words::{difference, e_value, grouped, one_line, p_value};
use skill_bank::trial::TrialNumbers;
use skill_core::stats::stratified::TrialRule;
use skill_pipeline::run_dir::bank_progress::{BankProgress, TrialProgress};

/// The round and the trial, or the stage, such as `round 1/3 trial 2`.
pub fn place(bank: &BankProgress, stage: &str) -> String {
    let stage = stage.replace('_', " ");
    let Some(round) = bank.round else { return stage };
    match &bank.trial {
        Some(trial) => format!("round {round}/{} trial {}", bank.rounds, trial.trial),
        None => format!("round {round}/{} {stage}", bank.rounds),
    }
}

/// The skill on trial, such as `gen_001 "Look first" (general)`.
pub fn tried(trial: &TrialProgress) -> String {
    let what = if trial.is_retirement { "retirement of " } else { "" };
    format!("{what}{} \"{}\" ({})", trial.skill, one_line(&trial.title), one_line(&trial.tier))
}

/// The evidence so far, such as `+12 points (-3 to +27), e 3.2, admits at 20`.
pub fn known(trial: &TrialProgress) -> String {
    let numbers = match &trial.numbers {
        Some(numbers) => format!("{}, {}", difference(numbers), evidence(trial.rule, numbers)),
        None => "no result yet".to_owned(),
    };
    if trial.is_fresh { format!("admitted with {numbers}; now measured once more") } else { numbers }
}

/// The trial under way in one line.
pub fn trial_now(trial: &TrialProgress) -> String {
    format!(
        "trial {}: {}, {} of {} rollouts, {}",
        trial.trial,
        tried(trial),
        grouped(trial.rollouts),
        grouped(trial.max_rollouts),
        known(trial)
    )
}

/// The e-value or p-value of a trial against the one that admits.
fn evidence(rule: TrialRule, numbers: &TrialNumbers) -> String {
    match rule {
        TrialRule::AnyTime { threshold, .. } => {
            format!("e {}, admits at {}", e_value(numbers.e_better), e_value(threshold))
        }
        TrialRule::FixedEnd { alpha } => format!("{}, admits at {alpha:.3}", p_value(numbers.p_better)),
        // A rule of a later version has numbers of its own.
        _ => p_value(numbers.p_better),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::validation;

    fn bank() -> BankProgress {
        serde_json::from_value(serde_json::json!({
            "rounds": 3, "round": 1, "n_active": 4, "n_waiting": 2, "n_trials": 7, "n_admitted": 3,
            "n_retired": 1, "baseline": {"hard": 0.4167, "soft": 0.5},
            "validation": {"round": 0, "score": {"hard": 0.5833, "soft": 0.6}, "n_items": 36},
            "trial": trial(), "trials": [],
        }))
        .unwrap()
    }

    fn trial() -> serde_json::Value {
        serde_json::json!({
            "trial": 8, "skill": "heat_002", "title": "Open the microwave before you heat", "tier": "heat",
            "is_retirement": false, "is_fresh": false, "n_items": 6,
            "rule": {"any_time": {"threshold": 20.0, "groups_per_look": 18}},
            "rollouts": 120, "max_rollouts": 640, "n_measured": 96,
            "numbers": {
                "groups": 12, "informative_groups": 7, "with": [30, 48], "without": [24, 48],
                "p_better": 0.11, "p_worse": 0.94, "e_better": 3.21, "e_worse": 0.1, "difference": 0.125,
                "interval": [-0.03, 0.28], "odds": 1.7, "odds_interval": {"low": 0.8, "high": 3.9},
            },
        })
    }

    fn trial_of(change: impl FnOnce(&mut serde_json::Value)) -> TrialProgress {
        let mut value = trial();
        change(&mut value);
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_trial_has_its_rollouts_its_difference_with_interval_and_its_threshold() {
        let expect = "trial 8: heat_002 \"Open the microwave before you heat\" (heat), 120 of 640 rollouts, \
                      +12 points (-3 to +28), e 3.21, admits at 20";
        assert_eq!(trial_now(&trial_of(|_| {})), expect);
        let fixed = trial_of(|trial| trial["rule"] = serde_json::json!({"fixed_end": {"alpha": 0.025}}));
        assert!(known(&fixed).ends_with("p 0.110, admits at 0.025"), "{}", known(&fixed));
        let first = trial_of(|trial| trial["numbers"] = serde_json::Value::Null);
        assert_eq!(known(&first), "no result yet");
        let hostile = trial_of(|trial| trial["title"] = "\u{1b}[31mred".into());
        assert!(!tried(&hostile).contains('\u{1b}'));
        let fresh = trial_of(|trial| trial["is_fresh"] = true.into());
        assert!(known(&fresh).starts_with("admitted with +12 points (-3 to +28)"), "{}", known(&fresh));
    }

    #[test]
    fn a_place_is_a_round_with_its_trial_or_its_stage() {
        let mut now = bank();
        assert_eq!(place(&now, "trial"), "round 1/3 trial 8");
        now.trial = None;
        assert_eq!(place(&now, "rollout"), "round 1/3 rollout");
        now.round = None;
        assert_eq!(place(&now, "test_best"), "test best");
    }

    #[test]
    fn a_validation_has_its_interval_and_its_items() {
        let now = bank();
        let found = now.validation.unwrap();
        let words = validation(now.baseline, found.score, found.n_items);
        assert_eq!(words, "41.7 % → 58.3 % (42.2 to 72.9 %, 36 items)");
    }
}

//! Where the training of a bank is, in words: at the foot of the terminal while it trains, in `status` and in `watch`.

use crate::run_text::bank_record::e_value;
use crate::table::{counted, grouped, harmless};
use skillrl::bank::trial::{Preflight, PreflightRow, TrialNumbers};
use skillrl::bank::{Reason, Verdict};
use skillrl::core::MeanScore;
use skillrl::core::stats::score_interval;
use skillrl::core::stats::stratified::TrialRule;
use skillrl::pipeline::Event;
use skillrl::pipeline::records::bank::TrialRecord;
use skillrl::pipeline::run_dir::bank_progress::{BankProgress, TrialProgress};
use skillrl::reports::{BankBrief, BankScore, LEVEL};
use std::fmt::Write as _;

/// Text from outside on one line.
pub(crate) fn one_line(text: &str) -> String {
    harmless(text).replace(['\n', '\t'], " ")
}

/// A share as a percentage with one decimal.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A difference of success rates with its 95 % interval, in points.
pub(crate) fn difference(numbers: &TrialNumbers) -> String {
    let points = |share: f64| format!("{:+.0}", share * 100.0);
    let [low, high] = numbers.interval;
    format!("{} points ({} to {})", points(numbers.difference), points(low), points(high))
}

/// The e-value or p-value of a trial against the one that admits.
pub(crate) fn evidence(rule: TrialRule, numbers: &TrialNumbers) -> String {
    match rule {
        TrialRule::AnyTime { threshold, .. } => {
            format!("e {}, admits at {}", e_value(numbers.e_better), e_value(threshold))
        }
        TrialRule::FixedEnd { alpha } => format!("p {:.3}, admits at {alpha:.3}", numbers.p_better),
        // A rule of a later version has numbers of its own.
        _ => format!("p {:.3}", numbers.p_better),
    }
}

/// A score of the selection split with its 95 % interval and its items, after the score without the bank.
pub(crate) fn validation(baseline: Option<MeanScore>, score: MeanScore, n_items: usize) -> String {
    let [low, high] = score_interval(score.hard, n_items, LEVEL);
    let before = baseline.map(|before| format!("{} → ", percent(before.hard))).unwrap_or_default();
    format!(
        "{before}{} ({:.1} to {}, {})",
        percent(score.hard),
        low * 100.0,
        percent(high),
        counted(n_items as u64, "item")
    )
}

/// The round and the trial, or the stage, such as `round 1/3 trial 2`.
pub(crate) fn place(bank: &BankProgress, stage: &str) -> String {
    let stage = stage.replace('_', " ");
    let Some(round) = bank.round else { return stage };
    match &bank.trial {
        Some(trial) => format!("round {round}/{} trial {}", bank.rounds, trial.trial),
        None => format!("round {round}/{} {stage}", bank.rounds),
    }
}

/// What is tried, such as `gen_001 "Look first" (general)`.
pub(crate) fn tried(trial: &TrialProgress) -> String {
    let what = if trial.is_retirement { "retirement of " } else { "" };
    format!("{what}{} \"{}\" ({})", trial.skill, one_line(&trial.title), one_line(&trial.tier))
}

/// What is known of the trial, such as `+12 points (-3 to +27), e 3.2, admits at 20`.
pub(crate) fn known(trial: &TrialProgress) -> String {
    let numbers = match &trial.numbers {
        Some(numbers) => format!("{}, {}", difference(numbers), evidence(trial.rule, numbers)),
        None => "no result yet".to_owned(),
    };
    if trial.is_fresh { format!("admitted with {numbers}; now measured once more") } else { numbers }
}

/// The trial under way in one line.
pub(crate) fn trial_now(trial: &TrialProgress) -> String {
    format!(
        "trial {}: {}, {} of {} rollouts, {}",
        trial.trial,
        tried(trial),
        grouped(trial.rollouts),
        grouped(trial.max_rollouts),
        known(trial)
    )
}

/// What the files of a run say of its bank, each with a name.
///
/// A finished run has a summary that says it.
pub(crate) fn brief(bank: &BankBrief) -> Vec<(&'static str, String)> {
    if bank.is_finished {
        return Vec::new();
    }
    let mean = |score: BankScore| MeanScore { hard: score.hard, soft: score.soft };
    let score = match (bank.baseline, bank.validation, bank.validation_round) {
        (baseline, Some(last), Some(round)) => {
            let words = validation(baseline.map(mean), mean(last), last.n);
            format!("validation {words}, after round {round}")
        }
        (Some(baseline), _, _) => {
            format!("validation {} without a bank", validation(None, mean(baseline), baseline.n))
        }
        (None, _, _) => "the selection split without a bank is being measured".to_owned(),
    };
    vec![("score", score), ("bank", counts(bank))]
}

/// Skills by state and trials by verdict, such as `4 skills active, 2 waiting, 1 retired; 7 trials: 3 admitted, …`.
pub(crate) fn counts(bank: &BankBrief) -> String {
    let (skills, trials) = (bank.skills, bank.trials);
    let mut words = counted(skills.active as u64, "skill") + " active";
    let others = [
        (skills.unmeasured, "of them not measured"),
        (skills.waiting, "waiting"),
        (skills.retired, "retired"),
        (skills.pinned, "pinned"),
    ];
    for (n, what) in others.into_iter().filter(|(n, _)| *n > 0) {
        let _ = write!(words, ", {n} {what}");
    }
    let _ = write!(
        words,
        "; {}: {} admitted, {} rejected, {} undecided",
        counted(trials.total() as u64, "trial"),
        trials.admitted,
        trials.rejected,
        trials.undecided
    );
    words
}

/// A finished trial on half a terminal's width; the title, which may be cut, is at the end.
pub(crate) fn short_trial_line(record: &TrialRecord) -> String {
    let decided = record.decision.as_ref();
    let verdict = match decided.map(|decision| decision.verdict) {
        Some(Verdict::Admit) if record.is_retirement => "kept",
        Some(Verdict::Admit) => "admitted",
        Some(Verdict::Reject) if record.is_retirement => "retired",
        Some(Verdict::Reject) => "rejected",
        Some(Verdict::Undecided) => "undecided",
        None => "not decided",
    };
    let known = match decided {
        Some(decision) => {
            format!("{}, e {}", difference(&decision.numbers), e_value(decision.numbers.e_better))
        }
        None => record.problem.clone().unwrap_or_default(),
    };
    let rollouts = counted(record.rollouts, "rollout");
    one_line(&format!(
        "  {:>3} {} {verdict}, {known}, {rollouts}  {}",
        record.trial, record.skill, record.title
    ))
}

/// The line for an event of a bank's training that says something before its end; `None` for those whose end says it.
pub(crate) fn event_line(event: &Event) -> Option<String> {
    match event {
        Event::SkillsProposed { round, skills, n_left_out, weak, .. } => {
            let weak = if weak.is_empty() { String::new() } else { format!(" for {}", weak.join(", ")) };
            let left_out = match n_left_out {
                0 => String::new(),
                n => format!(", {n} left out"),
            };
            let proposed = counted(skills.len() as u64, "skill");
            Some(one_line(&format!("round {round}: the teacher proposed {proposed}{weak}{left_out}")))
        }
        Event::TrialStarted {
            round,
            trial,
            skill,
            title,
            tier,
            is_retirement,
            n_items,
            max_rollouts,
            preflight,
            ..
        } => {
            let what = if *is_retirement { "retirement of " } else { "" };
            Some(one_line(&format!(
                "round {round}, trial {trial} of {what}{skill} \"{title}\" ({tier}): {}, up to {} rollouts; {}",
                counted(*n_items as u64, "task"),
                grouped(*max_rollouts),
                power(preflight)
            )))
        }
        Event::SkillRetired { round, skill, reason, .. } => {
            let why = match reason {
                // The end of its trial says it.
                Reason::Trial | Reason::Proposed => return None,
                Reason::Harmful => "the standing check showed that it harms",
                Reason::Internalized => "the policy succeeds as often without it",
                Reason::OverCap => "its tier held too many skills",
                Reason::Revised => "a later version took its place",
                Reason::Merged => "it was merged into another skill",
                Reason::Person => "a person retired it",
            };
            Some(one_line(&format!(
                "round {round}: {} \"{}\" ({}) retired, {why}",
                skill.skill, skill.title, skill.tier
            )))
        }
        _ => None,
    }
}

/// What a trial can show, such as `admits +5, +10, +20 points with a chance of 2, 8, 48 %`.
pub(crate) fn power(preflight: &Preflight) -> String {
    let list = |of: fn(&PreflightRow) -> String| preflight.rows.iter().map(of).collect::<Vec<_>>().join(", ");
    format!(
        "admits {} points with a chance of {} %",
        list(|row| format!("{:+.0}", row.difference * 100.0)),
        list(|row| format!("{:.0}", row.chance * 100.0))
    )
}

/// Progress as tests of the lines, of `status` and of `watch` have it.
#[cfg(test)]
pub(crate) mod made {
    use skillrl::pipeline::run_dir::bank_progress::BankProgress;

    pub(crate) fn bank() -> BankProgress {
        serde_json::from_value(serde_json::json!({
            "rounds": 3, "round": 1, "n_active": 4, "n_waiting": 2, "n_trials": 7, "n_admitted": 3,
            "n_retired": 1, "baseline": {"hard": 0.4167, "soft": 0.5},
            "validation": {"round": 0, "score": {"hard": 0.5833, "soft": 0.6}, "n_items": 36},
            "trial": trial(), "trials": [],
        }))
        .unwrap()
    }

    pub(crate) fn trial() -> serde_json::Value {
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
}

#[cfg(test)]
mod tests {
    use super::made::{bank, trial};
    use super::*;

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

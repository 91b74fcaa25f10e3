//! Lines about the training of a bank.

use crate::table::counted;
use skillrl::bank::Verdict;
use skillrl::pipeline::records::bank::{BankSummary, RoundRecord, TrialRecord};
use std::fmt::Write as _;
use std::path::Path;

/// The line for a trial.
pub(crate) fn trial_line(round: u32, record: &TrialRecord) -> String {
    let TrialRecord { trial, skill, title, tier, rollouts, decision, problem, .. } = record;
    let of = if record.is_retirement { "retirement of " } else { "" };
    let head = match trial {
        0 => format!("round {round}, no trial: {of}{skill} \"{title}\" ({tier})"),
        trial => format!("round {round}, trial {trial}: {of}{skill} \"{title}\" ({tier})"),
    };
    let Some(decision) = decision else {
        let problem = problem.as_deref().unwrap_or("no task shows it");
        return format!("{head}: undecided, {problem}; {}", counted(*rollouts, "rollout"));
    };
    let verdict = match decision.verdict {
        Verdict::Admit if record.is_retirement => "kept",
        Verdict::Admit => "admitted",
        Verdict::Reject if record.is_retirement => "retired",
        Verdict::Reject => "rejected",
        Verdict::Undecided => "undecided",
    };
    // A person may have come in between.
    let verdict = match problem {
        Some(problem) => format!("would be {verdict}, but {problem}"),
        None => verdict.to_owned(),
    };
    let before = match record.e_before {
        Some(before) => format!(" ({} with earlier trials)", e_value(before * decision.numbers.e_better)),
        None => String::new(),
    };
    let [low, high] = decision.numbers.interval;
    let points = |share: f64| format!("{:+.0}", share * 100.0);
    let fresh = match &record.fresh {
        Some(fresh) => format!("; measured again {} points", points(fresh.difference)),
        None => String::new(),
    };
    format!(
        "{head}: {verdict}, {} points ({} to {}), e {}{before}, p {:.3}, {}{fresh}",
        points(decision.numbers.difference),
        points(low),
        points(high),
        e_value(decision.numbers.e_better),
        decision.numbers.p_better,
        counted(*rollouts, "rollout"),
    )
}

/// An e-value, of which the size is of interest and not the digits.
pub(crate) fn e_value(e: f64) -> String {
    match e {
        e if e >= 1e4 => "above 10,000".to_owned(),
        e if e >= 10.0 => format!("{e:.0}"),
        e => format!("{e:.2}"),
    }
}

/// The line for a round.
pub(crate) fn round_line(record: &RoundRecord) -> String {
    let mut line = match record.round {
        0 => format!("distilled: {} proposed", counted(record.proposed.len() as u64, "skill")),
        round if record.weak.is_empty() => format!("round {round}: no weak type"),
        round => format!(
            "round {round}: weak {}; {} proposed",
            record.weak.join(", "),
            counted(record.proposed.len() as u64, "change")
        ),
    };
    let _ = write!(
        line,
        ", {} admitted, {} retired, {} waiting, {} active",
        record.admitted.len(),
        record.retired.len(),
        record.waiting.len(),
        record.n_active
    );
    if !record.left_out.is_empty() {
        let _ = write!(line, "; {} of the teacher's were left out", record.left_out.len());
    }
    if let Some(validation) = &record.validation {
        let _ = write!(line, "; selection hard {:.4}", validation.score.hard);
    }
    line
}

/// What a run came to.
pub(crate) fn bank_lines(summary: &BankSummary, dir: &Path) -> String {
    let [n_val, n_test] = summary.n_items;
    let [n_trials, n_admitted] = summary.trials;
    let mut text = format!(
        "bank       {}: {} active, {} of them not measured; {} waiting, {} retired\n\
         trials     {n_trials}, {n_admitted} admitted, {}\n\
         selection  hard {:.4} -> {:.4} ({})\n",
        dir.join("bank").display(),
        counted(summary.active as u64, "skill"),
        summary.unmeasured,
        summary.candidates,
        summary.retired,
        counted(summary.trial_rollouts, "rollout"),
        summary.baseline.hard,
        summary.score.hard,
        counted(n_val as u64, "item"),
    );
    if let (Some(before), Some(after)) = (summary.test_baseline, summary.test) {
        let _ = writeln!(
            text,
            "test       hard {:.4} -> {:.4} ({})",
            before.hard,
            after.hard,
            counted(n_test as u64, "item")
        );
    }
    let calls: u64 = summary.tokens.values().map(|used| used.calls).sum();
    let _ = writeln!(text, "used       {}", counted(calls, "call"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn line(verdict: &str, change: Value) -> String {
        let mut record = json!({
            "trial": 3,
            "skill": "gen_001",
            "title": "Look",
            "tier": "general",
            "items": [],
            "rollouts": 16,
            "decision": {
                "verdict": verdict,
                "ground": "limit",
                "n_groups": 4,
                "numbers": {
                    "groups": 4, "informative_groups": 2, "with": [4, 8], "without": [2, 8],
                    "p_better": 0.1, "p_worse": 0.9, "e_better": 3.0, "e_worse": 0.5,
                    "difference": 0.25, "interval": [-0.1, 0.6], "odds": 3.0, "odds_interval": {"low": 0.5, "high": 9.0},
                },
            },
        });
        record.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        trial_line(1, &serde_json::from_value(record).unwrap())
    }

    #[test]
    fn a_trial_names_what_becomes_of_its_skill() {
        let retirement = json!({"is_retirement": true});
        for (verdict, change, expect) in [
            ("admit", json!({}), ": admitted,"),
            ("reject", json!({}), ": rejected,"),
            ("undecided", json!({}), ": undecided,"),
            ("admit", retirement.clone(), ": kept,"),
            ("reject", retirement.clone(), ": retired,"),
            ("undecided", retirement, ": undecided,"),
            ("admit", json!({"e_before": 7.0}), "e 3.00 (21 with earlier trials)"),
            ("reject", json!({"problem": "it is pinned"}), "would be rejected, but it is pinned"),
            ("admit", json!({"decision": null, "trial": 0, "problem": "no task"}), "no trial: gen_001"),
        ] {
            let line = line(verdict, change);
            assert!(line.contains(expect), "{expect}: {line}");
        }
    }
}

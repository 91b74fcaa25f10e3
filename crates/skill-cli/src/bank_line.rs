//! Lines about the training of a bank.

use crate::table::counted;
use skillrl::bank::Verdict;
use skillrl::pipeline::bank::record::{BankSummary, RoundRecord, TrialRecord};
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
fn e_value(e: f64) -> String {
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

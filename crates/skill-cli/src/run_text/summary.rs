//! The results of a run, in a few lines.

use crate::table::counted;
use skillrl::core::usage::dollars;
use skillrl::core::{GateMetric, Origin};
use skillrl::llm::Spent;
use skillrl::pipeline::records::StageTokens;
use skillrl::pipeline::records::bank::BankSummary;
use skillrl::pipeline::records::paired::PairedRecord;
use skillrl::pipeline::records::summary::{SearchEnd, Summary};
use std::fmt::Write as _;
use std::path::Path;

/// What the run came to, in a few lines.
///
/// What is used is what its files stand on; what was sent besides that, for retries and for candidates that were given up,
/// is said where it costs something.
pub(crate) fn summary_lines(
    summary: &Summary,
    cost: Option<f64>,
    spent: Option<Spent>,
    run_dir: &Path,
) -> String {
    let mut text = result_lines(summary);
    let StageTokens { calls, prompt_tokens: input, completion_tokens: output, .. } =
        StageTokens::of_all(&summary.token_summary);
    let money = |cost: f64| format!(", {}", dollars(cost));
    let used = cost.map(money).unwrap_or_default();
    let _ = writeln!(text, "used:      {calls} calls, {input} prompt tokens, {output} reply tokens{used}");
    // Where nothing is paid for, this is nobody's business.
    if let Some(sent) = spent.filter(|sent| cost.is_some() && sent.calls > calls) {
        let (requests, tokens, paid) = (sent.calls, sent.tokens, money(sent.money));
        let _ = writeln!(text, "sent:      {requests} requests, {tokens} tokens{paid}");
    }
    let _ = write!(text, "best skill: {}", run_dir.join("best_skill.md").display());
    text
}

/// The verdict of a run in a sentence, with what it took and what to do next.
pub(crate) fn verdict_line(summary: &Summary, paid: Option<f64>, run_dir: &Path) -> String {
    let run = run_dir.display();
    let paid = paid.map(|paid| format!(", for {}", dollars(paid))).unwrap_or_default();
    if summary.best_skill.origin == Origin::Initial {
        return format!(
            "\nNo better skill was found{paid}: best_skill.md is the initial skill.\n\
             next: `skillrl report {run}` shows why candidates were rejected\n"
        );
    }
    let Some(([before, after], paired)) = summary.test().zip(summary.test_paired.as_ref()) else {
        return format!(
            "\nNot tested{paid}: the skill was chosen by the selection split, and no other score is known.\n\
             next: `skillrl eval --split test` measures it; `skillrl report {run}` shows the rest\n"
        );
    };
    let [low, high] = paired.interval.unwrap_or([-1.0, 1.0]);
    let (verdict, next) = if low > 0.0 {
        (
            "Better",
            format!("`skillrl diff {run}` shows what changed; {run}/best_skill.md is the skill to deploy"),
        )
    } else if high < 0.0 {
        ("Worse", format!("keep the initial skill; `skillrl report {run}` shows which items were lost"))
    } else {
        (
            "Cannot tell",
            format!("test on more items or train on more data; `skillrl report {run}` shows what was tried"),
        )
    };
    let [percent_before, percent_after] = [before, after].map(|score| score * 100.0);
    let points = [after - before, low, high].map(|share| format!("{:+.1}", share * 100.0));
    format!(
        "\n{verdict}: {percent_after:.1} % instead of {percent_before:.1} % on {} ({} points, 95 % interval {} to {}){paid}.\n\
         next: {next}\n",
        counted(paired.n_items as u64, "test item"),
        points[0],
        points[1],
        points[2],
    )
}

/// The decisions and the scores.
pub(crate) fn result_lines(summary: &Summary) -> String {
    let indecisive = match summary.total_indecisive {
        0 => String::new(),
        n_steps => format!("{n_steps} indecisive, "),
    };
    let empty = match summary.total_empty_replies {
        0 => String::new(),
        n_replies => format!(", {n_replies} empty replies of the optimizer"),
    };
    let mut text = format!(
        "{}: {} accepted, {} rejected, {indecisive}{} without an evaluation{empty}\n",
        counted(summary.total_steps as u64, "step"),
        summary.total_accepts,
        summary.total_rejects,
        summary.total_skips
    );
    if let Some(ends) = summary.epoch_ends
        && ends.slow_accepts + ends.slow_rejects > 0
    {
        let _ = writeln!(
            text,
            "guidance at the ends of epochs: {} accepted, {} rejected",
            ends.slow_accepts, ends.slow_rejects
        );
    }
    if let Some(search) = &summary.search {
        let _ = writeln!(text, "search:    {}; {}", search.plan, end_words(search.ended));
    }
    let origin = match summary.best_skill.origin {
        Origin::EpochEnd { epoch, .. } => format!("the skill with the guidance of epoch {epoch}"),
        Origin::Step { step } if summary.is_best_measured_last => {
            format!("the skill with the notes of step {step}")
        }
        Origin::Initial => "the initial skill: no step found a better one".to_owned(),
        origin @ (Origin::Step { .. } | Origin::Import | Origin::Trial) => format!("the skill of {origin}"),
    };
    let _ = writeln!(
        text,
        "selection: {:.4} → {:.4} ({origin})",
        summary.baseline_selection_score, summary.best_selection_score
    );
    let _ = write!(text, "{}", evidence_lines(summary));
    let Some([before, after]) = summary.test() else {
        text.push_str("test:      not measured (eval.test is off)\n");
        return text;
    };
    let interval = summary.test_paired.as_ref().map(interval_words).unwrap_or_default();
    let _ = writeln!(text, "test:      {before:.4} → {after:.4} ({:+.4}{interval})", after - before);
    let hard = summary.baseline_test_hard.zip(summary.test_hard);
    if let (GateMetric::Soft | GateMetric::Mixed, Some((before, after))) = (summary.test_metric(), hard) {
        let metric = summary.test_metric().as_str();
        let _ = writeln!(
            text,
            "           these are {metric} scores, as gate.metric asks; hard: {before:.4} → {after:.4}"
        );
    }
    text
}

/// Why a planned search ended.
fn end_words(ended: SearchEnd) -> &'static str {
    match ended {
        SearchEnd::Budget => "no room for another step",
        SearchEnd::Perfect => "every selection item is solved",
        SearchEnd::Plateau => "no acceptance for as long as `train.patience` says",
    }
}

/// The scores that no decision was made by, and of how many skills the best one is the best.
fn evidence_lines(summary: &Summary) -> String {
    let mut text = String::new();
    if let Some(fresh) = &summary.fresh_selection {
        let (before, after) = (fresh.baseline_score, fresh.best_score);
        let difference = match &fresh.paired {
            Some(paired) => format!(" ({:+.4}{})", after - before, interval_words(paired)),
            None => String::new(),
        };
        let _ = writeln!(text, "           {before:.4} → {after:.4}{difference} re-measured");
    }
    if summary.best_of > 1 {
        let _ = writeln!(text, "           the best of {} skills by this score", summary.best_of);
    }
    text
}

/// The interval of a difference, after the difference.
fn interval_words(paired: &PairedRecord) -> String {
    let words = |[low, high]: [f64; 2]| format!(", 95 % interval {low:+.3} to {high:+.3}");
    paired.interval.map(words).unwrap_or_default()
}

/// The results of a run that trains a bank.
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

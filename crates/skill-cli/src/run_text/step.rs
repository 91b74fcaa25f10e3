//! What a run says in words: one line per step, and a few around them.

use skillrl::core::usage::dollars;
use skillrl::core::{EpochIdx, GateMetric, Origin};
use skillrl::llm::Spent;
use skillrl::pipeline::records::StageTokens;
use skillrl::pipeline::records::document::{SavingRecord, StepAction, StepRecord};
use skillrl::pipeline::records::paired::PairedRecord;
use skillrl::pipeline::records::summary::{SearchEnd, Summary};
use skillrl::pipeline::{SlowUpdateAction, SlowUpdateRecord};
use std::fmt::Write as _;

/// One step in one line: what was proposed, what applied, the score before and after, the decision.
pub(crate) fn step_line(record: &StepRecord, total_steps: u32) -> String {
    let width = total_steps.to_string().len();
    let mut line = format!("step {:>width$}/{total_steps}", record.step.0);
    let _ = write!(line, "  batch {:.3}", record.rollout_hard);
    let n_patches = record.n_failure_patches + record.n_success_patches;
    match (record.n_edits_merged, record.n_edits_ranked) {
        (Some(merged), Some(ranked)) if ranked < merged => {
            let _ = write!(line, "  {merged} edits proposed, {ranked} kept");
        }
        (Some(merged), _) => {
            let _ = write!(line, "  {} proposed", counted(merged, "edit"));
        }
        (None, _) => {
            let _ = write!(line, "  {}", counted(n_patches, "patch"));
        }
    }
    if let Some(report) = record.apply_report {
        let _ = write!(line, ", {} applied", report.applied);
        if report.skipped > 0 {
            let _ = write!(line, ", {} skipped", report.skipped);
        }
    }
    let decision = decision_words(record.action);
    if let Some(score) = record.candidate_gate_score {
        let _ = write!(line, "  {:.4} → {score:.4}", record.score_before);
    } else if let (Some([_, most]), Some(seen), Some(n)) =
        (record.selection_interval, record.selection_n_seen, record.selection_n)
    {
        let _ = write!(line, "  {:.4} → at most {most:.4} ({seen} of {n} items)", record.score_before);
    }
    let _ = write!(line, "  {decision}");
    if let (Some(paired), Some(_)) = (&record.paired, record.candidate_gate_score) {
        line.push_str(&tally_words(paired));
    }
    if let Some(saving) = record.saving.filter(|saving| saving.n > 0) {
        line.push_str(&saving_words(saving));
    }
    line
}

/// `, 24.0 % fewer tokens`.
fn saving_words(saving: SavingRecord) -> String {
    let change = if saving.saved < 0.0 { "more" } else { "fewer" };
    format!(", {:.1} % {change} tokens", 100.0 * saving.saved.abs())
}

/// The same line, with the decision in colour; a stream without colours takes them out.
pub(crate) fn coloured_step_line(record: &StepRecord, total_steps: u32) -> String {
    let line = step_line(record, total_steps);
    let decision = decision_words(record.action);
    let styled = console::style(decision).force_styling(true);
    let styled = match record.action {
        StepAction::AcceptNewBest | StepAction::Accept => styled.green(),
        StepAction::Reject => styled.red(),
        StepAction::Indecisive => styled.yellow(),
        _ => return line,
    };
    line.replacen(decision, &styled.to_string(), 1)
}

/// The decision in words, with what it means where nothing was evaluated.
fn decision_words(action: StepAction) -> &'static str {
    match action {
        StepAction::SkipNoOp => "no change: the edits change nothing, so nothing was evaluated",
        StepAction::SkipNoPatches => "no edits: nothing to evaluate",
        StepAction::SkipNoRewrite => "no new skill: nothing to evaluate",
        other => other.words(),
    }
}

/// One step where there is not much room: the score and the decision, which matter most, come first.
pub(crate) fn short_step_line(record: &StepRecord, total_steps: u32) -> String {
    let width = total_steps.to_string().len();
    let mut line = format!("{:>width$}/{total_steps}  {:.4}", record.step.0, record.current_score);
    let decision = decision_words(record.action);
    let _ = write!(line, "  {}", decision.split_once(": ").map_or(decision, |(short, _)| short));
    if let Some(report) = record.apply_report {
        let _ = write!(line, ", {} applied", counted(report.applied, "edit"));
    }
    line
}

/// The slow update of an epoch in one line.
pub(crate) fn slow_update_line(epoch: EpochIdx, record: &SlowUpdateRecord) -> String {
    let mut line = format!("epoch {} ends", epoch.0);
    if let (Some(before), Some(after)) = (record.prev_hard, record.curr_hard) {
        let _ = write!(line, "  its tasks {before:.3} → {after:.3}");
    }
    if let Some(score) = record.candidate_gate_score {
        let _ = write!(line, "  with guidance {:.4} → {score:.4}", record.score_before);
    } else if let (Some([_, most]), Some(seen), Some(n)) =
        (record.selection_interval, record.selection_n_seen, record.selection_n)
    {
        let _ = write!(
            line,
            "  with guidance {:.4} → at most {most:.4} ({seen} of {n} items)",
            record.score_before
        );
    }
    let decision = match record.action {
        // The first epoch has nothing to compare with.
        SlowUpdateAction::InjectPlaceholder => return format!("epoch {} done", epoch.0),
        SlowUpdateAction::NoContent => "no guidance: nothing to evaluate",
        other => other.words(),
    };
    let _ = write!(line, "  {decision}");
    line
}

/// What the run came to, in a few lines.
///
/// What is used is what its files stand on; what was sent besides that, for retries and for candidates that were given up,
/// is said where it costs something.
pub(crate) fn summary_lines(
    summary: &Summary,
    cost: Option<f64>,
    spent: Option<Spent>,
    run_dir: &std::path::Path,
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
pub(crate) fn verdict_line(summary: &Summary, paid: Option<f64>, run_dir: &std::path::Path) -> String {
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
        counted(paired.n_items, "test item"),
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
    let mut text = format!(
        "{}: {} accepted, {} rejected, {indecisive}{} without an evaluation\n",
        counted(summary.total_steps, "step"),
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

/// The name of a metric behind a score that it made, where it is not the usual one.
pub(crate) fn metric_words(metric: GateMetric) -> &'static str {
    match metric {
        GateMetric::Hard => "",
        GateMetric::Soft => " (soft)",
        GateMetric::Mixed => " (mixed)",
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

/// How the items fell, for a step that was measured.
fn tally_words(paired: &PairedRecord) -> String {
    let PairedRecord { wins, losses, .. } = paired;
    let p = match paired.mcnemar_p {
        Some(p) if p < 0.001 => ", p below 0.001".to_owned(),
        Some(p) => format!(", p {p:.3}"),
        None => String::new(),
    };
    format!(" ({wins} won, {losses} lost{p})")
}

/// A number of things, by the right form of their name.
fn counted(count: usize, noun: &str) -> String {
    let plural = if noun.ends_with("ch") { "es" } else { "s" };
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}{plural}") }
}

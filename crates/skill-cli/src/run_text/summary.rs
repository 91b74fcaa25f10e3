//! The results of a run, in a few lines.

use crate::table::{counted, grouped, harmless};
use skillrl::core::SkillOrigin;
use skillrl::core::usage::dollars;
use skillrl::llm::Spent;
use skillrl::llm::error::with_causes;
use skillrl::pipeline::records::StageTokens;
use skillrl::pipeline::records::bank::BankSummary;
use skillrl::pipeline::records::document::StepRecord;
use skillrl::pipeline::records::paired::PairedRecord;
use skillrl::pipeline::records::summary::{SearchEnd, Summary};
use skillrl::pipeline::{PipelineError, RunReader};
use skillrl::reports::words::{measured, percent, points};
use skillrl::reports::{CautionKind, Outcome, Verdict};
use std::fmt::Write as _;
use std::path::Path;

/// The most cautions that follow a verdict; the report has all of them.
const MAX_CAUTIONS: usize = 3;

/// The results of a run and what it used, in a few lines.
///
/// What is used is what its files stand on; what was spent besides that, for retries and for candidates that were given
/// up, is said where there is any, under the name that `show` has for it.
pub(crate) fn summary_lines(
    summary: &Summary,
    cost: Option<f64>,
    spent: Option<Spent>,
    run_dir: &Path,
) -> String {
    let mut text = result_lines(summary);
    let used = StageTokens::of_all(&summary.token_summary);
    let money = |cost: f64| format!(", {}", dollars(cost));
    let cost_words = cost.map(money).unwrap_or_default();
    let has_counts = summary.token_summary.values().all(StageTokens::has_counts);
    let _ = writeln!(text, "used:       {}{cost_words}", used_words(used, has_counts));
    if let Some(spent) = spent.filter(|spent| spent.calls > used.calls) {
        let paid = cost.map(|_| money(spent.money)).unwrap_or_default();
        let tokens = if has_counts { format!(", {} tokens", grouped(spent.tokens)) } else { String::new() };
        let _ = writeln!(
            text,
            "spent:      {} calls{tokens}{paid}: including retries and cancelled calls",
            grouped(spent.calls),
        );
    }
    let _ = write!(text, "best skill: {}", best_skill(run_dir));
    text
}

/// Replies and tokens; where not all replies came with token counts, the sums are lower bounds.
///
/// Equal calls share a reply, so there may be more of these than calls that were sent; and fewer, where calls were retried
/// or given up.
pub(crate) fn used_words(used: StageTokens, has_counts: bool) -> String {
    let [input, output] = [used.prompt_tokens, used.completion_tokens].map(grouped);
    let replies = replies(used.calls);
    match has_counts {
        true => format!("{replies}, {input} prompt tokens, {output} reply tokens"),
        false if used.has_counts() => {
            format!(
                "{replies}, at least {input} prompt tokens and {output} reply tokens (not all replies came with counts)"
            )
        }
        false => format!("{replies}, tokens unknown (the server counts none)"),
    }
}

fn replies(number: u64) -> String {
    if number == 1 { "1 reply".to_owned() } else { format!("{} replies", grouped(number)) }
}

/// The skill to deploy: a folder where it is a package.
fn best_skill(run_dir: &Path) -> String {
    let folder = run_dir.join("best_skill");
    if folder.is_dir() { folder } else { run_dir.join("best_skill.md") }.display().to_string()
}

/// The verdict of a run in a line, what weighs most against it, and what to do next.
pub(crate) fn verdict_text(verdict: &Verdict, paid: Option<f64>, next: &str) -> String {
    let paid = paid.map(|paid| format!(", for {}", dollars(paid))).unwrap_or_default();
    let mut text = format!("\n{}{paid}.\n", verdict.line());
    text.push_str(&verdict.arms_text());
    // These have lines of their own.
    let is_said = |kind| matches!(kind, CautionKind::Simulated | CautionKind::Sign | CautionKind::LeftOut);
    for caution in verdict.cautions.iter().filter(|caution| !is_said(caution.kind)).take(MAX_CAUTIONS) {
        let _ = writeln!(text, "- {}", caution.words);
    }
    let _ = writeln!(text, "next: {next}");
    text
}

/// What to do next with a run that trains a document and had so many candidates.
pub(crate) fn next_of_document(outcome: Outcome, n_candidates: usize, run_dir: &Path) -> String {
    let (run, skill) = (run_dir.display(), best_skill(run_dir));
    match outcome {
        Outcome::Better if skill.ends_with(".md") => {
            format!("`skillrl diff {run}` shows what changed; {skill} is the skill to deploy")
        }
        Outcome::Better => format!(
            "`skillrl diff {run}` shows what changed; `skillrl export {run} --out DIR/NAME` writes the skill to deploy, \
             a folder, and {skill} is a copy"
        ),
        Outcome::Worse => {
            format!("keep the initial skill; `skillrl report {run}` shows which items regressed")
        }
        Outcome::WorseThanNone => {
            format!(
                "work without a skill, or begin with another one; `skillrl report {run}` shows which items regressed"
            )
        }
        Outcome::Unchanged if n_candidates == 0 => match has_no_edit(run_dir) {
            Ok(true) => format!(
                "`skillrl doctor` asks the optimizer for edits; `skillrl journal list {run}` lists its replies"
            ),
            Ok(false) => format!(
                "`skillrl report {run}` shows what each step came to; raise the caps of `[budget]` or `train.patience` \
                 where they ended the search"
            ),
            Err(error) => {
                format!("`skillrl check {run}` names the damaged files: {}", harmless(&with_causes(&error)))
            }
        },
        Outcome::Unchanged => format!("`skillrl report {run}` shows why candidates were rejected"),
        Outcome::Untested => {
            format!("`skillrl eval --split test` measures it; `skillrl report {run}` shows the rest")
        }
        Outcome::Unclear | Outcome::Unfinished | Outcome::Trained | Outcome::NothingLearned => {
            format!("test on more items or train on more data; `skillrl report {run}` shows what was tried")
        }
    }
}

/// True if no step of the run had a readable edit.
fn has_no_edit(run: &Path) -> Result<bool, PipelineError> {
    let history = RunReader::open(run)?.history()?;
    Ok(!history.is_empty() && history.iter().all(StepRecord::has_no_edit))
}

/// What to do next with a run that trains a bank.
pub(crate) fn next_of_bank(outcome: Outcome, run_dir: &Path) -> String {
    let (run, bank) = (run_dir.display(), run_dir.join("bank"));
    let bank = bank.display();
    match outcome {
        Outcome::Better => {
            format!("`skillrl bank show {bank}` lists the skills; {bank} is the bank to deploy")
        }
        Outcome::Worse | Outcome::WorseThanNone => {
            format!("work without the bank; `skillrl report {run}` shows which items regressed")
        }
        Outcome::Unchanged => format!("`skillrl report {run}` shows what the trials measured"),
        Outcome::Untested => format!(
            "`skillrl eval --bank {bank} --split test` measures it; `skillrl report {run}` shows the rest"
        ),
        Outcome::Unclear | Outcome::Unfinished | Outcome::Trained | Outcome::NothingLearned => {
            format!("test on more items; `skillrl report {run}` shows what the trials measured")
        }
    }
}

/// The decisions, and the scores of the validation split.
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
        let _ = writeln!(text, "search:     {}; ended: {}", search.plan, end_words(search.ended, summary));
    }
    let origin = match summary.best_skill.origin {
        SkillOrigin::EpochEnd { epoch, .. } => format!("the skill with the guidance of epoch {epoch}"),
        SkillOrigin::Step { step } if summary.is_best_measured_last => {
            format!("the skill with the notes of step {step}")
        }
        SkillOrigin::Initial => "the initial skill: no step found a better one".to_owned(),
        origin @ (SkillOrigin::Step { .. } | SkillOrigin::Import | SkillOrigin::Trial) => {
            format!("the skill of {origin}")
        }
    };
    let optimistic = match summary.best_of {
        0 | 1 => String::new(),
        best_of => format!("; optimistic: the best of {best_of}"),
    };
    let _ = writeln!(
        text,
        "validation: {} → {} ({origin}{optimistic})",
        percent(summary.baseline_selection_score),
        percent(summary.best_selection_score)
    );
    if let Some(fresh) = &summary.fresh_selection {
        let (before, after) = (fresh.baseline_score, fresh.best_score);
        let difference = fresh.paired.as_ref().map(|paired| interval_words(after - before, paired));
        let _ = writeln!(
            text,
            "re-eval:    {} → {}{}",
            percent(before),
            percent(after),
            difference.unwrap_or_default()
        );
    }
    text
}

/// Why a planned search ended.
fn end_words(ended: SearchEnd, summary: &Summary) -> String {
    match ended {
        SearchEnd::Budget => "the budget has no room for another proposal".to_owned(),
        SearchEnd::Exhausted => "no training task is left to make a proposal from".to_owned(),
        SearchEnd::NothingNew => "the last proposals changed nothing in the skill".to_owned(),
        SearchEnd::Perfect => "every validation item is solved".to_owned(),
        SearchEnd::Plateau => {
            let patience = summary.config.pointer("/train/patience").and_then(serde_json::Value::as_u64);
            let steps = patience
                .map_or_else(|| "the last proposals".to_owned(), |n| format!("the last {n} proposals"));
            format!("{steps} brought nothing; a higher `train.patience` goes on")
        }
    }
}

/// The difference of two scores and its interval.
fn interval_words(difference: f64, paired: &PairedRecord) -> String {
    let interval = paired
        .interval
        .map(|[low, high]| format!(", 95 % interval {:+.1} to {:+.1}", low * 100.0, high * 100.0));
    format!(" ({}{})", points(difference), interval.unwrap_or_default())
}

/// The results of a run that trained weights; `measured` is the end of the hint "… measures {measured} POLICY".
#[cfg(feature = "weights")]
pub(crate) fn weights_lines(dir: &Path, measured: &str) -> crate::Result<String> {
    let run = skillrl::report::overview(dir)?;
    let verdict = skillrl::report::verdict(dir)?;
    let facts: Vec<_> = run.facts().into_iter().filter(|fact| fact.name != "verdict").collect();
    let [run, policy] = [dir.to_owned(), dir.join("policy")].map(|path| path.display().to_string());
    let next = format!("`skillrl eval {}` measures {measured} {policy}", crate::args::as_word(&run));
    Ok(super::fact_lines(&facts, "") + &verdict_text(&verdict, None, &next))
}

/// The results of a run that trains a bank, and what it sent.
pub(crate) fn bank_lines(summary: &BankSummary, spent: Option<u64>, dir: &Path) -> String {
    let [n_trials, n_admitted] = summary.trials;
    let measured = measured(summary.active as u64, summary.unmeasured as u64);
    let mut text = format!(
        "bank:       {}: {} active, {measured}; {} waiting, {} retired\n\
         trials:     {}, {n_admitted} admitted, {}\n\
         validation: {} → {} ({})\n",
        dir.join("bank").display(),
        counted(summary.active as u64, "skill"),
        summary.candidates,
        summary.retired,
        grouped(n_trials as u64),
        counted(summary.trial_rollouts, "rollout"),
        percent(summary.baseline.hard),
        percent(summary.score.hard),
        counted(summary.n_items[0] as u64, "item"),
    );
    let calls: u64 = summary.tokens.values().map(|used| used.calls).sum();
    // Repeats and calls that were given up are spent besides.
    let more = spent.filter(|spent| *spent > calls).map(|spent| format!(", {} calls spent", grouped(spent)));
    let _ = writeln!(text, "used:       {}{}", replies(calls), more.unwrap_or_default());
    text
}

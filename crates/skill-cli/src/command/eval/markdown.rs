//! `skillrl eval --markdown`: a measurement as a section of a page, such as the summary of a job in CI.

use crate::measuring::score_words;
use crate::run_text::summary::used_words;
use crate::table::harmless;
use skillrl::envs::Split;
use skillrl::pipeline::records::evaluation::EvaluationSummary;
use skillrl::reports::words::percent;
use skillrl::reports::{Comparison, LEVEL};
use std::fmt::Write as _;

/// The section: a verdict, a table of the scores and those of each type of task; `broken` are the limits that were not
/// kept, and `simulated` names simulated models.
pub(super) fn page(
    skill: &str,
    split: Split,
    summary: &EvaluationSummary,
    compared: Option<&Comparison>,
    (broken, simulated): (&[String], &str),
) -> String {
    let mut text = format!("### Skill {}\n\n", code(skill));
    for limit in broken {
        let _ = writeln!(text, "- **Failed:** {}", harmless(limit));
    }
    if broken.is_empty() {
        text.push_str("- No limit is broken.\n");
    }
    if let Some(activations) = summary.activations {
        let _ = writeln!(text, "- Loaded {}.", crate::measuring::activation_words(activations));
    }
    if let Some(compared) = compared {
        let described = crate::against::describe(compared).replacen("against", "Against", 1);
        let _ = writeln!(text, "- {}", described.trim_end());
    }
    let _ = write!(
        text,
        "\n| {split} split | items | score |\n|---|---:|---|\n| all | {} | {} |\n",
        summary.n,
        score_words(summary.hard, summary.soft, summary.n)
    );
    if let Some(compared) = compared {
        let _ = writeln!(text, "| all, before | {} | {} |", compared.n, percent(compared.before));
    }
    for (task_type, score) in &summary.by_task_type {
        let words = score_words(score.hard, score.soft, score.n);
        let _ = writeln!(text, "| {} | {} | {words} |", code(task_type), score.n);
    }
    let _ = writeln!(
        text,
        "\n{}; intervals of {:.0} %.{}{}",
        used_words(summary.tokens, summary.tokens.has_counts()),
        100.0 * LEVEL,
        if simulated.is_empty() { "" } else { "\n\n" },
        simulated.trim_end()
    );
    text
}

/// A text of data as code, which a cell of a table can hold.
fn code(text: &str) -> String {
    format!("`{}`", harmless(text).replace(['`', '|', '\n'], " "))
}

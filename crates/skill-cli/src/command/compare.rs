//! `skillrl compare`: two runs side by side, or a table of more.

use super::CommandError;
use crate::args::CompareArgs;
use crate::run_text::runs_tables;
use crate::table::{Column, grouped, harmless, table, terminal_width};
use skillrl::core::usage::dollars;
use skillrl::reports::words::percent;
use skillrl::reports::{Comparison, RunComparison, RunSide, TrainedKind, metric_words, runs_in};
use skillrl::runs::Depth;
use std::fmt::Write as _;
use std::path::PathBuf;

pub(crate) fn run(args: &CompareArgs) -> crate::Result {
    let runs = whole(&args.runs);
    let is_table = args.csv || args.markdown || !args.group_by.is_empty();
    let (first, second) = match runs.as_slice() {
        [first, second] if !is_table => (first, second),
        [_] if !is_table => {
            let message = "a run is compared with another one";
            return Err(CommandError::new(message)
                .with_hint("name a second run, or a directory of several")
                .into());
        }
        runs => return print_table(args, runs),
    };
    let comparison = match &args.html {
        Some(path) => skillrl::report::write_comparison(first, second, path)?,
        None => skillrl::report::compare(first, second)?,
    };
    if args.json {
        return super::print_pretty_json(&comparison);
    }
    super::print_wrapped(&described(&comparison))
}

/// The runs, where a directory may stand for those in it.
fn whole(named: &[PathBuf]) -> Vec<PathBuf> {
    let all = named.iter().flat_map(|path| match runs_in(path) {
        Ok(runs) if !runs.is_empty() => runs,
        // A row says what is wrong with it.
        Ok(_) | Err(_) => vec![path.clone()],
    });
    all.collect()
}

fn print_table(args: &CompareArgs, runs: &[PathBuf]) -> crate::Result {
    let depth = if args.html.is_some() { Depth::Courses } else { Depth::Rows };
    let found = skillrl::runs::table(runs, &args.group_by, depth)?;
    if let Some(path) = &args.html {
        skillrl::runs::write_page(&found, path)?;
    }
    match () {
        () if args.json => super::print_pretty_json(&found),
        () if args.csv => super::print(&found.csv()),
        () if args.markdown => super::print(&found.markdown()),
        () => super::print(&runs_tables(&found)),
    }
}

fn described(comparison: &RunComparison) -> String {
    let columns = [Column::text(""), Column::text("A"), Column::text("B")];
    let width = terminal_width();
    let metric = metric_words(comparison.metric);
    let mut text = table(&columns, &rows(comparison, metric), width);
    if !comparison.settings.is_empty() {
        let rows = comparison.settings.iter().map(|setting| {
            let [first, second] = setting.values.each_ref().map(|value| match value {
                serde_json::Value::Null => "not set".to_owned(),
                value => harmless(&value.to_string()),
            });
            vec![setting.key.clone(), first, second]
        });
        let columns = [Column::name("setting"), Column::text("A"), Column::text("B")];
        let _ = write!(text, "\n{}", table(&columns, &rows.collect::<Vec<_>>(), width));
    }
    for (split, compared) in [("test", &comparison.test), ("validation", &comparison.selection)] {
        if let Some(compared) = compared {
            let _ = write!(text, "\n{}", paired(&format!("{split}{metric}"), compared));
        }
    }
    for said in &comparison.not_compared {
        let _ = write!(text, "\nnote: {said}");
    }
    if !comparison.not_compared.is_empty() {
        text.push('\n');
    }
    text
}

fn rows(comparison: &RunComparison, metric: &str) -> Vec<Vec<String>> {
    let sides = &comparison.runs;
    let row = |title: &str, value: &dyn Fn(&RunSide) -> String| {
        let [first, second] = sides.each_ref().map(value);
        vec![title.to_owned(), first, second]
    };
    let score = |score: Option<f64>, interval: Option<[f64; 2]>| match (score, interval) {
        (Some(score), Some([low, high])) => {
            format!("{} ({:.1} to {:.1})", percent(score), 100.0 * low, 100.0 * high)
        }
        (Some(score), None) => percent(score),
        (None, _) => "not measured".to_owned(),
    };
    let mut rows = vec![
        row("run", &|side| side.name.clone()),
        row("environment", &|side| side.env.clone()),
        row("steps", &|side| {
            let unit = if side.trains == TrainedKind::Bank { " rounds" } else { "" };
            format!("{}{unit}{}", side.n_steps, if side.is_finished { "" } else { ", not finished" })
        }),
        row("accepted", &|side| match side.trains {
            TrainedKind::Document => format!("{} of {} candidates", side.n_accepted, side.n_candidates),
            TrainedKind::Bank => format!("{} of {} trials", side.n_accepted, side.n_candidates),
        }),
        row("best skill", &|side| side.best_skill.clone()),
        row(&format!("validation{metric}"), &|side| score(side.selection, side.selection_interval)),
        row(&format!("test{metric}"), &|side| score(side.test, side.test_interval)),
    ];
    let arms = comparison.arm_rows();
    if arms.is_empty() {
        rows.push(row(&format!("test before{metric}"), &|side| score(side.test_before, None)));
    }
    rows.extend(arms.into_iter().map(|arm| {
        let [first, second] = arm
            .sides
            .map(|side| score(side.as_ref().map(|arm| arm.score), side.as_ref().map(|arm| arm.interval)));
        vec![format!("test, {}{metric}", arm.title), first, second]
    }));
    rows.extend([
        row("tokens per validation task", &|side| tokens(side.tokens_per_task, side.tokens_per_task_before)),
        row("skill length", &|side| {
            side.skill_tokens
                .map_or_else(|| "not known".to_owned(), |tokens| format!("about {} tokens", grouped(tokens)))
        }),
        row("replies used", &|side| used(side.calls, side.n_steps)),
        row("tokens used", &|side| used(side.tokens, side.n_steps)),
        row("cost", &|side| match side.money {
            Some(money) => dollars(money),
            None if side.is_replay => "none, as the replies come from a recording".to_owned(),
            None if side.calls == 0 && side.n_steps > 0 => "unknown".to_owned(),
            None => "no prices".to_owned(),
        }),
    ]);
    rows
}

/// Tokens for each task of the validation split: under the best skill, and under the first one where they differ.
fn tokens(best: Option<f64>, first: Option<f64>) -> String {
    match (best, first) {
        (Some(best), Some(first)) if best != first => {
            format!("{best:.1} ({first:.1} before, {:+.1} %)", 100.0 * (best / first - 1.0))
        }
        (Some(best), _) => format!("{best:.1}"),
        (None, _) => "not known".to_owned(),
    }
}

/// A number that a run with steps cannot have left at 0, unless it did not record it.
fn used(number: u64, n_steps: usize) -> String {
    if number == 0 && n_steps > 0 { "unknown".to_owned() } else { grouped(number) }
}

fn paired(split: &str, compared: &Comparison) -> String {
    let [low, high] = compared.difference_interval;
    let points = |difference: f64| format!("{:+.1}", difference * 100.0);
    let verdict = if low > 0.0 {
        "B is better"
    } else if high < 0.0 {
        "A is better"
    } else {
        "no difference is shown"
    };
    format!(
        "{split}: on {} items of both, B minus A is {} points (95 % interval {} to {}): {verdict}\n\
         {:width$}B wins {}, A wins {}, the same {}\n",
        compared.n,
        points(compared.difference),
        points(low),
        points(high),
        "",
        compared.counts.wins,
        compared.counts.losses,
        compared.counts.ties,
        width = split.len() + 2,
    )
}

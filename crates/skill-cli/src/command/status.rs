//! `skillrl status`: where a run is, or every run of a directory.

use crate::args::StatusArgs;
use crate::run_text::{described, now};
use crate::table::{Column, harmless, table, terminal_width};
use skillrl::pipeline::PipelineError;
use skillrl::reports::words::percent;
use skillrl::reports::{RunOverview, runs_in};
use skillrl::runs::Depth;

pub(crate) fn run(args: &StatusArgs) -> crate::Result {
    if let Some(kept) = skillrl::report::triggers(&args.dir)? {
        return crate::run_report::print_triggers(&kept, args.json);
    }
    if args.csv {
        return super::print(&skillrl::runs::table_of(&args.dir, &[], Depth::Rows)?.csv());
    }
    let runs = runs_in(&args.dir)?;
    if runs.is_empty() {
        let path = args.dir.clone();
        return Err(PipelineError::NoRun { path }.into());
    }
    let statuses = runs.iter().map(|path| skillrl::report::overview(path)).collect::<Result<Vec<_>, _>>();
    let statuses = statuses?;
    if args.json {
        let lines = statuses.iter().map(super::json).collect::<Vec<_>>();
        return super::print(&(lines.join("\n") + "\n"));
    }
    match statuses.as_slice() {
        [status] if status.bank().is_some() => {
            let mut text = described(status);
            let rows = skillrl::report::view(&status.path)?.rows();
            // A row that sums up the trials before it is that of a round.
            rows.iter()
                .filter(|row| row.is_strong)
                .for_each(|row| text.push_str(&format!("  {}\n", row.text)));
            super::print_wrapped(&text)
        }
        [status] => super::print_wrapped(&described(status)),
        many => super::print(&listed(many)),
    }
}

fn listed(statuses: &[RunOverview]) -> String {
    let columns = [
        Column::text("run"),
        Column::text("state"),
        Column::number("steps"),
        Column::text("test"),
        Column::text("validation"),
        Column::number("calls"),
        Column::text("verdict"),
    ];
    let pair = |before: f64, after: f64| format!("{} → {}", percent(before), percent(after));
    let rows = statuses.iter().map(|status| {
        let steps = match status.total_steps {
            Some(total) => format!("{}/{total}", status.n_steps),
            None => status.n_steps.to_string(),
        };
        let calls = status.live.as_ref().map_or(status.calls, |live| live.pulse.spend.calls);
        let what = match (&status.live, &status.verdict, &status.reason) {
            (Some(live), ..) => now(live),
            (None, Some(verdict), _) => status.in_short().unwrap_or_else(|| verdict.title()),
            (None, None, Some(reason)) => first_sentence(&harmless(reason).replace('\n', " ")),
            (None, None, None) => status.in_short().unwrap_or_default(),
        };
        let validation = match (status.baseline, status.best) {
            (Some(before), Some(after)) => pair(before, after),
            (Some(before), None) => percent(before),
            (None, _) => String::new(),
        };
        vec![
            status.path.display().to_string(),
            status.phase.as_str().to_owned(),
            steps,
            status.test.map(|[before, after]| pair(before, after)).unwrap_or_default(),
            validation,
            if status.live.is_some() || status.knows_calls() {
                crate::table::grouped(calls)
            } else {
                "unknown".to_owned()
            },
            what,
        ]
    });
    table(&columns, &rows.collect::<Vec<_>>(), terminal_width())
}

/// The most characters of why a run stands still, in a table.
const MAX_REASON: usize = 100;

/// The first sentence of a text; a long one is cut.
fn first_sentence(text: &str) -> String {
    let end = text.find(". ").or_else(|| text.find(" Traceback")).unwrap_or(text.len());
    let sentence = text.get(..end).unwrap_or(text);
    match sentence.char_indices().nth(MAX_REASON) {
        Some((end, _)) => format!("{} ..", sentence.get(..end).unwrap_or_default()),
        None => sentence.to_owned(),
    }
}

//! `skillrl status`: where a run is, or every run of a directory.

use crate::args::StatusArgs;
use crate::run_text::{described, now};
use crate::table::{Column, harmless, table, terminal_width};
use skillrl::pipeline::PipelineError;
use skillrl::reports::{RunOverview, runs_in};

pub(crate) fn run(args: &StatusArgs) -> anyhow::Result<()> {
    let runs = runs_in(&args.dir);
    if runs.is_empty() {
        let path = args.dir.clone();
        return Err(skillrl::Error::Pipeline(PipelineError::NoRun { path }).into());
    }
    let statuses = runs.iter().map(|path| skillrl::report::overview(path)).collect::<Result<Vec<_>, _>>();
    let statuses = statuses.map_err(skillrl::Error::Pipeline)?;
    if args.json {
        let lines = statuses.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
        return super::print(&(lines.join("\n") + "\n"));
    }
    match statuses.as_slice() {
        [status] if status.bank.is_some() => {
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
        Column::text("phase"),
        Column::number("steps"),
        Column::number("first"),
        Column::number("best"),
        Column::number("calls"),
        Column::text("what"),
    ];
    let score = |score: Option<f64>| score.map(|score| format!("{score:.4}")).unwrap_or_default();
    let rows = statuses.iter().map(|status| {
        let steps = match status.total_steps {
            Some(total) => format!("{}/{total}", status.n_steps),
            None => status.n_steps.to_string(),
        };
        let calls = status.live.as_ref().map_or(status.calls, |live| live.pulse.spend.calls);
        let what = match (&status.live, &status.reason) {
            (Some(live), _) => now(live),
            (None, Some(reason)) => harmless(reason).replace('\n', " "),
            (None, None) => status.in_short().unwrap_or_default(),
        };
        vec![
            status.path.display().to_string(),
            status.phase.as_str().to_owned(),
            steps,
            score(status.baseline),
            score(status.best),
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

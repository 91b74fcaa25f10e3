//! `skillrl eval RUN --targets`: what the skill of a run is worth to other models.

use crate::args::{Start, TransferArgs};
use crate::consent::agree_to_address;
use crate::progress::{Progress, Show};
use crate::table::{Column, grouped, table, terminal_width};
use skillrl::pipeline::StopSignal;
use skillrl::reports::metric_words;
use skillrl::reports::words::percent;
use skillrl::transfer::{OWN_TARGET, Transfer, TransferMatrix, TransferOptions, TransferRow};
use skillrl::world;
use std::fmt::Write as _;

pub(super) fn run(args: &TransferArgs) -> crate::Result {
    let options = TransferOptions {
        run: args.run.clone(),
        config: args.config.clone(),
        overrides: args.set.clone(),
        targets: args.targets.clone(),
        split: world::split(&args.split)?,
        out: args.out.clone(),
    };
    let transfer = Transfer::prepare(&options)?;
    let start = Start { file: args.config.clone(), overrides: args.set.clone(), ..Start::default() };
    agree_to_address(&start, transfer.loaded())?;
    crate::measuring::warn_of_test_split(transfer.loaded(), options.split);
    let progress = Progress::new(if args.json || args.quiet { Show::Quiet } else { Show::Progress });
    let stop = StopSignal::default();
    let measuring = transfer.measure(&progress, &stop);
    let (matrix, failed) = crate::command::block_on(stop.clone(), "stopping", measuring)??;
    if args.json {
        crate::command::print_pretty_json(&matrix)?;
    } else {
        crate::command::print(&described(&matrix))?;
    }
    match failed.into_iter().next() {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

fn described(matrix: &TransferMatrix) -> String {
    let metric = metric_words(matrix.metric);
    let columns = [
        Column::name("target"),
        Column::text("model"),
        Column::number("start"),
        Column::number("best"),
        Column::text("difference"),
        Column::number("tokens per task"),
        Column::number("calls"),
    ];
    let rows: Vec<Vec<String>> = matrix.rows.iter().map(row).collect();
    let mut text = format!("{} split{metric}\n{}", matrix.split, table(&columns, &rows, terminal_width()));
    if let (Some(mean), Some(worst)) = (matrix.mean_difference, &matrix.worst) {
        let _ =
            writeln!(text, "mean difference {:+.1} points; the smallest is that of {worst}", 100.0 * mean);
    }
    for (target, problem) in matrix.rows.iter().filter_map(|row| Some((&row.target, row.problem.as_ref()?))) {
        let _ = writeln!(text, "{target} was not measured: {problem}");
    }
    text
}

fn row(row: &TransferRow) -> Vec<String> {
    let points = |share: f64| format!("{:+.1}", 100.0 * share);
    let scores = match &row.compared {
        Some(of) => {
            let [low, high] = of.difference_interval;
            let difference =
                format!("{} points ({} to {})", points(of.difference), points(low), points(high));
            [percent(of.before), percent(of.after), difference]
        }
        None => ["-".to_owned(), "-".to_owned(), "not measured".to_owned()],
    };
    let tokens = match row.tokens_per_task {
        Some([start, best]) => format!("{start:.0}, {best:.0}"),
        None => "unknown".to_owned(),
    };
    let calls = match row.used.calls {
        0 if row.target == OWN_TARGET => "in the run".to_owned(),
        calls => grouped(calls),
    };
    let [start, best, difference] = scores;
    vec![row.target.clone(), row.model.clone(), start, best, difference, tokens, calls]
}

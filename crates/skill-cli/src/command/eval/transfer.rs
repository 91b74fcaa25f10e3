//! `skillrl eval RUN --targets`: what the skill of a run is worth to other models, as a table.

use crate::table::{Column, grouped, table, terminal_width};
use skillrl::reports::words::percent;
use skillrl::reports::{Matrix, TransferRow, metric_words};
use skillrl::transfer::OWN_TARGET;
use std::fmt::Write as _;

/// A row for each model, with what has to be known of it.
pub(super) fn described(matrix: &Matrix) -> String {
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
    if let Some(cost) = matrix.cost {
        let _ = writeln!(text, "all measurements together cost {}", skillrl::core::usage::dollars(cost));
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

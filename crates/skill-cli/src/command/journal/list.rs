//! `skillrl journal list`: calls, each in a line.

use crate::args::journal::JournalListArgs;
use crate::table::{Column, duration, grouped, harmless, table, terminal_width};
use skillrl::llm::journal::{CallFilter, CallRow};

const COLUMNS: [Column; 9] = [
    Column::number("id"),
    Column::text("place"),
    Column::text("model"),
    Column::text("outcome"),
    Column::number("in"),
    Column::number("out"),
    Column::number("sent"),
    Column::number("waited"),
    Column::number("took"),
];

pub(super) fn run(args: &JournalListArgs) -> crate::Result {
    let filter = CallFilter { last: Some(args.last), ..super::filter(&args.filter)? };
    let reader = super::open(&args.run.run)?;
    let calls = reader.calls(&filter).map_err(super::of_journal)?;
    let n_all = reader.count(&filter).map_err(super::of_journal)?;
    if args.json {
        let lines: Vec<String> = calls.iter().map(crate::output::json).collect();
        super::super::print(&lines.into_iter().map(|line| line + "\n").collect::<String>())?;
    } else if n_all > 0 {
        let rows: Vec<Vec<String>> = calls.iter().map(row).collect();
        super::super::print(&table(&COLUMNS, &rows, terminal_width()))?;
    }
    let said = match (n_all, calls.len() as u64) {
        (0, _) if filter == (CallFilter { last: filter.last, ..CallFilter::default() }) => {
            "the journal holds no call".to_owned()
        }
        (0, _) => "no call of the journal is like that".to_owned(),
        (all, shown) if shown < all => {
            format!("these are the last {} of {}; --last N shows more", grouped(shown), grouped(all))
        }
        (_, _) => return Ok(()),
    };
    super::super::say(&said);
    Ok(())
}

fn row(call: &CallRow) -> Vec<String> {
    let one_line = |text: &str| harmless(text).replace(['\n', '\t'], " ");
    vec![
        call.id.to_string(),
        one_line(&call.place),
        one_line(&call.model),
        call.outcome.clone(),
        call.usage.input.to_string(),
        call.usage.output.to_string(),
        call.attempts.to_string(),
        duration(call.waited_ms),
        duration(call.took_ms),
    ]
}

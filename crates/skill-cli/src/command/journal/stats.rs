//! `skillrl journal stats`: what the calls of a run came to.

use crate::args::journal::JournalStatsArgs;
use crate::table::{Column, counted, duration, grouped, harmless, table, terminal_width};
use indexmap::IndexMap;
use serde_json::json;
use skillrl::config::Config;
use skillrl::core::usage::dollars;
use skillrl::llm::journal::{JournalTotals, StageCalls};
use std::fmt::Write as _;

const NUMBERS: [Column; 7] = [
    Column::number("calls"),
    Column::number("failed"),
    Column::number("sent"),
    Column::number("in"),
    Column::number("out"),
    Column::number("waited"),
    Column::number("took"),
];

/// Calls of one stage or model, with their price if one is known.
#[derive(Debug, Clone, Default, PartialEq)]
struct Row {
    calls: StageCalls,
    cost: Option<f64>,
}

impl Row {
    fn add(&mut self, other: &Self) {
        self.calls.add(&other.calls);
        if let Some(cost) = other.cost {
            *self.cost.get_or_insert(0.0) += cost;
        }
    }
}

pub(super) fn run(args: &JournalStatsArgs) -> crate::Result {
    let reader = super::open(&args.run.run)?;
    let totals = reader.totals().map_err(super::of_journal)?;
    // What a run costs is for its configuration to say; a journal that lies alone has none.
    let config = skillrl::replay::recorded_config(&args.run.run);
    let rows: Vec<Row> = reader
        .by_stage()
        .map_err(super::of_journal)?
        .into_iter()
        .map(|calls| Row { cost: cost(config.as_ref(), &calls), calls })
        .collect();
    if args.json {
        return super::super::print(&format!("{}\n", to_json(&totals, &rows)));
    }
    super::super::print_wrapped(&describe(&totals, &rows, terminal_width()))
}

fn cost(config: Option<&Config>, calls: &StageCalls) -> Option<f64> {
    skillrl::cost::calls_cost(config?, calls)
}

fn sum<'row>(rows: impl IntoIterator<Item = &'row Row>) -> Row {
    rows.into_iter().fold(Row::default(), |mut sum, row| {
        sum.add(row);
        sum
    })
}

/// The rows summed by a name, in the order in which each name comes first.
fn grouped_by(rows: &[Row], name: impl Fn(&StageCalls) -> String) -> IndexMap<String, Row> {
    let mut groups: IndexMap<String, Row> = IndexMap::new();
    for row in rows {
        groups.entry(name(&row.calls)).or_default().add(row);
    }
    groups
}

fn describe(totals: &JournalTotals, rows: &[Row], width: Option<usize>) -> String {
    let all = sum(rows);
    let calls = &all.calls;
    let mut text = String::new();
    let mut line = |label: &str, value: String| {
        let _ = writeln!(text, "{label:9} {value}");
    };
    let mut answered = format!("{} answered", grouped(calls.replies + calls.copied));
    if calls.copied > 0 {
        let _ = write!(answered, " ({} from a recording)", grouped(calls.copied));
    }
    line("calls", format!("{answered}, {} failed", grouped(calls.failed)));
    line("requests", grouped(calls.requests));
    let usage = &calls.usage;
    line(
        "tokens",
        format!(
            "{} in ({} cached), {} out ({} reasoning)",
            grouped(usage.input),
            grouped(usage.cached),
            grouped(usage.output),
            grouped(usage.reasoning)
        ),
    );
    if let Some(cost) = all.cost {
        line("cost", dollars(cost));
    }
    if totals.pruned_requests > 0 {
        let pruned = &totals.pruned_usage;
        line(
            "pruned",
            format!(
                "{} requests more, {} tokens in, {} out: paid for, and counted by the caps",
                grouped(totals.pruned_requests),
                grouped(pruned.input),
                grouped(pruned.output)
            ),
        );
    }
    if totals.unanswered_requests > 0 {
        let reserved = &totals.unanswered_usage;
        line(
            "in flight",
            format!(
                "{} requests more, now or when their process was killed, {} tokens in, {} out reserved: counted by the caps",
                grouped(totals.unanswered_requests),
                grouped(reserved.input),
                grouped(reserved.output)
            ),
        );
    }
    if totals.embeddings > 0 {
        line("vectors", format!("of {}", counted(totals.embeddings, "text")));
    }
    line("results", grouped(totals.results));
    line("time", format!("{} in {}", duration(totals.elapsed_ms), processes(totals.processes)));
    if rows.is_empty() {
        return text;
    }
    let by_stage = grouped_by(rows, |calls| calls.stage.clone());
    let _ = write!(text, "\n{}", grouped_table("stage", &by_stage, width));
    let by_model = grouped_by(rows, |calls| calls.model.clone());
    let _ = write!(text, "\n{}", grouped_table("model", &by_model, width));
    text
}

fn processes(count: u64) -> String {
    if count == 1 { "1 process".to_owned() } else { format!("{} processes", grouped(count)) }
}

fn grouped_table(title: &'static str, groups: &IndexMap<String, Row>, width: Option<usize>) -> String {
    let has_cost = groups.values().any(|row| row.cost.is_some());
    let mut columns = vec![Column::text(title)];
    columns.extend(NUMBERS);
    if has_cost {
        columns.push(Column::number("cost"));
    }
    let rows: Vec<Vec<String>> = groups
        .iter()
        .map(|(name, row)| {
            let calls = &row.calls;
            let mut cells = vec![
                harmless(name).replace(['\n', '\t'], " "),
                grouped(calls.replies + calls.copied),
                grouped(calls.failed),
                grouped(calls.requests),
                grouped(calls.usage.input),
                grouped(calls.usage.output),
                duration(calls.waited_ms),
                duration(calls.took_ms),
            ];
            if has_cost {
                cells.push(row.cost.map(|cost| format!("{cost:.4}")).unwrap_or_default());
            }
            cells
        })
        .collect();
    table(&columns, &rows, width)
}

fn to_json(totals: &JournalTotals, rows: &[Row]) -> serde_json::Value {
    let with_cost = |row: &Row| {
        let mut value = json!(row.calls);
        if let (Some(cost), Some(fields)) = (row.cost, value.as_object_mut()) {
            fields.insert("cost".to_owned(), json!(cost));
        }
        value
    };
    let mut value = json!({
        "totals": totals,
        "by_stage_and_model": rows.iter().map(with_cost).collect::<Vec<_>>(),
    });
    if let (Some(cost), Some(fields)) = (sum(rows).cost, value.as_object_mut()) {
        fields.insert("cost".to_owned(), json!(cost));
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use skillrl::core::Usage;

    fn row(stage: &str, model: &str, replies: u64, cost: Option<f64>) -> Row {
        let usage = Usage { input: 1000 * replies, cached: 10, output: 50, reasoning: 5, ..Usage::default() };
        let calls = StageCalls {
            stage: stage.to_owned(),
            provider: "p".to_owned(),
            model: model.to_owned(),
            replies,
            copied: 2,
            failed: 1,
            requests: replies + 1,
            usage,
            waited_ms: 1200,
            took_ms: 90_000,
        };
        Row { calls, cost }
    }

    #[test]
    fn calls_are_summed_by_stage_and_by_model() {
        let rows = [
            row("rollout", "small", 40, Some(0.25)),
            row("reflect", "large-model-of-a-very-long-name", 3, Some(1.5)),
            row("rollout", "large-model-of-a-very-long-name", 1, None),
        ];
        let totals = JournalTotals { results: 40, processes: 2, elapsed_ms: 3_661_000, ..Default::default() };
        insta::assert_snapshot!(describe(&totals, &rows, Some(80)));
        insta::assert_snapshot!(to_json(&totals, &rows));
    }

    #[test]
    fn without_prices_nothing_is_said_of_money() {
        let totals = JournalTotals { processes: 1, ..JournalTotals::default() };
        let text = describe(&totals, &[row("rollout", "m", 1, None)], None);
        assert!(!text.contains("money"), "{text}");
        assert!(!to_json(&totals, &[row("rollout", "m", 1, None)]).to_string().contains("cost"));
        assert!(!describe(&totals, &[], None).contains("stage"));
    }

    #[test]
    fn embedded_texts_are_counted_where_there_are_some() {
        let totals = JournalTotals { processes: 1, ..JournalTotals::default() };
        assert!(!describe(&totals, &[], None).contains("vectors"));
        let text = describe(&JournalTotals { embeddings: 1_200, ..totals }, &[], None);
        assert!(text.contains("vectors   of 1,200 texts\n"), "{text}");
    }
}

//! Prints the tables of `docs/results.md`: how much a gate's report flatters, and what each mode accepts.
//!
//! `cargo run --release -p skill-core --example gate_table`

mod simulation;

use simulation::{Errors, MODES, false_accepts, inflation, outcomes};
use skill_core::GateMode;
use std::io::Write as _;

const N_SEEDS: u64 = 4_000;

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let points = |errors: Errors| {
        let standard_error = 100.0 * errors.standard_error();
        format!("{:+.1} ± {standard_error:.1} ({:.1})", 100.0 * errors.mean(), 100.0 * errors.absolute())
    };
    writeln!(
        out,
        "40 steps without effect: mean error in points ± its standard error (mean size of the error)\n"
    )?;
    writeln!(
        out,
        "| items | accepted in step 1 | best selection score | fresh | refreshed | refreshed, fresh |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|")?;
    for n_items in [18, 50, 200] {
        let found = inflation(n_items, 40, N_SEEDS);
        let cells =
            [found.selected, found.fresh, found.refreshed, found.refreshed_fresh].map(points).join(" | ");
        writeln!(out, "| {n_items} | {:.0} % | {cells} |", 100.0 * found.first_accepts)?;
    }
    for effect in [0.0, 0.05, 0.1] {
        writeln!(out, "\nA true difference of {:+.0} points: accepted (indecisive)\n", 100.0 * effect)?;
        writeln!(out, "| mode | 18 items | 50 items | 200 items |\n|---|---|---|---|")?;
        let columns = [18, 50, 200].map(|n_items| outcomes(n_items, effect, N_SEEDS));
        for (mode_idx, mode) in MODES.into_iter().enumerate() {
            let cell = |column: &[simulation::Outcomes]| match column.get(mode_idx) {
                Some(found) => format!("{:.2} ({:.2})", found.accepted, found.indecisive),
                None => String::new(),
            };
            let cells = columns.each_ref().map(|column| cell(column)).join(" | ");
            writeln!(out, "| {} | {cells} |", name(mode))?;
        }
    }
    for spends_alpha in [false, true] {
        let how = if spends_alpha { ", gate.spend_alpha" } else { "" };
        writeln!(
            out,
            "\n40 steps without effect{how}: false accepts of a run (runs with any), error of the selection score, fresh\n"
        )?;
        writeln!(out, "| mode | 50 items | 200 items |\n|---|---|---|")?;
        let columns = [50, 200].map(|n_items| false_accepts(n_items, 40, spends_alpha, N_SEEDS));
        for (mode_idx, mode) in MODES.into_iter().enumerate() {
            let cell = |column: &[simulation::FalseAccepts]| match column.get(mode_idx) {
                Some(found) => format!(
                    "{:.2} ({:.0} %), {:+.1}, {:+.1}",
                    found.n_accepts,
                    100.0 * found.any,
                    100.0 * found.selected.mean(),
                    100.0 * found.fresh.mean()
                ),
                None => String::new(),
            };
            let cells = columns.each_ref().map(|column| cell(column)).join(" | ");
            writeln!(out, "| {} | {cells} |", name(mode))?;
        }
    }
    Ok(())
}

fn name(mode: GateMode) -> String {
    match mode {
        GateMode::Strict => "`strict`".to_owned(),
        GateMode::Paired { standard_errors } => format!("`paired`, {standard_errors} standard errors"),
        GateMode::Mcnemar { alpha } => format!("`mcnemar`, alpha {alpha}"),
        GateMode::EProcess { alpha } => format!("`eprocess`, alpha {alpha}"),
        GateMode::NoRegression { max_losses } => format!("`no_regression`, {max_losses} losses"),
    }
}

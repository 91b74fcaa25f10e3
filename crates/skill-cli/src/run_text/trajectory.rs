//! An item of a run with its trajectory, as text.

use crate::args::ShowArgs;
use crate::error::CommandError;
use crate::table::harmless;
use serde::Serialize;
use serde_json::json;
use skillrl::core::MeanScore;
use skillrl::reports::lines::scores;
use skillrl::reports::words::split_name;
use skillrl::reports::{ReportOptions, Trajectories, Trajectory};
use std::fmt::Write as _;

/// A report in which every item of a run is found; of steps it has nothing but their names.
pub(crate) fn all_items() -> ReportOptions {
    ReportOptions {
        max_items: usize::MAX,
        max_trajectories: usize::MAX,
        max_trajectory_characters: usize::MAX,
        max_steps: usize::MAX,
        max_step_characters: 0,
        ..ReportOptions::default()
    }
}

/// Prints an item: its row of the report, which comes with its text, and its trajectory.
///
/// `with` is what the trajectory was made with, and `shown_if` says which items have either.
///
/// # Errors
///
/// An item that has neither, and an output that cannot be written.
pub(crate) fn print_item(
    (args, id): (&ShowArgs, &str),
    (columns, row): (&[String], Option<(&impl Serialize, String)>),
    trajectories: &Trajectories,
    (with, shown_if): (&str, &str),
) -> crate::Result {
    let trajectory = trajectories.shown.iter().find(|trajectory| trajectory.id == id);
    if row.is_none() && trajectory.is_none() {
        let message = format!("{} has nothing to show of an item `{id}`", args.run.display());
        return Err(CommandError::new(message).with_hint(shown_if).into());
    }
    let (row, text) = row.unzip();
    if args.json {
        let shown = json!({ "columns": columns, "row": row, "trajectory": trajectory });
        return crate::output::print_pretty_json(&shown);
    }
    let with = format!("{} split with {with}", split_name(trajectories.split));
    let trajectory = trajectory.map(|trajectory| trajectory_text(trajectory, &with));
    crate::output::print(&[text, trajectory].into_iter().flatten().collect::<String>())
}

/// The trajectory; `with` names the split and the skills shown.
fn trajectory_text(trajectory: &Trajectory, with: &str) -> String {
    let score = scores(MeanScore { hard: trajectory.hard, soft: trajectory.soft }, None);
    let mut text = format!("\non the {with}: {score}\n");
    for (what, said) in [
        ("answer", &trajectory.answer),
        ("before", &trajectory.answer_before),
        ("right", &trajectory.reference),
        ("why", &trajectory.reason),
    ] {
        if !said.is_empty() {
            let _ = writeln!(text, "  {what:<7} {}", harmless(said));
        }
    }
    for turn in &trajectory.turns {
        let _ = writeln!(text, "\n[{}]\n{}", turn.role, harmless(&turn.text));
    }
    text
}

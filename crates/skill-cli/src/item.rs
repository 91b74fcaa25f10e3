//! An item of a run with its trajectory, as `show --item` prints it.

use crate::args::ShowArgs;
use crate::error::CommandError;
use crate::run_text::trajectory::trajectory_text;
use serde::Serialize;
use serde_json::json;
use skillrl::reports::words::split_name;
use skillrl::reports::{ReportOptions, Trajectories};

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

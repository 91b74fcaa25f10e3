//! The trajectory of an item, as text.

use crate::table::harmless;
use skillrl::core::MeanScore;
use skillrl::reports::TrajectoryView;
use skillrl::reports::lines::scores;
use std::fmt::Write as _;

/// The trajectory; `with` names the split and the skills shown.
pub(crate) fn trajectory_text(trajectory: &TrajectoryView, with: &str) -> String {
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

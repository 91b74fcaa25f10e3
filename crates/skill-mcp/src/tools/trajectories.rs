//! `read_trajectories`.

use crate::error::ToolError;
use crate::room::Room;
use crate::shared::Shared;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skill_core::StepIdx;
use skill_pipeline::RunReader;
use skill_report::{ItemOutcome, ReportOptions, Trajectories, TrajectoryView};
use std::sync::Arc;

pub(super) const DESCRIPTION: &str = "\
Shows what the trained agent did on single items, as conversations: items that the best skill lost or won against the \
initial one, and items that it failed, in this order. With `step`, the candidate of that step against the skill before \
it. This is how to understand why an edit was kept or not. Reads files and costs nothing.";

/// Conversations that are shown where nobody says how many.
const DEFAULT_LIMIT: usize = 4;
const MAX_LIMIT: usize = 20;
/// The most turns of a conversation; the last ones are shown, since the end of a long one says more.
const MAX_TURNS: usize = 30;
const MAX_TURN: usize = 2_000;
const MAX_FIELD: usize = 1_000;
const MAX_NAME: usize = 200;

/// What became of an item between two skills.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// Solved before, failed now.
    Lost,
    /// Failed before, solved now.
    Won,
    /// Failed by both.
    Failed,
}

impl Outcome {
    fn of(trajectory: &TrajectoryView) -> Self {
        match trajectory.outcome {
            ItemOutcome::Lost => Self::Lost,
            ItemOutcome::Won | ItemOutcome::Kept => Self::Won,
            ItemOutcome::Passing | ItemOutcome::Never => Self::Failed,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The name of the run, as list_runs gives it.
    run: String,
    /// Shows the candidate of this step, from 1; without it, the best skill.
    #[serde(default)]
    step: Option<u32>,
    /// Shows items with this outcome alone.
    #[serde(default)]
    outcome: Option<Outcome>,
    /// Shows this item alone.
    #[serde(default)]
    item: Option<String>,
    /// How many items to pass over; 0 by default, then `next_offset` of the answer before.
    #[serde(default)]
    offset: usize,
    /// The most items to show, up to 20; 4 by default.
    #[serde(default)]
    #[schemars(range(min = 1, max = 20))]
    limit: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The run.
    run: String,
    /// `test` or `selection`: which items these are.
    split: String,
    /// The items, with what the agent did.
    items: Vec<Shown>,
    /// Items that changed or failed and fit what was asked.
    n_items: usize,
    /// Pass it as `offset` for more; null if there are no more.
    next_offset: Option<usize>,
    /// Items that both skills solved; they are not shown.
    n_solved_by_both: usize,
    /// Characters that were cut from texts of this answer.
    n_characters_left_out: usize,
}

/// What the agent did on one item.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Shown {
    /// The item, which `item` takes.
    untrusted_item: String,
    /// Its kind, where items have one.
    untrusted_task_type: Option<String>,
    /// What became of it.
    outcome: Outcome,
    /// The strict score, from 0 to 1.
    hard: f64,
    /// The graded score, from 0 to 1.
    soft: f64,
    /// Why it failed.
    untrusted_reason: Option<String>,
    /// What the agent answered.
    untrusted_answer: Option<String>,
    /// What it answered with the skill before.
    untrusted_answer_before: Option<String>,
    /// The right answer, where there is one.
    untrusted_reference: Option<String>,
    /// What was said, the skill left out.
    turns: Vec<Turn>,
    /// Turns before these.
    n_turns_left_out: usize,
}

/// A turn of a conversation.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Turn {
    /// Who spoke.
    role: String,
    /// What was said.
    untrusted_text: String,
}

pub(super) async fn run(shared: Arc<Shared>, input: Input) -> Result<Output, ToolError> {
    let (found, _) = shared.run(&input.run).await?;
    super::in_depth(&shared, found, |run| {
        super::check_document(run)?;
        Ok(shown(read(run, input.step)?, input))
    })
    .await
}

fn read(run: &RunReader, step: Option<u32>) -> Result<Trajectories, ToolError> {
    let options = ReportOptions {
        max_trajectories: usize::MAX,
        max_turn_characters: usize::MAX,
        max_trajectory_characters: usize::MAX,
        ..ReportOptions::default()
    };
    let found = match step {
        None => Trajectories::of_best(run, &options)?,
        Some(step) => Trajectories::of_step(run, StepIdx(step), &options)?,
    };
    found.ok_or_else(|| match step {
        None => ToolError::new("nothing is measured yet", "wait for it with follow_run"),
        Some(step) => ToolError::new(
            format!("step {step} measured no candidate of its own"),
            "read_run lists the steps; one that is skipped or not finished has nothing to show",
        ),
    })
}

fn shown(all: Trajectories, input: Input) -> Output {
    let fits = |trajectory: &TrajectoryView| {
        let is_item = input.item.as_ref().is_none_or(|item| trajectory.id == *item);
        is_item && input.outcome.is_none_or(|outcome| Outcome::of(trajectory) == outcome)
    };
    let limit = input.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let fitting: Vec<&TrajectoryView> = all.shown.iter().filter(|trajectory| fits(trajectory)).collect();
    let (mut room, mut items) = (Room::default(), Vec::new());
    for trajectory in fitting.iter().skip(input.offset).take(limit) {
        if room.is_used_up() {
            break;
        }
        items.push(item(trajectory, &mut room));
    }
    let end = input.offset.saturating_add(items.len());
    Output {
        run: input.run,
        split: all.split.to_owned(),
        n_items: fitting.len(),
        next_offset: (end < fitting.len()).then_some(end),
        items,
        n_solved_by_both: all.n_kept,
        n_characters_left_out: room.n_left_out,
    }
}

fn item(trajectory: &TrajectoryView, room: &mut Room) -> Shown {
    let n_turns_left_out = trajectory.turns.len().saturating_sub(MAX_TURNS);
    let turns = trajectory.turns.iter().skip(n_turns_left_out);
    Shown {
        untrusted_item: room.take(&trajectory.id, MAX_NAME),
        untrusted_task_type: room.take_some(&trajectory.task_type, MAX_NAME),
        outcome: Outcome::of(trajectory),
        hard: trajectory.hard,
        soft: trajectory.soft,
        untrusted_reason: room.take_some(&trajectory.reason, MAX_FIELD),
        untrusted_answer: room.take_some(&trajectory.answer, MAX_FIELD),
        untrusted_answer_before: room.take_some(&trajectory.answer_before, MAX_FIELD),
        untrusted_reference: room.take_some(&trajectory.reference, MAX_FIELD),
        turns: turns
            .map(|turn| Turn { role: turn.role.to_owned(), untrusted_text: room.take(&turn.text, MAX_TURN) })
            .collect(),
        n_turns_left_out,
    }
}

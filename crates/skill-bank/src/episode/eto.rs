//! Conversations of the ETO data set: a task, then thoughts and actions in turn with observations.

use super::alfworld::type_in_path;
use super::{Episode, EpisodeStep};
use serde_json::Value;
use skill_core::ItemId;

const TASK_MARK: &str = "Your task is to:";
/// How WebShop's part of the set begins the goal.
const INSTRUCTION_MARK: &str = "Instruction:";
const OBSERVATION_MARK: &str = "Observation:";
const ACTION_MARK: &str = "Action:";
const THOUGHT_MARK: &str = "Thought:";

pub(super) fn is_conversation(record: &Value) -> bool {
    record.get("conversations").is_some_and(Value::is_array)
}

/// The episode of a conversation: every reply with an action is a step, whatever the turn before it looks like.
///
/// Records without a `reward` are those of experts, so they succeeded.
pub(super) fn read(record: &Value) -> Result<Episode, String> {
    let mut goal = None;
    let mut seen = String::new();
    let mut steps: Vec<EpisodeStep> = Vec::new();
    for turn in record.get("conversations").and_then(Value::as_array).into_iter().flatten() {
        let said = turn.get("value").and_then(Value::as_str).unwrap_or_default();
        match turn.get("from").and_then(Value::as_str) {
            Some("human" | "user") => {
                let (before, found) = task_in(said);
                goal = goal.or(found);
                seen = observation(before).to_owned();
            }
            Some("gpt" | "assistant") => {
                // What is said before the first action is consent to the instruction.
                if let Some((thought, action)) = thought_and_action(said) {
                    let observation = std::mem::take(&mut seen);
                    let (action, reasoning) = (action.to_owned(), thought.to_owned());
                    steps.push(EpisodeStep { observation, action, reasoning, reward: Some(0.0) });
                }
            }
            Some(_) | None => {}
        }
    }
    let goal = goal.ok_or_else(|| format!("no turn has a task (`{TASK_MARK}`)"))?;
    let reward = match record.get("reward") {
        Some(reward) => reward.as_f64().ok_or_else(|| "`reward` is not a number".to_owned())?,
        None => 1.0,
    };
    let last = steps.last_mut().ok_or_else(|| "no turn has an action".to_owned())?;
    last.reward = Some(reward);
    let game = record.get("game_file").and_then(Value::as_str);
    let id = match record.get("id") {
        Some(Value::String(id)) => id.clone(),
        Some(id @ Value::Number(_)) => id.to_string(),
        Some(_) | None => game.unwrap_or_default().to_owned(),
    };
    if id.is_empty() {
        return Err("`id` is missing".to_owned());
    }
    let is_house = game.is_some() || seen_in_house(&steps);
    let item = ItemId::new(game.map_or_else(|| id.clone(), str::to_owned));
    Ok(Episode {
        task_type: game.and_then(type_in_path).unwrap_or_default().to_owned(),
        environment: if is_house { "alfworld".to_owned() } else { String::new() },
        steps,
        last_observation: seen,
        ..Episode::new(format!("eto_{id}"), item, goal, reward >= 1.0, reward)
    })
}

/// The text before the task, and the task: the rest of its line.
fn task_in(said: &str) -> (&str, Option<String>) {
    for mark in [TASK_MARK, INSTRUCTION_MARK] {
        if let Some((before, task)) = said.split_once(mark) {
            let task = task.trim_start().lines().next().unwrap_or_default();
            let task = task.strip_prefix("[SEP]").unwrap_or(task).trim();
            if !task.is_empty() {
                return (before, Some(task.to_owned()));
            }
        }
    }
    (said, None)
}

fn observation(said: &str) -> &str {
    let said = said.trim();
    said.strip_prefix(OBSERVATION_MARK).unwrap_or(said).trim()
}

fn thought_and_action(said: &str) -> Option<(&str, &str)> {
    let (before, action) = said.split_once(ACTION_MARK)?;
    let action = action.trim_start().lines().next().unwrap_or_default().trim();
    let thought = before.trim();
    let thought = thought.strip_prefix(THOUGHT_MARK).unwrap_or(thought).trim();
    (!action.is_empty()).then_some((thought, action))
}

fn seen_in_house(steps: &[EpisodeStep]) -> bool {
    steps.first().is_some_and(|step| step.observation.starts_with("You are in the middle of a room."))
}

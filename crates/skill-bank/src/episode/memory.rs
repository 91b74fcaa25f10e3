//! Memories of the SkillRL paper: distilled trajectories in three nestings.

use super::alfworld::type_in_description;
use super::{Episode, EpisodeMistake, EpisodeStep};
use serde_json::Value;
use skill_core::ItemId;

const TRAJECTORY: &str = "refined_trajectory";
const GUIDELINES: &str = "strategic_guidelines";

pub(super) fn is_memory(record: &Value) -> bool {
    record.get("memory_id").is_some() && record.get("content").is_some_and(Value::is_object)
}

/// The episode of a memory.
///
/// Its observations are those after an action, so each is what the agent saw before the next one.
pub(super) fn read(record: &Value) -> Result<Episode, String> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().trim().to_owned();
    let id = text(record.get("memory_id"));
    let tags = record.get("tags");
    let outcome = text(tags.and_then(|tags| tags.get("outcome")));
    let success = match outcome.to_ascii_lowercase().as_str() {
        "success" => true,
        "failure" => false,
        _ => return Err(format!("`tags.outcome` is `{outcome}`, and not `Success` or `Failure`")),
    };
    let content = record.get("content");
    let meta = content.and_then(|content| content.get("task_meta"));
    let goal = text(meta.and_then(|meta| meta.get("original_goal")));
    if id.is_empty() || goal.is_empty() {
        return Err("`memory_id` or `content.task_meta.original_goal` is missing".to_owned());
    }
    let description = text(record.get("contextual_description"));
    let trajectory = nested(content.and_then(|content| content.get(TRAJECTORY)), TRAJECTORY);
    let guidelines = nested(content.and_then(|content| content.get(GUIDELINES)), GUIDELINES);
    let (steps, last_observation) = steps(trajectory);
    let pattern = text(guidelines.and_then(|guidelines| guidelines.get("planning_pattern")));
    let mistakes = guidelines.and_then(|guidelines| guidelines.get("mistakes_to_avoid"));
    let mistakes = mistakes.and_then(Value::as_array).into_iter().flatten();
    let mistakes = mistakes.map(|mistake| EpisodeMistake {
        trigger_condition: text(mistake.get("trigger_condition")),
        bad_action: text(mistake.get("bad_action")),
    });
    let environment = text(tags.and_then(|tags| tags.get("environment"))).to_lowercase();
    let source = meta.and_then(|meta| meta.get("data_source"));
    let source = source.or_else(|| tags.and_then(|tags| tags.get("data_source")));
    Ok(Episode {
        task_type: type_in_description(&description).unwrap_or_default().to_owned(),
        environment: if environment == "searchagent" { "search".to_owned() } else { environment },
        data_source: text(source),
        steps,
        last_observation,
        description,
        planning_pattern: (!pattern.is_empty()).then_some(pattern),
        mistakes: mistakes.collect(),
        ..Episode::new(id.clone(), ItemId::new(id), goal, success, if success { 1.0 } else { 0.0 })
    })
}

/// A value that may lie once more under its own name.
fn nested<'a>(value: Option<&'a Value>, name: &str) -> Option<&'a Value> {
    let value = value?;
    Some(value.get(name).unwrap_or(value))
}

fn steps(trajectory: Option<&Value>) -> (Vec<EpisodeStep>, String) {
    let text =
        |step: &Value, key: &str| step.get(key).and_then(Value::as_str).unwrap_or_default().trim().to_owned();
    let mut seen = String::new();
    let mut steps = Vec::new();
    for step in trajectory.and_then(Value::as_array).into_iter().flatten() {
        let after = text(step, "critical_observation");
        let observation = std::mem::replace(&mut seen, after);
        let (action, reasoning) = (text(step, "action"), text(step, "reasoning"));
        steps.push(EpisodeStep { observation, action, reasoning, reward: None });
    }
    (steps, seen)
}

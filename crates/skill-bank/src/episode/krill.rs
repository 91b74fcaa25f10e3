//! Trajectories of krill, read and written. Everything but the task and the steps may be missing.

use super::{Episode, EpisodeStep};
use crate::task_type::{Found, TypeTable};
use serde_json::{Value, json};
use skill_core::{ItemId, SkillPartId};

pub(super) fn is_trajectory(record: &Value) -> bool {
    record.get("task_description").is_some_and(Value::is_string)
        && record.get("steps").is_some_and(Value::is_array)
}

pub(super) fn read(record: &Value) -> Result<Episode, String> {
    let text = |value: &Value, key: &str| {
        value.get(key).and_then(Value::as_str).unwrap_or_default().trim().to_owned()
    };
    let goal = text(record, "task_description");
    let id = text(record, "id");
    if id.is_empty() || goal.is_empty() {
        return Err("`id` or `task_description` is missing".to_owned());
    }
    let steps = record.get("steps").and_then(Value::as_array).into_iter().flatten();
    let steps: Vec<EpisodeStep> = steps
        .map(|step| EpisodeStep {
            observation: text(step, "observation"),
            action: text(step, "action"),
            reasoning: text(step, "reasoning"),
            reward: step.get("reward").and_then(Value::as_f64),
        })
        .collect();
    let paid = || steps.iter().filter_map(|step| step.reward).sum::<f64>();
    let reward = record.get("total_reward").and_then(Value::as_f64).unwrap_or_else(paid);
    let success = record.get("success").and_then(Value::as_bool).unwrap_or(reward >= 1.0);
    let metadata = record.get("metadata");
    let item = metadata.map(|metadata| text(metadata, ITEM)).filter(|item| !item.is_empty());
    let used = metadata.and_then(|metadata| metadata.get("skills_used")).and_then(Value::as_array);
    let used = used.into_iter().flatten().filter_map(Value::as_str);
    Ok(Episode {
        task_type: text(record, "task_category"),
        environment: metadata.map(|metadata| text(metadata, "environment")).unwrap_or_default(),
        skills_shown: used.map(SkillPartId::new).collect(),
        steps,
        ..Episode::new(id.clone(), ItemId::new(item.unwrap_or(id)), goal, success, reward)
    })
}

/// The categories that krill knows in ALFWorld.
const CATEGORIES: [&str; 6] = ["Pick", "Look", "Clean", "Heat", "Cool", "PickTwo"];
/// The member of the metadata that names the task, which krill has no place for.
const ITEM: &str = "item";

/// Episodes as krill writes its trajectories: one list in JSON, which [`super::read_episodes`] reads again.
///
/// What krill has no place for is left out: messages and calls, the agent, the skill's hash, and what was seen last.
pub fn krill_trajectories(episodes: &[Episode]) -> String {
    let categories = TypeTable::default().detector(CATEGORIES);
    let trajectory = |episode: &Episode| {
        let steps: Vec<Value> = episode
            .steps
            .iter()
            .enumerate()
            .map(|(number, step)| {
                json!({
                    "observation": step.observation,
                    "action": step.action,
                    "reasoning": step.reasoning,
                    "reward": step.reward.unwrap_or_default(),
                    "step_index": number,
                    "action_log_prob": null,
                    "ref_log_prob": null,
                })
            })
            .collect();
        let category = categories.detect(&episode.task_type, "");
        json!({
            "id": episode.id,
            "task_description": episode.goal,
            "task_category": match category.found {
                Found::Environment => category.task_type.unwrap_or_default(),
                _ => episode.task_type.clone(),
            },
            "total_reward": episode.soft,
            "success": episode.success,
            "metadata": {
                "environment": episode.environment,
                "num_steps": steps.len(),
                "total_tokens": 0,
                "skills_used": episode.skills_shown,
                ITEM: episode.item,
            },
            "steps": steps,
        })
    };
    let list: Vec<Value> = episodes.iter().map(trajectory).collect();
    serde_json::to_string_pretty(&list).expect("episodes serialize") + "\n"
}

//! Trajectories of krill, read and written. Everything but the task and the steps may be missing.

use super::{Episode, EpisodeStep};
use crate::task_type::{Found, TypeTable};
use serde_json::{Map, Value, json};
use skill_core::member::{self, WrongType, kind_of};
use skill_core::{ItemId, SkillPartId};

pub(super) fn is_trajectory(record: &Value) -> bool {
    record.get("task_description").is_some_and(Value::is_string)
        && record.get("steps").is_some_and(Value::is_array)
}

/// The error is a member that is missing or of the wrong type; a success is never made of one.
pub(super) fn read(record: &Value) -> Result<Episode, String> {
    let record = record.as_object().ok_or_else(|| format!("the record is {}", kind_of(record)))?;
    let (goal, id) = (text(record, "task_description")?, text(record, "id")?);
    if id.is_empty() || goal.is_empty() {
        return Err("`id` or `task_description` is missing".to_owned());
    }
    let steps = member::list(record, "steps").map_err(message)?.into_iter().flatten();
    let steps = steps.map(step).collect::<Result<Vec<_>, _>>()?;
    let paid = || steps.iter().filter_map(|step| step.reward).sum::<f64>();
    let reward = member::number(record, "total_reward").map_err(message)?.unwrap_or_else(paid);
    let success = member::flag(record, "success").map_err(message)?.unwrap_or(reward >= 1.0);
    let nothing = Map::new();
    let metadata = member::object(record, "metadata").map_err(message)?.unwrap_or(&nothing);
    let item = Some(text(metadata, ITEM)?).filter(|item| !item.is_empty());
    let used = member::list(metadata, "skills_used").map_err(message)?.unwrap_or_default();
    let used: Option<Vec<SkillPartId>> =
        used.iter().map(|skill| skill.as_str().map(SkillPartId::new)).collect();
    Ok(Episode {
        task_type: text(record, "task_category")?,
        environment: text(metadata, "environment")?,
        skills_shown: used.ok_or("`skills_used` holds something else than texts")?,
        steps,
        ..Episode::new(id.clone(), ItemId::new(item.unwrap_or(id)), goal, success, reward)
    })
}

fn step(step: &Value) -> Result<EpisodeStep, String> {
    let fields = step.as_object().ok_or_else(|| format!("`steps` holds {}", kind_of(step)))?;
    Ok(EpisodeStep {
        observation: text(fields, "observation")?,
        action: text(fields, "action")?,
        reasoning: text(fields, "reasoning")?,
        reward: member::number(fields, "reward").map_err(message)?,
    })
}

/// A text, which is empty where it is missing.
fn text(fields: &Map<String, Value>, key: &str) -> Result<String, String> {
    Ok(member::text(fields, key).map_err(message)?.unwrap_or_default().trim().to_owned())
}

fn message(error: WrongType) -> String {
    error.to_string()
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

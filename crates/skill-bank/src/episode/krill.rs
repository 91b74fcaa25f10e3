//! Trajectories of krill. Everything but the task and the steps may be missing.

use super::{Episode, EpisodeStep};
use serde_json::Value;
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
    let used = metadata.and_then(|metadata| metadata.get("skills_used")).and_then(Value::as_array);
    let used = used.into_iter().flatten().filter_map(Value::as_str);
    Ok(Episode {
        task_type: text(record, "task_category"),
        environment: metadata.map(|metadata| text(metadata, "environment")).unwrap_or_default(),
        skills_shown: used.map(SkillPartId::new).collect(),
        steps,
        ..Episode::new(id.clone(), ItemId::new(id), goal, success, reward)
    })
}

//! What the server says of itself.

use serde_json::{Value, json};

/// The version of the interface in `/openapi.json` and `/metadata`.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The answer to `GET /metadata`; its README is what an agent needs to know to act.
pub(crate) fn metadata(name: &str, description: &str, instructions: &str) -> Value {
    json!({
        "name": name,
        "description": description,
        "readme_content": instructions,
        "version": VERSION,
        "author": null,
        "documentation_url": null,
    })
}

/// The answer to `GET /schema`: an action has exactly one required field.
pub(crate) fn schema() -> Value {
    let observation = json!({
        "type": "object",
        "title": "WorldObservation",
        "additionalProperties": false,
        "properties": {
            "done": {"type": "boolean", "default": false, "description": "Whether the episode is over"},
            "reward": {
                "anyOf": [{"type": "number"}, {"type": "null"}],
                "default": null,
                "description": "The reward of the last action alone",
            },
            "metadata": {
                "type": "object",
                "additionalProperties": true,
                "description": "After a reset the episode, its task and the skills that it is shown; at its end whether it is won",
            },
            "text": {"type": "string", "default": "", "description": "What the world shows, after the skills of a reset"},
            "admissible_commands": {
                "type": "array",
                "items": {"type": "string"},
                "description": "The commands that would do something now, where the world tells them",
            },
        },
    });
    json!({
        "action": {
            "type": "object",
            "title": "WorldAction",
            "additionalProperties": false,
            "properties": {
                "command": {"type": "string", "description": "What to do, or the answer of a task"},
                "metadata": {"type": "object", "additionalProperties": true, "description": "Not looked at"},
            },
            "required": ["command"],
        },
        "observation": observation,
        "state": {
            "type": "object",
            "title": "WorldState",
            "additionalProperties": true,
            "properties": {
                "episode_id": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null},
                "step_count": {"type": "integer", "minimum": 0, "default": 0},
                "task_id": {"type": "string"},
                "split": {"type": "string", "enum": ["train", "val", "test"]},
                "skill_version": {"type": "string"},
                "total_reward": {"type": "number"},
                "done": {"type": "boolean"},
                "won": {"type": "boolean"},
            },
        },
        "reset_observation": observation,
    })
}

/// The answer to `GET /openapi.json`.
pub(crate) fn openapi(name: &str, has_bank: bool) -> Value {
    let ok = json!({"responses": {"200": {"description": "OK"}}});
    let get = json!({"get": ok});
    let post = json!({"post": ok});
    let mut paths = serde_json::Map::new();
    for path in ["/health", "/metadata", "/schema", "/state", "/list_environments", "/{env_name}/splits"] {
        paths.insert(path.to_owned(), get.clone());
    }
    for path in [
        "/reset",
        "/step",
        "/mcp",
        "/{env_name}/tasks",
        "/{env_name}/num_tasks",
        "/{env_name}/task",
        "/{env_name}/task_range",
    ] {
        paths.insert(path.to_owned(), post.clone());
    }
    if has_bank {
        paths.insert("/bank".to_owned(), get);
        for path in ["/bank/results", "/bank/evolve"] {
            paths.insert(path.to_owned(), post.clone());
        }
    }
    json!({"openapi": "3.1.0", "info": {"title": name, "version": VERSION}, "paths": paths})
}

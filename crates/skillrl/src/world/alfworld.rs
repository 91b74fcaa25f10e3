//! From `[env]` with `kind = "alfworld"` to its games.

use super::wrong;
use crate::config::{AlfworldConfig, ConfigPath};
use crate::error::Error;
use skill_envs::World;
use skill_envs::alfworld::{self, AlfworldWorld, TaskType};
use std::sync::Arc;

/// The games of a data set, or generated ones.
pub(super) fn world(asked: &AlfworldConfig) -> Result<Arc<dyn World>, Error> {
    let path = |path: &Option<ConfigPath>| path.as_ref().map(ConfigPath::to_path);
    let generated = alfworld::GeneratedConfig::default();
    let config = alfworld::AlfworldConfig {
        data: path(&asked.games),
        splits: skill_envs::Splits {
            train: path(&asked.games_train),
            val: path(&asked.games_val),
            test: path(&asked.games_test),
        },
        task_types: asked.task_types.iter().map(|name| task_type(name)).collect::<Result<_, _>>()?,
        limits: skill_envs::Splits { train: asked.max_train, val: asked.max_val, test: asked.max_test },
        unplayable: asked.unplayable,
        generated: alfworld::GeneratedConfig {
            seed: asked.game_seed,
            train: asked.max_train.unwrap_or(generated.train),
            val: asked.max_val.unwrap_or(generated.val),
            test: asked.max_test.unwrap_or(generated.test),
            rooms: asked.rooms,
        },
    };
    let world = AlfworldWorld::new(&config).map_err(Error::Env)?;
    for reason in world.left_out() {
        tracing::warn!(reason, "a game is left out");
    }
    Ok(Arc::new(world))
}

fn task_type(name: &str) -> Result<TaskType, Error> {
    TaskType::parse(name).ok_or_else(|| {
        let known = TaskType::ALL.map(TaskType::as_str).join(", ");
        wrong(format!("`env.task_types` names `{name}`, which is none of {known}"))
    })
}

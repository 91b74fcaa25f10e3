//! From `[env]` to the environment of its kind; of worlds, to the world and the agent that plays it.

use super::live::{LiveKind, live};
use super::{env_error, replaced_prompt};
use crate::config::keys::declare::Fill;
use crate::config::{AlfworldConfig, EnvConfig, GoalSplit, LoadedConfig, WebshopConfig};
use crate::error::Error;
use skill_envs::agent::{AgentSettings, ROLLOUT_PROMPT_NAME, WorldEnv};
use skill_envs::alfworld::{self, AlfworldWorld, TaskType};
use skill_envs::webshop::{self, WebshopWorld};
use skill_envs::{Env, EnvError, World};
use skill_llm::ChatModel;
use std::sync::Arc;

/// The environment of a configuration.
pub(super) fn environment(
    loaded: &LoadedConfig,
    judge: Option<Arc<dyn ChatModel>>,
) -> Result<Arc<dyn Env>, Error> {
    match &loaded.config.env {
        EnvConfig::Qa(asked) => super::qa_environment(loaded, asked),
        EnvConfig::Tasks(asked) => super::tasks::environment(loaded, asked, judge),
        EnvConfig::Alfworld(asked) => {
            played(loaded, alfworld(loaded, asked)?, asked.as_ref(), asked.max_tokens)
        }
        EnvConfig::Webshop(asked) => {
            played(loaded, webshop(loaded, asked)?, asked.as_ref(), asked.max_tokens)
        }
        EnvConfig::Exec(asked) => super::exec::environment(loaded, asked),
    }
}

/// The world of a configuration; `None` where the environment is none.
///
/// # Errors
///
/// Games, products or tasks that are not what they should be.
pub fn world(loaded: &LoadedConfig) -> Result<Option<Arc<dyn World>>, Error> {
    let world: Result<Arc<dyn World>, Error> = match &loaded.config.env {
        EnvConfig::Qa(_) => return Ok(None),
        EnvConfig::Tasks(asked) => super::tasks::world(loaded, asked),
        EnvConfig::Alfworld(asked) => alfworld(loaded, asked),
        EnvConfig::Webshop(asked) => webshop(loaded, asked),
        EnvConfig::Exec(asked) => return super::exec::world(loaded, asked),
    };
    world.map(Some)
}

/// An agent that plays this world, with the settings that the configuration of the world has.
pub(super) fn played(
    loaded: &LoadedConfig,
    world: Arc<dyn World>,
    asked: &impl Fill<AgentSettings>,
    max_tokens: Option<u32>,
) -> Result<Arc<dyn Env>, Error> {
    let prompt = replaced_prompt(loaded, ROLLOUT_PROMPT_NAME)?;
    let mut settings = AgentSettings { max_tokens, ..AgentSettings::default() };
    asked.fill(&mut settings);
    let env = WorldEnv::new(world, settings, prompt.as_deref());
    Ok(Arc::new(env.map_err(|error| env_error(loaded, error))?))
}

pub(super) fn wrong(message: String) -> Error {
    Error::Env(EnvError::Configuration { message })
}

fn alfworld(loaded: &LoadedConfig, asked: &AlfworldConfig) -> Result<Arc<dyn World>, Error> {
    if !asked.servers.is_empty() || asked.server_tasks.is_some() {
        let tasks = (asked.server_tasks.as_ref(), asked.server_timeout_s);
        return live(loaded, LiveKind::Alfworld, &asked.servers, tasks);
    }
    let path = |path: &Option<_>| path.as_ref().map(|path| loaded.resolve(path));
    let generated = alfworld::GeneratedConfig::default();
    let config = alfworld::AlfworldConfig {
        data: path(&asked.games),
        splits: alfworld::SplitSources {
            train: path(&asked.games_train),
            val: path(&asked.games_val),
            test: path(&asked.games_test),
        },
        task_types: asked.task_types.iter().map(|name| task_type(name)).collect::<Result<_, _>>()?,
        limits: alfworld::SplitLimits { train: asked.max_train, val: asked.max_val, test: asked.max_test },
        unplayable: asked.unplayable,
        generated: alfworld::GeneratedConfig {
            seed: asked.game_seed,
            train: asked.max_train.unwrap_or(generated.train),
            val: asked.max_val.unwrap_or(generated.val),
            test: asked.max_test.unwrap_or(generated.test),
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

fn webshop(loaded: &LoadedConfig, asked: &WebshopConfig) -> Result<Arc<dyn World>, Error> {
    if !asked.servers.is_empty() || asked.server_tasks.is_some() {
        let tasks = (asked.server_tasks.as_ref(), asked.server_timeout_s);
        return live(loaded, LiveKind::Webshop, &asked.servers, tasks);
    }
    let path = |path: &Option<_>| path.as_ref().map(|path| loaded.resolve(path));
    let by_ratio = asked.goal_split == GoalSplit::Ratio || asked.products.is_none();
    let config = webshop::WebshopConfig {
        products: path(&asked.products),
        attributes: path(&asked.attributes),
        instructions: path(&asked.instructions),
        n_products: asked.max_products,
        goal_kind: asked.goal_kind,
        goals: path(&asked.goals),
        prices: path(&asked.prices),
        nouns: path(&asked.nouns),
        missing_products: asked.missing_products,
        seed: asked.shop_seed,
        show_attributes: asked.show_attributes,
        observation: asked.observation,
        previous_observations: asked.previous_observations,
        previous_actions: asked.previous_actions,
        ranges: None,
        split_ratio: by_ratio.then_some(asked.split_ratio),
        split_rule: asked.split_rule,
        split_seed: asked.split_seed,
        limits: [asked.max_train, asked.max_val, asked.max_test],
    };
    Ok(Arc::new(WebshopWorld::load(&config).map_err(Error::Env)?))
}

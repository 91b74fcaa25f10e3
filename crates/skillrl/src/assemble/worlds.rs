//! From `[env]` of a kind that is a world to that world, and to the agent that plays it.

use super::{env_error, replaced_prompt};
use crate::config::{
    AgentKeys, AlfworldConfig, EnvConfig, GoalSplit, LoadedConfig, MissingShopProducts, ShopGoals, ShopPages,
    UnplayableGames, WebshopConfig, WorldActionFormat,
};
use crate::error::Error;
use crate::secrets;
use skill_envs::agent::{ActionFormat, AgentSettings, ROLLOUT_PROMPT_NAME, WorldEnv};
use skill_envs::alfworld::{self, AlfworldWorld, TaskType};
use skill_envs::live::{LiveConfig, LiveKind, LiveWorld};
use skill_envs::webshop::{self, WebshopWorld};
use skill_envs::{Env, EnvError, Split, World, tasks};
use skill_llm::ReqwestTransport;
use skill_llm::transport::ScrubbedTransport;
use std::path::PathBuf;
use std::sync::Arc;

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

/// An agent that plays this world.
pub(super) fn played(
    loaded: &LoadedConfig,
    world: Arc<dyn World>,
    keys: AgentKeys,
) -> Result<Arc<dyn Env>, Error> {
    let prompt = replaced_prompt(loaded, ROLLOUT_PROMPT_NAME)?;
    let env = WorldEnv::new(world, agent_settings(keys), prompt.as_deref());
    Ok(Arc::new(env.map_err(|error| env_error(loaded, error))?))
}

fn agent_settings(keys: AgentKeys) -> AgentSettings {
    AgentSettings {
        action_format: match keys.action_format {
            WorldActionFormat::Tags => ActionFormat::Tags,
            WorldActionFormat::Tool => ActionFormat::Tool,
        },
        think: keys.think,
        show_admissible: keys.show_admissible,
        history_turns: Some(keys.history_turns),
        max_turns: keys.max_turns,
        max_episode_tokens: keys.max_episode_tokens,
        max_tokens: keys.max_tokens,
        max_invalid_actions: Some(keys.max_invalid_actions),
        invalid_action_penalty: keys.invalid_action_penalty,
        max_repetitions: Some(keys.max_repetitions),
        ..AgentSettings::default()
    }
}

fn wrong(message: String) -> Error {
    Error::Env(EnvError::Configuration { message })
}

pub(super) fn alfworld(loaded: &LoadedConfig, asked: &AlfworldConfig) -> Result<Arc<dyn World>, Error> {
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
        unplayable: match asked.unplayable {
            UnplayableGames::Refuse => alfworld::Unplayable::Refuse,
            UnplayableGames::LeaveOut => alfworld::Unplayable::LeaveOut,
        },
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

pub(super) fn webshop(loaded: &LoadedConfig, asked: &WebshopConfig) -> Result<Arc<dyn World>, Error> {
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
        goal_kind: match asked.goal_kind {
            ShopGoals::Human => webshop::GoalKind::Human,
            ShopGoals::Synthetic => webshop::GoalKind::Synthetic,
        },
        goals: path(&asked.goals),
        prices: path(&asked.prices),
        nouns: path(&asked.nouns),
        missing_products: match asked.missing_products {
            MissingShopProducts::Skip => webshop::MissingProducts::Skip,
            MissingShopProducts::Error => webshop::MissingProducts::Error,
        },
        seed: asked.shop_seed,
        show_attributes: asked.show_attributes,
        observation: match asked.observation {
            ShopPages::Text => webshop::ObservationForm::Text,
            ShopPages::TextRich => webshop::ObservationForm::TextRich,
        },
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

/// A world on servers; without addresses, on the one that usually serves it.
fn live(
    loaded: &LoadedConfig,
    kind: LiveKind,
    servers: &[String],
    (tasks, timeout_s): (Option<&crate::config::AskedPath>, u64),
) -> Result<Arc<dyn World>, Error> {
    let Some(lists) = tasks else {
        let message = "`env.servers` needs `env.server_tasks`: a directory with the ids of the servers' tasks, as lists \
                       train, val and test";
        return Err(wrong(message.to_owned()));
    };
    let lists: PathBuf = loaded.resolve(lists);
    let optional: &[Split] = if loaded.config.eval.test { &[] } else { &[Split::Test] };
    let tasks = tasks::read_split_ids(&lists, optional).map_err(Error::Env)?;
    let config = LiveConfig {
        kind,
        servers: servers.to_vec(),
        tasks: tasks.map(|ids| ids.iter().map(|id| id.as_str().to_owned()).collect()),
        timeout_s: timeout_s as f64,
    };
    let transport =
        ReqwestTransport::new().map_err(|error| wrong(format!("no HTTP client can be made: {error}")))?;
    let transport = Arc::new(ScrubbedTransport::new(Arc::new(transport), secrets::known(loaded)));
    Ok(Arc::new(LiveWorld::with_transport(&config, transport).map_err(Error::Env)?))
}

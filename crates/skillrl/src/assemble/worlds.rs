//! From `[env]` to the environment of its kind; of worlds, to the world and the agent that plays it.

use super::live::{LiveKind, live};
use super::{env_error, replaced_prompt};
use crate::config::keys::declare::Fill;
use crate::config::{AlfworldConfig, EnvConfig, LoadedConfig, WebshopConfig};
use crate::error::Error;
#[cfg(any(feature = "alfworld", feature = "live"))]
use skill_envs::EnvError;
use skill_envs::agent::{AgentSettings, ROLLOUT_PROMPT_NAME, WorldEnv};
use skill_envs::{AnswerWorld, Env, World};
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
        #[cfg(feature = "exec")]
        EnvConfig::Exec(asked) => super::exec::environment(loaded, asked),
        #[cfg(not(feature = "exec"))]
        EnvConfig::Exec(_) => Err(left_out("exec")),
    }
}

/// The world of a configuration; `None` where the environment is none. A judge is not asked.
///
/// # Errors
///
/// Games, products or tasks that are not what they should be.
pub fn world(loaded: &LoadedConfig) -> Result<Option<Arc<dyn World>>, Error> {
    world_with(loaded, None)
}

/// As [`world`], with the model that grades answers, see [`crate::engine::Engine::judge`].
///
/// # Errors
///
/// As [`world`].
pub fn world_with(
    loaded: &LoadedConfig,
    judge: Option<Arc<dyn ChatModel>>,
) -> Result<Option<Arc<dyn World>>, Error> {
    let world: Result<Arc<dyn World>, Error> = match &loaded.config.env {
        EnvConfig::Qa(asked) => {
            super::qa_environment(loaded, asked).map(|env| Arc::new(AnswerWorld::new(env)) as Arc<dyn World>)
        }
        EnvConfig::Tasks(asked) => super::tasks::world(loaded, asked, judge),
        EnvConfig::Alfworld(asked) => alfworld(loaded, asked),
        EnvConfig::Webshop(asked) => webshop(loaded, asked),
        #[cfg(feature = "exec")]
        EnvConfig::Exec(asked) => return super::exec::world(loaded, asked),
        #[cfg(not(feature = "exec"))]
        EnvConfig::Exec(_) => Err(left_out("exec")),
    };
    world.map(Some)
}

/// The most turns of an episode, as the configuration of a world says; `None` for tasks, which end by themselves.
pub fn max_turns(loaded: &LoadedConfig) -> Option<u32> {
    let mut settings = AgentSettings::default();
    match &loaded.config.env {
        EnvConfig::Qa(_) | EnvConfig::Tasks(_) => return None,
        EnvConfig::Alfworld(asked) => asked.as_ref().fill(&mut settings),
        EnvConfig::Webshop(asked) => asked.as_ref().fill(&mut settings),
        EnvConfig::Exec(asked) => asked.as_ref().fill(&mut settings),
    }
    Some(settings.max_turns)
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

/// An environment that this build lacks.
#[cfg(not(all(feature = "alfworld", feature = "exec", feature = "webshop")))]
fn left_out(feature: &'static str) -> Error {
    Error::LeftOut { what: format!("`env.kind = \"{feature}\"`"), feature }
}

#[cfg(any(feature = "alfworld", feature = "live"))]
pub(super) fn wrong(message: String) -> Error {
    Error::Env(EnvError::Configuration { message })
}

fn alfworld(loaded: &LoadedConfig, asked: &AlfworldConfig) -> Result<Arc<dyn World>, Error> {
    if !asked.servers.is_empty() || asked.server_tasks.is_some() {
        let tasks = (asked.server_tasks.as_ref(), asked.server_timeout_s);
        let limits = [asked.max_train, asked.max_val, asked.max_test];
        return live(loaded, LiveKind::Alfworld, &asked.servers, tasks, limits);
    }
    #[cfg(feature = "alfworld")]
    return super::alfworld::world(loaded, asked);
    #[cfg(not(feature = "alfworld"))]
    Err(left_out("alfworld"))
}

fn webshop(loaded: &LoadedConfig, asked: &WebshopConfig) -> Result<Arc<dyn World>, Error> {
    if !asked.servers.is_empty() || asked.server_tasks.is_some() {
        let tasks = (asked.server_tasks.as_ref(), asked.server_timeout_s);
        let limits = [asked.max_train, asked.max_val, asked.max_test];
        return live(loaded, LiveKind::Webshop, &asked.servers, tasks, limits);
    }
    #[cfg(feature = "webshop")]
    return super::webshop::world(loaded, asked);
    #[cfg(not(feature = "webshop"))]
    Err(left_out("webshop"))
}

#[cfg(all(test, not(any(feature = "alfworld", feature = "exec", feature = "webshop"))))]
mod tests {
    use super::environment;
    use crate::config::Config;
    use crate::error::Error;

    #[test]
    fn left_out_environments_name_their_feature() {
        let models = "[models]\ntarget = { kind = \"simulated\" }\noptimizer = { kind = \"simulated\" }\n";
        for kind in ["alfworld", "exec", "webshop"] {
            let program = if kind == "exec" { "program = [\"true\"]\n" } else { "" };
            let text = format!("{models}[env]\nkind = \"{kind}\"\n{program}");
            let loaded = Config::parse(&text, "skillrl.toml", &[]).unwrap();
            let Err(Error::LeftOut { feature, .. }) = environment(&loaded, None) else {
                panic!("an environment was made")
            };
            assert_eq!(feature, kind);
        }
    }
}

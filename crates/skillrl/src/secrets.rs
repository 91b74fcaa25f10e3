//! Which secrets a run has: what its servers and programs may send back, and nothing else may see.

use crate::config::{LoadedConfig, ModelConfig};
use skill_llm::process::Passed;
use skill_llm::{ApiKey, Secrets};

/// The secrets of a run, with those that its configuration names: keys of all models and of the broker, and variables that programs are
/// passed where they hold secrets.
///
/// All that is built from one configuration shares the list. Keys that a command prints are added when it has; what is
/// not set is missed by anyone who needs it, and not here.
pub(crate) fn known(loaded: &LoadedConfig) -> Secrets {
    let secrets = loaded.secrets.clone();
    for model in loaded.config.models.all() {
        match model {
            ModelConfig::Served { config, .. } => {
                let variable = config.key_variable();
                if let Some(Ok(key)) = variable.map(|name| ApiKey::from_env(name, &config.base_url)) {
                    secrets.add(&key);
                }
            }
            ModelConfig::Agent(agent) => {
                Passed::new(agent.pass_env.as_deref().unwrap_or_default()).tell(&secrets);
            }
            ModelConfig::Local(_) | ModelConfig::Scripted(_) | ModelConfig::Simulated(_) => {}
        }
    }
    if let Some(asked) = &loaded.config.models.embedding
        && let Some(Ok(key)) = asked.key_variable().map(|name| ApiKey::from_env(name, &asked.base_url))
    {
        secrets.add(&key);
    }
    if let Some(asked) = &loaded.config.tinker
        && let Some(Ok(key)) =
            asked.api_key_env.as_deref().map(|name| ApiKey::from_env(name, &asked.base_url))
    {
        secrets.add(&key);
    }
    if let Some(asked) = &loaded.config.run.nats {
        for variable in [&asked.password_env, &asked.nkey_env].into_iter().flatten() {
            if let Ok(secret) = ApiKey::from_env(variable, &asked.url) {
                secrets.add(&secret);
            }
        }
    }
    Passed::new(loaded.config.env.pass_env()).tell(&secrets);
    secrets
}

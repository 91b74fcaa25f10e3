//! From a configuration to an estimate of its run.

use super::{Assumptions, Estimate, MAX_STEPS, forecast, foreseen, n_steps, probe};
use crate::config::{Config, LoadedConfig};
use crate::engine::Engine;
use crate::{Error, prompts, skills, trainer, world};
use skill_core::SkillDoc;
use skill_envs::{Env, Split};
use skill_pipeline::prompts::PromptLibrary;
use skill_pipeline::{PipelineError, TrainSettings};
use std::sync::Arc;

/// What the estimate of a run is based on, read and set up; nothing was sent.
pub struct Prepared {
    env: Arc<dyn Env>,
    prompts: PromptLibrary,
    settings: TrainSettings,
    skill: SkillDoc,
    config: Config,
}

impl Prepared {
    /// Reads the data, the prompts and the skill. An environment that is a program is started.
    ///
    /// # Errors
    ///
    /// What a run would not begin with, and a run of more than a million steps.
    pub fn new(loaded: &LoadedConfig) -> Result<Self, Error> {
        let env = world::environment(loaded, Engine::without_keys(loaded).judge()?)?;
        let prompts = prompts::library(&loaded.config.prompts, env.as_ref())?;
        let settings = trainer::settings(&loaded.config)?;
        settings.validate()?;
        let skill = skills::first_skill(&loaded.config.skill, env.as_ref())?.unwrap_or_default();
        let steps = n_steps(env.items(Split::Train).len(), &foreseen(&settings, env.as_ref()));
        if steps > MAX_STEPS {
            return Err(Error::TooManySteps { steps });
        }
        Ok(Self { env, prompts, settings, skill, config: loaded.config.clone() })
    }

    /// The environment of the run.
    pub fn env(&self) -> &dyn Env {
        self.env.as_ref()
    }

    /// Says what the run will take.
    ///
    /// # Errors
    ///
    /// A prompt that does not render.
    pub async fn estimate(&self) -> Result<Estimate, Error> {
        let max_tokens = self.config.models.target.max_tokens();
        let planned = foreseen(&self.settings, self.env.as_ref());
        let probing = probe(self.env.as_ref(), &self.prompts, &self.skill, &planned, max_tokens);
        let probed = probing.await.map_err(|error| Error::Pipeline(PipelineError::Prompt(error)))?;
        Ok(forecast(&probed, &self.settings, &self.config, Assumptions::default()))
    }
}

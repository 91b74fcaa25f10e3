//! The skills that prompts of a policy hold.

use super::{bank_source, first_skill, initial_bank, retrieval};
use crate::config::LoadedConfig;
use crate::engine::Engine;
use crate::error::Error;
use skill_envs::source::document;
use skill_envs::{Env, SkillSource};
use skill_pipeline::bank_dir::read_bank;
use std::path::Path;
use std::sync::Arc;

/// The skills that prompts hold: those of this bank, else of the bank of the configuration, else its skill.
pub(crate) fn source(
    loaded: &LoadedConfig,
    bank: Option<&Path>,
    env: &dyn Env,
) -> Result<Arc<dyn SkillSource>, Error> {
    let config = &loaded.config;
    let skill = first_skill(&config.skill, env)?;
    let bank = match bank {
        Some(path) => Some(read_bank(path)?.bank),
        None => initial_bank(config.bank.as_ref())?.map(|(bank, _)| bank),
    };
    let Some(bank) = bank else { return Ok(document(&skill.unwrap_or_default())) };
    let embedding = Engine::new(loaded).retrieval_model()?;
    let retrieval = retrieval(config.retrieval.as_ref(), embedding.as_deref())?;
    let frame = skill.filter(|skill| !skill.is_blank());
    let source = bank_source(bank.view(), &retrieval, embedding, frame)?;
    Ok(Arc::new(source))
}

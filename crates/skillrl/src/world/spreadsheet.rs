//! From `[env]` with `kind = "spreadsheet"` to its environment.

use super::{Around, Programs, wrong};
use crate::config::{ConfigPath, SpreadsheetConfig as Asked};
use crate::error::Error;
use skill_core::RatioSplit;
use skill_envs::Env;
use skill_envs::choices::{Recalculate, SandboxKind};
use skill_envs::spreadsheet::{
    ContainerConfig, ROLLOUT_PROMPT_NAME, SandboxChoice, SpreadsheetConfig, SpreadsheetEnv, describe_programs,
};
use skill_envs::tasks::Splitting;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The environment.
pub(super) fn environment(asked: &Asked, around: &Around<'_>) -> Result<Arc<dyn Env>, Error> {
    let env = SpreadsheetEnv::load(config(asked, around)?).map_err(|error| around.error(error))?;
    Ok(Arc::new(env))
}

/// What programs run in.
pub(super) fn programs(asked: &Asked, around: &Around<'_>) -> Result<Programs, Error> {
    let described = describe_programs(&config(asked, around)?).map_err(Error::Env)?;
    let lacks_calculation = asked.recalculate == Recalculate::Auto && !described.calculates;
    Ok(Programs { lines: described.lines, lacks_calculation })
}

fn config(asked: &Asked, around: &Around<'_>) -> Result<SpreadsheetConfig, Error> {
    let sandbox = match (asked.sandbox.unwrap_or_default(), &asked.sandbox_image) {
        (SandboxKind::Auto, _) => SandboxChoice::Auto,
        (SandboxKind::Off, _) => SandboxChoice::Off,
        (SandboxKind::Container, Some(image)) => SandboxChoice::Container(ContainerConfig {
            engine: asked.sandbox_engine.clone(),
            image: image.clone(),
            runtime: asked.sandbox_runtime.clone(),
            flags: asked.sandbox_flags.clone(),
        }),
        (SandboxKind::Container, None) => {
            return Err(wrong(
                "`env.sandbox` is \"container\", and `env.sandbox_image` names no image".to_owned(),
            ));
        }
    };
    Ok(SpreadsheetConfig {
        splitting: match &asked.split_ids {
            Some(lists) => Splitting::Ids(lists.to_path()),
            None => Splitting::PartsOrRatio(RatioSplit {
                ratio: asked.split_ratio,
                rule: asked.split_rule,
                seed: asked.split_seed,
            }),
        },
        test_is_optional: around.test_is_optional,
        mode: asked.mode,
        max_rounds: asked.max_rounds,
        review_rounds: asked.review_rounds,
        feedback_rounds: asked.feedback_rounds,
        compare: asked.compare,
        recalculate: asked.recalculate,
        max_tokens: asked.max_tokens,
        prompt: around.replaced(ROLLOUT_PROMPT_NAME)?,
        sandbox,
        python: asked.python.as_ref().map(|python| program(python, around)),
        program_timeout: Duration::from_secs(asked.program_timeout_s),
        program_memory: asked.program_memory_mb << 20,
        programs: asked.programs,
        cache: crate::caches::cache_dir("programs"),
        ..SpreadsheetConfig::new(ConfigPath::to_path(&asked.data))
    })
}

/// A program by its name, or by a path from the directory of the configuration.
fn program(name: &str, around: &Around<'_>) -> PathBuf {
    if name.contains('/') { around.dir.join(name) } else { name.into() }
}

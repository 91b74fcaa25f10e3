//! From `[env]` with `kind = "evals"` to its environment.

use super::{Around, wrong};
use crate::config::{ConfigPath, EvalsConfig as Asked, LoadedConfig, ModelConfig};
use crate::error::Error;
use skill_envs::Env;
use skill_envs::evals::{EvalsConfig, EvalsEnv, GRADER_PROMPT_NAME, SandboxChoice};
use skill_llm::ChatModel;
use skill_llm::agent::SkillAs;
use std::sync::Arc;

/// The value of `gate.guard` for the checks that guard.
const GUARD_CHECKS: &str = "checks";

/// The environment; its target has to be a coding agent that gets the skill as a package.
pub(super) fn environment(
    asked: &Asked,
    loaded: &LoadedConfig,
    judge: Option<Arc<dyn ChatModel>>,
    around: &Around<'_>,
) -> Result<Arc<dyn Env>, Error> {
    let target = &loaded.config.models.target;
    let is_package = |skill_as: SkillAs| match skill_as {
        SkillAs::Package | SkillAs::PackageWithHint => true,
        SkillAs::Prompt => false,
    };
    if !matches!(target, ModelConfig::Agent(agent) if is_package(agent.skill_as)) {
        return Err(wrong(
            "`env.kind` is \"evals\", whose target is a coding agent that finds its skill as a package: set \
             `models.target` to { kind = \"agent\", agent = \"claude\", model = \"default\", skill_as = \"package\", sandbox = \"workspace\" }"
                .to_owned(),
        ));
    }
    if let Some(guard) = around.guard.filter(|guard| *guard != GUARD_CHECKS) {
        return Err(wrong(format!(
            "`gate.guard` is {guard:?}; of cases it is {GUARD_CHECKS:?}, the checks with \"guard\": true"
        )));
    }
    let config = EvalsConfig {
        cases: ConfigPath::to_path(&asked.cases),
        exclude: asked.exclude.clone(),
        is_for_measuring: asked.measure_only,
        is_graded: asked.grader.is_some(),
        prompt: around.replaced(GRADER_PROMPT_NAME)?,
        sandbox: SandboxChoice::Auto,
        needs_guard: around.guard.is_some(),
    };
    // Those who only look at the cases have no models.
    Ok(Arc::new(EvalsEnv::load(&config, judge).map_err(|error| around.error(error))?))
}

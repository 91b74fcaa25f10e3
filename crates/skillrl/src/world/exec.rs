//! From `[env]` with `kind = "exec"` to the program that is the environment.

use super::tasks::rubric;
use super::{Around, played};
use crate::config::{ConfigPath, ExecConfig as Asked};
use crate::error::Error;
use crate::skills::read_skill;
use skill_envs::exec::{ExecConfig, ExecDeadlines, ExecLimits, ExecProgram, Mode, SkillDelivery};
use skill_envs::judged::JudgedEnv;
use skill_envs::tasks::{JUDGE_PROMPT_NAME, RubricConfig};
use skill_envs::{Env, EnvError, World};
use skill_llm::ChatModel;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};

/// The environment: a program that runs its own agent, or one that is stepped through by ours.
pub(super) fn environment(
    asked: &Asked,
    judge: Option<Arc<dyn ChatModel>>,
    around: &Around<'_>,
) -> Result<Arc<dyn Env>, Error> {
    let program = start(asked, around)?;
    match program.mode() {
        Mode::Rollout => {
            check_caps(asked, around)?;
            let env = Arc::new(program.env().map_err(Error::Env)?);
            match judge {
                Some(judge) => Ok(Arc::new(judged(env, judge, asked, around)?)),
                None => Ok(env),
            }
        }
        Mode::Step => played(Arc::new(program.world().map_err(Error::Env)?), asked, asked.max_tokens, around),
    }
}

/// The environment with a judge for rollouts without a score.
fn judged(
    env: Arc<dyn Env>,
    judge: Arc<dyn ChatModel>,
    asked: &Asked,
    around: &Around<'_>,
) -> Result<JudgedEnv, Error> {
    let rubric = RubricConfig {
        rubric: rubric(asked.rubric.as_deref(), asked.rubric_file.as_ref())?,
        pass_score: asked.pass_score,
        prompt: around.replaced(JUDGE_PROMPT_NAME)?,
    };
    JudgedEnv::new(env, judge, rubric).map_err(|error| around.error(error))
}

/// Refuses a cap that nothing holds to: calls that a program makes by itself are not seen here.
fn check_caps(asked: &Asked, around: &Around<'_>) -> Result<(), Error> {
    match around.capped {
        Some(key) if !asked.endpoint => {
            let message = format!(
                "`{key}` cannot hold: the program runs its own agent and `env.endpoint` is false, so its calls do \
                 not pass here; set `env.endpoint` to true and give the agent's client the `endpoint` of the \
                 request, or remove the cap (`budget.tokens` holds for the `usage` that the program reports)"
            );
            Err(Error::Env(EnvError::Configuration { message }))
        }
        Some(_) | None => Ok(()),
    }
}

/// The program as a world; `None` if it runs its own agent.
pub(super) fn world(asked: &Asked, around: &Around<'_>) -> Result<Option<Arc<dyn World>>, Error> {
    let program = start(asked, around)?;
    match program.mode() {
        Mode::Rollout => Ok(None),
        Mode::Step => Ok(Some(Arc::new(program.world().map_err(Error::Env)?))),
    }
}

/// Starts the program, on a runtime that outlives whatever calls this and ends with all that is made of the program.
fn start(asked: &Asked, around: &Around<'_>) -> Result<ExecProgram, Error> {
    let config = config(asked, around)?;
    let failed = |source: std::io::Error| {
        let message = format!("the runtime of the program cannot be started: {source}");
        Error::Env(EnvError::Configuration { message })
    };
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(failed)?;
    let runtime = Arc::new(Background(Some(runtime)));
    let guard = Arc::clone(&runtime);
    // A thread of its own, since anyone who calls this may be in a runtime already.
    let program = std::thread::scope(|scope| {
        let start = |runtime: &Runtime| runtime.block_on(ExecProgram::start_with_guard(config, guard));
        scope.spawn(|| runtime.0.as_ref().map(start)).join().ok().flatten()
    });
    match program {
        Some(program) => program.map_err(Error::Env),
        None => Err(failed(std::io::Error::other("its thread has ended"))),
    }
}

fn config(asked: &Asked, around: &Around<'_>) -> Result<ExecConfig, Error> {
    let replaces = asked.skill_delivery == SkillDelivery::Replace;
    let initial = around.initial_skill.as_deref().filter(|_| replaces).map(read_skill).transpose()?;
    Ok(ExecConfig {
        command: asked.program.clone(),
        directory: Some(asked.program_dir.as_ref().map_or_else(|| around.dir.clone(), ConfigPath::to_path)),
        set_env: asked.set_env.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        pass_env: asked.pass_env.clone(),
        settings: asked.settings.clone(),
        data: asked.items.as_ref().map(ConfigPath::to_path),
        split_ratio: asked.split_ratio,
        split_rule: asked.split_rule,
        split_seed: asked.split_seed,
        test_is_optional: around.test_is_optional,
        seed: around.seed,
        processes: asked.processes,
        process_per_rollout: asked.process_per_rollout,
        skill: asked.skill_delivery,
        initial_skill: initial.map(|skill| skill.agent_view().into()),
        endpoint: asked.endpoint,
        has_judge: asked.rubric.is_some() || asked.rubric_file.is_some(),
        on_error: asked.on_error,
        max_errors: asked.max_errors,
        deadlines: ExecDeadlines {
            start_seconds: asked.start_timeout_s as f64,
            reset_seconds: asked.reset_timeout_s as f64,
            step_seconds: asked.step_timeout_s as f64,
            rollout_seconds: asked.rollout_timeout_s as f64,
        },
        limits: ExecLimits::default(),
        secrets: around.secrets.clone(),
    })
}

/// A runtime that ends without being waited for: it may be dropped inside another one.
struct Background(Option<Runtime>);

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

//! What the training of a document and that of a bank have in common.

use super::RunShell;
use super::calls::{CallSettings, RunCalls};
use crate::settings::TrainSettings;
use crate::stage::rollout::Rollouts;
use skill_core::SkillDoc;
use skill_envs::{Env, RolloutRunner};
use skill_llm::{ChatModel, Metered};
use std::sync::Arc;

/// An environment, the agent in it, the model that improves what the agent is shown, and everything around a run of
/// these.
///
/// A `Trainer` is turned into one, so that its builder serves both.
#[derive(Clone)]
pub struct RunBase {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) target: Arc<dyn ChatModel>,
    /// The optimizer of a document, or the teacher of a bank.
    pub(crate) optimizer: Arc<dyn ChatModel>,
    pub(crate) settings: TrainSettings,
    pub(crate) initial_skill: Option<SkillDoc>,
    pub(crate) runner: Option<Arc<dyn RolloutRunner>>,
    pub(crate) shell: RunShell,
    pub(crate) calls: CallSettings,
}

impl RunBase {
    pub(crate) fn new(env: Arc<dyn Env>, target: Arc<dyn ChatModel>, optimizer: Arc<dyn ChatModel>) -> Self {
        Self {
            env,
            target,
            optimizer,
            settings: TrainSettings::default(),
            initial_skill: None,
            runner: None,
            shell: RunShell::default(),
            calls: CallSettings::default(),
        }
    }

    /// The skill that the run starts from, if the caller or the environment has one.
    pub(crate) fn first_skill(&self) -> Option<SkillDoc> {
        self.initial_skill.clone().or_else(|| self.env.initial_skill())
    }

    /// Rollouts of the agent, made by the runner if there is one, whose calls are kept.
    pub(crate) fn rollouts(&self, calls: &RunCalls) -> Rollouts {
        let judge = self.env.judge().map(|judge| metered(judge, calls));
        let rollouts = Rollouts::local(Arc::clone(&self.env), metered(&self.target, calls), judge);
        match &self.runner {
            Some(runner) => rollouts.with_runner(Arc::clone(runner)),
            None => rollouts,
        }
    }
}

/// A model whose calls are kept and counted.
pub(crate) fn metered(model: &Arc<dyn ChatModel>, calls: &RunCalls) -> Arc<dyn ChatModel> {
    Arc::new(Metered::new(calls.chat(model)))
}

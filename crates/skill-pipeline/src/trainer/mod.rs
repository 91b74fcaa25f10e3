//! The trainer: it owns the state of a run, calls the stages in order, writes the run directory and emits events.
//!
//! # Invariants
//!
//! - Whole runs come out as the reference's do, step by step, except for its known defects. Held by
//!   `the_recorded_runs_come_out_the_same`.
//! - Whatever happens to a run and its provider, it ends with the files of an undisturbed run, requests no reply
//!   twice that it kept, makes no score of an outage, and exceeds no cap. Held by the seeds of `tests/sim/`, which
//!   go through faults, outages, kills, Ctrl-C and caps in virtual time.

mod auto;
mod epoch;
mod evidence;
mod finish;
mod fresh;
mod notes;
mod one_shot;
mod run;
mod search;
mod state;
mod step;
mod warnings;

pub use run::environment_prompts;
pub use state::{ScoredSkill, TrainState};

use crate::error::PipelineError;
use crate::prompts::PromptLibrary;
use crate::records::summary::Summary;
use crate::settings::TrainSettings;
use crate::shell::{ReadTrouble, RunBase, RunBudget, shell_methods};
use crate::stage::own::{OwnBatches, OwnReflection};
use crate::stage::rollout::TargetsScore;
use serde_json::{Map, Value};
use skill_core::SkillDoc;
use skill_envs::{Env, RolloutRunner};
use skill_llm::{Budget, ChatModel, JournalOptions, ModelId, Prices, Recording, Spent};
use std::path::Path;
use std::sync::Arc;

/// Trains the skill of an agent.
///
/// Everything but the environment and the two models has a default; see [`TrainSettings`].
#[derive(Clone)]
pub struct Trainer {
    pub(crate) base: RunBase,
    pub(crate) prompts: Option<PromptLibrary>,
    /// The targets of evaluations; without any, the target.
    pub(crate) targets: NamedModels,
    /// How their scores count.
    pub(crate) targets_score: TargetsScore,
    pub(crate) batches: Option<Arc<dyn OwnBatches>>,
    pub(crate) reflection: Option<Arc<dyn OwnReflection>>,
    pub(crate) skips_empty_replies: bool,
}

impl From<Trainer> for RunBase {
    fn from(trainer: Trainer) -> Self {
        trainer.base
    }
}

/// Models by their names.
pub type NamedModels = Vec<(String, Arc<dyn ChatModel>)>;

/// The name of the target among the targets of evaluations.
pub const OWN_TARGET: &str = "target";

impl Trainer {
    /// A trainer with the defaults: the environment's initial skill or an empty one, and the built-in prompts.
    pub fn new(env: Arc<dyn Env>, target: Arc<dyn ChatModel>, optimizer: Arc<dyn ChatModel>) -> Self {
        Self {
            base: RunBase::new(env, target, optimizer),
            prompts: None,
            targets: NamedModels::new(),
            targets_score: TargetsScore::default(),
            batches: None,
            reflection: None,
            skips_empty_replies: false,
        }
    }

    shell_methods!(base.shell);

    /// Has this runner make the rollouts, with the environment and the target wherever it has them; by default they are
    /// made in this process.
    #[must_use]
    pub fn with_runner(mut self, runner: Arc<dyn RolloutRunner>) -> Self {
        self.base.runner = Some(runner);
        self
    }

    /// Has these targets do the items of evaluations, each by its name, instead of the target alone: an item counts what
    /// they score together, so that the gate decides over all of them. [`OWN_TARGET`] is the name of the target itself,
    /// which alone does the training items.
    #[must_use]
    pub fn with_targets(self, score: TargetsScore, targets: NamedModels) -> Self {
        Self { targets, targets_score: score, ..self }
    }

    /// Has the environment work on whole batches, and plan those of training if it does; candidates are measured whole.
    #[must_use]
    pub fn with_batches(self, batches: Arc<dyn OwnBatches>) -> Self {
        Self { batches: Some(batches), ..self }
    }

    /// Has the environment reflect on its results itself.
    #[must_use]
    pub fn with_reflection(self, reflection: Arc<dyn OwnReflection>) -> Self {
        Self { reflection: Some(reflection), ..self }
    }

    /// Skips a step in which the optimizer says nothing at all, as skillrl 1.0 does, instead of ending the run; empty
    /// replies are counted in the summary.
    #[must_use]
    pub fn skipping_empty_replies(self) -> Self {
        Self { skips_empty_replies: true, ..self }
    }

    /// Writes these settings into `config.json` and the summary too, by the names that another program knows them by.
    #[must_use]
    pub fn with_named_settings(mut self, named: Map<String, Value>) -> Self {
        self.base.shell.config.named = named;
        self
    }

    /// Trains with these settings.
    #[must_use]
    pub fn with_settings(mut self, settings: TrainSettings) -> Self {
        self.base.settings = settings;
        self
    }

    /// Starts from this skill.
    #[must_use]
    pub fn with_initial_skill(mut self, skill: SkillDoc) -> Self {
        self.base.initial_skill = Some(skill);
        self
    }

    /// Asks the optimizer with these prompts; those that the environment replaces are not looked at then.
    #[must_use]
    pub fn with_prompts(self, prompts: PromptLibrary) -> Self {
        Self { prompts: Some(prompts), ..self }
    }

    /// Writes the journal like this.
    #[must_use]
    pub fn with_journal_options(mut self, options: JournalOptions) -> Self {
        self.base.calls.journal = options;
        self
    }

    /// Resumes a run whose journal is missing, truncated or an older copy, which is an error otherwise. Caps do not count
    /// the calls that it has lost, and those that are needed are paid for again.
    #[must_use]
    pub fn with_lost_journal(mut self) -> Self {
        self.base.calls.may_have_lost_journal = true;
        self
    }

    /// Tells the budget, which the models' layers hold, what earlier processes of the run have spent; for that it has
    /// to know the prices of the models.
    #[must_use]
    pub fn with_budget(mut self, budget: Arc<Budget>, prices: Vec<(ModelId, Prices)>) -> Self {
        self.base.calls.budget = Some(RunBudget { budget, prices });
        self
    }

    /// Warns of what this says, once a minute while it lasts.
    #[must_use]
    pub fn with_trouble(mut self, trouble: ReadTrouble) -> Self {
        self.base.shell.trouble = Some(trouble);
        self
    }

    /// Takes replies from the journal of another run before anything is sent.
    ///
    /// A call is found there by its model, request and place, so it is found as long as both runs do the same; what
    /// is found is copied into the new run's journal.
    #[must_use]
    pub fn with_recording(mut self, recording: Recording) -> Self {
        self.base.calls.recording = Some(recording);
        self
    }

    /// Starts or resumes the run in this directory. No call whose reply is in the run's journal is repeated.
    ///
    /// A run that is finished already is summed up again, without a model call.
    ///
    /// # Errors
    ///
    /// Settings that cannot work, a directory that holds another run or cannot be written, and faults of the
    /// models or the environment. What was written stays, and the same call goes on from there.
    pub async fn train(&self, dir: &Path) -> Result<Summary, PipelineError> {
        run::train(self, dir).await
    }

    /// What the run has spent, over all its processes, once it was trained; `None` without a budget.
    pub fn spent(&self) -> Option<Spent> {
        self.base.calls.budget.as_ref().map(|run| run.budget.spent())
    }
}

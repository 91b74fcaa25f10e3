//! The trainer: it owns the state of a run, calls the stages in order, writes the run directory and emits events.

mod auto;
mod epoch;
mod evidence;
mod finish;
mod fresh;
mod notes;
mod run;
pub(crate) mod spans;
mod state;
mod step;
pub(crate) mod trouble;
mod warnings;

pub use run::environment_prompts;
pub use state::{ScoredSkill, TrainState};

use crate::error::PipelineError;
use crate::event::{EventSink, NoEvents};
use crate::prompts::PromptLibrary;
use crate::records::summary::Summary;
use crate::settings::{StopSignal, TrainSettings};
use crate::stage::rollout::TargetsScore;
use crate::warning::{Advice, OwnHints};
use serde_json::Value;
use skill_core::SkillDoc;
use skill_envs::{Env, RolloutRunner};
use skill_llm::{Budget, ChatModel, Journal, JournalOptions, ModelId, Prices, Recording, Spent};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a configuration file says, for the run directory.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunConfig {
    /// The text of the file, kept as `config.toml`.
    pub source_text: Option<String>,
    /// The resolved settings without secrets and without what only changes speed or cost, kept as `config.json`.
    pub resolved: Value,
    /// Settings that decide results and that only the caller knows, by name.
    pub identity: Vec<(String, Value)>,
    /// The directory of the file.
    pub dir: Option<PathBuf>,
    /// The models that are simulated, by their names in the configuration: the results say so.
    pub simulated_models: Vec<String>,
}

/// Trains the skill of an agent.
///
/// Everything but the environment and the two models has a default; see [`TrainSettings`].
#[derive(Clone)]
pub struct Trainer {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) target: Arc<dyn ChatModel>,
    pub(crate) optimizer: Arc<dyn ChatModel>,
    pub(crate) settings: TrainSettings,
    pub(crate) prompts: Option<PromptLibrary>,
    pub(crate) initial_skill: Option<SkillDoc>,
    pub(crate) events: Arc<dyn EventSink>,
    pub(crate) stop: StopSignal,
    pub(crate) config: RunConfig,
    pub(crate) journal: JournalOptions,
    pub(crate) may_have_lost_journal: bool,
    pub(crate) recording: Option<Recording>,
    pub(crate) budget: Option<RunBudget>,
    pub(crate) trouble: Option<ReadTrouble>,
    pub(crate) runner: Option<Arc<dyn RolloutRunner>>,
    pub(crate) advice: Arc<dyn Advice>,
    /// The targets of evaluations; without any, the target.
    pub(crate) targets: NamedModels,
    /// How their scores count.
    pub(crate) targets_score: TargetsScore,
}

/// Models by their names.
pub type NamedModels = Vec<(String, Arc<dyn ChatModel>)>;

/// The name of the target among the targets of evaluations.
pub const OWN_TARGET: &str = "target";

/// Says what is wrong with the models for longer than a moment, as one sentence; `None` where nothing is.
pub type ReadTrouble = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// The caps of a run, and what its models cost.
#[derive(Clone)]
pub(crate) struct RunBudget {
    budget: Arc<Budget>,
    prices: Vec<(ModelId, Prices)>,
}

impl Trainer {
    /// A trainer with the defaults: the environment's initial skill or an empty one, and the built-in prompts.
    pub fn new(env: Arc<dyn Env>, target: Arc<dyn ChatModel>, optimizer: Arc<dyn ChatModel>) -> Self {
        Self {
            env,
            target,
            optimizer,
            settings: TrainSettings::default(),
            prompts: None,
            initial_skill: None,
            events: Arc::new(NoEvents),
            stop: StopSignal::default(),
            config: RunConfig::default(),
            journal: JournalOptions::default(),
            may_have_lost_journal: false,
            recording: None,
            budget: None,
            trouble: None,
            runner: None,
            advice: Arc::new(OwnHints),
            targets: NamedModels::new(),
            targets_score: TargetsScore::default(),
        }
    }

    /// Has this runner make the rollouts, with the environment and the target wherever it has them; by default they are
    /// made in this process.
    #[must_use]
    pub fn with_runner(self, runner: Arc<dyn RolloutRunner>) -> Self {
        Self { runner: Some(runner), ..self }
    }

    /// Has these targets do the items of evaluations, each by its name, instead of the target alone: an item counts what
    /// they score together, so that the gate decides over all of them. [`OWN_TARGET`] is the name of the target itself,
    /// which alone does the training items.
    #[must_use]
    pub fn with_targets(self, score: TargetsScore, targets: NamedModels) -> Self {
        Self { targets, targets_score: score, ..self }
    }

    /// Trains with these settings.
    #[must_use]
    pub fn with_settings(self, settings: TrainSettings) -> Self {
        Self { settings, ..self }
    }

    /// Starts from this skill.
    #[must_use]
    pub fn with_initial_skill(self, skill: SkillDoc) -> Self {
        Self { initial_skill: Some(skill), ..self }
    }

    /// Asks the optimizer with these prompts; those that the environment replaces are not looked at then.
    #[must_use]
    pub fn with_prompts(self, prompts: PromptLibrary) -> Self {
        Self { prompts: Some(prompts), ..self }
    }

    /// Tells this reader what happens.
    #[must_use]
    pub fn with_events(self, events: Arc<dyn EventSink>) -> Self {
        Self { events, ..self }
    }

    /// Stops when told to.
    #[must_use]
    pub fn with_stop(self, stop: StopSignal) -> Self {
        Self { stop, ..self }
    }

    /// Keeps this configuration in the run directory.
    #[must_use]
    pub fn with_config(self, config: RunConfig) -> Self {
        Self { config, ..self }
    }

    /// Writes the journal like this.
    #[must_use]
    pub fn with_journal_options(self, options: JournalOptions) -> Self {
        Self { journal: options, ..self }
    }

    /// Resumes a run whose journal is missing, truncated or an older copy, which is an error otherwise. Caps do not count
    /// the calls that it has lost, and those that are needed are paid for again.
    #[must_use]
    pub fn with_lost_journal(self) -> Self {
        Self { may_have_lost_journal: true, ..self }
    }

    /// Tells the budget, which the models' layers hold, what earlier processes of the run have spent; for that it has
    /// to know the prices of the models.
    #[must_use]
    pub fn with_budget(self, budget: Arc<Budget>, prices: Vec<(ModelId, Prices)>) -> Self {
        Self { budget: Some(RunBudget::new(budget, prices)), ..self }
    }

    /// Warns of what this says, once a minute while it lasts.
    #[must_use]
    pub fn with_trouble(self, trouble: ReadTrouble) -> Self {
        Self { trouble: Some(trouble), ..self }
    }

    /// Adds to errors and warnings, in events and in `events.jsonl`, what people can do about them in this program.
    #[must_use]
    pub fn with_advice(self, advice: Arc<dyn Advice>) -> Self {
        Self { advice, ..self }
    }

    /// Takes replies from the journal of another run before anything is sent.
    ///
    /// A call is found there by its model, request and place, so it is found as long as both runs do the same; what
    /// is found is copied into the new run's journal.
    #[must_use]
    pub fn with_recording(self, recording: Recording) -> Self {
        Self { recording: Some(recording), ..self }
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
        self.budget.as_ref().map(|run| run.budget.spent())
    }
}

impl RunBudget {
    pub(crate) fn new(budget: Arc<Budget>, prices: Vec<(ModelId, Prices)>) -> Self {
        Self { budget, prices }
    }

    pub(crate) fn begin(&self, journal: &Journal) {
        count_spent(&self.budget, &self.prices, journal);
    }
}

/// Tells a budget what the journal says that earlier processes have spent, by the prices of the models, and what it shows
/// of their replies.
pub fn count_spent(budget: &Budget, prices: &[(ModelId, Prices)], journal: &Journal) {
    let mut spent = Spent { time: journal.elapsed_before(), ..Spent::default() };
    for model in journal.spent_before() {
        spent.calls = spent.calls.saturating_add(model.requests);
        let tokens = model.usage.input.saturating_add(model.usage.output);
        spent.tokens = spent.tokens.saturating_add(tokens);
        let is_model =
            |(id, _): &&(ModelId, Prices)| id.provider == model.provider && id.model == model.model;
        if let Some((_, prices)) = prices.iter().find(is_model) {
            spent.money += prices.cost(model.usage);
        }
    }
    for seen in journal.seen_before() {
        budget.recall(seen);
    }
    budget.begin(spent);
}

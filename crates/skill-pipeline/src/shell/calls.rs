//! The model calls of a run: its journal, the recording of a replay, and the budget.

use crate::error::PipelineError;
use crate::run_dir::RunDir;
use skill_llm::journal::ModelSpent;
use skill_llm::{
    Budget, ChatModel, EmbeddingModel, Journal, JournalOptions, Journaled, ModelId, Prices, Recording, Spent,
};
use std::sync::Arc;
use std::time::Duration;

/// How the calls of a run are kept and counted.
#[derive(Clone, Default)]
pub struct CallSettings {
    /// How the journal is opened.
    pub journal: JournalOptions,
    /// Whether a run that has lost its journal is resumed.
    pub may_have_lost_journal: bool,
    /// Where replies come from that are not requested.
    pub recording: Option<Recording>,
    /// The caps, with the prices of the models.
    pub budget: Option<RunBudget>,
}

impl CallSettings {
    /// True if the run continues although its journal is missing earlier requests.
    ///
    /// # Errors
    ///
    /// As [`RunDir::check_journal`], unless the journal may have lost something.
    pub fn check_journal(&self, dir: &RunDir) -> Result<bool, PipelineError> {
        match dir.check_journal() {
            Err(PipelineError::LostJournal { .. }) if self.may_have_lost_journal => Ok(true),
            checked => checked.map(|()| false),
        }
    }

    /// Opens the journal of a run, and counts its earlier calls in the budget.
    ///
    /// # Errors
    ///
    /// As [`RunDir::open_journal`].
    pub fn open(&self, dir: &RunDir) -> Result<RunCalls, PipelineError> {
        let journal = dir.open_journal(self.journal.clone(), self.may_have_lost_journal)?;
        if let Some(RunBudget { budget, prices }) = &self.budget {
            count_spent(budget, prices, &journal);
        }
        Ok(RunCalls { journal, recording: self.recording.clone() })
    }
}

/// The journal of a run that this process holds, around its models.
pub struct RunCalls {
    /// The journal.
    pub journal: Journal,
    recording: Option<Recording>,
}

impl RunCalls {
    /// The model with its replies in the journal, and taken from the recording if there is one.
    pub fn chat(&self, model: &Arc<dyn ChatModel>) -> Arc<dyn ChatModel> {
        Arc::new(self.with_recording(Journaled::new(Arc::clone(model), self.journal.clone())))
    }

    /// The same of a model of vectors.
    pub fn embedding(&self, model: &Arc<dyn EmbeddingModel>) -> Arc<dyn EmbeddingModel> {
        Arc::new(self.with_recording(Journaled::embedding(Arc::clone(model), self.journal.clone())))
    }

    fn with_recording<M: ?Sized>(&self, kept: Journaled<M>) -> Journaled<M> {
        match &self.recording {
            Some(recording) => kept.with_recording(recording.clone()),
            None => kept,
        }
    }
}

/// The caps of a run, and what its models cost.
#[derive(Clone)]
pub struct RunBudget {
    /// What is spent, and the caps.
    pub budget: Arc<Budget>,
    /// What the models cost.
    pub prices: Vec<(ModelId, Prices)>,
}

/// Tells a budget, once, what the journal says that earlier processes have spent, by the prices of the models, and what it shows
/// of their replies.
pub fn count_spent(budget: &Budget, prices: &[(ModelId, Prices)], journal: &Journal) {
    count_spent_since(budget, prices, journal, (&[], Duration::ZERO));
}

/// As [`count_spent`], without what the journal held before the work that the budget is for began: what each model had
/// spent, and the time.
pub fn count_spent_since(
    budget: &Budget,
    prices: &[(ModelId, Prices)],
    journal: &Journal,
    (before, time): (&[ModelSpent], Duration),
) {
    let spent: Vec<ModelSpent> = journal.spent_before().iter().map(|spent| less(spent, before)).collect();
    let time = journal.elapsed_before().saturating_sub(time);
    let spent = Spent { time, ..spent_by(prices, &spent) };
    for seen in journal.seen_before() {
        budget.recall(seen);
    }
    for of in journal.spent_before().iter().filter(|of| of.reported > 0.0) {
        let model = ModelId::new(&of.provider, &of.model);
        budget.recall_reported(&model, of.reported / of.requests.max(1) as f64);
    }
    budget.begin(&journal.path().to_string_lossy(), spent);
}

/// What a model has spent besides what is among these.
fn less(spent: &ModelSpent, before: &[ModelSpent]) -> ModelSpent {
    let is_same = |old: &&ModelSpent| old.provider == spent.provider && old.model == spent.model;
    let mut spent = spent.clone();
    if let Some(before) = before.iter().find(is_same) {
        spent.requests = spent.requests.saturating_sub(before.requests);
        let usage = &mut spent.usage;
        usage.input = usage.input.saturating_sub(before.usage.input);
        usage.cached = usage.cached.saturating_sub(before.usage.cached);
        usage.cache_written = usage.cache_written.saturating_sub(before.usage.cache_written);
        usage.output = usage.output.saturating_sub(before.usage.output);
        usage.reasoning = usage.reasoning.saturating_sub(before.usage.reasoning);
        spent.reported = (spent.reported - before.reported).max(0.0);
    }
    spent
}

/// What models have spent together, by their prices; the time is not known.
pub(crate) fn spent_by(prices: &[(ModelId, Prices)], models: &[ModelSpent]) -> Spent {
    let mut spent = Spent::default();
    for model in models {
        spent.calls = spent.calls.saturating_add(model.requests);
        let tokens = model.usage.input.saturating_add(model.usage.output);
        spent.tokens = spent.tokens.saturating_add(tokens);
        let is_model =
            |(id, _): &&(ModelId, Prices)| id.provider == model.provider && id.model == model.model;
        let known = prices.iter().find(is_model).filter(|(_, prices)| !prices.are_unknown());
        spent.money += known.map_or(model.reported, |(_, prices)| prices.cost(model.usage));
    }
    spent
}

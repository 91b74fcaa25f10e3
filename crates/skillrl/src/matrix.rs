//! A matrix of measurements: skills × models on one split, in one journal.
//!
//! The cells are measured one after the other; calls and results are kept in a directory, so the same command resumes
//! an interrupted measurement and pays for no call twice. A model that does not answer is named in the matrix and does
//! not affect the others.
//!
//! # Invariants
//!
//! - A model that does not answer does not affect the others, and no measurement is paid for twice. Held by
//!   `a_target_that_does_not_answer_is_named_and_takes_nothing_from_the_others`,
//!   `the_skills_of_a_run_are_measured_under_other_targets_once`,
//!   `skills_and_models_are_measured_as_a_matrix_and_paid_for_once`.

mod cells;

pub use cells::{Cells, plain_name};

use crate::call_cache::CallCache;
use crate::config::{LoadedConfig, ModelConfig};
use crate::cost;
use crate::engine::Engine;
use crate::error::Error;
use crate::hint::{self, CommandHints};
use crate::measurement::{self, Measurement};
use crate::trainer;
use serde_json::Value;
use skill_core::{ItemId, RolloutResult, SkillDoc, SkillHash};
use skill_envs::source::document;
use skill_envs::{Env, Split};
use skill_llm::error::with_causes;
use skill_llm::{ChatModel, regular_file};
use skill_pipeline::identity::check_not_empty;
use skill_pipeline::records::StageTokens;
use skill_pipeline::run_dir::{atomic, summarise};
use skill_pipeline::stage::silence::{check_spoken, cut_replies, empty_replies};
use skill_pipeline::{Advice as _, Event, EventSink, OWN_TARGET, PipelineError, Stage, StopSignal};
use skill_report::Matrix;
use skill_report::matrix::{
    CellResults, ItemTexts, MatrixModel, MatrixSkill, MeasuredCell, reply_of, texts_of,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// The file of the matrix in the directory of its calls.
pub const MATRIX_FILE: &str = "matrix.json";

/// A model of the matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedModel {
    /// The name for people.
    pub name: String,
    /// The name in `[models.targets]`, or `target`.
    pub target: String,
}

/// A skill of the matrix.
#[derive(Debug, Clone)]
pub struct NamedSkill {
    /// The name for people.
    pub name: String,
    /// Its text.
    pub skill: SkillDoc,
}

/// Results that a run has already: those of the run's own target, by the hash of the skill.
pub type OfRun = BTreeMap<SkillHash, Vec<RolloutResult>>;

/// What is measured.
pub struct MatrixPlan<'run> {
    /// The configuration with all models.
    pub loaded: &'run LoadedConfig,
    /// The environment of the configuration.
    pub env: Arc<dyn Env>,
    /// The split.
    pub split: Split,
    /// The models.
    pub models: Vec<NamedModel>,
    /// The skills.
    pub skills: Vec<NamedSkill>,
    /// Results that need no measurement.
    pub of_run: OfRun,
}

/// A cell that was measured.
struct Cell {
    of: CellResults,
    texts: BTreeMap<ItemId, ItemTexts>,
}

impl MatrixPlan<'_> {
    /// Measures what is not measured yet, with the calls in this directory; returns the matrix, and why cells have no
    /// numbers.
    ///
    /// # Errors
    ///
    /// A model that cannot be set up, before anything is sent; a split without items; a cap that is reached, and a stop.
    /// What was measured before stays.
    pub async fn measure(
        &self,
        engine: &mut Engine<'_>,
        calls: &CallCache,
        cells: &Cells,
        (events, stop): (&dyn EventSink, &StopSignal),
    ) -> Result<(Matrix, Vec<Error>), Error> {
        check_not_empty(self.env.as_ref(), self.split)?;
        let mut models = Vec::with_capacity(self.models.len());
        for model in &self.models {
            models.push(engine.target(&model.target)?);
        }
        calls.count_spent(engine);
        let before = regular_file::read(&calls.path().join(MATRIX_FILE)).ok();
        let before: Value = before.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        let (mut measured, mut failed) = (Vec::new(), Vec::new());
        let mut texts: BTreeMap<ItemId, ItemTexts> = BTreeMap::new();
        self.of_run.values().for_each(|results| collect_texts(&mut texts, results));
        for (model_idx, (named, model)) in self.models.iter().zip(&models).enumerate() {
            let of_run = if named.target == OWN_TARGET { Some(&self.of_run) } else { None };
            let of_run = of_run.into_iter().flatten();
            // A skill that was named before has its results without further calls.
            let mut known: BTreeMap<SkillHash, CellResults> =
                of_run.map(|(hash, results)| (hash.clone(), of_results(results))).collect();
            let mut broken: Option<String> = None;
            for (skill_idx, skill) in self.skills.iter().enumerate() {
                if let Some(problem) = &broken {
                    measured.push(Err(problem.clone()));
                    continue;
                }
                if let Some(results) = known.get(&skill.skill.hash()) {
                    measured.push(Ok(results.clone()));
                    continue;
                }
                let n_before = engine.budget().spent().calls;
                let at = At { calls, events, stop, place: (model_idx, skill_idx), cells };
                match self.cell(skill, Arc::clone(model), &at).await {
                    Ok(mut cell) => {
                        if engine.budget().spent().calls == n_before {
                            cell.of.seconds = seconds_before(&before, named, skill);
                        }
                        cell.of.cost = self.cost(named, cell.of.used);
                        let copy = CellResults {
                            used: StageTokens::default(),
                            cost: None,
                            seconds: None,
                            ..cell.of.clone()
                        };
                        known.insert(skill.skill.hash(), copy);
                        texts.extend(cell.texts);
                        measured.push(Ok(cell.of));
                    }
                    Err(error) if error.is_stop() || matches!(error, PipelineError::Capped { .. }) => {
                        calls.journal.flush().await.map_err(PipelineError::from)?;
                        return Err(error.into());
                    }
                    Err(source) => {
                        let problem = format!("{}; {}", with_causes(&source), hint::of_pipeline(&source));
                        let source = Box::new(source);
                        failed.push(Error::TargetFailed { name: named.name.clone(), source });
                        measured.push(Err(problem.clone()));
                        broken = Some(problem);
                    }
                }
            }
        }
        calls.journal.flush().await.map_err(PipelineError::from)?;
        Ok((self.matrix(&models, &measured, &texts)?, failed))
    }

    /// The results together.
    fn matrix(
        &self,
        models: &[Arc<dyn ChatModel>],
        measured: &[MeasuredCell],
        texts: &BTreeMap<ItemId, ItemTexts>,
    ) -> Result<Matrix, Error> {
        let named = |(named, model): (&NamedModel, &Arc<dyn ChatModel>)| MatrixModel {
            name: named.name.clone(),
            model: model.id().to_string(),
        };
        let skill = |of: &NamedSkill| MatrixSkill { name: of.name.clone(), hash: of.skill.hash() };
        let gate = trainer::settings(&self.loaded.config)?.gate;
        let mut matrix = Matrix::of(
            (self.split.as_str(), gate),
            self.models.iter().zip(models).map(named).collect(),
            self.skills.iter().map(skill).collect(),
            measured,
            texts,
        );
        let is_simulated =
            |model: &&NamedModel| matches!(self.config_of(model), Some(ModelConfig::Simulated(_)));
        matrix.simulated_models =
            self.models.iter().filter(is_simulated).map(|model| model.name.clone()).collect();
        Ok(matrix)
    }

    fn config_of(&self, model: &NamedModel) -> Option<&ModelConfig> {
        match model.target.as_str() {
            OWN_TARGET => Some(&self.loaded.config.models.target),
            name => self.loaded.config.models.targets.get(name),
        }
    }

    /// What a cell cost by the prices of its model.
    fn cost(&self, model: &NamedModel, used: StageTokens) -> Option<f64> {
        let mut config = self.loaded.config.clone();
        config.models.target = self.config_of(model)?.clone();
        cost::cost(&config, &[(Stage::Evaluate.as_str().to_owned(), used)].into_iter().collect())
    }

    async fn cell(
        &self,
        skill: &NamedSkill,
        model: Arc<dyn ChatModel>,
        at: &At<'_>,
    ) -> Result<Cell, PipelineError> {
        let journal = Some(&at.calls.journal);
        let measurement = Measurement::new(self.loaded, &self.env, self.split, model, journal)?;
        let began = Instant::now();
        let (measurement::Measured { evaluation, tokens }, recorded) =
            measurement.scores(&document(&skill.skill), (at.events, at.stop)).await?;
        let seconds = began.elapsed().as_secs_f64();
        check_spoken(&evaluation.results, Stage::Evaluate)?;
        let striking = cut_replies(&evaluation.results).into_iter().chain(empty_replies(&evaluation.results));
        for warning in striking {
            let advice = CommandHints.on_warning(&warning);
            at.events.emit(&Event::warning(None, warning, advice));
        }
        let summary = summarise(&skill.skill.hash(), &evaluation, tokens);
        at.cells.keep(at.place, recorded.results(), &summary)?;
        let (mut replies, mut texts) = (Vec::new(), BTreeMap::new());
        for result in recorded.results() {
            let result = result?;
            replies.push(reply_of(&result));
            texts.insert(result.id.clone(), texts_of(&result));
        }
        let results = evaluation.results;
        let of =
            CellResults { results, replies, used: tokens, seconds: Some(seconds), ..CellResults::default() };
        Ok(Cell { of, texts })
    }
}

/// What all cells share, and the place of one.
struct At<'run> {
    calls: &'run CallCache,
    events: &'run dyn EventSink,
    stop: &'run StopSignal,
    place: (usize, usize),
    cells: &'run Cells,
}

/// Writes the matrix beside its calls.
///
/// # Errors
///
/// A file that cannot be written.
pub fn write(matrix: &Matrix, dir: &Path) -> Result<(), Error> {
    Ok(atomic::write_json(&dir.join(MATRIX_FILE), matrix)?)
}

/// Writes the matrix as one HTML page, whole or not at all.
///
/// # Errors
///
/// A file that cannot be written.
pub fn write_page(matrix: &Matrix, into: &Path) -> Result<(), Error> {
    let page = skill_report::matrix_page(matrix).map_err(|error| Error::Report(Box::new(error)))?;
    atomic::write(into, page.as_bytes()).map_err(Error::of_output)
}

/// A cell of results that are known, for which nothing is used.
fn of_results(results: &[RolloutResult]) -> CellResults {
    let replies = results.iter().map(reply_of).collect();
    let results = results.iter().cloned().map(RolloutResult::without_trajectory).collect();
    CellResults { results, replies, is_of_run: true, ..CellResults::default() }
}

fn collect_texts(texts: &mut BTreeMap<ItemId, ItemTexts>, results: &[RolloutResult]) {
    for result in results {
        let found = texts_of(result);
        if !found.question.is_empty() || !found.reference.is_empty() {
            texts.insert(result.id.clone(), found);
        }
    }
}

/// How long a cell took when it was sent, by the matrix of that time.
fn seconds_before(before: &Value, model: &NamedModel, skill: &NamedSkill) -> Option<f64> {
    let cells = before.get("cells")?.as_array()?;
    let is_same = |cell: &&Value| {
        cell.get("model").and_then(Value::as_str) == Some(&model.name)
            && cell.get("skill").and_then(Value::as_str) == Some(&skill.name)
    };
    cells.iter().find(is_same)?.get("seconds")?.as_f64()
}

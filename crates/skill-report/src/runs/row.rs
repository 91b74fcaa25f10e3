//! One run in a table of runs.

use super::group::{GroupDifference, PairedBy};
use super::settings_of;
use crate::data::compare::{TrainedKind, tested};
use crate::data::course::{self, CoursePoint};
use crate::data::setup::started_unix_ms;
use crate::{LEVEL, Outcome, ReportError, RunOverview, RunPhase};
use indexmap::IndexMap;
use serde::Serialize;
use serde_json::Value;
use skill_core::stats::{Paired, difference_interval, score_interval};
use skill_core::{Gate, GateMetric, ItemId, ItemScore};
use skill_llm::error::with_causes;
use skill_pipeline::error::SettingChange;
use skill_pipeline::identity::scoring_changes;
use skill_pipeline::kind::{self, RunKind};
use skill_pipeline::records::{RunIdentity, TokensByStage};
use skill_pipeline::run_dir::EvaluationDir;
use skill_pipeline::{PipelineError, RunReader};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A run in a table. Scores are by the run's own metric, on its own items.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunRow {
    /// The end of its path that tells it from the other runs of the table.
    pub name: String,
    /// Its directory.
    pub path: PathBuf,
    /// What it trains; `None` where its directory cannot be read.
    pub kind: Option<&'static str>,
    /// What it is doing.
    pub state: RunPhase,
    /// What is wrong with its files: nothing else is known of it then.
    pub problem: Option<String>,
    /// True if the same directory was named before.
    pub is_repeated: bool,
    /// The environment.
    pub env: String,
    /// The number of its task: runs of one task have the same data, environment, scorer and metric.
    pub task: usize,
    /// The settings that differ between the runs of the table, as far as this run has them.
    pub settings: IndexMap<String, Value>,
    /// `run.seed`.
    pub seed: Option<u64>,
    /// The metric of the scores.
    pub metric: GateMetric,
    /// Items of the test split; `None` if it was not measured.
    pub n_test: Option<usize>,
    /// The test score of the initial skill, or without the bank.
    pub test_before: Option<f64>,
    /// The test score of the best skill, or with the bank.
    pub test: Option<f64>,
    /// Its 95 % interval over items (Agresti-Coull).
    pub test_interval: Option<[f64; 2]>,
    /// The difference of the two scores.
    pub gain: Option<f64>,
    /// Its 95 % interval over items, paired; `None` where no results of single items were compared.
    pub gain_interval: Option<[f64; 2]>,
    /// Items of the validation split.
    pub n_validation: Option<usize>,
    /// The validation score of the initial skill.
    pub validation_before: Option<f64>,
    /// The validation score of the best skill, by which it was selected.
    pub validation: Option<f64>,
    /// Its 95 % interval over items.
    pub validation_interval: Option<[f64; 2]>,
    /// The best skill of this run less that of the first run of the table, on the same test items.
    pub versus_first: Option<GroupDifference>,
    /// What it came to.
    pub outcome: Option<Outcome>,
    /// Finished steps, rounds or phases.
    pub n_steps: u32,
    /// Candidates that were accepted.
    pub n_accepted: usize,
    /// Candidates that were measured.
    pub n_candidates: usize,
    /// Requests that were sent; `None` where nobody counted.
    pub calls: Option<u64>,
    /// Their tokens.
    pub tokens: Option<u64>,
    /// What they cost; `None` without prices.
    pub cost: Option<f64>,
    /// True if nothing was sent for its replies: a replay, for example.
    pub is_replay: bool,
    /// How long its processes worked, in seconds.
    pub seconds: Option<f64>,
    /// When it began, in milliseconds since 1970.
    pub started_unix_ms: Option<u64>,
    /// The program that wrote it, once it is finished.
    pub version: Option<String>,
    /// Cautions for comparing it, one phrase each.
    pub notes: Vec<String>,
    /// Its validation score over calls and cost; empty unless it was requested.
    #[serde(skip)]
    pub course: Vec<CoursePoint>,
    /// Its resolved configuration by the names of settings.
    #[serde(skip)]
    pub(crate) config: BTreeMap<String, Value>,
    #[serde(skip)]
    pub(crate) identity: RunIdentity,
    /// The scores of its best skill on the test split, draws of an item side by side; empty unless they were read.
    #[serde(skip)]
    pub(crate) scores: Vec<(ItemId, ItemScore)>,
}

impl RunRow {
    /// The row of a run of which this is known; its other files are read.
    pub fn read(overview: &RunOverview) -> Self {
        let problem = match overview.phase {
            RunPhase::Damaged => Some(overview.reason.clone().unwrap_or_default()),
            RunPhase::Training | RunPhase::Finished | RunPhase::Stopped | RunPhase::Interrupted => None,
        };
        let row = match problem {
            Some(problem) => Err(problem),
            None => Self::of_files(overview).map_err(|error| with_causes(&error)),
        };
        row.unwrap_or_else(|problem| Self::damaged(overview, problem))
    }

    /// A run of which nothing is known but what is wrong with it.
    pub fn damaged(overview: &RunOverview, problem: String) -> Self {
        Self {
            name: overview.name.clone(),
            path: overview.path.clone(),
            kind: None,
            state: RunPhase::Damaged,
            notes: vec![crate::words::one_line(&problem)],
            problem: Some(problem),
            is_repeated: false,
            env: String::new(),
            task: usize::MAX,
            settings: IndexMap::new(),
            seed: None,
            metric: GateMetric::default(),
            n_test: None,
            test_before: None,
            test: None,
            test_interval: None,
            gain: None,
            gain_interval: None,
            n_validation: None,
            validation_before: None,
            validation: None,
            validation_interval: None,
            versus_first: None,
            outcome: None,
            n_steps: 0,
            n_accepted: 0,
            n_candidates: 0,
            calls: None,
            tokens: None,
            cost: None,
            is_replay: false,
            seconds: None,
            started_unix_ms: None,
            version: None,
            course: Vec::new(),
            config: BTreeMap::new(),
            identity: RunIdentity::default(),
            scores: Vec::new(),
        }
    }

    fn of_files(overview: &RunOverview) -> Result<Self, PipelineError> {
        let run = RunReader::open(&overview.path)?;
        let n_of = |dir: EvaluationDir| -> Result<Option<usize>, PipelineError> {
            Ok(run.evaluation_summary(dir)?.map(|summary| summary.n))
        };
        let n_validation = n_of(EvaluationDir::Baseline)?;
        let n_test = match overview.test {
            Some(_) => n_of(EvaluationDir::TestBaseline)?,
            None => None,
        };
        let interval = |score: Option<f64>, n: Option<usize>| Some(score_interval(score?, n?, LEVEL));
        let gain = overview.test.map(|[before, after]| after - before);
        // The verdict may be about another difference, such as that to no skill at all.
        let is_gain = |difference: f64| gain.is_some_and(|gain| (gain - difference).abs() < 1e-9);
        let verdict = overview.verdict.as_ref();
        let decided = verdict.filter(|verdict| verdict.difference.is_some_and(is_gain));
        let config = settings_of(&run.config().config);
        let mut notes = Vec::new();
        if overview.phase != RunPhase::Finished {
            notes.push(format!("not finished: {}", overview.phase.as_str()));
        }
        if overview.is_best_changed {
            notes.push("best_skill.md was changed by hand".to_owned());
        }
        if !run.config().simulated_models.is_empty() {
            notes.push("simulated".to_owned());
        }
        notes.extend(overview.cautions.iter().map(|words| words.trim_end_matches('.').to_owned()));
        if !kind::has_scores(&overview.path) {
            notes.push("it trains weights, and has no score of a skill".to_owned());
        }
        Ok(Self {
            kind: Some(kind::name_of(&overview.path)),
            state: overview.phase,
            problem: None,
            env: overview.env.clone(),
            task: 0,
            seed: config.get("run.seed").and_then(Value::as_u64),
            metric: overview.metric,
            n_test,
            test_before: overview.test.map(|[before, _]| before),
            test: overview.test.map(|[_, after]| after),
            test_interval: interval(overview.test.map(|[_, after]| after), n_test),
            gain,
            gain_interval: decided.and_then(|verdict| verdict.interval),
            n_validation,
            validation_before: overview.baseline,
            validation: overview.best,
            validation_interval: interval(overview.best, n_validation),
            outcome: verdict.map(|verdict| verdict.outcome),
            n_steps: overview.n_steps,
            n_accepted: overview.n_accepted,
            n_candidates: overview.n_accepted + overview.n_rejected,
            calls: overview.knows_calls().then_some(overview.calls),
            tokens: overview.knows_tokens().then_some(overview.tokens),
            cost: overview.money,
            is_replay: overview.is_replay,
            seconds: overview.sent.as_ref().and_then(|sent| sent.seconds()).filter(|seconds| *seconds > 0.0),
            started_unix_ms: started_unix_ms(&run)?,
            version: run.summary()?.map(|summary| summary.version).filter(|version| !version.is_empty()),
            notes,
            identity: run.config().identity.clone(),
            config,
            ..Self::damaged(overview, String::new())
        })
    }

    /// What the run trains, where it can be compared.
    pub fn trains(&self) -> Option<TrainedKind> {
        match RunKind::parse(self.kind?)? {
            RunKind::Document => Some(TrainedKind::Document),
            RunKind::Bank => Some(TrainedKind::Bank),
            RunKind::Sft | RunKind::Rl | RunKind::Phases => None,
        }
    }

    /// Reads the scores of single test items, for paired differences; without them nothing is paired.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, and results that the run has lost; the row has no scores then.
    pub fn read_scores(&mut self) -> Result<(), ReportError> {
        if self.test.is_none() {
            return Ok(());
        }
        let run = RunReader::open(&self.path)?;
        let place = match self.trains() {
            Some(TrainedKind::Document) => tested(&run)?,
            Some(TrainedKind::Bank) => Some(EvaluationDir::TestBest),
            None => None,
        };
        if let Some(place) = place {
            self.scores = run.scores(place)?.unwrap_or_default();
        }
        Ok(())
    }

    /// Reads the validation score over calls and cost, with the prices that `price` knows; empty if the run trains no document.
    ///
    /// # Errors
    ///
    /// A file of the run that cannot be read.
    pub fn read_course(&mut self, price: impl Fn(&TokensByStage) -> Option<f64>) -> Result<(), ReportError> {
        if self.problem.is_some() || self.trains() != Some(TrainedKind::Document) {
            return Ok(());
        }
        let Some(first) = self.validation_before else { return Ok(()) };
        self.course = course::read(&RunReader::open(&self.path)?, first, price)?;
        Ok(())
    }

    /// The gate by which single items are scored.
    fn gate(&self) -> Gate {
        let mut gate = Gate { metric: self.metric, ..Gate::default() };
        if let Some(weight) = self.config.get("gate.mixed_weight").and_then(Value::as_f64) {
            gate.mixed_weight = weight;
        }
        gate
    }
}

/// True if scores of the two runs are about the same thing. Another split of the same data by a seed is.
pub(super) fn have_same_task(first: &RunRow, second: &RunRow) -> bool {
    if first.kind != second.kind || first.metric != second.metric {
        return false;
    }
    let changes = scoring_changes(&first.identity, &second.identity, "test");
    let is_other_split = || {
        let of = |run: &RunRow, key: &str| run.config.get(key).map(ToString::to_string);
        let is_same = |key: &str| of(first, key) == of(second, key);
        !is_same("env.split_seed") && is_same("env.data") && is_same("env.split_ratio")
    };
    changes.is_empty()
        || changes.iter().all(|change| matches!(change, SettingChange::Data { .. })) && is_other_split()
}

/// True if the best skills of the runs were measured on the same items, each equally often.
pub(super) fn have_same_items(first: &RunRow, second: &RunRow) -> bool {
    let name = skill_pipeline::identity::data_of("test");
    let is_same_data = first.identity.get(&name) == second.identity.get(&name);
    let ids = |run: &RunRow| run.scores.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>();
    is_same_data && first.task == second.task && !first.scores.is_empty() && ids(first) == ids(second)
}

/// The second run less the first one on the items of both; `None` unless these are the same.
pub(super) fn paired_by_items(first: &RunRow, second: &RunRow) -> Option<GroupDifference> {
    if !have_same_items(first, second) {
        return None;
    }
    let scores = |run: &RunRow| run.scores.iter().map(|(_, score)| *score).collect::<Vec<_>>();
    let ids = second.scores.iter().map(|(id, _)| id);
    let n_items = ids.collect::<std::collections::BTreeSet<_>>().len();
    let repeats = second.scores.len().checked_div(n_items)?;
    let paired = Paired::of(second.gate(), repeats, &scores(second), &scores(first))?;
    Some(GroupDifference {
        against: first.name.clone(),
        paired_by: PairedBy::Items,
        n: n_items,
        difference: paired.mean(),
        interval: Some(difference_interval(&paired, LEVEL)),
    })
}

/// Compares each run with the first that has a score.
pub(super) fn compare_with_first(runs: &mut [RunRow]) {
    let Some(place) = runs.iter().position(|run| !run.scores.is_empty()) else { return };
    let Some(first) = runs.get(place).cloned() else { return };
    for run in runs.iter_mut().skip(place + 1).filter(|run| !run.is_repeated) {
        run.versus_first = paired_by_items(&first, run);
    }
}

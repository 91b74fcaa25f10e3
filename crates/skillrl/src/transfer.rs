//! Transfer of a skill to other models: the first and the best skill of a run on one split, with each of several targets.
//!
//! Results of the run's own target are read from the run. The others are measured; calls and results are kept in a
//! directory, so the same command resumes an interrupted measurement without paying for any call twice. A target that
//! does not answer is named in the matrix and does not affect the others.
//!
//! # Invariants
//!
//! - A target that does not answer does not affect the others, and no measurement is paid for twice. Held by
//!   `a_target_that_does_not_answer_is_named_and_takes_nothing_from_the_others`,
//!   `the_skills_of_a_run_are_measured_under_other_targets_once`.

use crate::call_cache::CallCache;
use crate::config::LoadedConfig;
use crate::engine::Engine;
use crate::error::Error;
use crate::hint::{self, CommandHints};
use crate::replay::{TRANSFER_DIR, recorded_amended};
use crate::{skills, trainer, world};
use serde::Serialize;
use skill_core::{GateMetric, RolloutResult, SkillDoc, StepIdx};
use skill_envs::source::document;
use skill_envs::{Env, Split};
use skill_llm::ChatModel;
use skill_llm::error::with_causes;
use skill_pipeline::records::StageTokens;
use skill_pipeline::records::evaluation::Evaluation;
use skill_pipeline::run_dir::{EvaluationDir, RESULTS_FILE, SUMMARY_FILE, atomic, summarise};
use skill_pipeline::stage::StageCtx;
use skill_pipeline::stage::evaluate::evaluate_scores;
use skill_pipeline::stage::rollout::Rollouts;
use skill_pipeline::stage::silence::{check_spoken, cut_replies, empty_replies};
use skill_pipeline::{Advice as _, Event, EventSink, PipelineError, RunReader, Stage, StopSignal};
use skill_report::Comparison;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use skill_pipeline::OWN_TARGET;

/// The file of the matrix.
const MATRIX_FILE: &str = "transfer.json";

/// What is to be measured.
#[derive(Debug, Clone)]
pub struct TransferOptions {
    /// The run.
    pub run: PathBuf,
    /// The configuration file with the targets; `None` takes the run's copy.
    pub config: Option<PathBuf>,
    /// Settings that are changed, of the form `KEY=VALUE`.
    pub overrides: Vec<String>,
    /// The targets by their names in `[models.targets]`; empty for all of them and the run's own.
    pub targets: Vec<String>,
    /// The split.
    pub split: Split,
    /// Where calls and results are kept; `None` is `transfer` in the run's directory.
    pub out: Option<PathBuf>,
}

/// The skills of a run under several targets.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TransferMatrix {
    /// The split.
    pub split: Split,
    /// The metric of all scores: that of the run's gate.
    pub metric: GateMetric,
    /// A row for each target.
    pub rows: Vec<TransferRow>,
    /// The mean of the differences over the targets that answered; `None` without any.
    pub mean_difference: Option<f64>,
    /// The target with the smallest difference.
    pub worst: Option<String>,
}

/// A target under which the skills were measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TransferRow {
    /// Its name: that in `[models.targets]`, or `target`.
    pub target: String,
    /// The model.
    pub model: String,
    /// The best skill against the first one; `None` if it did not answer, or both have no item in common.
    pub compared: Option<Comparison>,
    /// Tokens for each task under the first and under the best skill, where they were counted.
    pub tokens_per_task: Option<[f64; 2]>,
    /// What it has used now or before.
    pub used: StageTokens,
    /// Why it was not measured.
    pub problem: Option<String>,
}

/// A measurement that can begin.
pub struct Transfer {
    loaded: LoadedConfig,
    targets: Vec<String>,
    split: Split,
    out: PathBuf,
    /// The first and the best skill.
    skills: [SkillDoc; 2],
    /// Their results under the run's own target, where the run has them.
    own: Option<[Vec<RolloutResult>; 2]>,
}

/// The names of the two skills, in files too.
const SKILLS: [&str; 2] = ["start", "best"];

impl Transfer {
    /// Reads the run and its configuration; nothing is sent.
    ///
    /// # Errors
    ///
    /// No run, a configuration that cannot be put together, a target that is not configured, and skills that cannot be
    /// read.
    pub fn prepare(options: &TransferOptions) -> Result<Self, Error> {
        let loaded = recorded_amended(&options.run, options.config.as_deref(), &options.overrides)?;
        let run = RunReader::open(&options.run)?;
        let configured = loaded.config.models.targets.keys();
        let targets = match options.targets.is_empty() {
            true => [OWN_TARGET.to_owned()].into_iter().chain(configured.clone().cloned()).collect(),
            false => options.targets.clone(),
        };
        let is_known = |name: &String| name == OWN_TARGET || configured.clone().any(|known| known == name);
        let only_own = targets.iter().all(|name| name == OWN_TARGET);
        if let Some(unknown) =
            targets.iter().find(|name| !is_known(name) || options.targets.is_empty() && only_own)
        {
            let known = configured.clone().map(String::as_str).collect::<Vec<_>>().join(", ");
            return Err(Error::UnknownTarget { name: unknown.clone(), known });
        }
        let best = skills::best_skill(&options.run)?;
        let start = run.skill_after(StepIdx(0))?.with_carried(best.carried().clone());
        let own = match options.split {
            Split::Test => results_of(&run, [EvaluationDir::TestBaseline, EvaluationDir::TestBest])?,
            Split::Train | Split::Val => None,
        };
        let out = options.out.clone().unwrap_or_else(|| options.run.join(TRANSFER_DIR));
        Ok(Self { loaded, targets, split: options.split, out, skills: [start, best], own })
    }

    /// The configuration of the measurement.
    pub fn loaded(&self) -> &LoadedConfig {
        &self.loaded
    }

    /// The directory of calls and results.
    pub fn out(&self) -> &Path {
        &self.out
    }

    /// Measures what is not measured yet; returns the matrix, and why targets have no row of numbers.
    ///
    /// # Errors
    ///
    /// A model that cannot be set up, before anything is sent; a directory that cannot be used; a cap that is reached,
    /// and a stop. What was measured before stays.
    pub async fn measure(
        &self,
        events: &dyn EventSink,
        stop: &StopSignal,
    ) -> Result<(TransferMatrix, Vec<Error>), Error> {
        let mut engine = Engine::new(&self.loaded);
        let settings = trainer::settings(&self.loaded.config)?;
        let env = world::environment(&self.loaded, engine.judge()?)?;
        if env.items(self.split).is_empty() {
            return Err(PipelineError::EmptySplit { env: env.name().to_owned(), split: self.split }.into());
        }
        let mut models = Vec::with_capacity(self.targets.len());
        for name in &self.targets {
            models.push(engine.target(name)?);
        }
        let calls = CallCache::in_dir(&self.out)?;
        calls.count_spent(&engine);
        let (mut rows, mut failed) = (Vec::new(), Vec::new());
        for (name, model) in self.targets.iter().zip(models) {
            let id = model.id().to_string();
            let measured = match &self.own {
                Some(own) if name == OWN_TARGET => Ok((own.clone(), StageTokens::default())),
                Some(_) | None => {
                    let at = At { env: &env, calls: &calls, workers: settings.workers, events, stop };
                    self.under(name, model, &at).await
                }
            };
            rows.push(match measured {
                Ok(([start, best], used)) => TransferRow {
                    target: name.clone(),
                    model: id,
                    compared: Comparison::of(settings.gate, &start, &best),
                    tokens_per_task: tokens(&start).zip(tokens(&best)).map(|(start, best)| [start, best]),
                    used,
                    problem: None,
                },
                Err(error) if error.is_stop() || matches!(error, PipelineError::Capped { .. }) => {
                    calls.journal.flush().await.map_err(PipelineError::from)?;
                    return Err(error.into());
                }
                Err(source) => {
                    let problem = format!("{}; {}", with_causes(&source), hint::of_pipeline(&source));
                    failed.push(Error::TargetFailed { name: name.clone(), source: Box::new(source) });
                    TransferRow {
                        target: name.clone(),
                        model: id,
                        compared: None,
                        tokens_per_task: None,
                        used: StageTokens::default(),
                        problem: Some(problem),
                    }
                }
            });
        }
        calls.journal.flush().await.map_err(PipelineError::from)?;
        let matrix = matrix(self.split, settings.gate.metric, rows);
        atomic::write_json(&self.out.join(MATRIX_FILE), &matrix)?;
        Ok((matrix, failed))
    }

    /// Both skills under one target.
    async fn under(
        &self,
        name: &str,
        model: Arc<dyn ChatModel>,
        at: &At<'_>,
    ) -> Result<([Vec<RolloutResult>; 2], StageTokens), PipelineError> {
        let rollouts = at.calls.rollouts(at.env, model);
        let [start, best] = &self.skills;
        let first = self.one(name, SKILLS[0], start, &rollouts, at).await?;
        let second = match start == best {
            true => (first.0.clone(), StageTokens::default()),
            false => self.one(name, SKILLS[1], best, &rollouts, at).await?,
        };
        let mut used = first.1;
        used += second.1;
        Ok(([first.0, second.0], used))
    }

    async fn one(
        &self,
        target: &str,
        name: &str,
        skill: &SkillDoc,
        rollouts: &Rollouts,
        at: &At<'_>,
    ) -> Result<(Vec<RolloutResult>, StageTokens), PipelineError> {
        let used = Arc::default();
        let ctx = StageCtx {
            workers: at.workers,
            halt: at.stop.soon.clone(),
            cancel: at.stop.now.clone(),
            journal: Some(at.calls.journal.clone()),
            used: Arc::clone(&used),
            ..StageCtx::new(Stage::Evaluate, at.events)
        };
        let (evaluation, recorded) = evaluate_scores(rollouts, self.split, &document(skill), &ctx).await?;
        check_spoken(&evaluation.results, Stage::Evaluate)?;
        let striking = cut_replies(&evaluation.results).into_iter().chain(empty_replies(&evaluation.results));
        for warning in striking {
            let advice = CommandHints.on_warning(&warning);
            at.events.emit(&Event::warning(None, warning, advice));
        }
        let tokens = StageTokens::from(used.snapshot());
        let dir = self.out.join(target).join(name);
        atomic::create_dir(&dir)?;
        atomic::write_json_list(&dir.join(RESULTS_FILE), recorded.results())?;
        let summary = summarise(&skill.hash(), &evaluation, tokens);
        atomic::write_json(&dir.join(SUMMARY_FILE), &summary)?;
        let Evaluation { results, .. } = evaluation;
        Ok((results, tokens))
    }
}

/// What all measurements share.
struct At<'run> {
    env: &'run Arc<dyn Env>,
    calls: &'run CallCache,
    workers: usize,
    events: &'run dyn EventSink,
    stop: &'run StopSignal,
}

/// Both results of a run that has ended; a best skill that is the first one was measured once.
fn results_of(
    run: &RunReader,
    [start, best]: [EvaluationDir; 2],
) -> Result<Option<[Vec<RolloutResult>; 2]>, PipelineError> {
    let Some(start) = run.results(start)?.filter(|_| run.summary().is_ok_and(|summary| summary.is_some()))
    else {
        return Ok(None);
    };
    let best = run.results(best)?.unwrap_or_else(|| start.clone());
    Ok(Some([start, best]))
}

fn tokens(results: &[RolloutResult]) -> Option<f64> {
    let counted = results.iter().map(|result| result.usage.tokens()).filter(|tokens| *tokens > 0);
    let (n, sum) = counted.fold((0_u64, 0_u64), |(n, sum), tokens| (n + 1, sum.saturating_add(tokens)));
    (n > 0).then(|| sum as f64 / n as f64)
}

fn matrix(split: Split, metric: GateMetric, rows: Vec<TransferRow>) -> TransferMatrix {
    let differences: Vec<(&str, f64)> = rows
        .iter()
        .filter_map(|row| Some((row.target.as_str(), row.compared.as_ref()?.difference)))
        .collect();
    let mean = differences.iter().map(|(_, difference)| difference).sum::<f64>() / differences.len() as f64;
    let worst = differences.iter().min_by(|one, other| one.1.total_cmp(&other.1));
    TransferMatrix {
        split,
        metric,
        mean_difference: (!differences.is_empty()).then_some(mean),
        worst: worst.map(|(target, _)| (*target).to_owned()),
        rows,
    }
}

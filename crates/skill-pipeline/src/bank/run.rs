//! One process's work on a run that trains a bank.
//!
//! What a process does follows from the journal alone: a process that goes on with a run does all of it again, finds the
//! replies and rollouts of earlier ones recorded, and comes to the same files.

use super::collect::{attempts, episode_of, n_shown};
use super::live::LiveBank;
use super::sets::chosen;
use super::teach::check_embedding;
use super::trainer::BankTrainer;
use super::{Admission, BankSettings};
use crate::error::PipelineError;
use crate::event::{Event, EventSink as _, Stage};
use crate::records::bank::{BankSummary, RECORD_FILE, RoundRecord, SUMMARY_FILE, ValidationRecord};
use crate::records::evaluation::Evaluation;
use crate::records::{FORMAT_VERSION, StageTokens};
use crate::run_dir::atomic::failed;
use crate::run_dir::event_log::EventLog;
use crate::run_dir::timings::TimingsLog;
use crate::run_dir::{EvaluationDir, RunDir, RunPart, read_bank_summary, round_path, summarise};
use crate::shell::{OpenRun, spans};
use crate::stage::ItemHashes;
use crate::stage::evaluate::evaluate;
use crate::stage::rollout::{Attempt, Rollouts, rollout_attempts};
use crate::stage::silence::check_spoken;
use indexmap::IndexMap;
use skill_bank::episode::{ItemSets, TrainEpisode};
use skill_bank::evolve::{EvolvePlan, Pooled};
use skill_bank::lint::Forbidden;
use skill_bank::trial::{HideRule, Preflight, Standing, StandingRollout, TaskRates, TrialOutcome};
use skill_bank::{BankView, SkillRef, State};
use skill_core::stats::stratified::TrialRule;
use skill_core::{ItemId, MeanScore, RolloutResult, SkillDoc, StepIdx};
use skill_envs::{Env, SkillSource, Split};
use skill_llm::regular_file;
use skill_llm::{ChatModel, EmbeddingModel, Journal};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tracing::Instrument as _;

/// The skills that each task of a type is shown.
pub(super) type ShownOfType = BTreeMap<ItemId, Vec<SkillRef>>;

/// A run that this process holds.
pub(super) struct BankRun<'run> {
    pub(super) trainer: &'run BankTrainer,
    pub(super) env: &'run dyn Env,
    pub(super) rollouts: Rollouts,
    pub(super) teacher: Arc<dyn ChatModel>,
    pub(super) embedding: Option<Arc<dyn EmbeddingModel>>,
    pub(super) sets: ItemSets,
    pub(super) forbidden: Forbidden,
    pub(super) bank: LiveBank,
    pub(super) frame: Option<SkillDoc>,
    pub(super) timings: TimingsLog,
    pub(super) started: Instant,
    pub(super) journal: Journal,
    pub(super) item_hashes: Arc<ItemHashes>,
    pub(super) log: &'run EventLog<'run>,
    pub(super) open: &'run OpenRun<'run>,
    pub(super) dir: &'run RunDir,
    pub(super) standing: Standing,
    /// What trials compare: scores if a training rollout of round 0 scored between 0 and 1, else successes.
    pub(super) outcome: TrialOutcome,
    /// What earlier trials have shown of tasks without their candidates.
    pub(super) rates: TaskRates,
    /// Training rollouts of each type since its tasks were last shown something else, with what they are shown.
    pub(super) pooled: BTreeMap<String, (ShownOfType, Pooled)>,
    /// Trials that were opened.
    pub(super) n_trials: u32,
    /// The product of the e-values of trials without a verdict, by candidate.
    pub(super) e_before: BTreeMap<SkillRef, f64>,
    /// How often it was each candidate's turn.
    pub(super) n_tried: BTreeMap<SkillRef, u32>,
    pub(super) n_admitted_since_validation: usize,
    pub(super) tokens: IndexMap<String, StageTokens>,
    pub(super) trial_rollouts: u64,
    pub(super) n_admissions: u32,
    /// Events of the bank's log that were told.
    pub(super) n_told: usize,
    /// Active skills whose retirement was proposed and is not tried yet.
    pub(super) retirements: Vec<SkillRef>,
    /// What designs can show, by rule and groups.
    pub(super) preflights: Vec<(TrialRule, u64, Preflight)>,
}

impl BankRun<'_> {
    pub(super) fn settings(&self) -> &BankSettings {
        &self.trainer.settings
    }

    pub(super) fn seed(&self) -> u64 {
        self.trainer.base.settings.seed
    }

    /// Rounds after the distillation.
    pub(super) fn rounds(&self) -> u32 {
        u32::try_from(self.settings().rounds).unwrap_or(u32::MAX)
    }

    pub(super) async fn work(&mut self) -> Result<BankSummary, PipelineError> {
        let rounds = self.rounds();
        self.timings.begin_process(StepIdx(0), self.trainer.base.settings.workers);
        if read_bank_summary(self.dir.path())?.is_some_and(|summary| summary.rounds != rounds) {
            self.dir.remove_end(SUMMARY_FILE)?;
        }
        self.log.emit(&Event::RunStarted {
            dir: self.dir.path().to_owned(),
            env: self.env.name().to_owned(),
            n_items: Split::ALL.map(|split| self.env.items(split).len()),
            total_steps: rounds,
            finished_steps: self.finished_rounds(),
            workers: self.trainer.base.settings.workers,
            config_dir: self.open.config_dir(),
        });
        check_embedding(self.embedding.as_deref(), &self.call(None))
            .await
            .map_err(|error| self.or_stopped(error, 0, rounds))?;
        let baseline = self
            .measure(Split::Val, None, Stage::Baseline, EvaluationDir::Baseline)
            .await
            .map_err(|error| self.or_stopped(error, 0, rounds))?;
        check_spoken(&baseline.results, Stage::Baseline)?;
        let (score, gate_score) = (baseline.score, baseline.score.hard);
        self.log.emit(&Event::BaselineMeasured { score, gate_score, noise: None });
        let mut score = baseline.score;
        for round in 0..=rounds {
            let last_round = round.saturating_sub(1);
            self.check_stop(last_round, rounds)?;
            let mut record = RoundRecord::new(round);
            self.tell_round(round, rounds);
            let span = spans::of_round(round);
            let made = self.make_round(&mut record).instrument(span.clone()).await;
            made.map_err(|error| self.or_stopped(error, last_round, rounds))?;
            let interval = u32::try_from(self.settings().validation_interval.max(1)).unwrap_or(u32::MAX);
            if round == 0 || round == rounds || round % interval == 0 {
                let validation = self.validate(round).instrument(span.clone()).await;
                let validation = validation.map_err(|error| self.or_stopped(error, last_round, rounds))?;
                score = validation.score;
                self.tell_validation(round, &validation);
                record.validation = Some(validation);
                self.n_admitted_since_validation = 0;
            }
            let view = self.bank.bank().view();
            record.n_active = view.skills().len();
            record.n_episodes = view.skills().iter().filter(|skill| skill.content.is_episode()).count();
            record.waiting = self.waiting();
            record.tokens = std::mem::take(&mut self.tokens);
            spans::tell_round(&span, &record);
            self.journal.flush().await?;
            self.write_round(&record)?;
            self.write_timings()?;
            self.log.emit(&Event::RoundFinished { record: Box::new(record) });
        }
        self.finish(rounds, baseline.score, score)
            .await
            .map_err(|error| self.or_stopped(error, rounds, rounds))
    }

    /// Collects, has the teacher propose, and tries what is proposed.
    async fn make_round(&mut self, record: &mut RoundRecord) -> Result<(), PipelineError> {
        let (episodes, shown_to) = self.collect(record).await?;
        let plan = self.plan_of(&episodes, &shown_to);
        record.rates.clone_from(&plan.rates);
        if record.round == 0 {
            if self.bank.bank().skills().len() == 0 {
                self.distil(&episodes, record).await?;
            }
        } else {
            record.weak.clone_from(&plan.weak);
            self.evolve(&episodes, &plan, record).await?;
            self.check_standing(record).await?;
        }
        if self.settings().admission == Admission::Measured {
            self.try_candidates(record).await?;
        }
        self.retire_over_cap(record).await?;
        self.tell_changes();
        Ok(())
    }

    /// Training rollouts with the bank as it is, some of them with one shown skill hidden.
    async fn collect(
        &mut self,
        record: &mut RoundRecord,
    ) -> Result<(Vec<TrainEpisode>, ShownOfType), PipelineError> {
        let round = record.round;
        let env = Arc::clone(&self.trainer.base.env);
        let train = self.sets.train().clone();
        let items = chosen(env.as_ref(), |id| train.contains(id));
        let n_samples = self.settings().samples.max(1);
        let planned = attempts(&items, items.len().saturating_mul(n_samples));
        let view = self.bank.bank().view();
        let stage = if round == 0 { Stage::Collect } else { Stage::Rollout };
        let watch = self.begin();
        let step = (round > 0).then_some(StepIdx(round));
        let ctx = self.ctx(step, stage, None, &watch);
        let source = self.source(view.clone())?;
        let hide = HideRule { one_in: self.settings().hides_one_in(), seed: self.seed() };
        let mut sources: Vec<Arc<dyn SkillSource>> = vec![self.shown_source(view.clone())?];
        let mut source_of: BTreeMap<SkillRef, usize> = BTreeMap::new();
        let mut shown_to: BTreeMap<ItemId, Vec<SkillRef>> = BTreeMap::new();
        let mut hidden_in: BTreeMap<(ItemId, usize), SkillRef> = BTreeMap::new();
        let mut work: Vec<Attempt<'_>> = Vec::with_capacity(planned.len());
        for attempt in planned {
            let shown: &[SkillRef] = match shown_to.entry(attempt.item.id.clone()) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(self.selected(&source, attempt.item, &ctx).await?),
            };
            let sample = u32::try_from(attempt.draw).unwrap_or(u32::MAX);
            let hidden = match round {
                0 => None,
                _ => hide.hidden(&attempt.item.id, round, sample, shown),
            };
            let source_idx = match hidden {
                None => 0,
                Some(hidden) => {
                    hidden_in.insert((attempt.item.id.clone(), attempt.draw), hidden.clone());
                    match source_of.get(hidden) {
                        Some(source_idx) => *source_idx,
                        None => {
                            sources.push(self.shown_source(view.without(hidden))?);
                            source_of.insert(hidden.clone(), sources.len() - 1);
                            sources.len() - 1
                        }
                    }
                }
            };
            work.push(Attempt { source_idx, ..attempt });
        }
        let results = rollout_attempts(&self.rollouts, &work, &sources, &ctx).await?;
        record.shown = n_shown(&results);
        drop(ctx);
        self.end(step, stage, &watch);
        if round == 0 {
            self.outcome = TrialOutcome::of_scores(results.iter().map(|result| result.soft));
        } else {
            self.note_standing(&shown_to, &hidden_in, &results);
        }
        let episodes = results.iter().map(|result| episode_of(result, self.env.name())).collect();
        let (taught, _) = train.take(episodes);
        Ok((taught, shown_to))
    }

    /// Which types are weak by these rollouts and the earlier ones of types whose tasks are still shown the same.
    fn plan_of(&mut self, episodes: &[TrainEpisode], shown_to: &ShownOfType) -> EvolvePlan {
        let mut shown_by_type: BTreeMap<String, ShownOfType> = BTreeMap::new();
        for episode in episodes {
            let item = episode.item.clone();
            let shown = shown_to.get(&item).cloned().expect("each training task was shown its skills");
            shown_by_type.entry(episode.task_type.clone()).or_default().insert(item, shown);
        }
        let earlier = std::mem::take(&mut self.pooled);
        let comparable: BTreeMap<String, Pooled> = earlier
            .into_iter()
            .filter(|(task_type, (shown, _))| shown_by_type.get(task_type) == Some(shown))
            .map(|(task_type, (_, pooled))| (task_type, pooled))
            .collect();
        let plan = EvolvePlan::with_earlier(episodes, &comparable, &self.settings().of_evolution());
        self.pooled = plan
            .rates
            .iter()
            .filter_map(|rate| {
                let shown = shown_by_type.remove(&rate.task_type)?;
                Some((rate.task_type.clone(), (shown, rate.pooled)))
            })
            .collect();
        plan
    }

    /// Adds the rollouts of a round to the standing check.
    fn note_standing(
        &mut self,
        shown_to: &BTreeMap<ItemId, Vec<SkillRef>>,
        hidden_in: &BTreeMap<(ItemId, usize), SkillRef>,
        results: &[RolloutResult],
    ) {
        for (item, shown) in shown_to {
            let of_item = results.iter().filter(|result| result.id == *item);
            let rollouts: Vec<StandingRollout> = of_item
                .map(|result| StandingRollout {
                    hidden: hidden_in.get(&(item.clone(), sample_of(result))).cloned(),
                    is_success: result.is_success(),
                })
                .collect();
            self.standing.push(shown, &rollouts);
        }
    }

    /// The candidates, in the order of the bank.
    pub(super) fn waiting(&self) -> Vec<SkillRef> {
        self.bank.bank().candidates().collect()
    }

    async fn validate(&mut self, round: u32) -> Result<ValidationRecord, PipelineError> {
        let view = self.bank.bank().view();
        let evaluation = self
            .measure(Split::Val, Some(view.clone()), Stage::Evaluate, EvaluationDir::Round(round))
            .await?;
        let summary = summarise(&SkillDoc::default().hash(), &evaluation, StageTokens::default());
        let by_task_type = summary
            .by_task_type
            .into_iter()
            .map(|(name, score)| (name, MeanScore { hard: score.hard, soft: score.soft }))
            .collect();
        let shown = evaluation
            .results
            .iter()
            .map(|result| {
                let parts = result.trajectory.shown_parts.iter().map(ToString::to_string).collect();
                (result.id.clone(), parts)
            })
            .collect();
        Ok(ValidationRecord {
            bank_version: view.version().to_owned(),
            score: evaluation.score,
            n: evaluation.results.len(),
            by_task_type,
            shown,
        })
    }

    /// Measures this view, or the initial skill without a bank, and keeps the results of single items; the time counts
    /// for the round of the place. The calls belong to no round: an item that is shown what it was shown in an earlier
    /// one is not run again.
    async fn measure(
        &mut self,
        split: Split,
        shown: Option<BankView>,
        stage: Stage,
        place: EvaluationDir,
    ) -> Result<Evaluation, PipelineError> {
        let round = if let EvaluationDir::Round(round) = place { Some(StepIdx(round)) } else { None };
        let source = self.shown_source(shown.clone().unwrap_or_default())?;
        let watch = self.begin();
        let ctx = self.ctx(None, stage, None, &watch);
        if let Some(view) = shown.filter(|_| self.embedding.is_some()) {
            let selecting = self.source(view)?;
            for item in self.env.items(split) {
                self.selected(&selecting, item, &ctx).await?;
            }
        }
        let evaluation = evaluate(&self.rollouts, split, &source, &ctx).await?;
        drop(ctx);
        self.end(round, stage, &watch);
        self.keep(place, source.as_ref(), &evaluation, &watch).await?;
        Ok(evaluation)
    }

    async fn finish(
        &mut self,
        rounds: u32,
        baseline: MeanScore,
        score: MeanScore,
    ) -> Result<BankSummary, PipelineError> {
        let (mut test_baseline, mut test) = (None, None);
        if self.trainer.base.settings.eval_test && !self.env.items(Split::Test).is_empty() {
            let place = EvaluationDir::TestBaseline;
            test_baseline = Some(self.measure(Split::Test, None, Stage::TestBaseline, place).await?.score);
            let view = self.bank.bank().view();
            let place = EvaluationDir::TestBest;
            test = Some(self.measure(Split::Test, Some(view), Stage::TestBest, place).await?.score);
        }
        let bank = self.bank.bank();
        let of_state = |state: State| bank.skills().filter(|skill| skill.state() == state).count();
        let unmeasured = bank.view().skills().iter().filter(|skill| skill.utility.is_none()).count();
        let mut tokens: IndexMap<String, StageTokens> = IndexMap::new();
        for round in 0..=rounds {
            for (stage, used) in self.read_round(round)?.tokens {
                add(&mut tokens, &stage, used);
            }
        }
        for (stage, used) in std::mem::take(&mut self.tokens) {
            add(&mut tokens, &stage, used);
        }
        let summary = BankSummary {
            format_version: FORMAT_VERSION.to_owned(),
            rounds,
            baseline,
            score,
            test_baseline,
            test,
            n_items: [Split::Val, Split::Test].map(|split| self.env.items(split).len()),
            active: of_state(State::Active),
            unmeasured,
            candidates: of_state(State::Candidate),
            retired: of_state(State::Retired),
            trials: [self.n_trials, self.n_admissions],
            trial_rollouts: self.trial_rollouts,
            simulated_models: self.trainer.base.shell.config.simulated_models.clone(),
            tokens,
        };
        self.journal.flush().await?;
        self.dir.write_end(SUMMARY_FILE, &summary)?;
        self.write_timings()?;
        self.log.emit(&Event::BankFinished { summary: Box::new(summary.clone()) });
        Ok(summary)
    }

    pub(super) fn round_file(&self, round: u32) -> std::path::PathBuf {
        round_path(self.dir.path(), round).join(RECORD_FILE)
    }

    fn write_round(&self, record: &RoundRecord) -> Result<(), PipelineError> {
        let path = self.round_file(record.round);
        self.dir.put_json(&path, record)?;
        self.dir.commit_part(RunPart::Round { round: record.round })?;
        Ok(())
    }

    fn read_round(&self, round: u32) -> Result<RoundRecord, PipelineError> {
        read_record(&self.round_file(round))
    }
}

/// What a round came to, by its file.
///
/// # Errors
///
/// A file that cannot be read or is not what it should be.
pub fn read_record(path: &Path) -> Result<RoundRecord, PipelineError> {
    let bytes = regular_file::read(path).map_err(failed("read", path))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| PipelineError::Corrupt { path: path.to_owned(), message: error.to_string() })
}

pub(super) fn add(tokens: &mut IndexMap<String, StageTokens>, stage: &str, used: StageTokens) {
    *tokens.entry(stage.to_owned()).or_default() += used;
}

fn sample_of(result: &RolloutResult) -> usize {
    usize::try_from(result.trajectory.sample).unwrap_or(usize::MAX)
}

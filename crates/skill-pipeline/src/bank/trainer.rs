//! One process's work on a run that trains a bank.
//!
//! What a process does follows from the journal alone: a process that goes on with a run does all of it again, finds the
//! replies and rollouts of earlier ones recorded, and comes to the same files.

use super::collect::{attempts, episode_of};
use super::live::LiveBank;
use super::record::{
    BANK_DIR, BankSummary, RECORD_FILE, ROUNDS_DIR, RoundRecord, SUMMARY_FILE, TrialRecord, ValidationRecord,
};
use super::sets::{chosen, item_sets};
use super::{Admission, BankSettings, TrialKind};
use crate::error::PipelineError;
use crate::event::{Event, EventSink as _, Stage};
use crate::identity::{RunIdentity, check_identity, check_items, run_identity};
use crate::run_dir::event_log::EventLog;
use crate::run_dir::format::{ConfigFile, FORMAT_VERSION, StageTokens};
use crate::run_dir::timings::TimingsLog;
use crate::run_dir::vacant::check_vacant;
use crate::run_dir::{RunDir, is_stop_requested, summarise, way_to, withdraw_stop};
use crate::stage::evaluate::{Evaluation, evaluate};
use crate::stage::rollout::{Attempt, Rollouts, rollout_attempts};
use crate::stage::{Draws, ItemHashes, StageCtx};
use crate::trainer::Trainer;
use indexmap::IndexMap;
use serde_json::json;
use skill_bank::distill::{
    Admit, Applied, DistillError, DistillPlan, DistillSettings, LeftOut, Teacher, TeacherPrompts, apply,
    distill,
};
use skill_bank::episode::{ItemSets, TrainEpisode};
use skill_bank::evolve::{EvolvePlan, EvolveSettings, evolve};
use skill_bank::format::BankFormat;
use skill_bank::lint::Forbidden;
use skill_bank::retrieve::Retrieval;
use skill_bank::trial::{
    Half, HideRule, ItemRate, Preflight, Standing, StandingRollout, TrialDesign, TrialItems, TrialNumbers,
    TrialSettings, TrialState, over_cap, preflight,
};
use skill_bank::{
    Bank, BankError, BankEvent, BankSource, BankView, Basis, Occasion, Reason, SkillRef, State, Tier,
    Utility, Verdict,
};
use skill_core::stats::stratified::{Stratified, TaskPrior, TrialRule};
use skill_core::{ItemId, MeanScore, RolloutResult, SkillDoc, StepIdx};
use skill_envs::source::document;
use skill_envs::{Env, Item, SkillSource, Split, TaskView};
use skill_llm::error::with_causes;
use skill_llm::{CallCtx, CallPlace, ChatModel, EmbeddingModel, Journal, Journaled, MeterReading, Metered};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Groups of a fresh measurement, at least: with fewer nothing is known of its interval.
const GROUPS_PER_INTERVAL: u64 = 8;

/// Groups between two looks at a trial, at least.
const GROUPS_PER_LOOK: usize = 16;

/// Groups that must tell something before the standing check retires a skill.
const MIN_STANDING_GROUPS: u64 = 8;

/// Trains a bank: the environment, the target, the settings that both kinds of training share and everything around
/// them come from a [`Trainer`], whose optimizer is the teacher.
#[derive(Clone)]
pub struct BankTrainer {
    base: Trainer,
    settings: BankSettings,
    retrieval: Retrieval,
    prompts: TeacherPrompts,
    embedding: Option<Arc<dyn EmbeddingModel>>,
    initial: Bank,
    source: Option<(BankFormat, String)>,
}

impl BankTrainer {
    /// A trainer that starts without a bank. The initial skill of `base`, if there is one, is shown before the skills of
    /// the bank.
    pub fn new(base: Trainer, retrieval: Retrieval, prompts: TeacherPrompts) -> Self {
        let (settings, initial) = (BankSettings::default(), Bank::new());
        Self { base, settings, retrieval, prompts, embedding: None, initial, source: None }
    }

    /// Trains with these settings.
    #[must_use]
    pub fn with_settings(self, settings: BankSettings) -> Self {
        Self { settings, ..self }
    }

    /// Embeds goals and skills with this model.
    #[must_use]
    pub fn with_embedding(self, model: Arc<dyn EmbeddingModel>) -> Self {
        Self { embedding: Some(model), ..self }
    }

    /// Starts from this bank; `source` is the text that it was read from, where it came from another system.
    #[must_use]
    pub fn with_initial_bank(self, initial: Bank, source: Option<(BankFormat, String)>) -> Self {
        Self { initial, source, ..self }
    }

    /// Starts the run in this directory, or goes on with it: no call whose reply is in the run's journal is made again.
    ///
    /// # Errors
    ///
    /// Settings that cannot work, a directory that holds another run or cannot be written, and faults of the models or
    /// the environment. What was paid for stays, and the same call goes on from there.
    pub async fn train(&self, path: &Path) -> Result<BankSummary, PipelineError> {
        let base = &self.base;
        base.settings.validate()?;
        check_items(base.env.as_ref(), base.settings.eval_test)?;
        check_vacant(path)?;
        let dir = RunDir::open(path)?;
        self.claim(&dir)?;
        withdraw_stop(path)?;
        let log = EventLog::open(path, base.events.as_ref())?;
        let journal = dir.open_journal(base.journal.clone(), base.may_have_lost_journal)?;
        if let Some(budget) = &base.budget {
            budget.begin(&journal);
        }
        let kept = |model: &Arc<dyn ChatModel>| {
            let kept = Journaled::new(Arc::clone(model), journal.clone());
            Metered::new(Arc::new(match &base.recording {
                Some(recording) => kept.with_recording(recording.clone()),
                None => kept,
            }))
        };
        let judge = base.env.judge().map(|judge| Arc::new(kept(judge)) as Arc<dyn ChatModel>);
        let rollouts = Rollouts::local(Arc::clone(&base.env), Arc::new(kept(&base.target)), judge);
        let embedding = self.embedding.as_ref().map(|model| {
            Arc::new(Journaled::embedding(Arc::clone(model), journal.clone())) as Arc<dyn EmbeddingModel>
        });
        let source = self.source.as_ref().map(|(format, text)| (*format, text.as_str()));
        let mut run = BankRun {
            trainer: self,
            env: base.env.as_ref(),
            rollouts: match &base.runner {
                Some(runner) => rollouts.with_runner(Arc::clone(runner)),
                None => rollouts,
            },
            teacher: kept(&base.optimizer),
            embedding,
            sets: item_sets(base.env.as_ref(), self.settings.trial_share, base.settings.seed)?,
            forbidden: forbidden(base.env.as_ref()),
            bank: LiveBank::open(&path.join(BANK_DIR), &self.initial, source)?,
            frame: base.initial_skill.clone().or_else(|| base.env.initial_skill()),
            timings: TimingsLog::open(path)?,
            started: Instant::now(),
            journal: journal.clone(),
            item_hashes: Arc::default(),
            log: &log,
            dir,
            standing: Standing::default(),
            rates: BTreeMap::new(),
            n_trials: 0,
            n_tried: BTreeMap::new(),
            n_admitted_since_validation: 0,
            tokens: IndexMap::new(),
            trial_rollouts: 0,
            n_admissions: 0,
            retirements: Vec::new(),
            preflights: Vec::new(),
        };
        let outcome = run.work().await;
        if let Err(error) = &outcome {
            let hint = base.advice.on_error(error);
            run.log.emit(&Event::RunStopped { reason: with_causes(error), hint });
        }
        run.rollouts.settle().await;
        if run.journal.flush().await.is_ok()
            && let Err(error) = run.write_timings()
        {
            tracing::debug!(%error, "the timings could not be written");
        }
        if let Err(error) = withdraw_stop(path) {
            tracing::warn!(%error, "the request to stop could not be taken away");
        }
        outcome
    }

    /// Checks that the directory holds this run or none, and writes what is asked now.
    fn claim(&self, dir: &RunDir) -> Result<(), PipelineError> {
        let base = &self.base;
        let models = [("target", base.target.as_ref()), ("teacher", base.optimizer.as_ref())];
        let mut identity: RunIdentity = run_identity(
            &base.config.identity,
            &base.settings,
            base.env.as_ref(),
            models,
            &crate::prompts::PromptLibrary::embedded()?,
            &base.initial_skill.clone().or_else(|| base.env.initial_skill()).unwrap_or_default(),
        );
        identity.retain(|key, _| !key.starts_with("prompts."));
        for (name, hash) in self.prompts.hashes() {
            identity.insert(format!("prompts.{name}"), json!(hash));
        }
        identity.insert("bank.initial".to_owned(), json!(self.initial.view().version()));
        if let Some(model) = &self.embedding {
            identity.insert("models.embedding".to_owned(), json!(model.id().to_string()));
        }
        if let Some(stored) = dir.read_config()?
            && dir.path().join(ROUNDS_DIR).exists()
        {
            check_identity(dir.path(), &stored.identity, &identity)?;
        }
        match dir.check_journal() {
            Err(PipelineError::LostJournal { .. }) if base.may_have_lost_journal => {}
            checked => checked?,
        }
        let config = ConfigFile::new(base.config.resolved.clone(), identity);
        dir.write_config(&config, base.config.source_text.as_deref())
    }
}

/// The goals, ids and reference answers of all sets, none of which may get into a skill.
fn forbidden(env: &dyn Env) -> Forbidden {
    let mut forbidden = Forbidden::new();
    for item in Split::ALL.into_iter().flat_map(|split| env.items(split)) {
        forbidden.add_id(item.id.as_str());
        if let Some(goal) = env.goal(item) {
            forbidden.add_goal(&goal);
        }
        if let Some(answer) = env.reference_reply(item) {
            forbidden.add_answer(&answer);
        }
    }
    forbidden
}

/// A run that this process holds.
struct BankRun<'run> {
    trainer: &'run BankTrainer,
    env: &'run dyn Env,
    rollouts: Rollouts,
    teacher: Metered,
    embedding: Option<Arc<dyn EmbeddingModel>>,
    sets: ItemSets,
    forbidden: Forbidden,
    bank: LiveBank,
    frame: Option<SkillDoc>,
    timings: TimingsLog,
    started: Instant,
    journal: Journal,
    item_hashes: Arc<ItemHashes>,
    log: &'run EventLog<'run>,
    dir: RunDir,
    standing: Standing,
    /// What earlier trials have shown of tasks without their candidates.
    rates: BTreeMap<ItemId, [u32; 2]>,
    n_trials: u32,
    /// How often each candidate was tried.
    n_tried: BTreeMap<SkillRef, u32>,
    n_admitted_since_validation: usize,
    tokens: IndexMap<String, StageTokens>,
    trial_rollouts: u64,
    n_admissions: u32,
    /// Active skills whose retirement was proposed and is not tried yet.
    retirements: Vec<SkillRef>,
    /// What designs can show, by rule and groups.
    preflights: Vec<(TrialRule, u64, Preflight)>,
}

impl BankRun<'_> {
    fn settings(&self) -> &BankSettings {
        &self.trainer.settings
    }

    fn seed(&self) -> u64 {
        self.trainer.base.settings.seed
    }

    async fn work(&mut self) -> Result<BankSummary, PipelineError> {
        let rounds = u32::try_from(self.settings().rounds).unwrap_or(u32::MAX);
        self.timings.begin_process(StepIdx(0), self.trainer.base.settings.workers);
        let config = self.trainer.base.config.dir.as_deref();
        self.log.emit(&Event::RunStarted {
            dir: self.dir.path().to_owned(),
            env: self.env.name().to_owned(),
            n_items: Split::ALL.map(|split| self.env.items(split).len()),
            total_steps: rounds,
            finished_steps: 0,
            workers: self.trainer.base.settings.workers,
            config_dir: config.and_then(|config| way_to(self.dir.path(), config)),
        });
        let without = document(&self.frame.clone().unwrap_or_default());
        let baseline = self.measure(Split::Val, &without, Stage::Baseline).await?;
        baseline.check_spoken(Stage::Baseline)?;
        self.log.emit(&Event::BaselineMeasured { score: baseline.score, gate_score: baseline.score.hard });
        let mut score = baseline.score;
        for round in 0..=rounds {
            self.check_stop(round, rounds)?;
            let mut record = RoundRecord::new(round);
            self.make_round(&mut record).await.map_err(|error| self.or_stopped(error, round, rounds))?;
            let interval = u32::try_from(self.settings().validation_interval.max(1)).unwrap_or(u32::MAX);
            if round == 0 || round == rounds || round % interval == 0 {
                let validation =
                    self.validate().await.map_err(|error| self.or_stopped(error, round, rounds))?;
                score = validation.score;
                record.validation = Some(validation);
                self.n_admitted_since_validation = 0;
            }
            record.n_active = self.bank.bank().view().skills().len();
            record.waiting = self.waiting();
            record.tokens = std::mem::take(&mut self.tokens);
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
        let episodes = self.collect(record.round).await?;
        let plan = EvolvePlan::new(&episodes, &self.evolve_settings());
        record.rates.clone_from(&plan.rates);
        if record.round == 0 {
            if self.bank.bank().skills().len() == 0 {
                self.distil(&episodes, record).await?;
            }
        } else {
            record.weak.clone_from(&plan.weak);
            self.evolve(&episodes, &plan, record).await?;
            self.check_standing(record)?;
        }
        if self.settings().admission == Admission::Measured {
            self.try_candidates(record).await?;
        }
        self.retire_over_cap(record)
    }

    /// Training rollouts with the bank as it is, some of them with one shown skill hidden.
    async fn collect(&mut self, round: u32) -> Result<Vec<TrainEpisode>, PipelineError> {
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
        let hide = HideRule { one_in: one_in(self.settings().hide_share), seed: self.seed() };
        let mut sources: Vec<Arc<dyn SkillSource>> = vec![self.shown_source(view.clone())?];
        let mut source_of: BTreeMap<SkillRef, usize> = BTreeMap::new();
        let mut shown_to: BTreeMap<ItemId, Vec<SkillRef>> = BTreeMap::new();
        let mut hidden_in: BTreeMap<(ItemId, usize), SkillRef> = BTreeMap::new();
        let mut work: Vec<Attempt<'_>> = Vec::with_capacity(planned.len());
        for attempt in planned {
            if !shown_to.contains_key(&attempt.item.id) {
                let shown = self.selected(&source, attempt.item, &ctx).await?;
                shown_to.insert(attempt.item.id.clone(), shown);
            }
            let shown = shown_to.get(&attempt.item.id).map(Vec::as_slice).unwrap_or_default();
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
        drop(ctx);
        self.end(step, stage, &watch);
        if round > 0 {
            self.note_standing(&shown_to, &hidden_in, &results);
        }
        let episodes = results.iter().map(|result| episode_of(result, self.env.name())).collect();
        let (taught, _) = train.take(episodes);
        Ok(taught)
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

    fn evolve_settings(&self) -> EvolveSettings {
        let asked = self.settings();
        EvolveSettings {
            threshold: asked.weak_below,
            min_rollouts: asked.min_rollouts,
            max_new_skills: asked.max_new_skills,
            max_analysis_deep: asked.max_analysis_deep,
            max_analysis_shallow: asked.max_analysis_shallow,
            ..EvolveSettings::default()
        }
    }

    async fn distil(
        &mut self,
        episodes: &[TrainEpisode],
        record: &mut RoundRecord,
    ) -> Result<(), PipelineError> {
        let settings = DistillSettings::default();
        let plan = DistillPlan::new(episodes, &settings);
        let watch = self.begin();
        let call = self.call(None);
        let distilled = {
            let teacher = self.asked();
            distill(episodes, &plan, &settings, &teacher, &self.forbidden, &call).await
        };
        let distilled =
            distilled.map_err(|error| teacher_error(error, &call.place.child(Stage::Distill.as_str())))?;
        watch.used.add(MeterReading { calls: distilled.calls, failed: 0, usage: distilled.usage });
        self.end(None, Stage::Distill, &watch);
        record.left_out.extend(distilled.left_out.iter().map(LeftOut::to_string));
        record.notes.extend(distilled.notes);
        self.propose(record, &distilled.proposals)
    }

    async fn evolve(
        &mut self,
        episodes: &[TrainEpisode],
        plan: &EvolvePlan,
        record: &mut RoundRecord,
    ) -> Result<(), PipelineError> {
        if !plan.is_needed() {
            return Ok(());
        }
        let settings = self.evolve_settings();
        let step = Some(StepIdx(record.round));
        let watch = self.begin();
        let call = self.call(step);
        let evolved = {
            let teacher = self.asked();
            evolve(episodes, plan, self.bank.bank(), &settings, &teacher, &self.forbidden, &call).await
        };
        let evolved =
            evolved.map_err(|error| teacher_error(error, &call.place.child(Stage::Evolve.as_str())))?;
        watch.used.add(MeterReading { calls: evolved.calls, failed: 0, usage: evolved.usage });
        self.end(step, Stage::Evolve, &watch);
        record.left_out.extend(evolved.left_out.iter().map(LeftOut::to_string));
        record.notes.extend(evolved.notes);
        self.propose(record, &evolved.proposals)
    }

    /// Takes proposals into the bank: as candidates, or as the paper does.
    fn propose(
        &mut self,
        record: &mut RoundRecord,
        proposals: &[skill_bank::distill::Proposal],
    ) -> Result<(), PipelineError> {
        let admit = match self.settings().admission {
            Admission::Measured => Admit::Candidate,
            Admission::Unmeasured => Admit::Unmeasured,
        };
        let mut changed = self.bank.bank().clone();
        let n_before = changed.log().len();
        let applied: Applied =
            apply(&mut changed, record.round, proposals, admit).map_err(|error| self.bank_error(error))?;
        let events: Vec<BankEvent> =
            changed.log().iter().skip(n_before).map(|record| record.event.clone()).collect();
        self.bank.record(record.round, events)?;
        record.left_out.extend(applied.left_out.iter().map(LeftOut::to_string));
        if admit == Admit::Unmeasured {
            record.admitted.extend(applied.proposed.iter().cloned());
            record.retired.extend(applied.retirements.iter().cloned());
        }
        if admit == Admit::Candidate {
            self.retirements.extend(applied.retirements);
        }
        record.proposed.extend(applied.proposed);
        Ok(())
    }

    /// The candidates in the order in which they are tried: those that were tried least, then those of the weakest types.
    fn waiting(&self) -> Vec<SkillRef> {
        let bank = self.bank.bank();
        bank.skills()
            .flat_map(|skill| {
                let candidates = skill.versions.iter().filter(|version| version.state == State::Candidate);
                candidates.map(|version| SkillRef::new(skill.id.clone(), version.number))
            })
            .collect()
    }

    async fn try_candidates(&mut self, record: &mut RoundRecord) -> Result<(), PipelineError> {
        let mut room = self.settings().max_trials;
        for skill in std::mem::take(&mut self.retirements) {
            let is_active =
                self.bank.bank().version(&skill).is_some_and(|version| version.state == State::Active);
            match room {
                0 => self.retirements.push(skill),
                _ if !is_active => {}
                _ => {
                    room -= 1;
                    self.try_one(&skill, record).await?;
                }
            }
        }
        let rate_of = |tier: &Tier| {
            let rate = record.rates.iter().find(|rate| Some(rate.task_type.as_str()) == tier.task_type());
            rate.map_or(1.0, skill_bank::evolve::TypeRate::rate)
        };
        let mut queue: Vec<(u32, f64, SkillRef)> = self
            .waiting()
            .into_iter()
            .map(|candidate| {
                let tier = self.bank.bank().skill(&candidate.skill).map(|skill| skill.tier.clone());
                let rate = tier.map_or(1.0, |tier| rate_of(&tier));
                (self.n_tried.get(&candidate).copied().unwrap_or_default(), rate, candidate)
            })
            .collect();
        // What was tried in vain is tried again only where tasks still fail.
        let is_needed =
            |candidate: &SkillRef| match self.bank.bank().skill(&candidate.skill).map(|skill| &skill.tier) {
                Some(Tier::TaskType(task_type)) => record.weak.contains(task_type),
                Some(_) => !record.weak.is_empty(),
                None => false,
            };
        queue.retain(|(n_tried, _, candidate)| *n_tried == 0 || is_needed(candidate));
        // Stable: of equal ones the first in the bank comes first.
        queue.sort_by(|one, other| one.0.cmp(&other.0).then_with(|| one.1.total_cmp(&other.1)));
        for (_, _, candidate) in queue.into_iter().take(room) {
            if self.n_admitted_since_validation >= self.settings().max_admissions {
                break;
            }
            self.check_stop(record.round, u32::try_from(self.settings().rounds).unwrap_or(u32::MAX))?;
            self.try_one(&candidate, record).await?;
        }
        Ok(())
    }

    /// Tries a candidate, or whether an active skill is worth its place.
    async fn try_one(&mut self, candidate: &SkillRef, record: &mut RoundRecord) -> Result<(), PipelineError> {
        *self.n_tried.entry(candidate.clone()).or_default() += 1;
        self.n_trials += 1;
        let bank = self.bank.bank();
        let Some((skill, version)) = bank.skill(&candidate.skill).zip(bank.version(candidate)) else {
            return Ok(());
        };
        let mut trial = TrialRecord {
            trial: self.n_trials,
            skill: candidate.clone(),
            title: version.content.title().to_owned(),
            tier: skill.tier.to_string(),
            is_retirement: version.state == State::Active,
            items: Vec::new(),
            preflight: None,
            rollouts: 0,
            decision: None,
            fresh: None,
            problem: None,
        };
        let evidence = version.evidence.clone();
        let view = bank.view();
        let [without, with] = if trial.is_retirement {
            [view.without(candidate), view]
        } else {
            let with = view.with(first_of_its_tier(bank, candidate), &bank.replaced_by(candidate));
            [view, with]
        };
        let eligible = self.eligible(candidate, &with, record.round).await?;
        let seed = self.seed();
        let rule = self.rule().for_trial(self.n_trials);
        let asked = self.trial_settings(rule);
        let design =
            TrialItems::choose(candidate, &evidence, &eligible, asked.max_items, seed).and_then(|items| {
                // Whole passes, and at least as many groups as in the simulations that the page on trials reports.
                let n_items = items.as_slice().len().max(1);
                let look = u32::try_from(GROUPS_PER_LOOK.div_ceil(n_items) * n_items).unwrap_or(u32::MAX);
                let rule = match asked.rule {
                    TrialRule::AnyTime { threshold, .. } => {
                        TrialRule::AnyTime { threshold, groups_per_look: look }
                    }
                    rule => rule,
                };
                TrialDesign::new(candidate.clone(), items, &TrialSettings { rule, ..asked }, seed)
            });
        let design = match design {
            Ok(design) => design,
            Err(error) => {
                trial.problem = Some(error.to_string());
                self.end_trial(record, trial);
                return Ok(());
            }
        };
        trial.items = design.items().to_vec();
        trial.preflight = Some(self.preflight(&design));
        self.bank.record(
            record.round,
            [BankEvent::TrialOpened {
                skill: candidate.clone(),
                max_rollouts: design.n_rollouts(),
                design_sha256: design.sha256(),
            }],
        )?;
        self.log.emit(&Event::TrialStarted {
            round: record.round,
            trial: trial.trial,
            skill: candidate.to_string(),
            title: trial.title.clone(),
            tier: trial.tier.clone(),
            n_items: trial.items.len(),
            max_rollouts: design.n_rollouts(),
        });
        let arms = [self.shown_source(without)?, self.shown_source(with)?];
        let state = self.run_trial(design, &arms, record.round, &mut trial).await?;
        let Some(decision) = state.decision().copied() else {
            // No task told anything: the candidate waits, behind those that were tried less.
            let numbers = state.numbers();
            trial.problem = Some(format!("none of {} groups told anything", state.n_seen()));
            let undecided = measured(candidate, Occasion::Trial, &numbers, Some(Verdict::Undecided));
            self.bank.record(record.round, [undecided])?;
            self.end_trial(record, trial);
            return Ok(());
        };
        trial.decision = Some(decision);
        let mut events =
            vec![measured(candidate, Occasion::Trial, &decision.numbers, Some(decision.verdict))];
        match decision.verdict {
            // It helps, so it stays.
            Verdict::Admit if trial.is_retirement => {}
            Verdict::Admit => {
                events.push(admission(self.bank.bank(), candidate));
                record.admitted.push(candidate.clone());
                self.n_admitted_since_validation += 1;
                self.n_admissions += 1;
            }
            Verdict::Reject => {
                let reason = if trial.is_retirement { Reason::Proposed } else { Reason::Trial };
                events.push(BankEvent::Retired { skill: candidate.clone(), reason });
                record.retired.push(candidate.clone());
            }
            Verdict::Undecided => {}
        }
        self.bank.record(record.round, events)?;
        if decision.verdict == Verdict::Admit && !trial.is_retirement {
            let fresh = self.measure_afresh(state.design(), &arms, record.round, &mut trial).await?;
            self.bank.record(record.round, [measured(candidate, Occasion::AfterAdmission, &fresh, None)])?;
            trial.fresh = Some(fresh);
        }
        self.end_trial(record, trial);
        Ok(())
    }

    fn end_trial(&mut self, record: &mut RoundRecord, trial: TrialRecord) {
        self.trial_rollouts += trial.rollouts;
        self.log.emit(&Event::TrialFinished { round: record.round, record: Box::new(trial.clone()) });
        record.trials.push(trial);
    }

    /// What a design can show; designs of one size show the same.
    fn preflight(&mut self, design: &TrialDesign) -> Preflight {
        let known = self
            .preflights
            .iter()
            .find(|(rule, n_groups, _)| (*rule, *n_groups) == (design.rule(), design.n_groups()));
        let known = known.map(|(_, _, known)| known.clone());
        let mut found = known.unwrap_or_else(|| {
            let made = preflight(design, TaskPrior::default());
            self.preflights.push((design.rule(), design.n_groups(), made.clone()));
            made
        });
        found.items = design.items().len() as u64;
        found
    }

    /// The tasks of the trial set whose retrieval would show the candidate, with what is known of them.
    async fn eligible(
        &mut self,
        candidate: &SkillRef,
        with: &BankView,
        round: u32,
    ) -> Result<Vec<ItemRate>, PipelineError> {
        let env = Arc::clone(&self.trainer.base.env);
        let set = self.sets.trial().clone();
        let source = self.source(with.clone())?;
        let watch = self.begin();
        let ctx = self.ctx(Some(StepIdx(round)), Stage::Trial, None, &watch);
        let mut eligible = Vec::new();
        for item in chosen(env.as_ref(), |id| set.contains(id)) {
            if self.selected(&source, item, &ctx).await?.contains(candidate) {
                let [successes, rollouts] = self.rates.get(&item.id).copied().unwrap_or_default();
                eligible.push(ItemRate { item: item.id.clone(), successes, rollouts });
            }
        }
        Ok(eligible)
    }

    fn rule(&self) -> TrialRule {
        match self.settings().trial {
            TrialKind::AnyTime => {
                TrialRule::AnyTime { threshold: 1.0 / self.settings().alpha, groups_per_look: 1 }
            }
            TrialKind::FixedEnd => TrialRule::FixedEnd { alpha: self.settings().alpha },
        }
    }

    fn trial_settings(&self, rule: TrialRule) -> TrialSettings {
        TrialSettings {
            rollouts_per_group: u32::try_from(self.settings().trial_samples).unwrap_or(u32::MAX),
            max_rollouts: self.settings().max_trial_rollouts as u64,
            rule,
            ..TrialSettings::default()
        }
    }

    /// Makes the rollouts of a trial, a pass over its tasks at a time, until it is decided, or until nobody expects it to
    /// be: where every task of the first look came out the same in both halves, more of the same would cost as much and
    /// tell as little.
    async fn run_trial(
        &mut self,
        design: TrialDesign,
        arms: &[Arc<dyn SkillSource>; 2],
        round: u32,
        trial: &mut TrialRecord,
    ) -> Result<TrialState, PipelineError> {
        let n_groups = design.n_groups();
        let pass = design.items().len().max(1) as u64;
        let mut state = TrialState::new(design);
        let mut from = 0;
        while state.decision().is_none() && from < n_groups {
            let to = (from + pass).min(n_groups);
            let groups = self.make_groups(state.design(), from..to, arms, round, trial).await?;
            for (place, group) in (from..to).zip(groups) {
                state.push(place, group).map_err(|error| self.trial_error(&error))?;
            }
            from = to;
            if from >= GROUPS_PER_LOOK as u64 && state.numbers().informative_groups == 0 {
                break;
            }
        }
        Ok(state)
    }

    /// Measures an admitted skill on further passes: the numbers that admitted it are too good on average.
    async fn measure_afresh(
        &mut self,
        design: &TrialDesign,
        arms: &[Arc<dyn SkillSource>; 2],
        round: u32,
        trial: &mut TrialRecord,
    ) -> Result<TrialNumbers, PipelineError> {
        let n_items = design.items().len().max(1) as u64;
        // An interval needs so many groups.
        let pass = GROUPS_PER_INTERVAL.div_ceil(n_items) * n_items;
        // Places after the last one of the trial have samples of their own.
        let settings = TrialSettings {
            max_rollouts: design.n_rollouts().saturating_add(pass * u64::from(design.shape().rollouts())),
            ..self.trial_settings(design.rule())
        };
        let evidence = self.bank.bank().version(design.candidate()).map(|version| version.evidence.clone());
        let items =
            TrialItems::these(design.candidate(), &evidence.unwrap_or_default(), design.items().to_vec())
                .map_err(|error| self.trial_error(&error))?;
        let longer = TrialDesign::new(design.candidate().clone(), items, &settings, self.seed())
            .map_err(|error| self.trial_error(&error))?;
        let places = design.n_groups()..longer.n_groups();
        let mut fresh = Stratified::default();
        for group in self.make_groups(&longer, places, arms, round, trial).await? {
            fresh.push(group);
        }
        Ok(TrialNumbers::of(&fresh))
    }

    async fn make_groups(
        &mut self,
        design: &TrialDesign,
        places: std::ops::Range<u64>,
        arms: &[Arc<dyn SkillSource>; 2],
        round: u32,
        trial: &mut TrialRecord,
    ) -> Result<Vec<skill_core::stats::stratified::Group>, PipelineError> {
        let env = Arc::clone(&self.trainer.base.env);
        let items: BTreeMap<&ItemId, &Item> =
            env.items(Split::Train).iter().map(|item| (&item.id, item)).collect();
        let n_samples = usize::try_from(design.shape().rollouts()).unwrap_or(usize::MAX);
        let mut groups = Vec::new();
        let mut work: Vec<Attempt<'_>> = Vec::new();
        for place in places {
            let group = design.group(place).map_err(|error| self.trial_error(&error))?;
            if let Some(item) = items.get(&group.item) {
                let first = usize::try_from(group.pass).unwrap_or(usize::MAX).saturating_mul(n_samples);
                work.extend(group.halves.iter().enumerate().map(|(sample, half)| Attempt {
                    item,
                    draw: first.saturating_add(sample),
                    source_idx: usize::from(*half == Half::With),
                }));
            }
            groups.push(group);
        }
        let step = Some(StepIdx(round));
        let watch = self.begin();
        let batch = usize::try_from(trial.trial.saturating_sub(1)).ok();
        let ctx = self.ctx(step, Stage::Trial, batch, &watch);
        let results = rollout_attempts(&self.rollouts, &work, arms, &ctx).await?;
        drop(ctx);
        self.end(step, Stage::Trial, &watch);
        trial.rollouts += results.len() as u64;
        let mut made = Vec::with_capacity(groups.len());
        for (group, results) in groups.iter().zip(results.chunks(n_samples.max(1))) {
            for (half, result) in group.halves.iter().zip(results) {
                if *half == Half::Without {
                    let [successes, rollouts] = self.rates.entry(group.item.clone()).or_default();
                    *rollouts += 1;
                    *successes += u32::from(result.is_success());
                }
            }
            let successes: Vec<Option<bool>> =
                results.iter().map(|result| Some(result.is_success())).collect();
            made.push(group.of_results(&successes).map_err(|error| self.trial_error(&error))?);
        }
        Ok(made)
    }

    /// Retires what the standing check has shown to harm, and notes what it knows.
    fn check_standing(&mut self, record: &mut RoundRecord) -> Result<(), PipelineError> {
        let harmful: Vec<SkillRef> =
            self.standing.harmful(MIN_STANDING_GROUPS).into_iter().cloned().collect();
        for skill in harmful {
            let bank = self.bank.bank();
            let is_active = bank.version(&skill).is_some_and(|version| version.state == State::Active);
            let is_pinned = bank.skill(&skill.skill).is_some_and(|skill| skill.is_pinned);
            if let Some(numbers) = self.standing.numbers(&skill).filter(|_| is_active && !is_pinned) {
                let retired = BankEvent::Retired { skill: skill.clone(), reason: Reason::Harmful };
                let events = [measured(&skill, Occasion::Standing, &numbers, None), retired];
                self.bank.record(record.round, events)?;
                record.retired.push(skill);
            }
        }
        record.standing = self.standing.all().map(|(skill, numbers)| (skill.to_string(), numbers)).collect();
        Ok(())
    }

    fn retire_over_cap(&mut self, record: &mut RoundRecord) -> Result<(), PipelineError> {
        let bank = self.bank.bank();
        let view = bank.view();
        let pinned: BTreeSet<_> =
            bank.skills().filter(|skill| skill.is_pinned).map(|skill| skill.id.clone()).collect();
        let tiers: BTreeSet<&Tier> = view.skills().iter().map(|skill| &skill.tier).collect();
        let mut retired = Vec::new();
        for tier in tiers {
            let of_tier: Vec<_> = view.tier(tier).map(|(_, skill)| skill.clone()).collect();
            retired
                .extend(over_cap(&of_tier, self.settings().max_active, &pinned, MIN_STANDING_GROUPS).retired);
        }
        for skill in retired {
            let event = BankEvent::Retired { skill: skill.clone(), reason: Reason::OverCap };
            self.bank.record(record.round, [event])?;
            record.retired.push(skill);
        }
        Ok(())
    }

    async fn validate(&mut self) -> Result<ValidationRecord, PipelineError> {
        let view = self.bank.bank().view();
        let source = self.shown_source(view.clone())?;
        let evaluation = self.measure(Split::Val, &source, Stage::Evaluate).await?;
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

    async fn measure(
        &mut self,
        split: Split,
        source: &Arc<dyn SkillSource>,
        stage: Stage,
    ) -> Result<Evaluation, PipelineError> {
        let watch = self.begin();
        let ctx = self.ctx(None, stage, None, &watch);
        let evaluation = evaluate(&self.rollouts, split, source, &ctx).await?;
        drop(ctx);
        self.end(None, stage, &watch);
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
            let without = document(&self.frame.clone().unwrap_or_default());
            test_baseline = Some(self.measure(Split::Test, &without, Stage::TestBaseline).await?.score);
            let with = self.shown_source(self.bank.bank().view())?;
            test = Some(self.measure(Split::Test, &with, Stage::TestBest).await?.score);
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
            tokens,
        };
        self.journal.flush().await?;
        self.dir.put_json(&self.dir.path().join(SUMMARY_FILE), &summary)?;
        self.write_timings()?;
        self.log.emit(&Event::BankFinished { summary: Box::new(summary.clone()) });
        Ok(summary)
    }

    fn round_file(&self, round: u32) -> std::path::PathBuf {
        self.dir.path().join(ROUNDS_DIR).join(format!("round_{round:04}")).join(RECORD_FILE)
    }

    fn write_round(&self, record: &RoundRecord) -> Result<(), PipelineError> {
        let path = self.round_file(record.round);
        if let Some(dir) = path.parent() {
            crate::run_dir::atomic::create_dir(dir)?;
        }
        self.dir.put_json(&path, record)
    }

    fn read_round(&self, round: u32) -> Result<RoundRecord, PipelineError> {
        read_record(&self.round_file(round))
    }

    /// What selects skills of this view, for those who want to know the reasons.
    fn source(&self, view: BankView) -> Result<BankSource, PipelineError> {
        let source = BankSource::new(view, &self.trainer.retrieval, self.embedding.clone())
            .map_err(|error| self.bank_error(error))?;
        Ok(match &self.frame {
            Some(frame) if !frame.is_blank() => source.with_frame(frame.clone()),
            Some(_) | None => source,
        })
    }

    /// What agents are shown with this view; without skills that is the initial skill alone.
    fn shown_source(&self, view: BankView) -> Result<Arc<dyn SkillSource>, PipelineError> {
        if view.skills().is_empty() {
            return Ok(document(&self.frame.clone().unwrap_or_default()));
        }
        Ok(Arc::new(self.source(view)?))
    }

    /// The skills that an item is shown.
    async fn selected(
        &self,
        source: &BankSource,
        item: &Item,
        ctx: &StageCtx<'_>,
    ) -> Result<Vec<SkillRef>, PipelineError> {
        if source.bank().view().skills().is_empty() {
            return Ok(Vec::new());
        }
        let goal = self.env.goal(item).unwrap_or_default();
        let place = ctx.place().child(&item.id).child("skill");
        let call =
            CallCtx { cancel: ctx.cancel.clone(), halt: ctx.halt.clone(), ..CallCtx::new(place.clone()) };
        let selection = source.selection(&TaskView::new(item, &goal), &call).await.map_err(|source| {
            PipelineError::Rollout { place: place.to_string(), item: item.id.clone(), source }
        })?;
        Ok(selection.shown.into_iter().map(|shown| shown.id).collect())
    }

    fn asked(&self) -> Teacher<'_> {
        Teacher {
            model: &self.teacher,
            embedding: self.embedding.as_deref(),
            prompts: &self.trainer.prompts,
            max_reply_tokens: self.trainer.base.settings.max_reply_tokens,
            workers: self.trainer.base.settings.workers.max(1),
        }
    }

    /// Where a teacher is asked: it adds what it is asked for.
    fn call(&self, step: Option<StepIdx>) -> CallCtx {
        let stop = &self.trainer.base.stop;
        let place = step.map(|step| CallPlace::new(format_args!("step {step}"))).unwrap_or_default();
        CallCtx { cancel: stop.now.clone(), halt: stop.soon.clone(), ..CallCtx::new(place) }
    }

    fn begin(&self) -> Watch {
        Watch { began: Instant::now(), used: Arc::default() }
    }

    fn end(&mut self, step: Option<StepIdx>, stage: Stage, watch: &Watch) {
        let seconds = watch.began.elapsed().as_secs_f64();
        self.timings.record(step, stage, seconds);
        self.log.emit(&Event::StageFinished { step, stage, seconds });
        add(&mut self.tokens, stage.as_str(), StageTokens::from(watch.used.snapshot()));
    }

    fn ctx(
        &self,
        step: Option<StepIdx>,
        stage: Stage,
        batch_idx: Option<usize>,
        watch: &Watch,
    ) -> StageCtx<'_> {
        let base = &self.trainer.base;
        StageCtx {
            step,
            stage,
            batch_idx,
            draws: Draws::default(),
            workers: base.settings.workers,
            halt: base.stop.soon.clone(),
            cancel: base.stop.now.clone(),
            events: self.log,
            journal: Some(self.journal.clone()),
            item_hashes: Arc::clone(&self.item_hashes),
            lends: None,
            borrows: None,
            used: Arc::clone(&watch.used),
        }
    }

    fn check_stop(&self, round: u32, rounds: u32) -> Result<(), PipelineError> {
        let stop = &self.trainer.base.stop;
        let is_told = stop.after_step.is_cancelled() || stop.soon.is_cancelled() || stop.now.is_cancelled();
        if is_told || is_stop_requested(self.dir.path()) {
            return Err(PipelineError::Stopped { last_step: round, total_steps: rounds });
        }
        Ok(())
    }

    fn or_stopped(&self, error: PipelineError, round: u32, rounds: u32) -> PipelineError {
        let stop = &self.trainer.base.stop;
        if error.is_stop() && (stop.soon.is_cancelled() || stop.now.is_cancelled()) {
            return PipelineError::Stopped { last_step: round, total_steps: rounds };
        }
        error.or_capped(round, rounds)
    }

    fn write_timings(&mut self) -> Result<(), PipelineError> {
        self.dir.check_not_moved()?;
        let (seconds, requests) = (self.started.elapsed().as_secs_f64(), self.journal.requests_committed());
        let events = ("events.jsonl".to_owned(), self.log.mark());
        self.timings.append(seconds, requests, std::iter::once(events).collect())
    }

    fn bank_error(&self, source: BankError) -> PipelineError {
        PipelineError::Bank { path: self.dir.path().join(BANK_DIR), source }
    }

    fn trial_error(&self, error: &skill_bank::trial::TrialError) -> PipelineError {
        PipelineError::Corrupt { path: self.dir.path().join(ROUNDS_DIR), message: error.to_string() }
    }
}

/// A stage that is under way.
struct Watch {
    began: Instant,
    used: Arc<skill_llm::Meter>,
}

/// What a round came to, by its file.
///
/// # Errors
///
/// A file that cannot be read or is not what it should be.
pub fn read_record(path: &Path) -> Result<RoundRecord, PipelineError> {
    let bytes = std::fs::read(path).map_err(|source| PipelineError::RunDir {
        action: "read",
        path: path.to_owned(),
        source,
    })?;
    serde_json::from_slice(&bytes)
        .map_err(|error| PipelineError::Corrupt { path: path.to_owned(), message: error.to_string() })
}

fn add(tokens: &mut IndexMap<String, StageTokens>, stage: &str, used: StageTokens) {
    *tokens.entry(stage.to_owned()).or_default() += used;
}

fn sample_of(result: &RolloutResult) -> usize {
    usize::try_from(result.trajectory.sample).unwrap_or(usize::MAX)
}

/// In one rollout of how many a skill is hidden; 0 for none.
fn one_in(share: f64) -> u32 {
    if share > 0.0 { (1.0 / share).round() as u32 } else { 0 }
}

/// A candidate as a trial shows it: before all others of its tier, since one that nobody is shown cannot be measured.
fn first_of_its_tier(bank: &Bank, candidate: &SkillRef) -> skill_bank::ViewedSkill {
    let viewed = bank.viewed(candidate);
    let utility = Utility {
        difference: 1.0,
        interval: [1.0, 1.0],
        with: [0, 0],
        without: [0, 0],
        informative_groups: 0,
    };
    match viewed {
        Some(viewed) => skill_bank::ViewedSkill { utility: Some(utility), ..viewed },
        None => skill_bank::ViewedSkill {
            id: candidate.clone(),
            tier: Tier::General,
            content: skill_bank::Content::Principle {
                title: String::new(),
                principle: String::new(),
                when_to_apply: String::new(),
            },
            utility: None,
        },
    }
}

fn measured(
    skill: &SkillRef,
    occasion: Occasion,
    numbers: &TrialNumbers,
    verdict: Option<Verdict>,
) -> BankEvent {
    BankEvent::Measured {
        skill: skill.clone(),
        occasion,
        utility: numbers.utility(),
        verdict,
        e_better: Some(numbers.e_better),
        e_worse: Some(numbers.e_worse),
        p_better: Some(numbers.p_better),
    }
}

/// The event by which a trial makes a candidate active: in the place of what it was made from.
fn admission(bank: &Bank, candidate: &SkillRef) -> BankEvent {
    let replaced = bank.replaced_by(candidate);
    let basis = Basis::Trial;
    if let Some(own) = replaced.iter().find(|replaced| replaced.skill == candidate.skill) {
        return BankEvent::Revised { skill: candidate.clone(), from: own.version, basis };
    }
    if replaced.is_empty() {
        return BankEvent::Admitted { skill: candidate.clone(), basis };
    }
    let from = replaced.into_iter().map(|replaced| replaced.skill).collect();
    BankEvent::Merged { skill: candidate.clone(), from, basis }
}

fn teacher_error(error: DistillError, place: &CallPlace) -> PipelineError {
    match error {
        DistillError::Model { place, source } => PipelineError::Optimizer { place, source },
        DistillError::Prompt(error) => PipelineError::Prompt(error),
        error => PipelineError::Teacher { place: place.to_string(), source: Box::new(error) },
    }
}

//! Stage 1, rollout: the agent works on a batch of items with the current skill.
//!
//! Here it is decided what each item is shown and looked up what was made before; a [`RolloutRunner`] makes the rest.
//!
//! A finished rollout is kept in the journal, so that an environment is not asked twice either. In training a rollout
//! belongs to its place in the run: another step re-measures. In an evaluation it belongs to what the item was shown,
//! so that a skill that returns is not measured again, and neither is an item that another skill shows the same.
//!
//! # Invariants
//!
//! - An evaluation with several targets requests each reply once, wherever the run was stopped, and names a target
//!   that does not answer. Held by `a_target_that_does_not_answer_is_named_and_nothing_is_lost`.
//! - An episode of several turns continues at the turn where it stopped. Held by
//!   `an_episode_goes_on_at_the_turn_where_it_stopped`.
//! - A world that breaks is restarted with the replies it has had, and never becomes a score. Held by
//!   `a_world_that_breaks_is_begun_again_without_paying_twice_and_never_becomes_a_score`.

mod panel;
mod whole;

pub(crate) use panel::Panel;
pub use panel::TargetsScore;
use panel::combined;
pub(crate) use whole::Whole;
use whole::WholeBatch;

use super::StageCtx;
use crate::error::PipelineError;
use crate::event::{Event, StageKind};
use crate::warning::Warning;
use async_trait::async_trait;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use skill_core::canonical::{canonical_json, hex_sha256};
use skill_core::{ItemId, RolloutResult, Usage};
use skill_envs::{
    Env, EnvError, Item, JobLink, JobModels, JobSkill, LocalRunner, ReplyRecord, RolloutJob, RolloutRunner,
    SkillSource, Split, TaskView, reach,
};
use skill_llm::journal::{Journal, ResultKey, ResultRow, StoredResult};
use skill_llm::{CallCtx, ChatModel, LlmError, MeterReading, telemetry};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

/// The scope of rollouts that belong to what their items were shown.
const EVALUATION: &str = "evaluation";

/// What the journal calls a rollout.
const KIND: &str = "rollout";

/// Who makes the rollouts of a stage: an environment, the target that acts in it, and a runner.
#[derive(Clone)]
pub struct Rollouts {
    env: Arc<dyn Env>,
    target: Arc<dyn ChatModel>,
    judge: Option<Arc<dyn ChatModel>>,
    runner: Arc<dyn RolloutRunner>,
    /// The targets of evaluations, where these are others than the one of training.
    panel: Option<Arc<Panel>>,
    /// How batches are made, where the environment works on whole ones.
    whole: Option<Whole>,
}

impl Rollouts {
    /// Rollouts in this process; `judge` is [`Env::judge`] with the layers of the run around it.
    pub fn local(env: Arc<dyn Env>, target: Arc<dyn ChatModel>, judge: Option<Arc<dyn ChatModel>>) -> Self {
        let runner = LocalRunner::new(Arc::clone(&env), Arc::clone(&target), judge.clone());
        Self { env, target, judge, runner: Arc::new(runner), panel: None, whole: None }
    }

    /// The same rollouts, made by this runner: with this environment, target and judge, wherever it has them.
    #[must_use]
    pub fn with_runner(self, runner: Arc<dyn RolloutRunner>) -> Self {
        Self { runner, ..self }
    }

    /// The same rollouts, with these targets in evaluations.
    #[must_use]
    pub(crate) fn with_panel(self, panel: Panel) -> Self {
        Self { panel: Some(Arc::new(panel)), ..self }
    }

    /// The same rollouts, made batch by batch.
    #[must_use]
    pub(crate) fn with_whole_batches(self, whole: Whole) -> Self {
        Self { whole: Some(whole), ..self }
    }

    /// How batches are made, where the environment works on whole ones.
    pub(crate) fn whole(&self) -> Option<&Whole> {
        self.whole.as_ref()
    }

    /// The environment.
    pub fn env(&self) -> &dyn Env {
        self.env.as_ref()
    }

    /// The model that acts.
    pub fn target(&self) -> &dyn ChatModel {
        self.target.as_ref()
    }

    /// The model that the environment asks besides the target.
    pub fn judge(&self) -> Option<&Arc<dyn ChatModel>> {
        self.judge.as_ref()
    }

    /// Waits until all cancelled rollouts have ended.
    pub async fn settle(&self) {
        self.runner.settle().await;
        for (_, rollouts) in self.panel.iter().flat_map(|panel| &panel.targets) {
            rollouts.runner.settle().await;
        }
    }
}

/// A result with what it cost when it was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Rollout {
    /// The result.
    pub result: RolloutResult,
    /// Its model calls, with those that decided what it was shown.
    pub used: MeterReading,
    /// Under which key the journal keeps it.
    pub key: ResultKey,
}

/// What a draw is called, from 2 on.
fn draw_name(draw: usize) -> Option<String> {
    (draw > 0).then(|| format!("draw {}", draw + 1))
}

/// The journal of a run, for rollouts that are made elsewhere.
struct Committed(Journal);

#[async_trait]
impl ReplyRecord for Committed {
    async fn commit(&self) -> Result<(), LlmError> {
        Ok(self.0.flush().await?)
    }
}

/// A rollout as the journal holds it.
#[derive(Serialize, Deserialize)]
struct RolloutFile {
    result: RolloutResult,
    calls: u64,
    usage: Usage,
}

/// A micro-batch: items that belong together and are worked on with the others of the step.
#[derive(Debug, Clone)]
pub struct Batch<'run> {
    /// Its number in the step, from 0; none where a step has one.
    pub batch_idx: Option<usize>,
    /// Its seed in the plan; none for items that are chosen otherwise.
    pub seed: Option<u64>,
    /// Its items, in order.
    pub items: Vec<&'run Item>,
}

/// Runs the agent on the items of all micro-batches of a step, in each sample that the context asks for: one list of
/// results for each micro-batch, in the order of its items, the samples of an item side by side.
///
/// An item of two micro-batches is worked on twice.
///
/// # Errors
///
/// As [`rollout`].
pub async fn rollout_batches(
    rollouts: &Rollouts,
    batches: &[Batch<'_>],
    source: &Arc<dyn SkillSource>,
    ctx: &StageCtx<'_>,
) -> Result<Vec<Vec<RolloutResult>>, PipelineError> {
    let contexts: Vec<StageCtx<'_>> = batches.iter().map(|batch| ctx.at_batch(batch.batch_idx)).collect();
    let agents: Vec<Agent<'_>> = contexts
        .iter()
        .zip(batches)
        .map(|(ctx, batch)| {
            let agent = Agent::new(rollouts, source, ctx).planning(batch.items.len() * ctx.draws.per_item);
            agent.of_batch(Split::Train, batch.seed, batch.items.clone())
        })
        .collect();
    let mut work: Vec<(usize, &Agent<'_>, &Item, usize)> = Vec::new();
    for (list_idx, (batch, agent)) in batches.iter().zip(&agents).enumerate() {
        for item in &batch.items {
            work.extend(ctx.draws.numbers().map(|draw| (list_idx, agent, *item, draw)));
        }
    }
    let made = ctx
        .of_rollouts()
        .map_ordered(work, async |_, (list_idx, agent, item, draw)| {
            Ok((list_idx, agent.work_on(item, draw).await?))
        })
        .await?;
    agents.iter().for_each(Agent::keep_broken);
    let mut results: Vec<Vec<RolloutResult>> = vec![Vec::new(); batches.len()];
    for (list_idx, Rollout { result, used, .. }) in made {
        ctx.used.add(used);
        if let Some(list) = results.get_mut(list_idx) {
            list.push(result);
        }
    }
    Ok(results)
}

/// One rollout of several that share no order but that of a list: an item, the number of the sample, and which of the
/// sources says what is shown.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'run> {
    /// The item.
    pub item: &'run Item,
    /// The number of the sample, from 0: samples of an item share no reply.
    pub draw: usize,
    /// The place of the source in the list of sources.
    pub source_idx: usize,
}

/// Makes these rollouts and returns the results in their order.
///
/// # Errors
///
/// As [`rollout`], and an attempt whose source is not there.
pub(crate) async fn rollout_attempts(
    rollouts: &Rollouts,
    attempts: &[Attempt<'_>],
    sources: &[Arc<dyn SkillSource>],
    ctx: &StageCtx<'_>,
) -> Result<Vec<RolloutResult>, PipelineError> {
    let n_of = |source_idx| attempts.iter().filter(|attempt| attempt.source_idx == source_idx).count();
    let agent = |(at, source)| Agent::new(rollouts, source, ctx).planning(n_of(at));
    let agents: Vec<Agent<'_>> = sources.iter().enumerate().map(agent).collect();
    let made = ctx
        .of_rollouts()
        .map_ordered(attempts.to_vec(), async |_, attempt: Attempt<'_>| {
            match agents.get(attempt.source_idx) {
                Some(agent) => agent.work_on(attempt.item, attempt.draw).await,
                None => Err(PipelineError::Halted),
            }
        })
        .await?;
    agents.iter().for_each(Agent::keep_broken);
    let counted = |Rollout { result, used, .. }: Rollout| {
        ctx.used.add(used);
        result
    };
    Ok(made.into_iter().map(counted).collect())
}

/// Runs the agent on each item and returns the results in the order of the items.
///
/// # Errors
///
/// An attempt that could not be made ends the stage; faults never become scores.
pub async fn rollout(
    rollouts: &Rollouts,
    items: &[&Item],
    source: &Arc<dyn SkillSource>,
    ctx: &StageCtx<'_>,
) -> Result<Vec<RolloutResult>, PipelineError> {
    let batch = Batch { batch_idx: ctx.batch_idx, seed: None, items: items.to_vec() };
    Ok(rollout_batches(rollouts, &[batch], source, ctx).await?.into_iter().flatten().collect())
}

/// The agent with a source of skills: everything that a rollout needs but the item.
pub(super) struct Agent<'run> {
    rollouts: &'run Rollouts,
    source: &'run Arc<dyn SkillSource>,
    ctx: &'run StageCtx<'run>,
    /// What decides a result besides the item and what it is shown: the parts before that, and those after it.
    identity: [Vec<String>; 2],
    /// Whether a person was told of an attempt that broke: where one does, many do.
    is_told: AtomicBool,
    /// The name of the target, where several do the items.
    name: Option<&'run str>,
    /// The targets that do the items instead.
    panel: Vec<(&'run str, Agent<'run>)>,
    /// The batch that its rollouts belong to, where the environment works on whole ones.
    whole: Option<WholeBatch<'run>>,
    /// How many rollouts there are to be.
    n_planned: usize,
    /// How many of them broke.
    n_broken: AtomicUsize,
    /// Those that broke and count as failures if not too many do: until then none of them is recorded.
    broken: Mutex<Vec<(ResultKey, ItemId, StoredResult)>>,
}

impl<'run> Agent<'run> {
    pub(super) fn new(
        rollouts: &'run Rollouts,
        source: &'run Arc<dyn SkillSource>,
        ctx: &'run StageCtx<'run>,
    ) -> Self {
        let scope = match ctx.stage.kind() {
            StageKind::Selection | StageKind::Fresh | StageKind::Test => EVALUATION.to_owned(),
            StageKind::Training | StageKind::Trial | StageKind::Optimizer => ctx.place().to_string(),
        };
        let env = rollouts.env();
        let before = vec![scope, env.name().to_owned(), canonical_json(&env.settings())];
        let mut after: Vec<String> = parts_of(rollouts.target()).into();
        // Without a judge the keys are those of earlier versions.
        after.extend(env.judge().into_iter().flat_map(|judge| parts_of(judge.as_ref())));
        let is_evaluation = before.first().is_some_and(|scope| scope == EVALUATION);
        let panel = rollouts.panel.iter().filter(|_| is_evaluation).flat_map(|panel| &panel.targets);
        let named = |(name, rollouts): &'run (String, Rollouts)| {
            (name.as_str(), Self { name: Some(name), ..Self::new(rollouts, source, ctx) })
        };
        Self {
            rollouts,
            source,
            ctx,
            identity: [before, after],
            is_told: AtomicBool::new(false),
            name: None,
            panel: panel.map(named).collect(),
            whole: None,
            n_planned: 0,
            n_broken: AtomicUsize::new(0),
            broken: Mutex::default(),
        }
    }

    /// The same agent, with so many rollouts to be made.
    pub(super) fn planning(mut self, n_planned: usize) -> Self {
        self.panel = self.panel.into_iter().map(|(name, agent)| (name, agent.planning(n_planned))).collect();
        Self { n_planned, ..self }
    }

    /// Keeps the rollouts that broke, which count as failures: not too many of the stage did.
    pub(super) fn keep_broken(&self) {
        for (_, agent) in &self.panel {
            agent.keep_broken();
        }
        let broken = std::mem::take(&mut *self.broken.lock());
        let Some(journal) = &self.ctx.journal else { return };
        for (key, item, stored) in broken {
            journal.record_result(key, KIND, item.as_str(), stored);
        }
    }

    /// An error if more rollouts of the stage broke than may, this one included.
    fn check_broken(&self, result: &RolloutResult) -> Result<(), EnvError> {
        let (n, of) = (self.n_broken.fetch_add(1, Ordering::Relaxed) + 1, self.n_planned);
        let n_allowed = (self.rollouts.env().max_broken_share() * of as f64).ceil();
        if n as f64 <= n_allowed {
            return Ok(());
        }
        let message = format!("{}; {n} of {of} rollouts broke, and {n_allowed} may", result.fail_reason);
        Err(EnvError::Broken { item: result.id.clone(), message })
    }

    /// The same agent for rollouts of this batch alone, in the samples that the context asks for.
    pub(super) fn of_batch(self, split: Split, seed: Option<u64>, items: Vec<&'run Item>) -> Self {
        let draws = self.ctx.draws.numbers();
        let whole = self.rollouts.whole.as_ref();
        Self { whole: whole.map(|whole| WholeBatch::new(whole, split, seed, items, draws)), ..self }
    }

    /// One draw of the rollout of an item: from the journal if it is there, else made and recorded.
    ///
    /// Draws have places and keys of their own, but for the first one, which has those of an item that is measured once.
    ///
    /// Where several targets do the items, each of them does it, and what comes of it counts once.
    pub(super) async fn work_on(&self, item: &Item, draw: usize) -> Result<Rollout, PipelineError> {
        let Some(panel) = &self.rollouts.panel else { return self.do_item(item, draw).await };
        let mut made = Vec::with_capacity(self.panel.len());
        for (name, agent) in &self.panel {
            made.push((*name, agent.do_item(item, draw).await?));
        }
        match combined(panel.score, made) {
            Some(rollout) => Ok(rollout),
            // Outside of evaluations the target alone does them.
            None => self.do_item(item, draw).await,
        }
    }

    async fn do_item(&self, item: &Item, draw: usize) -> Result<Rollout, PipelineError> {
        let span = tracing::trace_span!(
            telemetry::ROLLOUT,
            { telemetry::ROLLOUT_ITEM } = item.id.as_str(),
            { telemetry::ROLLOUT_DRAW } = draw,
            { telemetry::ROLLOUT_RECORDED } = Empty,
            { telemetry::ROLLOUT_HARD } = Empty,
            { telemetry::ROLLOUT_SOFT } = Empty,
            { telemetry::STATUS } = Empty,
        );
        let outcome = match &self.whole {
            Some(whole) => whole.rollout_of(self, item, draw).instrument(span.clone()).await,
            None => self.look_up_or_make(item, draw, &span).instrument(span.clone()).await,
        };
        match &outcome {
            Ok(Rollout { result, .. }) => {
                span.record(telemetry::ROLLOUT_HARD, result.hard);
                span.record(telemetry::ROLLOUT_SOFT, result.soft);
            }
            Err(_) => {
                span.record(telemetry::STATUS, telemetry::FAILED);
            }
        }
        outcome
    }

    async fn look_up_or_make(&self, item: &Item, draw: usize, span: &Span) -> Result<Rollout, PipelineError> {
        let call = self.call(item, draw);
        let failed =
            |source| PipelineError::Rollout { place: call.place.to_string(), item: item.id.clone(), source };
        let (skill, selected) = self.skill_for(item, &call).await.map_err(failed)?;
        let key = self.key(item, draw, &skill);
        if let Some(journal) = &self.ctx.journal
            && let Some(stored) = journal.result(key)?
        {
            span.record(telemetry::ROLLOUT_RECORDED, true);
            let RolloutFile { result, calls, usage } = read(&stored, journal)?;
            let used = MeterReading { calls, failed: 0, usage }.plus(selected);
            return Ok(Rollout { result, used, key });
        }
        span.record(telemetry::ROLLOUT_RECORDED, false);
        let job = RolloutJob::new(
            key.to_string(),
            self.rollouts.env().name(),
            item.clone(),
            skill,
            call.place.clone(),
        );
        let job = job.with_sample(u32::try_from(draw).unwrap_or(u32::MAX));
        let link = JobLink::new(Arc::clone(self.source))
            .with_tokens(call.cancel.clone(), call.halt.clone())
            .with_models(self.models());
        let outcome = self.rollouts.runner.run(job, link).await.map_err(failed)?;
        if let Some(message) = outcome.broken {
            self.tell_of_a_broken_attempt(&call, &message);
        }
        let (mut result, used) = (outcome.result, outcome.used);
        if self.ctx.is_first_measurement()
            && let Some(error) = reach::out_of_reach(&result)
        {
            return Err(failed(error));
        }
        let is_broken = result.extras.contains_key(reach::BROKEN_KEY);
        if is_broken {
            self.check_broken(&result).map_err(failed)?;
        }
        if let Some(journal) = &self.ctx.journal {
            let file = RolloutFile { result, calls: used.calls, usage: used.usage };
            let content = serde_json::to_string(&file).map_err(|error| {
                failed(EnvError::Model(LlmError::Journal {
                    message: format!("a result cannot be written: {error}"),
                }))
            })?;
            let stored = StoredResult { place: call.place.to_string(), content };
            if is_broken {
                self.broken.lock().push((key, item.id.clone(), stored));
            } else {
                journal.record_result(key, KIND, item.id.as_str(), stored);
            }
            // One that is broken is not in the journal before its stage has ended.
            if !is_broken && self.rollouts.runner.keeps_results() {
                journal.flush().await?;
            }
            result = file.result;
        }
        self.rollouts.runner.acknowledge(&key.to_string()).await;
        Ok(Rollout { result, used: used.plus(selected), key })
    }

    /// The models of the run, for a runner elsewhere.
    fn models(&self) -> JobModels {
        let record = |journal: &Journal| Arc::new(Committed(journal.clone())) as Arc<dyn ReplyRecord>;
        JobModels {
            target: Arc::clone(&self.rollouts.target),
            judge: self.rollouts.judge.clone(),
            record: self.ctx.journal.as_ref().map(record),
        }
    }

    /// What the agent of an item is shown, where its goal is known, and what it took to decide that.
    async fn skill_for(&self, item: &Item, call: &CallCtx) -> Result<(JobSkill, MeterReading), EnvError> {
        let Some(goal) = self.rollouts.env().goal(item) else {
            return Ok((JobSkill::AfterReset { version: self.source.version() }, MeterReading::default()));
        };
        let call = call.child("skill");
        let shown = self.source.show(&TaskView::new(item, &goal), &call).await?;
        Ok((JobSkill::Shown(shown), call.scope.used()))
    }

    /// Under which key the journal keeps a draw: what the item is shown decides, or the source where only a reset tells
    /// what is shown.
    fn key(&self, item: &Item, draw: usize, skill: &JobSkill) -> ResultKey {
        let version = match skill {
            JobSkill::Shown(shown) => shown.version(),
            JobSkill::AfterReset { version } => version.clone(),
        };
        let [before, after] = &self.identity;
        let parts: Vec<&str> =
            before.iter().chain(std::iter::once(&version)).chain(after).map(String::as_str).collect();
        let origin = hex_sha256(parts.join("\u{0}").as_bytes());
        let (data, number) = (self.ctx.item_hashes.of(item), draw_name(draw));
        let mut parts = vec![origin.as_str(), item.id.as_str(), &data];
        parts.extend(number.as_deref());
        ResultKey::new(KIND, &parts)
    }

    /// Where a draw is in the run: `baseline / q7`, `baseline / draw 2 / q7`, or `baseline / target small / q7`.
    fn call(&self, item: &Item, draw: usize) -> CallCtx {
        let target = self.name.map(|name| format!("target {name} / ")).unwrap_or_default();
        match draw_name(draw) {
            Some(name) => self.ctx.call(format_args!("{target}{name} / {}", item.id)),
            None => self.ctx.call(format_args!("{target}{}", item.id)),
        }
    }

    fn tell_of_a_broken_attempt(&self, call: &CallCtx, message: &str) {
        if !self.is_told.swap(true, Ordering::Relaxed) {
            let (place, message) = (call.place.to_string(), message.to_owned());
            self.ctx.events.emit(&Event::warning(None, Warning::BrokenAttempt { place, message }, None));
        }
    }
}

/// The parts of a key that stand for a model.
fn parts_of(model: &dyn ChatModel) -> [String; 3] {
    let id = model.id();
    [id.provider.clone(), id.model.clone(), canonical_json(&model.parameters())]
}

/// The rollout that a row of this journal holds; `None` for other results.
///
/// # Errors
///
/// [`PipelineError::Corrupt`] for a rollout that cannot be read.
pub(crate) fn recorded_result(
    row: &ResultRow,
    journal: &Path,
) -> Result<Option<RolloutResult>, PipelineError> {
    let file = (row.kind == KIND).then(|| parse(&row.content, &row.place, journal)).transpose()?;
    Ok(file.map(|file| file.result))
}

/// Whole results that are in the journal.
pub struct Recorded {
    pub(super) journal: Option<Journal>,
    pub(super) keys: Vec<ResultKey>,
}

impl Recorded {
    /// The results, one at a time, in the order in which they were asked for.
    ///
    /// # Errors
    ///
    /// Each element: a result that is not in the journal, and a journal that cannot be read.
    pub fn results(&self) -> impl Iterator<Item = Result<RolloutResult, PipelineError>> {
        self.keys.iter().map(|key| {
            let missing = || PipelineError::Corrupt {
                path: self.journal.as_ref().map(|journal| journal.path().to_owned()).unwrap_or_default(),
                message: "a rollout of this measurement is missing".to_owned(),
            };
            let journal = self.journal.as_ref().ok_or_else(missing)?;
            let stored = journal.result(*key)?.ok_or_else(missing)?;
            Ok(read(&stored, journal)?.result)
        })
    }
}

fn read(stored: &StoredResult, journal: &Journal) -> Result<RolloutFile, PipelineError> {
    parse(&stored.content, &stored.place, journal.path())
}

fn parse(content: &str, place: &str, journal: &Path) -> Result<RolloutFile, PipelineError> {
    serde_json::from_str(content).map_err(|error| PipelineError::Corrupt {
        path: journal.to_owned(),
        message: format!("the rollout at {place} is not of the expected form: {error}"),
    })
}

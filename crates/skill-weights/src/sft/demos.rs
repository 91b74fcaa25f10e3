//! Demonstrations: an expert, or the agent of an episode file, plays the tasks of the run's environment.
//!
//! A demonstration is never taken as text. Its actions are played again in the environment, with the skills that are
//! selected for the task now, and what is recorded is the prompt that a model would have been shown. So an example
//! cannot differ from what the trained model sees later, and a demonstration that does not do what it claims is found.

use super::reasons::Reasoner;
use async_trait::async_trait;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use skill_bank::Episode;
use skill_core::{ItemId, RolloutResult, Trajectory, TrajectoryTurn, Usage};
use skill_envs::source::Witnessed;
use skill_envs::{Env, EnvError, Item, RolloutCtx, SkillSource, Split};
use skill_llm::{CallCtx, CallPlace, ChatModel, ChatReply, ChatRequest, LlmError, ModelId};
use skill_pipeline::error::PipelineError;
use skill_pipeline::records::sft::SftCounts;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio_util::sync::CancellationToken;

/// The name of the stage in the places of calls.
const PLACE: &str = "demonstrations";

/// Who demonstrates.
#[derive(Clone)]
#[non_exhaustive]
pub enum Demonstrator {
    /// Episodes, each of which is played again; the order decides which of them are used where there are too many.
    Episodes(Vec<Episode>),
    /// A model that plays every training task once, such as the expert of a world.
    Expert(Arc<dyn ChatModel>),
}

/// Plays demonstrations in an environment.
pub struct Demonstrations<'run> {
    env: &'run dyn Env,
    source: &'run dyn SkillSource,
    wins_only: bool,
    cancel: CancellationToken,
    reasoner: Option<Reasoner>,
}

/// Rollouts of demonstrations, and what became of the others.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Played {
    /// The rollouts, in the order of the demonstrations.
    pub results: Vec<RolloutResult>,
    /// How many were left out, by reason.
    pub counts: SftCounts,
    /// The first reasons in words, for people.
    pub notes: Vec<String>,
}

/// Reasons that are told in words; the others are counted.
const MAX_NOTES: usize = 8;

impl<'run> Demonstrations<'run> {
    /// Demonstrations in this environment; `source` selects the skills that each task is shown.
    pub fn new(env: &'run dyn Env, source: &'run dyn SkillSource) -> Self {
        Self { env, source, wins_only: true, cancel: CancellationToken::new(), reasoner: None }
    }

    /// Whether demonstrations that do not reach their goal are left out, which is the default.
    #[must_use]
    pub fn with_wins_only(self, wins_only: bool) -> Self {
        Self { wins_only, ..self }
    }

    /// Ends the work when this token is cancelled.
    #[must_use]
    pub fn with_cancel(self, cancel: CancellationToken) -> Self {
        Self { cancel, ..self }
    }

    /// Has a teacher write a reason for each action: the demonstrations are played once more with the reasons that are not
    /// refused.
    #[must_use]
    pub fn with_reasons(self, reasoner: Option<Reasoner>) -> Self {
        Self { reasoner, ..self }
    }

    /// Plays demonstrations of training tasks until `enough` says so of those that were played.
    ///
    /// Demonstrations of tasks of the other splits are left out: what is measured on them later would be worth nothing.
    ///
    /// # Errors
    ///
    /// [`PipelineError::Rollout`] where skills cannot be selected, an expert fails, or the environment breaks; and
    /// [`PipelineError::StoppedUnkept`].
    pub async fn play(
        &self,
        demonstrator: &Demonstrator,
        mut enough: impl FnMut(&RolloutResult) -> bool,
    ) -> Result<Played, PipelineError> {
        let mut played = Played::default();
        let mut is_enough = false;
        match demonstrator {
            Demonstrator::Episodes(episodes) => {
                let items = self.items();
                played.counts.demonstrations = episodes.len();
                for episode in episodes {
                    if is_enough {
                        played.counts.not_needed += 1;
                        continue;
                    }
                    let Some(item) = known(&items, episode, &mut played) else { continue };
                    let model = Replayed::new(self.env, episode);
                    if model.replies.is_empty() {
                        played.leave_out(format!("{}: it has no steps", episode.id), |counts| {
                            &mut counts.not_replayed
                        });
                        continue;
                    }
                    match self.rollout(item, &model).await {
                        Ok(result) => {
                            let result = self.reasoned(item, result, &mut played).await?;
                            is_enough = self.take(result, &mut played, &mut enough);
                        }
                        Err(EnvError::Model(error)) if model.is_over() => {
                            played.leave_out(format!("{}: {error}", episode.id), |counts| {
                                &mut counts.not_replayed
                            });
                        }
                        Err(source) => return Err(self.failed(item, source)),
                    }
                }
            }
            Demonstrator::Expert(expert) => {
                let items = self.env.items(Split::Train);
                played.counts.demonstrations = items.len();
                for item in items {
                    if is_enough {
                        played.counts.not_needed += 1;
                        continue;
                    }
                    let result = self
                        .rollout(item, expert.as_ref())
                        .await
                        .map_err(|source| self.failed(item, source))?;
                    let result = self.reasoned(item, result, &mut played).await?;
                    is_enough = self.take(result, &mut played, &mut enough);
                }
            }
        }
        Ok(played)
    }

    /// Keeps a rollout; true if there are enough.
    fn take(
        &self,
        result: RolloutResult,
        played: &mut Played,
        enough: &mut impl FnMut(&RolloutResult) -> bool,
    ) -> bool {
        if self.wins_only && !result.is_success() {
            played.leave_out(format!("{}: {}", result.id, result.fail_reason), |counts| &mut counts.lost);
            return false;
        }
        played.counts.used += 1;
        let is_enough = enough(&result);
        played.results.push(result);
        is_enough
    }

    /// The rollout with a teacher's reason before each action, where it is kept and the world takes the same course.
    async fn reasoned(
        &self,
        item: &Item,
        result: RolloutResult,
        played: &mut Played,
    ) -> Result<RolloutResult, PipelineError> {
        let Some(reasoner) = &self.reasoner else { return Ok(result) };
        if self.wins_only && !result.is_success() {
            return Ok(result);
        }
        let trajectory = &result.trajectory;
        let with_action: Vec<usize> = (0..)
            .zip(&trajectory.turns)
            .filter_map(|(place, turn)| turn.action.as_ref().map(|_| place))
            .collect();
        let asking = with_action.into_iter().map(|turn| async move {
            let place = CallPlace::new(PLACE).child(&item.id).child("reason").child(turn);
            let call = CallCtx { cancel: self.cancel.clone(), ..CallCtx::new(place) };
            Ok((turn, reasoner.reason(trajectory, turn, &call).await?))
        });
        let asked: Vec<_> = stream::iter(asking)
            .buffered(reasoner.workers())
            .try_collect()
            .await
            .map_err(|error: LlmError| self.failed(item, EnvError::Model(error)))?;
        let n_refused = asked.iter().filter(|(_, reason)| reason.is_err()).count();
        let reasons: BTreeMap<usize, String> =
            asked.into_iter().filter_map(|(turn, reason)| Some((turn, reason.ok()?))).collect();
        played.counts.reasons_refused += n_refused;
        if reasons.is_empty() {
            return Ok(result);
        }
        let model = Replayed::of(self.env, trajectory, &reasons);
        let again = match self.rollout(item, &model).await {
            Ok(again) => Some(again),
            Err(EnvError::Model(_)) if model.is_over() => None,
            Err(source) => return Err(self.failed(item, source)),
        };
        let actions = |result: &RolloutResult| {
            result.trajectory.turns.iter().map(|turn| turn.action.clone()).collect::<Vec<_>>()
        };
        match again.filter(|again| actions(again) == actions(&result) && again.hard == result.hard) {
            Some(again) => {
                played.counts.reasons += reasons.len();
                Ok(again)
            }
            None => {
                played.counts.reasons_refused += reasons.len();
                Ok(result)
            }
        }
    }

    async fn rollout(&self, item: &Item, target: &dyn ChatModel) -> Result<RolloutResult, EnvError> {
        let place = CallPlace::new(PLACE).child(&item.id);
        let call = CallCtx { cancel: self.cancel.clone(), ..CallCtx::new(place) };
        if self.cancel.is_cancelled() {
            return Err(EnvError::Model(LlmError::Cancelled));
        }
        let witnessed = Witnessed::new(self.source);
        let mut result = self.env.rollout(item, &witnessed, target, &RolloutCtx::new(call)).await?;
        result.id = item.id.clone();
        result.trajectory.shown_parts = witnessed.into_parts();
        Ok(result)
    }

    fn failed(&self, item: &Item, source: EnvError) -> PipelineError {
        if self.cancel.is_cancelled() {
            return PipelineError::StoppedUnkept;
        }
        PipelineError::Rollout {
            place: CallPlace::new(PLACE).child(&item.id).to_string(),
            item: item.id.clone(),
            source,
        }
    }

    fn items(&self) -> BTreeMap<&'run ItemId, (Split, &'run Item)> {
        let of = |split: Split| self.env.items(split).iter().map(move |item| (&item.id, (split, item)));
        Split::ALL.into_iter().flat_map(of).collect()
    }
}

/// The training task of an episode.
fn known<'run>(
    items: &BTreeMap<&ItemId, (Split, &'run Item)>,
    episode: &Episode,
    played: &mut Played,
) -> Option<&'run Item> {
    match items.get(&episode.item) {
        Some((Split::Train, item)) => Some(item),
        Some((split, _)) => {
            let reason = format!("{}: its task is of the {split} split", episode.id);
            played.leave_out(reason, |counts| &mut counts.held_out);
            None
        }
        None => {
            let reason = format!("{}: the environment has no task {}", episode.id, episode.item);
            played.leave_out(reason, |counts| &mut counts.unknown);
            None
        }
    }
}

impl Played {
    fn leave_out(&mut self, reason: String, count: impl FnOnce(&mut SftCounts) -> &mut usize) {
        *count(&mut self.counts) += 1;
        if self.notes.len() < MAX_NOTES {
            self.notes.push(reason);
        }
    }
}

/// A model that replies as the agent of an episode did, whatever it is asked.
struct Replayed {
    id: ModelId,
    replies: Vec<ChatReply>,
    n_asked: AtomicUsize,
}

impl Replayed {
    fn new(env: &dyn Env, episode: &Episode) -> Self {
        let reply = |step: &skill_bank::episode::EpisodeStep| env.reply_of(&step.reasoning, &step.action);
        let replies = episode.steps.iter().map(reply).collect();
        Self { id: ModelId::new("demonstration", &episode.id), replies, n_asked: AtomicUsize::new(0) }
    }

    /// The agent of a rollout, with these reasons before its actions; other replies stay as they were.
    fn of(env: &dyn Env, trajectory: &Trajectory, reasons: &BTreeMap<usize, String>) -> Self {
        let reply = |(place, turn): (usize, &TrajectoryTurn)| match (reasons.get(&place), &turn.action) {
            (Some(reason), Some(action)) => env.reply_of(reason, action),
            _ => {
                let said = trajectory.reply(turn);
                let text = said.map(|said| said.content.as_str()).unwrap_or_default();
                let calls = said.map(|said| said.tool_calls.clone()).unwrap_or_default();
                ChatReply::text(text, Usage::default()).with_tool_calls(calls)
            }
        };
        let replies = (0..).zip(&trajectory.turns).map(reply).collect();
        Self { id: ModelId::new("demonstration", "reasoned"), replies, n_asked: AtomicUsize::new(0) }
    }

    /// True if it was asked for more than it has.
    fn is_over(&self) -> bool {
        self.n_asked.load(Ordering::Relaxed) > self.replies.len()
    }
}

#[async_trait]
impl ChatModel for Replayed {
    fn id(&self) -> &ModelId {
        &self.id
    }

    async fn chat(&self, _: &ChatRequest, _: &CallCtx) -> Result<ChatReply, LlmError> {
        let place = self.n_asked.fetch_add(1, Ordering::Relaxed);
        self.replies.get(place).cloned().ok_or_else(|| LlmError::Configuration {
            message: format!("the task is not over after the {} steps that it has", self.replies.len()),
        })
    }
}

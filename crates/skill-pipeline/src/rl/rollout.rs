//! Groups of episodes, played side by side.

use super::settings::RlSettings;
use crate::error::PipelineError;
use crate::weights::{EpisodeChat, EpisodeRow, PolicyText, Wave, WaveCalls, shared_fault, side_by_side};
use skill_bank::SkillRef;
use skill_bank::trial::{Half, PlannedGroup, TrialResult};
use skill_core::RolloutResult;
use skill_envs::{Env, EnvError, Item, RolloutCtx, SkillSource};
use skill_llm::{CallCtx, CallPlace, ErrorClass};
use skill_train::seam::{GenerationSettings, TrainBackend};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// How the runs of calls are called.
const RUN: &str = "rl waves";

/// An episode that was played.
#[derive(Debug, Clone)]
pub(super) struct Played {
    /// The place of its task in the iteration.
    pub(super) group: usize,
    pub(super) task_type: String,
    pub(super) is_success: bool,
    pub(super) invalid_actions: u32,
    /// The score less the penalties.
    pub(super) reward: f64,
    /// What a trial compares.
    pub(super) outcome: TrialResult,
    /// The half of its group, where it is halved.
    pub(super) half: Option<Half>,
    /// The result of the environment; none where the prompt outgrew its limit.
    pub(super) result: Option<Box<RolloutResult>>,
    pub(super) rows: Vec<EpisodeRow>,
}

/// The episodes of one task in an iteration.
pub(super) struct Group<'run> {
    pub(super) item: &'run Item,
    /// What its halves compare, where it is halved.
    pub(super) halved: Option<Halved>,
}

/// A group that is halved: its halves differ in one skill.
pub(super) struct Halved {
    pub(super) halves: Vec<Half>,
    /// What the halves without and with the skill are shown.
    pub(super) sources: [Arc<dyn SkillSource>; 2],
    pub(super) purpose: Purpose,
}

/// Why a group is halved.
pub(super) enum Purpose {
    /// It is a group of the trial under way.
    Trial(PlannedGroup),
    /// It is a group of the measurement of an active skill.
    Measurement,
    /// This shown skill is hidden from half of it.
    Standing(SkillRef),
}

impl Group<'_> {
    /// A group in which all episodes are shown the same.
    pub(super) fn whole(item: &Item) -> Group<'_> {
        Group { item, halved: None }
    }

    fn half(&self, sample: usize) -> Option<(Half, &Arc<dyn SkillSource>)> {
        let halved = self.halved.as_ref()?;
        let half = halved.halves.get(sample).copied()?;
        let [without, with] = &halved.sources;
        Some(match half {
            Half::Without => (half, without),
            Half::With => (half, with),
        })
    }
}

/// What episodes are played with.
pub(super) struct Table<'run> {
    pub(super) env: &'run Arc<dyn Env>,
    /// What the episodes of groups that are not halved are shown.
    pub(super) source: Arc<dyn SkillSource>,
    pub(super) backend: &'run Arc<dyn TrainBackend>,
    pub(super) text: &'run PolicyText,
    pub(super) settings: &'run RlSettings,
    pub(super) cancel: &'run CancellationToken,
}

impl Table<'_> {
    /// The episodes of these groups, in their order.
    ///
    /// A prompt that has outgrown its limit ends its episode, which keeps what it has said.
    pub(super) async fn play(
        &self,
        iteration: u64,
        groups: &[Group<'_>],
    ) -> Result<Vec<Played>, PipelineError> {
        let settings = self.settings;
        let n_episodes = groups.len() * settings.group_size;
        let generation = GenerationSettings {
            temperature: settings.temperature,
            max_tokens: settings.max_reply_tokens,
            stop_tokens: self.text.stop_tokens.clone(),
            ..GenerationSettings::default()
        };
        let backend = Arc::clone(self.backend);
        let calls = WaveCalls { run: RUN.to_owned(), step: iteration, seed: settings.seed };
        let wave = Arc::new(Wave::new(backend, generation, calls, n_episodes));
        let episodes = (0..n_episodes).filter_map(|seat| {
            let (place, sample) = (seat / settings.group_size, seat % settings.group_size);
            let group = groups.get(place)?;
            let (half, source) =
                group.half(sample).map_or((None, &self.source), |(half, source)| (Some(half), source));
            let call_place = CallPlace::new(format_args!("iteration {iteration}"))
                .child("rollouts")
                .child(&group.item.id)
                .child(format_args!("{sample}"));
            let limit = settings.max_prompt_tokens;
            let episode = Episode {
                env: Arc::clone(self.env),
                source: Arc::clone(source),
                item: group.item.clone(),
                group: place,
                half,
                chat: EpisodeChat::new(Arc::clone(&wave), seat, self.text.clone(), limit),
                wave: Arc::clone(&wave),
                place: call_place,
                cancel: self.cancel.clone(),
                iteration,
                invalid_action_penalty: settings.invalid_action_penalty,
            };
            Some(episode.play())
        });
        side_by_side(episodes).await.into_iter().collect()
    }
}

/// One of the episodes.
struct Episode {
    env: Arc<dyn Env>,
    source: Arc<dyn SkillSource>,
    item: Item,
    group: usize,
    half: Option<Half>,
    chat: EpisodeChat,
    wave: Arc<Wave>,
    place: CallPlace,
    cancel: CancellationToken,
    iteration: u64,
    invalid_action_penalty: f64,
}

impl Episode {
    async fn play(self) -> Result<Played, PipelineError> {
        let Self { env, source, item, group, half, chat, wave, place, cancel, .. } = self;
        let call = CallCtx { cancel: cancel.clone(), ..CallCtx::new(place.clone()) };
        let outcome = env.rollout(&item, source.as_ref(), &chat, &RolloutCtx::new(call)).await;
        wave.leave().await;
        let (rows, fault) = chat.take();
        if let Some(fault) = fault {
            return Err(PipelineError::Weights {
                step: self.iteration,
                total_steps: 0,
                source: Box::new(shared_fault(&fault)),
            });
        }
        let result = match outcome {
            Ok(result) => Some(Box::new(result)),
            Err(EnvError::Model(error)) if error.class() == ErrorClass::ContextTooLong => None,
            Err(EnvError::Model(_)) if cancel.is_cancelled() => return Err(PipelineError::Halted),
            Err(source) => {
                return Err(PipelineError::Rollout { place: place.to_string(), item: item.id, source });
            }
        };
        let is_success = result.as_ref().is_some_and(|result| result.is_success());
        let score = result.as_ref().map_or(0.0, |result| result.soft);
        let invalid_actions = result.as_ref().map_or(0, |result| result.trajectory.invalid_actions);
        Ok(Played {
            group,
            task_type: item.task_type,
            is_success,
            invalid_actions,
            reward: score - self.invalid_action_penalty * f64::from(invalid_actions),
            outcome: TrialResult { is_success, score },
            half,
            result,
            rows,
        })
    }
}

//! Groups of episodes, played side by side.

use crate::policy::{Episode, EpisodeRow, PolicyText, Wave, WaveCalls, side_by_side};
use skill_bank::SkillRef;
use skill_bank::trial::{Half, PlannedGroup, TrialResult};
use skill_core::{RolloutResult, StepIdx};
use skill_envs::{Env, Item, SkillSource};
use skill_llm::CallPlace;
use skill_pipeline::error::PipelineError;
use skill_pipeline::event::{Event, EventSink, Stage};
use skill_pipeline::settings::RlSettings;
use skill_train::seam::{GenerationSettings, TrainBackend};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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
    /// Told of each episode that has ended.
    pub(super) events: &'run Arc<dyn EventSink>,
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
        let n_ended = Arc::new(AtomicUsize::new(0));
        let episodes = (0..n_episodes).filter_map(|seat| {
            let (place, sample) = (seat / settings.group_size, seat % settings.group_size);
            let group = groups.get(place)?;
            let (half, source) =
                group.half(sample).map_or((None, &self.source), |(half, source)| (Some(half), source));
            let place_of_calls = CallPlace::new(format_args!("iteration {iteration}"))
                .child("rollouts")
                .child(&group.item.id)
                .child(format_args!("{sample}"));
            let episode = Episode {
                env: Arc::clone(self.env),
                source: Arc::clone(source),
                item: group.item.clone(),
                wave: Arc::clone(&wave),
                seat,
                text: self.text.clone(),
                max_prompt_tokens: settings.max_prompt_tokens,
                place: place_of_calls,
                cancel: self.cancel.clone(),
                step: iteration,
            };
            let (task_type, penalty) = (group.item.task_type.clone(), settings.invalid_action_penalty);
            let (events, n_ended) = (Arc::clone(self.events), Arc::clone(&n_ended));
            let step = Some(StepIdx(u32::try_from(iteration).unwrap_or(u32::MAX)));
            Some(async move {
                let (result, rows) = episode.play().await?;
                let done = n_ended.fetch_add(1, Ordering::Relaxed) + 1;
                events.emit(&Event::StageProgress { step, stage: Stage::Rollout, done, total: n_episodes });
                let is_success = result.as_ref().is_some_and(RolloutResult::is_success);
                let score = result.as_ref().map_or(0.0, |result| result.soft);
                let invalid_actions = result.as_ref().map_or(0, |result| result.trajectory.invalid_actions);
                Ok(Played {
                    group: place,
                    task_type,
                    is_success,
                    invalid_actions,
                    reward: score - penalty * f64::from(invalid_actions),
                    outcome: TrialResult { is_success, score },
                    half,
                    result: result.map(Box::new),
                    rows,
                })
            })
        });
        side_by_side(episodes).await.into_iter().collect()
    }
}

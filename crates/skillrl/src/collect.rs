//! From a configuration to episodes, as data for a teacher and for fine-tuning.
//!
//! # Invariants
//!
//! - An expert is shown what an agent is shown, and says what an agent would say: its episodes hold requests and
//!   replies of the agent loop. Held by `an_expert_walks_through_the_prompts_of_an_agent_without_a_model`.

use crate::call_cache::CallCache;
use crate::config::{LoadedConfig, ModelRole, simulated_models};
use crate::engine::Engine;
use crate::error::Error;
use crate::trainer;
use skill_bank::Episode;
use skill_bank::episode::{AgentKind, EpisodeAgent};
use skill_core::SkillDoc;
use skill_envs::source::document;
use skill_envs::{Env, Item, Split};
use skill_llm::ChatModel;
use skill_pipeline::bank::collect::{attempts, collect};
use skill_pipeline::identity::check_not_empty;
use skill_pipeline::stage::StageCtx;
use skill_pipeline::stage::rollout::Rollouts;
use skill_pipeline::stage::silence::{cut_replies, empty_replies};
use skill_pipeline::warning::Warning;
use skill_pipeline::{EventSink, Stage, StopSignal};
use std::sync::Arc;

/// Which episodes are collected.
#[derive(Debug, Clone)]
pub struct CollectRequest {
    /// The split whose items are played.
    pub split: Split,
    /// How many episodes; `None` is one of each item.
    pub n_episodes: Option<usize>,
    /// True if the expert of the world plays, and no model.
    pub expert: bool,
    /// The skill that the agent works from.
    pub skill: SkillDoc,
}

/// Collecting that can begin.
pub struct Collecting {
    env: Arc<dyn Env>,
    target: Arc<dyn ChatModel>,
    agent: EpisodeAgent,
    workers: usize,
    request: CollectRequest,
}

/// Episodes with their trajectories.
#[derive(Debug)]
#[non_exhaustive]
pub struct Collected {
    /// The episodes, in the order of their items.
    pub episodes: Vec<Episode>,
    /// What is striking about the replies.
    pub warning: Option<Warning>,
}

impl Collecting {
    /// Makes the agent that plays in this environment; nothing is played.
    ///
    /// # Errors
    ///
    /// Models that are not what the configuration says, an expert that the world does not have, and an empty split.
    pub fn new(
        loaded: &LoadedConfig,
        engine: &mut Engine<'_>,
        env: Arc<dyn Env>,
        request: CollectRequest,
    ) -> Result<Self, Error> {
        let target = match request.expert {
            true => engine.expert()?,
            false => engine.model(ModelRole::Target)?,
        };
        let is_simulated = || !simulated_models(&loaded.config, &[ModelRole::Target]).is_empty();
        let agent = match request.expert {
            true => EpisodeAgent::new(AgentKind::Expert, target.id().model.clone()),
            false if is_simulated() => EpisodeAgent::new(AgentKind::Simulated, target.id().to_string()),
            false => EpisodeAgent::new(AgentKind::Model, target.id().to_string()),
        };
        check_not_empty(env.as_ref(), request.split)?;
        Ok(Self { env, target, agent, workers: trainer::settings(&loaded.config)?.workers, request })
    }

    /// Who plays.
    pub fn agent(&self) -> &EpisodeAgent {
        &self.agent
    }

    /// Plays, with the replies kept where `kept` is given.
    ///
    /// # Errors
    ///
    /// An episode that could not be played; the replies until then are kept.
    pub async fn collect(
        self,
        kept: Option<&CallCache>,
        events: &dyn EventSink,
        stop: &StopSignal,
    ) -> Result<Collected, Error> {
        let Self { env, target, agent, workers, request } = self;
        let items: Vec<&Item> = env.items(request.split).iter().collect();
        let attempts = attempts(&items, request.n_episodes.unwrap_or(items.len()));
        let rollouts = match kept {
            Some(kept) => kept.rollouts(&env, target),
            None => Rollouts::local(Arc::clone(&env), target, env.judge().cloned()),
        };
        let ctx = StageCtx {
            workers,
            halt: stop.soon.clone(),
            cancel: stop.now.clone(),
            journal: kept.map(|kept| kept.journal.clone()),
            ..StageCtx::new(Stage::Collect, events)
        };
        let source = document(&request.skill);
        let collected = collect(&rollouts, &attempts, &source, &ctx).await?;
        let (mut episodes, results): (Vec<Episode>, Vec<_>) = collected.into_iter().unzip();
        let warning = empty_replies(&results).or_else(|| cut_replies(&results));
        for (episode, result) in episodes.iter_mut().zip(results) {
            episode.agent = Some(agent.clone());
            episode.skill = request.skill.hash().to_string();
            episode.trajectory = Some(result.trajectory);
        }
        Ok(Collected { episodes, warning })
    }
}

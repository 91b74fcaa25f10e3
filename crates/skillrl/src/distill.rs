//! From episodes to a bank of skills, by the teacher of a configuration.

use crate::call_cache::CallCache;
use crate::config::{LoadedConfig, ModelRole};
use crate::engine::Engine;
use crate::error::Error;
use crate::{prompts, skills, trainer, world};
use skill_bank::distill::{
    Admit, DistillPlan, DistillSettings, Distillation, LeftOut, Teacher, apply, raw_episodes,
};
use skill_bank::episode::{Episode, TrainEpisode, TrainItems, assign_types};
use skill_bank::lint::Forbidden;
use skill_bank::{Bank, BankError, TokenCompression};
use skill_llm::{CallCtx, CallPlace, ChatModel, EmbeddingModel};
use skill_pipeline::bank::{DistillTask, Show, forbid_items, teacher_error};
use skill_pipeline::{PipelineError, StopSignal};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Distilling that can begin.
pub struct Distilling<'config> {
    loaded: &'config LoadedConfig,
    episodes: Vec<TrainEpisode>,
    plan: DistillPlan,
    forbidden: Forbidden,
    out: PathBuf,
    /// What could not be read, so that skills are held against less.
    pub warning: Option<Error>,
}

/// A bank of what a teacher has written.
#[derive(Debug)]
#[non_exhaustive]
pub struct Distilled {
    /// The bank.
    pub bank: Bank,
    /// Skills that were left out, in words.
    pub left_out: Vec<String>,
    /// What the teacher noted.
    pub notes: Vec<String>,
    /// Calls of the teacher, kept ones included.
    pub calls: u64,
}

impl<'config> Distilling<'config> {
    /// Gives the episodes their types, and plans the calls; `out` is where the bank will be, for messages.
    ///
    /// # Errors
    ///
    /// A table of types that cannot be read.
    pub fn new(loaded: &'config LoadedConfig, mut episodes: Vec<Episode>, out: &Path) -> Result<Self, Error> {
        assign(&mut episodes, loaded)?;
        // No skill may hold goals and ids of any set that is known here.
        let mut forbidden = Forbidden::of_episodes(&episodes);
        let warning = match world::environment(loaded, None) {
            Ok(env) => {
                forbid_items(&mut forbidden, env.as_ref());
                None
            }
            Err(error) => Some(error),
        };
        let (episodes, _) = TrainItems::of_collection(&episodes).take(episodes);
        let plan = DistillPlan::new(&episodes, &DistillSettings::default());
        Ok(Self { loaded, episodes, plan, forbidden, out: out.to_owned(), warning })
    }

    /// Episodes that the teacher reads.
    pub fn n_episodes(&self) -> usize {
        self.episodes.len()
    }

    /// The tokens of these episodes against those of all skills of a bank.
    pub fn compression(&self, bank: &Bank) -> Option<TokenCompression> {
        let episode_tokens = self.episodes.iter().map(|episode| episode.tokens()).sum();
        TokenCompression::new(episode_tokens, bank.skills().filter_map(|skill| skill.latest()))
    }

    /// The calls of the teacher.
    pub fn plan(&self) -> &DistillPlan {
        &self.plan
    }

    /// True if the episodes are what is shown, so that no teacher is asked.
    pub fn shows_episodes(&self) -> bool {
        trainer::bank_settings(&self.loaded.config).show == Show::Episodes
    }

    /// Has the teacher write skills, with its replies kept; where episodes are shown, they are taken as they are.
    ///
    /// # Errors
    ///
    /// A teacher that is not configured or does not answer; the replies until then are kept. No episode to show.
    pub async fn distill(
        &self,
        engine: &mut Engine<'_>,
        admit: Admit,
        kept: &CallCache,
        stop: &StopSignal,
    ) -> Result<Distilled, Error> {
        if self.shows_episodes() {
            let raw = raw_episodes(&self.episodes).map_err(|error| teacher_error(error, "distill"))?;
            return self.applied(&raw, Admit::Unmeasured);
        }
        let loaded = self.loaded;
        let prompts = prompts::of_teacher(&loaded.config.prompts)?;
        let teacher: Arc<dyn ChatModel> = kept.chat(engine.model(ModelRole::Teacher)?);
        let embedding: Option<Arc<dyn EmbeddingModel>> =
            engine.retrieval_model()?.map(|model| kept.embedding(model));
        let call = CallCtx {
            cancel: stop.now.clone(),
            halt: stop.soon.clone(),
            ..CallCtx::new(CallPlace::default())
        };
        let asked = Teacher {
            model: teacher.as_ref(),
            embedding: embedding.as_deref(),
            prompts: &prompts,
            max_reply_tokens: loaded.config.limits.max_reply_tokens,
            workers: trainer::settings(&loaded.config)?.workers,
        };
        let settings = DistillSettings::default();
        let task = DistillTask {
            episodes: &self.episodes,
            plan: &self.plan,
            settings: &settings,
            forbidden: &self.forbidden,
        };
        let distilled = task.ask(&asked, &call, &kept.journal).await?;
        self.applied(&distilled, admit)
    }

    fn applied(&self, distilled: &Distillation, admit: Admit) -> Result<Distilled, Error> {
        let mut bank = Bank::new();
        let failed = |source: BankError| PipelineError::Bank { path: self.out.clone(), source };
        let applied = apply(&mut bank, 0, &distilled.proposals, admit).map_err(failed)?;
        let left_out = distilled.left_out.iter().chain(&applied.left_out).map(LeftOut::to_string).collect();
        Ok(Distilled { bank, left_out, notes: distilled.notes.clone(), calls: distilled.calls })
    }
}

/// Gives each episode a type where its environment or its goal tells one.
fn assign(episodes: &mut [Episode], loaded: &LoadedConfig) -> Result<(), Error> {
    let retrieval = skills::retrieval(loaded.config.retrieval.as_ref(), None)?;
    let known: Vec<String> = episodes.iter().map(|episode| episode.task_type.clone()).collect();
    let detector =
        retrieval.types().detector(known.iter().map(String::as_str).filter(|name| !name.is_empty()));
    assign_types(episodes, &|episode| {
        let found = detector.detect(&episode.task_type, &episode.goal).task_type;
        found.unwrap_or_else(|| episode.task_type.clone())
    });
    Ok(())
}

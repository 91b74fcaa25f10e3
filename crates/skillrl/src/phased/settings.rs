//! What decides the result of each phase.

use crate::config::collect::{CollectAgent, DemonstrationSource};
use crate::config::{LoadedConfig, ModelConfig, ModelRole};
use crate::engine::Engine;
use crate::error::Error;
use crate::policy::LocalTarget;
use crate::{prompts, skills};
use serde_json::{Value, json};
use skill_core::canonical::canonical_hash;
use skill_envs::{Env, Split};
use skill_llm::ChatModel;
use skill_pipeline::phases::Phases;
use skill_pipeline::records::RunIdentity;
use skill_pipeline::records::phases::Phase;
use std::sync::Arc;

/// The settings of the phases of a configuration.
pub(super) struct PhaseSettings<'config> {
    loaded: &'config LoadedConfig,
    env: Arc<dyn Env>,
    /// The hash of the first policy's files.
    policy: String,
    /// Who plays the episodes that are collected, where it is another model than the policy.
    target: Option<(String, Value)>,
    teacher: [(String, Value); 2],
    /// The hashes of the environment's and the teacher's prompts, and of the skill.
    texts: Vec<(String, Value)>,
}

impl<'config> PhaseSettings<'config> {
    /// `policy` is the configuration with the target that is trained.
    pub(super) fn new(
        loaded: &'config LoadedConfig,
        policy: &LoadedConfig,
        env: Arc<dyn Env>,
    ) -> Result<Self, Error> {
        let files = LocalTarget::open(&policy.config.models.target)?.files;
        let target = match &loaded.config.models.target {
            ModelConfig::Local(_) => None,
            _ => {
                let target = Engine::new(loaded).model(ModelRole::Target)?;
                Some((target.id().to_string(), target.parameters()))
            }
        };
        let teacher: Arc<dyn ChatModel> = Engine::new(loaded).model(ModelRole::Teacher)?;
        let skill = skills::first_skill(&loaded.config.skill, env.as_ref())?.unwrap_or_default();
        let prompts = prompts::of_teacher(&loaded.config.prompts)?;
        let mut texts: Vec<(String, Value)> = vec![("skill.initial".to_owned(), json!(skill.hash()))];
        texts.extend(
            prompts.hashes().into_iter().map(|(name, hash)| (format!("prompts.{name}"), json!(hash))),
        );
        Ok(Self {
            loaded,
            policy: files.revision().to_owned(),
            target,
            teacher: [
                ("models.teacher".to_owned(), json!(teacher.id().to_string())),
                ("models.teacher.parameters".to_owned(), teacher.parameters()),
            ],
            env,
            texts,
        })
    }

    /// Those of a phase, among them the results of the phases that it builds on.
    pub(super) fn of(&self, phase: Phase, finished: &Phases) -> RunIdentity {
        let sections: &[&str] = match phase {
            Phase::Collect => &["collect"],
            Phase::Distill => &["bank"],
            Phase::Sft => &["sft", "retrieval"],
            Phase::Rl => &["rl", "retrieval", "bank", "evolution"],
            Phase::Test => &["retrieval"],
        };
        let mut settings: RunIdentity =
            self.loaded.config.decisive_of(|section| sections.contains(&section.path)).into_iter().collect();
        settings.remove("collect.demonstrations");
        let mut set = |key: &str, value: Value| {
            settings.insert(key.to_owned(), value);
        };
        let result = |phase: Phase| json!(finished.get(phase).map(|record| &record.result));
        let collect = self.loaded.config.collect.clone().unwrap_or_default();
        let data = |split: Split| {
            let items = serde_json::to_value(self.env.items(split)).expect("items serialize");
            (format!("data.{split}"), json!(canonical_hash(&items)))
        };
        let splits: &[Split] = match phase {
            Phase::Collect => &[Split::Train],
            Phase::Distill => &[],
            Phase::Sft | Phase::Rl => &[Split::Train, Split::Val],
            Phase::Test => &[Split::Test],
        };
        for (key, value) in splits.iter().map(|split| data(*split)) {
            set(&key, value);
        }
        if phase != Phase::Distill {
            set("env.name", json!(self.env.name()));
            set("env.settings", self.env.settings());
            set("run.seed", json!(self.loaded.config.run.seed));
        }
        match phase {
            Phase::Collect if collect.agent == CollectAgent::Expert => {}
            Phase::Collect => match &self.target {
                Some((id, parameters)) => {
                    set("models.target", json!(id));
                    set("models.target.parameters", parameters.clone());
                }
                None => set("models.policy", json!(self.policy)),
            },
            Phase::Distill => set("phase.collect", result(Phase::Collect)),
            Phase::Sft => {
                set("models.policy", json!(self.policy));
                set("phase.distill", result(Phase::Distill));
                set("collect.demonstrations", json!(collect.demonstrations));
                if collect.demonstrations == DemonstrationSource::Collected {
                    set("phase.collect", result(Phase::Collect));
                }
            }
            Phase::Rl => {
                set("phase.distill", result(Phase::Distill));
                set("phase.sft", result(Phase::Sft));
            }
            Phase::Test => {
                set("models.policy", json!(self.policy));
                set("phase.sft", result(Phase::Sft));
                set("phase.rl", result(Phase::Rl));
            }
        }
        if matches!(phase, Phase::Distill | Phase::Rl) {
            settings.extend(self.teacher.iter().cloned());
        }
        settings.extend(self.texts.iter().cloned());
        settings
    }
}

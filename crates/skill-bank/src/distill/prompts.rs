//! The teacher's prompts.

use crate::episode::{TrainEpisode, escape, render_episode};
use crate::skill::{Content, Tier};
use serde::Serialize;
use skill_core::SkillHash;
use skill_llm::{Message, PromptError, PromptTemplate};
use std::collections::{BTreeMap, BTreeSet};

skill_llm::prompts! {
    /// One of the teacher's prompts.
    pub enum TeacherPrompt;

    /// The teacher's prompts, built in or replaced.
    pub struct TeacherPrompts;

    /// Asks for skills for tasks of every type.
    General = distill_general,
    /// Asks for skills for tasks of one type.
    Task = distill_task,
    /// Asks for mistakes to avoid.
    Mistakes = distill_mistakes,
    /// Asks to merge what several calls proposed.
    Merge = distill_merge,
    /// Asks for changes of the skills of weak types.
    Evolve = evolve,
}

impl TeacherPrompts {
    /// The same with another text for a prompt; `label` names the text in errors.
    ///
    /// # Errors
    ///
    /// A text that is not a template.
    pub fn with_source(
        mut self,
        name: TeacherPrompt,
        label: &str,
        source: &str,
    ) -> Result<Self, PromptError> {
        *self.template_mut(name) = PromptTemplate::parse(label, source)?;
        Ok(self)
    }

    /// The hash of each prompt's text, by its name.
    pub fn hashes(&self) -> BTreeMap<&'static str, SkillHash> {
        let hash = |name: TeacherPrompt| (name.as_str(), SkillHash::of(self.template(name).source()));
        TeacherPrompt::ALL.into_iter().map(hash).collect()
    }

    /// The request for skills of a tier from these episodes.
    ///
    /// # Errors
    ///
    /// A replaced prompt that cannot be rendered.
    pub fn distill(
        &self,
        tier: &Tier,
        episodes: &[&TrainEpisode],
        limits: PromptLimits,
    ) -> Result<Vec<Message>, PromptError> {
        let name = match tier {
            Tier::General => TeacherPrompt::General,
            Tier::TaskType(_) => TeacherPrompt::Task,
            Tier::Mistakes => TeacherPrompt::Mistakes,
        };
        self.template(name).render(DistillContext {
            task_type: tier.task_type().map(escape).unwrap_or_default(),
            task_types: types_text(episodes),
            n_episodes: episodes.len(),
            episodes: episodes_text(episodes, limits.max_episode_tokens),
            limits,
        })
    }

    /// The request to merge these skills, numbered from 1, into one list.
    ///
    /// # Errors
    ///
    /// As [`distill`](Self::distill).
    pub fn merge(
        &self,
        tier: &Tier,
        skills: &[&Content],
        limits: PromptLimits,
    ) -> Result<Vec<Message>, PromptError> {
        let proposals: Vec<String> = (1_usize..)
            .zip(skills)
            .map(|(number, content)| {
                format!("<proposal number=\"{number}\">\n{}\n</proposal>", content_text(content))
            })
            .collect();
        self.template(TeacherPrompt::Merge).render(MergeContext {
            tier: match tier {
                Tier::General => "tasks of every type".to_owned(),
                Tier::TaskType(task_type) => format!("tasks of the type {}", escape(task_type)),
                Tier::Mistakes => "mistakes to avoid in tasks of every type".to_owned(),
            },
            is_mistakes: *tier == Tier::Mistakes,
            n_proposals: proposals.len(),
            proposals: proposals.join("\n"),
            limits,
        })
    }

    /// The request for changes of the skills of weak types.
    ///
    /// # Errors
    ///
    /// As [`distill`](Self::distill).
    pub fn evolve(
        &self,
        weak_types: &str,
        skills: &str,
        episodes: &[&TrainEpisode],
        limits: PromptLimits,
    ) -> Result<Vec<Message>, PromptError> {
        self.template(TeacherPrompt::Evolve).render(EvolveContext {
            weak_types,
            skills,
            n_episodes: episodes.len(),
            episodes: episodes_text(episodes, limits.max_episode_tokens),
            max_changes: limits.max_skills,
            limits,
        })
    }
}

/// How much is requested and shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PromptLimits {
    /// The fewest skills that are requested.
    pub min_skills: usize,
    /// The most skills that are requested.
    pub max_skills: usize,
    /// The most characters of one.
    pub max_chars: usize,
    /// The most tokens of one episode, about.
    #[serde(skip)]
    pub max_episode_tokens: u64,
}

#[derive(Serialize)]
struct DistillContext {
    task_type: String,
    task_types: String,
    n_episodes: usize,
    episodes: String,
    #[serde(flatten)]
    limits: PromptLimits,
}

#[derive(Serialize)]
struct MergeContext {
    tier: String,
    is_mistakes: bool,
    n_proposals: usize,
    proposals: String,
    #[serde(flatten)]
    limits: PromptLimits,
}

#[derive(Serialize)]
struct EvolveContext<'a> {
    weak_types: &'a str,
    skills: &'a str,
    n_episodes: usize,
    episodes: String,
    max_changes: usize,
    #[serde(flatten)]
    limits: PromptLimits,
}

fn types_text(episodes: &[&TrainEpisode]) -> String {
    let types: BTreeSet<&str> =
        episodes.iter().filter(|episode| episode.has_type()).map(|episode| &*episode.task_type).collect();
    if types.is_empty() {
        return "- not known".to_owned();
    }
    types.into_iter().map(|name| format!("- {}", escape(name))).collect::<Vec<_>>().join("\n")
}

fn episodes_text(episodes: &[&TrainEpisode], max_tokens: u64) -> String {
    let blocks = (1_usize..).zip(episodes);
    let blocks = blocks.map(|(number, episode)| render_episode(episode, number, max_tokens));
    blocks.collect::<Vec<_>>().join("\n\n")
}

/// A skill as a teacher reads it, a line for each field.
pub(crate) fn content_text(content: &Content) -> String {
    let labels = match content {
        Content::Principle { .. } => ["Title", "Principle", "When to apply"],
        Content::Mistake { .. } => ["Mistake", "Why it happens", "How to avoid it"],
        Content::Episode { .. } => ["Task", "Outcome", "Steps"],
    };
    let fields = labels.into_iter().zip(content.texts());
    let lines = fields.filter(|(_, text)| !text.is_empty()).map(|(label, text)| format!("{label}: {text}"));
    escape(&lines.collect::<Vec<_>>().join("\n"))
}

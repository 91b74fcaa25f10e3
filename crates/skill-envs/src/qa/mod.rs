//! Questions with known answers: one call for each item, scored against the answers.
//!
//! This is a preset of [`crate::tasks`] with fixed fields, two scorers and a prompt of its own.
//!
//! # Data
//!
//! A data set is a directory with the parts `train`, `val` (or `valid`, `validation`, `selection`) and `test`,
//! or one file that is split by a ratio and a seed.
//! A part is `train.jsonl`, `train.json`, `train.csv`, or a directory `train` with exactly one such file in it.
//! A `.jsonl` file holds one item a line, a `.json` file one array of items, a `.csv` file a header and one item a row.
//! An item is an object:
//!
//! | field | |
//! |---|---|
//! | `id` | a string or an integer, unique over all splits |
//! | `question` | a string |
//! | `answers` | a string or number, or a list of them; `answer` is understood too |
//! | `context` | a string that the agent may answer from; optional |
//! | `task_type` | a category for reports; optional |
//!
//! Further fields are kept in [`Item::data`] and not looked at.
//!
//! # Scoring
//!
//! The reply, without the white space around it, is the answer; [`QaScorer`] chooses how it is scored.
//! A reply without text is a failed task under both scorers.

mod config;
mod item;
mod load;
mod rollout;

pub use config::{QaConfig, QaScorer, QaSettings};
pub use item::QaItem;

use crate::answerable::AnswerFinding;
use crate::env::{Env, RolloutCtx, SCORING_VERSION, SCORING_VERSION_KEY};
use crate::error::EnvError;
use crate::item::{Item, Split, Splits};
use crate::source::SkillSource;
use crate::tasks::rollout::{Agenda, Attempt};
use crate::tasks::task::Asked;
use async_trait::async_trait;
use indexmap::IndexMap;
use serde_json::{Value, json};
use skill_core::{ItemId, RolloutResult, SkillDoc};
use skill_llm::ChatModel;
use std::collections::HashSet;

/// The name of the prompt that [`QaSettings::prompt`] replaces.
pub const ROLLOUT_PROMPT_NAME: &str = "rollout_qa";

/// The built-in prompt; its variables are `skill`, `question`, `context` and `task_type`.
pub const ROLLOUT_PROMPT: &str = include_str!("../../prompts/rollout_qa.md");

/// An environment of questions with known answers.
#[derive(Debug, Clone)]
pub struct QaEnv {
    splits: Splits<Vec<Item>>,
    /// The split of each item, and its index there.
    by_id: IndexMap<ItemId, (Split, usize)>,
    scorer: QaScorer,
    agenda: Agenda,
}

impl QaEnv {
    /// Reads the data and prepares the prompt.
    ///
    /// # Errors
    ///
    /// Data that is missing, malformed, empty in a split or without unique ids, with the file and line; a ratio
    /// of zeros, a token limit of zero, or a prompt that does not render.
    pub fn load(config: &QaConfig) -> Result<Self, EnvError> {
        Self::new(load::load_splits(config)?, config.settings())
    }

    /// An environment of these items, for programs that have their own data; a split may be empty.
    ///
    /// # Errors
    ///
    /// An item with a blank id, a blank question or no answer, an id that occurs twice, a token limit of zero,
    /// or a prompt that does not render.
    pub fn from_items(
        train: Vec<QaItem>,
        val: Vec<QaItem>,
        test: Vec<QaItem>,
        settings: QaSettings,
    ) -> Result<Self, EnvError> {
        let mut ids = HashSet::new();
        for question in train.iter().chain(&val).chain(&test) {
            let message = match question.fault() {
                Some(fault) => fault,
                None if !ids.insert(&question.id) => {
                    "the id occurs twice; ids are unique over all splits".to_owned()
                }
                None => continue,
            };
            return Err(configuration(format!("item `{}`: {message}", question.id)));
        }
        let splits = Splits { train, val, test }.map(|split| split.iter().map(QaItem::to_item).collect());
        Self::new(splits, settings)
    }

    fn new(splits: Splits<Vec<Item>>, settings: QaSettings) -> Result<Self, EnvError> {
        if settings.max_tokens == Some(0) {
            return Err(configuration("`max_tokens` is 0; expected at least 1, or none".to_owned()));
        }
        let places = splits.iter().flat_map(|(split, items)| {
            items.iter().enumerate().map(move |(item_idx, item)| (item.id.clone(), (split, item_idx)))
        });
        let by_id = places.collect();
        Ok(Self { splits, by_id, scorer: settings.scorer, agenda: rollout::agenda(settings)? })
    }

    /// The question with this id.
    pub fn question(&self, id: &ItemId) -> Option<QaItem> {
        // What was read once is read again without a fault.
        QaItem::parse(self.item(id)?.data.as_object()?).ok()
    }

    fn item(&self, id: &ItemId) -> Option<&Item> {
        let (split, item_idx) = *self.by_id.get(id)?;
        self.splits[split].get(item_idx)
    }
}

#[async_trait]
impl Env for QaEnv {
    fn name(&self) -> &str {
        "qa"
    }

    fn items(&self, split: Split) -> &[Item] {
        &self.splits[split]
    }

    fn settings(&self) -> Value {
        json!({
            SCORING_VERSION_KEY: SCORING_VERSION,
            "scorer": self.scorer.as_str(),
            "max_tokens": self.agenda.max_tokens,
            "prompt": self.agenda.prompt.source(),
        })
    }

    fn reward(&self) -> Option<String> {
        Some(self.agenda.scorer.reward())
    }

    fn reference_reply(&self, item: &Item) -> Option<String> {
        let task = rollout::task(&self.question(&item.id)?);
        self.agenda.reference_reply(Asked { item, task: &task })
    }

    fn answerable(&self, skill: &SkillDoc) -> Vec<AnswerFinding> {
        let items = self.splits.iter().flat_map(|(_, items)| items);
        let tasks: Vec<_> =
            items.filter_map(|item| Some((item, rollout::task(&self.question(&item.id)?)))).collect();
        let asked = tasks.iter().map(|(item, task)| Asked { item, task });
        let mut findings = crate::tasks::answerable::answerable(asked, &self.agenda, skill);
        // Its own prompt leaves the form of an answer to the skill.
        findings.retain(|finding| !matches!(finding, AnswerFinding::AnswerAloneUnstated { .. }));
        findings
    }

    fn label(&self, item: &Item) -> Option<String> {
        let task = rollout::task(&self.question(&item.id)?);
        self.agenda.scorer.label(&task)
    }

    fn goal(&self, item: &Item) -> Option<String> {
        let task = rollout::task(&self.question(&item.id)?);
        self.agenda.goal(Asked { item, task: &task }).ok()
    }

    async fn rollout(
        &self,
        item: &Item,
        source: &dyn SkillSource,
        target: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<RolloutResult, EnvError> {
        let Some((item, question)) = self.item(&item.id).zip(self.question(&item.id)) else {
            return Err(configuration(format!("item `{}` is not one of this environment's", item.id)));
        };
        let task = rollout::task(&question);
        let asked = Asked { item, task: &task };
        // Neither goal nor skill is kept while the model is waited for: many rollouts wait at once.
        let (request, ctx) = {
            let goal = self.agenda.goal(asked)?;
            let (skill, ctx) = ctx.show(source, item, &goal).await?;
            (self.agenda.request(asked, &skill)?, ctx)
        };
        let reply = target.chat(&request, &ctx.call).await?;
        self.agenda.result(asked, Attempt::single(request, &reply), reply, None, &ctx.call).await
    }
}

fn configuration(message: String) -> EnvError {
    EnvError::Configuration { message }
}

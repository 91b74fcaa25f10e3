//! The toy world of the recorded runs, and an optimizer that says what the recorded one said, in its order.

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use skill_core::{ItemScore, RolloutResult, Usage};
use skill_envs::{Env, EnvError, Item, RolloutCtx, SkillSource, Split};
use skill_llm::scripted::ScriptedModel;
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, LlmError, ModelId};
use std::sync::Arc;

const WORDS: [&str; 10] =
    ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliet"];

/// The calls of each stage of the reference, by the stage of ours that makes them.
const STAGES: [(&str, &str); 8] = [
    ("edit budget", "lr_autonomous"),
    ("reflect", "analyst"),
    ("aggregate", "merge"),
    ("select", "ranking"),
    ("update", "rewrite"),
    ("appendix", "appendix_consolidate"),
    ("slow_update", "slow_update"),
    ("meta_skill", "meta_skill"),
];

/// An item is solved if its word is in the skill.
pub(crate) struct World {
    splits: [Vec<Item>; 3],
}

impl World {
    pub(crate) fn new() -> Self {
        let items = |prefix: &str| {
            WORDS
                .iter()
                .enumerate()
                .map(|(idx, word)| Item::new(format!("{prefix}{idx}"), json!(word)))
                .collect()
        };
        Self { splits: [items("tr"), items("va"), items("te")] }
    }
}

/// What every item of a split gives under a skill.
pub(crate) fn scores(skill: &str) -> Vec<ItemScore> {
    WORDS.iter().map(|word| score(skill, word)).collect()
}

fn score(skill: &str, word: &str) -> ItemScore {
    if skill.contains(word) {
        ItemScore { hard: 1.0, soft: 1.0 }
    } else {
        ItemScore { hard: 0.0, soft: 0.25 }
    }
}

#[async_trait]
impl Env for World {
    fn name(&self) -> &str {
        "toy"
    }

    fn items(&self, split: Split) -> &[Item] {
        &self.splits[split as usize]
    }

    async fn rollout(
        &self,
        item: &Item,
        source: &dyn SkillSource,
        _target: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<RolloutResult, EnvError> {
        let word = item.data.as_str().unwrap();
        let (skill, _) = ctx.show(source, item, word).await?;
        let ItemScore { hard, soft } = score(skill.source_text(), word);
        let mut result = RolloutResult::new(item.id.clone(), hard, soft);
        result.fail_reason = if hard > 0.0 { String::new() } else { format!("missing: {word}") };
        Ok(result)
    }
}

pub(crate) fn silent_target() -> Arc<dyn ChatModel> {
    Arc::new(ScriptedModel::answering("target", |_| String::new()))
}

/// Gives the replies in their order and notes which stage asked.
pub(crate) struct Recorded {
    id: ModelId,
    replies: Vec<Value>,
    asked: Mutex<Vec<String>>,
}

impl Recorded {
    pub(crate) fn new(replies: &[Value]) -> Arc<Self> {
        let id = ModelId::new("recorded", "optimizer");
        Arc::new(Self { id, replies: replies.to_vec(), asked: Mutex::default() })
    }

    /// The stages that asked, as the reference calls them.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

#[async_trait]
impl ChatModel for Recorded {
    fn id(&self) -> &ModelId {
        &self.id
    }

    async fn chat(&self, _: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        let place = call.place.to_string();
        let stage = STAGES.iter().find(|(ours, _)| place.split(" / ").any(|part| part == *ours));
        let stage = stage.map_or(place.as_str(), |(_, theirs)| theirs).to_owned();
        let mut asked = self.asked.lock();
        let reply = self.replies.get(asked.len());
        let is_expected = reply.is_some_and(|reply| reply["stage"] == stage.as_str());
        asked.push(stage);
        match reply {
            Some(reply) if is_expected => {
                Ok(ChatReply::text(reply["response"].as_str().unwrap(), Usage::default()))
            }
            // What the two ask for is compared when the run is over.
            Some(_) | None => Err(LlmError::Cancelled),
        }
    }
}

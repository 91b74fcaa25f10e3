//! A toy world whose models live at the simulated provider: an item is solved if its word is in the skill.

use async_trait::async_trait;
use serde_json::{Value, json};
use skill_core::{EditBudget, EditBudgetSchedule, Gate, GateMetric, PairPolicy, RolloutResult};
use skill_envs::{Env, EnvError, Item, RolloutCtx, SkillSource, Split};
use skill_llm::testbed::SimAnswer;
use skill_llm::{ChatModel, ChatRequest, Message};
use skill_pipeline::{EarlyStop, EpochEnd, SlowUpdate, TrainSettings};

pub(crate) const INITIAL_SKILL: &str = "# Skill\n\n- base\n";

/// Sizes and settings that lead through different parts of the trainer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum World {
    /// Many small steps.
    Small,
    /// Many small steps, every item measured, an analyst for each trajectory.
    Thorough,
    /// Few steps with many calls at once.
    Wide,
}

impl World {
    pub(crate) const ALL: [Self; 3] = [Self::Small, Self::Thorough, Self::Wide];

    /// Items of train, val and test.
    fn sizes(self) -> [usize; 3] {
        match self {
            Self::Small => [6, 8, 4],
            Self::Thorough => [5, 6, 4],
            Self::Wide => [32, 40, 16],
        }
    }

    fn n_words(self) -> usize {
        match self {
            Self::Small | Self::Thorough => 6,
            Self::Wide => 10,
        }
    }

    pub(crate) fn settings(self) -> TrainSettings {
        let budget = |max| EditBudget::new(EditBudgetSchedule::Cosine, max, 1).unwrap();
        let base = TrainSettings { merge_batch_size: 2, edit_budget: budget(2), ..TrainSettings::default() };
        match self {
            Self::Small => TrainSettings {
                epochs: 2,
                batch_size: 3,
                minibatch_size: 2,
                epoch_end: EpochEnd { samples: 3, pair_policy: PairPolicy::Changed, ..base.epoch_end },
                ..base
            },
            Self::Thorough => TrainSettings {
                epochs: 2,
                batch_size: 4,
                minibatch_size: 1,
                early_stop: EarlyStop::Off,
                epoch_end: EpochEnd { slow_update: SlowUpdate::Force, samples: 4, ..base.epoch_end },
                gate: Gate { metric: GateMetric::Soft, ..base.gate },
                ..base
            },
            Self::Wide => TrainSettings {
                epochs: 2,
                batch_size: 32,
                minibatch_size: 4,
                merge_batch_size: 4,
                edit_budget: budget(3),
                epoch_end: EpochEnd { slow_update: SlowUpdate::Off, ..base.epoch_end },
                ..base
            },
        }
    }
}

/// The items of a world; every third takes two turns.
pub(crate) struct Words {
    splits: [Vec<Item>; 3],
}

impl Words {
    pub(crate) fn new(world: World) -> Self {
        let mut names = ["tr", "va", "te"].into_iter();
        let splits = world.sizes().map(|n_items| {
            let name = names.next().unwrap();
            let item =
                |idx| Item::new(format!("{name}{idx}"), json!(format!("word{:02}", idx % world.n_words())));
            (0..n_items).map(item).collect()
        });
        Self { splits }
    }
}

#[async_trait]
impl Env for Words {
    fn name(&self) -> &str {
        "words"
    }

    fn items(&self, split: Split) -> &[Item] {
        &self.splits[split as usize]
    }

    async fn rollout(
        &self,
        item: &Item,
        source: &dyn SkillSource,
        target: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<RolloutResult, EnvError> {
        let word = item.data.as_str().unwrap();
        let (skill, ctx) = ctx.show(source, item, word).await?;
        let mut messages = vec![Message::system(skill.agent_view()), Message::user(word)];
        let n_turns = if word.ends_with(['0', '3', '6', '9']) { 2 } else { 1 };
        let mut answer = String::new();
        for turn in 1..=n_turns {
            let call = ctx.call.child(format_args!("turn {turn}"));
            answer = target.chat(&ChatRequest::new(messages.clone()), &call).await?.text;
            messages.extend([Message::assistant(answer.as_str()), Message::user("Are you sure?")]);
        }
        let is_solved = answer == "yes";
        let (hard, soft) = if is_solved { (1.0, 1.0) } else { (0.0, 0.25) };
        let mut result = RolloutResult::new(item.id.clone(), hard, soft);
        result.fail_reason = if is_solved { String::new() } else { format!("missing: {word}") };
        Ok(result)
    }
}

/// What both models say: a function of the request's JSON.
pub(crate) fn answer(asked: &Value) -> SimAnswer {
    let messages = asked["messages"].as_array().unwrap();
    let text_of = |idx: usize| messages[idx]["content"].as_str().unwrap();
    let text = if asked["model"] == "target" {
        let is_known = text_of(0).contains(&format!("- rule {}\n", text_of(1)));
        if is_known { "yes" } else { "no" }.to_owned()
    } else {
        let prompt: Vec<&str> = (0..messages.len() - 1).map(text_of).collect();
        advice(&prompt.concat())
    };
    SimAnswer::text(asked, text)
}

/// An append per missing word; of some words an edit that cannot land, and of some a reply that is no JSON.
fn advice(prompt: &str) -> String {
    let first_missing = || prompt.lines().find_map(|line| line.strip_prefix("Why it failed: missing: "));
    if prompt.contains("# Present guidance") {
        let guidance = format!("- rule {}", first_missing().unwrap_or("nothing"));
        return json!({"reasoning": "r", "slow_update_content": guidance}).to_string();
    }
    if prompt.contains("# Your present notes") {
        return json!({"reasoning": "r", "meta_skill_content": "- Short rules."}).to_string();
    }
    let edits = if prompt.contains("# Failed trajectories") {
        let words: Vec<&str> =
            prompt.lines().filter_map(|line| line.strip_prefix("Why it failed: missing: ")).collect();
        if words.contains(&"word03") {
            json!([{"op": "replace", "target": "- not there", "content": "- x"}])
        } else if words.contains(&"word05") {
            return "I would rather not say.".to_owned();
        } else {
            words.iter().map(|word| json!({"op": "append", "content": format!("- rule {word}")})).collect()
        }
    } else if let Some((_, list)) = prompt.split_once("```json") {
        let patches: Value = serde_json::from_str(list.split("```").next().unwrap()).unwrap();
        let edits = patches.as_array().unwrap().iter().filter_map(|patch| patch["edits"].as_array());
        edits.flatten().cloned().collect()
    } else {
        json!([])
    };
    json!({"reasoning": "r", "edits": edits, "selected_indices": [0, 1, 2], "no_change": false}).to_string()
}

//! The environment, its splits, and the skill to start from.

use super::{Check, Finding, counted, in_code};
use crate::config::LoadedConfig;
use crate::engine::Engine;
use crate::error::Error;
use crate::listener::Listener;
use crate::{skills, world};
use skill_core::canonical::{canonical_hash, hex_sha256};
use skill_core::{ItemId, SkillDoc, estimate_tokens};
use skill_envs::{Env, Item, RolloutCtx, Split, same_across_splits};
use skill_llm::ChatRequest;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The environment, with a judge that is never asked.
pub(super) fn environment(loaded: &LoadedConfig) -> Result<Arc<dyn Env>, Error> {
    world::environment(loaded, Engine::without_keys(loaded).judge()?)
}

/// The splits that the run reads.
fn needed_splits(loaded: &LoadedConfig) -> impl Iterator<Item = Split> {
    let eval_test = loaded.config.eval.test;
    Split::ALL.into_iter().filter(move |split| *split != Split::Test || eval_test)
}

/// How many items there are.
pub(super) fn items(loaded: &LoadedConfig, env: &dyn Env) -> Finding {
    let empty: Vec<&str> =
        needed_splits(loaded).filter(|split| env.items(*split).is_empty()).map(Split::as_str).collect();
    let counts = Split::ALL.map(|split| format!("{} {split}", env.items(split).len())).join(", ");
    if empty.is_empty() {
        return Finding::ok(Check::Data, format!("{}: {counts}", env.name()));
    }
    let message = format!("{}: no items in {} ({counts})", env.name(), empty.join(" and "));
    let hint = if empty == [Split::Test.as_str()] {
        "add items to it, or set `eval.test = false`"
    } else {
        "add items to it, or give it a share in the ratio of the splits"
    };
    Finding::error(Check::Data, message, hint)
}

/// The skill that a run would start from; `None` if it cannot be read.
pub(super) fn skill(loaded: &LoadedConfig, env: &dyn Env, findings: &mut Vec<Finding>) -> Option<SkillDoc> {
    let (name, skill) = match skills::configured_skill(&loaded.config.skill) {
        Ok(Some(skill)) => ("the initial skill", skill),
        Ok(None) => ("the environment's skill", env.initial_skill().unwrap_or_default()),
        Err(error) => {
            findings.push(Finding::of_error(Check::Skill, &error));
            return None;
        }
    };
    let (tokens, most) = (skill.n_tokens(), loaded.config.train.max_skill_tokens);
    if most > 0 && tokens > most {
        let message = format!("{name} has about {tokens} tokens, and edits may let it grow to {most}");
        let hint = "raise `train.max_skill_tokens`: until then only edits that make it shorter are applied";
        findings.push(Finding::warning(Check::Skill, message, hint));
        return Some(skill);
    }
    let message = if skill.is_blank() {
        "the run starts from an empty skill".to_owned()
    } else {
        format!("{name} has about {tokens} tokens")
    };
    findings.push(Finding::ok(Check::Skill, message));
    Some(skill)
}

/// What each item asks the agent; items whose question is not known are left out.
pub(super) type Inputs = BTreeMap<ItemId, Input>;

/// What an item asks the agent.
pub(super) struct Input {
    /// Equal where items ask the same.
    pub(super) hash: String,
    /// About how many tokens its first request has.
    tokens: u64,
}

/// The sandbox, Python and LibreOffice of an environment whose agent writes programs.
pub(super) fn programs(loaded: &LoadedConfig) -> Option<Finding> {
    Some(match world::programs(loaded)? {
        Err(error) => Finding::of_error(Check::Programs, &error),
        Ok(programs) if programs.lacks_calculation => Finding::warning(
            Check::Programs,
            format!(
                "{}; LibreOffice is not installed, so an answer with formulas stops the run",
                programs.lines.join("; ")
            ),
            "install it (`apt-get install --no-install-recommends libreoffice-calc`), or set env.recalculate = \"never\"",
        ),
        Ok(programs) => Finding::ok(Check::Programs, programs.lines.join("; ")),
    })
}

/// A first request with fewer tokens is never unusually long.
const MIN_LONG_TOKENS: u64 = 4_000;
/// A first request is unusually long with so many times the tokens of the median.
const LONG_TIMES: u64 = 20;

/// What the items ask.
pub(super) async fn inputs(loaded: &LoadedConfig, env: &dyn Env, skill: &SkillDoc) -> Inputs {
    let mut inputs = Inputs::new();
    for item in Split::ALL.into_iter().flat_map(|split| env.items(split)) {
        // What is asked is known without a world.
        let input = if loaded.config.env.env_kind().has_data_file() {
            let Some(request) = request_for(env, item, skill).await else { continue };
            let tokens = request.messages.iter().map(|message| estimate_tokens(&message.text())).sum();
            Input {
                hash: hex_sha256(&serde_json::to_vec(&request.messages).expect("messages serialize")),
                tokens,
            }
        } else if item.data.is_null() {
            continue;
        } else {
            Input { hash: canonical_hash(&item.data), tokens: 0 }
        };
        inputs.insert(item.id.clone(), input);
    }
    inputs
}

/// The item that asks with far more tokens than the others, if there is one.
pub(super) fn longest(inputs: &Inputs) -> Option<Finding> {
    let mut tokens: Vec<u64> = inputs.values().map(|input| input.tokens).collect();
    tokens.sort_unstable();
    let median = tokens.get(tokens.len() / 2).copied()?;
    let (id, longest) = inputs.iter().max_by_key(|(_, input)| input.tokens)?;
    let is_long = |tokens: u64| tokens >= MIN_LONG_TOKENS && tokens >= median.saturating_mul(LONG_TIMES);
    let n_long = tokens.iter().filter(|tokens| is_long(**tokens)).count();
    (n_long > 0).then(|| {
        let message = format!(
            "{} with an unusually long prompt: `{id}` has about {} tokens, the median is {median}",
            counted(n_long, "item"),
            longest.tokens
        );
        let hint = "shorten or remove it: a model may refuse it, and every evaluation pays for it";
        Finding::warning(Check::Data, message, hint)
    })
}

/// Whether the splits have nothing in common: no id, and no task.
pub(super) fn splits(env: &dyn Env, inputs: &Inputs) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut ids = BTreeMap::<&str, Split>::new();
    let mut twice = Vec::new();
    for split in Split::ALL {
        for item in env.items(split) {
            if ids.insert(item.id.as_str(), split).is_some() {
                twice.push(item.id.as_str());
            }
        }
    }
    if let Some(first) = twice.first() {
        let message = format!("{} more than once in the data, such as `{first}`", counted(twice.len(), "id"));
        findings.push(Finding::error(Check::Splits, message, "give every item an id of its own"));
    }
    let same = same_across_splits(env, |item| Some(inputs.get(&item.id)?.hash.as_str()));
    if let Some(pair) = same.first() {
        let [first, second] = pair.map(|(split, id)| format!("{} ({split})", in_code(id.as_str())));
        let (verb, items) = (if same.len() == 1 { "asks" } else { "ask" }, counted(same.len(), "item"));
        let message = format!(
            "{items} of one split {verb} the same as an item of another, such as {first} and {second}"
        );
        let hint = "take them out of one of the splits, or set `env.group_equal_inputs = true` for an automatic split: what is learned on one is measured on the other";
        findings.push(Finding::warning(Check::Splits, message, hint));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(Check::Splits, "no two splits have an item in common"));
    }
    findings
}

/// What the agent is asked first about the first item; `None` where that is not known without starting a program.
pub(super) async fn first_request(
    loaded: &LoadedConfig,
    env: &dyn Env,
    skill: &SkillDoc,
) -> Option<ChatRequest> {
    let kind = loaded.config.env.env_kind();
    if kind.has_data_file() || kind.is_built_in_world() {
        request_for(env, env.items(Split::Train).first()?, skill).await
    } else {
        None
    }
}

/// What the agent is asked first about an item.
async fn request_for(env: &dyn Env, item: &Item, skill: &SkillDoc) -> Option<ChatRequest> {
    let agent = Listener::new(None);
    // It fails as soon as the agent is asked, and so is scored by nobody.
    drop(env.rollout(item, skill, &agent, &RolloutCtx::default()).await);
    agent.first_heard()
}

//! What a run would send first: the environment's prompts over its items, the optimizer's over trajectories of an
//! agent that says nothing.

use super::{Assumptions, Span, bounded};
use crate::listener::Listener;
use skill_core::appendix::MAX_APPENDIX_NOTES;
use skill_core::{Edit, Patch, RolloutResult, SkillDoc, SourceType, Trajectory};
use skill_envs::{Env, Item, RolloutCtx, Split, record};
use skill_llm::{ChatModel, ChatRequest, Message, PromptError, ResponseSchema};
use skill_pipeline::TrainSettings;
use skill_pipeline::prompts::PromptLibrary;
use skill_pipeline::prompts::schema::{
    analyst_schema, appendix_schema, merge_schema, meta_skill_schema, ranking_schema, rewrite_schema,
    slow_update_schema,
};
use skill_pipeline::settings::{MAX_FIELD_CHARS, MAX_TURN_CHARS};
use std::sync::Arc;

/// The most items of a split that are looked at; of a larger one, every n-th.
const PROBED_ITEMS: usize = 200;

/// Bytes of a short edit and of a long one, as they are in the optimizer's prompts.
const EDIT_BYTES: [usize; 2] = [40, 300];

/// Bytes of a long answer, as it is in a judge's prompt.
const JUDGED_ANSWER_BYTES: usize = 1_500;

/// Bytes around what the optimizer is shown of earlier steps.
const MEMORY_FRAME_BYTES: usize = 400;

/// No prompt is made up with more edits than these.
const MOST_EDITS: usize = 2_000;

/// Bytes of the argument of a patch, short and long.
const REASONING_BYTES: [usize; 2] = [0, 600];

/// What was found out about one split, each per item of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SplitProbe {
    /// Items of the split.
    pub n_items: u64,
    /// Calls of the agent: one, or up to as many as it makes where nothing is said.
    pub calls_per_item: Span,
    /// Messages of a call.
    pub messages_per_call: Span,
    /// Bytes of the prompts of all calls of an item, on average: with the fewest calls, with the most.
    pub bytes_per_item: Span,
}

/// What was found out about a run without sending anything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Probe {
    /// Train, val and test.
    pub splits: [SplitProbe; 3],
    /// The most tokens of an agent's reply, where that is bounded.
    pub max_target_tokens: Option<u32>,
    /// Bytes of one trajectory in an analyst's prompt, without what the agent says.
    pub trajectory_bytes: Span,
    /// The most bytes of what the agent says in an analyst's prompt.
    pub max_reply_bytes: u64,
    /// Bytes of an analyst's prompt without its trajectories.
    pub analyst_bytes: Span,
    /// Bytes of a merger's prompt.
    pub merge_bytes: Span,
    /// Bytes of the ranker's prompt.
    pub ranking_bytes: Span,
    /// Bytes of the prompt that makes fewer notes of many.
    pub appendix_bytes: Span,
    /// Bytes of the prompt for guidance without its tasks.
    pub slow_update_bytes: Span,
    /// Bytes of the prompt for notes without its tasks.
    pub meta_skill_bytes: Span,
    /// Bytes of the prompt that rewrites the skill.
    pub rewrite_bytes: Span,
    /// Bytes of the skill.
    pub skill_bytes: u64,
}

impl Probe {
    /// Tokens of one reply of the agent.
    pub(super) fn target_reply(&self, assumptions: Assumptions) -> Span {
        bounded(assumptions.target_reply_tokens, self.max_target_tokens)
    }
}

/// Renders what a run with these prompts, this skill and these settings would send first.
///
/// `max_target_tokens` bounds the agent's replies where the environment does not. An environment that fails when
/// nothing is answered is known by what it has asked until then.
///
/// # Errors
///
/// A prompt that does not render.
pub async fn probe(
    env: &dyn Env,
    prompts: &PromptLibrary,
    skill: &SkillDoc,
    settings: &TrainSettings,
    max_target_tokens: Option<u32>,
) -> Result<Probe, PromptError> {
    let mut found = Probe {
        // The answer in its field, and the turn.
        max_reply_bytes: (4 * (MAX_FIELD_CHARS + MAX_TURN_CHARS)) as u64,
        skill_bytes: skill.n_bytes() as u64,
        ..Probe::default()
    };
    let mut trajectories = Vec::new();
    let mut bounds = Vec::new();
    for (split, place) in Split::ALL.into_iter().zip(&mut found.splits) {
        let mut rollouts = Vec::new();
        for item in sample(env.items(split)) {
            rollouts.push(probe_rollout(env, item, skill).await);
        }
        *place = split_probe(env.items(split).len(), &rollouts);
        bounds.extend(rollouts.iter().flat_map(|rollout| rollout.max_tokens.iter().copied()));
        if split == Split::Train {
            trajectories = rollouts.into_iter().map(|rollout| rollout.result).collect();
        }
    }
    // A call that names no bound has that of its model.
    found.max_target_tokens = bounds
        .into_iter()
        .map(|bound| bound.or(max_target_tokens))
        .reduce(|most, bound| most.zip(bound).map(|(most, bound)| most.max(bound)))
        .flatten();
    let prompts = prompts.clone().with_update_mode(settings.update_mode);
    probe_analysts(&mut found, &prompts, skill, settings, &trajectories)?;
    probe_editors(&mut found, &prompts, skill, settings)?;
    Ok(found)
}

/// Every n-th item, so that there are not too many.
fn sample(items: &[Item]) -> impl Iterator<Item = &Item> {
    items.iter().step_by(items.len().div_ceil(PROBED_ITEMS).max(1))
}

/// What the agent was asked about one item.
struct ProbedRollout {
    result: RolloutResult,
    /// Messages and bytes of each call.
    calls: Vec<(u64, u64)>,
    max_tokens: Vec<Option<u32>>,
}

async fn probe_rollout(env: &dyn Env, item: &Item, skill: &SkillDoc) -> ProbedRollout {
    let idle = Listener::idle();
    let outcome = env.rollout(item, skill, &idle, &RolloutCtx::default()).await;
    let mut asked = idle.heard();
    asked.extend(judged(env, item, skill).await);
    let calls = asked.iter().map(|request| (request.messages.len() as u64, bytes_of(&request.messages)));
    ProbedRollout {
        calls: calls.collect(),
        max_tokens: asked.iter().map(|request| request.sampling.max_tokens).collect(),
        result: outcome.unwrap_or_else(|_| trajectory_of(item, asked.first())),
    }
}

/// What a judge is asked about an answer, where the environment has one: nobody grades an agent that says nothing.
async fn judged(env: &dyn Env, item: &Item, skill: &SkillDoc) -> Option<ChatRequest> {
    env.judge()?;
    let answers = [Some("x".repeat(JUDGED_ANSWER_BYTES)), env.reference_reply(item)];
    for answer in answers.into_iter().flatten() {
        let judge = Arc::new(Listener::new(Some(String::new())));
        let ctx =
            RolloutCtx { judge: Some(Arc::clone(&judge) as Arc<dyn ChatModel>), ..RolloutCtx::default() };
        // A judge that says nothing gives no points; what it was asked is all that is wanted.
        drop(env.rollout(item, skill, &Listener::new(Some(answer)), &ctx).await);
        if let Some(request) = judge.first_heard() {
            return Some(request);
        }
    }
    None
}

/// The trajectory of an attempt that an environment did not finish: what it asked first.
fn trajectory_of(item: &Item, asked: Option<&ChatRequest>) -> RolloutResult {
    let messages = asked.map(|request| request.messages.as_slice()).unwrap_or_default();
    let mut result = RolloutResult::new(item.id.clone(), 0.0, 0.0);
    result.trajectory = Trajectory::of_messages(messages.iter().map(record::message));
    result
}

fn split_probe(n_items: usize, rollouts: &[ProbedRollout]) -> SplitProbe {
    let most_calls = rollouts.iter().map(|rollout| rollout.calls.len() as u64).max().unwrap_or_default();
    let messages = || rollouts.iter().flat_map(|rollout| &rollout.calls).map(|(messages, _)| *messages);
    let first: u64 =
        rollouts.iter().filter_map(|rollout| rollout.calls.first()).map(|(_, bytes)| *bytes).sum();
    let all: u64 = rollouts.iter().flat_map(|rollout| &rollout.calls).map(|(_, bytes)| *bytes).sum();
    let n_probed = rollouts.len().max(1) as u64;
    SplitProbe {
        n_items: n_items as u64,
        calls_per_item: Span::new(most_calls.min(1), most_calls),
        messages_per_call: Span::new(
            messages().min().unwrap_or_default(),
            messages().max().unwrap_or_default(),
        ),
        bytes_per_item: Span::new(first / n_probed, u64::div_ceil(all, n_probed)),
    }
}

/// What an analyst is sent is so much, and so much more for each trajectory.
fn probe_analysts(
    found: &mut Probe,
    prompts: &PromptLibrary,
    skill: &SkillDoc,
    settings: &TrainSettings,
    trajectories: &[RolloutResult],
) -> Result<(), PromptError> {
    let budget = settings.edit_budget.max;
    let mut overheads = Vec::new();
    let mut trajectory_bytes = Vec::new();
    for source in [SourceType::Failure, SourceType::Success] {
        let bytes = |results: &[&RolloutResult]| {
            let messages = match settings.skill_aware {
                Some(aware) if aware.source.has(source) => {
                    prompts.skill_aware_analyst(source, skill, budget, results)
                }
                Some(_) | None => prompts.analyst(source, skill, budget, results),
            };
            messages.map(|messages| bytes_of(&messages))
        };
        let mut sum = 0;
        for result in trajectories {
            let (one, two) = (bytes(&[result])?, bytes(&[result, result])?);
            let each = two.saturating_sub(one);
            sum += each;
            overheads.push(one.saturating_sub(each));
        }
        trajectory_bytes.push(sum.div_ceil(trajectories.len().max(1) as u64));
    }
    let writes_notes = settings.skill_aware.is_some();
    let schema = analyst_schema(settings.update_mode, SourceType::Failure, writes_notes, settings.protocol);
    let schema = schema_bytes(&schema);
    found.analyst_bytes = span_of(&overheads).plus(Span::new(0, schema)).plus(memory_bytes(settings));
    found.trajectory_bytes = span_of(&trajectory_bytes);
    Ok(())
}

/// What the mergers and the ranker are sent over made-up edits, few short ones and many long ones.
fn probe_editors(
    found: &mut Probe,
    prompts: &PromptLibrary,
    skill: &SkillDoc,
    settings: &TrainSettings,
) -> Result<(), PromptError> {
    let mode = settings.update_mode;
    // An analyst writes one whole skill.
    let n_edits = if mode.has_budget() { settings.edit_budget.max.max(1) as usize } else { 1 };
    let batch =
        (settings.batch_size as u64).min(found.splits[0].n_items).saturating_mul(settings.samples as u64);
    let most_patches = super::analyst_calls(batch, settings.minibatch_size as u64).high;
    let most_patches = most_patches.saturating_mul(settings.accumulation as u64);
    let most_patches = usize::try_from(most_patches).unwrap_or(usize::MAX).max(2);
    let whole_skill = if mode.has_budget() { 0 } else { skill.n_bytes() };
    let [short, long] = EDIT_BYTES.map(|bytes| bytes + whole_skill);
    let few = [patch(1, short, REASONING_BYTES[0]), patch(1, short, REASONING_BYTES[0])];
    let many =
        vec![patch(n_edits, long, REASONING_BYTES[1]); most_patches.min(settings.merge_batch_size.max(2))];
    let mut bytes = Vec::new();
    for source in [SourceType::Failure, SourceType::Success] {
        for patches in [few.as_slice(), &many] {
            bytes.push(bytes_of(&prompts.merge(source, skill, patches, 1)?));
        }
    }
    let all_edits = patch(n_edits.saturating_mul(most_patches).min(MOST_EDITS), long, REASONING_BYTES[1]);
    let [one, other] = &few;
    bytes.push(bytes_of(&prompts.merge_final(skill, one, other)?));
    bytes.push(bytes_of(&prompts.merge_final(skill, &all_edits, one)?));
    found.merge_bytes =
        span_of(&bytes).plus(Span::new(0, schema_bytes(&merge_schema(mode)))).plus(memory_bytes(settings));

    let budget = settings.edit_budget.min;
    let least_edits = patch(budget as usize + 1, short, 0).edits;
    let least = bytes_of(&prompts.ranking(skill, &least_edits, budget)?);
    let most = bytes_of(&prompts.ranking(skill, &all_edits.edits, budget)?);
    found.ranking_bytes = Span::new(least, most)
        .plus(Span::new(0, schema_bytes(&ranking_schema())))
        .plus(memory_bytes(settings));
    let guidance = bytes_of(&prompts.slow_update(skill, skill, &[])?);
    let notes = bytes_of(&prompts.meta_skill(skill, skill, &[])?);
    let with_schema = |bytes: u64, schema: &ResponseSchema| Span::new(bytes, bytes + schema_bytes(schema));
    found.slow_update_bytes = with_schema(guidance, &slow_update_schema());
    found.meta_skill_bytes = with_schema(notes, &meta_skill_schema());

    let [least, most] = [patch(1, short, 0), patch(n_edits, long, 0)]
        .map(|patch| prompts.rewrite(skill, &patch.edits).map(|messages| bytes_of(&messages)));
    found.rewrite_bytes = Span::new(least?, most?)
        .plus(Span::new(0, schema_bytes(&rewrite_schema())))
        .plus(memory_bytes(settings));

    // A long appendix has one note more than it may have; as many again may come in a step.
    let most_notes =
        settings.skill_aware.map_or(0, |aware| aware.consolidate_above).min(MAX_APPENDIX_NOTES / 2);
    let [short, long] = EDIT_BYTES;
    let notes = |n_notes: usize, bytes: usize| vec!["x".repeat(bytes); n_notes.max(2)];
    let shortest = bytes_of(&prompts.appendix_consolidate(&notes(2, short))?);
    let longest = bytes_of(&prompts.appendix_consolidate(&notes(2 * most_notes, long))?);
    found.appendix_bytes = Span::new(shortest, longest).plus(Span::new(0, schema_bytes(&appendix_schema())));
    Ok(())
}

/// What the optimizer is shown of earlier steps: nothing in the first step, and then as much as there is room.
fn memory_bytes(settings: &TrainSettings) -> Span {
    let most = if settings.memory_steps == 0 { 0 } else { settings.memory_chars + MEMORY_FRAME_BYTES };
    Span::new(0, most as u64)
}

fn patch(n_edits: usize, edit_bytes: usize, reasoning_bytes: usize) -> Patch {
    Patch {
        reasoning: "x".repeat(reasoning_bytes),
        edits: vec![Edit::append("x".repeat(edit_bytes)); n_edits],
        ranking_details: None,
    }
}

fn bytes_of(messages: &[Message]) -> u64 {
    messages.iter().map(|message| message.text().len() as u64).sum()
}

/// Providers that enforce a schema may count it as a part of the prompt.
fn schema_bytes(schema: &ResponseSchema) -> u64 {
    schema.schema.to_string().len() as u64
}

fn span_of(numbers: &[u64]) -> Span {
    let least = numbers.iter().min().copied().unwrap_or_default();
    Span::new(least, numbers.iter().max().copied().unwrap_or_default())
}

#[cfg(test)]
#[path = "probe_tests.rs"]
mod tests;

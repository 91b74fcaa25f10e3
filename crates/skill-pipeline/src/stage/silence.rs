//! A target that says nothing: that measures a model or a server, and no skill.

use super::StageCtx;
use super::rollout::Rollouts;
use crate::error::PipelineError;
use crate::event::Stage;
use crate::records::evaluation::Activations;
use crate::warning::Warning;
use serde_json::json;
use skill_core::canonical::canonical_hash;
use skill_core::{ItemId, RolloutResult, SkillDoc};
use skill_envs::{Env, EnvError, Item, RolloutCtx, Split, reach};
use skill_llm::{CallPlace, LlmError};

/// The error that it is if the target said nothing on any item.
fn silence(results: &[RolloutResult], place: &CallPlace) -> Option<PipelineError> {
    if results.is_empty() || !results.iter().all(RolloutResult::is_silent) {
        return None;
    }
    let n_cut = results.iter().filter(|result| result.is_cut()).count();
    Some(PipelineError::Silent { place: place.to_string(), n: results.len(), n_cut })
}

/// An error if the target returned an empty reply for every item: that is a fault of the model or server, not a score.
///
/// # Errors
///
/// [`PipelineError::Silent`].
pub fn check_spoken(results: &[RolloutResult], stage: Stage) -> Result<(), PipelineError> {
    silence(results, &CallPlace::new(stage.as_str())).map_or(Ok(()), Err)
}

/// What results tell of a skill that did not reach the agent as it should: requests without it, prompts that hold it
/// twice, items without a request, and agents that broke.
pub fn reach_warnings(results: &[RolloutResult]) -> [Option<Warning>; 4] {
    let of_items = results.len();
    let (n_items, n_requests) = reach::counted(results, reach::WITHOUT_SKILL_KEY);
    let without = Warning::RequestsWithoutSkill { n_requests, n_items, of_items };
    let (n_twice, _) = reach::counted(results, reach::SKILL_TWICE_KEY);
    let (n_broken, _) = reach::counted(results, reach::BROKEN_KEY);
    let [n_none, n_maybe] =
        [reach::NO_REQUEST_KEY, reach::MAYBE_ELSEWHERE_KEY].map(|key| reach::counted(results, key).0);
    [
        (n_items > 0).then_some(without),
        (n_twice > 0).then_some(Warning::SkillTwice { n_items: n_twice, of_items }),
        (n_none + n_maybe > 0).then_some(Warning::NoRequests { n_items: n_none + n_maybe, of_items }),
        (n_broken > 0).then_some(Warning::BrokenAgents { n_items: n_broken, of_items }),
    ]
}

/// What the target has spoken with before: a skill and an item.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spoken<'run> {
    skill: &'run SkillDoc,
    item: &'run Item,
}

impl<'run> Spoken<'run> {
    /// The first item of the split that the target has said something on, among the results of a skill.
    pub(crate) fn among(
        results: &[RolloutResult],
        env: &'run dyn Env,
        split: Split,
        skill: &'run SkillDoc,
    ) -> Option<Self> {
        let spoken = results.iter().find(|result| !result.is_silent())?;
        let item = env.items(split).iter().find(|item| item.id == spoken.id)?;
        Some(Self { skill, item })
    }
}

/// An error if the target said nothing on any item of a stage, and says nothing either when it is asked once more for
/// something that it has spoken on before: then it is neither the skill nor the items that silence it.
///
/// The question is at the place of the stage, so that anyone who takes the replies of the stage out of the journal
/// takes out this one too. It is not a rollout of the run: what it comes to decides nothing else.
///
/// # Errors
///
/// [`PipelineError::Silent`], and a question that cannot be asked.
pub(crate) async fn check_target_speaks(
    rollouts: &Rollouts,
    spoken: Option<Spoken<'_>>,
    (tested, results): (&SkillDoc, &[RolloutResult]),
    ctx: &StageCtx<'_>,
) -> Result<(), PipelineError> {
    let Some(silence) = silence(results, &ctx.place()) else { return Ok(()) };
    let Some(Spoken { skill, item }) = spoken else { return Err(silence) };
    // A stage may measure several skills on several items: each silence has a question of its own.
    let ids: Vec<&ItemId> = results.iter().map(|result| &result.id).collect();
    let of_silence = canonical_hash(&json!([tested.hash(), ids]));
    let call = ctx.call(format_args!("again {of_silence} / {}", item.id));
    let ctx_of_call = RolloutCtx { judge: rollouts.judge().cloned(), ..RolloutCtx::new(call) };
    let again = rollouts.env().rollout(item, skill, rollouts.target(), &ctx_of_call).await;
    ctx.used.add(ctx_of_call.call.scope.used());
    match again {
        Ok(result) if result.is_silent() => Err(silence),
        Ok(_) => Ok(()),
        // A recording of before nobody asked again.
        Err(EnvError::Model(LlmError::NotRecorded { .. })) => Ok(()),
        Err(source) => Err(PipelineError::Rollout {
            place: ctx_of_call.call.place.to_string(),
            item: item.id.clone(),
            source,
        }),
    }
}

/// Says how many answers of the target hold no number where one is expected; `None` if all do.
pub fn answers_without_number(results: &[RolloutResult]) -> Option<Warning> {
    let n_without = results.iter().filter(|result| result.has_no_number()).count();
    (n_without > 0).then_some(Warning::NoNumbers { n_without, n_items: results.len() })
}

/// Says that a coding agent loaded the skill in no run; `None` where one did, or none finds it as a package.
pub fn never_activated(results: &[RolloutResult]) -> Option<Warning> {
    let activations = Activations::of(results).filter(|activations| activations.is_none())?;
    Some(Warning::NeverActivated { n_runs: activations.runs })
}

/// Says how many replies of the target were cut at their length limit; `None` if none was.
pub fn cut_replies(results: &[RolloutResult]) -> Option<Warning> {
    let n_cut = results.iter().filter(|result| result.is_cut()).count();
    (n_cut > 0).then_some(Warning::CutReplies { n_cut, n_replies: results.len() })
}

/// Says how many replies of the target were empty; `None` if none was.
pub fn empty_replies(results: &[RolloutResult]) -> Option<Warning> {
    let n_empty = results.iter().filter(|result| result.is_silent()).count();
    (n_empty > 0).then_some(Warning::EmptyReplies { n_empty, n_items: results.len() })
}

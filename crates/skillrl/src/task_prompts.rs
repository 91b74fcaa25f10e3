//! The tasks of an environment as prompts for other trainers, with the skills that each task is shown.

use crate::config::LoadedConfig;
use crate::error::Error;
use crate::listener::Listener;
use crate::{skills, world};
use skill_envs::{RolloutCtx, Split};
use skill_llm::{CallCtx, CallPlace};
use skill_pipeline::identity::check_not_empty;
use skill_train::export::{TaskPrompt, Turn};
use std::path::Path;

/// The first prompt of each task of a split, as the agent loop shows it; the ground truth is the reply of a perfect agent
/// where the environment knows one.
///
/// # Errors
///
/// An environment or a bank that cannot be read, an empty split, and a task whose agent is asked nothing.
pub async fn task_prompts(
    loaded: &LoadedConfig,
    bank: Option<&Path>,
    split: Split,
) -> Result<Vec<TaskPrompt>, Error> {
    let env = world::environment(loaded, None)?;
    let source = skills::source(loaded, bank, env.as_ref())?;
    check_not_empty(env.as_ref(), split)?;
    let mut prompts = Vec::with_capacity(env.items(split).len());
    for item in env.items(split) {
        let listener = Listener::new(None);
        let call = CallCtx::new(CallPlace::new("export").child(&item.id));
        let outcome = env.rollout(item, source.as_ref(), &listener, &RolloutCtx::new(call)).await;
        let heard = listener.first_heard();
        let turns = match (heard, outcome) {
            (Some(request), _) => {
                request.messages.iter().map(|message| Turn::new(message.role, message.text())).collect()
            }
            (None, Err(error)) => return Err(Error::Env(error)),
            (None, Ok(_)) => Vec::new(),
        };
        let ground_truth = env.reference_reply(item).unwrap_or_default();
        prompts.push(TaskPrompt { turns, task_id: item.id.to_string(), ground_truth });
    }
    Ok(prompts)
}

//! Whether the skill can have reached the agent of a rollout, as results tell it.
//!
//! An agent that brings its own loop may ask another model than the one it is served, or leave the skill out of its
//! prompt. Then every score is that of the agent without a skill, whatever is trained.

use crate::error::EnvError;
use serde_json::Value;
use skill_core::RolloutResult;

/// The key of [`RolloutResult::extras`] that is true where the agent sent no request to the model that it is served.
pub const NO_REQUEST_KEY: &str = "agent_sent_no_request";
/// The key of [`RolloutResult::extras`] that is true where calls may go past the model that is served, and none came.
pub const MAYBE_ELSEWHERE_KEY: &str = "agent_may_ask_elsewhere";
/// The key of [`RolloutResult::extras`] that counts the requests without the skill, where each is to have it.
pub const WITHOUT_SKILL_KEY: &str = "agent_requests_without_skill";
/// The key of [`RolloutResult::extras`] that is true where no request held the text that the skill is to replace.
pub const NOTHING_REPLACED_KEY: &str = "agent_prompt_without_initial_skill";
/// The key of [`RolloutResult::extras`] that is true where the agent's own prompt holds the skill already.
pub const SKILL_TWICE_KEY: &str = "agent_skill_twice";

/// The key of [`RolloutResult::extras`] that is true where the attempt broke and counts as a failure, see
/// [`crate::Env::max_broken_share`].
pub const BROKEN_KEY: &str = "agent_broke";

/// Why the skill cannot have reached the agent of a rollout; `None` where it can.
pub fn out_of_reach(result: &RolloutResult) -> Option<EnvError> {
    let is_set = |key: &str| result.extras.get(key) == Some(&Value::Bool(true));
    let what = if is_set(NO_REQUEST_KEY) {
        "the agent sent no request to the model that it is served here, so the skill cannot reach it and no cap \
         covers its calls: give its client the base URL and the key of the rollout"
    } else if is_set(NOTHING_REPLACED_KEY) {
        "no request of the agent holds the initial skill, which the skill is to replace: start from the text that \
         the agent's prompt has now"
    } else {
        return None;
    };
    let reason = match result.fail_reason.as_str() {
        "" => String::new(),
        reason => format!(" (the rollout failed: {reason})"),
    };
    Some(EnvError::Program { message: format!("item {}: {what}{reason}", result.id) })
}

/// How many results have this key, true or a number above 0, and the sum of the numbers.
pub fn counted(results: &[RolloutResult], key: &str) -> (usize, u64) {
    let values = results.iter().filter_map(|result| match result.extras.get(key)? {
        Value::Bool(true) => Some(1),
        other => other.as_u64().filter(|count| *count > 0),
    });
    values.fold((0, 0), |(n, sum), count| (n + 1, sum + count))
}

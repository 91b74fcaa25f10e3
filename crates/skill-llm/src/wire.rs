//! What all dialects over HTTP have in common in what servers write: why a reply ended, and how many tokens it has.
//!
//! A word that is in no list here is kept as [`FinishReason::Other`]: the reply counts, and a run says so once.

use crate::anomaly::estimated;
use crate::chat::{FinishReason, UsageGap};
use crate::http::Fault;
use serde_json::Value;

/// Words for a reply that came to its end.
const WHOLE: [&str; 16] = [
    "stop",
    "end_turn",
    "stop_sequence",
    "eos",
    "eos_token",
    "end",
    "end_of_sequence",
    "end_of_text",
    "stop_token",
    "complete",
    "completed",
    "finish",
    "finished",
    "done",
    "normal",
    "success",
];
/// Words for a reply that was cut at a limit.
const CUT: [&str; 13] = [
    "length",
    "max_tokens",
    "max_length",
    "max_new_tokens",
    "max_output_tokens",
    "max_completion_tokens",
    "token_limit",
    "model_length",
    "context_length",
    "context_window_exceeded",
    "model_context_window_exceeded",
    "truncated",
    "incomplete",
];
/// Words for a reply that calls tools.
const CALLS: [&str; 6] = ["tool_calls", "tool_call", "function_call", "function_calls", "tool_use", "tool"];
/// Words for a reply that was withheld, or a part of it.
const WITHHELD: [&str; 14] = [
    "content_filter",
    "content_filtered",
    "content_policy",
    "content_policy_violation",
    "sensitive",
    "refusal",
    "safety",
    "recitation",
    "blocklist",
    "prohibited_content",
    "spii",
    "guardrail_intervened",
    "moderation",
    "blocked",
];
/// Words for a server that failed in the midst of a reply: what there is of it is no answer.
const FAILED: [&str; 34] = [
    "error",
    "errored",
    "network_error",
    "server_error",
    "internal_error",
    "internal_server_error",
    "upstream_error",
    "provider_error",
    "insufficient_system_resource",
    "insufficient_system_resources",
    "abort",
    "aborted",
    "cancel",
    "cancelled",
    "canceled",
    "interrupted",
    "engine_overloaded",
    "overloaded",
    "timeout",
    "timed_out",
    "failed",
    "failure",
    "unavailable",
    "disconnected",
    "exception",
    "user_cancel",
    "preempted",
    "preemption",
    "evicted",
    "crashed",
    "killed",
    "out_of_memory",
    "oom",
    "malformed_function_call",
];
/// The ends of further words for it.
const FAILED_ENDINGS: [&str; 10] = [
    "_error",
    "_unavailable",
    "_lost",
    "_closed",
    "_failed",
    "_failure",
    "_timeout",
    "_aborted",
    "_interrupted",
    "_disconnected",
];

/// Why a reply ended, by the word that its server has for it.
///
/// # Errors
///
/// A word that says that the server failed.
pub(crate) fn finish(word: Option<&Value>) -> Result<FinishReason, Fault> {
    let word = word.and_then(Value::as_str).unwrap_or_default();
    let plain = word.trim().to_ascii_lowercase().replace([' ', '-'], "_");
    let plain = plain.strip_prefix("finish_reason_").unwrap_or(&plain);
    let is_one_of = |words: &[&str]| words.contains(&plain);
    let is_failure = is_one_of(&FAILED)
        || plain.starts_with("error_")
        || FAILED_ENDINGS.iter().any(|ending| plain.ends_with(ending));
    if is_failure {
        return Err(Fault::Failed(word.to_owned()));
    }
    Ok(if is_one_of(&WHOLE) {
        FinishReason::Stop
    } else if is_one_of(&CUT) {
        FinishReason::Length
    } else if is_one_of(&CALLS) {
        FinishReason::ToolCalls
    } else if is_one_of(&WITHHELD) {
        FinishReason::ContentFilter
    } else {
        FinishReason::Other(word.to_owned())
    })
}

/// A count of tokens: a whole number from 0 on, also as a float or a text; anything else is no count.
pub(crate) fn count(value: Option<&Value>) -> Option<u64> {
    let whole = |number: f64| {
        let is_count = number.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(&number);
        // Below 2^53 every whole number is one of u64.
        is_count.then_some(number as u64)
    };
    match value? {
        Value::Number(number) => number.as_u64().or_else(|| number.as_f64().and_then(whole)),
        Value::String(text) => text.trim().parse().ok().or_else(|| text.trim().parse().ok().and_then(whole)),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The first of these fields that holds a count.
pub(crate) fn first_count(usage: &Value, names: &[&str]) -> Option<u64> {
    names.iter().find_map(|name| count(usage.get(*name)))
}

/// Prompt tokens and completion tokens, and which of them the server does not count. If it leaves one out, or reports fewer
/// completion tokens than its total implies, the missing one is the total minus the other; without a total, completion tokens
/// are estimated from `n_characters`. Prompt tokens are 0 then, and the caller, which has the request, estimates them.
pub(crate) fn both(
    input: Option<u64>,
    output: Option<u64>,
    total: Option<u64>,
    n_characters: usize,
) -> (u64, u64, Option<UsageGap>) {
    match (input, output, total) {
        // A total of more than both has tokens of the reply that `output` leaves out, such as those of a thought.
        (Some(input), Some(output), Some(total)) if total > input.saturating_add(output) => {
            (input, total - input, (output == 0).then_some(UsageGap::ReplyFromTotal))
        }
        (Some(input), Some(output), _) => (input, output, None),
        (Some(input), None, Some(total)) if total >= input => {
            (input, total - input, Some(UsageGap::ReplyFromTotal))
        }
        (Some(input), None, _) => (input, estimated(n_characters), Some(UsageGap::ReplyEstimated)),
        (None, Some(output), Some(total)) if total >= output => {
            (total - output, output, Some(UsageGap::PromptFromTotal))
        }
        (None, Some(output), _) => (0, output, Some(UsageGap::PromptEstimated)),
        (None, None, Some(total)) => {
            let output = estimated(n_characters).min(total);
            (total - output, output, Some(UsageGap::OnlyTotal))
        }
        (None, None, None) => (0, 0, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_word_for_an_end_is_of_one_kind() {
        let lists = [&WHOLE[..], &CUT, &CALLS, &WITHHELD, &FAILED];
        let words: Vec<&str> = lists.concat();
        let different: std::collections::BTreeSet<&str> = words.iter().copied().collect();
        assert_eq!(words.len(), different.len());
        #[track_caller]
        fn check(word: &str, expect: Option<FinishReason>) {
            assert_eq!(finish(Some(&json!(word))).ok(), expect, "{word}");
        }
        for word in ["stop", "STOP", "end_turn", "eos", "COMPLETE", "FINISH_REASON_STOP"] {
            check(word, Some(FinishReason::Stop));
        }
        for word in ["length", "MAX_TOKENS", "model_context_window_exceeded"] {
            check(word, Some(FinishReason::Length));
        }
        for word in ["sensitive", "SAFETY", "content_filter"] {
            check(word, Some(FinishReason::ContentFilter));
        }
        for word in ["error", "network_error", "insufficient_system_resource", "abort", "engine-overloaded"] {
            check(word, None);
        }
        for word in
            ["error_during_generation", "Backend Error", "model_unavailable", "user_cancel", "exception"]
        {
            check(word, None);
        }
        for word in [
            "preempted",
            "connection_lost",
            "stream_closed",
            "worker failed",
            "MALFORMED_FUNCTION_CALL",
            "OOM",
        ] {
            check(word, None);
        }
        for word in ["truncated", "incomplete"] {
            check(word, Some(FinishReason::Length));
        }
        for word in ["", "xyz", "OTHER"] {
            check(word, Some(FinishReason::Other(word.to_owned())));
        }
    }

    #[test]
    fn counts_come_in_every_form_and_a_missing_one_follows_from_the_others() {
        for (value, expect) in [
            (json!(7), Some(7)),
            (json!(7.0), Some(7)),
            (json!("7"), Some(7)),
            (json!("7.0"), Some(7)),
            (json!(-35), None),
            (json!(7.5), None),
            (json!("many"), None),
            (json!(null), None),
            (json!(1e300), None),
        ] {
            assert_eq!(count(Some(&value)), expect, "{value}");
        }
        let gap = Some;
        for (input, output, total, expect) in [
            (Some(100), Some(1400), Some(1500), (100, 1400, None)),
            (Some(100), None, Some(1500), (100, 1400, gap(UsageGap::ReplyFromTotal))),
            (Some(100), Some(0), Some(1500), (100, 1400, gap(UsageGap::ReplyFromTotal))),
            // The completion tokens of some servers are those without the thought.
            (Some(100), Some(400), Some(1500), (100, 1400, None)),
            (Some(100), Some(1400), Some(1400), (100, 1400, None)),
            (None, Some(1400), Some(1500), (100, 1400, gap(UsageGap::PromptFromTotal))),
            (None, None, Some(1500), (1490, 10, gap(UsageGap::OnlyTotal))),
            (Some(1500), None, None, (1500, 10, gap(UsageGap::ReplyEstimated))),
            (Some(1500), None, Some(7), (1500, 10, gap(UsageGap::ReplyEstimated))),
            (None, Some(5), None, (0, 5, gap(UsageGap::PromptEstimated))),
            (None, Some(5), Some(0), (0, 5, gap(UsageGap::PromptEstimated))),
            (None, None, Some(3), (0, 3, gap(UsageGap::OnlyTotal))),
            (None, None, None, (0, 0, None)),
        ] {
            assert_eq!(both(input, output, total, 40), expect, "{input:?} {output:?} {total:?}");
        }
    }
}

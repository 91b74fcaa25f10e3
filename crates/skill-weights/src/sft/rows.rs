//! From a rollout to examples: the exact requests of the agent with what it replied.
//!
//! Turns whose requests continue each other are one example, in which every reply is learnt: an episode is then read
//! once. Where a request does not continue the one before (a prompt that shows the possible actions of the turn under
//! way alone, a limited history), an example restarts, so each reply is learnt after the very prompt that it answers.

use crate::policy::PolicyText;
use serde_json::Value;
use skill_core::{RolloutResult, Trajectory, TrajectoryMessage, TrajectoryTurn};
use skill_train::chat::{ChatEncoder, ChatError, Conversation, SpecialText, template_message};
use skill_train::examples::{LeftOut, SftExample};
use std::ops::Range;

/// An example of a rollout, with the places of its first and its last turn, from 0.
pub(super) struct Row {
    pub(super) turns: [usize; 2],
    pub(super) example: Result<SftExample, LeftOut>,
}

/// The examples of a rollout, in the order of its turns.
///
/// # Errors
///
/// Conversations that the template or the tokenizer refuses.
pub(super) fn rows(
    result: &RolloutResult,
    text: &PolicyText,
    max_tokens: usize,
) -> Result<Vec<Row>, ChatError> {
    let trajectory = &result.trajectory;
    let encoder =
        ChatEncoder::new(&text.template, text.codec.as_ref()).with_special_text(SpecialText::Escape);
    let mut rows = Vec::new();
    for group in groups(&trajectory.turns) {
        match row(trajectory, group.clone(), &encoder, text, max_tokens) {
            Ok(row) => rows.push(row),
            // A template that drops the thoughts of earlier turns: each turn by itself.
            Err(ChatError::Rewritten { .. }) if group.len() > 1 => {
                for turn in group {
                    rows.push(row(trajectory, turn..turn + 1, &encoder, text, max_tokens)?);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(rows)
}

/// Turns whose requests continue each other.
fn groups(turns: &[TrajectoryTurn]) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    let mut before: Option<&TrajectoryTurn> = None;
    for (place, turn) in turns.iter().enumerate() {
        let continues = before.is_some_and(|before| {
            let (earlier, rest) = turn.request.split_at_checked(before.request.len()).unwrap_or_default();
            earlier == before.request && rest.first() == Some(&before.reply)
        });
        match groups.last_mut() {
            Some(group) if continues => group.end = place + 1,
            Some(_) | None => groups.push(place..place + 1),
        }
        before = Some(turn);
    }
    groups
}

fn row(
    trajectory: &Trajectory,
    group: Range<usize>,
    encoder: &ChatEncoder<'_>,
    text: &PolicyText,
    max_tokens: usize,
) -> Result<Row, ChatError> {
    let turns = [group.start, group.end.saturating_sub(1)];
    let learnt = trajectory.turns.get(group.clone()).unwrap_or_default();
    let reply = |turn| Some((turn, trajectory.reply(turn)?));
    let replies: Vec<(&TrajectoryTurn, &TrajectoryMessage)> = learnt.iter().filter_map(reply).collect();
    let Some(last) = learnt.last() else {
        return Ok(Row { turns, example: Err(LeftOut::EmptyCompletion) });
    };
    let messages = trajectory.request(last).chain(trajectory.reply(last)).enumerate();
    let messages: Vec<Value> =
        messages.map(|(place, message)| message_value(place, message)).collect::<Result<_, _>>()?;
    let conversation = Conversation { messages, tools: Vec::new() };
    let (encoded, spans) = if learnt.len() == 1 {
        let (encoded, span) = encoder.completion(&conversation, &text.options)?;
        (encoded, vec![span])
    } else {
        let (encoded, mut spans) = encoder.assistant_spans(&conversation, &text.options)?;
        // Replies of a limited history come before those of the group, and belong to other examples.
        let n_before = spans.len().saturating_sub(replies.len());
        (encoded, spans.split_off(n_before))
    };
    let said = spans.into_iter().zip(&replies).filter(|(_, (turn, reply))| is_learnt(turn, reply));
    let spans: Vec<Range<usize>> = said.map(|(span, _)| span).collect();
    Ok(Row { turns, example: SftExample::from_spans(encoded.ids, &spans, max_tokens) })
}

/// True for a reply with a text or a tool call whose action the world understood. A model that learns an empty reply
/// learns to end its turn at once; one that learns mistakes makes them, and what it is to learn is how to go on after one.
fn is_learnt(turn: &TrajectoryTurn, reply: &TrajectoryMessage) -> bool {
    turn.understood != Some(false) && (!reply.content.trim().is_empty() || !reply.tool_calls.is_empty())
}

fn message_value(place: usize, message: &TrajectoryMessage) -> Result<Value, ChatError> {
    if message.images > 0 {
        return Err(ChatError::Image { message: place });
    }
    let TrajectoryMessage { role, content, tool_calls, tool_call_id, .. } = message;
    Ok(template_message(*role, content.as_str(), tool_calls, tool_call_id.as_deref()))
}

#[cfg(test)]
mod tests {
    use super::groups;
    use skill_core::{FinishReason, TrajectoryTurn};

    #[track_caller]
    fn check(turns: &[(&[u32], u32)], expected: &[[usize; 2]]) {
        let turn = |(request, reply): &(&[u32], u32)| {
            TrajectoryTurn::new(request.to_vec(), *reply, FinishReason::Stop)
        };
        let turns: Vec<TrajectoryTurn> = turns.iter().map(turn).collect();
        let found: Vec<[usize; 2]> =
            groups(&turns).into_iter().map(|group| [group.start, group.end]).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn turns_that_continue_each_other_are_one_example() {
        check(&[], &[]);
        check(&[(&[0, 1], 2)], &[[0, 1]]);
        check(&[(&[0, 1], 2), (&[0, 1, 2, 3], 4), (&[0, 1, 2, 3, 4, 5], 6)], &[[0, 3]]);
        // The first prompt of an episode is shown differently later.
        check(&[(&[0, 1], 2), (&[0, 7, 2, 3], 4), (&[0, 7, 2, 8, 4, 5], 6)], &[[0, 1], [1, 2], [2, 3]]);
        // A history of one turn.
        check(&[(&[0, 1], 2), (&[0, 1, 2, 3], 4), (&[0, 3, 4, 5], 6)], &[[0, 2], [2, 3]]);
        // A reply that the next request does not hold.
        check(&[(&[0, 1], 2), (&[0, 1, 3], 4)], &[[0, 1], [1, 2]]);
    }
}

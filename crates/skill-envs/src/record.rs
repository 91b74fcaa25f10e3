//! From requests and replies to the messages and turns of a trajectory.

use skill_core::{TrajectoryMessage, TrajectoryTurn};
use skill_llm::{ChatReply, ContentPart, Message, Role};

/// A message of a request, as trajectories keep it.
pub fn message(message: &Message) -> TrajectoryMessage {
    let n_images = message.content.iter().filter(|part| matches!(part, ContentPart::Image(_))).count();
    TrajectoryMessage::new(message.role, message.text())
        .with_tool_calls(message.tool_calls.clone())
        .answering(message.tool_call_id.clone())
        .with_images(u32::try_from(n_images).unwrap_or(u32::MAX))
}

/// A reply, as trajectories keep it.
pub fn reply(reply: &ChatReply) -> TrajectoryMessage {
    TrajectoryMessage::new(Role::Assistant, reply.text.as_str())
        .with_tool_calls(reply.tool_calls.clone())
        .with_reasoning(reply.reasoning.clone())
}

/// A call with the places of its messages; its action and its reward are left to the environment.
pub fn turn(request: Vec<u32>, reply_place: u32, reply: &ChatReply) -> TrajectoryTurn {
    let mut turn = TrajectoryTurn::new(request, reply_place, reply.finish.clone());
    turn.usage = reply.usage;
    turn.tokens = reply.tokens.as_deref().cloned();
    turn
}

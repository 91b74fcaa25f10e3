//! From requests and replies to the messages and turns of a trajectory.

use serde_json::Value;
use skill_core::member::kind_of;
use skill_core::{OfferedTool, ToolCall, TrajectoryMessage, TrajectoryTurn};
use skill_llm::{ChatReply, ContentPart, Message, Role, ToolSpec};

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

/// A tool of a request, as trajectories keep it.
pub fn tool(tool: &ToolSpec) -> OfferedTool {
    let properties = tool.parameters.get("properties").and_then(Value::as_object);
    let required = tool.parameters.get("required").and_then(Value::as_array);
    let parameter = |(name, schema): (&String, &Value)| {
        let text = |key: &str| schema.get(key).and_then(Value::as_str);
        let mut told = name.clone();
        let is_required = required.is_none_or(|required| required.iter().any(|one| one == name.as_str()));
        let kinds = [text("type"), (!is_required).then_some("optional")];
        let kinds: Vec<&str> = kinds.into_iter().flatten().collect();
        if !kinds.is_empty() {
            told.push_str(&format!(" ({})", kinds.join(", ")));
        }
        if let Some(description) = text("description") {
            told.push_str(&format!(": {description}"));
        }
        told
    };
    OfferedTool {
        name: tool.name.clone(),
        description: tool.description.clone(),
        parameters: properties.into_iter().flatten().map(parameter).collect(),
    }
}

/// A call with the places of its messages; its action and its reward are left to the environment.
pub fn turn(request: Vec<u32>, reply_place: u32, reply: &ChatReply) -> TrajectoryTurn {
    let mut turn = TrajectoryTurn::new(request, reply_place, reply.finish.clone());
    turn.usage = reply.usage;
    turn.tokens = reply.tokens.as_deref().cloned();
    turn
}

/// Messages as agents keep them: ours, those of Chat Completions (no content, parts, nested functions), and items of
/// Responses.
///
/// # Errors
///
/// A message that is none of these, with its place and what is wrong.
pub fn conversation(told: &[Value]) -> Result<Vec<TrajectoryMessage>, String> {
    let mut messages = Vec::with_capacity(told.len());
    for (at, value) in told.iter().enumerate() {
        messages.extend(told_message(value).map_err(|what| format!("conversation[{at}]: {what}"))?);
    }
    Ok(messages)
}

/// A message of an agent; `None` for an item that holds what a model thought, which no provider shows.
fn told_message(value: &Value) -> Result<Option<TrajectoryMessage>, String> {
    let Value::Object(fields) = value else {
        return Err("is not an object; a message has `role` and `content`".to_owned());
    };
    let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
    match fields.get("type").and_then(Value::as_str) {
        Some("reasoning") => return Ok(None),
        Some("function_call") => {
            let call = tool_call(value)?;
            return Ok(Some(TrajectoryMessage::new(Role::Assistant, "").with_tool_calls(vec![call])));
        }
        Some("function_call_output") => {
            let (said, _) = content(fields.get("output"))?;
            return Ok(Some(TrajectoryMessage::new(Role::Tool, said).answering(text("call_id"))));
        }
        Some(_) | None => {}
    }
    let role = match fields.get("role") {
        Some(Value::String(role)) => match role.as_str() {
            "system" | "developer" => Role::System,
            "user" | "human" => Role::User,
            "assistant" | "ai" => Role::Assistant,
            "tool" | "function" => Role::Tool,
            other => {
                return Err(format!("`role` is {other:?}; expected system, user, assistant or tool"));
            }
        },
        Some(other) => return Err(format!("`role` is {}; expected a text", kind_of(other))),
        None => return Err("has no `role`".to_owned()),
    };
    let (said, n_images) = content(fields.get("content"))?;
    let calls = match fields.get("tool_calls") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(calls)) => calls.iter().map(tool_call).collect::<Result<_, _>>()?,
        Some(other) => return Err(format!("`tool_calls` is {}; expected a list", kind_of(other))),
    };
    let n_told = fields.get("images").and_then(Value::as_u64).unwrap_or(0);
    let reasoning = text("reasoning").or_else(|| text("reasoning_content"));
    let message = TrajectoryMessage::new(role, said)
        .with_tool_calls(calls)
        .answering(text("tool_call_id"))
        .with_images(u32::try_from(n_images.max(n_told)).unwrap_or(u32::MAX));
    Ok(Some(message.with_reasoning(reasoning)))
}

/// The text of a content and the number of its images.
fn content(value: Option<&Value>) -> Result<(String, u64), String> {
    let parts = match value {
        None | Some(Value::Null) => return Ok(Default::default()),
        Some(Value::String(text)) => return Ok((text.clone(), 0)),
        Some(Value::Array(parts)) => parts,
        Some(other) => {
            return Err(format!("`content` is {}; expected a text or a list of parts", kind_of(other)));
        }
    };
    let (mut texts, mut n_images) = (Vec::new(), 0);
    for part in parts {
        match part {
            Value::String(text) => texts.push(text.as_str()),
            part => match part.get("text").or_else(|| part.get("refusal")).and_then(Value::as_str) {
                Some(text) => texts.push(text),
                None if part
                    .get("type")
                    .and_then(Value::as_str)
                    .is_some_and(|kind| kind.contains("image")) =>
                {
                    n_images += 1;
                }
                None => return Err("a part of `content` is neither a text nor an image".to_owned()),
            },
        }
    }
    Ok((texts.join("\n"), n_images))
}

/// A call of a tool: its name and its arguments, in an object of their own or not.
fn tool_call(value: &Value) -> Result<ToolCall, String> {
    let function = value.get("function").filter(|function| function.is_object()).unwrap_or(value);
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let name = function.get("name").and_then(Value::as_str);
    let name = name.ok_or("a tool call has no `name`")?.to_owned();
    let arguments = match function.get("arguments").or_else(|| function.get("args")) {
        None | Some(Value::Null) => "{}".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let id = text("call_id").or_else(|| text("id")).unwrap_or_default();
    Ok(ToolCall { id, name, arguments })
}

#[cfg(test)]
mod tests {
    use super::conversation;
    use serde_json::{Value, json};
    use skill_core::Role;

    #[test]
    fn messages_are_read_as_agents_keep_them() {
        let told = json!([
            {"role": "developer", "content": "S"},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}]},
            {"role": "assistant", "content": null, "refusal": null, "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{\"x\": 1}"}},
                {"id": "2", "name": "look", "arguments": {"x": 2}}]},
            {"role": "tool", "tool_call_id": "1", "name": "look", "content": "one"},
            {"type": "reasoning", "summary": []},
            {"type": "function_call", "id": "fc", "call_id": "3", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "3", "output": "three"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
        ]);
        let messages = conversation(told.as_array().unwrap()).unwrap();
        let roles: Vec<Role> = messages.iter().map(|message| message.role).collect();
        use Role::{Assistant, System, Tool, User};
        assert_eq!(roles, [System, User, Assistant, Tool, Assistant, Tool, Assistant]);
        assert_eq!((messages[1].content.as_str(), messages[1].images), ("a", 1));
        assert_eq!(messages[2].tool_calls[1].arguments, "{\"x\":2}");
        assert_eq!(messages[3].tool_call_id.as_deref(), Some("1"));
        assert_eq!((messages[4].tool_calls[0].id.as_str(), messages[5].content.as_str()), ("3", "three"));
    }

    #[test]
    fn what_is_no_message_is_named_with_its_place() {
        for (message, named) in [
            (json!("hello"), "object"),
            (json!({"content": "x"}), "`role`"),
            (json!({"role": "robot", "content": "x"}), "\"robot\""),
            (json!({"role": "user", "content": 7}), "`content`"),
            (json!({"role": "user", "content": [{"type": "audio"}]}), "part"),
            (json!({"role": "assistant", "tool_calls": {}}), "`tool_calls`"),
            (json!({"role": "assistant", "tool_calls": [{"id": "1"}]}), "`name`"),
        ] {
            let good: Value = json!({"role": "user", "content": "x"});
            let error = conversation(&[good, message.clone()]).unwrap_err();
            assert!(error.starts_with("conversation[1]: ") && error.contains(named), "{message}: {error}");
        }
    }
}

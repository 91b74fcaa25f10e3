//! The end of an epoch: the optimizer compares two skills on the same tasks, and writes guidance for the agent or notes
//! for itself.

use super::{Optimizer, StageCtx, finish_note};
use crate::error::PipelineError;
use crate::prompts::PromptLibrary;
use crate::prompts::schema::{meta_skill_schema, slow_update_schema};
use serde_json::Value;
use skill_core::json::read_object;
use skill_core::{ComparisonPair, SkillDoc};
use skill_llm::{Message, ResponseSchema};

/// What the optimizer wrote.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Written {
    /// Why.
    pub reasoning: String,
    /// The text, without white space around it; empty if there is none.
    pub content: String,
    /// What was wrong with the reply, one sentence each.
    pub notes: Vec<String>,
}

/// Asks for the guidance in the slow update's region of `current`.
///
/// # Errors
///
/// An optimizer that cannot be reached ends the stage. One whose reply holds no guidance does not: it is noted.
pub async fn write_guidance(
    previous: &SkillDoc,
    current: &SkillDoc,
    pairs: &[ComparisonPair],
    prompts: &PromptLibrary,
    optimizer: &Optimizer<'_>,
    ctx: &StageCtx<'_>,
) -> Result<Written, PipelineError> {
    let messages = prompts.slow_update(previous, current, pairs)?;
    ask(messages, slow_update_schema(), "slow_update_content", optimizer, ctx).await
}

/// Asks for the optimizer's own notes.
///
/// # Errors
///
/// As [`write_guidance`].
pub async fn write_meta_skill(
    previous: &SkillDoc,
    current: &SkillDoc,
    pairs: &[ComparisonPair],
    prompts: &PromptLibrary,
    optimizer: &Optimizer<'_>,
    ctx: &StageCtx<'_>,
) -> Result<Written, PipelineError> {
    let messages = prompts.meta_skill(previous, current, pairs)?;
    ask(messages, meta_skill_schema(), "meta_skill_content", optimizer, ctx).await
}

async fn ask(
    messages: Vec<Message>,
    schema: ResponseSchema,
    key: &'static str,
    optimizer: &Optimizer<'_>,
    ctx: &StageCtx<'_>,
) -> Result<Written, PipelineError> {
    let written = ctx
        .map_ordered(vec![(messages, schema)], async |_, (messages, schema)| {
            let name = schema.name.clone();
            let reply = optimizer.ask(messages, schema, &name, ctx).await?;
            let mut written = read(&reply.text, key);
            written.notes.splice(..0, finish_note(&reply, optimizer.max_tokens));
            for note in &mut written.notes {
                *note = format!("{name}: {note}");
            }
            Ok(written)
        })
        .await?;
    Ok(written.into_iter().next().unwrap_or_default())
}

fn read(text: &str, key: &str) -> Written {
    let Some(found) = read_object(text, key) else {
        let notes = vec![format!("the reply has no `{key}`; nothing is written")];
        return Written { notes, ..Written::default() };
    };
    let mut notes: Vec<String> = found.repairs.iter().map(ToString::to_string).collect();
    let content = match found.value.get(key).map(lines) {
        Some(Some(content)) => content,
        Some(None) | None => {
            notes.push(format!("`{key}` is neither a text nor a list of texts; nothing is written"));
            String::new()
        }
    };
    let reasoning = found.value.get("reasoning").and_then(Value::as_str).unwrap_or_default().to_owned();
    Written { reasoning, content, notes }
}

/// A text, or the lines of a list of texts; null is the empty text.
fn lines(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some(String::new()),
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Array(lines) => {
            let lines: Option<Vec<&str>> = lines.iter().map(Value::as_str).collect();
            lines.map(|lines| lines.join("\n").trim().to_owned())
        }
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, content: &str, n_notes: usize) {
        let written = read(text, "slow_update_content");
        assert_eq!(
            (written.content.as_str(), written.notes.len()),
            (content, n_notes),
            "{:?}",
            written.notes
        );
    }

    #[test]
    fn any_reply_is_read() {
        check(r#"{"reasoning": "r", "slow_update_content": " - a\n- b "}"#, "- a\n- b", 0);
        check(r#"{"slow_update_content": ["- a", "- b"]}"#, "- a\n- b", 0);
        check(r#"{"slow_update_content": null}"#, "", 0);
        check(r#"{"slow_update_content": {"text": "a"}}"#, "", 1);
        check(r#"{"slow_update_content": 7}"#, "", 1);
        check(r#"{"edits": []}"#, "", 1);
        check("Nothing to say.", "", 1);
        check("", "", 1);
    }
}

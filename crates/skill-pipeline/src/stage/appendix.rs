//! Skill-aware reflection: lapses of the agent become notes in the skill's appendix, and a long appendix is shortened.

use super::{Optimizer, StageCtx, finish_note};
use crate::error::PipelineError;
use crate::prompts::PromptLibrary;
use crate::prompts::schema::{APPENDIX_NOTES, appendix_schema};
use serde_json::Value;
use skill_core::json::read_object;

/// The notes in a reply of the optimizer: a list of texts, a text, or objects with a `note` or `content`.
///
/// What is of another shape is left out.
pub(crate) fn notes_in(reply: &Value) -> Vec<String> {
    let text_of = |note: &Value| -> Option<String> {
        let text = match note {
            Value::String(text) => text.as_str(),
            Value::Object(fields) => {
                ["note", "content"].iter().find_map(|name| fields.get(*name)?.as_str())?
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => return None,
        };
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    };
    match reply.get(APPENDIX_NOTES) {
        Some(Value::Array(notes)) => notes.iter().filter_map(text_of).collect(),
        Some(note @ (Value::String(_) | Value::Object(_))) => text_of(note).into_iter().collect(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_)) | None => Vec::new(),
    }
}

/// Asks the optimizer for fewer notes that say the same; `None` if the reply has no fewer, with what was wrong.
///
/// # Errors
///
/// A call that cannot be made ends the stage.
pub(crate) async fn consolidate(
    notes: &[String],
    prompts: &PromptLibrary,
    optimizer: &Optimizer<'_>,
    ctx: &StageCtx<'_>,
) -> Result<(Option<Vec<String>>, Vec<String>), PipelineError> {
    let messages = prompts.appendix_consolidate(notes)?;
    let replies = ctx
        .map_ordered(vec![messages], async |_, messages| {
            optimizer.ask(messages, appendix_schema(), "consolidation", ctx).await
        })
        .await?;
    let (mut shorter, mut said) = (None, Vec::new());
    for reply in replies {
        said.extend(finish_note(&reply, optimizer.max_tokens));
        let read = read_object(&reply.text, APPENDIX_NOTES).filter(|read| !read.truncated);
        let found = read.map(|read| notes_in(&read.value)).unwrap_or_default();
        if found.is_empty() || found.len() >= notes.len() {
            said.push(format!("{} notes were given for {}; all of them stay", found.len(), notes.len()));
        } else {
            shorter = Some(found);
        }
    }
    Ok((shorter, said.into_iter().map(|note| format!("appendix: {note}")).collect()))
}

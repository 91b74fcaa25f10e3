//! Rows for TRL's trainers: JSON, one object a line.
//!
//! - conversations: `{"messages": [{"role", "content"}]}`; the loss is on all tokens unless `assistant_only_loss` is set;
//! - prompts with completions: `{"prompt": [..], "completion": [..]}`; the loss is on the completion;
//! - prompts for GRPO: `{"prompt": [..], ..}`; further columns reach the reward function.
//!
//! A file holds one kind: the trainer looks at the first row only.

use super::rules::{END_OF_REPLY, ENDS_OF_PROMPT, Row, same_columns};
use super::{Checked, ExportError, FieldFault, Kind, TaskPrompt, Turn, lines, messages_value};
use serde_json::{Map, Value, json};

/// Conversations for `SFTTrainer`.
///
/// # Errors
///
/// The errors of [`check`]: a conversation that is empty, has a system message in the middle, or does not end with the
/// agent.
pub fn messages(conversations: &[Vec<Turn>]) -> Result<String, ExportError> {
    written(conversations.iter().map(|turns| json!({"messages": messages_value(turns)})).collect())
}

/// Prompts with completions for `SFTTrainer`; the completion is the last message.
///
/// # Errors
///
/// The errors of [`check`], as in [`messages`]; a conversation of one message has no prompt.
pub fn prompt_completion(conversations: &[Vec<Turn>]) -> Result<String, ExportError> {
    let row = |turns: &Vec<Turn>| {
        let (prompt, completion) = turns.split_at(turns.len().saturating_sub(1));
        json!({"prompt": messages_value(prompt), "completion": messages_value(completion)})
    };
    written(conversations.iter().map(row).collect())
}

/// Prompts for `GRPOTrainer`, with the columns `task_id` and `ground_truth`.
///
/// # Errors
///
/// The errors of [`check`]: a prompt that is empty or ends with the agent.
pub fn prompts(tasks: &[TaskPrompt]) -> Result<String, ExportError> {
    let row = |task: &TaskPrompt| {
        json!({
            "prompt": messages_value(&task.turns), "task_id": task.task_id, "ground_truth": task.ground_truth,
        })
    };
    written(tasks.iter().map(row).collect())
}

fn written(rows: Vec<Value>) -> Result<String, ExportError> {
    check_rows(&rows)?;
    Ok(lines(&rows))
}

/// Checks a file of any of the three kinds.
///
/// # Errors
///
/// The first row, and its field, that the trainer would refuse or learn nothing from.
pub fn check(text: &str) -> Result<Checked, ExportError> {
    let filled = text.lines().filter(|line| !line.trim().is_empty()).enumerate();
    let rows = filled.map(|(place, line)| {
        serde_json::from_str(line)
            .map_err(|error| Row(place).fault("the row", FieldFault::Unreadable(error.to_string())))
    });
    check_rows(&rows.collect::<Result<Vec<Value>, _>>()?)
}

fn check_rows(rows: &[Value]) -> Result<Checked, ExportError> {
    let objects = rows.iter().enumerate().map(|(place, row)| Row(place).object(row));
    let objects = objects.collect::<Result<Vec<_>, _>>()?;
    let first = objects.first().ok_or_else(|| ExportError::file("the file", FieldFault::Empty))?;
    let kind = kind_of(first).ok_or_else(|| Row(0).fault("messages", FieldFault::Missing))?;
    for (place, object) in objects.iter().enumerate() {
        if kind_of(object) != Some(kind) {
            return Err(Row(place).fault("the row", FieldFault::OtherKind));
        }
        check_row(Row(place), kind, object)?;
    }
    let columns = same_columns(&objects, &["messages", "prompt", "completion"])?;
    Ok(Checked { kind, n_rows: rows.len(), columns })
}

fn kind_of(row: &Map<String, Value>) -> Option<Kind> {
    match (row.contains_key("messages"), row.contains_key("completion"), row.contains_key("prompt")) {
        (true, _, _) => Some(Kind::Messages),
        (false, true, _) => Some(Kind::PromptCompletion),
        (false, false, true) => Some(Kind::Prompts),
        (false, false, false) => None,
    }
}

fn check_row(row: Row, kind: Kind, object: &Map<String, Value>) -> Result<(), ExportError> {
    match kind {
        Kind::Messages => {
            let messages = row.messages("messages", row.field(object, "", "messages")?, END_OF_REPLY)?;
            row.something_to_learn("messages", &messages)
        }
        Kind::PromptCompletion => {
            let (prompt, completion) =
                (row.field(object, "", "prompt")?, row.field(object, "", "completion")?);
            match (prompt, completion) {
                (Value::String(_), Value::String(text)) if text.trim().is_empty() => {
                    Err(row.fault("completion", FieldFault::NothingToLearn))
                }
                (Value::String(_), Value::String(_)) => Ok(()),
                (Value::String(_), _) => {
                    Err(row.fault("completion", FieldFault::NotA("a text, as the prompt is")))
                }
                (_, _) => {
                    row.messages("prompt", prompt, ENDS_OF_PROMPT)?;
                    let said = row.messages("completion", completion, END_OF_REPLY)?;
                    row.something_to_learn("completion", &said)
                }
            }
        }
        Kind::Prompts => match row.field(object, "", "prompt")? {
            Value::String(text) if text.is_empty() => Err(row.fault("prompt", FieldFault::Empty)),
            Value::String(_) => Ok(()),
            prompt => row.messages("prompt", prompt, ENDS_OF_PROMPT).map(|_| ()),
        },
    }
}

//! Journals of any size.

use skill_llm::journal::{ResultKey, StoredResult};
use skill_llm::scripted::ScriptedModel;
use skill_llm::{
    CallCtx, CallPlace, ChatModel as _, ChatRequest, Journal, JournalError, JournalOptions, Journaled,
    LlmError, Message,
};
use std::path::Path;
use std::sync::Arc;

/// The most bytes that wait for the disk at a time.
const MAX_WAITING: usize = 64 << 20;

/// Puts finished rollouts into a journal, each with so many bytes; it is made if it is not there.
///
/// # Errors
///
/// A journal that cannot be written.
pub async fn add_results(path: &Path, n_results: u32, bytes_each: usize) -> Result<(), JournalError> {
    let journal = Journal::open(path, JournalOptions::default())?;
    let text = "x".repeat(bytes_each);
    for number in 0..n_results {
        let place = format!("made / {number}");
        let content = serde_json::json!({"id": number, "made": text}).to_string();
        let result = StoredResult { place, content };
        journal.record_result(ResultKey::new("made", &[&number.to_string()]), "rollout", "made", result);
        if (number as usize + 1).is_multiple_of((MAX_WAITING / bytes_each.max(1)).max(1)) {
            journal.flush().await?;
        }
    }
    journal.flush().await
}

/// Puts calls into a journal, each with a prompt and a reply of so many characters; it is made if it is not there.
///
/// # Errors
///
/// A journal that cannot be written.
pub async fn make_journal(path: &Path, n_calls: u32, characters_each: usize) -> Result<(), LlmError> {
    let journal = Journal::open(path, JournalOptions::default())?;
    let reply = "y".repeat(characters_each);
    let model = ScriptedModel::answering("made", move |_| reply.clone());
    let model = Journaled::new(Arc::new(model), journal.clone());
    let filler = "z".repeat(characters_each);
    for number in 0..n_calls {
        let request = ChatRequest::new(vec![
            Message::system("You are made up."),
            Message::user(format!("{number} {filler}")),
        ]);
        let call =
            CallCtx::new(CallPlace::new(format!("step {} / rollout / item {number}", number / 1_000 + 1)));
        model.chat(&request, &call).await?;
        if number % 256 == 255 {
            journal.flush().await?;
        }
    }
    Ok(journal.flush().await?)
}

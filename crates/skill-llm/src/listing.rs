//! The list of models that a server keeps, read without asking any of them.
//!
//! It is for checks before a run: nothing of a run depends on it, since many servers have no such list or leave models
//! out of it.

use crate::call::CallCtx;
use crate::error::LlmError;
use crate::http::{Connection, Server};
use crate::provider::Dialect;
use crate::transport::Transport;
use serde_json::Value;
use std::sync::Arc;

/// What the address of the list ends with, in every interface.
const PATH: &[&str] = &["models"];
/// The most names that are kept; no server has as many.
const MAX_NAMES: usize = 10_000;
/// Statuses of servers that have no list, or do not show it with this key.
const NO_LIST: [u16; 5] = [403, 404, 405, 410, 501];

/// A server that can be asked for its models.
#[derive(Debug)]
pub struct ModelList {
    connection: Connection,
}

impl ModelList {
    /// Nothing is sent before the list is read.
    ///
    /// # Errors
    ///
    /// [`LlmError::Configuration`] for an address or headers that cannot be sent.
    pub fn new(server: Server, dialect: Dialect, transport: Arc<dyn Transport>) -> Result<Self, LlmError> {
        let mut connection = Connection::new(server, PATH, dialect.list_headers(), transport)?;
        if let Some(query) = dialect.list_query() {
            let url = &mut connection.endpoint.url;
            url.push(if url.contains('?') { '&' } else { '?' });
            url.push_str(query);
        }
        Ok(Self { connection })
    }

    /// The server as records name it.
    pub fn provider(&self) -> &str {
        &self.connection.endpoint.provider
    }

    /// The names of the models that the server lists; `None` where it has no list to show.
    ///
    /// # Errors
    ///
    /// A server that cannot be reached, fails, or does not accept the key.
    pub async fn read(&self, call: &CallCtx) -> Result<Option<Vec<String>>, LlmError> {
        self.connection.look(call, &NO_LIST, names).await
    }
}

/// The names in a list, in its order; OpenAI's lists name them `id`, Google's and Ollama's own ones `name`.
fn names(body: &Value) -> Vec<String> {
    let list = ["data", "models"].into_iter().find_map(|key| body.get(key)).unwrap_or(body);
    let entries = list.as_array().map(Vec::as_slice).unwrap_or_default();
    let name = |entry: &Value| {
        let name = entry.get("id").or_else(|| entry.get("name")).unwrap_or(entry);
        name.as_str().map(str::to_owned)
    };
    entries.iter().filter_map(name).take(MAX_NAMES).collect()
}

/// Whether a server that lists `listed` has a model that is asked for as `asked`.
///
/// Lists spell names in their own way: Gemini's has `models/` before each, Ollama's a tag behind, and dated versions
/// are listed where their undated name is asked for.
pub fn is_listed_as(asked: &str, listed: &str) -> bool {
    let listed = listed.strip_prefix("models/").unwrap_or(listed);
    let asked = asked.strip_prefix("models/").unwrap_or(asked);
    if listed == asked {
        return true;
    }
    let Some(rest) = listed.strip_prefix(asked) else { return false };
    let is_date = |text: &str| {
        let digits = text.chars().filter(char::is_ascii_digit).count();
        digits == 8 && text.chars().all(|letter| letter.is_ascii_digit() || letter == '-')
    };
    rest == ":latest" || rest.strip_prefix('-').is_some_and(is_date)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lists_of_every_shape_are_read() {
        #[track_caller]
        fn check(body: &Value, expect: &[&str]) {
            assert_eq!(names(body), expect);
        }
        check(&json!({"object": "list", "data": [{"id": "a"}, {"id": "b"}]}), &["a", "b"]);
        check(&json!({"data": [{"type": "model", "id": "claude-x", "display_name": "X"}]}), &["claude-x"]);
        check(&json!({"models": [{"name": "models/gemini-x"}]}), &["models/gemini-x"]);
        check(&json!([{"id": "a"}]), &["a"]);
        check(&json!({"data": ["a", 5, {"id": 7}]}), &["a"]);
        check(&json!({"data": {}}), &[]);
        check(&json!("x"), &[]);
    }

    #[test]
    fn a_model_is_found_under_the_name_that_its_list_has() {
        #[track_caller]
        fn check(asked: &str, listed: &str, expect: bool) {
            assert_eq!(is_listed_as(asked, listed), expect, "{asked} {listed}");
        }
        check("gpt-4.1-mini", "gpt-4.1-mini", true);
        check("gpt-4.1", "gpt-4.1-mini", false);
        check("gpt-4.1", "gpt-4.1-2025-04-14", true);
        check("claude-sonnet-4-5", "claude-sonnet-4-5-20250929", true);
        check("claude-sonnet-4", "claude-sonnet-4-5-20250929", false);
        check("gemini-2.5-flash", "models/gemini-2.5-flash", true);
        check("models/gemini-2.5-flash", "gemini-2.5-flash", true);
        check("llama3", "llama3:latest", true);
        check("llama3", "llama3:70b", false);
        check("", "x", false);
    }
}

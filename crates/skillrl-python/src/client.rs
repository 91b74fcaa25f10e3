//! A client in Python as a model.

use crate::callback::{Failure, Shared, call, say_late};
use crate::json::read;
use crate::threads::start;
use async_trait::async_trait;
use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Map, Value, json};
use skillrl::envs::record::conversation;
use skillrl::llm::{
    CallCtx, ChatModel, ChatReply, ChatRequest, FinishReason, LlmError, Message, ModelId, Role, ToolCall,
    ToolSpec, Usage,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The part of a place that names keyword arguments.
const EXTRA_PART: &str = "with ";
/// The bound on a reply where a request has none, as in the interface of clients.
const DEFAULT_MAX_TOKENS: u32 = 4096;

/// A client: an object of Python with a method `chat`.
pub(crate) struct PyClient {
    id: ModelId,
    parameters: Value,
    /// `call(system, user, messages, max_completion_tokens, temperature, stage, extra, tools)`, which returns
    /// `(text, tokens of the prompt, tokens of the reply, cached tokens, tool calls)` or a coroutine that does. Messages,
    /// tools and tool calls are JSON of Chat Completions.
    call: Arc<Py<PyAny>>,
    is_async: bool,
    timeout: Duration,
    extras: Arc<Extras>,
    shared: Arc<Shared>,
}

/// Keyword arguments that an environment passes on to its client, by the name of their place, with the number of calls
/// in flight that have them.
#[derive(Default)]
pub(crate) struct Extras(Mutex<HashMap<String, (usize, Py<PyDict>)>>);

/// Holds the arguments of one call until it is dropped.
pub(crate) struct Kept {
    extras: Arc<Extras>,
    part: String,
}

impl Extras {
    /// Keeps arguments for a call; `digest` identifies them.
    pub(crate) fn keep(self: &Arc<Self>, digest: &str, arguments: Py<PyDict>) -> Kept {
        let part = format!("{EXTRA_PART}{digest}");
        let mut kept = self.0.lock();
        kept.entry(part.clone()).or_insert((0, arguments)).0 += 1;
        drop(kept);
        Kept { extras: Arc::clone(self), part }
    }

    fn of(&self, py: Python<'_>, call: &CallCtx) -> Option<Py<PyDict>> {
        let part = call.place.as_str().rsplit(" / ").next().filter(|part| part.starts_with(EXTRA_PART))?;
        self.0.lock().get(part).map(|(_, arguments)| arguments.clone_ref(py))
    }
}

impl Kept {
    /// The part of the place of the call.
    pub(crate) fn part(&self) -> String {
        self.part.clone()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let mut kept = self.extras.0.lock();
        let Some((calls, _)) = kept.get_mut(&self.part) else { return };
        *calls -= 1;
        let unused = if *calls == 0 { kept.remove(&self.part) } else { None };
        // Dropping the arguments may run Python code, which may make calls.
        drop(kept);
        drop(unused);
    }
}

impl PyClient {
    /// Reads the description of a client that `skillrl._bridge` makes.
    pub(crate) fn new(
        described: &Bound<'_, PyAny>,
        timeout: Duration,
        shared: Arc<Shared>,
    ) -> PyResult<Self> {
        let text = |name: &str| described.getattr(name)?.extract::<String>();
        let parameters = read("the parameters of a client", &text("parameters")?)?;
        Ok(Self {
            id: ModelId::new(text("provider")?, text("model")?),
            parameters,
            call: Arc::new(described.getattr("call")?.unbind()),
            is_async: described.getattr("is_async")?.extract()?,
            timeout,
            extras: Arc::default(),
            shared,
        })
    }

    pub(crate) fn extras(&self) -> Arc<Extras> {
        Arc::clone(&self.extras)
    }
}

#[async_trait]
impl ChatModel for PyClient {
    fn id(&self) -> &ModelId {
        &self.id
    }

    fn parameters(&self) -> Value {
        self.parameters.clone()
    }

    async fn chat(&self, request: &ChatRequest, ctx: &CallCtx) -> Result<ChatReply, LlmError> {
        let limit = ctx.timeout.map_or(self.timeout, |timeout| timeout.min(self.timeout));
        let limit = ctx.time_left().map_or(limit, |left| left.min(limit));
        let _expecting = self.shared.expect_reply(limit);
        let outcome = tokio::select! {
            biased;
            () = ctx.cancel.cancelled() => return Err(LlmError::Cancelled),
            outcome = self.made(request, ctx) => outcome,
            () = tokio::time::sleep(limit) => {
                say_late(limit);
                return Err(LlmError::Timeout { provider: self.id.to_string(), after: limit });
            }
        };
        match outcome {
            Ok((text, usage, tool_calls)) => {
                let mut reply = ChatReply::text(text, usage);
                if !tool_calls.is_empty() {
                    reply.finish = FinishReason::ToolCalls;
                }
                reply.tool_calls = tool_calls;
                Ok(reply)
            }
            Err(Failure::Raised(message)) => {
                Err(LlmError::Client { client: self.id.model.clone(), message: format!("raised {message}") })
            }
            Err(Failure::Ended) => Err(LlmError::Cancelled),
        }
    }
}

impl PyClient {
    async fn made(
        &self,
        request: &ChatRequest,
        ctx: &CallCtx,
    ) -> Result<(String, Usage, Vec<ToolCall>), Failure> {
        let (system, user) = (request.text_of(Role::System), request.text_of(Role::User));
        let messages = is_conversation(request).then(|| written_messages(&request.messages).to_string());
        let tools = (!request.tools.is_empty()).then(|| written_tools(&request.tools).to_string());
        let max_tokens = request.sampling.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS);
        let (temperature, stage) = (request.sampling.temperature, stage(ctx));
        let (callable, extras, ctx) = (Arc::clone(&self.call), Arc::clone(&self.extras), ctx.clone());
        let start = start(move |py| {
            let extra = extras.of(py, &ctx);
            let arguments = (system, user, messages, max_tokens, temperature, stage, extra, tools);
            Ok((callable.bind(py).clone(), arguments.into_pyobject(py)?))
        });
        call(&self.shared, self.is_async, None, start, |result| {
            let (text, input, output, cached, calls): (_, _, _, _, Option<String>) = result.extract()?;
            let calls = calls.map_or(Ok(Vec::new()), |calls| read_tool_calls(&calls))?;
            Ok((text, Usage { input, output, cached, ..Usage::default() }, calls))
        })
        .await
    }
}

/// True if the request is more than a system message and a user message.
fn is_conversation(request: &ChatRequest) -> bool {
    let roles: Vec<Role> = request.messages.iter().map(|message| message.role).collect();
    !matches!(roles.as_slice(), [] | [Role::User] | [Role::System] | [Role::System, Role::User])
}

/// Messages as Chat Completions has them; images are left out, since clients are given texts.
fn written_messages(messages: &[Message]) -> Value {
    let written = messages.iter().map(|message| {
        let mut written = Map::new();
        written.insert("role".to_owned(), json!(message.role.as_str()));
        written.insert("content".to_owned(), json!(message.text()));
        if let Some(id) = &message.tool_call_id {
            written.insert("tool_call_id".to_owned(), json!(id));
        }
        if !message.tool_calls.is_empty() {
            let call = |call: &ToolCall| {
                let function = json!({"name": call.name, "arguments": call.arguments});
                json!({"id": call.id, "type": "function", "function": function})
            };
            written.insert("tool_calls".to_owned(), message.tool_calls.iter().map(call).collect());
        }
        Value::Object(written)
    });
    written.collect()
}

/// Tools as Chat Completions has them.
fn written_tools(tools: &[ToolSpec]) -> Value {
    let written = tools.iter().map(|tool| {
        let function =
            json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
        json!({"type": "function", "function": function})
    });
    written.collect()
}

/// The tool calls of a reply, as Chat Completions has them.
fn read_tool_calls(calls: &str) -> PyResult<Vec<ToolCall>> {
    let told = json!([{"role": "assistant", "tool_calls": read::<Value>("`tool_calls`", calls)?}]);
    let messages = told.as_array().map_or_else(|| Ok(Vec::new()), |told| conversation(told));
    let messages = messages.map_err(PyValueError::new_err)?;
    Ok(messages.into_iter().flat_map(|message| message.tool_calls).collect())
}

/// The word by which the interface of clients names the stage of a call.
fn stage(ctx: &CallCtx) -> &'static str {
    let is_in = |name: &str| ctx.place.as_str().split(" / ").any(|part| part == name);
    let stages = [
        ("reflect", "analyst"),
        ("aggregate", "merge"),
        ("select", "ranking"),
        ("update", "rewrite"),
        ("appendix", "appendix"),
        ("slow_update", "slow_update"),
        ("meta_skill", "meta_skill"),
    ];
    stages.into_iter().find(|(part, _)| is_in(part)).map_or("rollout", |(_, stage)| stage)
}

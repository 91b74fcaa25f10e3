//! The agent of one rollout, for an environment in Python.

use crate::callback::{Caller, Rollout, Shared, Step};
use crate::client::{Extras, Kept};
use crate::errors::model_error;
use crate::json::read;
use crate::package::texts_of;
use crate::threads::Job;
use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Map, Value, json};
use skillrl::core::Role;
use skillrl::env::Agent;
use skillrl::envs::EnvError;
use skillrl::envs::endpoint::{read_chat_completions, write_tool_calls};
use skillrl::llm::{ChatReply, ChatRequest, LlmError, Message, Sampling};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use tokio::runtime::Handle;

/// Base URL of OpenAI, of Anthropic, key, and the name of the model.
pub(crate) type Address = (String, String, String, String);

/// Asks the target of a rollout; see `skillrl._bridge.TargetClient`.
#[pyclass(frozen, name = "Agent", module = "skillrl._native")]
pub(crate) struct PyAgent {
    agent: Agent,
    extras: Option<Arc<Extras>>,
    rollout: Arc<Rollout>,
    shared: Arc<Shared>,
    served: Option<Address>,
    runtime: Handle,
}

impl PyAgent {
    pub(crate) fn new(
        agent: Agent,
        extras: Option<Arc<Extras>>,
        rollout: Arc<Rollout>,
        shared: Arc<Shared>,
    ) -> Self {
        Self { agent, extras, rollout, shared, served: None, runtime: Handle::current() }
    }

    /// The same agent, which is served its model at this address.
    pub(crate) fn served_at(self, address: Option<Address>) -> Self {
        Self { served: address, ..self }
    }

    /// Keeps the further arguments of a call.
    fn keep(&self, extra: Option<(String, Py<PyDict>)>) -> PyResult<Option<Kept>> {
        match (extra, &self.extras) {
            (None, _) => Ok(None),
            (Some((digest, arguments)), Some(extras)) => Ok(Some(extras.keep(&digest, arguments))),
            (Some(_), None) => {
                let text = "this client takes no further keyword arguments: set them on the client";
                Err(pyo3::exceptions::PyTypeError::new_err(text))
            }
        }
    }
}

/// The text of a reply, without what the model thought, with its tokens (of the prompt, of the reply, cached) and its
/// tool calls as JSON.
pub(crate) type Said = (String, u64, u64, u64, Option<String>);

pub(crate) fn said(reply: &ChatReply, request: &ChatRequest) -> Said {
    let tool_calls = write_tool_calls(reply).map(|calls| calls.to_string());
    let usage = reply.usage;
    (reply.without_thoughts(request).text, usage.input, usage.output, usage.cached, tool_calls)
}

/// A request of messages as pairs of role and text. `further` are fields of Chat Completions as JSON; `messages` among
/// them take the place of the pairs.
pub(crate) fn request(
    messages: Vec<(String, String)>,
    max_tokens: Option<u32>,
    temperature: Option<f64>,
    further: Option<&str>,
) -> PyResult<ChatRequest> {
    let message = |(role, text): (String, String)| {
        let role = match role.as_str() {
            "system" | "developer" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            other => {
                let text =
                    format!("a message has the role {other:?}; use \"system\", \"user\" or \"assistant\"");
                return Err(PyValueError::new_err(text));
            }
        };
        Ok(Message::text_message(role, text))
    };
    let messages: Vec<Message> = messages.into_iter().map(message).collect::<PyResult<_>>()?;
    let sampling = Sampling { max_tokens, temperature, ..Sampling::default() };
    let Some(further) = further else {
        return Ok(ChatRequest { sampling, ..ChatRequest::new(messages) });
    };
    let mut body: Map<String, Value> = read("the request", further)?;
    let has_messages = body.contains_key("messages");
    body.entry("model").or_insert_with(|| json!("target"));
    body.entry("messages").or_insert_with(|| json!([{"role": "user", "content": "."}]));
    let read = read_chat_completions(&body).map_err(PyValueError::new_err)?;
    let messages = if has_messages { read.messages } else { messages };
    let sampling = Sampling { max_tokens, temperature, ..read.sampling };
    Ok(ChatRequest { messages, sampling, ..read })
}

/// A call that a thread of Python's waits for.
#[pyclass(frozen, module = "skillrl._native")]
pub(crate) struct Asked {
    request: ChatRequest,
    steps: Mutex<mpsc::Receiver<Step>>,
    /// The call itself, where the thread that waits makes it: that spares two changes of threads where a function of
    /// this thread replies.
    call: Option<Mutex<Call>>,
    runtime: Handle,
    shared: Arc<Shared>,
}

/// A call that is not a task of the runtime.
type Call = Pin<Box<dyn Future<Output = Result<ChatReply, EnvError>> + Send>>;

impl Asked {
    /// What there is without waiting, with the interpreter's lock held: giving it away and taking it back costs more than
    /// the engine's work on a call. No thread of the engine takes the interpreter's lock while it holds another.
    fn now(&self, call: &Mutex<Call>) -> Option<Step> {
        // Another thread that waits here holds them as long as it waits.
        let (Some(mut call), Some(steps)) = (call.try_lock(), self.steps.try_lock()) else { return None };
        let _entered = self.runtime.enter();
        match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(reply) => Some(Step::Reply(reply)),
            Poll::Pending => steps.try_recv().ok(),
        }
    }

    /// Makes the call until there is a reply, or a function for this thread to run.
    fn make(&self, call: &Mutex<Call>) -> Option<Step> {
        let mut call = call.lock();
        let steps = self.steps.lock();
        self.runtime.block_on(poll_fn(|ctx| match call.as_mut().poll(ctx) {
            Poll::Ready(reply) => Poll::Ready(Some(Step::Reply(reply))),
            Poll::Pending => steps.try_recv().map_or(Poll::Pending, |step| Poll::Ready(Some(step))),
        }))
    }
}

#[pymethods]
impl Asked {
    /// The reply, or a [`Job`] that the thread has to do before the next call of this.
    fn next(&self, py: Python<'_>) -> PyResult<Next> {
        let step = match &self.call {
            Some(call) => self.now(call).or_else(|| self.shared.threads().waiting(py, || self.make(call))),
            None => self.shared.receive(py, &self.steps),
        };
        match step {
            Some(Step::Job(job)) => Ok(Next::Job(job)),
            Some(Step::Reply(Ok(reply))) => Ok(Next::Reply(said(&reply, &self.request))),
            Some(Step::Reply(Err(error))) => Err(raised(py, &error)),
            None => Err(model_error(py, &LlmError::Cancelled)),
        }
    }
}

/// What [`Asked::next`] returns.
#[derive(IntoPyObject)]
enum Next {
    Job(Job),
    Reply(Said),
}

fn raised(py: Python<'_>, error: &EnvError) -> PyErr {
    match error {
        EnvError::Model(error) => model_error(py, error),
        other => model_error(py, &LlmError::Configuration { message: other.to_string() }),
    }
}

#[pymethods]
impl PyAgent {
    /// Where the model is served for this rollout: base URL of OpenAI, of Anthropic, key, and the name of the model.
    #[getter]
    fn address(&self) -> Option<Address> {
        self.served.clone()
    }

    /// The texts of the skill by the names of its files, `SKILL.md` first, without markers and front matter.
    #[getter]
    fn texts(&self) -> Vec<(String, String)> {
        texts_of(self.agent.document())
    }

    /// True for a model that the engine asks itself: what it takes is known, and `extra` is not for it.
    #[getter]
    fn is_native(&self) -> bool {
        self.extras.is_none()
    }

    /// Sends a request; the calling thread runs the Python functions that the request needs while it waits.
    #[pyo3(signature = (messages, max_tokens=None, temperature=None, extra=None, further=None))]
    fn ask(
        &self,
        messages: Vec<(String, String)>,
        max_tokens: Option<u32>,
        temperature: Option<f64>,
        extra: Option<(String, Py<PyDict>)>,
        further: Option<&str>,
    ) -> PyResult<Asked> {
        let (request, kept) = (request(messages, max_tokens, temperature, further)?, self.keep(extra)?);
        let part = kept.as_ref().map(Kept::part);
        let (steps, received) = mpsc::channel();
        let caller = Caller { steps: steps.clone(), rollout: Arc::clone(&self.rollout) };
        let (agent, asked) = (self.agent.clone(), request.clone());
        let call = caller.scope(async move {
            let reply = agent.send_at(asked, part).await;
            drop(kept);
            reply
        });
        let call = if self.is_native() {
            // The engine's own threads are woken for what comes over the network.
            self.runtime.spawn(async move {
                // The thread may have given up.
                let _ = steps.send(Step::Reply(call.await));
            });
            None
        } else {
            Some(Mutex::new(Box::pin(call) as Call))
        };
        let (runtime, shared) = (self.runtime.clone(), Arc::clone(&self.shared));
        Ok(Asked { request, steps: Mutex::new(received), call, runtime, shared })
    }

    /// Asks, and calls `done(reply, error)` from another thread when there is a reply.
    #[pyo3(signature = (done, messages, max_tokens=None, temperature=None, extra=None, further=None))]
    fn start(
        &self,
        done: Py<PyAny>,
        messages: Vec<(String, String)>,
        max_tokens: Option<u32>,
        temperature: Option<f64>,
        extra: Option<(String, Py<PyDict>)>,
        further: Option<&str>,
    ) -> PyResult<()> {
        let (request, kept) = (request(messages, max_tokens, temperature, further)?, self.keep(extra)?);
        let part = kept.as_ref().map(Kept::part);
        let agent = self.agent.clone();
        self.runtime.spawn(async move {
            let reply = agent.send_at(request.clone(), part).await;
            drop(kept);
            // Nobody waits in an interpreter that is ending.
            Python::try_attach(|py| {
                let told = match reply {
                    Ok(reply) => done.call1(py, (said(&reply, &request), py.None())),
                    Err(error) => done.call1(py, (py.None(), raised(py, &error).into_value(py))),
                };
                if let Err(error) = told {
                    error.write_unraisable(py, None);
                }
            });
        });
        Ok(())
    }
}

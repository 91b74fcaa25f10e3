//! A transport in memory, and what the tests of every dialect say of an outcome.

use async_trait::async_trait;
use parking_lot::Mutex;
use proptest::prelude::*;
use serde_json::Value;
use skill_llm::{
    ChatReply, FinishReason, HttpRequest, HttpResponse, LlmError, Transport, TransportError, Usage,
};
use std::sync::Arc;

pub(crate) const KEY: &str = "sk-test-0123456789";

type Answer = Result<HttpResponse, TransportError>;

/// Answers in order, the last answer again and again, and keeps what it was asked.
pub(crate) struct Canned {
    answers: Vec<Answer>,
    asked: Mutex<Vec<HttpRequest>>,
}

impl Canned {
    /// Answers every request alike.
    pub(crate) fn new(answer: Answer) -> Arc<Self> {
        Self::in_turn([answer])
    }

    pub(crate) fn in_turn(answers: impl IntoIterator<Item = Answer>) -> Arc<Self> {
        Arc::new(Self { answers: answers.into_iter().collect(), asked: Mutex::default() })
    }

    pub(crate) fn asked(&self) -> Vec<HttpRequest> {
        self.asked.lock().clone()
    }
}

#[async_trait]
impl Transport for Canned {
    async fn send(&self, request: HttpRequest) -> Answer {
        let mut asked = self.asked.lock();
        let answer = self.answers.get(asked.len()).or(self.answers.last());
        asked.push(request);
        answer.unwrap().clone()
    }
}

pub(crate) fn response(status: u16, body: impl Into<Vec<u8>>) -> HttpResponse {
    HttpResponse { status, headers: Vec::new(), body: body.into() }
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Text, tool calls, finish reason and tokens in one line.
pub(crate) fn shown(outcome: Result<ChatReply, LlmError>) -> String {
    match outcome {
        Ok(reply) => {
            let calls: Vec<String> = reply
                .tool_calls
                .iter()
                .map(|call| format!(" {}={}({})", call.id, call.name, call.arguments))
                .collect();
            let Usage { input, cached, output, reasoning, .. } = reply.usage;
            let finish = match reply.finish {
                FinishReason::Other(reason) => format!("other:{reason}"),
                finish => format!("{finish:?}"),
            };
            format!("{finish} {:?}{} {input}/{cached}/{output}/{reasoning}", reply.text, calls.concat())
        }
        Err(error) => format!("{:?}: {error}", error.class()),
    }
}

/// Any JSON with these names and, beside any texts, these words.
pub(crate) fn json(
    names: &'static [&'static str],
    words: &'static [&'static str],
) -> impl Strategy<Value = Value> {
    let name = prop_oneof![prop::sample::select(names).prop_map(str::to_owned), ".{0,4}"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(words).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

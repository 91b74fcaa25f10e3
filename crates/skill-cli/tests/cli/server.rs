//! A server on loopback that plays both models, well or badly.

use crate::context::TestContext;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::runtime::Runtime;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate, matchers};

/// Gives the answer to a call; the number counts the calls since this answer was chosen, from 1.
type Answer = Box<dyn Fn(usize, &Request) -> ResponseTemplate + Send>;

/// What the good skill of the task says.
pub(crate) const GOOD_RULE: &str = "- Reply with only the word.";

/// The models `target` and `optimizer` behind one address.
pub(crate) struct Server {
    // Dropped before the runtime that it was started in.
    mock: MockServer,
    _runtime: Runtime,
    answer: Arc<Mutex<(usize, Answer)>>,
}

struct Responder(Arc<Mutex<(usize, Answer)>>);

impl Respond for Responder {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let mut state = self.0.lock();
        state.0 += 1;
        (state.1)(state.0, request)
    }
}

impl Server {
    /// A server that answers as [`healthy`] does.
    pub(crate) fn start() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let answer: Arc<Mutex<(usize, Answer)>> =
            Arc::new(Mutex::new((0, Box::new(|_, request| healthy(request)))));
        let responder = Responder(Arc::clone(&answer));
        let mock = runtime.block_on(async {
            let server = MockServer::builder().disable_request_recording().start().await;
            Mock::given(matchers::any()).respond_with(responder).mount(&server).await;
            server
        });
        Self { mock, _runtime: runtime, answer }
    }

    /// Answers like this from now on.
    pub(crate) fn answer_with(&self, answer: impl Fn(usize, &Request) -> ResponseTemplate + Send + 'static) {
        *self.answer.lock() = (0, Box::new(answer));
    }

    /// How many calls there were since the answer was chosen.
    pub(crate) fn n_calls(&self) -> usize {
        self.answer.lock().0
    }

    /// Where it is.
    pub(crate) fn address(&self) -> String {
        self.mock.uri()
    }

    /// A model of this server, as the configuration has it.
    pub(crate) fn model(&self, name: &str) -> String {
        model_at(&self.mock.uri(), name)
    }

    /// A model of this server with further keys, such as `, price_input = 2.0`.
    pub(crate) fn model_with(&self, name: &str, more: &str) -> String {
        self.model(name).replace(" }", &format!("{more} }}"))
    }

    /// A task for both models, which have these further keys.
    pub(crate) fn task_with(&self, more: &str) -> TestContext {
        TestContext::with_task(&self.model_with("target", more), &self.model_with("optimizer", more))
    }

    /// A task for both models.
    pub(crate) fn task(&self) -> TestContext {
        self.task_with("")
    }

    /// A server that answers as [`healthy`] does, and a task for it.
    pub(crate) fn start_with_task() -> (Self, TestContext) {
        let server = Self::start();
        let context = server.task();
        (server, context)
    }
}

/// A model at an address, as the configuration has it.
pub(crate) fn model_at(address: &str, name: &str) -> String {
    format!("{{ kind = \"openai\", model = \"{name}\", base_url = \"{address}/v1\" }}")
}

/// An address that nobody listens at: a port that was ours and is closed.
pub(crate) fn closed_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// The target repeats the word if the skill says so; the optimizer always proposes that rule.
pub(crate) fn healthy(request: &Request) -> ResponseTemplate {
    reply(&healthy_words(request), "stop")
}

/// What a healthy server says.
pub(crate) fn healthy_words(request: &Request) -> String {
    let body = body(request);
    if is_optimizer(&body) {
        let edits = json!([{"op": "append", "target": "", "content": GOOD_RULE, "support_count": 1}]);
        return json!({"patch": {"reasoning": "it talks", "edits": edits}}).to_string();
    }
    let text = body["messages"].to_string();
    let word = text.rsplit("Repeat: ").next().and_then(|rest| rest.split('.').next()).unwrap_or_default();
    let answer =
        if text.contains(GOOD_RULE) { word } else { "Good day to you, I would be delighted to help" };
    answer.to_owned()
}

/// As [`healthy`], but the best answers say too much: they are graded, and not right.
pub(crate) fn nearly_right(request: &Request) -> ResponseTemplate {
    let text = body(request)["messages"].to_string();
    let word = text.rsplit("Repeat: ").next().and_then(|rest| rest.split('.').next()).unwrap_or_default();
    match text.contains(GOOD_RULE) && !is_optimizer(&body(request)) {
        true => reply(&format!("{word} it is"), "stop"),
        false => healthy(request),
    }
}

/// Healthy for so many calls, then an outage.
pub(crate) fn outage_after(n_calls: usize) -> impl Fn(usize, &Request) -> ResponseTemplate + Send {
    move |call, request| {
        if call <= n_calls {
            healthy(request)
        } else {
            ResponseTemplate::new(503).set_body_string("overloaded")
        }
    }
}

pub(crate) fn body(request: &Request) -> Value {
    serde_json::from_slice(&request.body).unwrap()
}

pub(crate) fn is_optimizer(body: &Value) -> bool {
    body["model"] == "optimizer"
}

/// A reply as the protocol has it.
pub(crate) fn reply(text: &str, finish_reason: &str) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5},
    }))
}

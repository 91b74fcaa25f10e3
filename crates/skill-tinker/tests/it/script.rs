//! A server that answers by a function, without sockets.

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use skill_llm::transport::{HttpMethod, HttpRequest, HttpResponse, Transport, TransportError};
use skill_tinker::{Connection, ConnectionSettings, TinkerBackend, TinkerSettings};
use skill_train::checkpoint::StateStore;
use std::path::Path;
use std::sync::Arc;

type Answer = Result<HttpResponse, TransportError>;
type Rule = Box<dyn Fn(&str, &Value, usize) -> Option<Answer> + Send + Sync>;

/// Answers calls as a server does that has one model and finishes everything at once; `rule` is asked first, with the
/// call, its body and how often it came before.
pub(crate) struct Script {
    rule: Rule,
    seen: Mutex<Vec<(String, Value)>>,
}

pub(crate) fn json_answer(status: u16, body: &Value) -> Answer {
    answer(status, "application/json", body.to_string().into_bytes())
}

pub(crate) fn answer(status: u16, content_type: &str, body: Vec<u8>) -> Answer {
    let headers = vec![("content-type".to_owned(), content_type.to_owned())];
    Ok(HttpResponse { status, headers, body })
}

impl Script {
    pub(crate) fn new(
        rule: impl Fn(&str, &Value, usize) -> Option<Answer> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { rule: Box::new(rule), seen: Mutex::default() })
    }

    /// How often a call came.
    pub(crate) fn count(&self, call: &str) -> usize {
        self.seen.lock().iter().filter(|(seen, _)| seen == call).count()
    }

    /// The bodies of a call.
    pub(crate) fn bodies(&self, call: &str) -> Vec<Value> {
        let seen = self.seen.lock();
        seen.iter().filter(|(seen, _)| seen == call).map(|(_, body)| body.clone()).collect()
    }

    pub(crate) fn connection(self: &Arc<Self>) -> Connection {
        let settings = ConnectionSettings::new("http://gpu.example:8600/");
        Connection::new(Arc::clone(self) as Arc<dyn Transport>, &settings).unwrap()
    }

    pub(crate) fn backend(self: &Arc<Self>, folder: &Path) -> TinkerBackend {
        let settings = TinkerSettings {
            base_model: "tiny".to_owned(),
            rank: 4,
            seed: 7,
            start: None,
            has_reference: false,
        };
        TinkerBackend::new(self.connection(), settings, StateStore::new(folder))
    }

    /// What a request comes to: the request itself, since results are asked for by what they are of.
    fn usual(call: &str, body: &Value) -> Value {
        match call {
            "create_session" => json!({"session_id": "session_1"}),
            "retrieve_future" => {
                let of: Value = serde_json::from_str(body["request_id"].as_str().unwrap()).unwrap();
                Self::result(of["call"].as_str().unwrap(), &of["body"])
            }
            _ => json!({"request_id": json!({"call": call, "body": body}).to_string()}),
        }
    }

    fn result(call: &str, body: &Value) -> Value {
        match call {
            "create_model" => json!({"model_id": "model_1"}),
            "save_weights" | "save_weights_for_sampler" => {
                json!({"path": format!("tinker://model_1/weights/{}", body["path"].as_str().unwrap())})
            }
            "forward" | "forward_backward" => {
                let input = body.get("forward_input").unwrap_or(&body["forward_backward_input"]);
                let of_datum = |datum: &Value| {
                    let n = datum["loss_fn_inputs"]["target_tokens"]["data"].as_array().unwrap().len();
                    let logprobs: Vec<f64> = (0..n).map(|place| -1.0 - 0.25 * place as f64).collect();
                    json!({"logprobs": {"data": logprobs, "dtype": "float32", "shape": [n]}})
                };
                let outputs: Vec<Value> = input["data"].as_array().unwrap().iter().map(of_datum).collect();
                json!({"loss_fn_output_type": "scalar", "loss_fn_outputs": outputs, "metrics": {}})
            }
            "optim_step" => json!({"metrics": {"skyrl.ai/grad_norm": 4.25}}),
            "asample" => json!({"sequences": [
                {"stop_reason": "stop", "tokens": [5, 2], "logprobs": [-0.5, -0.25]},
            ], "prompt_logprobs": [-1.5, -2.5]}),
            _ => json!({}),
        }
    }
}

#[async_trait]
impl Transport for Script {
    async fn send(&self, request: HttpRequest) -> Answer {
        assert!(request.url.starts_with("http://gpu.example:8600/api/v1/"), "{}", request.url);
        let call = request.url.rsplit('/').next().unwrap().to_owned();
        let body = match request.method {
            HttpMethod::Get => Value::Null,
            HttpMethod::Post => serde_json::from_slice(&request.body).unwrap(),
        };
        let n_before = self.count(&call);
        self.seen.lock().push((call.clone(), body.clone()));
        match (self.rule)(&call, &body, n_before) {
            Some(answer) => answer,
            None => json_answer(200, &Self::usual(&call, &body)),
        }
    }
}

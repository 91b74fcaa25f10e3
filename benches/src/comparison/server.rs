//! The models of all environments that are being searched, by HTTP: Chat Completions below `/RUN/v1`, tasks at
//! `/RUN/tasks`, and the number of calls at `/RUN/calls`.
//!
//! # Invariants
//!
//! - Every reply of a model is counted, and the order in which requests come changes no reply. Held by
//!   `replies_depend_on_the_request_and_how_often_it_came`.

use crate::comparison::Failure;
use crate::comparison::real::{RealTasks, SIZES, Sizes};
use crate::comparison::results::Counts;
use crate::generator::{Environment, optimizer, target};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use parking_lot::Mutex;
use serde_json::{Value, json};
use skill_http_server::{Connection, HttpServer, SeatLimits, WhenFull, service_fn};
use std::collections::HashMap;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// The most connections at once; further ones wait.
const MAX_CONNECTIONS: usize = 1_024;
/// The longest body of a request.
const MAX_REQUEST_BYTES: usize = 64 * 1024 * 1024;
/// Characters of a token.
const CHARS_PER_TOKEN: usize = 4;

/// Where a search takes place.
#[derive(Debug)]
pub enum World {
    /// Simulated tasks and models.
    Simulated(Arc<Environment>),
    /// Public tasks and a real target; the seed decides what the optimizer says.
    Real(RealTasks, u64),
}

impl World {
    /// How many tasks each split has, and how many calls a search may make.
    pub fn sizes(&self) -> Sizes {
        match self {
            Self::Simulated(environment) => {
                let parameters = &environment.parameters;
                Sizes {
                    n_train: parameters.n_train,
                    n_val: parameters.n_val,
                    n_test: parameters.n_test(),
                    calls: parameters.calls,
                }
            }
            Self::Real(..) => SIZES,
        }
    }

    /// The skill that a search begins with.
    pub fn initial_skill(&self) -> String {
        match self {
            Self::Simulated(environment) => environment.initial_skill(),
            Self::Real(tasks, _) => tasks.task.initial_skill().to_owned(),
        }
    }

    /// Scores between 0 and 1 count.
    pub fn is_graded(&self) -> bool {
        match self {
            Self::Simulated(environment) => environment.parameters.is_graded,
            Self::Real(..) => false,
        }
    }

    /// Training, validation and test tasks as rows of data.
    pub fn rows(&self) -> [(&'static str, Vec<Value>); 3] {
        match self {
            Self::Simulated(environment) => environment
                .splits()
                .map(|(name, tasks)| (name, tasks.iter().map(|task| environment.row(task)).collect())),
            Self::Real(tasks, _) => tasks.splits().map(|(name, rows)| (name, rows.to_vec())),
        }
    }

    fn leaks(&self, user: &str) -> usize {
        match self {
            Self::Simulated(environment) => optimizer::leaks(environment, user),
            Self::Real(tasks, _) => tasks.leaks(user),
        }
    }
}

/// One search.
#[derive(Debug)]
pub struct Run {
    /// Where it takes place.
    pub world: World,
    counts: Mutex<Counts>,
    /// How often each request has come, by its hash.
    seen: Mutex<HashMap<u64, u32>>,
}

impl Run {
    /// A run that has asked for nothing yet.
    pub fn new(world: World) -> Self {
        Self { world, counts: Mutex::default(), seen: Mutex::default() }
    }

    /// What it has asked for so far.
    pub fn counts(&self) -> Counts {
        *self.counts.lock()
    }

    /// The reply of a model.
    ///
    /// # Errors
    ///
    /// A real target that does not answer.
    pub async fn reply(&self, model: &str, system: &str, user: &str) -> Result<String, Failure> {
        let number = self.number_of(model, system, user);
        if model == TARGET {
            let reply = match &self.world {
                World::Simulated(environment) => target::answer(environment, system, user, number),
                World::Real(tasks, _) => tasks.target.reply(system, user).await?,
            };
            self.counts.lock().target += 1;
            return Ok(reply);
        }
        let mut counts = self.counts.lock();
        counts.optimizer += 1;
        counts.leaks += self.world.leaks(user) as u64;
        drop(counts);
        Ok(match &self.world {
            World::Simulated(environment) => optimizer::reply(environment, user, number),
            World::Real(tasks, seed) => tasks.optimizer(*seed, user, number),
        })
    }

    /// How often this request has come before.
    fn number_of(&self, model: &str, system: &str, user: &str) -> u32 {
        let mut hasher = DefaultHasher::new();
        (model, system, user).hash(&mut hasher);
        let mut seen = self.seen.lock();
        let times = seen.entry(hasher.finish()).or_default();
        *times += 1;
        *times - 1
    }

    fn tasks(&self) -> Value {
        let splits = self.world.rows().map(|(name, rows)| (name.to_owned(), json!(rows)));
        let mut answer: serde_json::Map<String, Value> = splits.into_iter().collect();
        answer.insert("skill".to_owned(), json!(self.world.initial_skill()));
        answer.insert("is_graded".to_owned(), json!(self.world.is_graded()));
        answer.insert("is_scored_here".to_owned(), json!(matches!(self.world, World::Real(..))));
        Value::Object(answer)
    }

    /// The score of `{"id": .., "answer": ..}` where a peer cannot know it.
    fn score(&self, body: &[u8]) -> Option<f64> {
        let World::Real(tasks, _) = &self.world else { return None };
        let request: Value = serde_json::from_slice(body).ok()?;
        Some(tasks.score(request.get("id")?.as_str()?, request.get("answer")?.as_str()?))
    }
}

/// The model that does the tasks.
pub const TARGET: &str = "target";
/// The model that proposes edits.
pub const OPTIMIZER: &str = "optimizer";

/// The server, on a thread of its own.
#[derive(Debug, Clone)]
pub struct Server {
    address: String,
    runs: Arc<Mutex<HashMap<String, Arc<Run>>>>,
    latency: Duration,
}

impl Server {
    /// Starts it; it ends with the process. A model takes `latency` for a reply.
    ///
    /// # Errors
    ///
    /// A port or a thread that cannot be had.
    pub fn start(latency: Duration) -> Result<Self, Failure> {
        let listener = std::net::TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        listener.set_nonblocking(true)?;
        let address = format!("http://{}", listener.local_addr()?);
        let server = Self { address, runs: Arc::default(), latency };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let serving = server.clone();
        std::thread::Builder::new().name("models".to_owned()).spawn(move || {
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener)?;
                let mut http =
                    HttpServer::new(listener, SeatLimits::loopback(MAX_CONNECTIONS), WhenFull::Wait);
                let answer = |connection: Connection| {
                    let server = serving.clone();
                    async move {
                        let answer = service_fn(|request| server.answer(request));
                        connection.answer(answer).await
                    }
                };
                match http.accept(answer).await {}
                #[expect(unreachable_code, reason = "the type of the block, which does not end")]
                Ok::<(), std::io::Error>(())
            })
        })?;
        Ok(server)
    }

    /// Where the models of a run are, such as `http://127.0.0.1:8080/a`.
    pub fn address(&self, run: &str) -> String {
        format!("{}/{run}", self.address)
    }

    /// Serves a run below its name.
    pub fn open(&self, name: &str, run: Arc<Run>) {
        self.runs.lock().insert(name.to_owned(), run);
    }

    /// Serves it no longer.
    pub fn close(&self, name: &str) {
        self.runs.lock().remove(name);
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let (head, body) = request.into_parts();
        let mut parts = head.uri.path().trim_start_matches('/').splitn(2, '/');
        let run = parts.next().and_then(|name| self.runs.lock().get(name).cloned());
        let (status, body) = match (run, &head.method, parts.next()) {
            (Some(run), &Method::POST, Some("v1/chat/completions")) => {
                match Limited::new(body, MAX_REQUEST_BYTES).collect().await {
                    Ok(body) => {
                        tokio::time::sleep(self.latency).await;
                        completed(&run, &body.to_bytes()).await
                    }
                    Err(error) => (StatusCode::BAD_REQUEST, json!({"error": error.to_string()})),
                }
            }
            (Some(run), &Method::POST, Some("score")) => {
                let body = Limited::new(body, MAX_REQUEST_BYTES).collect().await;
                match body.ok().and_then(|body| run.score(&body.to_bytes())) {
                    Some(score) => (StatusCode::OK, json!(score)),
                    None => (StatusCode::BAD_REQUEST, json!({"error": "no score"})),
                }
            }
            (Some(run), &Method::GET, Some("tasks")) => (StatusCode::OK, run.tasks()),
            (Some(run), &Method::GET, Some("calls")) => (StatusCode::OK, json!(run.counts().calls())),
            (_, method, _) => {
                let message = format!("no {method} {}", head.uri.path());
                (StatusCode::NOT_FOUND, json!({"error": {"message": message}}))
            }
        };
        let mut response = Response::new(Full::new(body.to_string().into()));
        *response.status_mut() = status;
        let json = http::HeaderValue::from_static("application/json");
        response.headers_mut().insert(http::header::CONTENT_TYPE, json);
        Ok(response)
    }
}

async fn completed(run: &Run, body: &[u8]) -> (StatusCode, Value) {
    let request: Value = match serde_json::from_slice(body) {
        Ok(request) => request,
        Err(error) => return (StatusCode::BAD_REQUEST, json!({"error": {"message": error.to_string()}})),
    };
    let field =
        |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let messages = request.get("messages").and_then(Value::as_array).cloned().unwrap_or_default();
    let of_role = |role: &str| -> String {
        let messages = messages.iter().filter(|message| field(message, "role") == role);
        messages.map(|message| field(message, "content")).collect::<Vec<_>>().join("\n")
    };
    let (system, user) = (of_role("system"), of_role("user"));
    let model = field(&request, "model");
    let text = match run.reply(&model, &system, &user).await {
        Ok(text) => text,
        Err(error) => return (StatusCode::BAD_GATEWAY, json!({"error": {"message": error.to_string()}})),
    };
    let [input, output] =
        [system.len() + user.len(), text.len()].map(|chars| chars.div_ceil(CHARS_PER_TOKEN));
    let message = json!({"role": "assistant", "content": text});
    let reply = json!({
        "id": "chatcmpl-0", "object": "chat.completion", "created": 0, "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output},
    });
    (StatusCode::OK, reply)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::Variant;

    #[test]
    fn replies_depend_on_the_request_and_how_often_it_came() {
        let skill = Environment::sample(8, Variant::Base, 0).knowable_skill();
        let replies = |order: [usize; 4]| {
            let environment = Environment::sample(8, Variant::Base, 0);
            let questions: Vec<String> = {
                let [(_, train), ..] = environment.splits();
                train.iter().take(2).map(|task| environment.question(task)).collect()
            };
            let run = Run::new(World::Simulated(Arc::new(environment)));
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let reply = |at: usize| runtime.block_on(run.reply(TARGET, &skill, &questions[at % 2])).unwrap();
            let mut replies: Vec<(usize, String)> = order.map(|at| (at % 2, reply(at))).to_vec();
            replies.sort();
            (replies, run.counts())
        };
        assert_eq!(replies([0, 1, 2, 3]), replies([1, 3, 0, 2]));
        assert_eq!(replies([0, 1, 2, 3]).1, Counts { target: 4, optimizer: 0, leaks: 0 });
    }
}

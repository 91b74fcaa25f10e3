//! The server: connections, who may ask, and which path means what.

use super::EndpointLimits;
use super::problem::{Answer, Dialect, Problem, ProblemKind, event_stream, json_answer};
use super::registry::{Door, Registry};
use super::request::{AgentRequest, ReplyForm};
use super::{anthropic, openai, responses, streaming};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_ENCODING, HOST};
use http::request::Parts;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::{Map, Value, json};
use skill_http_server::{Connection, HttpServer, Incoming, SeatLimits, WhenFull, service_fn};
use skill_llm::scripted::estimated_usage;
use skill_llm::{ChatReply, Secrets};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::time::timeout;

/// The header of the Anthropic dialect that tells its version; the list of models has a shape for those who send it.
const ANTHROPIC_VERSION: &str = "anthropic-version";
/// The header in which the Anthropic dialect has its key.
const API_KEY: &str = "x-api-key";

/// What all connections share.
pub(super) struct Server {
    pub(super) registry: Arc<Registry>,
    pub(super) limits: EndpointLimits,
    pub(super) secrets: Secrets,
}

/// What a path means.
enum Route<'a> {
    Completions,
    Responses,
    Messages,
    CountTokens,
    Models,
    Model(&'a str),
}

/// Accepts connections until it is dropped, which closes them.
pub(super) async fn accept(listener: TcpListener, server: Arc<Server>) -> Infallible {
    // Only this machine reaches the listener; those beyond the limit wait until a request is answered.
    let limits = SeatLimits::loopback(server.limits.max_connections);
    let mut http = HttpServer::new(listener, limits, WhenFull::Wait);
    let answer = |connection: Connection| {
        let server = Arc::clone(&server);
        connection.answer(service_fn(move |request| {
            let server = Arc::clone(&server);
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        }))
    };
    http.accept(answer).await
}

impl Server {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let (head, body) = request.into_parts();
        let path = head.uri.path().trim_end_matches('/');
        // Agents that are given a base URL without `/v1` mean the same.
        let path = path.strip_prefix("/v1").unwrap_or(path);
        let dialect = if path.starts_with("/messages") || head.headers.contains_key(ANTHROPIC_VERSION) {
            Dialect::Anthropic
        } else {
            Dialect::OpenAi
        };
        match self.route(&head, path) {
            Ok((route, door)) => {
                let answered = self.reply(&route, &door, dialect, &head, body).await;
                answered.unwrap_or_else(|problem| problem.answer(dialect))
            }
            Err(problem) => {
                // A client that is still writing reads no answer.
                drop(self.read(body).await);
                problem.answer(dialect)
            }
        }
    }

    /// Who asks, and for what; nothing of the body is looked at before this is known.
    fn route<'a>(&self, head: &Parts, path: &'a str) -> Result<(Route<'a>, Arc<Door>), Problem> {
        check_host(head)?;
        let token = tokens(&head.headers).find_map(|token| self.registry.find(token));
        let door = token.ok_or_else(|| {
            let message = "the token is missing or is not that of a rollout under way; it is expected as \
                           `Authorization: Bearer` or as `x-api-key`";
            Problem::new(ProblemKind::Token, message)
        })?;
        let (route, method) = match path {
            "/chat/completions" => (Route::Completions, Method::POST),
            "/responses" => (Route::Responses, Method::POST),
            "/messages" => (Route::Messages, Method::POST),
            "/messages/count_tokens" => (Route::CountTokens, Method::POST),
            "/models" => (Route::Models, Method::GET),
            path => match path.strip_prefix("/models/") {
                Some(name) => (Route::Model(name), Method::GET),
                None => return Err(unknown_path(head)),
            },
        };
        if head.method != method {
            let message = format!("{} takes {method}", head.uri.path());
            return Err(Problem::new(ProblemKind::Method, message));
        }
        Ok((route, door))
    }

    async fn reply(
        &self,
        route: &Route<'_>,
        door: &Door,
        dialect: Dialect,
        head: &Parts,
        body: Incoming,
    ) -> Result<Answer, Problem> {
        let models = &door.settings.models;
        let read = match route {
            Route::Models => {
                return Ok(json_answer(&match dialect {
                    Dialect::OpenAi | Dialect::Responses => openai::models(models),
                    Dialect::Anthropic => anthropic::models(models),
                }));
            }
            Route::Model(name) => {
                return Ok(json_answer(&match dialect {
                    Dialect::OpenAi | Dialect::Responses => openai::model(name),
                    Dialect::Anthropic => anthropic::model(name),
                }));
            }
            Route::Completions => openai::request,
            Route::Responses => responses::request,
            Route::Messages => anthropic::request,
            Route::CountTokens => anthropic::request_to_count,
        };
        if !matches!(route, Route::CountTokens) {
            door.hear();
        }
        if head.headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
            let message = "the body is compressed; send it as it is";
            return Err(Problem::new(ProblemKind::Request, message));
        }
        let body = self.read(body).await?;
        let mut asked = parse(&body)?;
        // An agent may send what it has found, its own token among it.
        self.secrets.scrub_map(&mut asked);
        let AgentRequest { chat, form } = read(&asked)?;
        drop(asked);
        drop(body);
        if matches!(route, Route::CountTokens) {
            // An estimate, as only the target's provider could count; agents use it to see whether a history is long.
            let tools = chat.tools.iter().map(|tool| tool.parameters.to_string() + &tool.description);
            let tools = estimated_usage(&chat, &tools.collect::<String>());
            return Ok(json_answer(&json!({"input_tokens": tools.input + tools.output})));
        }
        let number = door.admit()?;
        let waited = timeout(self.limits.answer_timeout, door.ask(chat)).await;
        let reply = waited.map_err(|_| {
            let seconds = self.limits.answer_timeout.as_secs();
            Problem::new(ProblemKind::Over, format!("the rollout gave no reply within {seconds} s"))
        })??;
        Ok(written(&reply, &form, number))
    }

    /// The body of a request, within its limits.
    async fn read(&self, body: Incoming) -> Result<Bytes, Problem> {
        let EndpointLimits { max_body_bytes, body_timeout, .. } = self.limits;
        let collected = timeout(body_timeout, Limited::new(body, max_body_bytes).collect()).await;
        match collected {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                let message = format!("the body has more than {max_body_bytes} bytes");
                Err(Problem::new(ProblemKind::TooLarge, message))
            }
            Ok(Err(_)) => Err(Problem::new(ProblemKind::Request, "the body broke off")),
            Err(_) => {
                let message = format!("the body did not arrive within {} s", body_timeout.as_secs());
                Err(Problem::new(ProblemKind::Slow, message))
            }
        }
    }
}

fn parse(body: &Bytes) -> Result<Map<String, Value>, Problem> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(Problem::new(ProblemKind::Request, "the body is not a JSON object")),
        Err(error) => Err(Problem::new(ProblemKind::Request, format!("the body is not JSON: {error}"))),
    }
}

fn written(reply: &ChatReply, form: &ReplyForm, number: u32) -> Answer {
    match (form.dialect, form.stream) {
        (Dialect::OpenAi, false) => json_answer(&openai::reply(reply, form, &format!("chatcmpl-{number}"))),
        (Dialect::OpenAi, true) => {
            event_stream(streaming::openai_events(reply, form, &format!("chatcmpl-{number}")))
        }
        (Dialect::Responses, false) => json_answer(&responses::reply(reply, form, number)),
        (Dialect::Responses, true) => event_stream(streaming::responses_events(reply, form, number)),
        (Dialect::Anthropic, false) => json_answer(&anthropic::reply(reply, form, &format!("msg_{number}"))),
        (Dialect::Anthropic, true) => {
            event_stream(streaming::anthropic_events(reply, form, &format!("msg_{number}")))
        }
    }
}

/// What the request brings as a token: agents that have both kinds of key send both.
fn tokens(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let bearer = headers.get_all(AUTHORIZATION).into_iter().filter_map(|value| {
        let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
    });
    let keys = headers.get_all(API_KEY).into_iter().filter_map(|value| value.to_str().ok().map(str::trim));
    bearer.chain(keys)
}

/// Refuses requests for other hosts, so that a page in a browser cannot come here by a name that leads to loopback.
fn check_host(head: &Parts) -> Result<(), Problem> {
    let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
    let in_target = head.uri.authority().map(http::uri::Authority::as_str);
    let is_here = |host: &str| {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            Some(_) | None => host,
        };
        ["127.0.0.1", "localhost", "[::1]"].iter().any(|here| name.eq_ignore_ascii_case(here))
    };
    if host.is_some_and(is_here) && in_target.is_none_or(is_here) {
        return Ok(());
    }
    Err(Problem::new(ProblemKind::Host, "only requests for 127.0.0.1 and localhost are answered"))
}

fn unknown_path(head: &Parts) -> Problem {
    let message = format!(
        "nothing is at {} {}; there are POST /v1/chat/completions, POST /v1/responses, POST /v1/messages, \
         POST /v1/messages/count_tokens and GET /v1/models",
        head.method,
        head.uri.path()
    );
    Problem::new(ProblemKind::Path, message)
}

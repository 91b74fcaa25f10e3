//! Tokens, limits, errors, cancellation, concurrency, and what is left of a session.

use crate::support::{Client, Got, Target, conversation, opened, question, served, with_skill};
use http::{Request, StatusCode};
use serde_json::json;
use skill_envs::endpoint::{Endpoint, EndpointLimits, RefusedCall, SessionSettings, SkillInPrompt};
use skill_envs::{EnvError, RolloutCtx};
use skill_llm::{
    ApiKey, CallCtx, CallPlace, ChatModel, ChatReply, ChatRequest, ErrorClass, GiveUpReason, LlmError,
    Message, ModelId, Secrets, Usage,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore};

#[tokio::test]
async fn a_token_opens_its_own_session_and_nothing_else() {
    let endpoint = Endpoint::start().await.unwrap();
    let (mut first, mut second) =
        (endpoint.session(SessionSettings::default()), endpoint.session(SessionSettings::default()));
    assert_ne!(first.token(), second.token());
    let (of_first, of_second) = (Client::of(&endpoint, &first), Client::of(&endpoint, &second));
    let (one, two) = (Target::echo(), Target::echo());
    tokio::join!(
        served(&mut first, &one.model, of_first.chat("to the first")),
        served(&mut second, &two.model, of_second.chat("to the second")),
    );
    assert_eq!(one.seen()[0].messages, [Message::user("to the first")]);
    assert_eq!(two.seen()[0].messages, [Message::user("to the second")]);

    let is_refused = |got: &Got| {
        assert_eq!(got.status, StatusCode::UNAUTHORIZED, "{}", got.text);
        assert!(got.message().starts_with("the token is missing"), "{}", got.text);
        assert!(!got.text.contains("sk-"), "{}", got.text);
    };
    for token in ["", "x", &of_first.token.to_uppercase(), &of_first.token.replace("sk-", "")] {
        is_refused(&Client { token: token.to_owned(), ..of_first.clone() }.chat("x").await);
    }
    let bare = Request::post("/v1/messages").header("host", endpoint.address().to_string());
    let got = of_first.send(bare, question("x").to_string()).await;
    is_refused(&got);
    assert_eq!(got.json().pointer("/error/type").unwrap(), "authentication_error");
    assert_eq!(got.json()["type"], "error");

    // A session that is over is refused, however it came to its end.
    first.finish().unwrap();
    is_refused(&of_first.chat("x").await);
    drop(second);
    is_refused(&of_second.chat("x").await);
    assert_eq!((one.seen().len(), two.seen().len()), (1, 1));
}

/// What an agent has found is recorded, and so its own token and the keys of the run may not be in it.
#[tokio::test]
async fn a_secret_that_an_agent_sends_reaches_no_model() {
    const KEY: &str = "sk-of-the-run-0123";
    let secrets = Secrets::default();
    let endpoint = Endpoint::start_scrubbing(EndpointLimits::default(), secrets.clone()).await.unwrap();
    let mut session = endpoint.session(SessionSettings::default());
    secrets.add(&ApiKey::new(KEY).unwrap());
    let (client, target) = (Client::of(&endpoint, &session), Target::echo());
    let text = format!("I found {KEY} and {}", client.token);
    served(&mut session, &target.model, client.chat(&text)).await;
    let scrubbed = text.replace(KEY, "[key]").replace(&*client.token, "[key]");
    assert_eq!(target.seen()[0].messages, [Message::user(scrubbed)]);
    assert!(!format!("{:?}", session.finish().unwrap()).contains("sk-"));
}

#[tokio::test]
async fn either_header_brings_the_token_and_either_path_is_understood() {
    let endpoint = Endpoint::start().await.unwrap();
    let mut session = endpoint.session(SessionSettings::default());
    assert_eq!(session.base_url_openai(), format!("http://{}/v1", endpoint.address()));
    assert_eq!(session.base_url_anthropic(), format!("http://{}", endpoint.address()));
    let (client, target) = (Client::of(&endpoint, &session), Target::echo());
    served(&mut session, &target.model, async {
        let with_key = |path: &str| {
            Request::post(path.to_owned())
                .header("host", "localhost:80")
                .header("authorization", "Bearer of-another-service")
                .header("x-api-key", &client.token)
        };
        for path in ["/v1/chat/completions", "/chat/completions", "/v1/chat/completions/"] {
            assert_eq!(client.send(with_key(path), question("x").to_string()).await.status, 200, "{path}");
        }
        let mut body = question("x");
        body["max_tokens"] = json!(5);
        assert_eq!(client.send(with_key("/v1/messages?beta=true"), body.to_string()).await.status, 200);
    })
    .await;
}

#[tokio::test]
async fn what_comes_for_another_host_path_or_method_is_refused() {
    let (_endpoint, _session, client) = opened(SessionSettings::default()).await;
    let send = async |method: &str, path: &str, host: &str| {
        let request = Request::builder().method(method).uri(path).header("host", host);
        let request = request.header("authorization", format!("Bearer {}", client.token));
        client.send(request, String::new()).await
    };
    let mut said = Vec::new();
    for host in ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "evil.example:127"] {
        let got = send("POST", "/v1/chat/completions", host).await;
        assert_eq!(got.status, StatusCode::FORBIDDEN);
        said.push(got.message());
    }
    let got = send("POST", "/v1/embeddings", "localhost").await;
    assert_eq!(got.status, StatusCode::NOT_FOUND);
    insta::assert_snapshot!(got.message(), @"nothing is at POST /v1/embeddings; there are POST /v1/chat/completions, POST /v1/responses, POST /v1/messages, POST /v1/messages/count_tokens and GET /v1/models");
    let got = send("GET", "/v1/chat/completions", "localhost").await;
    assert_eq!(got.status, StatusCode::METHOD_NOT_ALLOWED);
    for body in ["{", "[]"] {
        let got = client.send(client.request("/v1/chat/completions"), body.to_owned()).await;
        assert_eq!(got.status, StatusCode::BAD_REQUEST);
        said.push(got.message());
    }
    said.dedup();
    insta::assert_snapshot!("requests_that_are_none", said.join("\n"));
}

#[tokio::test]
async fn the_models_are_listed_in_both_dialects() {
    let models = vec!["small".to_owned(), "large".to_owned()];
    let (_endpoint, _session, client) =
        opened(SessionSettings { models, ..SessionSettings::default() }).await;
    let get = async |path: &str, anthropic: bool| {
        let request = Request::get(path).header("host", "127.0.0.1").header("x-api-key", &client.token);
        let request = if anthropic { request.header("anthropic-version", "2023-06-01") } else { request };
        client.send(request, String::new()).await.json()
    };
    insta::assert_json_snapshot!([
        get("/v1/models", false).await,
        get("/v1/models/any/name", false).await,
        get("/v1/models", true).await,
        get("/v1/models/large", true).await,
    ]);
}

#[tokio::test]
async fn bodies_and_requests_have_limits() {
    let limits = EndpointLimits { max_body_bytes: 1_000, ..EndpointLimits::default() };
    let endpoint = Endpoint::start_with(limits).await.unwrap();
    let mut session = endpoint.session(SessionSettings { max_requests: 2, ..SessionSettings::default() });
    let (client, target) = (Client::of(&endpoint, &session), Target::echo());
    served(&mut session, &target.model, async {
        let got = client.chat(&"x".repeat(2_000)).await;
        assert_eq!(got.status, StatusCode::PAYLOAD_TOO_LARGE);
        assert!(got.message().contains("1000 bytes"), "{}", got.message());
        for _ in 0..2 {
            assert_eq!(client.chat("x").await.status, 200);
        }
        for _ in 0..2 {
            let got = client.chat("x").await;
            assert_eq!(got.status, StatusCode::BAD_REQUEST);
            assert!(got.message().contains("2 requests"), "{}", got.message());
        }
    })
    .await;
    assert_eq!(target.seen().len(), 2);
    let trajectory = session.finish().unwrap();
    assert!(trajectory.limit_reached);
    assert_eq!(trajectory.n_calls, 2);
}

#[tokio::test]
async fn a_client_that_is_still_writing_reads_why_it_is_refused() {
    let endpoint = Endpoint::start().await.unwrap();
    let mut stream = TcpStream::connect(endpoint.address()).await.unwrap();
    let body = "x".repeat(20_000_000);
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close";
    let head = format!("{head}\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
}

#[tokio::test]
async fn a_body_that_does_not_come_and_a_session_that_is_not_served_end_too() {
    let limits = EndpointLimits {
        body_timeout: Duration::from_millis(1),
        answer_timeout: Duration::from_millis(1),
        ..EndpointLimits::default()
    };
    let endpoint = Endpoint::start_with(limits).await.unwrap();
    let session = endpoint.session(SessionSettings::default());
    let mut stream = TcpStream::connect(endpoint.address()).await.unwrap();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nx-api-key: {}\r\ncontent-length: 9\r\n\r\n",
        session.token()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(answer.contains("within 0 s"), "{answer}");

    let limits = EndpointLimits { answer_timeout: Duration::from_millis(1), ..EndpointLimits::default() };
    let endpoint = Endpoint::start_with(limits).await.unwrap();
    let session = endpoint.session(SessionSettings::default());
    let got = Client::of(&endpoint, &session).chat("x").await;
    assert_eq!(got.status, StatusCode::BAD_REQUEST);
    assert!(got.message().contains("within 0 s"), "{}", got.message());
}

#[tokio::test]
async fn an_error_of_the_target_ends_the_rollout_and_asks_nothing_more() {
    let endpoint = Endpoint::start().await.unwrap();
    for (error, class) in [
        (
            LlmError::ServerError {
                provider: "p".to_owned(),
                status: 503,
                message: "down".to_owned(),
                retry_after: None,
            },
            ErrorClass::ServerError,
        ),
        (
            LlmError::BudgetExhausted {
                what: "calls",
                spent: "9".into(),
                cap: "9".into(),
                next: None,
                failed: None,
            },
            ErrorClass::Budget,
        ),
        (LlmError::Cancelled, ErrorClass::Cancelled),
    ] {
        let mut session = endpoint.session(SessionSettings::default());
        let client = Client::of(&endpoint, &session);
        let cause = error.to_string();
        let target = Target::new(move |_| Err(error.clone()));
        let failed = session.failed();
        served(&mut session, &target.model, async {
            for path in ["/v1/chat/completions", "/v1/messages"] {
                let mut body = question("x");
                body["max_tokens"] = json!(1);
                let got = client.post(path, &body).await;
                // A status and a header that no SDK tries again on.
                assert_eq!(got.status, StatusCode::BAD_REQUEST);
                assert_eq!(got.headers.get("x-should-retry").unwrap(), "false");
                assert!(got.message().ends_with(&cause), "{}", got.message());
            }
            failed.cancelled().await;
        })
        .await;
        assert_eq!(target.seen().len(), 1, "the second request is not asked");
        let Err(EnvError::Model(error)) = session.finish() else { panic!("no error") };
        assert_eq!(error.class(), class);
    }
}

/// What the agent brought about itself: it hears what its provider would have told it, and goes on.
#[tokio::test]
async fn a_request_that_the_model_does_not_take_is_told_to_the_agent_which_goes_on() {
    let (provider, status, message) = ("p".to_owned(), 400, "4097 tokens".to_owned());
    let too_long = LlmError::ContextTooLong { provider: provider.clone(), status, message: message.clone() };
    let gave_up = LlmError::GaveUp {
        attempts: 1,
        elapsed: Duration::ZERO,
        why: GiveUpReason::Attempts,
        last: Box::new(LlmError::Refused { provider, status, message }),
    };
    let too_long_told = "prompt is too long: 4097 tokens";
    let refused_told = "the provider refuses this request: 4097 tokens";
    for (error, code, class, told) in [
        (too_long, "context_length_exceeded", ErrorClass::ContextTooLong, too_long_told),
        (gave_up, "content_policy_violation", ErrorClass::Refused, refused_told),
    ] {
        let (_endpoint, mut session, client) = opened(SessionSettings::default()).await;
        let target = Target::new(move |request| {
            let said = request.messages.last().unwrap().text();
            if said == "long" {
                Err(error.clone())
            } else {
                Ok(ChatReply::text(format!("re: {said}"), Usage::default()))
            }
        });
        let failed = session.failed();
        served(&mut session, &target.model, async {
            let history = [("user", "one"), ("assistant", "re: one"), ("user", "long")];
            client.post("/v1/chat/completions", &conversation(&history[..1])).await;
            let got = client.post("/v1/chat/completions", &conversation(&history)).await;
            assert_eq!((got.status, got.message().as_str()), (StatusCode::BAD_REQUEST, told));
            assert_eq!(got.json()["error"]["code"], code);
            assert_eq!(got.json()["error"]["type"], "invalid_request_error");
            let mut body = conversation(&history);
            body["max_tokens"] = json!(1);
            let got = client.post("/v1/messages", &body).await;
            assert_eq!((got.status, got.message().as_str()), (StatusCode::BAD_REQUEST, told));
            assert_eq!(got.json()["error"]["type"], "invalid_request_error");
            assert_eq!(got.headers.get("x-should-retry").unwrap(), "false");
            let shorter = [history[0], history[1], ("user", "short")];
            assert_eq!(
                client.post("/v1/chat/completions", &conversation(&shorter)).await.status,
                StatusCode::OK
            );
        })
        .await;
        assert!(!failed.is_cancelled());
        let trajectory = session.finish().unwrap();
        assert_eq!(trajectory.refused, vec![RefusedCall { class, message: told.to_owned() }; 2]);
        assert_eq!((trajectory.n_calls, trajectory.last_refusal()), (2, None));
        let notice = format!("[no reply of the model] {told}");
        let expect = ["one", "re: one", "long", &notice, &notice, "short", "re: short"];
        let said: Vec<&str> = trajectory.conversation.iter().map(|turn| turn.content.as_str()).collect();
        assert_eq!((said, trajectory.conversation_starts), (expect.to_vec(), vec![0]));
    }
}

#[tokio::test]
async fn an_agent_whose_every_request_was_refused_ends_refused() {
    let (_endpoint, mut session, client) = opened(SessionSettings::default()).await;
    let target = Target::new(|_| {
        let (provider, message) = ("p".to_owned(), "no".to_owned());
        Err(LlmError::Refused { provider, status: 400, message })
    });
    served(&mut session, &target.model, async {
        for _ in 0..2 {
            assert_eq!(client.chat("x").await.status, StatusCode::BAD_REQUEST);
        }
    })
    .await;
    let trajectory = session.finish().unwrap();
    assert!(trajectory.last_refusal().unwrap().ends_with(": no"), "{:?}", trajectory.last_refusal());
    assert_eq!((trajectory.n_calls, trajectory.requests.len(), trajectory.conversation.len()), (0, 0, 3));
}

/// Answers when it is let, and counts how many are with it and how many were given up.
struct Gate {
    id: ModelId,
    open: Semaphore,
    arrived: Notify,
    n_asked: AtomicUsize,
    n_dropped: Arc<AtomicUsize>,
}

impl Gate {
    fn new() -> Self {
        Self {
            id: ModelId::new("test", "gate"),
            open: Semaphore::new(0),
            arrived: Notify::new(),
            n_asked: AtomicUsize::new(0),
            n_dropped: Arc::default(),
        }
    }

    async fn has_been_asked(&self, times: usize) {
        while self.n_asked.load(Ordering::Relaxed) < times {
            self.arrived.notified().await;
        }
    }
}

struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[async_trait::async_trait]
impl ChatModel for Gate {
    fn id(&self) -> &ModelId {
        &self.id
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        assert_eq!(call.place.as_str(), "agent");
        self.n_asked.fetch_add(1, Ordering::Relaxed);
        self.arrived.notify_one();
        let unfinished = Dropped(Arc::clone(&self.n_dropped));
        self.open.acquire().await.unwrap().forget();
        std::mem::forget(unfinished);
        let usage = Usage { input: 1, ..Usage::default() };
        Ok(ChatReply::text(format!("re: {}", request.messages.last().unwrap().text()), usage))
    }
}

#[tokio::test]
async fn several_calls_run_at_once_and_are_kept_in_the_order_of_their_arrival() {
    let settings = SessionSettings { max_in_flight: 3, ..SessionSettings::default() };
    let (_endpoint, mut session, client) = opened(settings).await;
    let gate = Gate::new();
    let texts = ["a", "b", "c", "d", "e"];
    let replies = served(&mut session, &gate, async {
        let all = futures_join(texts.map(|text| client.chat(text)));
        let open = async {
            gate.has_been_asked(3).await;
            gate.open.add_permits(1);
            gate.has_been_asked(4).await;
            gate.open.add_permits(9);
        };
        tokio::join!(all, open).0
    })
    .await;
    for (text, got) in texts.iter().zip(&replies) {
        let expect = format!("re: {text}");
        assert_eq!(got.json().pointer("/choices/0/message/content").unwrap(), &json!(expect));
    }
    let trajectory = session.finish().unwrap();
    assert_eq!((trajectory.n_calls, trajectory.usage.input), (5, 5));
    assert_eq!(trajectory.conversation_starts, [0, 2, 4, 6, 8]);
    assert_eq!(trajectory.requests.iter().map(|call| call.conversation).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

async fn futures_join<T>(futures: [impl Future<Output = T>; 5]) -> [T; 5] {
    let [a, b, c, d, e] = futures;
    tokio::join!(a, b, c, d, e).into()
}

#[tokio::test]
async fn a_rollout_that_is_given_up_takes_its_calls_with_it() {
    let (_endpoint, mut session, client) = opened(SessionSettings::default()).await;
    let gate = Gate::new();
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.chat("x").await }
    });
    served(&mut session, &gate, gate.has_been_asked(1)).await;
    assert_eq!(gate.n_dropped.load(Ordering::Relaxed), 1);
    let got = waiting.await.unwrap();
    assert_eq!(got.status, StatusCode::BAD_REQUEST);
    assert!(got.message().contains("ended before"), "{}", got.message());
    assert_eq!(session.finish().unwrap().n_calls, 0);
}

#[tokio::test]
async fn a_client_that_gives_up_and_asks_again_gets_the_reply_of_its_first_call() {
    let (_endpoint, mut session, client) = opened(SessionSettings::default()).await;
    let gate = Gate::new();
    served(&mut session, &gate, async {
        // Given up while the call is under way, then asked again before and after the reply is there.
        for (n_asked, waits) in [(1, true), (2, false)] {
            let text = format!("question {n_asked}");
            tokio::select! {
                _ = client.chat(&text) => panic!("answered"),
                () = gate.has_been_asked(n_asked) => {}
            }
            // The server hears of the closed connection before it accepts another.
            tokio::task::yield_now().await;
            client.post("/nowhere", &json!({})).await;
            if !waits {
                gate.open.add_permits(1);
                client.post("/nowhere", &json!({})).await;
            }
            let open = async {
                if waits {
                    // By then the second request has come to the session.
                    for _ in 0..3 {
                        client.post("/nowhere", &json!({})).await;
                    }
                    gate.open.add_permits(1);
                }
            };
            let (got, ()) = tokio::join!(client.chat(&text), open);
            assert_eq!(got.status, 200);
        }
    })
    .await;
    assert_eq!(gate.n_asked.load(Ordering::Relaxed), 2);
    let trajectory = session.finish().unwrap();
    assert_eq!((trajectory.n_calls, trajectory.requests.len()), (2, 2));
}

#[tokio::test]
async fn the_skill_stands_where_it_is_wanted() {
    let endpoint = Endpoint::start().await.unwrap();
    let prepended = || SkillInPrompt::Prepended("SKILL\n".to_owned());
    let appended = || SkillInPrompt::Appended("SKILL\n".to_owned());
    type Case = (SkillInPrompt, &'static [(&'static str, &'static str)], &'static [&'static str]);
    let cases: [Case; 7] = [
        (SkillInPrompt::Absent, &[("system", "S"), ("user", "U")], &["S", "U"]),
        (prepended(), &[("system", "S"), ("user", "U")], &["SKILL\n\nS", "U"]),
        (appended(), &[("system", "S"), ("user", "U")], &["S\n\nSKILL", "U"]),
        (prepended(), &[("user", "U")], &["SKILL", "U"]),
        (appended(), &[("user", "U")], &["SKILL", "U"]),
        (appended(), &[("system", "S"), ("developer", "T"), ("user", "U")], &["S", "T\n\nSKILL", "U"]),
        (SkillInPrompt::Appended("  ".to_owned()), &[("user", "U")], &["U"]),
    ];
    for (skill, messages, expect) in cases {
        let mut session = endpoint.session(with_skill(skill));
        let (client, target) = (Client::of(&endpoint, &session), Target::echo());
        served(&mut session, &target.model, client.post("/v1/chat/completions", &conversation(messages)))
            .await;
        let asked: Vec<String> = target.seen()[0].messages.iter().map(Message::text).collect();
        assert_eq!(asked, expect);
        let trajectory = session.finish().unwrap();
        assert_eq!(trajectory.user_prompt(), "U");
        assert_eq!(trajectory.requests[0].request(), target.seen()[0]);
    }
}

#[tokio::test]
async fn an_agent_that_asks_the_same_again_is_answered_from_the_journal() {
    use skill_llm::{Journal, JournalOptions, Journaled};
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal.sqlite");
    let mut answers = Vec::new();
    for n_paid in [3, 0] {
        let journal = Journal::open(&path, JournalOptions::default()).unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let target = Target::new(move |request| {
            let number = counted.fetch_add(1, Ordering::Relaxed);
            Ok(ChatReply::text(format!("{number}: {}", request.messages[0].text()), Usage::default()))
        });
        let model = Journaled::new(Arc::new(target.model), journal.clone());
        let (_endpoint, mut session, client) = opened(SessionSettings::default()).await;
        let ctx = RolloutCtx::new(CallCtx::new(CallPlace::new("step 1 / rollout q1")));
        let texts = tokio::select! {
            never = session.serve(&model, &ctx) => match never {},
            texts = async {
                // The same twice is two calls, as an agent that samples wants it.
                let mut texts = Vec::new();
                for text in ["a", "b", "a"] {
                    texts.push(client.chat(text).await.text);
                }
                texts
            } => texts,
        };
        journal.flush().await.unwrap();
        assert_eq!(count.load(Ordering::Relaxed), n_paid);
        answers.push((texts, session.finish().unwrap()));
    }
    assert_eq!(answers[0], answers[1]);
    assert!(answers[0].0[2].contains("2: a"));
}

#[tokio::test]
async fn nothing_shows_a_token() {
    let endpoint = Endpoint::start().await.unwrap();
    let session = endpoint.session(SessionSettings::default());
    let shown = format!("{endpoint:?} {session:?}");
    assert!(!shown.contains(session.token()) && !shown.contains("sk-"), "{shown}");
}

/// Any program on this machine may connect; an idle connection does not displace an active one.
#[tokio::test]
async fn half_open_connections_lock_no_agent_out() {
    let limits = EndpointLimits { max_connections: 4, ..EndpointLimits::default() };
    let endpoint = Endpoint::start_with(limits).await.unwrap();
    let mut session = endpoint.session(SessionSettings::default());
    let client = Client::of(&endpoint, &session);
    let mut half_open = Vec::new();
    for _ in 0..8 {
        let mut stream = tokio::net::TcpStream::connect(endpoint.address()).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"POST /v1/chat").await.unwrap();
        half_open.push(stream);
    }
    let target = Target::echo();
    let got = served(&mut session, &target.model, client.chat("Is there room?")).await;
    assert_eq!(got.status, 200, "{}", got.text);
}

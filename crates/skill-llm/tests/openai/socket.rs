//! A few answers over a real socket on this machine.

use crate::support::question;
use skill_llm::{
    ApiKey, CallCtx, ChatModel as _, ChatReply, ErrorClass, LlmError, OpenAiChat, OpenAiConfig,
    ReqwestTransport,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// What the server does once it has read the request.
enum Behaviour {
    /// Sends this and closes the connection.
    Send(String),
    /// Keeps the connection open and says nothing.
    Hang,
}

/// Reads one request and answers it; what it read is sent back to the test.
async fn serve(listener: TcpListener, behaviour: Behaviour, read: oneshot::Sender<String>) {
    let (mut stream, _) = listener.accept().await.unwrap();
    read.send(read_request(&mut stream).await).unwrap();
    match behaviour {
        Behaviour::Send(text) => {
            stream.write_all(text.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
        }
        Behaviour::Hang => {
            // The client closes the connection when it has waited long enough.
            let mut rest = Vec::new();
            drop(stream.read_to_end(&mut rest).await);
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> String {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer).await.unwrap();
        request.extend(buffer.iter().take(count));
        let text = String::from_utf8_lossy(&request);
        let whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            body.len() >= length.unwrap_or("0").parse().unwrap()
        });
        if whole || count == 0 {
            return text.into_owned();
        }
    }
}

fn http(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n{body}", body.len())
}

/// A model that reaches this machine even where a proxy is set.
fn model(config: OpenAiConfig) -> OpenAiChat {
    OpenAiChat::with_transport(config, Arc::new(ReqwestTransport::direct().unwrap())).unwrap()
}

async fn exchange(behaviour: Behaviour) -> (Result<ChatReply, LlmError>, String) {
    exchange_with(behaviour, |_| {}).await
}

async fn exchange_with(
    behaviour: Behaviour,
    change: impl FnOnce(&mut OpenAiConfig),
) -> (Result<ChatReply, LlmError>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = oneshot::channel();
    let server = tokio::spawn(serve(listener, behaviour, sender));
    let mut config = OpenAiConfig::new(format!("http://{address}/v1/"), "small");
    config.server.key = ApiKey::new("sk-socket-secret").unwrap().into();
    change(&mut config);
    let outcome = model(config).chat(&question(), &CallCtx::default()).await;
    server.await.unwrap();
    (outcome, receiver.await.unwrap())
}

#[tokio::test]
async fn a_reply_comes_back() {
    let body = r#"{"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}"#;
    let (outcome, request) = exchange(Behaviour::Send(http("200 OK", "", body))).await;
    assert_eq!(outcome.unwrap().text, "hi");
    assert!(request.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{request}");
    for header in [
        "authorization: Bearer sk-socket-secret\r\n",
        "content-type: application/json\r\n",
        concat!("user-agent: skillrl/", env!("CARGO_PKG_VERSION"), "\r\n"),
    ] {
        assert!(request.contains(header), "{header} in {request}");
    }
    assert!(request.ends_with(r#"{"model":"small","messages":[{"role":"user","content":"well?"}]}"#));
}

#[tokio::test]
async fn a_wrong_key_is_told_without_the_key() {
    let body = r#"{"error": {"message": "sk-socket-secret is wrong"}}"#;
    let (outcome, _) = exchange(Behaviour::Send(http("401 Unauthorized", "", body))).await;
    let error = outcome.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Authentication);
    assert!(
        matches!(&error, LlmError::Authentication { status: 401, message, .. } if message == "[key] is wrong"),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_page_is_no_reply() {
    let (outcome, _) = exchange(Behaviour::Send(http("200 OK", "", "<html>hello</html>"))).await;
    let error = outcome.unwrap_err();
    assert_eq!(error.class(), ErrorClass::InvalidReply);
    assert!(error.to_string().ends_with("<html>hello</html>"), "{error}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let redirect = http("302 Found", "location: http://127.0.0.1:1/v2\r\n", "");
    let (outcome, _) = exchange(Behaviour::Send(redirect)).await;
    let error = outcome.unwrap_err();
    assert_eq!(error.class(), ErrorClass::BadRequest);
    assert!(error.to_string().contains("redirects to http://127.0.0.1:1/v2"), "{error}");
}

#[tokio::test]
async fn a_server_that_hangs_reaches_the_timeout() {
    let (outcome, _) =
        exchange_with(Behaviour::Hang, |config| config.server.timeout = Duration::from_millis(200)).await;
    let error = outcome.unwrap_err();
    assert!(
        matches!(error, LlmError::Timeout { after, .. } if after == Duration::from_millis(200)),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_connection_that_breaks_inside_the_body_is_told() {
    let half = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"choices\":";
    let (outcome, _) = exchange(Behaviour::Send(half.to_owned())).await;
    let error = outcome.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Truncated);
    assert!(error.to_string().contains(" broke off: "), "{error}");
}

#[tokio::test]
async fn a_connection_that_breaks_before_the_answer_is_not_tried_again() {
    // The server takes one connection: a second request would be refused, not broken.
    let (outcome, _) = exchange(Behaviour::Send(String::new())).await;
    let error = outcome.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Connection);
    assert!(error.to_string().contains("the connection broke: "), "{error}");
}

#[tokio::test]
async fn a_body_over_the_limit_is_not_read() {
    let announced = "HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n";
    let chunked =
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n20\r\n01234567890123456789012345678901\r\n";
    for response in [announced, chunked] {
        let (outcome, _) = exchange_with(Behaviour::Send(response.to_owned()), |config| {
            config.server.max_response_bytes = 31;
        })
        .await;
        let error = outcome.unwrap_err();
        assert_eq!(error.class(), ErrorClass::InvalidReply);
        assert!(error.to_string().contains("more than 31 bytes"), "{error}");
    }
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_told() {
    // Bound and closed again, so that nobody listens there.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let model = model(OpenAiConfig::new(format!("http://{address}/v1"), "small"));
    let error = model.chat(&question(), &CallCtx::default()).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Connection);
    assert!(error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn an_https_address_makes_a_client() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let model = model(OpenAiConfig::new(format!("https://{address}/v1"), "small"));
    let error = model.chat(&question(), &CallCtx::default()).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Connection);
}

#[tokio::test]
async fn cancelling_closes_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = oneshot::channel();
    let server = tokio::spawn(serve(listener, Behaviour::Hang, sender));
    let model = model(OpenAiConfig::new(format!("http://{address}/v1"), "small"));
    let call = CallCtx::default();
    let (request, cancel) = (question(), call.cancel.clone());
    let (outcome, ()) = tokio::join!(model.chat(&request, &call), async move {
        receiver.await.unwrap();
        cancel.cancel();
    });
    assert!(matches!(outcome, Err(LlmError::Cancelled)), "{outcome:?}");
    server.await.unwrap();
}

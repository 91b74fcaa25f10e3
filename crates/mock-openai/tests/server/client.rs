//! A small client that does nothing behind the test's back.

use mock_openai::{MockServer, ServerConfig};
use reqwest::{Client, Response, header::HeaderMap, redirect, retry};
use serde_json::{Value, json};

/// What came back, or how the exchange failed.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A whole response.
    Whole(Reply),
    /// No response, or half of one: the error's words with all causes.
    Broken(String),
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn text(&self) -> String {
        self.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

impl Outcome {
    #[track_caller]
    pub(crate) fn whole(self) -> Reply {
        match self {
            Self::Whole(reply) => reply,
            Self::Broken(error) => panic!("{error}"),
        }
    }

    #[track_caller]
    pub(crate) fn broken(self) -> String {
        match self {
            Self::Whole(reply) => panic!("{reply:?}"),
            Self::Broken(error) => error,
        }
    }
}

pub(crate) async fn start(config: ServerConfig) -> MockServer {
    MockServer::start(config).await.unwrap()
}

pub(crate) fn client() -> Client {
    // An error means that another test was first.
    drop(rustls::crypto::ring::default_provider().install_default());
    let builder = Client::builder().no_proxy().tls_certs_only([]);
    builder.redirect(redirect::Policy::none()).retry(retry::never()).build().unwrap()
}

/// The body of a request with this question.
pub(crate) fn body(question: &str) -> String {
    json!({"model": "small", "messages": [{"role": "user", "content": question}]}).to_string()
}

/// Asks on a new connection.
pub(crate) async fn ask(server: &MockServer, body: String) -> Outcome {
    ask_from(server, body, None).await
}

/// Asks on a new connection and says from which place of a run.
pub(crate) async fn ask_from(server: &MockServer, body: String, place: Option<&str>) -> Outcome {
    let mut request = client().post(format!("{}/chat/completions", server.base_url())).body(body);
    if let Some(place) = place {
        request = request.header("x-skillrl-place", place);
    }
    match request.send().await {
        Ok(response) => read(response).await,
        Err(error) => Outcome::Broken(words(&error)),
    }
}

/// Asks for something else than a completion.
pub(crate) async fn get(server: &MockServer, path: &str) -> Reply {
    let response = client().get(format!("{}{path}", server.address())).send().await.unwrap();
    read(response).await.whole()
}

async fn read(response: Response) -> Outcome {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    match response.bytes().await {
        Ok(body) => Outcome::Whole(Reply { status, headers, body: body.to_vec() }),
        Err(error) => Outcome::Broken(words(&error)),
    }
}

fn words(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

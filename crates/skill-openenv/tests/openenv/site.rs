//! A server with a world, and its clients.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use skill_envs::World;
use skill_envs::alfworld::{AlfworldConfig, AlfworldWorld, GeneratedConfig, Rooms};
use skill_openenv::{EnvOptions, EnvServer, Limits};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_util::sync::CancellationToken;

/// A server that runs.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

/// A few small households.
pub(crate) fn household() -> Arc<dyn World> {
    let generated = GeneratedConfig { seed: 7, train: 12, val: 3, test: 3, rooms: Rooms::Small };
    Arc::new(AlfworldWorld::new(&AlfworldConfig { generated, ..AlfworldConfig::default() }).unwrap())
}

impl Site {
    /// Serves these options on a free port.
    pub(crate) async fn with(options: EnvOptions) -> Self {
        let listen = "127.0.0.1:0".parse().unwrap();
        let server = EnvServer::bind(EnvOptions { listen, ..options }).await.unwrap();
        let (address, stop) = (server.address(), CancellationToken::new());
        let running = tokio::spawn(server.run(stop.clone()));
        Self { address, stop, running }
    }

    pub(crate) async fn household() -> Self {
        Self::with(EnvOptions::on_loopback(household())).await
    }

    pub(crate) async fn limited(limits: Limits) -> Self {
        Self::with(EnvOptions { limits, ..EnvOptions::on_loopback(household()) }).await
    }

    pub(crate) async fn end(self) {
        self.stop.cancel();
        self.running.await.unwrap();
    }

    /// A new session.
    pub(crate) async fn session(&self) -> Client {
        Client::connect(self.address).await
    }

    /// Answers a request: its status, and its body as JSON.
    pub(crate) async fn ask(&self, line: &str, headers: &str, body: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let host = format!("Host: {}\r\n", self.address);
        let host = if headers.to_lowercase().contains("host:") { "" } else { &host };
        let length = body.len();
        let head = format!(
            "{line} HTTP/1.1\r\n{host}{headers}Connection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        // A body that is refused is not read to its end.
        drop(stream.write_all(body.as_bytes()).await);
        let mut bytes = Vec::new();
        drop(stream.read_to_end(&mut bytes).await);
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_else(|_| json!(body)))
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask(&format!("GET {path}"), "", "").await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.ask(&format!("POST {path}"), "", &body.to_string()).await
    }
}

/// The client of one session.
pub(crate) struct Client {
    pub(crate) socket: WebSocketStream<TcpStream>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let url = format!("ws://{address}/ws");
        let (socket, _) = tokio_tungstenite::client_async(url, stream).await.unwrap();
        Self { socket }
    }

    pub(crate) async fn send(&mut self, message: &str) {
        self.socket.send(Message::text(message)).await.unwrap();
    }

    pub(crate) async fn receive(&mut self) -> Value {
        loop {
            match self.socket.next().await.unwrap().unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// The code of the close, or `None` where the connection just ends.
    pub(crate) async fn closed(&mut self) -> Option<CloseCode> {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Close(frame))) => return frame.map(|frame| frame.code),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(other)) => panic!("{other:?}"),
                Some(Err(Error::ConnectionClosed)) | None => return None,
                Some(Err(_)) => return None,
            }
        }
    }

    pub(crate) async fn ask(&mut self, message: Value) -> Value {
        self.send(&message.to_string()).await;
        self.receive().await
    }

    pub(crate) async fn reset(&mut self, data: Value) -> Value {
        self.ask(json!({"type": "reset", "data": data})).await
    }

    pub(crate) async fn step(&mut self, command: &str) -> Value {
        self.ask(json!({"type": "step", "data": {"command": command}})).await
    }

    pub(crate) async fn state(&mut self) -> Value {
        self.ask(json!({"type": "state"})).await
    }
}

/// The code of an error.
#[track_caller]
pub(crate) fn code(reply: &Value) -> &str {
    assert_eq!(reply["type"], "error", "{reply}");
    reply["data"]["code"].as_str().unwrap()
}

/// The text of an observation.
#[track_caller]
pub(crate) fn text(reply: &Value) -> &str {
    assert_eq!(reply["type"], "observation", "{reply}");
    reply["data"]["observation"]["text"].as_str().unwrap()
}

/// The commands of an observation.
pub(crate) fn admissible(reply: &Value) -> Vec<String> {
    serde_json::from_value(reply["data"]["observation"]["admissible_commands"].clone()).unwrap()
}

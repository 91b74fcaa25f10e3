//! A client that writes and reads the lines of the protocol, and a directory with runs and configurations for it.

use serde_json::{Value, json};
use skill_mcp::{McpError, McpOptions, McpServer};
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Far longer than anything takes; only a failed test waits so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A directory with `runs` and `configs` in it.
pub(crate) struct Place {
    dir: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["runs", "configs"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        Self { dir }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(path)
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn options(&self) -> McpOptions {
        McpOptions::new(self.path("runs"), self.path("configs"), self.path("no-program"))
    }

    pub(crate) async fn client(&self) -> Client {
        Client::begin(self.options()).await
    }

    /// Writes the demo's configuration and data into `configs/demo`, with its run in `runs/demo`.
    pub(crate) fn write_demo(&self) {
        for file in skillrl::demo::DemoWorld::Notes.files() {
            let text = file.text.replace("dir = \"run\"", "dir = \"../../runs/demo\"");
            self.write(&format!("configs/demo/{}", file.path), &text);
        }
    }
}

/// A client that has begun.
pub(crate) struct Client {
    input: BufReader<ReadHalf<DuplexStream>>,
    output: WriteHalf<DuplexStream>,
    last_id: u64,
    /// Notifications that came while something else was waited for.
    pub(crate) notes: Vec<Value>,
    pub(crate) hello: Value,
    serving: JoinHandle<Result<(), McpError>>,
}

impl Client {
    pub(crate) async fn begin(options: McpOptions) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (input, output) = tokio::io::split(theirs);
        let server = McpServer::open(options).unwrap();
        let serving = tokio::spawn(server.serve(input, output, CancellationToken::new()));
        let (input, output) = tokio::io::split(ours);
        let input = BufReader::new(input);
        let mut client = Self { input, output, last_id: 0, notes: Vec::new(), hello: Value::Null, serving };
        let client_info = json!({"name": "test", "version": "1"});
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client_info});
        client.hello = client.ask("initialize", hello).await["result"].clone();
        client.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        client
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.send_line(&message.to_string()).await;
    }

    pub(crate) async fn send_line(&mut self, line: &str) {
        self.output.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// The next message of the server.
    pub(crate) async fn receive(&mut self) -> Value {
        let mut line = String::new();
        let n = tokio::time::timeout(PATIENCE, self.input.read_line(&mut line)).await.unwrap().unwrap();
        assert!(n > 0, "the server has left");
        serde_json::from_str(&line).unwrap()
    }

    /// Sends a request; returns its number.
    pub(crate) async fn begin_to_ask(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    /// The answer to a request.
    pub(crate) async fn answer_to(&mut self, id: u64) -> Value {
        loop {
            let message = self.receive().await;
            if message["id"] == id {
                return message;
            }
            self.notes.push(message);
        }
    }

    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin_to_ask(method, params).await;
        self.answer_to(id).await
    }

    /// What a tool answers; the same is in its text.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        structured(&self.ask("tools/call", json!({"name": tool, "arguments": arguments})).await)
    }

    /// What a tool says that does not do what it was asked.
    pub(crate) async fn refused(&mut self, tool: &str, arguments: Value) -> String {
        let answer = self.ask("tools/call", json!({"name": tool, "arguments": arguments})).await;
        let result = &answer["result"];
        assert_eq!(result["isError"], true, "{tool} {arguments}: {answer}");
        let blocks = result["content"].as_array().unwrap().iter();
        let text = blocks.map(|block| block["text"].as_str().unwrap()).collect::<Vec<_>>().join("\n");
        assert!(text.starts_with("error: ") && text.contains("\nwhat to do: "), "{text}");
        text
    }

    /// Leaves; the server ends by itself.
    pub(crate) async fn leave(self) {
        drop((self.input, self.output));
        tokio::time::timeout(PATIENCE, self.serving).await.unwrap().unwrap().unwrap();
    }
}

/// The structured content of an answer, which its text holds too.
pub(crate) fn structured(answer: &Value) -> Value {
    let result = &answer["result"];
    assert_ne!(result["isError"], true, "{answer}");
    let text = result["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), result["structuredContent"]);
    result["structuredContent"].clone()
}

/// All texts of an answer, each with the name of its field.
pub(crate) fn texts(value: &Value, field: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::String(text) => found.push((field.to_owned(), text.clone())),
        Value::Array(values) => values.iter().for_each(|value| texts(value, field, found)),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| texts(value, name, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

//! A server that plays the models of a benchmark, in a process of its own: Chat Completions, as fast as it can be, so that
//! what is measured is the client. It takes any key, keeps no conversation and does not stream.

mod data;
mod dice;
mod optimizer;
mod workload;

pub(crate) use data::{DataSize, write_data};

use crate::Failure;
use clap::Args;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use memchr::memmem;
use serde_json::{Value, json};
use skill_http_server::{Connection, HttpServer, SeatLimits, WhenFull, service_fn};
use std::borrow::Cow;
use std::convert::Infallible;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::TcpSocket;
use workload::Workload;

/// How many connections may wait to be accepted; the system may allow fewer.
const BACKLOG: u32 = 4096;
/// The most connections at once; further ones wait.
const MAX_CONNECTIONS: usize = 16_384;
/// The longest body of a request.
const MAX_REQUEST_BYTES: usize = 64 * 1024 * 1024;
/// When all completions were created: a clock would make equal requests have different answers.
const CREATED: u64 = 1_767_225_600;
/// Characters per token, as providers' rules of thumb have it.
const BYTES_PER_TOKEN: usize = 4;

/// How the server answers.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServeArgs {
    /// The address to listen at; the system chooses the port.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    host: IpAddr,
    /// Every reply takes this long, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    latency_ms: u64,
    /// Stops when standard input ends, so that the server does not outlive the program that started it.
    #[arg(long)]
    until_stdin_closes: bool,
    /// Plays both models of a training run on the data of the command `data`, instead of answering `OK`.
    #[arg(long)]
    workload: bool,
    /// Workload: the share of items that are right under a skill without improvements.
    #[arg(long, default_value_t = 0.7)]
    accuracy: f64,
    /// Workload: about one of so many analyst replies improves the skill; 0 is none.
    #[arg(long, value_name = "K", default_value_t = 10)]
    improve_every: u64,
    /// Workload: decides which items are right and which analysts find an improvement.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// How much data of the workload to write, and where.
#[derive(Debug, Clone, Args)]
pub(crate) struct DataArgs {
    /// The directory, which is made if it is not there.
    dir: PathBuf,
    /// Items to train on.
    #[arg(long)]
    train: usize,
    /// Items to choose skills by.
    #[arg(long)]
    val: usize,
    /// Items to measure the result by.
    #[arg(long)]
    test: usize,
    /// About how many bytes the context of each item has.
    #[arg(long)]
    context_bytes: usize,
}

impl DataArgs {
    pub(crate) fn write(&self) -> Result<(), Failure> {
        let Self { train, val, test, context_bytes, .. } = *self;
        Ok(write_data(&self.dir, &DataSize { train, val, test, context_bytes })?)
    }
}

/// Serves until the process is ended or, if asked to, standard input is; prints where it listens.
pub(crate) fn serve(args: &ServeArgs) -> Result<(), Failure> {
    // One thread is the least work for a machine that the client shares, and needs no other to hand work to.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let socket = if args.host.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.bind(SocketAddr::new(args.host, 0))?;
        let listener = socket.listen(BACKLOG)?;
        println!("listening on http://{}", listener.local_addr()?);
        std::io::stdout().flush()?;
        if args.until_stdin_closes {
            // A thread, since reading standard input cannot be called off.
            std::thread::spawn(|| {
                drop(std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink()));
                std::process::exit(0);
            });
        }
        let ServeArgs { accuracy, improve_every, seed, .. } = *args;
        let workload = args.workload.then_some(Workload { accuracy, improve_every, seed });
        let latency = Duration::from_millis(args.latency_ms);
        let provider = Arc::new(Provider { latency, workload, ..Provider::default() });
        let mut server = HttpServer::new(listener, SeatLimits::loopback(MAX_CONNECTIONS), WhenFull::Wait);
        let answer = |connection: Connection| {
            let provider = Arc::clone(&provider);
            async move { connection.answer(service_fn(|request| provider.answer(request))).await }
        };
        match server.accept(answer).await {}
    })
}

#[derive(Debug, Default)]
struct Provider {
    latency: Duration,
    workload: Option<Workload>,
    requests: AtomicU64,
    in_flight: AtomicU64,
    max_in_flight: AtomicU64,
}

/// A request that is being answered, also if its client goes.
struct InFlight<'a>(&'a AtomicU64);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Provider {
    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let (head, body) = request.into_parts();
        let (status, body) = match (&head.method, head.uri.path()) {
            (&Method::POST, "/v1/chat/completions") => {
                match Limited::new(body, MAX_REQUEST_BYTES).collect().await {
                    Ok(body) => (StatusCode::OK, self.complete(&body.to_bytes()).await),
                    Err(error) => (StatusCode::BAD_REQUEST, json!({"error": error.to_string()}).to_string()),
                }
            }
            (&Method::GET, "/v1/models") => {
                let model = json!({"id": "load", "object": "model", "created": CREATED, "owned_by": "bench"});
                (StatusCode::OK, json!({"object": "list", "data": [model]}).to_string())
            }
            (&Method::GET, "/stats") => {
                let [requests, max_in_flight] =
                    [&self.requests, &self.max_in_flight].map(|count| count.load(Ordering::Relaxed));
                (StatusCode::OK, json!({"requests": requests, "max_in_flight": max_in_flight}).to_string())
            }
            (&Method::POST, "/stats/reset") => {
                self.requests.store(0, Ordering::Relaxed);
                self.max_in_flight.store(self.in_flight.load(Ordering::Relaxed), Ordering::Relaxed);
                (StatusCode::OK, "{}".to_owned())
            }
            (method, path) => {
                let error = json!({"error": {"message": format!("Invalid URL ({method} {path})")}});
                (StatusCode::NOT_FOUND, error.to_string())
            }
        };
        let mut response = Response::new(Full::new(body.into()));
        *response.status_mut() = status;
        let json = http::HeaderValue::from_static("application/json");
        response.headers_mut().insert(http::header::CONTENT_TYPE, json);
        Ok(response)
    }

    /// The reply to a request, once its time has passed.
    async fn complete(&self, request: &[u8]) -> String {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let now = self.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        let _in_flight = InFlight(&self.in_flight);
        self.max_in_flight.fetch_max(now, Ordering::Relaxed);
        if self.latency > Duration::ZERO {
            tokio::time::sleep(self.latency).await;
        }
        let text = match &self.workload {
            Some(workload) => Cow::Owned(workload.reply(request)),
            None => Cow::Borrowed("OK"),
        };
        completion(request, &text)
    }
}

/// A completion as the dialect has it.
fn completion(request: &[u8], text: &str) -> String {
    let (input, output) = (request.len() / BYTES_PER_TOKEN, (text.len() / BYTES_PER_TOKEN).max(1));
    format!(
        concat!(
            r#"{{"id":"chatcmpl-{:016x}","object":"chat.completion","created":{},"model":{},"choices":[{{"index":0,"#,
            r#""message":{{"role":"assistant","content":{},"refusal":null}},"logprobs":null,"#,
            r#""finish_reason":"stop"}}],"usage":{{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{}}}}}"#
        ),
        dice::hash(0, request),
        CREATED,
        Value::from(model(request).unwrap_or("load")),
        Value::from(text),
        input,
        output,
        input + output
    )
}

/// The model that a request names, found without reading the rest of the JSON.
fn model(request: &[u8]) -> Option<&str> {
    // Inside a string the quotes would be escaped, so this is a key; it is the first one of nearly every client.
    let at = memmem::find(request, br#""model":"#)?;
    let rest = request.get(at..)?.split_at_checked(br#""model":"#.len())?.1.trim_ascii_start();
    let rest = rest.strip_prefix(b"\"")?;
    let name = rest.get(..memchr::memchr2(b'"', b'\\', rest)?)?;
    std::str::from_utf8(name).ok()
}

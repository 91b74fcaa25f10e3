//! A bare reqwest loop: what a client can reach at most, and what a call costs it.
//!
//! Keeps a fixed number of calls in flight, each with a body of its own, and prints one line of JSON.

#![expect(clippy::print_stdout, reason = "the result of the program")]

use clap::Parser;
use mock_openai::cpu::{self, CpuTime};
use reqwest::Client;
use reqwest::header::CONTENT_TYPE;
use serde_json::json;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::task::JoinSet;

/// A bare reqwest loop against a Chat Completions server.
#[derive(Debug, Clone, Parser)]
struct Cli {
    /// The server, such as http://127.0.0.1:8080.
    address: String,
    /// Calls in flight.
    #[arg(long, default_value_t = 256)]
    in_flight: u64,
    /// Calls that are measured.
    #[arg(long, default_value_t = 20_000)]
    total: u64,
    /// Calls before them, which open the connections; as many as are in flight unless given.
    #[arg(long)]
    warm_up: Option<u64>,
    /// About how long each body is.
    #[arg(long, default_value_t = 5_000)]
    body_bytes: usize,
    /// Threads of the client.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// The process of the server, to measure its processor time too.
    #[arg(long)]
    server_pid: Option<u32>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let cli = Cli::parse();
    let runtime = match cli.threads {
        1 => tokio::runtime::Builder::new_current_thread().enable_all().build()?,
        threads => {
            tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?
        }
    };
    runtime.block_on(run(&cli))
}

async fn run(cli: &Cli) -> Result<(), Box<dyn Error>> {
    // An error means that a provider is chosen already, which cannot be and would do no harm.
    drop(rustls::crypto::ring::default_provider().install_default());
    let client = Client::builder().no_proxy().tls_certs_only([]).build()?;
    let warm_up = cli.warm_up.unwrap_or(cli.in_flight);
    calls(cli, &client, 0..warm_up).await?;

    let cpu_of_server = || cli.server_pid.and_then(cpu::of_process);
    let (client_before, server_before) = (cpu::of_this_process(), cpu_of_server());
    let began = Instant::now();
    calls(cli, &client, warm_up..warm_up + cli.total).await?;
    let seconds = began.elapsed().as_secs_f64();
    let per_call = |before: Option<CpuTime>, after: Option<CpuTime>| {
        let used = after?.since(before?);
        let ms = |seconds: f64| seconds * 1e3 / cli.total as f64;
        Some(json!({"user": ms(used.user), "system": ms(used.system), "total": ms(used.total())}))
    };
    let result = json!({
        "calls": cli.total,
        "in_flight": cli.in_flight,
        "seconds": seconds,
        "calls_per_second": cli.total as f64 / seconds,
        "client_cpu_ms_per_call": per_call(client_before, cpu::of_this_process()),
        "server_cpu_ms_per_call": per_call(server_before, cpu_of_server()),
    });
    println!("{result}");
    Ok(())
}

/// Makes the calls of these numbers.
async fn calls(cli: &Cli, client: &Client, numbers: std::ops::Range<u64>) -> Result<(), Box<dyn Error>> {
    let url = format!("{}/v1/chat/completions", cli.address);
    let filler: Arc<str> = "All work and no play. ".repeat(cli.body_bytes / 22).into();
    let next = Arc::new(AtomicU64::new(numbers.start));
    let mut workers = JoinSet::new();
    for _ in 0..cli.in_flight {
        let (client, url, filler, next) =
            (client.clone(), url.clone(), Arc::clone(&filler), Arc::clone(&next));
        let end = numbers.end;
        workers.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= end {
                    return Ok::<(), reqwest::Error>(());
                }
                let body = format!(
                    r#"{{"model":"load","messages":[{{"role":"user","content":"{filler}{number}"}}]}}"#
                );
                let request = client.post(&url).header(CONTENT_TYPE, "application/json").body(body);
                request.send().await?.error_for_status()?.bytes().await?;
            }
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    Ok(())
}

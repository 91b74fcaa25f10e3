//! `skillrl train-server`, and runs that train by it.

use crate::context::{CHAT_TINY, TestContext, code, local_model};
use crate::serve::Serving;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

fn run<'a>(iterations: &'a str, out: &'a str) -> Vec<&'a str> {
    [&RL[..], &["--iterations", iterations, "--out", out]].concat()
}

fn start(context: &TestContext) -> (Serving, String) {
    Serving::start(context, &["train-server", CHAT_TINY, "--listen", "127.0.0.1:0", "--dir", "trained"])
}

fn task(url: &str) -> TestContext {
    let model = local_model(", temperature = 0.0");
    let context = TestContext::with_task(&model, &model);
    context.append("task/skillrl.toml", &format!("\n[tinker]\nbase_url = \"{url}\"\n"));
    context
}

const RL: [&str; 13] = [
    "rl",
    "task/skillrl.toml",
    "--max-response-length",
    "6",
    "--quiet",
    "--tasks",
    "2",
    "--group-size",
    "3",
    "--lora-rank",
    "4",
    "--games",
    "1",
];

#[test]
fn a_policy_is_trained_by_a_server_goes_on_after_both_were_killed_and_is_played_here() {
    let of_server = TestContext::new();
    let (server, url) = start(&of_server);
    let context = task(&url);
    let doctor = context.succeed_json(&["doctor", "task/skillrl.toml", "--json"]);
    let findings = doctor["findings"].as_array().unwrap();
    let about = findings.iter().filter(|finding| finding["message"].as_str().unwrap().contains(&url));
    assert_eq!(about.map(|finding| finding["status"].as_str().unwrap()).collect::<Vec<_>>(), ["ok"]);

    context.run(&run("1", "grpo")).assert_code(code::SUCCESS);
    let lines = context.read("grpo/iterations.jsonl");
    drop(server);
    let doctor = context.run(&["doctor", "task/skillrl.toml", "--json"]);
    assert!(doctor.stdout.contains("tinker.base_url"), "{}", doctor.stdout);

    // A new server has the saved weights, and the run goes on from them.
    let (_server, url) = start(&of_server);
    let moved = format!("tinker.base_url={url}");
    let more = [&run("2", "grpo")[..], &["--resume", "--set", &moved]].concat();
    context.run(&more).assert_code(code::SUCCESS);
    assert!(context.read("grpo/iterations.jsonl").starts_with(&lines));
    let place = context.json("grpo/policy/tinker.json");
    assert!(place["training"].as_str().unwrap().starts_with("tinker://"));
    let eval = ["eval", "task/skillrl.toml", "--policy", "grpo/policy", "--split", "test", "--json"];
    let measured = context.succeed_json(&eval);
    assert_eq!(measured["n"], 2, "{measured}");
    // Training further begins with the weights of the server.
    let further = [&run("1", "further")[..], &["--policy", "grpo/policy", "--set", &moved]].concat();
    context.run(&further).assert_code(code::SUCCESS);
    assert_eq!(context.json("further/config.json")["identity"]["tinker.start"], place["training"]);
}

#[test]
fn what_a_server_cannot_train_is_refused_before_a_run_begins() {
    let context = task("http://127.0.0.1:1");
    for (rank, setting, word) in [
        ("0", "rl.kl_coeff=0", "lora_rank"),
        ("4", "rl.temperature=0.5", "rl.temperature"),
        ("4", "rl.entropy_coeff=0.1", "rl.entropy_coeff"),
        ("4", "tinker.api_key_env=SKILLRL_NO_SUCH_KEY", "SKILLRL_NO_SUCH_KEY"),
    ] {
        let args =
            ["rl", "task/skillrl.toml", "--out", "x", "--max-response-length", "6", "--lora-rank", rank];
        let outcome = context.run(&[&args[..], &["--set", setting]].concat());
        assert!(outcome.stderr.contains(word), "{}", outcome.stderr);
        assert!(!context.path("x/config.json").exists());
    }
}

/// Sends a request and returns the body of its answer.
fn post(url: &str, call: &str, body: &Value) -> Value {
    let address = url.strip_prefix("http://").unwrap();
    let body = body.to_string();
    let mut socket = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /api/v1/{call} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(head.as_bytes()).unwrap();
    socket.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// A job of minutes is under way, and more wait behind it.
#[test]
#[cfg(unix)]
fn ctrl_c_ends_the_server_while_it_computes() {
    let of_server = TestContext::new();
    let (mut server, url) = start(&of_server);
    let session = post(&url, "create_session", &json!({}));
    let lora = json!({"rank": 2});
    let asked = json!({"session_id": session["session_id"], "base_model": "chat-tiny", "lora_config": lora});
    let made = post(&url, "create_model", &asked);
    let tokens = vec![1; 400];
    let row = json!({
        "model_input": {"chunks": [{"type": "encoded_text", "tokens": tokens}]},
        "loss_fn_inputs": {"target_tokens": {"data": tokens}, "weights": {"data": vec![1.0; 400]}},
    });
    let input = json!({"loss_fn": "cross_entropy", "data": vec![row; 2_000]});
    for sequence in 1..=2 {
        let asked =
            json!({"model_id": made["model_id"], "forward_backward_input": input, "seq_id": sequence});
        let queued = post(&url, "forward_backward", &asked);
        assert_eq!(queued["status"], "pending", "{queued}");
    }
    let id = server.0.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let (ended, waiting) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let server = &mut server;
        scope.spawn(move || ended.send(server.0.wait().unwrap().code()).unwrap());
        let code = waiting.recv_timeout(std::time::Duration::from_secs(20));
        if code.is_err() {
            std::process::Command::new("kill").args(["-KILL", &id]).status().unwrap();
        }
        assert_eq!(code, Ok(Some(0)), "it ends at once, not when its jobs are done");
    });
}

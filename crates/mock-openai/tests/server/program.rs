//! The program itself.

use crate::client::{body, client};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_mock-openai");

/// A server in a process of its own, and where it listens.
fn start(args: &[&str]) -> (Child, String) {
    let mut command = Command::new(PROGRAM);
    let command = command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.strip_prefix("listening on ").and_then(|rest| rest.strip_suffix('\n'));
    (child, address.unwrap().to_owned())
}

#[tokio::test]
async fn it_serves_what_its_arguments_say_until_its_input_ends() {
    let args = ["--until-stdin-closes", "--fixed", "well said", "--fault", "unavailable=1"];
    let (mut child, address) = start(&[&args[..], &["--max-faults-per-request", "1"]].concat());
    let ask = || client().post(format!("{address}/v1/chat/completions")).body(body("a")).send();
    assert_eq!(ask().await.unwrap().status(), 503);
    let reply: Value = serde_json::from_slice(&ask().await.unwrap().bytes().await.unwrap()).unwrap();
    assert_eq!(reply["choices"][0]["message"]["content"], "well said");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[cfg(unix)]
#[test]
fn it_stops_when_it_is_told_to() {
    for signal in ["TERM", "INT"] {
        let (mut child, _) = start(&[]);
        let pid = child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{signal}"), &pid]).status().unwrap().success());
        assert!(child.wait().unwrap().success(), "{signal}");
    }
}

#[test]
fn it_says_why_it_cannot_start() {
    let output = Command::new(PROGRAM).args(["--workload", "--accuracy", "2"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let expect = "error: the rate of `accuracy` is 2; expected a number from 0 to 1\n";
    assert_eq!(String::from_utf8(output.stderr).unwrap(), expect);
}

#[test]
fn it_writes_data() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["data", "--train", "3", "--val", "2", "--test", "1", "--context-bytes", "100", "world"];
    let output = Command::new(PROGRAM).args(args).current_dir(dir.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    for (split, n_items) in [("train", 3), ("val", 2), ("test", 1)] {
        let text = std::fs::read_to_string(dir.path().join(format!("world/{split}.jsonl"))).unwrap();
        assert_eq!(text.lines().count(), n_items);
    }
}

//! A program that speaks the protocol of `docs/env-protocol.md`, and that does wrong what it is told to do wrong.
//!
//! Its arguments are its mode (`step` or `rollout`) and a trick from the table in `trick.rs`. A trick is played by the
//! item whose id is `bad`, or at `hello` if the trick is one of those; every other item is worked on as it should be,
//! so that a test sees that the next rollout is not touched.
#![expect(clippy::print_stderr, reason = "a program's standard error is a part of what is tested")]
#![expect(clippy::indexing_slicing, reason = "a member of a JSON value that is missing reads as null")]

mod ask;
mod trick;

use serde_json::{Value, json};
use std::io::{BufRead as _, Write as _};
use trick::Trick;

/// Where the treasure of the good world is.
const TREASURE: u64 = 3;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mode = arguments.next().unwrap_or_default();
    let name = arguments.next().unwrap_or_default();
    let Some(trick) = Trick::parse(&name) else {
        eprintln!("unknown trick `{name}`");
        std::process::exit(2);
    };
    let mut program = Program { mode, trick, position: 0, is_bad: false, n_rollouts: 0, held: Vec::new() };
    let mut lines = std::io::stdin().lock().lines();
    while let Some(Ok(line)) = lines.next() {
        let Ok(request) = serde_json::from_str::<Value>(&line) else {
            eprintln!("not a request: {line}");
            std::process::exit(3);
        };
        program.take(&request);
    }
    eprintln!("bye");
}

struct Program {
    mode: String,
    trick: Trick,
    position: u64,
    /// Whether the trick is to be played now.
    is_bad: bool,
    n_rollouts: u64,
    /// The requests that are answered later, out of order.
    held: Vec<Value>,
}

impl Program {
    fn take(&mut self, request: &Value) {
        match request["method"].as_str().unwrap_or_default() {
            "hello" => {
                trick::at_hello(self.trick, request, &hello(&self.mode, self.trick));
            }
            "reset" => {
                self.position = 0;
                self.is_bad = request["item"]["id"] == "bad";
                self.answer(request, self.observation(request));
            }
            "step" => {
                let understood = match request["action"].as_str() {
                    Some("right") => {
                        self.position += 1;
                        true
                    }
                    Some("left") => {
                        self.position = self.position.saturating_sub(1);
                        true
                    }
                    _ => false,
                };
                let mut answer = self.observation(request);
                answer["understood"] = understood.into();
                if self.is_bad {
                    trick::play(self.trick, request, &answer);
                } else {
                    self.answer(request, answer);
                }
            }
            "rollout" => {
                self.n_rollouts += 1;
                let mut answer = self.result(request);
                if self.trick == Trick::Asks {
                    ask::ask(request, &mut answer);
                }
                if self.trick == Trick::NeedsSkill && request["skill"] == "" {
                    answer = json!({"id": request["id"], "error": {"message": "no skill", "retry": false}});
                }
                if request["item"]["id"] == "bad" && self.trick != Trick::Parallel {
                    trick::play(self.trick, request, &answer);
                } else {
                    self.answer(request, answer);
                }
            }
            "cancel" | "close" => eprintln!("told: {request}"),
            other => eprintln!("unknown method `{other}`"),
        }
    }

    /// Answers; a program that works on two things at once answers the second one first.
    fn answer(&mut self, request: &Value, answer: Value) {
        if self.trick == Trick::Parallel && self.mode == "rollout" && request["item"]["id"] != "alone" {
            self.held.push(answer);
            if self.held.len() == 2 {
                while let Some(answer) = self.held.pop() {
                    print(&answer);
                }
            }
        } else {
            print(&answer);
        }
    }

    fn observation(&self, request: &Value) -> Value {
        let won = self.position == TREASURE;
        json!({
            "id": request["id"],
            "observation": format!("You are at {}. (process {})", self.position, std::process::id()),
            "admissible": ["left", "right"],
            "reward": if won { 1.0 } else { 0.0 },
            "done": won,
            "won": won,
        })
    }

    /// The result says what the program was given, for tests to see.
    fn result(&self, request: &Value) -> Value {
        let path = request["skill_file"].as_str();
        let skill = match path {
            Some(path) => std::fs::read_to_string(path).unwrap_or_else(|error| error.to_string()),
            None => request["skill"].as_str().unwrap_or_default().to_owned(),
        };
        let variables: Vec<String> = std::env::vars_os()
            .map(|(name, value)| format!("{}={}", name.to_string_lossy(), value.to_string_lossy()))
            .collect();
        json!({
            "id": request["id"],
            "hard": if skill.contains("right") { 1 } else { 0 },
            "soft": 0.5,
            "reason": "the skill does not say where to go",
            "answer": "here",
            "conversation": [
                {"role": "user", "content": request["item"]["data"].to_string()},
                {"role": "assistant", "content": "here"},
            ],
            "extras": {
                "process": std::process::id(),
                "n_rollouts": self.n_rollouts,
                "seed": request["seed"],
                "skill": skill,
                "skill_file": path,
                "skill_files": path.map(files_beside),
                "endpoint": request["endpoint"],
                "variables": variables,
            },
        })
    }
}

/// What lies around a file, by path below its directory, with an asterisk behind what can be started.
fn files_beside(path: &str) -> Vec<String> {
    let root = std::path::Path::new(path).parent().unwrap_or(std::path::Path::new("."));
    let (mut dirs, mut files) = (vec![root.to_owned()], Vec::new());
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            let mark = if is_executable(&path) { "*" } else { "" };
            files.push(format!("{}{mark}", path.strip_prefix(root).unwrap_or(&path).display()));
        }
    }
    files.sort();
    files
}

#[cfg(unix)]
fn is_executable(path: &std::path::Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(_path: &std::path::Path) -> bool {
    false
}

fn hello(mode: &str, trick: Trick) -> Value {
    let items = |ids: &[&str]| -> Value {
        ids.iter().map(|id| json!({"id": id, "task_type": "walk", "data": {"goal": id}})).collect()
    };
    let mut hello = json!({
        "id": 0,
        "protocol": 1,
        "name": "walk",
        "version": "7",
        "mode": mode,
        "instructions": "Say `left` or `right`.",
        "initial_skill": "Walk.",
        "items": {"train": items(&["good", "bad", "alone"]), "val": items(&["val"]), "test": items(&["test"])},
    });
    if trick == Trick::Parallel {
        hello["capabilities"] = json!({"parallel": 2});
    }
    hello
}

/// Prints a line at once.
fn print(value: &Value) {
    print_bytes(format!("{value}\n").as_bytes());
}

/// Prints bytes at once; where nobody reads any more there is nothing left to do.
fn print_bytes(bytes: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    if stdout.write_all(bytes).and_then(|()| stdout.flush()).is_err() {
        std::process::exit(0);
    }
}

//! The Python examples, trained from their configurations; `cargo xtask ci --external` runs this, since it needs Python.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// A copy of `examples/exec-python/`, and the binary started beside it.
struct Example {
    directory: tempfile::TempDir,
}

impl Example {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/exec-python");
        for file in std::fs::read_dir(files).unwrap().map(Result::unwrap) {
            if file.file_type().unwrap().is_file() {
                std::fs::copy(file.path(), directory.path().join(file.file_name())).unwrap();
            }
        }
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// What a command writes to its standard output.
    #[track_caller]
    fn succeed(&self, args: &[&str]) -> String {
        let program = Command::new(env!("CARGO_BIN_EXE_skillrl"))
            .args(args)
            .current_dir(self.directory.path())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&program.stderr);
        assert!(program.status.success(), "{args:?}: {}\n{stderr}", program.status);
        String::from_utf8(program.stdout).unwrap()
    }

    /// Trains, looks at the scores before and after, and plays the run again from its journal.
    #[track_caller]
    fn check(&self, name: &str, learned: &str, before: f64) {
        self.succeed(&["train", &format!("{name}.toml"), "--quiet"]);
        let run = format!("run-{name}");
        let read = |file: &str| std::fs::read_to_string(self.path(&run).join(file)).unwrap();
        let summary: serde_json::Value = serde_json::from_str(&read("summary.json")).unwrap();
        let score = |field: &str| summary[field].as_f64().unwrap();
        assert!(score("baseline_test_hard") <= before, "{name}: {summary}");
        assert_eq!(score("test_hard"), 1.0, "{name}: {summary}");
        assert!(read("best_skill.md").contains(learned), "{name}: {}", read("best_skill.md"));
        let replayed = self.succeed(&["replay", &run, "--quiet"]);
        assert!(replayed.contains(" 0 sent") && replayed.contains("identical"), "{name}: {replayed}");
    }
}

#[test]
fn a_world_that_is_stepped_through_is_trained_on() {
    Example::new().check("guess", "Halve what is left", 0.2);
}

/// The agent is the program's own; the engine answers its calls.
#[test]
fn an_agent_behind_the_endpoint_is_trained() {
    let example = Example::new();
    example.check("dates", "YYYY-MM-DD", 0.0);
    // All of its calls are in the journal: 2 of the batch, 2 before and after for each of the other splits, and as many
    // for the selection scores measured again.
    let listed = example.succeed(&["journal", "list", "run-dates", "--json"]);
    let n_agent = listed.lines().filter(|line| line.contains("agent")).count();
    assert_eq!(n_agent, 14, "{listed}");
}

/// `examples/python/` drives the program and reads the run with the standard library.
#[test]
fn python_drives_the_program_and_reads_the_run() {
    let example = Example::new();
    example.succeed(&["init", "--demo", "demo"]);
    let binary = Path::new(env!("CARGO_BIN_EXE_skillrl")).parent().unwrap();
    let path = std::env::join_paths(
        [binary.to_owned()].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/python/train_and_read.py");
    let python = Command::new("python3")
        .arg(script)
        .arg("demo/skillrl.toml")
        .env("PATH", path.unwrap())
        .current_dir(example.directory.path())
        .output()
        .unwrap();
    let (text, errors) = (String::from_utf8_lossy(&python.stdout), String::from_utf8_lossy(&python.stderr));
    assert!(python.status.success(), "{errors}");
    assert!(text.contains("demo/run: 12 steps") && text.contains("step  12  "), "{text}");
    assert!(text.contains("test:      0.1250 -> 0.9750\nwon 34, lost 0"), "{text}");
}

/// Functions of the helper run beside its event loop, so that they may start one of their own.
#[test]
fn functions_of_the_helper_may_start_an_event_loop() {
    let example = Example::new();
    let env = r"
import asyncio
from skillrl_env import serve

class Env:
    def start(self, settings):
        asyncio.run(asyncio.sleep(0))

    def rollout(self, request):
        return asyncio.run(asyncio.sleep(0, {'hard': 1}))

serve(Env(), items={})
";
    std::fs::write(example.path("env.py"), env).unwrap();
    let requests = r#"echo '{"id": 1, "method": "hello", "settings": {}, "items": true}
{"id": 2, "method": "rollout", "item": {}}' | python3 env.py"#;
    let mut command = Command::new("sh");
    let output = command.args(["-c", requests]).current_dir(example.directory.path()).output().unwrap();
    let answers = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<serde_json::Value> =
        answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), 2, "{}", String::from_utf8_lossy(&output.stderr));
    assert!(answers[0]["protocol"] == 1 && answers[1]["hard"] == 1, "{answers:?}");
}

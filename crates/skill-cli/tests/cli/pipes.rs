//! Named pipes and devices in the place of a run's files: no command that reads runs blocks or reads without end.

use crate::context::TestContext;
use std::path::Path;
use std::process::Command;

/// What reads a run; the page is written elsewhere, since writing to a pipe waits for its reader.
const COMMANDS: [&str; 5] = [
    "status runs/bad",
    "show runs/bad",
    "report runs/bad --output page.html",
    "check runs/bad",
    "compare runs/bad runs/bad",
];

/// Puts a named pipe in the place of a file.
fn pipe(path: &Path) {
    drop(std::fs::remove_file(path));
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success(), "{made}");
}

/// A command that waited for a writer would run until the time of the test is over.
#[test]
fn a_named_pipe_in_the_place_of_any_file_stops_nobody() {
    let context = TestContext::with_finished_demo();
    let files: Vec<String> = std::fs::read_dir(context.path("demo/run"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    assert!(files.len() > 8, "{files:?}");
    for file in files {
        context.copy_dir("demo/run", "runs/bad");
        pipe(&context.path(&format!("runs/bad/{file}")));
        let whole = context.succeed(&["status", "runs"]);
        assert!(whole.contains("bad"), "{file}: {whole}");
        for command in COMMANDS {
            let outcome = context.run(&command.split(' ').collect::<Vec<_>>());
            assert!(outcome.code.is_some(), "{command}, {file}: {}", outcome.stderr);
        }
        std::fs::remove_dir_all(context.path("runs/bad")).unwrap();
    }
}

#[test]
fn a_link_to_a_device_is_not_read_to_its_end() {
    let context = TestContext::with_finished_demo();
    for file in ["best_skill.md", "summary.json", "history.jsonl", "events.jsonl"] {
        context.copy_dir("demo/run", "runs/bad");
        let path = context.path(&format!("runs/bad/{file}"));
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        for command in COMMANDS {
            let outcome = context.run(&command.split(' ').collect::<Vec<_>>());
            assert!(outcome.code.is_some(), "{command}, {file}: {}", outcome.stderr);
        }
        std::fs::remove_dir_all(context.path("runs/bad")).unwrap();
    }
}

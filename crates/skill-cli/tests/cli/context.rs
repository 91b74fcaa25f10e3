//! A temporary directory with a task in it, and the binary started there.

use crate::all_files::all_files;
use crate::finished_demo;
use crate::said::assert_names;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The codes that `docs/running.md` documents.
pub(crate) mod code {
    pub(crate) const SUCCESS: i32 = 0;
    /// Output that cannot be written, or something without a code of its own.
    pub(crate) const OTHER: i32 = 1;
    pub(crate) const USAGE: i32 = 2;
    pub(crate) const DATA: i32 = 3;
    pub(crate) const PROVIDER_REFUSED: i32 = 4;
    pub(crate) const OUTAGE: i32 = 5;
    pub(crate) const RUN_DIR: i32 = 6;
    pub(crate) const OTHER_RUN: i32 = 7;
    pub(crate) const BUDGET: i32 = 8;
    pub(crate) const DIVERGED: i32 = 9;
    pub(crate) const LINT: i32 = 10;
    pub(crate) const REGRESSED: i32 = 11;
    pub(crate) const DAMAGED: i32 = 12;
    #[cfg(unix)]
    pub(crate) const STOPPED: i32 = 130;
}

/// The files of a run that hold times or what was said before it, and therefore differ between two runs of the same
/// settings.
///
/// A reader of the journal leaves two of the files beside it, and a process that is killed all of them.
const TIMED_FILES: [&str; 11] = [
    "checks.json",
    "events.jsonl",
    "notes.jsonl",
    "timings.json",
    "timings.jsonl",
    "report.html",
    "journal.sqlite",
    "journal.sqlite-wal",
    "journal.sqlite-shm",
    "journal.sqlite-sent",
    "journal.sqlite-sum",
];

/// The only environment variable of the tests; each child gets it where a test says so.
pub(crate) const KEY_VARIABLE: &str = "SKILLRL_TEST_KEY";

/// A decoder with random weights.
pub(crate) const CHAT_TINY: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../skill-train/tests/data/own/chat-tiny");

/// The decoder as a model of the configuration, with these further keys.
#[cfg(feature = "weights")]
pub(crate) fn local_model(more: &str) -> String {
    format!(
        "{{ kind = \"local\", path = \"{CHAT_TINY}\", context = 512, max_tokens = 8, prefix_cache_mb = 1, \
         response_schema = \"ignore\"{more} }}"
    )
}

/// The contents of files by their path below a directory.
pub(crate) type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A directory of its own for one test.
pub(crate) struct TestContext {
    dir: TempDir,
}

/// How a command ended.
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl TestContext {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// A context with the demo's files in `demo`.
    pub(crate) fn with_demo() -> Self {
        let context = Self::new();
        context.succeed(&["init", "--demo", "demo"]);
        context
    }

    /// A context with the demo's files and a finished run of them in `demo/run`.
    pub(crate) fn with_finished_demo() -> Self {
        let context = Self::new();
        let demo = finished_demo::shared_copy();
        context.copy_from(&demo.path);
        context
    }

    /// A context with a task of twelve items and these two models in `task`.
    ///
    /// A run makes 2 steps: 2 calls for the baseline, then for each step 2 for the batch, 1 for the only analyst
    /// and, if there is a candidate, 2 for its evaluation.
    pub(crate) fn with_task(target: &str, optimizer: &str) -> Self {
        let context = Self::new();
        for (split, n_items) in [("train", 4), ("val", 2), ("test", 2)] {
            context.write_items(split, n_items);
        }
        context.write("task/skill.md", "# Repeating\n\n- Be polite.\n");
        context.write(
            "task/skillrl.toml",
            &format!(
                "[run]\ndir = \"run\"\n\n[models]\ntarget = {target}\noptimizer = {optimizer}\n\n\
                 [env]\nkind = \"qa\"\ndata = \"data\"\n\n[skill]\ninitial = \"skill.md\"\n\n\
                 [retry]\nmax_attempts = 1\n\n[train]\nepochs = 1\nbatch_size = 2\n"
            ),
        );
        context
    }

    /// A context with a task in `task` whose models are scripted, so that it needs no server.
    pub(crate) fn with_scripted_task() -> Self {
        let context = Self::new();
        context.copy_from(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/scripted"));
        context
    }

    /// Another context with the same files.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::new();
        copy.copy_from(self.dir.path());
        copy
    }

    pub(crate) fn copy_from(&self, directory: &Path) {
        write_files(self.dir.path(), files_below(directory));
    }

    /// Copies files of an example of the repository into a directory.
    pub(crate) fn copy_example(&self, example: &str, to: &str, files: &[&str]) {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(example);
        for file in files {
            self.write(&format!("{to}/{file}"), &std::fs::read_to_string(example.join(file)).unwrap());
        }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Copies a directory into a new one.
    pub(crate) fn copy_dir(&self, from: &str, to: &str) {
        write_files(&self.path(to), self.files(from));
    }

    #[track_caller]
    pub(crate) fn json(&self, path: &str) -> Value {
        parsed(&self.read(path))
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Writes `n_items` items into a split of the task.
    pub(crate) fn write_items(&self, split: &str, n_items: usize) {
        let item = |number: usize| {
            let word = format!("{split}word{number}");
            format!(
                "{{\"id\": \"{split}-{number}\", \"question\": \"Repeat: {word}.\", \"answers\": [\"{word}\"]}}\n"
            )
        };
        self.write(&format!("task/data/{split}.jsonl"), &(1..=n_items).map(item).collect::<String>());
    }

    /// Adds text at the end of a file.
    pub(crate) fn append(&self, path: &str, text: &str) {
        self.write(path, &(self.read(path) + text));
    }

    /// Replaces a text that is in a file.
    #[track_caller]
    pub(crate) fn replace(&self, path: &str, from: &str, to: &str) {
        let text = self.read(path);
        assert!(text.contains(from), "{path} holds no {from:?}:\n{text}");
        self.write(path, &text.replace(from, to));
    }

    pub(crate) fn remove(&self, path: &str) {
        std::fs::remove_file(self.path(path)).unwrap();
    }

    /// Every file below a directory.
    pub(crate) fn files(&self, dir: &str) -> Files {
        files_below(&self.path(dir))
    }

    /// The files of a run that two runs of the same settings have in common to the byte.
    pub(crate) fn untimed_files(&self, run_dir: &str) -> Files {
        let mut files = self.files(run_dir);
        files.retain(|path, _| !TIMED_FILES.iter().any(|timed| path == Path::new(timed)));
        assert!(files.contains_key(Path::new("config.json")), "{run_dir} holds no run");
        files
    }

    /// The binary in this directory, without what the caller's environment would tell it.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_skillrl"));
        command.args(args).current_dir(self.dir.path()).stdin(Stdio::null());
        for variable in
            ["SKILLRL_LOG", "OPENAI_API_KEY", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"]
        {
            command.env_remove(variable);
        }
        command.env_remove(KEY_VARIABLE);
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Outcome {
        Outcome::of(self.command(args).output().unwrap())
    }

    /// Runs a command in another directory.
    pub(crate) fn run_in(&self, dir: &Path, args: &[&str]) -> Outcome {
        Outcome::of(self.command(args).current_dir(dir).output().unwrap())
    }

    /// Runs a command within limits that a shell sets, such as `ulimit -d 1000`.
    pub(crate) fn run_within(&self, limits: &str, args: &[&str]) -> Outcome {
        let mut limited = Command::new("sh");
        limited.args(["-c", &format!("{limits} && exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_skillrl")]);
        Outcome::of(limited.args(args).current_dir(self.dir.path()).output().unwrap())
    }

    /// Runs a command that must succeed and write JSON.
    #[track_caller]
    pub(crate) fn succeed_json(&self, args: &[&str]) -> Value {
        parsed(&self.succeed(args))
    }

    /// Runs a command that must succeed; returns its standard output.
    #[track_caller]
    pub(crate) fn succeed(&self, args: &[&str]) -> String {
        let outcome = self.run(args);
        outcome.assert_code(code::SUCCESS);
        outcome.stdout
    }
}

impl Outcome {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    pub(crate) fn assert_code(&self, expect: i32) {
        assert_eq!(self.code, Some(expect), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
    }

    /// Checks the code of a command that did not succeed, and that its message names all of these.
    #[track_caller]
    pub(crate) fn fails(self, code: i32, names: &[&str]) -> Self {
        self.assert_code(code);
        assert_names(&self.stderr, names);
        self
    }

    /// Checks as [`fails`](Self::fails) does, and that nothing was written to standard output.
    #[track_caller]
    pub(crate) fn refused(self, code: i32, names: &[&str]) -> Self {
        let outcome = self.fails(code, names);
        assert_eq!(outcome.stdout, "");
        outcome
    }
}

fn files_below(root: &Path) -> Files {
    let files = if root.is_dir() { all_files(root) } else { Default::default() };
    files.into_iter().map(|(path, bytes)| (path.into(), bytes)).collect()
}

/// Writes files into a directory, which need not exist.
pub(crate) fn write_files(root: &Path, files: Files) {
    for (path, bytes) in files {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

/// JSON that a program has written.
#[track_caller]
pub(crate) fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// `--set` before each setting.
pub(crate) fn set<'a>(settings: &[&'a str]) -> Vec<&'a str> {
    settings.iter().flat_map(|setting| ["--set", *setting]).collect()
}

/// Compares two sets of files and names the first that differs, rather than showing all bytes of both.
#[track_caller]
pub(crate) fn assert_same_files(left: &Files, right: &Files) {
    let names = |files: &Files| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(left), names(right));
    for (path, bytes) in left {
        let (left, right) = (String::from_utf8_lossy(bytes), String::from_utf8_lossy(&right[path]));
        assert_eq!(left, right, "{} differs", path.display());
    }
}

/// Without the numbers of what was sent: work that was given up is a part of them, and how much of it had been sent then
/// depends on how busy the machine is.
pub(crate) fn without_sent(text: &str) -> String {
    let sent =
        regex::Regex::new(r"spent( +)[\d,]+ calls, [\d,]+ tokens|[\d,]+ calls from (\S+), [\d,]+ sent")
            .unwrap();
    sent.replace_all(text, |found: &regex::Captures<'_>| match (found.get(1), found.get(2)) {
        (Some(spaces), _) => format!("spent{}[calls], [tokens]", spaces.as_str()),
        (None, run) => format!("[calls] from {}, [calls] sent", run.map_or("", |run| run.as_str())),
    })
    .into_owned()
}

/// Text for a snapshot: what models are told and say may change without a change of what a person sees.
pub(crate) fn without_tokens(text: &str) -> String {
    let lines = text.lines().map(|line| {
        match line.split_once(" calls, ").or_else(|| line.split_once(" replies, ")) {
            Some((before, _)) => {
                let label = before.trim_end_matches(|letter: char| letter.is_ascii_digit());
                format!("{label}[calls and tokens]\n")
            }
            None => format!("{line}\n"),
        }
    });
    lines.collect()
}

//! Runs over workbooks by the whole program: three ways of working, a run that is killed, and what it says before.
//!
//! They need `bwrap`, the system's Python with openpyxl and LibreOffice; `cargo xtask check sandbox` runs them.

use crate::context::{TestContext, assert_same_files, code};
use crate::server::{Server, body, is_optimizer, reply};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use wiremock::{Request, ResponseTemplate};

const SYSTEM_PYTHON: &str = "/usr/bin/python3";
const PATIENCE: Duration = Duration::from_secs(30);

const DATA_SET: &str = include_str!("workbooks.py");

/// What the optimizer proposes, and the agent then knows.
const RULE: &str = "- Write formulas into the cells.";
const RIGHT: &str = "import openpyxl\nbook = openpyxl.load_workbook(INPUT_PATH)\nsheet = book.active\n\
    for row in range(2, 5):\n    sheet.cell(row, 3).value = f'=2*B{row}'\nbook.save(OUTPUT_PATH)\n";
const UNCHANGED: &str = "import shutil\nshutil.copy(INPUT_PATH, OUTPUT_PATH)\n";

/// The agent of each mode, which solves a task once the skill has the rule.
fn answer(request: &Request) -> ResponseTemplate {
    let body = body(request);
    if is_optimizer(&body) {
        let edit = json!({"op": "append", "target": "", "content": RULE});
        return reply(&json!({"patch": {"reasoning": "", "edits": [edit]}}).to_string(), "stop");
    }
    let messages = body["messages"].as_array().unwrap();
    let program = if body.to_string().contains(RULE) { RIGHT } else { UNCHANGED };
    let n_replies = messages.iter().filter(|message| message["role"] == "assistant").count();
    let call = |name: &str, arguments: Value| {
        let function = json!({"name": name, "arguments": arguments.to_string()});
        let call = json!({"id": format!("call-{n_replies}"), "type": "function", "function": function});
        let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        ResponseTemplate::new(200).set_body_json(json!({
            "choices": [{"message": message, "finish_reason": "tool_calls"}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5},
        }))
    };
    match (body.get("tools").is_some(), n_replies) {
        (true, 0) => call("write_file", json!({"path": "solution.py", "content": program})),
        (true, 1) => call("run_python", json!({"path": "solution.py"})),
        (true, _) => reply("It is done.", "stop"),
        (false, 0) => reply(&format!("```python\n{program}```"), "stop"),
        (false, _) => reply("DONE", "stop"),
    }
}

/// The data set, and a configuration with these lines of `[env]`.
fn context(server: &Server, lines: &str) -> TestContext {
    let context = TestContext::new();
    let made = Command::new(SYSTEM_PYTHON).args(["-c", DATA_SET]).current_dir(context.path(".")).status();
    assert!(made.unwrap().success());
    context.write(
        "spreadsheets.toml",
        &format!(
            "[run]\ndir = \"run\"\nworkers = 2\n\n[models]\ntarget = {}\noptimizer = {}\n\n\
             [env]\nkind = \"spreadsheet\"\ndata = \"sheets\"\n{lines}\n\n[train]\nepochs = 1\nbatch_size = 4\n",
            server.model("target"),
            server.model("optimizer")
        ),
    );
    context
}

/// The command with a cache of its own.
fn command(context: &TestContext, args: &[&str]) -> Command {
    let mut command = context.command(args);
    command.env("XDG_CACHE_HOME", context.path("cache"));
    command
}

#[track_caller]
fn output(mut command: Command) -> String {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code::SUCCESS), "{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[ignore = "needs bwrap, openpyxl and LibreOffice: cargo xtask check sandbox"]
fn a_skill_is_trained_in_every_mode() {
    for mode in ["single", "multi", "tools"] {
        let server = Server::start();
        server.answer_with(|_, request| answer(request));
        let context = context(&server, &format!("mode = \"{mode}\"\nmax_rounds = 5"));
        let estimate: Value =
            serde_json::from_str(&output(command(&context, &["estimate", "spreadsheets.toml", "--json"])))
                .unwrap();
        output(command(&context, &["train", "spreadsheets.toml"]));
        let summary = context.json("run/summary.json");
        assert_eq!(summary["best_selection_score"], 1.0, "{mode}: {summary}");
        assert!(context.read("run/best_skill.md").contains(RULE));
        let most = estimate["total"]["calls"]["high"].as_u64();
        let n_sent = server.n_calls() as u64;
        assert!(most.is_some_and(|most| most >= n_sent), "{mode}: {n_sent} calls, estimated {estimate}");
        output(command(&context, &["report", "run"]));
        assert!(context.read("run/report.html").contains("Test split"));
    }
}

/// A Python that notes each program that it starts and ends, but for those that look for versions and places.
fn noting_python(context: &TestContext) -> String {
    let path = context.path("python");
    let notes = context.path("programs.log");
    let text = format!(
        "#!/bin/sh\ncase \"$2\" in *sys.executable*) echo '[\"{path}\", \"/usr\", \"/usr\"]'; exit;; esac\n\
         [ \"$#\" = 3 ] || exec {SYSTEM_PYTHON} \"$@\"\n\
         key=$(cat input.xlsx solution.py | sha256sum | cut -c1-16)\n\
         echo \"start $key\" >>'{notes}'\n{SYSTEM_PYTHON} \"$@\"\nrc=$?\necho \"end $key\" >>'{notes}'\nexit $rc\n",
        path = path.display(),
        notes = notes.display()
    );
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

/// How often each program was started, from the notes.
fn starts(context: &TestContext) -> BTreeMap<String, usize> {
    let mut starts = BTreeMap::new();
    for key in context.read("programs.log").lines().filter_map(|line| line.strip_prefix("start ")) {
        *starts.entry(key.to_owned()).or_default() += 1;
    }
    starts
}

/// Without the sandbox, since in it nothing outside can be noted.
#[test]
#[ignore = "needs bwrap, openpyxl and LibreOffice: cargo xtask check sandbox"]
fn a_killed_run_runs_no_finished_program_again() {
    const PROGRAMS: usize = 2;
    // With tools a program runs once among the agent's files, and once in an empty directory for its score.
    for (mode, n_starts) in [("multi", 1), ("tools", 2)] {
        let server = Server::start();
        let lines =
            format!("mode = \"{mode}\"\nsandbox = \"off\"\nrecalculate = \"never\"\nprograms = {PROGRAMS}");
        let context = context(&server, &lines);
        let python = noting_python(&context);
        context.replace("spreadsheets.toml", "data = ", &format!("python = '{python}'\ndata = "));
        let train = |dir: &str, cache: &str| {
            let run_dir = format!("run.dir={dir}");
            let mut command = context.command(&["train", "spreadsheets.toml", "--set", &run_dir]);
            command.env("XDG_CACHE_HOME", context.path(cache)).stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        server.answer_with(|_, request| answer(request));
        assert_eq!(train("whole", "cache-of-whole").status().unwrap().code(), Some(code::SUCCESS));
        let n_calls = server.n_calls();
        let (files, expect) = (context.untimed_files("whole"), starts(&context));
        assert!(expect.values().all(|n_found| *n_found == n_starts), "{mode}: {expect:?}");
        context.remove("programs.log");
        let kills = [n_calls / 4, n_calls / 4, n_calls / 8];
        for killed_call in kills {
            let (pid_in, pid) = mpsc::channel::<u32>();
            server.answer_with(move |call, request| {
                if call == killed_call {
                    let pid = pid.recv_timeout(PATIENCE).unwrap();
                    assert!(
                        Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success()
                    );
                }
                answer(request)
            });
            let mut child = train("killed", "cache").spawn().unwrap();
            pid_in.send(child.id()).unwrap();
            assert_eq!(child.wait().unwrap().signal(), Some(9), "{mode}");
        }
        server.answer_with(|_, request| answer(request));
        assert_eq!(train("killed", "cache").status().unwrap().code(), Some(code::SUCCESS), "{mode}");
        assert_same_files(&context.untimed_files("killed"), &files);
        let found = starts(&context);
        assert!(found.keys().eq(expect.keys()), "{mode}: {found:?}");
        // Those that were running when the process was killed.
        let n_again = found.values().sum::<usize>() - expect.values().sum::<usize>();
        assert!(n_again <= kills.len() * PROGRAMS, "{mode}: {found:?}");
    }
}

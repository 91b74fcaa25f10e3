//! What a program that skillrl starts can read of it, and what is left when skillrl is killed.
#![cfg(target_os = "linux")]

use crate::context::{KEY_VARIABLE, TestContext};
use crate::read_only::{NOBODY, as_nobody, copy_of_program};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Far longer than starting a program takes; only a failed test waits so long.
const PATIENCE: Duration = Duration::from_secs(60);

const SECRET: &str = "sk-that-nobody-may-read-0123456789";

const CONFIG: &str = r#"
[run]
dir = "run"
workers = 1

[models]
target = { kind = "simulated" }
optimizer = { kind = "simulated" }

[env]
kind = "exec"
program = ["sh", "program.sh"]
processes = 1
skill_delivery = "file"
"#;

/// A program that does this when it is greeted, and that with its first rollout.
fn program(at_hello: &str, at_rollout: &str) -> TestContext {
    let context = TestContext::new();
    let items = r#"{"train":[{"id":"a"}],"val":[{"id":"b"}],"test":[{"id":"c"}]}"#;
    let hello = format!(
        r#"{{"id":0,"protocol":1,"name":"odd","mode":"rollout","initial_skill":"Be brief.","items":{items}}}"#
    );
    let script = format!(
        "while IFS= read -r line; do\n  case $line in\n  *'\"method\":\"hello\"'*)\n    {at_hello}\n    \
         echo '{hello}' ;;\n  *) {at_rollout} ;;\n  esac\ndone\n"
    );
    context.write("program.sh", &script);
    context.write("skillrl.toml", CONFIG);
    context.write("tmp/readme", "the temporary directory of this test");
    context
}

fn is_running(pid: &str) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    !matches!(state, Some("Z" | "X") | None)
}

#[track_caller]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

/// The directories of sessions in the temporary directory of a test.
fn sessions(context: &TestContext) -> Vec<std::path::PathBuf> {
    let base = format!("tmp/skillrl-{}", rustix::process::geteuid().as_raw());
    let entries = std::fs::read_dir(context.path(&base)).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn what_a_killed_process_leaves_is_gone_at_the_next_start() {
    let daemon = "setsid sleep 1000 </dev/null >/dev/null 2>&1 &";
    // One that stays though its standard input has ended, and one that has left its group.
    let at_rollout = format!("{daemon} echo \"$! $$\" > pids.new; mv pids.new pids; exec sleep 1000");
    let context = program("true", &at_rollout);
    let command = |args: &[&str]| {
        let mut command = context.command(args);
        command.env("TMPDIR", context.path("tmp")).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut train = command(&["train", "skillrl.toml", "--quiet"]).spawn().unwrap();
    wait_until("the program is asked for nothing", || context.path("pids").exists());
    let pids = context.read("pids");
    let pids: Vec<&str> = pids.split_whitespace().collect();
    train.kill().unwrap();
    train.wait().unwrap();
    assert!(pids.len() == 2 && pids.iter().all(|pid| is_running(pid)), "{pids:?}");
    // The directory with the skill, and the lock beside it.
    assert_eq!(sessions(&context).len(), 2);
    command(&["config", "show", "skillrl.toml"]).status().unwrap();
    for pid in pids {
        wait_until("a process is still there", || !is_running(pid));
    }
    assert_eq!(sessions(&context), Vec::<std::path::PathBuf>::new());
}

/// Gives a directory with all that is in it to a user.
fn give(path: &Path, user: u32) {
    std::os::unix::fs::lchown(path, Some(user), Some(user)).unwrap();
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), user);
        }
    }
}

/// Only root may read everything, so it is tried by somebody else.
#[test]
fn a_program_cannot_read_the_keys_of_the_process_that_started_it() {
    // Between it and the program that holds the key may be the one that ends what outlives its run.
    let at_hello = "read -r _ _ _ above _ < /proc/$PPID/stat; cat /proc/$PPID/environ > parent 2>/dev/null; \
                    cat /proc/$above/environ > above 2>/dev/null; cat /proc/$$/environ > own";
    let context = program(at_hello, "exit 0");
    let binary = copy_of_program(&context);
    if rustix::process::geteuid().is_root() {
        give(&context.path("."), NOBODY);
    }
    let run = |program: &Path, args: &[&str]| {
        let mut command = as_nobody(&context, program, args);
        command.env("TMPDIR", context.path("tmp")).env(KEY_VARIABLE, SECRET);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        ["parent", "above", "own"].map(|name| context.read(name))
    };
    // Started by a shell it can, so the rest says something.
    let asked = r#"echo '{"method":"hello"}' | sh program.sh; true"#;
    assert!(run(Path::new("sh"), &["-c", asked])[0].contains(SECRET));
    let [parent, above, own] = run(&binary, &["estimate", "skillrl.toml"]);
    assert!(own.contains("PATH=") && !own.contains(SECRET), "{own}");
    assert!(!parent.contains(SECRET), "{parent}");
    assert_eq!(above, "");
}

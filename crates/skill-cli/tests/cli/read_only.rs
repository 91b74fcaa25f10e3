//! Runs in directories that cannot be written: what only reads works there.

use crate::context::{Outcome, TestContext, code};
use crate::server::{self, Server};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A user who may do nothing, by convention.
pub(crate) const NOBODY: u32 = 65_534;

/// Lets everybody read and nobody write; root may write all the same, so commands run as somebody else.
fn protect(path: &Path) {
    let is_dir = path.is_dir();
    if is_dir {
        std::fs::read_dir(path).unwrap().for_each(|entry| protect(&entry.unwrap().path()));
    }
    let mode = if is_dir { 0o555 } else { 0o444 };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn unprotect(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    if path.is_dir() {
        std::fs::read_dir(path).unwrap().for_each(|entry| unprotect(&entry.unwrap().path()));
    }
}

/// A copy of the binary, since nobody may look into the directory of the build.
///
/// Another process writes it: a program that a thread of this one forks meanwhile would hold it open for writing, and
/// then it could not be started.
pub(crate) fn copy_of_program(context: &TestContext) -> PathBuf {
    let binary = context.path("skillrl");
    if !binary.exists() {
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_skillrl")).arg(&binary).status().unwrap();
        assert!(copied.success(), "{copied}");
    }
    binary
}

/// A program in the directory of a test, for root as nobody.
pub(crate) fn as_nobody(context: &TestContext, program: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(context.path("."));
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// Runs a command as somebody who may not write into `run`.
fn run(context: &TestContext, args: &[&str]) -> Outcome {
    Outcome::of(as_nobody(context, &copy_of_program(context), args).output().unwrap())
}

fn with_open_dir(context: &TestContext) {
    for dir in [".", "task"] {
        std::fs::set_permissions(context.path(dir), std::fs::Permissions::from_mode(0o777)).unwrap();
    }
}

#[test]
fn a_finished_run_is_read_and_replayed() {
    let context = TestContext::with_scripted_task();
    context.succeed(&["train", "task/skillrl.toml", "--quiet", "--set", "run.dir=run"]);
    with_open_dir(&context);
    protect(&context.path("run"));
    for args in [
        ["journal", "list", "run"].as_slice(),
        &["journal", "stats", "run"],
        &["status", "run"],
        &["show", "run"],
        &["check", "run"],
        &["replay", "run", "--into", "replayed", "--config", "task/skillrl.toml"],
    ] {
        run(&context, args).assert_code(code::SUCCESS);
    }
    let n_calls = run(&context, &["journal", "list", "run", "--json"]).stdout.lines().count();
    assert!(n_calls > 10, "{n_calls}");
    unprotect(&context.path("run"));
    assert!(!context.path("run/journal.sqlite-shm").exists(), "nothing was left beside it");
}

/// A killed process leaves commits in the log beside the journal, and the file that readers agree by.
#[test]
fn what_is_in_the_log_of_a_killed_run_is_read_or_refused_and_never_left_out() {
    let (server, context) = Server::start_with_task();
    let (from, to) = (context.path("run"), context.path("killed"));
    let half = 7;
    server.answer_with(move |call, request| {
        if call == half {
            std::fs::create_dir(&to).unwrap();
            for file in ["journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm", "config.json"] {
                std::fs::copy(from.join(file), to.join(file)).unwrap();
            }
        }
        server::healthy(request)
    });
    let args = ["train", "task/skillrl.toml", "--quiet", "--set", "run.workers=1", "--set", "run.dir=run"];
    context.succeed(&args);
    with_open_dir(&context);
    let n_listed = |outcome: Outcome| {
        outcome.assert_code(code::SUCCESS);
        outcome.stdout.lines().count()
    };
    context.copy_dir("killed", "written");
    let expect = n_listed(context.run(&["journal", "list", "written", "--json"]));
    assert!(expect >= 2, "{expect}");
    protect(&context.path("killed"));
    assert_eq!(n_listed(run(&context, &["journal", "list", "killed", "--json"])), expect);
    run(&context, &["journal", "stats", "killed"]).assert_code(code::SUCCESS);
    unprotect(&context.path("killed"));
    context.remove("killed/journal.sqlite-shm");
    protect(&context.path("killed"));
    run(&context, &["journal", "list", "killed"]).fails(code::RUN_DIR, &["-wal file"]);
    unprotect(&context.path("killed"));
}

//! Containers by a program in the place of the engine: what it is told to run, what becomes of that, and what is refused.
//!
//! A real engine runs the hostile programs of `tests/hostile.rs` where one is named.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use skill_sandbox::{
    Cancel, Choice, ContainerConfig, ExecutionResult, Input, Limiting, Limits, Outputs, Program, RunError,
    Sandbox, SandboxError, Termination,
};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;
use tempfile::TempDir;

/// Notes its words, and runs the command with the places of a container in a directory beside it.
///
/// Before the command it does what `engine.sh` says, such as ending as an engine does whose container was killed.
const ENGINE: &str = r#"#!/bin/sh
here=${0%/*}
if [ "$1" = kill ]; then
  echo "$2" >>"$here/killed"
  kill -9 "$(cat "$here/pid")"
  exit
fi
printf '%s\n' "$@" >>"$here/words"
root=$(mktemp -d "$here/root.XXXXXX")
cgroup=$root/sys/fs/cgroup
mkdir -p "$root/work" "$root/tmp" "$cgroup/memory" "$cgroup/pids"
while [ "$1" != image:1 ]; do
  if [ "$1" = --volume ]; then
    place=${2#*:}; place=${place%:ro}
    mkdir -p "$(dirname "$root$place")"
    cp "${2%%:*}" "$root$place"
  fi
  shift
done
script=$(printf '%s' "$4" | sed -E "s#(/sys/fs/cgroup|/work|/tmp|/unpack\.tar|/stdin)#$root\1#g")
shift 4
echo $$ >"$here/pid"
. "$here/engine.sh"
exec /bin/sh -c "$script" "$@"
"#;

/// An engine of this test, and what it does before a command.
fn engine(script: &str) -> (TempDir, ContainerConfig) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("engine");
    fs::write(&path, ENGINE).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(directory.path().join("engine.sh"), script).unwrap();
    let config = ContainerConfig {
        engine: path.display().to_string(),
        image: "image:1".to_owned(),
        runtime: Some("runsc".to_owned()),
        flags: vec!["--cpus".to_owned(), "1".to_owned()],
    };
    (directory, config)
}

fn shell(text: &str) -> Program {
    Program { outputs: Outputs::Named(vec!["out.txt".to_owned()]), ..Program::new(["/bin/sh", "-c", text]) }
}

/// The outcome of a program, before which the engine does this.
#[track_caller]
fn outcome(script: &str, program: &Program) -> ExecutionResult {
    let (directory, config) = engine("");
    let sandbox = Sandbox::open(&Choice::Container(config)).unwrap();
    fs::write(directory.path().join("engine.sh"), script).unwrap();
    sandbox.run(program, &Cancel::default()).unwrap()
}

#[test]
fn a_container_gets_the_limits_and_neither_network_nor_rights() {
    let (directory, config) = engine("");
    let sandbox = Sandbox::open(&Choice::Container(config)).unwrap();
    assert_eq!((sandbox.name(), sandbox.limiting()), ("image:1", Limiting::Engine));
    fs::remove_file(directory.path().join("words")).unwrap();
    let limits = Limits {
        memory: 1 << 28,
        processes: 10,
        cpu: Duration::from_secs(7),
        disk: 1001,
        temporary: 1002,
        file: 1003,
        open_files: 99,
        ..Limits::default()
    };
    let program = Program {
        limits,
        environment: vec![("LEVEL".to_owned(), "3".to_owned())],
        stdin: b"asked\n"[..].into(),
        ..shell("read line; cat data/in.txt kept.txt >out.txt; echo $line; echo told >&2")
    }
    .with_input("data/in.txt", Input::text("given "))
    .with_input("kept.txt", Input::Writable(b"and kept"[..].into()));
    let outcome = sandbox.run(&program, &Cancel::default()).unwrap();
    assert!(outcome.verdict.is_success(), "{outcome:?}");
    assert_eq!(outcome.file("out.txt"), Some(&b"given and kept"[..]));
    // A container has one stream for both, since its standard output carries the files.
    assert_eq!((outcome.stdout.text().as_str(), outcome.stderr.text().as_str()), ("", "asked\ntold\n"));
    let words = fs::read_to_string(directory.path().join("words")).unwrap();
    let words: Vec<&str> = words.lines().take_while(|word| *word != "image:1").collect();
    let value = |flag: &str| -> Vec<&str> {
        words.windows(2).filter(|pair| pair[0] == flag).map(|pair| pair[1]).collect()
    };
    assert_eq!(words[..3], ["run", "--rm", "-i"]);
    assert!(words.contains(&"--read-only"));
    for (flag, expect) in [
        ("--network", "none"),
        ("--log-driver", "none"),
        ("--cap-drop", "ALL"),
        ("--security-opt", "no-new-privileges"),
        ("--user", "65534:65534"),
        ("--memory", "268435456"),
        ("--memory-swap", "268435456"),
        ("--pids-limit", "16"),
        ("--shm-size", "16777216"),
        ("--runtime", "runsc"),
        ("--cpus", "1"),
    ] {
        assert_eq!(value(flag), [expect], "{flag}");
    }
    assert_eq!(value("--ulimit"), ["cpu=7:8", "fsize=1003:1003", "nofile=99:99", "core=0:0"]);
    assert_eq!(value("--tmpfs"), ["/tmp:size=1002,mode=1777", "/work:size=1001,mode=1777"]);
    assert_eq!(value("--env"), ["HOME=/tmp", "LEVEL=3"]);
    let volumes = value("--volume");
    assert!(volumes.iter().all(|volume| volume.ends_with(":ro")), "{volumes:?}");
    assert!(volumes.iter().any(|volume| volume.ends_with(":/work/data/in.txt:ro")), "{volumes:?}");
}

#[track_caller]
fn check(script: &str, text: &str, expect: Termination) {
    let limits = Limits { wall: Duration::from_secs(60), ..Limits::default() };
    let outcome = outcome(script, &Program { limits, ..shell(text) });
    assert_eq!(outcome.verdict, expect, "{script} {text}: {outcome:?}");
    assert!(expect.is_success() || outcome.files.is_empty() || matches!(expect, Termination::Exited { .. }));
}

#[test]
fn what_the_container_shows_decides_the_verdict() {
    let count = |file: &str, text: &str| format!("echo '{text}' >$cgroup/{file}");
    check("", "exit 3", Termination::Exited { code: 3 });
    check("", "kill -9 $$", Termination::Killed { signal: 9 });
    check("", "kill -25 $$", Termination::DiskFull);
    check("", "kill -24 $$", Termination::TimedOut);
    // A process of the container was killed for its memory, and the program went on or not.
    check(&count("memory.events", "oom_kill 1"), "kill -9 $$", Termination::OutOfMemory);
    check(&count("memory.events", "oom_kill 0"), "kill -9 $$", Termination::Killed { signal: 9 });
    check(&count("memory/memory.oom_control", "oom_kill 2"), "exit 1", Termination::OutOfMemory);
    check(&count("pids.events", "max 5"), "exit 1", Termination::TooManyProcesses);
    check(&count("pids/pids.events", "max 5"), "exit 1", Termination::TooManyProcesses);
}

#[test]
fn a_container_that_is_killed_as_a_whole_was_out_of_memory() {
    let killed = outcome("echo began; exit 137", &shell(""));
    assert_eq!(killed.verdict, Termination::OutOfMemory);
    let ended = outcome("echo began; exit 1", &shell(""));
    assert_eq!(ended.verdict, Termination::Killed { signal: 9 });
}

#[test]
fn a_container_is_killed_by_its_name_when_its_time_is_over() {
    let (directory, config) = engine("");
    let sandbox = Sandbox::open(&Choice::Container(config)).unwrap();
    fs::remove_file(directory.path().join("words")).unwrap();
    let limits = Limits { wall: Duration::from_millis(300), ..Limits::default() };
    let outcome = sandbox.run(&Program { limits, ..shell("exec sleep 1000") }, &Cancel::default()).unwrap();
    assert_eq!(outcome.verdict, Termination::TimedOut);
    let words = fs::read_to_string(directory.path().join("words")).unwrap();
    let name = words.lines().skip_while(|word| *word != "--name").nth(1).unwrap().to_owned();
    let killed = fs::read_to_string(directory.path().join("killed")).unwrap();
    assert_eq!(killed.trim(), name);
}

/// The process that was to kill the container waits for ever too.
#[test]
fn an_engine_that_does_not_answer_is_left() {
    let (directory, config) = engine("");
    let sandbox = Sandbox::open(&Choice::Container(config)).unwrap();
    let hanging = "rm \"$here/pid\"; mkfifo \"$here/pid\"; exec sleep 1000";
    fs::write(directory.path().join("engine.sh"), hanging).unwrap();
    let limits = Limits { wall: Duration::from_millis(300), ..Limits::default() };
    let failed = sandbox.run(&Program { limits, ..shell("exit 0") }, &Cancel::default());
    assert!(matches!(failed, Err(RunError::Setup { .. })), "{failed:?}");
}

#[test]
fn an_engine_that_cannot_run_a_program_is_refused() {
    let missing = ContainerConfig {
        engine: "/nowhere/docker".to_owned(),
        image: "image:1".to_owned(),
        runtime: None,
        flags: Vec::new(),
    };
    let open = |config: ContainerConfig| Sandbox::open(&Choice::Container(config)).unwrap_err();
    assert!(matches!(open(missing), SandboxError::Engine { engine, .. } if engine == "/nowhere/docker"));
    for script in [
        // No daemon, no image, no such runtime.
        "echo 'Cannot connect to the Docker daemon' >&2; exit 125",
        // An image without a shell.
        "echo 'exec: \"/bin/sh\": no such file' >&2; exit 127",
        // An image in which `/work` cannot be written to.
        "rm -r \"$root/work\"; echo >\"$root/work\"",
        // What is written does not come out.
        "rm \"$root/work/in.txt\"; mkdir \"$root/work/out.txt\"",
    ] {
        let (_directory, config) = engine(script);
        let error = open(config);
        assert!(matches!(&error, SandboxError::Engine { said, .. } if !said.is_empty()), "{error:?}");
        assert!(!error.hint().is_empty());
    }
    let (_directory, config) = engine(
        "echo 'WARNING: Your kernel does not support pids limit capabilities. PIDs limit discarded.' >&2",
    );
    assert!(matches!(open(config), SandboxError::NoProcessLimit { .. }));
    // An engine that stops working later is not the program's fault.
    let (directory, config) = engine("");
    let sandbox = Sandbox::open(&Choice::Container(config)).unwrap();
    fs::write(directory.path().join("engine.sh"), "echo 'no space' >&2; exit 125").unwrap();
    let failed = sandbox.run(&shell("exit 0"), &Cancel::default());
    assert!(matches!(failed, Err(RunError::Setup { said }) if said == "no space"));
}

//! Programs that mean harm, as root and as an ordinary user: each ends with its verdict and changes nothing.
//!
//! They need `bwrap`, Python and `sh`; `cargo xtask check sandbox` runs them.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and names the program")]
#![expect(clippy::print_stdout, reason = "a test says what it has not compared")]

use skill_sandbox::{
    Cancel, Choice, ContainerConfig, Input, Limiting, Limits, Outputs, Program, RunError, Sandbox,
    SandboxError,
};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// How many times as long programs may take; for emulated machines, such as one with another version of cgroups.
const PATIENCE: &str = "SKILLRL_SANDBOX_PATIENCE";

fn limits() -> Limits {
    let patience = std::env::var(PATIENCE).ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    Limits {
        wall: Duration::from_secs(6 * patience),
        cpu: Duration::from_secs(2 * patience),
        memory: 256 * MIB,
        processes: 32,
        disk: 16 * MIB,
        temporary: 8 * MIB,
        file: 12 * MIB,
        output: 12 * MIB,
        ..Limits::default()
    }
}

/// What a program is written in.
#[derive(Clone, Copy)]
enum In {
    Python,
    Shell,
}
use In::{Python, Shell};

/// Name, language, text, verdict; `CANARY` is a file that everybody may write, `PORT` a port that listens here, `PID` this
/// process.
const PROGRAMS: &[(&str, In, &str, &str)] = &[
    ("never ends", Python, "while True: pass", "timed_out"),
    ("sleeps", Python, "import time; time.sleep(1000)", "timed_out"),
    (
        "ignores the limit of its time",
        Python,
        "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass",
        "timed_out",
    ),
    ("waits for input", Shell, "cat; read line; sleep 1000", "timed_out"),
    ("takes memory", Python, "a = []\nwhile True: a.append(b'x' * 1000000)", "out_of_memory"),
    (
        "takes memory at once",
        Python,
        "a = bytearray(4 << 30)\nfor i in range(0, 4 << 30, 4096): a[i] = 1",
        "out_of_memory",
    ),
    (
        "takes memory in children",
        Python,
        "import os, time\nfor i in range(8):\n    if os.fork() == 0:\n        a = os.urandom(1 << 20) * 60\n        time.sleep(60)\ntime.sleep(60)",
        "out_of_memory",
    ),
    (
        "takes memory in files without a name",
        Python,
        "import os\nfds = []\ntry:\n    while True:\n        fds.append(os.memfd_create('x'))\n        for _ in range(8): os.write(fds[-1], b'x' * (1 << 20))\nexcept OSError: a = bytearray(1 << 30)",
        "out_of_memory",
    ),
    (
        "takes memory in segments that it lets go of",
        Python,
        "import ctypes\nc = ctypes.CDLL(None)\nc.shmat.restype = ctypes.c_void_p\nwhile True:\n    s = c.shmget(0, 64 << 20, 0o1600)\n    if s < 0: break\n    at = c.shmat(s, None, 0)\n    ctypes.memset(at, 1, 64 << 20)\n    c.shmdt(ctypes.c_void_p(at))\na = bytearray(1 << 30)",
        "out_of_memory",
    ),
    (
        "takes memory that children leave behind",
        Python,
        "import mmap, os, time\na = mmap.mmap(-1, 1 << 30)\nfor i in range(16):\n    if os.fork() == 0:\n        a[i << 26:(i + 1) << 26] = b'x' * (1 << 26)\n        os._exit(0)\n    os.wait()\ntime.sleep(60)",
        "out_of_memory",
    ),
    (
        "takes memory in sockets",
        Python,
        "import os, socket, time\nfor i in range(24):\n    if os.fork() == 0: break\npairs = []\ntry:\n    while True:\n        a, b = socket.socketpair()\n        pairs.append((a, b))\n        for s in (a, b):\n            s.setblocking(False)\n            try:\n                while True: s.send(b'x' * 65536)\n            except BlockingIOError: pass\nexcept OSError: time.sleep(60)",
        "out_of_memory",
    ),
    ("forks", Python, "import os\nwhile True: os.fork()", "too_many_processes"),
    ("forks in a shell", Shell, "bomb() { bomb | bomb & }; bomb; sleep 60", "too_many_processes"),
    (
        "starts threads",
        Python,
        "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(60,)).start()",
        "too_many_processes",
    ),
    (
        "forks and goes on",
        Python,
        "import os, time\nwhile True:\n    try:\n        if os.fork() == 0: time.sleep(60)\n    except OSError: time.sleep(0.01)",
        "too_many_processes",
    ),
    (
        "fills its disk",
        Shell,
        "for i in 1 2 3 4; do dd if=/dev/zero of=f$i bs=1M count=8 2>&1 || exit 1; done",
        "disk_full",
    ),
    (
        "fills its disk from Python",
        Python,
        "for i in range(10): open(str(i), 'wb').write(b'x' * (4 << 20))",
        "disk_full",
    ),
    ("writes a large file", Python, "open('f', 'wb').write(b'x' * (14 << 20))", "disk_full"),
    ("writes a large file by a program", Shell, "exec dd if=/dev/zero of=f bs=1M count=100", "disk_full"),
    (
        "fills /tmp",
        Python,
        "for i in range(10): open('/tmp/%d' % i, 'wb').write(b'x' * (2 << 20))",
        "disk_full",
    ),
    (
        "fills /dev/shm",
        Python,
        "for i in range(10): open('/dev/shm/%d' % i, 'wb').write(b'x' * (4 << 20))",
        "disk_full",
    ),
    (
        "prints 1 GB",
        Python,
        "import sys\nfor _ in range(1024): sys.stdout.write('x' * (1 << 20))",
        "exited 0",
    ),
    ("prints 1 GB of errors", Shell, "head -c 1000000000 /dev/zero >&2", "exited 0"),
    ("kills itself", Python, "import os; os.kill(os.getpid(), 9)", "killed"),
    ("kills itself late", Python, "import os, time; time.sleep(2.5); os.kill(os.getpid(), 9)", "killed"),
    ("crashes", Python, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "killed"),
    ("fails", Python, "raise SystemExit(7)", "exited 7"),
    ("signals its parent", Python, "import os\nfor s in (15, 9, 19): os.kill(os.getppid(), s)", "exited 0"),
    ("kills whatever it may", Shell, "trap '' TERM; kill -15 -1; kill -9 1; exit 5", "exited 5"),
    (
        "signals this process",
        Python,
        "import os\ntry: os.kill(PID, 9)\nexcept ProcessLookupError: raise SystemExit(3)",
        "exited 3",
    ),
    (
        "leaves a daemon",
        Python,
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(2)\n        open('CANARY', 'w').write('late')\n    os._exit(0)",
        "exited 0",
    ),
    ("deletes its input", Shell, "rm -f input.txt; [ -e input.txt ] && exit 4; exit 0", "exited 4"),
    ("changes its input", Python, "open('input.txt', 'w').write('changed')", "exited 1"),
    ("writes a file of everybody", Python, "open('CANARY', 'w').write('changed')", "exited 1"),
    (
        "reads a file of everybody",
        Python,
        "import os; raise SystemExit(6 if os.path.exists('CANARY') else 0)",
        "exited 0",
    ),
    (
        "reads homes and accounts",
        Shell,
        "for at in /root /home /etc/passwd /etc/shadow /sys /run /var /boot /mnt; do [ -e $at ] && exit 8; done; exit 0",
        "exited 0",
    ),
    (
        "reads the environment",
        Python,
        "import os; raise SystemExit(9 if set(os.environ) - {'PATH', 'HOME', 'LANG', 'PWD', 'LC_CTYPE', 'SHLVL', '_', 'OLDPWD'} else 0)",
        "exited 0",
    ),
    (
        "reads /proc of others",
        Python,
        "import os\npids = [p for p in os.listdir('/proc') if p.isdigit()]\nraise SystemExit(0 if len(pids) <= 6 else 10)",
        "exited 0",
    ),
    (
        "reads environments in /proc",
        Shell,
        "cat /proc/*/environ | tr '\\0' '\\n' | grep -q SKILLRL_SECRET_CANARY && exit 11; exit 0",
        "exited 0",
    ),
    (
        "writes settings of the kernel",
        Shell,
        "echo x > /proc/sys/kernel/core_pattern && exit 12; echo b > /proc/sysrq-trigger && exit 12; exit 0",
        "exited 0",
    ),
    (
        "connects to this machine",
        Python,
        "import socket\ntry: socket.create_connection(('127.0.0.1', PORT), 1)\nexcept OSError: raise SystemExit(0)\nraise SystemExit(13)",
        "exited 0",
    ),
    (
        "connects to the network",
        Python,
        "import socket\ntry: socket.create_connection(('1.1.1.1', 53), 1)\nexcept OSError: raise SystemExit(0)\nraise SystemExit(14)",
        "exited 0",
    ),
    (
        "asks for a name",
        Python,
        "import socket\ntry: socket.getaddrinfo('example.com', 80)\nexcept OSError: raise SystemExit(0)\nraise SystemExit(15)",
        "exited 0",
    ),
    (
        "listens on a port",
        Python,
        "import socket, time\ns = socket.socket(); s.bind(('0.0.0.0', 41731)); s.listen()\ntime.sleep(1)",
        "exited 0",
    ),
    (
        "writes to the system",
        Shell,
        "for at in / /etc /usr /dev /usr/bin; do touch $at/x 2>/dev/null && exit 16; done; exit 0",
        "exited 0",
    ),
    (
        "makes a namespace",
        Shell,
        "unshare -Ur true && exit 17; unshare -m true && exit 17; exit 0",
        "exited 0",
    ),
    ("mounts", Shell, "mount -t tmpfs none /tmp && exit 18; exit 0", "exited 0"),
    (
        "raises its limits",
        Python,
        "import resource\ntry: resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY,) * 2)\nexcept ValueError: raise SystemExit(0)\nraise SystemExit(19)",
        "exited 0",
    ),
    (
        "links its output out of the sandbox",
        Python,
        "import os; os.symlink('/etc/hostname', 'output.txt'); os.symlink('CANARY', 'other.txt')",
        "exited 0",
    ),
    ("makes its output a pipe", Python, "import os; os.mkfifo('output.txt')", "exited 0"),
    (
        "hands out more than it may",
        Python,
        "for name in ('output.txt', 'other.txt'): open(name, 'wb').truncate(11 << 20)",
        "disk_full",
    ),
    ("opens files without end", Python, "a = []\nwhile True: a.append(open('/dev/null'))", "exited 1"),
    ("makes many files", Shell, "i=0; while [ $i -lt 2000 ]; do : > f$i; i=$((i+1)); done", "exited 0"),
];

fn sandbox(limiting: Option<Limiting>) -> Sandbox {
    let choice = match limiting {
        None => Choice::Auto,
        limiting => Choice::Bubblewrap { path: "/usr/bin/bwrap".into(), limiting },
    };
    Sandbox::open(&choice).unwrap()
}

/// Runs all programs but those of these names.
fn run_all(sandbox: &Sandbox, left_out: &[&str]) {
    let programs: Vec<_> = PROGRAMS.iter().filter(|(name, ..)| !left_out.contains(name)).collect();
    assert_eq!(programs.len() + left_out.len(), PROGRAMS.len());
    let directory = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let canary = directory.path().join("canary");
    fs::write(&canary, "whole").unwrap();
    fs::set_permissions(&canary, fs::Permissions::from_mode(0o666)).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let work = || std::thread::available_parallelism().map_or(2, usize::from).min(4);
    let next = std::sync::atomic::AtomicUsize::new(0);
    let wrong = parking_lot::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..work() {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some((name, language, text, expect)) = programs.get(at) else { return };
                    let text = text
                        .replace("CANARY", &canary.display().to_string())
                        .replace("PORT", &port)
                        .replace("PID", &std::process::id().to_string());
                    let words = match language {
                        Python => ["/usr/bin/python3", "-Ic"],
                        Shell => ["/bin/sh", "-c"],
                    };
                    let program = Program {
                        outputs: Outputs::Named(vec!["output.txt".into(), "other.txt".into()]),
                        limits: limits(),
                        ..Program::new([words[0], words[1], &text])
                    }
                    .with_input("input.txt", Input::text("what it is given"));
                    let outcome = sandbox.run(&program, &Cancel::default()).unwrap();
                    let verdict = outcome.verdict;
                    let got = match verdict {
                        skill_sandbox::Termination::Exited { code } => format!("exited {code}"),
                        other => other.as_str().to_owned(),
                    };
                    if got != *expect || !outcome.files.is_empty() {
                        let said = outcome.stderr.text();
                        let said: String = said.chars().take(300).collect();
                        let n_files = outcome.files.len();
                        wrong.lock().push(format!(
                            "{name}: {got} after {:?}, expected {expect}; {n_files} files; {said}",
                            outcome.wall
                        ));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(fs::read_to_string(&canary).unwrap(), "whole");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    assert!(listener.accept().is_err(), "a program has reached a port of this machine");
    println!("{} programs by {}", programs.len(), sandbox.limiting().as_str());
}

#[test]
#[ignore = "needs bwrap and Python: cargo xtask check sandbox"]
fn hostile_programs_change_nothing() {
    run_all(&sandbox(None), &[]);
}

#[test]
#[ignore = "needs bwrap and Python: cargo xtask check sandbox"]
fn hostile_programs_change_nothing_without_a_cgroup() {
    run_all(&sandbox(Some(Limiting::Rlimits)), &[]);
}

#[test]
#[ignore = "needs bwrap and Python: cargo xtask check sandbox"]
fn files_without_content_count_as_memory() {
    let limits = Limits { memory: 32 * MIB, ..limits() };
    let text = "n = 0\nwhile True:\n    open('/tmp/%d' % n, 'w').close()\n    n += 1";
    let program = Program { limits, ..Program::new(["/usr/bin/python3", "-Ic", text]) };
    let outcome = sandbox(Some(Limiting::Rlimits)).run(&program, &Cancel::default()).unwrap();
    assert_eq!(outcome.verdict.as_str(), "out_of_memory", "{}", outcome.stderr.text());
}

/// The image of containers for the next test, with `sh`, `tar` and Python, and the program of the engine.
const IMAGE: &str = "SKILLRL_SANDBOX_IMAGE";
const ENGINE: &str = "SKILLRL_SANDBOX_ENGINE";

#[test]
#[ignore = "needs a container engine: SKILLRL_SANDBOX_IMAGE"]
fn hostile_programs_change_nothing_in_containers() {
    let Ok(image) = std::env::var(IMAGE) else {
        println!("not compared: {IMAGE} names no image");
        return;
    };
    let engine = std::env::var(ENGINE).unwrap_or_else(|_| "docker".to_owned());
    let config = ContainerConfig { engine, image, runtime: None, flags: Vec::new() };
    let sandbox = Sandbox::open(&Choice::Container(config)).unwrap();
    // An image has homes and accounts of its own, and an engine sets variables.
    run_all(&sandbox, &["reads homes and accounts", "reads the environment"]);
}

/// The first test once more, as a user without rights.
#[test]
#[ignore = "needs bwrap and Python: cargo xtask check sandbox"]
fn hostile_programs_change_nothing_as_an_ordinary_user() {
    if !rustix::process::geteuid().is_root() {
        println!("this is an ordinary user");
        return;
    }
    // Where the build lies, others may not read.
    let directory = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = directory.path().join("hostile");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let output = Command::new(&program)
        .args(["--exact", "hostile_programs_change_nothing", "--include-ignored", "--nocapture"])
        .env("TMPDIR", "/tmp")
        .env("SKILLRL_SECRET_CANARY", "secret")
        .current_dir("/")
        .uid(31_337)
        .gid(31_337)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains(&format!("{} programs by ", PROGRAMS.len())), "{said}");
}

#[test]
#[ignore = "needs bwrap and Python: cargo xtask check sandbox"]
fn files_go_in_and_come_out() {
    let sandbox = sandbox(None);
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "from a file").unwrap();
    let text = "import os, sys\nprint(open('data/a.txt').read(), open('b.txt').read())\n\
                open('c.txt', 'a').write(' and more')\nos.makedirs('deep/er'); open('deep/er/d.txt', 'w').write('d')\n\
                print(os.access('run.sh', os.X_OK), os.access(\"Bob's.txt\", os.X_OK))\n\
                os.remove('run.sh')\nsys.stderr.write('said')";
    let program = Program { outputs: Outputs::All, ..Program::new(["python3", "-c", text]) }
        .with_input("data/a.txt", Input::text("from bytes"))
        .with_input("b.txt", Input::File(file.path().to_owned()))
        .with_input("run.sh", Input::Executable(b"exit 0"[..].into()))
        .with_input("Bob's.txt", Input::Writable(b"his"[..].into()))
        .with_input("c.txt", Input::Writable(b"kept"[..].into()));
    let outcome = sandbox.run(&program, &Cancel::default()).unwrap();
    assert!(outcome.verdict.is_success(), "{outcome:?}");
    assert_eq!(outcome.stdout.text(), "from bytes from a file\nTrue False\n");
    assert_eq!(outcome.stderr.text(), "said");
    let files: Vec<(&str, &[u8])> =
        outcome.files.iter().map(|file| (file.name.as_str(), file.bytes.as_slice())).collect();
    assert_eq!(files, [("Bob's.txt", &b"his"[..]), ("c.txt", b"kept and more"), ("deep/er/d.txt", b"d")]);
}

#[test]
#[ignore = "needs bwrap and Python: cargo xtask check sandbox"]
fn a_program_starts_in_a_directory_that_it_may_read_and_reads_its_input() {
    let sandbox = sandbox(None);
    let directory = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(directory.path().join("score.sh"), "read line; echo \"got $line\"; touch x && exit 3; exit 0")
        .unwrap();
    let program = Program {
        readable: vec![directory.path().to_owned()],
        directory: Some(directory.path().to_owned()),
        stdin: b"the answer\n"[..].into(),
        ..Program::new(["sh", "score.sh"])
    };
    let outcome = sandbox.run(&program, &Cancel::default()).unwrap();
    assert!(outcome.verdict.is_success(), "{outcome:?}");
    assert_eq!(outcome.stdout.text(), "got the answer\n");
}

#[test]
#[ignore = "needs bwrap and Python: cargo xtask check sandbox"]
fn a_cancelled_program_is_gone_at_once() {
    let sandbox = sandbox(None);
    let cancel = Cancel::default();
    let ended = std::thread::scope(|scope| {
        let program = Program::new(["sleep", "1000"]);
        let running = scope.spawn({
            let (sandbox, cancel) = (sandbox.clone(), cancel.clone());
            move || sandbox.run(&program, &cancel)
        });
        cancel.cancel();
        running.join().unwrap()
    });
    assert!(matches!(ended, Err(RunError::Cancelled)), "{ended:?}");
}

/// The variable by which the test below tells its second process which program to run.
const KILLED_PROGRAM: &str = "SKILLRL_SANDBOX_KILLED";

/// Only does something where the test below starts it: a program that never ends.
#[test]
#[ignore = "needs bwrap and Python: cargo xtask check sandbox"]
fn a_program_of_a_process_that_is_killed() {
    let Some(mark) = std::env::var_os(KILLED_PROGRAM) else { return };
    let sandbox = sandbox(None);
    let limits = Limits { wall: Duration::from_secs(1000), ..limits() };
    let text = "echo began >&2; exec sleep \"$0\"";
    let program = Program {
        limits,
        ..Program::new(["/bin/sh".as_ref(), "-c".as_ref(), text.as_ref(), mark.as_os_str()])
    };
    drop(sandbox.run(&program.with_input("input.txt", Input::text("x")), &Cancel::default()));
}

/// Processes with this word among their arguments, and directories of this process: of cgroups and of inputs.
fn left_of(mark: &str, pid: u32) -> (usize, usize) {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let has_mark = |path: std::path::PathBuf| {
        let words = fs::read(path.join("cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())
    };
    let n_processes = entries.filter(|entry| has_mark(entry.path())).count();
    let mut directories = vec![std::path::PathBuf::from("/sys/fs/cgroup")];
    let mut n_cgroups = 0;
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(&format!("skillrl-sandbox-{pid}-")) {
                n_cgroups += 1;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                directories.push(entry.path());
            }
        }
    }
    (n_processes, n_cgroups)
}

/// At several moments of its start, and while it runs.
#[test]
#[ignore = "needs bwrap and Python: cargo xtask check sandbox"]
fn what_a_killed_process_ran_ends_and_the_next_one_removes_what_it_left() {
    let temporary = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(temporary.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for (number, delay_ms) in [0_u64, 5, 10, 20, 40, 80, 160, 500].into_iter().enumerate() {
        let mark = format!("{}.{}", 100_000 + number, std::process::id());
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_program_of_a_process_that_is_killed", "--include-ignored"])
            .env(KILLED_PROGRAM, &mark)
            .env("TMPDIR", temporary.path())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let pid = child.id();
        let began = Instant::now();
        // Until it stages its first program, then so much longer.
        let has_base = || fs::read_dir(temporary.path()).unwrap().next().is_some();
        while !has_base() || began.elapsed() < Duration::from_millis(delay_ms) {
            assert!(began.elapsed() < Duration::from_secs(30));
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let killed = Instant::now();
        while left_of(&mark, pid).0 > 0 {
            assert!(killed.elapsed() < Duration::from_secs(10), "a program outlives its caller");
        }
        // Another process of the same user.
        let next = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "files_go_in_and_come_out", "--include-ignored"])
            .env("TMPDIR", temporary.path())
            .output()
            .unwrap();
        assert!(next.status.success());
        assert_eq!(left_of(&mark, pid), (0, 0), "after {delay_ms} ms");
        assert!(!has_base(), "after {delay_ms} ms: directories are left");
    }
}

/// The machine that tests run on is busy, so the best of several counts; best and median are printed.
#[test]
#[ignore = "needs bwrap and Python: cargo xtask check sandbox"]
fn the_overhead_is_less_than_60_ms() {
    let sandbox = sandbox(None);
    let times = |run: &dyn Fn()| {
        let times = (0..60).map(|_| {
            let began = Instant::now();
            run();
            began.elapsed()
        });
        let mut times: Vec<Duration> = times.collect();
        times.sort();
        (times[0], times[times.len() / 2])
    };
    let program = Program {
        outputs: Outputs::Named(vec!["out".into()]),
        ..Program::new(["/bin/sh", "-c", "echo 1 > out"])
    }
    .with_input("input.txt", Input::text("what it is given"));
    let inside = times(&|| {
        let outcome = sandbox.run(&program, &Cancel::default()).unwrap();
        assert_eq!(outcome.file("out"), Some(&b"1\n"[..]));
    });
    let directly =
        times(&|| drop(Command::new("/bin/sh").args(["-c", "echo 1 > /dev/null"]).output().unwrap()));
    println!("best and median: {inside:?} in the sandbox, {directly:?} directly");
    assert!(inside.0 < directly.0 + Duration::from_millis(60), "{inside:?} against {directly:?}");
}

/// A program in the place of `bwrap` that says what the kernel, or an old version, would have it say.
#[track_caller]
fn check_refusal(script: &str, expect: fn(&SandboxError) -> bool) {
    let directory = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let path = directory.path().join("bwrap");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let error = Sandbox::open(&Choice::Bubblewrap { path, limiting: None }).unwrap_err();
    assert!(expect(&error), "{error:?}");
}

#[test]
fn a_refusal_says_of_which_kind_it_is() {
    check_refusal(
        "echo 'bwrap: No permissions to create new namespace' >&2; exit 1",
        |error| matches!(error, SandboxError::Refused { said } if said.contains("No permissions")),
    );
    check_refusal("echo 'bwrap: Unknown option --disable-userns' >&2; exit 1", |error| {
        matches!(error, SandboxError::BwrapTooOld { .. })
    });
    let missing = Choice::Bubblewrap { path: Path::new("/nowhere/bwrap").into(), limiting: None };
    assert!(matches!(Sandbox::open(&missing), Err(SandboxError::BwrapMissing)));
    // It starts the program outside of everything and without `prlimit`.
    check_refusal(
        "while [ \"$1\" != /bin/sh ]; do shift; done; cd /tmp; PATH=/nowhere exec \"$@\"",
        |error| matches!(error, SandboxError::NoProcessLimit { .. }),
    );
    // A program that is none of ours, or half of one.
    for script in ["exit 0", "exit 3", "echo 'error while loading shared libraries' >&2; exit 127"] {
        check_refusal(
            script,
            |error| matches!(error, SandboxError::Try(RunError::Setup { said }) if !said.is_empty()),
        );
    }
}

#[test]
fn without_a_sandbox_a_program_runs_as_this_user() {
    let sandbox = Sandbox::open(&Choice::Off).unwrap();
    assert_eq!(sandbox.limiting(), Limiting::Nothing);
    let program = Program {
        outputs: Outputs::All,
        limits: limits(),
        ..Program::new(["/bin/sh", "-c", "cat input.txt >output.txt; echo said"])
    }
    .with_input("input.txt", Input::text("text"));
    let outcome = sandbox.run(&program, &Cancel::default()).unwrap();
    assert_eq!((outcome.file("output.txt"), outcome.stdout.text().as_str()), (Some(&b"text"[..]), "said\n"));
    let program = Program {
        limits: Limits { wall: Duration::from_millis(100), ..limits() },
        ..Program::new(["sleep", "60"])
    };
    let outcome = sandbox.run(&program, &Cancel::default()).unwrap();
    assert_eq!(outcome.verdict, skill_sandbox::Termination::TimedOut);
}

//! Runs, measurements and banks that earlier versions wrote are shown, checked and, where allowed, resumed.
//!
//! `tests/data/earlier-runs/` holds a directory for each version, named by the commit of the program that wrote it; its
//! `README.md` has the commands. What is written there never changes; what today's program makes of it is in the tables
//! below.

use crate::all_files::all_files;
use crate::context::{TestContext, code};
use std::path::{Path, PathBuf};

/// The program of this commit wrote the files.
const VERSION: &str = "9603ae2c";

/// A thing that was written, and how the commands that look at it end.
struct Written {
    path: &'static str,
    /// `status`, `report`, `show` and `check`.
    codes: [i32; 4],
}

const fn written(path: &'static str, codes: [i32; 4]) -> Written {
    Written { path, codes }
}

/// A run that every command opens.
const RUN: [i32; 4] = [code::SUCCESS; 4];
/// A bank is no run.
const BANK: [i32; 4] = [code::RUN_DIR, code::USAGE, code::SUCCESS, code::USAGE];
/// A directory of `eval --out`, which is checked and compared with.
const MEASUREMENT: [i32; 4] = [code::RUN_DIR, code::RUN_DIR, code::RUN_DIR, code::SUCCESS];

const WRITTEN: &[Written] = &[
    written("document-paper", RUN),
    written("document-paper-half", RUN),
    written("document-auto", RUN),
    written("document-auto-half", RUN),
    written("bank", RUN),
    written("bank-half", RUN),
    written("triggers", RUN),
    written("triggers-half", RUN),
    written("descriptions", RUN),
    written("descriptions-half", RUN),
    written("measurement", MEASUREMENT),
    written("measurement-bank", MEASUREMENT),
    written("distilled", BANK),
    written("bank-unmeasured", BANK),
];

/// Command lines that resume what was written, and how they end. A format that a version gives up is refused with
/// `code::OTHER_RUN`, and a measurement of it with `code::USAGE`: that is one changed word here.
const RESUMED: &[(&str, i32)] = &[
    ("train task/skillrl.toml --quiet --set run.dir=document-paper", code::OTHER_RUN),
    ("train task/skillrl.toml --quiet --set run.dir=document-paper-half", code::OTHER_RUN),
    (
        "train demo/skillrl.toml --quiet --set train.protocol=auto --set train.epochs=1 --set budget.calls=90 \
         --set run.dir=document-auto",
        code::OTHER_RUN,
    ),
    (
        "train demo/skillrl.toml --quiet --set train.protocol=auto --set train.epochs=1 --set budget.calls=90 \
         --set run.dir=document-auto-half",
        code::OTHER_RUN,
    ),
    (
        "train household.toml --quiet --set train.mode=bank --set evolution.rounds=1 --set evolution.max_trials=1 \
         --set evolution.max_trial_rollouts=16",
        code::OTHER_RUN,
    ),
    (
        "train household.toml --quiet --set train.mode=bank --set evolution.rounds=1 --set evolution.max_trials=1 \
         --set evolution.max_trial_rollouts=16 --set run.dir=bank-half",
        code::OTHER_RUN,
    ),
    ("eval task/skillrl.toml --skill task/skill.md --out measurement --json", code::USAGE),
    ("eval household.toml --bank bank-unmeasured --split val --out measurement-bank --json", code::USAGE),
    ("eval task/skillrl.toml --skill task/skill.md --against measurement --json", code::USAGE),
];

/// The same of runs of a coding agent, which is a shell script here.
#[cfg(unix)]
const RESUMED_AGENTS: &[(&str, i32)] = &[
    ("skill triggers agent/my-skill --dir triggers", code::SUCCESS),
    ("skill triggers agent/my-skill --dir triggers-half", code::SUCCESS),
    ("train agent/plain/my-skill --only description --dir descriptions", code::SUCCESS),
    ("train agent/plain/my-skill --only description --dir descriptions-half", code::SUCCESS),
];

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/earlier-runs").join(VERSION)
}

fn context() -> TestContext {
    let context = TestContext::new();
    context.copy_from(&root());
    context
}

#[test]
fn what_earlier_versions_wrote_is_opened() {
    let context = context();
    for Written { path, codes } in WRITTEN {
        for (command, expect) in ["status", "report", "show"].into_iter().zip(codes) {
            let outcome = context.run(&[command, path]);
            assert_eq!(outcome.code, Some(*expect), "{command} {path}: {}", outcome.stderr);
        }
    }
}

#[test]
fn what_earlier_versions_wrote_is_whole() {
    let context = context();
    for Written { path, codes: [.., expect] } in WRITTEN {
        let outcome = context.run(&["check", path]);
        assert_eq!(outcome.code, Some(*expect), "{path}: {}{}", outcome.stdout, outcome.stderr);
    }
}

#[test]
fn what_earlier_versions_wrote_is_resumed() {
    let context = context();
    for (line, expect) in RESUMED {
        let outcome = context.run(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(outcome.code, Some(*expect), "{line}: {}", outcome.stderr);
    }
}

#[cfg(unix)]
#[test]
fn what_earlier_versions_started_with_an_agent_is_resumed() {
    use std::os::unix::fs::PermissionsExt as _;
    let context = context();
    let program = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(context.path("agent/pi.sh"), program).unwrap();
    let agent = "--agent pi --program agent/pi.sh --runs 1 --queries agent/queries.jsonl --json";
    for (line, expect) in RESUMED_AGENTS {
        let outcome = context.run(&format!("{line} {agent}").split_whitespace().collect::<Vec<_>>());
        assert_eq!(outcome.code, Some(*expect), "{line}: {}", outcome.stderr);
    }
}

/// Where the files were written means nothing elsewhere.
#[test]
fn files_of_earlier_versions_hold_no_place_of_the_machine_that_wrote_them() {
    let files = all_files(&root());
    assert!(files.len() > 200, "{}", files.len());
    for (path, bytes) in files {
        for place in ["/tmp/", "/root/", "/home/", "/work/", "/Users/"] {
            let holds = bytes.windows(place.len()).any(|part| part == place.as_bytes());
            assert!(!holds, "{path} holds {place}");
        }
    }
}

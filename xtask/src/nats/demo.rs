//! The demo by workers against the demo in one process, and how soon a worker ends after it.

use super::scene::{Scene, wait};
use anyhow::{Context as _, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use xshell::{Shell, cmd};

/// Rollouts of the worker at a time.
const SLOTS: [u32; 4] = [1, 4, 16, 64];
/// The longest time of the demo by workers, as a multiple of its time in one process.
const MOST_TIMES: f64 = 2.0;
/// The longest time in which an idle worker ends after SIGTERM.
const END: Duration = Duration::from_secs(2);

pub(super) fn run(sh: &Shell, scene: &Scene) -> anyhow::Result<()> {
    cmd!(sh, "cargo build --quiet --release --package skill-cli --bin skillrl --features nats").run()?;
    let program = crate::built(sh, "release", "skillrl");
    let server = scene.server("demo", "")?;
    let url = server.url();
    let place = scene.place("demo")?;
    let alone = demo(&program, place.join("alone"), None)?;
    eprintln!("demo in one process: {:.2} s", alone.as_secs_f64());
    for slots in SLOTS {
        let slots_text = slots.to_string();
        let mut worker = Command::new(&program)
            .args(["worker", "--quiet", "--nats", &url, "--workers", &slots_text])
            .stdin(Stdio::null())
            .spawn()
            .context("the worker cannot be started")?;
        let took = demo(&program, place.join(&slots_text), Some(&url))?;
        let begun = Instant::now();
        let pid = worker.id().to_string();
        cmd!(sh, "kill -TERM {pid}").quiet().run()?;
        wait(&mut worker, END)?;
        let times = took.as_secs_f64() / alone.as_secs_f64();
        eprintln!(
            "demo with {slots} slots: {:.2} s, {times:.2} of one process; the worker ended after {:.2} s",
            took.as_secs_f64(),
            begun.elapsed().as_secs_f64(),
        );
        ensure!(times <= MOST_TIMES, "{slots} slots take {times:.2} times as long as one process");
        same_files(&place.join("alone"), &place.join(&slots_text))?;
    }
    Ok(())
}

/// How long a demo takes.
fn demo(program: &Path, out: PathBuf, broker: Option<&str>) -> anyhow::Result<Duration> {
    let mut command = Command::new(program);
    command
        .arg("demo")
        .arg("--out")
        .arg(out)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if let Some(url) = broker {
        command.args(["--set", "run.runner=nats", "--set", &format!("run.nats.url={url}")]);
    }
    let begun = Instant::now();
    ensure!(command.status()?.success(), "the demo failed");
    Ok(begun.elapsed())
}

/// Both runs have the same best skill and history.
fn same_files(one: &Path, other: &Path) -> anyhow::Result<()> {
    for name in ["best_skill.md", "history.json"] {
        let [one, other] = [one, other].map(|run| fs::read(run.join("run").join(name)));
        ensure!(one? == other?, "{name} differs");
    }
    Ok(())
}

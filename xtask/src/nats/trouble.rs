//! A broker that is full for a while, and one that somebody floods with nonsense.

use super::scene::{Guarded, Scene, Streams, log_of};
use anyhow::{Context as _, ensure};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use xshell::Shell;

/// Room for no job.
const NO_ROOM: Streams = Streams::Limited(64);
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn run(sh: &Shell, scene: &Scene) -> anyhow::Result<()> {
    full(scene)?;
    flooded(sh, scene)
}

/// A run waits until the broker has room, and says so.
fn full(scene: &Scene) -> anyhow::Result<()> {
    let place = scene.place("full")?;
    let mut server = scene.server_with("full", NO_ROOM, "")?;
    let url = server.url();
    let _worker = Guarded(scene.worker(&place, &url, &[], &[])?);
    let mut driver = Guarded(scene.train(&place, Some(&url), &[])?);
    let begun = Instant::now();
    while trouble_of(&place).is_none() {
        ensure!(begun.elapsed() < PATIENCE, "nobody says that the broker is full");
        ensure!(driver.0.try_wait()?.is_none(), "the run has ended: {}", log_of(&place, "driver"));
        sleep(Duration::from_millis(100));
    }
    server.kill()?;
    server.set_streams(Streams::Unlimited)?;
    server.restart(true)?;
    scene.end(&place, &mut driver.0)?;
    scene.compare(&place)?;
    let n_requests = scene.requests()?;
    ensure!(n_requests == scene.n_requests, "{n_requests} requests, and not {}", scene.n_requests);
    eprintln!("a broker without room was waited for: the same files and requests");
    Ok(())
}

/// What those who look at the run are told.
fn trouble_of(place: &Path) -> Option<String> {
    let live: Value = serde_json::from_str(&fs::read_to_string(place.join("run/live.json")).ok()?).ok()?;
    Some(live.get("trouble")?.as_str()?.to_owned())
}

/// 10,000 messages a second that nobody understands change nothing.
fn flooded(sh: &Shell, scene: &Scene) -> anyhow::Result<()> {
    let measure = super::measure(sh, super::Profile::Dev)?;
    let place = scene.place("flooded")?;
    let server = scene.server("flooded", "")?;
    let url = server.url();
    let flood = Command::new(measure).args([&url, "flood"]).stdout(Stdio::null()).spawn();
    let mut flood = Guarded(flood.context("the flood cannot be started")?);
    let _worker = Guarded(scene.worker(&place, &url, &[], &[])?);
    let mut driver = Guarded(scene.train(&place, Some(&url), &[])?);
    scene.end(&place, &mut driver.0)?;
    ensure!(flood.0.try_wait()?.is_none(), "the flood has ended before the run");
    scene.compare(&place)?;
    let n_requests = scene.requests()?;
    ensure!(n_requests == scene.n_requests, "{n_requests} requests, and not {}", scene.n_requests);
    eprintln!("10,000 messages a second from nobody: the same files and requests");
    Ok(())
}

//! Rollouts on several machines over a real server of NATS: rounds of kills, logins, a partition, and how fast it is.
//!
//! A mock server plays the models and counts requests, so that a call that is paid twice is seen.

mod demo;
mod partition;
mod rounds;
mod scene;
mod security;
mod trouble;

use crate::ci::step;
use anyhow::{Context as _, ensure};
use scene::Scene;
use std::path::PathBuf;
use xshell::{Shell, cmd};

/// The variable with the number of rounds.
pub(crate) const ROUNDS: &str = "SKILLRL_NATS_ROUNDS";
/// The share of linear that 2, 4 and 8 workers have to reach.
const LINEAR: f64 = 0.9;
/// Jobs per second that have to pass.
const JOBS_PER_SECOND: f64 = 1500.0;

/// Everything; about an hour.
pub(crate) fn check(sh: &Shell) -> anyhow::Result<()> {
    let features = ["--features", "skillrl/nats-client,skill-cli/nats,skill-nats/client"];
    let packages = ["--package", "skill-nats", "--package", "skillrl", "--package", "skill-cli"];
    step("nats: lints", || {
        Ok(cmd!(sh, "cargo clippy {packages...} {features...} --all-targets -- -D warnings").run()?)
    })?;
    let scene = prepare(sh)?;
    step("nats: rounds", || rounds::run(&scene, rounds_asked(sh, 100)?))?;
    step("nats: logins", || security::run(sh, &scene))?;
    step("nats: trouble", || trouble::run(sh, &scene))?;
    step("nats: speed", || speed(sh, &scene))?;
    step("nats: demo", || demo::run(sh, &scene))?;
    step("nats: partition", || partition::run(sh, &scene))
}

/// What CI runs.
pub(crate) fn check_briefly(sh: &Shell) -> anyhow::Result<()> {
    // No other part of CI compiles the client of the broker.
    let sh = &crate::ci::linting(sh)?;
    let scene = prepare(sh)?;
    step("nats: rounds", || rounds::run(&scene, rounds_asked(sh, 3)?))?;
    step("nats: logins", || security::run(sh, &scene))
}

fn rounds_asked(sh: &Shell, default: u64) -> anyhow::Result<u64> {
    match sh.var(ROUNDS) {
        Ok(rounds) => rounds.parse().with_context(|| format!("{ROUNDS} is not a number: {rounds}")),
        Err(_) => Ok(default),
    }
}

/// Builds the programs and makes the run that all others are compared with.
fn prepare(sh: &Shell) -> anyhow::Result<Scene> {
    cmd!(sh, "nats-server --version")
        .run()
        .context("this check needs `nats-server` (apt-get install nats-server)")?;
    crate::workspace::build_full(sh)?;
    let dir = sh.current_dir().join("target/nats-check");
    sh.remove_path(&dir)?;
    sh.create_dir(&dir)?;
    // Copies: another build of the program may replace it meanwhile.
    for name in ["skillrl", "skillrl-bench"] {
        sh.copy_file(crate::built(sh, "debug", name), &dir)?;
    }
    let [skillrl, mock] = ["skillrl", "skillrl-bench"].map(|name| dir.join(name));
    Scene::new(dir, skillrl, mock)
}

/// How a program is compiled.
#[derive(Clone, Copy)]
enum Profile {
    Dev,
    Release,
}

/// The example of skill-nats that needs the client.
fn measure(sh: &Shell, profile: Profile) -> anyhow::Result<PathBuf> {
    let (name, dir) = match profile {
        Profile::Dev => ("dev", "debug/examples"),
        Profile::Release => ("release", "release/examples"),
    };
    let which = ["--package", "skill-nats", "--features", "client", "--example", "measure"];
    cmd!(sh, "cargo build --quiet --profile {name} {which...}").run()?;
    Ok(crate::built(sh, dir, "measure"))
}

fn speed(sh: &Shell, scene: &Scene) -> anyhow::Result<()> {
    let measure = measure(sh, Profile::Release)?;
    let server = scene.server("speed", "")?;
    let url = server.url();
    let linear = cmd!(sh, "{measure} {url} linear").read()?;
    eprintln!("{linear}");
    for line in linear.lines() {
        let share = line.rsplit_once(", ").and_then(|(_, share)| share.split_once(' '));
        let share: f64 = share.context("no share was printed")?.0.parse()?;
        ensure!(share >= LINEAR, "less than {LINEAR} of linear: {line}");
    }
    let jobs = cmd!(sh, "{measure} {url} jobs").read()?;
    eprintln!("{jobs}");
    let rate: f64 = jobs.split_once(' ').context("no rate was printed")?.0.parse()?;
    ensure!(rate >= JOBS_PER_SECOND, "fewer than {JOBS_PER_SECOND} jobs per second: {jobs}");
    Ok(())
}

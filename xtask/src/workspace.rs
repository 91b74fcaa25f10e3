//! The build that tests, doctests, lints and pages share.

use anyhow::Context as _;
use serde_json::Value;
use xshell::{Shell, cmd};

/// Features that bring crates of minutes, or need hardware or Python: `cargo xtask check full`, `check weights` and
/// `check wheel` build those that they can, and `check nats` the client of a broker.
const HEAVY: [&str; 12] = [
    "candle",
    "client",
    "cuda",
    "extension",
    "full",
    "metal",
    "nats",
    "nats-client",
    "parquet",
    "server",
    "tokenizer",
    "weights",
];

/// Features that take hardware, and a compiler for it.
const HARDWARE: [&str; 2] = ["cuda", "metal"];

/// Rollouts on several machines, without the client of a broker.
const LIGHT: [(&str, &str); 1] = [("skillrl", "nats")];

/// The words that make cargo build every crate with every feature that is not heavy.
pub(crate) fn as_tested(sh: &Shell) -> anyhow::Result<Vec<String>> {
    Ok(vec!["--workspace".to_owned(), format!("--features={}", light_features(sh)?.join(","))])
}

/// The full program with its tests and the bench. The features of the tests are among them, so whoever builds just this
/// shares one build with the others.
pub(crate) const FULL: [&str; 3] =
    ["--package=skill-cli", "--package=skillrl-bench", "--features=skill-cli/full"];

/// Builds the full program and the bench as `cargo xtask check full` does.
pub(crate) fn build_full(sh: &Shell) -> anyhow::Result<()> {
    Ok(cmd!(sh, "cargo build --quiet {FULL...} --bin skillrl --bin skillrl-bench --test cli").run()?)
}

/// `crate/feature` for each feature that is not heavy, in the order of the crates.
pub(crate) fn light_features(sh: &Shell) -> anyhow::Result<Vec<String>> {
    let is_heavy =
        |(name, feature): (&str, &str)| HEAVY.contains(&feature) && !LIGHT.contains(&(name, feature));
    features(sh, |of| !is_heavy(of))
}

/// `crate/feature` for each feature of a crate that builds on every machine.
pub(crate) fn portable_features(sh: &Shell, package: &str) -> anyhow::Result<Vec<String>> {
    features(sh, |(name, feature)| name == package && !HARDWARE.contains(&feature))
}

/// `crate/feature` for each pair of a crate and a feature that is wanted, in the order of the crates.
fn features(sh: &Shell, is_wanted: impl Fn((&str, &str)) -> bool) -> anyhow::Result<Vec<String>> {
    let described = cmd!(sh, "cargo metadata --format-version 1 --no-deps").quiet().read()?;
    let described: Value =
        serde_json::from_str(&described).context("cargo metadata printed something else")?;
    let packages =
        described.get("packages").and_then(Value::as_array).context("cargo metadata names no packages")?;
    let mut found = Vec::new();
    for package in packages {
        let name = package
            .get("name")
            .and_then(Value::as_str)
            .context("cargo metadata has a package without a name")?;
        let features = package.get("features").and_then(Value::as_object).into_iter().flatten();
        let wanted = features.filter(|(feature, _)| is_wanted((name, feature)));
        found.extend(wanted.map(|(feature, _)| format!("{name}/{feature}")));
    }
    Ok(found)
}

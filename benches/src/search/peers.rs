//! Other systems in the same worlds, where their packages are installed.

use crate::search::arm::Outcome;
use crate::search::world::{Family, Sizes};
use serde::Deserialize;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// The program that runs them; it asks a world for every reply.
const SCRIPT: &str = include_str!("../../python/peers/peer.py");

/// A row that the script prints.
#[derive(Debug, Deserialize)]
struct Row {
    family: String,
    seed: u64,
    #[serde(flatten)]
    outcome: Outcome,
}

/// What one process of the script is to run.
#[derive(Debug, Clone)]
pub struct Jobs<'a> {
    /// `gepa` or `skillrl1`.
    pub system: &'a str,
    /// The families.
    pub families: &'a [Family],
    /// The seeds of each.
    pub seeds: std::ops::Range<u64>,
    /// The sizes of the splits.
    pub sizes: Sizes,
    /// Calls of both models after which a run begins nothing new; the system's own number of steps otherwise.
    pub calls: u64,
}

/// Runs the jobs with a Python; one outcome for each family and seed.
///
/// # Errors
///
/// A Python that cannot be started, or whose script fails: it says why on the standard error.
pub fn run(python: &Path, server: &Path, jobs: &Jobs<'_>) -> io::Result<Vec<(Family, u64, Outcome)>> {
    let script = tempfile::Builder::new().suffix(".py").tempfile()?;
    std::fs::write(script.path(), SCRIPT)?;
    let families: Vec<&str> = jobs.families.iter().map(|family| family.as_str()).collect();
    let Sizes { train, val, test } = jobs.sizes;
    let output = Command::new(python)
        .arg(script.path())
        .arg(server)
        .args([jobs.system, &families.join(",")])
        .args([jobs.seeds.start, jobs.seeds.end, jobs.calls].map(|number| number.to_string()))
        .args([train, val, test].map(|number| number.to_string()))
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("the peer {} ended with {}", jobs.system, output.status)));
    }
    let rows = String::from_utf8_lossy(&output.stdout);
    rows.lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| {
            let Row { family, seed, outcome } = serde_json::from_str(line)?;
            let family =
                Family::parse(&family).ok_or_else(|| io::Error::other(format!("no family {family}")))?;
            Ok((family, seed, outcome))
        })
        .collect()
}

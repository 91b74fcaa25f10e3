//! The crates that a package brings with it, as cargo knows them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

/// The normal dependencies of a package, transitively, and the package itself; `features` are arguments for cargo, such
/// as `--all-features`, and none selects the default features.
pub(crate) fn dependencies(package: &str, features: &[&str]) -> Vec<String> {
    let tree = |is_offline: &[&str]| {
        Command::new(env!("CARGO"))
            .args(["tree", "--package", package, "--edges", "normal", "--prefix", "none"])
            .args(["--format", "{p}"])
            .args(features)
            .args(is_offline)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap()
    };
    // A build that has just run has everything that this needs; one without a lock file may have to look it up.
    let mut output = tree(&["--offline"]);
    if !output.status.success() {
        output = tree(&[]);
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

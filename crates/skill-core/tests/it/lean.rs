//! The core stays lean: nothing in its dependencies can await or open a connection.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

/// Crates that bring a runtime or the network, and the families that they come in.
const BANNED: [&str; 24] = [
    "actix",
    "async",
    "curl",
    "embassy",
    "futures",
    "h2",
    "h3",
    "http",
    "hyper",
    "isahc",
    "mio",
    "native-tls",
    "openssl",
    "polling",
    "quinn",
    "reqwest",
    "rustls",
    "smol",
    "socket2",
    "surf",
    "tokio",
    "tower",
    "tungstenite",
    "ureq",
];

/// The normal dependencies of this crate, transitively, and the crate itself.
fn dependencies() -> Vec<String> {
    let tree = |is_offline: &[&str]| {
        Command::new(env!("CARGO"))
            .args(["tree", "--package", env!("CARGO_PKG_NAME"), "--edges", "normal", "--prefix", "none"])
            .args(["--no-dedupe", "--format", "{p}"])
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
    let mut names: Vec<String> =
        lines.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn is_banned(name: &str) -> bool {
    BANNED.iter().any(|banned| {
        name.strip_prefix(banned).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_', 's']))
    })
}

#[test]
fn the_core_has_no_runtime_and_no_network() {
    let names = dependencies();
    assert!(names.iter().any(|name| name == "skill-core"), "{names:?}");
    assert!(names.iter().any(|name| name == "serde_json"), "{names:?}");
    let banned: Vec<&String> = names.iter().filter(|name| is_banned(name)).collect();
    assert!(banned.is_empty(), "skill-core depends on {banned:?}");
}

#[test]
fn the_ban_covers_families_and_nothing_else() {
    for name in
        ["tokio", "tokio-util", "reqwest", "async-trait", "async_std", "futures-core", "hyper", "https", "h2"]
    {
        assert!(is_banned(name), "{name}");
    }
    for name in ["serde", "sha2", "memchr", "hybrid-array", "httparse", "h264", "towering"] {
        assert!(!is_banned(name), "{name}");
    }
}

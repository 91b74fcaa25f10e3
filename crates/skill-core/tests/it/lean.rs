//! The core stays lean: nothing in its dependencies can await or open a connection.

use crate::dependencies::dependencies;

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

fn is_banned(name: &str) -> bool {
    BANNED.iter().any(|banned| {
        name.strip_prefix(banned).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_', 's']))
    })
}

#[test]
fn the_core_has_no_runtime_and_no_network() {
    let names = dependencies("skill-core", &["--all-features"]);
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

//! The server on loopback, asked by a client that knows nothing but HTTP.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod access;
mod banks;
mod client;
mod damage;
mod live;
mod notes;
mod pages;
#[path = "../../../skill-mcp/tests/mcp/runs.rs"]
mod runs;
mod site;

/// What models and data say in these tests: a page that renders it runs it.
const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&lt;b&gt;";

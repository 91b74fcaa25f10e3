//! Tests of skill banks.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests say what they expect"
)]

mod format;
mod log;

use std::path::PathBuf;

/// The folder of recorded data; without the variable these tests have nothing to compare with, and say so.
fn conformance() -> Option<PathBuf> {
    let folder = std::env::var_os("SKILLRL_CONFORMANCE").map(|root| PathBuf::from(root).join("skillbank"));
    if folder.is_none() {
        println!("SKILLRL_CONFORMANCE is not set: nothing is compared with recorded data");
    }
    folder
}

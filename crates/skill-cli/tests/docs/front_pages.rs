//! Every crate that can be taken alone says for whom it is, and shows how in an example that is compiled.

use crate::markdown::root;

#[test]
fn every_crate_says_who_should_depend_on_it() {
    let (mut failures, mut n_crates) = (Vec::new(), 0);
    for entry in std::fs::read_dir(root().join("crates")).unwrap().map(Result::unwrap) {
        let manifest = std::fs::read_to_string(entry.path().join("Cargo.toml")).unwrap();
        let Ok(source) = std::fs::read_to_string(entry.path().join("src/lib.rs")) else { continue };
        if manifest.lines().any(|line| line == "publish = false") {
            continue;
        }
        n_crates += 1;
        // What is above the first item, in comments or in an attribute.
        let front: String = source
            .lines()
            .take_while(|line| !["pub ", "mod ", "use "].iter().any(|item| line.starts_with(item)))
            .map(|line| format!("{line}\n"))
            .collect();
        let name = entry.file_name().to_string_lossy().into_owned();
        if !front.contains("# Who should depend on this crate") {
            failures.push(format!("{name}: its front page does not say who should depend on it"));
        }
        let examples = ["//! ```\n", "//! ```no_run\n", "\n```\n"];
        if !examples.iter().any(|fence| front.contains(fence)) {
            failures.push(format!("{name}: its front page has no example"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(n_crates >= 7, "{n_crates}");
}

//! The replies of the field corpus give the edits that they meant, and never one that was not meant.
#![expect(clippy::disallowed_methods, reason = "the crate reads no files, its tests do")]

use serde_json::Value;
use skill_core::json::read_patch;
use std::fs;
use std::path::Path;

/// With fewer replies the corpus has lost some.
const MIN_REPLIES: usize = 150;

#[test]
fn replies_corpus_gives_the_edits_that_were_meant() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/replies");
    let mut paths: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let (mut n_replies, mut n_as_meant) = (0, 0);
    let (mut not_meant, mut without_reason) = (Vec::new(), Vec::new());
    for path in paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "txt")) {
        n_replies += 1;
        let text = fs::read_to_string(path).unwrap();
        let expect = fs::read_to_string(path.with_extension("json")).unwrap();
        let expect: Value = serde_json::from_str(&expect).unwrap();
        let reply = read_patch(&text);
        let edits = reply.patch.as_ref().map(|patch| serde_json::to_value(&patch.edits).unwrap());
        let edits = edits.unwrap_or_default();
        let line = format!(
            "{}\n  meant {expect}\n  read  {edits}\n  notes {:?}",
            path.file_name().unwrap().display(),
            reply.notes
        );
        if edits == expect {
            n_as_meant += 1;
        } else {
            println!("{line}");
        }
        let meant = expect.as_array().cloned().unwrap_or_default();
        if edits.as_array().into_iter().flatten().any(|edit| !meant.contains(edit)) {
            not_meant.push(line);
        }
        if reply.patch.is_none() && reply.notes.is_empty() {
            without_reason.push(path);
        }
    }
    println!("\n{n_as_meant} of {n_replies} replies gave the edits they meant, {} others", not_meant.len());
    assert!(not_meant.is_empty(), "edits that were not meant:\n{}", not_meant.join("\n"));
    assert!(without_reason.is_empty(), "nothing, and no note says why: {without_reason:?}");
    assert!(100 * n_as_meant >= 95 * n_replies, "{n_as_meant} of {n_replies}");
    assert!(n_replies >= MIN_REPLIES, "only {n_replies} replies");
}

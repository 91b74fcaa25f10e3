//! Every reply of the field corpus gives exactly the edits it meant, or a documented nothing.
#![expect(clippy::disallowed_methods, reason = "the crate reads no files, its tests do")]

use serde_json::Value;
use skill_core::json::read_patch;
use std::fs;
use std::path::Path;

#[test]
fn replies_corpus_gives_the_edits_that_were_meant() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/replies");
    let mut paths: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut n_replies = 0;
    let mut wrong = Vec::new();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "txt")) {
        n_replies += 1;
        let text = fs::read_to_string(path).unwrap();
        let expect = fs::read_to_string(path.with_extension("json")).unwrap();
        let expect: Value = serde_json::from_str(&expect).unwrap();
        let reply = read_patch(&text);
        let edits = reply.patch.as_ref().map(|patch| serde_json::to_value(&patch.edits).unwrap());
        if edits.clone().unwrap_or_default() != expect {
            wrong.push(format!(
                "{}\n  meant {expect}\n  read  {edits:?}\n  notes {:?}",
                path.display(),
                reply.notes
            ));
        }
        if reply.patch.is_none() && reply.notes.is_empty() {
            wrong.push(format!("{}: nothing, and no note says why", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(n_replies >= 60, "only {n_replies} replies");
}

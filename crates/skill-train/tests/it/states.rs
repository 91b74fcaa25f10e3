//! Saved states in files.

use skill_train::TrainError;
use skill_train::checkpoint::{StateFile, StateStore};

fn files(weights: &[u8]) -> Vec<StateFile> {
    let file = |name: &str, bytes: &[u8]| StateFile { name: name.to_owned(), bytes: bytes.to_vec() };
    vec![file("weights", weights), file("same", b"the same in all states")]
}

fn count(folder: &std::path::Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[test]
fn a_state_comes_back_as_it_was_and_equal_states_are_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = StateStore::new(folder.path().join("new"));
    let first = store.save(3, &files(b"one")).unwrap();
    assert_eq!(store.save(3, &files(b"one")).unwrap(), first);
    let second = store.save(4, &files(b"one")).unwrap();
    assert_ne!(second.hash, first.hash);
    store.save(4, &files(b"two")).unwrap();
    assert_eq!(store.load(&first.hash).unwrap(), (first.clone(), files(b"one")));
    assert_eq!(first.n_bytes, 25);
    assert_eq!(count(&folder.path().join("new/objects")), 3, "files of temporary names or copies are left");
    assert_eq!(count(&folder.path().join("new/states")), 3);
}

#[test]
fn what_was_changed_or_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let store = StateStore::new(folder.path());
    let saved = store.save(1, &files(b"one")).unwrap();
    let manifest = std::fs::read_to_string(folder.path().join("states").join(&saved.hash)).unwrap();
    let object = serde_json::from_str::<serde_json::Value>(&manifest).unwrap()["files"][0]["hash"]
        .as_str()
        .unwrap()
        .to_owned();
    let fault = |hash: &str| match store.load(hash) {
        Err(TrainError::State { fault, .. }) => fault,
        other => panic!("{other:?}"),
    };
    std::fs::write(folder.path().join("objects").join(&object), b"oe").unwrap();
    assert!(fault(&saved.hash).contains("weights"));
    std::fs::remove_file(folder.path().join("objects").join(&object)).unwrap();
    assert!(fault(&saved.hash).contains("weights"));
    // Saving again repairs it.
    store.save(1, &files(b"one")).unwrap();
    store.load(&saved.hash).unwrap();
    std::fs::write(folder.path().join("states").join(&saved.hash), manifest.replace(":1,", ":2,")).unwrap();
    assert!(fault(&saved.hash).contains("manifest"));
    for hash in ["", "../../etc/passwd", "0000", &"0".repeat(64)] {
        assert!(!fault(hash).is_empty());
    }
}

#[test]
fn old_states_are_removed_with_the_files_that_no_other_uses() {
    let folder = tempfile::tempdir().unwrap();
    let store = StateStore::new(folder.path());
    let hashes: Vec<String> =
        (0..4).map(|step| store.save(step, &files(&[step as u8])).unwrap().hash).collect();
    assert!(matches!(store.retain(&["0"]), Err(TrainError::State { .. })));
    assert_eq!(count(&folder.path().join("states")), 4);
    store.retain(&[&hashes[1], &hashes[3]]).unwrap();
    assert_eq!(count(&folder.path().join("states")), 2);
    assert_eq!(count(&folder.path().join("objects")), 3);
    store.load(&hashes[1]).unwrap();
    assert!(matches!(store.load(&hashes[0]), Err(TrainError::State { .. })));
}

#[test]
fn a_state_that_cannot_be_written_does_not_exist() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("states"), b"a file where a directory should be").unwrap();
    let store = StateStore::new(folder.path());
    assert!(matches!(store.save(1, &files(b"one")), Err(TrainError::Io { .. })));
}

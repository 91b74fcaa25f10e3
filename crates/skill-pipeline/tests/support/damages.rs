//! Damage to every file of a run, one after the other: `check` names each.

use crate::all_files::all_files;
use skill_pipeline::run_dir::check::check;
use std::path::Path;

/// Flips a bit of each checked file of a run, cuts it, empties it and removes it, and sees each of that named. Files that
/// are not checked have to be these. Returns how often something was damaged.
pub(crate) fn assert_every_damage_is_named(run: &Path, not_checked: &[&str]) -> usize {
    let whole = check(run).unwrap();
    assert_eq!(whole.damage, [], "the run is whole");
    assert_eq!(whole.not_checked, not_checked);
    let is_of_sqlite = |name: &str| ["-wal", "-shm"].iter().any(|end| name.ends_with(end));
    // The lock file is empty.
    let is_unchecked =
        |name: &String| is_of_sqlite(name) || name.ends_with("run.lock") || whole.not_checked.contains(name);
    // Behind the lines of one that is not over a process may have been killed.
    let is_over =
        std::fs::read_to_string(run.join("files.jsonl")).is_ok_and(|lines| lines.contains(r#""end""#));
    let mut n_damaged = 0;
    for (name, bytes) in all_files(run).iter().filter(|(name, _)| !is_unchecked(name)) {
        let path = &run.join(name);
        // Times are written after the first checkpoint.
        let may_be_missing = !is_over && name.ends_with("_times.json");
        for damaged in damages(name, bytes, is_over) {
            if damaged.is_none() && may_be_missing {
                continue;
            }
            match &damaged {
                Some(damaged) => std::fs::write(path, damaged).unwrap(),
                None => std::fs::remove_file(path).unwrap(),
            }
            let found = check(run).unwrap();
            let what = damaged.map(|damaged| (damaged.len(), bytes.len()));
            // A changed hash of a policy's file is that of a changed file.
            let is_it =
                |file: &str| file == name || name == "policy/SHA256SUMS" && file.starts_with("policy/");
            assert!(
                found.damage.iter().any(|damage| is_it(&damage.file)),
                "{name} {what:?}: {:?}, not checked: {:?}",
                found.damage,
                found.not_checked
            );
            n_damaged += 1;
        }
        std::fs::write(path, bytes).unwrap();
    }
    assert_eq!(check(run).unwrap().damage, [], "the run is whole again");
    n_damaged
}

/// Flips at the beginning, in the middle and of the last byte; cuts of one byte and of a half; more bytes; no bytes, and
/// no file.
fn damages(name: &str, bytes: &[u8], is_over: bool) -> Vec<Option<Vec<u8>>> {
    let n_bytes = bytes.len();
    if n_bytes == 0 {
        return vec![None];
    }
    let flipped = |at: usize| {
        let mut changed = bytes.to_vec();
        changed[at] ^= 1;
        changed
    };
    let flips = [0, n_bytes / 3, n_bytes / 2].map(flipped);
    let [half, most] = [n_bytes / 2, n_bytes - 1].map(|at| bytes[..at].to_vec());
    let mut damages = vec![Vec::new()];
    // Of times a last line may be lost.
    if name.ends_with("timings.jsonl") {
        damages.extend(flips);
    } else {
        damages.extend(flips);
        damages.extend([flipped(n_bytes - 1), half, most]);
        let more = [&b"x"[..], b"\n", b"{}\n"].map(|more| [bytes, more].concat());
        damages.extend(more.into_iter().filter(|_| is_over && !name.ends_with("events.jsonl")));
    }
    damages.into_iter().map(Some).chain([None]).collect()
}

//! Where the files of a run are.

use crate::records::bank::ROUNDS_DIR;
use skill_core::{EpochIdx, StepIdx};
use std::path::{Component, Path, PathBuf};

/// Where a run keeps the files that its skill carries along, for those that want all of a skill that was a step's.
pub const CARRIED_DIR: &str = "skill_files";

/// Where a run that trains weights keeps the model that it begins with, if the program brings it along.
pub const INITIAL_POLICY_DIR: &str = "initial_policy";

/// The file that holds the results of an evaluation, item by item.
pub const RESULTS_FILE: &str = "results.json";

/// The file that holds the results of all plays of a planned step, in order.
pub(crate) const PLAYS_FILE: &str = "plays.json";

/// The file that holds the rollouts of a step on the training split, or of one of its micro-batches.
pub(crate) const ROLLOUTS_FILE: &str = "rollout_results.json";

/// The file that sums up an evaluation, or a run.
pub const SUMMARY_FILE: &str = "summary.json";

/// The file that grows by the record of each step while a run is under way.
pub(crate) const HISTORY_LOG: &str = "history.jsonl";

/// The file that holds the records of all steps once the run is finished.
pub(crate) const HISTORY_FILE: &str = "history.json";

/// The file that holds the state of a run; written last in a step.
pub(super) const STATE_FILE: &str = "runtime_state.json";

/// The file that says what was asked of a run.
pub(super) const CONFIG_FILE: &str = "config.json";

/// The file of a slow update's directory that says what it came to.
pub(crate) const SLOW_RESULT: &str = "slow_result.json";

/// The file that holds the tasks that the optimizer saw under two skills.
pub(crate) const COMPARISON_PAIRS: &str = "comparison_pairs.json";

/// The file that holds the optimizer's notes.
pub(crate) const META_SKILL_RESULT: &str = "meta_skill_result.json";

/// The file that the process that works on a run holds locked.
pub(super) const LOCK_FILE: &str = "run.lock";

/// The page of a run.
pub const REPORT_FILE: &str = "report.html";

pub(super) fn step_path(run: &Path, step: StepIdx) -> PathBuf {
    run.join("steps").join(format!("step_{:04}", step.0))
}

/// The directory of a round of a bank's training.
pub(crate) fn round_path(run: &Path, round: u32) -> PathBuf {
    run.join(ROUNDS_DIR).join(format!("round_{round:04}"))
}

pub(super) fn slow_update_path(run: &Path, epoch: EpochIdx) -> PathBuf {
    run.join("slow_update").join(format!("epoch_{:02}", epoch.0))
}

pub(super) fn meta_skill_path(run: &Path, epoch: EpochIdx) -> PathBuf {
    run.join("meta_skill").join(format!("epoch_{:02}", epoch.0))
}

pub(super) fn epoch_snapshot_path(run: &Path, epoch: EpochIdx) -> PathBuf {
    run.join("skills").join(format!("skill_epoch_{:02}.md", epoch.0))
}

pub(super) fn snapshot_path(run: &Path, step: StepIdx) -> PathBuf {
    run.join("skills").join(format!("skill_v{:04}.md", step.0))
}

/// The way from one directory to another, with `/` between names; `None` where there is none, or no text of it.
pub fn way_to(from: &Path, to: &Path) -> Option<String> {
    let (from, to) = (from.canonicalize().ok()?, to.canonicalize().ok()?);
    let n_shared = from.components().zip(to.components()).take_while(|(one, other)| one == other).count();
    let up = from.components().skip(n_shared).map(|_| "..");
    let mut names: Vec<&str> = up.collect();
    for component in to.components().skip(n_shared) {
        match component {
            Component::Normal(name) => names.push(name.to_str()?),
            // Another drive.
            Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => {
                return None;
            }
        }
    }
    Some(if names.is_empty() { ".".to_owned() } else { names.join("/") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_leads_from_one_directory_to_another() {
        let root = tempfile::tempdir().unwrap();
        for dir in ["a/b", "a/c/d"] {
            std::fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        for (from, to, expect) in [
            ("a/b", "a/c/d", Some("../c/d")),
            ("a/c/d", "a", Some("../..")),
            ("a", "a/c/d", Some("c/d")),
            ("a", "a", Some(".")),
            ("a", "nowhere", None),
        ] {
            let way = way_to(&root.path().join(from), &root.path().join(to));
            assert_eq!(way.as_deref(), expect, "{from} to {to}");
        }
    }
}

//! What a run's state names is on the disk before the state is.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::json;
use skill_core::{MeanScore, SkillDoc};
use skill_pipeline::PipelineError;
use skill_pipeline::records::document::RuntimeState;
use skill_pipeline::records::phases::Phase;
use skill_pipeline::run_dir::RunDir;
use std::fs;
use std::path::Path;

fn state() -> RuntimeState {
    let score = MeanScore { hard: 0.5, soft: 0.5 };
    RuntimeState::after_baseline(SkillDoc::new("# Skill\n").hash(), score, 0.5)
}

fn write(run: &RunDir) -> Result<(), PipelineError> {
    let skill = SkillDoc::new("# Skill\n");
    run.write_progress(&skill, &skill, &[], &state())
}

/// A file that was put and cannot be flushed any more: something else has its name.
fn with_a_file_in_the_way(dir: &Path) -> RunDir {
    let run = RunDir::open(dir).unwrap();
    let path = dir.join("steps").join("step_0001").join("merged_patch.json");
    run.put_json(&path, &json!({"edits": []})).unwrap();
    let written: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(written, json!({"edits": []}), "it can be read at once");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    run
}

#[test]
fn no_state_is_written_while_a_file_of_its_step_is_not_on_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let run = with_a_file_in_the_way(dir.path());
    let error = write(&run).unwrap_err().to_string();
    assert!(error.contains("merged_patch.json"), "{error}");
    assert!(!dir.path().join("runtime_state.json").exists());
}

#[test]
fn a_step_that_was_begun_anew_does_not_hold_up_the_state() {
    let dir = tempfile::tempdir().unwrap();
    let run = with_a_file_in_the_way(dir.path());
    fs::remove_dir_all(dir.path().join("steps")).unwrap();
    write(&run).unwrap();
    let mut written = state();
    written.files_lines = Some(1);
    assert_eq!(run.read_state().unwrap(), Some(written));
}

/// A round of a bank, a phase, and the parts of other runs without a state.
#[test]
fn no_line_of_hashes_is_written_while_a_file_of_its_part_is_not_on_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let run = with_a_file_in_the_way(dir.path());
    let error = run.commit_phase(Phase::Collect, &[]).unwrap_err().to_string();
    assert!(error.contains("merged_patch.json"), "{error}");
    assert!(!dir.path().join("files.jsonl").exists());
}

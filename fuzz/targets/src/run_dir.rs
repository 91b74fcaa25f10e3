//! Any bytes as the files of a run.

use crate::directory;
use skill_core::{MeanScore, RolloutResult, SkillDoc, StepIdx};
use skill_pipeline::PipelineError;
use skill_pipeline::records::evaluation::Evaluation;
use skill_pipeline::records::{ConfigFile, StageTokens};
use skill_pipeline::run_dir::check::check;
use skill_pipeline::run_dir::timings::Timings;
use skill_pipeline::run_dir::{EvaluationDir, RunDir};
use skill_pipeline::trainer::TrainState;
use std::collections::BTreeMap;
use std::path::Path;

const SKILL: &str = "# Skill\n";
/// So many of the files have numbers from 0; the last ones have those from [`FIRST_OF_LAST`], so that inputs which were
/// found before them mean what they meant.
const N_FIRST: usize = 7;
const FIRST_OF_LAST: u8 = 0xf0;
/// The files that are read back, by the first byte of a part of the input.
const FILES: [&str; 10] = [
    "config.json",
    "runtime_state.json",
    "history.json",
    "baseline_selection_eval/results.json",
    "baseline_selection_eval/summary.json",
    "skills/skill_v0000.md",
    "timings.json",
    "history.jsonl",
    "files.jsonl",
    "timings.jsonl",
];

/// Reads a run whose files hold these bytes: it is read the same twice, no file is touched by reading, and what was
/// understood is written and read again without loss.
///
/// The input is in parts with 0xff between them, which is in no text: the first byte of a part names the file, and the
/// rest is what it holds. Files that are not named are those of a good run.
pub fn run_dir(data: &[u8]) {
    let dir = directory();
    let run = RunDir::open(dir.path()).unwrap();
    make_good(&run);
    drop(run);
    for part in data.split(|byte| *byte == 0xff) {
        if let Some((file, bytes)) = part.split_first() {
            std::fs::write(dir.path().join(file_of(*file)), bytes).unwrap();
        }
    }
    let run = RunDir::open(dir.path()).unwrap();
    let before = bytes_of(dir.path());
    let first = said(&run);
    assert_eq!(first, said(&run));
    assert_eq!(bytes_of(dir.path()), before, "reading changed a file");

    if let Ok(Some(config)) = run.read_config() {
        run.write_config(&config, None).unwrap();
        assert_eq!(run.read_config().unwrap(), Some(config));
    }
    if let Ok(Some(state)) = run.read_state() {
        let (skill, history) = (SkillDoc::new(SKILL), run.read_history(state.last_completed_step));
        if let Ok(history) = history {
            run.write_progress(&skill, &skill, &history, &state).unwrap();
            let written = run.read_state().unwrap();
            // The number of lines follows from files.jsonl.
            let written = written.map(|mut written| {
                written.files_lines = state.files_lines;
                written
            });
            assert_eq!(written.as_ref(), Some(&state));
            assert_eq!(history.len(), usize::try_from(state.last_completed_step.0).unwrap());
            assert_eq!(run.read_history(state.last_completed_step).unwrap(), history);
        }
    }
    if let Ok(found) = check(dir.path()) {
        assert!(found.damage.iter().all(|damage| !damage.file.is_empty()));
    }
    if let Ok(Some(state)) = TrainState::read(&run, &SkillDoc::new(SKILL)) {
        state.write(&run).unwrap();
        let again = TrainState::read(&run, &SkillDoc::new(SKILL)).unwrap();
        assert_eq!(format!("{again:?}"), format!("{:?}", Some(state)));
    }
}

fn file_of(number: u8) -> &'static str {
    let (first, last) = FILES.split_at(N_FIRST);
    match number.checked_sub(FIRST_OF_LAST) {
        Some(number) => last[usize::from(number) % last.len()],
        None => first[usize::from(number) % first.len()],
    }
}

fn make_good(run: &RunDir) {
    let config = ConfigFile::new(serde_json::Value::Null, BTreeMap::new());
    run.write_config(&config, None).unwrap();
    let skill = SkillDoc::new(SKILL);
    let evaluation = Evaluation::of(vec![RolloutResult::new("a".into(), 1.0, 1.0)]);
    let (hash, tokens) = (skill.hash(), StageTokens::default());
    run.write_evaluation(EvaluationDir::Baseline, &hash, &evaluation, tokens).unwrap();
    TrainState::after_baseline(skill, &evaluation, MeanScore::of_results(&evaluation.results).hard)
        .write(run)
        .unwrap();
}

/// Everything that can be read, with the texts of errors.
fn said(run: &RunDir) -> Vec<String> {
    fn text<T: std::fmt::Debug>(outcome: &Result<T, PipelineError>) -> String {
        if let Err(error) = outcome {
            assert!(!error.hint().is_empty());
        }
        format!("{outcome:?}")
    }
    let skill = SkillDoc::new(SKILL);
    vec![
        text(&run.read_config()),
        text(&run.read_state()),
        text(&run.read_history(StepIdx(0))),
        text(&run.read_history(StepIdx(1))),
        text(&run.read_snapshot(StepIdx(0), &skill.hash())),
        text(&run.read_evaluation(EvaluationDir::Baseline)),
        text(&run.read_results(EvaluationDir::Baseline)),
        text(&TrainState::read(run, &skill)),
        format!("{:?}", Timings::read_or_new(run.path())),
    ]
}

fn bytes_of(dir: &Path) -> Vec<Option<Vec<u8>>> {
    FILES.iter().map(|name| std::fs::read(dir.join(name)).ok()).collect()
}

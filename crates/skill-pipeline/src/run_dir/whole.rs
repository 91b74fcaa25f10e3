//! Whether what finished steps have left is still there: no step needs it, and anyone who reads the run does.

use super::evaluation::{EvaluationDir, evaluation_path};
use super::held::RunDir;
use super::path::{PLAYS_FILE, RESULTS_FILE, ROLLOUTS_FILE, snapshot_path, step_path};
use crate::records::document::StepRecord;
use skill_core::{SkillHash, StepIdx};
use skill_llm::regular_file;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// So many bytes of the end of a file are looked at.
const TAIL: u64 = 16;

impl RunDir {
    /// What finished steps have left of rollouts, evaluations, skills and records that is missing, cut off, or not as the
    /// run left it, in order.
    pub fn damaged_files(&self, history: &[StepRecord]) -> Vec<PathBuf> {
        damaged_files(self.path(), history)
    }
}

/// As [`RunDir::damaged_files`], for those who only look.
pub(super) fn damaged_files(run: &Path, history: &[StepRecord]) -> Vec<PathBuf> {
    let results = |dir| evaluation_path(run, dir).join(RESULTS_FILE);
    let baseline = Some(results(EvaluationDir::Baseline)).filter(|path| !is_whole_json(path));
    let of_step = |record: &StepRecord| {
        let (step, dir) = (record.step, step_path(run, record.step));
        let mut files = vec![dir.join("step_record.json")];
        match record.accumulation_batches.len() {
            0 if record.comparison.is_some() => {}
            0 => files.push(dir.join(ROLLOUTS_FILE)),
            n => files.extend((0..n).map(|batch| dir.join(format!("batch_{batch}")).join(ROLLOUTS_FILE))),
        }
        files.extend(record.proposal.is_some().then(|| dir.join(PLAYS_FILE)));
        if record.selection_n_seen.is_some() {
            files.push(results(EvaluationDir::Selection(step)));
        }
        files.retain(|path| !is_whole_json(path));
        files.extend(record.current_skill_hash.as_ref().and_then(|hash| changed_skill(run, step, hash)));
        files
    };
    baseline.into_iter().chain(history.iter().flat_map(of_step)).collect()
}

fn changed_skill(run: &Path, step: StepIdx, hash: &SkillHash) -> Option<PathBuf> {
    let path = snapshot_path(run, step);
    let is_it = regular_file::read_to_string(&path).is_ok_and(|text| SkillHash::of(&text) == *hash);
    (!is_it).then_some(path)
}

/// Whether a file of JSON is there to its end; what is in the middle of it is for its readers.
fn is_whole_json(path: &Path) -> bool {
    let tail = || -> std::io::Result<Vec<u8>> {
        let mut file = regular_file::open(path)?;
        let n_bytes = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(n_bytes.saturating_sub(TAIL)))?;
        let mut tail = Vec::new();
        file.read_to_end(&mut tail)?;
        Ok(tail)
    };
    tail().is_ok_and(|tail| matches!(tail.trim_ascii_end().last(), Some(b'}' | b']')))
}

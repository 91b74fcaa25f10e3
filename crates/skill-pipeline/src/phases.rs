//! Runs of several phases: collect episodes, distil skills, fine-tune, train by GRPO, and test the result.
//!
//! Each phase has a directory of its own, which is complete in itself:
//!
//! | path | what it holds |
//! |---|---|
//! | `phases.json` | a [`PhaseRecord`] for each finished phase |
//! | `files.jsonl` | the hashes of the files of phases that are not runs themselves |
//! | `phase_times.json` | seconds that each phase has taken |
//! | `collect/` | `trajectories.jsonl`, with its calls |
//! | `distill/` | `bank/` as trials begin with it, and `shown/` with all its skills active, as demonstrations show them |
//! | `sft/` | a run of fine-tuning |
//! | `rl/` | a run of GRPO |
//! | `test/` | `games.json`: a [`TestGames`] for each policy |
//!
//! A phase is known by its settings, among which are the results of the phases before it. So a changed setting of a
//! finished phase is found out, and another run that asks for the same takes the result over.

use crate::error::PipelineError;
use crate::identity::check_identity;
use crate::kind::RunKind;
use crate::records::phases::{PHASE_TIMES_FILE, PHASES_FILE, Phase, PhaseRecord, TEST_FILE, TestGames};
use crate::records::{FORMAT_VERSION, RunIdentity};
use crate::run_dir::atomic::failed;
use crate::run_dir::hash_of_file;
use crate::run_dir::{read_times, read_versioned, seal};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::json;
use skill_core::canonical::canonical_hash;
use skill_llm::regular_file;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// The journals of the phases that are not runs themselves, below the directory of the run.
pub const PHASE_JOURNALS: [&str; 3] = [
    "collect/trajectories.jsonl.calls/journal.sqlite",
    "distill/bank.calls/journal.sqlite",
    "sft.calls/journal.sqlite",
];

fn key_of(settings: &RunIdentity) -> String {
    canonical_hash(&json!(settings))
}

/// The finished phases of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Phases {
    format_version: String,
    /// In the order in which they were finished.
    pub finished: Vec<PhaseRecord>,
    /// How many lines of `files.jsonl` hold; absent in runs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_lines: Option<u64>,
}

impl Default for Phases {
    fn default() -> Self {
        Self { format_version: FORMAT_VERSION.to_owned(), finished: Vec::new(), files_lines: None }
    }
}

impl Phases {
    /// Reads the phases of a run; `None` for a directory without any.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, is damaged, or is of a newer version.
    pub fn read(run: &Path) -> Result<Option<Self>, PipelineError> {
        read_versioned(&run.join(PHASES_FILE))
    }

    /// Writes them, whole or not at all.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn write(&self, run: &Path) -> Result<(), PipelineError> {
        let path = run.join(PHASES_FILE);
        seal::write_sealed_json(&path, self)
    }

    /// A phase, if it is finished.
    pub fn get(&self, phase: Phase) -> Option<&PhaseRecord> {
        self.finished.iter().find(|record| record.phase == phase)
    }

    /// The first phase that is not finished.
    pub fn next(&self) -> Option<Phase> {
        Phase::ALL.into_iter().find(|phase| self.get(*phase).is_none())
    }

    /// Puts a phase in, in the place of what was known of it.
    pub fn put(&mut self, record: PhaseRecord) {
        self.finished.retain(|known| known.phase != record.phase);
        self.finished.push(record);
    }

    /// The finished phase, if its settings are these.
    ///
    /// # Errors
    ///
    /// [`PipelineError::Mismatch`] with what has changed since it was finished.
    pub fn checked(
        &self,
        run: &Path,
        phase: Phase,
        asked: &RunIdentity,
    ) -> Result<Option<&PhaseRecord>, PipelineError> {
        let Some(record) = self.get(phase) else { return Ok(None) };
        check_identity(&phase.dir(run), &record.settings, asked)?;
        Ok(Some(record))
    }

    /// A phase of this or another run with these settings.
    pub fn with_key(&self, phase: Phase, settings: &RunIdentity) -> Option<&PhaseRecord> {
        self.get(phase).filter(|record| record.key() == key_of(settings))
    }
}

/// The games of the test split, and the policy that was measured last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestResult {
    /// The result of the phase that the last policy comes from.
    pub policy: String,
    /// The games of each policy.
    pub games: Vec<TestGames>,
}

impl TestResult {
    /// Reads the games of a run; `None` where they are not played yet.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is damaged.
    pub fn read(run: &Path) -> Result<Option<Self>, PipelineError> {
        let path = Phase::Test.dir(run).join(TEST_FILE);
        match regular_file::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|error| PipelineError::Corrupt { path, message: error.to_string() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("read", &path)(error)),
        }
    }
}

/// The games of a run, see [`TestResult::read`]; none where they are not played yet.
///
/// # Errors
///
/// As [`TestResult::read`].
pub fn test_games(run: &Path) -> Result<Vec<TestGames>, PipelineError> {
    Ok(TestResult::read(run)?.map(|found| found.games).unwrap_or_default())
}

/// The identity of a run of phases as a whole: what its phases are made from is in their own settings.
pub fn phased_identity() -> RunIdentity {
    let mut identity = RunIdentity::new();
    RunKind::Phases.name_in(&mut identity);
    identity
}

/// Seconds that each phase has taken, by name.
pub(crate) type PhaseTimes = IndexMap<String, f64>;

/// Reads the times of a run; none where it has no file of them yet.
///
/// # Errors
///
/// A file that cannot be read or is damaged.
pub fn phase_times(run: &Path) -> Result<PhaseTimes, PipelineError> {
    #[derive(Deserialize, Default)]
    struct Kept {
        #[serde(rename = "checksum")]
        _checksum: Option<String>,
        #[serde(flatten)]
        times: PhaseTimes,
    }
    Ok(read_times::<Kept>(&run.join(PHASE_TIMES_FILE))?.times)
}

/// Adds to the time of a phase.
///
/// # Errors
///
/// A file that cannot be read or written.
pub fn add_phase_time(run: &Path, phase: Phase, seconds: f64) -> Result<(), PipelineError> {
    let mut times = phase_times(run)?;
    *times.entry(phase.as_str().to_owned()).or_default() += seconds;
    seal::write_sealed_json(&run.join(PHASE_TIMES_FILE), &times)
}

/// The hash of a folder: of the names and the bytes of all files in it, in order.
///
/// # Errors
///
/// A file that cannot be read.
pub fn hash_of_dir(dir: &Path) -> Result<String, PipelineError> {
    let mut files = BTreeMap::new();
    collect_files(dir, "", &mut files)?;
    Ok(canonical_hash(&json!(files)))
}

fn collect_files(
    dir: &Path,
    prefix: &str,
    files: &mut BTreeMap<String, String>,
) -> Result<(), PipelineError> {
    for entry in std::fs::read_dir(dir).map_err(failed("read", dir))? {
        let path = entry.map_err(failed("read", dir))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{prefix}{name}");
        if path.is_dir() {
            collect_files(&path, &format!("{name}/"), files)?;
        } else {
            let hash = hash_of_file(&path).map_err(failed("read", &path))?;
            files.insert(name, hash.hex());
        }
    }
    Ok(())
}

//! The start of the commands that are one phase of training weights: `sft` and `rl`.

use crate::args::{SKILL_BANK, Start};
use crate::banks::check_named;
use crate::start::{Started, load_started};
use skillrl::config::{ModelConfig, OptimizerUse, ValueSource};
use skillrl::pipeline::PipelineError;
use skillrl::pipeline::kind::RunKind;
use std::path::{Path, PathBuf};

/// Where the phases of training a policy leave their results, if nothing names another place.
const DATA_DIR: &str = "data";

/// The start of a phase: the configuration, the directory of its run, and the bank in its prompts.
///
/// If nothing names a directory or a bank, they are those that the other phases use.
///
/// # Errors
///
/// A configuration or a bank that cannot be used, and a run to resume that does not exist.
pub(crate) fn begin(
    kind: RunKind,
    start: Start,
    (out, bank): (Option<&Path>, Option<&Path>),
    (must_resume, is_quiet): (bool, bool),
) -> crate::Result<(Started, PathBuf, Option<PathBuf>)> {
    let start = Start { is_phase: true, trains_weights: true, optimizer: OptimizerUse::Teaching, ..start };
    let started = load_started(&start, is_quiet)?;
    let (loaded, is_without_run_dir) = (&started.loaded, started.is_without_run_dir);
    let out = match out {
        Some(named) => named.to_owned(),
        None if is_without_run_dir && loaded.origins.get("run.dir") != Some(&ValueSource::Set) => {
            Path::new(DATA_DIR).join(kind.as_str())
        }
        None => loaded.run_dir(),
    };
    let left = || is_without_run_dir.then(|| PathBuf::from(SKILL_BANK)).filter(|path| path.exists());
    let bank = bank.map(Path::to_owned).or_else(left);
    bank.iter().try_for_each(|bank| check_named(bank))?;
    if must_resume && !kind.is_at(&out) {
        return Err(PipelineError::NoRun { path: out }.into());
    }
    Ok((started, out, bank))
}

impl Started {
    /// The policy that fine-tuning has left, where nothing says another. Without one the first policy is untrained.
    pub(crate) fn fine_tuned(&self) -> Option<PathBuf> {
        let policy = Path::new(DATA_DIR).join("sft").join("policy");
        let is_simulated = matches!(self.loaded.config.models.target, ModelConfig::Simulated(_));
        if !self.is_without_run_dir || !is_simulated {
            return None;
        }
        if !policy.is_dir() {
            crate::output::say(&format!(
                "note: there is no {}, so GRPO begins with an untrained decoder; `skillrl sft` comes first",
                policy.display()
            ));
            return None;
        }
        Some(policy)
    }
}

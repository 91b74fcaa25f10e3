//! Transfer of a skill to other models: the first and the best skill of a run on one split, with each of several targets.
//!
//! It is a [matrix](crate::matrix) whose skills are those of a run; results of the run's own target are read from the
//! run.

use crate::config::LoadedConfig;
use crate::error::Error;
use crate::matrix::{NamedModel, NamedSkill, OfRun};
use crate::replay::{TRANSFER_DIR, recorded_amended};
use crate::skills;
use skill_core::{SkillDoc, StepIdx};
use skill_envs::Split;
use skill_pipeline::run_dir::EvaluationDir;
use skill_pipeline::{PipelineError, RunReader};
use std::path::{Path, PathBuf};

pub use skill_pipeline::OWN_TARGET;

/// What is to be measured.
#[derive(Debug, Clone)]
pub struct TransferOptions {
    /// The run.
    pub run: PathBuf,
    /// The configuration file with the targets; `None` takes the run's copy.
    pub config: Option<PathBuf>,
    /// Settings that are changed, of the form `KEY=VALUE`.
    pub overrides: Vec<String>,
    /// The targets by their names in `[models.targets]`; empty for all of them and the run's own.
    pub targets: Vec<String>,
    /// The split.
    pub split: Split,
}

/// A measurement that can begin.
pub struct Transfer {
    /// Its configuration.
    pub loaded: LoadedConfig,
    /// The models.
    pub models: Vec<NamedModel>,
    /// The first and the best skill.
    pub skills: Vec<NamedSkill>,
    /// Their results under the run's own target, where the run has them.
    pub of_run: OfRun,
}

impl Transfer {
    /// Reads the run and its configuration; nothing is sent.
    ///
    /// # Errors
    ///
    /// No run, a configuration that cannot be put together, a target that is not configured, and skills that cannot be
    /// read.
    pub fn prepare(options: &TransferOptions) -> Result<Self, Error> {
        let loaded = recorded_amended(&options.run, options.config.as_deref(), &options.overrides)?;
        let run = RunReader::open(&options.run)?;
        let models = named_targets(&loaded, &options.targets)?;
        let best = skills::best_skill(&options.run)?;
        let start = run.skill_after(StepIdx(0))?.with_carried(best.carried().clone());
        let of_run = match options.split {
            Split::Test => results_of(&run, [&start, &best])?,
            Split::Train | Split::Val => OfRun::new(),
        };
        let skills = [("start", start), ("best", best)];
        let skills = skills.into_iter().map(|(name, skill)| NamedSkill { name: name.to_owned(), skill });
        Ok(Self { loaded, models, skills: skills.collect(), of_run })
    }
}

/// Where measurements of a run's skills are kept, unless a directory is named.
pub fn usual_out(run: &Path) -> PathBuf {
    run.join(TRANSFER_DIR)
}

/// The models by these names of `[models.targets]`; all of them and the run's own without a name.
///
/// # Errors
///
/// A name that is not configured, and no name where none is configured.
pub fn named_targets(loaded: &LoadedConfig, names: &[String]) -> Result<Vec<NamedModel>, Error> {
    let configured = loaded.config.models.targets.keys();
    let targets = match names.is_empty() {
        true => [OWN_TARGET.to_owned()].into_iter().chain(configured.clone().cloned()).collect(),
        false => names.to_vec(),
    };
    let is_known = |name: &String| name == OWN_TARGET || configured.clone().any(|known| known == name);
    let only_own = targets.iter().all(|name| name == OWN_TARGET);
    if let Some(unknown) = targets.iter().find(|name| !is_known(name) || names.is_empty() && only_own) {
        let known = configured.clone().map(String::as_str).collect::<Vec<_>>().join(", ");
        return Err(Error::UnknownTarget { name: unknown.clone(), known });
    }
    Ok(targets.into_iter().map(|name| NamedModel { target: name.clone(), name }).collect())
}

/// Both results of a run that has ended; a best skill that is the first one was measured once.
fn results_of(run: &RunReader, [start, best]: [&SkillDoc; 2]) -> Result<OfRun, PipelineError> {
    let mut found = OfRun::new();
    if run.summary()?.is_none() {
        return Ok(found);
    }
    let Some(of_start) = run.results(EvaluationDir::TestBaseline)? else { return Ok(found) };
    let of_best = run.results(EvaluationDir::TestBest)?;
    if let Some(results) = of_best {
        found.insert(best.hash(), results);
    }
    found.insert(start.hash(), of_start);
    Ok(found)
}

//! The directories of the cells of a matrix, each that of a measurement.

use super::{MatrixPlan, NamedModel};
use crate::engine::Engine;
use crate::error::Error;
use crate::measurement;
use skill_core::RolloutResult;
use skill_llm::ModelId;
use skill_pipeline::PipelineError;
use skill_pipeline::records::RunIdentity;
use skill_pipeline::records::evaluation::EvaluationSummary;
use skill_pipeline::run_dir::atomic;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where the results of each cell are kept, with what decides them.
pub struct Cells {
    n_skills: usize,
    dirs: Vec<(PathBuf, RunIdentity)>,
}

impl Cells {
    /// Looks whether each cell of the plan has a place below this directory.
    ///
    /// # Errors
    ///
    /// A model that cannot be set up, and a directory with another measurement, unless that is to be replaced.
    pub fn of(
        plan: &MatrixPlan<'_>,
        engine: &mut Engine<'_>,
        out: &Path,
        force: bool,
    ) -> Result<Self, Error> {
        let model_names = names_of_files(plan.models.iter().map(|model| model.name.as_str()));
        let skill_names = names_of_files(plan.skills.iter().map(|skill| skill.name.as_str()));
        let mut dirs = Vec::new();
        for (model, of_model) in plan.models.iter().zip(&model_names) {
            let target = engine.target(&model.target)?;
            let settings = settings_of(plan, model, target.id());
            for (skill, of_skill) in plan.skills.iter().zip(&skill_names) {
                let dir = out.join(of_model).join(of_skill);
                let items = plan.env.items(plan.split);
                measurement::check_replaced(&dir, (&skill.skill, items, &settings), force)?;
                dirs.push((dir, settings.clone()));
            }
        }
        Ok(Self { n_skills: plan.skills.len(), dirs })
    }

    /// The directories, model by model.
    pub fn dirs(&self) -> impl Iterator<Item = &Path> {
        self.dirs.iter().map(|(dir, _)| dir.as_path())
    }

    /// Keeps the results of the cell of this model and this skill.
    pub(super) fn keep(
        &self,
        (model_idx, skill_idx): (usize, usize),
        results: impl Iterator<Item = Result<RolloutResult, PipelineError>>,
        summary: &EvaluationSummary,
    ) -> Result<(), PipelineError> {
        let Some((dir, settings)) = self.dirs.get(model_idx * self.n_skills + skill_idx) else {
            return Ok(());
        };
        atomic::create_dir(dir)?;
        measurement::write(dir, settings, &BTreeMap::new(), results, summary)
    }
}

/// What decides the scores of a model: the configuration with it as the target.
fn settings_of(plan: &MatrixPlan<'_>, model: &NamedModel, id: &ModelId) -> RunIdentity {
    let mut loaded = plan.loaded.clone();
    if let Some(further) = plan.loaded.config.models.targets.get(&model.target) {
        loaded.config.models.target = further.clone();
    }
    measurement::identity(&loaded, plan.env.as_ref(), plan.split, id)
}

/// Names that files can have, each another one.
fn names_of_files<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for name in names {
        let plain = plain_name(name);
        let mut numbered = plain.clone();
        for number in 2.. {
            if !found.contains(&numbered) {
                break;
            }
            numbered = format!("{plain}-{number}");
        }
        found.push(numbered);
    }
    found
}

/// A name that a file and a section of the configuration can have.
pub fn plain_name(name: &str) -> String {
    let plain = |sign: char| if sign.is_ascii_alphanumeric() || "-_.".contains(sign) { sign } else { '-' };
    let plain: String = name.chars().map(plain).collect();
    let plain = plain.trim_start_matches(['.', '-']);
    if plain.is_empty() { "unnamed".to_owned() } else { plain.to_owned() }
}

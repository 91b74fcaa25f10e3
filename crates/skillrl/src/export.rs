//! Packages to give away: a skill with a name and a description, checked, in a folder of its own.

use crate::error::{Error, ExportError};
use crate::skills::{best_skill, read_skill};
use skill_core::package::MAIN_FILE;
use skill_core::package::front_matter::{
    FrontMatter, FrontMatterFault, check_front_matter, name_of, with_fields,
};
use skill_core::{SkillDoc, SkillPackage};
use skill_envs::folder::write_folder;
use skill_pipeline::run_dir::{RunStatus, run_status};
use std::io;
use std::path::{Path, PathBuf};

/// What is exported, and where to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportOptions {
    /// A run, a skill's folder or a Markdown file.
    pub from: PathBuf,
    /// The folder of the package.
    pub to: PathBuf,
    /// The name; without it the skill's own, or that of the folder.
    pub name: Option<String>,
    /// The description; without it the skill's own.
    pub description: Option<String>,
    /// Whether a package that is there already is replaced.
    pub force: bool,
}

/// A package that was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Exported {
    /// What is in it.
    pub package: SkillPackage,
    /// Its hash, as runs name it.
    pub skill: SkillDoc,
    /// What a person should know, though it is valid.
    pub warnings: Vec<FrontMatterFault>,
}

/// The skill behind a path: a run's best one, a folder's, or a file's.
///
/// # Errors
///
/// A path with none of these.
pub fn skill_at(path: &Path) -> Result<SkillDoc, Error> {
    if run_status(path) == RunStatus::Absent { read_skill(path) } else { best_skill(path) }
}

/// Writes a package.
///
/// # Errors
///
/// A skill that cannot be read, and everything in [`ExportError`]; nothing is written then, except for a folder that
/// could not be finished.
pub fn export(options: &ExportOptions) -> Result<Exported, Error> {
    let mut package = SkillPackage::of(&skill_at(&options.from)?);
    if let Some(file) = package.missing_content() {
        return Err(ExportError::Missing { file: file.to_owned() }.into());
    }
    if package.body().trim().is_empty() {
        return Err(ExportError::Empty { path: options.from.clone() }.into());
    }
    let folder = folder_name(&options.to);
    let kept = FrontMatter::read(&package.main).ok().flatten().unwrap_or_default();
    let derived = || kept.name.is_none().then(|| name_of(&folder)).filter(|name| !name.is_empty());
    let name = options.name.clone().or_else(derived);
    if name.is_some() || options.description.is_some() {
        package.main = with_fields(&package.main, name.as_deref(), options.description.as_deref());
    }
    let (faults, warnings): (Vec<_>, Vec<_>) =
        check_front_matter(&package.main, Some(&folder)).into_iter().partition(|fault| fault.is_error);
    if !faults.is_empty() {
        return Err(ExportError::Invalid { faults }.into());
    }
    make_room(&options.to, options.force)?;
    write_folder(&options.to, &package)
        .map_err(|source| ExportError::Write { path: options.to.clone(), source })?;
    let skill = package.document().map_err(|source| {
        Error::SkillFolder(skill_envs::folder::FolderError::Package { path: options.to.clone(), source })
    })?;
    Ok(Exported { package, skill, warnings })
}

/// Removes a package that is there, if that is asked; an empty folder is not an obstacle.
fn make_room(to: &Path, force: bool) -> Result<(), ExportError> {
    let cannot = |source| ExportError::Write { path: to.to_owned(), source };
    let is_free = match std::fs::read_dir(to) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(ExportError::NotAPackage { path: to.to_owned() });
        }
        Err(error) => return Err(cannot(error)),
    };
    if is_free {
        return Ok(());
    }
    if !force {
        return Err(ExportError::Exists { path: to.to_owned() });
    }
    if !to.join(MAIN_FILE).is_file() {
        return Err(ExportError::NotAPackage { path: to.to_owned() });
    }
    std::fs::remove_dir_all(to).map_err(cannot)
}

/// The name of a folder, also where its path ends in `.` or `..`.
pub fn folder_name(path: &Path) -> String {
    let named = path.file_name().map(ToOwned::to_owned);
    let looked_up = || path.canonicalize().ok().and_then(|path| path.file_name().map(ToOwned::to_owned));
    named.or_else(looked_up).unwrap_or_default().to_string_lossy().into_owned()
}

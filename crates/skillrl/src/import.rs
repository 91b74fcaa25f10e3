//! Coming from elsewhere: configurations, runs and candidates of other systems, as ours.
//!
//! What has no counterpart is listed by key with the reason, and never dropped. The mappings are functions of what was
//! read: `skillopt` and `krill` of a configuration's keys, `run` of a run's files, `gepa` of a candidate. Nothing is sent, and the
//! source stays as it is.

mod config_file;
mod gepa;
mod list;
mod run;
mod run_record;
mod run_step;
mod skillopt;
mod skillopt_env;
mod skillopt_model;
mod source;
mod split_lists;

pub use crate::config::mapping::{Mapped, Unmapped};

use crate::config::mapping::krill;
use crate::config::{FILE_NAME, Mapping};
use crate::error::{Error, ImportError};
use serde::Serialize;
use serde_json::{Map, Value};
use source::Source;
use std::path::{Path, PathBuf};

/// What is imported, and where to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportOptions {
    /// A configuration of SkillOpt or krill, a run directory of SkillOpt or skillrl 1.0, or a GEPA candidate or result.
    pub from: PathBuf,
    /// The directory to write; a name that ends in `.toml` or `.md` is that of the configuration or of the skill, and
    /// everything else is beside it.
    pub to: PathBuf,
    /// Which candidate of several, counted from 0.
    pub candidate: Option<usize>,
    /// Whether files that are there are replaced.
    pub force: bool,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ImportKind {
    /// A configuration of SkillOpt.
    SkilloptConfig,
    /// A configuration of skillrl 1.0, as its runs keep it.
    SkillrlConfig,
    /// A configuration of krill, or of SkillRL in Rust.
    KrillConfig,
    /// A run of SkillOpt.
    SkilloptRun,
    /// A run of skillrl 1.0.
    SkillrlRun,
    /// A candidate of GEPA.
    GepaCandidate,
}

impl ImportKind {
    /// What people call it.
    pub fn describe(self) -> &'static str {
        match self {
            Self::SkilloptConfig => "a SkillOpt configuration",
            Self::SkillrlConfig => "a skillrl 1.0 configuration",
            Self::KrillConfig => "a configuration of krill or of SkillRL in Rust",
            Self::SkilloptRun => "a SkillOpt run",
            Self::SkillrlRun => "a skillrl 1.0 run",
            Self::GepaCandidate => "a GEPA candidate",
        }
    }
}

/// What an import came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Imported {
    /// What was found.
    pub kind: ImportKind,
    /// What was written.
    pub written: Vec<PathBuf>,
    /// What became what.
    pub mapped: Vec<Mapped>,
    /// What has no counterpart and changes something.
    pub unmapped: Vec<Unmapped>,
    /// What has no counterpart, and no effect in what was imported either.
    pub idle: Vec<Unmapped>,
    /// What is missing before a run can begin, one line each.
    pub missing: Vec<String>,
}

/// A file to write, by its path below the directory that is written.
type NewFile = (String, Vec<u8>);

/// What an import gives: files below the destination, and its lists.
#[derive(Debug, Clone, PartialEq, Default)]
struct Outcome {
    files: Vec<NewFile>,
    mapping: Mapping,
}

/// The gate of an imported run, from its `config.json` in this directory; `None` for runs of this program.
///
/// # Errors
///
/// Settings that say no gate, such as a metric of an unknown name.
pub(crate) fn gate_of(run: &Path, config: &Value) -> Result<Option<skill_core::Gate>, ImportError> {
    if config.get(IMPORTED_FROM).is_none() {
        return Ok(None);
    }
    let settings = config.get(IMPORTED_SETTINGS).unwrap_or(&Value::Null);
    let settings =
        run_record::Settings::of(settings).map_err(|fault| run::bad(run, "config.json", &fault))?;
    Ok(Some(settings.gate))
}

/// Whether a directory holds a run that was imported.
pub fn is_imported(run: &Path) -> bool {
    let config = skill_pipeline::run_dir::read_config(run);
    config.is_ok_and(|config| config.is_some_and(|file| file.config.get(IMPORTED_FROM).is_some()))
}

/// What `config.json` of an imported run holds.
const IMPORTED_FROM: &str = "imported_from";
const IMPORTED_SETTINGS: &str = "settings";

/// The name of the list that is written beside what was imported.
const LIST_FILE: &str = "imported.md";

/// Reads, maps and writes.
///
/// # Errors
///
/// A source that is none of the known kinds or cannot be read, and a destination that is there or cannot be written.
pub fn import(options: &ImportOptions) -> Result<Imported, Error> {
    let source = Source::of(&options.from)?;
    let place = Place::of(&options.to);
    let (kind, outcome) = match source {
        Source::Config(path) => (
            ImportKind::SkilloptConfig,
            skillopt::import(&path, &place.root, place.named("toml").unwrap_or(FILE_NAME))?,
        ),
        Source::SkillrlConfig(path) => (
            ImportKind::SkillrlConfig,
            skillopt::import_skillrl(&path, place.named("toml").unwrap_or(FILE_NAME))?,
        ),
        Source::KrillConfig { path, members } => (
            ImportKind::KrillConfig,
            import_krill(&path, &members, place.named("toml").unwrap_or(FILE_NAME))?,
        ),
        Source::Run { dir, is_skillopt } => {
            let kind = if is_skillopt { ImportKind::SkilloptRun } else { ImportKind::SkillrlRun };
            (kind, run::import(&dir, kind)?)
        }
        Source::Gepa(value) => {
            (ImportKind::GepaCandidate, gepa::import(&value, options.candidate, place.named("md"))?)
        }
    };
    let Outcome { mut files, mapping: Mapping { mapped, unmapped, idle, missing } } = outcome;
    let mut imported = Imported { kind, written: Vec::new(), mapped, unmapped, idle, missing };
    let from = options.from.file_name().unwrap_or(options.from.as_os_str()).to_string_lossy();
    files.push((place.list.clone(), list::markdown(&from, &imported).into_bytes()));
    imported.written = write(options, kind, &place.root, &files)?;
    Ok(imported)
}

/// `path` is where the file is, and `name` what ours will be called.
fn import_krill(path: &Path, members: &Map<String, Value>, name: &str) -> Result<Outcome, ImportError> {
    let mut draft = krill::mapped(members);
    draft.mapping.lose("--env", "", "is an option of that program: write [env], such as kind = \"alfworld\"");
    skillopt::finish(path, name, draft)
}

/// Where everything is written.
struct Place {
    root: PathBuf,
    /// The name of the one file that was asked for; without it everything has a name of its own below the root.
    file: Option<String>,
    list: String,
}

impl Place {
    fn of(to: &Path) -> Self {
        let ending = to.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        if !matches!(ending.as_str(), "toml" | "md") {
            return Self { root: to.to_owned(), file: None, list: LIST_FILE.to_owned() };
        }
        let root = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let stem = to.file_stem().unwrap_or_default().to_string_lossy();
        Self {
            root: root.to_owned(),
            file: to.file_name().map(|name| name.to_string_lossy().into_owned()),
            list: format!("{stem}.{LIST_FILE}"),
        }
    }

    /// The name of the one file, if it ends like this.
    fn named(&self, ending: &str) -> Option<&str> {
        self.file.as_deref().filter(|file| file.to_lowercase().ends_with(&format!(".{ending}")))
    }
}

/// Writes all files or none: nothing is replaced unless that is asked.
fn write(
    options: &ImportOptions,
    kind: ImportKind,
    root: &Path,
    files: &[NewFile],
) -> Result<Vec<PathBuf>, ImportError> {
    let is_run = matches!(kind, ImportKind::SkilloptRun | ImportKind::SkillrlRun);
    let is_taken = |dir: &Path| std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some());
    let taken = match is_run {
        // A run of two sources would be none.
        true => is_taken(root).then(|| root.to_owned()),
        false => files.iter().map(|(path, _)| root.join(path)).find(|path| path.exists()),
    };
    if let Some(path) = taken
        && (!options.force || is_run)
    {
        return Err(ImportError::Exists { path, may_force: !is_run });
    }
    let mut written = Vec::with_capacity(files.len());
    for (path, bytes) in files {
        let path = root.join(path);
        let cannot = |source| ImportError::Write { path: path.clone(), source };
        std::fs::create_dir_all(path.parent().unwrap_or(root)).map_err(cannot)?;
        std::fs::write(&path, bytes).map_err(cannot)?;
        written.push(path);
    }
    Ok(written)
}

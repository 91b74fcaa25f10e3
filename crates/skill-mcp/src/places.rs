//! What a client may name: runs by their names in the listing, configurations and skills by their paths below one
//! directory.
//!
//! # Invariants
//!
//! - Nothing outside the two directories is read, written or started from, whatever a client names. Held by
//!   `tests/mcp/guard.rs`.

use crate::error::ToolError;
use skill_pipeline::run_dir::is_run;
use skill_report::watch::{Found, Listing, MAX_DEPTH, Row, leaving_link};
use skillrl::config::{Config, LoadedConfig};
use std::io;
use std::path::{Component, Path, PathBuf};

/// How many names a message lists.
const MAX_NAMES: usize = 20;
/// Overrides that are taken at once.
const MAX_OVERRIDES: usize = 50;
/// What an override may change: how a run trains, and neither what it talks to, what it starts, nor what it may spend.
const CHANGEABLE: [&str; 3] = ["train.", "gate.", "eval."];

/// The directory below which configurations are.
#[derive(Debug, Clone)]
pub(crate) struct Configs {
    root: PathBuf,
}

impl Configs {
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        let root = dir.canonicalize()?;
        std::fs::read_dir(&root)?;
        Ok(Self { root })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The file of a configuration. What is outside and what is not there are not told apart.
    pub(crate) fn find(&self, name: &str) -> Result<PathBuf, ToolError> {
        let path = self.below(name).filter(|path| path.is_file());
        path.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).ok_or_else(|| {
            ToolError::new(
                format!("configuration `{name}` not found below {}", self.root.display()),
                "call list_configurations for those that there are; a path is relative to that directory",
            )
        })
    }

    /// What is there of this name, below the directory.
    pub(crate) fn below(&self, name: &str) -> Option<PathBuf> {
        let path = self.root.join(name).canonicalize().ok()?;
        (path.starts_with(&self.root) && path != self.root).then_some(path)
    }

    /// Reads a configuration with overrides of the keys that a client may change.
    pub(crate) fn load(
        &self,
        name: &str,
        overrides: &[String],
    ) -> Result<(PathBuf, LoadedConfig), ToolError> {
        let path = self.find(name)?;
        if overrides.len() > MAX_OVERRIDES {
            return Err(ToolError::new(
                format!("more than {MAX_OVERRIDES} overrides"),
                "change the configuration file instead",
            ));
        }
        for entry in overrides {
            let key = entry.split('=').next().unwrap_or_default().trim();
            if !CHANGEABLE.iter().any(|section| key.starts_with(section)) {
                return Err(ToolError::new(
                    format!("`{key}` cannot be changed here"),
                    "override keys of [train], [gate] and [eval] only; caps are arguments of the tool, and a person \
                     changes the rest in the configuration file",
                ));
            }
        }
        let loaded = Config::load(&path, overrides)?;
        Ok((path, loaded))
    }
}

/// The run of a name, by comparing it with those of the listing.
pub(crate) fn find<'listing>(
    listing: &'listing Listing,
    name: &str,
) -> Result<(&'listing Found, &'listing Row), ToolError> {
    listing.find(name).ok_or_else(|| {
        let known: Vec<String> = listing.rows.iter().map(|row| format!("`{}`", row.name)).collect();
        let hint = match known.len() {
            0 => "there are no runs yet: start_run starts one".to_owned(),
            n if n > MAX_NAMES => "call list_runs for the names of the runs".to_owned(),
            _ => format!("the runs are {}", known.join(", ")),
        };
        ToolError::new(format!("run `{name}` not found"), hint)
    })
}

/// Refuses a run or a measurement with a link that leaves the directory: before it is read in depth or resumed.
pub(crate) fn refuse_leaving(root: &Path, found: &Found) -> Result<(), ToolError> {
    let leaving = leaving_link(root, &found.path)
        .map_err(|error| ToolError::new(found.problem(&error), "try again; its directory cannot be read"))?;
    match leaving {
        None => Ok(()),
        Some(link) => Err(ToolError::new(
            format!(
                "{link} is a link that leaves the runs directory, so nothing of `{}` is read or written",
                found.name
            ),
            "tell the person whom you work for, who can remove that link",
        )),
    }
}

/// The name of a run directory that may not be there yet; `None` if it is not where runs are found.
pub(crate) fn name_of_run(root: &Path, dir: &Path) -> Option<String> {
    let path = real(&std::path::absolute(dir).ok()?)?;
    let below = path.strip_prefix(root).ok()?;
    let names: Vec<&str> = below.iter().map(|name| name.to_str()).collect::<Option<_>>()?;
    match names.as_slice() {
        // The directory is that of one run; in one of many runs it would hide all others.
        [] if is_run(root) || is_empty(root) || !root.exists() => {
            root.file_name().map(|name| name.to_string_lossy().into_owned())
        }
        names
            if (1..=MAX_DEPTH).contains(&names.len()) && !names.iter().any(|name| name.starts_with('.')) =>
        {
            Some(names.join("/"))
        }
        _ => None,
    }
}

/// A run directory for which [`name_of_run`] has no name, in words.
pub(crate) fn outside(root: &Path, dir: &Path) -> String {
    format!(
        "the run of this configuration would be in {}, which is not a place for a run in {}",
        dir.display(),
        root.display()
    )
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

/// A path as the system goes it, without links and `..`, as far as there is a way; `None` above the root.
fn real(path: &Path) -> Option<PathBuf> {
    let mut real = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir if !real.pop() => return None,
            Component::ParentDir | Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                real.push(component);
                real = real.canonicalize().unwrap_or(real);
            }
        }
    }
    Some(real)
}

//! The skill or the bank that is measured: of a run, or below the directory of configurations.
//!
//! # Invariants
//!
//! - No other file is sent to a provider as a skill. Held by `only_skills_and_banks_are_measured`.

use crate::error::ToolError;
use crate::places;
use crate::shared::Shared;
use skill_pipeline::kind::{Trained, trained_at};
use skill_pipeline::records::bank::BANK_DIR;
use skill_report::watch::{Found, Listing};
use skillrl::config::LoadedConfig;
use skillrl::skills::{read_shown_bank, read_skill};
use std::path::{Path, PathBuf};

const SKILL_FILE: &str = "SKILL.md";

/// What is measured.
pub(super) struct Sources {
    pub(super) skill: Option<PathBuf>,
    pub(super) bank: Option<PathBuf>,
    /// The hash of the skill, and the version of the bank.
    pub(super) content: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Skill,
    Bank,
}

impl Sources {
    pub(super) fn find(
        shared: &Shared,
        listing: &Listing,
        (skill, bank): (Option<&str>, Option<&str>),
        loaded: &LoadedConfig,
    ) -> Result<Self, ToolError> {
        let find = |name: Option<&str>, what| name.map(|name| find(shared, listing, name, what)).transpose();
        let (skill, bank) = (find(skill, What::Skill)?, find(bank, What::Bank)?);
        let mut content = Vec::new();
        // Without a name it is the best skill of the configuration's run, if that has one.
        let of_run = || Some(best_skill(&loaded.run_dir())).filter(|path| bank.is_none() && path.exists());
        if let Some(path) = skill.clone().or_else(of_run) {
            content.push(read_skill(&path)?.hash().to_string());
        }
        if let Some(path) = &bank {
            content.push(read_shown_bank(path)?.bank.view().version().to_owned());
        }
        let content = (!content.is_empty()).then(|| content.join(" "));
        Ok(Self { skill, bank, content })
    }
}

/// The best skill of a run: its folder where it has several files.
fn best_skill(run: &Path) -> PathBuf {
    let folder = run.join("best_skill");
    if folder.is_dir() { folder } else { run.join("best_skill.md") }
}

/// What a run has made, or what is below the directory of configurations.
fn find(shared: &Shared, listing: &Listing, name: &str, what: What) -> Result<PathBuf, ToolError> {
    if let Some((found, _)) = listing.find(name) {
        places::refuse_leaving(shared.runs.root(), found)?;
        return of_run(found, what);
    }
    let not_found = || {
        ToolError::new(
            format!("`{name}` is not a run, and not found below {}", shared.configs.root().display()),
            "call list_runs for the names of runs; a path is relative to the directory of configurations",
        )
    };
    let path = shared.configs.below(name).ok_or_else(not_found)?;
    let root = shared.configs.root();
    let below = path.strip_prefix(root).map_err(|_| not_found())?;
    if below.iter().any(|part| part.to_string_lossy().starts_with('.')) {
        return Err(not_found());
    }
    if !is_form_of(&path, what) {
        let (form, hint) = match what {
            What::Skill => ("a skill", "name a Markdown file (.md), or a folder with a SKILL.md in it"),
            What::Bank => ("a bank", "name a folder of a bank, or its file (.json or .jsonl)"),
        };
        return Err(ToolError::new(format!("`{name}` does not have the form of {form}"), hint));
    }
    if path.is_dir() {
        places::refuse_leaving(root, &Found { name: name.to_owned(), path: path.clone(), leaving: None })?;
    }
    Ok(path)
}

/// By its name: what is in it is looked at afterwards.
fn is_form_of(path: &Path, what: What) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    match (what, path.is_dir()) {
        (What::Skill, true) => path.join(SKILL_FILE).is_file(),
        (What::Skill, false) => ending == "md",
        (What::Bank, true) => true,
        (What::Bank, false) => ["json", "jsonl"].contains(&ending),
    }
}

fn of_run(found: &Found, what: What) -> Result<PathBuf, ToolError> {
    let refused =
        |made: &str, hint: &str| Err(ToolError::new(format!("the run `{}` {made}", found.name), hint));
    match (what, trained_at(&found.path)) {
        (What::Skill, Trained::Skill) => Ok(best_skill(&found.path)),
        (What::Skill, Trained::Bank) => {
            refused("trains a bank, and has no best skill", "pass the name of the run as `bank`")
        }
        (What::Skill, Trained::Weights) => {
            refused("trains weights, and has no best skill", "name a run that trains a skill, or a file")
        }
        (What::Bank, Trained::Bank) => Ok(found.path.join(BANK_DIR)),
        (What::Bank, Trained::Skill) => {
            refused("trains a skill, and has no bank", "pass the name of the run as `skill`")
        }
        (What::Bank, Trained::Weights) => {
            refused("trains weights, and has no bank to measure", "name a run that trains a bank, or a file")
        }
    }
}

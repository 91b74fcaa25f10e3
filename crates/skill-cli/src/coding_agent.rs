//! Coding agents by the names that people type.

use crate::error::CommandError;
use skill_agents::{Agent, agent, agents};
use skillrl::core::package::MAIN_FILE;
use skillrl::envs::evals::CaseSet;
use skillrl::envs::folder::package_around;
use skillrl::llm::Provider;
use skillrl::llm::agent::{AgentKind, DEFAULT_MODEL};
use std::path::{Path, PathBuf};

/// Where files of this program are in the folder of a skill: hidden, so that they are no part of it.
const HIDDEN: &str = ".skillrl";

/// The folder of a skill, where its `SKILL.md` is named.
pub(crate) fn folder_of_skill(path: PathBuf) -> PathBuf {
    match path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(MAIN_FILE)) && path.is_file() {
        true => path.parent().filter(|folder| *folder != "").unwrap_or(Path::new(".")).to_owned(),
        false => path,
    }
}

/// The place of what a command writes where none is named: here, and in a skill's own folder in a hidden one.
pub(crate) fn usual_place(name: &str) -> PathBuf {
    let here = PathBuf::from(name);
    if package_around(&here).is_some() { Path::new(HIDDEN).join(name) } else { here }
}

/// Refuses to write results into a skill, of which they would become a part.
pub(crate) fn check_outside(option: &str, dir: &Path) -> Result<(), CommandError> {
    let Some(skill) = package_around(dir) else { return Ok(()) };
    let message = format!(
        "{option} {} is in the folder of the skill {}, and would become a part of it",
        dir.display(),
        skill.display()
    );
    let hint = format!("name a directory outside of it, or a hidden one such as {HIDDEN}/results");
    Err(CommandError::new(message).with_hint(hint))
}

/// Where the cases of a skill are.
pub(crate) fn cases_place(skill: &Path, named: Option<&Path>) -> Result<PathBuf, CommandError> {
    named.map(Path::to_owned).or_else(|| CaseSet::usual_place(skill)).ok_or_else(|| {
        CommandError::new(format!(
            "{} has no cases: no evals/evals.json, and no case folders in evals/",
            skill.display()
        ))
        .with_hint(
            "write evals/evals.json, have a first set drafted with `skillrl eval SKILL --agent NAME --draft 8`, or name a file \
             or a folder of cases with --cases",
        )
    })
}

/// The agent of a name.
pub(crate) fn named(name: &str) -> crate::Result<&'static Agent> {
    if let Some(agent) = agent(name)? {
        return Ok(agent);
    }
    let names: Vec<&str> = agents()?.iter().map(|agent| agent.name.as_str()).collect();
    Err(CommandError::new(format!("{name:?} is not a known coding agent"))
        .with_hint(format!("known agents: {}", names.join(", ")))
        .into())
}

/// The kind of model that an agent is.
pub(crate) fn kind_of(agent: &Agent) -> Result<AgentKind, CommandError> {
    let is_it = |kind: &&AgentKind| kind.row().ok().flatten().is_some_and(|row| row.name == agent.name);
    let found = AgentKind::ALL.iter().find(is_it).copied();
    found.ok_or_else(|| CommandError::new(format!("{} cannot play a model", agent.title)))
}

/// The settings by which a coding agent plays a model, if that is what a name of `--model` means: `claude-code`, or with
/// its model `codex/gpt-5.5`.
pub(crate) fn model_settings(role: &str, name: &str) -> crate::Result<Option<Vec<String>>> {
    let (program, model) = name.split_once('/').unwrap_or((name, DEFAULT_MODEL));
    // Some agents and providers have the same name, and a provider's comes before a slash.
    let is_provider = name.contains('/') && Provider::find(program).is_some();
    let Some(agent) = agent(program)?.filter(|_| !is_provider) else { return Ok(None) };
    let kind = kind_of(agent)?;
    let key = |key: &str, value: &str| format!("models.{role}.{key}={value}");
    Ok(Some(vec![key("kind", "agent"), key("agent", kind.as_str()), key("model", model)]))
}

/// A program with a folder in its name is meant from here, and runs elsewhere.
pub(crate) fn located(program: &str) -> String {
    let path = Path::new(program);
    match path.components().count() > 1 {
        true => {
            std::path::absolute(path).map_or_else(|_| program.to_owned(), |path| path.display().to_string())
        }
        false => program.to_owned(),
    }
}

/// True if a program is on the PATH, or at its path.
pub(crate) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    match Path::new(program).components().count() {
        1 => std::env::split_paths(&path).any(|folder| folder.join(program).is_file()),
        _ => Path::new(program).is_file(),
    }
}

/// Looks for the programs that an agent needs besides its own.
pub(crate) fn check_needs(agent: &Agent) -> Result<(), CommandError> {
    match agent.needs.iter().find(|program| !is_installed(program)) {
        None => Ok(()),
        Some(needed) => {
            let message = format!("{} needs the program {needed:?}, and it is not on the PATH", agent.title);
            Err(CommandError::new(message).with_hint("install it: without it no skill is loaded"))
        }
    }
}

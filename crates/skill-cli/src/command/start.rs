//! Configurations of commands that can do without a file: what is assumed is said before anything is done.

use super::UsageError;
use crate::args::Start;
use skillrl::assemble::ModelRole;
use skillrl::config::{Amendments, Config, ConfigError, FILE_NAME, LoadedConfig, ProblemKind, world_text};
use skillrl::engine::simulated_models;
use std::path::Path;

/// The name of a configuration without a file, in messages.
const NO_FILE: &str = "without a configuration file";

/// Reads the configuration that a command starts from, and says what is assumed.
pub(super) fn load_start(start: &Start, quiet: bool) -> anyhow::Result<LoadedConfig> {
    let Start { file, overrides, env, is_mock, is_without_models } = start;
    let is_world_alone = file.is_none() && env.is_some();
    let simulates_models = *is_mock || is_world_alone && *is_without_models;
    let amendments = Amendments { env: *env, simulates_models };
    let loaded = match (file, env) {
        (None, Some(kind)) => {
            Config::parse_amended(&world_text(*kind, *is_mock), NO_FILE, overrides, amendments)
                .map_err(without_file)?
        }
        (file, _) => {
            let path = file.as_deref().unwrap_or(Path::new(FILE_NAME));
            Config::load_amended(path, overrides, amendments).map_err(|error| without_world(path, error))?
        }
    };
    loaded.check_paths().map_err(skillrl::Error::Config)?;
    say_mapping(&loaded);
    if let (false, true, Some(kind)) = (quiet, is_world_alone, env) {
        let text = world_text(*kind, *is_mock);
        let lines = text.lines().filter(|line| !line.is_empty()).map(|line| format!("\n  {line}"));
        let lines: String = lines.collect();
        super::say(&format!("no configuration file is read; assumed, besides the defaults:{lines}"));
    }
    if !quiet && *is_mock {
        super::say("all models are simulated");
    }
    Ok(loaded)
}

/// The first key that is missing, with an example of its value.
fn missing(error: &ConfigError) -> Option<(String, &'static str)> {
    error.problems().iter().find_map(|problem| match &problem.kind {
        ProblemKind::Missing { key, example } => Some((key.clone(), *example)),
        _ => None,
    })
}

/// Configurations of other systems name no environment.
fn without_world(path: &Path, error: ConfigError) -> anyhow::Error {
    let is_of_others = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    match missing(&error).filter(|(key, _)| is_of_others && key.starts_with("env.")) {
        Some(_) => UsageError::new(error.to_string())
            .with_hint("such a file names no environment: name a world with `--env`, or set `env.kind` and its keys with `--set`")
            .into(),
        None => skillrl::Error::Config(error).into(),
    }
}

/// Without a file, nobody can add a line to it.
fn without_file(error: ConfigError) -> anyhow::Error {
    match missing(&error) {
        Some((key, example)) => UsageError::new(error.to_string())
            .with_hint(format!(
                "give it with `--set {key}={}`, name a configuration file, or use simulated models with `--mock`",
                example.trim_matches('"')
            ))
            .into(),
        None => skillrl::Error::Config(error).into(),
    }
}

/// Lists what became of the keys of a file of another system.
pub(super) fn say_mapping(loaded: &LoadedConfig) {
    let Some(mapping) = &loaded.mapping else { return };
    let mut lines =
        vec![format!("{}: a configuration of krill or of SkillRL in Rust; taken:", loaded.origin)];
    lines.extend(mapping.mapped.iter().map(|(key, to)| format!("  {key} -> {to}")));
    if !mapping.unmapped.is_empty() {
        lines.push("without a counterpart:".to_owned());
        lines.extend(mapping.unmapped.iter().map(|(key, reason)| format!("  {key}: {reason}")));
    }
    super::say(&lines.join("\n"));
}

/// A line that says which models of a result are simulated; empty where `--mock` did not ask for them.
pub(super) fn simulated_line(start: &Start, loaded: &LoadedConfig, roles: &[ModelRole]) -> String {
    let names = simulated_models(&loaded.config, roles);
    match start.is_mock && !names.is_empty() {
        true => {
            format!("simulated models: {}; these numbers do not apply to real models\n", names.join(", "))
        }
        false => String::new(),
    }
}

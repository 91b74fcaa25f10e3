//! Configurations of commands that can do without a file: what is assumed is said before anything is done.

use crate::args::{Start, as_word};
use crate::error::CommandError;
use crate::table::grouped;
use skillrl::config::{
    Amendments, Config, ConfigError, EnvConfig, EnvKind, FILE_NAME, LoadedConfig, ModelConfig, ModelRole,
    ProblemKind, TrainMode, simulated_models, world_text,
};
use skillrl::envs::alfworld::Rooms;
use skillrl::envs::tasks::DATA_FORMATS;
use skillrl::identify::{PathError, PathKind, identify};
use skillrl::pipeline::run_dir::is_run;
use skillrl::replay;
use std::path::{Path, PathBuf};

/// The name of a configuration without a file, in messages.
const NO_FILE: &str = "without a configuration file";

/// The copy of its configuration in a run.
const COPY_NAME: &str = "config.toml";

/// A configuration, and how the command came to it.
pub(crate) struct Started {
    pub(crate) loaded: LoadedConfig,
    /// True if no configuration of ours names a directory for the run.
    pub(crate) is_without_run_dir: bool,
}

impl Start {
    /// The file that is read; `None` for a world without one.
    fn source(&self) -> Option<&Path> {
        let here = Path::new(FILE_NAME);
        let is_optional = self.env.is_some() || self.is_phase && !here.exists();
        self.file.as_deref().or((!is_optional).then_some(here))
    }

    /// True if no model is configured and none is needed but simulated ones.
    fn is_simulated(&self) -> bool {
        let names_models = || self.overrides.iter().any(|setting| setting.starts_with("models."));
        self.mock.unwrap_or_else(|| self.is_phase && self.source().is_none() && !names_models())
    }
}

/// Reads the configuration that a command starts from, and says what is assumed.
pub(crate) fn load_start(start: &Start, quiet: bool) -> crate::Result<LoadedConfig> {
    Ok(load_started(start, quiet)?.loaded)
}

/// As [`load_start`], with how the command came to the configuration.
pub(crate) fn load_started(start: &Start, quiet: bool) -> crate::Result<Started> {
    if let (Some(file), Some(config), None) = (&start.file, &start.config, &start.made)
        && file != config
    {
        let message = format!("{} and --config {} are both named", file.display(), config.display());
        return Err(CommandError::new(message).with_hint("name one of them").into());
    }
    let source = start.source();
    let loaded = read(start).map_err(|error| match (source, error) {
        (None, skillrl::Error::Config(error)) => without_file(error),
        (_, error) => error.into(),
    })?;
    loaded.check_paths()?;
    if let (false, Some(left_out)) = (quiet, left_out_phases(&loaded, start)) {
        crate::output::say(&left_out);
    }
    say_mapping(&loaded);
    if !quiet && source.is_none() {
        crate::output::say(&assumed(&loaded, start));
    } else if !quiet && start.is_simulated() {
        crate::output::say("all models are simulated");
    }
    Ok(Started { loaded, is_without_run_dir: source.is_none_or(is_json) })
}

/// Reads the configuration that a command starts from, or that of a run; nothing is said or looked up.
pub(crate) fn read(start: &Start) -> Result<LoadedConfig, skillrl::Error> {
    let inner = start.source().filter(|_| start.made.is_none()).map(found_at).transpose()?;
    let (source, is_mock) = match &inner {
        Some(Found::Run(run)) => return replay::recorded_with(run, &start.overrides),
        Some(Found::File(file)) => (Some(file.as_path()), start.is_simulated()),
        None => (start.source(), start.is_simulated()),
    };
    // Neither a file of krill nor a command without any file names a world, and both mean this one.
    let is_default_world = source.is_none_or(is_json);
    let env = start.env.or(is_default_world.then_some(EnvKind::Alfworld));
    let amendments = Amendments {
        env,
        simulates_models: is_mock || source.is_none() && start.is_without_models,
        // All phases work in the same world.
        trains_weights: start.trains_weights || start.is_phase && source.is_none(),
        all_phases: start.is_training && is_mock && is_default_world,
        optimizer: start.optimizer,
    };
    Ok(match (source, env) {
        (None, Some(kind)) => {
            Config::parse_amended(&world_text(kind, is_mock), NO_FILE, &start.overrides, amendments)?
        }
        (source, _) => match &start.made {
            Some(made) => Config::parse_amended(&made.text, &made.origin, &start.overrides, amendments)?,
            None => {
                let path = source.unwrap_or(Path::new(FILE_NAME));
                Config::load_amended(path, &start.overrides, amendments)?
            }
        },
    })
}

/// Where a configuration is read.
enum Found {
    File(PathBuf),
    Run(PathBuf),
}

/// The configuration at a path: a file, that of a run, or `skillrl.toml` of a directory.
///
/// # Errors
///
/// A path that is something else.
fn found_at(path: &Path) -> Result<Found, skillrl::Error> {
    match identify(path) {
        Ok(PathKind::Run) => Ok(Found::Run(path.to_owned())),
        // The copy in a run is complete with what the run has recorded.
        Ok(PathKind::Config) if let Some(run) = run_of_copy(path) => Ok(Found::Run(run)),
        Ok(PathKind::Config) if path.is_dir() => Ok(Found::File(path.join(FILE_NAME))),
        Ok(PathKind::Config) => Ok(Found::File(path.to_owned())),
        Ok(kind) => {
            let hint = instead_of(path, kind);
            let (path, expected) = (path.to_owned(), "a configuration or a run");
            Err(PathError::Other { path, kind, expected, hint }.into())
        }
        // The reader of configurations says what is wrong with another file, or with one that is not there.
        Err(PathError::Unknown { .. } | PathError::Missing { .. }) if !path.is_dir() => {
            Ok(Found::File(path.to_owned()))
        }
        Err(error) => Err(error.into()),
    }
}

/// What to do with a path that a command does not start from.
pub(crate) fn instead_of(path: &Path, kind: PathKind) -> String {
    let path = as_word(&path.display().to_string());
    match kind {
        PathKind::Data => format!("`skillrl train {path} --answer FIELD --dry-run` checks data"),
        PathKind::Skill => format!(
            "start from it with `skillrl train DATA --skill {path}`; `skillrl skill triggers {path} --agent NAME` \
             measures when a coding agent loads it"
        ),
        PathKind::Bank => {
            format!("`skillrl bank show {path}` shows it; a run starts from it as `bank.initial`")
        }
        PathKind::Evals => format!(
            "`skillrl skill triggers DIR --agent NAME --queries {path}` asks a coding agent what is in it; to train, \
             name a file with records ({DATA_FORMATS})"
        ),
        PathKind::Tasks => format!("name a file with records ({DATA_FORMATS})"),
        PathKind::Session => format!(
            "`skillrl skill loads {path} --agent NAME` shows which skills it loaded; requests like its first one, a line \
             each, are data for `skillrl train DATA --skill DIR --rubric TEXT`"
        ),
        PathKind::Run | PathKind::Config => {
            "name a configuration (TOML) or the directory of a run".to_owned()
        }
    }
}

/// The run whose copy of its configuration this file is.
fn run_of_copy(path: &Path) -> Option<PathBuf> {
    let dir = path.parent().filter(|_| path.file_name().is_some_and(|name| name == COPY_NAME))?;
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    (path.is_file() && is_run(dir)).then(|| dir.to_owned())
}

pub(crate) fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
}

/// What a command without a configuration file assumes, in a line.
fn assumed(loaded: &LoadedConfig, start: &Start) -> String {
    let config = &loaded.config;
    let mut text = format!("no configuration file is read: {}", described_world(&config.env));
    if start.is_simulated() {
        text.push_str(", simulated models");
    }
    if config.train.mode == TrainMode::Weights || start.trains_weights {
        text.push_str(match config.models.target {
            ModelConfig::Simulated(_) => ", and a small decoder as the policy that is trained",
            _ => ", and the target as the policy that is trained",
        });
        let sft = config.sft.clone().unwrap_or_default();
        let rl = config.rl.clone().unwrap_or_default();
        text.push_str(&format!(
            " (sft.examples {}, sft.epochs {}, rl.iterations {})",
            grouped(u64::from(sft.examples)),
            sft.epochs,
            rl.iterations
        ));
    } else if !start.is_phase {
        text.push_str("; a bank is trained");
    }
    text.push_str("; --set KEY=VALUE changes a setting");
    text
}

fn described_world(env: &EnvConfig) -> String {
    match env {
        EnvConfig::Alfworld(asked) => {
            let rooms = match asked.rooms {
                Rooms::Small => " in small rooms",
                _ => "",
            };
            let counts =
                [asked.max_train, asked.max_val, asked.max_test].map(|n| n.map(|n| grouped(n as u64)));
            match counts {
                [Some(train), Some(val), Some(test)] => {
                    format!(
                        "household games{rooms} ({train} to train on, {val} for selection, {test} to test)"
                    )
                }
                _ => format!("household games{rooms}"),
            }
        }
        EnvConfig::Webshop(_) => "the bundled shop".to_owned(),
        EnvConfig::SearchAgent(asked) if asked.questions.is_none() => {
            "made-up questions with a search tool".to_owned()
        }
        other => format!("the environment {}", other.kind()),
    }
}

/// The phases that krill and SkillRL have and this run leaves out, and how to get them.
fn left_out_phases(loaded: &LoadedConfig, start: &Start) -> Option<String> {
    let is_chosen = !start.source().is_none_or(is_json)
        || start.overrides.iter().any(|setting| setting.starts_with("train.mode="));
    let is_of_bank = loaded.config.train.mode == TrainMode::Bank;
    if is_chosen || !start.is_training || !is_of_bank {
        return None;
    }
    if !start.is_simulated() {
        return Some(
            "left out: fine-tuning and GRPO, which train a model on this machine: `train.mode = \"weights\"` with a \
             target of kind \"local\" has them"
                .to_owned(),
        );
    }
    match loaded.config.env {
        EnvConfig::Webshop(_) | EnvConfig::SearchAgent(_) => Some(
            "left out: fine-tuning and GRPO; the policy that comes with the program plays households only \
             (`--env alfworld`), and `train.mode = \"weights\"` trains a model of yours"
                .to_owned(),
        ),
        EnvConfig::Alfworld(_) if !cfg!(feature = "weights") => Some(format!(
            "left out: fine-tuning and GRPO; this program was built without local models, and \
             `{}` builds it with them",
            crate::error::INSTALL_FULL
        )),
        _ => None,
    }
}

/// The first key that is missing, with an example of its value.
fn missing(error: &ConfigError) -> Option<(String, &'static str)> {
    error.problems().iter().find_map(|problem| match &problem.kind {
        ProblemKind::Missing { key, example } => Some((key.clone(), *example)),
        _ => None,
    })
}

/// Without a file, nobody can add a line to it.
fn without_file(error: ConfigError) -> crate::CliError {
    match missing(&error) {
        Some((key, example)) => CommandError::new(error.to_string())
            .with_hint(format!(
                "give it with `--set {key}={}`, name a configuration file, or use simulated models with `--mock`",
                example.trim_matches('"')
            ))
            .into(),
        None => error.into(),
    }
}

/// Lists what became of the keys of a file of another system.
pub(crate) fn say_mapping(loaded: &LoadedConfig) {
    let Some(mapping) = &loaded.mapping else { return };
    let mut lines =
        vec![format!("{}: a configuration of krill or of SkillRL in Rust; taken:", loaded.origin)];
    lines.extend(mapping.mapped.iter().map(|taken| format!("  {} -> {}", taken.key, taken.to)));
    let lost: Vec<_> =
        mapping.without_counterpart().map(|lost| format!("  {}: {}", lost.key, lost.reason)).collect();
    if !lost.is_empty() {
        lines.push("without a counterpart:".to_owned());
        lines.extend(lost);
    }
    crate::output::say(&lines.join("\n"));
}

/// A line that says which models of a result are simulated; empty where a configuration file asks for them itself.
pub(crate) fn simulated_line(start: &Start, loaded: &LoadedConfig, roles: &[ModelRole]) -> String {
    let names = simulated_models(&loaded.config, roles);
    let is_of_run = start.source().is_some_and(|path| path.join("config.json").is_file());
    match (start.is_simulated() || is_of_run) && !names.is_empty() {
        true => {
            format!("simulated models: {}; these numbers do not apply to real models\n", names.join(", "))
        }
        false => String::new(),
    }
}

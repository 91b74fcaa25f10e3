//! The configuration of commands that can do without a file.

use super::as_word;
use clap::Args;
use clap::builder::PossibleValuesParser;
use skillrl::config::{EnvKind, FILE_NAME, OptimizerUse};
use std::ffi::OsString;
use std::fmt::Debug;
use std::path::{Path, PathBuf};

/// A configuration, or a built-in world without one.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct StartArgs {
    /// The configuration file, or a run; without it and without `--env`, skillrl.toml.
    #[arg(value_name = "CONFIG|RUN")]
    config_file: Option<PathBuf>,

    /// The configuration file.
    ///
    /// With a data file: where the configuration is written, unless it is there already.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    shared: SharedArgs,
}

/// The configuration of a command whose first argument is something else.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct StartOption {
    /// The configuration file, or a run; without it and without `--env`, skillrl.toml.
    #[arg(long = "config", value_name = "FILE")]
    config_file: Option<PathBuf>,

    #[command(flatten)]
    shared: SharedArgs,
}

#[derive(Debug, Clone, Default, Args)]
struct SharedArgs {
    /// Override one setting, such as `train.batch_size=8`; may be given more than once.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,

    /// Built-in environment, with its defaults if no configuration file is named.
    #[arg(long, value_name = "WORLD", value_parser = worlds())]
    env: Option<String>,

    /// Replace all models with simulated ones (no network, no API key).
    ///
    /// Every result says so.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    mock: Option<bool>,
}

/// The built-in worlds.
fn worlds() -> PossibleValuesParser {
    PossibleValuesParser::new(EnvKind::built_in_worlds().map(EnvKind::as_str))
}

/// What a command starts from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Start {
    /// The configuration file that was named.
    pub(crate) file: Option<PathBuf>,
    /// Settings of the form `KEY=VALUE`.
    pub(crate) overrides: Vec<String>,
    /// The world that was named.
    pub(crate) env: Option<EnvKind>,
    /// Whether all models are simulated, where it was said.
    pub(crate) mock: Option<bool>,
    /// True if the command asks no model, so that a world without a configuration file needs none.
    pub(crate) is_without_models: bool,
    /// True for a command that is one phase of training a policy: without a configuration it works in small households
    /// with simulated models.
    pub(crate) is_phase: bool,
    /// True for `train`, which goes through all phases, and for the commands that describe its run.
    pub(crate) is_training: bool,
    /// True where `--yes` agrees to what would be asked.
    pub(crate) agrees: bool,
    /// True if the command trains weights.
    pub(crate) trains_weights: bool,
    /// What the command needs an optimizer for.
    pub(crate) optimizer: OptimizerUse,
    /// The value of `--config`, which is also the file where no other path is named.
    pub(crate) config: Option<PathBuf>,
    /// A configuration that was made from data; it is read in place of a file.
    pub(crate) made: Option<MadeConfig>,
}

/// The text of a configuration that no file holds, or that one will hold; paths in it are relative to this directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MadeConfig {
    /// The text.
    pub(crate) text: String,
    /// How it is called in messages.
    pub(crate) origin: String,
}

impl Start {
    /// A configuration file alone.
    pub(crate) fn of_file(path: &Path) -> Self {
        Self { file: Some(path.to_owned()), ..Self::default() }
    }

    /// The same arguments as words of a command that is shown.
    pub(crate) fn as_shell(&self) -> String {
        let file = self.file.as_ref().map(|file| as_word(&file.display().to_string()));
        let env = self.env.map(|env| format!("--env {}", env.as_str()));
        let mock = self.mock.map(|mock| if mock { "--mock".to_owned() } else { "--mock=false".to_owned() });
        let settings = self.overrides.iter().map(|setting| format!("--set {}", as_word(setting)));
        let named = file.or_else(|| env.is_none().then(|| FILE_NAME.to_owned()));
        named.into_iter().chain(env).chain(mock).chain(settings).collect::<Vec<_>>().join(" ")
    }
}

impl SharedArgs {
    fn start(&self, file: Option<&PathBuf>) -> Start {
        Start {
            file: file.cloned(),
            overrides: self.overrides.clone(),
            env: self.env.as_deref().and_then(EnvKind::parse),
            mock: self.mock,
            ..Start::default()
        }
    }
}

impl StartArgs {
    /// The place of the path, if none is named and none is left out for a world.
    pub(crate) fn unnamed(&mut self) -> Option<&mut Option<PathBuf>> {
        let is_unnamed = self.config_file.is_none() && self.config.is_none() && self.shared.env.is_none();
        is_unnamed.then_some(&mut self.config_file)
    }

    /// What the command starts from.
    pub(crate) fn start(&self) -> Start {
        let named = self.config_file.as_ref().or(self.config.as_ref());
        Start { config: self.config.clone(), ..self.shared.start(named) }
    }

    /// The same with options of the command as settings; `--set` has the last word.
    #[cfg(feature = "weights")]
    pub(crate) fn start_with(&self, options: impl IntoIterator<Item = Option<String>>) -> Start {
        let start = self.start();
        Start { overrides: options.into_iter().flatten().chain(start.overrides).collect(), ..start }
    }
}

/// An option as the setting that it is, if it was given.
pub(super) fn setting<T: Debug>(key: &str, value: Option<T>) -> Option<String> {
    Some(format!("{key}={:?}", value?))
}

impl StartOption {
    /// What the command starts from.
    pub(crate) fn start(&self) -> Start {
        self.shared.start(self.config_file.as_ref())
    }
}

/// The command line with the options of krill and SkillRL where clap looks for them: `--config`, `--env` and `--mock` may
/// stand before the command, and `--mock` may have its value behind it.
pub(crate) fn arranged(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut rest = arguments.into_iter().peekable();
    let mut arranged: Vec<OsString> = rest.next().into_iter().collect();
    let mut moved: Vec<OsString> = Vec::new();
    let mut has_command = false;
    while let Some(argument) = rest.next() {
        let text = argument.to_str().unwrap_or_default();
        if text == "--" {
            // Arguments after `--` are positional.
            arranged.extend(moved.drain(..).chain([argument]).chain(rest.by_ref()));
            break;
        }
        let is_mock = text == "--mock" || text.starts_with("--mock=");
        let has_value = ["--config", "--env"].contains(&text);
        let is_of_all = is_mock || has_value || text.starts_with("--config=") || text.starts_with("--env=");
        let value = rest.peek().and_then(|next| next.to_str()).map(str::to_owned);
        let argument = match value {
            Some(value) if text == "--mock" && ["true", "false"].contains(&value.as_str()) => {
                rest.next();
                format!("--mock={value}").into()
            }
            _ => argument,
        };
        if is_of_all && !has_command {
            moved.push(argument);
            moved.extend(has_value.then(|| rest.next()).flatten());
            continue;
        }
        has_command |= !argument.to_str().is_some_and(|text| text.starts_with('-'));
        arranged.push(argument);
    }
    arranged.extend(moved);
    arranged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(given: &str, expected: &str) {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(arranged(words(given)), words(expected));
    }

    #[test]
    fn options_of_all_commands_may_stand_before_them() {
        check("skillrl train x.toml", "skillrl train x.toml");
        check("skillrl --mock collect --out x", "skillrl collect --out x --mock");
        check("skillrl --mock true collect --out x", "skillrl collect --out x --mock=true");
        check("skillrl --config c.json --env webshop rl", "skillrl rl --config c.json --env webshop");
        check("skillrl -v --env=webshop train", "skillrl -v train --env=webshop");
        check("skillrl train --mock false --env alfworld", "skillrl train --mock=false --env alfworld");
        check("skillrl train --mock x.toml", "skillrl train --mock x.toml");
        check("skillrl --mock env check -- --mock true", "skillrl env check --mock -- --mock true");
        check("skillrl --config", "skillrl --config");
    }

    #[test]
    fn a_start_is_shown_as_words_of_a_shell() {
        let overrides = ["train.epochs=1".to_owned(), "env.command=[\"it's\"]".to_owned()].to_vec();
        let start = Start { overrides, ..Start::of_file(Path::new("my task/skillrl.toml")) };
        let shown = "'my task/skillrl.toml' --set train.epochs=1 --set 'env.command=[\"it'\\''s\"]'";
        assert_eq!(start.as_shell(), shown);
        let world = Start { env: Some(EnvKind::Alfworld), mock: Some(true), ..Start::default() };
        assert_eq!(world.as_shell(), "--env alfworld --mock");
    }
}

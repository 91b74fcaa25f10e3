//! The configuration of commands that can do without a file.

use clap::Args;
use skillrl::config::EnvKind;
use std::path::PathBuf;

/// A configuration, or a built-in world without one.
#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// The configuration file, in TOML, or in the JSON of krill or of SkillRL in Rust. Without it and without `--env` it is
    /// skillrl.toml. `skillrl train` also takes a file with data.
    #[arg(value_name = "CONFIG")]
    config_file: Option<PathBuf>,

    /// The same, under the name that other programs have for it.
    #[arg(long, value_name = "FILE", conflicts_with = "config_file", hide = true)]
    config: Option<PathBuf>,

    #[command(flatten)]
    shared: SharedArgs,
}

/// The configuration of a command whose first argument is something else.
#[derive(Debug, Args)]
pub(crate) struct StartOption {
    /// The configuration file, in TOML, or in the JSON of krill or of SkillRL in Rust. Without it and without `--env` it is
    /// skillrl.toml.
    #[arg(long = "config", value_name = "FILE")]
    config_file: Option<PathBuf>,

    #[command(flatten)]
    shared: SharedArgs,
}

#[derive(Debug, Args)]
struct SharedArgs {
    /// Overrides one setting, such as `train.batch_size=8`; may be given more than once.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,

    /// The built-in world that is played: its defaults where no configuration file is named, which is then not read.
    #[arg(long, value_name = "WORLD", value_parser = WORLDS)]
    env: Option<String>,

    /// Uses simulated models in the place of all others: for a try without a network and without a key. Every result says
    /// so.
    #[arg(long)]
    mock: bool,
}

/// The built-in worlds.
const WORLDS: [&str; 2] = [EnvKind::Alfworld.as_str(), EnvKind::Webshop.as_str()];

/// What a command starts from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Start {
    /// The configuration file that was named.
    pub(crate) file: Option<PathBuf>,
    /// Settings of the form `KEY=VALUE`.
    pub(crate) overrides: Vec<String>,
    /// The world that was named.
    pub(crate) env: Option<EnvKind>,
    /// True if all models are simulated.
    pub(crate) is_mock: bool,
    /// True if the command asks no model, so that a world without a configuration file needs none.
    pub(crate) is_without_models: bool,
}

impl SharedArgs {
    fn start(&self, file: Option<&PathBuf>) -> Start {
        Start {
            file: file.cloned(),
            overrides: self.overrides.clone(),
            env: self.env.as_deref().and_then(EnvKind::parse),
            is_mock: self.mock,
            is_without_models: false,
        }
    }
}

impl StartArgs {
    /// What the command starts from.
    pub(crate) fn start(&self) -> Start {
        self.shared.start(self.config_file.as_ref().or(self.config.as_ref()))
    }
}

impl StartOption {
    /// What the command starts from.
    pub(crate) fn start(&self) -> Start {
        self.shared.start(self.config_file.as_ref())
    }
}

//! The command that makes rollouts of runs on other machines.

use clap::Args;
use std::path::PathBuf;

/// A worker has this many rollouts at a time, if it is not said otherwise.
const DEFAULT_WORKERS: u32 = 4;

#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// The broker: nats://HOST:PORT, or tls://HOST:PORT. On another machine it takes TLS and credentials.
    #[arg(long, value_name = "URL", default_value = "nats://127.0.0.1:4222")]
    pub(crate) nats: String,

    /// The name that the worker shares with its runs, as `run.nats.name`.
    #[arg(long, value_name = "NAME", default_value = "skillrl")]
    pub(crate) name: String,

    /// Rollouts at a time.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_WORKERS, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) workers: u32,

    /// Set up each announced run, name what is missing or differs from the driver, and end.
    #[arg(long)]
    pub(crate) check: bool,

    /// End after so many seconds without a run.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) idle: Option<u64>,

    /// The user at the broker.
    #[arg(long, value_name = "USER", requires = "password_env")]
    pub(crate) user: Option<String>,

    /// The environment variable that holds the user's password.
    #[arg(long, value_name = "VARIABLE", requires = "user")]
    pub(crate) password_env: Option<String>,

    /// The environment variable that holds the seed of an nkey, in place of a user.
    #[arg(long, value_name = "VARIABLE", conflicts_with = "user")]
    pub(crate) nkey_env: Option<String>,

    /// Certificates of authorities to trust besides those of the system, in PEM.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,

    /// The certificate of this client in PEM, for brokers that verify clients.
    #[arg(long, value_name = "FILE", requires = "client_key")]
    pub(crate) client_cert: Option<PathBuf>,

    /// The key of that certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    pub(crate) client_key: Option<PathBuf>,

    /// Working directory of the environments' programs, instead of the configuration's.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) base: PathBuf,

    /// Where the files of runs are kept, each once; without it a directory for caches of the user.
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,

    /// Set a setting for this worker that decides no result, such as models.target.api_key_env=KEY.
    ///
    /// May be given more than once.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) overrides: Vec<String>,

    /// Print nothing about single rollouts.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

//! Rollouts on several machines: from a configuration to a driver, and from what a driver sends to a worker.
//!
//! What a worker sets up travels as one description (`Setup`) with the content of files by hash. Keys never do: a
//! worker takes them from the environment variables that the configuration names, on its own machine.

mod files;
mod programs;
mod setup;
mod worker;

pub use skill_nats::{Times, Worker, WorkerConfig, WorkerEvent, WorkerEvents, WorkerStop};
pub use worker::{ConfigWorkshop, WorkerOptions};

use crate::config::{ConfigPath, LoadedConfig, NatsConfig};
use crate::error::Error;
use setup::Setup;
use skill_core::canonical::hex_sha256;
use skill_llm::ApiKey;
use skill_nats::{
    BrokerAddress, BrokerError, Connect, Credentials, DriverConfig, NatsRunner, WorkerNow, WorkersNow,
};
use skill_pipeline::run_dir::live::WorkerPulse;
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, absolute};
use std::sync::Arc;

/// The version that drivers and workers have to share.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The digits of a name that is made from a hash.
const NAME_DIGITS: usize = 16;

/// `[run.nats]`, with its defaults where it is not given.
pub(crate) fn asked(loaded: &LoadedConfig) -> NatsConfig {
    loaded.config.run.nats.clone().unwrap_or_default()
}

/// The broker of `[run.nats]`, with the credentials that it names.
///
/// # Errors
///
/// A variable that is not set, an address that cannot be one or may not be used, see [`BrokerAddress::check`].
pub(crate) fn address(asked: &NatsConfig) -> Result<BrokerAddress, Error> {
    let refuse = |message: &str| Error::Broker(BrokerError::Configuration { message: message.to_owned() });
    let secret =
        |variable: &str| ApiKey::from_env(variable, "the broker").map_err(|error| refuse(&error.to_string()));
    let credentials = match (&asked.user, &asked.password_env, &asked.nkey_env) {
        (None, None, None) => Credentials::None,
        (Some(name), Some(variable), None) => {
            Credentials::User { name: name.clone(), password: secret(variable)? }
        }
        (None, None, Some(variable)) => Credentials::Nkey { seed: secret(variable)? },
        (Some(_), None, None) | (None, Some(_), None) => {
            return Err(refuse("`run.nats.user` and `run.nats.password_env` go together"));
        }
        (_, _, Some(_)) => {
            return Err(refuse(
                "`run.nats.nkey_env` takes the place of `run.nats.user` and `run.nats.password_env`",
            ));
        }
    };
    let client_certificate = match (&asked.client_cert, &asked.client_key) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some((certificate.to_path(), key.to_path())),
        _ => return Err(refuse("`run.nats.client_cert` and `run.nats.client_key` go together")),
    };
    let address = BrokerAddress {
        url: asked.url.clone(),
        credentials,
        ca_file: asked.ca_file.as_ref().map(ConfigPath::to_path),
        client_certificate,
    };
    address.check().map_err(Error::Broker)?;
    Ok(address)
}

/// What connects to the broker of `[run.nats]`; `who` is what the broker calls the connection.
///
/// # Errors
///
/// As `address`, and a build without the client.
pub fn connect(asked: &NatsConfig, who: &str) -> Result<Arc<dyn Connect>, Error> {
    client(address(asked)?, who)
}

#[cfg(feature = "nats-client")]
fn client(address: BrokerAddress, who: &str) -> Result<Arc<dyn Connect>, Error> {
    let connect = skill_nats::client::NatsConnect::new(address, who).map_err(Error::Broker)?;
    Ok(Arc::new(connect))
}

#[cfg(not(feature = "nats-client"))]
fn client(_: BrokerAddress, _: &str) -> Result<Arc<dyn Connect>, Error> {
    Err(Error::LeftOut { what: "the connection to a broker".to_owned(), feature: "nats-client" })
}

/// Has workers make the rollouts of the run of a configuration; nothing is sent before the first one.
///
/// # Errors
///
/// A broker that may not be used, and files that workers need and that cannot be read.
pub fn runner(loaded: &LoadedConfig, connect: Arc<dyn Connect>, times: Times) -> Result<NatsRunner, Error> {
    let setup = Setup::of(loaded)?;
    let dir = loaded.run_dir();
    let (description, contents) = setup.packed();
    let config = DriverConfig {
        name: asked(loaded).name,
        run: run_name(&dir),
        session: session_name(),
        title: dir.file_name().map_or_else(|| "run".to_owned(), |name| name.to_string_lossy().into_owned()),
        version: VERSION.to_owned(),
        setup: description,
        contents: Arc::new(contents),
        times,
    };
    Ok(NatsRunner::new(connect, config))
}

/// The name of a run on the way, the same for all its processes: of this machine and its directory.
fn run_name(dir: &Path) -> String {
    let dir = absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let name = format!("{}\u{0}{machine}\u{0}{}", host_name(), dir.display());
    hex_sha256(name.as_bytes()).chars().take(NAME_DIGITS).collect()
}

/// A name that no other process has.
pub fn session_name() -> String {
    let random = RandomState::new().hash_one(std::process::id());
    format!("{random:016x}")
}

/// The name of this machine.
pub fn host_name() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = read.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    name.unwrap_or_else(|| "worker".to_owned())
}

/// The workers of a run as its `live.json` has them.
pub(crate) fn pulse_of(now: &WorkersNow) -> Vec<WorkerPulse> {
    let of = |worker: &WorkerNow| WorkerPulse {
        name: worker.name.clone(),
        slots: worker.slots,
        seen_seconds_ago: worker.seen_ago.as_secs(),
        doing: worker.doing.iter().map(|doing| doing.item.to_string()).collect(),
        problem: worker.problems.first().cloned(),
    };
    now.workers.iter().map(of).collect()
}

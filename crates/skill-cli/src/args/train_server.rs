//! The options of `skillrl train-server`.

use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct TrainServerArgs {
    /// A base model: a GGUF file or a folder with safetensors, under its own name or as NAME=PATH.
    ///
    /// May be given more than once.
    #[arg(value_name = "[NAME=]MODEL", required = true)]
    pub(crate) models: Vec<String>,

    /// Where to listen; port 0 takes a free one. Other machines need a key.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8600", value_parser = super::look::listen_address)]
    pub(crate) listen: SocketAddr,

    /// The directory of saved weights, which outlive the server.
    #[arg(long, value_name = "DIR", default_value = "trained")]
    pub(crate) dir: PathBuf,

    /// Environment variable with the key of clients.
    ///
    /// Without it, a random one if other machines can connect, and none on loopback.
    #[arg(long, value_name = "NAME")]
    pub(crate) key_env: Option<String>,
}

//! Why a policy cannot be merged.

use std::io;
use std::path::PathBuf;

/// Why a policy cannot be written for servers of models.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// No weights were trained.
    #[error("{} holds no policy", path.display())]
    NoPolicy {
        /// The run or the folder.
        path: PathBuf,
    },
    /// The policy is the built-in decoder that replaces a simulated target.
    #[error("the policy {} is the small decoder of this program, whose tokens no server of models knows", policy.display())]
    OfProgram {
        /// The policy.
        policy: PathBuf,
    },
    /// The weights are not on this machine.
    #[error("the weights of {} are on its training server", policy.display())]
    AtServer {
        /// The policy.
        policy: PathBuf,
    },
    /// The base of an adapter is not where the adapter says.
    #[error("the base of the adapter {} is not found at \"{}\"", policy.display(), base.display())]
    NoBase {
        /// The policy.
        policy: PathBuf,
        /// The place.
        base: PathBuf,
    },
    /// The base is a GGUF file.
    #[error("the base {} is a GGUF file, whose weights are quantized", base.display())]
    Quantized {
        /// The file.
        base: PathBuf,
    },
    /// The configuration of the model cannot be read.
    #[error("{} is not JSON: {message}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// The folder holds what is merged, or a run.
    #[error("{} holds a run or the model that is merged", path.display())]
    Source {
        /// The folder.
        path: PathBuf,
    },
    /// There is a model at the place already.
    #[error("{} holds a model already", path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl MergeError {
    /// What a person can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoPolicy { .. } => {
                "name a finished run of `skillrl sft`, `rl` or all phases, or the folder of a policy"
            }
            Self::OfProgram { .. } => "train a model on this machine: `[models.target] kind = \"local\"`",
            Self::AtServer { .. } => "download the weights from the server that trained them",
            Self::NoBase { .. } => "name the folder of the model: --base DIR",
            Self::Quantized { .. } => "name the folder with the safetensors of the same model: --base DIR",
            Self::Config { .. } => "restore the file from the model",
            Self::Source { .. } => "take another folder",
            Self::Exists { .. } => "--force replaces it; or take another folder",
            Self::Write { .. } => "check the path, its permissions and the free space",
        }
    }
}

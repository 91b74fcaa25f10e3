//! The error of the crate: what failed, in which file, tensor, row or call.

use std::path::PathBuf;

/// An error of loading, running or training a local model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// A file could not be read or written.
    #[error("access {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// A file is not what its name promises: cut off, of another format, or with an invalid header.
    #[error("read {}: {fault}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: String,
    },
    /// A tensor of a file is missing, unexpected, or of the wrong shape, type or content.
    #[error("use tensor {tensor} of {}: {fault}", path.display())]
    Tensor {
        /// The file.
        path: PathBuf,
        /// The name of the tensor in the file.
        tensor: String,
        /// What is wrong with it.
        fault: TensorFault,
    },
    /// A model's configuration describes a model that cannot be run here.
    #[error("use the model's configuration: {field}: {fault}")]
    Model {
        /// The key of `config.json`, or of an adapter's configuration.
        field: String,
        /// What is wrong with its value.
        fault: String,
    },
    /// A request to a back end is invalid.
    #[error("take the request: {field}: {fault}")]
    Request {
        /// The field, with the index of the row where there is one.
        field: String,
        /// What is wrong with its value.
        fault: String,
    },
    /// A number of a model became infinite or NaN; weights and optimizer are as they were before the call.
    #[error("compute {quantity}: the result is not finite")]
    NotFinite {
        /// The quantity: a loss, a gradient norm, the log-probability of a token.
        quantity: String,
    },
    /// A call was repeated with the same id and other content.
    #[error("answer call {call}: another request had this id")]
    CallConflict {
        /// The id of the call.
        call: String,
    },
    /// A call belongs to a step whose answers are no longer kept.
    #[error("answer call {call}: the answers of its step are no longer kept")]
    CallTooOld {
        /// The id of the call.
        call: String,
    },
    /// A saved state does not exist under this hash, or its content has another hash.
    #[error("load state {hash}: {fault}")]
    State {
        /// The hash under which the state was requested.
        hash: String,
        /// What is wrong with it.
        fault: String,
    },
    /// A model needs more memory than the machine has left.
    #[error("load {}: it needs {needed} bytes of memory, {available} are available", path.display())]
    Memory {
        /// The model's file or folder.
        path: PathBuf,
        /// Bytes that it needs.
        needed: u64,
        /// Bytes that are available.
        available: u64,
    },
    /// A server that trains did not do what a call asked for.
    #[error("{call} on the training server {server}: {fault}")]
    Remote {
        /// The call, such as `forward_backward`.
        call: &'static str,
        /// The address of the server, without credentials.
        server: String,
        /// What went wrong.
        fault: RemoteFault,
    },
    /// The caller stopped waiting, and the work was abandoned.
    #[error("finish: the call was cancelled")]
    Cancelled,
    /// The tensor library failed.
    #[error("compute {what}")]
    Compute {
        /// The computation.
        what: &'static str,
        /// The error of the library.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// What is wrong with a tensor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorFault {
    /// The file does not have the tensor.
    #[error("not found")]
    Missing,
    /// The model has no parameter of this name.
    #[error("the model has no such parameter")]
    Unexpected,
    /// The shape is not that of the model.
    #[error("shape {found:?}, where the model has {expected:?}")]
    Shape {
        /// The shape that the model has.
        expected: Vec<usize>,
        /// The shape in the file.
        found: Vec<usize>,
    },
    /// The element type is not one of those that are read.
    #[error("element type {0} is not supported")]
    ElementType(String),
    /// The quantization of a GGUF file is not one of those that are read.
    #[error("its type {found} is not read here: take a file of {}", known.join(", "))]
    Quantization {
        /// The type in the file.
        found: String,
        /// The types that are read.
        known: Vec<&'static str>,
    },
    /// A value is larger than the largest finite one of F16, 65504.
    #[error("value {index} is beyond the range of F16")]
    BeyondF16 {
        /// Index of the value, row-major.
        index: usize,
    },
    /// A value is infinite or NaN.
    #[error("value {index} is not finite")]
    NotFinite {
        /// Index of the value, row-major.
        index: usize,
    },
}

/// What went wrong with a call of a training server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteFault {
    /// No connection could be made, or every attempt of a call that may be repeated failed.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// The connection broke after a call that changes the model was sent: it may have been carried out.
    #[error("the connection broke, and the call may have been carried out: {0}")]
    InDoubt(String),
    /// The server refused the call.
    #[error("status {status}: {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The server's reason.
        message: String,
    },
    /// The server does not know a session, model or request that it had made.
    #[error("it has forgotten {0}")]
    Forgotten(String),
    /// The server answered in another form, such as protobuf.
    #[error("it answers with {0}, where JSON is expected")]
    NotJson(String),
    /// The server took the call and could not carry it out.
    #[error("it failed: {0}")]
    Failed(String),
    /// The result lacks something.
    #[error("its result is incomplete: {0}")]
    Incomplete(String),
    /// The result did not come in time.
    #[error("no result within {0} s")]
    TimedOut(u64),
}

impl TrainError {
    /// True if the same call can succeed later without a change of its input.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Io { .. } | Self::Cancelled => true,
            Self::Remote { fault, .. } => matches!(
                fault,
                RemoteFault::Unreachable(_)
                    | RemoteFault::InDoubt(_)
                    | RemoteFault::Forgotten(_)
                    | RemoteFault::TimedOut(_)
            ),
            _ => false,
        }
    }

    pub(crate) fn io(path: &std::path::Path, source: std::io::Error) -> Self {
        Self::Io { path: path.to_path_buf(), source }
    }

    pub(crate) fn file(path: &std::path::Path, fault: impl Into<String>) -> Self {
        Self::File { path: path.to_path_buf(), fault: fault.into() }
    }

    pub(crate) fn request(field: impl Into<String>, fault: impl Into<String>) -> Self {
        Self::Request { field: field.into(), fault: fault.into() }
    }

    pub(crate) fn model(field: impl Into<String>, fault: impl Into<String>) -> Self {
        Self::Model { field: field.into(), fault: fault.into() }
    }
}

#[cfg(feature = "candle")]
impl From<candle_core::Error> for TrainError {
    fn from(source: candle_core::Error) -> Self {
        Self::Compute { what: "a tensor operation", source: Box::new(source) }
    }
}

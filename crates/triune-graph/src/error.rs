//! What is wrong with a model.

use triune_tensor::text::{Name, Reason};

/// A model cannot be read, or asks for what no rule covers. Context is added on the way up: file, node, attribute.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error(transparent)]
    Io(#[from] triune_files::Error),
    /// The host has no memory for what the model holds.
    #[error(transparent)]
    Memory(#[from] triune_tensor::OutOfMemory),
    /// Somebody has stopped the work.
    #[error("stopped")]
    Cancelled,
    /// Something is wrong with one file.
    #[error("{}: {source}", Name(.path))]
    File {
        /// The file.
        path: String,
        /// What is wrong.
        source: Box<Error>,
    },
    /// The bytes are not what the format calls for.
    #[error("not an {format} model, or a damaged one: {}", Reason(.reason))]
    Malformed {
        /// The format's name, such as `ONNX`.
        format: &'static str,
        /// What is wrong, and where.
        reason: String,
    },
    /// A model of a version of its format that is not read.
    #[error("{format}: {}", Reason(.reason))]
    Version {
        /// The format's name, such as `ONNX`.
        format: &'static str,
        /// Which version, which ones are read, and what helps.
        reason: String,
    },
    /// Encrypted bytes that the cipher cannot turn into others, or a cipher that is not there.
    #[error("{}: {}", Name(.cipher), Reason(.reason))]
    Cipher {
        /// The cipher's name.
        cipher: String,
        /// What is wrong.
        reason: String,
    },
    /// Encrypted bytes that do not decrypt with this key.
    #[error("{}: {}", Name(.cipher), Reason(.reason))]
    Key {
        /// The cipher's name.
        cipher: String,
        /// What shows it.
        reason: String,
    },
    /// The graph does not hold together: a name without producer, a cycle, a value made twice.
    #[error("invalid graph: {}", Reason(.0))]
    Graph(String),
    /// An operator or attribute value that Triune does not run.
    #[error("node '{}' ({}): {}", Name(.node), Name(.op), Reason(.reason))]
    Unsupported {
        /// The node's name.
        node: String,
        /// The operator's name in the source format.
        op: String,
        /// What is not supported.
        reason: String,
    },
    /// A node's inputs do not fit its operator.
    #[error("node '{}' ({}): {}", Name(.node), Name(.op), Reason(.reason))]
    Shape {
        /// The node's name.
        node: String,
        /// The operator.
        op: String,
        /// Expected and got.
        reason: String,
    },
}

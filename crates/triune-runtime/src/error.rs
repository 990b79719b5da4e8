//! What can go wrong between a model file and a result.

use triune_device::Error as DeviceError;
use triune_graph::Error as GraphError;
use triune_tensor::text::{Name, Reason};

/// A model cannot be compiled, a package cannot be used, or a run was asked for with operands that do not fit.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The model itself.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The simulated device.
    #[error(transparent)]
    Device(#[from] triune_device::Error),
    /// The host has no memory for a model, or for its run.
    #[error(transparent)]
    Memory(#[from] triune_tensor::OutOfMemory),
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] triune_files::Error),
    /// A package on disk is not what its compiler wrote.
    #[error("{}: {}", Name(.path), Reason(.reason))]
    Package {
        /// The file.
        path: String,
        /// What is wrong, and the cure.
        reason: String,
    },
    /// The file is not a Triune program at all: another compiler wrote it.
    #[error("{}: {}", Name(.path), Reason(.reason))]
    Foreign {
        /// The file.
        path: String,
        /// What it seems to be, and the cure.
        reason: String,
    },
    /// The target cannot run an operator.
    #[error("node '{}' ({}): {}", Name(.node), Name(.op), Reason(.reason))]
    Unsupported {
        /// The node.
        node: String,
        /// Its operator.
        op: String,
        /// Why, and the cure.
        reason: String,
    },
    /// An operator's commands cannot be decoded, or failed when they ran.
    #[error("node '{}' ({}): {}", Name(.node), Name(.op), within(.source))]
    Node {
        /// The node.
        node: String,
        /// Its operator.
        op: String,
        /// What is wrong.
        source: Box<triune_device::Error>,
    },
    /// The model as a whole does not fit the target.
    #[error("{}", Reason(.0))]
    Target(String),
    /// Nothing in the model is quantized, and the target computes on integers alone.
    #[error(
        "the model has no 8-bit operators for the device; quantize it first (QDQ form), or give samples: `calibration=` of \
         triune.compile in Python, `triune compile --calibrate` on the command line"
    )]
    NotQuantized,
    /// What the caller asks for is not there, or does not fit together.
    #[error("{}", Reason(.0))]
    Argument(String),
    /// A compiled program contradicts itself: it is damaged, or another version wrote it.
    #[error("{}; compile the model again", Reason(.0))]
    Program(String),
    /// The runtime broke its own rules.
    #[error("{}; this is a fault of Triune's: please report it", Reason(.0))]
    Internal(String),
    /// An operand of a run does not fit the program.
    #[error("{}: expected {}, got {}", Name(.what), Reason(.expected), Reason(.got))]
    Operand {
        /// Which operand.
        what: String,
        /// What the program takes.
        expected: String,
        /// What came.
        got: String,
    },
    /// Sessions that share their memory ran at the same time.
    #[error(
        "another run is under way in the memory that this session shares; sessions that share it run one after the other"
    )]
    Shared,
    /// A virtual card refuses: see the variant.
    #[error(transparent)]
    Card(#[from] crate::card::Error),
}

impl From<triune_fork::Forked> for Error {
    fn from(error: triune_fork::Forked) -> Self {
        Self::Device(error.into())
    }
}

/// The words of an error about a command, for who knows the operator.
fn within(error: &DeviceError) -> String {
    match error {
        DeviceError::Kernel { source, .. } => source.to_string(),
        DeviceError::Command { field, problem, .. } => format!("{field}: {problem}"),
        error => error.to_string(),
    }
}

impl Error {
    /// An error of the model as a whole as one of the operator where it showed.
    pub(crate) fn at(self, node: &triune_graph::Node) -> Self {
        match self {
            Self::Target(reason) => {
                Self::Unsupported { node: node.name.clone(), op: node.op.name().into(), reason }
            }
            error => error,
        }
    }

    /// A package error with the path that it was found in.
    pub(crate) fn package(path: &std::path::Path, reason: impl Into<String>) -> Self {
        Self::Package { path: path.display().to_string(), reason: reason.into() }
    }
}

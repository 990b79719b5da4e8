//! What keeps a model from becoming a program.

use triune_device::Error as DeviceError;
use triune_graph::Error as GraphError;
use triune_tensor::text::{Name, Reason};

/// A model cannot be compiled, or a program does not hold together.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The model itself.
    #[error(transparent)]
    Graph(GraphError),
    /// The simulated device.
    #[error(transparent)]
    Device(#[from] DeviceError),
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
        source: Box<DeviceError>,
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
    /// The compiler broke its own rules.
    #[error("{}; this is a fault of Triune's: please report it", Reason(.0))]
    Internal(String),
}

impl From<GraphError> for Error {
    fn from(error: GraphError) -> Self {
        match error {
            // One word for it, wherever the work was.
            GraphError::Cancelled => DeviceError::Cancelled.into(),
            GraphError::File { source, .. } if matches!(*source, GraphError::Cancelled) => (*source).into(),
            error => Self::Graph(error),
        }
    }
}

impl From<triune_tensor::OutOfMemory> for Error {
    fn from(error: triune_tensor::OutOfMemory) -> Self {
        Self::Graph(error.into())
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
    /// What the target cannot do with an operator: why, and the cure.
    pub fn unsupported(node: &triune_graph::Node, reason: impl Into<String>) -> Self {
        let (name, op) = node.title();
        Self::Unsupported { node: name.into(), op: op.into(), reason: reason.into() }
    }

    /// An error of the model as a whole as one of the operator where it showed.
    pub(crate) fn at(self, node: &triune_graph::Node) -> Self {
        match self {
            Self::Target(reason) => Self::unsupported(node, reason),
            error => error,
        }
    }
}

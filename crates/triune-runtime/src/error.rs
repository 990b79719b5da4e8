//! What can go wrong between a program and a result.

use triune_compiler::Error as CompileError;
use triune_tensor::text::{Name, Reason};

/// A model cannot be compiled, a package cannot be used, or a run was asked for with operands that do not fit.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The model, its program, or the device that it runs on: see the variant.
    #[error(transparent)]
    Compile(#[from] CompileError),
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

impl From<triune_graph::Error> for Error {
    fn from(error: triune_graph::Error) -> Self {
        Self::Compile(error.into())
    }
}

impl From<triune_device::Error> for Error {
    fn from(error: triune_device::Error) -> Self {
        Self::Compile(error.into())
    }
}

impl From<triune_fork::Forked> for Error {
    fn from(error: triune_fork::Forked) -> Self {
        triune_device::Error::from(error).into()
    }
}

impl Error {
    /// What the caller asks for is not there, or does not fit together.
    pub fn argument(reason: impl Into<String>) -> Self {
        CompileError::Argument(reason.into()).into()
    }

    /// The model as a whole does not fit the target.
    pub fn target(reason: impl Into<String>) -> Self {
        CompileError::Target(reason.into()).into()
    }

    /// A compiled program contradicts itself.
    pub fn program(reason: impl Into<String>) -> Self {
        CompileError::Program(reason.into()).into()
    }

    /// The runtime broke its own rules.
    pub fn internal(reason: impl Into<String>) -> Self {
        CompileError::Internal(reason.into()).into()
    }

    /// What the target cannot do with an operator: why, and the cure.
    pub fn unsupported(node: &triune_graph::Node, reason: impl Into<String>) -> Self {
        CompileError::unsupported(node, reason).into()
    }

    /// A package error with the path that it was found in.
    pub fn package(path: &std::path::Path, reason: impl Into<String>) -> Self {
        Self::Package { path: path.display().to_string(), reason: reason.into() }
    }
}

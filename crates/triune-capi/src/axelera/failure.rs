//! What goes wrong: the header's code for each of the core's errors, and the text.

use triune::{
    Error,
    internals::{
        compiler,
        device::{self, ErrorClass},
        fork::Forked,
        graph,
        runtime::card,
        tensor::text,
    },
};

use super::types::Code;

/// An error of the interface.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) text: String,
}

impl Failure {
    /// Long words, which are names and paths, and long texts lose their middle.
    pub(crate) fn new(code: Code, text: impl AsRef<str>) -> Self {
        Self { code, text: text::message(text) }
    }
}

/// The failure for a wrong argument.
pub(crate) fn argument(text: impl AsRef<str>) -> Failure {
    Failure::new(Code::InvalidArgument, text)
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Compile(error) => of_compiler(error),
            Error::Card(error) => of_card(error),
            Error::Memory(_) => Code::RuntimeError,
            Error::Shared => Code::DeviceInUse,
            Error::Foreign { .. } => Code::IncompatibleDevice,
            Error::File(_) | Error::Operand { .. } | Error::Package { .. } => Code::InvalidArgument,
        };
        Self::new(code, error.to_string())
    }
}

impl From<card::Error> for Failure {
    fn from(error: card::Error) -> Self {
        Self::new(of_card(&error), error.to_string())
    }
}

impl From<Forked> for Failure {
    fn from(error: Forked) -> Self {
        Self::new(Code::UnknownError, error.to_string())
    }
}

fn of_compiler(error: &compiler::Error) -> Code {
    match error {
        compiler::Error::Graph(error) => of_graph(error),
        compiler::Error::Device(source) => of_device(source),
        compiler::Error::Node { source, .. } => of_device(source),
        compiler::Error::NotQuantized | compiler::Error::Unsupported { .. } | compiler::Error::Target(_) => {
            Code::IncompatibleDevice
        }
        compiler::Error::Argument(_) | compiler::Error::Program(_) => Code::InvalidArgument,
        compiler::Error::Internal(_) => Code::InternalError,
    }
}

fn of_graph(error: &graph::Error) -> Code {
    match error {
        graph::Error::File { source, .. } => of_graph(source),
        graph::Error::Memory(_) => Code::RuntimeError,
        graph::Error::Unsupported { .. } | graph::Error::Version { .. } => Code::IncompatibleDevice,
        graph::Error::Cancelled
        | graph::Error::Io(_)
        | graph::Error::Malformed { .. }
        | graph::Error::Key { .. }
        | graph::Error::Shape { .. }
        | graph::Error::Cipher { .. }
        | graph::Error::Graph(_) => Code::InvalidArgument,
    }
}

fn of_device(error: &device::Error) -> Code {
    match error.class() {
        ErrorClass::Argument | ErrorClass::Cancelled => Code::InvalidArgument,
        ErrorClass::Unsupported => Code::IncompatibleDevice,
        ErrorClass::Memory => Code::RuntimeError,
        ErrorClass::Sanitizer | ErrorClass::Internal => Code::InternalError,
        ErrorClass::Forked | ErrorClass::Link | ErrorClass::InUse => Code::UnknownError,
    }
}

/// The header tells names that are wrong from values that are.
fn of_card(error: &card::Error) -> Code {
    match error {
        card::Error::TooMany { .. } | card::Error::Io { .. } | card::Error::File(_) => Code::InvalidArgument,
        card::Error::InUse { .. } => Code::DeviceInUse,
        card::Error::BadSetting { .. } => Code::ValueError,
        card::Error::Description { .. } | card::Error::Device { .. } | card::Error::UnknownSetting { .. } => {
            Code::InvalidConfiguration
        }
    }
}

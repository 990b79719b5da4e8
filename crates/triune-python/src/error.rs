//! The one map from the core's errors to Python exceptions. A front end turns these into its vendor's classes.

use std::{
    any::Any,
    io::ErrorKind,
    panic::{AssertUnwindSafe, catch_unwind},
};

use pyo3::{
    create_exception,
    exceptions::{PyMemoryError, PyRuntimeError},
    marker::Ungil,
    prelude::*,
    type_object::PyTypeInfo,
};
use triune::internals::{
    compiler::Error as CompileError,
    device::{Error as DeviceError, ErrorClass},
    files,
    fork::Forked,
    graph::Error as GraphError,
    kernels::{CancelToken, cancel::NoLock},
    runtime::{Error as RuntimeError, card::Error as CardError},
    tensor::{OutOfMemory, text},
};

use crate::{array, exit, interrupt::Watch, logs};

create_exception!(
    triune.errors,
    Error,
    PyRuntimeError,
    "Base class of everything that Triune's core raises. `node` and `operand` name what of a model it is about, `layer` has the \
     number of the one of a board's job, or they are None."
);
create_exception!(triune.errors, ArgumentError, Error, "An argument, or a file that one names, is wrong.");
create_exception!(
    triune.errors,
    FormatError,
    ArgumentError,
    "The bytes are no model of the format that they were read as, which `format` names, or a damaged one."
);
create_exception!(
    triune.errors,
    KeyMismatchError,
    ArgumentError,
    "Encrypted bytes do not decrypt with the key."
);
create_exception!(triune.errors, FileError, Error, "A file cannot be read or written.");
create_exception!(
    triune.errors,
    ForeignError,
    Error,
    "A package that another compiler wrote, which only its chip can run."
);
create_exception!(triune.errors, UnsupportedError, Error, "The model needs what the device does not have.");
create_exception!(
    triune.errors,
    NotQuantizedError,
    UnsupportedError,
    "The model computes in floats, and the device on integers alone."
);
create_exception!(triune.errors, InUseError, Error, "Another holder has the sub-devices.");
create_exception!(triune.errors, SettingError, Error, "A card's setting is unknown or out of range.");
create_exception!(triune.errors, PendingError, Error, "A changed setting is not in force yet.");
create_exception!(triune.errors, ReleasedError, Error, "The object has been released.");
create_exception!(
    triune.errors,
    SanitizerError,
    Error,
    "The device-memory sanitizer (TRIUNE_SANITIZE=1) found a fault; what was asked for was not done."
);
create_exception!(triune.errors, LinkError, Error, "A board behind a connection cannot be reached.");
create_exception!(triune.errors, BoardInUseError, LinkError, "A board can be reached, but others have it.");
create_exception!(
    triune.errors,
    ForkedError,
    Error,
    "What a thread was at work with when the process was forked cannot be used in the child."
);
create_exception!(triune.errors, InternalError, Error, "The core broke its own rules: please report it.");

/// Attributes that exceptions have when nothing more is known.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let base = py.get_type::<Error>();
    base.setattr("node", py.None())?;
    base.setattr("operand", py.None())?;
    base.setattr("layer", py.None())?;
    py.get_type::<FormatError>().setattr("format", "")
}

/// A message as people get it: long words, which are names and paths, and long texts lose their middle.
#[pyfunction]
pub(crate) fn message(text: &str) -> String {
    text::message(text)
}

/// The exception for a wrong argument.
pub(crate) fn argument(text: impl ToString) -> PyErr {
    raised::<ArgumentError>(&text)
}

/// An exception with the text of an error.
fn raised<T: PyTypeInfo>(error: &impl ToString) -> PyErr {
    PyErr::new::<T, _>(text::message(error.to_string()))
}

/// The same with something that programs can ask it for.
fn with(error: PyErr, name: &str, value: impl for<'py> IntoPyObject<'py>) -> PyErr {
    let set = Python::attach(|py| error.value(py).setattr(name, value));
    set.err().unwrap_or(error)
}

/// The exception for what a fork left behind.
pub(crate) fn forked(error: Forked) -> PyErr {
    raised::<ForkedError>(&error)
}

/// The exception for memory that the host does not have.
pub(crate) fn out_of_memory(error: OutOfMemory) -> PyErr {
    PyMemoryError::new_err(error.to_string())
}

/// The exception for a file that cannot be read or written, with the text of the whole that it is a part of.
pub(crate) fn file(whole: &impl ToString, error: &files::Error) -> PyErr {
    if error.source().kind() == ErrorKind::OutOfMemory {
        return PyMemoryError::new_err(text::message(whole.to_string()));
    }
    raised::<FileError>(whole)
}

/// The exception for an error of the runtime.
pub(crate) fn runtime(error: RuntimeError) -> PyErr {
    match &error {
        RuntimeError::Compile(error) => compile(error),
        RuntimeError::Card(error) => card(error),
        RuntimeError::Memory(none) => out_of_memory(*none),
        RuntimeError::File(inner) => file(&error, inner),
        RuntimeError::Shared => raised::<InUseError>(&error),
        RuntimeError::Foreign { .. } => raised::<ForeignError>(&error),
        RuntimeError::Operand { what, .. } => with(raised::<ArgumentError>(&error), "operand", what),
        RuntimeError::Package { .. } => raised::<ArgumentError>(&error),
    }
}

/// The exception for an error of the compiler.
fn compile(error: &CompileError) -> PyErr {
    match error {
        CompileError::Graph(inner) => graph(error, inner),
        CompileError::Device(inner) => device_as(error, inner),
        CompileError::NotQuantized => raised::<NotQuantizedError>(error),
        CompileError::Node { node, source, .. } => with(device_as(error, source), "node", node),
        CompileError::Unsupported { node, .. } => with(raised::<UnsupportedError>(error), "node", node),
        CompileError::Target(_) => raised::<UnsupportedError>(error),
        CompileError::Argument(_) | CompileError::Program(_) => raised::<ArgumentError>(error),
        CompileError::Internal(_) => raised::<InternalError>(error),
    }
}

/// The exception for an error of a model, with the text of the whole that it is a part of.
fn graph(whole: &impl ToString, error: &GraphError) -> PyErr {
    match error {
        GraphError::File { source, .. } => graph(whole, source),
        // Only those who let go of what is loaded stop it.
        GraphError::Cancelled => raised::<ReleasedError>(whole),
        GraphError::Memory(_) => PyMemoryError::new_err(text::message(whole.to_string())),
        GraphError::Io(inner) => file(whole, inner),
        GraphError::Malformed { format, .. } => with(raised::<FormatError>(whole), "format", format),
        GraphError::Version { .. } => raised::<UnsupportedError>(whole),
        GraphError::Key { .. } => raised::<KeyMismatchError>(whole),
        GraphError::Unsupported { node, .. } => with(raised::<UnsupportedError>(whole), "node", node),
        GraphError::Shape { node, .. } => with(raised::<ArgumentError>(whole), "node", node),
        GraphError::Cipher { .. } | GraphError::Graph(_) => raised::<ArgumentError>(whole),
    }
}

/// The exception for an error of a device.
pub(crate) fn device(error: DeviceError) -> PyErr {
    device_as(&error, &error)
}

/// The same with the text of the whole that it is a part of.
fn device_as(whole: &impl ToString, error: &DeviceError) -> PyErr {
    let raised = match error.class() {
        ErrorClass::Argument => raised::<ArgumentError>(whole),
        ErrorClass::Unsupported => raised::<UnsupportedError>(whole),
        ErrorClass::Memory => PyMemoryError::new_err(text::message(whole.to_string())),
        // Only those who let go of what is at work stop it.
        ErrorClass::Cancelled => raised::<ReleasedError>(whole),
        ErrorClass::Sanitizer => raised::<SanitizerError>(whole),
        ErrorClass::Forked => raised::<ForkedError>(whole),
        ErrorClass::Link => raised::<LinkError>(whole),
        ErrorClass::InUse => raised::<BoardInUseError>(whole),
        ErrorClass::Internal => raised::<InternalError>(whole),
    };
    let raised = match error.layer() {
        Some(layer) => with(raised, "layer", layer),
        None => raised,
    };
    match error.operand() {
        Some(operand) => with(raised, "operand", operand),
        None => raised,
    }
}

/// The exception for a lock that was not waited for: when a signal's handler raises, that is raised instead.
pub(crate) fn no_lock(no: NoLock) -> PyErr {
    match no {
        NoLock::Cancelled => InternalError::new_err("a wait was stopped by nobody"),
        NoLock::Forked(error) => forked(error),
        NoLock::Reentered => InUseError::new_err(
            "it is in the middle of a run, which the handler of a signal cannot use it in",
        ),
    }
}

/// The exception for an error of a card.
pub(crate) fn card(error: &CardError) -> PyErr {
    match error {
        CardError::TooMany { .. } => raised::<ArgumentError>(error),
        CardError::InUse { .. } => raised::<InUseError>(error),
        CardError::Description { .. }
        | CardError::Device { .. }
        | CardError::UnknownSetting { .. }
        | CardError::BadSetting { .. } => raised::<SettingError>(error),
        CardError::Io { .. } => raised::<FileError>(error),
        CardError::File(inner) => file(error, inner),
    }
}

/// Runs `work` without the interpreter, so that other threads go on; a panic becomes an `InternalError`. On the main thread,
/// what a signal's handler raises meanwhile stops it, and is raised; what was logged is given to Python.
pub(crate) fn detached<T: Ungil + Send>(
    py: Python<'_>,
    work: impl Ungil + Send + FnOnce() -> T,
) -> PyResult<T> {
    stoppable(py, None, work)
}

/// The same for work that a token stops as well.
pub(crate) fn stoppable<T: Ungil + Send>(
    py: Python<'_>,
    token: Option<&CancelToken>,
    work: impl Ungil + Send + FnOnce() -> T,
) -> PyResult<T> {
    let watch = Watch::new(py)?;
    array::prepare(py)?;
    let result = py.detach(|| {
        let result = catch_unwind(AssertUnwindSafe(|| watch.during(token, work)));
        exit::before_return();
        result
    });
    exit::after_return();
    let told = logs::deliver(py);
    let result = result.map_err(|panic| InternalError::new_err(panic_text(panic.as_ref())))??;
    told.map(|()| result)
}

pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "unknown panic".to_owned())
}

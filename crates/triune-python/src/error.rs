//! The one map from the core's errors to Python exceptions. A front end turns these into its vendor's classes.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use pyo3::{create_exception, exceptions::PyRuntimeError, marker::Ungil, prelude::*};
use triune::{
    device::Error as DeviceError,
    graph::Error as GraphError,
    runtime::{Error as RuntimeError, card::Error as CardError},
};

use crate::exit;

create_exception!(
    triune.errors,
    Error,
    PyRuntimeError,
    "Base class of everything that Triune's core raises."
);
create_exception!(triune.errors, ArgumentError, Error, "An argument, or a file that one names, is wrong.");
create_exception!(triune.errors, FileError, Error, "A file cannot be read or written.");
create_exception!(
    triune.errors,
    ForeignError,
    Error,
    "A package that another compiler wrote, which only its chip can run."
);
create_exception!(triune.errors, UnsupportedError, Error, "The model needs what the device does not have.");
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
create_exception!(triune.errors, InternalError, Error, "The core broke its own rules: please report it.");

/// The exception for an error of the runtime.
pub(crate) fn runtime(error: RuntimeError) -> PyErr {
    let text = error.to_string();
    match error {
        RuntimeError::Card(error) => card(&error),
        RuntimeError::Io { .. } => FileError::new_err(text),
        RuntimeError::Graph(ref error) if matches!(innermost(error), GraphError::Io { .. }) => {
            FileError::new_err(text)
        }
        RuntimeError::Shared => InUseError::new_err(text),
        RuntimeError::Foreign { .. } => ForeignError::new_err(text),
        RuntimeError::Graph(ref error) if matches!(innermost(error), GraphError::Unsupported { .. }) => {
            UnsupportedError::new_err(text)
        }
        RuntimeError::Unsupported { .. } | RuntimeError::Target(_) => UnsupportedError::new_err(text),
        RuntimeError::Device(error) => device(error),
        RuntimeError::Graph(_) | RuntimeError::Package { .. } | RuntimeError::Operand { .. } => {
            ArgumentError::new_err(text)
        }
    }
}

/// The exception for an error of a device.
pub(crate) fn device(error: DeviceError) -> PyErr {
    let text = error.to_string();
    match error {
        DeviceError::OutOfMemory { .. } => UnsupportedError::new_err(text),
        // What a damaged program or a wrong name can cause; all else on the device is ours.
        DeviceError::Spec { .. }
        | DeviceError::UnknownMemory { .. }
        | DeviceError::OutOfRegion { .. }
        | DeviceError::NotAllocated { .. }
        | DeviceError::Overlap(_)
        | DeviceError::Segment { .. }
        | DeviceError::Command { .. }
        | DeviceError::SanitizerMode { .. }
        | DeviceError::Timing(_)
        | DeviceError::Board(_) => ArgumentError::new_err(text),
        DeviceError::Sanitizer(_) => SanitizerError::new_err(text),
        DeviceError::Link(_) => LinkError::new_err(text),
        _ => InternalError::new_err(text),
    }
}

/// What is wrong with a model, without the names of files round it.
fn innermost(error: &GraphError) -> &GraphError {
    match error {
        GraphError::File { source, .. } => innermost(source),
        error => error,
    }
}

/// The exception for an error of a card.
pub(crate) fn card(error: &CardError) -> PyErr {
    let text = error.to_string();
    match error {
        CardError::TooMany { .. } => ArgumentError::new_err(text),
        CardError::InUse { .. } => InUseError::new_err(text),
        CardError::Description { .. } | CardError::UnknownSetting { .. } | CardError::BadSetting { .. } => {
            SettingError::new_err(text)
        }
        CardError::Io { .. } => FileError::new_err(text),
    }
}

/// Runs `work` without the interpreter, so that other threads go on; a panic becomes an `InternalError`.
pub(crate) fn detached<T: Ungil + Send>(
    py: Python<'_>,
    work: impl Ungil + Send + FnOnce() -> T,
) -> PyResult<T> {
    let result = py.detach(|| {
        let result = catch_unwind(AssertUnwindSafe(work));
        exit::before_return();
        result
    });
    exit::after_return();
    result.map_err(|panic| InternalError::new_err(panic_text(panic.as_ref())))
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "unknown panic".to_owned())
}

//! Contexts: the root of all objects, with the last error and the logger; and what needs none.

use std::ffi::{CStr, c_char, c_uint, c_void};

use super::{
    failure::{Failure, argument},
    object::{self, Arg},
    types::{Code, LOG_ERROR, Logger, Opaque, TensorInfo},
};
use crate::{boundary, handle};

/// The vendor's release whose interface this is, 1.2.5, a byte for each number.
const VERSION: c_uint = 0x01_02_05;

/// `axr_api_version`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn axr_api_version() -> c_uint {
    VERSION
}

/// `axr_create_context`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn axr_create_context() -> *mut Opaque {
    object::new_context()
}

/// `axr_destroy`: the object, and all that was made from it. NULL, or one that is no more, is nothing to do.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn axr_destroy(object: *const Opaque) {
    if let Err(panic) = boundary::caught(|| object::destroy(object)) {
        object::homeless(Failure::new(Code::InternalError, panic));
    }
}

/// `axr_get_context`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn axr_get_context(object: *mut Opaque) -> *mut Opaque {
    if object.is_null() {
        return object;
    }
    object::with("obj", object, |_| handle::pointer(0), |object| Ok(handle::pointer(object.context.handle)))
}

/// `axr_last_error`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn axr_last_error(object: *const Opaque) -> Code {
    object::last(object).map_or(Code::Success, |failure| failure.code)
}

/// `axr_last_error_string`: empty if there was none. The text stays until this thread asks for the next one.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn axr_last_error_string(object: *const Opaque) -> *const c_char {
    boundary::give_text(&object::last(object).map_or_else(String::new, |failure| failure.text))
}

/// `axr_error_string`: the name of the code.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn axr_error_string(result: c_uint) -> *const c_char {
    Code::NAMES.get(result as usize).map_or(c"unknown axrResult", |&name| name).as_ptr()
}

/// `axr_board_type_string`: the names that `axelera.runtime.BoardType` has.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn axr_board_type_string(board: c_uint) -> *const c_char {
    const NAMES: [&CStr; 6] = [c"alpha_pcie", c"alpha_m2", c"pcie", c"m2", c"devboard", c"sbc"];
    NAMES.get(board as usize).map_or(c"unknown", |&name| name).as_ptr()
}

/// `axr_set_logger`: NULL takes the logger away.
///
/// # Safety
/// `logger` can be called with `arg` from any thread, for as long as the context is there.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn axr_set_logger(
    context: *mut Opaque,
    level: c_uint,
    logger: Option<Logger>,
    arg: *mut c_void,
) {
    object::with(
        "context",
        context,
        |_| (),
        |object| {
            object.is_context("context")?;
            if level > LOG_ERROR {
                return Err(argument(format!("level: expected an axrLogLevel, got {level}")));
            }
            object.context.set_logger(logger.map(|logger| (level, logger, Arg(arg))));
            Ok(())
        },
    );
}

/// `axr_tensor_size`: 0 for what is no tensor.
///
/// # Safety
/// `info` is NULL or an `axrTensorInfo`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn axr_tensor_size(info: *const TensorInfo) -> usize {
    // SAFETY: the caller's promise.
    let Some(info) = (unsafe { info.as_ref() }) else { return 0 };
    let Some(dims) = info.dims.get(..info.ndims) else { return 0 };
    let elements = dims.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim));
    let bits = elements.filter(|_| info.ndims > 0).and_then(|elements| elements.checked_mul(info.bits));
    bits.map_or(0, |bits| bits.div_ceil(8))
}

//! The header's structures and enumerations, as C lays them out.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// `AXR_MAX_TENSOR_DIMS`.
pub(crate) const MAX_DIMS: usize = 8;
pub(crate) const MAX_TEXT: usize = 256;

/// What handles point at, as far as C knows.
#[repr(C)]
pub(crate) struct Opaque {
    _nobody_looks: [u8; 0],
}

/// `axrResult`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Code {
    Success,
    RuntimeError,
    ValueError,
    InvalidArgument,
    ConnectionError,
    DeviceInUse,
    IncompatibleDevice,
    InvalidConfiguration,
    #[expect(dead_code, reason = "the header has it, and every function of the header is there")]
    NotImplemented,
    InternalError,
    Pending,
    UnknownError,
}

impl Code {
    /// The codes' names, in their order.
    pub(crate) const NAMES: [&std::ffi::CStr; 12] = [
        c"AXR_SUCCESS",
        c"AXR_ERROR_RUNTIME_ERROR",
        c"AXR_ERROR_VALUE_ERROR",
        c"AXR_ERROR_INVALID_ARGUMENT",
        c"AXR_ERROR_CONNECTION_ERROR",
        c"AXR_ERROR_DEVICE_IN_USE",
        c"AXR_ERROR_INCOMPATIBLE_DEVICE",
        c"AXR_ERROR_INVALID_CONFIGURATION",
        c"AXR_ERROR_NOT_IMPLEMENTED",
        c"AXR_ERROR_INTERNAL_ERROR",
        c"AXR_ERROR_PENDING_ERROR",
        c"AXR_ERROR_UNKNOWN_ERROR",
    ];
}

/// `axrLogLevel`, as far as anything here logs.
pub(crate) const LOG_DEBUG: c_uint = 2;
pub(crate) const LOG_WARNING: c_uint = 5;
pub(crate) const LOG_ERROR: c_uint = 6;

/// `axr_logger_fn`.
pub(crate) type Logger = unsafe extern "C" fn(arg: *mut c_void, level: c_uint, message: *const c_char);

/// `axrArgument`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Argument {
    pub(crate) ptr: *mut c_void,
    pub(crate) fd: c_int,
    pub(crate) offset: usize,
    pub(crate) size: usize,
}

/// `axrDeviceInfo`.
#[repr(C)]
pub(crate) struct DeviceInfo {
    pub(crate) name: [c_char; MAX_TEXT],
    pub(crate) subdevice_count: usize,
    pub(crate) max_memory: usize,
    pub(crate) in_use: c_int,
    pub(crate) in_use_by: [c_char; MAX_TEXT],
    pub(crate) board_type: c_uint,
    pub(crate) firmware_version: [c_char; MAX_TEXT],
    pub(crate) board_revision: c_int,
    pub(crate) flashed_firmware_version: [c_char; MAX_TEXT],
    pub(crate) board_controller_firmware_version: [c_char; MAX_TEXT],
    pub(crate) board_controller_board_type: [c_char; MAX_TEXT],
}

/// `AXR_TENSOR_DATA_TYPE`.
pub(crate) const UNSIGNED: usize = 0;
pub(crate) const SIGNED: usize = 1;
pub(crate) const FLOAT: usize = 2;

/// `axrTensorInfo`.
#[repr(C)]
pub(crate) struct TensorInfo {
    pub(crate) dims: [usize; MAX_DIMS],
    pub(crate) ndims: usize,
    pub(crate) bits: usize,
    pub(crate) kind: usize,
    pub(crate) name: [c_char; MAX_TEXT],
    pub(crate) padding: [[usize; 2]; MAX_DIMS],
    pub(crate) scale: f64,
    pub(crate) zero_point: c_int,
}

impl TensorInfo {
    /// What a tensor is of which nothing is known.
    pub(crate) const NONE: Self = Self {
        dims: [0; MAX_DIMS],
        ndims: 0,
        bits: 0,
        kind: 0,
        name: [0; MAX_TEXT],
        padding: [[0; 2]; MAX_DIMS],
        scale: 1.0,
        zero_point: 0,
    };
}

/// A text in an array of the header's, which ends with a zero: what does not fit is left out, at the end of a letter.
pub(crate) fn fixed(text: &str) -> [c_char; MAX_TEXT] {
    let mut fixed = [0; MAX_TEXT];
    let text = text.split('\0').next().unwrap_or_default();
    let end = text.floor_char_boundary(MAX_TEXT - 1);
    for (to, from) in fixed.iter_mut().zip(text[..end].bytes()) {
        *to = from.cast_signed();
    }
    fixed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_do_not_fit_end_with_a_letter_and_a_zero() {
        let long = fixed(&"é".repeat(200));
        assert_eq!(long.iter().filter(|&&byte| byte != 0).count(), 254);
        assert_eq!(long[255], 0);
        assert_eq!(fixed("a\0b")[..2], [97, 0]);
    }
}

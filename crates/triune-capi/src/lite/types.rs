//! The headers' structures and enumerations, as C lays them out.

use std::ffi::{c_char, c_int, c_void};

use triune::DType;

use super::failure::{Failure, failure};

/// `LAYOUT_MAX_DIM`.
pub(crate) const MAX_DIMS: usize = 7;

/// `LiteNetwork` and `LiteTensor`.
pub(crate) type Handle = *mut c_void;

/// `LiteDeviceType`, as far as there are any here.
pub(crate) const CPU: c_int = 0;
pub(crate) const DEVICE_DEFAULT: c_int = 7;

/// `LiteTensorPhase`.
pub(crate) const INPUT: c_int = 1;
pub(crate) const OUTPUT: c_int = 2;

/// `LiteIOType`.
pub(crate) const IO_VALUE: c_int = 0;
pub(crate) const IO_SHAPE: c_int = 1;

/// `LiteDataType`, in its order.
const KINDS: [DType; 9] = [
    DType::F32,
    DType::F16,
    DType::I32,
    DType::I16,
    DType::I8,
    DType::U8,
    DType::U32,
    DType::U16,
    DType::I64,
];

pub(crate) fn dtype(kind: c_int) -> Result<DType, Failure> {
    let found = usize::try_from(kind).ok().and_then(|kind| KINDS.get(kind));
    found.copied().ok_or_else(|| failure(format!("data_type: expected a LiteDataType, got {kind}")))
}

/// The element type that packed models call so.
pub(crate) fn kind_named(name: &str) -> Option<c_int> {
    let names = ["float32", "float16", "int32", "int16", "int8", "uint8", "uint32", "uint16", "int64"];
    names.iter().position(|known| *known == name).map(|kind| kind as c_int)
}

/// Truth values are bytes in tensors.
pub(crate) fn kind(what: &str, dtype: DType) -> Result<c_int, Failure> {
    let dtype = if dtype == DType::Bool { DType::U8 } else { dtype };
    let found = KINDS.iter().position(|&kind| kind == dtype);
    found
        .map(|kind| kind as c_int)
        .ok_or_else(|| failure(format!("{what} is of {}, which no tensor can have", dtype.name())))
}

/// `LiteLayout`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Layout {
    pub(crate) shapes: [usize; MAX_DIMS],
    pub(crate) ndim: usize,
    pub(crate) data_type: c_int,
}

impl Layout {
    pub(crate) const EMPTY: Self = Self { shapes: [0; MAX_DIMS], ndim: 0, data_type: 0 };

    pub(crate) fn new(shape: &[usize], data_type: c_int) -> Self {
        let mut layout = Self { ndim: shape.len(), data_type, ..Self::EMPTY };
        layout.shapes[..shape.len()].copy_from_slice(shape);
        layout
    }

    pub(crate) fn shape(&self) -> Result<&[usize], Failure> {
        let wrong = || failure(format!("layout: expected at most {MAX_DIMS} axes, got {}", self.ndim));
        self.shapes.get(..self.ndim).ok_or_else(wrong)
    }
}

/// `LiteTensorDesc`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct TensorDesc {
    pub(crate) is_pinned_host: c_int,
    pub(crate) layout: Layout,
    pub(crate) device_type: c_int,
    pub(crate) device_id: c_int,
}

/// `LiteOptions`: what each is, the header says; those that are read have names here.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Options {
    pub(crate) before: [c_int; 11],
    pub(crate) graph_opt_level: c_int,
    pub(crate) behind: [c_int; 8],
}

impl Options {
    pub(crate) const DEFAULT: Self = Self {
        // var_sanity_check_first_run is on.
        before: [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
        graph_opt_level: 2,
        behind: [1, 0, 0, 0, 0, 0, 0, 0],
    };
}

/// `LiteConfig`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Config {
    pub(crate) has_compression: c_int,
    pub(crate) device_id: c_int,
    pub(crate) device_type: c_int,
    pub(crate) backend: c_int,
    pub(crate) bare_model_cryption_name: *const c_char,
    pub(crate) options: Options,
    pub(crate) auto_optimize_inference: c_int,
    pub(crate) discrete_input_name: *const c_char,
}

impl Config {
    pub(crate) const DEFAULT: Self = Self {
        has_compression: 0,
        device_id: 0,
        device_type: CPU,
        backend: 0,
        bare_model_cryption_name: std::ptr::null(),
        options: Options::DEFAULT,
        auto_optimize_inference: 0,
        discrete_input_name: std::ptr::null(),
    };
}

/// `LiteIO`.
#[expect(clippy::struct_field_names, reason = "the header's name")]
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Io {
    pub(crate) name: *const c_char,
    pub(crate) is_host: c_int,
    pub(crate) io_type: c_int,
    pub(crate) config_layout: Layout,
}

// SAFETY: the one that is shared has no name.
unsafe impl Sync for Io {}

/// `LiteNetworkIO`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct NetworkIo {
    pub(crate) inputs: *mut Io,
    pub(crate) outputs: *mut Io,
    pub(crate) input_size: usize,
    pub(crate) output_size: usize,
}

impl NetworkIo {
    pub(crate) const DEFAULT: Self =
        Self { inputs: std::ptr::null_mut(), outputs: std::ptr::null_mut(), input_size: 0, output_size: 0 };
}

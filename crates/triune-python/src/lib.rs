//! The native module `triune._native`: conversions between Python objects and the core, and the one map from core errors
//! to Python exceptions. It holds no algorithm and knows no vendor's names.
#![expect(
    clippy::needless_pass_by_value,
    reason = "arguments from Python are extracted into values of our own"
)]

mod aligned;
mod array;
mod board;
mod bound;
mod card;
mod composition;
mod deployment;
mod device;
mod error;
mod estimate;
mod exit;
mod files;
mod fork;
mod hard_ops;
mod held;
mod instance;
mod interpreter;
mod interrupt;
mod list;
mod logic;
mod logs;
mod model_file;
mod onnx;
mod package;
mod pixels;
mod placement;
mod remote;
mod report;
mod session;
mod tensor_info;
mod timeline;
mod turn;
mod work;
mod xir;

use pyo3::prelude::*;

/// The native half of the Python package `triune`.
#[pymodule(name = "_native", gil_used = false)]
mod native {
    #[pymodule_export]
    use super::board::{Board, BoardReport};
    #[pymodule_export]
    use super::card::{Card, Reservation, cards};
    #[pymodule_export]
    use super::composition::{Composition, compose};
    #[pymodule_export]
    use super::deployment::{DeployedOp, DeployedValue, Deployment, HardNetwork};
    #[pymodule_export]
    use super::device::{
        device_begin, device_conformance, device_is_file, device_of, device_problems, device_schema,
    };
    #[pymodule_export]
    use super::error::message;
    #[pymodule_export]
    use super::error::{
        ArgumentError, BoardInUseError, Error, FileError, ForeignError, ForkedError, FormatError, InUseError,
        InternalError, KeyMismatchError, LinkError, NotQuantizedError, PendingError, ReleasedError,
        SanitizerError, SettingError, UnsupportedError,
    };
    #[pymodule_export]
    use super::estimate::Estimate;
    #[pymodule_export]
    use super::files::{OutputFile, append_to_file, open_input, read_file};
    #[pymodule_export]
    use super::hard_ops::{HardOps, compile_documents, document_timeline};
    #[pymodule_export]
    use super::instance::Instance;
    #[pymodule_export]
    use super::logic::{det_post, image_make};
    #[pymodule_export]
    use super::model_file::{convert, decrypt, encrypt, pack_model, unpack_model};
    #[pymodule_export]
    use super::onnx::onnx_versions;
    #[pymodule_export]
    use super::package::{Package, TensorIo, compile};
    #[pymodule_export]
    use super::pixels::{scale_pixels, spread_pixels};
    #[pymodule_export]
    use super::placement::Placement;
    #[pymodule_export]
    use super::remote::BoardServer;
    #[pymodule_export]
    use super::report::CompileReport;
    #[pymodule_export]
    use super::session::{Cancel, Session};
    #[pymodule_export]
    use super::tensor_info::{depad_dequantize, look_up_pad, quantize_pad};
    #[pymodule_export]
    use super::timeline::Timeline;
    #[pymodule_export]
    use super::turn::Turn;
    #[pymodule_export]
    use super::work::{set_work_limit, work_limit};
    #[pymodule_export]
    use super::xir::{
        xir_format_array, xir_format_merged_distr, xir_parse_array, xir_parse_layout, xir_parse_mem,
        xir_parse_merged_distr, xir_parse_scalar, xir_parse_target, xir_raw_table, xir_read_flat,
        xir_write_flat,
    };

    #[pymodule_export]
    const MODEL_LIMIT: u64 = triune::internals::files::MODEL_LIMIT;
    #[pymodule_export]
    const DATA_LIMIT: u64 = triune::internals::files::DATA_LIMIT;
    #[pymodule_export]
    const TEXT_LIMIT: u64 = triune::internals::files::TEXT_LIMIT;
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "the constant carries its Python name")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    const OPTIMIZED: bool = !matches!(env!("TRIUNE_OPT_LEVEL").as_bytes(), b"0");

    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        super::interpreter::claim(module.py())?;
        super::error::register(module)?;
        super::exit::register(module)?;
        super::logs::register();
        super::fork::register(module)
    }
}

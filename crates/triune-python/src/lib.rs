//! The native module `triune._native`: conversions between Python objects and the core, and the one map from core errors
//! to Python exceptions. It holds no algorithm and knows no vendor's names.

use pyo3::prelude::*;

/// The native half of the Python package `triune`.
#[pymodule(name = "_native")]
mod native {
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "the constant carries its Python name")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}

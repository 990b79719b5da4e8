//! Models: what lies in a package, and what its tensors are.

use std::{
    ffi::c_char,
    path::{Path, PathBuf},
    ptr,
};

use triune::{DType, Package, internals::runtime::TensorIo};

use super::{
    failure::{Failure, argument},
    object::{self, Kind},
    properties::Properties,
    types::{FLOAT, MAX_DIMS, Opaque, SIGNED, TensorInfo, UNSIGNED, fixed},
};
use crate::boundary;

/// An `axrModel`.
pub(crate) struct Model {
    pub(crate) path: PathBuf,
    pub(crate) package: Package,
    /// Whether a manifest lies beside it, without which nobody is told of quantization and padding.
    manifest: bool,
}

impl Model {
    fn load(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        if path.is_dir() {
            return Err(argument(format!(
                "path: expected a model.json file, got the directory '{shown}'; try '{}'",
                path.join("model.json").display()
            )));
        }
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("onnx")) {
            return Err(argument(format!(
                "path: expected a model.json file, got the ONNX file '{shown}'; compile it with `triune compile {shown} \
                 --target metis -o DIR` and load DIR/model.json"
            )));
        }
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("axm")) {
            return Err(argument(format!(
                "path: expected a model.json file, got the archive '{shown}'; unpack it and load its model.json"
            )));
        }
        if !path.exists() {
            return Err(argument(format!(
                "path: expected a model.json file, got '{shown}', which does not exist"
            )));
        }
        let package = Package::load(path)?;
        let manifest = path.with_file_name("manifest.json").exists();
        Ok(Self { path: path.to_owned(), package, manifest })
    }

    fn info(&self, io: &TensorIo) -> Result<TensorInfo, Failure> {
        let rank = io.shape.len();
        if rank > MAX_DIMS {
            return Err(argument(format!(
                "tensor '{}' has {rank} axes, of which axrTensorInfo holds {MAX_DIMS}",
                io.name
            )));
        }
        let kind = match io.dtype {
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => SIGNED,
            DType::U8 | DType::U16 | DType::U32 | DType::U64 | DType::Bool => UNSIGNED,
            _ => FLOAT,
        };
        let mut info = TensorInfo {
            ndims: rank,
            bits: 8 * io.dtype.bytes(),
            kind,
            name: fixed(&io.name),
            ..TensorInfo::NONE
        };
        info.dims[..rank].copy_from_slice(&io.shape);
        if self.manifest {
            for (to, &(before, after)) in info.padding.iter_mut().zip(&io.padding) {
                *to = [before, after];
            }
            (info.scale, info.zero_point) = (f64::from(io.scale), io.zero_point);
        }
        Ok(info)
    }
}

/// `axr_load_model`.
///
/// # Safety
/// `path` is NULL or a text.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn axr_load_model(context: *mut Opaque, path: *const c_char) -> *mut Opaque {
    object::with(
        "context",
        context,
        |_| ptr::null_mut(),
        |object| {
            object.is_context("context")?;
            // SAFETY: the caller's promise.
            let path = unsafe { boundary::path(path) };
            let path = path.ok_or_else(|| argument("path: expected a model.json file, got NULL"))?;
            Ok(object.make(Kind::Model(Model::load(path)?.into())))
        },
    )
}

/// `axr_num_model_inputs`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn axr_num_model_inputs(model: *mut Opaque) -> usize {
    object::with("model", model, |_| 0, |object| Ok(object.model("model")?.package.program().taken().count()))
}

/// `axr_num_model_outputs`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn axr_num_model_outputs(model: *mut Opaque) -> usize {
    object::with("model", model, |_| 0, |object| Ok(object.model("model")?.package.program().results().len()))
}

/// `axr_get_model_input`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn axr_get_model_input(model: *mut Opaque, n: usize) -> TensorInfo {
    object::with(
        "model",
        model,
        |_| TensorInfo::NONE,
        |object| {
            let model = object.model("model")?;
            tensor(model, "input", model.package.program().taken(), n)
        },
    )
}

/// `axr_get_model_output`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn axr_get_model_output(model: *mut Opaque, n: usize) -> TensorInfo {
    object::with(
        "model",
        model,
        |_| TensorInfo::NONE,
        |object| {
            let model = object.model("model")?;
            tensor(model, "output", model.package.program().results().iter(), n)
        },
    )
}

fn tensor<'t>(
    model: &Model,
    what: &str,
    mut all: impl Iterator<Item = &'t TensorIo> + Clone,
    n: usize,
) -> Result<TensorInfo, Failure> {
    let count = all.clone().count();
    model.info(all.nth(n).ok_or_else(|| argument(format!("n: the model has {count} {what}s, got {n}")))?)
}

/// `axr_get_model_properties`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn axr_get_model_properties(model: *mut Opaque) -> *mut Opaque {
    object::with(
        "model",
        model,
        |_| ptr::null_mut(),
        |object| {
            let package = &object.model("model")?.package;
            Ok(object.make(Kind::Properties(Properties::of([
                ("preamble_graph", package.preprocess().unwrap_or_default()),
                ("postamble_graph", package.postprocess().unwrap_or_default()),
                ("input_tensor_layout", "NHWC"),
            ]))))
        },
    )
}

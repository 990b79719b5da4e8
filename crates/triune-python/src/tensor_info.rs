//! Quantize and pad, depad and dequantize: numpy arrays to and from a device's padded tensors, in one pass.

use std::sync::LazyLock;

use numpy::{PyArrayDyn, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use triune::internals::{
    kernels::{self, Isa, Pool, Q8, TensorPad},
    tensor::DType,
};

use crate::list::List;
use crate::{
    array::{self, Input, Output},
    error,
    held::Held,
};

/// These passes are shorter than waking a thread; callers have threads of their own.
static POOL: LazyLock<Pool> = LazyLock::new(|| Pool::new(1));

/// Makes what is made once, so that no thread does when another one forks.
pub(crate) fn prepare() {
    LazyLock::force(&POOL);
}

/// Quantizes a C-contiguous float32 array and pads it with the zero point: clamp(rint(f32(f32(x / scale) + `zero_point`))).
/// Returns an array of `dtype`, int8 or uint8.
///
/// Raises `ArgumentError` if the array, padding, scale or zero point does not fit.
#[pyfunction]
#[pyo3(signature = (src, padding, scale, zero_point, dtype))]
pub(crate) fn quantize_pad<'py>(
    py: Python<'py>,
    src: &Bound<'py, PyAny>,
    padding: List<(usize, usize)>,
    scale: f64,
    zero_point: i32,
    dtype: &str,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let dtype = quantized(dtype)?;
    let array = array::check("src", src, DType::F32, None)?;
    let (shape, pad) = padded(array.shape(), &padding, scale, zero_point, dtype)?;
    let _held = Held::new([array])?;
    let source = array.cast::<PyArrayDyn<f32>>()?.try_readonly().map_err(|e| array::in_use("src", &e))?;
    let x = source.as_slice()?;
    fill(py, dtype, &shape, |y| pad.quantize_f32(Isa::best(), x, y, &POOL))
}

/// Replaces each byte of a C-contiguous uint8 array through `table` (256 bytes) and pads it with `zero_point`. Returns an
/// array of `dtype`, int8 or uint8.
///
/// Raises `ArgumentError` if the array, table, padding or zero point does not fit.
#[pyfunction]
#[pyo3(signature = (src, padding, table, zero_point, dtype))]
pub(crate) fn look_up_pad<'py>(
    py: Python<'py>,
    src: &Bound<'py, PyAny>,
    padding: List<(usize, usize)>,
    table: &[u8],
    zero_point: i32,
    dtype: &str,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let dtype = quantized(dtype)?;
    let array = array::check("src", src, DType::U8, None)?;
    let table: &[u8; 256] = table
        .try_into()
        .map_err(|_| error::argument(format!("table: expected 256 bytes, got {}", table.len())))?;
    let (shape, pad) = padded(array.shape(), &padding, 1.0, zero_point, dtype)?;
    let source = Input::new("src", array)?;
    let x = source.bytes()?;
    fill(py, dtype, &shape, |y| pad.quantize_u8(Isa::best(), table, x, y, &POOL))
}

/// Removes the padding of a C-contiguous int8 or uint8 array and dequantizes: f32(q − `zero_point`) · scale. Returns a float32
/// array.
///
/// Raises `ArgumentError` if the array, padding, scale or zero point does not fit.
#[pyfunction]
#[pyo3(signature = (out, padding, scale, zero_point))]
pub(crate) fn depad_dequantize<'py>(
    py: Python<'py>,
    out: &Bound<'py, PyAny>,
    padding: List<(usize, usize)>,
    scale: f64,
    zero_point: i32,
) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
    let dtype = if out.cast::<PyArrayDyn<u8>>().is_ok() { DType::U8 } else { DType::I8 };
    let array = array::check("out", out, dtype, None)?;
    let pad = TensorPad::new(array.shape(), &padding, scale as f32, q8(dtype, zero_point))
        .map_err(|e| wrong(&e))?;
    let shape: Vec<usize> =
        array.shape().iter().zip(&*padding).map(|(n, (before, after))| n - before - after).collect();
    let source = Input::new("out", array)?;
    let x = source.bytes()?;
    let result = array::zeros(py, DType::F32, &shape)?.cast_into::<PyArrayDyn<f32>>()?;
    let mut target = result.readwrite();
    let y = target.as_slice_mut()?;
    error::detached(py, || pad.dequantize(Isa::best(), x, y, &POOL))?.map_err(|e| wrong(&e))?;
    drop(target);
    Ok(result)
}

fn quantized(name: &str) -> PyResult<DType> {
    DType::from_name(name)
        .filter(|dtype| dtype.is_quantized())
        .ok_or_else(|| error::argument(format!("dtype: expected int8 or uint8, got {name}")))
}

fn q8(dtype: DType, zero_point: i32) -> Q8 {
    Q8 { signed: dtype == DType::I8, zero_point }
}

fn wrong(error: &kernels::Error) -> PyErr {
    error::argument(error.to_string())
}

/// The shape with padding, and the layout.
fn padded(
    dense: &[usize],
    padding: &[(usize, usize)],
    scale: f64,
    zero_point: i32,
    dtype: DType,
) -> PyResult<(Vec<usize>, TensorPad)> {
    if dense.len() != padding.len() {
        return Err(error::argument(format!(
            "padding: expected {} pairs, got {}",
            dense.len(),
            padding.len()
        )));
    }
    let sum = |(&extent, &(before, after)): (&usize, &(usize, usize))| {
        extent.checked_add(before).and_then(|sum| sum.checked_add(after))
    };
    let shape: Option<Vec<usize>> = dense.iter().zip(padding).map(sum).collect();
    let shape = shape.ok_or_else(|| error::argument("padding: the shape overflows"))?;
    let pad = TensorPad::new(&shape, padding, scale as f32, q8(dtype, zero_point)).map_err(|e| wrong(&e))?;
    Ok((shape, pad))
}

/// A new array that `work` fills.
fn fill<'py>(
    py: Python<'py>,
    dtype: DType,
    shape: &[usize],
    work: impl Send + FnOnce(&mut [u8]) -> Result<(), kernels::Error>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let result = array::zeros(py, dtype, shape)?;
    let mut target = Output::new("result", &result)?;
    let y = target.bytes()?;
    error::detached(py, || work(y))?.map_err(|e| wrong(&e))?;
    drop(target);
    Ok(result)
}

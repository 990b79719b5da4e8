//! Pictures of numpy's and Pillow's become a network's input, scaled where they have to be, without a copy of them.
//!
//! Pillow gives its pixels away by the Arrow C data interface (<https://arrow.apache.org/docs/format/CDataInterface.html>). Why
//! reading them is sound: the capsules own a reference to the picture's memory until they are gone, which is after the work; what
//! they describe is compared with the extents that the picture says it has, so that there are as many bytes as are read. That
//! nobody paints in the picture meanwhile is the caller's part, as for every operation of Pillow's that releases the interpreter.
#![expect(unsafe_code, reason = "reads memory that another library describes; see above")]

use std::ffi::{CStr, c_char, c_void};

use numpy::PyUntypedArrayMethods;
use pyo3::{
    prelude::*,
    types::{PyCapsule, PyCapsuleMethods},
};
use triune::internals::{
    kernels::{self, Channels, Isa, Resample, ResampleFilter, ResampleSpec, ResampleTarget},
    tensor::DType,
};

use crate::{
    array::{self, Input, Output},
    error,
};

/// What the elements of an array are; the interface's `ArrowSchema`, of which only the first fields matter here.
#[repr(C)]
struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *const *const ArrowSchema,
}

/// Where they are; the interface's `ArrowArray`, likewise.
#[repr(C)]
struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *const *const c_void,
    children: *const *const ArrowArray,
}

/// A picture's bytes, row after row.
enum Picture<'py> {
    Array(Input<'py>),
    Exported { start: *const u8, bytes: usize, _owners: [Bound<'py, PyCapsule>; 2] },
}

impl<'py> Picture<'py> {
    /// An array (H, W, C), or what `__arrow_c_array__` of a picture of these extents returned; and the bytes of a pixel.
    fn new(object: &Bound<'py, PyAny>, extents: [usize; 2]) -> PyResult<(Self, usize)> {
        if let Ok(capsules) = object.extract::<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)>() {
            return Self::exported(capsules.into(), extents);
        }
        let array = array::check("picture", object, DType::U8, None)?;
        match array.shape() {
            &[height, width, pixel] if [height, width] == extents => {
                Ok((Self::Array(Input::new("picture", array)?), pixel))
            }
            other => Err(error::argument(format!(
                "picture: expected ({}, {}, C), got {}",
                extents[0],
                extents[1],
                array::tuple(other)
            ))),
        }
    }

    fn exported(owners: [Bound<'py, PyCapsule>; 2], [height, width]: [usize; 2]) -> PyResult<(Self, usize)> {
        let other = || {
            error::argument(
                "picture: its memory is not laid out as bytes of one or four channels, row after row",
            )
        };
        let schema = owners[0].pointer_checked(Some(c"arrow_schema"))?.cast::<ArrowSchema>();
        let array = owners[1].pointer_checked(Some(c"arrow_array"))?.cast::<ArrowArray>();
        // SAFETY: capsules of these names hold such structures, and whoever made them keeps their promises: as many children and
        // buffers as are counted, and buffers of as many elements as the length says.
        let (start, length, pixel) = unsafe {
            let (mut schema, mut array) = (schema.as_ref(), array.as_ref());
            let mut pixel = 1;
            if is(schema.format, c"+w:4") {
                if schema.n_children != 1 || array.n_children != 1 || array.offset != 0 {
                    return Err(other());
                }
                pixel = 4;
                schema = &**schema.children;
                array = &**array.children;
            }
            if !is(schema.format, c"C") || array.n_buffers != 2 || array.offset != 0 || array.null_count != 0
            {
                return Err(other());
            }
            ((*array.buffers.add(1)).cast::<u8>(), array.length, pixel)
        };
        let bytes = height.checked_mul(width).and_then(|pixels| pixels.checked_mul(pixel));
        match bytes.filter(|&bytes| !start.is_null() && usize::try_from(length) == Ok(bytes)) {
            Some(bytes) => Ok((Self::Exported { start, bytes, _owners: owners }, pixel)),
            None => Err(other()),
        }
    }

    fn bytes(&self) -> PyResult<&[u8]> {
        match self {
            Self::Array(input) => input.bytes(),
            // SAFETY: as the module says.
            Self::Exported { start, bytes, .. } => Ok(unsafe { std::slice::from_raw_parts(*start, *bytes) }),
        }
    }
}

/// Whether a text of C is that one.
///
/// # Safety
/// It ends with 0.
unsafe fn is(text: *const c_char, other: &CStr) -> bool {
    // SAFETY: the caller's promise.
    !text.is_null() && unsafe { CStr::from_ptr(text) } == other
}

/// What an input's elements are: float32 where they are none that pixels become, which is refused then.
fn element_type(out: &Bound<'_, PyAny>) -> DType {
    let fits = |&dtype: &DType| array::check("out", out, dtype, None).is_ok();
    [DType::F32, DType::I8, DType::U8].into_iter().find(fits).unwrap_or(DType::F32)
}

fn wrong(error: kernels::Error) -> PyErr {
    error::argument(error)
}

/// Turns a C-contiguous uint8 picture (H, W, C) into elements, through a table of 256 per channel: `tables` (C, 256), and `out`
/// (C, H, W), or with `last` (H, W, C), are C-contiguous arrays of one dtype: float32, int8 or uint8.
///
/// Raises `ArgumentError` if an array does not fit.
#[pyfunction]
#[pyo3(signature = (picture, tables, out, last=false))]
pub(crate) fn spread_pixels(
    py: Python<'_>,
    picture: &Bound<'_, PyAny>,
    tables: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
    last: bool,
) -> PyResult<()> {
    let source = array::check("picture", picture, DType::U8, None)?;
    let &[height, width, channels] = source.shape() else {
        return Err(error::argument(format!("picture: expected (H, W, C), got {} axes", source.ndim())));
    };
    let dtype = element_type(out);
    let shape = if last { [height, width, channels] } else { [channels, height, width] };
    let out = array::check("out", out, dtype, Some(&shape))?;
    let tables = array::check("tables", tables, dtype, Some(&[channels, 256]))?;
    let order = if last { Channels::Last } else { Channels::First };
    let (source, tables) = (Input::new("picture", source)?, Input::new("tables", tables)?);
    let mut target = Output::new("out", out)?;
    let (x, entries, y) = (source.bytes()?, tables.bytes()?, target.bytes()?);
    // By bit patterns: what they mean does not matter here.
    if dtype == DType::F32 {
        let tables: Vec<[u32; 256]> = entries.chunks_exact(1024).map(bytemuck::pod_read_unaligned).collect();
        let y = bytemuck::try_cast_slice_mut(y).map_err(|e| error::argument(format!("out: {e}")))?;
        error::detached(py, || kernels::pixels(&tables, order, x, y))?.map_err(wrong)
    } else {
        let tables: Vec<[u8; 256]> = entries.chunks_exact(256).map(bytemuck::pod_read_unaligned).collect();
        error::detached(py, || kernels::pixels(&tables, order, x, y))?.map_err(wrong)
    }
}

/// Scales `part` (left, top, right, bottom) of a picture of `extents` (H, W) to `size` (H, W) with the bits of Pillow's filter of
/// that name, and writes it to `out` as `spread_pixels` does, from `origin` (row, column) on; the rest stays. `reverse` takes the
/// channels in the other order. `down_first` sums rows up before columns.
///
/// `picture` is a C-contiguous uint8 array (H, W, 1, 3 or 4) or what `__arrow_c_array__` of a picture returns. `tables` (C, 256),
/// and `out` (C, H, W), or with `last` (H, W, C), are C-contiguous arrays of one dtype: float32, int8 or uint8.
///
/// Raises `ArgumentError` if something does not fit, or weights cannot be added up.
#[pyfunction]
#[pyo3(signature = (picture, extents, part, size, filter, tables, out, *, last=false, reverse=false, origin=(0, 0), down_first=false))]
pub(crate) fn scale_pixels(
    py: Python<'_>,
    picture: &Bound<'_, PyAny>,
    extents: (usize, usize),
    part: (f64, f64, f64, f64),
    size: (usize, usize),
    filter: &str,
    tables: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
    last: bool,
    reverse: bool,
    origin: (usize, usize),
    down_first: bool,
) -> PyResult<()> {
    let Some(filter) = ResampleFilter::ALL.into_iter().find(|known| known.name() == filter) else {
        let names = ResampleFilter::ALL.map(ResampleFilter::name).join(", ");
        return Err(error::argument(format!("filter: expected one of {names}, got {filter}")));
    };
    let extents = <[usize; 2]>::from(extents);
    let part = <[f64; 4]>::from(part).map(|place| place as f32);
    let spec = ResampleSpec { filter, input: extents, part, output: size.into(), down_first };
    let (picture, pixel) = Picture::new(picture, extents)?;
    let dtype = element_type(out);
    let out = array::check("out", out, dtype, None)?;
    let (&[first, second, third], channels) =
        (out.shape(), if last { Channels::Last } else { Channels::First })
    else {
        return Err(error::argument(format!("out: expected three axes, got {}", out.ndim())));
    };
    let (count, extents) = if last { (third, [first, second]) } else { (first, [second, third]) };
    let target = ResampleTarget { channels, extents, origin: origin.into() };
    let tables = array::check("tables", tables, dtype, Some(&[count, 256]))?;
    let tables = Input::new("tables", tables)?;
    let mut out = Output::new("out", out)?;
    let (x, entries, y) = (picture.bytes()?, tables.bytes()?, out.bytes()?);
    let work = Work { spec, x, pixel, target, reverse };
    // By bit patterns: what they mean does not matter here.
    if dtype == DType::F32 {
        let tables = entries.chunks_exact(1024).map(bytemuck::pod_read_unaligned);
        let y = bytemuck::try_cast_slice_mut(y).map_err(|e| error::argument(format!("out: {e}")))?;
        work.run::<u32>(py, tables.collect(), y)
    } else {
        work.run::<u8>(py, entries.chunks_exact(256).map(bytemuck::pod_read_unaligned).collect(), y)
    }
}

/// What is done without the interpreter.
struct Work<'a> {
    spec: ResampleSpec,
    x: &'a [u8],
    pixel: usize,
    target: ResampleTarget,
    reverse: bool,
}

impl Work<'_> {
    fn run<T: Copy + Send + Sync>(self, py: Python<'_>, tables: Vec<[T; 256]>, y: &mut [T]) -> PyResult<()> {
        let count = tables.len();
        let channel = |at: usize| if self.reverse { count - 1 - at } else { at };
        let tables: Vec<_> = tables.into_iter().enumerate().map(|(at, table)| (channel(at), table)).collect();
        let run = || -> Result<(), kernels::Error> {
            let resample = Resample::new(&self.spec)?;
            resample.run(Isa::best(), self.x, self.pixel, &tables, y, &self.target)
        };
        error::detached(py, run)?.map_err(wrong)
    }
}

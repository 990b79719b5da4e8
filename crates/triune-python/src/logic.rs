//! Operators in programmable logic beside an accelerator, on bytes of the host.

use pyo3::{prelude::*, types::PyBytes};
use triune::internals::device::logic::{Arrangement, Compare, DetPost, ImageMake};

use crate::{array::Input, board::bytes_of, error, list};

/// The feature map that `ImageMake` makes of a picture's bytes: rows, columns and channels in a block of four.
///
/// `mean` and `scale` are the registers' numbers, the scale times 1024; `pads` are rows above and below, columns left and right;
/// `wide` pixels are int16; `arrangement` is the result's integers, ``int8``, ``int16`` or ``uint8``.
///
/// Raises `ArgumentError` if the picture has another size, or is none.
#[pyfunction]
#[pyo3(signature = (picture, *, width, height, channels, mean, scale, pads, wide, arrangement))]
pub(crate) fn image_make<'py>(
    py: Python<'py>,
    picture: &Bound<'py, PyAny>,
    width: usize,
    height: usize,
    channels: usize,
    mean: [i16; 4],
    scale: [i16; 4],
    pads: [usize; 4],
    wide: bool,
    arrangement: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    let arrangement = match arrangement {
        "int8" => Arrangement::Int8,
        "int16" => Arrangement::Int16,
        "uint8" => Arrangement::Uint8,
        other => return Err(error::argument(format!("arrangement: int8, int16 or uint8, not {other}"))),
    };
    let make = ImageMake { width, height, channels, mean, scale, pads, wide, arrangement };
    let picture = Input::new("picture", &bytes_of(picture)?)?;
    let bytes = picture.bytes()?;
    let made = error::detached(py, || make.run(bytes))?.map_err(error::device)?;
    list::to_bytes(py, &made)
}

/// The rows that `DetPost` makes of one level's maps, the parts in blocks of channels; and the bytes of a row.
///
/// `parts` are the units of 64 bytes of one anchor in each part, `valid` the words of the last one; `compare` is how many units
/// are compared, the mask of the last one, and what has to be exceeded.
///
/// Raises `ArgumentError` if maps have other sizes, or there cannot be such.
#[pyfunction]
#[pyo3(signature = (maps, *, width, height, anchors, parts, valid, compare, wide))]
pub(crate) fn det_post<'py>(
    py: Python<'py>,
    maps: Vec<Bound<'py, PyAny>>,
    width: usize,
    height: usize,
    anchors: usize,
    parts: Vec<usize>,
    valid: usize,
    compare: Option<(usize, u64, i32)>,
    wide: bool,
) -> PyResult<(Bound<'py, PyBytes>, usize)> {
    let compare = compare.map(|(units, mask, threshold)| Compare { units, mask, threshold });
    let post = DetPost { width, height, anchors, parts, valid, compare, wide };
    let arrays: Vec<_> = maps.iter().map(bytes_of).collect::<PyResult<_>>()?;
    let maps: Vec<Input<'_>> =
        arrays.iter().map(|array| Input::new("maps", array)).collect::<PyResult<_>>()?;
    let maps: Vec<&[u8]> = maps.iter().map(Input::bytes).collect::<PyResult<_>>()?;
    let rows = error::detached(py, || post.run(&maps))?.map_err(error::device)?;
    Ok((list::to_bytes(py, &rows)?, post.row_bytes()))
}

//! Resampling of images to the result's declared extents.

use triune_tensor::{DType, function::Coded, text::List};

use super::super::{View, form::shown, node::Reader};
use crate::{
    Error, Op,
    ops::{CoordinateMode, NearestMode, Resize, ResizeMode},
};

fn sampled(node: &mut Reader<'_, '_>, op: Resize) -> Result<(), Error> {
    sampled_by(node, op, &[])
}

/// With factors for rows and columns that the extents do not tell, if there are any.
fn sampled_by(node: &mut Reader<'_, '_>, op: Resize, factors: &[f32]) -> Result<(), Error> {
    let (x, y) = node.ends()?;
    let sizes: Option<Vec<i64>> = node
        .typed(y)?
        .form
        .open_extents()
        .into_iter()
        .map(|extent| extent.map(|extent| extent as i64))
        .collect();
    let sizes = sizes.ok_or_else(|| node.unsupported("extents that the network decides about"))?;
    let open = node.in_floats(x, View::Open)?;
    let open =
        if node.dtype(open).is_some_and(DType::is_float) { open } else { node.cast(open, DType::F32)? };
    let operands = match *factors {
        [rows, columns] => [Some(open), None, Some(node.row("scales", &[1.0, 1.0, rows, columns])?), None],
        _ => [Some(open), None, None, Some(node.list("sizes", &sizes)?)],
    };
    let result = node.emit_all(Op::Resize(op), &operands, 1)?[0];
    node.define(y, View::Open, result)
}

/// The sizes that attributes ask for must be the declared ones.
fn check(node: &Reader<'_, '_>, rows: i64, columns: i64) -> Result<(), Error> {
    let extents = node.typed(node.ends()?.1)?.form.open_extents();
    let requested = [rows, columns].map(|extent| usize::try_from(extent).ok());
    match extents.as_slice() {
        [_, _, rows, columns] if [*rows, *columns] == requested => Ok(()),
        _ => Err(node.wrong(format!(
            "{rows} rows of {columns} are asked for, declared are {}",
            List(&shown(&extents))
        ))),
    }
}

/// `height` and `width`; nearest neighbours as `PyTorch` takes them, or linear between centres or corners.
pub(in super::super) fn upsample(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    check(node, node.int("height", -1)?, node.int("width", -1)?)?;
    let names = [("NEAREST", Some(false)), ("BILINEAR", Some(true)), ("BICUBIC", None)];
    let linear = node.choice("interpolation", Some(false), &names)?;
    let linear = linear.ok_or_else(|| node.unsupported("cubic interpolation"))?;
    let corners = node.flag("align_corners", false)?;
    sampled(
        node,
        match (linear, corners) {
            (false, false) => Resize {
                mode: ResizeMode::Nearest(NearestMode::Floor),
                coordinates: CoordinateMode::Asymmetric,
            },
            (true, corners) => Resize {
                mode: ResizeMode::Linear,
                coordinates: if corners { CoordinateMode::AlignCorners } else { CoordinateMode::HalfPixel },
            },
            (false, true) => return Err(node.unsupported("nearest neighbours with aligned corners")),
        },
    )
}

/// Any way of sampling that the graph has, by the names of its codes.
pub(super) fn any(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    check(node, node.int("height", -1)?, node.int("width", -1)?)?;
    let modes: Vec<(&str, u32)> = ResizeMode::CODES.iter().map(|code| (code.name, code.code)).collect();
    let coordinates: Vec<(&str, u32)> =
        CoordinateMode::CODES.iter().map(|code| (code.name, code.code)).collect();
    let mode = ResizeMode::from_code(node.choice("mode", 0, &modes)?);
    let coordinates = CoordinateMode::from_code(node.choice("coordinates", 0, &coordinates)?);
    let (mode, coordinates) = mode.zip(coordinates).ok_or_else(|| node.unknown())?;
    let factors = node.floats("factors")?;
    sampled_by(node, Resize { mode, coordinates }, &factors)
}

/// `dsize` is columns and rows, as `OpenCV` has it, or the other way round: the declared extents decide.
pub(in super::super) fn resize(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    let [columns, rows] = node.needed_ints("dsize")?[..] else {
        return Err(node.wrong("attribute 'dsize' is not columns and rows"));
    };
    check(node, rows, columns).or_else(|error| check(node, columns, rows).map_err(|_| error))?;
    let linear = node.choice("interpolation", false, &[("INTER_NEAREST", false), ("INTER_LINEAR", true)])?;
    sampled(
        node,
        if linear {
            Resize { mode: ResizeMode::Linear, coordinates: CoordinateMode::HalfPixel }
        } else {
            Resize { mode: ResizeMode::Nearest(NearestMode::Floor), coordinates: CoordinateMode::Asymmetric }
        },
    )
}

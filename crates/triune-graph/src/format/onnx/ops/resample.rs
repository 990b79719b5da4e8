//! Attributes of resampling in all the ways that ONNX has.

use super::NodeReader;
use crate::{
    Constant, Error, Op,
    functions::resample::{Aspect, Coordinates, Mode, Nearest, Resampling},
};

fn read(node: &mut NodeReader<'_, '_>) -> Result<Resampling, Error> {
    let nearest = node.choice(
        "nearest_mode",
        "round_prefer_floor",
        &[
            ("round_prefer_floor", Nearest::PreferFloor),
            ("round_prefer_ceil", Nearest::PreferCeil),
            ("floor", Nearest::Floor),
            ("ceil", Nearest::Ceil),
        ],
    )?;
    let cubic = f64::from(node.float("cubic_coeff_a", -0.75)?);
    let modes =
        [("nearest", Mode::Nearest(nearest)), ("linear", Mode::Linear), ("cubic", Mode::Cubic(cubic))];
    let coordinates = [
        ("asymmetric", Coordinates::Asymmetric),
        ("half_pixel", Coordinates::HalfPixel),
        ("half_pixel_symmetric", Coordinates::HalfPixelSymmetric),
        ("pytorch_half_pixel", Coordinates::PytorchHalfPixel),
        ("align_corners", Coordinates::AlignCorners),
        ("tf_half_pixel_for_nn", Coordinates::TfHalfPixelForNearest),
        ("tf_crop_and_resize", Coordinates::TfCropAndResize),
    ];
    let aspects = [
        ("stretch", Aspect::Stretch),
        ("not_larger", Aspect::NotLarger),
        ("not_smaller", Aspect::NotSmaller),
    ];
    Ok(Resampling {
        mode: node.choice("mode", "nearest", &modes)?,
        coordinates: node.choice("coordinate_transformation_mode", "half_pixel", &coordinates)?,
        aspect: node.choice("keep_aspect_ratio_policy", "stretch", &aspects)?,
        antialias: node.flag("antialias")?,
        exclude_outside: node.flag("exclude_outside")?,
        extrapolation: f64::from(node.float("extrapolation_value", 0.0)?),
        axes: node.ints("axes")?,
    })
}

/// Whether the node is known to change the number of images or channels.
fn resizes_channels(node: &NodeReader<'_, '_>) -> bool {
    let scales = node.constant(2).and_then(Constant::to_f32);
    let by_scales = scales.is_some_and(|scales| scales.len() == 4 && scales[..2] != [1.0, 1.0]);
    let sizes = node.constant(3).and_then(Constant::to_i64).filter(|sizes| sizes.len() == 4);
    by_scales
        || sizes.is_some_and(|sizes| {
            (0..2).any(|axis| node.extent(0, axis).is_some_and(|own| own as i64 != sizes[axis]))
        })
}

/// How many axes the operand has, as far as its own shape, or how many axes are resized, tells.
fn rank(node: &NodeReader<'_, '_>) -> Option<usize> {
    let factors = || [2, 3].into_iter().find_map(|index| Some(node.constant(index)?.elements()));
    node.rank(0).or_else(factors)
}

/// A node of opset 11 and later.
pub(super) fn resize(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let resampling = read(node)?;
    let primitive = node.dtype_of(0).is_none_or(|dtype| resampling.has_primitive(dtype));
    Ok(resampled(node, resampling, primitive))
}

/// The form before opset 11: inputs x and scales, no choice of coordinates.
pub(super) fn simple(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let scales = node.inputs.get(1).copied().flatten();
    let scales = scales.ok_or_else(|| node.unsupported("scales are missing"))?;
    let factors = node.constant(1).and_then(Constant::to_f32).unwrap_or_default();
    // What nothing was written about: ONNX Runtime takes the neighbour behind where an axis shrinks.
    let shrinks = factors.iter().any(|&scale| scale < 1.0);
    let nearest = Mode::Nearest(if shrinks { Nearest::Ceil } else { Nearest::Floor });
    let modes = [("nearest", nearest), ("linear", Mode::Linear), ("bilinear", Mode::Linear)];
    let mode = node.choice("mode", "nearest", &modes)?;
    if mode == nearest && (factors.is_empty() || shrinks && factors.iter().any(|&scale| scale > 1.0)) {
        return Err(node.unsupported("nearest-neighbour shrinking before opset 11"));
    }
    node.inputs.truncate(1);
    node.set_input(2, scales);
    let resampling = Resampling {
        mode,
        coordinates: Coordinates::Asymmetric,
        aspect: Aspect::Stretch,
        antialias: false,
        exclude_outside: false,
        extrapolation: 0.0,
        axes: None,
    };
    Ok(resampled(node, resampling, true))
}

/// `primitive`: whether one operator resamples images of the operand's type so.
fn resampled(node: &mut NodeReader<'_, '_>, resampling: Resampling, primitive: bool) -> Op {
    let crops = resampling.coordinates == Coordinates::TfCropAndResize;
    for index in 1..node.inputs.len() {
        // An empty tensor stands for an operand that is left out, and only cropping has a region.
        let empty = node.constant(index).is_some_and(|constant| constant.elements() == 0);
        if empty || index == 1 && !crops {
            node.inputs[index] = None;
        }
    }
    // Corners that are aligned to parts of elements have no primitive operator; only known extents tell.
    let counts_parts =
        resampling.coordinates == Coordinates::AlignCorners && node.inputs.get(3).is_none_or(Option::is_none);
    let images = primitive && rank(node).is_none_or(|rank| rank == 4) && !resizes_channels(node);
    match resampling.primitive() {
        Some(op) if images && !counts_parts => Op::Resize(op),
        _ => {
            let function = node.function(move |f| resampling.placed(f));
            function.deciding(&[1, 2, 3]).into()
        }
    }
}

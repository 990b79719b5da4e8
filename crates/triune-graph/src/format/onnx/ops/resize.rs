//! Spatial resampling.

use triune_tensor::{
    Shape,
    function::{CoordinateMode, NearestMode, ResizeMode},
};

use super::{
    DEFAULT_DOMAIN, Form, Meaning, NodeReader, NodeWriter, Operator, Signature, mistaken, operators, resample,
};
use crate::{Constant, Error, Op};

const COORDINATES: [(&str, CoordinateMode); 4] = [
    ("asymmetric", CoordinateMode::Asymmetric),
    ("half_pixel", CoordinateMode::HalfPixel),
    ("pytorch_half_pixel", CoordinateMode::PytorchHalfPixel),
    ("align_corners", CoordinateMode::AlignCorners),
];

const NEAREST: [(&str, NearestMode); 4] = [
    ("round_prefer_floor", NearestMode::RoundPreferFloor),
    ("round_prefer_ceil", NearestMode::RoundPreferCeil),
    ("floor", NearestMode::Floor),
    ("ceil", NearestMode::Ceil),
];

fn resize(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    if node.since < 11 { resample::simple(node) } else { resample::resize(node) }
}

fn upsample(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    if node.since < 9 {
        let scales = if node.since < 7 {
            // Images alone: two factors instead of a list.
            let height = node.maybe_float("height_scale")?;
            let width = node.maybe_float("width_scale")?;
            height.zip(width).map(|(height, width)| vec![1.0, 1.0, height, width])
        } else {
            node.floats("scales")?
        };
        let scales = scales.ok_or_else(|| node.unsupported("scales are missing"))?;
        let scales = Constant::from_f32(Shape::from([scales.len()]), &scales)
            .ok_or_else(|| node.unsupported("attribute 'scales'"))?;
        let scales = node.new_constant("scales", scales);
        node.set_input(1, scales);
    }
    resample::simple(node)
}

fn write_resize(op: &Op, writer: &mut NodeWriter<'_>) -> Result<(), String> {
    let Op::Resize(op) = op else { return Err(mistaken(op)) };
    writer.choice("coordinate_transformation_mode", &COORDINATES, &op.coordinates);
    match op.mode {
        ResizeMode::Nearest(nearest) => {
            writer.text("mode", "nearest");
            writer.choice("nearest_mode", &NEAREST, &nearest);
        }
        ResizeMode::Linear => writer.text("mode", "linear"),
    }
    Ok(())
}

operators! {
    DEFAULT_DOMAIN;
    "Resize": [10] {2, 2, 1 => resize} [11] {3, 4, 1 => resize} [13, 18, 19] {1, 4, 1 => resize} write write_resize;
    "Upsample": [1, 7] {1, 1, 1 => upsample} [9] {2, 2, 1 => upsample}
        [10] {refused "it is deprecated from opset 10 on, for Resize"};
}

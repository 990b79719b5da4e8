//! Spatial resampling.

use triune_tensor::function::{CoordinateMode, NearestMode, ResizeMode};

use super::{
    Op,
    infer::{Operands, TensorType},
};
use crate::{
    Constant, Error,
    format::onnx::{NodeReader, NodeWriter},
};
use triune_tensor::text::List;

/// Spatial resampling; inputs x, optional roi, optional scales, optional sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resize {
    /// How values are made.
    pub mode: ResizeMode,
    /// Where they are taken.
    pub coordinates: CoordinateMode,
}

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

/// The key of `value` in a table of names.
fn key<T: PartialEq>(table: &[(&'static str, T)], value: &T) -> &'static str {
    table.iter().find(|(_, other)| other == value).map_or("", |(key, _)| key)
}

impl Resize {
    pub(crate) fn from_onnx(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
        if node.opset < 11 {
            return Self::simple_from_onnx(node);
        }
        let coordinates = node.choice("coordinate_transformation_mode", "half_pixel", &COORDINATES)?;
        let nearest = node.choice("nearest_mode", "round_prefer_floor", &NEAREST)?;
        let mode = node.choice(
            "mode",
            "nearest",
            &[("nearest", ResizeMode::Nearest(nearest)), ("linear", ResizeMode::Linear)],
        )?;
        // These concern the cubic mode and cropping.
        node.ignore(&["cubic_coeff_a", "exclude_outside", "extrapolation_value"]);
        node.only("antialias", 0)?;
        node.choice("keep_aspect_ratio_policy", "stretch", &[("stretch", ())])?;
        // The region of interest is for cropping; an empty tensor stands for an operand that is left out.
        if let Some(roi) = node.inputs.get_mut(1) {
            *roi = None;
        }
        for index in 2..node.inputs.len() {
            if node.constant(index).is_some_and(|constant| constant.elements() == 0) {
                node.inputs[index] = None;
            }
        }
        Ok(Op::Resize(Self { mode, coordinates }))
    }

    pub(crate) fn upsample_from_onnx(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
        if let Some(scales) = node.floats("scales")? {
            let shape = triune_tensor::Shape::from([scales.len()]);
            let scales =
                Constant::from_f32(shape, &scales).ok_or_else(|| node.unsupported("attribute 'scales'"))?;
            let scales = node.new_constant("scales", scales);
            node.set_input(1, scales);
        }
        Self::simple_from_onnx(node)
    }

    /// The form before opset 11: inputs x and scales, no choice of coordinates.
    fn simple_from_onnx(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
        let mode = node.choice(
            "mode",
            "nearest",
            &[
                ("nearest", ResizeMode::Nearest(NearestMode::Floor)),
                ("linear", ResizeMode::Linear),
                ("bilinear", ResizeMode::Linear),
            ],
        )?;
        let scales = node.inputs.get(1).copied().flatten();
        let scales = scales.ok_or_else(|| node.unsupported("scales are missing"))?;
        // Which neighbour these old forms take when they shrink was never written down.
        let grows = node
            .constant(1)
            .and_then(Constant::to_f32)
            .is_some_and(|scales| scales.iter().all(|&scale| scale >= 1.0));
        if mode != ResizeMode::Linear && !grows {
            return Err(node.unsupported("nearest-neighbour shrinking before opset 11"));
        }
        node.inputs.truncate(1);
        node.set_input(2, scales);
        Ok(Op::Resize(Self { mode, coordinates: CoordinateMode::Asymmetric }))
    }

    pub(super) fn to_onnx(self, writer: &mut NodeWriter) {
        writer.text("coordinate_transformation_mode", key(&COORDINATES, &self.coordinates));
        match self.mode {
            ResizeMode::Nearest(nearest) => {
                writer.text("mode", "nearest");
                writer.text("nearest_mode", key(&NEAREST, &nearest));
            }
            ResizeMode::Linear => writer.text("mode", "linear"),
        }
    }

    pub(super) fn infer(at: &Operands<'_>) -> Result<Vec<TensorType>, Error> {
        let x = at.input(0)?;
        let dims: Vec<usize> = if at.get(3).is_some() {
            at.needed_ints(3)?
                .iter()
                .map(|&size| usize::try_from(size).ok())
                .collect::<Option<_>>()
                .ok_or_else(|| at.wrong("a negative size"))?
        } else {
            let scales = at
                .input(2)?
                .constant
                .and_then(Constant::to_f32)
                .ok_or_else(|| at.wrong("scales are not f32 or depend on the network's data"))?;
            if !scales.iter().all(|scale| scale.is_finite() && *scale > 0.0) {
                return Err(at.wrong(format!("scales {}", List(&scales))));
            }
            // A product in f32, as the reference implementations have it: 1/3 of 3 is 1.
            scales.iter().zip(x.shape.iter()).map(|(&scale, &dim)| (scale * dim as f32) as usize).collect()
        };
        // Elements cannot be made of none.
        let from_nothing = x.shape.contains(&0) && !dims.contains(&0);
        if dims.len() != x.shape.rank() || from_nothing {
            return Err(at.wrong(format!("input {} cannot become {}", x.shape, List(&dims))));
        }
        at.like_input(at.shape(&dims)?)
    }
}

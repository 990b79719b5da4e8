//! Recognizing `QuantizeLinear` and `DequantizeLinear`, and quantized constants.

use triune_tensor::DType;

use super::{super::rewrite::Rewriter, table::Quantized};
use crate::{Constant, Op, ValueId};

fn constant<'r>(rewriter: &'r Rewriter<'_>, id: Option<ValueId>) -> Option<&'r Constant> {
    rewriter.value(id?).constant.as_ref()
}

/// What a `QuantizeLinear` node (with one scale, to 8 bit or i16) reads and makes, and the meaning of the latter.
pub(super) fn quantizer(rewriter: &Rewriter<'_>, index: usize) -> Option<(ValueId, ValueId, Quantized)> {
    let node = rewriter.get(index)?;
    let Op::QuantizeLinear(op) = &node.op else { return None };
    let dtype = match node.inputs.get(2).copied().flatten() {
        Some(id) => rewriter.value(id).constant.as_ref()?.dtype(),
        None => op.dtype,
    };
    let (input, output) = (node.inputs.first().copied()??, node.outputs.first().copied()??);
    dtype.holds_quantized().then_some(())?;
    Some((input, output, Quantized { dtype, params: rewriter.graph().border_params(node)? }))
}

/// The integer value behind a real one, when a `DequantizeLinear` with one scale makes it, and what that takes it for.
pub(in crate::passes) fn dequantized(rewriter: &Rewriter<'_>, real: ValueId) -> Option<(ValueId, Quantized)> {
    let (_, node) = rewriter.producer(real)?;
    matches!(node.op, Op::DequantizeLinear(_)).then_some(())?;
    let source = node.inputs.first().copied()??;
    let params = rewriter.graph().border_params(node)?;
    let dtype = rewriter.value(source).dtype.filter(|dtype| dtype.holds_quantized())?;
    Some((source, Quantized { dtype, params }))
}

/// States the type and extents of what a `QuantizeLinear` makes, which the patterns behind it ask for.
pub(super) fn state_type(rewriter: &mut Rewriter<'_>, index: usize) {
    let Some((input, output, meaning)) = quantizer(rewriter, index) else { return };
    let shape = rewriter.value(input).shape.clone();
    let value = rewriter.value_mut(output);
    value.dtype = Some(meaning.dtype);
    if value.shape.is_none() {
        value.shape = shape;
    }
}

/// Quantized weights: the constant, one scale or one per channel.
pub(super) struct Weights {
    pub(super) source: ValueId,
    /// `I8` or `I16`.
    pub(super) dtype: DType,
    /// The elements less their zero points, where these are not 0, as far as s8 reaches.
    pub(super) rebased: Option<Constant>,
    /// What [`Self::rebased`] lacks: some of the elements of a file whose zero points are in the middle of neither type have nine bits
    /// then, and are the sums of two.
    pub(super) rest: Option<Constant>,
    pub(super) scales: Vec<f32>,
}

/// The s8 or s16 constants with zero point 0 behind a dequantized value of `channels` slices along `axis`.
pub(super) fn weights(
    rewriter: &Rewriter<'_>,
    real: ValueId,
    axis: usize,
    channels: usize,
) -> Option<Weights> {
    let (source, elements, scales, zero_points) = dequantized_constant(rewriter, real, axis, channels)?;
    let dtype = if elements.dtype() == DType::I16 { DType::I16 } else { DType::I8 };
    let [rebased, rest] = match elements.dtype() {
        DType::I8 | DType::I16 if zero_points.iter().all(|&zero_point| zero_point == 0) => [None, None],
        DType::I8 | DType::U8 => less_zero_points(elements, &zero_points, axis)?,
        _ => return None,
    };
    Some(Weights { source, dtype, rebased, rest, scales })
}

/// Elements of 8 bits less one zero point, or that of each index of `axis`: what s8 has of them, and what is left, if anything is.
/// `None` where both together do not reach, as 255 from 0 does not.
fn less_zero_points(elements: &Constant, zero_points: &[i64], axis: usize) -> Option<[Option<Constant>; 2]> {
    let shape = elements.shape();
    let behind: usize = shape.get(axis + 1..)?.iter().product();
    let channels = if zero_points.len() == 1 { 1 } else { *shape.get(axis)? };
    if zero_points.len() != channels {
        return None;
    }
    let (mut near, mut rest) = (Vec::new(), Vec::new());
    for (index, element) in elements.to_i64()?.into_iter().enumerate() {
        let own = element - zero_points[index / behind.max(1) % channels];
        let part = own.clamp(i8::MIN.into(), i8::MAX.into());
        near.push(part as u8);
        rest.push(i8::try_from(own - part).ok()?.cast_unsigned());
    }
    let is_needed = rest.iter().any(|&byte| byte != 0);
    let constant = |bytes: Vec<u8>| Constant::new(DType::I8, shape, bytes);
    Some([Some(constant(near)?), if is_needed { Some(constant(rest)?) } else { None }])
}

/// A dequantized bias of i32 with zero point 0, and its scales.
pub(super) struct Bias<'r> {
    pub(super) source: ValueId,
    pub(super) elements: &'r Constant,
    scales: Vec<f32>,
}

impl Bias<'_> {
    /// Whether its scales are those of the products.
    pub(super) fn fits(&self, x_scale: f32, weight_scales: &[f32]) -> bool {
        are_of_products(&self.scales, x_scale, weight_scales)
    }

    /// What the elements mean, given as one row.
    pub(super) fn floats(&self, row: &Constant) -> Option<Constant> {
        let scales = self.scales.iter().cycle();
        let reals: Vec<f32> = row.to_i32()?.iter().zip(scales).map(|(&q, scale)| q as f32 * scale).collect();
        Constant::from_f32(row.shape(), &reals)
    }
}

/// Whether a bias's scales are those of products, x·w, to within their own rounding. One scale stands for all.
pub fn are_of_products(scales: &[f32], x_scale: f32, weight_scales: &[f32]) -> bool {
    let fits = |scale: f32, weight: f32| {
        let product = x_scale * weight;
        (scale - product).abs() <= product.abs() * 1e-5
    };
    let count = scales.len().max(weight_scales.len());
    let at = |list: &[f32], index: usize| list.get(if list.len() == 1 { 0 } else { index }).copied();
    (0..count).all(|i| at(scales, i).zip(at(weight_scales, i)).is_some_and(|(s, w)| fits(s, w)))
}

/// The bias behind a real value.
pub(super) fn bias<'r>(rewriter: &'r Rewriter<'_>, real: ValueId) -> Option<Bias<'r>> {
    let own = constant(rewriter, *rewriter.producer(real)?.1.inputs.first()?)?;
    let channels = own.elements();
    let axis = own.shape().iter().position(|&dim| dim == channels).unwrap_or(0);
    let (source, elements, scales, zero_points) = dequantized_constant(rewriter, real, axis, channels)?;
    let plain = elements.dtype() == DType::I32 && zero_points.iter().all(|&zero_point| zero_point == 0);
    plain.then_some(Bias { source, elements, scales })
}

/// A constant under a `DequantizeLinear` with one scale, or one per index of `axis`.
fn dequantized_constant<'r>(
    rewriter: &'r Rewriter<'_>,
    real: ValueId,
    axis: usize,
    channels: usize,
) -> Option<(ValueId, &'r Constant, Vec<f32>, Vec<i64>)> {
    let (_, node) = rewriter.producer(real)?;
    let Op::DequantizeLinear(op) = &node.op else { return None };
    let source = node.inputs.first().copied()??;
    let elements = constant(rewriter, Some(source))?;
    let scales = constant(rewriter, *node.inputs.get(1)?)?.to_f32()?;
    let zero_points = match node.inputs.get(2).copied().flatten() {
        Some(id) => constant(rewriter, Some(id))?.to_i64()?,
        None => vec![0],
    };
    let rank = elements.shape().rank() as isize;
    let along = if op.axis < 0 { op.axis + rank } else { op.axis };
    let per_channel = scales.len() == channels && along == axis as isize;
    let sound = scales.iter().all(|scale| scale.is_finite() && *scale > 0.0);
    (sound && (scales.len() == 1 || per_channel)).then_some((source, elements, scales, zero_points))
}

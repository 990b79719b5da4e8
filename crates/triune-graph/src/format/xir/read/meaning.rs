//! What a value's elements stand for.

use triune_tensor::{DType, function::math};

use super::super::{ElementType, Runs, Scalar, Scale};

/// What stored numbers mean in reals.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Meaning {
    /// Themselves.
    Plain,
    /// v · ratio.
    Ratio(Vec<f32>),
    /// (q − zero point) · scale; one of each for all elements, or one per channel.
    Quantized {
        /// Real scales.
        scales: Vec<f32>,
        /// As many zero points.
        zero_points: Vec<i64>,
    },
}

/// The graph's type for a number format; `None` when there is none.
pub(super) fn dtype(scalar: Scalar) -> Option<DType> {
    Some(match scalar {
        Scalar::Float(16) => DType::F16,
        Scalar::Float(32) => DType::F32,
        Scalar::Float(64) => DType::F64,
        Scalar::Signed(8) => DType::I8,
        Scalar::Signed(16) => DType::I16,
        Scalar::Signed(32) => DType::I32,
        Scalar::Signed(64) => DType::I64,
        Scalar::Unsigned(8) => DType::U8,
        Scalar::Unsigned(16) => DType::U16,
        Scalar::Unsigned(32) => DType::U32,
        Scalar::Unsigned(64) => DType::U64,
        Scalar::Bool => DType::Bool,
        _ => return None,
    })
}

/// A list of one value when all are equal; `None` when there are more than `limit`.
fn compact<T: Clone + PartialEq>(runs: &Runs<T>, limit: usize) -> Option<Vec<T>> {
    match runs.runs.as_slice() {
        [] => Some(Vec::new()),
        [(_, first), rest @ ..] if rest.iter().all(|(_, value)| value == first) => Some(vec![first.clone()]),
        _ => runs.expanded(limit),
    }
}

/// The scales as numbers, one when all are equal, with whether they are m · 2^-exp.
pub(super) fn scales(scale: &Scale, limit: usize) -> Option<(Vec<f32>, bool)> {
    match scale {
        Scale::Plain(runs) => Some((compact(runs, limit)?, false)),
        Scale::Exp(runs) => {
            let values = compact(runs, limit)?;
            // Exact: |m| has few bits, and f64 has the exponents.
            let value = |scale: &super::super::ExpScale| {
                let exp = i32::try_from(scale.exp.clamp(-2000, 2000)).unwrap_or(0);
                (scale.m as f64 * math::power_of_two(-exp)) as f32
            };
            Some((values.iter().map(value).collect(), true))
        }
    }
}

/// What activations of this type mean; the error says what is not supported. `limit` is how many channels there are.
pub(super) fn meaning(element: &ElementType, limit: usize) -> Result<Meaning, String> {
    let too_many = || format!("more scales than the {limit} channels");
    let empty = |values: Vec<f32>| if values.is_empty() { vec![1.0] } else { values };
    let (scales, zero_points) = match element {
        ElementType::Scalar(_) | ElementType::Calibrated { .. } => return Ok(Meaning::Plain),
        ElementType::Normalized { ratio, zero_points, .. } => {
            if zero_points.iter().flatten().any(|&zero_point| zero_point != 0) {
                return Err("a normalized type with zero points".into());
            }
            return Ok(Meaning::Ratio(empty(compact(ratio, limit).ok_or_else(too_many)?)));
        }
        ElementType::Quantized { scale, zero_points, .. } => {
            (empty(scales(scale, limit).ok_or_else(too_many)?.0), zero_points)
        }
        ElementType::NormalizedQuantized { ratio, scale, zero_points, .. } => {
            let ratios = empty(compact(ratio, limit).ok_or_else(too_many)?);
            let scales = empty(scales(scale, limit).ok_or_else(too_many)?.0);
            let values = match (scales.as_slice(), ratios.as_slice()) {
                (&[scale], ratios) => ratios.iter().map(|ratio| scale * ratio).collect(),
                (scales, &[ratio]) => scales.iter().map(|scale| scale * ratio).collect(),
                (scales, ratios) if scales.len() == ratios.len() => {
                    scales.iter().zip(ratios).map(|(scale, ratio)| scale * ratio).collect()
                }
                (scales, ratios) => {
                    return Err(format!("{} scales beside {} norm ratios", scales.len(), ratios.len()));
                }
            };
            (values, zero_points)
        }
    };
    if let Some(scale) = scales.iter().find(|scale| !(scale.is_finite() && **scale > 0.0)) {
        return Err(format!("the scale {scale}"));
    }
    let zero_points = match (zero_points.as_slice(), scales.len()) {
        ([], count) => vec![0; count],
        (points, count) if points.iter().all(|point| *point == points[0]) => vec![points[0]; count],
        (points, count) if points.len() == count => points.to_vec(),
        (points, count) => return Err(format!("{} zero points beside {count} scales", points.len())),
    };
    Ok(Meaning::Quantized { scales, zero_points })
}

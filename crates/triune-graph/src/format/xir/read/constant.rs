//! Constants at read time: their elements, selected and ordered by the names of their axes.

use triune_tensor::{DType, Shape, half::f32_of_f16};

use super::{
    super::{ElementType, Scale},
    Form, meaning,
    node::Reader,
};
use crate::{Constant, Error};

/// Elements of a constant, row-major over the axes that were asked for.
pub(super) struct Dense {
    pub(super) dtype: DType,
    pub(super) bytes: Vec<u8>,
    /// For every axis that was asked for, which of all stored positions were taken.
    pub(super) taken: Vec<Vec<usize>>,
}

impl Dense {
    /// The extents.
    pub(super) fn extents(&self) -> Vec<usize> {
        self.taken.iter().map(Vec::len).collect()
    }
}

/// The reals of a float constant; `None` for integers.
pub(super) fn floats(dtype: DType, bytes: &[u8]) -> Option<Vec<f32>> {
    Some(match dtype {
        DType::F32 => bytes.as_chunks::<4>().0.iter().map(|&word| f32::from_le_bytes(word)).collect(),
        DType::F64 => bytes.as_chunks::<8>().0.iter().map(|&word| f64::from_le_bytes(word) as f32).collect(),
        DType::F16 => {
            bytes.as_chunks::<2>().0.iter().map(|&word| f32_of_f16(u16::from_le_bytes(word))).collect()
        }
        _ => return None,
    })
}

/// The scales of a quantized constant.
pub(super) struct Scales {
    /// One for all, or one per position along the axis.
    pub(super) values: Vec<f32>,
    /// Whether they are multipliers m · 2^-exp of a product, rather than what one step stands for.
    pub(super) multipliers: bool,
    /// One per scale, or one for all, or none (0).
    pub(super) zero_points: Vec<i64>,
}

impl Reader<'_, '_> {
    /// The bytes of a constant with its stored extents.
    pub(super) fn stored_constant(&self, index: usize, dtype: DType) -> Result<Constant, Error> {
        let value = &self.builder.document.values[index];
        let data = value.params.as_ref().and_then(|params| params.data.clone());
        let data = data.ok_or_else(|| self.wrong(format!("constant {} has no data", value.v_id)))?;
        let extents: Option<Vec<usize>> =
            value.dtype.shape.iter().map(|&extent| usize::try_from(extent).ok()).collect();
        let shape = extents.and_then(|extents| Shape::new(&extents));
        let shape = shape.ok_or_else(|| self.unsupported(format!("constant {}: its extents", value.v_id)))?;
        let bytes = data.len();
        Constant::new(dtype, shape, data).ok_or_else(|| {
            self.wrong(format!("constant {} has {bytes} bytes, not those of {shape}", value.v_id))
        })
    }

    /// Elements of a constant over the axes called `names`, in this order; of each axis what is not padding, or the positions that
    /// `select` chooses of all.
    pub(super) fn dense(
        &self,
        index: usize,
        names: &str,
        select: impl Fn(char, usize) -> Option<Vec<usize>>,
    ) -> Result<Dense, Error> {
        let value = &self.builder.document.values[index];
        let layout = &value.dtype.layout;
        let at = |reason: String| self.unsupported(format!("constant {}: {reason}", value.v_id));
        let form = Form::of(&value.dtype).map_err(at)?;
        let storage = value.dtype.element.storage();
        let (dtype, constant) = match meaning::dtype(storage) {
            Some(dtype) => (dtype, self.stored_constant(index, dtype)?),
            None if storage == super::super::Scalar::BFloat(16) => {
                // The upper halves of reals.
                let halves = self.stored_constant(index, DType::U16)?;
                let bytes: Vec<u8> =
                    halves.bytes().as_chunks::<2>().0.iter().flat_map(|&[a, b]| [0, 0, a, b]).collect();
                let constant = Constant::new(DType::F32, halves.shape(), bytes);
                (DType::F32, constant.ok_or_else(|| at("too many elements".into()))?)
            }
            None if storage == super::super::Scalar::TFloat(32) => {
                (DType::F32, self.stored_constant(index, DType::F32)?)
            }
            None => return Err(at(format!("elements of type {storage}"))),
        };
        if constant.elements() == 0 {
            return Err(at("it has no elements".into()));
        }
        let width = dtype.bytes();
        let strides = constant.shape().strides();
        let mut axes: Vec<usize> = Vec::new();
        for name in names.chars() {
            let axis =
                form.named(name).ok_or_else(|| at(format!("layout {layout} has not one axis {name}")))?;
            axes.push(axis);
        }
        for (axis, own) in form.flat.iter().enumerate() {
            if !axes.contains(&axis) && own.extent() != Some(1) {
                return Err(at(format!("layout {layout}; expected are axes {names}")));
            }
        }
        let (mut taken, mut offsets) = (Vec::new(), Vec::new());
        for (&axis, name) in axes.iter().zip(names.chars()) {
            let own = &form.flat[axis];
            let total = own.total.unwrap_or(0);
            let selected = if own.valid.is_empty() { select(name, total) } else { None };
            let positions = match selected.or_else(|| own.positions()) {
                Some(positions) if positions.iter().all(|&position| position < total) => positions,
                _ => return Err(at(format!("axis {name} has {total} elements"))),
            };
            let unit = own.lower.and_then(|lower| form.stored[lower]).unwrap_or(1).max(1);
            let step = |position: usize| match own.lower {
                Some(lower) => position / unit * strides[own.upper] + position % unit * strides[lower],
                None => position * strides[own.upper],
            };
            offsets.push(positions.iter().map(|&position| step(position)).collect::<Vec<usize>>());
            taken.push(positions);
        }
        let source = constant.bytes();
        let mut bytes =
            Vec::with_capacity(offsets.iter().map(Vec::len).product::<usize>().saturating_mul(width));
        collect(&offsets, 0, width, source, &mut bytes);
        Ok(Dense { dtype, bytes, taken })
    }

    /// The scales of a constant of a quantized type; `None` for plain numbers. A list that is neither one nor `count` long is an error.
    pub(super) fn constant_scales(&self, index: usize, count: usize) -> Result<Option<Scales>, Error> {
        let value = &self.builder.document.values[index];
        let at = |reason: String| self.unsupported(format!("constant {}: {reason}", value.v_id));
        let (scale, ratio, zero_points): (Option<&Scale>, _, _) = match &value.dtype.element {
            ElementType::Scalar(_) | ElementType::Calibrated { .. } => return Ok(None),
            ElementType::Normalized { .. } => return Err(at("a normalized type".into())),
            ElementType::Quantized { scale, zero_points, .. } => (Some(scale), None, zero_points),
            ElementType::NormalizedQuantized { scale, ratio, zero_points, .. } => {
                (Some(scale), Some(ratio), zero_points)
            }
        };
        let too_many = || at(format!("more scales than the {count} channels"));
        let (mut values, mut multipliers) = match scale {
            Some(scale) => meaning::scales(scale, count).ok_or_else(too_many)?,
            None => (Vec::new(), false),
        };
        if values.is_empty() {
            values.push(1.0);
        }
        if let Some(ratio) = ratio {
            let [ratio] = ratio.expanded(1).unwrap_or_default()[..] else {
                return Err(at("several norm ratios of a constant".into()));
            };
            for value in &mut values {
                *value *= ratio;
            }
            multipliers = false;
        }
        if values.len() != 1 && values.len() != count {
            return Err(at(format!("{} scales for {count} channels", values.len())));
        }
        if let Some(value) = values.iter().find(|value| !(value.is_finite() && **value >= 0.0)) {
            return Err(at(format!("the scale {value}")));
        }
        if !matches!(zero_points.len(), 0 | 1) && zero_points.len() != count {
            return Err(at(format!("{} zero points for {count} channels", zero_points.len())));
        }
        Ok(Some(Scales { values, multipliers, zero_points: zero_points.clone() }))
    }
}

/// Appends the elements at all sums of one offset per axis, the last axis fastest.
fn collect(offsets: &[Vec<usize>], at: usize, width: usize, source: &[u8], bytes: &mut Vec<u8>) {
    match offsets {
        [] => bytes.extend_from_slice(&source[at * width..][..width]),
        [last] => {
            for offset in last {
                bytes.extend_from_slice(&source[(at + offset) * width..][..width]);
            }
        }
        [first, rest @ ..] => {
            for offset in first {
                collect(rest, at + offset, width, source, bytes);
            }
        }
    }
}

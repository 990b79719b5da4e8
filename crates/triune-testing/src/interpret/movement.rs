//! Operators that move elements, and those about shapes.

use triune_graph::ops::{
    BitCast, Cast, Concat, ConstantOfShape, Flatten, Gather, Pad, PadMode, Reshape, ShapeOf, Split, Transpose,
};
use triune_tensor::DType;

use super::Step;
use crate::{
    Data, Tensor,
    tensor::{broadcast_flat, broadcast_shape, flat, positions, resolve_axis},
};

impl Step<'_> {
    fn integers(&self, operand: usize) -> Option<Vec<i64>> {
        self.optional(operand).map(Tensor::integers)
    }

    pub(super) fn reshape(&self, op: Reshape) -> Tensor {
        let x = self.input(0);
        let asked = self.input(1).integers();
        let mut shape: Vec<usize> = (asked.iter().enumerate())
            .map(|(axis, &dim)| if dim == 0 && !op.allow_zero { x.shape[axis] } else { dim.max(0) as usize })
            .collect();
        if let Some(free) = asked.iter().position(|&dim| dim == -1) {
            shape[free] = 1;
            shape[free] = x.elements() / shape.iter().product::<usize>().max(1);
        }
        x.reshaped(&shape)
    }

    pub(super) fn flatten(&self, op: Flatten) -> Tensor {
        let x = self.input(0);
        let axis = resolve_axis(op.axis, x.shape.len());
        x.reshaped(&[x.shape[..axis].iter().product(), x.shape[axis..].iter().product()])
    }

    pub(super) fn transpose(&self, op: &Transpose) -> Tensor {
        let x = self.input(0);
        let perm = if op.perm.is_empty() { (0..x.shape.len()).rev().collect() } else { op.perm.clone() };
        let shape: Vec<usize> = perm.iter().map(|&axis| x.shape[axis]).collect();
        let mut source = vec![0; perm.len()];
        let indices = positions(&shape).map(|at| {
            for (axis, &from) in perm.iter().enumerate() {
                source[from] = at[axis];
            }
            flat(&x.shape, &source)
        });
        x.take(&shape, indices.collect::<Vec<_>>().into_iter())
    }

    pub(super) fn concat(&self, op: Concat) -> Tensor {
        let parts: Vec<&Tensor> = (0..self.node.inputs.len()).map(|operand| self.input(operand)).collect();
        let axis = resolve_axis(op.axis, parts[0].shape.len());
        let mut shape = parts[0].shape.clone();
        shape[axis] = parts.iter().map(|part| part.shape[axis]).sum();
        let mut joined = parts[0].clone();
        let mut bases = vec![0];
        for part in &parts[1..] {
            bases.push(joined.elements());
            joined.extend(part);
        }
        let indices = positions(&shape).map(|mut at| {
            let mut part = 0;
            while at[axis] >= parts[part].shape[axis] {
                at[axis] -= parts[part].shape[axis];
                part += 1;
            }
            bases[part] + flat(&parts[part].shape, &at)
        });
        joined.take(&shape, indices.collect::<Vec<_>>().into_iter())
    }

    pub(super) fn slice(&self) -> Tensor {
        let x = self.input(0);
        let (starts, ends) = (self.input(1).integers(), self.input(2).integers());
        let axes = self.integers(3).unwrap_or_else(|| (0..starts.len() as i64).collect());
        let steps = self.integers(4).unwrap_or_else(|| vec![1; starts.len()]);
        let mut first = vec![0; x.shape.len()];
        let mut stride = vec![1; x.shape.len()];
        let mut shape = x.shape.clone();
        for (index, &axis) in axes.iter().enumerate() {
            let axis = resolve_axis(axis as isize, x.shape.len());
            let (extent, step) = (x.shape[axis] as i64, steps[index]);
            let bound = |at: i64| if at < 0 { at.saturating_add(extent) } else { at };
            let (start, count) = if step > 0 {
                let (start, end) =
                    (bound(starts[index]).clamp(0, extent), bound(ends[index]).clamp(0, extent));
                (start, (end - start).max(0).div_ceil_by(step))
            } else {
                let (start, end) =
                    (bound(starts[index]).clamp(0, extent - 1), bound(ends[index]).clamp(-1, extent - 1));
                (start, (start - end).max(0).div_ceil_by(-step))
            };
            (first[axis], stride[axis], shape[axis]) = (start, step, count as usize);
        }
        let indices = positions(&shape).map(|at| {
            let source: Vec<usize> =
                (0..at.len()).map(|axis| (first[axis] + at[axis] as i64 * stride[axis]) as usize).collect();
            flat(&x.shape, &source)
        });
        x.take(&shape, indices.collect::<Vec<_>>().into_iter())
    }

    pub(super) fn split(&self, op: Split) -> Vec<Tensor> {
        let x = self.input(0);
        let axis = resolve_axis(op.axis, x.shape.len());
        let parts = self.integers(1).unwrap_or_else(|| {
            let count = op.parts.unwrap_or(self.node.outputs.len());
            let share = x.shape[axis].div_ceil(count);
            (0..count).map(|part| share.min(x.shape[axis] - share * part) as i64).collect()
        });
        let mut begin = 0;
        parts
            .iter()
            .map(|&extent| {
                let mut shape = x.shape.clone();
                shape[axis] = extent as usize;
                let indices = positions(&shape).map(|mut at| {
                    at[axis] += begin;
                    flat(&x.shape, &at)
                });
                let part = x.take(&shape, indices);
                begin += extent as usize;
                part
            })
            .collect()
    }

    pub(super) fn gather(&self, op: Gather) -> Tensor {
        let (x, indices) = (self.input(0), self.input(1));
        let axis = resolve_axis(op.axis, x.shape.len());
        let picked = indices.integers();
        let shape = [&x.shape[..axis], &indices.shape[..], &x.shape[axis + 1..]].concat();
        let behind = axis + indices.shape.len();
        let sources = positions(&shape).map(|at| {
            let index = picked[flat(&indices.shape, &at[axis..behind])];
            let index = if index < 0 { index + x.shape[axis] as i64 } else { index };
            flat(&x.shape, &[&at[..axis], &[index as usize], &at[behind..]].concat())
        });
        x.take(&shape, sources)
    }

    pub(super) fn unsqueeze(&self) -> Tensor {
        let x = self.input(0);
        let axes = self.input(1).integers();
        let rank = x.shape.len() + axes.len();
        let axes: Vec<usize> = axes.iter().map(|&axis| resolve_axis(axis as isize, rank)).collect();
        let mut rest = x.shape.iter();
        let shape: Vec<usize> = (0..rank)
            .map(|axis| if axes.contains(&axis) { 1 } else { *rest.next().expect("an axis") })
            .collect();
        x.reshaped(&shape)
    }

    pub(super) fn squeeze(&self) -> Tensor {
        let x = self.input(0);
        let axes: Vec<usize> = match self.integers(1) {
            Some(axes) => axes.iter().map(|&axis| resolve_axis(axis as isize, x.shape.len())).collect(),
            None => (0..x.shape.len()).filter(|&axis| x.shape[axis] == 1).collect(),
        };
        let kept = x.shape.iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
        x.reshaped(&kept.map(|(_, &dim)| dim).collect::<Vec<_>>())
    }

    pub(super) fn expand(&self) -> Tensor {
        let x = self.input(0);
        let asked: Vec<usize> = self.input(1).integers().iter().map(|&dim| dim as usize).collect();
        let shape = broadcast_shape(&x.shape, &asked);
        x.take(&shape, positions(&shape).map(|at| broadcast_flat(&x.shape, &at)))
    }

    pub(super) fn pad(&self, op: Pad) -> Tensor {
        let x = self.input(0);
        let rank = x.shape.len();
        let pads = self.input(1).integers();
        let axes: Vec<usize> = match self.integers(3) {
            Some(axes) => axes.iter().map(|&axis| resolve_axis(axis as isize, rank)).collect(),
            None => (0..rank).collect(),
        };
        let (mut before, mut shape) = (vec![0; rank], x.shape.clone());
        for (index, &axis) in axes.iter().enumerate() {
            before[axis] = pads[index];
            shape[axis] = (shape[axis] as i64 + pads[index] + pads[axes.len() + index]) as usize;
        }
        let fill = self.optional(2).cloned().unwrap_or_else(|| match x.dtype() {
            DType::F32 => Tensor::f32(&[], &[0.0]),
            dtype => Tensor::of_integers(dtype, &[], &[0]),
        });
        let sources = positions(&shape).map(|at| {
            let mut source = Vec::with_capacity(rank);
            for axis in 0..rank {
                let extent = x.shape[axis] as i64;
                let mut position = at[axis] as i64 - before[axis];
                match op.mode {
                    PadMode::Edge => position = position.clamp(0, extent - 1),
                    PadMode::Reflect => {
                        while !(0..extent).contains(&position) {
                            position = if position < 0 { -position } else { 2 * (extent - 1) - position };
                        }
                    }
                    PadMode::Constant => {}
                }
                source.push(usize::try_from(position).ok().filter(|&position| position < x.shape[axis])?);
            }
            Some(flat(&x.shape, &source))
        });
        x.take_or(&shape, sources, &fill)
    }

    pub(super) fn shape_of(&self, op: ShapeOf) -> Tensor {
        let shape = &self.input(0).shape;
        let bound =
            |at: isize| if at < 0 { at + shape.len() as isize } else { at }.clamp(0, shape.len() as isize);
        let (start, end) = (bound(op.start) as usize, op.end.map_or(shape.len(), |end| bound(end) as usize));
        let dims: Vec<i64> = shape.get(start..end).unwrap_or(&[]).iter().map(|&dim| dim as i64).collect();
        Tensor::i64(&[dims.len()], &dims)
    }

    pub(super) fn constant_of_shape(&self, op: &ConstantOfShape) -> Tensor {
        let shape: Vec<usize> = self.input(0).integers().iter().map(|&dim| dim as usize).collect();
        let value = Tensor::of_constant(&op.value);
        value.take(&shape, (0..shape.iter().product()).map(|_| 0))
    }

    pub(super) fn bit_cast(&self, op: BitCast) -> Tensor {
        let x = self.input(0);
        Tensor::from_bytes(op.to, &x.shape, &x.to_bytes())
    }

    pub(super) fn cast(&self, op: Cast) -> Tensor {
        let x = self.input(0);
        if op.to == x.dtype() {
            return x.clone();
        }
        if op.to.is_real() {
            return match &x.data {
                // One rounding, not one to f64 and another.
                Data::I64(values) if op.to == DType::F32 => {
                    Tensor::new(&x.shape, Data::F32(values.iter().map(|&v| v as f32).collect()))
                }
                _ => Tensor::of_floats(op.to, &x.shape, &x.reals()),
            };
        }
        let values: Vec<i64> = match (op.to, x.dtype().is_real()) {
            (DType::Bool, true) => x.reals().iter().map(|&v| i64::from(v != 0.0)).collect(),
            (DType::U64, true) => x.reals().iter().map(|&v| (v as u64).cast_signed()).collect(),
            (_, true) => x.reals().iter().map(|&v| v as i64).collect(),
            (_, false) => x.integers(),
        };
        Tensor::wrapped(op.to, &x.shape, &values)
    }
}

/// Division that rounds up, for the counts of slices.
trait DivCeilBy {
    fn div_ceil_by(self, divisor: Self) -> Self;
}

impl DivCeilBy for i64 {
    fn div_ceil_by(self, divisor: Self) -> Self {
        (self + divisor - 1) / divisor
    }
}

//! Pooling.

use triune_graph::ops::{AdaptivePool, AutoPad, GlobalPool, Pool, PoolKind};

use super::{
    Step,
    epilogue::{rounded_integer, saturate},
};
use crate::{Data, Tensor, tensor::positions};
use triune_tensor::{DType, Requantize, Rounding};

/// Padding before and after on one spatial axis.
pub(super) fn padding(
    auto: AutoPad,
    pad: [usize; 4],
    axis: usize,
    input: usize,
    extent: usize,
    stride: usize,
) -> [usize; 2] {
    let total = ((input.div_ceil(stride) - 1) * stride + extent).saturating_sub(input);
    match auto {
        AutoPad::Explicit => [pad[axis], pad[axis + 2]],
        AutoPad::Valid => [0, 0],
        AutoPad::SameUpper => [total / 2, total - total / 2],
        AutoPad::SameLower => [total - total / 2, total / 2],
    }
}

/// Whether it holds 16-bit integers.
fn is_int16(x: &Tensor) -> bool {
    x.dtype() == DType::I16
}

impl Step<'_> {
    pub(super) fn pool(&self, op: &Pool) -> Tensor {
        let x = self.input(0);
        let (mut start, mut end, mut shape) = ([0; 2], [0; 2], x.shape.clone());
        for axis in 0..2 {
            let extent = op.dilation[axis] * (op.kernel[axis] - 1) + 1;
            let input = x.shape[2 + axis];
            let [before, after] = padding(op.auto_pad, op.pad, axis, input, extent, op.stride[axis]);
            let steps = input + before + after - extent;
            let mut output = steps / op.stride[axis] + 1;
            // A window that begins behind the input and its padding before makes no result.
            if op.ceil_mode
                && !steps.is_multiple_of(op.stride[axis])
                && output * op.stride[axis] < input + before
            {
                output += 1;
            }
            (start[axis], end[axis], shape[2 + axis]) = (before, before + input + after, output);
        }
        // A window that is the whole map is a global pool, as ONNX Runtime rounds it.
        let whole = x.shape[2..] == op.kernel && (start, &end[..]) == ([0; 2], &x.shape[2..]);
        let to_even = !is_int16(x)
            && self.graph.rounding == Rounding::HalfToEven
            && self.graph.requantize == Requantize::Float;
        if whole && to_even && matches!(op.kind, PoolKind::Average { .. }) && self.quant().is_some() {
            return self.integer_mean(&shape, op.kernel.iter().product());
        }
        self.windows(op.kind, &shape, |at| {
            let mut taps = Vec::new();
            let mut padded = 0;
            for kh in 0..op.kernel[0] {
                for kw in 0..op.kernel[1] {
                    let h = at[2] * op.stride[0] + kh * op.dilation[0];
                    let w = at[3] * op.stride[1] + kw * op.dilation[1];
                    padded += usize::from(h < end[0] && w < end[1]);
                    let (h, w) = (h.wrapping_sub(start[0]), w.wrapping_sub(start[1]));
                    if h < x.shape[2] && w < x.shape[3] {
                        taps.push(((at[0] * x.shape[1] + at[1]) * x.shape[2] + h) * x.shape[3] + w);
                    }
                }
            }
            // Over integers ONNX Runtime counts the whole window, also what lies beyond the padding.
            (taps, if self.quant().is_some() { op.kernel.iter().product() } else { padded })
        })
    }

    /// The windows are spread so that the last one ends where the input does.
    pub(super) fn adaptive_pool(&self, op: AdaptivePool) -> Tensor {
        let x = self.input(0);
        let size: Vec<usize> = self.input(1).integers().iter().map(|&extent| extent as usize).collect();
        let shape = [x.shape[0], x.shape[1], size[0], size[1]];
        self.windows(op.kind, &shape, |at| {
            let range = |axis: usize| {
                let (input, output) = (x.shape[2 + axis], size[axis]);
                let step = input / output;
                let start = at[2 + axis] * step;
                start..start + input - (output - 1) * step
            };
            let map = (at[0] * x.shape[1] + at[1]) * x.shape[2];
            let taps: Vec<usize> =
                range(0).flat_map(|h| range(1).map(move |w| (map + h) * x.shape[3] + w)).collect();
            let count = taps.len();
            (taps, count)
        })
    }

    pub(super) fn global_pool(&self, op: GlobalPool) -> Tensor {
        let x = self.input(0);
        let area: usize = x.shape[2..].iter().product();
        let mut shape = x.shape.clone();
        shape[2..].fill(1);
        let all = |at: &[usize]| -> Vec<usize> {
            ((at[0] * x.shape[1] + at[1]) * area..(at[0] * x.shape[1] + at[1] + 1) * area).collect()
        };
        let to_even = !is_int16(self.input(0))
            && self.graph.rounding == Rounding::HalfToEven
            && self.graph.requantize == Requantize::Float;
        if to_even && matches!(op.kind, PoolKind::Average { .. }) && self.quant().is_some() {
            return self.integer_mean(&shape, area);
        }
        if let (PoolKind::Max, Data::F32(values)) = (op.kind, &x.data) {
            let larger = |best: f32, x: f32| if x > best || x.is_nan() { x } else { best };
            let largest =
                |at: Vec<usize>| all(&at).into_iter().map(|i| values[i]).fold(f32::NEG_INFINITY, larger);
            return Tensor::new(&shape, Data::F32(positions(&shape).map(largest).collect()));
        }
        self.windows(op.kind, &shape, |at| (all(at), area))
    }

    /// The mean of each channel of each image: the integers are summed exactly, then scaled once.
    fn integer_mean(&self, shape: &[usize], area: usize) -> Tensor {
        let (quant, target, dtype) = (self.input_quant(0), self.result_quant(), self.result_dtype());
        let factor = quant.scale / (target.scale * area as f32);
        let integers = self.input(0).integers();
        let mean = |map: &[i64]| {
            let sum: i64 = map.iter().map(|q| q - i64::from(quant.zero_point)).sum();
            let rounded = (sum as f32 * factor).round_ties_even() as i64;
            i64::from(saturate(rounded + i64::from(target.zero_point), dtype))
        };
        let values: Vec<i64> = integers.chunks(area.max(1)).map(mean).collect();
        Tensor::of_integers(dtype, shape, &values)
    }

    /// One result per window; `taps` gives the indices inside the input, and how many taps there are with padding.
    fn windows(
        &self,
        kind: PoolKind,
        shape: &[usize],
        taps: impl Fn(&[usize]) -> (Vec<usize>, usize),
    ) -> Tensor {
        let x = self.input(0);
        let windows = positions(shape).map(|at| taps(&at));
        let divisor = |inside: usize, padded: usize| match kind {
            PoolKind::Average { count_include_pad: true } => padded,
            PoolKind::Average { count_include_pad: false } | PoolKind::Max => inside,
        };
        match (kind, &x.data) {
            (PoolKind::Max, Data::F32(x)) => {
                let largest = |taps: Vec<usize>| taps.iter().map(|&i| x[i]).fold(f32::NEG_INFINITY, f32::max);
                Tensor::new(shape, Data::F32(windows.map(|(taps, _)| largest(taps)).collect()))
            }
            (PoolKind::Max, _) => {
                let (integers, dtype) = (x.integers(), x.dtype());
                let lowest = dtype.int_range().expect("an integer type").0;
                let largest = |taps: Vec<usize>| taps.iter().map(|&i| integers[i]).max().unwrap_or(lowest);
                let values: Vec<i64> = windows.map(|(taps, _)| largest(taps)).collect();
                Tensor::of_integers(dtype, shape, &values)
            }
            (PoolKind::Average { .. }, Data::F32(x)) => {
                let mean = |(taps, padded): (Vec<usize>, usize)| {
                    let sum: f64 = taps.iter().map(|&i| f64::from(x[i])).sum();
                    (sum / divisor(taps.len(), padded) as f64) as f32
                };
                Tensor::new(shape, Data::F32(windows.map(mean).collect()))
            }
            (PoolKind::Average { .. }, _) => {
                let (quant, target, dtype) = (self.input_quant(0), self.result_quant(), self.result_dtype());
                let integers = x.integers();
                if is_int16(x) {
                    let mean = |(taps, padded): (Vec<usize>, usize)| {
                        let sum: i64 = taps.iter().map(|&i| integers[i]).sum();
                        let count = divisor(taps.len(), padded).max(1);
                        let factor = quant.scale / (target.scale * count as f32);
                        let factor = f64::from(self.arithmetic().factor(factor, dtype));
                        i64::from(saturate(rounded_integer(sum as f64 * factor, self.graph.rounding), dtype))
                    };
                    let values: Vec<i64> = windows.map(mean).collect();
                    return Tensor::of_integers(dtype, shape, &values);
                }
                if self.graph.requantize == Requantize::Fixed {
                    // Exact sums, scaled once.
                    let mean = |(taps, padded): (Vec<usize>, usize)| {
                        let sum: i64 = taps.iter().map(|&i| integers[i] - i64::from(quant.zero_point)).sum();
                        let count = divisor(taps.len(), padded).max(1);
                        let factor =
                            self.arithmetic().factor(quant.scale / (target.scale * count as f32), dtype);
                        let rounded = self.graph.rounding.round(sum as f32 * factor) as i64;
                        i64::from(saturate(rounded + i64::from(target.zero_point), dtype))
                    };
                    let values: Vec<i64> = windows.map(mean).collect();
                    return Tensor::of_integers(dtype, shape, &values);
                }
                if self.graph.rounding == Rounding::HalfAwayFromZero {
                    // The mean of the integers, those in the padding at the zero point.
                    let zero = f64::from(quant.zero_point);
                    let mean = |(taps, padded): (Vec<usize>, usize)| {
                        let sum: f64 = taps.iter().map(|&i| integers[i] as f64 - zero).sum();
                        let mean = sum / divisor(taps.len(), padded).max(1) as f64;
                        let y = if quant == target {
                            ((mean + zero) as f32).round() as i64
                        } else {
                            let ratio = quant.scale / target.scale;
                            (mean as f32 * ratio).round() as i64 + i64::from(target.zero_point)
                        };
                        i64::from(saturate(y, dtype))
                    };
                    let values: Vec<i64> = windows.map(mean).collect();
                    return Tensor::of_integers(dtype, shape, &values);
                }
                // The reals are summed one by one in f32, and the zero point is added before rounding.
                let mean = |(taps, padded): (Vec<usize>, usize)| {
                    let sum = taps.iter().fold(0.0_f32, |sum, &i| sum + quant.dequantize(integers[i] as i32));
                    let scaled = sum / divisor(taps.len(), padded) as f32 / target.scale;
                    i64::from(saturate((scaled + target.zero_point as f32).round_ties_even() as i64, dtype))
                };
                let values: Vec<i64> = windows.map(mean).collect();
                Tensor::of_integers(dtype, shape, &values)
            }
        }
    }
}

//! Convolution and matrix products.

use triune_graph::ops::{BlockMatMul, Conv, Epilogue, Gemm, MatMul, PostOp};
use triune_tensor::DType;

use super::{
    Step,
    epilogue::{look_up, requantize},
    pool::padding,
};
use crate::{
    Data, Tensor,
    tensor::{broadcast_flat, broadcast_shape, positions},
};

/// A number that sums of products are made in: f64 for floats, i64 for integers.
trait Accumulate: Copy + Send + Sync {
    const ZERO: Self;
    fn plus(self, a: Self, b: Self) -> Self;
}

impl Accumulate for f64 {
    const ZERO: Self = 0.0;
    fn plus(self, a: Self, b: Self) -> Self {
        self + a * b
    }
}

impl Accumulate for i64 {
    const ZERO: Self = 0;
    fn plus(self, a: Self, b: Self) -> Self {
        self + a * b
    }
}

/// Extents of one convolution.
struct Window {
    input: [usize; 4],
    weights: [usize; 4],
    output: [usize; 4],
    stride: [usize; 2],
    dilation: [usize; 2],
    start: [usize; 2],
    groups: usize,
}

/// Sums of one output plane. The taps are the outer loops so that the inner one runs along a row.
fn plane<T: Accumulate>(window: &Window, x: &[T], weights: &[T], n: usize, o: usize) -> Vec<T> {
    let [_, in_c, in_h, in_w] = window.input;
    let [out_c, group_c, kernel_h, kernel_w] = window.weights;
    let [_, _, out_h, out_w] = window.output;
    let first_channel = o / (out_c / window.groups) * group_c;
    let mut sums = vec![T::ZERO; out_h * out_w];
    for i in 0..group_c {
        let image = &x[(n * in_c + first_channel + i) * in_h * in_w..][..in_h * in_w];
        for kh in 0..kernel_h {
            for kw in 0..kernel_w {
                let weight = weights[((o * group_c + i) * kernel_h + kh) * kernel_w + kw];
                for oh in 0..out_h {
                    let Some(h) =
                        (oh * window.stride[0] + kh * window.dilation[0]).checked_sub(window.start[0])
                    else {
                        continue;
                    };
                    if h >= in_h {
                        continue;
                    }
                    for ow in 0..out_w {
                        let w =
                            (ow * window.stride[1] + kw * window.dilation[1]).wrapping_sub(window.start[1]);
                        if w < in_w {
                            let sum = &mut sums[oh * out_w + ow];
                            *sum = sum.plus(image[h * in_w + w], weight);
                        }
                    }
                }
            }
        }
    }
    sums
}

/// All planes, shared out over the processor's threads.
fn planes<T: Accumulate>(window: &Window, x: &[T], weights: &[T]) -> Vec<T> {
    let count = window.output[0] * window.output[1];
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(count.max(1));
    let share = count.div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                scope.spawn(move || {
                    let mine = (worker * share).min(count)..((worker + 1) * share).min(count);
                    mine.flat_map(|p| plane(window, x, weights, p / window.output[1], p % window.output[1]))
                        .collect::<Vec<T>>()
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a plane")).collect()
    })
}

fn four(shape: &[usize]) -> [usize; 4] {
    shape.try_into().expect("an image of rank 4")
}

impl Step<'_> {
    pub(super) fn conv(&self, op: &Conv) -> Tensor {
        let (x, weights) = (self.input(0), self.input(1));
        let kernel = op.kernel.unwrap_or([weights.shape[2], weights.shape[3]]);
        assert_eq!(kernel, weights.shape[2..], "kernel of '{}'", self.node.name);
        let (mut start, mut output) = ([0; 2], four(&x.shape));
        output[1] = weights.shape[0];
        for axis in 0..2 {
            let extent = op.dilation[axis] * (kernel[axis] - 1) + 1;
            let input = x.shape[2 + axis];
            let [before, after] = padding(op.auto_pad, op.pad, axis, input, extent, op.stride[axis]);
            start[axis] = before;
            output[2 + axis] = (input + before + after - extent) / op.stride[axis] + 1;
        }
        let window = Window {
            input: four(&x.shape),
            weights: four(&weights.shape),
            output,
            stride: op.stride,
            dilation: op.dilation,
            start,
            groups: op.groups,
        };
        assert_eq!(window.input[1], window.weights[1] * op.groups, "channels of '{}'", self.node.name);
        let area = output[2] * output[3];
        let channel = |at: usize| at / area % output[1];
        if self.quant().is_some() {
            let zero_point = i64::from(self.input_quant(0).zero_point);
            let x: Vec<i64> = x.integers().iter().map(|q| q - zero_point).collect();
            let sums = planes(&window, &x, &weights.integers());
            return self.finish_integers(&op.epilogue, &output, &sums, channel);
        }
        let widen = |tensor: &Tensor| tensor.as_f32().iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
        let sums = planes(&window, &widen(x), &widen(weights));
        self.finish_floats(&op.epilogue, &output, &sums, channel, 1.0)
    }

    /// Bias, requantization and stages behind integer sums; `channel` maps a result's index to its weights' scale.
    fn finish_integers(
        &self,
        epilogue: &Epilogue,
        shape: &[usize],
        sums: &[i64],
        channel: impl Fn(usize) -> usize,
    ) -> Tensor {
        let bias =
            (self.own_operands(epilogue) > 2).then(|| self.optional(2)).flatten().map(Tensor::integers);
        let scales = &self.quantization().weights;
        let target = self.quant_before(epilogue, 0);
        let x = self.input_quant(0).scale;
        let to = self.result_dtype();
        let factor = |&weight: &f32| self.arithmetic().factor(x * weight / target.scale, to);
        let multiplier: Vec<f32> = scales.iter().map(factor).collect();
        let dtype = self.result_dtype();
        let values: Vec<i64> = (sums.iter().enumerate())
            .map(|(at, &sum)| {
                let c = channel(at);
                let sum = sum + bias.as_ref().map_or(0, |bias| bias[c]);
                let multiplier = multiplier[if multiplier.len() == 1 { 0 } else { c }];
                let q = requantize(sum, multiplier, target.zero_point, dtype, self.graph.rounding);
                i64::from(self.finish_integer(epilogue, q, at))
            })
            .collect();
        Tensor::of_integers(dtype, shape, &values)
    }

    /// Bias (times `beta`) and stages behind float sums.
    fn finish_floats(
        &self,
        epilogue: &Epilogue,
        shape: &[usize],
        sums: &[f64],
        channel: impl Fn(usize) -> usize,
        beta: f32,
    ) -> Tensor {
        let bias = (self.own_operands(epilogue) > 2).then(|| self.optional(2)).flatten().map(Tensor::as_f32);
        let values = (sums.iter().enumerate())
            .map(|(at, &sum)| {
                let bias = bias.map_or(0.0, |bias| f64::from(beta) * f64::from(bias[channel(at)]));
                self.finish_float(epilogue, sum + bias, at)
            })
            .collect();
        Tensor::new(shape, Data::F32(values))
    }

    pub(super) fn gemm(&self, op: &Gemm) -> Tensor {
        let (a, b) = (self.input(0), self.input(1));
        let [rows, depth] = if op.trans_a { [a.shape[1], a.shape[0]] } else { [a.shape[0], a.shape[1]] };
        let columns = if op.trans_b { b.shape[0] } else { b.shape[1] };
        let shape = [rows, columns];
        let a_at = |m: usize, k: usize| if op.trans_a { k * rows + m } else { m * depth + k };
        let b_at = |k: usize, n: usize| if op.trans_b { n * depth + k } else { k * columns + n };
        if self.quant().is_some() {
            let zero_point = i64::from(self.input_quant(0).zero_point);
            let (x, weights) = (a.integers(), b.integers());
            let sums: Vec<i64> = positions(&shape)
                .map(|at| {
                    (0..depth).map(|k| (x[a_at(at[0], k)] - zero_point) * weights[b_at(k, at[1])]).sum()
                })
                .collect();
            return self.finish_integers(&op.epilogue, &shape, &sums, |at| at % columns);
        }
        let (x, weights) = (a.as_f32(), b.as_f32());
        let sums: Vec<f64> = positions(&shape)
            .map(|at| {
                let product = |k| f64::from(x[a_at(at[0], k)]) * f64::from(weights[b_at(k, at[1])]);
                f64::from(op.alpha) * (0..depth).map(product).sum::<f64>()
            })
            .collect();
        let addend = (self.own_operands(&op.epilogue) > 2).then(|| self.optional(2)).flatten();
        let bias_at = |at: usize| {
            addend.map_or(0, |addend| broadcast_flat(&addend.shape, &[at / columns, at % columns]))
        };
        self.finish_floats(&op.epilogue, &shape, &sums, bias_at, op.beta)
    }

    /// Σ (a − a₀)·(b − b₀), and that as f32 times the factors.
    pub(super) fn integer_matmul(&self) -> Tensor {
        let (a, b) = (self.input(0), self.input(1));
        let ((batch_a, own), (batch_b, other)) =
            (a.shape.split_at(a.shape.len() - 2), b.shape.split_at(b.shape.len() - 2));
        let (rows, depth, columns) = (own[0], own[1], other[1]);
        assert_eq!(depth, other[0], "depths of '{}'", self.node.name);
        let full = [&broadcast_shape(batch_a, batch_b)[..], &[rows, columns]].concat();
        let given = |index: usize| self.optional(index).map(Tensor::integers);
        let (a_zeros, b_zeros) = (given(2), given(3));
        let pick = |list: &Option<Vec<i64>>, at: usize| {
            list.as_ref().map_or(0, |list| if list.len() == 1 { list[0] } else { list[at] })
        };
        let (x, y) = (a.integers(), b.integers());
        let sums: Vec<i64> = positions(&full)
            .map(|at| {
                let (batch, cell) = at.split_at(at.len() - 2);
                let first = broadcast_flat(batch_a, batch) * rows * depth + cell[0] * depth;
                let second = broadcast_flat(batch_b, batch) * depth * columns + cell[1];
                let (zero_a, zero_b) = (pick(&a_zeros, cell[0]), pick(&b_zeros, cell[1]));
                (0..depth).map(|k| (x[first + k] - zero_a) * (y[second + k * columns] - zero_b)).sum()
            })
            .collect();
        let Some(factors) = self.optional(4) else {
            let low: Vec<i64> = sums.iter().map(|&sum| i64::from(sum as i32)).collect();
            return Tensor::of_integers(DType::I32, &full, &low);
        };
        let factors = factors.as_f32();
        let factor = |at: usize| factors[if factors.len() == 1 { 0 } else { at % columns }];
        let reals = sums.iter().enumerate().map(|(at, &sum)| sum as i32 as f32 * factor(at)).collect();
        Tensor::new(&full, Data::F32(reals))
    }

    /// Sums in f64, each element of the matrix rounded to f32.
    pub(super) fn block_matmul(&self, op: BlockMatMul) -> Tensor {
        let (x, matrix) = (self.input(0), self.input(1));
        let (reals, bytes) = (x.as_f32(), matrix.to_bytes());
        let mut columns = Vec::new();
        for column in bytes.chunks(op.column_bytes()) {
            let mut own = Vec::new();
            for block in column.chunks(op.block * op.bits / 8 + 8) {
                let (digits, parameters) = block.split_at(op.block * op.bits / 8);
                let real = |at: usize| f32::from_le_bytes(parameters[at..at + 4].try_into().expect("four"));
                let halves = digits.iter().flat_map(|byte| [byte & 15, byte >> 4]).collect();
                let digits: Vec<u8> = if op.bits == 4 { halves } else { digits.to_vec() };
                own.extend(digits.into_iter().map(|digit| (f32::from(digit) - real(4)) * real(0)));
            }
            columns.push(own);
        }
        let mut sums = Vec::new();
        for row in reals.chunks(op.depth) {
            let mut row = row.to_vec();
            if op.integers {
                for block in row.chunks_mut(op.block) {
                    let largest = block.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
                    let inverse = if largest == 0.0 { 0.0 } else { 127.0 / largest };
                    for x in block {
                        *x = (*x * inverse).round_ties_even() * (largest / 127.0);
                    }
                }
            }
            for column in &columns {
                let sum: f64 = row.iter().zip(column).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum();
                sums.push(sum as f32);
            }
        }
        let shape = [&x.shape[..x.shape.len() - 1], &[columns.len()]].concat();
        Tensor::new(&shape, Data::F32(sums))
    }

    pub(super) fn matmul(&self, op: &MatMul) -> Tensor {
        let (a, b) = (self.input(0), self.input(1));
        // A vector is a matrix of one row on the left, of one column on the right, and that extent goes in the end.
        let left = if a.shape.len() == 1 { vec![1, a.shape[0]] } else { a.shape.clone() };
        let right = if b.shape.len() == 1 { vec![b.shape[0], 1] } else { b.shape.clone() };
        let (batch_a, rows_depth) = left.split_at(left.len() - 2);
        let (batch_b, depth_columns) = right.split_at(right.len() - 2);
        let (rows, depth, columns) = (rows_depth[0], rows_depth[1], depth_columns[1]);
        assert_eq!(depth, depth_columns[0], "depths of '{}'", self.node.name);
        let batch = broadcast_shape(batch_a, batch_b);
        let full = [&batch[..], &[rows, columns]].concat();
        let mut shape = full.clone();
        if b.shape.len() == 1 {
            shape.pop();
        }
        if a.shape.len() == 1 {
            shape.remove(batch.len());
        }
        // Where the operands' matrices and, in them, row and column of each result lie.
        let bases = positions(&full).map(|at| {
            let (batch_at, cell) = at.split_at(batch.len());
            let a = broadcast_flat(batch_a, batch_at) * rows * depth + cell[0] * depth;
            let b = broadcast_flat(batch_b, batch_at) * depth * columns + cell[1];
            (a, b)
        });
        if self.quant().is_some_and(|quant| quant.weights.is_empty()) {
            return self.product_of_both(&op.epilogue, &shape, bases, [depth, columns]);
        }
        if self.quant().is_some() {
            let zero_point = i64::from(self.input_quant(0).zero_point);
            let (x, weights) = (a.integers(), b.integers());
            let sums: Vec<i64> = bases
                .map(|(a, b)| (0..depth).map(|k| (x[a + k] - zero_point) * weights[b + k * columns]).sum())
                .collect();
            return self.finish_integers(&op.epilogue, &shape, &sums, |at| at % columns);
        }
        if !matches!(a.data, Data::F32(_)) {
            let (x, weights) = (a.integers(), b.integers());
            let sums: Vec<i64> =
                bases.map(|(a, b)| (0..depth).map(|k| x[a + k] * weights[b + k * columns]).sum()).collect();
            return Tensor::of_integers(a.dtype(), &shape, &sums);
        }
        let (x, weights) = (a.as_f32(), b.as_f32());
        let sums: Vec<f64> = bases
            .map(|(a, b)| (0..depth).map(|k| f64::from(x[a + k]) * f64::from(weights[b + k * columns])).sum())
            .collect();
        self.finish_floats(&op.epilogue, &shape, &sums, |at| at % columns, 1.0)
    }

    /// A product of two activations: sums of differences from either zero point, scaled by one factor.
    fn product_of_both(
        &self,
        epilogue: &Epilogue,
        shape: &[usize],
        bases: impl Iterator<Item = (usize, usize)>,
        [depth, columns]: [usize; 2],
    ) -> Tensor {
        let (a, b) = (self.input(0).integers(), self.input(1).integers());
        let (left, right, dtype) = (self.input_quant(0), self.input_quant(1), self.result_dtype());
        let made = epilogue.post_ops.iter().find_map(|stage| match stage {
            PostOp::Table { quant, .. } => Some(*quant),
            _ => None,
        });
        let result = made.unwrap_or_else(|| self.result_quant());
        let factor = self.arithmetic().factor(left.scale * right.scale / result.scale, dtype);
        let results: Vec<i64> = bases
            .map(|(first, second)| {
                let term = |k: usize| {
                    let (a, b) = (a[first + k], b[second + k * columns]);
                    (a - i64::from(left.zero_point)) * (b - i64::from(right.zero_point))
                };
                let sum: i64 = (0..depth).map(term).sum();
                let mut q = requantize(sum, factor, result.zero_point, dtype, self.graph.rounding);
                for stage in &epilogue.post_ops {
                    q = match stage {
                        PostOp::Clamp { limits } => q.max(limits[0]).min(limits[1]),
                        PostOp::Table { table, .. } => look_up(table, q, dtype, dtype),
                        _ => panic!("an epilogue of '{}'", self.node.name),
                    };
                }
                i64::from(q)
            })
            .collect();
        Tensor::of_integers(dtype, shape, &results)
    }
}

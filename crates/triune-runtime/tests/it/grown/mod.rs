//! Random networks, as quantization tools write them.

use std::collections::HashMap;

use triune_graph::{
    Graph, Op, ValueId,
    ops::{self, BinaryKind, PoolKind, UnaryKind},
};
use triune_tensor::{DType, QuantParams};
use triune_testing::{GraphBuilder, Random, Tensor, Window};

/// Grows a random network; in `quantized` mode every result is quantized, as quantization tools write models.
pub(crate) struct Net {
    random: Random,
    builder: GraphBuilder,
    quantized: Option<DType>,
    /// Whether scales are powers of two, by which results lie on halves again and again.
    dyadic: bool,
    /// Values to build on, with their shapes.
    open: Vec<(ValueId, Vec<usize>)>,
    params: HashMap<ValueId, QuantParams>,
}

impl Net {
    pub(crate) fn new(seed: u64, quantized: Option<DType>, images: usize) -> Self {
        let mut random = Random(seed);
        let shape = vec![images, 1 + random.below(9), 4 + random.below(6), 4 + random.below(6)];
        let mut builder = GraphBuilder::new();
        let input = builder.input("x", DType::F32, &shape);
        let dyadic = random.below(3) == 0;
        let mut net = Self { random, builder, quantized, dyadic, open: Vec::new(), params: HashMap::new() };
        net.push(input, shape, None);
        net
    }

    /// Offers a value, quantized and dequantized if the network is; movement keeps its operand's parameters.
    fn push(&mut self, value: ValueId, shape: Vec<usize>, keep: Option<QuantParams>) {
        let Some(dtype) = self.quantized else {
            self.open.push((value, shape));
            return;
        };
        let zero_point = self.random.below(120) as i32 - 60 + if dtype == DType::U8 { 128 } else { 0 };
        let mut own = QuantParams { scale: self.scale(0.01), zero_point };
        if dtype == DType::I16 {
            own = QuantParams { scale: own.scale / 256.0, zero_point: 0 };
        }
        let params = keep.unwrap_or(own);
        let value = self.builder.quantize_dequantize(value, params, dtype);
        self.params.insert(value, params);
        self.open.push((value, shape));
    }

    /// From `least` to five times as much.
    fn scale(&mut self, least: f32) -> f32 {
        let scale = least * (1.0 + 4.0 * self.random.unit().abs());
        if self.dyadic { scale.log2().round().exp2() } else { scale }
    }

    /// Weights as the network has them: reals, or integers with a scale per output channel.
    fn weights(&mut self, shape: &[usize], axis: usize) -> (ValueId, Vec<f32>) {
        let count = shape.iter().product();
        if let Some(dtype) = self.quantized {
            let wide = dtype == DType::I16;
            let (most, step) = if wide { (32_767, 1.0 / 256.0) } else { (127, 1.0) };
            let integers: Vec<i64> =
                (0..count).map(|_| self.random.below(2 * most + 1) as i64 - most as i64).collect();
            let scales: Vec<f32> = (0..shape[axis]).map(|_| self.scale(0.001) * step).collect();
            let tensor = Tensor::of_integers(if wide { DType::I16 } else { DType::I8 }, shape, &integers);
            (self.builder.dequantized_constant(&tensor, &scales, axis as isize), scales)
        } else {
            let values = self.random.floats(count);
            (self.builder.constant(&Tensor::f32(shape, &values)), Vec::new())
        }
    }

    fn bias(&mut self, channels: usize, input: ValueId, scales: &[f32]) -> ValueId {
        if self.quantized.is_some() {
            let x_scale = self.params[&input].scale;
            let integers: Vec<i64> = (0..channels).map(|_| self.random.below(4000) as i64 - 2000).collect();
            let scales: Vec<f32> = scales.iter().map(|scale| x_scale * scale).collect();
            self.builder.dequantized_constant(
                &Tensor::of_integers(DType::I32, &[channels], &integers),
                &scales,
                0,
            )
        } else {
            let values = self.random.floats(channels);
            self.builder.constant(&Tensor::f32(&[channels], &values))
        }
    }

    fn step(&mut self) {
        let (x, shape) = self.open[self.random.below(self.open.len())].clone();
        let keep = self.params.get(&x).copied();
        if shape.len() != 4 {
            return;
        }
        let [n, c, h, w] = [shape[0], shape[1], shape[2], shape[3]];
        match self.random.below(10) {
            0..=2 => {
                // Now and then the window that devices have engines for; else sides and axes that all differ.
                let window = match self.random.below(3) {
                    0 if h >= 3 && w >= 3 => {
                        let stride = 1 + self.random.below(2);
                        Window { kernel: [3; 2], stride: [stride; 2], dilation: [1; 2], pad: [1; 4] }
                    }
                    1 => Window { kernel: [1; 2], stride: [1; 2], dilation: [1; 2], pad: [0; 4] },
                    _ => self.random.window([h, w], [4, 4]),
                };
                let [kh, kw] = window.kernel;
                let depthwise = self.random.below(3) == 0;
                let out = if depthwise { c } else { 1 + self.random.below(20) };
                let groups = if depthwise { c } else { 1 };
                let (weights, scales) = self.weights(&[out, c / groups, kh, kw], 0);
                let bias = self.bias(out, x, &scales);
                let y = self.builder.conv_window(&[x, weights, bias], window, groups);
                let y = match self.random.below(3) {
                    0 => self.builder.unary(UnaryKind::Relu, y),
                    1 => self.builder.unary(UnaryKind::Clip([0.0, 0.7]), y),
                    _ => y,
                };
                let [h, w] = window.output([h, w]);
                self.push(y, vec![n, out, h, w], None);
            }
            3 => {
                let same = self.open.iter().filter(|(_, other)| *other == shape).cloned().collect::<Vec<_>>();
                let (other, _) = same[self.random.below(same.len())];
                let kind = if self.random.below(2) == 0 { BinaryKind::Add } else { BinaryKind::Mul };
                let y = self.builder.binary(kind, x, other);
                let y = if self.random.below(2) == 0 { self.builder.unary(UnaryKind::Relu, y) } else { y };
                self.push(y, shape, None);
            }
            4 => {
                let fits = |other: &[usize]| other.len() == 4 && other[0] == n && other[2..] == shape[2..];
                let same = self.open.iter().filter(|(_, other)| fits(other)).cloned().collect::<Vec<_>>();
                let (other, other_shape) = same[self.random.below(same.len())].clone();
                let y = self.builder.node(Op::Concat(ops::Concat { axis: 1 }), &[x, other]);
                self.push(y, vec![n, c + other_shape[1], h, w], None);
            }
            5 => {
                let window = self.random.window([h, w], [3, 3]);
                let average = self.random.below(2) == 0;
                let kind = if average {
                    PoolKind::Average { count_include_pad: self.random.below(2) == 0 }
                } else {
                    PoolKind::Max
                };
                let y = self.builder.pool_window(kind, x, window);
                let [h, w] = window.output([h, w]);
                self.push(y, vec![n, c, h, w], keep.filter(|_| !average));
            }
            6 => {
                let start = self.random.below(c);
                let range = |values: &[i64]| Tensor::i64(&[values.len()], values);
                let operands =
                    [range(&[start as i64, 0]), range(&[c as i64, h as i64]), range(&[1, 2]), range(&[1, 2])]
                        .map(|tensor| self.builder.constant(&tensor));
                let y = self
                    .builder
                    .node(Op::Slice(ops::Slice), &[x, operands[0], operands[1], operands[2], operands[3]]);
                self.push(y, vec![n, c - start, h.div_ceil(2), w], keep);
            }
            7 => {
                let y = self.builder.node(Op::Transpose(ops::Transpose { perm: vec![0, 1, 3, 2] }), &[x]);
                self.push(y, vec![n, c, w, h], keep);
            }
            8 => {
                let y = self.builder.unary(UnaryKind::Sigmoid, x);
                self.push(y, shape, None);
            }
            _ => {
                let target =
                    self.builder.constant(&Tensor::i64(&[4], &[n as i64, (c * h) as i64, 1, w as i64]));
                let y = self.builder.node(Op::Reshape(ops::Reshape { allow_zero: false }), &[x, target]);
                self.push(y, vec![n, c * h, 1, w], keep);
            }
        }
    }

    /// A head: global pool, matrix product, softmax on floats.
    fn head(&mut self) {
        let (x, shape) = self.open[self.open.len() - 1].clone();
        let y = self.builder.node(
            Op::GlobalPool(ops::GlobalPool { kind: PoolKind::Average { count_include_pad: false } }),
            &[x],
        );
        self.push(y, vec![shape[0], shape[1], 1, 1], None);
        let (x, _) = self.open.pop().expect("just pushed");
        let keep = self.params.get(&x).copied();
        let y = self.builder.node(Op::Flatten(ops::Flatten { axis: 1 }), &[x]);
        self.push(y, vec![shape[0], shape[1]], keep);
        let (x, _) = self.open.pop().expect("just pushed");
        let (weights, scales) = self.weights(&[7, shape[1]], 0);
        let bias = self.bias(7, x, &scales);
        let y = self.builder.gemm(&[x, weights, bias], true);
        self.push(y, vec![shape[0], 7], None);
    }

    /// The network with its last values as outputs.
    pub(crate) fn finish(mut self, steps: usize) -> (Graph, Vec<f32>) {
        for _ in 0..steps {
            self.step();
        }
        let middle = self.open.last().expect("the input at least").0;
        self.head();
        let last = self.open.last().expect("the head").0;
        let input = self.open[0].1.iter().product();
        let values = self.random.floats(input);
        (self.builder.finish(&[last, middle]), values)
    }
}

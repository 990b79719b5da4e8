//! The suite's programs: a graph for each, as quantization tools write them, with numbers that are the same each time.

use triune_graph::{
    Constant, Dim, Graph, Node, Op, Value, ValueId, ValueIds,
    ops::{
        AutoPad, Binary, BinaryKind, Concat, Conv, CoordinateMode, DequantizeLinear, Epilogue, Flatten, Gemm,
        GlobalPool, MatMul, NearestMode, Pool, PoolKind, QuantizeLinear, Resize, ResizeMode, Slice, Softmax,
        Transpose, Unary, UnaryKind,
    },
};
use triune_tensor::{DType, QuantParams, Shape};

/// What the inputs' integers stand for.
pub(super) const INPUT: QuantParams = QuantParams { scale: 0.05, zero_point: 3 };
const WEIGHT_SCALE: f32 = 0.01;

/// A program's name, and how its graph is made.
type Model = (&'static str, fn(&mut Maker) -> Option<ValueId>);

/// The programs, from one operator to whole blocks.
const MODELS: &[Model] = &[
    ("convolution of 3x3", |m| {
        let x = m.input(&[1, 5, 9, 7])?;
        m.conv(x, [20, 5, 3, 3], 1, 1, 1, true)
    }),
    ("convolution of 1x1 by steps of 2", |m| {
        let x = m.input(&[1, 16, 8, 8])?;
        m.conv(x, [24, 16, 1, 1], 2, 0, 1, false)
    }),
    ("convolution of many channels", |m| {
        let x = m.input(&[1, 72, 6, 6])?;
        m.conv(x, [80, 72, 3, 3], 1, 1, 1, true)
    }),
    ("convolution in groups", |m| {
        let x = m.input(&[1, 8, 6, 6])?;
        m.conv(x, [12, 4, 3, 3], 1, 1, 2, true)
    }),
    ("depthwise convolution", |m| {
        let x = m.input(&[1, 12, 9, 9])?;
        m.conv(x, [12, 1, 3, 3], 2, 1, 12, true)
    }),
    ("residual block", |m| {
        let x = m.input(&[1, 16, 8, 8])?;
        let first = m.conv(x, [16, 16, 3, 3], 1, 1, 1, true)?;
        let y = m.conv(first, [16, 16, 3, 3], 1, 1, 1, false)?;
        let sum =
            m.node(Op::Binary(Binary { kind: BinaryKind::Add, epilogue: Epilogue::default() }), &[y, x]);
        let sum = m.quantized(sum)?;
        m.conv(sum, [8, 16, 1, 1], 1, 0, 1, true)
    }),
    ("sum of maps", |m| {
        let x = m.input(&[1, 8, 6, 6])?;
        let a = m.pool(PoolKind::Max, x, 3, 1, 1);
        let a = m.like(a, INPUT)?;
        let sum =
            m.node(Op::Binary(Binary { kind: BinaryKind::Add, epilogue: Epilogue::default() }), &[a, x]);
        m.quantized(sum)
    }),
    ("product of maps and sigmoid", |m| {
        let x = m.input(&[1, 8, 6, 6])?;
        // Of another map: a product with a function of the same one is a function.
        let gate = m.pool(PoolKind::Max, x, 3, 1, 1);
        let gate = m.like(gate, INPUT)?;
        let gate = m.node(Op::Unary(Unary { kind: UnaryKind::Sigmoid }), &[gate]);
        let gate = m.quantized(gate)?;
        let y =
            m.node(Op::Binary(Binary { kind: BinaryKind::Mul, epilogue: Epilogue::default() }), &[x, gate]);
        m.quantized(y)
    }),
    ("pools", |m| {
        let x = m.input(&[1, 10, 9, 9])?;
        let y = m.pool(PoolKind::Max, x, 3, 2, 1);
        let y = m.like(y, INPUT)?;
        let y = m.pool(PoolKind::Average { count_include_pad: false }, y, 2, 1, 0);
        m.quantized(y)
    }),
    ("global pool and product with a matrix", |m| {
        let x = m.input(&[1, 24, 5, 5])?;
        let y =
            m.node(Op::GlobalPool(GlobalPool { kind: PoolKind::Average { count_include_pad: false } }), &[x]);
        let y = m.quantized(y)?;
        let y = m.node(Op::Flatten(Flatten { axis: 1 }), &[y]);
        let y = m.quantized(y)?;
        let weights = m.weights(&[10, 24])?;
        let gemm =
            Gemm { alpha: 1.0, beta: 1.0, trans_a: false, trans_b: true, epilogue: Epilogue::default() };
        let y = m.node(Op::Gemm(gemm), &[y, weights]);
        m.quantized(y)
    }),
    ("parts joined, cut and turned", |m| {
        let x = m.input(&[1, 6, 6, 8])?;
        let y = m.conv(x, [7, 6, 1, 1], 1, 0, 1, false)?;
        let both = m.node(Op::Concat(Concat { axis: 1 }), &[x, y]);
        let both = m.quantized(both)?;
        let ends = [&[2, 0][..], &[13, 6], &[1, 2], &[1, 2]].map(|values| m.integers(values));
        let [start, end, axes, steps] = ends;
        let cut = m.node(Op::Slice(Slice), &[both, start?, end?, axes?, steps?]);
        let cut = m.quantized(cut)?;
        let turned = m.node(Op::Transpose(Transpose { perm: vec![0, 1, 3, 2] }), &[cut]);
        m.quantized(turned)
    }),
    ("enlargement", |m| {
        let x = m.input(&[1, 6, 5, 5])?;
        let none = m.constant(Constant::from_f32(Shape::new(&[0])?, &[])?);
        let scales = m.constant(Constant::from_f32(Shape::new(&[4])?, &[1.0, 1.0, 2.0, 2.0])?);
        let resize =
            Resize { mode: ResizeMode::Nearest(NearestMode::Floor), coordinates: CoordinateMode::Asymmetric };
        let y = m.node(Op::Resize(resize), &[x, none, scales]);
        m.quantized(y)
    }),
    ("softmax", |m| {
        let x = m.input(&[1, 4, 6, 10])?;
        let y = m.node(Op::Softmax(Softmax { axis: -1, flatten: false, log: false }), &[x]);
        m.like(y, QuantParams { scale: 1.0 / 256.0, zero_point: -128 })
    }),
    ("product of two maps as matrices", |m| {
        let x = m.input(&[1, 3, 6, 8])?;
        let turned = m.node(Op::Transpose(Transpose { perm: vec![0, 1, 3, 2] }), &[x]);
        let turned = m.like(turned, INPUT)?;
        let y = m.node(Op::MatMul(MatMul { epilogue: Epilogue::default() }), &[x, turned]);
        m.quantized(y)
    }),
];

/// The programs' names, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    MODELS.iter().map(|(name, _)| *name)
}

/// The programs: their names and graphs.
pub(super) fn all() -> Vec<(&'static str, Option<Graph>)> {
    let make = |(at, (name, model)): (usize, &Model)| {
        let mut maker = Maker { graph: Graph::default(), numbers: Numbers::new(at as u64) };
        let output = model(&mut maker);
        let graph = output.map(|output| {
            maker.graph.outputs = vec![output];
            maker.graph
        });
        (*name, graph)
    };
    MODELS.iter().enumerate().map(make).collect()
}

/// Integers of 8 bits that look random and are the same each time (Steele et al., `SplitMix64`).
pub(super) struct Numbers(u64);

impl Numbers {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> i8 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits >> 56) as i8
    }
}

/// Grows a graph.
struct Maker {
    graph: Graph,
    numbers: Numbers,
}

impl Maker {
    /// The graph's input, quantized.
    fn input(&mut self, shape: &[usize]) -> Option<ValueId> {
        let shape = shape.iter().map(|&dim| Dim::Fixed(dim)).collect();
        let value = Value { dtype: Some(DType::F32), shape: Some(shape), ..Value::named("x") };
        let id = self.graph.add_value(value);
        self.graph.inputs.push(id);
        self.like(id, INPUT)
    }

    fn constant(&mut self, constant: Constant) -> ValueId {
        let name = format!("constant{}", self.graph.values.len());
        self.graph.add_constant(name, constant)
    }

    fn integers(&mut self, values: &[i64]) -> Option<ValueId> {
        let constant = Constant::from_i64(Shape::new(&[values.len()])?, values)?;
        Some(self.constant(constant))
    }

    fn node(&mut self, op: Op, inputs: &[ValueId]) -> ValueId {
        let name = format!("node{}", self.graph.nodes.len());
        let output = self.graph.add_value(Value::named(format!("{name}_0")));
        let inputs: ValueIds = inputs.iter().copied().map(Some).collect();
        self.graph.nodes.push(Node::new(name, op, inputs, [Some(output)].into_iter().collect::<ValueIds>()));
        output
    }

    /// The value in 8 bits, as models write it: there and back.
    fn like(&mut self, x: ValueId, params: QuantParams) -> Option<ValueId> {
        let scalar = Shape::new(&[])?;
        let scale = self.constant(Constant::from_f32(scalar, &[params.scale])?);
        let zero_point = self.constant(Constant::from_i8(scalar, &[i8::try_from(params.zero_point).ok()?])?);
        let quantize = QuantizeLinear { axis: 1, dtype: DType::I8 };
        let q = self.node(Op::QuantizeLinear(quantize), &[x, scale, zero_point]);
        Some(self.node(Op::DequantizeLinear(DequantizeLinear { axis: 1 }), &[q, scale, zero_point]))
    }

    /// The same with a scale and a zero point of its own.
    fn quantized(&mut self, x: ValueId) -> Option<ValueId> {
        let [scale, zero_point] = [self.numbers.next(), self.numbers.next()].map(i32::from);
        let params = QuantParams { scale: 0.04 + 0.0001 * (scale + 128) as f32, zero_point: zero_point / 4 };
        self.like(x, params)
    }

    /// Weights of 8 bits.
    fn weights(&mut self, dims: &[usize]) -> Option<ValueId> {
        let values: Vec<i8> = (0..dims.iter().product()).map(|_| self.numbers.next().max(-127)).collect();
        let scalar = Shape::new(&[])?;
        let x = self.constant(Constant::from_i8(Shape::new(dims)?, &values)?);
        let scale = self.constant(Constant::from_f32(scalar, &[WEIGHT_SCALE])?);
        let zero_point = self.constant(Constant::from_i8(scalar, &[0])?);
        Some(self.node(Op::DequantizeLinear(DequantizeLinear { axis: 0 }), &[x, scale, zero_point]))
    }

    fn conv(
        &mut self,
        x: ValueId,
        weights: [usize; 4],
        stride: usize,
        pad: usize,
        groups: usize,
        relu: bool,
    ) -> Option<ValueId> {
        let weights = self.weights(&weights)?;
        let conv = Conv {
            kernel: None,
            stride: [stride; 2],
            dilation: [1; 2],
            pad: [pad; 4],
            auto_pad: AutoPad::Explicit,
            groups,
            epilogue: Epilogue::default(),
        };
        let mut y = self.node(Op::Conv(Box::new(conv)), &[x, weights]);
        if relu {
            y = self.node(Op::Unary(Unary { kind: UnaryKind::Relu }), &[y]);
        }
        self.quantized(y)
    }

    fn pool(&mut self, kind: PoolKind, x: ValueId, kernel: usize, stride: usize, pad: usize) -> ValueId {
        let pool = Pool {
            kind,
            kernel: [kernel; 2],
            stride: [stride; 2],
            dilation: [1; 2],
            pad: [pad; 4],
            auto_pad: AutoPad::Explicit,
            ceil_mode: false,
        };
        self.node(Op::Pool(Box::new(pool)), &[x])
    }
}

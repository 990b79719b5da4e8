//! Graphs of every operator for property tests.

use triune_graph::{
    Constant, Dim, Graph, Node, Value, ValueId,
    ops::{
        AutoPad, BatchNormalization, Binary, BinaryKind, Cast, Clip, Concat, ConstantOfShape, Conv,
        CoordinateMode, DequantizeLinear, Epilogue, Expand, Flatten, Gather, Gemm, GlobalPool, Identity,
        MatMul, NearestMode, Op, Pad, PadMode, Pool, PoolKind, QuantizeLinear, Reshape, Resize, ResizeMode,
        ShapeOf, Slice, Softmax, Split, Squeeze, Transpose, Unary, UnaryKind, Unsqueeze,
    },
};
use triune_tensor::{DType, Shape};

/// Kinds of steps.
pub(crate) const KINDS: u8 = 24;

/// Grows a graph over one image, step by step; every step fits what is there.
pub(crate) struct Growth {
    pub(crate) graph: Graph,
    /// The last image, always of rank 4, and its extents.
    image: ValueId,
    dims: [usize; 4],
}

impl Growth {
    pub(crate) fn new(symbol: bool) -> Self {
        let mut graph = Graph { name: "grown".into(), ..Graph::default() };
        let dims = [2, 4, 6, 5];
        let batch = if symbol { Dim::Symbol("N".into()) } else { Dim::Fixed(2) };
        let image = graph.add_value(Value {
            dtype: Some(DType::F32),
            shape: Some(vec![batch, Dim::Fixed(4), Dim::Fixed(6), Dim::Fixed(5)]),
            ..Value::named("image")
        });
        graph.inputs.push(image);
        Self { graph, image, dims }
    }

    #[expect(clippy::unnecessary_wraps, reason = "an operand is optional")]
    fn floats(&mut self, dims: &[usize], value: f32) -> Option<ValueId> {
        let shape = Shape::new(dims).unwrap();
        let values = vec![value; shape.elements().unwrap()];
        let name = format!("c{}", self.graph.values.len());
        Some(self.graph.add_constant(name, Constant::from_f32(shape, &values).unwrap()))
    }

    #[expect(clippy::unnecessary_wraps, reason = "an operand is optional")]
    fn ints(&mut self, values: &[i64]) -> Option<ValueId> {
        let name = format!("c{}", self.graph.values.len());
        Some(self.graph.add_constant(name, Constant::from_i64(Shape::from([values.len()]), values).unwrap()))
    }

    #[expect(clippy::unnecessary_wraps, reason = "an operand is optional")]
    fn bytes(&mut self, dtype: DType) -> Option<ValueId> {
        let name = format!("c{}", self.graph.values.len());
        Some(self.graph.add_constant(name, Constant::new(dtype, Shape::from([]), vec![3_u8]).unwrap()))
    }

    fn node(&mut self, op: Op, inputs: &[Option<ValueId>], outputs: usize) -> Vec<ValueId> {
        let name = format!("{}{}", op.name(), self.graph.nodes.len());
        let made: Vec<ValueId> =
            (0..outputs).map(|i| self.graph.add_value(Value::named(format!("{name}:{i}")))).collect();
        let outputs: triune_graph::ValueIds = made.iter().copied().map(Some).collect();
        self.graph.nodes.push(Node::new(name, op, inputs, outputs));
        made
    }

    /// A node whose result is the next image.
    fn then(&mut self, op: Op, inputs: &[Option<ValueId>]) {
        self.image = self.node(op, inputs, 1)[0];
    }

    /// A node whose result the caller gets.
    fn ends(&mut self, op: Op, inputs: &[Option<ValueId>]) {
        let end = self.node(op, inputs, 1)[0];
        self.graph.outputs.push(end);
    }

    pub(crate) fn step(&mut self, kind: u8, a: u8) {
        let x = Some(self.image);
        let [_, c, h, w] = self.dims;
        let pick = usize::from(a);
        match kind {
            0 => {
                let weights = self.floats(&[6, c, 3, 1], 0.25);
                let bias = if a.is_multiple_of(2) { self.floats(&[6], 0.5) } else { None };
                let conv = Conv {
                    kernel: a.is_multiple_of(3).then_some([3, 1]),
                    stride: [1, 1],
                    dilation: [1, 1],
                    pad: [1, 0, 1, 0],
                    auto_pad: AutoPad::Explicit,
                    groups: 1,
                    epilogue: Epilogue::default(),
                };
                let operands = [x, weights, bias];
                self.then(Op::Conv(Box::new(conv)), if bias.is_some() { &operands } else { &operands[..2] });
                self.dims[1] = 6;
            }
            1 => {
                let auto_pad = [AutoPad::SameLower, AutoPad::SameUpper][pick % 2];
                let kinds = [
                    PoolKind::Max,
                    PoolKind::Average { count_include_pad: true },
                    PoolKind::Average { count_include_pad: false },
                ];
                let pool = Pool {
                    kind: kinds[pick % 3],
                    kernel: [2, 3],
                    stride: [1, 1],
                    dilation: [1, 1],
                    pad: [0; 4],
                    auto_pad,
                    ceil_mode: a.is_multiple_of(5),
                };
                self.then(Op::Pool(Box::new(pool)), &[x]);
            }
            2 => {
                let kinds = [
                    BinaryKind::Add,
                    BinaryKind::Sub,
                    BinaryKind::Mul,
                    BinaryKind::Div,
                    BinaryKind::Min,
                    BinaryKind::Max,
                    BinaryKind::Pow,
                ];
                let other = self.floats(&[c, 1, 1], 2.0);
                self.then(Op::Binary(Binary::new(kinds[pick % 7])), &[x, other]);
            }
            3 => {
                let kinds = [
                    UnaryKind::Relu,
                    UnaryKind::LeakyRelu(0.125),
                    UnaryKind::Elu(1.5),
                    UnaryKind::Sigmoid,
                    UnaryKind::HardSigmoid { alpha: 0.25, beta: 0.5 },
                    UnaryKind::HardSwish,
                    UnaryKind::Tanh,
                    UnaryKind::Exp,
                    UnaryKind::Log,
                    UnaryKind::Sqrt,
                    UnaryKind::Reciprocal,
                    UnaryKind::Abs,
                    UnaryKind::Neg,
                    UnaryKind::Softplus,
                    UnaryKind::Erf,
                    UnaryKind::Gelu,
                    UnaryKind::Floor,
                    UnaryKind::Ceil,
                    UnaryKind::Round,
                ];
                self.then(Op::Unary(Unary { kind: kinds[pick % kinds.len()] }), &[x]);
            }
            4 => {
                let (low, high) = (self.floats(&[], 0.0), self.floats(&[], 6.0));
                let operands = [x, if a.is_multiple_of(2) { low } else { None }, high];
                self.then(Op::Clip(Clip), &operands);
            }
            5 => {
                let parameter = |growth: &mut Self| growth.floats(&[c], 1.0);
                let [gamma, beta, mean, var] = std::array::from_fn(|_| parameter(self));
                let op = Op::BatchNormalization(BatchNormalization { epsilon: 1e-3 });
                self.then(op, &[x, gamma, beta, mean, var]);
            }
            6 => self
                .ends(Op::Softmax(Softmax { axis: pick as isize % 4 - 4, flatten: false, log: false }), &[x]),
            7 => {
                let flat = self.node(Op::Flatten(Flatten { axis: 1 }), &[x], 1)[0];
                let weights = self.floats(&[3, c * h * w], 0.5);
                let gemm = Gemm {
                    alpha: 0.5,
                    beta: 2.0,
                    trans_a: false,
                    trans_b: true,
                    epilogue: Epilogue::default(),
                };
                let addend = self.floats(&[1, 3], 1.0);
                self.ends(Op::Gemm(gemm), &[Some(flat), weights, addend]);
            }
            8 => {
                let weights = self.floats(&[w, 2], 0.5);
                self.ends(Op::MatMul(MatMul::default()), &[x, weights]);
            }
            9 => {
                let wish = self.ints(&[0, -1]);
                let reshape = Reshape { allow_zero: false };
                self.ends(Op::Reshape(reshape), &[x, wish]);
            }
            10 => self.ends(Op::Transpose(Transpose { perm: vec![0, 3, 1, 2] }), &[x]),
            11 => {
                self.then(Op::Concat(Concat { axis: 1 }), &[x, x]);
                self.dims[1] *= 2;
            }
            12 => {
                let operands = [self.ints(&[1]), self.ints(&[i64::MAX]), self.ints(&[-1]), self.ints(&[2])];
                let [starts, ends, axes, steps] = operands;
                self.ends(Op::Slice(Slice), &[x, starts, ends, axes, steps]);
            }
            13 => {
                let sizes = self.ints(&[1, 1]);
                let (parts, operands) =
                    if a.is_multiple_of(2) { (Some(2), vec![x]) } else { (None, vec![x, sizes]) };
                let made = self.node(Op::Split(Split { axis: 0, parts }), &operands, 2);
                self.graph.outputs.push(made[1]);
            }
            14 => {
                let indices = self.ints(&[0, -1]);
                self.ends(Op::Gather(Gather { axis: 2 }), &[x, indices]);
            }
            15 => {
                let axes = self.ints(&[0]);
                let wide = self.node(Op::Unsqueeze(Unsqueeze), &[x, axes], 1)[0];
                self.then(Op::Squeeze(Squeeze), &[Some(wide), axes]);
            }
            16 => {
                let (pads, value) = (self.ints(&[0, 0, 1, 0, 0, 0, 0, 1]), self.floats(&[], 1.0));
                let mode = [PadMode::Constant, PadMode::Reflect, PadMode::Edge][pick % 3];
                self.ends(Op::Pad(Pad { mode }), &[x, pads, value]);
            }
            17 => self.then(Op::Identity(Identity), &[x]),
            18 => {
                let (start, end) = if a.is_multiple_of(2) { (0, None) } else { (1, Some(-1)) };
                let shape = self.node(Op::ShapeOf(ShapeOf { start, end }), &[x], 1)[0];
                let value = Constant::from_f32(Shape::from([1]), &[0.5]).unwrap();
                self.ends(Op::ConstantOfShape(ConstantOfShape { value }), &[Some(shape)]);
            }
            19 => {
                let whole = self.node(Op::Cast(Cast { to: DType::I32 }), &[x], 1)[0];
                self.ends(Op::Cast(Cast { to: DType::F16 }), &[Some(whole)]);
            }
            20 => {
                let nearest = [
                    NearestMode::Floor,
                    NearestMode::Ceil,
                    NearestMode::RoundPreferFloor,
                    NearestMode::RoundPreferCeil,
                ];
                let coordinates = [
                    CoordinateMode::Asymmetric,
                    CoordinateMode::HalfPixel,
                    CoordinateMode::PytorchHalfPixel,
                    CoordinateMode::AlignCorners,
                ];
                let mode = if a.is_multiple_of(3) {
                    ResizeMode::Linear
                } else {
                    ResizeMode::Nearest(nearest[pick % 4])
                };
                let resize = Resize { mode, coordinates: coordinates[pick / 4 % 4] };
                let name = format!("c{}", self.graph.values.len());
                let scales = Constant::from_f32(Shape::from([4]), &[1.0, 1.0, 2.0, 1.5]).unwrap();
                let scales = Some(self.graph.add_constant(name, scales));
                let sizes = self.ints(&[2, c as i64, 3, 3]);
                // ONNX aligns corners to parts of elements, which is another operator.
                if a.is_multiple_of(2) && resize.coordinates != CoordinateMode::AlignCorners {
                    self.ends(Op::Resize(resize), &[x, None, scales]);
                } else {
                    self.ends(Op::Resize(resize), &[x, None, None, sizes]);
                }
            }
            21 => {
                let dtype = [DType::I8, DType::U8][pick % 2];
                let (scale, zero_point) = (self.floats(&[], 0.25), self.bytes(dtype));
                let quantize = QuantizeLinear { axis: 1, dtype };
                // Without a zero point the type is an attribute.
                let quantized = if a.is_multiple_of(3) {
                    self.node(Op::QuantizeLinear(quantize), &[x, scale], 1)[0]
                } else {
                    self.node(Op::QuantizeLinear(quantize), &[x, scale, zero_point], 1)[0]
                };
                let dequantize = DequantizeLinear { axis: 1 };
                self.then(Op::DequantizeLinear(dequantize), &[Some(quantized), scale, zero_point]);
            }
            22 => self.ends(Op::GlobalPool([GlobalPool::MAX, GlobalPool::AVERAGE][pick % 2]), &[x]),
            _ => {
                let wish = self.ints(&[3, 1, 1, 1, 1]);
                self.ends(Op::Expand(Expand), &[x, wish]);
            }
        }
    }

    pub(crate) fn finish(mut self) -> Graph {
        self.ends(Op::Identity(Identity), &[Some(self.image)]);
        self.graph
    }
}

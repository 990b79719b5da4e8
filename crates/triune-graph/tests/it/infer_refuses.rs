//! What shape inference refuses, operator by operator: each row is wrong in one way, and the error says which.

use std::sync::Arc;

use triune_graph::{
    Constant, Dim, Error, Graph, Node, Op, Value, infer,
    ops::{
        AdaptivePool, ArgReduce, AutoPad, BatchNormalization, Binary, BinaryKind, BorderMode, CellKind, Clip,
        Comparison, Concat, CondTake, Conv, CoordinateMode, DequantizeLinear, Epilogue, Expand, Flatten,
        Gather, GatherElements, GatherNd, Gemm, GlobalPool, Index, MatMul, Nms, NonMaxSuppression, NonZero,
        Pad, PadMode, Pool, PoolKind, PostOp, QuantizeLinear, Recurrence, Reduce, ReduceKind, Reshape,
        Residual, Resize, ResizeMode, Sampling, Slice, Softmax, Split, Squeeze, Table, Tables, TopK,
        Transpose, Unary, UnaryKind, Unsqueeze, WarpPerspective, Where,
    },
};
use triune_tensor::{DType, Shape};

/// An operand: nothing, an input of the network, or elements that are known.
enum Operand {
    Missing,
    Open(DType, Vec<usize>),
    Known(Constant),
}

const NONE: Operand = Operand::Missing;

fn f32s<const N: usize>(dims: [usize; N]) -> Operand {
    open(DType::F32, dims)
}

fn open<const N: usize>(dtype: DType, dims: [usize; N]) -> Operand {
    Operand::Open(dtype, dims.to_vec())
}

fn ints<const N: usize>(values: [i64; N]) -> Operand {
    Operand::Known(Constant::from_i64(Shape::from([N]), &values).expect("as many"))
}

fn reals<const N: usize>(values: [f32; N]) -> Operand {
    Operand::Known(Constant::from_f32(Shape::from([N]), &values).expect("as many"))
}

fn infer_one(op: Op, operands: Vec<Operand>, results: usize) -> Result<(), Error> {
    let mut graph = Graph::default();
    let mut inputs = Vec::new();
    for (index, operand) in operands.into_iter().enumerate() {
        let name = format!("x{index}");
        inputs.push(match operand {
            Operand::Missing => None,
            Operand::Known(constant) => Some(graph.add_constant(name, constant)),
            Operand::Open(dtype, dims) => {
                let shape = Some(dims.into_iter().map(Dim::Fixed).collect());
                let id = graph.add_value(Value { dtype: Some(dtype), shape, ..Value::named(name) });
                graph.inputs.push(id);
                Some(id)
            }
        });
    }
    let outputs: Vec<_> =
        (0..results).map(|index| Some(graph.add_value(Value::named(format!("y{index}"))))).collect();
    graph.outputs = outputs.iter().flatten().copied().collect();
    graph.nodes.push(Node::new("it", op, inputs, outputs));
    infer::infer(&mut graph)
}

/// What is wrong can be put right: a graph has its nodes also when it is refused.
#[test]
fn refused_graphs_keep_their_nodes() {
    let mut graph = Graph::default();
    let open = Some(vec![Dim::Symbol("n".into())]);
    let x = graph.add_value(Value { dtype: Some(DType::F32), shape: open, ..Value::named("x") });
    let y = graph.add_value(Value::named("y"));
    (graph.inputs, graph.outputs) = (vec![x], vec![y]);
    let relu = Op::Unary(Unary { kind: UnaryKind::Relu });
    graph.nodes.push(Node::new("it", relu, vec![Some(x)], vec![Some(y)]));
    assert!(infer::infer(&mut graph).is_err(), "extents that nobody has bound");
    assert_eq!(graph.nodes.len(), 1);
    graph.value_mut(x).shape = Some(vec![Dim::Fixed(3)]);
    infer::infer(&mut graph).expect("extents that are bound");
    assert_eq!(graph.value(y).shape, Some(vec![Dim::Fixed(3)]));
}

fn conv(kernel: Option<[usize; 2]>, groups: usize, dilation: [usize; 2]) -> Op {
    let epilogue = Epilogue::default();
    let (stride, pad, auto_pad) = ([1; 2], [0; 4], AutoPad::Explicit);
    Op::Conv(Box::new(Conv { kernel, stride, dilation, pad, auto_pad, groups, epilogue }))
}

/// What is added before a result is stored has its extents, whatever computes it.
#[test]
fn addends_that_are_fused_have_the_results_extents() {
    let epilogue =
        || Epilogue { post_ops: vec![PostOp::Residual(Residual { quant: None, own_first: true })] };
    let Op::Conv(plain) = conv(None, 1, [1; 2]) else { panic!("a convolution") };
    let Op::Gemm(product) = gemm() else { panic!("a product") };
    let image = || vec![f32s([1, 4, 6, 6]), f32s([8, 4, 1, 1])];
    let cases: [(Op, Vec<Operand>, [usize; 4], usize); 4] = [
        (Op::Conv(Box::new(Conv { epilogue: epilogue(), ..*plain })), image(), [1, 8, 6, 6], 4),
        (
            Op::Gemm(Gemm { epilogue: epilogue(), ..product }),
            vec![f32s([3, 5]), f32s([5, 7])],
            [3, 7, 0, 0],
            2,
        ),
        (Op::MatMul(MatMul { epilogue: epilogue() }), vec![f32s([3, 5]), f32s([5, 7])], [3, 7, 0, 0], 2),
        (
            Op::Binary(Binary { kind: BinaryKind::Mul, epilogue: epilogue() }),
            vec![f32s([3, 5]), f32s([5])],
            [3, 5, 0, 0],
            2,
        ),
    ];
    for (op, operands, result, rank) in cases {
        let sized = |operands: &[Operand], dims: &[usize]| {
            let kept = operands.iter().map(|operand| match operand {
                Operand::Open(dtype, dims) => Operand::Open(*dtype, dims.clone()),
                _ => NONE,
            });
            kept.chain([NONE, Operand::Open(DType::F32, dims.to_vec())]).collect::<Vec<_>>()
        };
        let own = &result[..rank];
        infer_one(op.clone(), sized(&operands, own), 1).unwrap_or_else(|error| panic!("{op:?}: {error}"));
        for axis in 0..rank {
            let mut other = own.to_vec();
            other[axis] += 1;
            let error = infer_one(op.clone(), sized(&operands, &other), 1).expect_err("another extent");
            assert!(error.to_string().contains("fused addend"), "{op:?}: {error}");
        }
    }
}

fn pool(kernel: [usize; 2]) -> Op {
    let (stride, dilation, pad, auto_pad) = ([1; 2], [1; 2], [0; 4], AutoPad::Explicit);
    Op::Pool(Box::new(Pool {
        kind: PoolKind::Max,
        kernel,
        stride,
        dilation,
        pad,
        auto_pad,
        ceil_mode: false,
    }))
}

fn gemm() -> Op {
    let epilogue = Epilogue::default();
    Op::Gemm(Gemm { alpha: 1.0, beta: 1.0, trans_a: false, trans_b: false, epilogue })
}

fn reduce(kind: ReduceKind, axes: &[isize]) -> Op {
    Op::Reduce(Reduce { kind, axes: Some(axes.to_vec()), keep_dims: true })
}

fn arg(kind: ReduceKind, dtype: DType) -> Op {
    Op::ArgReduce(ArgReduce { kind, axis: 0, keep_dims: true, last: false, dtype })
}

fn top(index_dtype: DType) -> Op {
    Op::TopK(TopK { axis: 0, largest: true, sorted: true, index_dtype })
}

fn resize() -> Op {
    Op::Resize(Resize { mode: ResizeMode::Linear, coordinates: CoordinateMode::HalfPixel })
}

fn pad(mode: PadMode) -> Op {
    Op::Pad(Pad { mode })
}

fn warp() -> Op {
    Op::WarpPerspective(WarpPerspective { sampling: Sampling::Linear, border: BorderMode::Replicate })
}

fn tables(count: usize, axis: usize) -> Op {
    Op::Tables(Tables { tables: vec![[0; 256]; count].into(), axis })
}

fn add() -> Op {
    BinaryKind::Add.into()
}

fn split(parts: Option<usize>) -> Op {
    Op::Split(Split { axis: 0, parts })
}

/// The operator, its operands, how many results it has, and words of the refusal.
type Row = (Op, Vec<Operand>, usize, &'static str);

#[expect(clippy::too_many_lines, reason = "it is a table")]
fn rows() -> Vec<Row> {
    use DType::{Bool, F64, I8, I32, I64, U8};
    let image = || f32s([1, 3, 8, 8]);
    let shapes = |kind: BinaryKind| Op::from(kind);
    vec![
        // Every operator.
        (add(), vec![f32s([1])], 1, "input 1 is missing"),
        (
            pool([2, 2]),
            vec![f32s([3, 8, 8])],
            1,
            "input 0 has shape (3, 8, 8), but 4 dimensions are expected",
        ),
        (
            Op::Reshape(Reshape { allow_zero: false }),
            vec![f32s([4]), open(I64, [2])],
            1,
            "depends on the network's data",
        ),
        (Op::Reshape(Reshape { allow_zero: false }), vec![f32s([4]), reals([4.0])], 1, "not an integer's"),
        (Op::Reshape(Reshape { allow_zero: false }), vec![f32s([4])], 1, "input 1 is missing"),
        // Convolutions and products.
        (
            conv(Some([5, 5]), 1, [1, 1]),
            vec![image(), f32s([4, 3, 3, 3])],
            1,
            "do not have the window [5, 5]",
        ),
        (conv(None, 0, [1, 1]), vec![image(), f32s([4, 3, 3, 3])], 1, "in 0 groups do not fit"),
        (conv(None, 2, [1, 1]), vec![image(), f32s([4, 3, 3, 3])], 1, "in 2 groups do not fit"),
        (conv(None, 1, [1, 1]), vec![image(), f32s([4, 2, 3, 3])], 1, "do not fit the input (1, 3, 8, 8)"),
        (conv(None, 3, [1, 1]), vec![image(), f32s([4, 1, 3, 3])], 1, "in 3 groups do not fit"),
        (
            conv(None, 1, [9, 9]),
            vec![image(), f32s([4, 3, 3, 3])],
            1,
            "a window of 3 with dilation 9 does not fit 8",
        ),
        (
            conv(None, 1, [1, 1]),
            vec![image(), open(F64, [4, 3, 3, 3])],
            1,
            "equal floats or quantized values",
        ),
        (
            conv(None, 1, [1, 1]),
            vec![image(), f32s([4, 3, 3, 3]), f32s([3])],
            1,
            "bias (3) does not have 4 elements",
        ),
        (gemm(), vec![f32s([2, 3]), f32s([4, 5])], 1, "inner extents 3 and 4"),
        (gemm(), vec![f32s([2, 3]), open(F64, [3, 5])], 1, "equal floats or quantized values"),
        (gemm(), vec![f32s([2, 3]), f32s([3, 5]), f32s([4])], 1, "addend (4) cannot be broadcast to (2, 5)"),
        (gemm(), vec![f32s([2, 3, 1]), f32s([3, 5])], 1, "but 2 dimensions are expected"),
        (Op::MatMul(MatMul::default()), vec![f32s([]), f32s([3])], 1, "scalars have no matrix product"),
        (Op::MatMul(MatMul::default()), vec![f32s([2, 3]), f32s([4, 5])], 1, "inner extents 3 and 4"),
        (Op::MatMul(MatMul::default()), vec![f32s([2, 2, 3]), f32s([3, 3, 5])], 1, "cannot be broadcast"),
        (
            Op::MatMul(MatMul::default()),
            vec![f32s([2, 3]), open(I8, [3, 5])],
            1,
            "equal floats or quantized values",
        ),
        // Windows.
        (pool([9, 2]), vec![image()], 1, "a window of 9 with dilation 1 does not fit 8 elements"),
        (Op::GlobalPool(GlobalPool::MAX), vec![f32s([1, 3, 0, 8])], 1, "has no elements to pool"),
        (
            Op::AdaptivePool(AdaptivePool { kind: PoolKind::Max }),
            vec![image(), ints([9, 1])],
            1,
            "cannot be pooled to [9, 1]",
        ),
        (
            Op::AdaptivePool(AdaptivePool { kind: PoolKind::Max }),
            vec![image(), ints([1, 1, 1])],
            1,
            "rows and columns are expected",
        ),
        (
            Op::AdaptivePool(AdaptivePool { kind: PoolKind::Max }),
            vec![image(), ints([-1, 1])],
            1,
            "rows and columns are expected",
        ),
        // Element by element.
        (add(), vec![f32s([2]), open(I64, [2])], 1, "inputs of types float32 and int64"),
        (add(), vec![open(Bool, [2]), open(Bool, [2])], 1, "inputs of type bool"),
        (shapes(BinaryKind::And), vec![f32s([2]), f32s([2])], 1, "inputs of type float32"),
        (shapes(BinaryKind::Atan2), vec![open(I32, [2]), open(I32, [2])], 1, "inputs of type int32"),
        (add(), vec![f32s([2]), f32s([3])], 1, "shapes [2] and [3] cannot be broadcast"),
        (add(), vec![f32s([1 << 40, 1]), f32s([1, 1 << 40])], 1, "is too large"),
        (Op::Clip(Clip), vec![f32s([2]), f32s([2])], 1, "limit 1 is not one value of type float32"),
        (
            Op::Clip(Clip),
            vec![f32s([2]), NONE, open(I64, [1])],
            1,
            "limit 2 is not one value of type float32",
        ),
        (Op::Table(Table { table: Arc::new([0; 256]) }), vec![f32s([2])], 1, "8 bits are expected"),
        (tables(2, 0), vec![f32s([2])], 1, "8 bits are expected"),
        (tables(2, 1), vec![open(DType::I8, [2, 3])], 1, "2 tables along axis 1 of 3"),
        (tables(2, 2), vec![open(DType::I8, [2, 3])], 1, "axis 2 of a value of rank 2"),
        (Op::Where(Where), vec![f32s([2]), f32s([2]), f32s([2])], 1, "a condition of type float32"),
        (
            Op::Where(Where),
            vec![open(Bool, [2]), f32s([2]), open(I8, [2])],
            1,
            "inputs of types float32 and int8",
        ),
        (Op::Where(Where), vec![open(Bool, [4]), f32s([2]), f32s([2])], 1, "cannot be broadcast"),
        (
            Op::Softmax(Softmax { axis: 2, flatten: false, log: false }),
            vec![f32s([2, 2])],
            1,
            "axis 2 is not one of 2 dimensions",
        ),
        (
            Op::BatchNormalization(BatchNormalization { epsilon: 0.0 }),
            vec![f32s([]), NONE, NONE, NONE, NONE],
            1,
            "has no channel axis",
        ),
        (
            Op::BatchNormalization(BatchNormalization { epsilon: 0.0 }),
            vec![f32s([2]), f32s([2]), NONE, NONE, NONE],
            1,
            "input 1 has shape (2) and type float32; (1) and float32 are expected",
        ),
        (
            Op::BatchNormalization(BatchNormalization { epsilon: 0.0 }),
            vec![f32s([1, 2]), f32s([2]), f32s([2]), f32s([3]), f32s([2])],
            1,
            "input 3 has shape (3) and type float32; (2) and float32 are expected",
        ),
        // Quantization.
        (
            Op::QuantizeLinear(QuantizeLinear { axis: 1, dtype: U8 }),
            vec![f32s([2, 3]), reals([1.0]), open(U8, [3])],
            1,
            "scale (1) and zero point (3)",
        ),
        (
            Op::QuantizeLinear(QuantizeLinear { axis: 1, dtype: U8 }),
            vec![f32s([2, 3]), reals([1.0; 4])],
            1,
            "scale (4) does not fit axis 1",
        ),
        (
            Op::QuantizeLinear(QuantizeLinear { axis: 5, dtype: U8 }),
            vec![f32s([2, 3]), reals([1.0; 3])],
            1,
            "axis 5 is not one of 2",
        ),
        (
            Op::DequantizeLinear(DequantizeLinear { axis: 1 }),
            vec![f32s([3]), reals([1.0])],
            1,
            "values of type float32",
        ),
        (
            Op::DequantizeLinear(DequantizeLinear { axis: 1 }),
            vec![open(I8, [3]), reals([1.0]), open(U8, [1])],
            1,
            "a zero point of uint8",
        ),
        // Reductions.
        (reduce(ReduceKind::Sum, &[2]), vec![f32s([2, 2])], 1, "axes [2] are not distinct ones of 2"),
        (reduce(ReduceKind::Sum, &[0, -2]), vec![f32s([2, 2])], 1, "axes [0, -2] are not distinct ones of 2"),
        (reduce(ReduceKind::Sum, &[0]), vec![open(Bool, [2])], 1, "an input of type bool"),
        (arg(ReduceKind::Max, I64), vec![f32s([0])], 1, "has no elements along axis 0"),
        (arg(ReduceKind::Sum, I64), vec![f32s([2])], 1, "positions are those of the largest or the smallest"),
        (arg(ReduceKind::Max, U8), vec![f32s([2])], 1, "positions of type uint8"),
        (arg(ReduceKind::Max, I32), vec![open(U8, [1 << 31])], 1, "of type int32"),
        // Other extents.
        (
            Op::Reshape(Reshape { allow_zero: false }),
            vec![f32s([4]), ints([3])],
            1,
            "shape (4) cannot become [3]",
        ),
        (
            Op::Reshape(Reshape { allow_zero: false }),
            vec![f32s([4]), ints([-1, -1])],
            1,
            "cannot become [-1, -1]",
        ),
        (
            Op::Reshape(Reshape { allow_zero: false }),
            vec![f32s([4]), ints([-2, -2])],
            1,
            "cannot become [-2, -2]",
        ),
        (Op::Flatten(Flatten { axis: 3 }), vec![f32s([2, 2])], 1, "axis 3"),
        (Op::Unsqueeze(Unsqueeze), vec![f32s([2]), ints([0, 0])], 1, "axes [0, 0] of 3 dimensions"),
        (Op::Squeeze(Squeeze), vec![f32s([2, 1]), ints([0])], 1, "an axis of (2, 1) that is not 1 cannot go"),
        (Op::Expand(Expand), vec![f32s([2]), ints([3])], 1, "cannot be broadcast"),
        (Op::Expand(Expand), vec![f32s([2]), ints([-1])], 1, "a negative extent in [-1]"),
        (
            Op::Transpose(Transpose { perm: vec![0, 0] }),
            vec![f32s([2, 2])],
            1,
            "[0, 0] does not permute 2 axes",
        ),
        (Op::Transpose(Transpose { perm: vec![0] }), vec![f32s([2, 2])], 1, "[0] does not permute 2 axes"),
        (
            Op::Concat(Concat { axis: 0 }),
            vec![f32s([2, 2]), f32s([2, 3])],
            1,
            "input 1 is float32 (2, 3), which cannot be joined",
        ),
        (
            Op::Concat(Concat { axis: 0 }),
            vec![f32s([2]), open(I8, [2])],
            1,
            "input 1 is int8 (2), which cannot be joined",
        ),
        (
            Op::Slice(Slice),
            vec![f32s([4]), ints([0]), ints([4]), ints([0]), ints([0])],
            1,
            "steps [0] do not fit (4)",
        ),
        (Op::Slice(Slice), vec![f32s([4]), ints([0]), ints([4]), ints([1])], 1, "axes [1]"),
        (split(None), vec![f32s([4]), ints([1, 1])], 2, "4 elements cannot be split into 2 parts [1, 1]"),
        (split(None), vec![f32s([4]), ints([5, -1])], 2, "a negative size"),
        (split(None), vec![f32s([4]), ints([4])], 2, "cannot be split into 2 parts [4]"),
        (pad(PadMode::Constant), vec![f32s([3]), ints([-4, 0])], 1, "pads [-4, 0]"),
        (pad(PadMode::Reflect), vec![f32s([3]), ints([3, 0])], 1, "pads [3, 0]"),
        (pad(PadMode::Constant), vec![f32s([3]), ints([1])], 1, "pads [1]"),
        (resize(), vec![f32s([1, 1, 2, 2]), NONE, NONE, ints([1, 1, -2, 2])], 1, "a negative size"),
        (resize(), vec![f32s([1, 1, 2, 2]), NONE, f32s([4])], 1, "scales are not f32 or depend on"),
        (resize(), vec![f32s([1, 1, 2, 2]), NONE, reals([1.0, 1.0, 0.0, 2.0])], 1, "scales [1, 1, 0, 2]"),
        (resize(), vec![f32s([1, 1, 2, 2]), NONE, NONE, ints([1, 2])], 1, "cannot become [1, 2]"),
        (resize(), vec![f32s([1, 1, 0, 2]), NONE, NONE, ints([1, 1, 2, 2])], 1, "cannot become [1, 1, 2, 2]"),
        // Indices.
        (Op::Gather(Gather { axis: 0 }), vec![f32s([3]), f32s([1])], 1, "indices of type float32"),
        (
            Op::Gather(Gather { axis: 0 }),
            vec![f32s([3]), ints([3])],
            1,
            "index 3 is outside of axis 0 of extent 3",
        ),
        (Op::Gather(Gather { axis: 1 }), vec![f32s([3]), ints([0])], 1, "axis 1 is not one of 1"),
        (
            Op::GatherElements(GatherElements { axis: 0 }),
            vec![f32s([3]), f32s([1])],
            1,
            "indices of type float32",
        ),
        (
            Op::GatherElements(GatherElements { axis: 0 }),
            vec![f32s([3, 2]), open(I64, [3])],
            1,
            "indices of shape (3) for (3, 2)",
        ),
        (
            Op::GatherElements(GatherElements { axis: 0 }),
            vec![f32s([3, 2]), open(I64, [3, 3])],
            1,
            "indices of shape (3, 3)",
        ),
        (
            Op::GatherElements(GatherElements { axis: 0 }),
            vec![f32s([3]), ints([-4])],
            1,
            "index -4 is outside of axis 0",
        ),
        (
            Op::GatherNd(GatherNd { batch_dims: 0 }),
            vec![f32s([3]), open(I64, [2])],
            1,
            "indices of shape (2) for (3)",
        ),
        (
            Op::GatherNd(GatherNd { batch_dims: 0 }),
            vec![f32s([3]), open(I64, [])],
            1,
            "indices of shape () for (3)",
        ),
        (
            Op::GatherNd(GatherNd { batch_dims: 1 }),
            vec![f32s([3, 2]), open(I64, [2, 1])],
            1,
            "indices of shape (2, 1)",
        ),
        (
            Op::GatherNd(GatherNd { batch_dims: 0 }),
            vec![f32s([3]), open(U8, [1])],
            1,
            "indices of type uint8",
        ),
        (
            Op::Index(Index { axes: vec![1, 0] }),
            vec![f32s([3, 3]), ints([0]), ints([0])],
            1,
            "axes [1, 0] of rank 2",
        ),
        (
            Op::Index(Index { axes: vec![0, 1] }),
            vec![f32s([3, 3]), ints([0])],
            1,
            "1 tensors of indices for 2 axes",
        ),
        (
            Op::Index(Index { axes: vec![0, 1] }),
            vec![f32s([3, 3]), ints([0, 1]), ints([0, 1, 2])],
            1,
            "indices of shapes [2] and (3)",
        ),
        (Op::Index(Index { axes: vec![0] }), vec![f32s([3]), f32s([2])], 1, "indices of type float32"),
        (
            Op::Index(Index { axes: vec![0] }),
            vec![f32s([2, 1, 1, 1, 1]), open(I64, [1, 1, 1, 1, 1])],
            1,
            "a result of 9 dimensions",
        ),
        (top(I64), vec![f32s([3]), ints([4])], 2, "k = 4 of 3 elements"),
        (top(I64), vec![f32s([3]), ints([1, 1])], 2, "k is not one number"),
        (top(U8), vec![f32s([3]), ints([1])], 2, "indices of type uint8"),
        (top(I32), vec![open(U8, [1 << 31]), ints([1])], 2, "rows of 2147483648 elements"),
        // What comes of data.
        (Op::from(NonZero), vec![f32s([3])], 1, "depend on data"),
        (
            Op::from(CondTake { comparison: Comparison::Equal, value: 0.0, epsilon: 0.0 }),
            vec![f32s([3]), f32s([2])],
            2,
            "elements (3) and mask (2)",
        ),
        (
            Op::from(Nms { threshold: 0.5, max_output: 1 }),
            vec![f32s([1, 2, 5])],
            2,
            "boxes (1, 2, 5) of type float32",
        ),
        (
            Op::from(NonMaxSuppression { center_point_box: false }),
            vec![f32s([1, 2, 4]), f32s([1, 1, 3])],
            1,
            "boxes (1, 2, 4) and scores (1, 1, 3)",
        ),
        (
            warp(),
            vec![open(I64, [1, 1, 2, 2]), f32s([1, 3, 3]), NONE, ints([2, 2])],
            1,
            "images of type int64",
        ),
        (warp(), vec![f32s([1, 1, 2, 2]), f32s([1, 3, 2]), NONE, ints([2, 2])], 1, "matrices (1, 3, 2)"),
        (
            warp(),
            vec![f32s([1, 1, 2, 2]), f32s([1, 3, 3]), open(I64, [1]), ints([2, 2])],
            1,
            "1 of type i32 are expected",
        ),
        (warp(), vec![f32s([1, 1, 2, 2]), f32s([2, 3, 3]), NONE, ints([2, 2])], 1, "2 matrices for 1 images"),
        (warp(), vec![f32s([1, 1, 0, 2]), f32s([1, 3, 3]), NONE, ints([2, 2])], 1, "has no elements to take"),
        (recurrence(), vec![f32s([5, 2]), f32s([2, 12, 3])], 1, "3 dimensions are expected"),
        (
            recurrence(),
            vec![f32s([5, 2, 23]), f32s([2, 12, 3])],
            1,
            "input (5, 2, 23) of 2 · 4 gates of 3 units",
        ),
        (recurrence(), vec![f32s([0, 2, 24]), f32s([2, 12, 3])], 1, "input (0, 2, 24)"),
        (recurrence(), vec![f32s([5, 2, 24]), f32s([1, 12, 3])], 1, "recurrent weights (1, 12, 3)"),
        (recurrence(), vec![f32s([5, 2, 24]), f32s([2, 12, 3]), f32s([2, 8])], 1, "vectors (2, 8)"),
        (
            recurrence(),
            vec![f32s([5, 2, 24]), f32s([2, 12, 3]), NONE, f32s([1, 2, 2, 3])],
            1,
            "initial states (1, 2, 2, 3)",
        ),
        (
            recurrence(),
            vec![f32s([5, 2, 24]), f32s([2, 12, 3]), NONE, NONE, open(I64, [2])],
            1,
            "lengths (2) of type int64; [2] of type int32",
        ),
        (
            recurrence(),
            vec![open(DType::F64, [5, 2, 24]), open(DType::F64, [2, 12, 3])],
            1,
            "a recurrence over float64",
        ),
    ]
}

/// Both directions of a cell with four gates, three vectors and two states.
fn recurrence() -> Op {
    Op::Recurrence(Recurrence {
        cell: CellKind::Lstm,
        backwards: vec![false, true],
        functions: vec![[UnaryKind::Tanh; 3]; 2],
        clip: 1.0,
        coupled: false,
    })
}

#[test]
fn each_wrong_operand_is_named() {
    for (index, (op, operands, results, words)) in rows().into_iter().enumerate() {
        let name = op.name();
        let Err(error) = infer_one(op, operands, results) else {
            panic!("row {index}, {name}: '{words}' is not refused");
        };
        let text = error.to_string();
        assert!(matches!(error, Error::Shape { .. }), "row {index}: {text}");
        assert!(text.starts_with(&format!("node 'it' ({name}): ")), "row {index}: {text}");
        assert!(text.contains(words), "row {index}: '{text}' does not say '{words}'");
    }
}

#[test]
fn the_same_operators_take_what_is_right() {
    let fine: Vec<(Op, Vec<Operand>, usize)> = vec![
        (conv(Some([3, 3]), 1, [1, 1]), vec![f32s([1, 3, 8, 8]), f32s([4, 3, 3, 3]), f32s([4])], 1),
        (gemm(), vec![f32s([2, 3]), f32s([3, 5]), f32s([5])], 1),
        (add(), vec![f32s([2]), f32s([1])], 1),
        (Op::Gather(Gather { axis: 0 }), vec![f32s([3]), ints([-3, 2])], 1),
        (split(None), vec![f32s([4]), ints([1, 3])], 2),
        (top(DType::I64), vec![f32s([3]), ints([3])], 2),
        (warp(), vec![f32s([1, 1, 2, 2]), f32s([1, 3, 3]), NONE, ints([2, 2])], 1),
        (recurrence(), vec![f32s([5, 2, 24]), f32s([2, 12, 3]), f32s([2, 9]), f32s([2, 2, 2, 3])], 1),
    ];
    for (op, operands, results) in fine {
        infer_one(op, operands, results).expect("it is right");
    }
}

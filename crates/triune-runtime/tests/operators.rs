//! Single operators through compile, deploy and run, against the naive interpreter: every element type that they take,
//! operands in whatever order they lie.

use triune_graph::{
    Graph, Op, ValueId,
    ops::{ArgReduce, Reduce, ReduceKind, Slice, Transpose},
};
use triune_runtime::{Session, SessionOptions, TensorRef};
use triune_tensor::DType;
use triune_testing::{GraphBuilder, Tensor, interpret};

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Small values, so that equal ones occur; some of either sign where the type has signs.
    fn tensor(&mut self, dtype: DType, shape: &[usize]) -> Tensor {
        let count: usize = shape.iter().product();
        if dtype.is_float() {
            let values: Vec<f64> = (0..count).map(|_| (self.next() % 65) as f64 / 8.0 - 4.0).collect();
            return Tensor::of_floats(dtype, shape, &values);
        }
        let low = match dtype {
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => -9,
            _ => 0,
        };
        let limit = if dtype == DType::Bool { 2 } else { 19 };
        let values: Vec<i64> = (0..count).map(|_| (self.next() % limit) as i64 + low).collect();
        Tensor::of_integers(dtype, shape, &values)
    }
}

/// Runs a graph on one and on three threads.
fn run(graph: &Graph, inputs: &[(&str, Tensor)]) -> Vec<Tensor> {
    let mut results = [1, 3].map(|threads| {
        let mut session =
            Session::new(graph.clone(), &SessionOptions { threads, ..SessionOptions::default() })
                .expect("a session");
        let bytes: Vec<Vec<u8>> = inputs.iter().map(|(_, tensor)| tensor.to_bytes()).collect();
        let operands: Vec<TensorRef<'_>> = (inputs.iter().zip(&bytes))
            .map(|((_, tensor), bytes)| TensorRef { dtype: tensor.dtype(), shape: &tensor.shape, bytes })
            .collect();
        session.run(&operands).expect("a run")
    });
    let [one, three] = &mut results;
    assert_eq!(one, three, "threads change nothing");
    one.iter().map(|tensor| Tensor::from_bytes(tensor.dtype, &tensor.shape, &tensor.bytes)).collect()
}

/// Compares a graph's results with the interpreter's: integers exactly, floats within `tolerance` of their size.
#[track_caller]
fn check(graph: &Graph, inputs: &[(&str, Tensor)], tolerance: f64, what: &str) {
    let expected = interpret(graph, inputs);
    let got = run(graph, inputs);
    assert_eq!(got.len(), expected.len(), "{what}");
    for (got, expected) in got.iter().zip(&expected) {
        assert_eq!((got.dtype(), &got.shape), (expected.dtype(), &expected.shape), "{what}");
        if !expected.dtype().is_float() {
            assert_eq!(got, expected, "{what}");
            continue;
        }
        for (at, (got, expected)) in got.reals().into_iter().zip(expected.reals()).enumerate() {
            let close = (got - expected).abs() <= tolerance * expected.abs().max(1.0);
            let same = got == expected || got.is_nan() && expected.is_nan();
            assert!(same || close, "{what}: [{at}] {got}, expected {expected}");
        }
    }
}

/// An input seen as it is, transposed, or every second element of it: with the shape that it has then.
fn seen(builder: &mut GraphBuilder, x: ValueId, shape: &[usize], way: usize) -> (ValueId, Vec<usize>) {
    match way {
        0 => (x, shape.to_vec()),
        1 => {
            let perm: Vec<usize> = (0..shape.len()).map(|axis| (axis + 1) % shape.len()).collect();
            let dims = perm.iter().map(|&axis| shape[axis]).collect();
            (builder.node(Op::Transpose(Transpose { perm }), &[x]), dims)
        }
        _ => {
            let last = shape.len() - 1;
            let mut ints = |values: &[i64]| {
                let tensor = Tensor::i64(&[values.len()], values);
                builder.constant(&tensor)
            };
            let operands = [x, ints(&[1]), ints(&[i64::MAX]), ints(&[last as i64]), ints(&[2])];
            let mut dims = shape.to_vec();
            dims[last] /= 2;
            (builder.node(Op::Slice(Slice), &operands), dims)
        }
    }
}

const REDUCTIONS: [ReduceKind; 6] = [
    ReduceKind::Sum,
    ReduceKind::SumSquare,
    ReduceKind::Product,
    ReduceKind::Min,
    ReduceKind::Max,
    ReduceKind::Mean,
];

const NUMBERS: [DType; 9] = [
    DType::F32,
    DType::I32,
    DType::I64,
    DType::I8,
    DType::U8,
    DType::I16,
    DType::U16,
    DType::U32,
    DType::U64,
];

#[test]
fn reductions() {
    let mut random = Random(1);
    let shape = [2, 5, 4, 6];
    let axes: [Option<&[isize]>; 7] =
        [None, Some(&[0]), Some(&[-1]), Some(&[1]), Some(&[2, 3]), Some(&[0, 2]), Some(&[])];
    for dtype in NUMBERS {
        for kind in REDUCTIONS {
            for (index, axes) in axes.iter().enumerate() {
                let (way, keep_dims) = (index % 3, (index + kind as usize).is_multiple_of(2));
                let mut builder = GraphBuilder::new();
                let x = builder.input("x", dtype, &shape);
                let (seen, _) = seen(&mut builder, x, &shape, way);
                let op = Reduce { kind, axes: axes.map(<[isize]>::to_vec), keep_dims };
                let what = format!("{dtype} {op:?} seen {way}");
                let y = builder.node(Op::Reduce(op), &[seen]);
                let inputs = [("x", random.tensor(dtype, &shape))];
                check(&builder.finish(&[y]), &inputs, 1e-6, &what);
            }
        }
    }
}

#[test]
fn reductions_to_a_shape() {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[2, 3, 4]);
    let target = builder.constant(&Tensor::i64(&[3], &[1, 3, 1]));
    let y = builder
        .node(Op::Reduce(Reduce { kind: ReduceKind::Sum, axes: None, keep_dims: false }), &[x, target]);
    check(&builder.finish(&[y]), &[("x", Random(3).tensor(DType::F32, &[2, 3, 4]))], 1e-6, "to (1, 3, 1)");
}

#[test]
fn sums_over_nothing() {
    for (kind, expected) in [(ReduceKind::Sum, 0.0), (ReduceKind::Product, 1.0)] {
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", DType::F32, &[2, 3]);
        let operands = [[3], [3], [1]].map(|ints| builder.constant(&Tensor::i64(&[1], &ints)));
        let nothing = builder.node(Op::Slice(Slice), &[x, operands[0], operands[1], operands[2]]);
        let y = builder.node(Op::Reduce(Reduce::along(kind, &[1])), &[nothing]);
        let got = run(&builder.finish(&[y]), &[("x", Tensor::f32(&[2, 3], &[7.0; 6]))]);
        assert_eq!(got, [Tensor::f32(&[2, 1], &[expected; 2])]);
    }
}

#[test]
fn positions_of_extremes() {
    let mut random = Random(2);
    let shape = [3, 5, 4, 6];
    for dtype in NUMBERS {
        for (index, (kind, last)) in [
            (ReduceKind::Max, false),
            (ReduceKind::Max, true),
            (ReduceKind::Min, false),
            (ReduceKind::Min, true),
        ]
        .into_iter()
        .enumerate()
        {
            for axis in [0_isize, 1, -1] {
                let mut builder = GraphBuilder::new();
                let x = builder.input("x", dtype, &shape);
                let (seen, _) = seen(&mut builder, x, &shape, (index + axis.unsigned_abs()) % 3);
                let dtype_out = if index.is_multiple_of(2) { DType::I64 } else { DType::I32 };
                let op = ArgReduce { kind, axis, keep_dims: index < 2, last, dtype: dtype_out };
                let y = builder.node(Op::ArgReduce(op), &[seen]);
                let inputs = [("x", random.tensor(dtype, &shape))];
                check(&builder.finish(&[y]), &inputs, 0.0, &format!("{dtype} {op:?}"));
            }
        }
    }
    // A NaN wins.
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[4]);
    let op = |kind| ArgReduce { kind, axis: 0, keep_dims: false, last: false, dtype: DType::I64 };
    let y = [ReduceKind::Max, ReduceKind::Min].map(|kind| builder.node(Op::ArgReduce(op(kind)), &[x]));
    let got = run(&builder.finish(&y), &[("x", Tensor::f32(&[4], &[1.0, f32::NAN, 3.0, f32::NAN]))]);
    assert_eq!(got, vec![Tensor::i64(&[], &[1]); 2]);
}

//! Operators over values that are known before the network runs: folding gives what the interpreter gives, to the bit.

use triune_graph::{
    Graph, Op,
    ops::{
        BinaryKind, Cast, Concat, Expand, Gather, Pad, PadMode, Reduce, ReduceKind, Slice, Split, Transpose,
        Unary, UnaryKind, Where,
    },
    passes::fold_constants,
};
use triune_tensor::DType;
use triune_testing::{GraphBuilder, Random, Tensor, interpret};

/// One operator on constants.
fn one(op: Op, constants: &[Tensor], results: usize) -> Graph {
    let mut builder = GraphBuilder::new();
    let operands: Vec<_> = constants.iter().map(|tensor| Some(builder.constant(tensor))).collect();
    let made = builder.node_with(op, &operands, results);
    builder.finish(&made)
}

/// Folds, and compares if there was something to fold; gives whether there was.
#[track_caller]
fn folds(op: Op, constants: &[Tensor], results: usize) -> bool {
    let what = format!("{op:?} of {constants:?}");
    let graph = one(op, constants, results);
    let mut folded = graph.clone();
    fold_constants(&mut folded).unwrap_or_else(|error| panic!("{what}: {error}"));
    let known: Option<Vec<Tensor>> = folded
        .outputs
        .iter()
        .map(|&id| Some(Tensor::of_constant(folded.value(id).constant.as_ref()?)))
        .collect();
    let Some(known) = known else { return false };
    for (known, expected) in known.iter().zip(interpret(&graph, &[])) {
        assert_eq!((known.dtype(), &known.shape), (expected.dtype(), &expected.shape), "{what}");
        assert_eq!(known.to_bytes(), expected.to_bytes(), "{what}");
    }
    true
}

#[test]
fn functions() {
    use BinaryKind as B;
    use UnaryKind as U;
    let arithmetic = [B::Add, B::Sub, B::Mul, B::Div, B::FloorDiv, B::Min, B::Max, B::PRelu];
    let integral = [B::Mod, B::Rem, B::And, B::Or, B::Xor];
    let questions = [B::Equal, B::NotEqual, B::Less, B::LessOrEqual, B::Greater, B::GreaterOrEqual];
    let mut random = Random(1);
    for dtype in [DType::F32, DType::I64, DType::I32] {
        for kind in arithmetic.into_iter().chain(questions).chain(integral) {
            if dtype == DType::F32 && integral.contains(&kind) {
                continue;
            }
            for (a, b) in [(&[2, 3][..], &[2, 3][..]), (&[3], &[2, 1]), (&[2, 1, 3], &[4, 1]), (&[], &[5])] {
                // No quotient by 0; rests and quotients of either sign.
                let divisor: Vec<f64> = random
                    .tensor(dtype, b)
                    .reals()
                    .into_iter()
                    .map(|x| if x == 0.0 { -3.0 } else { x })
                    .collect();
                let divisor = match dtype {
                    DType::F32 => Tensor::of_floats(dtype, b, &divisor),
                    _ => {
                        Tensor::of_integers(dtype, b, &divisor.iter().map(|&x| x as i64).collect::<Vec<_>>())
                    }
                };
                assert!(folds(kind.into(), &[random.tensor(dtype, a), divisor], 1), "{kind:?} of {dtype}");
            }
        }
    }
    let powers = [Tensor::i64(&[4], &[2, -3, 0, 7]), Tensor::i64(&[4], &[10, 3, 0, 1])];
    assert!(folds(B::Pow.into(), &powers, 1));
    for kind in [B::And, B::Or, B::Xor] {
        let truths = |bytes: &[u8]| Tensor::from_bytes(DType::Bool, &[4], bytes);
        assert!(folds(kind.into(), &[truths(&[0, 0, 1, 1]), truths(&[0, 1, 0, 1])], 1), "{kind:?}");
    }
    let odd = Tensor::f32(&[6], &[-0.0, 2.5, -2.5, f32::INFINITY, 7.75, -1.5]);
    for kind in [
        U::Identity,
        U::Relu,
        U::LeakyRelu(0.25),
        U::Clip([-1.0, 2.0]),
        U::Sqrt,
        U::Reciprocal,
        U::Abs,
        U::Neg,
        U::Floor,
        U::Ceil,
        U::Round,
        U::RoundHalfAway,
        U::Square,
    ] {
        let x = if kind == U::Sqrt { Tensor::f32(&[2], &[2.0, 0.25]) } else { odd.clone() };
        let x = if matches!(kind, U::Relu | U::Clip(_)) { Tensor::f32(&[3], &[1.5, -2.0, 7.0]) } else { x };
        assert!(folds(Op::Unary(Unary { kind }), &[x], 1), "{kind:?}");
    }
    for kind in [U::Neg, U::Abs] {
        for x in [Tensor::i64(&[3], &[-7, 0, 1 << 40]), Tensor::i32(&[2], &[-7, 9])] {
            assert!(folds(Op::Unary(Unary { kind }), &[x], 1), "{kind:?}");
        }
    }
    // What the kernels' own bits decide about is left to them.
    assert!(!folds(Op::Unary(Unary { kind: U::Exp }), &[odd], 1));
}

#[test]
fn movements() {
    let mut random = Random(2);
    let ints = |values: &[i64]| Tensor::i64(&[values.len()], values);
    for dtype in DType::ALL {
        let x = random.tensor(dtype, &[2, 3, 4]);
        let check = |op: Op, more: &[Tensor], results: usize| {
            let operands = [std::slice::from_ref(&x), more].concat();
            let what = format!("{op:?}");
            assert!(folds(op, &operands, results), "{what} of {dtype}");
        };
        check(Op::Transpose(Transpose { perm: vec![2, 0, 1] }), &[], 1);
        check(Op::Slice(Slice), &[ints(&[1, 0]), ints(&[3, 4]), ints(&[1, 2]), ints(&[1, 2])], 1);
        check(Op::Slice(Slice), &[ints(&[-1]), ints(&[i64::MIN]), ints(&[2]), ints(&[-2])], 1);
        check(Op::Split(Split { axis: 1, parts: None }), &[ints(&[2, 1])], 2);
        check(Op::Split(Split { axis: -1, parts: None }), &[ints(&[1, 0, 3])], 3);
        check(Op::Gather(Gather { axis: 1 }), &[Tensor::i64(&[2, 2], &[2, -3, 0, 1])], 1);
        check(Op::Gather(Gather { axis: -1 }), &[Tensor::i64(&[], &[3])], 1);
        check(Op::Expand(Expand), &[ints(&[5, 1, 3, 1])], 1);
        let pad = || Op::Pad(Pad { mode: PadMode::Constant });
        if matches!(dtype, DType::F32 | DType::I64 | DType::I8) {
            check(pad(), &[ints(&[0, 1, 2, 3, 0, 1])], 1);
        }
        let border = random.tensor(dtype, &[]);
        check(pad(), &[ints(&[1, -2, 0, 0, 1, -1]), border.clone()], 1);
        check(pad(), &[ints(&[2, -1]), border.clone(), ints(&[-1])], 1);
        check(pad(), &[ints(&[-3, 5]), border, ints(&[1])], 1);
        assert!(!folds(Op::Pad(Pad { mode: PadMode::Edge }), &[x.clone(), ints(&[0, 0, 1, 0, 0, 1])], 1));
        let beside = random.tensor(dtype, &[2, 1, 4]);
        assert!(folds(Op::Concat(Concat { axis: 1 }), &[x.clone(), beside.clone(), x.clone()], 1));
        let condition = random.tensor(DType::Bool, &[3, 1]);
        assert!(folds(Op::Where(Where), &[condition, x.clone(), beside], 1));
        for to in DType::ALL {
            folds(Op::Cast(Cast { to }), std::slice::from_ref(&x), 1);
        }
    }
    for to in [DType::F32, DType::I32, DType::I64, DType::Bool, DType::U8] {
        for from in [DType::F32, DType::I32, DType::I64] {
            let x = random.tensor(from, &[5]);
            assert!(folds(Op::Cast(Cast { to }), &[x], 1), "{from} as {to}");
        }
    }
}

#[test]
fn reductions_of_integers() {
    let mut random = Random(3);
    for dtype in [DType::I32, DType::I64] {
        for kind in
            [ReduceKind::Sum, ReduceKind::SumSquare, ReduceKind::Product, ReduceKind::Min, ReduceKind::Max]
        {
            for axes in [Some(vec![0]), Some(vec![-1]), Some(vec![0, 2]), Some(vec![1]), None] {
                for keep_dims in [true, false] {
                    let op = Reduce { kind, axes: axes.clone(), keep_dims };
                    let x = random.tensor(dtype, &[2, 3, 4]);
                    assert!(folds(Op::Reduce(op), &[x], 1), "{kind:?} of {dtype}");
                }
            }
        }
    }
}

//! Operands that lie in another order than the result, or repeat, and copies along more axes than a command has.

use proptest::prelude::*;
use triune_graph::{
    Graph, Op,
    ops::{AutoPad, Binary, BinaryKind, Epilogue, Expand, Pool, PoolKind, Transpose, Where},
};
use triune_runtime::{Session, SessionOptions, TensorRef};
use triune_tensor::DType;
use triune_testing::{GraphBuilder, Random, Tensor, interpret};

/// What a session makes of the inputs has the interpreter's bits.
fn agrees(graph: &Graph, inputs: &[(&str, Tensor)]) {
    let mut session = Session::new(graph.clone(), &SessionOptions::default()).expect("a session");
    let bytes: Vec<Vec<u8>> = inputs.iter().map(|(_, input)| input.to_bytes()).collect();
    let operands: Vec<TensorRef<'_>> = (inputs.iter().zip(&bytes))
        .map(|((_, input), bytes)| TensorRef { dtype: input.dtype(), shape: &input.shape, bytes })
        .collect();
    let got = session.run(&operands).expect("a run");
    for (wanted, got) in interpret(graph, inputs).iter().zip(&got) {
        assert_eq!(wanted.shape, got.shape.to_vec());
        assert_eq!(wanted.to_bytes(), got.bytes);
    }
}

fn order(rank: usize) -> impl Strategy<Value = Vec<usize>> {
    Just((0..rank).collect::<Vec<usize>>()).prop_shuffle()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Two operands, each transposed; the second one repeats along some axes.
    #[test]
    fn operands_in_other_orders(
        seed: u64,
        dims in prop::sample::select(vec![[2, 3, 40, 17], [1, 16, 24, 24], [1, 3, 50, 50], [4, 64, 3, 5], [1, 1, 70, 70]]),
        orders in [order(4), order(4)],
        repeats in prop::array::uniform4(any::<bool>()),
        kind in prop::sample::select(vec![BinaryKind::Sub, BinaryKind::Equal, BinaryKind::Min]),
    ) {
        let mut builder = GraphBuilder::new();
        let mut transposed = |name: &str, dims: [usize; 4], order: &[usize]| {
            let mut stored = [0; 4];
            order.iter().zip(dims).for_each(|(&axis, extent)| stored[axis] = extent);
            let x = builder.input(name, DType::F32, &stored);
            let perm = order.to_vec();
            let tensor = Tensor::f32(&stored, &Random(seed ^ name.len() as u64).floats(stored.iter().product()));
            (builder.node(Op::Transpose(Transpose { perm }), &[x]), tensor)
        };
        let mut repeated = dims;
        repeated.iter_mut().zip(repeats).filter(|(_, repeats)| *repeats).for_each(|(extent, _)| *extent = 1);
        let (a, x) = transposed("a", dims, &orders[0]);
        let (b, z) = transposed("bb", repeated, &orders[1]);
        let y = builder.node(Op::Binary(Binary { kind, epilogue: Epilogue::default() }), &[a, b]);
        agrees(&builder.finish_inferred(&[y]), &[("a", x), ("bb", z)]);
    }

    /// A choice, a repetition and a transposition over eight axes of which no two lie one behind the other.
    #[test]
    fn eight_axes(seed: u64, order in order(8), repeats in prop::array::uniform8(any::<bool>())) {
        let dims = [2, 3, 2, 1, 3, 2, 2, 3];
        let small: Vec<usize> = dims.iter().zip(repeats).map(|(&extent, one)| if one { 1 } else { extent }).collect();
        let mut builder = GraphBuilder::new();
        let (x, z) = (builder.input("x", DType::F32, &dims), builder.input("z", DType::F32, &small));
        let shape = builder.constant(&Tensor::i64(&[8], &dims.map(|extent| extent as i64)));
        let wide = builder.node(Op::Expand(Expand), &[z, shape]);
        let greater = Op::Binary(Binary { kind: BinaryKind::Greater, epilogue: Epilogue::default() });
        let which = builder.node(greater, &[x, z]);
        let chosen = builder.node(Op::Where(Where), &[which, x, z]);
        let turned = builder.node(Op::Transpose(Transpose { perm: order }), &[chosen]);
        let tensor = |dims: &[usize], seed| Tensor::f32(dims, &Random(seed).floats(dims.iter().product()));
        let inputs = [("x", tensor(&dims, seed)), ("z", tensor(&small, seed ^ 1))];
        agrees(&builder.finish_inferred(&[wide, turned]), &inputs);
    }

    /// The largest elements of long windows: rows first, then columns.
    #[test]
    fn maxima_of_long_windows(
        seed: u64,
        channels in prop::sample::select(vec![1_usize, 3, 16, 40]),
        size in [1_usize..30, 1_usize..30],
        kernel in [4_usize..12, 4_usize..12],
        stride in [1_usize..4, 1_usize..4],
        pads in prop::array::uniform4(0_usize..4),
    ) {
        prop_assume!((0..2).all(|axis| size[axis] + pads[axis] + pads[axis + 2] >= kernel[axis]));
        let mut builder = GraphBuilder::new();
        let dims = [2, channels, size[0], size[1]];
        let x = builder.input("x", DType::F32, &dims);
        let pool = Pool {
            kind: PoolKind::Max,
            kernel,
            stride,
            dilation: [1; 2],
            pad: pads,
            auto_pad: AutoPad::Explicit,
            ceil_mode: false,
        };
        let y = builder.node(Op::Pool(pool.into()), &[x]);
        let x = Tensor::f32(&dims, &Random(seed).floats(dims.iter().product()));
        agrees(&builder.finish_inferred(&[y]), &[("x", x)]);
    }
}

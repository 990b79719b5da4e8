//! Image operators through compile, deploy and run: against the naive interpreter, and against what MegEngine gave.

use proptest::prelude::*;
use triune_graph::{
    Graph, Op, Quantization,
    ops::{AdaptivePool, BorderMode, PoolKind, Sampling, WarpPerspective},
};
use triune_runtime::{Session, SessionOptions, TensorRef};
use triune_tensor::{DType, QuantParams, Rounding};
use triune_testing::{GraphBuilder, Random, Tensor, interpret, test_data};

fn run(graph: &Graph, inputs: &[&Tensor], threads: usize) -> Vec<Tensor> {
    let mut session = Session::new(graph.clone(), &SessionOptions { threads, ..SessionOptions::default() })
        .expect("a session");
    let bytes: Vec<Vec<u8>> = inputs.iter().map(|input| input.to_bytes()).collect();
    let operands: Vec<TensorRef<'_>> = (inputs.iter().zip(&bytes))
        .map(|(input, bytes)| TensorRef { dtype: input.dtype(), shape: &input.shape, bytes })
        .collect();
    let outputs = session.run(&operands).expect("a run");
    outputs.iter().map(|tensor| Tensor::from_bytes(tensor.dtype, &tensor.shape, &tensor.bytes)).collect()
}

fn close(expected: &Tensor, got: &Tensor, tolerance: f32) {
    assert_eq!((expected.dtype(), &expected.shape), (got.dtype(), &got.shape));
    let largest = expected.as_f32().iter().fold(1e-30_f32, |most, value| most.max(value.abs()));
    for (&a, &b) in expected.as_f32().iter().zip(got.as_f32()) {
        assert!((a - b).abs() <= tolerance * largest, "{a} {b} of {largest}");
    }
}

fn borders() -> impl Strategy<Value = BorderMode> {
    prop::sample::select(vec![
        BorderMode::Constant(0.75),
        BorderMode::Replicate,
        BorderMode::Reflect,
        BorderMode::Reflect101,
        BorderMode::Wrap,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn warps_agree(
        seed: u64,
        (images, results) in (1_usize..4, 1_usize..4),
        channels in 1_usize..20,
        size in [1_usize..9, 1_usize..9],
        out in [1_usize..9, 1_usize..9],
        border in borders(),
        indexed: bool,
    ) {
        let results = if indexed { results } else { images };
        let mut builder = GraphBuilder::new();
        let shape = [images, channels, size[0], size[1]];
        let x = builder.input("x", DType::F32, &shape);
        let m = builder.input("m", DType::F32, &[results, 3, 3]);
        let size = builder.constant(&Tensor::i64(&[2], &out.map(|extent| extent as i64)));
        let indices: Vec<i32> = (0..results).map(|i| ((seed >> i) as usize % images) as i32).collect();
        let indices = indexed.then(|| builder.constant(&Tensor::i32(&[results], &indices)));
        let op = Op::WarpPerspective(WarpPerspective { sampling: Sampling::Linear, border });
        let y = builder.node_with(op, &[Some(x), Some(m), indices, Some(size)], 1)[0];
        let graph = builder.finish_inferred(&[y]);
        let x = Tensor::f32(&shape, &Random(seed).floats(shape.iter().product()));
        let mut matrices: Vec<f32> = Random(seed ^ 5).floats(9 * results);
        for m in matrices.chunks_exact_mut(9) {
            (m[2], m[5], m[6], m[7], m[8]) = (3.0 * m[2], 3.0 * m[5], 0.03 * m[6], 0.03 * m[7], 1.0);
        }
        let m = Tensor::f32(&[results, 3, 3], &matrices);
        let expected = &interpret(&graph, &[("x", x.clone()), ("m", m.clone())])[0];
        let got = &run(&graph, &[&x, &m], 1)[0];
        prop_assert_eq!(got.to_bytes(), run(&graph, &[&x, &m], 3)[0].to_bytes());
        close(expected, got, 1e-5);
    }

    #[test]
    fn adaptive_pools_agree(
        seed: u64,
        channels in 1_usize..20,
        size in [1_usize..12, 1_usize..12],
        divide in [1_usize..12, 1_usize..12],
        average: bool,
        quantized: bool,
    ) {
        let out = [0, 1].map(|axis| (size[axis] / divide[axis]).max(1));
        let kind = if average { PoolKind::Average { count_include_pad: false } } else { PoolKind::Max };
        let mut builder = GraphBuilder::new();
        let shape = [2, channels, size[0], size[1]];
        let x = builder.input("x", DType::F32, &shape);
        let params = QuantParams { scale: 0.01, zero_point: 0 };
        let pooled = if quantized { builder.quantize(x, params, DType::I8) } else { x };
        let size = builder.constant(&Tensor::i64(&[2], &out.map(|extent| extent as i64)));
        let mut y = builder.node(Op::AdaptivePool(AdaptivePool { kind }), &[pooled, size]);
        if quantized {
            let graph = builder.graph_mut();
            if average {
                let operands = vec![Some(params), None];
                let quant = Quantization { operands, weights: [].into(), dtype: DType::I8, result: params };
                graph.nodes.last_mut().expect("the pool").quant = Some(Box::new(quant));
            }
            graph.rounding = Rounding::HalfAwayFromZero;
            y = builder.dequantize(y, params, DType::I8);
        }
        let graph = builder.finish_inferred(&[y]);
        let x = Tensor::f32(&shape, &Random(seed).floats(shape.iter().product()));
        let expected = &interpret(&graph, &[("x", x.clone())])[0];
        let got = &run(&graph, &[&x], 2)[0];
        if quantized {
            prop_assert_eq!(expected.to_bytes(), got.to_bytes());
        } else {
            close(expected, got, 1e-6);
        }
    }
}

/// MegEngine's window for 7 → 3: step 2, window 3, where other frameworks take windows of 3, 3 and 3 at 0, 2 and 4 by
/// rounding; for 5 → 3 step 1, window 3.
#[test]
fn adaptive_windows_are_equal() {
    let window = |input: usize, output: usize| {
        let pool = AdaptivePool { kind: PoolKind::Max }.window([input; 2], [output; 2]).expect("a window");
        (pool.kernel[0], pool.stride[0])
    };
    assert_eq!([window(7, 3), window(5, 3), window(8, 4), window(6, 1)], [(3, 2), (3, 1), (2, 2), (6, 6)]);
    assert!(AdaptivePool { kind: PoolKind::Max }.window([3; 2], [4, 1]).is_none());
}

/// The real library's warp of three images to 64×64.
#[test]
fn warps_as_the_reference() {
    let Some(path) = test_data("models/mge/test_discrete_input.npz") else { return };
    let arrays = triune_testing::npz::load(&path);
    let tensor = |name: &str| {
        let array = &arrays[name];
        Tensor::f32(&array.shape, &array.to_f32())
    };
    let (x, m, expected) = (tensor("in:data"), tensor("in:roi"), tensor("out:0"));
    let mut builder = GraphBuilder::new();
    let data = builder.input("data", DType::F32, &x.shape);
    let roi = builder.input("roi", DType::F32, &m.shape);
    let size = builder.constant(&Tensor::i64(&[2], &[64, 64]));
    let op =
        Op::WarpPerspective(WarpPerspective { sampling: Sampling::Linear, border: BorderMode::Replicate });
    let y = builder.node_with(op, &[Some(data), Some(roi), None, Some(size)], 1)[0];
    let graph = builder.finish_inferred(&[y]);
    close(&expected, &run(&graph, &[&x, &m], 2)[0], 1e-5);
}

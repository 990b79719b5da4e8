//! Operators in terms of others: the interpreter runs both, and no number changes.

use triune_graph::{
    Graph, Node, Op, ValueId,
    ops::{DequantizeLinear, Epilogue, Gemm, QuantizeLinear},
    passes::prepare,
};
use triune_tensor::{DType, Rounding};
use triune_testing::{GraphBuilder, Tensor, interpret};

fn gemm(alpha: f32, beta: f32, trans_b: bool) -> Op {
    Op::Gemm(Gemm { alpha, beta, trans_a: false, trans_b, epilogue: Epilogue::default() })
}

/// Prepares a copy, asserts that no node of the wanted kind is left, and compares what both give.
fn check(graph: &Graph, inputs: &[(&str, Tensor)], gone: fn(&Graph, &Node) -> bool) {
    let mut prepared = graph.clone();
    prepare(&mut prepared).expect("a sound graph");
    assert!(!prepared.nodes.iter().any(|node| gone(&prepared, node)), "{:#?}", prepared.nodes);
    assert_eq!(interpret(graph, inputs), interpret(&prepared, inputs));
}

#[test]
fn addends_are_added_where_they_stand() {
    // As many rows as columns, so that a column could be mistaken for a row.
    let x = Tensor::f32(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    for (shape, values) in
        [(vec![2, 1], vec![10.0, 20.0]), (vec![2, 2], vec![1.0, 2.0, 3.0, 4.0]), (vec![2], vec![5.0, 6.0])]
    {
        for (alpha, beta) in [(1.0, 1.0), (0.5, 1.0), (1.0, 2.0)] {
            for trans_b in [false, true] {
                let mut builder = GraphBuilder::new();
                let a = builder.input("a", DType::F32, &[2, 2]);
                let b = builder.constant(&Tensor::f32(&[2, 2], &[1.0, -1.0, 0.5, 2.0]));
                let c = builder.constant(&Tensor::f32(&shape, &values));
                let y = builder.node(gemm(alpha, beta, trans_b), &[a, b, c]);
                let graph = builder.finish_inferred(&[y]);
                check(
                    &graph,
                    &[("a", x.clone())],
                    |_, node| matches!(&node.op, Op::Gemm(op) if op.alpha != 1.0 || op.beta != 1.0),
                );
            }
        }
    }
}

#[test]
fn products_of_two_computed_matrices_are_products() {
    let mut builder = GraphBuilder::new();
    let a = builder.input("a", DType::F32, &[2, 3]);
    let b = builder.input("b", DType::F32, &[4, 3]);
    let y = builder.node(gemm(1.0, 1.0, true), &[a, b]);
    let graph = builder.finish_inferred(&[y]);
    let numbers = |count: usize| (0..count).map(|index| index as f32 - 4.0).collect::<Vec<f32>>();
    let inputs = [("a", Tensor::f32(&[2, 3], &numbers(6))), ("b", Tensor::f32(&[4, 3], &numbers(12)))];
    check(&graph, &inputs, |_, node| matches!(node.op, Op::Gemm(_)));
}

/// Scale and zero point per index of axis 1, different ones and the same, or of a type that no command has.
#[test]
fn quantizers_are_spelled_out() {
    let reals = [-3.0, 0.25, 0.75, f32::NAN, 100.0, -100.0];
    for (dtype, shape, points) in [
        (DType::I8, vec![3], vec![-1, 0, 5]),
        (DType::U8, vec![3], vec![128, 0, 255]),
        (DType::U16, vec![3], vec![40_000, 0, 65_535]),
        (DType::I16, vec![3], vec![-7, 0, 7]),
        (DType::I8, vec![3], vec![3; 3]),
        (DType::U8, vec![3], vec![255; 3]),
        (DType::U16, vec![3], vec![9; 3]),
        (DType::I16, vec![3], vec![-9; 3]),
    ] {
        for rounding in [Rounding::HalfToEven, Rounding::HalfAwayFromZero] {
            let mut builder = GraphBuilder::new();
            let x = builder.input("x", DType::F32, &[2, 3]);
            let scales: Vec<f32> = points.iter().enumerate().map(|(at, _)| 0.5 + at as f32 * 0.25).collect();
            let scale = builder.constant(&Tensor::f32(&shape, &scales));
            let point = builder.constant(&Tensor::of_integers(dtype, &shape, &points));
            let parameters: [ValueId; 2] = [scale, point];
            let quantize = Op::QuantizeLinear(QuantizeLinear { axis: 1, dtype });
            let q = builder.node(quantize, &[x, parameters[0], parameters[1]]);
            let dequantize = Op::DequantizeLinear(DequantizeLinear { axis: 1 });
            let y = builder.node(dequantize, &[q, parameters[0], parameters[1]]);
            builder.graph_mut().rounding = rounding;
            let graph = builder.finish_inferred(&[q, y]);
            check(&graph, &[("x", Tensor::f32(&[2, 3], &reals))], |graph, node| {
                let border = matches!(node.op, Op::QuantizeLinear(_) | Op::DequantizeLinear(_));
                border && graph.border_params(node).is_none()
            });
        }
    }
}

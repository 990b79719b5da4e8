//! Recurrent cells through compile, plan and run, against the interpreter.

use proptest::prelude::*;
use triune_graph::{
    Graph, Op,
    ops::{CellKind, Recurrence, UnaryKind},
};
use triune_runtime::{Session, SessionOptions, TensorRef};
use triune_tensor::DType;
use triune_testing::{GraphBuilder, Random, Tensor, interpret};

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

/// Which operands there are, by bits: weights that are known, vectors, states, lengths; and whether gate f is 1 − i.
const CHOICES: u8 = 1 << 5;

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn recurrences_agree(
        seed: u64,
        cell in prop::sample::select(CellKind::ALL),
        steps in 1_usize..6,
        batch in 1_usize..20,
        hidden in 1_usize..40,
        backwards in prop::sample::select(vec![vec![false], vec![true], vec![false, true], vec![true, true]]),
        choices in 0..CHOICES,
        limited: bool,
    ) {
        let mut random = Random(seed);
        let (directions, choice) = (backwards.len(), |bit: u8| choices >> bit & 1 == 1);
        let clip = if limited { 0.75 } else { f32::INFINITY };
        let functions = [UnaryKind::Sigmoid, UnaryKind::Tanh, UnaryKind::Softsign, UnaryKind::Tanh];
        let functions = (0..directions).map(|_| std::array::from_fn(|_| functions[random.below(4)])).collect();
        let op = Recurrence { cell, backwards, functions, clip, coupled: choice(4) };

        let mut builder = GraphBuilder::new();
        let mut inputs = Vec::new();
        let mut operand = |name: &'static str, dims: &[usize], values: Vec<f32>, known: bool| {
            let tensor = Tensor::f32(dims, &values);
            if known {
                return builder.constant(&tensor);
            }
            let id = builder.input(name, DType::F32, dims);
            inputs.push((name, tensor));
            id
        };
        let gates = cell.gates() * hidden;
        let x = random.floats(steps * batch * directions * gates);
        let x = operand("x", &[steps, batch, directions * gates], x, false);
        let scale = 1.0 / (hidden as f32).sqrt();
        let weights = random.floats(directions * gates * hidden).into_iter().map(|w| w * scale).collect();
        let weights = operand("weights", &[directions, gates, hidden], weights, choice(0));
        let vectors = (choice(1) && cell.vectors() > 0).then(|| {
            let values = random.floats(directions * cell.vectors() * hidden);
            operand("vectors", &[directions, cell.vectors() * hidden], values, choice(0))
        });
        let initial = choice(2).then(|| {
            let values = random.floats(cell.states() * directions * batch * hidden);
            operand("initial", &[cell.states(), directions, batch, hidden], values, false)
        });
        let lengths = choice(3).then(|| {
            let lengths: Vec<i32> = (0..batch).map(|_| random.below(steps + 1) as i32).collect();
            let id = builder.input("lengths", DType::I32, &[batch]);
            inputs.push(("lengths", Tensor::i32(&[batch], &lengths)));
            id
        });
        let operands = [Some(x), Some(weights), vectors, initial, lengths];
        let y = builder.node_with(Op::Recurrence(op), &operands, 1)[0];
        let graph = builder.finish_inferred(&[y]);
        let expected = &interpret(&graph, &inputs)[0];
        let given: Vec<&Tensor> = inputs.iter().map(|(_, tensor)| tensor).collect();
        let got = &run(&graph, &given, 1)[0];
        prop_assert_eq!(got.to_bytes(), run(&graph, &given, 3)[0].to_bytes());
        close(expected, got, 1e-5);
    }
}

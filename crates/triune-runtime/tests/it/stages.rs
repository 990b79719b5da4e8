//! Networks whose extents depend on data, driven stage by stage.

use std::collections::HashMap;

use triune_graph::{
    Graph, Op,
    ops::{
        BinaryKind, Comparison, CondTake, Nms, NonMaxSuppression, NonZero, Reshape, ShapeOf, Slice,
        UnaryKind, Unsqueeze,
    },
    passes::{Arrival, HostOperand, HostStep, Stage, stages},
};
use triune_runtime::{Session, SessionOptions, TensorRef, dynamic};
use triune_tensor::DType;
use triune_testing::{GraphBuilder, Tensor};

type Table = HashMap<String, triune_runtime::Tensor>;

fn arrival<'t>(table: &'t Table, name: &str) -> Option<TensorRef<'t>> {
    let tensor = table.get(name)?;
    Some(TensorRef { dtype: tensor.dtype, shape: &tensor.shape, bytes: &tensor.bytes })
}

fn run_stage(stage: &Stage, table: &mut Table) {
    if !stage.outputs.is_empty() {
        let graph = stage
            .bind(|name| {
                let TensorRef { dtype, shape, bytes } = arrival(table, name)?;
                Some(Arrival { dtype, shape, bytes })
            })
            .expect("operands that fit");
        let inputs = stage.inputs.iter().filter(|name| !stage.constants.contains(*name));
        let inputs: Vec<TensorRef<'_>> =
            inputs.map(|name| arrival(table, name).expect("an operand")).collect();
        let mut session = Session::new(graph, &SessionOptions::default()).expect("a session");
        let outputs = session.run(&inputs).expect("a run");
        table.extend(stage.outputs.iter().cloned().zip(outputs));
    }
    for step in &stage.host {
        let results = dynamic::run(step, |name| arrival(table, name)).expect("a host step");
        let results: Vec<(String, triune_runtime::Tensor)> =
            results.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect();
        table.extend(results);
    }
}

/// The network's outputs, as the documentation of [`Stage`] says to make them.
fn drive(graph: &Graph, inputs: &[(&str, &Tensor)]) -> Vec<Tensor> {
    let stages = stages(graph).expect("a cut").expect("more than one stage");
    let mut table = Table::new();
    for (name, tensor) in inputs {
        let shape = triune_tensor::Shape::new(&tensor.shape).expect("a shape");
        let tensor = triune_runtime::Tensor { dtype: tensor.dtype(), shape, bytes: tensor.to_bytes() };
        table.insert((*name).to_owned(), tensor);
    }
    for stage in &stages {
        run_stage(stage, &mut table);
    }
    let output = |id| &table[&graph.value(id).name];
    in_a_session(graph, &table, &graph.outputs.iter().map(|&id| output(id)).collect::<Vec<_>>());
    graph
        .outputs
        .iter()
        .map(|&id| Tensor::from_bytes(output(id).dtype, &output(id).shape, &output(id).bytes))
        .collect()
}

/// A session gives the same, again and again.
fn in_a_session(graph: &Graph, table: &Table, expected: &[&triune_runtime::Tensor]) {
    for threads in [1, 2] {
        let options = SessionOptions { threads, ..SessionOptions::default() };
        let mut session = Session::new(graph.clone(), &options).expect("a session");
        let names: Vec<String> = session.inputs().iter().map(|info| info.name.clone()).collect();
        let inputs: Vec<TensorRef<'_>> =
            names.iter().map(|name| arrival(table, name).expect("an input")).collect();
        for _ in 0..2 {
            let found = session.run(&inputs).expect("a run");
            assert_eq!(found.iter().collect::<Vec<_>>(), expected);
        }
        let shapes: Vec<_> =
            inputs.iter().map(|input| triune_tensor::Shape::new(input.shape).expect("a shape")).collect();
        let known = session.prepare(&shapes).expect("shapes that fit");
        assert!(known.contains(&None));
        for (known, tensor) in known.iter().zip(expected) {
            assert!(known.is_none_or(|known| known == (tensor.dtype, tensor.shape)));
        }
    }
}

fn host(op: Op, inputs: &[Tensor], results: usize) -> Vec<Tensor> {
    let step = HostStep {
        name: "step".into(),
        op,
        inputs: inputs.iter().map(|input| Some(HostOperand::Constant(input.to_constant()))).collect(),
        outputs: (0..results).map(|index| Some(index.to_string())).collect(),
    };
    let results = dynamic::run(&step, |_| None).expect("results");
    results
        .into_iter()
        .map(|(_, tensor)| Tensor::from_bytes(tensor.dtype, &tensor.shape, &tensor.bytes))
        .collect()
}

#[test]
fn a_static_network_is_not_cut() {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[2, 6]);
    let shape = builder.node(Op::ShapeOf(ShapeOf { start: 0, end: None }), &[x]);
    let y = builder.node(Op::Reshape(Reshape { allow_zero: false }), &[x, shape]);
    let graph = builder.finish(&[y]);
    assert!(stages(&graph).expect("no fault").is_none());
}

#[test]
fn elements_are_taken_and_worked_on() {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[3, 4]);
    let doubled = builder.binary(BinaryKind::Add, x, x);
    let take = CondTake { comparison: Comparison::Greater, value: 1.0, epsilon: 1e-4 };
    let taken = builder.node_with(Op::from(take), &[Some(doubled), Some(x)], 2);
    let negated = builder.unary(UnaryKind::Neg, taken[0]);
    // Twice: what the first part leaves is cut again, and the first part's value is read once more.
    let take = CondTake { comparison: Comparison::Less, value: -5.0, epsilon: 1e-4 };
    let again = builder.node_with(Op::from(take), &[Some(negated), Some(negated)], 2);
    let last = builder.unary(UnaryKind::Abs, again[0]);
    let graph = builder.finish(&[taken[1], last, doubled]);
    let values = [0.5, 2.0, -1.0, 3.0, 1.0, 0.0, 1.5, -7.0, 9.0, 1.1, 0.9, 2.5];
    for (values, indices, kept) in
        [(values, vec![1, 3, 6, 8, 9, 11], vec![6.0, 18.0]), ([0.0; 12], vec![], vec![])]
    {
        let x = Tensor::f32(&[3, 4], &values);
        let outputs = drive(&graph, &[("x", &x)]);
        let expected: Vec<i64> = indices;
        assert_eq!(outputs[0].dtype(), DType::I32);
        assert_eq!(outputs[0].integers(), expected);
        assert_eq!(outputs[1].as_f32().len(), if kept.is_empty() { 0 } else { kept_count(&values) });
        assert!(kept.iter().all(|value| outputs[1].as_f32().contains(value)));
        let doubled: Vec<f32> = values.iter().map(|value| 2.0 * value).collect();
        assert_eq!(outputs[2].as_f32(), doubled);
    }
}

/// How many elements above 1 have a double above 5.
fn kept_count(values: &[f32]) -> usize {
    values.iter().filter(|&&value| value > 1.0 && 2.0 * value > 5.0).count()
}

#[test]
fn a_computed_end_cuts_too() {
    // The kept boxes' indices, as many as there are: a slice up to a computed end.
    let mut builder = GraphBuilder::new();
    let boxes = builder.input("boxes", DType::F32, &[1, 4, 4]);
    let nms = builder.node_with(Op::from(Nms { threshold: 0.5, max_output: 3 }), &[Some(boxes)], 2);
    let axes = builder.constant(&Tensor::i64(&[1], &[1]));
    let start = builder.constant(&Tensor::i32(&[1], &[0]));
    let flat = builder.constant(&Tensor::i64(&[1], &[-1]));
    let end = builder.node(Op::Reshape(Reshape { allow_zero: false }), &[nms[1], flat]);
    let axis = builder.constant(&Tensor::i32(&[1], &[1]));
    let kept = builder.node(Op::Slice(Slice), &[nms[0], start, end, axis]);
    let wide = builder.node(Op::Unsqueeze(Unsqueeze), &[kept, axes]);
    let graph = builder.finish(&[wide, nms[1]]);
    let corners = [[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.9], [5.0, 5.0, 6.0, 6.0], [0.1, 0.0, 2.0, 2.0]];
    let outputs = drive(&graph, &[("boxes", &Tensor::f32(&[1, 4, 4], corners.as_flattened()))]);
    assert_eq!((&outputs[0].shape[..], outputs[0].integers()), (&[1, 1, 2][..], vec![0, 2]));
    assert_eq!(outputs[1].integers(), [2]);
}

/// A stage that was compiled for some elements serves no others, though their type and extents are the same.
#[test]
fn a_compiled_stage_serves_only_the_elements_that_it_is_for() {
    let mut builder = GraphBuilder::new();
    let boxes = builder.input("boxes", DType::F32, &[1, 4, 4]);
    let nms = builder.node_with(Op::from(Nms { threshold: 0.5, max_output: 4 }), &[Some(boxes)], 2);
    let start = builder.constant(&Tensor::i32(&[1], &[0]));
    let flat = builder.constant(&Tensor::i64(&[1], &[-1]));
    let end = builder.node(Op::Reshape(Reshape { allow_zero: false }), &[nms[1], flat]);
    let axis = builder.constant(&Tensor::i32(&[1], &[1]));
    let kept = builder.node(Op::Slice(Slice), &[nms[0], start, end, axis]);
    let graph = builder.finish(&[kept]);
    let mut session = Session::new(graph, &SessionOptions::default()).expect("a session");
    // The first boxes are alike, the others far apart: one kept box less for each that is alike.
    for alike in [1_u8, 3, 2, 4, 1, 3] {
        let corners: [[f32; 4]; 4] = std::array::from_fn(|at| {
            let first = if at < usize::from(alike) { 0.0 } else { 10.0 * at as f32 };
            [first, first, first + 2.0, first + 2.0]
        });
        let bytes = Tensor::f32(&[1, 4, 4], corners.as_flattened()).to_bytes();
        let operand = TensorRef { dtype: DType::F32, shape: &[1, 4, 4], bytes: &bytes };
        let found = &session.run(&[operand]).expect("a run")[0];
        assert_eq!(&found.shape[..], [1, 5 - usize::from(alike)], "{alike} boxes are alike");
        let expected: Vec<u8> =
            std::iter::once(0).chain(i32::from(alike)..4).flat_map(i32::to_le_bytes).collect();
        assert_eq!(found.bytes, expected);
    }
}

/// A box is suppressed above the overlap and kept at it; a score counts above the least and not at it.
#[test]
fn thresholds_themselves_neither_suppress_nor_count() {
    // Two boxes of 4 that share 2: 2 of 6, which f32 has as the quotient that the threshold is.
    let corners = [[0.0, 0.0, 2.0, 2.0], [1.0, 0.0, 3.0, 2.0]];
    let third = 2.0_f32 / 6.0;
    let selected = |overlap: f32, least: Option<f32>| {
        let mut inputs = vec![
            Tensor::f32(&[1, 2, 4], corners.as_flattened()),
            Tensor::f32(&[1, 1, 2], &[0.5, 0.25]),
            Tensor::i64(&[1], &[5]),
            Tensor::f32(&[1], &[overlap]),
        ];
        inputs.extend(least.map(|least| Tensor::f32(&[1], &[least])));
        let op = Op::from(NonMaxSuppression { center_point_box: false });
        host(op, &inputs, 1)[0].shape[0]
    };
    assert_eq!([third.next_down(), third, third.next_up()].map(|overlap| selected(overlap, None)), [1, 2, 2]);
    let least = [0.25_f32.next_down(), 0.25, 0.5_f32.next_down(), 0.5];
    assert_eq!(least.map(|least| selected(0.9, Some(least))), [2, 1, 1, 0]);
    // No more than asked for, however many there are.
    let most = |most: i64| {
        let inputs = [
            Tensor::f32(&[1, 2, 4], corners.as_flattened()),
            Tensor::f32(&[1, 1, 2], &[0.5, 0.25]),
            Tensor::i64(&[1], &[most]),
            Tensor::f32(&[1], &[0.9]),
        ];
        let op = Op::from(NonMaxSuppression { center_point_box: false });
        host(op, &inputs, 1)[0].shape[0]
    };
    assert_eq!([-1, 0, 1, 2, 3].map(most), [0, 0, 1, 2, 2]);
    // MegEngine's, which multiplies: a union of 8 and a half of it.
    let boxes = Tensor::f32(&[1, 2, 4], &[0.0, 0.0, 4.0, 2.0, 0.0, 0.0, 4.0, 1.0]);
    let kept = |threshold: f32| {
        let results = host(Op::from(Nms { threshold, max_output: 2 }), std::slice::from_ref(&boxes), 2);
        results[1].integers()[0]
    };
    assert_eq!([0.5_f32.next_down(), 0.5, 0.5_f32.next_up()].map(kept), [1, 2, 2]);
}

#[test]
fn operands_that_do_not_fit_are_named() {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[3]);
    let found = builder.node(Op::from(NonZero), &[x]);
    let graph = builder.finish(&[found]);
    let stages = stages(&graph).expect("a cut").expect("a host step");
    let error = dynamic::run(&stages[0].host[0], |_| None).expect_err("nothing is there").to_string();
    assert!(error.contains("'x' is not there yet"), "{error}");
    let short = TensorRef { dtype: DType::F32, shape: &[3], bytes: &[0; 8] };
    assert!(dynamic::run(&stages[0].host[0], |_| Some(short)).is_err());
    let mut session = Session::new(graph, &SessionOptions::default()).expect("a session");
    assert!(session.is_staged());
    let error = session.run(&[short]).expect_err("too few bytes").to_string();
    assert!(error.contains("12 bytes"), "{error}");
}

#[test]
fn conditions_hold_for_every_type() {
    let values = [-2_i64, 0, 1, 3];
    let all = [
        (Comparison::Equal, vec![2]),
        (Comparison::NotEqual, vec![0, 1, 3]),
        (Comparison::Less, vec![0, 1]),
        (Comparison::LessOrEqual, vec![0, 1, 2]),
        (Comparison::Greater, vec![3]),
        (Comparison::GreaterOrEqual, vec![2, 3]),
    ];
    for (comparison, expected) in all {
        let op = Op::from(CondTake { comparison, value: 1.0, epsilon: 1e-4 });
        let floats = Tensor::f32(&[2, 2], &values.map(|value| value as f32));
        for mask in [floats, Tensor::i64(&[2, 2], &values), Tensor::of_integers(DType::I8, &[2, 2], &values)]
        {
            let data = Tensor::of_integers(DType::U8, &[2, 2], &[10, 11, 12, 13]);
            let results = host(op.clone(), &[data, mask], 2);
            assert_eq!(results[1].integers(), expected, "{comparison:?}");
            let taken: Vec<i64> = expected.iter().map(|index| index + 10).collect();
            assert_eq!((results[0].dtype(), results[0].integers()), (DType::U8, taken));
        }
    }
    // Nearer than epsilon is equal.
    let near = Tensor::f32(&[2], &[1.0 + 5e-5, 1.0 + 2e-4]);
    let op = Op::from(CondTake { comparison: Comparison::Equal, value: 1.0, epsilon: 1e-4 });
    assert_eq!(host(op, &[near.clone(), near], 2)[1].integers(), [0]);
}

/// Halves of every kind: subnormal, normal, infinite, none.
#[test]
fn halves_are_compared_by_their_values() {
    let least = 2.0_f64.powi(-24);
    let values = [0.0, least, 1023.0 * least, 2.0_f64.powi(-14), 1.0, -1.5, 65_504.0, f64::INFINITY];
    let mask = Tensor::of_floats(DType::F16, &[8], &values);
    let above = |value: f32| {
        let op = Op::from(CondTake { comparison: Comparison::Greater, value, epsilon: 1e-4 });
        host(op, &[mask.clone(), mask.clone()], 2)[1].integers()
    };
    assert_eq!(above(0.0), [1, 2, 3, 4, 6, 7]);
    assert_eq!(above(least as f32), [2, 3, 4, 6, 7]);
    assert_eq!(above((1022.5 * least) as f32), [2, 3, 4, 6, 7]);
    assert_eq!(above(1023.0 * least as f32), [3, 4, 6, 7]);
    assert_eq!(above(-1.5), [0, 1, 2, 3, 4, 6, 7]);
    assert_eq!(above(-1.501), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(above(65_503.0), [6, 7]);
    assert_eq!(above(1e9), [7]);
    let odd = Tensor::of_floats(DType::F16, &[4], &[f64::NAN, -0.0, f64::NEG_INFINITY, -least]);
    assert_eq!(host(Op::from(NonZero), &[odd], 1)[0].integers(), [0, 2, 3]);
}

#[test]
fn indices_of_what_is_not_zero() {
    let x = Tensor::f32(&[2, 3], &[0.0, 1.0, -0.0, f32::NAN, 0.0, -2.0]);
    let found = &host(Op::from(NonZero), &[x], 1)[0];
    assert_eq!((&found.shape[..], found.integers()), (&[2, 3][..], vec![0, 1, 1, 1, 0, 2]));
    let scalar = &host(Op::from(NonZero), &[Tensor::i64(&[], &[7])], 1)[0];
    assert_eq!((&scalar.shape[..], scalar.integers()), (&[1, 1][..], vec![0]));
}

#[test]
fn kept_boxes_fill_up_with_the_last() {
    let corners = [[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 2.0], [0.0, 0.0, 4.0, 1.9], [9.0, 9.0, 9.5, 9.5]];
    let boxes = Tensor::f32(&[1, 4, 4], corners.as_flattened());
    // The second covers exactly half: not more than the threshold.
    let results = host(Op::from(Nms { threshold: 0.5, max_output: 5 }), std::slice::from_ref(&boxes), 2);
    assert_eq!((results[0].integers(), results[1].integers()), (vec![0, 1, 3, 3, 3], vec![3]));
    let results = host(Op::from(Nms { threshold: 0.5, max_output: 2 }), &[boxes], 2);
    assert_eq!((results[0].integers(), results[1].integers()), (vec![0, 1], vec![2]));
    let none = host(Op::from(Nms { threshold: 0.5, max_output: 2 }), &[Tensor::f32(&[1, 0, 4], &[])], 2);
    assert_eq!((none[0].integers(), none[1].integers()), (vec![0, 0], vec![0]));
}

/// Whether boxes have centres, the boxes, their scores in tenths, what is selected.
type Selection = (bool, [u8; 56], [u8; 28], [i64; 36]);

/// Two images of seven boxes in two classes, at most 3 each, overlap 0.25, scores above 0.15, as ONNX Runtime 1.31 selects
/// them. The boxes touch, contain each other, are inside out and have no area.
#[test]
fn boxes_are_suppressed_as_the_reference_does() {
    let cases: [Selection; 2] = [
        (
            false,
            [
                6, 0, 1, 1, 1, 6, 6, 4, 0, 0, 2, 3, 4, 3, 2, 1, 5, 5, 0, 0, 3, 3, 7, 4, 3, 3, 5, 4, 1, 5, 6,
                7, 6, 2, 2, 5, 5, 5, 6, 2, 7, 0, 0, 7, 7, 2, 1, 2, 0, 7, 5, 4, 1, 3, 1, 6,
            ],
            [4, 0, 2, 7, 5, 3, 2, 0, 6, 6, 5, 9, 9, 2, 6, 6, 2, 2, 4, 7, 2, 7, 6, 2, 3, 8, 8, 6],
            [
                0, 0, 3, 0, 0, 4, 0, 0, 0, 0, 1, 4, 0, 1, 5, 0, 1, 1, 1, 0, 5, 1, 0, 1, 1, 0, 4, 1, 1, 4, 1,
                1, 5, 1, 1, 1,
            ],
        ),
        (
            true,
            [
                0, 5, 2, 7, 7, 3, 8, 7, 2, 7, 4, 1, 4, 6, 6, 4, 7, 3, 4, 2, 1, 5, 7, 3, 5, 6, 2, 3, 4, 4, 4,
                4, 1, 4, 8, 2, 6, 1, 1, 6, 1, 6, 3, 5, 7, 7, 4, 2, 2, 6, 5, 2, 7, 7, 8, 5,
            ],
            [9, 6, 5, 9, 6, 7, 3, 7, 9, 0, 5, 3, 0, 0, 2, 1, 7, 2, 6, 8, 4, 1, 0, 2, 4, 4, 3, 8],
            [
                0, 0, 0, 0, 0, 3, 0, 0, 5, 0, 1, 1, 0, 1, 0, 0, 1, 3, 1, 0, 5, 1, 0, 2, 1, 0, 4, 1, 1, 6, 1,
                1, 3, 1, 1, 4,
            ],
        ),
    ];
    for (center_point_box, boxes, scores, expected) in cases {
        let inputs = [
            Tensor::f32(&[2, 7, 4], &boxes.map(f32::from)),
            Tensor::f32(&[2, 2, 7], &scores.map(|score| f32::from(score) / 10.0)),
            Tensor::i64(&[1], &[3]),
            Tensor::f32(&[1], &[0.25]),
            Tensor::f32(&[1], &[0.15]),
        ];
        let op = Op::from(NonMaxSuppression { center_point_box });
        let found = &host(op.clone(), &inputs, 1)[0];
        assert_eq!((&found.shape[..], found.integers()), (&[12, 3][..], expected.to_vec()));
        // Without a number of boxes there are none.
        assert_eq!(host(op, &inputs[..2], 1)[0].shape, [0, 3]);
    }
}

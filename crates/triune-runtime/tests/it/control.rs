//! Networks within networks, and lists of tensors: values against plain loops, and what does not fit, refused by name.

use std::sync::Arc;

use triune_graph::{
    Dim, Graph, Op, ValueId, ValueKind,
    ops::{BinaryKind, Body, Identity, If, Loop, Map, Scan, ScanAxis, SequenceOp, UnaryKind},
};
use triune_runtime::{Session, SessionOptions, TensorRef, Value, ValueRef};
use triune_tensor::{DType, Shape};
use triune_testing::{GraphBuilder, Random, Tensor};

/// What goes in: a tensor, or a list.
#[derive(Clone)]
enum Given {
    One(Tensor),
    List(Vec<Tensor>),
}

use Given::{List, One};

fn own(tensor: &Tensor) -> triune_runtime::Tensor {
    let shape = Shape::new(&tensor.shape).expect("a shape");
    triune_runtime::Tensor { dtype: tensor.dtype(), shape, bytes: tensor.to_bytes() }
}

fn tensor(made: &triune_runtime::Tensor) -> Tensor {
    Tensor::from_bytes(made.dtype, &made.shape, &made.bytes)
}

/// Runs a graph whose outputs are of these kinds.
fn run(mut graph: Graph, kinds: &[ValueKind], given: &[Given]) -> Result<Vec<Given>, String> {
    for (&id, &kind) in graph.outputs.clone().iter().zip(kinds) {
        graph.value_mut(id).kind = kind;
    }
    let owned: Vec<Vec<triune_runtime::Tensor>> = (given.iter())
        .map(|given| match given {
            One(tensor) => vec![own(tensor)],
            List(list) => list.iter().map(own).collect(),
        })
        .collect();
    let values: Vec<ValueRef<'_>> = (given.iter().zip(&owned))
        .map(|(given, owned)| match given {
            One(_) => {
                let triune_runtime::Tensor { dtype, shape, bytes } = &owned[0];
                ValueRef::Tensor(TensorRef { dtype: *dtype, shape, bytes })
            }
            List(_) => ValueRef::Sequence(owned),
        })
        .collect();
    let mut session = Session::new(graph, &SessionOptions::default()).map_err(|error| error.to_string())?;
    let made = session.run_values(&values, &mut []).map_err(|error| error.to_string())?;
    Ok(made
        .into_iter()
        .map(|value| match value.expect("a result") {
            Value::Tensor(made) => One(tensor(&made)),
            Value::Sequence(list) => List(list.iter().map(tensor).collect()),
            other => panic!("{other:?}"),
        })
        .collect())
}

fn tensors(graph: Graph, given: &[Tensor]) -> Result<Vec<Tensor>, String> {
    let given: Vec<Given> = given.iter().cloned().map(One).collect();
    let made = run(graph, &[], &given)?.into_iter().map(|made| match made {
        One(tensor) => tensor,
        List(_) => panic!("a list"),
    });
    Ok(made.collect())
}

fn body(graph: Graph, captures: usize) -> Body {
    let formals = graph.inputs.len() - captures;
    let ranks =
        (graph.inputs[..formals].iter()).map(|&id| graph.value(id).shape.as_ref().map(Vec::len)).collect();
    Body { graph: Arc::new(graph), captures, ranks }
}

fn truth(value: bool) -> Tensor {
    Tensor::of_integers(DType::Bool, &[], &[i64::from(value)])
}

fn number(value: i64) -> Tensor {
    Tensor::i64(&[], &[value])
}

/// One of two networks, each with a capture of its own.
fn choice() -> Graph {
    let part = |kind, name: &str| {
        let mut builder = GraphBuilder::new();
        let x = builder.input(name, DType::F32, &[2]);
        let y = builder.unary(kind, x);
        body(builder.finish(&[y]), 1)
    };
    let mut builder = GraphBuilder::new();
    let condition = builder.input("condition", DType::Bool, &[]);
    let [a, b] = ["a", "b"].map(|name| builder.input(name, DType::F32, &[2]));
    let op = If { then: part(UnaryKind::Neg, "then"), otherwise: part(UnaryKind::Abs, "otherwise") };
    let y = builder.node(op.into(), &[condition, a, b]);
    builder.finish(&[y])
}

#[test]
fn one_of_two_networks_runs_on_what_it_sees() {
    let [a, b] = [[1.0, -2.0], [-3.0, 4.0]].map(|values| Tensor::f32(&[2], &values));
    for (condition, wanted) in [(true, [-1.0, 2.0]), (false, [3.0, 4.0])] {
        let made = tensors(choice(), &[truth(condition), a.clone(), b.clone()]).expect("a run");
        assert_eq!(made[0].as_f32(), wanted);
    }
}

/// x doubles and y counts down, as long as the second capture says so; collected is x, before and behind.
fn repeated(rounds: bool) -> Graph {
    let mut builder = GraphBuilder::new();
    let round = builder.input("round", DType::I64, &[]);
    let _ = builder.input("holds", DType::Bool, &[]);
    let x = builder.input("x", DType::F32, &[2, 3]);
    let y = builder.input("y", DType::I64, &[1]);
    let step = builder.input("step", DType::I64, &[1]);
    let going = builder.input("going", DType::Bool, &[]);
    let double = builder.binary(BinaryKind::Add, x, x);
    let lower = builder.binary(BinaryKind::Sub, y, step);
    let numbered = builder.binary(BinaryKind::Add, lower, round);
    let same = builder.node(Op::Identity(Identity), &[going]);
    // What is collected when nothing runs is what the file declares.
    let declared = builder.graph_mut().value_mut(double);
    (declared.dtype, declared.shape) = (Some(DType::F32), Some(vec![Dim::Fixed(2), Dim::Fixed(3)]));
    builder.graph_mut().value_mut(numbered).dtype = Some(DType::I64);
    let body = body(builder.finish(&[same, double, lower, double, numbered]), 2);
    let mut builder = GraphBuilder::new();
    let most = builder.input("most", DType::I64, &[]);
    let condition = builder.input("condition", DType::Bool, &[]);
    let x = builder.input("x", DType::F32, &[2, 3]);
    let y = builder.input("y", DType::I64, &[1]);
    let step = builder.input("step", DType::I64, &[1]);
    let going = builder.input("going", DType::Bool, &[]);
    let most = rounds.then_some(most);
    let operands = [most, Some(condition), Some(x), Some(y), Some(step), Some(going)];
    let made = builder.node_with(Loop { body }.into(), &operands, 4);
    builder.finish(&made)
}

#[test]
fn a_network_runs_as_long_as_it_is_told_to() {
    let x = Tensor::f32(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    for (limited, most, condition, going, count) in [
        (true, 3, true, true, 3),
        (true, 1, true, true, 1),
        (true, 0, true, true, 0),
        (true, -1, true, true, 0),
        (true, 3, false, true, 0),
        (true, 3, true, false, 1),
        (false, 3, true, false, 1),
    ] {
        let given = [
            number(most),
            truth(condition),
            x.clone(),
            Tensor::i64(&[1], &[9]),
            Tensor::i64(&[1], &[2]),
            truth(going),
        ];
        let made = tensors(repeated(limited), &given).expect("a run");
        let times = |round: usize| x.as_f32().iter().map(move |x| x * (1 << round) as f32);
        assert_eq!(made[0].as_f32(), times(count).collect::<Vec<_>>());
        assert_eq!(made[1].integers(), [9 - 2 * count as i64]);
        assert_eq!(made[2].shape, [count, 2, 3]);
        assert_eq!(made[2].as_f32(), (1..=count).flat_map(times).collect::<Vec<_>>());
        assert_eq!(made[3].shape, [&[count][..], if count > 0 { &[1] } else { &[] }].concat());
        assert_eq!(made[3].integers(), (0..count as i64).map(|round| 7 - round).collect::<Vec<_>>());
    }
}

/// A state and two operands that are walked along: what they sum up to, and the state before, along axes of their own.
fn walked(
    inputs: [ScanAxis; 2],
    outputs: [ScanAxis; 2],
    extents: [&[usize]; 3],
    inner: &[usize],
    batched: bool,
) -> Graph {
    let mut builder = GraphBuilder::new();
    let state = builder.input("state", DType::F32, inner);
    let [a, b] = ["a", "b"].map(|name| builder.input(name, DType::F32, inner));
    let factor = builder.input("factor", DType::F32, &[]);
    let product = builder.binary(BinaryKind::Mul, b, factor);
    let sum = builder.binary(BinaryKind::Add, a, product);
    let next = builder.binary(BinaryKind::Add, state, sum);
    let before = builder.node(Op::Identity(Identity), &[state]);
    let op = Scan {
        body: body(builder.finish(&[next, sum, before]), 1),
        inputs: inputs.to_vec(),
        outputs: outputs.to_vec(),
        batched,
    };
    let mut builder = GraphBuilder::new();
    let lengths = batched.then(|| builder.input("lengths", DType::I64, &extents[0][..1]));
    let named = ["state", "a", "b"].into_iter().zip(extents);
    let given: Vec<ValueId> = named.map(|(name, extents)| builder.input(name, DType::F32, extents)).collect();
    let factor = builder.input("factor", DType::F32, &[]);
    let operands: Vec<Option<ValueId>> = lengths.into_iter().chain(given).chain([factor]).map(Some).collect();
    let made = builder.node_with(op.into(), &operands, 3);
    builder.finish(&made)
}

fn along(axis: i64, reverse: bool) -> ScanAxis {
    ScanAxis { axis, reverse }
}

#[test]
fn a_network_walks_along_axes() {
    let mut random = Random(3);
    // Elements of two numbers, four positions: a (2, 4) and b (4, 2).
    for (reverse_a, reverse_b, reverse_sum, reverse_before) in
        (0..16).map(|bits| (bits & 1 > 0, bits & 2 > 0, bits & 4 > 0, bits & 8 > 0))
    {
        let [state, a, b] = [&[2][..], &[2, 4], &[4, 2]].map(|shape| random.tensor(DType::F32, shape));
        let axes = [along(-1, reverse_a), along(0, reverse_b)];
        let results = [along(1, reverse_sum), along(0, reverse_before)];
        let graph = walked(axes, results, [&[2], &[2, 4], &[4, 2]], &[2], false);
        let factor = Tensor::f32(&[], &[3.0]);
        let given = [state.clone(), a.clone(), b.clone(), factor];
        let made = tensors(graph, &given).expect("a run");
        let mut now = state.as_f32().to_vec();
        let (mut sums, mut before) = (vec![0.0; 8], vec![0.0; 8]);
        for position in 0..4 {
            let at = |reverse: bool| if reverse { 3 - position } else { position };
            for element in 0..2 {
                let sum =
                    a.as_f32()[element * 4 + at(reverse_a)] + b.as_f32()[at(reverse_b) * 2 + element] * 3.0;
                before[at(reverse_before) * 2 + element] = now[element];
                sums[element * 4 + at(reverse_sum)] = sum;
                now[element] += sum;
            }
        }
        assert_eq!((&*made[0].shape, made[0].as_f32()), (&[2][..], &*now));
        assert_eq!((&*made[1].shape, made[1].as_f32()), (&[2, 4][..], &*sums));
        assert_eq!((&*made[2].shape, made[2].as_f32()), (&[4, 2][..], &*before));
    }
}

#[test]
fn entries_of_a_batch_are_walked_by_their_lengths() {
    let (forward, backward) = (along(0, false), along(0, true));
    let graph = walked([forward, backward], [forward; 2], [&[2, 1], &[2, 3, 1], &[2, 3, 1]], &[1], true);
    let given = [
        Tensor::i64(&[2], &[3, 2]),
        Tensor::f32(&[2, 1], &[0.5, -0.5]),
        Tensor::f32(&[2, 3, 1], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        Tensor::f32(&[2, 3, 1], &[10.0, 20.0, 30.0, 40.0, 50.0, 60.0]),
        Tensor::f32(&[], &[1.0]),
    ];
    let made = tensors(graph.clone(), &given).expect("a run");
    // What is walked backwards begins at the entry's own end; behind it there are zeros.
    assert_eq!((&*made[0].shape, made[0].as_f32()), (&[2, 1][..], &[66.5, 98.5][..]));
    assert_eq!(
        (&*made[1].shape, made[1].as_f32()),
        (&[2, 3, 1][..], &[31.0, 22.0, 13.0, 54.0, 45.0, 0.0][..])
    );
    assert_eq!(made[2].as_f32(), [0.5, 31.5, 53.5, -0.5, 53.5, 0.0]);
    for length in [4, -1] {
        let mut wrong = given.clone();
        wrong[0] = Tensor::i64(&[2], &[3, length]);
        let error = tensors(graph.clone(), &wrong).expect_err("no such length");
        assert!(error.contains("a length that is not one of 0 to 3"), "{error}");
    }
}

#[test]
fn what_is_walked_along_has_as_many_positions() {
    let (first, last) = (along(0, false), along(1, false));
    let graph = walked([first, last], [first; 2], [&[2], &[4, 2], &[2, 3]], &[2], false);
    let given = [&[2][..], &[4, 2], &[2, 3], &[]].map(|shape| Random(5).tensor(DType::F32, shape));
    let error = tensors(graph, &given).expect_err("other positions");
    assert!(error.contains("operands of 4 and 3 positions"), "{error}");
}

/// Elements of a list one by one, with a tensor for all.
#[test]
fn a_network_maps_lists() {
    let graph = |second: bool| {
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", DType::F32, &[2]);
        let y = builder.input("y", DType::F32, &[2]);
        let seen = builder.input("seen", DType::F32, &[2]);
        let sum = builder.binary(BinaryKind::Add, x, y);
        let product = builder.binary(BinaryKind::Mul, sum, seen);
        let op = Map { body: body(builder.finish(&[sum, product]), 1) };
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", DType::F32, &[2]);
        builder.graph_mut().value_mut(x).kind = ValueKind::Sequence;
        let y = builder.input("y", DType::F32, &[2]);
        if second {
            builder.graph_mut().value_mut(y).kind = ValueKind::Sequence;
        }
        let seen = builder.input("seen", DType::F32, &[2]);
        let made = builder.node_with(op.into(), &[x, y, seen].map(Some), 2);
        builder.finish(&made)
    };
    let of = |values: [f32; 2]| Tensor::f32(&[2], &values);
    let kinds = [ValueKind::Sequence; 2];
    let lists = |made: Vec<Given>| {
        let values = made.into_iter().map(|made| match made {
            List(list) => list.iter().map(|each| each.as_f32().to_vec()).collect::<Vec<_>>(),
            One(_) => panic!("a tensor"),
        });
        values.collect::<Vec<_>>()
    };
    let x = || List(vec![of([1.0, 2.0]), of([3.0, 4.0]), of([5.0, 6.0])]);
    let seen = || One(of([2.0, 3.0]));
    let made = lists(run(graph(false), &kinds, &[x(), One(of([10.0, 20.0])), seen()]).expect("a run"));
    assert_eq!(made[0], [[11.0, 22.0], [13.0, 24.0], [15.0, 26.0]]);
    assert_eq!(made[1], [[22.0, 66.0], [26.0, 72.0], [30.0, 78.0]]);
    let y = List(vec![of([10.0, 0.0]), of([20.0, 0.0]), of([30.0, 1.0])]);
    let made = lists(run(graph(true), &kinds, &[x(), y, seen()]).expect("a run"));
    assert_eq!(made[0], [[11.0, 2.0], [23.0, 4.0], [35.0, 7.0]]);
    let short = List(vec![of([10.0, 0.0]); 2]);
    let error = run(graph(true), &kinds, &[x(), short, seen()]).err().expect("one is missing");
    assert!(error.contains("operand 1 has 2 elements, not 3"), "{error}");
}

/// An operator on a list, with more operands.
fn listed(op: SequenceOp, kind: ValueKind, list: &[Tensor], more: &[Tensor]) -> Result<Vec<Tensor>, String> {
    let mut builder = GraphBuilder::new();
    let x = builder.input("list", DType::F32, &[1]);
    let value = builder.graph_mut().value_mut(x);
    (value.kind, value.shape, value.dtype) = (ValueKind::Sequence, None, list.first().map(Tensor::dtype));
    let mut operands = vec![x];
    for (index, tensor) in more.iter().enumerate() {
        operands.push(builder.input(&index.to_string(), tensor.dtype(), &tensor.shape));
    }
    let y = builder.node(op.into(), &operands);
    let given: Vec<Given> = [List(list.to_vec())].into_iter().chain(more.iter().cloned().map(One)).collect();
    let made = run(builder.finish(&[y]), &[kind], &given)?;
    Ok(match made.into_iter().next().expect("a result") {
        One(tensor) => vec![tensor],
        List(list) => list,
    })
}

#[test]
fn lists_are_changed_by_position() {
    let of = |value: i32| Tensor::i32(&[1, 2], &[value, value + 100]);
    let list = [of(1), of(2), of(3)];
    let (one, many) = (ValueKind::Tensor, ValueKind::Sequence);
    let values = |made: Vec<Tensor>| made.iter().map(|each| each.integers()[0]).collect::<Vec<_>>();
    let at = |position: i64| listed(SequenceOp::At, one, &list, &[number(position)]);
    assert_eq!([0, 2, -1, -3].map(|position| values(at(position).expect("there"))), [[1], [3], [3], [1]]);
    let insert = |position: Option<i64>| {
        let more: Vec<Tensor> = [of(9)].into_iter().chain(position.map(number)).collect();
        listed(SequenceOp::Insert, many, &list, &more)
    };
    for (position, wanted) in [
        (None, [1, 2, 3, 9]),
        (Some(0), [9, 1, 2, 3]),
        (Some(2), [1, 2, 9, 3]),
        (Some(3), [1, 2, 3, 9]),
        (Some(-1), [1, 2, 9, 3]),
    ] {
        assert_eq!(values(insert(position).expect("there")), wanted, "{position:?}");
    }
    let erase = |position: Option<i64>, list: &[Tensor]| {
        listed(SequenceOp::Erase, many, list, &position.map(number).into_iter().collect::<Vec<_>>())
    };
    for (position, wanted) in [(None, [1, 2]), (Some(0), [2, 3]), (Some(1), [1, 3]), (Some(-1), [1, 2])] {
        assert_eq!(values(erase(position, &list).expect("there")), wanted, "{position:?}");
    }
    let length = listed(SequenceOp::Length, one, &list, &[]).expect("a number");
    assert_eq!((length[0].shape.len(), values(length)), (0, vec![3]));
    for (made, words) in [
        (at(3), "position 3 in a list of 3"),
        (at(-4), "position -4 in a list of 3"),
        (insert(Some(4)), "position 4 in a list of 3"),
        (erase(Some(3), &list), "position 3 in a list of 3"),
        (
            listed(SequenceOp::Insert, many, &list, &[Tensor::f32(&[1], &[0.0])]),
            "an element of float32 among int32",
        ),
        (listed(SequenceOp::At, one, &list, &[Tensor::i64(&[2], &[0, 1])]), "operand 1 is not one position"),
        (
            listed(SequenceOp::At, one, &list, &[Tensor::f32(&[], &[0.0])]),
            "operand 1 is float32, not int32 or int64",
        ),
    ] {
        let error = made.expect_err(words);
        assert!(error.contains(words), "{words}: {error}");
    }
    let narrow = Tensor::i32(&[], &[1]);
    assert_eq!(values(listed(SequenceOp::At, one, &list, &[narrow]).expect("there")), [2]);
}

#[test]
fn lists_are_joined_and_made_of_parts() {
    let one = ValueKind::Tensor;
    let [a, b] = [Tensor::i32(&[2, 1], &[1, 2]), Tensor::i32(&[2, 3], &[3, 4, 5, 6, 7, 8])];
    let join = |list: &[Tensor], axis, new| {
        let made = listed(SequenceOp::Concat { axis, new }, one, list, &[])?;
        Ok::<_, String>((made[0].shape.clone(), made[0].integers()))
    };
    for axis in [1, -1] {
        let made = join(&[a.clone(), b.clone()], axis, false).expect("they fit");
        assert_eq!(made, (vec![2, 4], vec![1, 3, 4, 5, 2, 6, 7, 8]));
    }
    let two = [b.clone(), Tensor::i32(&[2, 3], &[9, 10, 11, 12, 13, 14])];
    for (axis, shape, values) in [
        (0, [2, 2, 3], [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]),
        (1, [2, 2, 3], [3, 4, 5, 9, 10, 11, 6, 7, 8, 12, 13, 14]),
        (-1, [2, 3, 2], [3, 9, 4, 10, 5, 11, 6, 12, 7, 13, 8, 14]),
    ] {
        assert_eq!(join(&two, axis, true).expect("they fit"), (shape.to_vec(), values.to_vec()));
    }
    for (list, axis, new) in [
        (vec![a.clone(), b.clone()], 0, false),
        (vec![a.clone(), b.clone()], 0, true),
        (vec![a.clone()], 2, false),
        (vec![a], -3, false),
    ] {
        join(&list, axis, new).expect_err("they do not fit");
    }
    // Parts of a tensor: of one extent, of some each, and one by one.
    let split = |extents: Option<Tensor>, axis: i64, keep: bool| {
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", DType::I32, &[2, 3]);
        let extents = extents.map(|extents| builder.constant(&extents));
        let op = SequenceOp::Split { axis, keep };
        let made = builder.node_with(op.into(), &[Some(x), extents], 1);
        let made: Result<Vec<Given>, String> =
            run(builder.finish(&made), &[ValueKind::Sequence], &[One(b.clone())]);
        let made = made?;
        match &made[0] {
            List(list) => {
                Ok(list.iter().map(|each| (each.shape.clone(), each.integers())).collect::<Vec<_>>())
            }
            One(_) => Err("a tensor".to_owned()),
        }
    };
    let columns = |shape: &[usize]| [[3, 6], [4, 7], [5, 8]].map(|values| (shape.to_vec(), values.to_vec()));
    assert_eq!(split(None, 1, true).expect("parts"), columns(&[2, 1]));
    assert_eq!(split(None, -1, false).expect("parts"), columns(&[2]));
    let uneven = [(vec![2, 2], vec![3, 4, 6, 7]), (vec![2, 1], vec![5, 8])];
    assert_eq!(split(Some(number(2)), 1, false).expect("parts"), uneven);
    assert_eq!(split(Some(Tensor::i64(&[2], &[2, 1])), 1, false).expect("parts"), uneven);
    assert_eq!(split(Some(Tensor::i32(&[1], &[2])), 0, true).expect("parts"), [(vec![2, 3], b.integers())]);
    for (extents, axis, words) in [
        (number(0), 1, "parts of extent 0"),
        (Tensor::i64(&[2], &[2, 2]), 1, "parts [2, 2] of an extent of 3"),
        (Tensor::i64(&[2], &[4, -1]), 1, "a part of a negative extent"),
        (number(1), 2, "axis 2 is not one of 2 dimensions"),
    ] {
        let error = split(Some(extents), axis, true).expect_err(words);
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[test]
fn lists_are_made_of_tensors_of_one_type() {
    let made = |second: Tensor| {
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", DType::I32, &[1]);
        let y = builder.input("y", second.dtype(), &second.shape);
        let list = builder.node(SequenceOp::Construct.into(), &[x, y]);
        run(builder.finish(&[list]), &[ValueKind::Sequence], &[One(Tensor::i32(&[1], &[7])), One(second)])
    };
    let List(list) = &made(Tensor::i32(&[2], &[8, 9])).expect("a list")[0] else { panic!("a tensor") };
    assert_eq!(list.iter().map(Tensor::integers).collect::<Vec<_>>(), [vec![7], vec![8, 9]]);
    let error = made(Tensor::i64(&[1], &[1])).err().expect("another type");
    assert!(error.contains("elements of int32 and int64"), "{error}");
}

//! What a session takes and keeps: operands by name and by order, programs per set of extents, times and outlines of runs, whether its
//! model is one program or a row of stages.

use triune_device::DeviceSpec;
use triune_graph::{
    Dim, Graph, Op,
    ops::{BinaryKind, Cast, Gather, MatMul, NonZero, UnaryKind},
};
use triune_runtime::{
    CompileError, ConvMethod, Error, Inputs, Outputs, Placement, Session, SessionOptions, SessionPlan,
    Tensor, TensorMut, TensorRef,
};
use triune_tensor::{DType, MAX_RANK, QuantParams, Shape};
use triune_testing::{GraphBuilder, Tensor as TestTensor};

/// x − 2·y, whose first extents are open.
fn difference() -> Graph {
    let mut builder = GraphBuilder::new();
    let [x, y] = ["x", "y"].map(|name| builder.input(name, DType::F32, &[1, 2]));
    let twice = builder.binary(BinaryKind::Add, y, y);
    let z = builder.binary(BinaryKind::Sub, x, twice);
    for id in [x, y] {
        let value = builder.graph_mut().value_mut(id);
        value.shape = Some(vec![Dim::Symbol("n".into()), Dim::Fixed(2)]);
    }
    builder.finish(&[z])
}

/// Indices of what is not 0 in 2·x, negated.
fn staged() -> Graph {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[4]);
    let twice = builder.binary(BinaryKind::Add, x, x);
    let found = builder.node(Op::from(NonZero), &[twice]);
    let negative = builder.unary(UnaryKind::Neg, found);
    builder.finish(&[negative, twice])
}

fn session(graph: Graph) -> Session {
    Session::new(graph, &SessionOptions::default()).expect("a session")
}

fn shapes(extents: &[usize]) -> Vec<Shape> {
    vec![Shape::new(extents).expect("a shape"); 2]
}

#[test]
fn operands_come_by_name_in_any_order() {
    let mut session = session(difference());
    let (x, y) = ([1.0_f32, 2.0], [10.0_f32, 20.0]);
    let [x, y] = [&x, &y].map(|values| TensorRef::of(values, &[1, 2]));
    for inputs in [[("x", x), ("y", y)], [("y", y), ("x", x)]] {
        let found = session.run_named(&inputs).expect("a run");
        assert_eq!(found[0].as_slice::<f32>().expect("reals"), [-19.0, -38.0]);
    }
    let mut refused = |inputs: &[(&str, TensorRef<'_>)]| match session.run_named(inputs) {
        Err(Error::Operand { what, expected, got }) => format!("{what}: {expected}, {got}"),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&[("x", x)]), "number of inputs: 2, 1");
    assert_eq!(refused(&[("x", x), ("y", y), ("z", y)]), "number of inputs: 2, 3");
    assert_eq!(refused(&[("x", x), ("z", y)]), "input 'y': one tensor, none");
    assert_eq!(refused(&[("x", x), ("x", x)]), "input 'x': one tensor, several");
}

#[test]
fn operands_that_do_not_fit_are_named() {
    let mut session = session(difference());
    let values = [0.0_f32; 4];
    let good = TensorRef::of(&values, &[2, 2]);
    let mut refused = |other: TensorRef<'_>| match session.run(&[good, other]) {
        Err(Error::Operand { what, expected, got }) => {
            assert_eq!(what, "input 'y'");
            format!("{expected} | {got}")
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(TensorRef::of(&[0_i32; 4], &[2, 2])), "float32 | int32");
    assert_eq!(refused(TensorRef::of(&values, &[4])), "shape (n, 2) | (4)");
    assert_eq!(refused(TensorRef::of(&values, &[1, 4])), "shape (n, 2) | (1, 4)");
    assert_eq!(refused(TensorRef::of(&values[..3], &[2, 2])), "16 bytes for shape (2, 2) | 12 bytes");
    assert_eq!(
        refused(TensorRef::of(&values, &[1 << 62, 2])),
        "a size that fits memory | shape (4611686018427387904, 2)"
    );
    let deep = [1; MAX_RANK + 1];
    let most = format!("{MAX_RANK} dimensions at most | {} dimensions", MAX_RANK + 1);
    assert_eq!(refused(TensorRef::of(&values[..1], &deep)), most);
    assert!(matches!(session.run(&[good]), Err(Error::Operand { what, .. }) if what == "number of inputs"));
    // Extents that are one symbol need not be one number, but have to fit together.
    let other = [0.0_f32; 6];
    assert!(matches!(
        session.run(&[good, TensorRef::of(&other, &[3, 2])]),
        Err(Error::Compile(CompileError::Graph(_)))
    ));
    assert!(session.run(&[good, good]).is_ok());
}

/// As of one program: extents that are one symbol need not be one number, whether a stage reads both operands or neither does.
#[test]
fn stages_take_what_the_whole_model_takes() {
    let mut builder = GraphBuilder::new();
    let [x, y] = ["x", "y"].map(|name| builder.input(name, DType::F32, &[1]));
    let [found, other] = [x, y].map(|id| builder.node(Op::from(NonZero), &[id]));
    for id in [x, y] {
        builder.graph_mut().value_mut(id).shape = Some(vec![Dim::Symbol("n".into())]);
    }
    let mut session = session(builder.finish(&[found, other]));
    let values = [1.0_f32; 4];
    let [three, four] = [TensorRef::of(&values[..3], &[3]), TensorRef::of(&values, &[4])];
    assert!(session.run(&[three, three]).is_ok());
    for inputs in [[three, four], [four, three]] {
        let made = session.run(&inputs).expect("a run");
        assert!(made.iter().zip(&inputs).all(|(made, input)| made.shape[1] == input.shape[0]), "{made:?}");
    }
    assert_eq!(session.run(&[four, four]).expect("a run")[1].shape, Shape::from([1, 4]));
}

#[test]
fn programs_are_kept_for_the_extents_that_were_used_last() {
    let mut session = session(difference());
    assert_eq!(session.plans(), 0);
    assert!(session.outline().nodes.is_empty());
    for n in 1..=200 {
        let known = session.prepare(&shapes(&[n, 2])).expect("a program");
        assert_eq!(known, [Some((DType::F32, Shape::from([n, 2])))]);
        assert_eq!(session.plans(), n, "small ones are all kept");
    }
    session.prepare(&shapes(&[1, 2])).expect("a program");
    assert_eq!(session.plans(), 200);
    let programs = session.programs(&shapes(&[1, 2])).expect("a program");
    assert_eq!(programs.len(), 1);
    assert_eq!(&*programs[0].inputs[0].shape, [1, 2]);
    assert_eq!(session.plans(), 200);
    assert!(session.deployment(&shapes(&[3, 2])).expect("a program").is_none());
    assert!(
        matches!(session.prepare(&shapes(&[1, 2])[..1]), Err(Error::Operand { what, .. }) if what == "number of input shapes")
    );
}

/// Rows of a table that is worth a segment of its own, by indices whose number is open.
fn embedding() -> Graph {
    let mut builder = GraphBuilder::new();
    let rows: Vec<f32> = (0..8192_u16).flat_map(|row| [f32::from(row), 0.5]).collect();
    let table = builder.constant(&TestTensor::f32(&[8192, 2], &rows));
    let at = builder.input("at", DType::I64, &[1]);
    let taken = builder.node(Op::from(Gather { axis: 0 }), &[table, at]);
    builder.graph_mut().value_mut(at).shape = Some(vec![Dim::Symbol("n".into())]);
    builder.finish(&[taken])
}

#[test]
fn a_table_lies_in_memory_once_for_all_extents() {
    const BYTES: u64 = 8192 * 2 * 4;
    let mut first = session(embedding());
    let workspace = first.workspace().clone();
    assert_eq!(workspace.table_bytes(), 0);
    for count in [1_usize, 7, 3, 400, 7] {
        let at: Vec<i64> = (0..count as i64).map(|index| index * 20 + 5).collect();
        let found = first.run(&[TensorRef::of(&at, &[count])]).expect("a run");
        let expected: Vec<f32> = at.iter().flat_map(|&row| [row as f32, 0.5]).collect();
        assert_eq!(found[0].as_slice::<f32>().expect("reals"), expected);
        assert_eq!(workspace.table_bytes(), BYTES, "{count}");
    }
    // A session beside it has the model's own again, another model one of its own, and each goes with its programs.
    let options = || SessionOptions { workspace: Some(workspace.clone()), ..SessionOptions::default() };
    let mut beside = Session::of(first.model().clone(), &options()).expect("a session");
    let mut other = Session::new(embedding(), &options()).expect("a session");
    let last = [8191_i64];
    for (session, bytes) in [(&mut beside, BYTES), (&mut other, 2 * BYTES), (&mut first, 2 * BYTES)] {
        let found = session.run(&[TensorRef::of(&last, &[1])]).expect("a run");
        assert_eq!(found[0].as_slice::<f32>().expect("reals"), [8191.0, 0.5]);
        assert_eq!(workspace.table_bytes(), bytes);
    }
    drop((first, beside));
    assert_eq!(workspace.table_bytes(), BYTES);
    drop(other);
    assert_eq!(workspace.table_bytes(), 0);
}

#[test]
fn weights_that_are_made_are_packed_once_for_all_extents() {
    let graph = |dtype: DType, open: bool| {
        let mut builder = GraphBuilder::new();
        let values: Vec<f32> = (0..300 * 300).map(|at| (at % 97) as f32 * 0.125 - 6.0).collect();
        let x = builder.input("x", DType::F32, &[5, 300]);
        let weights = match dtype {
            DType::F16 | DType::BF16 => {
                let reals: Vec<f64> = values.iter().map(|&value| value.into()).collect();
                let halves = builder.constant(&TestTensor::of_floats(dtype, &[300, 300], &reals));
                builder.node(Op::from(Cast { to: DType::F32 }), &[halves])
            }
            _ => builder.constant(&TestTensor::f32(&[300, 300], &values)),
        };
        let y = builder.node(Op::from(MatMul::default()), &[x, weights]);
        if open {
            builder.graph_mut().value_mut(x).shape = Some(vec![Dim::Symbol("n".into()), Dim::Fixed(300)]);
        }
        builder.finish(&[y])
    };
    let x: Vec<f32> = (0..9 * 300).map(|at| (at % 13) as f32 - 6.0).collect();
    let mut real = session(graph(DType::F32, true));
    for dtype in [DType::F16, DType::BF16] {
        let mut half = session(graph(dtype, true));
        let mut packed = 0;
        for rows in [5_usize, 1, 9, 5] {
            let shape = [rows, 300];
            let input = TensorRef::of(&x[..rows * 300], &shape);
            let (found, expected) = (half.run(&[input]).expect("a run"), real.run(&[input]).expect("a run"));
            // Eighths of small numbers, which all three types have.
            assert_eq!(found, expected, "{dtype} {rows}");
            let library = half.model().library();
            assert_eq!(library.bytes(), 0, "made for the packed form alone");
            assert!(packed == 0 || library.packed_bytes() == packed, "{dtype} {rows}");
            packed = library.packed_bytes();
        }
        assert!(packed >= 300 * 300 * 4);
        let input = [TensorRef::of(&x[..1500], &[5, 300])];
        let fixed = session(graph(dtype, false)).run(&input).expect("a run");
        assert_eq!(fixed, half.run(&input).expect("a run"));
    }
}

#[test]
fn times_are_taken_of_the_runs_that_ask_for_them() {
    let mut session = session(difference());
    let values = [1.0_f32; 4];
    let inputs = [TensorRef::of(&values, &[2, 2]); 2];
    session.run(&inputs).expect("a run");
    assert!(session.operator_times().is_empty());
    session.profile(true);
    session.run(&inputs).expect("a run");
    let times = session.operator_times();
    let kinds: Vec<(&str, &str)> =
        times.iter().map(|time| (time.name.as_str(), time.kind.as_str())).collect();
    assert_eq!(kinds, [("node0", "Add"), ("node1", "Sub")]);
    session.profile(false);
    assert!(session.operator_times().is_empty());
    let outline = session.outline();
    let names: Vec<(&str, &str)> = outline.nodes.iter().map(|node| (node.name.as_str(), node.kind)).collect();
    assert_eq!(names, kinds);
}

#[test]
fn every_value_can_be_seen() {
    let mut session = session(difference());
    let (x, y) = ([1.0_f32, 2.0], [10.0_f32, 20.0]);
    let inputs = [TensorRef::of(&x, &[1, 2]), TensorRef::of(&y, &[1, 2])];
    for _ in 0..2 {
        let found: Vec<(String, &str, Vec<String>, Vec<f32>)> = session
            .trace(&inputs)
            .expect("a run")
            .into_iter()
            .map(|each| {
                (each.name, each.operator, each.operands, each.value.as_slice().expect("reals").to_vec())
            })
            .collect();
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            found,
            [
                ("x".into(), "Input", vec![], vec![1.0, 2.0]),
                ("y".into(), "Input", vec![], vec![10.0, 20.0]),
                ("node0_0".into(), "Add", names(&["y", "y"]), vec![20.0, 40.0]),
                ("node1_0".into(), "Sub", names(&["x", "node0_0"]), vec![-19.0, -38.0]),
            ]
        );
    }
    let error = session.trace(&inputs[..1]).expect_err("one is missing").to_string();
    assert_eq!(error, "number of inputs: expected 2, got 1");
}

/// More values than one program gives.
#[test]
fn long_traces_are_made_in_parts() {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[1]);
    let one = builder.constant(&triune_testing::Tensor::f32(&[1], &[1.0]));
    let mut y = x;
    for _ in 0..200 {
        y = builder.binary(BinaryKind::Add, y, one);
    }
    let mut session = session(builder.finish(&[y]));
    let values = session.trace(&[TensorRef::of(&[0.5_f32], &[1])]).expect("a run");
    assert_eq!(values.len(), 201);
    for (at, each) in values.iter().enumerate() {
        assert_eq!(each.value.as_slice::<f32>().expect("reals"), [at as f32 + 0.5], "{}", each.name);
    }
}

/// Tensors that are somebody's own.
struct Own(Vec<Vec<u8>>);

impl Inputs for Own {
    fn input(&self, index: usize) -> &[u8] {
        &self.0[index]
    }
}

impl Outputs for Own {
    fn output(&mut self, index: usize) -> &mut [u8] {
        &mut self.0[index]
    }
}

#[test]
fn results_are_made_where_the_caller_wants_them() {
    let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let (given, mut wanted) = (Own(vec![bytes(&[1.0, 2.0]), bytes(&[10.0, 20.0])]), Own(vec![vec![0; 8]]));
    let mut direct = session(difference());
    direct.run_border(&shapes(&[1, 2]), &given, &mut wanted).expect("a run");
    assert_eq!(wanted.0[0], bytes(&[-19.0, -38.0]));
    assert!(direct.run_border(&shapes(&[1, 2])[..1], &given, &mut wanted).is_err());
    let error = session(staged()).run_border(&shapes(&[4])[..1], &given, &mut wanted);
    let error = error.expect_err("no fixed results");
    assert!(error.to_string().contains("the outputs' extents depend on data"), "{error}");
}

#[test]
fn stages_are_programs_with_work_between_them() {
    let mut session = session(staged());
    assert!(session.is_staged());
    session.profile(true);
    let run = |session: &mut Session, values: [f32; 4]| -> Vec<Tensor> {
        session.run(&[TensorRef::of(&values, &[4])]).expect("a run")
    };
    let found = run(&mut session, [0.0, 1.0, 0.0, 3.0]);
    assert_eq!(found[0].as_slice::<i64>().expect("indices"), [-1, -3]);
    assert_eq!(found[1].as_slice::<f32>().expect("reals"), [0.0, 2.0, 0.0, 6.0]);
    let names = |session: &Session| -> Vec<(String, String)> {
        session.operator_times().into_iter().map(|time| (time.name, time.kind)).collect()
    };
    let pair = |name: &str, kind: &str| (name.to_owned(), kind.to_owned());
    let all = [pair("node0", "Add"), pair("node1", "NonZero"), pair("node2", "Mul")];
    assert_eq!(names(&session)[..2], all[..2]);
    assert_eq!(names(&session).len(), 3);
    let outline = session.outline();
    let nodes: Vec<(&str, &str)> = outline.nodes.iter().map(|node| (node.name.as_str(), node.kind)).collect();
    assert_eq!(nodes[..2], [("node0", "Add"), ("node1", "NonZero")]);
    assert_eq!(nodes.len(), 3);
    // The tensors of both programs and of what is between them are each there once.
    let mut values: Vec<&str> = outline.values.iter().map(|value| value.name.as_str()).collect();
    values.sort_unstable();
    assert_eq!(values, ["node0_0", "node1_0", "node2_0", "x"]);
    assert_eq!(session.programs(&shapes(&[4])[..1]).expect("programs").len(), 2);
    assert!(session.deployment(&shapes(&[4])[..1]).expect("programs").is_none());
    // One plan for each number of results, the least used of which goes when there are too many; the first stage has one.
    assert_eq!(session.plans(), 1);
    for (values, plans) in [([1.0, 0.0, 0.0, 0.0], 2), ([0.0, 5.0, 6.0, 0.0], 2), ([1.0; 4], 3)] {
        run(&mut session, values);
        assert_eq!(session.plans(), plans, "{values:?}");
    }
    session.profile(false);
    run(&mut session, [1.0; 4]);
    assert!(session.operator_times().is_empty());
}

/// Several forms of a stage are kept; what is told of it is told of the one that ran last.
#[test]
fn stages_tell_of_the_last_run() {
    let mut graph = staged();
    let x = graph.inputs[0];
    graph.value_mut(x).shape = Some(vec![Dim::Symbol("n".into())]);
    let mut session = session(graph);
    for rows in [4, 2, 7, 2, 4] {
        let values = vec![1.0_f32; rows];
        let found = session.run(&[TensorRef::of(&values, &[rows])]).expect("a run");
        assert_eq!(*found[1].shape, [rows]);
        let outline = session.outline();
        let sum = outline.nodes.iter().find(|node| node.kind == "Add").expect("the sum");
        assert_eq!(*outline.values[sum.outputs[0]].shape, [rows]);
        assert_eq!(*session.programs(&[Shape::from([rows])]).expect("programs")[0].outputs[0].shape, [rows]);
    }
}

#[test]
fn results_go_where_the_caller_has_memory() {
    fn into<'a>(dtype: DType, shape: &'a [usize], bytes: &'a mut [u8]) -> TensorMut<'a> {
        TensorMut { dtype, shape, bytes }
    }

    let input = [1.0_f32, 0.0, 3.0, 0.0];
    let mut session = session(staged());
    let x = TensorRef::of(&input, &[4]);
    let expected = session.run(&[x]).expect("a run");
    let (mut negative, mut twice) = (vec![9; 16], vec![9; 16]);
    let found = session.run_into(&[x], &mut [None, Some(into(DType::F32, &[4], &mut twice))]).expect("a run");
    assert_eq!((found[0].as_ref(), &found[1]), (Some(&expected[0]), &None));
    assert_eq!(twice, expected[1].bytes);
    let mut both = [into(DType::I64, &[1, 2], &mut negative), into(DType::F32, &[4], &mut twice)].map(Some);
    assert_eq!(session.run_into(&[x], &mut both).expect("a run"), [None, None]);
    assert_eq!(negative, expected[0].bytes);

    let mut session = self::session(difference());
    let inputs = [TensorRef::of(&input, &[2, 2]); 2];
    let expected = session.run(&inputs).expect("a run");
    let mut room = vec![9; 16];
    let mut one = [Some(into(DType::F32, &[2, 2], &mut room))];
    assert_eq!(session.run_into(&inputs, &mut one).expect("a run"), [None]);
    assert_eq!(room, expected[0].bytes);
    let mut refused = |dtype, shape: &[usize], bytes| {
        let mut room = vec![9; bytes];
        let result = session.run_into(&inputs, &mut [Some(into(dtype, shape, &mut room))]);
        match result {
            Err(Error::Operand { what, expected, got }) => {
                assert!(room.iter().all(|&byte| byte == 9));
                assert!(what.starts_with("out for '"), "{what}");
                format!("{expected}, {got}")
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(DType::I32, &[2, 2], 16), "float32, int32");
    assert_eq!(refused(DType::F32, &[1, 2], 16), "shape (2, 2), (1, 2)");
    assert_eq!(refused(DType::F32, &[2, 2], 15), "16 bytes, 15 bytes");
}

/// A file that says something else of its outputs than its operators make is refused by name: when it is compiled, or, with extents
/// that depend on data, by the run that shows it.
#[test]
fn outputs_are_what_the_file_declares() {
    for graph in [difference(), staged()] {
        let mut declared = graph;
        let is_staged = declared.outputs.len() == 2;
        let last = declared.outputs[declared.outputs.len() - 1];
        declared.value_mut(last).dtype = Some(DType::F32);
        session(declared.clone());
        declared.value_mut(last).dtype = Some(DType::I64);
        let name = declared.value(last).name.clone();
        let made = Session::new(declared, &SessionOptions::default());
        let error = if is_staged {
            let x = [0.0_f32, 1.0, 2.0, 3.0];
            made.expect("a session").run(&[TensorRef::of(&x, &[4])]).expect_err("another type")
        } else {
            // Its extents are open: nothing is compiled yet.
            let (x, mut session) = ([1.0_f32, 2.0], made.expect("a session"));
            let operand = TensorRef::of(&x, &[1, 2]);
            session.run(&[operand, operand]).expect_err("another type")
        };
        let text = error.to_string();
        assert!(
            text.contains(&format!("output '{name}' is declared as int64, and what makes it gives float32")),
            "{text}"
        );
    }
}

/// The kinds of the model's operators that one of a plan is made of, and its commands' methods and places.
type Step = (Vec<&'static str>, Vec<(Option<ConvMethod>, Placement)>);

/// Those of a plan's first part.
fn steps(plan: &SessionPlan) -> Vec<Step> {
    let operators = plan.parts[0].operators.iter();
    let step = operators.map(|operator| {
        let made_of = operator.made_of.iter().map(|(_, kind)| *kind).collect();
        let commands = operator.commands.iter().map(|command| (command.method, command.place));
        (made_of, commands.collect())
    });
    step.collect()
}

#[test]
fn a_plan_says_what_a_run_does() {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[1, 64, 28, 28]);
    let weights = builder.constant(&TestTensor::f32(&[64, 64, 3, 3], &vec![0.01; 64 * 64 * 9]));
    let y = builder.conv(&[x, weights], 1, 1, 1);
    let y = builder.unary(UnaryKind::Relu, y);
    let y = builder.conv(&[y, weights], 2, 1, 1);
    let mut session = session(builder.finish(&[y]));
    let shapes = [Shape::from([1, 64, 28, 28])];
    let plan = session.plan(&shapes).expect("a plan");
    let memory = session.memory_plan(&shapes).expect("a plan");
    let part = &plan.parts[0];
    assert_eq!((plan.parts.len(), plan.threads, part.hosted.len()), (1, 1, 0));
    assert_eq!(
        (part.map_bytes, part.lower_bound, &part.maps),
        (memory.bytes, memory.lower_bound, &memory.maps)
    );
    assert_eq!(part.border_bytes, 4 * 64 * (28 * 28 + 14 * 14));
    assert!(plan.workspace_bytes >= part.map_bytes + part.border_bytes);
    assert!(plan.packed_bytes >= 2 * 4 * 64 * 64 * 9, "both forms");
    let found = steps(&plan);
    // Its result lies with channels innermost, and is copied to the output.
    assert_eq!(found.len(), 3);
    assert_eq!((&*found[2].0, &*found[2].1), (&[][..], &[(None, Placement::Output(0))][..]));
    assert_eq!((&*found[0].0, &*found[1].0), (&["Conv", "Relu"][..], &["Conv"][..]));
    let methods: Vec<_> = found.iter().flat_map(|(_, commands)| commands).filter_map(|each| each.0).collect();
    assert_eq!(methods, [ConvMethod::Winograd, ConvMethod::Direct]);
    assert_eq!(part.operators[1].outputs[0].shape, Shape::from([1, 64, 14, 14]));
    assert_eq!(part.operators[1].inputs, [part.operators[0].outputs[0].name.clone()]);
}

#[test]
fn a_plan_has_strips_stages_and_what_is_hosted() {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[4096, 256]);
    let y = builder.unary(UnaryKind::Exp, x);
    let z = builder.unary(UnaryKind::Neg, y);
    let z = builder.binary(BinaryKind::Add, z, y);
    let mut long = session(builder.finish(&[z]));
    let plan = long.plan(&[Shape::from([4096, 256])]).expect("a plan");
    let strips = &plan.parts[0].strips;
    assert_eq!(strips.len(), 1);
    assert!(strips[0].rows.is_multiple_of(4096) && strips[0].each < strips[0].rows, "{strips:?}");
    let places: Vec<_> =
        steps(&plan).into_iter().flat_map(|(_, commands)| commands).map(|each| each.1).collect();
    assert_eq!(places, [Placement::Strip, Placement::Strip, Placement::Output(0)]);

    let mut session = session(staged());
    let shapes = [Shape::from([4])];
    let before = session.plan(&shapes).expect("a plan");
    assert_eq!(before.parts.iter().map(|part| part.operators.len()).collect::<Vec<_>>(), [1, 0]);
    assert_eq!(before.parts[0].hosted.iter().map(|each| each.1).collect::<Vec<_>>(), ["NonZero"]);
    session.run(&[TensorRef::of(&[0.0_f32, 1.0, 0.0, 2.0], &[4])]).expect("a run");
    let behind = session.plan(&shapes).expect("a plan");
    assert_eq!(behind.parts[1].operators[0].kind, "Neg");
    assert_eq!(behind.parts[1].operators[0].outputs[0].shape, Shape::from([1, 2]));
}

#[test]
fn what_runs_on_a_device_has_no_plan_here() {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[1, 4, 8, 8]);
    let params = QuantParams { scale: 0.02, zero_point: 3 };
    let x = builder.quantize_dequantize(x, params, DType::I8);
    let weights = builder.dequantized_constant(&TestTensor::i8(&[4, 4, 1, 1], &[1; 16]), &[0.01], 0);
    let y = builder.conv(&[x, weights], 1, 0, 1);
    let y = builder.quantize_dequantize(y, params, DType::I8);
    let device = Some(DeviceSpec::builtin("metis").expect("a built-in device"));
    let options = SessionOptions { device, ..SessionOptions::default() };
    let mut session = Session::new(builder.finish(&[y]), &options).expect("a session");
    let refused = session.plan(&[Shape::from([1, 4, 8, 8])]).expect_err("a device").to_string();
    assert!(refused.contains("runs on a device"), "{refused}");
}

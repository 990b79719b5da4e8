//! Host and device in turns: where the device begins anew, what crosses, and what does not pay.

use triune_compiler::{CompileOptions, Compiled, TensorIo, compile, partition::MOST_STAGES};
use triune_device::DeviceSpec;
use triune_graph::{
    Graph, Op, ValueId,
    ops::{BinaryKind, UnaryKind},
};
use triune_tensor::{DType, QuantParams};
use triune_testing::{GraphBuilder, Random, Tensor};

const MEANING: QuantParams = QuantParams { scale: 0.03, zero_point: 7 };

/// A quantized convolution that keeps the extents.
fn conv(builder: &mut GraphBuilder, random: &mut Random, x: ValueId, channels: usize) -> ValueId {
    let count = channels * channels * 9;
    let bytes: Vec<i64> = random.bytes(count).into_iter().map(|byte| i64::from(byte as i8)).collect();
    let weights = Tensor::of_integers(DType::I8, &[channels, channels, 3, 3], &bytes);
    let weights = builder.dequantized_constant(&weights, &[0.002], 0);
    let y = builder.conv(&[x, weights], 1, 1, 1);
    builder.quantize_dequantize(y, MEANING, DType::I8)
}

/// What the host alone computes: such a power has no form over integers.
fn hosted(builder: &mut GraphBuilder, x: ValueId) -> ValueId {
    let exponent = builder.constant(&Tensor::f32(&[1], &[1.7]));
    let y = builder.binary(BinaryKind::Pow, x, exponent);
    builder.quantize_dequantize(y, QuantParams { scale: 0.01, zero_point: -3 }, DType::I8)
}

fn compiled(builder: GraphBuilder, outputs: &[ValueId]) -> Compiled {
    of(&builder.finish_inferred(outputs))
}

fn of(graph: &Graph) -> Compiled {
    let spec = DeviceSpec::builtin("metis").expect("a built-in device");
    compile(graph, &spec, &CompileOptions::default()).expect("a program")
}

/// A chain of convolutions of so many channels with powers between.
fn chain(channels: &[usize]) -> Compiled {
    let (mut builder, mut random) = (GraphBuilder::new(), Random(3));
    let mut x = builder.input("x", DType::F32, &[1, 8, 16, 16]);
    x = builder.quantize_dequantize(x, MEANING, DType::I8);
    for (index, &count) in channels.iter().enumerate() {
        if index > 0 {
            x = hosted(&mut builder, x);
        }
        for _ in 0..count {
            x = conv(&mut builder, &mut random, x, 8);
        }
    }
    compiled(builder, &[x])
}

#[test]
fn a_device_goes_on_behind_the_host() {
    let found = chain(&[2, 1, 3]);
    let program = &found.program;
    assert_eq!((found.between.len(), program.waits.len(), found.report.segments), (2, 2, 3));
    assert_eq!((program.given().len(), program.results().len()), (1, 1));
    assert_eq!((program.inputs.len(), program.outputs.len()), (3, 3));
    // The model's output comes first, whatever was made before.
    assert_eq!(program.outputs[0].name, found.report.outputs[0].name);
    assert_eq!(program.waits.iter().map(|wait| wait.makes.clone()).collect::<Vec<_>>(), [vec![1], vec![2]]);
    assert_eq!(program.waits.iter().map(|wait| wait.reads.clone()).collect::<Vec<_>>(), [vec![1], vec![2]]);
    let ends: Vec<usize> = program.stages().map(|stage| stage.start).collect();
    assert_eq!(ends, [0, program.waits[0].at as usize, program.waits[1].at as usize]);
    assert!(ends.is_sorted() && ends[1] > 0 && ends[2] > ends[1]);
    assert_eq!(found.report.device.macs, 6 * 16 * 16 * 8 * 8 * 9);
    assert_eq!((found.report.host.operators, found.report.host.macs), (2, 0));
    let reasons: Vec<_> = found.report.stayed.iter().map(|each| &*each.reason).collect();
    assert_eq!(reasons, ["the device has no Pow, and it computes on float32"; 2]);
    let crossings: Vec<_> =
        found.report.crossings.iter().map(|each| (each.to_device, each.segment)).collect();
    assert_eq!(crossings, [(true, 0), (false, 0), (true, 1), (false, 1), (true, 2), (false, 2)]);
}

/// Callers give arrays by their place, and those of one shape in another order would be taken without a word.
#[test]
fn inputs_and_outputs_are_in_the_models_order() {
    let names = ["a", "b", "c"];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let (mut builder, mut random) = (GraphBuilder::new(), Random(9));
        let inputs = names.map(|name| builder.input(name, DType::F32, &[1, 8, 16, 16]));
        let mut made = inputs;
        for place in order {
            let x = builder.quantize_dequantize(inputs[place], MEANING, DType::I8);
            made[place] = conv(&mut builder, &mut random, x, 8);
        }
        let graph = builder.finish_inferred(&made);
        let wanted = made.map(|id| graph.value(id).name.clone());
        let found = of(&graph);
        let told = |ends: &[TensorIo]| ends.iter().map(|end| end.name.clone()).collect::<Vec<_>>();
        assert_eq!(told(&found.program.inputs), names, "computed on in the order {order:?}");
        assert_eq!(told(&found.program.outputs), wanted, "made in the order {order:?}");
    }
}

/// What the host makes of an input comes where that would.
#[test]
fn inputs_by_way_of_the_host_are_in_the_models_order() {
    let (mut builder, mut random) = (GraphBuilder::new(), Random(9));
    let [a, b] = ["a", "b"].map(|name| builder.input(name, DType::F32, &[1, 8, 16, 16]));
    let other = builder.quantize_dequantize(b, MEANING, DType::I8);
    let other = conv(&mut builder, &mut random, other, 8);
    let exponent = builder.constant(&Tensor::f32(&[1], &[1.7]));
    let power = builder.binary(BinaryKind::Pow, a, exponent);
    let x = builder.quantize_dequantize(power, MEANING, DType::I8);
    let x = conv(&mut builder, &mut random, x, 8);
    let graph = builder.finish_inferred(&[x, other]);
    let found = of(&graph);
    let told: Vec<&str> = found.program.inputs.iter().map(|end| &*end.name).collect();
    assert_eq!(told, [&*graph.value(power).name, "b"]);
}

#[test]
fn more_turns_than_a_run_has_are_left_to_the_host() {
    let found = chain(&[1; MOST_STAGES + 4]);
    assert_eq!(found.report.segments, MOST_STAGES);
    assert_eq!(found.program.waits.len(), MOST_STAGES - 1);
    assert_eq!(found.report.device.macs, MOST_STAGES as u64 * 16 * 16 * 8 * 8 * 9);
    let left: Vec<_> = found.report.stayed.iter().filter(|each| each.op == "Conv").collect();
    assert_eq!(left.len(), 4);
    let reason = format!("a program has at most {MOST_STAGES} segments, and others have more work");
    assert!(left.iter().all(|each| each.reason == reason), "{left:?}");
    assert!(found.report.share() < 0.95);
}

#[test]
fn little_work_behind_the_host_stays_there() {
    let (mut builder, mut random) = (GraphBuilder::new(), Random(5));
    let x = builder.input("x", DType::F32, &[1, 8, 16, 16]);
    let x = builder.quantize_dequantize(x, MEANING, DType::I8);
    let x = conv(&mut builder, &mut random, x, 8);
    let x = hosted(&mut builder, x);
    let y = builder.unary(UnaryKind::Sigmoid, x);
    let y = builder.quantize_dequantize(y, MEANING, DType::I8);
    let found = compiled(builder, &[y]);
    assert_eq!((found.report.segments, found.between.len()), (1, 0));
    let nodes = |part: &Option<Vec<u8>>| {
        let count = |bytes: &Vec<u8>| {
            triune_graph::format::onnx::read_bytes(bytes.clone(), None).expect("a model").nodes.len()
        };
        part.as_ref().map_or(0, count)
    };
    let summary = &found.summary;
    assert_eq!(
        [summary.preprocess_nodes, summary.device_nodes, summary.between_nodes, summary.postprocess_nodes],
        [nodes(&found.preprocess), 1, 0, nodes(&found.postprocess)]
    );
    let reasons: Vec<&str> = found.report.stayed.iter().map(|each| &*each.reason).collect();
    assert_eq!(reasons[1..], ["too little work behind the host to cross for"]);
}

/// The operators of a host part, and the names of what it takes and gives.
fn part(bytes: &[u8]) -> (Vec<&'static str>, Vec<String>, Vec<String>) {
    let graph = triune_graph::format::onnx::read_bytes(bytes.to_vec(), None).expect("a model");
    let names = |ids: &[ValueId]| ids.iter().map(|&id| graph.value(id).name.clone()).collect();
    let quantizers = |op: &Op| matches!(op, Op::QuantizeLinear(_) | Op::DequantizeLinear(_));
    let kinds = graph.nodes.iter().filter(|node| !quantizers(&node.op)).map(|node| node.op.name()).collect();
    (kinds, names(&graph.inputs), names(&graph.outputs))
}

/// What comes between also takes what is made of the model's input, which the device never had: callers give that beside.
#[test]
fn what_is_there_before_the_device_begins_is_there_between() {
    let (mut builder, mut random) = (GraphBuilder::new(), Random(5));
    let image = builder.input("x", DType::F32, &[1, 8, 16, 16]);
    let x = builder.quantize_dequantize(image, MEANING, DType::I8);
    let x = conv(&mut builder, &mut random, x, 8);
    let powers = builder.unary(UnaryKind::Exp, image);
    let sum = builder.binary(BinaryKind::Sub, x, powers);
    let quantized = builder.quantize_dequantize(sum, MEANING, DType::I8);
    let y = conv(&mut builder, &mut random, quantized, 8);
    let graph = builder.finish_inferred(&[y]);
    let found = of(&graph);
    let name = |id: ValueId| graph.value(id).name.clone();
    assert_eq!((found.report.segments, found.between.len()), (2, 1));
    assert_eq!((found.report.host.macs, found.postprocess), (0, None));
    let program = &found.program;
    let taken: Vec<_> = program.taken().map(|io| (&*io.name, io.dtype)).collect();
    assert_eq!(taken, [("x", DType::I8), (&*name(powers), DType::F32)]);
    let [beside] = &program.beside[..] else { panic!("one tensor, not {:?}", program.beside) };
    assert_eq!([beside.shape.to_vec(), beside.model_shape.to_vec()], [[1, 16, 16, 8], [1, 8, 16, 16]]);
    assert_eq!(program.given().len(), 1);
    let before = found.preprocess.as_deref().map(part).expect("a part before");
    assert_eq!(before, (vec!["Exp"], vec!["x".into()], vec!["x".into(), name(powers)]));
    let between = part(&found.between[0]);
    assert_eq!(between, (vec!["Sub"], vec![program.outputs[1].name.clone(), name(powers)], vec![name(sum)]));
    // It never crosses.
    let crossings: Vec<_> =
        found.report.crossings.iter().map(|each| (each.to_device, each.segment)).collect();
    assert_eq!(crossings, [(true, 0), (false, 0), (true, 1), (false, 1)]);
}

/// A stream of residuals in reals: each part adds to what the one before it made, and nothing is computed twice.
#[test]
fn what_a_part_made_is_there_for_the_next() {
    let (mut builder, mut random) = (GraphBuilder::new(), Random(5));
    let mut stream = builder.input("x", DType::F32, &[1, 8, 16, 16]);
    let mut sums = Vec::new();
    for _ in 0..4 {
        let y = builder.quantize_dequantize(stream, MEANING, DType::I8);
        let y = conv(&mut builder, &mut random, y, 8);
        stream = builder.binary(BinaryKind::Add, stream, y);
        sums.push(stream);
    }
    let y = builder.quantize_dequantize(stream, MEANING, DType::I8);
    let y = conv(&mut builder, &mut random, y, 8);
    let graph = builder.finish_inferred(&[y]);
    let sums = sums.iter().map(|&id| graph.value(id).name.clone());
    let found = of(&graph);
    assert_eq!((found.report.segments, found.report.host.operators, found.report.host.macs), (5, 4, 0));
    assert_eq!((found.preprocess, found.postprocess), (None, None));
    let program = &found.program;
    assert_eq!(
        program.taken().map(|io| (&*io.name, io.dtype)).collect::<Vec<_>>(),
        [("x", DType::I8), ("x", DType::F32)]
    );
    assert_eq!(found.between.len(), 4);
    let mut before = "x".to_owned();
    for ((bytes, wait), sum) in found.between.iter().zip(&program.waits).zip(sums) {
        let [read] = wait.reads[..] else { panic!("one tensor of the device's, not {:?}", wait.reads) };
        let wanted = (vec!["Add"], vec![program.outputs[read].name.clone(), before], vec![sum.clone()]);
        assert_eq!(part(bytes), wanted);
        before = sum;
    }
}

/// Bytes of the model's own are told apart from the device's by nobody who gives them.
#[test]
fn bytes_that_the_host_wants_between_keep_the_rest_there() {
    let (mut builder, mut random) = (GraphBuilder::new(), Random(5));
    let image = builder.input("x", DType::U8, &[1, 8, 16, 16]);
    let x = builder.dequantize(image, MEANING, DType::U8);
    let x = conv(&mut builder, &mut random, x, 8);
    let bytes = builder.quantize(x, MEANING, DType::U8);
    let both = builder.binary(BinaryKind::Div, bytes, image);
    let both = builder.dequantize(both, MEANING, DType::U8);
    let y = conv(&mut builder, &mut random, both, 8);
    let found = compiled(builder, &[y]);
    assert_eq!((found.report.segments, found.between.len()), (1, 0));
    assert_eq!(found.report.device.macs, found.report.host.macs);
    let stayed = found.report.stayed.iter().find(|each| each.op == "Conv").expect("a convolution");
    assert!(stayed.reason.contains("a QuantizeLinear and a DequantizeLinear behind"), "{}", stayed.reason);
    // The host's part behind takes them past the card.
    let (kinds, inputs, _) = part(&found.postprocess.expect("a part behind"));
    assert_eq!(inputs, [found.program.outputs[0].name.as_str(), "x"]);
    assert_eq!(kinds.iter().filter(|&&kind| kind == "Conv").count(), 1);
}

//! Icraft's documents of real models: each stage runs, and gives what the stage before gives.

mod damage;
mod operators;
mod pinned;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use triune_device::DeviceSpec;
use triune_graph::{
    Graph, Op,
    format::{
        onnx,
        xir::{self, Document},
    },
    ops,
};
use triune_icraft::{HardNetwork, HardOps, Stages};
use triune_runtime::{Device, PlanOptions, Session, SessionOptions, Tensor, TensorRef};
use triune_tensor::{DType, QuantParams, Requantize, Shape};
use triune_testing::{GraphBuilder, Random, Tensor as Naive, test_data};

/// Quantized models, and the float models that they were quantized from where these are there.
const MODELS: [(&str, Option<&str>, f32); 6] = [
    ("mlperftiny_resnet8_int8_qdq", None, 127.0),
    ("mobilenetv2_int8_qdq", None, 1.0),
    ("squeezenet_u8s8_qdq", Some("squeezenet_f32"), 127.0),
    ("ultraface_s8s8_qdq", Some("ultraface_f32"), 1.0),
    ("ultraface_u8s8_qdq", Some("ultraface_f32"), 1.0),
    ("yolox_nano_u8s8_qdq", Some("yolox_nano_f32"), 255.0),
];

fn path(name: &str) -> Option<PathBuf> {
    test_data(&format!("models/onnx/{name}.onnx"))
}

/// Reals of a size like those that the models were made for; the same on every machine.
fn reals(count: usize, size: f32) -> Vec<f32> {
    let mut random = Random(7);
    (0..count).map(|_| random.unit().abs() * size).collect()
}

/// Rows, columns, channels of a batch of images, or back; other ranks stay as they are.
fn transposed(values: &[f32], shape: &[usize], to_channels_last: bool) -> Vec<f32> {
    let &[n, a, b, c] = shape else { return values.to_vec() };
    let (outer, inner) = if to_channels_last { (a, b * c) } else { (a * b, c) };
    let size = a * b * c;
    (0..n * size)
        .map(|index| {
            let (image, at) = (index / size, index % size);
            values[image * size + at % outer * inner + at / outer]
        })
        .collect()
}

fn run(graph: Graph, inputs: &[(Vec<usize>, Vec<f32>)]) -> Vec<Tensor> {
    let mut session = Session::new(graph, &SessionOptions::default()).unwrap();
    let bytes: Vec<Vec<u8>> = inputs
        .iter()
        .map(|(_, values)| values.iter().flat_map(|value| value.to_le_bytes()).collect())
        .collect();
    let operands: Vec<TensorRef<'_>> = inputs
        .iter()
        .zip(&bytes)
        .map(|((shape, _), bytes)| TensorRef { dtype: DType::F32, shape, bytes })
        .collect();
    session.run(&operands).unwrap()
}

/// The results of a document's network, and of images in the order that ONNX has.
fn run_document(document: &Document, inputs: &[(Vec<usize>, Vec<f32>)]) -> Vec<Vec<f32>> {
    let (json, raw) = document.write().unwrap();
    let read = Document::read(json.as_bytes(), Some(raw.into())).unwrap();
    assert!(read.write().unwrap().0 == json, "{} is another document when it was read", document.name);
    let graph = xir::to_graph(&read, &xir::Options::default()).unwrap();
    let images: Vec<(Vec<usize>, Vec<f32>)> = inputs.iter().map(image).collect();
    let outputs = run(graph, &images);
    outputs.iter().map(|tensor| transposed(&floats(tensor), &tensor.shape, false)).collect()
}

/// The results of a document with commands: the host's operators as a network, the accelerator's on a simulated device.
fn run_compiled(document: &Document, spec: &DeviceSpec, inputs: &[(Vec<usize>, Vec<f32>)]) -> Vec<Vec<f32>> {
    let (json, raw) = document.write().unwrap();
    let read = Document::read(json.as_bytes(), Some(raw.into())).unwrap();
    let network = Arc::new(HardNetwork::new(&read, Path::new("net.json")).unwrap());
    let device = Device::new(spec.clone()).unwrap();
    let hard = HardOps::new(&device, &network, 1).unwrap();

    let is_hard = |op: &xir::Operation| op.type_key == "icraft::xir::HardOp";
    let first = read.ops.iter().position(is_hard).unwrap();
    let last = read.ops.iter().rposition(is_hard).unwrap();
    assert!(read.ops[first..=last].iter().all(is_hard));
    let (before, behind) = (&read.ops[..first], &read.ops[last + 1..]);
    let made =
        |ops: &[xir::Operation]| -> Vec<usize> { ops.iter().flat_map(|op| op.outputs.clone()).collect() };
    let taken = |ops: &[xir::Operation], from: &[usize]| -> Vec<usize> {
        let mut found = Vec::new();
        for index in ops.iter().flat_map(|op| op.inputs.iter().flatten().copied()) {
            if from.contains(&index) && !found.contains(&index) {
                found.push(index);
            }
        }
        found
    };
    let edge = |kind: &str, inputs: Vec<usize>, outputs: Vec<usize>| xir::Operation {
        type_key: format!("icraft::xir::{kind}"),
        op_id: 100_000,
        inputs: inputs.into_iter().map(Some).collect(),
        outputs,
        ..before[0].clone()
    };
    let entering = taken(&read.ops[first..=last], &made(before));
    let mut ops = before.to_vec();
    ops.push(edge("Output", entering.clone(), Vec::new()));
    let part = Document { ops, ..read.clone() };
    let images: Vec<(Vec<usize>, Vec<f32>)> = inputs.iter().map(image).collect();
    let stored = run(xir::to_graph(&part, &xir::Options::default()).unwrap(), &images);
    for (&index, tensor) in entering.iter().zip(&stored) {
        hard.write(read.values[index].v_id, &tensor.bytes).unwrap();
    }
    for op in network.op_ids() {
        hard.run(op, op).unwrap();
    }
    let leaving = taken(behind, &made(&read.ops[first..=last]));
    let results: Vec<Tensor> = leaving
        .iter()
        .map(|&index| {
            let value = &read.values[index];
            let mut bytes = vec![0; hard.bytes(value.v_id).unwrap()];
            hard.read(value.v_id, &mut bytes).unwrap();
            let dtype =
                if value.dtype.element.storage() == xir::Scalar::Unsigned(8) { DType::U8 } else { DType::I8 };
            Tensor { dtype, shape: Shape::new(hard.extents(value.v_id).unwrap()).unwrap(), bytes }
        })
        .collect();
    let mut ops = vec![edge("Input", Vec::new(), leaving)];
    ops.extend_from_slice(behind);
    let part = Document { ops, ..read.clone() };
    let graph = xir::to_graph(&part, &xir::Options::default()).unwrap();
    let mut session = Session::new(graph, &SessionOptions::default()).unwrap();
    let operands: Vec<TensorRef<'_>> = results.iter().map(Tensor::view).collect();
    let outputs = session.run(&operands).unwrap();
    outputs.iter().map(|tensor| transposed(&floats(tensor), &tensor.shape, false)).collect()
}

/// An image batch with its channels last.
fn image((shape, values): &(Vec<usize>, Vec<f32>)) -> (Vec<usize>, Vec<f32>) {
    match shape[..] {
        [n, c, h, w] => (vec![n, h, w, c], transposed(values, shape, true)),
        _ => (shape.clone(), values.clone()),
    }
}

fn floats(tensor: &Tensor) -> Vec<f32> {
    // Positions: few, and small.
    match tensor.dtype {
        DType::I64 => {
            let words = tensor.bytes.chunks_exact(8);
            return words.map(|word| i64::from_le_bytes(word.try_into().unwrap()) as f32).collect();
        }
        DType::I32 => {
            let words = tensor.bytes.chunks_exact(4);
            return words.map(|word| i32::from_le_bytes(word.try_into().unwrap()) as f32).collect();
        }
        dtype => assert_eq!(dtype, DType::F32),
    }
    tensor.bytes.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect()
}

/// The largest difference in units of the largest magnitude.
fn difference(got: &[Vec<f32>], wanted: &[Vec<f32>]) -> f32 {
    assert_eq!(got.len(), wanted.len());
    let mut worst = 0.0_f32;
    for (got, wanted) in got.iter().zip(wanted) {
        assert_eq!(got.len(), wanted.len());
        let largest = wanted.iter().fold(f32::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
        let far = got.iter().zip(wanted).map(|(got, wanted)| (got - wanted).abs()).fold(0.0, f32::max);
        worst = worst.max(far / largest);
    }
    worst
}

#[test]
fn stages_give_what_the_model_gives() {
    for (name, float, size) in MODELS {
        let Some(file) = path(name) else { return };
        let model = onnx::read(file).unwrap();
        let reals_model = float.and_then(path).map(|file| onnx::read(file).unwrap());
        let inputs: Vec<(Vec<usize>, Vec<f32>)> = model
            .inputs
            .iter()
            .map(|&id| {
                let dims = model.value(id).shape.clone().unwrap();
                let shape: Vec<usize> = dims
                    .iter()
                    .map(|dim| match dim {
                        triune_graph::Dim::Fixed(extent) => *extent,
                        triune_graph::Dim::Symbol(_) => 1,
                    })
                    .collect();
                let values = reals(shape.iter().product(), size);
                (shape, values)
            })
            .collect();
        for device in ["zg330", "buyi"] {
            let spec = DeviceSpec::builtin(device).unwrap();
            let stages = Stages::new(&model, reals_model.as_ref(), &spec, &PlanOptions::default()).unwrap();
            let mut reference = model.clone();
            if device == "buyi" {
                reference.requantize = Requantize::Fixed;
            }
            let wanted: Vec<Vec<f32>> = run(reference, &inputs).iter().map(floats).collect();
            let quantized = run_document(&stages.quantized, &inputs);
            assert_eq!(difference(&quantized, &wanted), 0.0, "{name} on {device}: quantized");
            let adapted = run_document(&stages.adapted, &inputs);
            assert_eq!(difference(&adapted, &quantized), 0.0, "{name} on {device}: adapted");
            let compiled = run_compiled(&stages.compiled, &spec, &inputs);
            assert_eq!(difference(&compiled, &adapted), 0.0, "{name} on {device}: {}", stages.suffix);
            let parsed = run_document(&stages.parsed, &inputs);
            if let Some(float) = &reals_model {
                let wanted: Vec<Vec<f32>> = run(float.clone(), &inputs).iter().map(floats).collect();
                let far = difference(&parsed, &wanted);
                assert!(far < 1e-4, "{name} on {device}: parsed differs by {far}");
            }
            let far = difference(&run_document(&stages.optimized, &inputs), &parsed);
            assert!(far < 1e-4, "{name} on {device}: optimized differs by {far}");
            println!(
                "{name} on {device}: quantization changes results by {}",
                difference(&quantized, &parsed)
            );
        }
    }
}

/// A quantized convolution with an operator in reals behind it, which zero points are left out of.
fn small(op: Op, constants: &[Naive], results: usize) -> Graph {
    let mut builder = GraphBuilder::new();
    let params = QuantParams { scale: 0.0625, zero_point: 0 };
    let x = builder.input("x", DType::F32, &[1, 4, 6, 5]);
    let plain = |builder: &mut GraphBuilder, x| {
        let scale = builder.constant(&Naive::f32(&[], &[params.scale]));
        let quantize = ops::QuantizeLinear { axis: 1, dtype: DType::I8 };
        let quantized = builder.node(Op::QuantizeLinear(quantize), &[x, scale]);
        builder.node(Op::DequantizeLinear(ops::DequantizeLinear { axis: 1 }), &[quantized, scale])
    };
    let x = plain(&mut builder, x);
    let bytes: Vec<i8> = (0..36).map(|at| (at * 37 % 29) as i8 - 14).collect();
    let weights = builder.dequantized_constant(&Naive::i8(&[4, 1, 3, 3], &bytes), &[0.03125], 0);
    let y = builder.conv(&[x, weights], 1, 1, 4);
    let y = plain(&mut builder, y);
    let mut operands = vec![Some(y)];
    operands.extend(constants.iter().map(|constant| Some(builder.constant(constant))));
    let made = builder.node_with(op, &operands, results);
    builder.finish(&made)
}

/// Operators behind the core, one by one: the documents compute what the model computes.
#[test]
fn single_operators_keep_their_values() {
    use ops::{BinaryKind as B, UnaryKind as U};
    let spec = DeviceSpec::builtin("zg330").unwrap();
    let row = || Naive::f32(&[4, 1, 1], &[0.5, -1.5, 2.0, 0.25]);
    let ints = |values: &[i64]| Naive::i64(&[values.len()], values);
    let mut cases: Vec<(Op, Vec<Naive>, usize)> = Vec::new();
    for kind in [
        U::Relu,
        U::LeakyRelu(0.25),
        U::Clip([-0.5, 1.5]),
        U::Elu(0.5),
        U::HardSigmoid { alpha: 0.25, beta: 0.375 },
        U::Softplus,
        U::Sigmoid,
        U::Silu,
        U::HardSwish,
        U::Tanh,
        U::Gelu,
        U::Abs,
        U::Neg,
        U::Sin,
        U::Cos,
        U::LogSigmoid,
        U::Identity,
    ] {
        cases.push((Op::Unary(ops::Unary { kind }), vec![], 1));
    }
    for kind in [B::Add, B::Sub, B::Mul, B::Div, B::Min, B::Max, B::PRelu] {
        cases.push((kind.into(), vec![row()], 1));
    }
    for (op, constants, results) in [
        (Op::Softmax(ops::Softmax { axis: 1, flatten: false, log: false }), vec![], 1),
        (Op::Softmax(ops::Softmax { axis: 2, flatten: false, log: true }), vec![], 1),
        (Op::Reshape(ops::Reshape { allow_zero: false }), vec![ints(&[1, 8, 15])], 1),
        (Op::Slice(ops::Slice), vec![ints(&[1, 0]), ints(&[4, 5]), ints(&[2, 3]), ints(&[1, 2])], 1),
        (Op::Split(ops::Split { axis: 1, parts: None }), vec![ints(&[1, 3])], 2),
        (Op::Pad(ops::Pad { mode: ops::PadMode::Constant }), vec![ints(&[0, 0, 1, 2, 0, 0, 3, 0])], 1),
        (Op::Concat(ops::Concat { axis: 1 }), vec![Naive::f32(&[1, 2, 6, 5], &[0.75; 60])], 1),
    ] {
        cases.push((op, constants, results));
    }
    for kind in [ops::ReduceKind::Sum, ops::ReduceKind::Mean, ops::ReduceKind::Max, ops::ReduceKind::Min] {
        for keep_dims in [true, false] {
            // Of extremes the representation has one axis.
            let axes = if matches!(kind, ops::ReduceKind::Sum | ops::ReduceKind::Mean) {
                vec![1, 3]
            } else {
                vec![3]
            };
            cases.push((Op::Reduce(ops::Reduce { kind, axes: Some(axes), keep_dims }), vec![], 1));
        }
    }
    for kind in [ops::ReduceKind::Max, ops::ReduceKind::Min] {
        for (axis, keep_dims) in [(1, true), (1, false), (-1, true), (2, false)] {
            let op = ops::ArgReduce { kind, axis, keep_dims, last: false, dtype: DType::I64 };
            cases.push((Op::ArgReduce(op), vec![], 1));
        }
    }
    cases.push((Op::Expand(ops::Expand), vec![ints(&[3, 4, 6, 5])], 1));
    let five = |values: &[f32]| Naive::f32(&[5], values);
    let factors = vec![five(&[0.5, -1.5, 2.0, 0.25, 1.0]), five(&[1.0, 0.0, -0.5, 3.0, 0.125])];
    cases.push((Op::LayerNorm(ops::LayerNorm { axes: [3, 4], epsilon: 0.5, centred: true }), factors, 1));
    let twice = |mode, coordinates, scale: f32| {
        let scales = Naive::f32(&[4], &[1.0, 1.0, scale, 2.0]);
        (Op::Resize(ops::Resize { mode, coordinates }), vec![Naive::f32(&[0], &[]), scales], 1)
    };
    let nearest = ops::ResizeMode::Nearest;
    cases.push(twice(nearest(ops::NearestMode::Floor), ops::CoordinateMode::Asymmetric, 1.5));
    cases.push(twice(nearest(ops::NearestMode::RoundPreferFloor), ops::CoordinateMode::HalfPixel, 3.0));
    cases.push(twice(ops::ResizeMode::Linear, ops::CoordinateMode::HalfPixel, 1.5));
    let shape = vec![1, 4, 6, 5];
    let values: Vec<f32> = reals(120, 4.0).iter().map(|x| x - 2.0).collect();
    let inputs = [(shape, values)];
    let mut wrong = Vec::new();
    for (op, constants, results) in cases {
        let what = format!("{op:?}");
        let model = small(op, &constants, results);
        match Stages::new(&model, None, &spec, &PlanOptions::default()) {
            Err(error) => wrong.push(format!("{what}: {error}")),
            Ok(stages) => {
                let wanted: Vec<Vec<f32>> = run(model, &inputs).iter().map(floats).collect();
                for document in [&stages.quantized, &stages.adapted] {
                    let far = difference(&run_document(document, &inputs), &wanted);
                    if far > 1e-5 {
                        wrong.push(format!("{what}: {} differs by {far}", document.name));
                    }
                }
                let has_core = stages.compiled.ops.iter().any(|op| op.type_key == "icraft::xir::HardOp");
                if !has_core {
                    wrong.push(format!("{what}: nothing runs on the device"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} operators:\n{}", wrong.len(), wrong.join("\n"));
}

//! Programs whose feature maps and weights lie in blocks of channels: the bits of those with channels last, in the same time.

use std::sync::Arc;

use crate::grown::Net;
use proptest::prelude::*;
use triune_device::{Command, DeviceSpec, Sanitize, command::decode};
use triune_graph::{
    Graph, Op,
    format::onnx,
    ops::{BinaryKind, Concat, Slice},
};
use triune_runtime::{
    CompileOptions, DeployOptions, Deployment, Device, Error, PlanOptions, Policy, Program, TensorIo, compile,
};
use triune_tensor::{DType, QuantParams, Requantize};
use triune_testing::{GraphBuilder, Random, Tensor, test_data};

fn spec(name: &str) -> DeviceSpec {
    DeviceSpec::builtin(name).expect("builtin")
}

fn program(graph: &Graph, device: &str, block: Option<u32>) -> Result<Program, Error> {
    let options = CompileOptions { block, ..CompileOptions::default() };
    Ok(compile(graph, &spec(device), &options)?.program)
}

/// Position in the buffer of an element of the padded extents (batch, rows, columns, channels).
fn place(io: &TensorIo, at: [usize; 4]) -> usize {
    let [n, h, w, c] = *io.shape else { panic!("rank 4") };
    let _ = n;
    match io.block {
        None => ((at[0] * h + at[1]) * w + at[2]) * c + at[3],
        Some(block) => {
            let row = ((at[0] * (c / block) + at[3] / block) * h + at[1]) * w + at[2];
            row * block + at[3] % block
        }
    }
}

/// Calls `f` with the index of every element of the padded extents, and whether it is data.
fn each(io: &TensorIo, mut f: impl FnMut([usize; 4], bool)) {
    let [n, h, w, c] = *io.shape else { panic!("rank 4") };
    for index in 0..n * h * w * c {
        let at = [index / (h * w * c), index / (w * c) % h, index / c % w, index % c];
        let inside = |axis: usize| {
            let (before, after) = io.padding[axis];
            (before..io.shape[axis] - after).contains(&at[axis])
        };
        f(at, (0..4).all(inside));
    }
}

/// A run on data that the seed makes: the outputs' data in the order of (batch, rows, columns, channels).
fn run(program: &Arc<Program>, seed: u64, sanitize: Sanitize) -> (Vec<Vec<u8>>, u64) {
    let device = Device::with_sanitizer(spec(&program.target), sanitize).expect("a device");
    let memory = Arc::clone(device.memory());
    let options = DeployOptions { threads: 2, ..DeployOptions::default() };
    let mut deployment = Deployment::new(&device, program, &options).expect("a deployment");
    let mut random = Random(seed);
    let inputs: Vec<Vec<u8>> = program
        .inputs
        .iter()
        .map(|io| {
            let mut bytes = vec![io.zero_point as u8; io.bytes()];
            each(io, |at, data| {
                if data {
                    bytes[place(io, at)] = random.next() as u8;
                }
            });
            bytes
        })
        .collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let mut outputs: Vec<Vec<u8>> = program.outputs.iter().map(|io| vec![0xa5; io.bytes()]).collect();
    let mut slices: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    deployment.run(&inputs, &mut slices).expect("a run");
    let data = program.outputs.iter().zip(&outputs).map(|(io, bytes)| {
        let mut data = Vec::new();
        each(io, |at, inside| {
            let byte = bytes[place(io, at)];
            if inside {
                data.push(byte);
            } else if io.block.is_some() {
                assert_eq!(byte, io.zero_point as u8, "padding of '{}' at {at:?}", io.name);
            }
        });
        data
    });
    let data = data.collect();
    let cycles = deployment.timeline().total_cycles;
    drop(deployment);
    assert_eq!(memory.leaks(), []);
    (data, cycles)
}

/// Maps that the commands have in several blocks.
fn blocked_maps(program: &Program) -> usize {
    let commands = decode(&program.instructions).expect("commands");
    let maps = commands.iter().filter_map(|command| match command {
        Command::QConv(c) => Some(c.output),
        Command::Pool(c) => Some(c.output),
        Command::Table(c) => Some(c.output),
        Command::Tables(c) => Some(c.output),
        _ => None,
    });
    maps.filter(|map| map.blocks.is_some_and(|blocks| blocks.channels < map.c)).count()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_networks_agree(
        seed: u64,
        signed: bool,
        fixed: bool,
        steps in 1_usize..12,
        block in prop::sample::select(vec![1_u32, 2, 4, 8, 32]),
        device in prop::sample::select(vec!["buyi", "zg330"]),
    ) {
        let dtype = if signed { DType::I8 } else { DType::U8 };
        let (mut graph, _) = Net::new(seed, Some(dtype), 1).finish(steps);
        graph.requantize = if fixed { Requantize::Fixed } else { Requantize::Float };
        let plain = Arc::new(program(&graph, device, None).expect("a program"));
        let blocked = Arc::new(program(&graph, device, Some(block)).expect("a program in blocks"));
        let (expected, _) = run(&plain, seed, Sanitize::Off);
        prop_assert_eq!(&run(&blocked, seed, Sanitize::Report).0, &expected);
        let options = PlanOptions { policy: Policy::None, ..PlanOptions::default() };
        let again = Arc::new(blocked.replan(&spec(device), &options).expect("a plan"));
        prop_assert_eq!(&run(&again, seed, Sanitize::Report).0, &expected);
    }
}

/// A real network in blocks of 32 bytes on two devices: the same bits, and nothing that the sanitizer has to say.
fn agrees(file: &str, same_time: bool) {
    let Some(path) = test_data(&format!("models/onnx/{file}.onnx")) else { return };
    let graph = onnx::read(&path).expect("a model");
    for device in ["zg330", "buyi"] {
        let plain = Arc::new(program(&graph, device, None).expect("a program"));
        let blocked = Arc::new(program(&graph, device, Some(32)).expect("a program in blocks"));
        assert!(blocked_maps(&blocked) > 0 && blocked_maps(&plain) == 0);
        let (expected, cycles) = run(&plain, 5, Sanitize::Off);
        let (got, own) = run(&blocked, 5, Sanitize::Report);
        assert!(got == expected, "{file} on {device}");
        println!("{file} on {device}: {cycles} cycles, {own} in blocks");
        if same_time {
            assert_eq!(own, cycles, "{file} on {device}");
        }
    }
}

#[test]
fn mobilenetv2_agrees() {
    agrees("mobilenetv2_int8_qdq", false);
}

#[test]
fn resnet8_agrees() {
    agrees("mlperftiny_resnet8_int8_qdq", true);
}

#[test]
fn squeezenet_agrees() {
    agrees("squeezenet_u8s8_qdq", false);
}

#[test]
fn ultraface_agrees() {
    agrees("ultraface_s8s8_qdq", false);
}

#[test]
fn yolox_agrees() {
    agrees("yolox_nano_u8s8_qdq", false);
}

/// How much longer runs in blocks take; prints and asserts nothing.
///
/// `cargo test --release -p triune-runtime --test it blocked -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn speed() {
    for file in ["mobilenetv2_int8_qdq", "squeezenet_u8s8_qdq", "ultraface_s8s8_qdq", "yolox_nano_u8s8_qdq"] {
        let Some(path) = test_data(&format!("models/onnx/{file}.onnx")) else { return };
        let graph = onnx::read(&path).expect("a model");
        let mut runs: Vec<Box<dyn FnMut() -> f64>> = [None, Some(32)]
            .into_iter()
            .map(|block| {
                let program = Arc::new(program(&graph, "buyi", block).expect("a program"));
                let device = Device::new(spec("buyi")).expect("a device");
                let mut deployment =
                    Deployment::new(&device, &program, &DeployOptions::default()).expect("deployed");
                let inputs: Vec<Vec<u8>> = program.inputs.iter().map(|io| vec![9; io.bytes()]).collect();
                let mut outputs: Vec<Vec<u8>> =
                    program.outputs.iter().map(|io| vec![0; io.bytes()]).collect();
                let once = move || {
                    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
                    let mut slices: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
                    let start = std::time::Instant::now();
                    deployment.run(&inputs, &mut slices).expect("a run");
                    start.elapsed().as_secs_f64() * 1e3
                };
                Box::new(once) as Box<dyn FnMut() -> f64>
            })
            .collect();
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..41 {
            for (run, times) in runs.iter_mut().zip(&mut times) {
                times.push(run());
            }
        }
        let [plain, blocked] = times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        });
        println!("{file}: {plain:.2} ms, {blocked:.2} ms in blocks, {:.2} times", blocked / plain);
    }
}

/// Joined inputs that fill no block, times a scalar and plus one value per channel.
#[test]
fn operands_of_fewer_axes_are_no_blocks() {
    for kind in [BinaryKind::Mul, BinaryKind::Add] {
        let mut builder = GraphBuilder::new();
        let params = QuantParams { scale: 0.25, zero_point: 3 };
        let x = builder.input("x", DType::F32, &[1, 3, 4, 5]);
        let x = builder.quantize_dequantize(x, params, DType::U8);
        let mut y = builder.node(Op::Concat(Concat { axis: 1 }), &[x, x]);
        y = builder.quantize_dequantize(y, params, DType::U8);
        for (shape, values) in [(&[][..], vec![7]), (&[6, 1, 1], vec![1, 20, 3, 0, 5, 6])] {
            let other = builder.constant(&Tensor::of_integers(DType::U8, shape, &values));
            let other = builder.dequantize(other, QuantParams { scale: 0.5, zero_point: 2 }, DType::U8);
            y = builder.binary(kind, y, other);
            y = builder.quantize_dequantize(y, QuantParams { scale: 0.5, zero_point: 9 }, DType::U8);
        }
        let graph = builder.finish_inferred(&[y]);
        for device in ["buyi", "zg330"] {
            let plain = Arc::new(program(&graph, device, None).expect("a program"));
            let blocked = Arc::new(program(&graph, device, Some(32)).expect("a program in blocks"));
            assert_eq!(run(&blocked, 3, Sanitize::Report).0, run(&plain, 3, Sanitize::Off).0, "{kind:?}");
        }
    }
}

/// Channels of whole blocks, from within one, and every second, taken out of a map in blocks of four.
#[test]
fn channels_are_taken_out_of_blocks() {
    for (start, end, step) in
        [(4, 10, 1), (4, 8, 1), (0, 6, 1), (1, 7, 1), (0, 10, 2), (4, 10, 2), (3, 10, 3)]
    {
        let mut builder = GraphBuilder::new();
        let params = QuantParams { scale: 0.25, zero_point: 3 };
        let x = builder.input("x", DType::F32, &[1, 10, 2, 3]);
        let x = builder.quantize_dequantize(x, params, DType::U8);
        let convolved = |builder: &mut GraphBuilder, x, inputs: usize, outputs: usize| {
            let integers: Vec<i8> = (0..outputs * inputs).map(|index| (index * 37 % 251) as i8).collect();
            let weights = Tensor::i8(&[outputs, inputs, 1, 1], &integers);
            let weights = builder.dequantized_constant(&weights, &[0.01], 0);
            let y = builder.conv(&[x, weights], 1, 0, 1);
            builder.quantize_dequantize(y, params, DType::U8)
        };
        let y = convolved(&mut builder, x, 10, 10);
        let mut operands = vec![y];
        operands.extend([start, end, 1, step].map(|value| builder.constant(&Tensor::i64(&[1], &[value]))));
        let part = builder.node(Op::Slice(Slice), &operands);
        let part = builder.quantize_dequantize(part, params, DType::U8);
        let y = convolved(&mut builder, part, (end - start + step - 1) as usize / step as usize, 5);
        let graph = builder.finish_inferred(&[y]);
        for device in ["buyi", "zg330"] {
            let plain = Arc::new(program(&graph, device, None).expect("a program"));
            let blocked = Arc::new(program(&graph, device, Some(4)).expect("a program in blocks"));
            assert_eq!(
                run(&blocked, 3, Sanitize::Report).0,
                run(&plain, 3, Sanitize::Off).0,
                "{start} to {end} by {step}"
            );
        }
    }
}

#[test]
fn blocks_of_nothing_are_refused() {
    let (graph, _) = Net::new(3, Some(DType::I8), 1).finish(2);
    let error = program(&graph, "zg330", Some(0)).expect_err("no bytes").to_string();
    assert!(error.contains("blocks of 0 bytes"), "{error}");
}

//! Cascades: products, pools, resamplings and tables that run band by band compute the same in less time, and move less.

use std::sync::Arc;

use triune_device::{Command, DeviceSpec, SegmentKind, command::decode};
use triune_graph::{
    Graph, Op,
    format::onnx,
    ops::{CoordinateMode, NearestMode, Resize, ResizeMode},
};
use triune_runtime::{
    CompileOptions, DeployOptions, Deployment, Device, PlanOptions, Profile, Program, compile,
};
use triune_tensor::{
    DType, QuantParams,
    function::{PoolKind, UnaryKind},
};
use triune_testing::{GraphBuilder, Random, Tensor, test_data};

const PARAMS: QuantParams = QuantParams { scale: 0.02, zero_point: 3 };

const CHANNELS: usize = 64;

/// Metis without anything to launch, whose cores have as much of L2 as the constants take: feature maps that L1 does not keep spill.
fn spec(constants: u64) -> DeviceSpec {
    let mut spec = DeviceSpec::builtin("metis").expect("a built-in device");
    spec.name = "metis-small".into();
    (spec.launch.command_cycles, spec.launch.table_cycles) = (0, 0);
    for memory in spec.memory.iter_mut().filter(|memory| memory.name == "l2") {
        (memory.bytes, memory.reserved) = (4 * constants.next_multiple_of(64), 0);
    }
    spec.memory[0].latency_cycles = 0;
    spec
}

/// A chain of layers with windows of every kind, and skips over some of them.
pub(crate) fn network(random: &mut Random) -> Graph {
    let mut builder = GraphBuilder::new();
    let mut size = [random.between(24, 60), random.between(20, 40)];
    let x = builder.input("x", DType::F32, &[1, CHANNELS, size[0], size[1]]);
    let mut x = builder.quantize_dequantize(x, PARAMS, DType::I8);
    for _ in 0..random.between(2, 6) {
        let kernel = [random.between(1, 4), random.between(1, 4)];
        let window = random.window(size, kernel);
        let kind = random.below(6);
        let y = match kind {
            5 if size.iter().all(|&extent| extent < 40) => {
                size = size.map(|extent| 2 * extent);
                let mode = match random.below(3) {
                    0 => ResizeMode::Nearest(NearestMode::Floor),
                    1 => ResizeMode::Nearest(NearestMode::RoundPreferCeil),
                    _ => ResizeMode::Linear,
                };
                let coordinates =
                    [CoordinateMode::Asymmetric, CoordinateMode::PytorchHalfPixel][random.below(2)];
                let scales = builder.constant(&Tensor::f32(&[4], &[1.0, 1.0, 2.0, 2.0]));
                let inputs = [Some(x), None, Some(scales)];
                builder.node_with(Op::Resize(Resize { mode, coordinates }), &inputs, 1)[0]
            }
            0 => {
                size = window.output(size);
                builder.pool_window(PoolKind::Max, x, window)
            }
            1 => builder.unary(UnaryKind::Sigmoid, x),
            _ => {
                let groups = if kind == 2 { CHANNELS } else { 1 };
                let count = CHANNELS * CHANNELS / groups * kernel[0] * kernel[1];
                let integers: Vec<i8> = (0..count).map(|_| random.next() as i8).collect();
                let weights = Tensor::i8(&[CHANNELS, CHANNELS / groups, kernel[0], kernel[1]], &integers);
                let weights = builder.dequantized_constant(&weights, &[0.01], 0);
                size = window.output(size);
                builder.conv_window(&[x, weights], window, groups)
            }
        };
        x = builder.quantize_dequantize(y, PARAMS, DType::I8);
        if size.iter().any(|&extent| extent < 10) {
            break;
        }
    }
    builder.finish(&[x])
}

pub(crate) fn compiled(graph: &Graph, spec: &DeviceSpec, capacity: u64, cascades: bool) -> Program {
    let plan = PlanOptions { capacity: Some(capacity), ..PlanOptions::default() };
    compile(graph, spec, &CompileOptions { plan, cascades, ..CompileOptions::default() })
        .expect("a program")
        .program
}

fn deployed(spec: &DeviceSpec, program: &Program) -> Deployment {
    let device = Device::new(spec.clone()).expect("a device");
    Deployment::new(&device, &Arc::new(program.clone()), &DeployOptions::default()).expect("a deployment")
}

fn output(deployment: &mut Deployment) -> Vec<Vec<u8>> {
    let program = Arc::clone(deployment.program());
    let input: Vec<u8> = (0..program.inputs[0].bytes()).map(|at| (at * 31 % 251) as u8).collect();
    let mut outputs: Vec<Vec<u8>> = program.outputs.iter().map(|io| vec![0; io.bytes()]).collect();
    let mut slices: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    deployment.run(&[&input], &mut slices).expect("a run");
    outputs
}

/// Bytes that a run moves to and from DDR.
fn moved(deployment: &Deployment) -> u64 {
    let commands = &deployment.timeline().commands;
    commands.iter().map(|time| time.bytes_read[0] + time.bytes_written[0]).sum()
}

#[test]
fn bands_compute_what_the_whole_does() {
    let mut random = Random(11);
    let (mut cascades, mut less, mut resampled) = (0, 0, 0);
    for case in 0..60 {
        let graph = network(&mut random);
        // Some of the largest map.
        let whole = compiled(&graph, &DeviceSpec::builtin("metis").expect("a built-in device"), 0, false);
        let spec = spec(whole.constants.len() as u64);
        let largest = whole.buffers.iter().map(|buffer| buffer.bytes).max().unwrap_or(0);
        let capacity = largest * random.between(3, 9) as u64 / 8;
        let [whole, bands] = [false, true].map(|cascades| compiled(&graph, &spec, capacity, cascades));
        let [mut by_whole, mut by_bands] = [&whole, &bands].map(|program| deployed(&spec, program));
        assert_eq!(output(&mut by_whole), output(&mut by_bands), "case {case}");
        if whole == bands {
            continue;
        }
        cascades += 1;
        let [before, after] = [&whole, &bands].map(|program| {
            let commands = decode(&program.instructions).expect("commands");
            commands.iter().filter(|command| matches!(command, Command::Resize(_))).count()
        });
        resampled += usize::from(after > before);
        assert!(bands.instructions.len() > whole.instructions.len(), "case {case}");
        let time = |deployment: &Deployment| {
            let options = triune_device::TimingOptions { active_cores: spec.cores, ..Default::default() };
            deployment.retime(&options).expect("timed").total_cycles
        };
        assert!(time(&by_bands) < time(&by_whole), "case {case}");
        less += usize::from(moved(&by_bands) < moved(&by_whole));
        // What lies between is near.
        let near = by_bands.places().iter().find(|place| place.kind == SegmentKind::Resident);
        assert!(near.is_some_and(|place| place.memory == "l1" && place.bytes <= capacity), "case {case}");
        // A profile has one row for each operator, whose commands are those of all bands.
        let profile = Profile::of(&by_bands);
        let names: Vec<&str> = profile.operators().map(|operator| operator.name).collect();
        let mut once = names.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), names.len(), "case {case}: {names:?}");
        let commands: usize = profile.operators().map(|operator| operator.commands.len()).sum();
        assert_eq!(commands, by_bands.timeline().commands.len());
        // The plan is one that can be made again.
        let plan = PlanOptions { capacity: Some(capacity), ..PlanOptions::default() };
        assert_eq!(bands.replan(&spec, &plan).expect("a plan"), bands, "case {case}");
    }
    assert!(cascades >= 15 && less == cascades, "{cascades} cascades, {less} of which move less");
    assert!(resampled >= 3, "{resampled} cascades have resamplings");
}

#[test]
fn real_networks_have_their_bits_in_bands() {
    for (name, least) in
        [("mobilenetv2_int8_qdq.onnx", 4), ("yolox_nano_u8s8_qdq.onnx", 4), ("squeezenet_u8s8_qdq.onnx", 2)]
    {
        let Some(file) = test_data(&format!("models/onnx/{name}")) else { return };
        let graph = onnx::read(&file).expect("a model");
        let whole = compiled(&graph, &DeviceSpec::builtin("metis").expect("a built-in device"), 0, false);
        let spec = spec(whole.constants.len() as u64);
        let [whole, bands] = [false, true].map(|cascades| compiled(&graph, &spec, 192 << 10, cascades));
        let [mut by_whole, mut by_bands] = [&whole, &bands].map(|program| deployed(&spec, program));
        let [commands, more] = [&by_whole, &by_bands].map(|one| one.timeline().commands.len());
        assert!(more >= commands + least, "{name}: {commands} commands, {more} in bands");
        assert!(moved(&by_bands) < moved(&by_whole), "{name}");
        assert!(output(&mut by_whole) == output(&mut by_bands), "{name}");
    }
}

//! The memory sanitizer under whole programs: real networks are clean on every device, damaged ones are named.

use std::sync::Arc;

use bytes::Bytes;
use triune_device::{
    Addr, DeviceSpec, Error as DeviceError, Memory, Sanitize,
    command::{End, decode, encode},
    memory::sanitizer::Fault,
};
use triune_graph::{Graph, format::onnx, ops::BinaryKind};
use triune_runtime::{
    CompileError, CompileOptions, DeployOptions, Deployment, Device, Error, PlannedBuffer, Program, compile,
};
use triune_tensor::{DType, QuantParams};
use triune_testing::{GraphBuilder, Random, Tensor, test_data};

fn spec(name: &str) -> DeviceSpec {
    DeviceSpec::builtin(name).expect("builtin")
}

/// Two runs of a program on a device of its own, and the memory.
fn run(program: &Arc<Program>, sanitize: Sanitize) -> Result<(Vec<Vec<u8>>, Arc<Memory>), Error> {
    let device = Device::with_sanitizer(spec(&program.target), sanitize)?;
    let memory = Arc::clone(device.memory());
    let mut deployment = Deployment::new(&device, program, &DeployOptions::default())?;
    let mut results = Vec::new();
    for seed in 0..2 {
        let inputs: Vec<Vec<u8>> = program.inputs.iter().map(|io| Random(seed).bytes(io.bytes())).collect();
        let mut outputs: Vec<Vec<u8>> = program.outputs.iter().map(|io| vec![0xa5; io.bytes()]).collect();
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        let mut slices: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        deployment.run(&inputs, &mut slices)?;
        results.extend(outputs);
    }
    Ok((results, memory))
}

/// Runs a model on a device with and without the sanitizer: no report, the same bits, nothing left behind.
fn is_clean(file: &str, device: &str) {
    let Some(path) = test_data(&format!("models/onnx/{file}.onnx")) else { return };
    let graph = onnx::read(&path).expect("a model");
    let compiled = compile(&graph, &spec(device), &CompileOptions::default()).expect("compiled");
    let program = Arc::new(compiled.program);
    let (watched, memory) =
        run(&program, Sanitize::Report).unwrap_or_else(|error| panic!("{file} on {device}: {error}"));
    assert_eq!(memory.leaks(), [], "{file} on {device}");
    let (plain, _) = run(&program, Sanitize::Off).expect("a run");
    assert!(watched == plain, "{file} on {device}: the sanitizer changed a result");
}

macro_rules! clean {
    ($($test:ident: $file:literal on $($device:literal),+;)+) => {
        $(
            #[test]
            fn $test() {
                $(is_clean($file, $device);)+
            }
        )+
    };
}

clean! {
    mobilenetv2_is_clean: "mobilenetv2_int8_qdq" on "metis", "zg330", "buyi";
    resnet8_is_clean: "mlperftiny_resnet8_int8_qdq" on "metis", "zg330", "buyi";
    squeezenet_is_clean: "squeezenet_u8s8_qdq" on "metis", "zg330", "buyi";
    ultraface_is_clean: "ultraface_s8s8_qdq" on "metis", "zg330", "buyi";
    yolox_is_clean: "yolox_nano_u8s8_qdq" on "metis", "zg330", "buyi";
}

const PARAMS: QuantParams = QuantParams { scale: 0.02, zero_point: 3 };

/// A quantized network with several maps alive at once: x → a → b, a → c, and c + b, and so on `depth` times.
fn branches(seed: u64, depth: usize) -> Graph {
    const CHANNELS: usize = 8;
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[1, CHANNELS, 9, 9]);
    let mut x = builder.quantize_dequantize(x, PARAMS, DType::I8);
    let mut count = seed;
    let mut conv = |builder: &mut GraphBuilder, x| {
        count += 1;
        let integers: Vec<i8> =
            Random(count).bytes(CHANNELS * CHANNELS * 9).into_iter().map(u8::cast_signed).collect();
        let shape = [CHANNELS, CHANNELS, 3, 3];
        let weights = builder.dequantized_constant(&Tensor::i8(&shape, &integers), &[0.002], 0);
        let y = builder.conv(&[x, weights], 1, 1, 1);
        builder.quantize_dequantize(y, PARAMS, DType::I8)
    };
    for _ in 0..depth {
        let a = conv(&mut builder, x);
        let b = conv(&mut builder, a);
        let c = conv(&mut builder, b);
        let sum = builder.binary(BinaryKind::Mul, c, a);
        x = builder.quantize_dequantize(sum, PARAMS, DType::I8);
    }
    builder.finish(&[x])
}

fn program(graph: &Graph, device: &str) -> Program {
    compile(graph, &spec(device), &CompileOptions::default()).expect("compiled").program
}

/// The program with every address in `from` moved to where `to` lies: two maps of the plan in one place.
fn moved(program: &Program, from: &PlannedBuffer, to: &PlannedBuffer) -> Program {
    let mut words: Vec<u32> =
        program.instructions.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)).collect();
    // An address is 64 bits with the segment on top: in maps of less than 4 GiB, the upper word is the segment's alone.
    let [high, target] = [from, to].map(|map| u32::from(map.segment) << (Addr::OFFSET_BITS - 32));
    let mut changed = 0;
    for index in 1..words.len() {
        let low = u64::from(words[index - 1]);
        if words[index] == high && (from.offset..from.offset + from.bytes).contains(&low) {
            words[index - 1] = (low - from.offset + to.offset) as u32;
            words[index] = target;
            changed += 1;
        }
    }
    assert!(changed >= 2, "a map has a writer and a reader");
    let instructions: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    Program { instructions: Bytes::from(instructions), ..program.clone() }
}

/// Never silence: a refused command, a report, or other numbers.
#[test]
fn two_live_maps_in_one_place_show() {
    let (mut shown, mut wrong) = (0, 0);
    for seed in 0..4 {
        for device in ["metis", "zg330", "buyi"] {
            let good = program(&branches(1000 * seed, 3), device);
            let (expected, memory) = run(&Arc::new(good.clone()), Sanitize::Report).expect("clean");
            assert_eq!(memory.leaks(), []);
            for (index, from) in good.buffers.iter().enumerate() {
                for to in &good.buffers[..index] {
                    let together = from.first < to.last && to.first < from.last;
                    if !together || from.bytes > to.bytes {
                        continue;
                    }
                    let bad = Arc::new(moved(&good, from, to));
                    match run(&bad, Sanitize::Report) {
                        Err(Error::Compile(CompileError::Device(DeviceError::Sanitizer(_)))) => shown += 1,
                        Err(Error::Compile(CompileError::Node { source, .. }))
                            if matches!(*source, DeviceError::Sanitizer(_) | DeviceError::Command { .. }) =>
                        {
                            shown += 1;
                        }
                        Err(error) => panic!("{error}"),
                        Ok((outputs, _)) => {
                            assert!(
                                outputs != expected,
                                "{device}, seed {seed}: {from:?} in {to:?} is silent"
                            );
                            wrong += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(shown + wrong > 30, "{shown} shown, {wrong} with wrong numbers");
}

/// The first two commands in the wrong order: a map is read before it is written. The report has its user's names.
#[test]
fn a_map_that_nobody_wrote_is_named() {
    let good = program(&branches(7, 1), "metis");
    let mut commands = decode(&good.instructions).expect("commands");
    commands.swap(0, 1);
    commands.push(End {}.into());
    let bad = Program { instructions: Bytes::from(encode(&commands)), ..good };
    let output = &bad.outputs[0].name.clone();
    let error = run(&Arc::new(bad), Sanitize::Report).expect_err("never written");
    let Error::Compile(CompileError::Device(DeviceError::Sanitizer(report))) = &error else {
        panic!("{error}")
    };
    assert_eq!((report.fault, report.first), (Fault::NeverWritten, report.start));
    let text = error.to_string();
    let label = format!("of the program that makes {output} of x\" (");
    for part in ["read of never-written bytes: command 0 (qconv), operand input,", "\"feature maps ", &label]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
}

/// An output with padding, which the host fills: what the program leaves out is not given out as zeros, nor as what was there.
#[test]
fn an_output_that_nobody_writes_is_named() {
    let good = program(&branches(7, 1), "metis");
    assert!(good.outputs[0].padding.iter().any(|&padding| padding != (0, 0)), "{:?}", good.outputs[0]);
    let mut commands = decode(&good.instructions).expect("commands");
    // The first command alone writes none of the outputs.
    commands.truncate(1);
    commands.push(End {}.into());
    let bad = Program { instructions: Bytes::from(encode(&commands)), ..good };
    let error = run(&Arc::new(bad), Sanitize::Report).expect_err("never written").to_string();
    for part in ["read of never-written bytes: the host reads", "\"output "] {
        assert!(error.contains(part), "{part} in {error}");
    }
}

/// Instructions and constants belong to the deployment until it goes.
#[test]
fn constants_of_a_live_deployment_are_not_written() {
    let program = Arc::new(program(&branches(7, 1), "metis"));
    let device = Device::with_sanitizer(spec("metis"), Sanitize::Report).expect("a device");
    let deployment = Deployment::new(&device, &program, &DeployOptions::default()).expect("deployed");
    let memory = device.memory();
    for place in &deployment.places()[..2] {
        let region = memory.core_region(&place.memory, 0).expect("a region");
        let error = memory.write(region, place.base, &[0]).expect_err("sealed").to_string();
        let kind = format!("{:?} of the program that makes", place.kind).to_lowercase();
        assert!(
            error.contains("write to live instructions or constants") && error.contains(&kind),
            "{error}"
        );
    }
    let place = deployment.places()[1].clone();
    let region = memory.core_region(&place.memory, 0).expect("a region");
    assert!(memory.leaks().len() >= 4, "{:?}", memory.leaks());
    drop(deployment);
    assert_eq!(memory.leaks(), []);
    let error = memory.read(region, place.base, &mut [0]).expect_err("gone").to_string();
    assert!(error.contains("use after free") && error.contains("constants of the program"), "{error}");
}

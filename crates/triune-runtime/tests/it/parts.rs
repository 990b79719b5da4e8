//! Programs that run in parts, and those whose cost is asked: what does not fit is refused, and parts read what others wrote.

use std::sync::Arc;

use triune_device::{
    DeviceSpec, Sanitize, TimingOptions,
    command::{decode, encode},
};
use triune_graph::Graph;
use triune_runtime::{CompileOptions, DeployOptions, Deployment, Device, Estimate, Parts, Program, compile};
use triune_tensor::{DType, QuantParams};
use triune_testing::{GraphBuilder, Random, Tensor};

/// Two convolutions, with a map between them.
fn network() -> Graph {
    let params = QuantParams { scale: 0.02, zero_point: 3 };
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[1, 3, 5, 7]);
    let mut x = builder.quantize_dequantize(x, params, DType::I8);
    for (inputs, outputs) in [(3, 6), (6, 4)] {
        let integers: Vec<i8> = (0..outputs * inputs * 9).map(|i| (i * 37 % 251 - 125) as i8).collect();
        let weights = Tensor::i8(&[outputs as usize, inputs as usize, 3, 3], &integers);
        let weights = builder.dequantized_constant(&weights, &[0.004], 0);
        x = builder.conv(&[x, weights], 1, 1, 1);
        x = builder.quantize_dequantize(x, params, DType::I8);
    }
    builder.finish(&[x])
}

fn spec(name: &str) -> DeviceSpec {
    DeviceSpec::builtin(name).expect("a built-in device")
}

fn program(name: &str, batch: usize) -> Arc<Program> {
    let options = CompileOptions { batch, ..CompileOptions::default() };
    Arc::new(compile(&network(), &spec(name), &options).expect("a program").program)
}

/// The bytes of each command but the end, as parts, and one that has none.
fn parts(program: &Program) -> Vec<[u64; 2]> {
    let commands = decode(&program.instructions).expect("commands");
    let mut first = 0;
    let mut parts = Vec::new();
    for command in commands.iter().filter(|command| command.opcode().mnemonic() != "end") {
        let bytes = encode(std::slice::from_ref(command)).len() as u64;
        parts.push([first, bytes]);
        first += bytes;
    }
    parts.push([first, 0]);
    parts
}

/// The first segments are commands, constants, maps far and near; then come inputs and outputs.
const INPUT: u16 = 4;
const OUTPUT: u16 = 5;

#[test]
fn parts_compute_what_the_whole_does() {
    let program = program("zg330", 1);
    let mut input = Random(5).bytes(program.inputs[0].bytes());
    for sanitize in [Sanitize::Off, Sanitize::Report] {
        let device = Device::with_sanitizer(spec("zg330"), sanitize).expect("a device");
        let deployment = Deployment::new(&device, &program, &DeployOptions::default());
        let mut deployment = deployment.expect("a deployment");
        let list = parts(&program);
        let all = Parts::new(&device, &program, list.clone(), 2).expect("parts");
        assert_eq!(all.is_watched(), !matches!(sanitize, Sanitize::Off));
        for _ in 0..2 {
            input.rotate_left(1);
            let mut wanted = vec![0; program.outputs[0].bytes()];
            deployment.run(&[&input], &mut [&mut wanted]).expect("a run");
            let mut got = vec![0; wanted.len()];
            all.write(INPUT, 0, &input).expect("room");
            (0..list.len()).for_each(|part| all.run(part).expect("a part"));
            all.read(OUTPUT, 0, &mut got).expect("an output");
            assert_eq!(got, wanted);
            // Some of it, from a place of its own.
            let mut some = [0; 3];
            all.read(OUTPUT, 5, &mut some).expect("an output");
            assert_eq!(some, wanted[5..8]);
            all.write(INPUT, 2, &[9]).expect("room");
            let mut some = [0; 4];
            all.read(INPUT, 0, &mut some).expect("an input");
            assert_eq!(some, [input[0], input[1], 9, input[3]]);
        }
    }
}

/// What was forgotten is read as something that nobody wrote, and nothing else is.
#[test]
fn parts_forget_what_they_are_told_to() {
    let program = program("zg330", 1);
    let device = Device::with_sanitizer(spec("zg330"), Sanitize::Report).expect("a device");
    let run = |first: u64, bytes: u64| {
        let list = parts(&program);
        let all = Parts::new(&device, &program, list.clone(), 1).expect("parts");
        all.write(INPUT, 0, &vec![1; program.inputs[0].bytes()]).expect("room");
        all.forget(INPUT, first, bytes).expect("within");
        (0..list.len()).try_for_each(|part| all.run(part))
    };
    run(40, 0).expect("nothing is forgotten");
    let error = run(40, 8).expect_err("an operand that nobody wrote").to_string();
    let (_, read) = error.split_once("reads ddr 0x").expect("where the operand lies");
    let first = u64::from_str_radix(read.split("..").next().expect("a range"), 16).expect("an address");
    let words = format!("never-written bytes: command 0 (qconv), operand input, reads ddr {first:#x}..");
    assert!(error.contains(&words), "{error}");
    assert!(error.contains(&format!("of which {:#x}..", first + 40)), "{error}");
}

#[test]
fn parts_outside_of_the_program_are_refused() {
    let program = program("zg330", 1);
    let device = Device::new(spec("zg330")).expect("a device");
    let all = Parts::new(&device, &program, parts(&program), 1).expect("parts");
    let count = parts(&program).len();
    let error = all.run(count).expect_err("one too many").to_string();
    assert!(error.contains(&format!("part {count} of {count}")), "{error}");
    let bytes = program.inputs[0].bytes() as u64;
    for (segment, offset, length, fits) in [
        (INPUT, 0, bytes, true),
        (INPUT, bytes - 4, 4, true),
        (INPUT, bytes, 0, true),
        (INPUT, bytes - 3, 4, false),
        (INPUT, 0, bytes + 1, false),
        (INPUT, u64::MAX, 4, false),
        (OUTPUT + 1, 0, 1, false),
        (u16::MAX, 0, 0, false),
    ] {
        assert_eq!(all.holds(segment, offset, length), fits, "{segment}:{offset} {length}");
        let mut own = vec![0; length as usize];
        for done in [
            all.write(segment, offset, &own),
            all.read(segment, offset, &mut own),
            all.forget(segment, offset, length),
        ] {
            let words =
                format!("{length} bytes at {segment}:{offset:#x} are outside of the program's memory");
            match done {
                Ok(()) => assert!(fits, "{words}"),
                Err(error) => assert!(!fits && error.to_string().contains(&words), "{error}"),
            }
        }
    }
}

#[test]
fn what_does_not_fit_the_device_is_refused() {
    let device = Device::new(spec("metis")).expect("a device");
    let refused = |name, batch| {
        Parts::new(&device, &program(name, batch), [[0, 0]], 1).expect_err("an error").to_string()
    };
    let error = refused("metis", 2);
    assert!(error.contains("a program for a batch of 2, not of one image"), "{error}");
    let error = refused("zg330", 1);
    assert!(error.contains("a program for 'zg330' on a device 'metis'"), "{error}");
}

/// An error of a part is one of the operator that its commands came from.
#[test]
fn a_part_that_is_no_command_is_blamed_on_its_operator() {
    let good = program("zg330", 1);
    let list = parts(&good);
    let device = Device::new(spec("zg330")).expect("a device");
    let names: Vec<&str> = good.operators.iter().map(|operator| &*operator.name).collect();
    assert!(names.len() > 1 && names[0] != names[1], "{names:?}");
    let of_command = |index: u32| {
        let found = good.operators.iter().find(|each| (each.first..each.last).contains(&index));
        found.expect("an operator").name.clone()
    };
    for (index, &[first, bytes]) in list.iter().enumerate().filter(|(_, part)| part[1] > 0) {
        // One word short.
        let broken = [[first, bytes - 4]];
        let all = Parts::new(&device, &good, broken, 1).expect("parts");
        let error = all.run(0).expect_err("half a command").to_string();
        assert!(error.contains(&of_command(index as u32)), "{index}: {error}");
    }
}

#[test]
fn estimates_refuse_what_has_no_cost() {
    let options = TimingOptions::default();
    let estimate = |name, batch| Estimate::new(&program(name, batch)).expect("commands");
    let two = estimate("metis", 2);
    assert_eq!(two.program().batch, 2);
    for cores in [0, 0b1, 0b111] {
        let error = two.demand(&spec("metis"), &options, cores).expect_err("another number").to_string();
        assert!(error.contains(&format!("a batch of 2 on {} cores", cores.count_ones())), "{error}");
    }
    // The cores' own numbers say nothing.
    let [low, high] = [0b11, 0b1010].map(|cores| two.demand(&spec("metis"), &options, cores).expect("timed"));
    assert_eq!([1, 2, 3, 4].map(|active| low.busy(active)), [1, 2, 3, 4].map(|active| high.busy(active)));
    let mut one = spec("metis");
    one.cores = 1;
    let error = two.timeline(&one, &options).expect_err("one core").to_string();
    assert!(error.contains("a batch of 2 on a device of 1 cores"), "{error}");
    let host = spec("host");
    let program =
        Arc::new(compile(&network(), &host, &CompileOptions::default()).expect("a program").program);
    let untimed = Estimate::new(&program).expect("commands");
    let error = untimed.demand(&host, &options, 1).expect_err("no clock").to_string();
    assert!(error.contains("the time of 'host' is not modelled"), "{error}");
}

//! Programs that wait for the host, which makes inputs of outputs.

use std::{cell::RefCell, sync::Arc};

use triune_device::DeviceSpec;
use triune_graph::ops::{BinaryKind, UnaryKind};
use triune_runtime::{CompileOptions, DeployOptions, Deployment, Device, Program, compile};
use triune_tensor::{DType, QuantParams};
use triune_testing::{GraphBuilder, Random, Tensor};

const MEANING: QuantParams = QuantParams { scale: 0.03, zero_point: 7 };

/// Two convolutions with what has no form over integers between them: the program waits once.
fn program() -> Arc<Program> {
    let (mut builder, mut random) = (GraphBuilder::new(), Random(3));
    let x = builder.input("x", DType::F32, &[1, 8, 16, 16]);
    let mut x = builder.quantize_dequantize(x, MEANING, DType::I8);
    for last in [false, true] {
        let bytes: Vec<i8> = random.bytes(8 * 8 * 9).into_iter().map(|byte| byte as i8).collect();
        let weights = builder.dequantized_constant(&Tensor::i8(&[8, 8, 3, 3], &bytes), &[0.002], 0);
        x = builder.conv(&[x, weights], 1, 1, 1);
        x = builder.quantize_dequantize(x, MEANING, DType::I8);
        if !last {
            let exponent = builder.constant(&Tensor::f32(&[1], &[1.7]));
            let positive = builder.unary(UnaryKind::Relu, x);
            x = builder.binary(BinaryKind::Pow, positive, exponent);
            x = builder.quantize_dequantize(x, MEANING, DType::I8);
        }
    }
    let spec = DeviceSpec::builtin("metis").expect("a built-in device");
    Arc::new(compile(&builder.finish(&[x]), &spec, &CompileOptions::default()).expect("a program").program)
}

fn waiting() -> Deployment {
    let device = Device::new(DeviceSpec::builtin("metis").expect("a built-in device")).expect("a device");
    Deployment::new(&device, &program(), &DeployOptions::default()).expect("a deployment")
}

/// What the host reads is what this run's first commands made, and what it makes is what the next ones read.
#[test]
fn the_host_reads_and_makes_what_belongs_to_the_run() {
    let mut deployment = waiting();
    let program = Arc::clone(deployment.program());
    let (made, size) = (program.waits[0].makes[0], program.given()[0].bytes());
    let mut run = |seed: u64, value: u8| {
        let input = Random(seed).bytes(size);
        let mut output = vec![0; program.results()[0].bytes()];
        let mut read = Vec::new();
        let done = deployment.run_with(&[&input], &mut [&mut output], &mut |_, tensors| {
            read = tensors.concat();
            Ok(vec![vec![value; program.inputs[made].bytes()]])
        });
        done.expect("a run");
        (read, output)
    };
    let [first, second, third] = [run(1, 3), run(2, 3), run(1, 90)];
    assert!(first.0 != second.0 && first.0 == third.0, "the outputs follow the input");
    assert!(first.1 == second.1 && first.1 != third.1, "the results follow the host");
    assert_eq!(run(1, 3), first);
}

#[test]
fn a_program_that_waits_needs_a_host() {
    let mut deployment = waiting();
    let program = Arc::clone(deployment.program());
    let input = vec![9; program.given()[0].bytes()];
    let mut output = vec![0; program.results()[0].bytes()];
    let error = deployment.run(&[&input], &mut [&mut output]).expect_err("nobody is there").to_string();
    assert!(error.contains("waits for the host, and nothing is attached"), "{error}");
    let error = deployment.attach(Vec::new()).expect_err("one is wanted").to_string();
    assert!(error.contains("0 parts on the host for a program that waits for 1"), "{error}");
}

#[test]
fn what_does_not_fit_a_deployment_is_refused() {
    let device =
        |name: &str| Device::new(DeviceSpec::builtin(name).expect("a built-in device")).expect("a device");
    let deploy = |name: &str, cores: Vec<u32>| {
        let options = DeployOptions { cores, ..DeployOptions::default() };
        Deployment::new(&device(name), &program(), &options)
    };
    let refused = |name, cores| deploy(name, cores).expect_err("no deployment").to_string();
    assert!(deploy("metis", vec![3]).is_ok());
    let error = refused("metis", vec![4]);
    assert!(error.contains("core 4 of 'metis', which has 4"), "{error}");
    let error = refused("zg330", vec![]);
    assert!(error.contains("a program for 'metis' on a device 'zg330'"), "{error}");
    let mut deployment = deploy("metis", vec![]).expect("a deployment");
    let program = Arc::clone(deployment.program());
    let (given, result) = (program.given()[0].bytes(), program.results()[0].bytes());
    let mut run = |inputs: &[usize], outputs: &[usize]| {
        let inputs: Vec<Vec<u8>> = inputs.iter().map(|&size| vec![0; size]).collect();
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        let mut outputs: Vec<Vec<u8>> = outputs.iter().map(|&size| vec![0; size]).collect();
        let mut outputs: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        let done = deployment.run_with(&inputs, &mut outputs, &mut |_, _| panic!("it is refused before"));
        done.expect_err("no run").to_string()
    };
    for (inputs, outputs, words) in [
        (&[][..], &[result][..], "number of inputs: expected 1, got 0"),
        (&[given, given], &[result], "number of inputs: expected 1, got 2"),
        (&[given - 1], &[result], "input 'x'"),
        (&[given + 1], &[result], "input 'x'"),
        (&[given], &[], "number of outputs: expected 1, got 0"),
        (&[given], &[result, result], "number of outputs: expected 1, got 2"),
        (&[given], &[result - 1], "output '"),
        (&[given], &[result + 1], "output '"),
    ] {
        let error = run(inputs, outputs);
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[test]
fn the_host_makes_as_many_bytes_as_the_program_waits_for() {
    let mut deployment = waiting();
    let program = Arc::clone(deployment.program());
    let [wait] = &program.waits[..] else { panic!("one wait, not {:?}", program.waits) };
    let read: Vec<usize> = wait.reads.iter().map(|&index| program.outputs[index].bytes()).collect();
    let [made] = wait.makes[..] else { panic!("one input, not {:?}", wait.makes) };
    let bytes = program.inputs[made].bytes();
    let input = vec![9; program.given()[0].bytes()];
    let mut run = |sizes: &[usize]| {
        let mut output = vec![0; program.results()[0].bytes()];
        let asked = RefCell::new(Vec::new());
        let done = deployment.run_with(&[&input], &mut [&mut output], &mut |number, tensors| {
            asked.borrow_mut().push((number, tensors.iter().map(Vec::len).collect::<Vec<_>>()));
            Ok(sizes.iter().map(|&size| vec![3; size]).collect())
        });
        assert_eq!(asked.into_inner(), [(0, read.clone())]);
        done.map(|()| output)
    };
    let expected = run(&[bytes]).expect("a run");
    for wrong in [&[][..], &[bytes, bytes], &[bytes - 1], &[bytes + 1], &[0]] {
        let error = run(wrong).expect_err("other tensors").to_string();
        assert!(error.contains("other tensors than the program waits for"), "{wrong:?}: {error}");
    }
    assert_eq!(run(&[bytes]).expect("a run after refused ones"), expected);
}

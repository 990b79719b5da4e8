//! Programs that wait for the host, which makes inputs of outputs.

use std::{cell::RefCell, fs, path::Path, sync::Arc};

use triune_device::DeviceSpec;
use triune_graph::ops::{BinaryKind, UnaryKind};
use triune_runtime::{
    CompileOptions, DeployOptions, Deployment, Device, MODEL_FILE, Package, Program, Session, SessionOptions,
    TensorIo, TensorRef, compile,
};
use triune_tensor::{DType, QuantParams};
use triune_testing::{GraphBuilder, Random, Tensor};

const MEANING: QuantParams = QuantParams { scale: 0.03, zero_point: 7 };

/// Two convolutions with what has no form over integers between them: the program waits once.
fn program() -> Arc<Program> {
    let spec = DeviceSpec::builtin("metis").expect("a built-in device");
    Arc::new(compile(&chained(), &spec, &CompileOptions::default()).expect("a program").program)
}

fn chained() -> triune_graph::Graph {
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
    builder.finish(&[x])
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

/// A stream of residuals in reals beside quantized convolutions, from the model's input to the last of these.
fn residuals() -> triune_graph::Graph {
    let (mut builder, mut random) = (GraphBuilder::new(), Random(3));
    let mut stream = builder.input("x", DType::F32, &[1, 8, 16, 16]);
    let conv = |builder: &mut GraphBuilder, random: &mut Random, x| {
        let bytes: Vec<i8> = random.bytes(8 * 8 * 9).into_iter().map(|byte| byte as i8).collect();
        let weights = builder.dequantized_constant(&Tensor::i8(&[8, 8, 3, 3], &bytes), &[0.002], 0);
        let y = builder.conv(&[x, weights], 1, 1, 1);
        builder.quantize_dequantize(y, MEANING, DType::I8)
    };
    for _ in 0..3 {
        let y = builder.quantize_dequantize(stream, MEANING, DType::I8);
        let y = conv(&mut builder, &mut random, y);
        stream = builder.binary(BinaryKind::Add, stream, y);
    }
    let y = builder.quantize_dequantize(stream, MEANING, DType::I8);
    let y = conv(&mut builder, &mut random, y);
    builder.finish(&[y])
}

fn written(device: &str, batch: usize, folder: &Path) -> Package {
    let spec = DeviceSpec::builtin(device).expect("a built-in device");
    let options = CompileOptions { batch, ..CompileOptions::default() };
    Package::write(&compile(&residuals(), &spec, &options).expect("a program"), folder).expect("a package")
}

/// What callers give for the host alone, and what its parts give each other, is what a session computes with.
#[test]
fn values_that_reach_past_a_segment_are_a_sessions() {
    for name in ["metis", "zg330", "buyi"] {
        let folder = tempfile::tempdir().expect("a folder");
        let package = written(name, 1, folder.path());
        let program = package.program();
        assert_eq!((program.waits.len(), program.given().len(), program.beside.len()), (3, 1, 1), "{name}");
        let spec = DeviceSpec::builtin(name).expect("a built-in device");
        let mut graph = residuals();
        graph.requantize = spec.requantize;
        let mut session = Session::new(graph, &SessionOptions::default()).expect("a session");
        let device = Device::new(spec).expect("a device");
        let mut deployment =
            Deployment::new(&device, program, &DeployOptions::default()).expect("a deployment");
        let parts = || package.between_parts(&SessionOptions::default()).expect("parts");
        let mut turned = parts();
        turned.swap(0, 1);
        let error = deployment.attach(turned).expect_err("another order").to_string();
        assert!(error.contains("not in the order of the program's waits"), "{error}");
        deployment.attach(parts()).expect("a host");
        for seed in [1, 2] {
            let reals: Vec<f32> =
                Random(seed).bytes(8 * 256).into_iter().map(|byte| f32::from(byte) / 37.0 - 3.3).collect();
            let expected = session.run(&[TensorRef::of(&reals, &[1, 8, 16, 16])]).expect("a run");
            // Channels in the end, and of those in the device's buffer more.
            let io = &program.inputs[0];
            let (mut input, mut beside) =
                (vec![io.zero_point as u8; io.bytes()], vec![0_u8; 4 * reals.len()]);
            let place = |io: &TensorIo, index: usize| {
                let (channel, row, column) = (index / 256, index / 16 % 16, index % 16);
                let pixel = (row + io.padding[1].0) * io.shape[2] + column + io.padding[2].0;
                pixel * io.shape[3] + io.padding[3].0 + channel
            };
            for (index, real) in reals.iter().enumerate() {
                let quantized = MEANING.quantize_by(triune_tensor::Rounding::HalfToEven, *real, DType::I8);
                input[place(io, index)] = quantized as u8;
                beside[4 * place(&program.beside[0], index)..][..4].copy_from_slice(&real.to_le_bytes());
            }
            let result = &program.results()[0];
            let mut output = vec![0; result.bytes()];
            deployment.run(&[&input, &beside], &mut [&mut output]).expect("a run");
            for (index, real) in expected[0].as_slice::<f32>().expect("reals").iter().enumerate() {
                let got = output[place(result, index)].cast_signed();
                assert_eq!(MEANING.dequantize(got.into()), *real, "{name}: element {index}");
            }
            let error =
                deployment.run(&[&input], &mut [&mut output]).expect_err("one is missing").to_string();
            assert!(error.contains("number of inputs: expected 2, got 1"), "{error}");
            let error =
                deployment.run(&[&input, &beside[1..]], &mut [&mut output]).expect_err("too few bytes");
            assert!(error.to_string().contains("input 'x': expected 8192 bytes"), "{error}");
        }
    }
}

/// The link and the device's memory have nothing of what is for the host alone.
#[test]
fn what_is_for_the_host_alone_costs_the_device_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let package = written("metis", 1, folder.path());
    let device = || Device::new(DeviceSpec::builtin("metis").expect("a built-in device")).expect("a device");
    let deploy = |program: &Arc<Program>| {
        Deployment::new(&device(), program, &DeployOptions::default()).expect("a deployment")
    };
    let program = package.program();
    let without = Arc::new(Program { beside: Vec::new(), ..Program::clone(program) });
    let [with, without] = [deploy(program), deploy(&without)];
    assert_eq!(with.places(), without.places());
    assert_eq!(with.transfer_nanos(), without.transfer_nanos());
    assert_eq!(with.timeline().total_cycles, without.timeline().total_cycles);
}

#[test]
fn packages_say_what_is_for_the_host_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let package = written("metis", 1, folder.path());
    let path = folder.path().join(MODEL_FILE);
    let text = fs::read_to_string(&path).expect("model.json");
    let manifest = fs::read(folder.path().join("manifest.json")).expect("manifest.json");
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).expect("valid JSON");
    assert_eq!(manifest["input_dtypes"], serde_json::json!(["int8", "float32"]));
    assert_eq!(manifest["input_shapes"][1], serde_json::json!([1, 16, 16, 8]));
    assert_eq!(**Package::load(&path).expect("a package").program(), **package.program());
    // Where, what is put there, and words of the error.
    let swapped = {
        let json: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
        let mut graphs = json["between_graphs"].as_array().expect("graphs").clone();
        graphs.swap(0, 1);
        serde_json::Value::from(graphs)
    };
    let rows = 20;
    let none = "its tensor 'x' is none of the program's";
    for (place, value, words) in [
        ("/beside/0/shape", serde_json::json!([1, rows, 16, 8]), "does not hold the model's"),
        ("/beside/0/shape", serde_json::json!([1, 16, 8]), "padding that does not fit"),
        ("/beside/0/dtype", "int9".into(), "unknown element type"),
        ("/beside/0/dtype", "int32".into(), none),
        ("/beside/0/name", "y".into(), none),
        ("/beside", serde_json::json!([]), none),
        ("/between_graphs", swapped, "is none of the program's"),
    ] {
        let mut json: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
        *json.pointer_mut(place).expect("it is there") = value;
        fs::write(&path, json.to_string()).expect("an edited file");
        let loaded =
            Package::load(&path).and_then(|package| package.between_parts(&SessionOptions::default()));
        let error = loaded.expect_err(place).to_string();
        assert!(error.contains(words), "{place}: {words}: {error}");
    }
    let mut json: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
    json["beside"][0]["shape"] = serde_json::json!([1, rows, 16, 8]);
    json["beside"][0]["padding"] = serde_json::json!([[0, 0], [2, 2], [0, 0], [0, 0]]);
    fs::write(&path, json.to_string()).expect("an edited file");
    let error = Package::load(&path).expect_err("padding").to_string();
    assert!(error.contains("padding that no device wants"), "{error}");
}

/// Packages from before anything was for the host alone do not say so.
#[test]
fn packages_without_it_are_as_they_were() {
    let folder = tempfile::tempdir().expect("a folder");
    let spec = DeviceSpec::builtin("metis").expect("a built-in device");
    let compiled = compile(&chained(), &spec, &CompileOptions::default()).expect("a program");
    Package::write(&compiled, folder.path()).expect("a package");
    let text = fs::read_to_string(folder.path().join(MODEL_FILE)).expect("model.json");
    assert!(!text.contains("\"beside\""), "{text}");
    let package = Package::load(&folder.path().join(MODEL_FILE)).expect("a package");
    assert_eq!(package.program().taken().count(), 1);
    assert_eq!(package.between_parts(&SessionOptions::default()).expect("parts").len(), 1);
}

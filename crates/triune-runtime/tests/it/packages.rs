//! Packages on disk: what is written loads; what was truncated, edited, made newer or made by others says so.

use std::{fs, path::Path, sync::Arc};

use triune_device::DeviceSpec;
use triune_graph::{
    Op,
    ops::{self, BinaryKind, UnaryKind},
};
use triune_runtime::{
    CompileOptions, DeployOptions, Deployment, Device, Error, MODEL_FILE, Package, PlanOptions, Policy,
    Program, Session, SessionOptions, TensorRef, compile,
};
use triune_tensor::{DType, QuantParams};
use triune_testing::{GraphBuilder, Tensor};

const PARAMS: QuantParams = QuantParams { scale: 0.02, zero_point: 3 };

/// One quantized convolution between quantize and dequantize, with a float function before and behind.
fn graph(around: bool) -> triune_graph::Graph {
    let mut builder = GraphBuilder::new();
    let mut x = builder.input("x", DType::F32, &[1, 3, 8, 8]);
    if around {
        x = builder.unary(UnaryKind::Tanh, x);
    }
    let x = builder.quantize_dequantize(x, PARAMS, DType::I8);
    let integers: Vec<i8> = (0..5 * 3 * 9).map(|i| (i * 37 % 255 - 127) as i8).collect();
    let weights = builder.dequantized_constant(&Tensor::i8(&[5, 3, 3, 3], &integers), &[0.01], 0);
    let y = builder.conv(&[x, weights], 1, 1, 1);
    let mut y = builder.quantize_dequantize(y, PARAMS, DType::I8);
    if around {
        y = builder.unary(UnaryKind::Sigmoid, y);
    }
    builder.finish(&[y])
}

fn package(folder: &Path, around: bool) -> Package {
    let spec = DeviceSpec::builtin("metis").expect("a built-in device");
    let compiled = compile(&graph(around), &spec, &CompileOptions::default()).expect("a program");
    Package::write(&compiled, folder).expect("a package")
}

fn load(folder: &Path) -> Result<Package, Error> {
    Package::load(&folder.join(MODEL_FILE))
}

#[test]
fn host_parts_are_models_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let package = package(folder.path(), true);
    let run = |file: &str, dtype, shape: &[usize], bytes: &[u8]| {
        let mut session =
            Session::open(&folder.path().join(file), &SessionOptions::default()).expect("a model");
        session.run(&[TensorRef { dtype, shape, bytes }]).expect("a run").remove(0)
    };
    let half: Vec<u8> = (0..3 * 64).flat_map(|_| 0.5_f32.to_le_bytes()).collect();
    let before = run(package.preprocess().expect("a part before"), DType::F32, &[1, 3, 8, 8], &half);
    let first = f32::from_le_bytes([before.bytes[0], before.bytes[1], before.bytes[2], before.bytes[3]]);
    assert!((first - 0.5_f32.tanh()).abs() < 1e-6, "{first}");
    let zeros = vec![0; 5 * 64 * 4];
    let behind = run(package.postprocess().expect("a part behind"), DType::F32, &[1, 5, 8, 8], &zeros);
    assert!(behind.bytes.chunks_exact(4).all(|b| b == 0.5_f32.to_le_bytes()));
}

/// Programs look for some files by name: those of the package that was there before would be of another model.
#[test]
fn a_package_in_place_of_another_is_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let names = || {
        let entries = fs::read_dir(folder.path()).expect("a folder").flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    };
    let other = tempfile::tempdir().expect("a folder");
    package(folder.path(), true);
    assert!(names().contains(&"postprocess_graph.onnx".to_owned()));
    // What people put there stays, and so does what only looks alike.
    let own = ["between_graph_x.onnx", "labels.txt"];
    for name in own.into_iter().chain(["between_graph_7.onnx"]) {
        fs::write(folder.path().join(name), "mine").expect("a file");
    }
    package(folder.path(), false);
    package(other.path(), false);
    let mut wanted: Vec<String> = fs::read_dir(other.path())
        .expect("a folder")
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    wanted.extend(own.map(String::from));
    wanted.sort();
    assert_eq!(names(), wanted);
    load(folder.path()).expect("a package");

    // A folder that had none keeps all of its files.
    let mine = tempfile::tempdir().expect("a folder");
    fs::write(mine.path().join("postprocess_graph.onnx"), "mine").expect("a file");
    package(mine.path(), false);
    assert_eq!(fs::read(mine.path().join("postprocess_graph.onnx")).expect("a file"), b"mine");
}

#[test]
fn damaged_packages_say_so() {
    let folder = tempfile::tempdir().expect("a folder");
    package(folder.path(), false);
    let says = |words: &str| {
        let error = load(folder.path()).expect_err("damaged").to_string();
        assert!(error.contains(words), "'{error}' does not say '{words}'");
    };
    let model = folder.path().join(MODEL_FILE);
    let text = fs::read_to_string(&model).expect("model.json");
    let constants = folder.path().join("constants.bin");
    let bytes = fs::read(&constants).expect("constants.bin");

    fs::write(&constants, &bytes[..bytes.len() - 1]).expect("a truncated file");
    says("truncated");
    let mut edited = bytes.clone();
    edited[5] ^= 1;
    fs::write(&constants, &edited).expect("an edited file");
    says("SHA-256");
    fs::remove_file(&constants).expect("a removed file");
    says("constants.bin");
    fs::write(&constants, &bytes).expect("the file again");
    load(folder.path()).expect("whole again");

    for (from, to, words) in [
        ("\"schema_version\": 5", "\"schema_version\": 6", "newer"),
        ("\"schema_version\": 5", "\"schema_version\": 4", "schema version 4 is of a Triune before"),
        ("\"schema_version\": 5", "\"schema_version\": \"x\"", "no schema version"),
        ("\"schema_version\": 5", "\"schema_version\": 0", "not known"),
        (
            "\"operators\": [",
            "\"waits\": [{\"commands\": 0, \"reads\": [0], \"makes\": [0]}], \"operators\": [",
            "0 graphs for the 1 times",
        ),
        (
            "\"operators\": [",
            "\"waits\": [{\"commands\": 0, \"reads\": [0, 0], \"makes\": []}], \"operators\": [",
            "waits for the host that do not fit",
        ),
        (
            "\"operators\": [",
            "\"waits\": [{\"commands\": 0, \"reads\": [], \"makes\": [7]}], \"operators\": [",
            "waits for the host that do not fit",
        ),
        ("\"operators\": [", "\"results\": 0, \"operators\": [", "waits for the host that do not fit"),
        ("\"policy\": \"exact\"", "\"policy\": \"luck\"", "policy"),
        ("\"value\": 0", "\"value\": 5", "beyond their bounds"),
        ("triune-program", "other", "triune compile"),
        ("\"batch\": 1", "\"batch\": 0", "batch"),
        ("\"batch\": 1", "\"batch\": 2", "multiple of the batch"),
        ("\"batch\": 1", "\"batch\": 5", "cores"),
        ("\"constants.bin\"", "\"../constants.bin\"", "plain file name"),
        ("\"target\": \"metis\"", "\"target\": \"moon\"", "unknown target"),
        ("\"scale\": 0.0", "\"scale\": -0.0", "scale"),
        ("\"int8\"", "\"int9\"", "element type"),
    ] {
        assert!(text.contains(from), "{from}");
        fs::write(&model, text.replace(from, to)).expect("an edited file");
        says(words);
    }
    for length in (0..text.trim_end().len()).step_by(7) {
        fs::write(&model, &text[..length]).expect("a truncated file");
        assert!(load(folder.path()).is_err(), "{length} of {} bytes", text.len());
    }
}

/// The memory plan is kept, is optional, and is what the deployment's numbers say.
#[test]
fn the_memory_plan_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[1, 3, 8, 8]);
    let mut x = builder.quantize_dequantize(x, PARAMS, DType::I8);
    for _ in 0..4 {
        let weights = builder.dequantized_constant(&Tensor::i8(&[3, 3, 3, 3], &[1; 81]), &[0.01], 0);
        x = builder.conv(&[x, weights], 1, 1, 1);
        x = builder.quantize_dequantize(x, PARAMS, DType::I8);
    }
    let spec = DeviceSpec::builtin("zg330").expect("a built-in device");
    let compiled = compile(&builder.finish(&[x]), &spec, &CompileOptions::default()).expect("a program");
    let package = Package::write(&compiled, folder.path()).expect("a package");
    let program = package.program();
    assert_eq!(program.buffers, compiled.program.buffers);
    assert_eq!(program.buffers.len(), 3, "between four convolutions");
    let ends = program.buffers.iter().map(|buffer| buffer.offset + buffer.bytes);
    assert_eq!(ends.max().expect("a buffer").next_multiple_of(64), program.resident_bytes());
    assert!(program.buffers.iter().all(|buffer| buffer.segment == Program::RESIDENT && buffer.reads == 1));
    assert_eq!(program.scratch_bytes, 0, "all of it fits the near memory");
    let steps = program.buffers.iter().map(|buffer| buffer.last).max().expect("a buffer");
    let live = |step| {
        let alive = program.buffers.iter().filter(|buffer| (buffer.first..buffer.last).contains(&step));
        alive.map(|buffer| buffer.bytes).sum::<u64>()
    };
    let residency = program.residency.expect("a device with a near memory");
    assert_eq!((0..steps).map(live).max(), Some(residency.lower_bound));
    assert_eq!((residency.policy, residency.gap()), (Policy::Exact, 0.0));
    // Written once, read once.
    assert_eq!(residency.value, 2 * program.buffers.iter().map(|buffer| buffer.bytes).sum::<u64>());
    let near = spec.resident_memory().expect("a near memory");
    assert_eq!(residency.capacity, near.usable_bytes());
    let device = Device::new(spec).expect("a device");
    let deployment = Deployment::new(&device, program, &DeployOptions::default()).expect("a deployment");
    let places: Vec<_> = deployment.places().iter().map(|place| (&*place.memory, place.bytes)).collect();
    let border = |tensors: &[triune_runtime::TensorIo]| tensors[0].bytes() as u64;
    assert_eq!(
        places,
        [
            ("ddr", program.instructions.len() as u64),
            ("ddr", program.constants.len() as u64),
            ("ddr", 0),
            ("ocm", program.resident_bytes()),
            ("ddr", border(&program.inputs)),
            ("ddr", border(&program.outputs)),
        ]
    );

    let model = folder.path().join(MODEL_FILE);
    let text = fs::read_to_string(&model).expect("model.json");
    let mut json: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
    json["feature_maps"][0] = serde_json::json!([3, u64::MAX, 64, 0, 1, 1]);
    fs::write(&model, json.to_string()).expect("an edited file");
    assert!(load(folder.path()).expect_err("outside").to_string().contains("memory plan"));
    json.as_object_mut().expect("an object").remove("feature_maps");
    fs::write(&model, json.to_string()).expect("an edited file");
    let without = load(folder.path()).expect("still readable");
    assert_eq!(without.program().buffers, []);
    let error = without.program().replan(device.spec(), &PlanOptions::default()).expect_err("nothing known");
    assert!(error.to_string().contains("memory plan has nothing"), "{error}");
}

#[test]
fn foreign_models_name_the_cure() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join(MODEL_FILE), "{\"inputs\": []}").expect("a model.json");
    fs::write(folder.path().join("kernel_function_0.elf"), [0x7f]).expect("a kernel");
    let error = load(folder.path()).expect_err("not ours");
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    assert!(error.to_string().contains("ELF") && error.to_string().contains("triune compile"), "{error}");
}

#[test]
fn runs_check_their_operands() {
    let folder = tempfile::tempdir().expect("a folder");
    let package = package(folder.path(), false);
    let device = Device::new(DeviceSpec::builtin("metis").expect("a built-in device")).expect("a device");
    let mut deployment =
        Deployment::new(&device, package.program(), &DeployOptions::default()).expect("a deployment");
    let (input, mut output) =
        (vec![0; package.program().inputs[0].bytes()], vec![0; package.program().outputs[0].bytes()]);
    deployment.run(&[&input], &mut [&mut output]).expect("a run");
    let error = deployment.run(&[&input[1..]], &mut [&mut output]).expect_err("too short").to_string();
    assert!(error.contains("input 'x'"), "{error}");
    let error = deployment.run(&[], &mut [&mut output]).expect_err("too few").to_string();
    assert!(error.contains("number of inputs: expected 1, got 0"), "{error}");
    assert!(deployment.timeline().total_cycles > 0);
    let link = device.spec().link.as_ref().expect("a host link");
    let moving = (input.len() + output.len()) as u64 * 1_000_000_000 / link.bytes_per_second;
    assert_eq!(deployment.transfer_nanos(), moving + link.call_ns);
}

/// Deployments of one program share its constants and give back all memory.
#[test]
fn memory_returns_when_deployments_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let package = package(folder.path(), false);
    let device = Device::new(DeviceSpec::builtin("metis").expect("a built-in device")).expect("a device");
    let live = || -> u64 {
        let memory = device.memory();
        memory
            .regions()
            .map(|(id, _, _)| memory.live(id).expect("a region").iter().map(|(_, len)| len).sum::<u64>())
            .sum()
    };
    let empty = live();
    let deploy =
        || Deployment::new(&device, package.program(), &DeployOptions::default()).expect("a deployment");
    let first = deploy();
    let one = live() - empty;
    let second = deploy();
    let constants = package.program().constants.len() as u64;
    assert!(live() - empty < 2 * one && live() - empty + constants > one, "constants lie there once");
    drop(first);
    drop(second);
    assert_eq!(live(), empty);
}

#[test]
fn threads_run_side_by_side() {
    let folder = tempfile::tempdir().expect("a folder");
    let package = package(folder.path(), false);
    let device = Device::new(DeviceSpec::builtin("metis").expect("a built-in device")).expect("a device");
    let program = package.program();
    let run = |fill: u8| {
        let mut deployment =
            Deployment::new(&device, program, &DeployOptions::default()).expect("a deployment");
        let input = vec![fill; program.inputs[0].bytes()];
        let mut output = vec![0; program.outputs[0].bytes()];
        (0..50)
            .map(|_| {
                deployment.run(&[&input], &mut [&mut output]).expect("a run");
                output.clone()
            })
            .collect::<Vec<_>>()
    };
    let alone: Vec<_> = (0..4).map(|fill| run(fill * 40)[0].clone()).collect();
    let run = Arc::new(run);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|fill| {
                (
                    fill,
                    scope.spawn({
                        let run = &run;
                        move || run(fill * 40)
                    }),
                )
            })
            .collect();
        for (fill, thread) in threads {
            for output in thread.join().expect("no panic") {
                assert_eq!(output, alone[fill as usize]);
            }
        }
    });
}

#[test]
fn float_models_are_refused_with_the_cure() {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[1, 3, 8, 8]);
    let y = builder.unary(UnaryKind::Relu, x);
    let spec = DeviceSpec::builtin("metis").expect("a built-in device");
    let error = compile(&builder.finish(&[y]), &spec, &CompileOptions::default())
        .expect_err("no integers")
        .to_string();
    assert!(error.contains("--calibrate"), "{error}");
}

#[test]
fn sessions_name_what_does_not_fit() {
    let mut session = Session::new(graph(false), &SessionOptions::default()).expect("a session");
    let bytes = vec![0; 3 * 64 * 4];
    let mut says = |dtype, shape: &[usize], bytes: &[u8], words: &str| {
        let error = session.run(&[TensorRef { dtype, shape, bytes }]).expect_err("does not fit").to_string();
        assert!(error.contains("input 'x'") && error.contains(words), "'{error}' does not say '{words}'");
    };
    says(DType::I8, &[1, 3, 8, 8], &bytes, "expected float32, got int8");
    says(DType::F32, &[1, 3, 8], &bytes, "expected shape (1, 3, 8, 8), got (1, 3, 8)");
    says(DType::F32, &[2, 3, 8, 8], &bytes, "got (2, 3, 8, 8)");
    says(DType::F32, &[1, 3, 8, 8], &bytes[1..], "expected 768 bytes for shape (1, 3, 8, 8), got 767 bytes");
}

/// An open batch is bound by each call; an empty one gives nothing, an absurd one does not allocate.
#[test]
fn sessions_bind_the_batch() {
    let mut graph = graph(false);
    let input = graph.inputs[0];
    graph.value_mut(input).shape.as_mut().expect("a shape")[0] = triune_graph::Dim::Symbol("N".into());
    let mut session = Session::new(graph, &SessionOptions::default()).expect("a session");
    for images in [1, 7, 2, 1] {
        let bytes = vec![0; images * 3 * 64 * 4];
        let input = TensorRef { dtype: DType::F32, shape: &[images, 3, 8, 8], bytes: &bytes };
        assert_eq!(&*session.run(&[input]).expect("a run")[0].shape, &[images, 5, 8, 8]);
    }
    let empty = TensorRef { dtype: DType::F32, shape: &[0, 3, 8, 8], bytes: &[] };
    assert_eq!(&*session.run(&[empty]).expect("a run")[0].shape, &[0, 5, 8, 8]);
    let absurd = TensorRef { dtype: DType::F32, shape: &[usize::MAX / 2, 3, 8, 8], bytes: &[] };
    assert!(session.run(&[absurd]).expect_err("absurd").to_string().contains("fits memory"));
}

/// A clamp with constant limits that stays on the host is written as ONNX has it.
#[test]
fn host_parts_hold_clamps() {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[1, 3, 8, 8]);
    let x = builder.quantize_dequantize(x, PARAMS, DType::I8);
    let weights = builder.dequantized_constant(&Tensor::i8(&[5, 3, 1, 1], &[3; 15]), &[0.01], 0);
    let y = builder.conv(&[x, weights], 1, 0, 1);
    let y = builder.quantize_dequantize(y, PARAMS, DType::I8);
    let y = builder.unary(UnaryKind::Tanh, y);
    let y = builder.unary(UnaryKind::Clip([0.0, 0.5]), y);
    let spec = DeviceSpec::builtin("metis").expect("a built-in device");
    let graph = builder.finish(&[y]);
    let compiled = compile(&graph, &spec, &CompileOptions::default()).expect("a program");
    let mut session =
        Session::from_bytes(compiled.postprocess.expect("a part behind"), &SessionOptions::default())
            .expect("a model");
    let ones: Vec<u8> = (0..5 * 64).flat_map(|_| 1.0_f32.to_le_bytes()).collect();
    let run =
        session.run(&[TensorRef { dtype: DType::F32, shape: &[1, 5, 8, 8], bytes: &ones }]).expect("a run");
    assert!(run[0].bytes.chunks_exact(4).all(|b| b == 0.5_f32.to_le_bytes()));
    // The host's part is for one image: no batch can be made of it.
    let error = compile(&graph, &spec, &CompileOptions { batch: 2, ..CompileOptions::default() })
        .expect_err("a fixed batch")
        .to_string();
    assert!(error.contains("open batch"), "{error}");
}

/// A tensor that a joint requantizes has no float form in the model: what makes it stays on the host with the joint.
#[test]
fn requantized_parts_stay_with_their_joint() {
    let mut builder = GraphBuilder::new();
    let input = builder.input("x", DType::F32, &[1, 4, 3, 3]);
    let x = builder.quantize_dequantize(input, PARAMS, DType::I8);
    let weights = builder.dequantized_constant(&Tensor::i8(&[4, 4, 1, 1], &[7; 16]), &[0.01], 0);
    let a = builder.conv(&[x, weights], 1, 0, 1);
    let a = builder.quantize_dequantize(a, QuantParams { scale: 0.01, zero_point: -9 }, DType::I8);
    let exponent = builder.constant(&Tensor::f32(&[1], &[1.7]));
    let power = builder.binary(BinaryKind::Pow, a, exponent);
    let power = builder.quantize_dequantize(power, QuantParams { scale: 0.004, zero_point: -128 }, DType::I8);
    let y = builder.node(Op::Concat(ops::Concat { axis: 1 }), &[a, power, a]);
    let y = builder.quantize_dequantize(y, QuantParams { scale: 0.025, zero_point: 5 }, DType::I8);
    let spec = DeviceSpec::builtin("metis").expect("a built-in device");
    let compiled = compile(&builder.finish(&[y]), &spec, &CompileOptions::default()).expect("a program");
    let behind = compiled.postprocess.expect("a part behind");
    let session =
        Session::from_bytes(behind, &SessionOptions::default()).expect("a model that holds together");
    assert_eq!(session.inputs().len(), compiled.program.outputs.len());
}

#[test]
fn pipes_are_no_packages() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = Package::load(folder.path()).expect_err("a folder").to_string();
    assert!(error.contains("not a plain file"), "{error}");
}

/// Several writers of the same package in one folder, at once: everybody gets a whole one, and nothing else stays.
#[test]
fn writers_do_not_see_each_others_halves() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[1, 3, 8, 8]);
    let x = builder.quantize_dequantize(x, PARAMS, DType::I8);
    let weights = builder.dequantized_constant(&Tensor::i8(&[64, 3, 3, 3], &[1; 64 * 27]), &[0.01], 0);
    let x = builder.conv(&[x, weights], 1, 1, 1);
    let x = builder.quantize_dequantize(x, PARAMS, DType::I8);
    let spec = DeviceSpec::builtin("metis").expect("a built-in device");
    let compiled = compile(&builder.finish(&[x]), &spec, &CompileOptions::default()).expect("a program");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    Package::write(&compiled, folder.path()).expect("a package");
                }
            });
        }
    });
    let mut names: Vec<_> = std::fs::read_dir(folder.path())
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    names.sort();
    assert!(!names.iter().any(|name| name.contains(".part")), "{names:?}");
}

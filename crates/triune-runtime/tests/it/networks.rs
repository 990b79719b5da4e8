//! Random networks through compile, deploy and run, against the naive interpreter: equal bits for integers, rounding
//! apart for floats. What is tested is everything between the passes and the kernels: views, copies, addresses, plans.

use std::sync::Arc;

use crate::grown::Net;
use proptest::prelude::*;
use triune_device::DeviceSpec;
use triune_graph::{Graph, Op, ValueId, passes};
use triune_runtime::{
    CompileError, CompileOptions, DeployOptions, Deployment, Device, Error, Package, Session, SessionOptions,
    TensorRef, compile,
};
use triune_tensor::{DType, QuantParams, Requantize, Rounding, Shape};
use triune_testing::{Data, Random, Tensor, interpret};

fn input_shape(graph: &Graph) -> Vec<usize> {
    graph.value(graph.inputs[0]).fixed_shape().expect("a fixed shape").to_vec()
}

fn run_session(graph: &Graph, values: &[f32], threads: usize) -> Vec<triune_runtime::Tensor> {
    let mut session = Session::new(graph.clone(), &SessionOptions { threads, ..SessionOptions::default() })
        .expect("a session");
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let shape = input_shape(graph);
    session.run(&[TensorRef { dtype: DType::F32, shape: &shape, bytes: &bytes }]).expect("a run")
}

fn prepared(graph: &Graph) -> Graph {
    let mut graph = graph.clone();
    passes::prepare(&mut graph).expect("passes");
    graph
}

/// Every built-in device but the host, and some of those with parameters in their names.
fn npus() -> Vec<&'static str> {
    let parametrised = ["buyi-1x3", "scalesim-ws-8x16"];
    DeviceSpec::BUILTIN.iter().copied().filter(|&name| name != "host").chain(parametrised).collect()
}

fn rounding(away: bool) -> Rounding {
    if away { Rounding::HalfAwayFromZero } else { Rounding::HalfToEven }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn float_networks_agree(seed: u64, images in 1_usize..3, steps in 1_usize..14) {
        let (graph, values) = Net::new(seed, None, images).finish(steps);
        let expected = interpret(&graph, &[("x", Tensor::f32(&input_shape(&graph), &values))]);
        let got = run_session(&graph, &values, 1);
        prop_assert_eq!(&got, &run_session(&graph, &values, 3), "threads change no bit");
        for (expected, got) in expected.iter().zip(&got) {
            let got = Tensor::from_bytes(got.dtype, &got.shape, &got.bytes);
            for (&a, &b) in expected.as_f32().iter().zip(got.as_f32()) {
                let largest = expected.as_f32().iter().fold(1.0_f32, |most, v| most.max(v.abs()));
                prop_assert!((a - b).abs() <= 2e-4 * largest, "{a} {b} of {largest}");
            }
        }
    }

    #[test]
    fn quantized_networks_agree(
        seed: u64,
        signed: bool,
        away: bool,
        fixed: bool,
        images in 1_usize..3,
        steps in 1_usize..14,
    ) {
        let dtype = if signed { DType::I8 } else { DType::U8 };
        let (mut graph, values) = Net::new(seed, Some(dtype), images).finish(steps);
        graph.rounding = rounding(away);
        graph.requantize = if fixed { Requantize::Fixed } else { Requantize::Float };
        let graph = prepared(&graph);
        let expected = interpret(&graph, &[("x", Tensor::f32(&input_shape(&graph), &values))]);
        let got = run_session(&graph, &values, 2);
        for (expected, got) in expected.iter().zip(&got) {
            prop_assert_eq!(expected.to_bytes(), got.bytes.clone());
        }
    }

    /// The integer core on any NPU, through a package on disk: its outputs are the interpreter's integers.
    #[test]
    fn npu_programs_agree(
        seed: u64,
        signed: bool,
        away: bool,
        fixed: bool,
        batch in 1_usize..3,
        steps in 1_usize..12,
        name in prop::sample::select(npus()),
    ) {
        let dtype = if signed { DType::I8 } else { DType::U8 };
        let (mut graph, _) = Net::new(seed, Some(dtype), 1).finish(steps);
        graph.rounding = rounding(away);
        let spec = DeviceSpec::builtin(name).expect("a built-in device");
        let batch = batch.min(spec.cores as usize);
        // A graph keeps its own factors on a device that takes any.
        graph.requantize = if fixed { Requantize::Fixed } else { Requantize::Float };
        let compiled = compile(&graph, &spec, &CompileOptions { batch, ..CompileOptions::default() }).expect("a program");
        prop_assume!(compiled.preprocess.is_none());
        let folder = tempfile::tempdir().expect("a folder");
        let package = Package::write(&compiled, folder.path()).expect("a package");
        let program = Arc::clone(package.program());
        prop_assert_eq!(&*program, &compiled.program);
        if spec.requantize == Requantize::Fixed {
            graph.requantize = Requantize::Fixed;
        }
        let device = Device::new(spec).expect("a device");
        let mut deployment = Deployment::new(&device, &program, &DeployOptions { threads: 2, ..DeployOptions::default() })
            .expect("a deployment");
        prop_assert_eq!(&deployment.timeline().device, name);
        prop_assert!(deployment.timeline().total_cycles > 0);

        // Per image: random integers in the data, whatever the zero point asks for in the border.
        let mut random = Random(seed ^ 1);
        let io = &program.inputs[0];
        let inner = io.unpadded_shape();
        let data: Vec<i8> = (0..inner.iter().product::<usize>()).map(|_| random.next() as i8).collect();
        let mut buffer = vec![io.zero_point as i8; io.bytes()];
        walk(&io.shape, &inner, &io.padding, |from, to| buffer[to] = data[from]);
        let input: Vec<u8> = buffer.iter().map(|&q| q as u8).collect();
        let mut outputs: Vec<Vec<u8>> = program.outputs.iter().map(|io| vec![0xaa; io.bytes()]).collect();
        let mut slices: Vec<&mut [u8]> = outputs.iter_mut().map(|output| &mut **output).collect();
        deployment.run(&[&input], &mut slices).expect("a run");

        for image in 0..batch {
            // The reals that the integers stand for, in the model's order of axes.
            let [_, h, w, c] = *inner else { panic!("rank 4") };
            let one = &data[image * h * w * c..(image + 1) * h * w * c];
            let params = QuantParams { scale: io.scale, zero_point: io.zero_point };
            let mut reals = vec![0.0; one.len()];
            for (at, &q) in one.iter().enumerate() {
                let (pixel, channel) = (at / c, at % c);
                reals[channel * h * w + pixel] = params.dequantize(i32::from(q));
            }
            let expected = interpret(&prepared(&graph), &[("x", Tensor::f32(&[1, c, h, w], &reals))]);
            for (io, output) in program.outputs.iter().zip(&outputs) {
                let at = graph.outputs.iter().position(|&id| graph.value(id).name == io.name);
                let Some(at) = at else { continue };
                let inner = io.unpadded_shape();
                let size = inner.iter().product::<usize>();
                let mut got = vec![0_i8; size];
                walk(&io.shape, &inner, &io.padding, |to, from| got[to] = output[from] as i8);
                let [_, h, w, c] = *inner else { panic!("rank 4") };
                let one = &got[image * h * w * c..(image + 1) * h * w * c];
                let Data::F32(expected) = &expected[at].data else { panic!("floats") };
                let params = QuantParams { scale: io.scale, zero_point: io.zero_point };
                for (position, &q) in one.iter().enumerate() {
                    let (pixel, channel) = (position / c, position % c);
                    prop_assert_eq!(params.dequantize(i32::from(q)), expected[channel * h * w + pixel]);
                }
            }
        }
    }
}

/// Networks of 16-bit integers on the host, in integers where they have such a form. `WIDE_SEEDS` says how many.
#[test]
fn wide_networks_agree() {
    let (mut integer, mut nodes) = (0, 0);
    let seeds = std::env::var("WIDE_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(250);
    for seed in 0..seeds {
        let (images, steps) = (1 + seed as usize % 2, 1 + seed as usize % 12);
        let (mut graph, values) = Net::new(seed, Some(DType::I16), images).finish(steps);
        graph.rounding = rounding(seed % 3 == 0);
        graph.requantize = if seed % 4 < 2 { Requantize::Fixed } else { Requantize::Float };
        let graph = prepared(&graph);
        for node in &graph.nodes {
            let wide = |id: &ValueId| graph.value(*id).dtype == Some(DType::I16);
            nodes += 1;
            integer += usize::from(
                matches!(
                    node.op,
                    Op::Conv(_)
                        | Op::Gemm(_)
                        | Op::Binary(_)
                        | Op::Unary(_)
                        | Op::Pool(_)
                        | Op::GlobalPool(_)
                ) && node.outputs.iter().flatten().all(wide),
            );
        }
        let expected = interpret(&graph, &[("x", Tensor::f32(&input_shape(&graph), &values))]);
        let got = run_session(&graph, &values, 2);
        for (expected, got) in expected.iter().zip(&got) {
            assert!(expected.to_bytes() == got.bytes, "seed {seed}");
        }
    }
    assert!(integer > 500, "{integer} of {nodes} nodes");
}

/// Calls `f` with the index of every element without padding and its index in the padded buffer.
fn walk(shape: &[usize], inner: &[usize], padding: &[(usize, usize)], mut f: impl FnMut(usize, usize)) {
    for index in 0..inner.iter().product::<usize>() {
        let (mut rest, mut at, mut stride) = (index, 0, 1);
        for axis in (0..shape.len()).rev() {
            at += (rest % inner[axis] + padding[axis].0) * stride;
            rest /= inner[axis];
            stride *= shape[axis];
        }
        f(index, at);
    }
}

#[test]
fn devices_give_the_results_of_the_host() {
    let (mut ran, mut words) = (0, 0);
    for seed in 0..160_u64 {
        let (images, steps) = (1 + seed as usize % 3, 1 + seed as usize % 11);
        let npus = npus();
        let device = npus[seed as usize % npus.len()];
        let wide = device.starts_with("buyi") && seed % 4 < 2;
        let dtype = match seed % 2 {
            _ if wide => DType::I16,
            0 => DType::I8,
            _ => DType::U8,
        };
        let (mut graph, values) = Net::new(seed, Some(dtype), images).finish(steps);
        graph.rounding = rounding(seed % 5 == 0);
        let spec = DeviceSpec::builtin(device).expect("a built-in device");
        let requantize = spec.requantize;
        let options = SessionOptions { device: Some(spec), ..SessionOptions::default() };
        let shape = input_shape(&graph);
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        // What a device has no commands for stays an error that says so.
        let mut session = match Session::new(graph.clone(), &options) {
            Ok(session) => session,
            Err(Error::Compile(
                CompileError::NotQuantized | CompileError::Target(_) | CompileError::Unsupported { .. },
            )) => {
                continue;
            }
            Err(error) => panic!("seed {seed} on {device}: {error}"),
        };
        graph.requantize = requantize;
        ran += 1;
        words += usize::from(wide);
        assert!(session.deployment(&[Shape::new(&shape).unwrap()]).unwrap().is_some());
        let operand = TensorRef { dtype: DType::F32, shape: &shape, bytes: &bytes };
        assert_eq!(
            session.run(&[operand]).expect("a run"),
            run_session(&graph, &values, 1),
            "seed {seed} on {device}"
        );
    }
    assert!(ran >= 80, "{ran} of 160 networks ran");
    assert!(words >= 10, "{words} networks of 16 bits ran");
}

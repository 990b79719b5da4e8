//! Random networks through compile, deploy and run, against the naive interpreter: equal bits for integers, rounding
//! apart for floats. What is tested is everything between the passes and the kernels: views, copies, addresses, plans.

use std::{collections::HashMap, sync::Arc};

use proptest::prelude::*;
use triune_device::DeviceSpec;
use triune_graph::{
    Graph, Op, ValueId,
    ops::{self, BinaryKind, PoolKind, UnaryKind},
    passes,
};
use triune_runtime::{
    CompileOptions, DeployOptions, Deployment, Device, Error, Package, Session, SessionOptions, TensorRef,
    compile,
};
use triune_tensor::{DType, QuantParams, Requantize, Rounding, Shape};
use triune_testing::{Data, GraphBuilder, Tensor, interpret};

/// A small random generator: the sequence is the seed's, on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn real(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    fn reals(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.real()).collect()
    }
}

/// Grows a random network; in `quantized` mode every result is quantized, as quantization tools write models.
struct Net {
    random: Random,
    builder: GraphBuilder,
    quantized: Option<DType>,
    /// Values to build on, with their shapes.
    open: Vec<(ValueId, Vec<usize>)>,
    params: HashMap<ValueId, QuantParams>,
}

impl Net {
    fn new(seed: u64, quantized: Option<DType>, images: usize) -> Self {
        let mut random = Random(seed);
        let shape = vec![images, 1 + random.below(9), 4 + random.below(6), 4 + random.below(6)];
        let mut builder = GraphBuilder::new();
        let input = builder.input("x", DType::F32, &shape);
        let mut net = Self { random, builder, quantized, open: Vec::new(), params: HashMap::new() };
        net.push(input, shape, None);
        net
    }

    /// Offers a value, quantized and dequantized if the network is; movement keeps its operand's parameters.
    fn push(&mut self, value: ValueId, shape: Vec<usize>, keep: Option<QuantParams>) {
        let Some(dtype) = self.quantized else {
            self.open.push((value, shape));
            return;
        };
        let zero_point = self.random.below(120) as i32 - 60 + if dtype == DType::U8 { 128 } else { 0 };
        let params =
            keep.unwrap_or(QuantParams { scale: 0.01 + self.random.real().abs() * 0.04, zero_point });
        let value = self.builder.quantize_dequantize(value, params, dtype);
        self.params.insert(value, params);
        self.open.push((value, shape));
    }

    /// Weights as the network has them: reals, or integers with a scale per output channel.
    fn weights(&mut self, shape: &[usize], axis: usize) -> (ValueId, Vec<f32>) {
        let count = shape.iter().product();
        if self.quantized.is_some() {
            let integers: Vec<i64> = (0..count).map(|_| self.random.below(255) as i64 - 127).collect();
            let scales: Vec<f32> =
                (0..shape[axis]).map(|_| 0.001 + self.random.real().abs() * 0.004).collect();
            let tensor = Tensor::of_integers(DType::I8, shape, &integers);
            (self.builder.dequantized_constant(&tensor, &scales, axis as isize), scales)
        } else {
            let values = self.random.reals(count);
            (self.builder.constant(&Tensor::f32(shape, &values)), Vec::new())
        }
    }

    fn bias(&mut self, channels: usize, input: ValueId, scales: &[f32]) -> ValueId {
        if self.quantized.is_some() {
            let x_scale = self.params[&input].scale;
            let integers: Vec<i64> = (0..channels).map(|_| self.random.below(4000) as i64 - 2000).collect();
            let scales: Vec<f32> = scales.iter().map(|scale| x_scale * scale).collect();
            self.builder.dequantized_constant(
                &Tensor::of_integers(DType::I32, &[channels], &integers),
                &scales,
                0,
            )
        } else {
            let values = self.random.reals(channels);
            self.builder.constant(&Tensor::f32(&[channels], &values))
        }
    }

    fn step(&mut self) {
        let (x, shape) = self.open[self.random.below(self.open.len())].clone();
        let keep = self.params.get(&x).copied();
        if shape.len() != 4 {
            return;
        }
        let [n, c, h, w] = [shape[0], shape[1], shape[2], shape[3]];
        match self.random.below(10) {
            0..=2 => {
                let kernel = if h >= 3 && w >= 3 { 1 + 2 * self.random.below(2) } else { 1 };
                let depthwise = self.random.below(3) == 0;
                let out = if depthwise { c } else { 1 + self.random.below(20) };
                let groups = if depthwise { c } else { 1 };
                let stride = 1 + self.random.below(2);
                let pad = self.random.below(kernel.div_ceil(2) + usize::from(kernel > 1));
                let (weights, scales) = self.weights(&[out, c / groups, kernel, kernel], 0);
                let bias = self.bias(out, x, &scales);
                let y = self.builder.conv(&[x, weights, bias], stride, pad, groups);
                let y = match self.random.below(3) {
                    0 => self.builder.unary(UnaryKind::Relu, y),
                    1 => self.builder.unary(UnaryKind::Clip([0.0, 0.7]), y),
                    _ => y,
                };
                let extent = |size: usize| (size + 2 * pad - kernel) / stride + 1;
                self.push(y, vec![n, out, extent(h), extent(w)], None);
            }
            3 => {
                let same = self.open.iter().filter(|(_, other)| *other == shape).cloned().collect::<Vec<_>>();
                let (other, _) = same[self.random.below(same.len())];
                let kind = if self.random.below(2) == 0 { BinaryKind::Add } else { BinaryKind::Mul };
                let y = self.builder.binary(kind, x, other);
                let y = if self.random.below(2) == 0 { self.builder.unary(UnaryKind::Relu, y) } else { y };
                self.push(y, shape, None);
            }
            4 => {
                let fits = |other: &[usize]| other.len() == 4 && other[0] == n && other[2..] == shape[2..];
                let same = self.open.iter().filter(|(_, other)| fits(other)).cloned().collect::<Vec<_>>();
                let (other, other_shape) = same[self.random.below(same.len())].clone();
                let y = self.builder.node(Op::Concat(ops::Concat { axis: 1 }), &[x, other]);
                self.push(y, vec![n, c + other_shape[1], h, w], None);
            }
            5 if h >= 2 && w >= 2 => {
                let y = self.builder.pool(PoolKind::Max, x, 2, 1 + self.random.below(2), 0);
                let stride = (h - 2) / 2 + 1;
                let y_shape = {
                    let Op::Pool(pool) = &self.builder.graph_mut().nodes.last().expect("just added").op
                    else {
                        return;
                    };
                    if pool.stride[0] == 1 {
                        vec![n, c, h - 1, w - 1]
                    } else {
                        vec![n, c, stride, (w - 2) / 2 + 1]
                    }
                };
                self.push(y, y_shape, keep);
            }
            6 => {
                let start = self.random.below(c);
                let range = |values: &[i64]| Tensor::i64(&[values.len()], values);
                let operands =
                    [range(&[start as i64, 0]), range(&[c as i64, h as i64]), range(&[1, 2]), range(&[1, 2])]
                        .map(|tensor| self.builder.constant(&tensor));
                let y = self
                    .builder
                    .node(Op::Slice(ops::Slice), &[x, operands[0], operands[1], operands[2], operands[3]]);
                self.push(y, vec![n, c - start, h.div_ceil(2), w], keep);
            }
            7 => {
                let y = self.builder.node(Op::Transpose(ops::Transpose { perm: vec![0, 1, 3, 2] }), &[x]);
                self.push(y, vec![n, c, w, h], keep);
            }
            8 => {
                let y = self.builder.unary(UnaryKind::Sigmoid, x);
                self.push(y, shape, None);
            }
            _ => {
                let target =
                    self.builder.constant(&Tensor::i64(&[4], &[n as i64, (c * h) as i64, 1, w as i64]));
                let y = self.builder.node(Op::Reshape(ops::Reshape { allow_zero: false }), &[x, target]);
                self.push(y, vec![n, c * h, 1, w], keep);
            }
        }
    }

    /// A head: global pool, matrix product, softmax on floats.
    fn head(&mut self) {
        let (x, shape) = self.open[self.open.len() - 1].clone();
        let y = self.builder.node(
            Op::GlobalPool(ops::GlobalPool { kind: PoolKind::Average { count_include_pad: false } }),
            &[x],
        );
        self.push(y, vec![shape[0], shape[1], 1, 1], None);
        let (x, _) = self.open.pop().expect("just pushed");
        let keep = self.params.get(&x).copied();
        let y = self.builder.node(Op::Flatten(ops::Flatten { axis: 1 }), &[x]);
        self.push(y, vec![shape[0], shape[1]], keep);
        let (x, _) = self.open.pop().expect("just pushed");
        let (weights, scales) = self.weights(&[7, shape[1]], 0);
        let bias = self.bias(7, x, &scales);
        let y = self.builder.gemm(&[x, weights, bias], true);
        self.push(y, vec![shape[0], 7], None);
    }

    /// The network with its last values as outputs.
    fn finish(mut self, steps: usize) -> (Graph, Vec<f32>) {
        for _ in 0..steps {
            self.step();
        }
        let middle = self.open.last().expect("the input at least").0;
        self.head();
        let last = self.open.last().expect("the head").0;
        let input = self.open[0].1.iter().product();
        let values = self.random.reals(input);
        (self.builder.finish(&[last, middle]), values)
    }
}

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
    let mut ran = 0;
    for seed in 0..160_u64 {
        let dtype = if seed % 2 == 0 { DType::I8 } else { DType::U8 };
        let (images, steps) = (1 + seed as usize % 3, 1 + seed as usize % 11);
        let (mut graph, values) = Net::new(seed, Some(dtype), images).finish(steps);
        graph.rounding = rounding(seed % 5 == 0);
        let npus = npus();
        let device = npus[seed as usize % npus.len()];
        let spec = DeviceSpec::builtin(device).expect("a built-in device");
        let requantize = spec.requantize;
        let options = SessionOptions { device: Some(spec), ..SessionOptions::default() };
        let shape = input_shape(&graph);
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        // What a device has no commands for stays an error that says so.
        let mut session = match Session::new(graph.clone(), &options) {
            Ok(session) => session,
            Err(Error::Target(_) | Error::Unsupported { .. }) => continue,
            Err(error) => panic!("seed {seed} on {device}: {error}"),
        };
        graph.requantize = requantize;
        ran += 1;
        assert!(session.deployment(&[Shape::new(&shape).unwrap()]).unwrap().is_some());
        let operand = TensorRef { dtype: DType::F32, shape: &shape, bytes: &bytes };
        assert_eq!(
            session.run(&[operand]).expect("a run"),
            run_session(&graph, &values, 1),
            "seed {seed} on {device}"
        );
    }
    assert!(ran >= 80, "{ran} of 160 networks ran");
}

//! Cores on a simulated accelerator against the same cores on the host: equal bits, whole or operator by operator.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use triune_device::{DeviceSpec, Sanitize};
use triune_graph::format::{onnx, xir::Document};
use triune_tensor::Requantize;

use super::{
    HardNetwork, HardOps, Stages,
    accelerated::{self, Accelerated},
    source::Source,
};
use triune_compiler::{PlanOptions, TensorIo, adapt, bind_batch, compile_host};
use triune_runtime::{DeployOptions, Deployment, Device};

fn models() -> Vec<PathBuf> {
    [
        "mlperftiny_resnet8_int8_qdq",
        "mobilenetv2_int8_qdq",
        "squeezenet_u8s8_qdq",
        "ultraface_s8s8_qdq",
        "ultraface_u8s8_qdq",
        "yolox_nano_u8s8_qdq",
    ]
    .iter()
    .filter_map(|name| triune_testing::test_data(&format!("models/onnx/{name}.onnx")))
    .collect()
}

/// The elements of a value in the model's order, from the bytes of a border tensor.
fn plain(io: &TensorIo, bytes: &[u8]) -> Vec<u8> {
    let dims = &io.model_shape;
    let Some(block) = io.block.filter(|_| dims.rank() == 4) else {
        let [n, c, h, w] = **dims else { return bytes.to_vec() };
        let physical = io.shape[3];
        return (0..n * c * h * w)
            .map(|index| {
                let (y, x) = (index / w % h, index % w);
                let (image, channel) = (index / (c * h * w), index / (h * w) % c);
                bytes[((image * h + y) * w + x) * physical + channel]
            })
            .collect();
    };
    let [n, c, h, w] = **dims else { unreachable!() };
    let blocks = c.div_ceil(block);
    (0..n * c * h * w)
        .map(|index| {
            let (y, x) = (index / w % h, index % w);
            let (image, channel) = (index / (c * h * w), index / (h * w) % c);
            bytes[(((image * blocks + channel / block) * h + y) * w + x) * block + channel % block]
        })
        .collect()
}

/// The bytes of a border tensor whose elements are `plain`.
fn laid_out(io: &TensorIo, plain: &[u8]) -> Vec<u8> {
    let mut bytes = vec![io.zero_point as u8; io.bytes()];
    let dims = io.model_shape;
    let [_, c, h, w] = *dims else { return plain.to_vec() };
    for (index, &element) in plain.iter().enumerate() {
        let (y, x) = (index / w % h, index % w);
        let (image, channel) = (index / (c * h * w), index / (h * w) % c);
        let at = match io.block {
            Some(block) => {
                let blocks = c.div_ceil(block);
                (((image * blocks + channel / block) * h + y) * w + x) * block + channel % block
            }
            None => ((image * h + y) * w + x) * io.shape[3] + channel,
        };
        bytes[at] = element;
    }
    bytes
}

#[test]
fn cores_have_the_bits_of_the_host() {
    for path in models() {
        let model = onnx::read(&path).unwrap();
        for name in ["zg330", "buyi"] {
            let label = format!("{} on {name}", path.display());
            let spec = DeviceSpec::builtin(name).unwrap();
            let stages = Stages::new(&model, None, &spec, &PlanOptions::default()).unwrap();
            let (json, raw) = stages.compiled.write().unwrap();
            let read = Document::read(json.as_bytes(), Some(raw.into())).unwrap();
            let network = Arc::new(HardNetwork::new(&read, Path::new("net")).unwrap());

            let mut bound = bind_batch(&model, 1).unwrap();
            let source = Source::new(&bound).unwrap();
            adapt(&mut bound, &spec);
            assert_eq!(bound.requantize == Requantize::Fixed, name == "buyi");
            let core =
                Accelerated::new(&accelerated::prepared(&bound).unwrap(), &source, spec.int16).unwrap();
            let host = Device::new(DeviceSpec::builtin("host").unwrap()).unwrap();
            let (reference, _) = compile_host(
                core.graph.clone(),
                host.spec(),
                true,
                None,
                triune_compiler::PlanOptions::default().search,
            )
            .unwrap();
            let reference = Arc::new(reference);
            let mut expected = Deployment::new(&host, &reference, &DeployOptions::default()).unwrap();
            // As everywhere else, nothing is read that this run has not written.
            let device = Device::with_sanitizer(spec.clone(), Sanitize::Report).unwrap();
            let program = network.program();
            let mut whole = Deployment::new(&device, program, &DeployOptions::default()).unwrap();
            let steps = HardOps::new(&device, &network, 1).unwrap();

            let mut random = triune_testing::Random(1);
            let inputs: Vec<Vec<u8>> = reference.inputs.iter().map(|io| random.bytes(io.bytes())).collect();
            let run = |deployment: &mut Deployment, inputs: &[Vec<u8>]| {
                let mut outputs: Vec<Vec<u8>> =
                    deployment.program().outputs.iter().map(|io| vec![0; io.bytes()]).collect();
                let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
                let mut slices: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
                deployment.run(&inputs, &mut slices).unwrap();
                outputs
            };
            let wanted = run(&mut expected, &inputs);
            let padded: Vec<Vec<u8>> =
                program.inputs.iter().zip(&inputs).map(|(io, plain)| laid_out(io, plain)).collect();
            let got = run(&mut whole, &padded);
            for ((io, bytes), wanted) in program.outputs.iter().zip(&got).zip(&wanted) {
                assert!(plain(io, bytes) == *wanted, "{label}: '{}'", io.name);
            }

            let hard: Vec<i64> = network.op_ids().collect();
            let edge = |segment: usize, io: &TensorIo| -> i64 {
                let mut at = network.values.iter().filter(|(_, place)| {
                    usize::from(place.segment) == segment && place.bytes() == Some(io.bytes())
                });
                *at.next().unwrap().0
            };
            let first = usize::from(triune_compiler::Program::FIRST_IO);
            let last = first + program.inputs.len();
            for ((segment, io), bytes) in (first..).zip(&program.inputs).zip(&padded) {
                steps.write(edge(segment, io), bytes).unwrap();
            }
            for &op in &hard {
                steps.run(op, op).unwrap();
            }
            for ((segment, io), wanted) in (last..).zip(&program.outputs).zip(&got) {
                let v_id = edge(segment, io);
                let mut bytes = vec![0; steps.bytes(v_id).unwrap()];
                steps.read(v_id, &mut bytes).unwrap();
                assert!(bytes == *wanted, "{label}: value {v_id}");
            }
            steps.run(hard[0], hard[hard.len() - 1]).unwrap();
            // An operator without its commands gives nothing that was there before.
            let mut damaged = HardNetwork::clone(&network);
            let step = damaged.steps.iter_mut().rfind(|step| step.bytes[1] > 0).unwrap();
            step.bytes[1] = 0;
            let (op_id, v_id) = (step.op_id, step.outputs[0]);
            let steps = HardOps::new(&device, &Arc::new(damaged), 1).unwrap();
            let mut bytes = vec![7; steps.bytes(v_id).unwrap()];
            steps.write(v_id, &bytes).unwrap();
            steps.read(v_id, &mut bytes).unwrap();
            steps.run(op_id, op_id).unwrap();
            let error = steps.read(v_id, &mut bytes).unwrap_err().to_string();
            assert!(error.contains("never-written"), "{label}: {error}");
        }
    }
}

//! Real quantized networks, prepared by the passes and run by the naive interpreter, give ONNX Runtime's bits.
//!
//! The checksums are those of ONNX Runtime 1.31's outputs for the same inputs, with s8 activations allowed
//! (`session.qdqisint8allowed`) and without the Relu and Clip nodes that quantization makes redundant: its fused
//! integer graph. The models are not part of the sources: `TRIUNE_TEST_DATA` names the folder that holds
//! `models/onnx`; without it a folder `shared` beside the repository is tried.

use triune_graph::{Op, format::onnx, passes};
use triune_testing::{Tensor, interpret, test_data};

/// Model, range of the input, checksum of each output.
const EXPECTED: &[(&str, [f32; 2], &[u64])] = &[
    ("mlperftiny_resnet8_int8_qdq", [0.0, 255.0], &[0x877e_5723_ef83_10fb]),
    ("mobilenetv2_int8_qdq", [-1.0, 1.0], &[0xee9d_b835_2133_6b41]),
    ("squeezenet_u8s8_qdq", [-124.0, 151.0], &[0x2e79_717f_72ac_e89e]),
    ("ultraface_u8s8_qdq", [-1.0, 1.0], &[0x5c4e_bef4_886f_6275, 0x6f06_dae5_fb1d_916d]),
    ("ultraface_s8s8_qdq", [-1.0, 1.0], &[0x5c4e_bef4_886f_6275, 0x6f06_dae5_fb1d_916d]),
];

/// 256 levels between the limits in a scattered order.
fn input(shape: &[usize], [low, high]: [f32; 2]) -> Tensor {
    let step = (high - low) / 255.0;
    let count: usize = shape.iter().product();
    let level = |at: usize| ((at as u64).wrapping_mul(2_654_435_761) as u32 >> 24) as f32;
    Tensor::f32(shape, &(0..count).map(|at| low + level(at) * step).collect::<Vec<f32>>())
}

/// FNV-1a over the elements' bytes.
fn checksum(tensor: &Tensor) -> u64 {
    let mix = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    tensor.to_bytes().iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

#[test]
fn integer_networks_give_the_same_bits() {
    for (model, range, sums) in EXPECTED {
        let Some(path) = test_data(&format!("models/onnx/{model}.onnx")) else { continue };
        let mut graph = onnx::read(&path).expect("a readable model");
        let id = graph.inputs[0];
        let name = graph.value(id).name.clone();
        // Only the batch is open.
        let shape: Vec<usize> = (graph.value(id).shape.iter().flatten())
            .map(|dim| match dim {
                triune_graph::Dim::Fixed(extent) => *extent,
                triune_graph::Dim::Symbol(_) => 1,
            })
            .collect();
        graph.bind(&[(&name, &shape)]).expect("fitting shapes");
        passes::prepare(&mut graph).expect("a sound network");
        let borders = |wanted: fn(&Op) -> bool| graph.nodes.iter().filter(|node| wanted(&node.op)).count();
        assert_eq!(borders(|op| matches!(op, Op::QuantizeLinear(_))), 1, "{model}");
        assert_eq!(borders(|op| matches!(op, Op::DequantizeLinear(_))), sums.len(), "{model}");
        let outputs = interpret(&graph, &[(&name, input(&shape, *range))]);
        let found: Vec<u64> = outputs.iter().map(checksum).collect();
        assert_eq!(found, *sums, "{model}");
    }
}

//! Documents of small networks, all of them, as they were when their values were last compared. A change that is meant is
//! written down with `TRIUNE_PIN=write cargo test -p triune-icraft pinned`, and its difference is what a reviewer reads.

use std::{fmt::Write, path::Path};

use triune_compiler::PlanOptions;
use triune_device::DeviceSpec;
use triune_graph::{
    Graph, Op,
    format::xir::{Document, Operation},
    ops,
};
use triune_icraft::Stages;
use triune_tensor::{DType, QuantParams};
use triune_testing::{GraphBuilder, Tensor as Naive, Window, digest, pinned};

use crate::operators::{KEPT, behind, bytes, eighths, ints, quantized, reshape};

/// Operators of every room of the accelerator, and some behind it: 20 channels are two blocks.
fn network() -> Graph {
    let mut builder = GraphBuilder::new();
    let b = &mut builder;
    let x = b.input("x", DType::F32, &[1, 3, 9, 7]);
    let x = quantized(b, x);
    let scales: Vec<f32> = (0..20).map(|at| [0.031_25, 0.015_625, 0.0625][at % 3]).collect();
    let (w, c) = (
        b.dequantized_constant(&Naive::i8(&[20, 3, 3, 2], &bytes(360)), &scales, 0),
        b.constant(&eighths(&[20])),
    );
    let window = Window { kernel: [3, 2], stride: [2, 1], dilation: [1, 2], pad: [1, 0, 2, 1] };
    let y = b.conv_window(&[x, w, c], window, 1);
    let y = b.unary(ops::UnaryKind::Relu, y);
    let y = quantized(b, y);
    let w = b.dequantized_constant(&Naive::i8(&[20, 1, 3, 3], &bytes(180)), &[0.031_25], 0);
    let each = b.conv(&[y, w], 1, 1, 20);
    let each = b.quantize_dequantize(each, QuantParams { scale: 0.125, zero_point: 0 }, DType::I8);
    let sum = b.binary(ops::BinaryKind::Add, each, y);
    let sum = quantized(b, sum);
    let most = b.pool_window(ops::PoolKind::Max, sum, Window { dilation: [1, 1], ..window });
    let none = b.constant(&Naive::f32(&[0], &[]));
    let scales = b.constant(&Naive::f32(&[4], &[1.0, 1.0, 2.0, 2.0]));
    let mode = ops::ResizeMode::Nearest(ops::NearestMode::Floor);
    let wide = b.node(
        Op::Resize(ops::Resize { mode, coordinates: ops::CoordinateMode::Asymmetric }),
        &[most, none, scales],
    );
    let joined = b.node(Op::Concat(ops::Concat { axis: 1 }), &[wide, wide]);
    let w = b.dequantized_constant(&Naive::i8(&[4, 40, 1, 1], &bytes(160)), &[0.031_25], 0);
    let few = b.conv(&[joined, w], 1, 0, 1);
    let few = quantized(b, few);
    let mean = b.node(Op::GlobalPool(ops::GlobalPool::AVERAGE), &[few]);
    let mean = quantized(b, mean);
    let row = reshape(b, mean, &[1, 4]);
    let (w, c) =
        (b.dequantized_constant(&Naive::i8(&[4, 5], &bytes(20)), &[0.031_25], 1), b.constant(&eighths(&[5])));
    let scores = b.gemm(&[row, w, c], false);
    let scores = quantized(b, scores);
    let shares = b.node(Op::Softmax(ops::Softmax { axis: 1, flatten: false, log: false }), &[scores]);
    let (starts, ends) = (ints(b, &[0, 1]), ints(b, &[1, 4]));
    let part = b.node(Op::Slice(ops::Slice), &[shares, starts, ends]);
    builder.finish(&[part, few])
}

fn written(out: &mut String, stage: &str, document: &Document) {
    let (json, raw) = document.write().unwrap();
    writeln!(out, "{stage}: {:016x}, {} bytes {:016x}", digest(json.as_bytes()), raw.len(), digest(&raw))
        .unwrap();
}

fn operation(out: &mut String, op: &Operation) {
    let key = op.type_key.trim_start_matches("icraft::xir::");
    writeln!(out, "{} {key} '{}' {:?} -> {:?} {:?}", op.op_id, op.name, op.inputs, op.outputs, op.attributes)
        .unwrap();
}

#[test]
fn pinned_documents() {
    let mut out = String::new();
    for device in ["zg330", "buyi"] {
        let spec = DeviceSpec::builtin(device).unwrap();
        let stages = Stages::new(&network(), None, &spec, &PlanOptions::default()).unwrap();
        for (name, document) in stages.documents() {
            writeln!(out, "== {device} {name}: {:?} {:?}", document.tags, document.extra).unwrap();
            written(&mut out, name, document);
            for (index, value) in document.values.iter().enumerate() {
                writeln!(
                    out,
                    "[{index}] {} '{}' {:?} {:?} {:?}",
                    value.v_id, value.name, value.dtype, value.mtype, value.tags
                )
                .unwrap();
            }
            document.ops.iter().for_each(|op| operation(&mut out, op));
        }
        for &(what, build) in KEPT {
            let stages = Stages::new(&behind(build), None, &spec, &PlanOptions::default()).unwrap();
            writeln!(out, "== {device}: {what}").unwrap();
            for (name, document) in stages.documents() {
                written(&mut out, name, document);
            }
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/networks/pinned.txt");
    pinned(&path, &out);
}

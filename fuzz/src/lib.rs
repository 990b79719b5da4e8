//! The small networks that seeds are made of, and a package of one.

use std::{fs, path::PathBuf};

use sha2::{Digest, Sha256};
use tempfile::TempDir;
use triune::internals::{
    device::DeviceSpec,
    graph::{
        Graph, Op,
        format::xir::Document,
        ops::{BinaryKind, PoolKind, Reshape, UnaryKind},
    },
    runtime::{CompileOptions, Compiled, Package, compile},
    tensor::{DType, QuantParams},
};
use triune_testing::{GraphBuilder, Tensor};

/// A float network with weights, a convolution, a pool, a reshape and a product.
pub fn network() -> Graph {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[1, 2, 6, 6]);
    let ramp = |count: usize| (0..count).map(|index| index as f32 / 10.0).collect::<Vec<_>>();
    let weights = builder.constant(&Tensor::f32(&[3, 2, 3, 3], &ramp(54)));
    let y = builder.conv(&[x, weights], 1, 1, 1);
    let y = builder.unary(UnaryKind::Relu, y);
    let y = builder.pool(PoolKind::Max, y, 2, 2, 0);
    let shape = builder.constant(&Tensor::i64(&[2], &[1, 27]));
    let y = builder.node(Op::Reshape(Reshape { allow_zero: false }), &[y, shape]);
    let matrix = builder.constant(&Tensor::f32(&[5, 27], &ramp(135)));
    let y = builder.gemm(&[y, matrix], true);
    let half = builder.constant(&Tensor::f32(&[], &[0.5]));
    let y = builder.binary(BinaryKind::Mul, y, half);
    builder.finish(&[y])
}

/// A quantized one, which devices run.
pub fn quantized() -> Graph {
    let mut builder = GraphBuilder::new();
    let params = QuantParams { scale: 0.05, zero_point: 0 };
    let x = builder.input("x", DType::F32, &[1, 2, 6, 6]);
    let x = builder.quantize_dequantize(x, params, DType::I8);
    let values: Vec<i8> = (0..54).map(|index| (index * 7 % 50) as i8 - 25).collect();
    let weights = builder.dequantized_constant(&Tensor::i8(&[3, 2, 3, 3], &values), &[0.02], 0);
    let y = builder.conv(&[x, weights], 1, 1, 1);
    let y = builder.quantize_dequantize(y, params, DType::I8);
    builder.finish(&[y])
}

/// The quantized network for a device.
pub fn compiled() -> Compiled {
    let spec = DeviceSpec::builtin("metis").expect("a device");
    compile(&quantized(), &spec, &CompileOptions::default()).expect("a program")
}

/// A package in a folder of its own, and its files with what they hold, in the order of their names.
pub fn package() -> (TempDir, Vec<(PathBuf, Vec<u8>)>) {
    let folder = TempDir::new().expect("a folder");
    Package::write(&compiled(), folder.path()).expect("a package");
    let mut files = Vec::new();
    let mut open = vec![folder.path().to_path_buf()];
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(path).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else {
                files.push((path.clone(), fs::read(path).expect("a file")));
            }
        }
    }
    files.sort();
    (folder, files)
}

/// A package's description that says of the payload `file` that it is `content`.
pub fn signed(description: &[u8], file: &str, content: &[u8]) -> Vec<u8> {
    let mut value: serde_json::Value = serde_json::from_slice(description).expect("JSON");
    for part in value.as_object_mut().expect("an object").values_mut() {
        if part.get("file").and_then(|name| name.as_str()) == Some(file) {
            part["bytes"] = content.len().into();
            let digest = Sha256::digest(content);
            part["sha256"] = digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into();
        }
    }
    serde_json::to_vec(&value).expect("JSON")
}

/// The JSON text of a document with two constants, a convolution and functions, in plain and blocked layouts.
pub const DOCUMENT: &str = include_str!("document.json");

/// [`DOCUMENT`], read.
pub fn document() -> Document {
    Document::read(DOCUMENT.as_bytes(), None).expect("a document")
}

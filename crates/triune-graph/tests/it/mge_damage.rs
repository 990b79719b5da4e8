//! Damaged MegEngine files: an error or another network, never a panic, a hang or memory out of proportion.

use bytes::Bytes;
use proptest::prelude::*;
use triune_graph::{
    Graph,
    format::{self, mge},
    ops::{BinaryKind, UnaryKind},
};
use triune_tensor::DType;
use triune_testing::{GraphBuilder, Tensor};

/// A small network with weights, a convolution, a pool, a reshape and a product.
fn network() -> Graph {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[1, 2, 6, 6]);
    let ramp = |count: usize| (0..count).map(|index| index as f32 / 10.0).collect::<Vec<_>>();
    let weights = builder.constant(&Tensor::f32(&[3, 2, 3, 3], &ramp(54)));
    let bias = builder.constant(&Tensor::f32(&[3], &ramp(3)));
    let y = builder.conv(&[x, weights, bias], 1, 1, 1);
    let y = builder.unary(UnaryKind::Relu, y);
    let y = builder.pool(triune_graph::ops::PoolKind::Max, y, 2, 2, 0);
    let shape = builder.constant(&Tensor::i64(&[2], &[1, 27]));
    let y = builder
        .node(triune_graph::Op::Reshape(triune_graph::ops::Reshape { allow_zero: false }), &[y, shape]);
    let matrix = builder.constant(&Tensor::f32(&[5, 27], &ramp(135)));
    let y = builder.gemm(&[y, matrix], true);
    let half = builder.constant(&Tensor::f32(&[], &[0.5]));
    let y = builder.binary(BinaryKind::Mul, y, half);
    builder.finish(&[y])
}

/// Valid files of each kind.
fn files() -> Vec<Vec<u8>> {
    let model = mge::write(&network(), &[vec![1, 2, 6, 6]]).expect("a network that the format has");
    let packed = mge::packed::Packed {
        name: "net".into(),
        info: Bytes::from_static(b"{\"name\": \"net\"}"),
        model: model.clone().into(),
        ..mge::packed::Packed::default()
    };
    vec![mge::packed::write(&packed), version_one(), model]
}

/// A file of version 1 with an input and a constant, by hand: there is no writer of that version.
fn version_one() -> Vec<u8> {
    // The operators' part is not valid, which is one more way to be damaged.
    let flat = [&8_u32.to_le_bytes()[..], b"mgb1", &[0; 24]].concat();
    let mut bytes = b"MGBC".to_vec();
    bytes.extend_from_slice(&[0; 12]);
    bytes.extend_from_slice(&16_u64.to_le_bytes());
    bytes.extend_from_slice(&[1; 16]);
    bytes.extend_from_slice(&(flat.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&flat);
    bytes
}

/// All readers on the same bytes. What can be read can be inferred or refused, and written again or refused.
fn read_all(bytes: &[u8]) {
    for compressed in [false, true] {
        if let Ok(model) = mge::read(bytes.to_vec(), &mge::ReadOptions { compressed }) {
            assert_eq!(model.default_shapes.len(), model.graph.inputs.len());
            let elements: usize = model
                .graph
                .values
                .iter()
                .filter_map(|value| value.constant.as_ref())
                .map(|c| c.bytes().len())
                .sum();
            assert!(elements <= 64 * bytes.len() + (64 << 20), "{elements} bytes of {}", bytes.len());
            let small = model.default_shapes.iter().flatten().product::<usize>() < 1 << 20;
            if small {
                let _ = mge::write(&model.graph, &model.default_shapes);
            }
        }
    }
    let _ = mge::packed::read(bytes.to_vec());
    let _ = format::read_bytes(bytes.to_vec(), None);
}

#[test]
fn every_byte_may_be_wrong() {
    for file in files() {
        read_all(&file);
        for index in 0..file.len() {
            for value in [0, 1, 0x7f, 0xff, file[index] ^ 0x40] {
                let mut bytes = file.clone();
                bytes[index] = value;
                let _ = mge::read(bytes.clone(), &mge::ReadOptions::default());
                let _ = mge::packed::read(bytes);
            }
        }
        for length in 0..file.len() {
            let cut = &file[..length];
            assert!(mge::read(cut.to_vec(), &mge::ReadOptions::default()).is_err());
            let _ = mge::packed::read(cut.to_vec());
        }
    }
}

#[test]
fn what_the_files_hold_can_be_read() {
    let files = files();
    let model = mge::read(files[2].clone(), &mge::ReadOptions::default()).unwrap();
    assert_eq!(model.default_shapes, [[1, 2, 6, 6]]);
    assert_eq!(mge::packed::read(files[0].clone()).unwrap().model, files[2]);
    let error = mge::read(files[1].clone(), &mge::ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("model verification failed"), "{error}");
    let error =
        mge::read(&b"some other file's bytes"[..], &mge::ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("invalid model format"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn several_bytes_may_be_wrong(
        kind in 0..3_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        moved in prop::option::of((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1..64_usize)),
    ) {
        let mut bytes = files()[kind].clone();
        for (index, value) in changes {
            let index = index.index(bytes.len());
            bytes[index] = value;
        }
        // A run of bytes doubled somewhere else.
        if let Some((from, to, length)) = moved {
            let from = from.index(bytes.len());
            let run = bytes[from..(from + length).min(bytes.len())].to_vec();
            let to = to.index(bytes.len());
            bytes.splice(to..to, run);
        }
        read_all(&bytes);
    }
}

//! Operands at the edge of what operators take: the last that fits, and the first that does not.

use crate::onnx_common;
use crate::onnx_common::{Model, f32s, float, i64s, int, node, tensor};
use triune_graph::{Constant, Graph, Op, format::onnx::read_bytes, infer::infer};
use triune_tensor::{DType, Shape};
use triune_testing::GraphBuilder;

/// The shapes of a model's outputs, or what is wrong with it.
fn shape(model: &Model) -> Result<Vec<usize>, String> {
    let mut graph = read_bytes(model.bytes(), None).map_err(|error| error.to_string())?;
    infer(&mut graph).map_err(|error| error.to_string())?;
    Ok(graph.value(graph.outputs[0]).fixed_shape().expect("a shape").to_vec())
}

#[track_caller]
fn says(model: &Model, words: &str) {
    let error = shape(model).expect_err(words);
    assert!(error.contains(words), "'{error}' does not say '{words}'");
}

fn zeros(name: &str, dims: &[i64]) -> onnx_common::Message {
    f32s(name, dims, &vec![0.0; dims.iter().product::<i64>() as usize])
}

/// Four extents that all differ, so that no two of them can be mixed up.
#[test]
fn matrices_that_fit() {
    for (trans_a, trans_b) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let a: [&str; 2] = if trans_a == 1 { ["4", "3"] } else { ["3", "4"] };
        let b = |depth: i64| if trans_b == 1 { [5, depth] } else { [depth, 5] };
        let gemm = |depth: i64, addend: Option<&[i64]>| {
            let inputs: &[&str] = if addend.is_some() { &["x", "b", "c"] } else { &["x", "b"] };
            let gemm = node("Gemm", inputs, &["y"], &[int("transA", trans_a), int("transB", trans_b)]);
            let addend = addend.map(|dims| zeros("c", dims));
            let constants: Vec<_> = [zeros("b", &b(depth))].into_iter().chain(addend).collect();
            Model::new(13, &a, &[gemm]).with(&constants)
        };
        assert_eq!(shape(&gemm(4, None)), Ok(vec![3, 5]));
        for addend in [&[3, 5][..], &[5], &[1], &[], &[3, 1], &[1, 5]] {
            assert_eq!(shape(&gemm(4, Some(addend))), Ok(vec![3, 5]), "{addend:?}");
        }
        for addend in [&[3][..], &[5, 3], &[4, 5], &[2, 3, 5], &[1, 3, 5]] {
            says(&gemm(4, Some(addend)), "cannot be broadcast");
        }
        says(&gemm(3, None), "inner extents");
        says(&gemm(5, None), "inner extents");
    }
}

#[test]
fn products_of_any_rank() {
    let product = |a: &[&str], b: &[i64]| {
        Model::new(13, a, &[node("MatMul", &["x", "b"], &["y"], &[])]).with(&[zeros("b", b)])
    };
    for (a, b, y) in [
        (&["3", "4"][..], &[4, 5][..], &[3, 5][..]),
        (&["4"], &[4, 5], &[5]),
        (&["3", "4"], &[4], &[3]),
        (&["4"], &[4], &[]),
        (&["2", "3", "4"], &[4, 5], &[2, 3, 5]),
        (&["3", "4"], &[2, 4, 5], &[2, 3, 5]),
        (&["7", "1", "3", "4"], &[2, 4, 5], &[7, 2, 3, 5]),
        (&["2", "3", "4"], &[4], &[2, 3]),
    ] {
        assert_eq!(shape(&product(a, b)), Ok(y.to_vec()), "{a:?} {b:?}");
    }
    for (a, b, words) in [
        (&["3", "4"][..], &[3, 5][..], "inner extents 4 and 3"),
        (&["4"], &[5, 4], "inner extents 4 and 5"),
        (&["4"], &[], "scalars"),
        (&["2", "3", "4"], &[3, 4, 5], ""),
    ] {
        says(&product(a, b), words);
    }
}

#[test]
fn as_many_first_elements_as_there_are() {
    let first = |k: i64| {
        let top = node("TopK", &["x", "k"], &["y", "i"], &[int("axis", 1)]);
        Model::new(13, &["2", "5", "3"], &[top]).with(&[i64s("k", &[k])])
    };
    for k in [0, 1, 5] {
        assert_eq!(shape(&first(k)), Ok(vec![2, k as usize, 3]));
    }
    for k in [6, -1, i64::MAX, i64::MIN] {
        says(&first(k), &format!("k = {k} of 5 elements"));
    }
    let top = node("TopK", &["x", "k"], &["y", "i"], &[]);
    says(&Model::new(13, &["2", "5"], &[top]).with(&[i64s("k", &[1, 2])]), "k is not one number");
}

#[test]
fn dropout_that_drops_is_refused() {
    let dropout = |flag: Option<u8>| {
        let inputs: &[&str] = if flag.is_some() { &["x", "", "training"] } else { &["x"] };
        let flag = flag.map(|flag| tensor("training", 9, &[]).bytes(9, &[flag]));
        let constants: Vec<_> = flag.into_iter().collect();
        Model::new(13, &["2", "3"], &[node("Dropout", inputs, &["y"], &[])]).with(&constants)
    };
    assert_eq!(shape(&dropout(None)), Ok(vec![2, 3]));
    assert_eq!(shape(&dropout(Some(0))), Ok(vec![2, 3]));
    says(&dropout(Some(1)), "training_mode");
    // A flag that is only known when the network runs may be set.
    let nodes = [
        node("Greater", &["x", "x"], &["training"], &[]),
        node("Dropout", &["x", "", "training"], &["y"], &[]),
    ];
    says(&Model::new(13, &["2", "3"], &nodes), "training_mode");
}

#[test]
fn scales_are_one_or_one_per_index_of_their_axis() {
    let quantize = |scales: &[i64], zeros_of: Option<&[i64]>, axis: i64| {
        let inputs: &[&str] = if zeros_of.is_some() { &["x", "s", "z"] } else { &["x", "s"] };
        let count: i64 = scales.iter().product();
        let scale = f32s("s", scales, &vec![0.5; count as usize]);
        let zero = zeros_of.map(|dims| {
            let count: i64 = dims.iter().product();
            tensor("z", 3, dims).bytes(9, &vec![1; count as usize])
        });
        let nodes = [
            node("QuantizeLinear", inputs, &["q"], &[int("axis", axis)]),
            node("DequantizeLinear", &[&["q"], &inputs[1..]].concat(), &["y"], &[int("axis", axis)]),
        ];
        let constants: Vec<_> = [scale].into_iter().chain(zero).collect();
        Model::new(13, &["2", "3", "4"], &nodes).with(&constants)
    };
    for (scales, zero, axis) in [
        (&[][..], None, 0),
        (&[1][..], Some(&[][..]), 1),
        (&[2], None, 0),
        (&[3], Some(&[3]), 1),
        (&[4], Some(&[4]), -1),
        (&[2], Some(&[2]), -3),
    ] {
        assert_eq!(shape(&quantize(scales, zero, axis)), Ok(vec![2, 3, 4]), "{scales:?} {axis}");
    }
    for (scales, zero, axis) in [(&[3][..], None, 0), (&[4], None, 1), (&[1, 3], None, 1), (&[3, 1], None, 1)]
    {
        says(&quantize(scales, zero, axis), "does not fit axis");
    }
    for (scales, zero) in [(&[3][..], &[2][..]), (&[3], &[]), (&[], &[3]), (&[3], &[4])] {
        says(&quantize(scales, Some(zero), 1), "zero point");
    }
    says(&quantize(&[3], None, 3), "axis");
    let dequantize = node("DequantizeLinear", &["x", "s"], &["y"], &[]);
    let reals = Model::new(13, &["2", "3"], &[dequantize]).with(&[f32s("s", &[], &[0.5])]);
    says(&reals, "values of type");
}

#[test]
fn constants_are_read_as_the_type_that_they_are_of() {
    let bytes: Vec<u8> = vec![0xFF, 0x01, 0, 0, 0, 0, 0, 0x80];
    let of = |dtype: DType| {
        let count = bytes.len() / dtype.bytes();
        let constant = Constant::new(dtype, Shape::from([count]), bytes.clone()).expect("as many bytes");
        (constant.elements(), constant.to_i64())
    };
    let low = i64::MIN + 0x1FF;
    for (dtype, expected) in [
        (DType::U8, Some(vec![255, 1, 0, 0, 0, 0, 0, 128])),
        (DType::I8, Some(vec![-1, 1, 0, 0, 0, 0, 0, -128])),
        (DType::Bool, Some(vec![255, 1, 0, 0, 0, 0, 0, 128])),
        (DType::U16, Some(vec![511, 0, 0, 32_768])),
        (DType::I16, Some(vec![511, 0, 0, -32_768])),
        (DType::U32, Some(vec![511, 1 << 31])),
        (DType::I32, Some(vec![511, -(1 << 31)])),
        (DType::I64, Some(vec![low])),
        // Above what i64 has.
        (DType::U64, None),
        (DType::F16, None),
        (DType::F32, None),
        (DType::F64, None),
    ] {
        let count = bytes.len() / dtype.bytes();
        assert_eq!(of(dtype), (count, expected), "{dtype}");
    }
    assert_eq!(Constant::new(DType::I16, Shape::from([5]), bytes.clone()), None);
    assert_eq!(Constant::new(DType::I16, Shape::from([3]), bytes), None);
}

#[test]
fn permuted_constants_have_every_element_in_its_place() {
    let dims = [2, 3, 4];
    let values: Vec<i32> = (0..24).collect();
    let constant = Constant::from_i32(Shape::from(dims), &values).expect("as many");
    for perm in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let turned = constant.permuted(&perm).expect("a permutation");
        let extents = perm.map(|axis| dims[axis]);
        assert_eq!(*turned.shape(), extents);
        let found = turned.to_i32().expect("integers");
        for (at, &value) in found.iter().enumerate() {
            let index = [at / (extents[1] * extents[2]), at / extents[2] % extents[1], at % extents[2]];
            let mut own = [0; 3];
            for (axis, &from) in perm.iter().enumerate() {
                own[from] = index[axis];
            }
            assert_eq!(value as usize, (own[0] * 3 + own[1]) * 4 + own[2], "{perm:?}");
        }
    }
    for wrong in [&[0, 1][..], &[0, 1, 1], &[0, 1, 3], &[0, 1, 2, 3]] {
        assert_eq!(constant.permuted(wrong), None, "{wrong:?}");
    }
}

#[test]
fn attributes_of_matrices_are_kept_by_the_writer() {
    let gemm = node(
        "Gemm",
        &["x", "b", "c"],
        &["y"],
        &[float("alpha", 0.5), float("beta", 0.25), int("transA", 1), int("transB", 1)],
    );
    let model = Model::new(13, &["4", "3"], &[gemm]).with(&[zeros("b", &[5, 4]), zeros("c", &[5])]);
    let graph = read_bytes(model.bytes(), None).expect("a model");
    let again = read_bytes(triune_graph::format::onnx::write(&graph).expect("written"), None).expect("read");
    let found = |graph: &Graph| match &graph.nodes[0].op {
        Op::Gemm(gemm) => (gemm.alpha, gemm.beta, gemm.trans_a, gemm.trans_b),
        other => panic!("{other:?}"),
    };
    assert_eq!(found(&graph), (0.5, 0.25, true, true));
    assert_eq!(found(&again), found(&graph));
    // What a builder makes is read the same, too.
    let mut builder = GraphBuilder::new();
    let a = builder.input("a", DType::F32, &[3, 4]);
    let b = builder.input("b", DType::F32, &[4, 5]);
    let y = builder.gemm(&[a, b], false);
    let graph = builder.finish_inferred(&[y]);
    let again = read_bytes(triune_graph::format::onnx::write(&graph).expect("written"), None).expect("read");
    assert_eq!(found(&again), (1.0, 1.0, false, false));
}

//! Folding keeps what a network computes, and shape inference agrees with the naive interpreter, which checks every
//! value's type and extents against what the graph states.

use crate::growth::{Growth, KINDS};
use proptest::prelude::*;
use triune_graph::{Constant, Graph, Op, format::onnx, infer::infer, passes};
use triune_tensor::{DType, QuantParams, Shape};
use triune_testing::{Data, GraphBuilder, Tensor, interpret, test_data};

/// The interpreter has no half floats.
const WITHOUT_HALF: [u8; 1] = [19];
/// Steps that folding may move into weights, and what keeps rounding differences small.
const AFFINE: [u8; 7] = [0, 1, 2, 5, 7, 8, 17];

fn grown(steps: &[(u8, u8)]) -> Graph {
    let mut growth = Growth::new(false);
    for &(kind, a) in steps {
        growth.step(kind, a);
    }
    let mut graph = growth.finish();
    infer(&mut graph).expect("steps that fit");
    graph
}

fn image() -> Vec<f32> {
    (0..240_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 20) as f32 / 512.0 - 4.0).collect()
}

fn run(graph: &Graph) -> Vec<Tensor> {
    interpret(graph, &[("image", Tensor::f32(&[2, 4, 6, 5], &image()))])
}

/// Bits, so that equal NaN are equal.
fn bits(tensors: &[Tensor]) -> Vec<(Vec<usize>, Vec<u8>)> {
    tensors.iter().map(|tensor| (tensor.shape.clone(), tensor.to_bytes())).collect()
}

fn steps(kinds: impl Strategy<Value = u8>) -> impl Strategy<Value = Vec<(u8, u8)>> {
    prop::collection::vec((kinds, any::<u8>()), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn folding_constants_changes_no_bit(
        steps in steps((0..KINDS).prop_filter("no half floats", |kind| !WITHOUT_HALF.contains(kind))),
    ) {
        let mut graph = grown(&steps);
        let before = run(&graph);
        passes::fold_constants(&mut graph).unwrap();
        passes::dead_code(&mut graph).unwrap();
        infer(&mut graph).unwrap();
        prop_assert_eq!(bits(&run(&graph)), bits(&before));
    }

    #[test]
    fn a_constant_image_is_folded_to_what_is_computed(
        steps in steps((0..KINDS).prop_filter("no half floats", |kind| !WITHOUT_HALF.contains(kind))),
    ) {
        let mut graph = grown(&steps);
        let before = run(&graph);
        let input = graph.inputs.remove(0);
        graph.set_constant(input, Constant::from_f32(Shape::from([2, 4, 6, 5]), &image()).unwrap());
        passes::fold_constants(&mut graph).unwrap();
        passes::fold_dequantize(&mut graph).unwrap();
        passes::dead_code(&mut graph).unwrap();
        let moves = |op: &Op| {
            matches!(op, Op::Reshape(_) | Op::Transpose(_) | Op::Slice(_) | Op::Split(_) | Op::Gather(_) | Op::Concat(_))
        };
        for node in &graph.nodes {
            let known = node.inputs.iter().flatten().all(|id| graph.value(*id).constant.is_some());
            prop_assert!(!(moves(&node.op) && known), "'{}' is left", node.name);
        }
        infer(&mut graph).unwrap();
        prop_assert_eq!(bits(&interpret(&graph, &[])), bits(&before));
    }

    #[test]
    fn folding_scales_and_shifts_changes_roundings_only(
        steps in steps(prop::sample::select(AFFINE.to_vec())),
    ) {
        // Of the binary steps only sums, differences, products and quotients are of this kind.
        let steps: Vec<_> = steps.into_iter().map(|(k, a)| if k == 2 { (k, a % 4) } else { (k, a) }).collect();
        let mut graph = grown(&steps);
        let before = run(&graph);
        passes::fold_constants(&mut graph).unwrap();
        passes::fold_batch_norm(&mut graph).unwrap();
        passes::dead_code(&mut graph).unwrap();
        infer(&mut graph).unwrap();
        prop_assert!(!graph.nodes.iter().any(|node| matches!(node.op, Op::BatchNormalization(_))));
        for (before, after) in before.iter().zip(run(&graph)) {
            let (Data::F32(before), Data::F32(after)) = (&before.data, &after.data) else { panic!("not f32") };
            let reach = before.iter().fold(1.0_f32, |reach, x| reach.max(x.abs()));
            for (x, y) in before.iter().zip(after) {
                prop_assert!((x - y).abs() <= reach * 1e-5, "{x} became {y}");
            }
        }
    }
}

/// Roots of negative numbers, then the smaller of those and 2: a NaN wins, folded or not.
#[test]
fn extremes_of_no_numbers_are_folded_to_what_is_computed() {
    for extreme in [151, 152] {
        let mut graph = grown(&[(3, 218), (2, extreme)]);
        let before = run(&graph);
        assert!(before.iter().any(|tensor| tensor.as_f32().iter().any(|x| x.is_nan())));
        let input = graph.inputs.remove(0);
        graph.set_constant(input, Constant::from_f32(Shape::from([2, 4, 6, 5]), &image()).unwrap());
        passes::fold_constants(&mut graph).unwrap();
        passes::dead_code(&mut graph).unwrap();
        assert!(!graph.nodes.iter().any(|node| matches!(node.op, Op::Binary(_))), "{extreme} is folded");
        infer(&mut graph).unwrap();
        assert_eq!(bits(&interpret(&graph, &[])), bits(&before));
    }
}

/// The models are not part of the sources, see `onnx_models.rs`.
#[test]
fn a_real_network_computes_the_same_after_folding() {
    let Some(path) = test_data("models/onnx/ultraface_f32.onnx") else { return };
    let mut graph = onnx::read(path).unwrap();
    graph.bind(&[]).unwrap();
    infer(&mut graph).unwrap();
    let pixels: Vec<f32> = image().into_iter().cycle().take(3 * 240 * 320).collect();
    let inputs = [("input", Tensor::f32(&[1, 3, 240, 320], &pixels))];
    let before = interpret(&graph, &inputs);
    passes::fold_constants(&mut graph).unwrap();
    passes::fold_batch_norm(&mut graph).unwrap();
    infer(&mut graph).unwrap();
    for (before, after) in before.iter().zip(interpret(&graph, &inputs)) {
        assert_eq!(before.shape, after.shape);
        for (x, y) in before.as_f32().iter().zip(after.as_f32()) {
            assert!((x - y).abs() <= 1e-4, "{x} became {y}");
        }
    }
}

/// Weights that are large as reals: the file has a quarter of them.
#[test]
fn dequantized_constants_are_folded_whatever_their_size() {
    let mut builder = GraphBuilder::new();
    let columns = 257 << 10;
    let weights =
        Constant::new(DType::I8, Shape::from([256, columns]), vec![3; 256 * columns]).expect("a constant");
    let stored = builder.graph_mut().add_constant("weights".to_owned(), weights);
    let weights = builder.dequantize(stored, QuantParams { scale: 0.5, zero_point: 1 }, DType::I8);
    let mut graph = builder.finish_inferred(&[weights]);
    assert!(passes::fold_dequantize(&mut graph).expect("a sound graph"));
    let folded = graph.value(graph.outputs[0]).constant.as_ref().expect("reals");
    assert_eq!((folded.elements(), &folded.bytes()[..4]), (256 * columns, &1.0_f32.to_le_bytes()[..]));
}

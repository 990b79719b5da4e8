//! The interpreter against results worked out by hand or given in the ONNX operator documentation.

use triune_graph::{
    Op,
    ops::{
        AutoPad, BinaryKind, CoordinateMode, Gather, NearestMode, Pad, PadMode, Pool, PoolKind, Reshape,
        Resize, ResizeMode, Slice, Softmax, Split, Table, Transpose, UnaryKind,
    },
};
use triune_tensor::{DType, QuantParams};
use triune_testing::{GraphBuilder, Tensor, interpret};

/// Result of one node on constants.
fn evaluate(op: Op, inputs: &[Option<Tensor>], results: usize) -> Vec<Tensor> {
    let mut builder = GraphBuilder::new();
    let ids: Vec<_> =
        inputs.iter().map(|input| input.as_ref().map(|tensor| builder.constant(tensor))).collect();
    let outputs = builder.node_with(op, &ids, results);
    interpret(&builder.finish(&outputs), &[])
}

fn one(op: Op, inputs: &[Tensor]) -> Tensor {
    let inputs: Vec<_> = inputs.iter().cloned().map(Some).collect();
    evaluate(op, &inputs, 1).remove(0)
}

fn ramp(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    Tensor::f32(shape, &(0..count).map(|i| i as f32).collect::<Vec<_>>())
}

#[test]
fn slices_step_in_both_directions() {
    let ints = |values: &[i64]| Tensor::i64(&[values.len()], values);
    let forward =
        one(Op::Slice(Slice), &[ramp(&[2, 4]), ints(&[1, 0]), ints(&[2, 3]), ints(&[0, 1]), ints(&[1, 2])]);
    assert_eq!(forward, Tensor::f32(&[1, 2], &[4.0, 6.0]));
    let open = one(Op::Slice(Slice), &[ramp(&[2, 4]), ints(&[0, 1]), ints(&[-1, 1000])]);
    assert_eq!(open, Tensor::f32(&[1, 3], &[1.0, 2.0, 3.0]));
    let backward =
        one(Op::Slice(Slice), &[ramp(&[5]), ints(&[-1]), ints(&[i64::MIN]), ints(&[0]), ints(&[-2])]);
    assert_eq!(backward, Tensor::f32(&[3], &[4.0, 2.0, 0.0]));
}

#[test]
fn elements_move_where_they_should() {
    let transposed = one(Op::Transpose(Transpose { perm: vec![1, 0] }), &[ramp(&[2, 3])]);
    assert_eq!(transposed, Tensor::f32(&[3, 2], &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]));
    let reshaped =
        one(Op::Reshape(Reshape { allow_zero: false }), &[ramp(&[2, 3]), Tensor::i64(&[3], &[0, -1, 1])]);
    assert_eq!(reshaped.shape, [2, 3, 1]);
    let gathered = one(Op::Gather(Gather { axis: 1 }), &[ramp(&[2, 3]), Tensor::i64(&[2], &[-1, 0])]);
    assert_eq!(gathered, Tensor::f32(&[2, 2], &[2.0, 0.0, 5.0, 3.0]));
    let parts = evaluate(Op::Split(Split { axis: 0, parts: None }), &[Some(ramp(&[7])), None], 3);
    assert_eq!(parts.iter().map(|part| part.shape[0]).collect::<Vec<_>>(), [3, 3, 1]);
    assert_eq!(parts[2], Tensor::f32(&[1], &[6.0]));
}

#[test]
fn borders_are_filled_by_mode() {
    let pads = Tensor::i64(&[2], &[2, 1]);
    let padded = |mode| one(Op::Pad(Pad { mode }), &[ramp(&[3]), pads.clone()]);
    assert_eq!(padded(PadMode::Constant), Tensor::f32(&[6], &[0.0, 0.0, 0.0, 1.0, 2.0, 0.0]));
    assert_eq!(padded(PadMode::Edge), Tensor::f32(&[6], &[0.0, 0.0, 0.0, 1.0, 2.0, 2.0]));
    assert_eq!(padded(PadMode::Reflect), Tensor::f32(&[6], &[2.0, 1.0, 0.0, 1.0, 2.0, 1.0]));
    let cut = one(Op::Pad(Pad { mode: PadMode::Constant }), &[ramp(&[3]), Tensor::i64(&[2], &[-1, 0])]);
    assert_eq!(cut, Tensor::f32(&[2], &[1.0, 2.0]));
}

#[test]
fn resampling_follows_its_coordinates() {
    let image = Tensor::f32(&[1, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let resize = |mode, coordinates, scales: [f32; 4]| {
        let scales = Tensor::f32(&[4], &scales);
        let op = Op::Resize(Resize { mode, coordinates });
        evaluate(op, &[Some(image.clone()), None, Some(scales)], 1).remove(0)
    };
    let up =
        resize(ResizeMode::Nearest(NearestMode::Floor), CoordinateMode::Asymmetric, [1.0, 1.0, 1.0, 2.0]);
    assert_eq!(up, Tensor::f32(&[1, 1, 2, 4], &[1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0]));
    // The ONNX documentation's example `resize_upsample_scales_linear`.
    let linear = resize(ResizeMode::Linear, CoordinateMode::HalfPixel, [1.0, 1.0, 2.0, 2.0]);
    #[rustfmt::skip]
    let expected = [
        1.0, 1.25, 1.75, 2.0,
        1.5, 1.75, 2.25, 2.5,
        2.5, 2.75, 3.25, 3.5,
        3.0, 3.25, 3.75, 4.0,
    ];
    assert_eq!(linear, Tensor::f32(&[1, 1, 4, 4], &expected));
    let corners = resize(ResizeMode::Linear, CoordinateMode::AlignCorners, [1.0, 1.0, 1.0, 1.5]);
    assert_eq!(corners, Tensor::f32(&[1, 1, 2, 3], &[1.0, 1.5, 2.0, 3.0, 3.5, 4.0]));
}

/// Numbers of ONNX Runtime: coordinates that f32 puts beside a tie, and a scale on an extent that stays.
#[test]
fn neighbours_are_the_references() {
    let resize =
        |shape: [usize; 2], nearest, coordinates, sizes: Option<[i64; 4]>, scales: Option<[f32; 4]>| {
            let op = Op::Resize(Resize { mode: ResizeMode::Nearest(nearest), coordinates });
            let image = ramp(&[1, 1, shape[0], shape[1]]);
            let sizes = sizes.map(|sizes| Tensor::i64(&[4], &sizes));
            let scales = scales.map(|scales| Tensor::f32(&[4], &scales));
            evaluate(op, &[Some(image), None, scales, sizes], 1).remove(0).as_f32().to_vec()
        };
    let half = CoordinateMode::HalfPixel;
    let plain = CoordinateMode::Asymmetric;
    assert_eq!(resize([1, 7], NearestMode::RoundPreferCeil, plain, Some([1, 1, 1, 2]), None), [0.0, 4.0]);
    assert_eq!(
        resize([1, 14], NearestMode::RoundPreferFloor, half, Some([1, 1, 1, 19]), None),
        [0, 1, 1, 2, 3, 4, 4, 5, 6, 6, 7, 8, 9, 9, 10, 11, 12, 12, 13].map(|at: u8| f32::from(at))
    );
    let both = |scales| resize([4, 2], NearestMode::Floor, plain, None, Some(scales));
    assert_eq!(both([1.0, 1.0, 1.2, 1.0]), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    assert_eq!(
        both([1.0, 1.0, 1.2, 2.0]),
        [0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5].map(|at: u8| f32::from(at))
    );
}

#[test]
fn pools_count_what_they_should() {
    let pool = |kind, pad, ceil_mode| {
        let op = Pool {
            kind,
            kernel: [2, 2],
            stride: [2, 2],
            dilation: [1, 1],
            pad: [pad; 4],
            auto_pad: AutoPad::Explicit,
            ceil_mode,
        };
        one(Op::Pool(Box::new(op)), &[ramp(&[1, 1, 3, 3])])
    };
    assert_eq!(pool(PoolKind::Max, 0, true), Tensor::f32(&[1, 1, 2, 2], &[4.0, 5.0, 7.0, 8.0]));
    let inside = pool(PoolKind::Average { count_include_pad: false }, 1, false);
    assert_eq!(inside, Tensor::f32(&[1, 1, 2, 2], &[0.0, 1.5, 4.5, 6.0]));
    let all = pool(PoolKind::Average { count_include_pad: true }, 1, false);
    assert_eq!(all, Tensor::f32(&[1, 1, 2, 2], &[0.0, 0.75, 2.25, 6.0]));
}

#[test]
fn convolutions_sum_their_taps() {
    let mut builder = GraphBuilder::new();
    let x = builder.constant(&ramp(&[1, 2, 2, 2]));
    // One group per channel, a kernel that picks the element and its right neighbour.
    let weights = builder.constant(&Tensor::f32(&[2, 1, 1, 2], &[1.0, 10.0, 2.0, 20.0]));
    let bias = builder.constant(&Tensor::f32(&[2], &[0.5, -0.5]));
    let y = builder.conv(&[x, weights, bias], 1, 0, 2);
    let result = interpret(&builder.finish(&[y]), &[]).remove(0);
    assert_eq!(result, Tensor::f32(&[1, 2, 2, 1], &[10.5, 32.5, 107.5, 151.5]));
}

#[test]
fn broadcasts_and_functions() {
    let mut builder = GraphBuilder::new();
    let a = builder.constant(&ramp(&[2, 1]));
    let b = builder.constant(&ramp(&[3]));
    let sum = builder.binary(BinaryKind::Sub, a, b);
    let clipped = builder.unary(UnaryKind::Clip([-1.0, 0.5]), sum);
    let result = interpret(&builder.finish(&[clipped]), &[]).remove(0);
    assert_eq!(result, Tensor::f32(&[2, 3], &[0.0, -1.0, -1.0, 0.5, 0.0, -1.0]));
    let softmax = one(
        Op::Softmax(Softmax { axis: 0, flatten: false, log: false }),
        &[Tensor::f32(&[2, 2], &[0.0, 1.0, 0.0, 1.0])],
    );
    assert_eq!(softmax, Tensor::f32(&[2, 2], &[0.5; 4]));
}

#[test]
fn quantization_rounds_half_to_even_and_saturates() {
    let mut builder = GraphBuilder::new();
    let x = builder.constant(&Tensor::f32(&[6], &[0.25, 0.75, -0.25, 1000.0, -1000.0, f32::NAN]));
    let params = QuantParams { scale: 0.5, zero_point: -1 };
    let q = builder.quantize(x, params, DType::I8);
    let back = builder.dequantize(q, params, DType::I8);
    let results = interpret(&builder.finish(&[q, back]), &[]);
    assert_eq!(results[0], Tensor::i8(&[6], &[-1, 1, -1, 127, -128, -128]));
    assert_eq!(results[1], Tensor::f32(&[6], &[0.0, 1.0, 0.0, 64.0, -63.5, -63.5]));
}

#[test]
fn integer_sums_use_raw_integers() {
    // (6 − 2)·0.5 + (10 − 4)·0.25 = 3.5 = 7 steps of 0.5.
    let mut builder = GraphBuilder::new();
    let a = builder.constant(&Tensor::u8(&[1], &[6]));
    let b = builder.constant(&Tensor::u8(&[1], &[10]));
    let params = |scale, zero_point| QuantParams { scale, zero_point };
    let operands = [(a, params(0.5, 2)), (b, params(0.25, 4))];
    let y = builder.integer_node(BinaryKind::Add.into(), &operands, (DType::U8, params(0.5, 100)));
    assert_eq!(interpret(&builder.finish(&[y]), &[]), [Tensor::u8(&[1], &[107])]);
}

/// As ONNX Runtime: a window that is the whole map rounds before the zero point is added, any other after it.
#[test]
fn integer_averages_round_as_the_reference() {
    let mean = |x: &Tensor| {
        let mut builder = GraphBuilder::new();
        let x = builder.constant(x);
        let op = Op::Pool(Box::new(Pool {
            kind: PoolKind::Average { count_include_pad: false },
            kernel: [1, 2],
            stride: [1, 2],
            dilation: [1, 1],
            pad: [0; 4],
            auto_pad: AutoPad::Explicit,
            ceil_mode: false,
        }));
        let params = QuantParams { scale: 1.0, zero_point: 3 };
        let y = builder.integer_node(op, &[(x, params)], (DType::I8, params));
        interpret(&builder.finish(&[y]), &[]).remove(0).integers()
    };
    assert_eq!(mean(&Tensor::i8(&[1, 1, 1, 2], &[4, 5])), [5]);
    assert_eq!(mean(&Tensor::i8(&[1, 1, 1, 4], &[4, 5, 5, 6])), [4, 6]);
}

#[test]
fn tables_are_indexed_by_byte_pattern() {
    let mut builder = GraphBuilder::new();
    let x = builder.constant(&Tensor::i8(&[3], &[-1, 0, 1]));
    let table = std::sync::Arc::new(std::array::from_fn(|byte| 255 - byte as u8));
    let params = QuantParams { scale: 1.0, zero_point: 0 };
    let y = builder.integer_node(Op::Table(Table { table }), &[(x, params)], (DType::I8, params));
    assert_eq!(interpret(&builder.finish(&[y]), &[]), [Tensor::i8(&[3], &[0, -1, -2])]);
}

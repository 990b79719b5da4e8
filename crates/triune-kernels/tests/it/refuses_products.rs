//! Products, convolutions, movement and resampling that are not defined: each starts from one that is, with one thing wrong of it.

use std::sync::Arc;

use triune_kernels::{
    ConvGeometry, CopyNd, CopySpec, Error, FConv, FConvSpec, Filter, Isa, Nhwc, OrderSpec, PackedFilter,
    Pool, Q8, Q16Conv, Q16ConvSpec, Q16Target, QAdd, QConv, QConvSpec, QMatMul, QMatMulSpec, QMul, QNorm,
    QNormSpec, QResize, Recurrence, RecurrenceSpec, Reduction, Resize, ResizeSpec, Take, TakeSpec, WarpSpec,
    arg_reduce, order, q8_add, q8_mul, q16_add, q16_mul, warp_perspective,
};
use triune_tensor::{
    QuantParams, Requantize, Rounding,
    function::{BorderMode, CellKind, CoordinateMode, NearestMode, ResizeMode, Sampling, UnaryKind},
};

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, words: &str) {
    match result {
        Err(Error::Invalid(reason)) => assert_eq!(reason, words),
        other => panic!("{words}: {other:?}"),
    }
}

#[track_caller]
fn differs<T: std::fmt::Debug>(result: Result<T, Error>, of: &str, extents: [usize; 2]) {
    match result {
        Err(Error::Mismatch { what, expected, got }) => assert_eq!((what, [expected, got]), (of, extents)),
        other => panic!("{of}: {other:?}"),
    }
}

#[track_caller]
fn short<T: std::fmt::Debug>(result: Result<T, Error>, of: &str, elements: [usize; 2]) {
    match result {
        Err(Error::Short { operand, need, got }) => assert_eq!((operand, [need, got]), (of, elements)),
        other => panic!("{of}: {other:?}"),
    }
}

const S8: Q8 = Q8 { signed: true, zero_point: 0 };
const U8: Q8 = Q8 { signed: false, zero_point: 0 };
/// A zero point that no byte has.
const FAR: Q8 = Q8 { signed: true, zero_point: 128 };
const EVEN: Rounding = Rounding::HalfToEven;
/// Factors that are none.
const NONE: [f32; 3] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];

const GEOMETRY: ConvGeometry =
    ConvGeometry { kernel: [2, 3], stride: [1, 2], dilation: [2, 1], pad: [1, 0, 2, 1], groups: 2 };
/// With 4 channels in and 6 out.
const WEIGHTS: usize = 6 * 2 * 3 * 2;

fn windows() -> [ConvGeometry; 6] {
    let g = GEOMETRY;
    [
        ConvGeometry { kernel: [0, 3], ..g },
        ConvGeometry { kernel: [2, 0], ..g },
        ConvGeometry { stride: [0, 2], ..g },
        ConvGeometry { stride: [1, 0], ..g },
        ConvGeometry { dilation: [0, 1], ..g },
        ConvGeometry { dilation: [2, 0], ..g },
    ]
}

fn byte_conv<'a>(weights: &'a [i8], multiplier: &'a [f32]) -> QConvSpec<'a> {
    QConvSpec {
        geometry: GEOMETRY,
        in_channels: 4,
        out_channels: 6,
        weights,
        bias: None,
        multiplier,
        input: S8,
        output: S8,
        rounding: EVEN,
        clamp: [-128, 127],
        table: None,
        residual: None,
    }
}

#[test]
fn convolutions_of_bytes() {
    let (weights, isa) = (vec![1_i8; WEIGHTS], Isa::best());
    let spec = byte_conv(&weights, &[0.5]);
    let made = |spec: QConvSpec<'_>| QConv::new(&spec, isa);
    assert!(made(spec).is_ok());
    for geometry in windows() {
        refused(made(QConvSpec { geometry, ..spec }), "zero kernel, stride or dilation");
    }
    let zero = "zero channels or groups";
    refused(made(QConvSpec { in_channels: 0, ..spec }), zero);
    refused(made(QConvSpec { out_channels: 0, ..spec }), zero);
    refused(made(QConvSpec { geometry: ConvGeometry { groups: 0, ..GEOMETRY }, ..spec }), zero);
    let divide = "groups do not divide the channels";
    refused(made(QConvSpec { in_channels: 5, ..spec }), divide);
    refused(made(QConvSpec { out_channels: 7, ..spec }), divide);
    let huge = ConvGeometry { kernel: [1 << 40, 1 << 40], ..GEOMETRY };
    refused(made(QConvSpec { geometry: huge, ..spec }), "kernel size overflows");
    let large = ConvGeometry { kernel: [1 << 40, 1 << 20], ..GEOMETRY };
    refused(made(QConvSpec { geometry: large, out_channels: 1 << 20, ..spec }), "weight size overflows");
    differs(made(QConvSpec { weights: &weights[1..], ..spec }), "weights", [WEIGHTS, WEIGHTS - 1]);
    differs(made(QConvSpec { bias: Some(&[0; 5]), ..spec }), "bias", [6, 5]);
    differs(made(QConvSpec { multiplier: &[0.5; 5], ..spec }), "multiplier", [6, 5]);
    assert!(made(QConvSpec { multiplier: &[0.5; 6], bias: Some(&[7; 6]), ..spec }).is_ok());
    for factor in NONE {
        refused(made(QConvSpec { multiplier: &[factor], ..spec }), "multipliers must be finite");
        let last = [0.5, 0.5, 0.5, 0.5, 0.5, factor];
        refused(made(QConvSpec { multiplier: &last, ..spec }), "multipliers must be finite");
    }
    let outside = "zero point outside of its 8-bit type";
    refused(made(QConvSpec { input: FAR, ..spec }), outside);
    refused(made(QConvSpec { output: FAR, ..spec }), outside);
    let empty = "empty clamp range";
    refused(made(QConvSpec { clamp: [5, 4], ..spec }), empty);
    refused(made(QConvSpec { clamp: [128, 200], ..spec }), empty);
    refused(made(QConvSpec { clamp: [-200, -129], ..spec }), empty);
    assert!(made(QConvSpec { clamp: [127, 200], ..spec }).is_ok());
    assert!(made(QConvSpec { clamp: [4, 4], ..spec }).is_ok());
    // 12 products of −128 each: what is left for a bias up to the ends of 32 bits.
    let overflow = "sums of the convolution could overflow i32";
    let (least, most) = (i32::MIN + 12 * 128, i32::MAX - 12 * 127);
    assert!(made(QConvSpec { bias: Some(&[least; 6]), ..spec }).is_ok());
    assert!(made(QConvSpec { bias: Some(&[most; 6]), ..spec }).is_ok());
    refused(made(QConvSpec { bias: Some(&[0, 0, 0, 0, 0, least - 1]), ..spec }), overflow);
    refused(made(QConvSpec { bias: Some(&[most + 1, 0, 0, 0, 0, 0]), ..spec }), overflow);

    let add = QAdd::new(S8, 0.5, S8, 0.25, S8, 0.5, EVEN, Requantize::Float).expect("an addition");
    let with = |add| made(QConvSpec { residual: Some(add), ..spec });
    assert!(with(add).is_ok());
    refused(with(QAdd { a: FAR, ..add }), outside);
    refused(with(QAdd { clamp: [3, 2], ..add }), empty);
    refused(with(QAdd { ra: f32::MAX, ..add }), "residual scales overflow f32");
    refused(with(QAdd { rb: f32::NAN, ..add }), "residual scales overflow f32");
    let other = QAdd { a: U8, ..add };
    refused(with(other), "the residual reads the result as another type than the output's");
    assert!(made(QConvSpec { residual: Some(other), table: Some(&[0; 256]), ..spec }).is_ok());
    for scale in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        let words = "scales must be positive and finite";
        refused(QAdd::new(S8, scale, S8, 0.25, S8, 0.5, EVEN, Requantize::Float), words);
        refused(QAdd::new(S8, 0.5, S8, scale, S8, 0.5, EVEN, Requantize::Float), words);
        refused(QAdd::new(S8, 0.5, S8, 0.25, S8, scale, EVEN, Requantize::Float), words);
    }
    let words = "no fixed-point multiplier stands for a quotient of the scales";
    refused(QAdd::new(S8, 1e9, S8, 0.25, S8, 0.5, EVEN, Requantize::Fixed), words);
    refused(QAdd::new(S8, 0.5, S8, 1e9, S8, 0.5, EVEN, Requantize::Fixed), words);
}

#[test]
fn runs_of_convolutions_of_bytes() {
    let (weights, pool) = (vec![1_i8; WEIGHTS], Pool::new(1));
    let add = QAdd::new(S8, 0.5, S8, 0.25, S8, 0.5, EVEN, Requantize::Float).expect("an addition");
    for isa in [Isa::Scalar, Isa::best()] {
        let plain = QConv::new(&byte_conv(&weights, &[0.5]), isa).expect("a convolution");
        let adds =
            QConv::new(&QConvSpec { residual: Some(add), ..byte_conv(&weights, &[0.5]) }, isa).expect("one");
        // 5 rows and 3 between them: 6; 8 columns and 1, by 2: 4.
        let (from, to) = (Nhwc::dense(2, 5, 8, 4), Nhwc::dense(2, 6, 4, 6));
        let (x, r) = (vec![1; from.span()], vec![1; to.span()]);
        let run = |conv: &QConv, x: &[u8], from, residual, to: Nhwc, less: usize| {
            let mut y = vec![0; to.span() - less];
            let mut scratch = vec![0; conv.scratch_bytes(1)];
            conv.run(x, from, residual, &mut y, to, &mut scratch, &pool)
        };
        assert_eq!(run(&plain, &x, from, None, to, 0), Ok(()));
        assert_eq!(run(&adds, &x, from, Some((&r[..], to)), to, 0), Ok(()));
        differs(run(&plain, &x, Nhwc::dense(2, 5, 8, 5), None, to, 0), "input channels", [4, 5]);
        differs(run(&plain, &x, from, None, Nhwc::dense(2, 6, 4, 7), 0), "output channels", [6, 7]);
        differs(run(&plain, &x, Nhwc::dense(1, 5, 8, 4), None, to, 0), "batch", [1, 2]);
        differs(run(&plain, &x, from, None, Nhwc::dense(2, 5, 4, 6), 0), "output rows", [6, 5]);
        differs(run(&plain, &x, from, None, Nhwc::dense(2, 6, 3, 6), 0), "output columns", [4, 3]);
        short(run(&plain, &x[1..], from, None, to, 0), "input", [from.span(), from.span() - 1]);
        short(run(&plain, &x, from, None, to, 1), "output", [to.span(), to.span() - 1]);
        let words = "the window does not fit the padded input";
        refused(run(&plain, &x, Nhwc::dense(2, 5, 1, 4), None, to, 0), words);
        let (given, missing) =
            ("a residual was given to a convolution without one", "the residual is missing");
        refused(run(&plain, &x, from, Some((&r[..], to)), to, 0), given);
        refused(run(&adds, &x, from, None, to, 0), missing);
        for (map, of, extents) in [
            (Nhwc::dense(3, 6, 4, 6), "residual batch", [2, 3]),
            (Nhwc::dense(2, 5, 4, 6), "residual rows", [6, 5]),
            (Nhwc::dense(2, 6, 5, 6), "residual columns", [4, 5]),
            (Nhwc::dense(2, 6, 4, 5), "residual channels", [6, 5]),
        ] {
            differs(run(&adds, &x, from, Some((&r[..], map)), to, 0), of, extents);
        }
        short(run(&adds, &x, from, Some((&r[1..], to)), to, 0), "residual", [to.span(), to.span() - 1]);
        let itself = Nhwc { stride_w: 5, ..to };
        refused(run(&plain, &x, from, None, itself, 0), "output map overlaps itself");
    }
}

#[test]
fn convolutions_of_words() {
    let weights = vec![1_i16; WEIGHTS];
    let spec = Q16ConvSpec {
        geometry: GEOMETRY,
        in_channels: 4,
        out_channels: 6,
        weights: &weights,
        bias: None,
        multiplier: &[0.5],
        target: Q16Target::full(EVEN),
    };
    assert!(Q16Conv::new(&spec, Isa::best()).is_ok());
    for geometry in windows() {
        refused(
            Q16Conv::new(&Q16ConvSpec { geometry, ..spec }, Isa::best()),
            "zero kernel, stride or dilation",
        );
    }
    let zero = "zero channels or groups";
    refused(Q16Conv::new(&Q16ConvSpec { in_channels: 0, ..spec }, Isa::best()), zero);
    refused(Q16Conv::new(&Q16ConvSpec { out_channels: 0, ..spec }, Isa::best()), zero);
    refused(
        Q16Conv::new(&Q16ConvSpec { geometry: ConvGeometry { groups: 0, ..GEOMETRY }, ..spec }, Isa::best()),
        zero,
    );
    let divide = "groups do not divide the channels";
    refused(Q16Conv::new(&Q16ConvSpec { in_channels: 5, ..spec }, Isa::best()), divide);
    refused(Q16Conv::new(&Q16ConvSpec { out_channels: 7, ..spec }, Isa::best()), divide);
    // 2³² products, two channels of a group each.
    let deep = ConvGeometry { kernel: [1 << 16, 1 << 15], ..GEOMETRY };
    refused(Q16Conv::new(&Q16ConvSpec { geometry: deep, ..spec }, Isa::best()), "kernel size overflows");
    differs(
        Q16Conv::new(&Q16ConvSpec { weights: &weights[1..], ..spec }, Isa::best()),
        "weights",
        [WEIGHTS, WEIGHTS - 1],
    );
    differs(Q16Conv::new(&Q16ConvSpec { bias: Some(&[0; 7]), ..spec }, Isa::best()), "bias", [6, 7]);
    differs(Q16Conv::new(&Q16ConvSpec { multiplier: &[0.5; 5], ..spec }, Isa::best()), "multiplier", [6, 5]);
    for factor in NONE {
        refused(
            Q16Conv::new(&Q16ConvSpec { multiplier: &[factor], ..spec }, Isa::best()),
            "multipliers must be finite",
        );
    }
    let target = |clamp| Q16Target { rounding: EVEN, clamp };
    for clamp in [[1, 0], [32_768, 40_000], [-40_000, -32_769]] {
        refused(
            Q16Conv::new(&Q16ConvSpec { target: target(clamp), ..spec }, Isa::best()),
            "empty clamp range",
        );
    }
    for clamp in [[32_767, 40_000], [-40_000, -32_768]] {
        assert!(Q16Conv::new(&Q16ConvSpec { target: target(clamp), ..spec }, Isa::best()).is_ok());
    }
    let (pool, shape) = (Pool::new(1), triune_kernels::Broadcast::dense(2).expect("a nest"));
    let mut out = [0; 2];
    for factor in NONE {
        let full = Q16Target::full(EVEN);
        refused(q16_mul(factor, full, &shape, &[1; 2], &[1; 2], &mut out, &pool), "factors must be finite");
        refused(
            q16_add([factor, 1.0], full, &shape, &[1; 2], &[1; 2], &mut out, &pool),
            "factors must be finite",
        );
        refused(
            q16_add([1.0, factor], full, &shape, &[1; 2], &[1; 2], &mut out, &pool),
            "factors must be finite",
        );
    }
    refused(q16_mul(1.0, target([1, 0]), &shape, &[1; 2], &[1; 2], &mut out, &pool), "empty clamp range");
    refused(
        q16_add([1.0; 2], target([1, 0]), &shape, &[1; 2], &[1; 2], &mut out, &pool),
        "empty clamp range",
    );
}

#[test]
fn convolutions_of_reals() {
    let bytes = vec![0; 4 * WEIGHTS];
    let pack = |filter: Filter<'_>, groups| PackedFilter::new(&filter, groups, Isa::best());
    let dense = Filter::dense(&bytes, 6, 6, 2);
    let packed = Arc::new(pack(dense, 2).expect("weights"));
    let zero = "zero channels, groups or window";
    refused(pack(dense, 0), zero);
    refused(pack(Filter::dense(&bytes, 0, 6, 2), 2), zero);
    refused(pack(Filter::dense(&bytes, 6, 0, 2), 2), zero);
    refused(pack(Filter::dense(&bytes, 6, 6, 0), 2), zero);
    refused(pack(dense, 4), "groups do not divide the channels");
    assert!(matches!(pack(Filter::dense(&bytes[1..], 6, 6, 2), 2), Err(Error::Short { .. })));
    assert!(matches!(
        PackedFilter::matrices(&Filter::dense(&bytes[4..], 6, 6, 2), 2, Isa::best()),
        Err(Error::Short { .. })
    ));
    let spec = FConvSpec {
        geometry: GEOMETRY,
        in_channels: 4,
        out_channels: 6,
        bias: None,
        residual: false,
        activation: UnaryKind::Identity,
    };
    let made = |spec: FConvSpec<'_>| FConv::new(&spec, Arc::clone(&packed));
    assert!(made(spec).is_ok());
    for geometry in windows() {
        refused(made(FConvSpec { geometry, ..spec }), "zero kernel, stride or dilation");
    }
    let huge = ConvGeometry { kernel: [1 << 40, 1 << 40], ..GEOMETRY };
    refused(made(FConvSpec { geometry: huge, ..spec }), "kernel size overflows");
    let wide = ConvGeometry { kernel: [2, 4], ..GEOMETRY };
    differs(made(FConvSpec { geometry: wide, ..spec }), "kernel taps", [6, 8]);
    differs(made(FConvSpec { geometry: ConvGeometry { groups: 1, ..GEOMETRY }, ..spec }), "groups", [2, 1]);
    differs(made(FConvSpec { in_channels: 2, ..spec }), "input channels", [4, 2]);
    differs(made(FConvSpec { out_channels: 4, ..spec }), "output channels", [6, 4]);
    differs(made(FConvSpec { bias: Some(&[0.0; 5]), ..spec }), "bias", [6, 5]);
}

#[test]
fn products_and_normalizations_of_bytes() {
    let spec = QMatMulSpec {
        batch: 2,
        m: 3,
        n: 4,
        k: 5,
        trans_a: false,
        trans_b: false,
        shared_b: false,
        a: S8,
        b: U8,
        output: S8,
        multiplier: 0.5,
        rounding: EVEN,
    };
    let made = |spec: QMatMulSpec| QMatMul::new(&spec, Isa::best());
    let product = made(spec).expect("a product");
    assert!(made(QMatMulSpec { k: QMatMul::MAX_DEPTH, ..spec }).is_ok());
    refused(
        made(QMatMulSpec { k: QMatMul::MAX_DEPTH + 1, ..spec }),
        "sums of so many products overflow 32 bits",
    );
    for multiplier in NONE {
        refused(made(QMatMulSpec { multiplier, ..spec }), "multipliers must be finite");
    }
    let outside = "zero point outside of its 8-bit type";
    refused(made(QMatMulSpec { a: FAR, ..spec }), outside);
    refused(made(QMatMulSpec { b: Q8 { signed: false, zero_point: -1 }, ..spec }), outside);
    refused(made(QMatMulSpec { output: FAR, ..spec }), outside);
    refused(made(QMatMulSpec { m: 1 << 62, ..spec }), "extents overflow");
    refused(made(QMatMulSpec { batch: 1 << 62, ..spec }), "extents overflow");
    let pool = Pool::new(1);
    let run = |product: &QMatMul, [a, b, c]: [usize; 3], scratch: usize| {
        product.run(&vec![0; a], &vec![0; b], &mut vec![0; c], &mut vec![0; scratch], &pool)
    };
    let room = product.scratch_bytes();
    assert_eq!(run(&product, [30, 40, 24], room), Ok(()));
    short(run(&product, [29, 40, 24], room), "a", [30, 29]);
    short(run(&product, [30, 39, 24], room), "b", [40, 39]);
    short(run(&product, [30, 40, 23], room), "c", [24, 23]);
    short(run(&product, [30, 40, 24], room - 1), "scratch", [room, room - 1]);
    // One matrix for all.
    let shared = made(QMatMulSpec { shared_b: true, ..spec }).expect("a product");
    let room = shared.scratch_bytes();
    assert_eq!(run(&shared, [30, 20, 24], room), Ok(()));
    short(run(&shared, [30, 19, 24], room), "b", [20, 19]);

    let mul = QMul::new(S8, 0.5, S8, 0.5, S8, 0.5, EVEN).expect("a product");
    let shape = triune_kernels::Broadcast::dense(2).expect("a nest");
    let times = |mul: &QMul| q8_mul(Isa::best(), mul, &shape, &[1; 2], &[1; 2], &mut [0; 2], &pool);
    assert_eq!(times(&mul), Ok(()));
    refused(times(&QMul { multiplier: f32::NAN, ..mul }), "multiplier overflows f32");
    refused(times(&QMul { multiplier: f32::MAX / 60_000.0, ..mul }), "multiplier overflows f32");
    refused(times(&QMul { clamp: [1, 0], ..mul }), "empty clamp range");
    refused(times(&QMul { b: FAR, ..mul }), outside);
    let add = QAdd::new(S8, 0.5, S8, 0.25, S8, 0.5, EVEN, Requantize::Float).expect("an addition");
    let plus = |add: &QAdd| q8_add(Isa::best(), add, &shape, &[1; 2], &[1; 2], &mut [0; 2], &pool);
    assert_eq!(plus(&add), Ok(()));
    refused(plus(&QAdd { k: f32::INFINITY, ..add }), "residual scales overflow f32");
    refused(plus(&QAdd { out: FAR, ..add }), outside);

    let norm = QNormSpec {
        len: 4,
        signed: true,
        about: None,
        scale: 0.5,
        epsilon: 1e-5,
        gamma: Some(&[1.0; 4]),
        beta: Some(&[0.0; 4]),
        output: QuantParams { scale: 0.25, zero_point: 3 },
        rounding: EVEN,
    };
    assert!(QNorm::new(&norm).is_ok());
    let bare = QNormSpec { gamma: None, beta: None, ..norm };
    assert!(QNorm::new(&QNormSpec { len: QNorm::MAX_LEN, ..bare }).is_ok());
    refused(QNorm::new(&QNormSpec { len: QNorm::MAX_LEN + 1, ..bare }), "an axis whose sums overflow");
    for scale in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        let words = "scales and epsilon must be positive and finite";
        refused(QNorm::new(&QNormSpec { scale, ..norm }), words);
        refused(QNorm::new(&QNormSpec { epsilon: scale, ..norm }), words);
        refused(QNorm::new(&QNormSpec { output: QuantParams { scale, zero_point: 3 }, ..norm }), words);
    }
    refused(
        QNorm::new(&QNormSpec { output: QuantParams { scale: 0.25, zero_point: -129 }, ..norm }),
        outside,
    );
    refused(
        QNorm::new(&QNormSpec { signed: false, output: QuantParams { scale: 0.25, zero_point: -1 }, ..norm }),
        outside,
    );
    differs(QNorm::new(&QNormSpec { gamma: Some(&[1.0; 3]), ..norm }), "gamma", [4, 3]);
    differs(QNorm::new(&QNormSpec { beta: Some(&[1.0; 5]), ..norm }), "beta", [4, 5]);
}

#[test]
fn movement() {
    let spec = CopySpec {
        elem_bytes: 2,
        dims: [1, 1, 1, 1, 2, 3],
        src_offset: 10,
        src_strides: [0, 0, 0, 0, -4, -2],
        dst_strides: [0, 0, 0, 0, 6, 2],
    };
    let overflow = "strided extents overflow";
    // The last element lies 8 bytes before the first.
    assert!(CopyNd::new(&spec).is_ok());
    assert!(CopyNd::new(&CopySpec { src_offset: 8, ..spec }).is_ok());
    refused(
        CopyNd::new(&CopySpec { src_offset: 7, ..spec }),
        "the source reaches in front of its first byte",
    );
    for elem_bytes in [0, 3, 5, 16] {
        refused(CopyNd::new(&CopySpec { elem_bytes, ..spec }), "elements of a copy have 1, 2, 4 or 8 bytes");
    }
    refused(CopyNd::new(&CopySpec { src_offset: usize::MAX, ..spec }), overflow);
    refused(CopyNd::new(&CopySpec { src_offset: i64::MAX as usize, src_strides: [2; 6], ..spec }), overflow);
    refused(CopyNd::new(&CopySpec { dst_strides: [0, 0, 0, 0, usize::MAX, 2], ..spec }), overflow);
    refused(CopyNd::new(&CopySpec { src_strides: [0, 0, 0, 0, i64::MAX, i64::MAX], ..spec }), overflow);

    let take = TakeSpec {
        dims: [1, 1, 1, 1, 1, 3],
        source: [0; 6],
        indices: [0, 0, 0, 0, 0, 1],
        output: [0, 0, 0, 0, 0, 1],
        count: 1,
        index_stride: 1,
        extents: [5, 1, 1, 1, 1, 1],
        strides: [1, 0, 0, 0, 0, 0],
    };
    assert!(Take::new(take).is_ok());
    let words = "one to six axes with elements can be indexed";
    refused(Take::new(TakeSpec { count: 0, ..take }), words);
    refused(Take::new(TakeSpec { count: 7, ..take }), words);
    refused(Take::new(TakeSpec { extents: [0, 1, 1, 1, 1, 1], ..take }), words);
    refused(Take::new(TakeSpec { count: 2, extents: [5, 0, 1, 1, 1, 1], ..take }), words);
    assert!(Take::new(TakeSpec { extents: [5, 0, 0, 0, 0, 0], ..take }).is_ok());
    refused(Take::new(TakeSpec { strides: [usize::MAX; 6], ..take }), overflow);
    refused(Take::new(TakeSpec { count: 2, index_stride: usize::MAX, ..take }), overflow);

    let pool = Pool::new(1);
    let ordered = |k: usize, less: [usize; 3]| {
        let spec = OrderSpec { outer: 2, len: 4, inner: 3, k, descending: true };
        let (x, mut out) = (vec![0.0_f32; 24 - less[0]], vec![0; (6 * k).saturating_sub(less[1])]);
        let mut scratch = vec![0; spec.scratch_words(1) - less[2]];
        order(&spec, &x, &mut out, &mut scratch, &pool)
    };
    assert_eq!(ordered(4, [0; 3]), Ok(()));
    refused(ordered(5, [0; 3]), "k is above the number of elements, or there are 2³² and more");
    short(ordered(2, [1, 0, 0]), "input", [24, 23]);
    short(ordered(2, [0, 1, 0]), "output", [12, 11]);
    assert!(matches!(ordered(2, [0, 0, 1]), Err(Error::Short { operand: "scratch", .. })));

    let nest = |dims, reduced| Reduction::new(dims, [24, 24, 12, 4, 2, 1], [0, 0, 6, 2, 1, 1], reduced);
    let last = [false, false, false, false, false, true];
    refused(nest([1, 1, 1, 0, 1, 1], last), "nothing to reduce: an extent is 0");
    // With a gap between rows, so that the two are no one axis.
    let both = [false, false, false, false, true, true];
    let both = Reduction::new([1, 1, 1, 1, 2, 2], [0, 0, 0, 0, 3, 1], [0; 6], both).expect("a nest");
    let words = "a position is one along a single axis";
    refused(arg_reduce(Isa::best(), true, false, &both, &[1.0_f32; 5], &mut [0_i64; 1], &pool), words);
    let one = nest([1, 1, 1, 1, 2, 2], last).expect("a nest");
    assert_eq!(arg_reduce(Isa::best(), true, false, &one, &[1.0_f32; 4], &mut [0_i64; 2], &pool), Ok(()));
    short(arg_reduce(Isa::best(), true, false, &one, &[1.0_f32; 3], &mut [0_i64; 2], &pool), "input", [4, 3]);
    short(
        arg_reduce(Isa::best(), true, false, &one, &[1.0_f32; 4], &mut [0_i64; 1], &pool),
        "output",
        [2, 1],
    );
}

#[test]
fn resampling_and_cells() {
    let pool = Pool::new(1);
    let spec = ResizeSpec {
        mode: ResizeMode::Linear,
        coordinates: CoordinateMode::HalfPixel,
        input: [2, 3],
        output: [4, 5],
        scales: None,
    };
    let (from, to) = (Nhwc::dense(1, 2, 3, 1), Nhwc::dense(1, 4, 5, 1));
    let nearest = ResizeSpec { mode: ResizeMode::Nearest(NearestMode::Floor), ..spec };
    let [linear, nearest] = [spec, nearest].map(|spec| Resize::new(&spec).expect("tables"));
    for scale in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        for scales in [[scale, 1.0], [1.0, scale]] {
            let words = "scales must be positive and finite";
            refused(Resize::new(&ResizeSpec { scales: Some(scales), ..spec }), words);
        }
    }
    for input in [[0, 3], [2, 0]] {
        refused(Resize::new(&ResizeSpec { input, ..spec }), "an empty map cannot be resized");
        assert!(Resize::new(&ResizeSpec { input, output: [4, 0], ..spec }).is_ok());
    }
    let words = "linear resampling is defined for f32 and bytes";
    refused(linear.run_nearest(&[0_u8; 6], from, &mut [0; 20], to, &pool), words);
    let quant = QResize { input: S8, output: S8, factor: 0.5, rounding: EVEN };
    let bytes =
        |resize: &Resize, quant| resize.run_q8(Isa::Scalar, quant, &[0; 6], from, &mut [0; 20], to, &pool);
    assert_eq!(bytes(&linear, quant), Ok(()));
    refused(bytes(&nearest, quant), "bytes are blended by linear resampling only");
    for factor in NONE {
        refused(bytes(&linear, QResize { factor, ..quant }), "multipliers must be finite");
    }
    refused(bytes(&linear, QResize { input: FAR, ..quant }), "zero point outside of its 8-bit type");
    refused(bytes(&linear, QResize { output: FAR, ..quant }), "zero point outside of its 8-bit type");
    let run = |from: Nhwc, to: Nhwc| {
        let (x, mut y) = (vec![0.0; from.span()], vec![0.0; to.span()]);
        linear.run_f32(Isa::best(), &x, from, &mut y, to, &pool)
    };
    for (from, to, of, extents) in [
        (Nhwc::dense(2, 2, 3, 1), to, "batch", [2, 1]),
        (Nhwc::dense(1, 2, 3, 2), to, "channels", [2, 1]),
        (Nhwc::dense(1, 3, 3, 1), to, "input rows", [2, 3]),
        (Nhwc::dense(1, 2, 2, 1), to, "input columns", [3, 2]),
        (from, Nhwc::dense(1, 3, 5, 1), "output rows", [4, 3]),
        (from, Nhwc::dense(1, 4, 6, 1), "output columns", [5, 6]),
    ] {
        differs(run(from, to), of, extents);
    }

    let warp = WarpSpec { sampling: Sampling::Nearest, border: BorderMode::Replicate };
    let warped = |matrices: usize, image: Option<&[i32]>, from: Nhwc, to: Nhwc| {
        let (x, mut y) = (vec![0.0_f32; from.span()], vec![0.0; to.span()]);
        warp_perspective(Isa::best(), &warp, &vec![1.0; 9 * matrices], image, &x, from, &mut y, to, &pool)
    };
    let many = Nhwc::dense(3, 4, 5, 1);
    assert_eq!(warped(1, None, from, to), Ok(()));
    assert_eq!(warped(3, Some(&[0; 3]), from, many), Ok(()));
    differs(warped(1, None, Nhwc::dense(1, 2, 3, 2), to), "channels", [2, 1]);
    differs(warped(3, None, from, many), "images", [3, 1]);
    short(warped(2, Some(&[0; 3]), from, many), "matrices", [27, 18]);
    short(warped(3, Some(&[0; 2]), from, many), "image indices", [3, 2]);
    for index in [1, -1] {
        let found = warped(3, Some(&[0, index, 0]), from, many);
        assert_eq!(found, Err(Error::Index { operand: "images", index: index.into(), axis: 0, extent: 1 }));
    }
    refused(warped(1, None, Nhwc::dense(1, 0, 3, 1), to), "an empty map cannot be warped");
    assert_eq!(warped(1, None, Nhwc::dense(1, 0, 3, 1), Nhwc::dense(1, 4, 0, 1)), Ok(()));

    let cell = RecurrenceSpec {
        cell: CellKind::Lstm,
        steps: 2,
        directions: 1,
        batch: 2,
        hidden: 3,
        backwards: [false; 2],
        functions: [[UnaryKind::Sigmoid, UnaryKind::Tanh, UnaryKind::Tanh]; 2],
        clip: f32::INFINITY,
        coupled: false,
    };
    let made = |cell: RecurrenceSpec| Recurrence::new(&cell, None, Isa::best());
    assert!(made(cell).is_ok());
    assert!(made(RecurrenceSpec { directions: 2, clip: 0.0, ..cell }).is_ok());
    refused(made(RecurrenceSpec { directions: 0, ..cell }), "one or two directions are possible");
    refused(made(RecurrenceSpec { directions: 3, ..cell }), "one or two directions are possible");
    for clip in [f32::NAN, -0.5] {
        refused(made(RecurrenceSpec { clip, ..cell }), "the limit of gates is no number from 0 on");
    }
    refused(made(RecurrenceSpec { steps: 1 << 60, ..cell }), "extents overflow");
    refused(made(RecurrenceSpec { batch: 1 << 62, ..cell }), "extents overflow");
    // A product of exactly 2⁵⁸ − 1 elements, the first that is too many.
    let simple = RecurrenceSpec { cell: CellKind::Simple, steps: 59 * 233 - 1, ..cell };
    let most = RecurrenceSpec { batch: 1103 * 2089 * 3_033_169, ..simple };
    refused(made(most), "extents overflow");
    assert!(made(RecurrenceSpec { batch: most.batch - 1, ..most }).is_ok());
    let bytes = [0; 4 * 4 * 3 * 3];
    let packed = |hidden: usize| {
        let filter = Filter::dense(&bytes[..16 * hidden * hidden], 4 * hidden, 1, hidden);
        Some(Arc::new(PackedFilter::matrices(&filter, 4, Isa::best()).expect("weights")))
    };
    assert!(Recurrence::new(&cell, packed(3), Isa::best()).is_ok());
    let both = RecurrenceSpec { directions: 2, ..cell };
    refused(Recurrence::new(&both, packed(3), Isa::best()), "the packed weights are not the cell's");
}

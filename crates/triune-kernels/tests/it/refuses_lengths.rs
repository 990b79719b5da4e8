//! Operands of every length but the right one: what is read or written has as many elements as the extents say at least, where a
//! view says so, or exactly as many; the error names the operand, what it needs and what it has.

use std::sync::Arc;

use triune_kernels::{
    AxisShape, Blocked, Broadcast, Channels, Choice, ConvGeometry, CopyNd, CopySpec, Error, FConv, FConvSpec,
    FMatMul, Filter, IMatMul, IMatMulOperands, IMatMulSpec, Isa, MatMulSpec, Nhwc, NormRow, OrderSpec,
    PackedBytes, PackedFilter, Pool, Q8, Q16Conv, Q16ConvSpec, Q16Target, QMatMul, QMatMulSpec, QNorm,
    QNormSpec, QSoftmax, Recurrence, RecurrenceSpec, Reduction, RunningSpec, Sequences, TMatMulSpec, Take,
    TakeSpec, TensorPad, WarpSpec, WeighSpec, arg_reduce, binary, dequantize, dequantize_i32, double_unary,
    f32_global_pool, normalize, order, pixels, q16_table, quantize, reduce, running, select, softmax,
    warp_perspective, weigh,
};
use triune_tensor::{
    QuantParams, Rounding,
    function::{BinaryKind, BorderMode, CellKind, PoolKind, ReduceKind, Sampling, UnaryKind},
};

const ISA: Isa = Isa::Scalar;
const EVEN: Rounding = Rounding::HalfToEven;
const U8: Q8 = Q8 { signed: false, zero_point: 3 };

/// What a view needs of each operand: more is given, too, one less is refused.
#[track_caller]
fn at_least<const N: usize>(
    needs: [(&'static str, usize); N],
    run: impl Fn([usize; N]) -> Result<(), Error>,
) {
    let exact = needs.map(|(_, need)| need);
    assert_eq!(run(exact), Ok(()), "{needs:?}");
    for (at, (operand, need)) in needs.into_iter().enumerate() {
        let with = |len: usize| {
            let mut lens = exact;
            lens[at] = len;
            run(lens)
        };
        assert_eq!(with(need + 3), Ok(()), "{operand} with three more");
        assert_eq!(with(need - 1), Err(Error::Short { operand, need, got: need - 1 }));
    }
}

/// What each operand has: one more and one less are refused.
#[track_caller]
fn exactly<const N: usize>(
    wanted: [(&'static str, usize); N],
    run: impl Fn([usize; N]) -> Result<(), Error>,
) {
    let exact = wanted.map(|(_, len)| len);
    assert_eq!(run(exact), Ok(()), "{wanted:?}");
    for (at, (what, expected)) in wanted.into_iter().enumerate() {
        for got in [expected - 1, expected + 1] {
            let mut lens = exact;
            lens[at] = got;
            assert_eq!(run(lens), Err(Error::Mismatch { what, expected, got }));
        }
    }
}

fn pool() -> Pool {
    Pool::new(1)
}

#[test]
fn products() {
    let (batch, m, n, k) = (2, 3, 4, 5);
    for (trans_a, trans_b) in [(false, false), (true, true)] {
        let spec = MatMulSpec::dense(batch, m, n, k, trans_a, trans_b);
        let product = FMatMul::new(&spec, ISA).expect("a product");
        let needs = [("a", 30), ("b", 40), ("c", 24), ("scratch", product.scratch_bytes(1))];
        at_least(needs, |[a, b, c, scratch]| {
            let (a, b, mut c, mut scratch) = (vec![0.0; a], vec![0.0; b], vec![0.0; c], vec![0; scratch]);
            product.run(&a, &b, None, &mut c, &mut scratch, &pool())
        });
        exactly([("bias", 4)], |[bias]| {
            let mut scratch = vec![0; product.scratch_bytes(1)];
            let bias = vec![0.0; bias];
            product.run(&[0.0; 30], &[0.0; 40], Some(&bias), &mut [0.0; 24], &mut scratch, &pool())
        });
    }
    for (shared_b, b) in [(false, 40), (true, 20)] {
        let spec = QMatMulSpec {
            batch,
            m,
            n,
            k,
            trans_a: false,
            trans_b: false,
            shared_b,
            a: U8,
            b: U8,
            output: U8,
            multiplier: 0.5,
            rounding: EVEN,
        };
        let product = QMatMul::new(&spec, ISA).expect("a product");
        let needs = [("a", 30), ("b", b), ("c", 24), ("scratch", product.scratch_bytes())];
        at_least(needs, |[a, b, c, scratch]| {
            let (a, b, mut c, mut scratch) = (vec![0; a], vec![0; b], vec![0; c], vec![0; scratch]);
            product.run(&a, &b, &mut c, &mut scratch, &pool())
        });
        let spec = TMatMulSpec { batch, m, n, k, shared_b };
        let needs = [("a", 30), ("b", b), ("c", 24), ("scratch", spec.scratch_elements(1))];
        let [.., (_, scratch)] = needs;
        let run = |[a, b, c]: [usize; 3], scratch: usize| {
            let (a, b, mut c, mut scratch) = (vec![0; a], vec![0; b], vec![0_i32; c], vec![0; scratch]);
            triune_kernels::product(ISA, &spec, &a, &b, &mut c, &mut scratch, &pool())
        };
        at_least([needs[0], needs[1], needs[2]], |lens| run(lens, scratch));
        if scratch > 0 {
            at_least([needs[3]], |[scratch]| run([30, b, 24], scratch));
        }
        let spec = IMatMulSpec {
            batch,
            m,
            n,
            k,
            shared_b,
            signed: [false, true],
            a_zeros: 3,
            b_zeros: 4,
            scales: 4,
        };
        let product = IMatMul::new(&spec, ISA).expect("a product");
        let needs = [
            ("a", 30),
            ("b", b),
            ("c", 24),
            ("a's zero points", 3),
            ("b's zero points", 4),
            ("factors", 4),
            ("scratch", product.scratch_bytes(false)),
        ];
        at_least(needs, |[a, b, c, a_zeros, b_zeros, scales, scratch]| {
            let (a, b, a_zeros, b_zeros) = (vec![0; a], vec![0; b], vec![0; a_zeros], vec![0; b_zeros]);
            let (scales, mut c, mut scratch) = (vec![1.0; scales], vec![0; c], vec![0; scratch]);
            let operands =
                IMatMulOperands { a: &a, b: &b, a_zeros: &a_zeros, b_zeros: &b_zeros, scales: &scales };
            product.run(operands, None, &mut c, &mut scratch, &pool())
        });
    }
    at_least([("b", 20)], |[len]| PackedBytes::new(&vec![0; len], [k, n], [n, 1], true, ISA).map(drop));
    for (a_zeros, b_zeros, scales, got) in [(2, 1, 1, 2), (1, 3, 1, 3), (1, 1, 5, 5)] {
        let spec =
            IMatMulSpec { batch, m, n, k, shared_b: false, signed: [true; 2], a_zeros, b_zeros, scales };
        let expected = if a_zeros == 2 { m } else { n };
        let what = "zero points or factors";
        assert_eq!(IMatMul::new(&spec, ISA).map(drop), Err(Error::Mismatch { what, expected, got }));
    }
}

#[test]
fn nests_of_elements() {
    // 3 rows of 4, of which the second operand's lie 5 apart, and every result two.
    let nest = Broadcast::new([1, 1, 1, 1, 3, 4], [0, 0, 0, 0, 4, 1], [0, 0, 0, 0, 5, 1], [0, 0, 0, 0, 8, 2])
        .expect("a nest");
    at_least([("output", 23), ("first operand", 12), ("second operand", 14)], |[out, a, b]| {
        binary(ISA, BinaryKind::Add, &nest, &vec![0.0; a], &vec![0.0; b], &mut vec![0.0; out], &pool())
    });
    let choice = Choice::new(
        [1, 1, 1, 1, 3, 4],
        [0, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 4, 1],
        [0, 0, 0, 0, 5, 1],
        [0, 0, 0, 0, 8, 2],
    )
    .expect("a nest");
    let needs = [("output", 23), ("condition", 3), ("first operand", 12), ("second operand", 14)];
    at_least(needs, |[out, condition, a, b]| {
        let (condition, a, b) = (vec![0; condition], vec![0_i32; a], vec![0; b]);
        select(ISA, &choice, &condition, &a, &b, &mut vec![0; out], &pool())
    });
    let unary =
        |x: usize, out: usize| double_unary(ISA, UnaryKind::Neg, &vec![0.0; x], &mut vec![0.0; out], &pool());
    assert_eq!(unary(3, 3), Ok(()));
    assert_eq!(unary(3, 2), Err(Error::Short { operand: "output", need: 3, got: 2 }));
    assert_eq!(unary(2, 3), Err(Error::Short { operand: "operand", need: 3, got: 2 }));
    let copy = CopyNd::new(&CopySpec {
        elem_bytes: 2,
        dims: [1, 1, 1, 1, 3, 4],
        src_offset: 6,
        src_strides: [0, 0, 0, 0, 8, 2],
        dst_strides: [0, 0, 0, 0, 16, 4],
    })
    .expect("a copy");
    assert_eq!([copy.src_bytes(), copy.dst_bytes()], [6 + 24, 46]);
    at_least([("source", 30), ("destination", 46)], |[src, dst]| {
        copy.run(&vec![0; src], &mut vec![0; dst], &pool())
    });
}

#[test]
fn places_of_elements() {
    // 3 results, each of a table of 5 by two coordinates that lie 4 apart.
    let take = Take::new(TakeSpec {
        dims: [1, 1, 1, 1, 1, 3],
        source: [0; 6],
        indices: [0, 0, 0, 0, 0, 1],
        output: [0, 0, 0, 0, 0, 2],
        count: 2,
        index_stride: 4,
        extents: [2, 5, 1, 1, 1, 1],
        strides: [5, 1, 0, 0, 0, 0],
    })
    .expect("places");
    at_least([("source", 10), ("indices", 7), ("output", 5)], |[source, indices, out]| {
        take.run(ISA, &vec![1_u8; source], &vec![0_i64; indices], &mut vec![0; out], &pool())
    });
    at_least([("target", 10), ("indices", 7), ("updates", 5)], |[target, indices, updates]| {
        take.put(&vec![1_u8; updates], &vec![0_i64; indices], &mut vec![0; target])
    });
    let spec = OrderSpec { outer: 2, len: 5, inner: 3, k: 2, descending: false };
    let needs = [("input", 30), ("output", 12), ("scratch", spec.scratch_words(1))];
    at_least(needs, |[x, out, scratch]| {
        order(&spec, &vec![0_i32; x], &mut vec![0; out], &mut vec![0; scratch], &pool())
    });
    let spec = WeighSpec { batch: 2, channels: 3, elements: 7, count: 5, taps: 4, shared: false };
    let run = |[x, indices, factors, out]: [usize; 4], scratch: usize| {
        let (x, indices, factors) = (vec![0.0; x], vec![0; indices], vec![0.0; factors]);
        let (mut out, mut scratch) = (vec![0.0; out], vec![0.0; scratch]);
        weigh(ISA, &spec, &x, &indices, Some(&factors), &mut out, &mut scratch, &pool())
    };
    let scratch = spec.scratch_floats(1);
    at_least([("input", 42), ("indices", 40), ("factors", 40), ("output", 30)], |lens| run(lens, scratch));
    if scratch > 0 {
        at_least([("scratch", scratch)], |[scratch]| run([42, 40, 40, 30], scratch));
    }
}

#[test]
fn axes_and_rows() {
    let spec = RunningSpec { outer: 2, len: 3, inner: 5, product: false, exclusive: false, reverse: false };
    at_least([("input", 30), ("output", 30)], |[x, out]| {
        running(ISA, &spec, &vec![0_i32; x], &mut vec![0; out], &pool())
    });
    let nest = Reduction::new(
        [1, 1, 1, 2, 3, 4],
        [0, 0, 0, 15, 5, 1],
        [0, 0, 0, 2, 0, 0],
        [false, false, false, false, true, true],
    )
    .expect("a reduction");
    at_least([("input", 29), ("output", 3)], |[x, out]| {
        reduce(ISA, ReduceKind::Sum, &nest, &vec![0.0_f32; x], &mut vec![0.0; out], &pool())
    });
    let nest = Reduction::new(
        [1, 1, 1, 2, 3, 4],
        [0, 0, 0, 15, 5, 1],
        [0, 0, 0, 4, 0, 1],
        [false, false, false, false, true, false],
    )
    .expect("a reduction");
    at_least([("input", 29), ("output", 8)], |[x, out]| {
        arg_reduce(ISA, true, false, &nest, &vec![0.0_f32; x], &mut vec![0_i64; out], &pool())
    });
    let shape = AxisShape { outer: 2, len: 3, inner: 5 };
    exactly([("input", 30), ("output", 30)], |[x, y]| {
        softmax(ISA, shape, &vec![0.0; x], &mut vec![0.0; y], &pool())
    });
    let bytes = QSoftmax::new(3, 0.5, U8, 0.25).expect("a softmax");
    exactly([("input", 30), ("output", 30)], |[x, y]| {
        bytes.run(ISA, shape, &vec![0; x], &mut vec![0; y], &pool())
    });
    let other = AxisShape { len: 4, ..shape };
    let axis = Err(Error::Mismatch { what: "axis", expected: 3, got: 4 });
    assert_eq!(bytes.run(ISA, other, &[0; 40], &mut [0; 40], &pool()), axis);
    let (gamma, output) = ([1.0; 3], QuantParams { scale: 0.5, zero_point: 0 });
    let spec = QNormSpec {
        len: 3,
        signed: false,
        about: None,
        scale: 0.5,
        epsilon: 1e-3,
        gamma: Some(&gamma),
        beta: None,
        output,
        rounding: EVEN,
    };
    let norm = QNorm::new(&spec).expect("a normalization");
    exactly([("input", 30), ("output", 30)], |[x, y]| {
        norm.run(Isa::best(), shape, &vec![0; x], &mut vec![0; y], &pool())
    });
    assert_eq!(norm.run(Isa::best(), other, &[0; 40], &mut [0; 40], &pool()), axis);
    let plain = NormRow { len: 3, epsilon: 1e-3, gamma: None, beta: None };
    exactly([("output", 6)], |[y]| normalize(ISA, plain, &[0.0; 6], &mut vec![0.0; y], &pool()));
    for got in [2, 4] {
        let values = vec![1.0; got];
        for row in [NormRow { gamma: Some(&values), ..plain }, NormRow { beta: Some(&values), ..plain }] {
            let refused = normalize(ISA, row, &[0.0; 6], &mut [0.0; 6], &pool());
            assert!(matches!(refused, Err(Error::Mismatch { expected: 3, got: own, .. }) if own == got));
        }
    }
}

#[test]
fn maps_of_pixels() {
    let (from, to) = (
        Nhwc { stride_w: 5, stride_h: 20, stride_n: 60, ..Nhwc::dense(2, 3, 4, 5) },
        Nhwc::dense(2, 3, 4, 5),
    );
    assert_eq!([from.span(), to.span()], [120, 120]);
    at_least([("input", 120), ("output", 120)], |[x, y]| {
        quantize(ISA, 0.5, U8, EVEN, &vec![0.0; x], from, &mut vec![0; y], to, &pool())
    });
    at_least([("input", 120), ("output", 120)], |[x, y]| {
        dequantize(ISA, 0.5, U8, &vec![0; x], from, &mut vec![0.0; y], to, &pool())
    });
    at_least([("input", 120), ("output", 120)], |[x, y]| {
        let table = vec![0; 1 << 16];
        q16_table(&table, &vec![0; x], from, &mut vec![0; y], to, &pool())
    });
    exactly([("table", 1 << 16)], |[table]| {
        q16_table(&vec![0; table], &[0; 120], from, &mut [0; 120], to, &pool())
    });
    exactly([("scales", 5)], |[scales]| {
        dequantize_i32(ISA, &vec![0.5; scales], &[0; 120], from, &mut [0.0; 120], to, &pool())
    });
    for (other, what, expected, got) in [
        (Nhwc::dense(1, 3, 4, 5), "batch", 2, 1),
        (Nhwc::dense(2, 2, 4, 5), "rows", 3, 2),
        (Nhwc::dense(2, 3, 3, 5), "columns", 4, 3),
        (Nhwc::dense(2, 3, 4, 4), "channels", 5, 4),
    ] {
        let refused = quantize(ISA, 0.5, U8, EVEN, &[0.0; 120], from, &mut [0; 120], other, &pool());
        assert_eq!(refused, Err(Error::Mismatch { what, expected, got }));
    }
    let one = Nhwc::dense(2, 1, 1, 5);
    at_least([("input", 120), ("output", 10)], |[x, y]| {
        f32_global_pool(ISA, PoolKind::Max, &vec![0.0; x], from, &mut vec![0.0; y], one, &pool())
    });
    for (other, what, expected, got) in [
        (Nhwc::dense(3, 1, 1, 5), "batch", 2, 3),
        (Nhwc::dense(2, 2, 1, 5), "output rows", 1, 2),
        (Nhwc::dense(2, 1, 3, 5), "output columns", 1, 3),
        (Nhwc::dense(2, 1, 1, 4), "channels", 5, 4),
    ] {
        let refused = f32_global_pool(ISA, PoolKind::Max, &[0.0; 120], from, &mut [0.0; 120], other, &pool());
        assert_eq!(refused, Err(Error::Mismatch { what, expected, got }));
    }
    let spec = WarpSpec { sampling: Sampling::Nearest, border: BorderMode::Replicate };
    let warped = Nhwc::dense(3, 2, 2, 5);
    let needs = [("matrices", 27), ("input", 120), ("output", 60), ("image indices", 3)];
    at_least(needs, |[matrices, x, y, images]| {
        let (matrices, images, x) = (vec![0.0; matrices], vec![1; images], vec![0.0_f32; x]);
        warp_perspective(ISA, &spec, &matrices, Some(&images), &x, from, &mut vec![0.0; y], warped, &pool())
    });
    let warp = |to: Nhwc| {
        warp_perspective(ISA, &spec, &[0.0; 27], None, &[0.0_f32; 120], from, &mut [0.0; 120], to, &pool())
    };
    assert_eq!(warp(Nhwc::dense(2, 2, 2, 5)), Ok(()));
    assert_eq!(warp(warped), Err(Error::Mismatch { what: "images", expected: 3, got: 2 }));
    let channels = Err(Error::Mismatch { what: "channels", expected: 5, got: 4 });
    assert_eq!(warp(Nhwc::dense(2, 2, 2, 4)), channels);
    for order in [Channels::First, Channels::Last] {
        exactly([("pixels", 6)], |[y]| pixels(&[[0_u8; 256]; 3], order, &[0; 6], &mut vec![0; y]));
    }
}

/// Convolutions of reals and of words, over maps as they come and with one thing wrong of them.
#[test]
fn maps_of_convolutions() {
    let geometry =
        ConvGeometry { kernel: [2, 3], stride: [1, 2], dilation: [2, 1], pad: [1, 0, 2, 1], groups: 2 };
    let (bytes, words) = (vec![0; 4 * 72], vec![1_i16; 72]);
    let packed = Arc::new(PackedFilter::new(&Filter::dense(&bytes, 6, 6, 2), 2, ISA).expect("weights"));
    let reals = |residual| {
        let spec = FConvSpec {
            geometry,
            in_channels: 4,
            out_channels: 6,
            bias: None,
            residual,
            activation: UnaryKind::Identity,
        };
        FConv::new(&spec, Arc::clone(&packed)).expect("a convolution")
    };
    let spec = Q16ConvSpec {
        geometry,
        in_channels: 4,
        out_channels: 6,
        weights: &words,
        bias: None,
        multiplier: &[0.5],
        target: Q16Target::full(EVEN),
    };
    let integers = Q16Conv::new(&spec, Isa::best()).expect("a convolution");
    let room = integers.scratch_bytes(1);
    // 5 rows and 3 between them: 6; 8 columns and 1, by 2: 4.
    let (from, to) = (Nhwc::dense(2, 5, 8, 4), Nhwc::dense(2, 6, 4, 6));
    let (x, plain) = (vec![0.0; 320], reals(false));
    let integer = |from: Nhwc, to: Nhwc, [x, y, scratch]: [usize; 3]| {
        integers.run(&vec![0; x], from, &mut vec![0; y], to, &mut vec![0; scratch], &pool())
    };
    let real = |from: Nhwc, to: Nhwc, [x, y, scratch]: [usize; 3]| {
        plain.run(&vec![0.0; x], from, None, &mut vec![0.0; y], to, &mut vec![0; scratch], &pool())
    };
    let scratch = plain.scratch_bytes(1);
    at_least([("input", 320), ("output", 288)], |[x, y]| integer(from, to, [x, y, room]));
    if let Some(got) = room.checked_sub(1) {
        let refused = Err(Error::Short { operand: "scratch", need: room, got });
        assert_eq!(integer(from, to, [320, 288, got]), refused);
    }
    at_least([("input", 320), ("output", 288), ("scratch", scratch)], |lens| real(from, to, lens));
    let (m, n) = (320 * 2, 288 * 2);
    for (from, to, what, expected, got) in [
        (Nhwc::dense(2, 5, 8, 5), to, "input channels", 4, 5),
        (from, Nhwc::dense(2, 6, 4, 7), "output channels", 6, 7),
        (Nhwc::dense(1, 5, 8, 4), to, "batch", 1, 2),
        (from, Nhwc::dense(2, 5, 4, 6), "output rows", 6, 5),
        (from, Nhwc::dense(2, 6, 3, 6), "output columns", 4, 3),
    ] {
        let refused = Err(Error::Mismatch { what, expected, got });
        assert_eq!(integer(from, to, [m, n, room]), refused);
        assert_eq!(real(from, to, [m, n, scratch]), refused);
    }
    let adds = reals(true);
    let add = |map: Nhwc, len: usize| {
        let (residual, mut y) = (vec![0.0; len], vec![0.0; 288]);
        let mut scratch = vec![0; adds.scratch_bytes(1)];
        adds.run(&x, from, Some((&residual, map)), &mut y, to, &mut scratch, &pool())
    };
    at_least([("residual", 288)], |[len]| add(to, len));
    for (map, what, expected, got) in [
        (Nhwc::dense(3, 6, 4, 6), "batch", 2, 3),
        (Nhwc::dense(2, 5, 4, 6), "rows", 6, 5),
        (Nhwc::dense(2, 6, 5, 6), "columns", 4, 5),
        (Nhwc::dense(2, 6, 4, 5), "channels", 6, 5),
    ] {
        assert_eq!(add(map, n), Err(Error::Mismatch { what, expected, got }));
    }
}

#[test]
fn maps_in_blocks() {
    // 10 channels in two blocks of 8, of which every pixel takes 9 bytes.
    let map = Blocked {
        extents: [1, 2, 3],
        channels: 10,
        block: 8,
        strides: [0, 27, 9],
        stride_block: 60,
        fill: [7, 7],
    };
    let span = 60 + 27 + 2 * 9 + 8;
    at_least([("input", span)], |[x]| map.gather(&vec![0; x], &mut [0; 60], &pool()));
    exactly([("gathered map", 60)], |[y]| map.gather(&vec![0; span], &mut vec![0; y], &pool()));
    at_least([("output", span)], |[y]| map.scatter(&[0; 60], &mut vec![0; y], &pool()));
    exactly([("scattered map", 60)], |[x]| map.scatter(&vec![0; x], &mut vec![0; span], &pool()));
    let one = Blocked { channels: 5, ..map };
    at_least([("output", span - 60)], |[y]| one.pad(&mut vec![0; y]));
    assert_eq!(map.pad(&mut vec![0; span]), Err(Error::Mismatch { what: "blocks", expected: 1, got: 2 }));
}

#[test]
fn padded_tensors() {
    let (shape, padding) = ([2, 5, 6, 8], [(0, 0), (1, 0), (0, 2), (0, 5)]);
    let pad = TensorPad::new(&shape, &padding, 0.5, U8).expect("a tensor");
    assert_eq!([pad.dense_len(), pad.padded_len()], [2 * 4 * 4 * 3, 480]);
    let lens = [("dense tensor", 96), ("padded tensor", 480)];
    exactly(lens, |[x, y]| pad.quantize_f32(ISA, &vec![0.0; x], &mut vec![0; y], &pool()));
    exactly(lens, |[x, y]| pad.quantize_u8(ISA, &[0; 256], &vec![0; x], &mut vec![0; y], &pool()));
    exactly([lens[1], lens[0]], |[x, y]| pad.dequantize(ISA, &vec![0; x], &mut vec![0.0; y], &pool()));
    let refused = TensorPad::new(&shape, &padding[1..], 0.5, U8).map(drop);
    assert_eq!(refused, Err(Error::Mismatch { what: "padding axes", expected: 4, got: 3 }));
}

#[test]
fn steps_of_cells() {
    let spec = RecurrenceSpec {
        cell: CellKind::Lstm,
        steps: 4,
        directions: 2,
        batch: 3,
        hidden: 5,
        backwards: [false, true],
        functions: [[UnaryKind::Sigmoid, UnaryKind::Tanh, UnaryKind::Tanh]; 2],
        clip: 3.0,
        coupled: false,
    };
    let cell = Recurrence::new(&spec, None, ISA).expect("a cell");
    let scratch = cell.scratch_bytes(1);
    let needs = [
        ("input", 4 * 3 * 2 * 4 * 5),
        ("output", (4 + 2) * 2 * 3 * 5),
        ("scratch", scratch),
        ("vectors", 2 * 3 * 5),
        ("initial", 2 * 2 * 3 * 5),
        ("lengths", 3),
        ("weights", 2 * 4 * 5 * 5),
    ];
    at_least(needs, |[input, output, scratch, vectors, initial, lengths, weights]| {
        let (input, vectors, initial) = (vec![0.0; input], vec![0.0; vectors], vec![0.0; initial]);
        let (lengths, weights) = (vec![4; lengths], vec![0.0; weights]);
        let sequences = Sequences {
            input: &input,
            weights: Some(&weights),
            vectors: Some(&vectors),
            initial: Some(&initial),
            lengths: Some(&lengths),
        };
        cell.run(&sequences, &mut vec![0.0; output], &mut vec![0; scratch], &pool())
    });
}

//! `BinaryKind` operators on every instruction set, against their formulas element by element.

use crate::common::{isas, same_bits};
use triune_kernels::{Broadcast, Isa, Pool, Q8, QAdd, QMul, binary, q8_add, q8_mul};
use triune_tensor::function::BinaryKind;
use triune_tensor::{Requantize, Rounding};
use triune_testing::Random;

struct Case {
    dims: [usize; 6],
    a: [usize; 6],
    b: [usize; 6],
    out: [usize; 6],
}

impl Case {
    fn positions(&self) -> Vec<[usize; 3]> {
        let total: usize = self.dims.iter().product();
        (0..total)
            .map(|mut index| {
                let mut at = [0; 3];
                for axis in (0..6).rev() {
                    let i = index % self.dims[axis];
                    index /= self.dims[axis];
                    for (at, strides) in at.iter_mut().zip([&self.a, &self.b, &self.out]) {
                        *at += i * strides[axis];
                    }
                }
                at
            })
            .collect()
    }

    fn spans(&self) -> [usize; 3] {
        let positions = self.positions();
        std::array::from_fn(|i| positions.iter().map(|at| at[i] + 1).max().unwrap_or(0))
    }
}

fn row_major(dims: [usize; 6], broadcast: [bool; 6], gap: usize) -> [usize; 6] {
    let mut strides = [0; 6];
    let mut step = 1;
    for axis in (0..6).rev() {
        if !broadcast[axis] {
            strides[axis] = step;
            step = step * dims[axis] + gap;
        }
    }
    strides
}

fn cases() -> Vec<Case> {
    let mut random = Random(21);
    let none = [false; 6];
    let mut cases = Vec::new();
    for len in [0, 1, 15, 64, 1000, 40_000] {
        let dims = [1, 1, 1, 1, 1, len];
        let dense = row_major(dims, none, 0);
        cases.push(Case { dims, a: dense, b: dense, out: dense });
        cases.push(Case { dims, a: dense, b: [0; 6], out: dense });
        cases.push(Case { dims, a: [0; 6], b: dense, out: dense });
    }
    for _ in 0..40 {
        let dims = std::array::from_fn(|_| random.between(1, 5));
        let mut pick = |one_in: usize| std::array::from_fn(|_| random.below(one_in) == 0);
        let (a, b) = (row_major(dims, pick(3), 0), row_major(dims, pick(3), 1));
        cases.push(Case { dims, a, b, out: row_major(dims, none, random.below(3)) });
    }
    // Per channel and per image, as networks have them.
    let dims = [1, 1, 2, 5, 7, 33];
    let dense = row_major(dims, none, 0);
    cases.push(Case { dims, a: dense, b: [0, 0, 0, 0, 0, 1], out: dense });
    cases.push(Case { dims, a: [0, 0, 33, 0, 0, 1], b: dense, out: dense });
    // Several long rows: one operand for all, and results that lie apart.
    let dims = [1, 1, 1, 2, 3, 700];
    let dense = row_major(dims, none, 0);
    cases.push(Case { dims, a: dense, b: [0, 0, 0, 0, 0, 1], out: row_major(dims, none, 5) });
    cases.push(Case { dims, a: [0, 0, 0, 700, 0, 1], b: [0, 0, 0, 0, 1, 0], out: dense });
    cases
}

fn encodings(random: &mut Random) -> [Q8; 3] {
    std::array::from_fn(|_| {
        let signed = random.below(2) == 0;
        let zero_point = random.below(256) as i32 - if signed { 128 } else { 0 };
        Q8 { signed, zero_point }
    })
}

#[test]
fn quantized_sums_and_products_equal_their_formulas() {
    let mut random = Random(23);
    for case in cases() {
        let shape = Broadcast::new(case.dims, case.a, case.b, case.out).unwrap();
        let [a_len, b_len, out_len] = case.spans();
        let (a, b) = (random.bytes(a_len), random.bytes(b_len));
        let [qa, qb, qo] = encodings(&mut random);
        let rounding = [Rounding::HalfToEven, Rounding::HalfAwayFromZero][random.below(2)];
        // Scales by which halves are frequent, or rare.
        let scales = [[0.021, 0.034, 0.047], [0.5, 0.25, 1.0]][random.below(2)];
        let mut add =
            QAdd::new(qa, scales[0], qb, scales[1], qo, scales[2], rounding, Requantize::Float).unwrap();
        let mut mul = QMul::new(qa, scales[0], qb, scales[1], qo, 2.0 * scales[2], rounding).unwrap();
        if random.below(3) == 0 {
            let [low, high] = qo.range();
            add.clamp = [low + 40, high - 30];
            mul.clamp = add.clamp;
        }
        let (mut sums, mut products) = (vec![0xEE; out_len], vec![0xEE; out_len]);
        for [ia, ib, io] in case.positions() {
            sums[io] = add.apply(a[ia], b[ib]);
            products[io] = mul.apply(a[ia], b[ib]);
        }
        for isa in isas() {
            for threads in [1, 2] {
                let pool = Pool::new(threads);
                let mut out = vec![0xEE; out_len];
                q8_add(isa, &add, &shape, &a, &b, &mut out, &pool).unwrap();
                assert_eq!(sums, out, "{isa:?} {:?}", case.dims);
                let mut out = vec![0xEE; out_len];
                q8_mul(isa, &mul, &shape, &a, &b, &mut out, &pool).unwrap();
                assert_eq!(products, out, "{isa:?} {:?}", case.dims);
            }
        }
        if out_len > 0 {
            let pool = Pool::new(1);
            let mut out = vec![0; out_len];
            assert!(q8_add(Isa::best(), &add, &shape, &a[1..], &b, &mut out, &pool).is_err());
            assert!(q8_add(Isa::best(), &add, &shape, &a, &b[1..], &mut out, &pool).is_err());
            assert!(q8_add(Isa::best(), &add, &shape, &a, &b, &mut out[1..], &pool).is_err());
        }
    }
}

/// Halves, with the zero point of the result behind the rounding.
#[test]
fn halves_go_away_from_zero_on_request() {
    let q = Q8 { signed: false, zero_point: 0 };
    let out = Q8 { signed: true, zero_point: -3 };
    let away = Rounding::HalfAwayFromZero;
    let minus = Q8 { zero_point: 10, ..q };
    let add = QAdd::new(q, 0.5, minus, 1.0, out, 1.0, away, Requantize::Float).unwrap();
    let mul = QMul::new(q, 0.5, minus, 1.0, out, 1.0, away).unwrap();
    // 5·½ + (10 − 10) = 2.5 → 3; 5·½ + (0 − 10) = −7.5 → −8; likewise ½·5·(11 − 10) and ½·5·(9 − 10).
    let value = |byte: u8| i32::from(byte.cast_signed());
    assert_eq!([value(add.apply(5, 10)), value(add.apply(5, 0))], [3 - 3, -8 - 3]);
    assert_eq!([value(mul.apply(5, 11)), value(mul.apply(5, 9))], [3 - 3, -3 - 3]);
}

#[test]
fn float_operators_equal_their_formulas() {
    let mut random = Random(29);
    for case in cases() {
        let shape = Broadcast::new(case.dims, case.a, case.b, case.out).unwrap();
        let [a_len, b_len, out_len] = case.spans();
        let (mut a, b) = (random.floats(a_len), random.floats(b_len));
        if a_len > 20 {
            a[3] = f32::NAN;
            a[7] = f32::INFINITY;
            a[11] = -0.0;
        }
        for kind in [
            BinaryKind::Add,
            BinaryKind::Sub,
            BinaryKind::Mul,
            BinaryKind::Div,
            BinaryKind::Min,
            BinaryKind::Max,
        ] {
            let mut expected = vec![777.0f32; out_len];
            for [ia, ib, io] in case.positions() {
                let (a, b) = (a[ia], b[ib]);
                expected[io] = match kind {
                    BinaryKind::Add => a + b,
                    BinaryKind::Sub => a - b,
                    BinaryKind::Mul => a * b,
                    BinaryKind::Div => a / b,
                    _ if a.is_nan() || b.is_nan() => f32::NAN,
                    BinaryKind::Min if a < b => a,
                    BinaryKind::Max if a > b => a,
                    _ => b,
                };
            }
            for isa in isas() {
                let mut out = vec![777.0; out_len];
                binary(isa, kind, &shape, &a, &b, &mut out, &Pool::new(2)).unwrap();
                same_bits(&expected, &out, &format!("{kind:?} {isa:?} {:?}", case.dims));
            }
        }
    }
}

#[test]
fn powers_are_correct_to_the_last_bit_or_two() {
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        2.0,
        -2.0,
        3.0,
        0.5,
        -0.5,
        1.5,
        -3.0,
        // The largest odd number, an even one beyond, and one that no i32 holds.
        16_777_215.0,
        16_777_218.0,
        3e9,
        -3e9,
        f32::MAX,
        f32::MIN_POSITIVE,
    ];
    let mut random = Random(31);
    let mut pairs: Vec<(f32, f32)> = special.iter().flat_map(|&a| special.map(|b| (a, b))).collect();
    pairs.extend((0..20_000).map(|_| ((random.unit() * 20.0).abs(), random.unit() * 30.0)));
    pairs.extend((0..2_000).map(|_| (random.unit() * 20.0, (random.unit() * 9.0).round())));
    let (a, b): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
    let shape = Broadcast::dense(a.len()).unwrap();
    for isa in isas() {
        let mut out = vec![0.0; a.len()];
        binary(isa, BinaryKind::Pow, &shape, &a, &b, &mut out, &Pool::new(1)).unwrap();
        for ((&a, &b), &y) in a.iter().zip(&b).zip(&out) {
            // Cubes are products, wherever the exponent comes from.
            let exact = if b == 3.0 { a * a * a } else { f64::from(a).powf(f64::from(b)) as f32 };
            assert!(b != 3.0 || a.is_nan() || y.to_bits() == exact.to_bits(), "{a} ^ 3 = {exact}, got {y}");
            let zeros = exact == y && exact.is_sign_negative() == y.is_sign_negative();
            let close = zeros || (exact.is_nan() && y.is_nan()) || (exact - y).abs() <= exact.abs() * 1.2e-7;
            assert!(close, "{a} ^ {b} = {exact}, got {y}");
        }
        for exponent in [2.0, 3.0, 2.5] {
            let one =
                Broadcast::new([1, 1, 1, 1, 1, a.len()], [0, 0, 0, 0, 0, 1], [0; 6], [0, 0, 0, 0, 0, 1])
                    .unwrap();
            let (mut spread, mut each) = (vec![0.0; a.len()], vec![0.0; a.len()]);
            binary(isa, BinaryKind::Pow, &one, &a, &[exponent], &mut spread, &Pool::new(1)).unwrap();
            binary(isa, BinaryKind::Pow, &shape, &a, &vec![exponent; a.len()], &mut each, &Pool::new(1))
                .unwrap();
            let bits = |y: &[f32]| y.iter().map(|y| y.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&spread), bits(&each), "to the power of {exponent}");
        }
    }
}

#[test]
fn misfits_are_errors() {
    let ones = [1; 6];
    assert!(Broadcast::new([1, 1, 1, 1, 2, 2], [0; 6], [0; 6], [0, 0, 0, 0, 1, 1]).is_err());
    assert!(Broadcast::new([1, 1, 1, 1, 1, 2], [0; 6], [0; 6], [0; 6]).is_err());
    assert!(Broadcast::new([usize::MAX, 4, 1, 1, 1, 1], [0; 6], [0; 6], ones).is_err());
    assert!(Broadcast::new([2; 6], [usize::MAX; 6], [0; 6], ones).is_err());
    let q = Q8 { signed: true, zero_point: 0 };
    assert!(QMul::new(q, 0.0, q, 1.0, q, 1.0, Rounding::HalfToEven).is_err());
    assert!(QMul::new(q, 1e30, q, 1e30, q, 1.0, Rounding::HalfToEven).is_err());
    assert!(QMul::new(q, 1.0, q, 1.0, Q8 { zero_point: 200, ..q }, 1.0, Rounding::HalfToEven).is_err());
}

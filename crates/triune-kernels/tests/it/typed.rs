//! `BinaryKind`, comparisons, conversions and choices over every number type: on every instruction set and thread count
//! against the same in wide integers, element by element.

use std::{cmp::Ordering, fmt::Debug};

use crate::common::{extents, isas, offsets, span, strides};
use triune_kernels::{
    Broadcast, Choice, Convertible, Integer, Isa, Ordered, Pool, Truth, compare, convert, double_binary,
    integer_binary, select,
};
use triune_tensor::function::{BinaryKind, Comparison};
use triune_testing::Random;

const FUNCTIONS: [BinaryKind; 17] = [
    BinaryKind::Add,
    BinaryKind::Sub,
    BinaryKind::Mul,
    BinaryKind::Div,
    BinaryKind::FloorDiv,
    BinaryKind::Mod,
    BinaryKind::Rem,
    BinaryKind::Min,
    BinaryKind::Max,
    BinaryKind::Pow,
    BinaryKind::And,
    BinaryKind::Or,
    BinaryKind::Xor,
    BinaryKind::ShiftLeft,
    BinaryKind::ShiftRight,
    BinaryKind::MulHigh,
    BinaryKind::PRelu,
];

const QUESTIONS: [Comparison; 6] = [
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
];

/// A nest of a result and two operands, which may repeat elements.
struct Case {
    dims: [usize; 6],
    strides: [[usize; 6]; 3],
}

impl Case {
    fn random(random: &mut Random) -> Self {
        let dims = extents(random, 3);
        let strides =
            [strides(random, dims, false), strides(random, dims, true), strides(random, dims, true)];
        Self { dims, strides }
    }

    /// The innermost runs that have loops of their own; long enough for several threads.
    fn rows() -> impl Iterator<Item = Self> {
        [[1, 1, 1], [1, 1, 0], [1, 0, 1], [2, 1, 1], [1, 0, 0]].into_iter().map(|inner| Self {
            dims: [1, 1, 1, 1, 1, 40_001],
            strides: inner.map(|stride| [0, 0, 0, 0, 0, stride]),
        })
    }

    fn all(random: &mut Random, count: usize) -> Vec<Self> {
        Self::rows().chain((0..count).map(|_| Self::random(random))).collect()
    }

    fn shape(&self) -> Broadcast {
        let [out, a, b] = self.strides;
        Broadcast::new(self.dims, a, b, out).expect("a nest")
    }

    fn span(&self, operand: usize) -> usize {
        span(self.dims, self.strides[operand])
    }

    /// What the elements have to be; gaps keep `gap`.
    fn want<T: Copy, O: Copy>(&self, a: &[T], b: &[T], gap: O, f: impl Fn(T, T) -> O) -> Vec<O> {
        let mut want = vec![gap; self.span(0)];
        for [out, x, y] in offsets(self.dims, self.strides) {
            want[out] = f(a[x], b[y]);
        }
        want
    }
}

/// An integer type as the tests see it.
trait Number: Integer + Ordered + Debug + Eq {
    const BITS: u32;
    const SIGNED: bool;
    const LOW: Self;
    const HIGH: Self;
    fn wide(self) -> i128;
    fn narrow(wide: i128) -> Self;
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Number for $type {
            const BITS: u32 = <$type>::BITS;
            const SIGNED: bool = <$type>::MIN != 0;
            const LOW: Self = <$type>::MIN;
            const HIGH: Self = <$type>::MAX;
            fn wide(self) -> i128 {
                i128::from(self)
            }
            fn narrow(wide: i128) -> Self {
                wide as Self
            }
        }
    )*};
}

numbers!(u8, i8, u16, i16, u32, i32, u64, i64);

/// Any of the type's numbers; the ends of its range and small ones often.
fn number<T: Number>(random: &mut Random) -> T {
    match random.below(6) {
        0 => T::LOW,
        1 => T::HIGH,
        2 | 3 => T::narrow(random.between(0, 6) as i128 - 3),
        _ => T::narrow(i128::from(random.next()) << random.below(40)),
    }
}

fn floor_div(a: i128, b: i128) -> i128 {
    if b > 0 { a.div_euclid(b) } else { (-a).div_euclid(-b) }
}

/// The function in 128 bits, cut to the type.
fn wanted<T: Number>(kind: BinaryKind, a: T, b: T) -> T {
    let (x, y) = (a.wide(), b.wide());
    let inside = (0..i128::from(T::BITS)).contains(&y);
    T::narrow(match kind {
        BinaryKind::Add => x + y,
        BinaryKind::Sub => x - y,
        BinaryKind::Mul => x.wrapping_mul(y),
        BinaryKind::Div | BinaryKind::FloorDiv | BinaryKind::Mod | BinaryKind::Rem if y == 0 => 0,
        BinaryKind::Div => x / y,
        BinaryKind::FloorDiv => floor_div(x, y),
        BinaryKind::Mod => x - y * floor_div(x, y),
        BinaryKind::Rem => x - y * (x / y),
        BinaryKind::Min => x.min(y),
        BinaryKind::Max => x.max(y),
        BinaryKind::Pow if y < 0 => match x {
            1 => 1,
            -1 => 1 - 2 * (y & 1),
            _ => 0,
        },
        BinaryKind::Pow => (0..y).fold(1, |power: i128, _| power.wrapping_mul(x)),
        BinaryKind::And => x & y,
        BinaryKind::Or => x | y,
        BinaryKind::Xor => x ^ y,
        BinaryKind::ShiftLeft => {
            if inside {
                x << y
            } else {
                0
            }
        }
        BinaryKind::ShiftRight => x >> if inside { y } else { 127 },
        BinaryKind::MulHigh => {
            let (half, one) = (1 << (T::BITS - 2), 1 << (T::BITS - 1));
            (x * y + half).div_euclid(one).clamp(T::LOW.wide(), T::HIGH.wide())
        }
        BinaryKind::PRelu => {
            if x < 0 {
                x.wrapping_mul(y)
            } else {
                x
            }
        }
        _ => unreachable!("{kind:?} is no function of integers"),
    })
}

fn integers<T: Number>(seed: u64) {
    let mut random = Random(seed);
    let pools = [Pool::new(1), Pool::new(3)];
    for case in Case::all(&mut random, 8) {
        let a: Vec<T> = (0..case.span(1)).map(|_| number(&mut random)).collect();
        let b: Vec<T> = (0..case.span(2)).map(|_| number(&mut random)).collect();
        // Powers are found one factor at a time here.
        let powers: Vec<T> = b.iter().map(|b| T::narrow(b.wide() % 70)).collect();
        for kind in FUNCTIONS {
            if kind == BinaryKind::MulHigh && !T::SIGNED {
                continue;
            }
            let b = if kind == BinaryKind::Pow { &powers } else { &b };
            let gap = T::narrow(0x55);
            let want = case.want(&a, b, gap, |x, y| wanted(kind, x, y));
            for isa in isas() {
                for pool in &pools {
                    let mut out = vec![gap; want.len()];
                    integer_binary(isa, kind, &case.shape(), &a, b, &mut out, pool).expect("fitting slices");
                    assert!(out == want, "{kind:?} of {} on {}", std::any::type_name::<T>(), isa.name());
                }
            }
        }
    }
}

#[test]
fn integers_are_those_of_wide_ones() {
    integers::<u8>(51);
    integers::<i8>(52);
    integers::<u16>(53);
    integers::<i16>(54);
    integers::<u32>(55);
    integers::<i32>(56);
    integers::<u64>(57);
    integers::<i64>(58);
}

fn double(random: &mut Random) -> f64 {
    const SPECIAL: [f64; 8] =
        [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.0, f64::MIN_POSITIVE, f64::MAX];
    match random.below(4) {
        0 => SPECIAL[random.below(SPECIAL.len())],
        1 => random.between(0, 10) as f64 - 5.0,
        _ => f64::from(random.unit()) * 100.0,
    }
}

#[test]
fn doubles_are_alike_everywhere() {
    let mut random = Random(61);
    let pools = [Pool::new(1), Pool::new(3)];
    for case in Case::all(&mut random, 12) {
        let a: Vec<f64> = (0..case.span(1)).map(|_| double(&mut random)).collect();
        let b: Vec<f64> = (0..case.span(2)).map(|_| double(&mut random)).collect();
        for kind in FUNCTIONS {
            let mut out = vec![-7.25; case.span(0)];
            if !triune_kernels::has_double(kind) {
                let refused = double_binary(Isa::best(), kind, &case.shape(), &a, &b, &mut out, &pools[0]);
                assert!(refused.is_err(), "{kind:?}");
                continue;
            }
            let nan = |x: f64, y: f64| x.is_nan() || y.is_nan();
            let want = case.want(&a, &b, -7.25, |x, y| match kind {
                BinaryKind::Add => x + y,
                BinaryKind::Sub => x - y,
                BinaryKind::Mul => x * y,
                BinaryKind::Div => x / y,
                BinaryKind::FloorDiv => (x / y).floor(),
                // The remainder that has b's sign.
                BinaryKind::Mod if y < 0.0 => -(-x).rem_euclid(-y),
                BinaryKind::Mod => x.rem_euclid(y),
                BinaryKind::Rem => x % y,
                BinaryKind::Min | BinaryKind::Max if nan(x, y) => f64::NAN,
                BinaryKind::Min => x.min(y),
                BinaryKind::Max => x.max(y),
                BinaryKind::PRelu => {
                    if x < 0.0 {
                        x * y
                    } else {
                        x
                    }
                }
                // By itself, it is compared with the C library's.
                BinaryKind::Pow => triune_tensor::function::math::pow(x, y),
                other => panic!("{other:?} has no oracle"),
            });
            let mut first: Option<Vec<u64>> = None;
            for isa in isas() {
                for pool in &pools {
                    out.fill(-7.25);
                    double_binary(isa, kind, &case.shape(), &a, &b, &mut out, pool).expect("fitting slices");
                    for (got, want) in out.iter().zip(&want) {
                        assert!(
                            got == want || nan(*got, *got) && nan(*want, *want),
                            "{kind:?}: {got} {want}"
                        );
                    }
                    // Which NaN it is, is the processor's choice.
                    let bits: Vec<u64> =
                        out.iter().map(|x| if x.is_nan() { u64::MAX } else { x.to_bits() }).collect();
                    let first = first.get_or_insert_with(|| bits.clone());
                    assert!(*first == bits, "{kind:?} on {}", isa.name());
                }
            }
        }
    }
}

fn questions<T: Ordered>(seed: u64, make: impl Fn(&mut Random) -> T) {
    let mut random = Random(seed);
    let pools = [Pool::new(1), Pool::new(3)];
    for case in Case::all(&mut random, 8) {
        let a: Vec<T> = (0..case.span(1)).map(|_| make(&mut random)).collect();
        let b: Vec<T> = (0..case.span(2)).map(|_| make(&mut random)).collect();
        for kind in QUESTIONS {
            let want = case.want(&a, &b, 9, |x, y| {
                let order = x.partial_cmp(&y);
                u8::from(match kind {
                    Comparison::Equal => order == Some(Ordering::Equal),
                    Comparison::NotEqual => order != Some(Ordering::Equal),
                    Comparison::Less => order == Some(Ordering::Less),
                    Comparison::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
                    Comparison::Greater => order == Some(Ordering::Greater),
                    Comparison::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
                })
            });
            for isa in isas() {
                for pool in &pools {
                    let mut out = vec![9; want.len()];
                    compare(isa, kind, &case.shape(), &a, &b, &mut out, pool).expect("fitting slices");
                    assert!(out == want, "{kind:?} of {} on {}", std::any::type_name::<T>(), isa.name());
                }
            }
        }
    }
}

#[test]
fn comparisons_follow_the_types_order() {
    questions::<u8>(71, number);
    questions::<i8>(72, number);
    questions::<i32>(73, number);
    questions::<u64>(74, number);
    questions::<i64>(75, number);
    questions::<f64>(76, double);
    questions::<f32>(77, |random| double(random) as f32);
}

fn conversion<T: Convertible + Debug, O: Convertible + PartialEq + Debug>(
    x: &[T],
    gap: O,
    f: impl Fn(T) -> O,
) {
    let mut random = Random(81);
    for case in Case::all(&mut random, 6) {
        let x: Vec<T> = (0..case.span(1)).map(|_| x[random.below(x.len())]).collect();
        // The second operand of the nest is only looked at once.
        let [out, from, _] = case.strides;
        let shape = Broadcast::new(case.dims, from, [0; 6], out).expect("a nest");
        let want = case.want(&x, &vec![x[0]; case.span(2)], gap, |x, _| f(x));
        for (isa, pool) in isas().into_iter().flat_map(|isa| [(isa, Pool::new(1)), (isa, Pool::new(3))]) {
            let mut out = vec![gap; want.len()];
            convert(isa, &shape, &x, &mut out, &pool).expect("fitting slices");
            assert_eq!(out, want, "{isa:?}");
        }
    }
}

#[test]
fn conversions_cut_wrap_and_round() {
    let reals = [0.0, -0.0, 2.9, -2.9, 300.5, -129.0, 1e10, 1e19, -1e19, 1e300, f64::INFINITY, f64::NAN];
    // Towards 0 into 64 bits, then the low ones.
    let whole = |x: f64| {
        let bounded = x.trunc().clamp(i64::MIN as f64, i64::MAX as f64);
        if x.is_nan() { 0 } else { (bounded as i128).clamp(i64::MIN.into(), i64::MAX.into()) }
    };
    conversion(&reals, 7, |x| whole(x) as i8);
    conversion(&reals, 7, |x| whole(x) as u8);
    conversion(&reals, 7, |x| whole(x) as i32);
    conversion(&reals, 7, |x| whole(x) as i64);
    conversion(&reals[..9], 7.0, |x| x as f32);
    let integers = [0, 1, -1, 127, 128, -129, 65_536, i64::MAX, i64::MIN, 16_777_217];
    conversion(&integers, 7, |x| x as u8);
    conversion(&integers, 7, |x| x as i16);
    conversion(&integers, 7, |x| x as u64);
    // 16,777,217 lies between two floats, and goes to the even one.
    conversion(&integers, 7.0, |x| x as f32);
    conversion(&[16_777_217_i64], 7.0, |_| 16_777_216.0_f32);
    conversion(&[u64::MAX, 1 << 63], 7.0, |x| x as f64);
    let mut out = [7_u8; 4];
    let shape = Broadcast::dense(4).expect("a nest");
    convert(Isa::best(), &shape, bytemuck::cast_slice::<u8, Truth>(&[0, 1, 2, 255]), &mut out, &Pool::new(1))
        .expect("fitting slices");
    assert_eq!(out, [0, 1, 1, 1], "a truth value is 0 or 1");
    convert(
        Isa::best(),
        &shape,
        &[0.0, -0.0, f64::NAN, 0.5],
        bytemuck::cast_slice_mut::<u8, Truth>(&mut out),
        &Pool::new(1),
    )
    .expect("fitting slices");
    assert_eq!(out, [0, 0, 1, 1], "what is not 0 is true");
}

#[test]
fn choices_take_what_the_condition_says() {
    let mut random = Random(91);
    for _ in 0..30 {
        let dims = extents(&mut random, 3);
        let out = strides(&mut random, dims, false);
        let [condition, a, b] = std::array::from_fn(|_| strides(&mut random, dims, true));
        let choice = Choice::new(dims, condition, a, b, out).expect("a nest");
        let conditions: Vec<u8> =
            (0..span(dims, condition)).map(|_| [0, 0, 1, 255][random.below(4)]).collect();
        let x: Vec<u16> = (0..span(dims, a)).map(|_| random.next() as u16 | 1).collect();
        let y: Vec<u16> = (0..span(dims, b)).map(|_| random.next() as u16 & !1).collect();
        let mut want = vec![7; span(dims, out)];
        for [to, at, first, second] in offsets(dims, [out, condition, a, b]) {
            want[to] = if conditions[at] == 0 { y[second] } else { x[first] };
        }
        for (isa, pool) in isas().into_iter().flat_map(|isa| [(isa, Pool::new(1)), (isa, Pool::new(3))]) {
            let mut got = vec![7; want.len()];
            select(isa, &choice, &conditions, &x, &y, &mut got, &pool).expect("fitting slices");
            assert_eq!(got, want, "{isa:?}");
            let short = &conditions[..conditions.len() - 1];
            assert!(select(isa, &choice, short, &x, &y, &mut got, &pool).is_err());
        }
    }
}

#[test]
fn slices_that_are_too_short_are_refused() {
    let (shape, pool, mut out) = (Broadcast::dense(40).expect("a nest"), Pool::new(1), [0; 40]);
    let x = [1; 40];
    let kind = BinaryKind::Add;
    assert!(integer_binary(Isa::best(), kind, &shape, &x, &x, &mut out, &pool).is_ok());
    assert!(integer_binary(Isa::best(), kind, &shape, &x[1..], &x, &mut out, &pool).is_err());
    assert!(integer_binary(Isa::best(), kind, &shape, &x, &x[1..], &mut out, &pool).is_err());
    assert!(integer_binary(Isa::best(), kind, &shape, &x, &x, &mut out[1..], &pool).is_err());
}

//! Element by element over every number type: arithmetic, comparisons, conversions, and choices between two operands.
//!
//! What networks do to shapes, masks and indices; the float arithmetic of their layers is in `eltwise.rs`.

#![expect(clippy::cast_lossless, reason = "one macro for integers of all widths")]
#![expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]

use bytemuck::{Pod, Zeroable};
use triune_tensor::{
    DType,
    function::{BinaryKind, Comparison, UnaryKind, math},
    half,
};

use crate::dispatch::{Level, multiversion};
use crate::eltwise::{Run, combine};
use crate::halves::{BF16, F16};
use crate::parallel::{self, Shared};
use crate::strided::{Nest, RANK};
use crate::{Broadcast, Error, Isa, Pool};

/// A type with integer arithmetic; everything wraps around.
pub trait Integer: Copy + Send + Sync + 'static {
    /// One function of two operands.
    fn apply(kind: BinaryKind, a: Self, b: Self) -> Self;
    /// [`integer_binary`], compiled once for each type, in this crate, rather than in all that call it.
    ///
    /// Errors: as there.
    fn binary(
        isa: Isa,
        kind: BinaryKind,
        shape: &Broadcast,
        a: &[Self],
        b: &[Self],
        out: &mut [Self],
        pool: &Pool,
    ) -> Result<(), Error>;
}

/// Whether a function gives the same bits whether its operands have a sign or not.
const fn is_signless(kind: BinaryKind) -> bool {
    use BinaryKind::{Add, And, Mul, Or, ShiftLeft, Sub, Xor};
    matches!(kind, Add | Sub | Mul | And | Or | Xor | ShiftLeft)
}

macro_rules! integers {
    ($($type:ty as $signed:ty: $wide:ty),*) => {$(
        impl Integer for $type {
            fn binary(
                isa: Isa,
                kind: BinaryKind,
                shape: &Broadcast,
                a: &[Self],
                b: &[Self],
                out: &mut [Self],
                pool: &Pool,
            ) -> Result<(), Error> {
                let level = Level::new(isa);
                if is_signless(kind) {
                    // One loop for both, for the sake of the program's size.
                    let (a, b) = (bytemuck::cast_slice::<_, $signed>(a), bytemuck::cast_slice::<_, $signed>(b));
                    let out: &mut [$signed] = bytemuck::cast_slice_mut(out);
                    return shape.runs(a, b, out, pool, &|run, out, stride| signless_run(level, kind, run, out, stride));
                }
                shape.runs(a, b, out, pool, &|run, out, stride| integer_run(level, kind, run, out, stride))
            }
            #[inline(always)]
            fn apply(kind: BinaryKind, a: Self, b: Self) -> Self {
                match kind {
                    BinaryKind::Add => a.wrapping_add(b),
                    BinaryKind::Sub => a.wrapping_sub(b),
                    BinaryKind::Mul => a.wrapping_mul(b),
                    BinaryKind::Div => if b == 0 { 0 } else { a.wrapping_div(b) },
                    BinaryKind::FloorDiv => {
                        if b == 0 {
                            return 0;
                        }
                        let (quotient, rest) = (a.wrapping_div(b), a.wrapping_rem(b));
                        if rest != 0 && (rest < 0 as Self) != (b < 0 as Self) {
                            quotient.wrapping_sub(1)
                        } else {
                            quotient
                        }
                    }
                    BinaryKind::Mod => {
                        if b == 0 {
                            return 0;
                        }
                        let rest = a.wrapping_rem(b);
                        if rest != 0 && (rest < 0 as Self) != (b < 0 as Self) { rest.wrapping_add(b) } else { rest }
                    }
                    BinaryKind::Rem => if b == 0 { 0 } else { a.wrapping_rem(b) },
                    BinaryKind::Min => a.min(b),
                    BinaryKind::Max => a.max(b),
                    BinaryKind::Pow => {
                        if b < 0 as Self {
                            // 1/aⁿ: a fraction unless a is 1 or −1; 1/0 has no integer either.
                            let minus_one = (0 as Self).wrapping_sub(1);
                            return match a {
                                1 => 1,
                                _ if a == minus_one => if b & 1 == 0 { 1 } else { minus_one },
                                _ => 0,
                            };
                        }
                        let (mut base, mut exponent, mut result) = (a, b, 1 as Self);
                        while exponent > 0 {
                            if exponent & 1 == 1 {
                                result = result.wrapping_mul(base);
                            }
                            base = base.wrapping_mul(base);
                            exponent >>= 1;
                        }
                        result
                    }
                    BinaryKind::And => a & b,
                    BinaryKind::Or => a | b,
                    BinaryKind::Xor => a ^ b,
                    BinaryKind::ShiftLeft => {
                        let inside = b >= 0 as Self && (b as u64) < u64::from(Self::BITS);
                        let shifted = a.wrapping_shl(b as u32);
                        if inside { shifted } else { 0 }
                    }
                    BinaryKind::ShiftRight => {
                        let inside = b >= 0 as Self && (b as u64) < u64::from(Self::BITS);
                        a.wrapping_shr(if inside { b as u32 } else { Self::BITS - 1 })
                            >> u32::from(!inside && Self::MIN == 0)
                    }
                    BinaryKind::MulHigh => {
                        let product = (a as $wide) * (b as $wide);
                        let high = (product + (1 << (Self::BITS - 2))) >> (Self::BITS - 1);
                        high.clamp(Self::MIN as $wide, Self::MAX as $wide) as Self
                    }
                    BinaryKind::PRelu => if a < 0 as Self { a.wrapping_mul(b) } else { a },
                    // Refused by the caller.
                    _ => a,
                }
            }
        }
    )*};
}

integers!(
    u8 as i8: i128, i8 as i8: i32, u16 as i16: i128, i16 as i16: i32, u32 as i32: i128, i32 as i32: i64,
    u64 as i64: i128, i64 as i64: i128
);

multiversion! {
    /// The functions that shape arithmetic and masks are made of, as far as signs do not matter.
    fn signless_run[T: Integer](kind: BinaryKind, run: Run<'_, T>, out: &mut [T], stride: usize) {
        match kind {
            BinaryKind::Add => combine(run, out, stride, |a, b| T::apply(BinaryKind::Add, a, b)),
            BinaryKind::Sub => combine(run, out, stride, |a, b| T::apply(BinaryKind::Sub, a, b)),
            BinaryKind::Mul => combine(run, out, stride, |a, b| T::apply(BinaryKind::Mul, a, b)),
            BinaryKind::And => combine(run, out, stride, |a, b| T::apply(BinaryKind::And, a, b)),
            BinaryKind::Or => combine(run, out, stride, |a, b| T::apply(BinaryKind::Or, a, b)),
            BinaryKind::Xor => combine(run, out, stride, |a, b| T::apply(BinaryKind::Xor, a, b)),
            BinaryKind::ShiftLeft => combine(run, out, stride, |a, b| T::apply(BinaryKind::ShiftLeft, a, b)),
            rare => rare_run(rare, run, out, stride),
        }
    }
}

multiversion! {
    /// Those whose results depend on signs.
    fn integer_run[T: Integer](kind: BinaryKind, run: Run<'_, T>, out: &mut [T], stride: usize) {
        match kind {
            BinaryKind::Min => combine(run, out, stride, |a, b| T::apply(BinaryKind::Min, a, b)),
            BinaryKind::Max => combine(run, out, stride, |a, b| T::apply(BinaryKind::Max, a, b)),
            BinaryKind::ShiftRight => combine(run, out, stride, |a, b| T::apply(BinaryKind::ShiftRight, a, b)),
            rare => rare_run(rare, run, out, stride),
        }
    }
}

/// All other functions in one loop, for the sake of the program's size.
#[inline(never)]
fn rare_run<T: Integer>(kind: BinaryKind, run: Run<'_, T>, out: &mut [T], stride: usize) {
    combine(run, out, stride, |a, b| T::apply(kind, a, b));
}

/// out = f(a, b) on integers.
///
/// Errors: slices shorter than the nest's spans, a function that integers do not have ([`has_integer`]).
pub fn integer_binary<T: Integer>(
    isa: Isa,
    kind: BinaryKind,
    shape: &Broadcast,
    a: &[T],
    b: &[T],
    out: &mut [T],
    pool: &Pool,
) -> Result<(), Error> {
    if !has_integer(kind) {
        return Err(Error::Invalid("integers do not have this function"));
    }
    T::binary(isa, kind, shape, a, b, out, pool)
}

/// out = f(a, b) on f64: the four operations, quotients and remainders, extremes, powers.
///
/// Errors: slices shorter than the nest's spans, a function that f64 does not have here.
pub fn double_binary(
    isa: Isa,
    kind: BinaryKind,
    shape: &Broadcast,
    a: &[f64],
    b: &[f64],
    out: &mut [f64],
    pool: &Pool,
) -> Result<(), Error> {
    if !has_double(kind) {
        return Err(Error::Invalid("float64 does not have this function"));
    }
    let level = Level::new(isa);
    shape.runs(a, b, out, pool, &|run, out, stride| double_run(level, kind, run, out, stride))
}

/// out = f(x) on f64, by [`UnaryKind::evaluate`]; both over all elements one after the other.
///
/// Errors: slices of different lengths.
pub fn double_unary(isa: Isa, kind: UnaryKind, x: &[f64], out: &mut [f64], pool: &Pool) -> Result<(), Error> {
    Error::check_len("output", out.len(), x.len())?;
    Error::check_len("operand", x.len(), out.len())?;
    let (level, shared) = (Level::new(isa), Shared::new(out));
    parallel::runs(pool, 1, x.len(), 1, &|_, first, len| {
        // SAFETY: pieces of the one run are disjoint, and within the slice.
        let out = unsafe { shared.piece(first, len) };
        double_each(level, kind, &x[first..first + len], out);
    });
    Ok(())
}

/// Elements that take the quick way together.
const NEIGHBOURS: usize = 32;

/// out = f(x) for every element, by a function without branches where it gives all of some neighbours what [`double`] does.
#[inline(always)]
fn quickly(
    kind: UnaryKind,
    x: &[f64],
    out: &mut [f64],
    is_quick: impl Fn(f64) -> bool,
    quick: impl Fn(f64) -> f64,
) {
    for (x, out) in x.chunks(NEIGHBOURS).zip(out.chunks_mut(NEIGHBOURS)) {
        // No early end: a loop that leaves is not vectorised.
        if x.iter().fold(true, |all, &x| all & is_quick(x)) {
            x.iter().zip(out).for_each(|(&x, out)| *out = quick(x));
        } else {
            x.iter().zip(out).for_each(|(&x, out)| *out = double(kind, x));
        }
    }
}

multiversion! {
    fn double_each(kind: UnaryKind, x: &[f64], out: &mut [f64]) {
        let is_middling = |x: f64| x.abs() <= 690.0;
        match kind {
            UnaryKind::Exp => quickly(kind, x, out, is_middling, math::exp),
            UnaryKind::Sigmoid => quickly(kind, x, out, is_middling, |x| 1.0 / (1.0 + math::exp(-x))),
            UnaryKind::Silu => quickly(kind, x, out, is_middling, |x| x * (1.0 / (1.0 + math::exp(-x)))),
            UnaryKind::Log => {
                let is_normal = |x: f64| (f64::MIN_POSITIVE..f64::INFINITY).contains(&x);
                quickly(kind, x, out, is_normal, math::log_of_positive);
            }
            UnaryKind::Sin => quickly(kind, x, out, math::is_small_angle, math::sin_of_small),
            UnaryKind::Cos => quickly(kind, x, out, math::is_small_angle, math::cos_of_small),
            UnaryKind::Sqrt => quickly(kind, x, out, |x| !x.is_nan(), f64::sqrt),
            UnaryKind::Abs => quickly(kind, x, out, |x| !x.is_nan(), f64::abs),
            UnaryKind::Neg => quickly(kind, x, out, |x| !x.is_nan(), |x| -x),
            UnaryKind::Reciprocal => quickly(kind, x, out, |x| !x.is_nan(), f64::recip),
            UnaryKind::Square => quickly(kind, x, out, |x| !x.is_nan(), |x| x * x),
            kind => x.iter().zip(out).for_each(|(&x, out)| *out = double(kind, x)),
        }
    }
}

/// [`UnaryKind::evaluate`] over all of f64, where differences of exponentials go on beyond ±700.
fn double(kind: UnaryKind, x: f64) -> f64 {
    match kind {
        UnaryKind::ThresholdedRelu(_) => kind.evaluate(x),
        _ if x.is_nan() => x,
        UnaryKind::Expm1 if x > 690.0 => math::exp_to_infinity(x),
        UnaryKind::Sinh if x.abs() > 690.0 => (0.5 * math::exp_to_infinity(x.abs())).copysign(x),
        UnaryKind::Cosh if x.abs() > 690.0 => 0.5 * math::exp_to_infinity(x.abs()),
        _ => kind.evaluate(x),
    }
}

/// Whether [`integer_binary`] has the function.
pub const fn has_integer(kind: BinaryKind) -> bool {
    !matches!(kind, BinaryKind::Atan2 | BinaryKind::LogAddExp) && kind.comparison().is_none()
}

/// Whether [`double_binary`] has the function.
pub const fn has_double(kind: BinaryKind) -> bool {
    matches!(
        kind,
        BinaryKind::Add
            | BinaryKind::Sub
            | BinaryKind::Mul
            | BinaryKind::Div
            | BinaryKind::FloorDiv
            | BinaryKind::Mod
            | BinaryKind::Rem
            | BinaryKind::Min
            | BinaryKind::Max
            | BinaryKind::PRelu
            | BinaryKind::Pow
    )
}

multiversion! {
    fn double_run(kind: BinaryKind, run: Run<'_, f64>, out: &mut [f64], stride: usize) {
        match kind {
            BinaryKind::Add => combine(run, out, stride, |a, b| a + b),
            BinaryKind::Sub => combine(run, out, stride, |a, b| a - b),
            BinaryKind::Mul => combine(run, out, stride, |a, b| a * b),
            BinaryKind::Div => combine(run, out, stride, |a, b| a / b),
            BinaryKind::FloorDiv => combine(run, out, stride, |a: f64, b: f64| (a / b).floor()),
            BinaryKind::Mod => combine(run, out, stride, |a: f64, b: f64| {
                let rest = a % b;
                if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
            }),
            BinaryKind::Rem => combine(run, out, stride, |a: f64, b: f64| a % b),
            BinaryKind::Min => combine(run, out, stride, |a: f64, b: f64| if a < b || a.is_nan() { a } else { b }),
            BinaryKind::Max => combine(run, out, stride, |a: f64, b: f64| if a > b || a.is_nan() { a } else { b }),
            BinaryKind::PRelu => combine(run, out, stride, |a: f64, b: f64| if a < 0.0 { a * b } else { a }),
            BinaryKind::Pow => combine(run, out, stride, math::pow),
            // Refused by the caller.
            _ => {}
        }
    }
}

/// A number that can be compared.
pub trait Ordered: Copy + Send + Sync + PartialOrd + 'static {
    /// [`compare`], compiled once for each type, in this crate, rather than in all that call it.
    ///
    /// Errors: as there.
    fn compare(
        isa: Isa,
        kind: Comparison,
        shape: &Broadcast,
        a: &[Self],
        b: &[Self],
        out: &mut [u8],
        pool: &Pool,
    ) -> Result<(), Error>;
}

macro_rules! ordered {
    ($($type:ty)*) => {$(
        impl Ordered for $type {
            fn compare(
                isa: Isa,
                kind: Comparison,
                shape: &Broadcast,
                a: &[Self],
                b: &[Self],
                out: &mut [u8],
                pool: &Pool,
            ) -> Result<(), Error> {
                let level = Level::new(isa);
                shape.runs(a, b, out, pool, &|run, out, stride| match kind {
                    Comparison::Greater => compare_run(level, Comparison::Less, run.turned(), out, stride),
                    Comparison::GreaterOrEqual => compare_run(level, Comparison::LessOrEqual, run.turned(), out, stride),
                    kind => compare_run(level, kind, run, out, stride),
                })
            }
        }
    )*};
}

ordered!(i8 u8 i16 u16 i32 u32 i64 u64 f32 f64);

multiversion! {
    /// Those that others turn round have no loop here: `Greater` and `GreaterOrEqual`.
    fn compare_run[T: Ordered](kind: Comparison, run: Run<'_, T>, out: &mut [u8], stride: usize) {
        match kind {
            Comparison::Equal | Comparison::NotEqual => {
                let differs = u8::from(kind == Comparison::NotEqual);
                combine(run, out, stride, |a, b| u8::from(a == b) ^ differs);
            }
            Comparison::Less => combine(run, out, stride, |a, b| u8::from(a < b)),
            _ => combine(run, out, stride, |a, b| u8::from(a <= b)),
        }
    }
}

/// out = 1 where the answer is yes, else 0.
///
/// Errors: slices shorter than the nest's spans.
pub fn compare<T: Ordered>(
    isa: Isa,
    kind: Comparison,
    shape: &Broadcast,
    a: &[T],
    b: &[T],
    out: &mut [u8],
    pool: &Pool,
) -> Result<(), Error> {
    T::compare(isa, kind, shape, a, b, out, pool)
}

/// A number that another is made of: integers in i64 (u64 by its bits), floats in f64.
#[derive(Clone, Copy, Debug)]
pub enum Any {
    /// An integer.
    Int(i64),
    /// A u64.
    Big(u64),
    /// A float.
    Real(f64),
}

/// An element type that others can be converted from and to.
///
/// Integers give their low bits; floats are cut towards 0 into i64 (u64 for u64), within its range, and give the low bits
/// of that; NaN gives 0. Into floats, one rounding to nearest even.
pub trait Convertible: Copy + Send + Sync + 'static {
    /// The number.
    fn load(self) -> Any;
    /// The element nearest to a number.
    fn store(any: Any) -> Self;
}

macro_rules! convertible_integers {
    ($($type:ty),*) => {$(
        impl Convertible for $type {
            #[inline(always)]
            fn load(self) -> Any {
                Any::Int(self as i64)
            }
            #[inline(always)]
            fn store(any: Any) -> Self {
                match any {
                    Any::Int(value) => value as Self,
                    Any::Big(value) => value as Self,
                    Any::Real(value) => whole(value) as Self,
                }
            }
        }
    )*};
}

/// A real cut towards 0 within the range of i64, NaN as 0: what `as` gives, by steps that vectors have.
#[inline(always)]
fn whole(x: f64) -> i64 {
    const END: f64 = 9_223_372_036_854_775_808.0;
    // One choice after the other: of choices between choices the compiler makes branches.
    let own = if x >= -END { x } else { -END };
    let own = if x.is_nan() { 0.0 } else { own };
    let inside = if own < END { own } else { 0.0 };
    // SAFETY: between the smallest i64 and the first number that is none.
    let cut = unsafe { inside.to_int_unchecked::<i64>() };
    if own < END { cut } else { i64::MAX }
}

convertible_integers!(u8, i8, u16, i16, u32, i32, i64);

impl Convertible for u64 {
    #[inline(always)]
    fn load(self) -> Any {
        Any::Big(self)
    }
    #[inline(always)]
    fn store(any: Any) -> Self {
        match any {
            Any::Int(value) => value.cast_unsigned(),
            Any::Big(value) => value,
            Any::Real(value) => value as Self,
        }
    }
}

impl Convertible for f32 {
    #[inline(always)]
    fn load(self) -> Any {
        Any::Real(f64::from(self))
    }
    #[inline(always)]
    fn store(any: Any) -> Self {
        match any {
            Any::Int(value) => value as Self,
            Any::Big(value) => value as Self,
            Any::Real(value) => value as Self,
        }
    }
}

impl Convertible for f64 {
    #[inline(always)]
    fn load(self) -> Any {
        Any::Real(self)
    }
    #[inline(always)]
    fn store(any: Any) -> Self {
        match any {
            Any::Int(value) => value as Self,
            Any::Big(value) => value as Self,
            Any::Real(value) => value,
        }
    }
}

macro_rules! convertible_halves {
    ($($type:ident: $widen:ident, $round:ident),*) => {$(
        impl Convertible for $type {
            #[inline(always)]
            fn load(self) -> Any {
                Any::Real(f64::from(half::$widen(self.0)))
            }
            #[inline(always)]
            fn store(any: Any) -> Self {
                Self(half::$round(match any {
                    // Exact in f64, as far as these can tell: an f16 is infinite beyond 65,520, and integers that f64 rounds
                    // come to lie between two of a bf16, where they were.
                    Any::Int(value) => value as f64,
                    Any::Big(value) => value as f64,
                    Any::Real(value) => value,
                }))
            }
        }
    )*};
}

convertible_halves!(F16: f32_of_f16, f16_of_f64, BF16: f32_of_bf16, bf16_of_f64);

/// A bool as it is stored: 0, or 1 for everything that is not 0.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Truth(u8);

impl Convertible for Truth {
    #[inline(always)]
    fn load(self) -> Any {
        Any::Int(i64::from(self.0 != 0))
    }
    #[inline(always)]
    fn store(any: Any) -> Self {
        Self(u8::from(match any {
            Any::Int(value) => value != 0,
            Any::Big(value) => value != 0,
            Any::Real(value) => value != 0.0,
        }))
    }
}

// SAFETY: a transparent u8, of which 0 is a value.
unsafe impl Zeroable for Truth {}
// SAFETY: a transparent u8, of which every pattern is a value.
unsafe impl Pod for Truth {}

/// out = x in another type, over a nest whose second operand repeats x's first element.
///
/// Errors: slices shorter than the nest's spans.
pub fn convert<T: Convertible, O: Convertible>(
    isa: Isa,
    shape: &Broadcast,
    x: &[T],
    out: &mut [O],
    pool: &Pool,
) -> Result<(), Error> {
    let level = Level::new(isa);
    shape.runs(x, x, out, pool, &|run, out, stride| convert_run(level, run, out, stride))
}

multiversion! {
    fn convert_run[T: Convertible, O: Convertible](run: Run<'_, T>, out: &mut [O], stride: usize) {
        combine(run, out, stride, |x, _| O::store(x.load()));
    }
}

/// What each pattern of a byte of a type stands for that nothing computes on.
fn meanings(dtype: DType) -> [Any; 256] {
    std::array::from_fn(|byte| match dtype.decode_integer(byte as u8) {
        Some(integer) => Any::Int(integer),
        None => Any::Real(dtype.decode(byte as u16).unwrap_or(f64::NAN)),
    })
}

/// out = x of a type that is only stored ([`DType::is_storage`]) in another one, over a nest as [`convert`] has it.
///
/// Errors: slices shorter than the nest's spans.
pub fn widen<O: Convertible>(
    dtype: DType,
    shape: &Broadcast,
    x: &[u8],
    out: &mut [O],
    pool: &Pool,
) -> Result<(), Error> {
    let meanings = meanings(dtype);
    shape.runs(x, x, out, pool, &|run, out, stride| {
        combine(run, out, stride, |x: u8, _| O::store(meanings[usize::from(x)]));
    })
}

/// out = x in a type that is only stored ([`DType::is_storage`]), over a nest as [`convert`] has it: reals by
/// [`DType::encode`], integers cut towards 0, of which the low bits are left.
///
/// Errors: slices shorter than the nest's spans.
pub fn narrow<T: Convertible>(
    dtype: DType,
    shape: &Broadcast,
    x: &[T],
    out: &mut [u8],
    pool: &Pool,
) -> Result<(), Error> {
    let mask = ((1_u16 << dtype.bits()) - 1) as u8;
    shape.runs(x, x, out, pool, &|run, out, stride| {
        combine(run, out, stride, |x: T, _| {
            let (integer, real) = match x.load() {
                Any::Int(value) => (value, value as f64),
                Any::Big(value) => (value.cast_signed(), value as f64),
                Any::Real(value) => (value as i64, value),
            };
            dtype.encode(real).map_or(integer as u8 & mask, |bits| bits as u8)
        });
    })
}

/// The loop nest of a choice: extents and, per operand, strides in elements; stride 0 repeats an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    nest: Nest<4>,
}

impl Choice {
    /// A nest of six axes, outermost first; strides are in elements.
    ///
    /// Errors: products that overflow, an output in which two elements overlap.
    pub fn new(
        dims: [usize; RANK],
        condition: [usize; RANK],
        a: [usize; RANK],
        b: [usize; RANK],
        out: [usize; RANK],
    ) -> Result<Self, Error> {
        let mut strides = [[0_i64; 4]; RANK];
        for (axis, strides) in strides.iter_mut().enumerate() {
            for (stride, value) in strides.iter_mut().zip([out[axis], condition[axis], a[axis], b[axis]]) {
                *stride = i64::try_from(value).map_err(|_| Error::Invalid("strided extents overflow"))?;
            }
        }
        Ok(Self { nest: Nest::new(dims, strides, [1; 4])? })
    }

    /// Rows along the outermost axis, where cutting the nest leaves every row whole, and how many elements lie from one to the next
    /// in the output, the condition and both operands; `None` where the output has gaps, or there is one row.
    pub fn rows(&self) -> Option<(usize, [usize; 4])> {
        self.nest.rows()
    }

    /// The nest over the first `count` of [`Self::rows`], one at least: operands that start later in a row's place are others of its rows.
    #[must_use]
    pub fn of_rows(&self, count: usize) -> Self {
        Self { nest: self.nest.of_rows(count) }
    }
}

/// out = a where the condition is not 0, else b.
///
/// Errors: slices shorter than the nest's spans.
pub fn select<T: Copy + Send + Sync>(
    isa: Isa,
    choice: &Choice,
    condition: &[u8],
    a: &[T],
    b: &[T],
    out: &mut [T],
    pool: &Pool,
) -> Result<(), Error> {
    let nest = &choice.nest;
    let span = |i: usize| usize::try_from(nest.span[i][1]).unwrap_or(usize::MAX);
    Error::check_len("output", out.len(), span(0))?;
    Error::check_len("condition", condition.len(), span(1))?;
    Error::check_len("first operand", a.len(), span(2))?;
    Error::check_len("second operand", b.len(), span(3))?;
    if nest.is_empty() {
        return Ok(());
    }
    let inner = nest.inner();
    let [so, sc, sa, sb] = nest.inner_strides().map(|stride| stride as usize);
    let (level, shared) = (Level::new(isa), Shared::new(out));
    parallel::runs(pool, nest.outer(1), inner, 1, &|index, first, len| {
        let [o, c, x, y] = nest.position(1, index).map(|at| at as usize);
        let (condition, a, b) = (&condition[c + first * sc..], &a[x + first * sa..], &b[y + first * sb..]);
        // SAFETY: within the span that was checked; runs, and pieces of one, are disjoint since the nest refuses outputs
        // that overlap themselves.
        let out = unsafe { shared.piece(o + first * so, (len - 1) * so + 1) };
        match [so, sc, sa, sb] {
            // One answer for the whole run.
            [1, 0, ..] => {
                let (from, step) = if condition[0] != 0 { (a, sa) } else { (b, sb) };
                match step {
                    0 => out.fill(from[0]),
                    1 => out.copy_from_slice(&from[..len]),
                    _ => out.iter_mut().zip(from.iter().step_by(step)).for_each(|(out, from)| *out = *from),
                }
            }
            [1, 1, 0 | 1, 0 | 1] => choose(level, out, condition, a, sa, b, sb),
            _ => {
                for i in 0..len {
                    out[i * so] = if condition[i * sc] != 0 { a[i * sa] } else { b[i * sb] };
                }
            }
        }
    });
    Ok(())
}

multiversion! {
    /// Elements that lie behind each other, or are one that repeats; loops that become vectors.
    fn choose[T: Choosable](out: &mut [T], condition: &[u8], a: &[T], step_a: usize, b: &[T], step_b: usize) {
        let places = out.iter_mut().zip(condition);
        match (step_a, step_b) {
            (0, 0) => {
                let (a, b) = (a[0], b[0]);
                for (out, &condition) in places {
                    *out = if condition != 0 { a } else { b };
                }
            }
            (0, _) => {
                let a = a[0];
                for ((out, &condition), &b) in places.zip(b) {
                    *out = if condition != 0 { a } else { b };
                }
            }
            (_, 0) => {
                let b = b[0];
                for ((out, &condition), &a) in places.zip(a) {
                    *out = if condition != 0 { a } else { b };
                }
            }
            _ => {
                for (((out, &condition), &a), &b) in places.zip(a).zip(b) {
                    *out = if condition != 0 { a } else { b };
                }
            }
        }
    }
}

/// An element that can be chosen.
trait Choosable: Copy + Send + Sync {}

impl<T: Copy + Send + Sync> Choosable for T {}

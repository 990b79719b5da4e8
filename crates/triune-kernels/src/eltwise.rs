//! Element by element over two operands with broadcasting: quantized addition and multiplication, f32 arithmetic.

#![expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]

use triune_tensor::{
    Rounding,
    function::{BinaryKind, math as exact},
};

use crate::dispatch::{Level, multiversion};
use crate::parallel::{self, GRAIN, Shared};
use crate::strided::{Nest, RANK};
use crate::{Error, Isa, Pool, Q8, QAdd, math};

/// The loop nest of a binary operator: extents and, per operand, strides in elements; stride 0 repeats an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broadcast {
    nest: Nest<3>,
}

impl Broadcast {
    /// A nest of six axes, outermost first; unused axes have extent 1. Strides are in elements.
    ///
    /// Errors: products that overflow, an output in which two elements overlap.
    pub fn new(
        dims: [usize; RANK],
        a: [usize; RANK],
        b: [usize; RANK],
        out: [usize; RANK],
    ) -> Result<Self, Error> {
        let mut strides = [[0i64; 3]; RANK];
        for (axis, strides) in strides.iter_mut().enumerate() {
            for (stride, value) in strides.iter_mut().zip([out[axis], a[axis], b[axis]]) {
                *stride = i64::try_from(value).map_err(|_| Error::Invalid("strided extents overflow"))?;
            }
        }
        Ok(Self { nest: Nest::new(dims, strides, [1; 3])? })
    }

    /// Both operands and the output lie contiguously, `len` elements each.
    pub fn dense(len: usize) -> Result<Self, Error> {
        let axes = [1, 1, 1, 1, 1, len];
        let strides = [0, 0, 0, 0, 0, 1];
        Self::new(axes, strides, strides, strides)
    }

    /// Rows along the outermost axis, where cutting the nest leaves every row whole, and how many elements lie from one to the next
    /// in the output, the first and the second operand; `None` where the output has gaps, or there is one row.
    pub fn rows(&self) -> Option<(usize, [usize; 3])> {
        self.nest.rows()
    }

    /// The nest over the first `count` of [`Self::rows`], one at least: operands that start later in a row's place are others of its rows.
    #[must_use]
    pub fn of_rows(&self, count: usize) -> Self {
        Self { nest: self.nest.of_rows(count) }
    }

    fn check<A, O>(&self, a: &[A], b: &[A], out: &[O]) -> Result<(), Error> {
        let span = |i: usize| usize::try_from(self.nest.span[i][1]).unwrap_or(usize::MAX);
        Error::check_len("output", out.len(), span(0))?;
        Error::check_len("first operand", a.len(), span(1))?;
        Error::check_len("second operand", b.len(), span(2))
    }

    /// Calls `f(run, out, stride of out)` for every run of the innermost axis, or for pieces of it; runs that are short come as
    /// rows of the axis around them. The slices end with the last element.
    pub(crate) fn runs<A: Sync, O: Send>(
        &self,
        a: &[A],
        b: &[A],
        out: &mut [O],
        pool: &Pool,
        f: &Kernel<'_, A, O>,
    ) -> Result<(), Error> {
        self.check(a, b, out)?;
        if self.nest.is_empty() {
            return Ok(());
        }
        let inner = self.nest.inner();
        let [so, sa, sb] = self.nest.inner_strides().map(|stride| stride as usize);
        let outer = self.nest.outer(1);
        let shared = Shared::new(out);
        if self.nest.rank > 1 && inner < LONG {
            self.short_runs(a, b, &shared, pool, f);
            return Ok(());
        }
        let run = |index: usize, first: usize, len: usize| {
            let [o, a_at, b_at] = self.nest.position(1, index).map(|at| at as usize);
            let (a_at, b_at) = (a_at + first * sa, b_at + first * sb);
            let run = Run {
                a: &a[a_at..][..=(len - 1) * sa],
                stride_a: sa,
                b: &b[b_at..][..=(len - 1) * sb],
                stride_b: sb,
                rows: 1,
                row: [0; 3],
                len,
            };
            // SAFETY: within the span that was checked; runs, and pieces of one run, are disjoint since the nest
            // refuses outputs that overlap themselves.
            f(run, unsafe { shared.piece(o + first * so, (len - 1) * so + 1) }, so);
        };
        if outer == 1 {
            parallel::ranges(pool, inner, GRAIN, &|range| run(0, range.start, range.len()));
        } else {
            parallel::runs(pool, outer, inner, 1, &run);
        }
        Ok(())
    }

    /// Calls `f` on several rows at once.
    fn short_runs<A: Sync, O: Send>(
        &self,
        a: &[A],
        b: &[A],
        shared: &Shared<'_, O>,
        pool: &Pool,
        f: &Kernel<'_, A, O>,
    ) {
        let nest = &self.nest;
        let (len, count) = (nest.inner(), nest.dims[nest.rank - 2]);
        let [so, sa, sb] = nest.inner_strides().map(|stride| stride as usize);
        let row = nest.strides[nest.rank - 2].map(|stride| stride as usize);
        let rows = |index: usize, first: usize, rows: usize| {
            let [o, a_at, b_at] = nest.position(2, index).map(|at| at as usize);
            let (a_at, b_at) = (a_at + first * row[1], b_at + first * row[2]);
            let run = Run {
                a: &a[a_at..][..=(rows - 1) * row[1] + (len - 1) * sa],
                stride_a: sa,
                b: &b[b_at..][..=(rows - 1) * row[2] + (len - 1) * sb],
                stride_b: sb,
                rows,
                row,
                len,
            };
            // SAFETY: within the span that was checked. The nest orders axes by the output's strides and refuses outputs that overlap
            // themselves: no other rows lie between these.
            f(run, unsafe { shared.piece(o + first * row[0], (rows - 1) * row[0] + (len - 1) * so + 1) }, so);
        };
        let outer = nest.outer(2);
        if outer == 1 {
            let grain = GRAIN.div_ceil(len);
            parallel::ranges(pool, count, grain, &|range| rows(0, range.start, range.len()));
        } else {
            parallel::runs(pool, outer, count, len, &rows);
        }
    }
}

/// What computes one run: inputs, output, the output's stride.
pub(crate) type Kernel<'a, A, O> = dyn Fn(Run<'_, A>, &mut [O], usize) + Sync + 'a;

/// One run of both inputs.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a, A> {
    a: &'a [A],
    stride_a: usize,
    b: &'a [A],
    stride_b: usize,
    /// Rows, what lies between them in the output, a and b, and elements of each.
    rows: usize,
    row: [usize; 3],
    len: usize,
}

#[cfg(target_arch = "x86_64")]
impl<'a, A> Run<'a, A> {
    /// The first operand, where it is one row that lies as densely as an output of this stride.
    pub(crate) fn dense_first(&self, stride: usize) -> Option<&'a [A]> {
        (self.rows == 1 && (self.stride_a, stride) == (1, 1)).then(|| &self.a[..self.len])
    }
}

/// Runs of at least so many elements are worth a call each.
const LONG: usize = 512;

impl<T> Run<'_, T> {
    /// The same elements with the operands' places changed.
    pub(crate) fn turned(self) -> Self {
        let Self { a, stride_a, b, stride_b, rows, row: [out, row_a, row_b], len } = self;
        Self { a: b, stride_a: stride_b, b: a, stride_b: stride_a, rows, row: [out, row_b, row_a], len }
    }
}

/// out = f(a, b) over one run: the common strides have loops of their own, which vectorise.
#[inline(always)]
pub(crate) fn combine<A: Copy, O>(run: Run<'_, A>, out: &mut [O], stride: usize, f: impl Fn(A, A) -> O) {
    let Run { a, stride_a, b, stride_b, rows, row, len } = run;
    // One loop for all rows: the function has one caller per form, which takes it in.
    for index in 0..rows {
        let (a, b) = (&a[index * row[1]..], &b[index * row[2]..]);
        let out = &mut out[index * row[0]..][..=(len - 1) * stride];
        match (stride_a, stride_b, stride) {
            (1, 1, 1) => combine_row::<_, _, 1, 1>(a, b, out, &f),
            (1, 0, 1) => combine_row::<_, _, 1, 0>(a, b, out, &f),
            (0, 1, 1) => combine_row::<_, _, 0, 1>(a, b, out, &f),
            _ => {
                for (i, out) in out.iter_mut().step_by(stride.max(1)).enumerate() {
                    *out = f(a[i * stride_a], b[i * stride_b]);
                }
            }
        }
    }
}

/// Elements that become vectors together, however few there are: of loops of any length several vectors would, and what is left of
/// short rows were computed one by one.
pub(crate) const GROUP: usize = 16;

/// Ends a group: without it vectors would be made of the same element of several groups, gathered from all over a row.
#[inline(always)]
pub(crate) fn apart() {
    std::hint::black_box(());
}

/// Partial results, joined by halves until one is left.
#[inline(always)]
pub(crate) fn halved<S: Copy>(mut lanes: [S; GROUP], join: impl Fn(S, S) -> S) -> S {
    // Each width a constant, for which the loop becomes vectors.
    macro_rules! halve {
        ($($width:literal),*) => {$(
            for lane in 0..$width {
                lanes[lane] = join(lanes[lane], lanes[lane + $width]);
            }
        )*};
    }
    const { assert!(GROUP == 16) };
    halve!(8, 4, 2, 1);
    lanes[0]
}

/// Elements of an operand from `first` on, each or one repeated, by step: copies, which no output that is written can be.
#[inline(always)]
pub(crate) fn group<A: Copy, const STEP: usize, const LEN: usize>(x: &[A], first: usize) -> [A; LEN] {
    let mut own = [x[0]; LEN];
    if STEP == 1 {
        own.copy_from_slice(&x[first..][..LEN]);
    }
    own
}

/// One row of [`combine`]. Elements of a byte or two fill vectors only when there are more of them in a group.
#[inline(always)]
fn combine_row<A: Copy, O, const SA: usize, const SB: usize>(
    a: &[A],
    b: &[A],
    out: &mut [O],
    f: &impl Fn(A, A) -> O,
) {
    let last = out.len() - 1;
    let (a, b) = (&a[..=last * SA], &b[..=last * SB]);
    let done = match size_of::<A>().max(size_of::<O>()) {
        1 => combine_groups::<_, _, SA, SB, { 4 * GROUP }>(a, b, out, f),
        2 => combine_groups::<_, _, SA, SB, { 2 * GROUP }>(a, b, out, f),
        _ => 0,
    };
    let (a, b, out) = (&a[done * SA..], &b[done * SB..], &mut out[done..]);
    let done = combine_groups::<_, _, SA, SB, GROUP>(a, b, out, f);
    for (i, out) in out.iter_mut().enumerate().skip(done) {
        *out = f(a[i * SA], b[i * SB]);
    }
}

/// As many whole groups of a row as there are; returns how many elements these have.
#[inline(always)]
fn combine_groups<A: Copy, O, const SA: usize, const SB: usize, const LEN: usize>(
    a: &[A],
    b: &[A],
    out: &mut [O],
    f: &impl Fn(A, A) -> O,
) -> usize {
    let (groups, _) = out.as_chunks_mut::<LEN>();
    let done = groups.len() * LEN;
    for (index, out) in groups.iter_mut().enumerate() {
        let (a, b) = (group::<A, SA, LEN>(a, index * LEN), group::<A, SB, LEN>(b, index * LEN));
        for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
            *out = f(a, b);
        }
        apart();
    }
    done
}

/// out = aᵇ, by a function without branches where it serves all of some neighbours.
#[inline(always)]
fn powers(run: Run<'_, f32>, out: &mut [f32], stride: usize) {
    let Run { a, stride_a, b, stride_b, rows, row, len } = run;
    // No closure: see `multiversion`.
    for index in 0..rows {
        let own = Run {
            a: &a[index * row[1]..][..=(len - 1) * stride_a],
            b: &b[index * row[2]..][..=(len - 1) * stride_b],
            rows: 1,
            ..run
        };
        powers_of_row(own, &mut out[index * row[0]..][..=(len - 1) * stride], stride);
    }
}

#[inline(always)]
fn powers_of_row(run: Run<'_, f32>, out: &mut [f32], stride: usize) {
    const NEIGHBOURS: usize = 64;
    let Run { a, stride_a, b, stride_b, .. } = run;
    if stride_b == 0 && b.first() == Some(&2.0) {
        return combine(run, out, stride, |a, _| a * a);
    }
    if stride_b == 0 && b.first() == Some(&3.0) {
        return combine(run, out, stride, |a, _| a * a * a);
    }
    if (stride_a, stride) != (1, 1) || stride_b > 1 {
        return combine(run, out, stride, math::pow);
    }
    let mut exponents = [b.first().copied().unwrap_or(0.0); NEIGHBOURS];
    for (index, (out, a)) in out.chunks_mut(NEIGHBOURS).zip(a.chunks(NEIGHBOURS)).enumerate() {
        if stride_b == 1 {
            exponents[..a.len()].copy_from_slice(&b[index * NEIGHBOURS..][..a.len()]);
        }
        // No early end: a loop that leaves is not vectorised. And no closures: see `multiversion`.
        let mut plain = true;
        for (&a, &b) in a.iter().zip(&exponents) {
            plain &= math::is_plain_power(a, b);
        }
        if plain {
            for ((out, &a), &b) in out.iter_mut().zip(a).zip(&exponents) {
                *out = math::pow_of_finite(a, b);
            }
        } else {
            for ((out, &a), &b) in out.iter_mut().zip(a).zip(&exponents) {
                *out = math::pow(a, b);
            }
        }
    }
}

/// out = a + b on the quantized integers by the formula of [`QAdd`], with halves to even that of ONNX Runtime's
/// `QLinearAdd`; `add.conv_is_a` plays no part.
///
/// Errors: slices shorter than the nest's spans, parameters that [`QAdd::check`] refuses.
pub fn q8_add(
    isa: Isa,
    add: &QAdd,
    shape: &Broadcast,
    a: &[u8],
    b: &[u8],
    out: &mut [u8],
    pool: &Pool,
) -> Result<(), Error> {
    add.check()?;
    let level = Level::new(isa);
    let mut add = *add;
    add.clamp = add.out.intersect(add.clamp)?;
    shape.runs(a, b, out, pool, &|run, out, stride| q_add_run(level, add, run, out, stride))
}

multiversion! {
    fn q_add_run(add: QAdd, run: Run<'_, u8>, out: &mut [u8], stride: usize) {
        let (a_flip, b_flip) = (add.a.flip(), add.b.flip());
        let (a_bias, b_bias) = (i32::from(a_flip), i32::from(b_flip));
        let zero_point = add.added_zero_point();
        let [low, high] = add.clamp.map(|limit| (limit - zero_point) as f32);
        let sum = |a: u8, b: u8| {
            let a = (i32::from(a ^ a_flip) - a_bias) as f32;
            let b = (i32::from(b ^ b_flip) - b_bias) as f32;
            a.mul_add(add.ra, b.mul_add(add.rb, add.k))
        };
        match add.rounding {
            Rounding::HalfToEven => combine(run, out, stride, |a, b| math::round_to_byte(sum(a, b), low, high)),
            Rounding::HalfAwayFromZero => combine(run, out, stride, |a, b| {
                math::round_away_to_byte(sum(a, b), low, high).wrapping_add(zero_point as u8)
            }),
        }
    }
}

/// A quantized multiplication: clamp(rint(f32((a − zero point)(b − zero point)) · multiplier + zero point)); when halves go
/// away from zero, the zero point is added to what was rounded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QMul {
    /// First factor.
    pub a: Q8,
    /// Second factor.
    pub b: Q8,
    /// The product.
    pub out: Q8,
    /// Scale of a · scale of b / scale of the product.
    pub multiplier: f32,
    /// How the product becomes an integer.
    pub rounding: Rounding,
    /// Smallest and largest result, in the quantized domain of `out`.
    pub clamp: [i32; 2],
}

impl QMul {
    /// The multiplication of `a` and `b`, each with its scale, into `out`: full range. The multiplier is
    /// f32(f32(a·b) / out) as in ONNX Runtime's `QLinearMul`.
    ///
    /// Errors: scales that are not positive and finite, zero points outside of their types.
    pub fn new(
        a: Q8,
        a_scale: f32,
        b: Q8,
        b_scale: f32,
        out: Q8,
        out_scale: f32,
        rounding: Rounding,
    ) -> Result<Self, Error> {
        if ![a_scale, b_scale, out_scale].iter().all(|scale| scale.is_finite() && *scale > 0.0) {
            return Err(Error::Invalid("scales must be positive and finite"));
        }
        let mul = Self { a, b, out, multiplier: a_scale * b_scale / out_scale, rounding, clamp: out.range() };
        mul.check()?;
        Ok(mul)
    }

    /// Refuses parameters on which a product could be NaN or infinite, or that do not fit their types.
    pub fn check(&self) -> Result<(), Error> {
        self.a.check()?;
        self.b.check()?;
        self.out.check()?;
        self.out.intersect(self.clamp)?;
        if f64::from(self.multiplier).abs() * 65_536.0 < f64::from(f32::MAX) {
            Ok(())
        } else {
            Err(Error::Invalid("multiplier overflows f32"))
        }
    }

    /// The byte of the product of the bytes `a` and `b`. Parameters must have passed [`QMul::check`].
    pub fn apply(&self, a: u8, b: u8) -> u8 {
        let product = (self.a.value(a) - self.a.zero_point) * (self.b.value(b) - self.b.zero_point);
        let (scaled, zero) = (product as f32 * self.multiplier, self.out.zero_point as f32);
        let y = match self.rounding {
            // Two roundings: the reference multiplies, then adds.
            Rounding::HalfToEven => (scaled + zero).round_ties_even(),
            Rounding::HalfAwayFromZero => scaled.round() + zero,
        };
        y.clamp(self.clamp[0] as f32, self.clamp[1] as f32) as i32 as u8
    }
}

/// out = a · b on the quantized integers by the formula of [`QMul`], with halves to even that of ONNX Runtime's
/// `QLinearMul`.
///
/// Errors: slices shorter than the nest's spans, parameters that [`QMul::check`] refuses.
pub fn q8_mul(
    isa: Isa,
    mul: &QMul,
    shape: &Broadcast,
    a: &[u8],
    b: &[u8],
    out: &mut [u8],
    pool: &Pool,
) -> Result<(), Error> {
    mul.check()?;
    let level = Level::new(isa);
    let mut mul = *mul;
    mul.clamp = mul.out.intersect(mul.clamp)?;
    shape.runs(a, b, out, pool, &|run, out, stride| q_mul_run(level, mul, run, out, stride))
}

multiversion! {
    fn q_mul_run(mul: QMul, run: Run<'_, u8>, out: &mut [u8], stride: usize) {
        let (a_flip, b_flip) = (mul.a.flip(), mul.b.flip());
        let a_bias = i32::from(a_flip) + mul.a.zero_point;
        let b_bias = i32::from(b_flip) + mul.b.zero_point;
        let scaled = |a: u8, b: u8| {
            let product = (i32::from(a ^ a_flip) - a_bias) * (i32::from(b ^ b_flip) - b_bias);
            product as f32 * mul.multiplier
        };
        let zero_point = mul.out.zero_point;
        match mul.rounding {
            Rounding::HalfToEven => {
                let [low, high] = mul.clamp.map(|limit| limit as f32);
                let zero = zero_point as f32;
                combine(run, out, stride, |a, b| math::round_to_byte(scaled(a, b) + zero, low, high));
            }
            Rounding::HalfAwayFromZero => {
                let [low, high] = mul.clamp.map(|limit| (limit - zero_point) as f32);
                combine(run, out, stride, |a, b| {
                    math::round_away_to_byte(scaled(a, b), low, high).wrapping_add(zero_point as u8)
                });
            }
        }
    }
}

/// out = f(a, b) on f32: arithmetic.
///
/// Errors: slices shorter than the nest's spans, a function that f32 does not have here ([`has_float`]).
pub fn binary(
    isa: Isa,
    kind: BinaryKind,
    shape: &Broadcast,
    a: &[f32],
    b: &[f32],
    out: &mut [f32],
    pool: &Pool,
) -> Result<(), Error> {
    if !has_float(kind) {
        return Err(Error::Invalid("float32 does not have this function"));
    }
    let level = Level::new(isa);
    shape.runs(a, b, out, pool, &|run, out, stride| binary_run(level, kind, run, out, stride))
}

multiversion! {
    fn binary_run(kind: BinaryKind, run: Run<'_, f32>, out: &mut [f32], stride: usize) {
        match kind {
            BinaryKind::Add => combine(run, out, stride, |a, b| a + b),
            BinaryKind::Sub => combine(run, out, stride, |a, b| a - b),
            BinaryKind::Mul => combine(run, out, stride, |a, b| a * b),
            BinaryKind::Div => combine(run, out, stride, |a, b| a / b),
            BinaryKind::Min => combine(run, out, stride, |a: f32, b: f32| if a < b || a.is_nan() { a } else { b }),
            BinaryKind::Max => combine(run, out, stride, |a: f32, b: f32| if a > b || a.is_nan() { a } else { b }),
            BinaryKind::Pow => powers(run, out, stride),
            BinaryKind::FloorDiv => combine(run, out, stride, |a: f32, b: f32| (a / b).floor()),
            BinaryKind::Mod => combine(run, out, stride, math::floor_mod),
            BinaryKind::Rem => combine(run, out, stride, |a: f32, b: f32| a % b),
            BinaryKind::PRelu => combine(run, out, stride, |a: f32, b: f32| if a < 0.0 { a * b } else { a }),
            BinaryKind::Atan2 => combine(run, out, stride, |a: f32, b: f32| exact::atan2(f64::from(a), f64::from(b)) as f32),
            BinaryKind::LogAddExp => combine(run, out, stride, math::log_add_exp),
            // Refused by the caller.
            _ => {}
        }
    }
}

/// Whether [`binary`] has the function.
pub const fn has_float(kind: BinaryKind) -> bool {
    matches!(
        kind,
        BinaryKind::Add
            | BinaryKind::Sub
            | BinaryKind::Mul
            | BinaryKind::Div
            | BinaryKind::Min
            | BinaryKind::Max
            | BinaryKind::Pow
            | BinaryKind::FloorDiv
            | BinaryKind::Mod
            | BinaryKind::Rem
            | BinaryKind::PRelu
            | BinaryKind::Atan2
            | BinaryKind::LogAddExp
    )
}

//! Element by element over one operand: float functions.

#![expect(clippy::inline_always, reason = "vectorised inside of each instruction set's copy of its caller")]

use triune_tensor::function::{UnaryKind, math as exact};

use crate::dispatch::{Level, multiversion};
use crate::{Error, Isa, Nhwc, Pool, math, parallel};
#[cfg(target_arch = "x86_64")]
use crate::{unary_avx2, unary_x86};

/// Calls a generic function with the element function of a `UnaryKind`, so that the choice is made outside of the loop.
macro_rules! with_function {
    ($kind:expr, $call:ident ( $($arg:expr),* )) => {
        match $kind {
            UnaryKind::Identity => $call($($arg,)* |x| x),
            UnaryKind::Relu => $call($($arg,)* |x| math::max(x, 0.0)),
            UnaryKind::LeakyRelu(alpha) => $call($($arg,)* |x| if x < 0.0 { alpha * x } else { x }),
            UnaryKind::Elu(alpha) => $call($($arg,)* |x| if x < 0.0 { alpha * math::expm1(x) } else { x }),
            UnaryKind::Clip([low, high]) => $call($($arg,)* |x| math::min(math::max(x, low), high)),
            UnaryKind::Sigmoid => $call($($arg,)* math::sigmoid),
            UnaryKind::Silu => $call($($arg,)* |x| x * math::sigmoid(x)),
            UnaryKind::HardSigmoid { alpha, beta } => {
                $call($($arg,)* |x| math::max(math::min(alpha.mul_add(x, beta), 1.0), 0.0));
            }
            UnaryKind::HardSwish => {
                $call($($arg,)* |x| x * math::max(math::min((1.0f32 / 6.0).mul_add(x, 0.5), 1.0), 0.0));
            }
            UnaryKind::Tanh => $call($($arg,)* math::tanh),
            UnaryKind::Exp => $call($($arg,)* math::exp),
            UnaryKind::Log => $call($($arg,)* math::log),
            UnaryKind::Sqrt => $call($($arg,)* f32::sqrt),
            UnaryKind::Reciprocal => $call($($arg,)* |x| 1.0 / x),
            UnaryKind::Abs => $call($($arg,)* f32::abs),
            UnaryKind::Neg => $call($($arg,)* |x| -x),
            UnaryKind::Softplus => $call($($arg,)* math::softplus),
            UnaryKind::Erf => $call($($arg,)* math::erf),
            UnaryKind::Gelu => $call($($arg,)* math::gelu),
            UnaryKind::Floor => $call($($arg,)* f32::floor),
            UnaryKind::Ceil => $call($($arg,)* f32::ceil),
            UnaryKind::Round => $call($($arg,)* f32::round_ties_even),
            UnaryKind::Sin => $call($($arg,)* math::sin),
            UnaryKind::Cos => $call($($arg,)* math::cos),
            UnaryKind::Tan => $call($($arg,)* |x| exact::tan(f64::from(x)) as f32),
            UnaryKind::Asin => $call($($arg,)* math::asin),
            UnaryKind::Acos => $call($($arg,)* math::acos),
            UnaryKind::Atan => $call($($arg,)* math::atan),
            UnaryKind::Sinh => $call($($arg,)* |x| exact::sinh(f64::from(x)) as f32),
            UnaryKind::Cosh => $call($($arg,)* |x| exact::cosh(f64::from(x)) as f32),
            UnaryKind::Asinh => $call($($arg,)* |x| exact::asinh(f64::from(x)) as f32),
            UnaryKind::Acosh => $call($($arg,)* |x| exact::acosh(f64::from(x)) as f32),
            UnaryKind::Atanh => $call($($arg,)* |x| exact::atanh(f64::from(x)) as f32),
            UnaryKind::Expm1 => $call($($arg,)* |x| exact::expm1(f64::from(x)) as f32),
            UnaryKind::Log1p => $call($($arg,)* |x| exact::log1p(f64::from(x)) as f32),
            UnaryKind::Erfc => $call($($arg,)* |x| exact::erfc(f64::from(x)) as f32),
            UnaryKind::ErfInv => $call($($arg,)* |x| exact::erfinv(f64::from(x)) as f32),
            UnaryKind::ErfcInv => $call($($arg,)* |x| exact::erfcinv(f64::from(x)) as f32),
            UnaryKind::FastTanh => $call($($arg,)* math::fast_tanh),
            UnaryKind::RoundHalfAway => $call($($arg,)* f32::round),
            UnaryKind::Sign => $call($($arg,)* math::sign),
            UnaryKind::Square => $call($($arg,)* |x| x * x),
            UnaryKind::Rsqrt => $call($($arg,)* |x| 1.0 / x.sqrt()),
            UnaryKind::LogSigmoid => $call($($arg,)* |x: f32| -math::softplus(-x)),
            UnaryKind::Affine { alpha, beta } => $call($($arg,)* |x| alpha.mul_add(x, beta)),
            UnaryKind::ThresholdedRelu(alpha) => $call($($arg,)* |x| if x > alpha { x } else { 0.0 }),
            UnaryKind::ScaledTanh { alpha, beta } => $call($($arg,)* |x| alpha * math::tanh(beta * x)),
            UnaryKind::Softsign => $call($($arg,)* math::softsign),
            UnaryKind::Gate { alpha, beta } => $call($($arg,)* |x| math::gate(x, alpha, beta)),
        }
    };
}

// Never in place: where a function leaves some elements alone, that would become a conditional store.
#[inline(always)]
fn each(x: &[f32], y: &mut [f32], f: impl Fn(f32) -> f32) {
    for (x, y) in x.iter().zip(y) {
        *y = f(*x);
    }
}

/// As [`each`], by a function of fewer steps where it serves all of some neighbours.
#[inline(always)]
fn each_quickly(
    x: &[f32],
    y: &mut [f32],
    is_quick: impl Fn(f32) -> bool,
    quick: impl Fn(f32) -> f32,
    general: impl Fn(f32) -> f32,
) {
    let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<NEIGHBOURS>(), y.as_chunks_mut::<NEIGHBOURS>());
    // The rest is filled up: loops of a length that the compiler knows take two thirds of the time.
    let (mut last, mut results) = ([0.0; NEIGHBOURS], [0.0; NEIGHBOURS]);
    last[..x_rest.len()].copy_from_slice(x_rest);
    let (more, mut y) = (usize::from(!x_rest.is_empty()), y.iter_mut());
    for x in x.iter().chain(std::iter::repeat_n(&last, more)) {
        let y = y.next().unwrap_or(&mut results);
        // No early end: a loop that leaves is not vectorised.
        if x.iter().fold(true, |all, &x| all & is_quick(x)) {
            each(x, y, &quick);
        } else {
            each(x, y, &general);
        }
    }
    y_rest.copy_from_slice(&results[..y_rest.len()]);
}

/// Elements that take the quick way together.
const NEIGHBOURS: usize = 64;

/// y = f(x).
pub(crate) fn apply(level: Level, kind: UnaryKind, x: &[f32], y: &mut [f32]) {
    // SAFETY: the level vouches for the features.
    #[cfg(target_arch = "x86_64")]
    if level.is_512() && unsafe { unary_x86::apply(kind, x, y) } {
        return;
    }
    // SAFETY: the level vouches for the features.
    #[cfg(target_arch = "x86_64")]
    if level.isa() >= Isa::Avx2 && unsafe { unary_avx2::apply(kind, x, y) } {
        return;
    }
    apply_any(level, kind, x, y);
}

/// As [`apply`] over rows of `x`, `width` long, whose first `used` results go `offset` floats behind the outputs' pointers. Says
/// whether it did: few functions are made for it.
///
/// # Safety
/// There is a pointer for each row, behind which nobody else writes so many floats.
pub(crate) unsafe fn apply_rows(
    level: Level,
    kind: UnaryKind,
    x: &[f32],
    extents: [usize; 2],
    outputs: *const *mut f32,
    offset: usize,
) -> bool {
    #[cfg(target_arch = "x86_64")]
    if level.is_512() {
        // SAFETY: the level vouches for the features; the rest is passed on.
        unsafe {
            match kind {
                UnaryKind::Sigmoid => unary_x86::apply_sigmoid_rows::<false>(x, extents, outputs, offset),
                UnaryKind::Silu => unary_x86::apply_sigmoid_rows::<true>(x, extents, outputs, offset),
                _ => return false,
            }
        }
        return true;
    }
    let _ = (level, kind, x, extents, outputs, offset);
    false
}

multiversion! {
    fn apply_any(kind: UnaryKind, x: &[f32], y: &mut [f32]) {
        match kind {
            UnaryKind::Exp => each_quickly(x, y, math::is_middling, math::exp_of_middling, math::exp),
            UnaryKind::Sigmoid => each_quickly(x, y, math::is_middling, math::sigmoid_of_middling, math::sigmoid),
            UnaryKind::Silu => {
                each_quickly(
                    x, y, math::is_middling, |x| x * math::sigmoid_of_middling(x), |x| x * math::sigmoid(x),
                );
            }
            UnaryKind::Gate { alpha, beta } => {
                each_quickly(
                    x, y,
                    |x| math::is_middling(math::gated(x, alpha, beta)),
                    |x| x * math::sigmoid_of_middling(math::gated(x, alpha, beta)),
                    |x| math::gate(x, alpha, beta),
                );
            }
            UnaryKind::Softplus => {
                each_quickly(x, y, math::is_middling, math::softplus_of_middling, math::softplus);
            }
            UnaryKind::Sin => each_quickly(x, y, math::is_small_angle, math::sin_of_small, math::sin),
            UnaryKind::Cos => each_quickly(x, y, math::is_small_angle, math::cos_of_small, math::cos),
            kind => with_function!(kind, each(x, y)),
        }
    }
}

/// y = f(x), element by element over two maps of equal extents.
///
/// A flat operand is `Nhwc::dense(1, 1, len, 1)`. Errors: extents that differ, slices shorter than their maps.
pub fn unary(
    isa: Isa,
    kind: UnaryKind,
    x: &[f32],
    in_map: Nhwc,
    y: &mut [f32],
    out_map: Nhwc,
    pool: &Pool,
) -> Result<(), Error> {
    let level = Level::new(isa);
    parallel::elementwise(pool, x, in_map, y, out_map, &|x, y| apply(level, kind, x, y))
}

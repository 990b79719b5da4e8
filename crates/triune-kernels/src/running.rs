//! Running sums and products along an axis, one element after the other in the elements' own type.

use crate::cancel::{self, SPAN, spans};
use crate::dispatch::{Level, multiversion};
use crate::parallel::{GRAIN, Shared};
use crate::{Error, Isa, Pool};

/// What runs along the middle of `[outer, len, inner]`, dense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningSpec {
    /// Extents before the axis.
    pub outer: usize,
    /// Elements along the axis.
    pub len: usize,
    /// Extents behind the axis.
    pub inner: usize,
    /// Whether products are made instead of sums.
    pub product: bool,
    /// Whether an element itself is left out.
    pub exclusive: bool,
    /// Whether the last element comes first.
    pub reverse: bool,
}

/// A number that running sums and products are made of; integers wrap around.
pub trait Summand: Copy + Send + Sync + 'static {
    /// What changes no sum.
    const ZERO: Self;
    /// What changes no product.
    const ONE: Self;
    /// self + other.
    #[must_use]
    fn plus(self, other: Self) -> Self;
    /// self · other.
    #[must_use]
    fn times(self, other: Self) -> Self;
    /// The sum with a · b, rounded once.
    #[must_use]
    fn plus_product(self, a: Self, b: Self) -> Self;
}

macro_rules! whole_summands {
    ($($type:ty)*) => {$(
        impl Summand for $type {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn plus_product(self, a: Self, b: Self) -> Self {
                self.wrapping_add(a.wrapping_mul(b))
            }
        }
    )*};
}

macro_rules! real_summands {
    ($($type:ty)*) => {$(
        impl Summand for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn plus_product(self, a: Self, b: Self) -> Self {
                a.mul_add(b, self)
            }
        }
    )*};
}

whole_summands!(u8 i8 u16 i16 u32 i32 u64 i64);
real_summands!(f32 f64);

/// Neighbours that go along the axis together.
const BLOCK: usize = 1024;

/// Writes to each place what the elements up to it along the axis become.
///
/// Errors: slices shorter than the extents say, extents that overflow.
pub fn running<T: Summand>(
    isa: Isa,
    spec: &RunningSpec,
    x: &[T],
    out: &mut [T],
    pool: &Pool,
) -> Result<(), Error> {
    let RunningSpec { outer, len, inner, .. } = *spec;
    let elements = outer.checked_mul(len).and_then(|elements| elements.checked_mul(inner));
    let elements = elements.ok_or(Error::Invalid("extents overflow"))?;
    Error::check_len("input", x.len(), elements)?;
    Error::check_len("output", out.len(), elements)?;
    if elements == 0 {
        return Ok(());
    }
    let (level, out) = (Level::new(isa), Shared::new(out));
    let blocks = inner.div_ceil(BLOCK);
    let one = |task: usize| {
        let (first, from) = (task / blocks * len * inner, task % blocks * BLOCK);
        let width = BLOCK.min(inner - from);
        let mut state = [if spec.product { T::ONE } else { T::ZERO }; BLOCK];
        for part in spans(len, width) {
            // SAFETY: tasks have rows or neighbours of their own, within the extents that were checked.
            unsafe { along(level, spec, x, first + from, part.start, part.end, &mut state[..width], &out) };
        }
    };
    let tasks = outer * blocks;
    let steps = len.saturating_mul(inner.min(BLOCK));
    if steps.saturating_mul(tasks) <= GRAIN {
        (0..tasks).for_each(one);
        return Ok(());
    }
    let each = if pool.threads() == 1 { SPAN / steps.max(1) } else { GRAIN.div_ceil(steps) }.max(1);
    pool.run(tasks.div_ceil(each), &|group, _| {
        for task in group * each..tasks.min((group + 1) * each) {
            one(task);
            if steps >= SPAN && cancel::requested() {
                return;
            }
        }
    });
    Ok(())
}

multiversion! {
    /// Goes on from one place along the axis up to another.
    ///
    /// # Safety
    /// Nobody else has what is written: `state`'s neighbours from `first` on.
    unsafe fn along[T: Summand](
        spec: &RunningSpec, x: &[T], first: usize, from: usize, to: usize, state: &mut [T], out: &Shared<'_, T>,
    ) {
        let RunningSpec { len, inner, product, exclusive, reverse, .. } = *spec;
        if let [state] = state {
            // No neighbours: the sum stays in a register.
            let mut own = *state;
            for step in from..to {
                let place = first + (if reverse { len - 1 - step } else { step }) * inner;
                let next = if product { own.times(x[place]) } else { own.plus(x[place]) };
                // SAFETY: the caller's contract.
                unsafe { out.piece(place, 1)[0] = if exclusive { own } else { next } };
                own = next;
            }
            *state = own;
            return;
        }
        for step in from..to {
            let place = first + (if reverse { len - 1 - step } else { step }) * inner;
            // SAFETY: the caller's contract.
            let out = unsafe { out.piece(place, state.len()) };
            let x = &x[place..][..state.len()];
            if exclusive {
                out.copy_from_slice(state);
            }
            if product {
                for (state, &x) in state.iter_mut().zip(x) {
                    *state = state.times(x);
                }
            } else {
                for (state, &x) in state.iter_mut().zip(x) {
                    *state = state.plus(x);
                }
            }
            if !exclusive {
                out.copy_from_slice(state);
            }
        }
    }
}

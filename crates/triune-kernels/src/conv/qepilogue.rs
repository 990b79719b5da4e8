//! From i32 sums to stored bytes: requantize, table, residual. Knows vectors, not where results go.
#![expect(clippy::inline_always, reason = "vector code must be inlined where the instruction set is enabled")]

use triune_tensor::Rounding;

use crate::{
    Q8, QAdd,
    arch::{
        int8::{Int8, Narrow, Sum},
        lookup::{Lookup, lookup},
    },
    dispatch::Level,
};

use super::qconv::Params;

/// The epilogue's constants in the form that vectors take.
#[derive(Debug)]
pub(crate) struct Epilogue {
    /// Upper bound of round(sum · multiplier); the lower one needs no help from f32, the conversion saturates there.
    pub(crate) high: f32,
    /// Whether halves go away from zero instead of to even.
    pub(crate) away: bool,
    /// Lower bound of the same, and what is added to it.
    low: i32,
    zero_point: i32,
    narrow: Narrow,
    table: Option<(Box<[u8; 256]>, Lookup)>,
    residual: Option<Residual>,
}

#[derive(Debug)]
struct Residual {
    conv_is_a: bool,
    conv_signed: bool,
    other_signed: bool,
    sum: Sum,
    narrow: Narrow,
}

/// Room for one vector of bytes of any instruction set.
#[repr(align(64))]
pub(crate) struct Bytes(pub(crate) [u8; 64]);

fn narrow(to: Q8, zero_point: i32, [low, high]: [i32; 2]) -> Narrow {
    let shift = if to.signed { 0 } else { 128 };
    let flip = if to.signed { 0 } else { 0x80 };
    Narrow::new((zero_point - shift) as i16, [(low - shift) as i8, (high - shift) as i8], flip)
}

impl Epilogue {
    pub(crate) fn new(p: &Params, level: Level) -> Self {
        let residual = |add: QAdd| {
            let (conv, other) = add.conv_and_other();
            Residual {
                conv_is_a: add.conv_is_a,
                conv_signed: conv.signed,
                other_signed: other.signed,
                sum: Sum {
                    ra: add.ra,
                    rb: add.rb,
                    k: add.k,
                    high: (add.clamp[1] - add.added_zero_point()) as f32,
                    away: add.rounding == Rounding::HalfAwayFromZero,
                },
                narrow: narrow(add.out, add.added_zero_point(), add.clamp),
            }
        };
        Self {
            high: (p.clamp[1] - p.output.zero_point) as f32,
            away: p.rounding == Rounding::HalfAwayFromZero,
            low: p.clamp[0] - p.output.zero_point,
            zero_point: p.output.zero_point,
            narrow: narrow(p.output, p.output.zero_point, p.clamp),
            table: p.table.clone().map(|table| (table, lookup(level))),
            residual: p.residual.map(residual),
        }
    }

    /// Bytes from scaled values, which [`Int8::scale`] made with [`Epilogue::high`].
    ///
    /// `INTERLEAVED` says that the values are in the order of [`Int8::interleave`]; the bytes never are. `other[j]` points to
    /// the residual's bytes for chunk j, of which `n[j]` exist; it is not used without residual.
    ///
    /// # Safety
    /// That of [`Int8`].
    #[inline(always)]
    pub(crate) unsafe fn finish<S: Int8, const INTERLEAVED: bool>(
        &self,
        v: [S::V; 4],
        other: [*const u8; 4],
        n: [usize; 4],
    ) -> S::B {
        // SAFETY: the caller's contract.
        unsafe {
            let Some(r) = &self.residual else { return self.bytes::<S, INTERLEAVED>(v) };
            let conv = if INTERLEAVED || self.table.is_some() {
                S::widen(self.looked_up::<S, INTERLEAVED>(v), r.conv_signed)
            } else {
                [
                    S::raise(v[0], self.low, self.zero_point),
                    S::raise(v[1], self.low, self.zero_point),
                    S::raise(v[2], self.low, self.zero_point),
                    S::raise(v[3], self.low, self.zero_point),
                ]
            };
            let other = [
                S::load_widen(other[0], n[0], r.other_signed),
                S::load_widen(other[1], n[1], r.other_signed),
                S::load_widen(other[2], n[2], r.other_signed),
                S::load_widen(other[3], n[3], r.other_signed),
            ];
            let (a, b) = if r.conv_is_a { (conv, other) } else { (other, conv) };
            let sum = [
                S::sum(a[0], b[0], &r.sum),
                S::sum(a[1], b[1], &r.sum),
                S::sum(a[2], b[2], &r.sum),
                S::sum(a[3], b[3], &r.sum),
            ];
            S::pack(sum, r.narrow)
        }
    }

    pub(crate) const fn has_residual(&self) -> bool {
        self.residual.is_some()
    }

    /// Looks up `n` stored bytes, which [`Epilogue::bytes`] has left to do for many at once.
    ///
    /// # Safety
    /// `bytes` covers `n` bytes that no other thread uses; the CPU has the instruction set of the epilogue.
    pub(crate) unsafe fn look_up_stored(&self, bytes: *mut u8, n: usize) {
        if let (Some((table, lookup)), None) = (&self.table, &self.residual) {
            // SAFETY: the caller's contract.
            unsafe { lookup(bytes, bytes, n, table) }
        }
    }

    /// Whether [`Epilogue::look_up_stored`] has anything to do.
    pub(crate) const fn looks_up_stored(&self) -> bool {
        self.table.is_some() && self.residual.is_none()
    }

    /// [`Epilogue::finish`] without residual, up to the table: requantized.
    ///
    /// # Safety
    /// That of [`Int8`].
    #[inline(always)]
    pub(crate) unsafe fn bytes<S: Int8, const INTERLEAVED: bool>(&self, v: [S::V; 4]) -> S::B {
        // SAFETY: the caller's contract.
        unsafe { if INTERLEAVED { S::pack_interleaved(v, self.narrow) } else { S::pack(v, self.narrow) } }
    }

    /// Requantized and looked up.
    ///
    /// # Safety
    /// That of [`Int8`].
    #[inline(always)]
    unsafe fn looked_up<S: Int8, const INTERLEAVED: bool>(&self, v: [S::V; 4]) -> S::B {
        // SAFETY: the caller's contract.
        unsafe {
            let bytes = self.bytes::<S, INTERLEAVED>(v);
            let Some((table, lookup)) = &self.table else { return bytes };
            let mut room = Bytes([0; 64]);
            S::store_bytes(room.0.as_mut_ptr(), bytes, 4 * S::LANES);
            let room = room.0.as_mut_ptr();
            lookup(room, room, 4 * S::LANES, table);
            S::load_bytes(room, 4 * S::LANES)
        }
    }
}

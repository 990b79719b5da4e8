//! The vector operations that the 8-bit kernels are written in, one implementation per instruction set.
//!
//! Algorithms lie in `conv/`; nothing here knows windows or maps. Methods are inlined into functions that enable the
//! instruction set, the only place from which they may be called.

/// How i32 results become bytes: saturate to 16 bits, add, saturate to i8, clamp, flip the sign bit.
///
/// Unsigned results are computed 128 lower and flipped at the end, so that one sequence serves both types.
///
/// Each constant fills an i32: broadcasting one from memory is a mere load, that of a byte takes a shuffle as well.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Narrow {
    pub(crate) zero_point: i32,
    pub(crate) low: i32,
    pub(crate) high: i32,
    pub(crate) flip: i32,
}

impl Narrow {
    pub(crate) const fn new(zero_point: i16, [low, high]: [i8; 2], flip: u8) -> Self {
        Self {
            zero_point: zero_point as u16 as i32 | (zero_point as i32) << 16,
            low: fill(low as u8),
            high: fill(high as u8),
            flip: fill(flip),
        }
    }
}

/// Four times the byte.
pub(crate) const fn fill(byte: u8) -> i32 {
    i32::from_ne_bytes([byte; 4])
}

/// An addition as in [`crate::QAdd`]: a·ra + (b·rb + k), bounded by `high`; halves go to even or `away` from zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sum {
    pub(crate) ra: f32,
    pub(crate) rb: f32,
    pub(crate) k: f32,
    pub(crate) high: f32,
    pub(crate) away: bool,
}

/// A matrix product's block: MR rows of packed activations times NV panels of weights.
pub(crate) type GemmKernel = unsafe fn(&crate::conv::Block<'_>);

/// Sums of a product of matrices of bytes: MR rows of packed activations times NV panels.
pub(crate) type SumsKernel = unsafe fn(&crate::imatmul::Block);

/// Dot products of one instruction set.
///
/// # Safety
/// Every method: the CPU has the instruction set, and pointers are valid for what is read or written through them: a whole vector.
pub(crate) trait Dot {
    /// `LANES` values of 32 bits.
    type V: Copy;
    /// 32-bit lanes of a vector.
    const LANES: usize;

    unsafe fn load(p: *const i32) -> Self::V;
    unsafe fn store(p: *mut i32, v: Self::V);
    /// The 4 bytes at `p` in every lane.
    unsafe fn splat(p: *const u8) -> Self::V;
    /// Adds to each lane the dot product of its 4 bytes of activations and of weights: bytes each, or 16 bits.
    unsafe fn dot(sum: Self::V, activations: Self::V, weights: Self::V) -> Self::V;
}

/// Vector operations of one instruction set.
///
/// # Safety
/// Every method: the CPU has the instruction set, and pointers are valid for what is read or written through them:
/// `n` bytes where a length is given, else a whole vector.
pub(crate) trait Int8: Dot {
    /// 4 · `LANES` bytes: four chunks of `LANES`.
    type B: Copy;
    /// Bytes that an activation takes when packed: 1 where the dot product takes bytes, 2 where it takes i16.
    const WIDTH: usize;
    /// Whether packed activations are signed bytes; elsewhere they are unsigned.
    const SIGNED: bool = false;
    /// Whether activations of the other sign than it takes are read as they are, and flipped in registers.
    const FLIPS: bool = false;
    /// Rows of the block that each number of panels is best at, from large to small: what [`Int8::kernel`] has.
    const ROWS: &'static [&'static [usize]];
    /// Output columns that the depthwise kernel keeps in registers.
    const PIXELS: usize;

    /// The kernel for a number of rows and panels out of [`Int8::ROWS`].
    fn kernel(rows: usize, panels: usize) -> GemmKernel;

    /// round(min(f32(sum) · multiplier, high)), halves to even or `away` from zero; below the range of i32, its least value.
    unsafe fn scale(sum: Self::V, multiplier: *const f32, high: f32, away: bool) -> Self::V;
    /// Narrows; chunk j of the bytes is vector j.
    unsafe fn pack(v: [Self::V; 4], narrow: Narrow) -> Self::B;
    /// Narrows vectors that [`Int8::dot4`] computed; channels come out in order.
    unsafe fn pack_interleaved(v: [Self::V; 4], narrow: Narrow) -> Self::B;
    /// Widens i8 or u8; vector j is chunk j.
    unsafe fn widen(bytes: Self::B, signed: bool) -> [Self::V; 4];
    /// Widens the first `n` ≤ `LANES` bytes at `p`; the other lanes are unspecified.
    unsafe fn load_widen(p: *const u8, n: usize, signed: bool) -> Self::V;
    /// max(v, low) + offset.
    unsafe fn raise(v: Self::V, low: i32, offset: i32) -> Self::V;
    /// The rounded sum, as in [`Int8::scale`].
    unsafe fn sum(a: Self::V, b: Self::V, sum: &Sum) -> Self::V;
    /// The first `n` ≤ 4 · `LANES` bytes at `p`; the others are unspecified.
    unsafe fn load_bytes(p: *const u8, n: usize) -> Self::B;
    unsafe fn store_bytes(p: *mut u8, bytes: Self::B, n: usize);
    /// Stores chunk j to `to[j]`: `LANES` bytes, or `n[j]` if fewer.
    unsafe fn store_chunks(to: [*mut u8; 4], bytes: Self::B, n: [usize; 4]);
    /// Flips bits; `flip` as in [`fill`].
    unsafe fn flip(bytes: Self::B, flip: i32) -> Self::B;
    /// The bytes of each channel in 4 rows become neighbours: four vectors for [`Int8::dot4`], eight if `WIDTH` is 2.
    unsafe fn interleave(rows: [Self::B; 4]) -> [Self::V; 8];
    /// Adds the dot product over 4 rows; `weights` points to 16 · `WIDTH` · `LANES` bytes in the same interleaved order.
    unsafe fn dot4(sum: [Self::V; 4], rows: [Self::V; 8], weights: *const u8) -> [Self::V; 4];
    /// Packs `n` activations: `n` · `WIDTH` bytes, and up to 64 bytes more may be overwritten with anything.
    unsafe fn pack_activations(to: *mut u8, from: *const u8, n: usize, flip: u8);
    /// Packs `n` times the same activation, 0..=255, under the same terms.
    unsafe fn fill_activations(to: *mut u8, value: u8, n: usize);
}

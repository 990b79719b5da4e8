//! The sums on AVX2. Products are of 16 bits, two of which one instruction adds up, so that a weight is two halves: of 11 bits
//! below and a sign with what is above. The sums of the upper halves are shifted at last.

use std::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm_packs_epi32, _mm_packus_epi16, _mm_set_epi32, _mm_storel_epi64,
    _mm_storeu_si128, _mm_unpackhi_epi8, _mm_unpacklo_epi8, _mm_unpacklo_epi16, _mm256_add_epi32,
    _mm256_broadcastsi128_si256, _mm256_castsi256_si128, _mm256_cvtepu8_epi16, _mm256_extracti128_si256,
    _mm256_hadd_epi32, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_packs_epi32, _mm256_packus_epi16,
    _mm256_permute4x64_epi64, _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_setzero_si256,
    _mm256_shuffle_epi8, _mm256_slli_epi32, _mm256_srai_epi32,
};

use super::{
    plain::{HALF, STEP},
    weights::{Axis, BITS},
};

/// Bits of a weight's lower half.
const LOW: i32 = 11;
/// Elements that a vector adds up at once, and results side by side.
const TAPS: usize = 4;
const BLOCK: usize = 4;

/// Four weights each of four results: the lower halves, then the upper ones.
type Group = [[i16; TAPS * BLOCK]; 2];

/// Weights along a row as vectors take them.
pub(super) struct Packed {
    /// In bytes, for each result, of which there are a multiple of `STEP`.
    starts: Vec<usize>,
    /// `count` for each block of results.
    groups: Vec<Group>,
    count: usize,
    reach: usize,
}

fn halves(weight: i32) -> [i16; 2] {
    [(weight & ((1 << LOW) - 1)) as i16, (weight >> LOW) as i16]
}

impl Packed {
    pub(super) fn new(axis: &Axis, pixel: usize) -> Self {
        let count = axis.most().div_ceil(TAPS);
        let results = axis.len().next_multiple_of(STEP);
        let mut starts = vec![0; results];
        let mut groups: Vec<Group> = vec![[[0; TAPS * BLOCK]; 2]; results / BLOCK * count];
        for index in 0..axis.len() {
            let (first, weights) = axis.taps(index);
            starts[index] = first * pixel;
            for (tap, &weight) in weights.iter().enumerate() {
                let group = &mut groups[index / BLOCK * count + tap / TAPS];
                let at = index % BLOCK * TAPS + tap % TAPS;
                [group[0][at], group[1][at]] = halves(weight);
            }
        }
        let last = (count - 1) * TAPS * pixel + if pixel == 1 { TAPS } else { 16 };
        let reach = starts.iter().max().map_or(0, |start| start + last);
        Self { starts, groups, count, reach }
    }

    /// Bytes that are read of a row, or behind it.
    pub(super) fn reach(&self) -> usize {
        self.reach
    }
}

/// As [`super::plain::across`], of at least [`Packed::reach`] bytes.
#[target_feature(enable = "avx2")]
pub(super) fn across(packed: &Packed, pixel: usize, x: &[u8], y: &mut [u8]) {
    // SAFETY: checked just here; starts are below the reach by as much as is read there.
    assert!(x.len() >= packed.reach, "vectors would reach out of the picture");
    match (pixel, packed.count) {
        (1, _) => gray(packed, x, y),
        (3, 1) => color::<3, 1>(packed, x, y),
        (3, 2) => color::<3, 2>(packed, x, y),
        (3, _) => color::<3, 0>(packed, x, y),
        (_, 1) => color::<4, 1>(packed, x, y),
        (_, 2) => color::<4, 2>(packed, x, y),
        _ => color::<4, 0>(packed, x, y),
    }
}

/// Sums of lower and upper halves as one.
#[inline]
#[target_feature(enable = "avx2")]
fn joined([low, high]: [__m256i; 2]) -> __m256i {
    _mm256_add_epi32(low, _mm256_slli_epi32::<LOW>(high))
}

/// Sums as whole numbers, rounded.
#[inline]
#[target_feature(enable = "avx2")]
fn rounded(sums: __m256i) -> __m256i {
    _mm256_srai_epi32::<{ BITS as i32 }>(_mm256_add_epi32(sums, _mm256_set1_epi32(HALF)))
}

/// Pixels of three or four bytes; `COUNT` groups a block, or with 0 as many as there are.
#[inline]
#[target_feature(enable = "avx2")]
fn color<const PIXEL: usize, const COUNT: usize>(packed: &Packed, x: &[u8], y: &mut [u8]) {
    let count = if COUNT == 0 { packed.count } else { COUNT };
    // Channels one after the other, four pixels of each, as 16 bits.
    let mut order = [0x80_u8; 32];
    for channel in 0..PIXEL {
        for tap in 0..TAPS {
            order[2 * (channel * TAPS + tap)] = (tap * PIXEL + channel) as u8;
        }
    }
    // SAFETY: as many bytes as a vector has.
    let order = unsafe { _mm256_loadu_si256(order.as_ptr().cast()) };
    let blocks = packed.groups.chunks_exact(count).zip(packed.starts.as_chunks::<BLOCK>().0);
    for ((groups, starts), y) in blocks.zip(y.as_chunks_mut::<16>().0) {
        let mut sums = [_mm256_setzero_si256(); BLOCK];
        for result in 0..BLOCK {
            let mut halves = [_mm256_setzero_si256(); 2];
            for (at, group) in groups.iter().enumerate() {
                // SAFETY: inside of the reach, see `across`.
                let bytes =
                    unsafe { _mm_loadu_si128(x.as_ptr().add(starts[result] + at * TAPS * PIXEL).cast()) };
                let pixels = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), order);
                for (sum, weights) in halves.iter_mut().zip(group) {
                    // SAFETY: four weights of the block's sixteen.
                    let four = unsafe { weights.as_ptr().add(result * TAPS).cast::<i64>().read_unaligned() };
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pixels, _mm256_set1_epi64x(four)));
                }
            }
            sums[result] = joined(halves);
        }
        // Red and green of two pixels each in the lower half, blue and the fourth in the upper one.
        let [a, b, c, d] = sums;
        let whole = _mm256_packs_epi32(rounded(_mm256_hadd_epi32(a, b)), rounded(_mm256_hadd_epi32(c, d)));
        let bytes = _mm256_packus_epi16(whole, whole);
        let bytes = _mm_unpacklo_epi16(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256::<1>(bytes));
        // SAFETY: as many bytes as the vector has.
        unsafe { _mm_storeu_si128(y.as_mut_ptr().cast(), bytes) };
    }
}

/// Pixels of one byte.
#[inline]
#[target_feature(enable = "avx2")]
fn gray(packed: &Packed, x: &[u8], y: &mut [u8]) {
    let count = packed.count;
    let blocks = packed.groups.chunks_exact(2 * count).zip(packed.starts.as_chunks::<{ 2 * BLOCK }>().0);
    for ((groups, starts), y) in blocks.zip(y.as_chunks_mut::<{ 2 * BLOCK }>().0) {
        let mut sums = [_mm256_setzero_si256(); 2];
        for (half, sum) in sums.iter_mut().enumerate() {
            let mut halves = [_mm256_setzero_si256(); 2];
            for at in 0..count {
                // SAFETY: inside of the reach, see `across`.
                let four = |result: usize| unsafe {
                    x.as_ptr().add(starts[half * BLOCK + result] + at * TAPS).cast::<i32>().read_unaligned()
                };
                let pixels = _mm256_cvtepu8_epi16(_mm_set_epi32(four(3), four(2), four(1), four(0)));
                for (sum, weights) in halves.iter_mut().zip(&groups[half * count + at]) {
                    // SAFETY: as many weights as the vector has.
                    let weights = unsafe { _mm256_loadu_si256(weights.as_ptr().cast()) };
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pixels, weights));
                }
            }
            *sum = joined(halves);
        }
        let [a, b] = sums;
        // Two results of each, and two of each: in order at last.
        let whole = rounded(_mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_hadd_epi32(a, b)));
        let whole = _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256::<1>(whole));
        // SAFETY: eight bytes.
        unsafe { _mm_storel_epi64(y.as_mut_ptr().cast(), _mm_packus_epi16(whole, whole)) };
    }
}

/// Weights of rows as vectors take them, two at a time.
pub(super) struct Pairs {
    /// `count` for each row: the lower halves of two rows' weights, then the upper ones.
    pairs: Vec<[i32; 2]>,
    count: usize,
}

impl Pairs {
    pub(super) fn new(axis: &Axis) -> Self {
        let count = axis.most().div_ceil(2);
        let mut pairs = vec![[0; 2]; axis.len() * count];
        for index in 0..axis.len() {
            for (tap, &weight) in axis.taps(index).1.iter().enumerate() {
                let both = &mut pairs[index * count + tap / 2];
                for (both, half) in both.iter_mut().zip(halves(weight)) {
                    *both |= (i32::from(half) & 0xffff) << (16 * (tap % 2));
                }
            }
        }
        Self { pairs, count }
    }
}

/// As [`super::plain::down`], with the weights of a row of the result; returns how many bytes are done, from the first on.
#[target_feature(enable = "avx2")]
pub(super) fn down(rows: &[u8], offsets: &[usize], pairs: &Pairs, row: usize, y: &mut [u8]) -> usize {
    /// Bytes of a row at once.
    const WIDTH: usize = 16;
    let pairs = &pairs.pairs[row * pairs.count..][..offsets.len().div_ceil(2)];
    // SAFETY: checked just here.
    assert!(offsets.iter().all(|offset| offset + y.len() <= rows.len()), "a row is as long as the result");
    for (part, y) in y.as_chunks_mut::<WIDTH>().0.iter_mut().enumerate() {
        let mut sums = [[_mm256_setzero_si256(); 2]; 2];
        for (offsets, weights) in offsets.chunks(2).zip(pairs) {
            // SAFETY: inside of the rows, see above.
            let row =
                |offset: usize| unsafe { _mm_loadu_si128(rows.as_ptr().add(offset + part * WIDTH).cast()) };
            // Without a second one, the first one's weight there is 0.
            let (a, b) = (row(offsets[0]), row(offsets[offsets.len() - 1]));
            let bytes = [_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)];
            for (sums, bytes) in sums.iter_mut().zip(bytes) {
                let pixels = _mm256_cvtepu8_epi16(bytes);
                for (sum, &both) in sums.iter_mut().zip(weights) {
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pixels, _mm256_set1_epi32(both)));
                }
            }
        }
        let [a, b] = sums.map(|sums| rounded(joined(sums)));
        let whole = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(a, b));
        let bytes = _mm_packus_epi16(_mm256_castsi256_si128(whole), _mm256_extracti128_si256::<1>(whole));
        // SAFETY: as many bytes as the vector has.
        unsafe { _mm_storeu_si128(y.as_mut_ptr().cast(), bytes) };
    }
    y.len() / WIDTH * WIDTH
}

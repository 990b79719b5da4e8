//! Tiles of 16 × 16 elements transposed in registers.
//!
//! Elements of neighbouring lines are interleaved, then pairs of them, then fours, as far as a register of 128 bits goes; what is
//! left is an exchange of such quarters.

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::{
    uint8x16_t, vld1q_u8, vld1q_u32, vreinterpretq_u32_u64, vreinterpretq_u64_u32, vst1q_u8, vst1q_u32,
    vtrn1q_u32, vtrn1q_u64, vtrn2q_u32, vtrn2q_u64, vzip1q_u8, vzip2q_u8,
};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m128i, __m256, __m256i, __m512, _mm_loadu_ps, _mm_loadu_si128, _mm_storeu_si128, _mm_unpackhi_epi8,
    _mm_unpacklo_epi8, _mm256_castpd_ps, _mm256_castps_pd, _mm256_castps128_ps256, _mm256_insertf128_ps,
    _mm256_loadu_pd, _mm256_loadu_si256, _mm256_loadu2_m128i, _mm256_permute2f128_pd, _mm256_permute2f128_ps,
    _mm256_setzero_pd, _mm256_setzero_ps, _mm256_storeu_pd, _mm256_storeu_ps, _mm256_storeu_si256,
    _mm256_storeu2_m128i, _mm256_unpackhi_epi8, _mm256_unpackhi_pd, _mm256_unpackhi_ps, _mm256_unpacklo_epi8,
    _mm256_unpacklo_pd, _mm256_unpacklo_ps, _mm512_castpd_ps, _mm512_castps_pd, _mm512_loadu_ps,
    _mm512_setzero_ps, _mm512_shuffle_f32x4, _mm512_storeu_ps, _mm512_unpackhi_pd, _mm512_unpackhi_ps,
    _mm512_unpacklo_pd, _mm512_unpacklo_ps,
};

/// Lines and columns of a tile.
const SIDE: usize = 16;

/// Lines of the source become columns of the destination; steps are in bytes.
///
/// # Safety
/// 16 lines of 64 bytes lie `src_step` apart from `src` on, and as many `dst_step` apart from `dst` on, the latter to write.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
pub(crate) unsafe fn words_avx512(src: *const u8, src_step: isize, dst: *mut u8, dst_step: isize) {
    let mut lines = [_mm512_setzero_ps(); SIDE];
    for (index, line) in lines.iter_mut().enumerate() {
        // SAFETY: a line of the caller's.
        *line = unsafe { _mm512_loadu_ps(src.offset(index as isize * src_step).cast()) };
    }
    // Element c of lines 4g to 4g + 3 in quarter c / 4 of register 4g + c % 4.
    let mut fours = lines;
    for (four, lines) in fours.as_chunks_mut::<4>().0.iter_mut().zip(lines.as_chunks::<4>().0) {
        let [a, b, c, d] = *lines;
        let (low, high) = (_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
        let (next_low, next_high) = (_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
        *four = [
            pairs_low(low, next_low),
            pairs_high(low, next_low),
            pairs_low(high, next_high),
            pairs_high(high, next_high),
        ];
    }
    for k in 0..4 {
        let (a, b, c, d) = (fours[k], fours[4 + k], fours[8 + k], fours[12 + k]);
        let (even, odd) = (_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
        let (next_even, next_odd) = (_mm512_shuffle_f32x4::<0x88>(c, d), _mm512_shuffle_f32x4::<0xdd>(c, d));
        let columns = [
            _mm512_shuffle_f32x4::<0x88>(even, next_even),
            _mm512_shuffle_f32x4::<0x88>(odd, next_odd),
            _mm512_shuffle_f32x4::<0xdd>(even, next_even),
            _mm512_shuffle_f32x4::<0xdd>(odd, next_odd),
        ];
        for (quarter, column) in columns.into_iter().enumerate() {
            // SAFETY: a line of the caller's.
            unsafe { _mm512_storeu_ps(dst.offset((4 * quarter + k) as isize * dst_step).cast(), column) };
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn pairs_low(a: __m512, b: __m512) -> __m512 {
    _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn pairs_high(a: __m512, b: __m512) -> __m512 {
    _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)))
}

/// As [`words_avx512`], in four quarters of 8 × 8.
///
/// # Safety
/// As there.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
pub(crate) unsafe fn words_avx2(src: *const u8, src_step: isize, dst: *mut u8, dst_step: isize) {
    const WORDS: isize = 8;
    for (line, word) in [(0, 0), (WORDS, 0), (0, WORDS), (WORDS, WORDS)] {
        // SAFETY: the quarter's lines from its first word on, and where they go.
        let columns = unsafe { columns_of_eight(src.offset(line * src_step + word * 4), src_step) };
        for (index, column) in columns.into_iter().enumerate() {
            let to = dst.wrapping_offset((word + index as isize) * dst_step + line * 4);
            // SAFETY: half of a line of the caller's.
            unsafe { _mm256_storeu_ps(to.cast(), column) };
        }
    }
}

/// As [`words_avx512`], of words of 64 bits, in sixteen parts of 4 × 4.
///
/// # Safety
/// 16 lines of 128 bytes lie `src_step` apart from `src` on, and as many `dst_step` apart from `dst` on, the latter to write.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
pub(crate) unsafe fn longs_avx2(src: *const u8, src_step: isize, dst: *mut u8, dst_step: isize) {
    const PART: isize = 4;
    for part in 0..(SIDE * SIDE) as isize / (PART * PART) {
        let (line, word) = (part / PART * PART, part % PART * PART);
        let mut lines = [_mm256_setzero_pd(); PART as usize];
        for (index, own) in lines.iter_mut().enumerate() {
            // SAFETY: words of a line of the caller's.
            *own =
                unsafe { _mm256_loadu_pd(src.offset((line + index as isize) * src_step + word * 8).cast()) };
        }
        let [a, b, c, d] = lines;
        let (even, odd) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
        let (next_even, next_odd) = (_mm256_unpacklo_pd(c, d), _mm256_unpackhi_pd(c, d));
        let columns = [
            _mm256_permute2f128_pd::<0x20>(even, next_even),
            _mm256_permute2f128_pd::<0x20>(odd, next_odd),
            _mm256_permute2f128_pd::<0x31>(even, next_even),
            _mm256_permute2f128_pd::<0x31>(odd, next_odd),
        ];
        for (index, column) in columns.into_iter().enumerate() {
            // SAFETY: as above.
            unsafe {
                _mm256_storeu_pd(dst.offset((word + index as isize) * dst_step + line * 8).cast(), column);
            }
        }
    }
}

/// The columns of eight words of eight lines.
///
/// Loops and a macro, no closures: those are not always taken in, and would be calls that pass vectors through memory.
///
/// # Safety
/// The lines lie `step` bytes apart from `src` on.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) unsafe fn columns_of_eight(src: *const u8, step: isize) -> [__m256; 8] {
    // SAFETY: four words each of the caller's lines.
    let halves = unsafe { [columns_of_half(src, step), columns_of_half(src.add(16), step)] };
    let mut columns = [_mm256_setzero_ps(); 8];
    columns.copy_from_slice(halves.as_flattened());
    columns
}

/// The columns of four words of eight lines. Lines come in halves, so that none has to change its half later: loads have more ports
/// than exchanges.
///
/// # Safety
/// The lines lie `step` bytes apart from `src` on.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) unsafe fn columns_of_half(src: *const u8, step: isize) -> [__m256; 4] {
    let mut lines = [_mm256_setzero_ps(); 4];
    for (index, line) in lines.iter_mut().enumerate() {
        // SAFETY: four words of two of the caller's lines.
        *line = unsafe {
            let low = _mm_loadu_ps(src.offset(index as isize * step).cast());
            let high = _mm_loadu_ps(src.offset((index as isize + 4) * step).cast());
            _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(low), high)
        };
    }
    columns_of_four(lines)
}

/// Element c of each in both halves: that half's column c.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn columns_of_four([a, b, c, d]: [__m256; 4]) -> [__m256; 4] {
    macro_rules! pairs {
        ($unpack:ident, $a:expr, $b:expr) => {
            _mm256_castpd_ps($unpack(_mm256_castps_pd($a), _mm256_castps_pd($b)))
        };
    }
    let (first, second) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
    let (third, fourth) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
    [
        pairs!(_mm256_unpacklo_pd, first, second),
        pairs!(_mm256_unpackhi_pd, first, second),
        pairs!(_mm256_unpacklo_pd, third, fourth),
        pairs!(_mm256_unpackhi_pd, third, fourth),
    ]
}

/// The columns of eight lines of eight words.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn columns_of_lines(lines: [__m256; 8]) -> [__m256; 8] {
    // Of four lines: element c % 4 in each half, which is that of c / 4.
    let [a, b, c, d, e, f, g, h] = lines;
    let (low, high) = (columns_of_four([a, b, c, d]), columns_of_four([e, f, g, h]));
    let mut columns = lines;
    for column in 0..4 {
        columns[column] = _mm256_permute2f128_ps::<0x20>(low[column], high[column]);
        columns[4 + column] = _mm256_permute2f128_ps::<0x31>(low[column], high[column]);
    }
    columns
}

/// As `words_avx512` of machines that have it, in sixteen parts of 4 × 4.
///
/// # Safety
/// 16 lines of 64 bytes lie `src_step` apart from `src` on, and as many `dst_step` apart from `dst` on, the latter to write.
#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
pub(crate) unsafe fn words_neon(src: *const u8, src_step: isize, dst: *mut u8, dst_step: isize) {
    const PART: usize = 4;
    for (line, word) in
        (0..SIDE).step_by(PART).flat_map(|line| (0..SIDE).step_by(PART).map(move |word| (line, word)))
    {
        // SAFETY: words of a line of the caller's.
        let at = |index: usize| unsafe {
            vld1q_u32(src.offset((line + index) as isize * src_step).add(4 * word).cast())
        };
        let pairs = |a, b| {
            let (a, b) = (vreinterpretq_u64_u32(a), vreinterpretq_u64_u32(b));
            [vreinterpretq_u32_u64(vtrn1q_u64(a, b)), vreinterpretq_u32_u64(vtrn2q_u64(a, b))]
        };
        let [a, b, c, d] = [at(0), at(1), at(2), at(3)];
        let [first, third] = pairs(vtrn1q_u32(a, b), vtrn1q_u32(c, d));
        let [second, fourth] = pairs(vtrn2q_u32(a, b), vtrn2q_u32(c, d));
        for (index, column) in [first, second, third, fourth].into_iter().enumerate() {
            // SAFETY: as above.
            unsafe { vst1q_u32(dst.offset((word + index) as isize * dst_step).add(4 * line).cast(), column) };
        }
    }
}

macro_rules! bytes {
    ($name:ident, $feature:literal, $vector:ty, $load:ident, $store:ident, $low:ident, $high:ident) => {
        /// Bytes of lines become those of columns, with what every machine of the kind has; steps are in bytes.
        ///
        /// # Safety
        /// 16 lines of 16 bytes lie `src_step` apart from `src` on, and as many `dst_step` apart from `dst` on, the latter to write.
        #[target_feature(enable = $feature)]
        pub(crate) unsafe fn $name(src: *const u8, src_step: isize, dst: *mut u8, dst_step: isize) {
            // SAFETY: a line of the caller's.
            let line = |index: usize| unsafe { $load(src.offset(index as isize * src_step).cast()) };
            let mut lines: [$vector; SIDE] = std::array::from_fn(line);
            // Line i interleaved with line i + 8: the numbers of line and column, as eight bits, turn by one bit each time.
            for _ in 0..4 {
                let old = lines;
                for index in 0..SIDE / 2 {
                    lines[2 * index] = $low(old[index], old[index + SIDE / 2]);
                    lines[2 * index + 1] = $high(old[index], old[index + SIDE / 2]);
                }
            }
            for (index, line) in lines.into_iter().enumerate() {
                // SAFETY: a line of the caller's.
                unsafe { $store(dst.offset(index as isize * dst_step).cast(), line) };
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
bytes!(bytes_sse2, "sse2", __m128i, _mm_loadu_si128, _mm_storeu_si128, _mm_unpacklo_epi8, _mm_unpackhi_epi8);
#[cfg(target_arch = "aarch64")]
bytes!(bytes_neon, "neon", uint8x16_t, vld1q_u8, vst1q_u8, vzip1q_u8, vzip2q_u8);

/// Bytes of 32 lines of 16 become 16 lines of 32; steps are in bytes.
///
/// # Safety
/// So many lines lie `src_step` apart from `src` on and `dst_step` apart from `dst` on, the latter to write; the machine has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
pub(crate) unsafe fn bytes_32x16(src: *const u8, src_step: usize, dst: *mut u8, dst_step: usize) {
    // SAFETY: lines of the caller's, each half of a vector.
    let line = |index: usize| unsafe {
        let half = |index: usize| src.add(index * src_step).cast();
        _mm256_loadu2_m128i(half(index + SIDE), half(index))
    };
    for (index, column) in columns_of_halves(std::array::from_fn(line)).into_iter().enumerate() {
        // SAFETY: a line of the caller's.
        unsafe { _mm256_storeu_si256(dst.add(index * dst_step).cast(), column) };
    }
}

/// As [`bytes_32x16`], back: bytes of 16 lines of 32 become 32 lines of 16.
///
/// # Safety
/// As there.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
pub(crate) unsafe fn bytes_16x32(src: *const u8, src_step: usize, dst: *mut u8, dst_step: usize) {
    // SAFETY: a line of the caller's.
    let line = |index: usize| unsafe { _mm256_loadu_si256(src.add(index * src_step).cast()) };
    for (index, column) in columns_of_halves(std::array::from_fn(line)).into_iter().enumerate() {
        let half = |index: usize| dst.wrapping_add(index * dst_step).cast();
        // SAFETY: lines of the caller's, each half of a vector.
        unsafe { _mm256_storeu2_m128i(half(index + SIDE), half(index), column) };
    }
}

/// The columns of 16 lines in the lower halves, and those of 16 others in the upper ones.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn columns_of_halves(mut lines: [__m256i; SIDE]) -> [__m256i; SIDE] {
    // As bytes are transposed in single registers of 128 bits.
    for _ in 0..4 {
        let old = lines;
        for index in 0..SIDE / 2 {
            lines[2 * index] = _mm256_unpacklo_epi8(old[index], old[index + SIDE / 2]);
            lines[2 * index + 1] = _mm256_unpackhi_epi8(old[index], old[index + SIDE / 2]);
        }
    }
    lines
}

/// Bytes of 32 lines of 16 become 16 lines of 32; steps are in bytes.
///
/// # Safety
/// So many lines lie `src_step` apart from `src` on and `dst_step` apart from `dst` on, the latter to write.
#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
pub(crate) unsafe fn bytes_32x16(src: *const u8, src_step: usize, dst: *mut u8, dst_step: usize) {
    for half in [0, SIDE] {
        // SAFETY: half of the caller's lines, and of each column.
        unsafe { bytes_neon(src.add(half * src_step), src_step as isize, dst.add(half), dst_step as isize) };
    }
}

/// As [`bytes_32x16`], back: bytes of 16 lines of 32 become 32 lines of 16.
///
/// # Safety
/// As there.
#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
pub(crate) unsafe fn bytes_16x32(src: *const u8, src_step: usize, dst: *mut u8, dst_step: usize) {
    for half in [0, SIDE] {
        // SAFETY: half of each of the caller's lines, and of the columns.
        unsafe { bytes_neon(src.add(half), src_step as isize, dst.add(half * dst_step), dst_step as isize) };
    }
}

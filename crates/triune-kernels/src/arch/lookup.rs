//! Bytes replaced through a table of 256, in registers where the machine can.

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::{vdupq_n_u8, vld1q_u8, vld1q_u8_x4, vqtbl4q_u8, vqtbx4q_u8, vst1q_u8, vsubq_u8};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m256i, __m512i, _mm_loadu_si128, _mm256_broadcastsi128_si256, _mm256_loadu_si256, _mm256_set1_epi8,
    _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_storeu_si256, _mm256_subs_epi8, _mm256_xor_si256,
    _mm512_loadu_epi8, _mm512_mask_blend_epi8, _mm512_mask_storeu_epi8, _mm512_maskz_loadu_epi8,
    _mm512_movepi8_mask, _mm512_permutex2var_epi8,
};

use crate::{Isa, dispatch::Level};

/// Writes `n` bytes of a table to the second pointer, by the patterns of those at the first.
///
/// What it asks for: `n` bytes to read and as many to write, which are the same or share none; the CPU has the instruction set
/// that [`lookup`] was asked for.
pub(crate) type Lookup = unsafe fn(*const u8, *mut u8, usize, &[u8; 256]);

/// The fastest of a machine.
pub(crate) fn lookup(level: Level) -> Lookup {
    #[cfg(target_arch = "x86_64")]
    if level.is_512() && std::arch::is_x86_feature_detected!("avx512vbmi") {
        return vbmi;
    } else if level.isa() >= Isa::Avx2 {
        return avx2;
    }
    #[cfg(target_arch = "aarch64")]
    if level.isa() >= Isa::Neon {
        return neon;
    }
    debug_assert!(level.isa() == Isa::Scalar);
    bytes
}

/// One byte after the other.
///
/// # Safety
/// As [`Lookup`].
unsafe fn bytes(from: *const u8, to: *mut u8, n: usize, table: &[u8; 256]) {
    for at in 0..n {
        // SAFETY: inside of what the caller promises.
        unsafe { *to.add(at) = table[usize::from(*from.add(at))] };
    }
}

/// # Safety
/// As [`Lookup`]; the machine has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2(from: *const u8, to: *mut u8, n: usize, table: &[u8; 256]) {
    /// Vectors at a time: the table is loaded for all of them.
    const SEVERAL: usize = 4;
    const WIDTH: usize = size_of::<__m256i>();
    /// A rest that is shorter takes less time byte by byte.
    const FEW: usize = 12;
    let mut at = 0;
    // SAFETY: inside of what the caller promises; a vector is read before it is written, and the rest in a vector of its own.
    unsafe {
        while n - at >= SEVERAL * WIDTH {
            vectors_avx2::<SEVERAL>(from.add(at), to.add(at), table);
            at += SEVERAL * WIDTH;
        }
        while n - at >= WIDTH {
            vectors_avx2::<1>(from.add(at), to.add(at), table);
            at += WIDTH;
        }
        if n - at < FEW {
            return bytes(from.add(at), to.add(at), n - at, table);
        }
        let mut rest = [0; WIDTH];
        from.add(at).copy_to_nonoverlapping(rest.as_mut_ptr(), n - at);
        vectors_avx2::<1>(rest.as_ptr(), rest.as_mut_ptr(), table);
        rest.as_ptr().copy_to_nonoverlapping(to.add(at), n - at);
    }
}

/// Looks up `V` vectors.
///
/// A shuffle takes 16 entries by four bits, and gives 0 where the eighth bit is set. Each half of the table is walked in rows
/// of 16, and the index is made less by 16 each time: an index has bits of every row up to its own, and is negative after that.
/// So the rows hold what differs from the one before, and all of it together leaves the row that was meant. Indices of the other
/// half are negative throughout, as the difference saturates.
///
/// # Safety
/// 32 · V bytes to read and as many to write, which are the same or share none.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn vectors_avx2<const V: usize>(from: *const u8, to: *mut u8, table: &[u8; 256]) {
    const ROW: usize = 16;
    let step = _mm256_set1_epi8(ROW as i8);
    let mut results = [_mm256_setzero_si256(); V];
    for (half, flip) in table.as_chunks::<128>().0.iter().zip([0, i8::MIN]) {
        let flip = _mm256_set1_epi8(flip);
        // SAFETY: inside of what the caller promises.
        let load = |v: usize| unsafe { _mm256_loadu_si256(from.add(v * size_of::<__m256i>()).cast()) };
        let mut indices: [__m256i; V] = std::array::from_fn(|v| _mm256_xor_si256(load(v), flip));
        let mut before = _mm256_setzero_si256();
        for (number, row) in half.as_chunks::<ROW>().0.iter().enumerate() {
            // SAFETY: a row is a vector.
            let row = _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(row.as_ptr().cast()) });
            let difference = _mm256_xor_si256(row, before);
            before = row;
            for (index, result) in indices.iter_mut().zip(&mut results) {
                if number > 0 {
                    *index = _mm256_subs_epi8(*index, step);
                }
                *result = _mm256_xor_si256(*result, _mm256_shuffle_epi8(difference, *index));
            }
        }
    }
    for (v, result) in results.into_iter().enumerate() {
        // SAFETY: inside of what the caller promises.
        unsafe { _mm256_storeu_si256(to.add(v * size_of::<__m256i>()).cast(), result) };
    }
}

/// # Safety
/// As [`Lookup`]; the machine has AVX-512 F, BW and VBMI.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
unsafe fn vbmi(from: *const u8, to: *mut u8, n: usize, table: &[u8; 256]) {
    // SAFETY: the table is four vectors.
    let rows: [__m512i; 4] =
        std::array::from_fn(|i| unsafe { _mm512_loadu_epi8(table.as_ptr().add(64 * i).cast()) });
    for at in (0..n).step_by(64) {
        let mask = if n - at >= 64 { u64::MAX } else { (1 << (n - at)) - 1 };
        // SAFETY: bytes that are masked off are not touched, the others lie inside of what the caller promises.
        unsafe {
            let index = _mm512_maskz_loadu_epi8(mask, from.add(at).cast());
            // Two tables of 128 entries each, by the low seven bits; the top bit chooses.
            let low = _mm512_permutex2var_epi8(rows[0], index, rows[1]);
            let high = _mm512_permutex2var_epi8(rows[2], index, rows[3]);
            let result = _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), low, high);
            _mm512_mask_storeu_epi8(to.add(at).cast(), mask, result);
        }
    }
}

/// # Safety
/// As [`Lookup`]; the machine has NEON.
#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
unsafe fn neon(from: *const u8, to: *mut u8, n: usize, table: &[u8; 256]) {
    // SAFETY: a quarter of the table is four vectors.
    let part = |quarter: usize| unsafe { vld1q_u8_x4(table[64 * quarter..].as_ptr()) };
    let parts = [part(0), part(1), part(2), part(3)];
    let quarter = vdupq_n_u8(64);
    let mut at = 0;
    while n - at >= 16 {
        // SAFETY: 16 bytes are left.
        unsafe {
            let mut index = vld1q_u8(from.add(at));
            // Numbers beyond a quarter give 0 in the first lookup and leave the byte as it is in the others.
            let mut result = vqtbl4q_u8(parts[0], index);
            for part in &parts[1..] {
                index = vsubq_u8(index, quarter);
                result = vqtbx4q_u8(result, *part, index);
            }
            vst1q_u8(to.add(at), result);
        }
        at += 16;
    }
    // SAFETY: what is left.
    unsafe { bytes(from.add(at), to.add(at), n - at, table) }
}

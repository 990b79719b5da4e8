//! SHA-256 (FIPS 180-4): the checksum of what packages hold, by the machine's instructions for it where it has them.

const BLOCK: usize = 64;

/// The fractions of the square roots of the first 8 primes.
const START: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// The fractions of the cube roots of the first 64 primes.
#[rustfmt::skip]
const ROUNDS: [u32; 64] = [
    0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
    0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
    0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
    0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
    0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
    0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
    0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
    0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
];

/// The SHA-256 of the bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    digest(bytes, best())
}

/// What works whole blocks into the state.
type Compress = fn(&mut [u32; 8], &[[u8; BLOCK]]);

fn best() -> Compress {
    #[cfg(target_arch = "x86_64")]
    if crate::Isa::best() > crate::Isa::Scalar && x86::is_available() {
        return |state, blocks| {
            // SAFETY: the machine has the instructions, or this were not chosen.
            unsafe { x86::compress(state, blocks) }
        };
    }
    scalar
}

fn digest(bytes: &[u8], compress: Compress) -> [u8; 32] {
    let mut state = START;
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    compress(&mut state, blocks);
    // What is left, a digit of 1, zeros, and the length in bits: one block, or two where one has no room for them.
    let mut tail = [[0; BLOCK]; 2];
    let flat = tail.as_flattened_mut();
    flat[..rest.len()].copy_from_slice(rest);
    flat[rest.len()] = 0x80;
    let count = if rest.len() < BLOCK - 8 { 1 } else { 2 };
    flat[count * BLOCK - 8..count * BLOCK].copy_from_slice(&(bytes.len() as u64 * 8).to_be_bytes());
    compress(&mut state, &tail[..count]);
    let mut digest = [0; 32];
    for (out, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *out = word.to_be_bytes();
    }
    digest
}

/// The standard's own words: the specification of the other.
fn scalar(state: &mut [u32; 8], blocks: &[[u8; BLOCK]]) {
    for block in blocks {
        let mut words = [0_u32; 64];
        for (word, &bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
            *word = u32::from_be_bytes(bytes);
        }
        for t in 16..64 {
            let (old, new) = (words[t - 15], words[t - 2]);
            let old = old.rotate_right(7) ^ old.rotate_right(18) ^ old >> 3;
            let new = new.rotate_right(17) ^ new.rotate_right(19) ^ new >> 10;
            words[t] = words[t - 16].wrapping_add(old).wrapping_add(words[t - 7]).wrapping_add(new);
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
        for (word, constant) in words.into_iter().zip(ROUNDS) {
            let sum = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let choice = e & f ^ !e & g;
            let first = h.wrapping_add(sum).wrapping_add(choice).wrapping_add(constant).wrapping_add(word);
            let sum = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
            let majority = a & b ^ a & c ^ b & c;
            (h, g, f, e) = (g, f, e, d.wrapping_add(first));
            (d, c, b, a) = (c, b, a, first.wrapping_add(sum).wrapping_add(majority));
        }
        for (state, own) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *state = state.wrapping_add(own);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m128i, _mm_add_epi32, _mm_alignr_epi8, _mm_extract_epi32, _mm_loadu_si128, _mm_set_epi32,
        _mm_set_epi64x, _mm_sha256msg1_epu32, _mm_sha256msg2_epu32, _mm_sha256rnds2_epu32, _mm_shuffle_epi8,
        _mm_shuffle_epi32,
    };
    use std::array;

    use super::{BLOCK, ROUNDS};

    pub(super) fn is_available() -> bool {
        std::arch::is_x86_feature_detected!("sha")
            && std::arch::is_x86_feature_detected!("ssse3")
            && std::arch::is_x86_feature_detected!("sse4.1")
    }

    /// Four words, the first one lowest.
    #[target_feature(enable = "sha,ssse3,sse4.1")]
    fn four(words: &[u32; 4]) -> __m128i {
        // SAFETY: 16 bytes are there, and the load needs no alignment.
        unsafe { _mm_loadu_si128(words.as_ptr().cast()) }
    }

    /// Two rounds take the state as a, b, e and f in one register and c, d, g and h in another, each from the highest word down, and
    /// give the first one's successor; what was the first is the second then.
    #[target_feature(enable = "sha,ssse3,sse4.1")]
    pub(super) fn compress(state: &mut [u32; 8], blocks: &[[u8; BLOCK]]) {
        let big_endian = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
        let [a, b, c, d, e, f, g, h] = state.map(u32::cast_signed);
        let mut first = _mm_set_epi32(a, b, e, f);
        let mut second = _mm_set_epi32(c, d, g, h);
        for block in blocks {
            let before = [first, second];
            // The last 16 words of the schedule, oldest first.
            let mut words: [__m128i; 4] = array::from_fn(|i| {
                // SAFETY: 16 of the block's 64 bytes, and the load needs no alignment.
                let bytes = unsafe { _mm_loadu_si128(block.as_ptr().add(16 * i).cast()) };
                _mm_shuffle_epi8(bytes, big_endian)
            });
            for (step, constants) in ROUNDS.as_chunks::<4>().0.iter().enumerate() {
                let [oldest, next, third, newest] = words;
                let sum = _mm_add_epi32(oldest, four(constants));
                second = _mm_sha256rnds2_epu32(second, first, sum);
                first = _mm_sha256rnds2_epu32(first, second, _mm_shuffle_epi32::<0b1110>(sum));
                if step < 12 {
                    let partial = _mm_add_epi32(
                        _mm_sha256msg1_epu32(oldest, next),
                        _mm_alignr_epi8::<4>(newest, third),
                    );
                    words = [next, third, newest, _mm_sha256msg2_epu32(partial, newest)];
                } else {
                    words = [next, third, newest, oldest];
                }
            }
            first = _mm_add_epi32(first, before[0]);
            second = _mm_add_epi32(second, before[1]);
        }
        let word = |register: __m128i| {
            [
                _mm_extract_epi32::<3>(register),
                _mm_extract_epi32::<2>(register),
                _mm_extract_epi32::<1>(register),
                _mm_extract_epi32::<0>(register),
            ]
            .map(i32::cast_unsigned)
        };
        let ([a, b, e, f], [c, d, g, h]) = (word(first), word(second));
        *state = [a, b, c, d, e, f, g, h];
    }
}

#[cfg(test)]
mod tests {
    use sha2::Digest;

    use super::*;

    fn ways() -> impl Iterator<Item = Compress> {
        [scalar as Compress, best()].into_iter()
    }

    fn hex(digest: [u8; 32]) -> String {
        digest.map(|byte| format!("{byte:02x}")).concat()
    }

    #[test]
    fn the_standards_examples_have_its_digests() {
        let million = vec![b'a'; 1_000_000];
        for compress in ways() {
            for (text, digest_of_it) in [
                (b"".as_slice(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
                (b"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
                (
                    b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                    "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
                ),
                (&million, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"),
            ] {
                assert_eq!(hex(digest(text, compress)), digest_of_it, "{} bytes", text.len());
            }
        }
    }

    #[test]
    fn every_length_has_the_digest_that_another_library_gives() {
        let mut random = triune_testing::Random(5);
        let bytes = random.bytes(300);
        for compress in ways() {
            for length in 0..bytes.len() {
                let bytes = &bytes[..length];
                assert_eq!(digest(bytes, compress)[..], sha2::Sha256::digest(bytes)[..], "{length} bytes");
            }
        }
    }
}

//! The f32 tile on AVX2 and AVX-512: one broadcast per row, one load per vector of columns, one fused multiply-add per
//! pair. Accumulators stay in registers for the whole of k: 6×16 of 16 registers, 14×32 of 32.

use std::arch::x86_64::{
    _mm256_broadcast_ss, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_setzero_ps, _mm256_storeu_ps,
    _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
};

macro_rules! tile {
    ($name:ident, $kernel:ident, $features:literal, $lanes:literal, $zero:ident, $load:ident, $store:ident, $fma:ident,
     $broadcast:expr, [$($rows:literal),*]) => {
        /// # Safety
        /// As `Panels::tile`, with `vectors` the panel's width in registers, on a machine with the features.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn $name(
            rows: usize,
            vectors: usize,
            a: *const *const f32,
            runs: usize,
            run_len: usize,
            b: *const f32,
            acc: *mut f32,
        ) {
            // SAFETY: passed on; the number of rows and vectors is the one that the kernel is made for.
            unsafe {
                match (rows, vectors) {
                    $(
                        ($rows, 2) => $kernel::<$rows, 2>(a, runs, run_len, b, acc),
                        ($rows, 1) => $kernel::<$rows, 1>(a, runs, run_len, b, acc),
                    )*
                    _ => unreachable!("no tile of {rows} rows and {vectors} vectors"),
                }
            }
        }

        /// # Safety
        /// As `Panels::tile`.
        #[target_feature(enable = $features)]
        unsafe fn $kernel<const ROWS: usize, const VECTORS: usize>(
            a: *const *const f32,
            runs: usize,
            run_len: usize,
            mut b: *const f32,
            acc: *mut f32,
        ) {
            let mut sums = [[$zero(); VECTORS]; ROWS];
            for run in 0..runs {
                // SAFETY: `ROWS` pointers per run, `run_len` floats behind each, `run_len` rows of B.
                unsafe {
                    let rows: [*const f32; ROWS] = a.add(run * ROWS).cast::<[*const f32; ROWS]>().read_unaligned();
                    for i in 0..run_len {
                        let mut columns = [$zero(); VECTORS];
                        for (vector, column) in columns.iter_mut().enumerate() {
                            *column = $load(b.add(vector * $lanes));
                        }
                        b = b.add(VECTORS * $lanes);
                        for (row, sums) in rows.iter().zip(&mut sums) {
                            let x = $broadcast(row.add(i));
                            for (column, sum) in columns.iter().zip(sums) {
                                *sum = $fma(x, *column, *sum);
                            }
                        }
                    }
                }
            }
            for (row, sums) in sums.iter().enumerate() {
                for (vector, sum) in sums.iter().enumerate() {
                    // SAFETY: the accumulators have room for the tile.
                    unsafe { $store(acc.add((row * VECTORS + vector) * $lanes), *sum) };
                }
            }
        }
    };
}

tile!(
    tile_avx512,
    kernel_avx512,
    "avx512f",
    16,
    _mm512_setzero_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_fmadd_ps,
    |x: *const f32| _mm512_set1_ps(*x),
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]
);
tile!(
    tile_avx2,
    kernel_avx2,
    "avx2,fma",
    8,
    _mm256_setzero_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_fmadd_ps,
    |x: *const f32| _mm256_broadcast_ss(&*x),
    [1, 2, 3, 4, 5, 6]
);

//! Products of bytes with sums of 32 bits: against their formula in wide integers, with the same bits on every instruction set and
//! number of threads, with B packed before and not.

use triune_kernels::{IMatMul, IMatMulOperands, IMatMulSpec, Isa, PackedBytes, Pool};
use triune_testing::Random;

fn value(byte: u8, signed: bool) -> i64 {
    if signed { byte.cast_signed().into() } else { byte.into() }
}

/// Σ (a − a₀)(b − b₀) in 32 bits, or its f32 times the factor.
fn expected(spec: &IMatMulSpec, operands: &IMatMulOperands<'_>) -> Vec<i32> {
    let IMatMulSpec { batch, m, n, k, signed: [signed_a, signed_b], .. } = *spec;
    let zero = |list: &[u8], index: usize, signed| match list {
        [] => 0,
        &[one] => value(one, signed),
        all => value(all[index], signed),
    };
    (0..batch * m * n)
        .map(|at| {
            let (image, row, column) = (at / (m * n), at / n % m, at % n);
            let other = if spec.shared_b { 0 } else { image };
            let (a0, b0) = (zero(operands.a_zeros, row, signed_a), zero(operands.b_zeros, column, signed_b));
            let sum: i64 = (0..k)
                .map(|i| {
                    let a = value(operands.a[(image * m + row) * k + i], signed_a) - a0;
                    a * (value(operands.b[(other * k + i) * n + column], signed_b) - b0)
                })
                .sum();
            match operands.scales {
                [] => sum as i32,
                &[one] => (sum as i32 as f32 * one).to_bits().cast_signed(),
                all => (sum as i32 as f32 * all[column]).to_bits().cast_signed(),
            }
        })
        .collect()
}

fn check(spec: &IMatMulSpec, operands: &IMatMulOperands<'_>) {
    let wanted = expected(spec, operands);
    for isa in Isa::available() {
        let product = IMatMul::new(spec, isa).unwrap();
        let packed =
            PackedBytes::new(operands.b, [spec.k, spec.n], [spec.n, 1], spec.signed[1], isa).unwrap();
        assert!(packed.bytes() >= spec.k * spec.n);
        for threads in [1, 3] {
            let pool = Pool::new(threads);
            for before in [false, true] {
                if before && !spec.shared_b {
                    continue;
                }
                let mut c = vec![0x55; wanted.len()];
                let mut scratch = vec![0xa5; product.scratch_bytes(before)];
                let packed = before.then_some(&packed);
                product.run(*operands, packed, &mut c, &mut scratch, &pool).unwrap();
                assert_eq!(c, wanted, "{spec:?} {isa:?} {threads} {before}");
            }
        }
    }
}

#[test]
fn products() {
    let mut random = Random(1);
    let extents = [
        [1, 1, 1, 1],
        [2, 3, 131, 33],
        [1, 65, 7, 64],
        [3, 2, 64, 95],
        [1, 4, 4, 0],
        [0, 3, 3, 3],
        [1, 50, 300, 40],
    ];
    for (index, [batch, m, n, k]) in extents.into_iter().enumerate() {
        for code in 0..16_usize {
            let spec = IMatMulSpec {
                batch,
                m,
                n,
                k,
                shared_b: batch < 2 || code & 1 == 1,
                signed: [code & 2 == 2, code & 4 == 4],
                a_zeros: [0, 1, m][(code + index) % 3],
                b_zeros: [0, 1, n][(code / 3) % 3],
                scales: [0, 1, n][(code / 2) % 3],
            };
            let copies = if spec.shared_b { batch.min(1) } else { batch };
            let (a, b) = (random.bytes(batch * m * k), random.bytes(copies.max(1) * k * n));
            let (a_zeros, b_zeros) = (random.bytes(spec.a_zeros), random.bytes(spec.b_zeros));
            let scales = random.floats(spec.scales);
            let operands =
                IMatMulOperands { a: &a, b: &b, a_zeros: &a_zeros, b_zeros: &b_zeros, scales: &scales };
            check(&spec, &operands);
        }
    }
}

/// Sums that 32 bits do not hold wrap around, and the largest of bytes are not saturated on the way.
#[test]
fn extremes() {
    for k in [4, 66_053] {
        for [a, b] in [[255, 0x80], [0, 0x80], [255, 255], [0x80, 0]] {
            for signed in [[false, true], [false, false], [true, true], [true, false]] {
                let spec = IMatMulSpec {
                    batch: 1,
                    m: 2,
                    n: 3,
                    k,
                    shared_b: true,
                    signed,
                    a_zeros: 1,
                    b_zeros: 1,
                    scales: 0,
                };
                let (a, b) = (vec![a; 2 * k], vec![b; 3 * k]);
                let zeros = [[0], [255]];
                let operands =
                    IMatMulOperands { a: &a, b: &b, a_zeros: &zeros[0], b_zeros: &zeros[1], scales: &[] };
                check(&spec, &operands);
            }
        }
    }
}

/// A matrix that lies transposed is packed as if it lay straight.
#[test]
fn strides() {
    let mut random = Random(3);
    let (k, n) = (21, 37);
    let b = random.bytes(k * n);
    let turned: Vec<u8> = (0..k * n).map(|at| b[at % k * n + at / k]).collect();
    let spec = IMatMulSpec {
        batch: 1,
        m: 5,
        n,
        k,
        shared_b: true,
        signed: [false, true],
        a_zeros: 0,
        b_zeros: 0,
        scales: 0,
    };
    let a = random.bytes(5 * k);
    let operands = IMatMulOperands { a: &a, b: &b, a_zeros: &[], b_zeros: &[], scales: &[] };
    let wanted = expected(&spec, &operands);
    for isa in Isa::available() {
        let product = IMatMul::new(&spec, isa).unwrap();
        let packed = PackedBytes::new(&turned, [k, n], [1, k], true, isa).unwrap();
        let mut c = vec![0; wanted.len()];
        let mut scratch = vec![0; product.scratch_bytes(true)];
        let without = IMatMulOperands { b: &[], ..operands };
        product.run(without, Some(&packed), &mut c, &mut scratch, &Pool::new(1)).unwrap();
        assert_eq!(c, wanted, "{isa:?}");
    }
}

#[test]
fn refuses() {
    let spec = IMatMulSpec {
        batch: 1,
        m: 2,
        n: 3,
        k: 4,
        shared_b: true,
        signed: [false, true],
        a_zeros: 1,
        b_zeros: 0,
        scales: 0,
    };
    let isa = Isa::best();
    for wrong in [
        IMatMulSpec { a_zeros: 3, ..spec },
        IMatMulSpec { b_zeros: 2, ..spec },
        IMatMulSpec { scales: 4, ..spec },
        IMatMulSpec { k: usize::MAX / 2, ..spec },
        IMatMulSpec { n: usize::MAX / 2, ..spec },
        IMatMulSpec { m: usize::MAX / 2, a_zeros: 0, ..spec },
        IMatMulSpec { batch: usize::MAX / 2, ..spec },
    ] {
        assert!(IMatMul::new(&wrong, isa).is_err(), "{wrong:?}");
    }
    let product = IMatMul::new(&spec, isa).unwrap();
    let pool = Pool::new(1);
    let (a, b) = ([0; 8], [0; 12]);
    let run = |a: &[u8], b: &[u8], zeros: &[u8], packed: Option<&PackedBytes>, c: usize| {
        let operands = IMatMulOperands { a, b, a_zeros: zeros, b_zeros: &[], scales: &[] };
        let mut scratch = vec![0; product.scratch_bytes(packed.is_some())];
        product.run(operands, packed, &mut vec![0; c], &mut scratch, &pool)
    };
    assert!(run(&a, &b, &[0], None, 6).is_ok());
    assert!(run(&a[1..], &b, &[0], None, 6).is_err());
    assert!(run(&a, &b[1..], &[0], None, 6).is_err());
    assert!(run(&a, &b, &[], None, 6).is_err());
    assert!(run(&a, &b, &[0], None, 5).is_err());
    for (signed, extents, fits) in [(true, [4, 3], true), (false, [4, 3], false), (true, [3, 4], false)] {
        let packed = PackedBytes::new(&b, extents, [extents[1], 1], signed, isa).unwrap();
        assert_eq!(run(&a, &[], &[0], Some(&packed), 6).is_ok(), fits, "{signed} {extents:?}");
    }
    assert!(PackedBytes::new(&b, [4, 4], [4, 1], true, isa).is_err());
}

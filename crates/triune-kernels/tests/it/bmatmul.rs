//! Products with blocks of small integers, against their formulas element by element, with the same bits on every instruction set and
//! number of threads.

use crate::common::isas;
use triune_kernels::{BlockArithmetic, BlockMatMul, BlockSpec, Error, Isa, Pool};
use triune_testing::Random;

/// A matrix as it is given, and by column its elements, factors and zero points.
struct Given {
    bytes: Vec<u8>,
    digits: Vec<Vec<u8>>,
    parameters: Vec<Vec<[f32; 2]>>,
}

fn given(random: &mut Random, spec: &BlockSpec, one_zero: bool) -> Given {
    let mut all = Given { bytes: Vec::new(), digits: Vec::new(), parameters: Vec::new() };
    for _ in 0..spec.n {
        let (mut digits, mut parameters) = (Vec::new(), Vec::new());
        for _ in 0..spec.blocks() {
            let own: Vec<u8> = (0..spec.block).map(|_| random.below(1 << spec.bits) as u8).collect();
            for pair in own.chunks(8 / spec.bits) {
                all.bytes.push(if spec.bits == 4 { pair[0] | pair[1] << 4 } else { pair[0] });
            }
            let zero = if one_zero { 8.0 } else { random.below(1 << spec.bits) as f32 + 0.25 };
            let own_parameters = [random.floats(1)[0] / 8.0, zero];
            for value in own_parameters {
                all.bytes.extend(value.to_le_bytes());
            }
            digits.extend(own);
            parameters.push(own_parameters);
        }
        all.digits.push(digits);
        all.parameters.push(parameters);
    }
    all
}

fn expected(spec: &BlockSpec, given: &Given, x: &[f32]) -> Vec<f32> {
    let mut y = Vec::new();
    for row in x.chunks(spec.k) {
        for (digits, parameters) in given.digits.iter().zip(&given.parameters) {
            let mut sum = 0.0_f32;
            for ((row, digits), [factor, zero]) in
                row.chunks(spec.block).zip(digits.chunks(spec.block)).zip(parameters)
            {
                match spec.arithmetic {
                    BlockArithmetic::Reals => {
                        for (x, &digit) in row.iter().zip(digits) {
                            sum = x.mul_add((f32::from(digit) - zero) * factor, sum);
                        }
                    }
                    BlockArithmetic::Bytes => {
                        let largest = row.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
                        let inverse = if largest == 0.0 { 0.0 } else { 127.0 / largest };
                        let whole = row.iter().map(|x| (x * inverse).round_ties_even() as i32);
                        let whole: Vec<i32> = whole.collect();
                        let products: i32 =
                            whole.iter().zip(digits).map(|(a, &digit)| a * i32::from(digit)).sum();
                        let total: i32 = whole.iter().sum();
                        let exact = f64::from(products) - f64::from(*zero) * f64::from(total);
                        sum = (exact as f32).mul_add(largest / 127.0 * factor, sum);
                    }
                }
            }
            y.push(sum);
        }
    }
    y
}

#[test]
fn products_are_as_their_formulas_say() {
    let mut random = Random(77);
    let arithmetics = [BlockArithmetic::Reals, BlockArithmetic::Bytes];
    for (m, n, k, block) in [
        (1, 1, 1, 16),
        (1, 64, 64, 32),
        (1, 75, 100, 16),
        (3, 8, 64, 64),
        (17, 40, 333, 32),
        (29, 130, 1030, 512),
    ] {
        for (bits, arithmetic, one_zero) in [4, 8]
            .into_iter()
            .flat_map(|bits| arithmetics.map(|a| [(bits, a, true), (bits, a, false)]))
            .flatten()
        {
            let spec = BlockSpec { n, k, bits, block, arithmetic };
            let given = given(&mut random, &spec, one_zero);
            let mut x = random.floats(m * k);
            // A block of zeros among them.
            x[..k.min(block)].fill(0.0);
            let expected = expected(&spec, &given, &x);
            for isa in isas() {
                let product = BlockMatMul::new(&spec, &given.bytes, isa).expect("a matrix");
                // The last line of each of three parts.
                assert!(product.bytes() <= spec.packed_bytes().expect("few") + 3 * 64 + 256);
                for pool in [Pool::new(1), Pool::new(3)] {
                    let mut y = vec![0.5; m * n];
                    let mut scratch = vec![0xff; product.scratch_bytes(m, pool.threads())];
                    product.run(&x, m, &mut y, &mut scratch, &pool).expect("fitting slices");
                    for (index, (y, expected)) in y.iter().zip(&expected).enumerate() {
                        assert!(y == expected, "{spec:?} on {}, {index}: {y} {expected}", isa.name());
                    }
                }
            }
        }
    }
}

#[test]
fn what_is_no_number_is_not_lost() {
    let spec = BlockSpec { n: 20, k: 64, bits: 4, block: 32, arithmetic: BlockArithmetic::Bytes };
    let given = given(&mut Random(5), &spec, true);
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut x = vec![1.0; 2 * 64];
        x[40] = bad;
        let expected = &expected(&spec, &given, &x)[20..];
        for isa in isas() {
            let product = BlockMatMul::new(&spec, &given.bytes, isa).expect("a matrix");
            let mut y = vec![0.0; 2 * 20];
            let mut scratch = vec![0; product.scratch_bytes(2, 1)];
            product.run(&x, 2, &mut y, &mut scratch, &Pool::new(1)).expect("fitting slices");
            assert!(y[..20].iter().all(|y| y.is_nan()), "{bad}");
            assert_eq!(&y[20..], expected, "other rows are as they were");
        }
    }
}

#[test]
fn refuses_what_does_not_fit() {
    let spec = BlockSpec { n: 3, k: 40, bits: 4, block: 32, arithmetic: BlockArithmetic::Reals };
    let need = 3 * 2 * (16 + 8);
    assert_eq!(spec.bytes(), Some(need));
    assert!(BlockMatMul::new(&spec, &vec![0; need - 1], Isa::Scalar).is_err());
    for wrong in [
        BlockSpec { bits: 2, ..spec },
        BlockSpec { block: 8, ..spec },
        BlockSpec { block: 48, ..spec },
        BlockSpec { n: usize::MAX, ..spec },
        BlockSpec { block: 1 << 16, arithmetic: BlockArithmetic::Bytes, ..spec },
    ] {
        assert!(
            matches!(BlockMatMul::new(&wrong, &vec![0; 1 << 20], Isa::Scalar), Err(Error::Invalid(_))),
            "{wrong:?}"
        );
    }
    let pool = Pool::new(1);
    let product = BlockMatMul::new(&spec, &vec![0; need], Isa::Scalar).expect("a matrix");
    assert_eq!(product.scratch_bytes(usize::MAX, 1), product.scratch_bytes(2, 1));
    let scratch = product.scratch_bytes(2, 1);
    for (x, y, scratch) in [(79, 6, scratch), (80, 5, scratch), (80, 6, scratch - 1)] {
        let (x, mut y, mut scratch) = (vec![0.0; x], vec![0.0; y], vec![0; scratch]);
        assert!(product.run(&x, 2, &mut y, &mut scratch, &pool).is_err());
    }
    assert_eq!(product.run(&[], 0, &mut [], &mut vec![0; scratch], &pool), Ok(()));
    let bytes = BlockSpec { arithmetic: BlockArithmetic::Bytes, ..spec };
    let product = BlockMatMul::new(&bytes, &vec![0; need], Isa::Scalar).expect("a matrix");
    assert_eq!(product.scratch_bytes(usize::MAX, 1), usize::MAX);
}

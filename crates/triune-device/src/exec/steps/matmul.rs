//! Matrix products of two feature maps.

use std::sync::Arc;

use triune_kernels::{
    BlockArithmetic, BlockMatMul, BlockSpec, FMatMul, IMatMul, IMatMulOperands, IMatMulSpec, MatMulSpec,
    Nhwc, PackedBytes, Pool, QMatMul, QMatMulSpec, TMatMulSpec,
};
use triune_tensor::{DType, function::UnaryKind};

use super::super::{
    check::{Checker, FilterSource, Result, bad, expect_dtype, refused},
    operands::{MAX_READS, Prepared, Rows, Step, with_scratch},
};
use super::{EIGHT_BIT, Prepare, conv::q8, elements, elements_mut, with_number};
use crate::command;

/// Products of matrices, which can be cut in these.
#[derive(Debug)]
struct Matrices {
    rows: Option<Rows>,
    product: FMatMul,
    bias: Option<Vec<f32>>,
}

impl Step for Matrices {
    fn scratch_bytes(&self, threads: usize) -> usize {
        self.product.scratch_bytes(threads)
    }

    fn rows(&self) -> Option<Rows> {
        self.rows
    }

    fn rows_scratch(&self) -> usize {
        self.product.scratch_bytes(1)
    }

    fn run_rows(
        &self,
        count: usize,
        [a, b, ..]: [&[u8]; MAX_READS],
        write: &mut [u8],
        scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), triune_kernels::Error> {
        let (a, b, write) = (elements(a)?, elements(b)?, elements_mut(write)?);
        self.product.run_some(count, a, b, self.bias.as_deref(), write, scratch, pool)
    }

    fn run(
        &self,
        [a, b, ..]: [&[u8]; MAX_READS],
        write: &mut [u8],
        scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), triune_kernels::Error> {
        self.product.run(
            elements(a)?,
            elements(b)?,
            self.bias.as_deref(),
            elements_mut(write)?,
            scratch,
            pool,
        )
    }
}

impl Prepare for command::FMatMul {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        let [batch, m, n, k] = [self.batch, self.m, self.n, self.k].map(u64::from);
        let count = |factors: [u64; 3]| factors.into_iter().fold(1_u64, u64::saturating_mul);
        let b_batch = if self.shared_b { 1 } else { batch };
        let a = checker.dense("a", self.a, 4, count([batch, m, k]))?;
        let b = checker.dense("b", self.b, 4, count([b_batch, k, n]))?;
        let output = checker.dense("output", self.output, 4, count([batch, m, n]))?;
        let mut spec = MatMulSpec::dense(
            batch as usize,
            m as usize,
            n as usize,
            k as usize,
            self.transpose_a,
            self.transpose_b,
        );
        if self.shared_b {
            spec.batch_b = 0;
        }
        let product = FMatMul::new(&spec, checker.isa).map_err(refused("k"))?;
        let bias = self.bias.map(|addr| checker.floats("bias", addr, Some(n))).transpose()?;
        let (activation, isa) = (self.activation, checker.isa);
        // The result as a flat map.
        let results = Nhwc::dense(1, 1, 1, count([batch, m, n]) as usize);
        let follows = activation != UnaryKind::Identity;
        // The product that the activation follows.
        let raw_bytes = (4 * results.elements()).next_multiple_of(64);
        if !follows {
            let [a_row, b_row, row] =
                [[m, k], [k, n], [m, n]].map(|[rows, columns]| (4 * rows * columns) as usize);
            let b_row = if self.shared_b { 0 } else { b_row };
            let step = Matrices { rows: Rows::dense(batch as usize, [a_row, b_row], row), product, bias };
            return checker.finish([a, b], &output, false, step);
        }
        let step = with_scratch(
            product,
            move |product, threads| raw_bytes + product.scratch_bytes(threads),
            move |product, [a, b, ..], write, scratch, pool| {
                let (a, b, write) = (elements(a)?, elements(b)?, elements_mut(write)?);
                let (raw, scratch) = scratch.split_at_mut(raw_bytes);
                let raw: &mut [f32] = &mut elements_mut(raw)?[..results.elements()];
                product.run(a, b, bias.as_deref(), raw, scratch, pool)?;
                triune_kernels::unary(isa, activation, raw, results, write, results, pool)
            },
        );
        checker.finish([a, b], &output, false, step)
    }
}

impl Prepare for command::QMatMul {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        let [batch, m, n, k] = [self.batch, self.m, self.n, self.k].map(u64::from);
        let count = |factors: [u64; 3]| factors.into_iter().fold(1_u64, u64::saturating_mul);
        let b_batch = if self.shared_b { 1 } else { batch };
        let bytes = |field: &str, target: command::RequantTarget| {
            let [dtype, zero_point] = ["dtype", "zero_point"].map(|part| format!("{field}.{part}"));
            q8(&dtype, &zero_point, target.dtype, target.zero_point)
        };
        let spec = QMatMulSpec {
            batch: batch as usize,
            m: m as usize,
            n: n as usize,
            k: k as usize,
            trans_a: self.transpose_a,
            trans_b: self.transpose_b,
            shared_b: self.shared_b,
            a: bytes("a_target", self.a_target)?,
            b: bytes("b_target", self.b_target)?,
            output: bytes("result", self.result)?,
            multiplier: self.multiplier,
            rounding: self.rounding,
        };
        if !self.multiplier.is_finite() {
            return bad("multiplier", "is not finite");
        }
        let product = QMatMul::new(&spec, checker.isa).map_err(refused("k"))?;
        let a = checker.dense("a", self.a, 1, count([batch, m, k]))?;
        let b = checker.dense("b", self.b, 1, count([b_batch, k, n]))?;
        let output = checker.dense("output", self.output, 1, count([batch, m, n]))?;
        let step = with_scratch(
            product,
            |product, _| product.scratch_bytes(),
            |product, [a, b, ..], write, scratch, pool| product.run(a, b, write, scratch, pool),
        );
        checker.finish([a, b], &output, false, step)
    }
}

impl Prepare for command::IMatMul {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        expect_dtype("a_dtype", self.a_dtype, EIGHT_BIT)?;
        expect_dtype("b_dtype", self.b_dtype, EIGHT_BIT)?;
        let [batch, m, n, k] = [self.batch, self.m, self.n, self.k].map(u64::from);
        let count = |factors: [u64; 3]| factors.into_iter().fold(1_u64, u64::saturating_mul);
        let signed = [self.a_dtype, self.b_dtype].map(|dtype| dtype == DType::I8);
        let a = checker.dense("a", self.a, 1, count([batch, m, k]))?;
        let b_batch = if self.shared_b { 1 } else { batch };
        let b = self.b.map(|addr| checker.dense("b", addr, 1, count([b_batch, k, n]))).transpose()?;
        let given = |field, addr: Option<_>, bytes, elements: u32, most: u64| match addr {
            None => Ok(None),
            Some(_) if elements != 1 && u64::from(elements) != most => {
                bad("counts", format!("{elements} of '{field}' for {most}"))
            }
            Some(addr) => checker.dense(field, addr, bytes, elements.into()).map(Some),
        };
        let [zeros_of_a, zeros_of_b, factors] = self.counts;
        let a_zeros = given("a_zeros", self.a_zeros, 1, zeros_of_a, m)?;
        let b_zeros = given("b_zeros", self.b_zeros, 1, zeros_of_b, n)?;
        let scales = given("scales", self.scales, 4, factors, n)?;
        let output = checker.dense("output", self.output, 4, count([batch, m, n]))?;
        let number = |given: bool, count: u32| if given { count as usize } else { 0 };
        let spec = IMatMulSpec {
            batch: batch as usize,
            m: m as usize,
            n: n as usize,
            k: k as usize,
            shared_b: self.shared_b || self.weights.is_some(),
            signed,
            a_zeros: number(a_zeros.is_some(), zeros_of_a),
            b_zeros: number(b_zeros.is_some(), zeros_of_b),
            scales: number(scales.is_some(), factors),
        };
        let product = IMatMul::new(&spec, checker.isa).map_err(refused("k"))?;
        let weights = match (b.is_some(), self.weights) {
            (true, None) => None,
            (false, Some(addr)) => {
                let extents = [spec.k, spec.n];
                let packed = match checker.weights("weights", addr, [spec.n, 1, spec.k], 1)? {
                    FilterSource::Constants(bytes) => {
                        PackedBytes::new(&bytes, extents, [1, spec.k], signed[1], checker.isa).map(Arc::new)
                    }
                    FilterSource::Library(own) => {
                        own.library.packed_bytes_of(addr, &own, signed[1], checker.isa)
                    }
                };
                Some(packed.map_err(refused("weights"))?)
            }
            _ => return bad("weights", "either these or 'b' is the second operand"),
        };
        let step = with_scratch(
            (product, weights),
            |(product, weights), _| product.scratch_bytes(weights.is_some()),
            |(product, weights), [a, b, a_zeros, b_zeros, scales], write, scratch, pool| {
                let operands = IMatMulOperands { a, b, a_zeros, b_zeros, scales: elements(scales)? };
                product.run(operands, weights.as_deref(), elements_mut(write)?, scratch, pool)
            },
        );
        checker.finish_some([Some(a), b, a_zeros, b_zeros, scales], &output, false, step)
    }
}

impl Prepare for command::BlockMatMul {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        let [m, n, k] = self.extents.map(|extent| extent as usize);
        let [bits, block] = self.blocks.map(|extent| extent as usize);
        let spec = BlockSpec {
            n,
            k,
            bits,
            block,
            arithmetic: if self.integers { BlockArithmetic::Bytes } else { BlockArithmetic::Reals },
        };
        let Some(bytes) = spec.bytes() else {
            return bad("blocks", format!("{block} integers of {bits} bits are none"));
        };
        let count = |rows: usize, columns: usize| (rows as u64).saturating_mul(columns as u64);
        let input = checker.dense("input", self.input, 4, count(m, k))?;
        let output = checker.dense("output", self.output, 4, count(m, n))?;
        let column = bytes.checked_div(n).unwrap_or_default();
        let product = match checker.lent("weights", self.weights, [n, 1, column], 1)? {
            FilterSource::Constants(bytes) => {
                let packed = spec.packed_bytes().unwrap_or(usize::MAX);
                checker.keep("weights", packed.saturating_sub(bytes.len()) as u64)?;
                Arc::new(BlockMatMul::new(&spec, &bytes, checker.isa).map_err(refused("weights"))?)
            }
            // Made where nobody has packed them: extents that are new at each run find them packed.
            FilterSource::Library(own) => {
                own.library.packed_blocks(self.weights, &spec, checker.isa, || {
                    let made = checker.made("weights", &own)?;
                    BlockMatMul::new(&spec, &made.dense(), checker.isa).map_err(refused("weights"))
                })?
            }
        };
        if product.scratch_bytes(m, 1) == usize::MAX {
            return bad("extents", format!("{m} rows are more than there is memory for"));
        }
        let step = with_scratch(
            product,
            move |product, threads| product.scratch_bytes(m, threads),
            move |product, [input, ..], write, scratch, pool| {
                product.run(elements(input)?, m, elements_mut(write)?, scratch, pool)
            },
        );
        checker.finish([input], &output, false, step)
    }
}

impl Prepare for command::TMatMul {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        let dtype = self.dtype;
        if dtype != DType::F64 && (dtype.is_float() || dtype.is_storage() || dtype == DType::Bool) {
            return bad("dtype", format!("the type is {dtype}, it can be an integer type or float64"));
        }
        let [batch, m, n, k] = [self.batch, self.m, self.n, self.k].map(u64::from);
        let count = |factors: [u64; 3]| factors.into_iter().fold(1_u64, u64::saturating_mul);
        let bytes = dtype.bytes() as u64;
        let b_batch = if self.shared_b { 1 } else { batch };
        let a = checker.dense("a", self.a, bytes, count([batch, m, k]))?;
        let b = checker.dense("b", self.b, bytes, count([b_batch, k, n]))?;
        let output = checker.dense("output", self.output, bytes, count([batch, m, n]))?;
        let [batch, m, n, k] = [batch, m, n, k].map(|extent| extent as usize);
        let spec = TMatMulSpec { batch, m, n, k, shared_b: self.shared_b };
        let isa = checker.isa;
        let step = with_scratch(
            spec,
            move |spec, threads| spec.scratch_elements(threads).saturating_mul(dtype.bytes()),
            move |spec, [a, b, ..], write, scratch, pool| {
                with_number!(dtype, T => {
                    let (a, b, write) = (elements::<T>(a)?, elements(b)?, elements_mut(write)?);
                    triune_kernels::product(isa, spec, a, b, write, elements_mut(scratch)?, pool)
                })
            },
        );
        checker.finish([a, b], &output, false, step)
    }
}

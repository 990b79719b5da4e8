//! Matrix products of two feature maps.

use std::sync::Arc;

use triune_kernels::{
    Error as KernelError, FMatMul, IMatMul, IMatMulOperands, IMatMulSpec, Isa, MatMulSpec, Nhwc, PackedBytes,
    Pool, QMatMul, QMatMulSpec, TMatMulSpec,
};
use triune_tensor::{DType, function::UnaryKind};

use super::super::{
    check::{Checker, FilterSource, Result, bad, expect_dtype, refused},
    operands::{MAX_READS, Prepared, Step},
};
use super::{EIGHT_BIT, conv::q8, elements, elements_mut, with_number};
use crate::command;

#[derive(Debug)]
struct MatMulStep {
    product: FMatMul,
    bias: Option<Vec<f32>>,
    activation: UnaryKind,
    /// The result as a flat map.
    results: Nhwc,
    isa: Isa,
}

impl MatMulStep {
    /// Bytes of the product where an activation follows it.
    fn raw_bytes(&self) -> usize {
        if self.activation == UnaryKind::Identity {
            0
        } else {
            (4 * self.results.elements()).next_multiple_of(64)
        }
    }
}

impl Step for MatMulStep {
    fn scratch_bytes(&self, threads: usize) -> usize {
        self.raw_bytes() + self.product.scratch_bytes(threads)
    }

    fn run(
        &self,
        [a, b, ..]: [&[u8]; MAX_READS],
        write: &mut [u8],
        scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), KernelError> {
        let (a, b, write) = (elements(a)?, elements(b)?, elements_mut(write)?);
        let (raw, scratch) = scratch.split_at_mut(self.raw_bytes());
        if self.activation == UnaryKind::Identity {
            return self.product.run(a, b, self.bias.as_deref(), write, scratch, pool);
        }
        let raw: &mut [f32] = &mut elements_mut(raw)?[..self.results.elements()];
        self.product.run(a, b, self.bias.as_deref(), raw, scratch, pool)?;
        triune_kernels::unary(self.isa, self.activation, raw, self.results, write, self.results, pool)
    }
}

pub(super) fn fmatmul(checker: &Checker<'_>, command: &command::FMatMul) -> Result<Prepared> {
    let [batch, m, n, k] = [command.batch, command.m, command.n, command.k].map(u64::from);
    let count = |factors: [u64; 3]| factors.into_iter().fold(1_u64, u64::saturating_mul);
    let b_batch = if command.shared_b { 1 } else { batch };
    let a = checker.dense("a", command.a, 4, count([batch, m, k]))?;
    let b = checker.dense("b", command.b, 4, count([b_batch, k, n]))?;
    let output = checker.dense("output", command.output, 4, count([batch, m, n]))?;
    let mut spec = MatMulSpec::dense(
        batch as usize,
        m as usize,
        n as usize,
        k as usize,
        command.transpose_a,
        command.transpose_b,
    );
    if command.shared_b {
        spec.batch_b = 0;
    }
    let product = FMatMul::new(&spec, checker.isa).map_err(refused("k"))?;
    let bias = command.bias.map(|addr| checker.floats("bias", addr, Some(n))).transpose()?;
    let step = MatMulStep {
        product,
        bias,
        activation: command.activation,
        results: Nhwc::dense(1, 1, 1, count([batch, m, n]) as usize),
        isa: checker.isa,
    };
    checker.finish([a, b], &output, false, step)
}

#[derive(Debug)]
struct QMatMulStep(QMatMul);

impl Step for QMatMulStep {
    fn scratch_bytes(&self, _threads: usize) -> usize {
        self.0.scratch_bytes()
    }

    fn run(
        &self,
        [a, b, ..]: [&[u8]; MAX_READS],
        write: &mut [u8],
        scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), KernelError> {
        self.0.run(a, b, write, scratch, pool)
    }
}

pub(super) fn qmatmul(checker: &Checker<'_>, command: &command::QMatMul) -> Result<Prepared> {
    let [batch, m, n, k] = [command.batch, command.m, command.n, command.k].map(u64::from);
    let count = |factors: [u64; 3]| factors.into_iter().fold(1_u64, u64::saturating_mul);
    let b_batch = if command.shared_b { 1 } else { batch };
    let bytes = |field: &str, target: command::RequantTarget| {
        let [dtype, zero_point] = ["dtype", "zero_point"].map(|part| format!("{field}.{part}"));
        q8(&dtype, &zero_point, target.dtype, target.zero_point)
    };
    let spec = QMatMulSpec {
        batch: batch as usize,
        m: m as usize,
        n: n as usize,
        k: k as usize,
        trans_a: command.transpose_a,
        trans_b: command.transpose_b,
        shared_b: command.shared_b,
        a: bytes("a_target", command.a_target)?,
        b: bytes("b_target", command.b_target)?,
        output: bytes("result", command.result)?,
        multiplier: command.multiplier,
        rounding: command.rounding,
    };
    if !command.multiplier.is_finite() {
        return bad("multiplier", "is not finite");
    }
    let product = QMatMul::new(&spec, checker.isa).map_err(refused("k"))?;
    let a = checker.dense("a", command.a, 1, count([batch, m, k]))?;
    let b = checker.dense("b", command.b, 1, count([b_batch, k, n]))?;
    let output = checker.dense("output", command.output, 1, count([batch, m, n]))?;
    checker.finish([a, b], &output, false, QMatMulStep(product))
}

#[derive(Debug)]
struct IMatMulStep {
    product: IMatMul,
    weights: Option<Arc<PackedBytes>>,
}

impl Step for IMatMulStep {
    fn scratch_bytes(&self, _threads: usize) -> usize {
        self.product.scratch_bytes(self.weights.is_some())
    }

    fn run(
        &self,
        [a, b, a_zeros, b_zeros, scales]: [&[u8]; MAX_READS],
        write: &mut [u8],
        scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), KernelError> {
        let operands = IMatMulOperands { a, b, a_zeros, b_zeros, scales: elements(scales)? };
        self.product.run(operands, self.weights.as_deref(), elements_mut(write)?, scratch, pool)
    }
}

pub(super) fn imatmul(checker: &Checker<'_>, command: &command::IMatMul) -> Result<Prepared> {
    expect_dtype("a_dtype", command.a_dtype, EIGHT_BIT)?;
    expect_dtype("b_dtype", command.b_dtype, EIGHT_BIT)?;
    let [batch, m, n, k] = [command.batch, command.m, command.n, command.k].map(u64::from);
    let count = |factors: [u64; 3]| factors.into_iter().fold(1_u64, u64::saturating_mul);
    let signed = [command.a_dtype, command.b_dtype].map(|dtype| dtype == DType::I8);
    let a = checker.dense("a", command.a, 1, count([batch, m, k]))?;
    let b_batch = if command.shared_b { 1 } else { batch };
    let b = command.b.map(|addr| checker.dense("b", addr, 1, count([b_batch, k, n]))).transpose()?;
    let given = |field, addr: Option<_>, bytes, elements: u32, most: u64| match addr {
        None => Ok(None),
        Some(_) if elements != 1 && u64::from(elements) != most => {
            bad("counts", format!("{elements} of '{field}' for {most}"))
        }
        Some(addr) => checker.dense(field, addr, bytes, elements.into()).map(Some),
    };
    let [zeros_of_a, zeros_of_b, factors] = command.counts;
    let a_zeros = given("a_zeros", command.a_zeros, 1, zeros_of_a, m)?;
    let b_zeros = given("b_zeros", command.b_zeros, 1, zeros_of_b, n)?;
    let scales = given("scales", command.scales, 4, factors, n)?;
    let output = checker.dense("output", command.output, 4, count([batch, m, n]))?;
    let number = |given: bool, count: u32| if given { count as usize } else { 0 };
    let spec = IMatMulSpec {
        batch: batch as usize,
        m: m as usize,
        n: n as usize,
        k: k as usize,
        shared_b: command.shared_b || command.weights.is_some(),
        signed,
        a_zeros: number(a_zeros.is_some(), zeros_of_a),
        b_zeros: number(b_zeros.is_some(), zeros_of_b),
        scales: number(scales.is_some(), factors),
    };
    let product = IMatMul::new(&spec, checker.isa).map_err(refused("k"))?;
    let weights = match (b.is_some(), command.weights) {
        (true, None) => None,
        (false, Some(addr)) => {
            let extents = [spec.k, spec.n];
            let packed = match checker.weights("weights", addr, [spec.n, 1, spec.k], 1)? {
                FilterSource::Constants(bytes) => {
                    PackedBytes::new(&bytes, extents, [1, spec.k], signed[1], checker.isa).map(Arc::new)
                }
                FilterSource::Library(own) => own.library.packed_bytes_of(addr, &own, signed[1], checker.isa),
            };
            Some(packed.map_err(refused("weights"))?)
        }
        _ => return bad("weights", "either these or 'b' is the second operand"),
    };
    let step = IMatMulStep { product, weights };
    checker.finish_some([Some(a), b, a_zeros, b_zeros, scales], &output, false, step)
}

#[derive(Debug)]
struct TMatMulStep {
    spec: TMatMulSpec,
    dtype: DType,
    isa: Isa,
}

impl Step for TMatMulStep {
    fn scratch_bytes(&self, threads: usize) -> usize {
        self.spec.scratch_elements(threads).saturating_mul(self.dtype.bytes())
    }

    fn run(
        &self,
        [a, b, ..]: [&[u8]; MAX_READS],
        write: &mut [u8],
        scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), KernelError> {
        let scratch = &mut scratch[..self.scratch_bytes(pool.threads())];
        with_number!(self.dtype, T => {
            let (a, b, write) = (elements::<T>(a)?, elements(b)?, elements_mut(write)?);
            triune_kernels::product(self.isa, &self.spec, a, b, write, elements_mut(scratch)?, pool)
        })
    }
}

pub(super) fn tmatmul(checker: &Checker<'_>, command: &command::TMatMul) -> Result<Prepared> {
    let dtype = command.dtype;
    if dtype != DType::F64 && (dtype.is_float() || dtype.is_storage() || dtype == DType::Bool) {
        return bad("dtype", format!("the type is {dtype}, it can be an integer type or float64"));
    }
    let [batch, m, n, k] = [command.batch, command.m, command.n, command.k].map(u64::from);
    let count = |factors: [u64; 3]| factors.into_iter().fold(1_u64, u64::saturating_mul);
    let bytes = dtype.bytes() as u64;
    let b_batch = if command.shared_b { 1 } else { batch };
    let a = checker.dense("a", command.a, bytes, count([batch, m, k]))?;
    let b = checker.dense("b", command.b, bytes, count([b_batch, k, n]))?;
    let output = checker.dense("output", command.output, bytes, count([batch, m, n]))?;
    let [batch, m, n, k] = [batch, m, n, k].map(|extent| extent as usize);
    let spec = TMatMulSpec { batch, m, n, k, shared_b: command.shared_b };
    checker.finish([a, b], &output, false, TMatMulStep { spec, dtype, isa: checker.isa })
}

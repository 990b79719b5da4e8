//! Matrix products of two feature maps.

use triune_kernels::{Error as KernelError, FMatMul, Isa, MatMulSpec, Nhwc, Pool, QMatMul, QMatMulSpec};

use triune_tensor::function::UnaryKind;

use super::super::{
    check::{Checker, Result, bad, refused},
    operands::{MAX_READS, Prepared, Step},
};
use super::{conv::q8, elements, elements_mut};
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

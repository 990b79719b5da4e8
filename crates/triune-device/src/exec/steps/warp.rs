//! Perspective warps and weighted sums: maps, matrices and indices checked, the element type chosen.

use triune_kernels::{Error as KernelError, Isa, Nhwc, Pool, Sample, WarpSpec, WeighSpec};
use triune_tensor::DType;

use super::super::{
    check::{Checker, Result, bad, expect_dtype},
    operands::{MAX_READS, Prepared, Step},
};
use super::{elements, elements_mut};
use crate::command;

#[derive(Debug)]
struct WarpStep {
    spec: WarpSpec,
    indexed: bool,
    dtype: DType,
    input: Nhwc,
    output: Nhwc,
    isa: Isa,
}

impl WarpStep {
    fn of<T: Sample + bytemuck::Pod>(
        &self,
        [x, matrices, images, ..]: [&[u8]; MAX_READS],
        write: &mut [u8],
        pool: &Pool,
    ) -> Result<(), KernelError> {
        let Self { spec, input, output, isa, .. } = self;
        let images = if self.indexed { Some(elements(images)?) } else { None };
        let (x, y, matrices) = (elements::<T>(x)?, elements_mut(write)?, elements(matrices)?);
        triune_kernels::warp_perspective(*isa, spec, matrices, images, x, *input, y, *output, pool)
    }
}

impl Step for WarpStep {
    fn run(
        &self,
        reads: [&[u8]; MAX_READS],
        write: &mut [u8],
        _scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), KernelError> {
        match self.dtype {
            DType::U8 => self.of::<u8>(reads, write, pool),
            DType::I8 => self.of::<i8>(reads, write, pool),
            _ => self.of::<f32>(reads, write, pool),
        }
    }
}

pub(super) fn warp(checker: &Checker<'_>, command: &command::Warp) -> Result<Prepared> {
    expect_dtype("input", command.input.dtype, &[DType::F32, DType::I8, DType::U8])?;
    expect_dtype("output", command.output.dtype, &[command.input.dtype])?;
    let input = checker.map("input", &command.input)?;
    let output = checker.output_map("output", &command.output)?;
    let (from, to) = (input.nhwc, output.nhwc);
    if from.c != to.c {
        return bad("output", format!("has {} channels, the input {}", to.c, from.c));
    }
    if from.span() == 0 && to.span() > 0 {
        return bad("input", "is empty, and the output is not");
    }
    if command.images.is_none() && from.n != to.n {
        return bad("output", format!("has {} images, the input {}, and no indices say which", to.n, from.n));
    }
    if !command.border.value().is_finite() {
        return bad("border", "its value is not finite");
    }
    let images = to.n as u64;
    let matrices = checker.dense("matrices", command.matrices, 4, 9 * images)?;
    let step = WarpStep {
        spec: WarpSpec { sampling: command.sampling, border: command.border },
        indexed: command.images.is_some(),
        dtype: command.input.dtype,
        input: from,
        output: to,
        isa: checker.isa,
    };
    match command.images {
        Some(addr) => {
            let indices = checker.dense("images", addr, 4, images)?;
            checker.finish([input.placed, matrices, indices], &output.placed, false, step)
        }
        None => checker.finish([input.placed, matrices], &output.placed, false, step),
    }
}

#[derive(Debug)]
struct WeighStep {
    spec: WeighSpec,
    weighted: bool,
    isa: Isa,
}

impl Step for WeighStep {
    fn scratch_bytes(&self, threads: usize) -> usize {
        self.spec.scratch_floats(threads).saturating_mul(4)
    }

    fn run(
        &self,
        [x, indices, factors, ..]: [&[u8]; MAX_READS],
        write: &mut [u8],
        scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), KernelError> {
        let factors = if self.weighted { Some(elements(factors)?) } else { None };
        let scratch = elements_mut(&mut scratch[..self.scratch_bytes(pool.threads())])?;
        let (x, indices, write) = (elements(x)?, elements(indices)?, elements_mut(write)?);
        triune_kernels::weigh(self.isa, &self.spec, x, indices, factors, write, scratch, pool)
    }
}

pub(super) fn weigh(checker: &Checker<'_>, command: &command::Weigh) -> Result<Prepared> {
    let command::Weigh { batch, channels, elements, count, taps, shared, .. } = *command;
    let floats = |factors: [u32; 3]| {
        factors.into_iter().fold(1_u64, |product, factor| product.saturating_mul(factor.into()))
    };
    let own = floats([if shared { 1 } else { batch }, taps, count]);
    let input = checker.dense("input", command.input, 4, floats([batch, channels, elements]))?;
    let indices = checker.dense("indices", command.indices, 4, own)?;
    let factors = command.factors.map(|addr| checker.dense("factors", addr, 4, own)).transpose()?;
    let output = checker.dense("output", command.output, 4, floats([batch, channels, count]))?;
    let [batch, channels, elements, count, taps] =
        [batch, channels, elements, count, taps].map(|extent| extent as usize);
    let spec = WeighSpec { batch, channels, elements, count, taps, shared };
    let step = WeighStep { spec, weighted: factors.is_some(), isa: checker.isa };
    checker.finish_some([Some(input), Some(indices), factors], &output, false, step)
}

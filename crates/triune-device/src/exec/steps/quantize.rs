//! The border between reals and integers.

use triune_kernels::{Error as KernelError, Isa, Nhwc, Pool, Q8};
use triune_tensor::{DType, QuantParams, Rounding};

use super::super::{
    check::{Checker, PlacedMap, Result, bad, expect_dtype, expect_same_extents},
    operands::{MAX_READS, Prepared, Step},
};
use super::conv::q8;
use super::{EIGHT_BIT, FLOAT, elements, elements_mut, expect_scale};
use crate::command::{self, FieldError};

/// What reals become.
const INTEGERS: &[DType] = &[DType::I8, DType::U8, DType::I16];

#[derive(Debug)]
enum Kind {
    Quantize(Q8, Rounding),
    Dequantize(Q8),
    /// From i32.
    Widen,
}

#[derive(Debug)]
struct ConvertStep {
    kind: Kind,
    scale: f32,
    input: Nhwc,
    output: Nhwc,
    isa: Isa,
}

impl Step for ConvertStep {
    fn run(
        &self,
        [x, ..]: [&[u8]; MAX_READS],
        write: &mut [u8],
        _scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), KernelError> {
        let Self { scale, input, output, isa, .. } = *self;
        match self.kind {
            Kind::Quantize(q, rounding) => {
                triune_kernels::quantize(isa, scale, q, rounding, elements(x)?, input, write, output, pool)
            }
            Kind::Dequantize(q) => {
                triune_kernels::dequantize(isa, scale, q, x, input, elements_mut(write)?, output, pool)
            }
            Kind::Widen => {
                let (x, y) = (elements(x)?, elements_mut(write)?);
                triune_kernels::dequantize_i32(isa, &[scale], x, input, y, output, pool)
            }
        }
    }
}

pub(super) fn quantize(checker: &Checker<'_>, command: &command::Quantize) -> Result<Prepared> {
    expect_dtype("input", command.input.dtype, FLOAT)?;
    expect_dtype("output", command.output.dtype, INTEGERS)?;
    expect_scale("quant.scale", command.quant.scale)?;
    if command.output.dtype == DType::I16 {
        let maps = maps(checker, &command.input, &command.output)?;
        return q16(checker, Some(command.rounding), command.quant, maps);
    }
    let encoding = q8("output", "quant.zero_point", command.output.dtype, command.quant.zero_point)?;
    let kind = Kind::Quantize(encoding, command.rounding);
    convert(checker, kind, command.quant.scale, &command.input, &command.output)
}

#[derive(Debug)]
struct QuantizeByStep {
    signed: bool,
    rounding: Rounding,
    input: Nhwc,
    output: Nhwc,
    isa: Isa,
}

impl Step for QuantizeByStep {
    fn run(
        &self,
        [x, scale, zero_point, ..]: [&[u8]; MAX_READS],
        write: &mut [u8],
        _scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), KernelError> {
        let Self { signed, rounding, input, output, isa } = *self;
        let Some(&scale) = elements::<f32>(scale)?.first() else {
            return Err(KernelError::Invalid("a quantizer without a scale"));
        };
        let zero_point = zero_point.first().map_or(0, |&byte| Q8 { signed, zero_point: 0 }.value(byte));
        let quant = Q8 { signed, zero_point };
        triune_kernels::quantize_by(isa, scale, quant, rounding, elements(x)?, input, write, output, pool)
    }
}

pub(super) fn quantize_by(checker: &Checker<'_>, command: &command::QuantizeBy) -> Result<Prepared> {
    expect_dtype("input", command.input.dtype, FLOAT)?;
    expect_dtype("output", command.output.dtype, EIGHT_BIT)?;
    let [input, output] = maps(checker, &command.input, &command.output)?;
    let scale = checker.dense("scale", command.scale, 4, 1)?;
    let zero_point = command.zero_point.map(|addr| checker.dense("zero_point", addr, 1, 1)).transpose()?;
    let step = QuantizeByStep {
        signed: command.output.dtype == DType::I8,
        rounding: command.rounding,
        input: input.nhwc,
        output: output.nhwc,
        isa: checker.isa,
    };
    let reads = [Some(input.placed), Some(scale), zero_point];
    checker.finish_some(reads, &output.placed, false, step)
}

pub(super) fn dequantize(checker: &Checker<'_>, command: &command::Dequantize) -> Result<Prepared> {
    expect_dtype("output", command.output.dtype, FLOAT)?;
    expect_scale("quant.scale", command.quant.scale)?;
    if command.input.dtype == DType::I16 {
        let maps = maps(checker, &command.input, &command.output)?;
        return q16(checker, None, command.quant, maps);
    }
    let kind = if command.input.dtype == DType::I32 {
        if command.quant.zero_point != 0 {
            return bad("quant.zero_point", "must be 0 for i32");
        }
        Kind::Widen
    } else {
        Kind::Dequantize(q8("input", "quant.zero_point", command.input.dtype, command.quant.zero_point)?)
    };
    convert(checker, kind, command.quant.scale, &command.input, &command.output)
}

/// Two maps of the same extents.
fn maps(
    checker: &Checker<'_>,
    input: &command::FeatureMap,
    output: &command::FeatureMap,
) -> Result<[PlacedMap; 2]> {
    let input = checker.map("input", input)?;
    let output = checker.output_map("output", output)?;
    expect_same_extents("output", &output.nhwc, &input.nhwc)?;
    Ok([input, output])
}

fn convert(
    checker: &Checker<'_>,
    kind: Kind,
    scale: f32,
    input: &command::FeatureMap,
    output: &command::FeatureMap,
) -> Result<Prepared> {
    let [input, output] = maps(checker, input, output)?;
    let step = ConvertStep { kind, scale, input: input.nhwc, output: output.nhwc, isa: checker.isa };
    checker.finish([input.placed], &output.placed, false, step)
}

/// Between reals and integers of 16 bits.
#[derive(Debug)]
struct Q16Step {
    /// `None` for the way to reals.
    rounding: Option<Rounding>,
    params: QuantParams,
    input: Nhwc,
    output: Nhwc,
}

impl Step for Q16Step {
    fn run(
        &self,
        [x, ..]: [&[u8]; MAX_READS],
        write: &mut [u8],
        _scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), KernelError> {
        let Self { params, input, output, .. } = *self;
        match self.rounding {
            Some(rounding) => triune_kernels::quantize_q16(
                params,
                rounding,
                elements(x)?,
                input,
                elements_mut(write)?,
                output,
                pool,
            ),
            None => triune_kernels::dequantize_q16(
                params,
                elements(x)?,
                input,
                elements_mut(write)?,
                output,
                pool,
            ),
        }
    }
}

/// From reals with a rounding, else to reals.
fn q16(
    checker: &Checker<'_>,
    rounding: Option<Rounding>,
    quant: command::Quant,
    [input, output]: [PlacedMap; 2],
) -> Result<Prepared> {
    let command::Quant { scale, zero_point } = quant;
    if i16::try_from(zero_point).is_err() {
        return Err(FieldError::new(format!("{zero_point} does not fit 16 bits")).within("quant.zero_point"));
    }
    let params = QuantParams { scale, zero_point };
    let step = Q16Step { rounding, params, input: input.nhwc, output: output.nhwc };
    checker.finish([input.placed], &output.placed, false, step)
}

//! The border between reals and integers.

use triune_kernels::{Error as KernelError, Q8};
use triune_tensor::{DType, QuantParams, Rounding};

use super::super::{
    check::{Checker, PlacedMap, Result, bad, expect_dtype, expect_same_extents},
    operands::{Prepared, in_rows, plain},
};
use super::conv::q8;
use super::eltwise::{flat, flat_rows};
use super::{EIGHT_BIT, FLOAT, Prepare, elements, elements_mut, expect_scale};
use crate::command::{self, FieldError};

/// What reals become.
const INTEGERS: &[DType] = &[DType::I8, DType::U8, DType::I16, DType::U16];

/// Those of 16 bits.
const WORDS: [DType; 2] = [DType::I16, DType::U16];

enum Kind {
    Quantize(Q8, Rounding),
    Dequantize(Q8),
    /// From i32.
    Widen,
}

impl Prepare for command::Quantize {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        expect_dtype("input", self.input.dtype, FLOAT)?;
        expect_dtype("output", self.output.dtype, INTEGERS)?;
        expect_scale("quant.scale", self.quant.scale)?;
        if WORDS.contains(&self.output.dtype) {
            let maps = maps(checker, &self.input, &self.output)?;
            return q16(checker, self.output.dtype, Some(self.rounding), self.quant, maps);
        }
        let encoding = q8("output", "quant.zero_point", self.output.dtype, self.quant.zero_point)?;
        let kind = Kind::Quantize(encoding, self.rounding);
        convert(checker, kind, self.quant.scale, &self.input, &self.output)
    }
}

impl Prepare for command::QuantizeBy {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        expect_dtype("input", self.input.dtype, FLOAT)?;
        expect_dtype("output", self.output.dtype, EIGHT_BIT)?;
        let [input, output] = maps(checker, &self.input, &self.output)?;
        let scale = checker.dense("scale", self.scale, 4, 1)?;
        let zero_point = self.zero_point.map(|addr| checker.dense("zero_point", addr, 1, 1)).transpose()?;
        let (signed, rounding) = (self.output.dtype == DType::I8, self.rounding);
        let (from, to, isa) = (input.nhwc, output.nhwc, checker.isa);
        let step = plain(move |[x, scale, zero_point, ..], write, pool| {
            let Some(&scale) = elements::<f32>(scale)?.first() else {
                return Err(KernelError::Invalid("a quantizer without a scale"));
            };
            let zero_point = zero_point.first().map_or(0, |&byte| Q8 { signed, zero_point: 0 }.value(byte));
            let quant = Q8 { signed, zero_point };
            triune_kernels::quantize_by(isa, scale, quant, rounding, elements(x)?, from, write, to, pool)
        });
        let reads = [Some(input.placed), Some(scale), zero_point];
        checker.finish_some(reads, &output.placed, false, step)
    }
}

impl Prepare for command::Dequantize {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        expect_dtype("output", self.output.dtype, FLOAT)?;
        expect_scale("quant.scale", self.quant.scale)?;
        if WORDS.contains(&self.input.dtype) {
            let maps = maps(checker, &self.input, &self.output)?;
            return q16(checker, self.input.dtype, None, self.quant, maps);
        }
        let kind = if self.input.dtype == DType::I32 {
            if self.quant.zero_point != 0 {
                return bad("quant.zero_point", "must be 0 for i32");
            }
            Kind::Widen
        } else {
            Kind::Dequantize(q8("input", "quant.zero_point", self.input.dtype, self.quant.zero_point)?)
        };
        convert(checker, kind, self.quant.scale, &self.input, &self.output)
    }
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
    let (from, to, isa) = (input.nhwc, output.nhwc, checker.isa);
    let bytes = match kind {
        Kind::Quantize(..) => [4, 1],
        Kind::Dequantize(_) => [1, 4],
        Kind::Widen => [4, 4],
    };
    let step = in_rows(flat_rows(from, to, bytes), move |count, [x, ..], write, pool| {
        let (from, to) = count.map_or((from, to), flat);
        match kind {
            Kind::Quantize(q, rounding) => {
                triune_kernels::quantize(isa, scale, q, rounding, elements(x)?, from, write, to, pool)
            }
            Kind::Dequantize(q) => {
                triune_kernels::dequantize(isa, scale, q, x, from, elements_mut(write)?, to, pool)
            }
            Kind::Widen => {
                let (x, y) = (elements(x)?, elements_mut(write)?);
                triune_kernels::dequantize_i32(isa, &[scale], x, from, y, to, pool)
            }
        }
    });
    checker.finish([input.placed], &output.placed, false, step)
}

/// Between reals and integers of 16 bits: from reals with a rounding, else to reals.
fn q16(
    checker: &Checker<'_>,
    dtype: DType,
    rounding: Option<Rounding>,
    quant: command::Quant,
    [input, output]: [PlacedMap; 2],
) -> Result<Prepared> {
    let command::Quant { scale, zero_point } = quant;
    let (low, high) = dtype.int_range().unwrap_or_default();
    if !(low..=high).contains(&zero_point.into()) {
        return Err(FieldError::new(format!("{zero_point} does not fit 16 bits")).within("quant.zero_point"));
    }
    let params = QuantParams { scale, zero_point };
    let (from, to) = (input.nhwc, output.nhwc);
    let isa = checker.isa;
    macro_rules! step {
        ($word:ty) => {
            plain(move |[x, ..], write, pool| {
                if let Some(rounding) = rounding {
                    let (x, y) = (elements(x)?, elements_mut::<$word>(write)?);
                    return triune_kernels::q16_quantize(isa, params, rounding, x, from, y, to, pool);
                }
                let (x, y) = (elements::<$word>(x)?, elements_mut(write)?);
                triune_kernels::q16_dequantize(isa, params, x, from, y, to, pool)
            })
        };
    }
    let reads = [input.placed];
    if dtype == DType::U16 {
        return checker.finish(reads, &output.placed, false, step!(u16));
    }
    checker.finish(reads, &output.placed, false, step!(i16))
}

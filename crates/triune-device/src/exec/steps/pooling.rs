//! Pools: the element type decides between the 8-bit and the f32 kernel.

use triune_kernels::{Isa, Nhwc, PoolQuant, PoolSpec, Q16Pool};
use triune_tensor::{DType, Requantize, Rounding, function::PoolKind};

use super::super::{
    check::{Checker, PlacedMap, Result, bad, expect_dtype, refused},
    operands::{Prepared, Step, plain},
};
use super::conv::q8;
use super::{Prepare, elements, elements_mut, expect_equal_dtypes, expect_scale, expect_zero};
use crate::{
    FeatureMap,
    command::{self, Quant},
};

/// A pool by `window`, or else over the whole map; with `quant` over integers.
fn step(
    isa: Isa,
    kind: PoolKind,
    window: Option<PoolSpec>,
    quant: Option<Quantized>,
    [input, output]: [Nhwc; 2],
) -> impl Step + 'static {
    plain(move |[x, ..], write, pool| match (&window, &quant) {
        (Some(window), Some(Quantized::Bytes(quant))) => {
            triune_kernels::q8_pool(isa, window, quant, x, input, write, output, pool)
        }
        (None, Some(Quantized::Bytes(quant))) => {
            triune_kernels::q8_global_pool(isa, kind, quant, x, input, write, output, pool)
        }
        (window, Some(Quantized::Words(quant))) => {
            let window = window.unwrap_or_else(|| whole(kind, input));
            let (x, y) = (elements(x)?, elements_mut(write)?);
            triune_kernels::q16_pool(isa, &window, quant, x, input, y, output, pool)
        }
        (Some(window), None) => {
            triune_kernels::f32_pool(isa, window, elements(x)?, input, elements_mut(write)?, output, pool)
        }
        (None, None) => {
            let (x, y) = (elements(x)?, elements_mut(write)?);
            triune_kernels::f32_global_pool(isa, kind, x, input, y, output, pool)
        }
    })
}

/// The window that covers a map.
const fn whole(kind: PoolKind, map: Nhwc) -> PoolSpec {
    PoolSpec { kernel: [map.h, map.w], stride: [1, 1], dilation: [1, 1], pad: [0; 4], kind }
}

/// The meaning of integers in a pool.
enum Quantized {
    Bytes(PoolQuant),
    Words(Q16Pool),
}

/// The maps of a pool, and their meaning if they hold integers.
fn operands(
    checker: &Checker<'_>,
    kind: PoolKind,
    (input, input_quant): (&FeatureMap, Quant),
    (output, output_quant): (&FeatureMap, Quant),
    (rounding, requantize): (Rounding, Requantize),
) -> Result<(PlacedMap, PlacedMap, Option<Quantized>)> {
    expect_dtype("input", input.dtype, &[DType::I8, DType::U8, DType::I16, DType::F32])?;
    expect_equal_dtypes(input.dtype, output.dtype, &[input.dtype])?;
    let quant = if input.dtype == DType::F32 {
        None
    } else {
        expect_scale("input_quant.scale", input_quant.scale)?;
        expect_scale("output_quant.scale", output_quant.scale)?;
        if kind == PoolKind::Max && input_quant != output_quant {
            return bad("output_quant", "differs from the input's, and a maximum keeps it");
        }
        if input.dtype == DType::I16 {
            expect_zero("input_quant.zero_point", input_quant.zero_point)?;
            expect_zero("output_quant.zero_point", output_quant.zero_point)?;
            let (input_scale, output_scale) = (input_quant.scale, output_quant.scale);
            let quant = Q16Pool { input_scale, output_scale, rounding, requantize };
            quant.check(kind).map_err(refused("output_quant"))?;
            Some(Quantized::Words(quant))
        } else {
            let quant = PoolQuant {
                input: q8("input", "input_quant.zero_point", input.dtype, input_quant.zero_point)?,
                input_scale: input_quant.scale,
                output: q8("output", "output_quant.zero_point", output.dtype, output_quant.zero_point)?,
                output_scale: output_quant.scale,
                rounding,
                requantize,
            };
            Some(Quantized::Bytes(quant))
        }
    };
    let (input, output) = (checker.map("input", input)?, checker.output_map("output", output)?);
    if (input.nhwc.n, input.nhwc.c) != (output.nhwc.n, output.nhwc.c) {
        return bad("output", "has other images or channels than the input");
    }
    Ok((input, output, quant))
}

impl Prepare for command::Pool {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        let window = self.window;
        if window.groups != 1 {
            return bad("window.groups", format!("is {}, pools have 1", window.groups));
        }
        for (field, values) in [
            ("window.kernel", window.kernel),
            ("window.stride", window.stride),
            ("window.dilation", window.dilation),
        ] {
            if values.contains(&0) {
                return bad(field, "is 0");
            }
        }
        let (input, output, quant) = operands(
            checker,
            self.kind,
            (&self.input, self.input_quant),
            (&self.output, self.output_quant),
            (self.rounding, self.requantize),
        )?;
        let kind = self.kind;
        let spec = PoolSpec {
            kernel: window.kernel.map(|each| each as usize),
            stride: window.stride.map(|each| each as usize),
            dilation: window.dilation.map(|each| each as usize),
            pad: window.pad.map(|each| each as usize),
            kind,
        };
        spec.check(input.nhwc, output.nhwc).map_err(refused("window"))?;
        if let Some(Quantized::Bytes(quant)) = &quant {
            quant.check(&spec, input.nhwc).map_err(refused("output_quant"))?;
        }
        let step = step(checker.isa, kind, Some(spec), quant, [input.nhwc, output.nhwc]);
        checker.finish([input.placed], &output.placed, false, step)
    }
}

impl Prepare for command::GlobalPool {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        let (input, output, quant) = operands(
            checker,
            self.kind,
            (&self.input, self.input_quant),
            (&self.output, self.output_quant),
            (self.rounding, self.requantize),
        )?;
        if (output.nhwc.h, output.nhwc.w) != (1, 1) {
            return bad("output", "has more than one row or column");
        }
        let kind = self.kind;
        if let Some(Quantized::Bytes(quant)) = &quant {
            quant.check(&whole(kind, input.nhwc), input.nhwc).map_err(refused("output_quant"))?;
        }
        let step = step(checker.isa, kind, None, quant, [input.nhwc, output.nhwc]);
        checker.finish([input.placed], &output.placed, false, step)
    }
}

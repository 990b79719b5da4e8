//! 16-bit integers, symmetric: the forms of 8-bit commands whose maps are `i16`.

use triune_kernels::{
    Broadcast, Error as KernelError, Isa, Nhwc, Pool, PoolSpec, WideConv, WideConvSpec, WidePool, WideTarget,
};
use triune_tensor::{DType, QuantParams, Requantize, Rounding, function::PoolKind};

use super::super::{
    check::{Checker, FilterSource, PlacedMap, Result, bad, expect_dtype, expect_same_extents, refused},
    operands::{MAX_READS, Prepared, Step},
};
use super::conv::{expect_clamp, expect_window, weight_extents};
use super::eltwise::{Binaries, broadcast};
use super::{elements, elements_mut};
use crate::command::{self, FieldError};

const WIDE: &[DType] = &[DType::I16];
/// Its integers.
const RANGE: [i32; 2] = [i16::MIN as i32, i16::MAX as i32];

/// Refuses anything but 0.
fn expect_zero(field: &str, zero_point: i32) -> Result<()> {
    if zero_point == 0 { Ok(()) } else { bad(field, format!("is {zero_point}, 16-bit integers have 0")) }
}

/// Refuses what the convolution of 16-bit integers does not take along.
fn expect_absent(field: &str, given: bool) -> Result<()> {
    if given { bad(field, "cannot be joined to a 16-bit convolution") } else { Ok(()) }
}

#[derive(Debug)]
struct ConvStep {
    kernel: WideConv,
    input: Nhwc,
    output: Nhwc,
}

impl Step for ConvStep {
    fn run(
        &self,
        [input, ..]: [&[u8]; MAX_READS],
        write: &mut [u8],
        _scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), KernelError> {
        self.kernel.run(elements(input)?, self.input, elements_mut(write)?, self.output, pool)
    }
}

pub(super) fn conv(checker: &Checker<'_>, command: &command::QConv) -> Result<Prepared> {
    expect_dtype("output", command.output.dtype, WIDE)?;
    expect_dtype("result", command.result.dtype, WIDE)?;
    expect_zero("input_zero_point", command.input_zero_point)?;
    expect_zero("result.zero_point", command.result.zero_point)?;
    expect_clamp("clamp", command.clamp, RANGE)?;
    expect_absent("table", command.table.is_some())?;
    expect_absent("residual", command.residual.is_some())?;
    expect_absent("add", command.add.is_some())?;
    let input = checker.map("input", &command.input)?;
    let output = checker.output_map("output", &command.output)?;
    let geometry = expect_window(&command.window, &input.nhwc, &output.nhwc)?;
    let extents = weight_extents(&geometry, &input.nhwc, &output.nhwc)?;
    let weights = match command.weight_blocks {
        [0, 0] => checker.weights("weights", command.weights, extents, 2)?,
        blocks => checker.weights_in_blocks("weights", command.weights, extents, blocks, 2)?,
    };
    let integers = |bytes: &[u8]| -> Vec<i16> {
        bytes.as_chunks::<2>().0.iter().map(|&word| i16::from_le_bytes(word)).collect()
    };
    let weights = match weights {
        FilterSource::Constants(bytes) => integers(&bytes),
        FilterSource::Library(weights) => integers(&weights.dense()),
    };
    let channels = output.nhwc.c;
    let bias = command.bias.map(|addr| checker.ints("bias", addr, Some(channels as u64))).transpose()?;
    if command.multipliers != 1 && command.multipliers as usize != channels {
        return bad("multipliers", format!("{} for {channels} channels", command.multipliers));
    }
    let multiplier = checker.floats("multiplier", command.multiplier, Some(command.multipliers.into()))?;
    let kernel = WideConv::new(&WideConvSpec {
        geometry,
        in_channels: input.nhwc.c,
        out_channels: channels,
        weights: &weights,
        bias: bias.as_deref(),
        multiplier: &multiplier,
        target: WideTarget { rounding: command.rounding, clamp: command.clamp },
    })
    .map_err(refused("weights"))?;
    let step = ConvStep { kernel, input: input.nhwc, output: output.nhwc };
    checker.finish([input.placed], &output.placed, false, step)
}

#[derive(Debug)]
enum Function {
    Sum([f32; 2]),
    Product(f32),
}

#[derive(Debug)]
struct BinaryStep {
    function: Function,
    target: WideTarget,
    shape: Broadcast,
}

impl Step for BinaryStep {
    fn run(
        &self,
        [a, b, ..]: [&[u8]; MAX_READS],
        write: &mut [u8],
        _scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), KernelError> {
        let (a, b, write) = (elements(a)?, elements(b)?, elements_mut(write)?);
        match self.function {
            Function::Sum(factors) => {
                triune_kernels::wide_add(factors, self.target, &self.shape, a, b, write, pool)
            }
            Function::Product(factor) => {
                triune_kernels::wide_mul(factor, self.target, &self.shape, a, b, write, pool)
            }
        }
    }
}

pub(super) fn add(checker: &Checker<'_>, command: &command::QAdd) -> Result<Prepared> {
    let command::QAdd { dims, a, b, output, params, .. } = command;
    for (field, operand, target) in [("a", a, params.a), ("b", b, params.b), ("output", output, params.out)] {
        expect_dtype(field, operand.dtype, WIDE)?;
        expect_dtype(field, target.dtype, WIDE)?;
        expect_zero(field, target.zero_point)?;
    }
    expect_clamp("params.clamp", params.clamp, RANGE)?;
    if params.k != 0.0 || !params.ra.is_finite() || !params.rb.is_finite() {
        return bad("params", "a constant that is not 0, or a factor that is not finite");
    }
    let Binaries { a, b, output, shape } = broadcast(checker, *dims, a, b, output)?;
    let target = WideTarget { rounding: params.rounding, clamp: params.clamp };
    let step = BinaryStep { function: Function::Sum([params.ra, params.rb]), target, shape };
    checker.finish([a, b], &output, true, step)
}

pub(super) fn mul(checker: &Checker<'_>, command: &command::QMul) -> Result<Prepared> {
    let command::QMul { dims, a, b, output, zero_points, multiplier, rounding, clamp, .. } = command;
    for ((field, operand), zero_point) in
        [("a", a), ("b", b), ("output", output)].into_iter().zip(zero_points)
    {
        expect_dtype(field, operand.dtype, WIDE)?;
        expect_zero(field, *zero_point)?;
    }
    expect_clamp("clamp", *clamp, RANGE)?;
    if !multiplier.is_finite() {
        return bad("multiplier", "is not finite");
    }
    let Binaries { a, b, output, shape } = broadcast(checker, *dims, a, b, output)?;
    let target = WideTarget { rounding: *rounding, clamp: *clamp };
    checker.finish(
        [a, b],
        &output,
        true,
        BinaryStep { function: Function::Product(*multiplier), target, shape },
    )
}

#[derive(Debug)]
struct TableStep {
    table: Vec<i16>,
    input: Nhwc,
    output: Nhwc,
}

impl Step for TableStep {
    fn run(
        &self,
        [x, ..]: [&[u8]; MAX_READS],
        write: &mut [u8],
        _scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), KernelError> {
        triune_kernels::table_wide(
            &self.table,
            elements(x)?,
            self.input,
            elements_mut(write)?,
            self.output,
            pool,
        )
    }
}

pub(super) fn table(checker: &Checker<'_>, command: &command::Table) -> Result<Prepared> {
    expect_dtype("output", command.output.dtype, WIDE)?;
    let table = checker.wide_table("table", command.table)?;
    let input = checker.map("input", &command.input)?;
    let output = checker.output_map("output", &command.output)?;
    expect_same_extents("output", &output.nhwc, &input.nhwc)?;
    let step = TableStep { table, input: input.nhwc, output: output.nhwc };
    checker.finish([input.placed], &output.placed, true, step)
}

#[derive(Debug)]
struct PoolStep {
    window: PoolSpec,
    quant: WidePool,
    input: Nhwc,
    output: Nhwc,
    isa: Isa,
}

impl Step for PoolStep {
    fn run(
        &self,
        [x, ..]: [&[u8]; MAX_READS],
        write: &mut [u8],
        _scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), KernelError> {
        let Self { window, quant, input, output, isa } = self;
        triune_kernels::pool_wide(
            *isa,
            window,
            quant,
            elements(x)?,
            *input,
            elements_mut(write)?,
            *output,
            pool,
        )
    }
}

/// What a pool of 16-bit integers multiplies with.
pub(super) fn pool_quant(
    input: command::Quant,
    output: command::Quant,
    rounding: Rounding,
    requantize: Requantize,
) -> Result<WidePool> {
    expect_zero("input_quant.zero_point", input.zero_point)?;
    expect_zero("output_quant.zero_point", output.zero_point)?;
    Ok(WidePool { input_scale: input.scale, output_scale: output.scale, rounding, requantize })
}

/// A pool; without a window, over the whole map.
pub(super) fn pool(
    checker: &Checker<'_>,
    kind: PoolKind,
    window: Option<PoolSpec>,
    quant: WidePool,
    [input, output]: [PlacedMap; 2],
) -> Result<Prepared> {
    let kernel = [input.nhwc.h, input.nhwc.w];
    let whole = PoolSpec { kernel, stride: [1, 1], dilation: [1, 1], pad: [0; 4], kind };
    let step = PoolStep {
        window: window.unwrap_or(whole),
        quant,
        input: input.nhwc,
        output: output.nhwc,
        isa: checker.isa,
    };
    checker.finish([input.placed], &output.placed, false, step)
}

#[derive(Debug)]
struct BorderStep {
    /// `None` for the way to reals.
    rounding: Option<Rounding>,
    params: QuantParams,
    input: Nhwc,
    output: Nhwc,
}

impl Step for BorderStep {
    fn run(
        &self,
        [x, ..]: [&[u8]; MAX_READS],
        write: &mut [u8],
        _scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), KernelError> {
        let Self { params, input, output, .. } = *self;
        match self.rounding {
            Some(rounding) => triune_kernels::quantize_wide(
                params,
                rounding,
                elements(x)?,
                input,
                elements_mut(write)?,
                output,
                pool,
            ),
            None => triune_kernels::dequantize_wide(
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
pub(super) fn border(
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
    let step = BorderStep { rounding, params, input: input.nhwc, output: output.nhwc };
    checker.finish([input.placed], &output.placed, false, step)
}

//! Convolutions: weights are packed here, from the bytes in device memory.

use std::sync::Arc;

use triune_kernels::{
    ConvGeometry, ConvMethod, FConv, FConvSpec, Nhwc, Q8, Q16Conv, Q16ConvSpec, Q16Target, QAdd, QConv,
    QConvSpec,
};
use triune_tensor::{DType, text::List};

use super::super::{
    Packing,
    check::{Checker, FilterSource, Result, bad, expect_dtype, expect_same_extents, refused},
    operands::{Prepared, with_method, with_scratch},
};
use super::{EIGHT_BIT, FLOAT, Prepare, SIXTEEN_BIT, SIXTEEN_BIT_RANGE, elements, elements_mut, expect_zero};
use crate::command::{self, AddParams, Blocks, FieldError, RequantTarget, Window};

/// A window in the kernels' terms. Its output extents are compared with the output map by the kernel.
pub(super) fn geometry(window: &Window) -> ConvGeometry {
    ConvGeometry {
        kernel: window.kernel.map(|each| each as usize),
        stride: window.stride.map(|each| each as usize),
        dilation: window.dilation.map(|each| each as usize),
        pad: window.pad.map(|each| each as usize),
        groups: window.groups as usize,
    }
}

/// Refuses a window that does not make `output` of `input`, before anything is sized by it.
pub(super) fn expect_window(window: &Window, input: &Nhwc, output: &Nhwc) -> Result<ConvGeometry> {
    let geometry = geometry(window);
    let Some([h, w]) = geometry.output(input.h, input.w) else {
        return bad("window", "does not fit the padded input");
    };
    if [output.n, output.h, output.w] == [input.n, h, w] {
        return Ok(geometry);
    }
    let got = [output.n, output.h, output.w];
    bad(
        "output",
        format!("the extents n, h, w are {}, the window makes {}", List(&got), List(&[input.n, h, w])),
    )
}

/// Extents of the weights: O, KH·KW, I/groups.
pub(super) fn weight_extents(geometry: &ConvGeometry, input: &Nhwc, output: &Nhwc) -> Result<[usize; 3]> {
    let groups = geometry.groups;
    if groups == 0 || !input.c.is_multiple_of(groups) || !output.c.is_multiple_of(groups) {
        return bad(
            "window.groups",
            format!("{groups} groups do not divide {} and {} channels", input.c, output.c),
        );
    }
    let Some(taps) = geometry.kernel[0].checked_mul(geometry.kernel[1]) else {
        return bad("window.kernel", "is too large");
    };
    Ok([output.c, taps, input.c / groups])
}

/// Integers of 8 bit; `field` has their type, `zero_field` what stands for 0.
pub(super) fn q8(field: &str, zero_field: &str, dtype: DType, zero_point: i32) -> Result<Q8> {
    expect_dtype(field, dtype, EIGHT_BIT)?;
    let integers = Q8 { signed: dtype == DType::I8, zero_point };
    let [low, high] = integers.range();
    if !(low..=high).contains(&zero_point) {
        return bad(zero_field, format!("{zero_point} is outside of {dtype}"));
    }
    Ok(integers)
}

/// Refuses limits between which a type has no integer.
pub(super) fn expect_clamp(field: &str, [low, high]: [i32; 2], [least, most]: [i32; 2]) -> Result<()> {
    if low.max(least) <= high.min(most) {
        return Ok(());
    }
    bad(field, format!("the limits {low} and {high} leave no integer of {least} to {most}"))
}

/// An addition in the kernels' terms.
pub(super) fn qadd_params(params: &AddParams, conv_is_a: bool) -> Result<QAdd> {
    let target = |field: &str, target: RequantTarget| {
        let [dtype, zero_point] = ["dtype", "zero_point"].map(|part| format!("{field}.{part}"));
        q8(&dtype, &zero_point, target.dtype, target.zero_point)
    };
    let AddParams { a, b, out, ra, rb, k, rounding, clamp } = *params;
    let add = QAdd {
        a: target("a", a)?,
        b: target("b", b)?,
        out: target("out", out)?,
        ra,
        rb,
        k,
        rounding,
        clamp,
        conv_is_a,
    };
    expect_clamp("clamp", clamp, add.out.range())?;
    add.check().map_err(|error| FieldError::new(error.to_string()))?;
    Ok(add)
}

/// What is added to the sum of each of the channels, if anything is, and what that is multiplied by: one number for all, or one for each.
fn requantization(
    checker: &Checker<'_>,
    command: &command::QConv,
    channels: usize,
) -> Result<(Option<Vec<i32>>, Vec<f32>)> {
    let bias = command.bias.map(|addr| checker.ints("bias", addr, Some(channels as u64))).transpose()?;
    if command.multipliers != 1 && command.multipliers as usize != channels {
        return bad("multipliers", format!("{} for {channels} channels", command.multipliers));
    }
    let multiplier = checker.floats("multiplier", command.multiplier, Some(command.multipliers.into()))?;
    Ok((bias, multiplier))
}

impl Prepare for command::QConv {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        if self.input.dtype == DType::I16 {
            return q16_conv(checker, self);
        }
        expect_dtype("output", self.output.dtype, EIGHT_BIT)?;
        let input_q8 = q8("input", "input_zero_point", self.input.dtype, self.input_zero_point)?;
        let result = q8("result.dtype", "result.zero_point", self.result.dtype, self.result.zero_point)?;
        expect_clamp("clamp", self.clamp, result.range())?;
        let input = checker.map("input", &self.input)?;
        let output = checker.output_map("output", &self.output)?;
        let geometry = expect_window(&self.window, &input.nhwc, &output.nhwc)?;
        let out_channels = output.nhwc.c;

        let extents = weight_extents(&geometry, &input.nhwc, &output.nhwc)?;
        let weights = match self.weight_blocks {
            [0, 0] => checker.weights("weights", self.weights, extents, 1)?,
            blocks => checker.weights_in_blocks("weights", self.weights, extents, blocks, 1)?,
        };
        let dense = match &weights {
            FilterSource::Constants(_) => None,
            FilterSource::Library(weights) => Some(weights.dense()),
        };
        let (bias, multiplier) = requantization(checker, self, out_channels)?;
        let table = self.table.map(|addr| checker.table("table", addr)).transpose()?;
        let add = match &self.add {
            Some(params) => Some(qadd_params(params, self.conv_is_a).map_err(|error| error.within("add"))?),
            None => None,
        };
        // The last stage's type is the output's.
        let stored = match (&self.add, table) {
            (Some(params), _) => params.out.dtype,
            // A table's bytes are whatever the output says.
            (None, Some(_)) => self.output.dtype,
            (None, None) => self.result.dtype,
        };
        expect_dtype("output", self.output.dtype, &[stored])?;

        let spec = QConvSpec {
            geometry,
            in_channels: input.nhwc.c,
            out_channels,
            weights: bytemuck::cast_slice(match (&weights, &dense) {
                (FilterSource::Constants(bytes), _) => bytes.as_ref(),
                (FilterSource::Library(..), dense) => dense.as_deref().unwrap_or_default(),
            }),
            bias: bias.as_deref(),
            multiplier: &multiplier,
            input: input_q8,
            output: result,
            rounding: self.rounding,
            clamp: self.clamp,
            table: table.as_ref(),
            residual: add,
        };
        let kernel = match &weights {
            FilterSource::Constants(_) => QConv::new(&spec, checker.isa).map(Arc::new),
            FilterSource::Library(own) => own.library.quantized(self.weights, &spec, checker.isa),
        };
        let kernel = kernel.map_err(refused("weights"))?;
        // In this order: the library looks who else has the bytes.
        drop(dense);
        drop(weights);

        let residual = match (&self.residual, &self.add) {
            (None, None) => None,
            (Some(map), Some(params)) => {
                let residual = checker.map("residual", map)?;
                let other = if self.conv_is_a { params.b } else { params.a };
                expect_dtype("residual", map.dtype, &[other.dtype])?;
                expect_same_extents("residual", &residual.nhwc, &output.nhwc)?;
                Some(residual)
            }
            (Some(_), None) => return bad("add", "is missing, and there is a residual"),
            (None, Some(_)) => return bad("residual", "is missing, and there is an addition"),
        };
        let (from, to, map) = (input.nhwc, output.nhwc, residual.as_ref().map(|residual| residual.nhwc));
        let step = with_method(
            kernel,
            |kernel, threads| kernel.scratch_bytes(threads),
            move |kernel| Some(kernel.method(from)),
            move |kernel, [input, residual, ..], write, scratch, pool| {
                let residual = map.map(|map| (residual, map));
                kernel.run(input, from, residual, write, to, scratch, pool)
            },
        );
        match residual {
            Some(residual) => checker.finish_fused([input.placed, residual.placed], &output.placed, step),
            None => checker.finish([input.placed], &output.placed, false, step),
        }
    }
}

/// Refuses what the convolution of 16-bit integers does not take along.
fn expect_absent(field: &str, given: bool) -> Result<()> {
    if given { bad(field, "cannot be joined to a 16-bit convolution") } else { Ok(()) }
}

/// The convolution of integers of 16 bits.
fn q16_conv(checker: &Checker<'_>, command: &command::QConv) -> Result<Prepared> {
    expect_dtype("output", command.output.dtype, SIXTEEN_BIT)?;
    expect_dtype("result", command.result.dtype, SIXTEEN_BIT)?;
    expect_zero("input_zero_point", command.input_zero_point)?;
    expect_zero("result.zero_point", command.result.zero_point)?;
    expect_clamp("clamp", command.clamp, SIXTEEN_BIT_RANGE)?;
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
    let (bias, multiplier) = requantization(checker, command, channels)?;
    let spec = Q16ConvSpec {
        geometry,
        in_channels: input.nhwc.c,
        out_channels: channels,
        weights: &weights,
        bias: bias.as_deref(),
        multiplier: &multiplier,
        target: Q16Target { rounding: command.rounding, clamp: command.clamp },
    };
    let kernel = Q16Conv::new(&spec, checker.isa).map_err(refused("weights"))?;
    let (from, to) = (input.nhwc, output.nhwc);
    let step =
        with_scratch(kernel, Q16Conv::scratch_bytes, move |kernel, [input, ..], write, scratch, pool| {
            kernel.run(elements(input)?, from, elements_mut(write)?, to, scratch, pool)
        });
    checker.finish([input.placed], &output.placed, false, step)
}

impl Prepare for command::FConv {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        expect_dtype("input", self.input.dtype, FLOAT)?;
        expect_dtype("output", self.output.dtype, FLOAT)?;
        if let Some(blocks) = self.input.blocks {
            return prepare_planes(self, blocks, checker);
        }
        let input = checker.map("input", &self.input)?;
        let output = checker.output_map("output", &self.output)?;
        let geometry = expect_window(&self.window, &input.nhwc, &output.nhwc)?;
        let (channels, size) = ([input.nhwc.c, output.nhwc.c], [output.nhwc.h, output.nhwc.w]);
        let packing = if FConv::gains_by_winograd(&geometry, channels, size) {
            Packing::Winograd
        } else {
            Packing::Convolution
        };
        let residual = match &self.residual {
            Some(map) => {
                expect_dtype("residual", map.dtype, FLOAT)?;
                let residual = checker.map("residual", map)?;
                expect_same_extents("residual", &residual.nhwc, &output.nhwc)?;
                Some(residual)
            }
            None => None,
        };
        let kernel = float_kernel(self, checker, geometry, [&input.nhwc, &output.nhwc], packing)?;
        let (from, to, map) = (input.nhwc, output.nhwc, residual.as_ref().map(|residual| residual.nhwc));
        let step = with_method(
            kernel,
            FConv::scratch_bytes,
            move |kernel| Some(kernel.method(from)),
            move |kernel, [input, residual, ..], write, scratch, pool| {
                let residual = match map {
                    Some(map) => Some((elements(residual)?, map)),
                    None => None,
                };
                kernel.run(elements(input)?, from, residual, elements_mut(write)?, to, scratch, pool)
            },
        );
        match residual {
            Some(residual) => checker.finish_fused([input.placed, residual.placed], &output.placed, step),
            None => checker.finish([input.placed], &output.placed, false, step),
        }
    }
}

/// The kernel, with its weights packed.
fn float_kernel(
    command: &command::FConv,
    checker: &Checker<'_>,
    geometry: ConvGeometry,
    [input, output]: [&Nhwc; 2],
    packing: Packing,
) -> Result<FConv> {
    let extents = weight_extents(&geometry, input, output)?;
    let packed = checker.packed(command.weights, extents, geometry.groups, packing)?;
    let bias = match command.bias {
        Some(addr) => Some(checker.floats("bias", addr, Some(output.c as u64))?),
        None => None,
    };
    let spec = FConvSpec {
        geometry,
        in_channels: input.c,
        out_channels: output.c,
        bias: bias.as_deref(),
        residual: command.residual.is_some(),
        activation: command.activation,
    };
    FConv::new(&spec, packed).map_err(refused("weights"))
}

/// Columns of planes that a window can reach over: as many are copied for each of its rows at a border.
const MOST_COLUMNS: u64 = 1 << 12;

/// Of an input in planes.
fn prepare_planes(command: &command::FConv, blocks: Blocks, checker: &Checker<'_>) -> Result<Prepared> {
    if command.window.groups != 1 {
        return bad("window", format!("{} groups of planes, where there can be one", command.window.groups));
    }
    if command.window.stride[1] > 2 {
        return bad(
            "window",
            format!("steps of {} columns of planes, 1 and 2 are possible", command.window.stride[1]),
        );
    }
    let reach = u64::from(command.window.kernel[1]).saturating_mul(command.window.dilation[1].into());
    if reach > MOST_COLUMNS {
        return bad("window", format!("reaches over {reach} columns of planes, {MOST_COLUMNS} are possible"));
    }
    if command.residual.is_some() {
        return bad("residual", "is added to no convolution of planes");
    }
    let (placed, planes) = checker.planes("input", &command.input, blocks)?;
    let output = checker.output_map("output", &command.output)?;
    let map = planes.channels_last();
    let geometry = expect_window(&command.window, &map, &output.nhwc)?;
    let kernel = float_kernel(command, checker, geometry, [&map, &output.nhwc], Packing::Convolution)?;
    let to = output.nhwc;
    let step = with_method(
        kernel,
        FConv::planes_scratch_bytes,
        |_| Some(ConvMethod::Planes),
        move |kernel, [input, ..], write, scratch, pool| {
            kernel.run_planes(elements(input)?, planes, elements_mut(write)?, to, scratch, pool)
        },
    );
    checker.finish([placed], &output.placed, false, step)
}

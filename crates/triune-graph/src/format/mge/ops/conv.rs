//! Convolutions.

use triune_tensor::{DType, QuantParams};

use super::{
    convert::{dequantize, quantize},
    kind,
    layout::{self, Layout, layouts},
};
use crate::{
    Constant, Error, ValueId,
    format::mge::{
        element::Element,
        node::{NodeReader, Params},
    },
    ops::{AutoPad, BinaryKind, Conv, Epilogue, Op, PostOp, Slice, UnaryKind},
};

/// Attributes that plain and biased convolutions share, and where the tables have them.
struct Attributes {
    flipped: bool,
    grouped: bool,
    format: u32,
    pad: [usize; 2],
    stride: [usize; 2],
    dilation: [usize; 2],
}

/// Slots of the shared attributes.
struct Slots {
    mode: usize,
    sparse: usize,
    format: usize,
    pad: usize,
}

impl Attributes {
    fn read(node: &NodeReader<'_, '_, '_>, params: &Params<'_>, slots: &Slots) -> Result<Self, Error> {
        let flipped = match params.u32(slots.mode, 0)? {
            0 => false,
            1 => true,
            mode => return Err(node.unsupported(format!("mode {mode}"))),
        };
        let grouped = match params.u32(slots.sparse, 0)? {
            0 => false,
            1 => true,
            sparse => return Err(node.unsupported(format!("sparsity {sparse}"))),
        };
        Ok(Self {
            flipped,
            grouped,
            format: params.u32(slots.format, 0)?,
            pad: params.pair(slots.pad, 0)?,
            stride: params.pair(slots.pad + 2, 1)?,
            dilation: params.pair(slots.pad + 4, 1)?,
        })
    }
}

/// y = x ∗ w.
pub(in super::super) fn convolution(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::CONVOLUTION)?;
    let attributes = Attributes::read(node, &params, &Slots { mode: 0, sparse: 7, format: 8, pad: 1 })?;
    build(node, &attributes, 0)
}

/// y = f(x ∗ w + b + z), where b and z may be left out.
pub(in super::super) fn conv_bias(node: &mut NodeReader<'_, '_, '_>) -> Result<ValueId, Error> {
    let params = node.params(kind::CONV_BIAS)?;
    let attributes = Attributes::read(node, &params, &Slots { mode: 1, sparse: 2, format: 3, pad: 4 })?;
    let activation = params.u32(0, 0)?;
    build(node, &attributes, activation)
}

fn build(
    node: &mut NodeReader<'_, '_, '_>,
    attributes: &Attributes,
    activation: u32,
) -> Result<ValueId, Error> {
    let [mut from, to] = layouts(node, attributes.format)?;
    let mut x = node.input(0)?;
    // Upstream's blocked formats begin with images of few channels that are not in blocks.
    let small = matches!(attributes.format, 6..=8) && node.blocked(x).is_none() && node.rank(x)? == 4;
    if small {
        from = Layout::Planes;
    }
    x = node.planes(x, from)?;
    let element = node.output_element()?;
    let (weights, groups) = weights(node, attributes, small)?;
    // Upstream's optimizer also puts whole feature maps where the bias is.
    let (mut bias, mut addends) = (None, Vec::new());
    if let Some(&operand) = node.inputs.get(2) {
        match layout::channel_row(node, operand, to)? {
            Some(row) => bias = Some(row),
            None => addends.push(node.planes(operand, to)?),
        }
    }
    if let Some(&operand) = node.inputs.get(3) {
        addends.push(node.planes(operand, to)?);
    }
    let quantized = node.quant(x).is_some();
    if !quantized && (!node.dtype(x)?.is_float() || !node.dtype(weights)?.is_float()) {
        return Err(node.unsupported(format!(
            "inputs of types {} and {}",
            node.dtype(x)?,
            node.dtype(weights)?
        )));
    }
    let [rows, columns] = attributes.pad;
    let mut conv = Conv {
        kernel: None,
        stride: attributes.stride,
        dilation: attributes.dilation,
        pad: [rows, columns, rows, columns],
        auto_pad: AutoPad::Explicit,
        groups,
        epilogue: Epilogue::default(),
    };
    if conv.stride.contains(&0) || conv.dilation.contains(&0) {
        return Err(node.unsupported("a step or dilation of 0"));
    }
    let mut target = None;
    if quantized {
        let Some(Element { dtype, quant: Some(quant) }) = element else {
            return Err(node.unsupported("quantized inputs without a quantized output type"));
        };
        let (QuantParams { zero_point, .. }, integer) = (quant, dtype.is_quantized());
        if integer && addends.is_empty() && activation <= 1 {
            if activation == 1 {
                conv.epilogue.post_ops.push(relu(dtype, zero_point));
            }
            let mut inputs = vec![Some(x), Some(weights)];
            inputs.extend(bias.map(Some));
            let value = node.emit_as(Op::Conv(Box::new(conv)), &inputs, element)?;
            return node.laid_out(value, to);
        }
        // Upstream adds and activates in reals, too, and rounds once.
        target = Some((Element { dtype, quant: Some(quant) }, quant));
    }
    let mut operands = vec![x, weights];
    operands.extend(bias);
    if target.is_some() {
        for operand in operands.iter_mut().chain(&mut addends) {
            *operand = real(node, *operand)?;
        }
    }
    let mut value = node.emit(Op::Conv(Box::new(conv)), &operands)?;
    for addend in addends {
        value = node.binary(BinaryKind::Add, value, addend)?;
    }
    value = match activation {
        0 => value,
        1 => node.unary(UnaryKind::Relu, value)?,
        2 => node.unary(UnaryKind::Sigmoid, value)?,
        3 => node.unary(UnaryKind::HardSwish, value)?,
        _ => return Err(node.unsupported(format!("activation {activation}"))),
    };
    if let Some((element, quant)) = target {
        value = quantize(node, value, element, quant)?;
    }
    node.laid_out(value, to)
}

/// The reals that a value's integers mean.
pub(super) fn real(node: &mut NodeReader<'_, '_, '_>, id: ValueId) -> Result<ValueId, Error> {
    match node.quant(id) {
        Some(quant) => dequantize(node, id, node.dtype(id)?, quant),
        None => node.cast(id, DType::F32),
    }
}

/// A Relu over integers: nothing below what stands for 0.
pub(super) fn relu(dtype: DType, zero_point: i32) -> PostOp {
    let (low, high) = if dtype == DType::U8 { (0, 255) } else { (-128, 127) };
    PostOp::Clamp { limits: [zero_point.clamp(low, high), high] }
}

/// Weights as (O, I/groups, KH, KW), and the number of groups.
fn weights(
    node: &mut NodeReader<'_, '_, '_>,
    attributes: &Attributes,
    small: bool,
) -> Result<(ValueId, usize), Error> {
    let mut weights = node.input(1)?;
    if node.dtype(weights)? == DType::U8 {
        weights = around_zero(node, weights)?;
    }
    let (mut weights, groups) = layout::weights(node, attributes.format, attributes.grouped, small, weights)?;
    if attributes.flipped {
        let starts = node.ints("last", &[-1, -1])?;
        let ends = node.ints("first", &[i64::MIN, i64::MIN])?;
        let axes = node.ints("axes", &[2, 3])?;
        weights = node.emit_like(Op::Slice(Slice), &[weights, starts, ends, axes, starts])?;
    }
    Ok((weights, groups))
}

/// Unsigned weights around 128 as signed ones around 0, which is what kernels take.
fn around_zero(node: &mut NodeReader<'_, '_, '_>, weights: ValueId) -> Result<ValueId, Error> {
    let quant = node.quant(weights);
    let rebased = match (quant, node.constant(weights)) {
        (Some(quant), Some(constant)) if quant.zero_point == 128 => {
            let bytes: Vec<u8> = constant.bytes().iter().map(|byte| byte ^ 0x80).collect();
            Constant::new(DType::I8, constant.shape(), bytes).map(|constant| (quant.scale, constant))
        }
        _ => None,
    };
    let (scale, constant) = rebased.ok_or_else(|| {
        node.unsupported("unsigned weights that are not constant or have a zero point other than 128")
    })?;
    let id = node.new_constant("weights", constant);
    node.builder.set_quant(id, Some(QuantParams { scale, zero_point: 0 }));
    Ok(id)
}

//! Windows over one to three axes in terms of those over two: convolutions of volumes, transposed ones, and pools of sums.

use triune_tensor::DType;

use super::{DEFAULT_DOMAIN, Form, Meaning, NodeReader, Operator, Signature, operators, window::AUTO_PADS};
use crate::{
    Error, Op, ValueId,
    functions::{
        Scope,
        transposed::Transposed,
        volume::{self, Attributes, spatial},
    },
    ops::{BinaryKind, ReduceKind, UnaryKind},
};

/// Takes a window's attributes.
pub(super) fn read_attributes(node: &mut NodeReader<'_, '_>) -> Result<Attributes, Error> {
    Ok(Attributes {
        kernel: node.extents("kernel_shape")?,
        strides: node.extents("strides")?,
        dilations: node.extents("dilations")?,
        pads: node.extents("pads")?,
        auto_pad: node.choice("auto_pad", "NOTSET", &AUTO_PADS)?,
        ceil_mode: node.flag("ceil_mode")?,
    })
}

/// A convolution over three axes.
pub(super) fn conv(node: &NodeReader<'_, '_>, attributes: Attributes, groups: usize) -> Op {
    node.function(move |f| volume::conv(f, &attributes, groups)).into()
}

/// A convolution without weights: of no output channels, or of no input channels, whose sums are 0.
pub(super) fn nothing_convolved(
    f: &mut Scope<'_, '_>,
    attributes: &Attributes,
    groups: usize,
) -> Result<ValueId, Error> {
    let (x, weights) = (f.input(0)?, f.input(1)?);
    let (shape, taps) = (f.shape(x), f.shape(weights));
    let fits =
        taps.rank() == shape.rank() && taps.rank() > 2 && taps[1].checked_mul(groups) == Some(shape[1]);
    if !fits || taps[2..].contains(&0) {
        return Err(f.wrong(format!("weights {taps} in {groups} groups do not fit the input {shape}")));
    }
    let window = attributes.over(f, &shape[2..], Some(&taps[2..]))?;
    let own = window.axes.len() - window.own;
    let mut dims = vec![shape[0], taps[0]];
    dims.extend(window.axes[own..].iter().map(|axis| axis.out));
    let bias = match f.get(2) {
        Some(bias) => {
            let mut along = vec![1; dims.len()];
            along[1] = taps[0];
            f.reshape(bias, &along)?
        }
        None => f.scalar_like(0.0, x),
    };
    f.expand(bias, &dims)
}

/// The largest element under a window over three axes.
pub(super) fn max_pool(node: &NodeReader<'_, '_>, attributes: Attributes) -> Op {
    node.function(move |f| {
        let x = f.input(0)?;
        let shape = f.shape(x);
        let window = attributes.over(f, spatial(f, &shape)?, None)?;
        if !matches!(f.dtype(x), DType::F16 | DType::F32 | DType::F64) {
            return Err(f.unsupported(format!("windows over {} axes of {}", window.own, f.dtype(x))));
        }
        let x = window.padded(f, x, f64::NEG_INFINITY)?;
        window.largest(f, x)
    })
    .into()
}

/// The largest element under a window, and where it stands.
pub(super) fn max_pool_with_places(
    node: &NodeReader<'_, '_>,
    attributes: Attributes,
    column_major: bool,
) -> Op {
    node.functions(move |f| volume::max_with_places(f, &attributes, column_major)).into()
}

/// The mean of what is under a window over three axes.
pub(super) fn average_pool(node: &NodeReader<'_, '_>, attributes: Attributes, padding: bool) -> Op {
    node.function(move |f| {
        let x = f.input(0)?;
        let shape = f.shape(x);
        let window = attributes.over(f, spatial(f, &shape)?, None)?;
        let mut mean = window.sums(f, x)?;
        for (index, axis) in window.axes[3 - window.own..].iter().enumerate() {
            let dtype = f.dtype(x);
            let counts = f.floats(&axis.counts(padding), dtype);
            let mut dims = vec![1; window.own - index];
            dims[0] = axis.out;
            let counts = f.reshape(counts, &dims)?;
            mean = f.div(mean, counts)?;
        }
        Ok(mean)
    })
    .into()
}

/// |x|ᵖ.
fn power(f: &mut Scope<'_, '_>, x: ValueId, p: f64) -> Result<ValueId, Error> {
    if p == 2.0 {
        return f.mul(x, x);
    }
    let magnitude = f.unary(UnaryKind::Abs, x)?;
    if p == 1.0 {
        return Ok(magnitude);
    }
    let p = f.scalar_like(p, x);
    f.binary(BinaryKind::Pow, magnitude, p)
}

/// x^(1/p).
fn root(f: &mut Scope<'_, '_>, x: ValueId, p: f64) -> Result<ValueId, Error> {
    if p == 1.0 {
        return Ok(x);
    }
    if p == 2.0 {
        return f.unary(UnaryKind::Sqrt, x);
    }
    let exponent = f.scalar_like(1.0 / p, x);
    f.binary(BinaryKind::Pow, x, exponent)
}

/// A norm's exponent: a real of the first version, an integer since.
fn exponent(node: &mut NodeReader<'_, '_>) -> Result<f64, Error> {
    let p =
        if node.since < 2 { f64::from(node.float("p", 2.0)?) } else { node.int("p")?.unwrap_or(2) as f64 };
    if p > 0.0 { Ok(p) } else { Err(node.unsupported(format!("attribute 'p' = {p}"))) }
}

/// The norm of what is under a window.
fn lp_pool(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let (attributes, p) = (read_attributes(node)?, exponent(node)?);
    Ok(node
        .function(move |f| {
            let x = f.input(0)?;
            let shape = f.shape(x);
            let window = attributes.over(f, spatial(f, &shape)?, None)?;
            let powers = power(f, x, p)?;
            let sums = window.sums(f, powers)?;
            root(f, sums, p)
        })
        .into())
}

/// The norm of all positions.
fn global_lp_pool(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let p = exponent(node)?;
    Ok(node
        .function(move |f| {
            let x = f.input(0)?;
            let axes: Vec<usize> = (2..f.rank(x)).collect();
            let powers = power(f, x, p)?;
            let sums = f.reduce(ReduceKind::Sum, powers, &axes)?;
            root(f, sums, p)
        })
        .into())
}

/// The transposed convolution.
fn conv_transpose(node: &mut NodeReader<'_, '_>) -> Result<Op, Error> {
    let attributes = read_attributes(node)?;
    let (more, requested) = (node.extents("output_padding")?, node.extents("output_shape")?);
    let groups = node.int("group")?.unwrap_or(1);
    let groups = usize::try_from(groups).ok().filter(|groups| *groups > 0);
    let groups = groups.ok_or_else(|| node.unsupported("attribute 'group' is not positive"))?;
    let op = Transposed { attributes, more, requested, groups };
    Ok(node.function(move |f| op.over(f, f.input(0)?, f.input(1)?, f.get(2))).into())
}

operators! {
    DEFAULT_DOMAIN;
    "ConvTranspose": [1, 11, 22] {2, 3, 1 => conv_transpose};
    "GlobalLpPool": [1, 2, 22] {1, 1, 1 => global_lp_pool};
    "LpPool": [1, 2, 11, 18, 22] {1, 1, 1 => lp_pool};
}

//! Matrix products.

use super::super::{View, node::Reader};
use crate::{
    Error, Op,
    ops::{BinaryKind, Epilogue, Gemm, MatMul},
};

/// x·k + b: batched over leading axes, k constant (I, O) or another value.
pub(in super::super) fn product(node: &mut Reader<'_, '_>) -> Result<(), Error> {
    node.no_cut()?;
    let (x, k, y) = (node.operand(0)?, node.operand(1)?, node.result(0)?);
    let left = node.in_floats(x, View::Flat)?;
    let (from, to) = (node.typed(x)?.form, node.typed(y)?.form);
    let (Some(inputs), Some(outputs)) = (from.flat.last().cloned(), to.flat.last().cloned()) else {
        return Err(node.wrong("a scalar has no matrix product"));
    };
    let bias = node.optional(2);
    let names = if node.is_constant(k) { names_of(node, k)? } else { None };
    let Some(names) = names else {
        let right = node.in_floats(k, View::Flat)?;
        let mut result = node.emit(Op::MatMul(MatMul { epilogue: Epilogue::default() }), &[left, right])?;
        if let Some(bias) = bias {
            let bias = node.in_floats(bias, View::Flat)?;
            result = node.binary(BinaryKind::Add, result, bias)?;
        }
        return node.define(y, View::Flat, result);
    };
    let weights = node.weights(k, names, (x, y), (&inputs, &outputs), 1)?;
    let bias = match bias {
        Some(bias) => Some(node.bias(bias, &weights, (x, y), &outputs)?),
        None => None,
    };
    let right = node.install(&weights)?;
    let rank = from.flat.len();
    let result = match bias {
        Some(bias) if rank == 2 => {
            let trans_b = names == "OI";
            let gemm = Gemm { alpha: 1.0, beta: 1.0, trans_a: false, trans_b, epilogue: Epilogue::default() };
            node.emit(Op::Gemm(gemm), &[left, right, bias])?
        }
        bias => {
            let right = if names == "OI" { node.transpose(right, &[1, 0])? } else { right };
            let product = node.emit(Op::MatMul(MatMul { epilogue: Epilogue::default() }), &[left, right])?;
            match bias {
                Some(bias) => node.binary(BinaryKind::Add, product, bias)?,
                None => product,
            }
        }
    };
    node.define(y, View::Flat, result)
}

/// The order of the two axes of constant weights that name them; `None` when they do not.
fn names_of(node: &Reader<'_, '_>, index: usize) -> Result<Option<&'static str>, Error> {
    let layout = node.layout(index)?;
    let names: String = layout.axes.iter().filter(|axis| axis.unit == 0).map(|axis| axis.name).collect();
    Ok(match names.as_str() {
        "IO" => Some("IO"),
        "OI" => Some("OI"),
        _ => None,
    })
}

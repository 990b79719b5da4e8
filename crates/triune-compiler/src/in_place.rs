//! Which operand of a command can lie in the bytes of its result: element by element, the command reads each one before
//! it writes its successor.

use triune_device::{Addr, Command, FeatureMap, command::Operand};

/// Addresses of an operand and of the result that it could share bytes with: equal extents, strides and element sizes.
pub(crate) fn pairs(command: &Command) -> impl Iterator<Item = (Addr, Addr)> {
    let mut pairs = [None; 3];
    match command {
        Command::QConv(c) => pairs[0] = c.residual.as_ref().and_then(|map| maps(map, &c.output)),
        Command::FConv(c) => pairs[0] = c.residual.as_ref().and_then(|map| maps(map, &c.output)),
        Command::QAdd(c) => pairs = of([&c.a, &c.b], &c.output, c.dims),
        Command::QMul(c) => pairs = of([&c.a, &c.b], &c.output, c.dims),
        Command::FBinary(c) => pairs = of([&c.a, &c.b], &c.output, c.dims),
        Command::FTriple(c) => pairs = of([&c.a, &c.b, &c.c], &c.output, c.dims),
        Command::FUnary(c) => pairs[0] = maps(&c.input, &c.output),
        Command::Table(c) => pairs[0] = maps(&c.input, &c.output),
        Command::Tables(c) => pairs[0] = maps(&c.input, &c.output),
        // Windows, products and movement read elements after others have been written.
        _ => {}
    }
    pairs.into_iter().flatten()
}

fn maps(operand: &FeatureMap, result: &FeatureMap) -> Option<(Addr, Addr)> {
    let axes = |map: &FeatureMap| {
        let axis = |dim: u32, stride| (dim, if dim > 1 { stride } else { 0 });
        [axis(map.n, map.stride_n), axis(map.h, map.stride_h), axis(map.w, map.stride_w), (map.c, 0)]
    };
    let same = axes(operand) == axes(result) && operand.dtype.bytes() == result.dtype.bytes();
    same.then_some((operand.addr, result.addr))
}

fn of<const N: usize>(reads: [&Operand; N], result: &Operand, dims: [u32; 6]) -> [Option<(Addr, Addr)>; 3] {
    let mut pairs = [None; 3];
    for (pair, own) in pairs.iter_mut().zip(reads) {
        *pair = operands(own, result, dims);
    }
    pairs
}

fn operands(operand: &Operand, result: &Operand, dims: [u32; 6]) -> Option<(Addr, Addr)> {
    let strided = dims.iter().zip(operand.strides.iter().zip(&result.strides));
    let same = strided.into_iter().all(|(&dim, (own, other))| dim <= 1 || own == other)
        && operand.dtype.bytes() == result.dtype.bytes();
    same.then_some((operand.addr, result.addr))
}

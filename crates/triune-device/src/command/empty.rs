//! Commands that compute nothing.

use super::Command;

impl Command {
    /// Whether the command writes no element: what depends on data may come out empty, and then there is nothing to run.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::End(_) => false,
            Self::Copy(c) => c.dims.contains(&0),
            Self::Fill(c) => c.dims.contains(&0),
            Self::QConv(c) => c.output.elements() == 0,
            Self::FConv(c) => c.output.elements() == 0,
            Self::FMatMul(c) => [c.batch, c.m, c.n].contains(&0),
            Self::QMatMul(c) => [c.batch, c.m, c.n].contains(&0),
            Self::IMatMul(c) => [c.batch, c.m, c.n].contains(&0),
            Self::TMatMul(c) => [c.batch, c.m, c.n].contains(&0),
            Self::QuantizeBy(c) => c.output.elements() == 0,
            Self::Weigh(c) => [c.batch, c.channels, c.count].contains(&0),
            Self::Running(c) => c.dims.contains(&0),
            Self::Recurrence(c) => [c.directions, c.batch, c.hidden].contains(&0),
            Self::Pool(c) => c.output.elements() == 0,
            Self::GlobalPool(c) => c.output.elements() == 0,
            Self::QAdd(c) => c.dims.contains(&0),
            Self::QMul(c) => c.dims.contains(&0),
            Self::FBinary(c) => c.dims.contains(&0),
            Self::FUnary(c) => c.output.elements() == 0,
            Self::Table(c) => c.output.elements() == 0,
            Self::Quantize(c) => c.output.elements() == 0,
            Self::Dequantize(c) => c.output.elements() == 0,
            Self::QSoftmax(c) => c.dims.contains(&0),
            Self::QNorm(c) => c.dims.contains(&0),
            Self::FNorm(c) => c.dims.contains(&0),
            Self::FSoftmax(c) => c.dims.contains(&0),
            Self::Resize(c) => c.output.elements() == 0,
            Self::Warp(c) => c.output.elements() == 0,
            Self::Binary(c) => c.dims.contains(&0),
            Self::Select(c) => c.dims.contains(&0),
            Self::Convert(c) => c.dims.contains(&0),
            Self::Take(c) => c.dims.contains(&0),
            Self::Put(c) => c.dims.contains(&0),
            Self::Order(c) => c.k == 0 || c.dims[0] == 0 || c.dims[2] == 0,
            Self::Reduce(c) => (0..6).any(|axis| c.dims[axis] == 0 && c.axes >> axis & 1 == 0),
            Self::ArgReduce(c) => (0..6).any(|axis| c.dims[axis] == 0 && c.axis as usize != axis),
        }
    }
}

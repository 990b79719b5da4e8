//! Pools over doubles, which no command has: what the window sees at each of its taps, put together.

use triune_tensor::{DType, Shape, function::PoolKind};

use super::{MOST_TAPS, Site};
use crate::{
    Constant, Node, Op,
    ops::{BinaryKind, Identity, Pad, PadMode, Pool, Where},
};

/// The window along one axis.
#[derive(Clone, Copy)]
struct Axis {
    extent: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
    before: usize,
    behind: usize,
    out: usize,
}

impl Axis {
    /// Along axis `axis` of an operand and a result of these extents; there is a result. Inference has fixed the padding.
    fn new(op: &Pool, axis: usize, extent: usize, out: usize) -> Self {
        let [kernel, stride, dilation] = [op.kernel, op.stride, op.dilation].map(|each| each[axis]);
        Self { extent, kernel, stride, dilation, before: op.pad[axis], behind: op.pad[axis + 2], out }
    }

    /// Elements from the first that the window sees to its last.
    const fn reached(&self) -> usize {
        (self.out - 1) * self.stride + (self.kernel - 1) * self.dilation + 1
    }

    /// Elements that have to stand behind the operand's.
    const fn missing(&self) -> usize {
        self.reached().saturating_sub(self.before + self.extent)
    }

    /// For each place of the window, how many of its taps count.
    fn counts(&self, padding: bool) -> Vec<f64> {
        let (low, high) = (self.before, self.before + self.extent);
        let (low, high) = if padding { (0, high + self.behind) } else { (low, high) };
        let counted = |place: usize| {
            let taps = (0..self.kernel).map(|tap| place * self.stride + tap * self.dilation);
            taps.filter(|at| (low..high).contains(at)).count() as f64
        };
        (0..self.out).map(counted).collect()
    }
}

impl Site<'_, '_> {
    /// A pool over doubles. As in the commands, NaN counts as smaller than every number for the largest.
    pub(super) fn pool(&mut self, node: &Node, op: &Pool) -> Option<()> {
        let x = node.inputs.first().copied()??;
        if self.dtype(x)? != DType::F64 || node.quant.is_some() {
            return None;
        }
        let (shape, result) = (self.shape(x)?, self.shape(*node.outputs.first()?.as_ref()?)?);
        if result.contains(&0) {
            let nothing = self.constant(Constant::new(DType::F64, result, Vec::new()))?;
            self.finish(Op::Identity(Identity), &[nothing], node);
            return Some(());
        }
        let ([_, _, h, w], [_, _, rows, columns]) = (&*shape, &*result) else { return None };
        let axes = [Axis::new(op, 0, *h, *rows), Axis::new(op, 1, *w, *columns)];
        if op.kernel[0].saturating_mul(op.kernel[1]) > MOST_TAPS {
            return None;
        }
        let (mut image, join, border) = match op.kind {
            PoolKind::Max => {
                let least = self.double(f64::NEG_INFINITY)?;
                let number = self.emit(BinaryKind::Equal, &[x, x]);
                (self.emit(Op::Where(Where), &[number, x, least]), BinaryKind::Max, least)
            }
            PoolKind::Average { .. } => (x, BinaryKind::Add, self.double(0.0)?),
        };
        let pads = axes.map(|axis| [axis.before, axis.missing()]);
        if pads != [[0; 2]; 2] {
            let [[top, bottom], [left, right]] = pads;
            let pads = self.list(&[0, 0, top, left, 0, 0, bottom, right])?;
            image = self.emit(Op::Pad(Pad { mode: PadMode::Constant }), &[image, pads, border]);
        }
        let outs = axes.map(|axis| axis.out);
        let total =
            self.over_taps(op.kernel, join, |site, tap| site.seen(image, tap, outs, op.stride, op.dilation))?;
        let PoolKind::Average { count_include_pad } = op.kind else {
            self.finish(Op::Identity(Identity), &[total], node);
            return Some(());
        };
        let [down, across] = axes.map(|axis| axis.counts(count_include_pad));
        let counts: Vec<u8> = down
            .iter()
            .flat_map(|rows| across.iter().flat_map(move |columns| (rows * columns).to_le_bytes()))
            .collect();
        let counts =
            self.constant(Constant::new(DType::F64, Shape::from([down.len(), across.len()]), counts))?;
        self.finish(BinaryKind::Div, &[total, counts], node);
        Some(())
    }
}

//! Pools over doubles, which no command has: what the window sees at each of its taps, put together.

use triune_tensor::{DType, Shape, function::PoolKind};

use super::{MOST_TAPS, Site};
use crate::{
    Constant, Node, Op,
    ops::{Axis, BinaryKind, Identity, Pad, PadMode, Pool, Where},
};

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
        // Inference has fixed the padding.
        let axes = [(0, *h, *rows), (1, *w, *columns)].map(|(axis, extent, out)| Axis {
            extent,
            kernel: op.kernel[axis],
            stride: op.stride[axis],
            dilation: op.dilation[axis],
            before: op.pad[axis] as i64,
            behind: op.pad[axis + 2] as i64,
            out,
        });
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
        let missing = axes.map(|axis| (axis.span() - axis.before - axis.extent as i64).max(0) as usize);
        let [top, left, bottom, right] = [op.pad[0], op.pad[1], missing[0], missing[1]];
        if [top, left, bottom, right] != [0; 4] {
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

//! Borders that repeat what lies beside them: the edge, or its mirror image.

use triune_graph::{ValueId, ops::PadMode};

use super::{Form, Lowering};
use crate::{Error, view::View};

impl Lowering<'_> {
    /// Makes `y` of `x` with `before` elements in front of it along each axis, as many behind it as its extents leave, which
    /// repeat the edge or mirror what is in front of it. One axis at a time: what is mirrored along one has the borders of
    /// those before it.
    pub(super) fn mirrored(
        &mut self,
        x: ValueId,
        y: ValueId,
        before: &[usize],
        mode: PadMode,
        by_pixels: bool,
    ) -> Result<(), Error> {
        let mut view = self.view(x)?;
        let form = if by_pixels { Form::ChannelsLast } else { Form::Dense };
        let output = self.place(y, form)?;
        let dims = output.dims;
        let grown: Vec<usize> = (0..dims.rank()).filter(|&axis| view.dims[axis] != dims[axis]).collect();
        for (number, &axis) in grown.iter().enumerate() {
            let last = number + 1 == grown.len() && output.blocks.is_none();
            let next = if last {
                output
            } else {
                let mut extents = view.dims;
                extents.dims_mut()[axis] = dims[axis];
                let home = self.new_scratch(extents, view.dtype);
                if by_pixels {
                    View::channels_last(home, view.dtype, extents)
                } else {
                    View::dense(home, view.dtype, extents)
                }
            };
            let (front, length) = (before[axis], view.dims[axis]);
            let behind = dims[axis] - front - length;
            self.copy(&view, &next.sliced(axis, front, length, 1))?;
            if mode == PadMode::Edge {
                for (start, count, from) in [(0, front, 0), (front + length, behind, length - 1)] {
                    if count > 0 {
                        let target = next.sliced(axis, start, count, 1);
                        let edge = view.sliced(axis, from, 1, 1);
                        let spread = edge.broadcast(target.dims).unwrap_or(edge);
                        self.copy(&spread, &target)?;
                    }
                }
            } else {
                // At most all but the edge are mirrored, so these are fewer than the operand has.
                let mirrored = (0..front).map(|at| (front - 1 - at, at + 1));
                let mirrored = mirrored.chain((0..behind).map(|at| (front + length + at, length - 2 - at)));
                for (to, from) in mirrored {
                    self.copy(&view.sliced(axis, from, 1, 1), &next.sliced(axis, to, 1, 1))?;
                }
            }
            view = next;
        }
        if view == output { Ok(()) } else { self.copy(&view, &output) }
    }
}

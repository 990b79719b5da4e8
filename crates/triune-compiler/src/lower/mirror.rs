//! Borders that repeat what lies beside them: the edge, or its mirror image.

use triune_graph::{ValueId, ops::PadMode};
use triune_tensor::{DType, Shape};

use super::{Form, Lowering};
use crate::{Error, view::View};

/// An axis that grows, by so many elements in front.
type Grown = (usize, usize);

impl Lowering<'_> {
    /// Makes `y` of `x` with `before` elements in front of it along each axis, as many behind it as its extents leave, which
    /// repeat the edge or mirror what is in front of it.
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
        let grown: Vec<Grown> = (0..output.dims.rank())
            .filter(|&axis| view.dims[axis] != output.dims[axis])
            .map(|axis| (axis, before[axis]))
            .collect();
        // Channels in blocks are not taken one at a time.
        if view.blocks.is_some() && grown.iter().any(|&(axis, _)| axis == 1) {
            let plain = self.room(view.dims, view.dtype, form);
            self.copy(&view, &plain)?;
            view = plain;
        }
        // Each axis by itself takes fewer commands, which devices take time to start; all at once spares reals, which are the host's, a
        // copy of the whole per axis.
        let at_once = if view.dtype.is_float() { grown.len() } else { 1 };
        let stages = grown.chunks(at_once.max(1));
        let count = stages.len();
        for (index, axes) in stages.enumerate() {
            let next = if index + 1 == count && output.blocks.is_none() {
                output
            } else {
                let mut extents = view.dims;
                for &(axis, _) in axes {
                    extents.dims_mut()[axis] = output.dims[axis];
                }
                self.room(extents, view.dtype, form)
            };
            self.framed(&view, &next, axes, mode, form)?;
            view = next;
        }
        if view == output { Ok(()) } else { self.copy(&view, &output) }
    }

    /// Fills `target` with `view` and its borders along `grown`. The last axis' go straight to where they belong. Those of an axis in
    /// front of it, few elements beside the whole, are put together first, and get the borders of the axes behind.
    fn framed(
        &mut self,
        view: &View,
        target: &View,
        grown: &[Grown],
        mode: PadMode,
        form: Form,
    ) -> Result<(), Error> {
        let Some((&(axis, front), behind)) = grown.split_first() else { return self.copy(view, target) };
        let length = view.dims[axis];
        self.framed(view, &target.sliced(axis, front, length, 1), behind, mode, form)?;
        let back = target.dims[axis] - front - length;
        for (start, count, is_front) in [(0, front, true), (front + length, back, false)] {
            if count == 0 {
                continue;
            }
            let border = target.sliced(axis, start, count, 1);
            if mode == PadMode::Edge {
                let edge = view.sliced(axis, if is_front { 0 } else { length - 1 }, 1, 1);
                let mut extents = edge.dims;
                extents.dims_mut()[axis] = count;
                self.framed(&edge.broadcast(extents).unwrap_or(edge), &border, behind, mode, form)?;
                continue;
            }
            let image = if behind.is_empty() {
                border
            } else {
                let mut extents = view.dims;
                extents.dims_mut()[axis] = count;
                self.room(extents, view.dtype, form)
            };
            // At most all but the edge are mirrored, so these are fewer than the operand has.
            for at in 0..count {
                let (to, from) = if is_front { (count - 1 - at, at + 1) } else { (at, length - 2 - at) };
                self.copy(&view.sliced(axis, from, 1, 1), &image.sliced(axis, to, 1, 1))?;
            }
            if !behind.is_empty() {
                self.framed(&image, &border, behind, mode, form)?;
            }
        }
        Ok(())
    }

    /// Scratch for elements in such an order.
    fn room(&mut self, dims: Shape, dtype: DType, form: Form) -> View {
        let home = self.new_scratch(dims, dtype);
        match form {
            Form::ChannelsLast => View::channels_last(home, dtype, dims),
            _ => View::dense(home, dtype, dims),
        }
    }
}

//! What convolutions and pools share: a window that slides over the rows and columns of an image.

use super::{AutoPad, infer::Operands};
use crate::Error;

/// A sliding window's attributes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) kernel: Option<[usize; 2]>,
    pub(crate) stride: [usize; 2],
    pub(crate) dilation: [usize; 2],
    pub(crate) pad: [usize; 4],
    pub(crate) auto_pad: AutoPad,
}

impl Window {
    /// The padding and the extents of the result over an input of `extents`, with a window of `kernel`.
    pub(crate) fn resolve(
        &self,
        at: &Operands<'_>,
        kernel: [usize; 2],
        extents: [usize; 2],
        ceil_mode: bool,
    ) -> Result<([usize; 4], [usize; 2]), Error> {
        let mut pad = self.pad;
        let mut out = [0; 2];
        for axis in 0..2 {
            let one = Axis {
                extent: extents[axis],
                kernel: kernel[axis],
                stride: self.stride[axis],
                dilation: self.dilation[axis],
            };
            let (before, after) = one.pads(self.auto_pad, [pad[axis], pad[axis + 2]]).unwrap_or_default();
            (pad[axis], pad[axis + 2]) = (before, after);
            out[axis] = one.output(before, after, ceil_mode).ok_or_else(|| {
                at.wrong(format!(
                    "a window of {} with dilation {} does not fit {} elements padded by {before} and {after}",
                    one.kernel, one.dilation, one.extent
                ))
            })?;
        }
        Ok((pad, out))
    }
}

/// A window along one axis.
#[derive(Clone, Copy)]
struct Axis {
    extent: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
}

impl Axis {
    /// Elements from the window's first to its last tap.
    fn reach(self) -> Option<usize> {
        self.kernel.checked_sub(1)?.checked_mul(self.dilation)?.checked_add(1)
    }

    fn pads(self, auto_pad: AutoPad, explicit: [usize; 2]) -> Option<(usize, usize)> {
        match auto_pad {
            AutoPad::Explicit => Some((explicit[0], explicit[1])),
            AutoPad::Valid => Some((0, 0)),
            AutoPad::SameUpper | AutoPad::SameLower => {
                let out = self.extent.div_ceil(self.stride);
                let needed = out.checked_sub(1)?.checked_mul(self.stride)?.checked_add(self.reach()?)?;
                let total = needed.saturating_sub(self.extent);
                let (small, large) = (total / 2, total - total / 2);
                Some(if auto_pad == AutoPad::SameUpper { (small, large) } else { (large, small) })
            }
        }
    }

    fn output(self, before: usize, after: usize, ceil_mode: bool) -> Option<usize> {
        let padded = self.extent.checked_add(before)?.checked_add(after)?;
        let room = padded.checked_sub(self.reach()?)?;
        if !ceil_mode {
            return Some(room / self.stride + 1);
        }
        let out = room.div_ceil(self.stride).checked_add(1)?;
        // A window that would start in the padding behind the input does not count.
        let starts_behind = (out - 1).checked_mul(self.stride)? >= self.extent.checked_add(before)?;
        Some(if starts_behind { out - 1 } else { out })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(extent: usize, kernel: usize, stride: usize, dilation: usize) -> Axis {
        Axis { extent, kernel, stride, dilation }
    }

    #[test]
    fn outputs_are_those_of_the_definition() {
        assert_eq!(axis(224, 7, 2, 1).output(3, 3, false), Some(112));
        assert_eq!(axis(10, 3, 1, 3).output(0, 0, false), Some(4));
        assert_eq!(axis(2, 3, 1, 1).output(0, 0, false), None);
        assert_eq!(axis(usize::MAX, 3, 1, 1).output(1, 1, false), None);
        // 13 columns, window 3, step 2: the last window of 111 → 55 (floor) or 56 (ceil, half outside).
        assert_eq!(axis(112, 3, 2, 1).output(0, 0, false), Some(55));
        assert_eq!(axis(112, 3, 2, 1).output(0, 0, true), Some(56));
        // Ceil would put a window wholly behind the input.
        assert_eq!(axis(3, 1, 3, 1).output(0, 1, true), Some(1));
    }

    #[test]
    fn same_padding_halves_what_is_needed() {
        assert_eq!(axis(28, 5, 1, 1).pads(AutoPad::SameUpper, [9, 9]), Some((2, 2)));
        assert_eq!(axis(224, 3, 2, 1).pads(AutoPad::SameUpper, [0, 0]), Some((0, 1)));
        assert_eq!(axis(224, 3, 2, 1).pads(AutoPad::SameLower, [0, 0]), Some((1, 0)));
        // Steps longer than the window leave nothing to pad, and never begin within the input: windows begin with it.
        assert_eq!(axis(4, 1, 2, 1).pads(AutoPad::SameUpper, [0, 0]), Some((0, 0)));
        assert_eq!(axis(9, 1, 5, 1).pads(AutoPad::SameUpper, [0, 0]), Some((0, 0)));
        assert_eq!(axis(9, 1, 5, 1).pads(AutoPad::SameLower, [0, 0]), Some((0, 0)));
    }
}

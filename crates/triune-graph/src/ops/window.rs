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
        let (mut pad, mut out) = ([0; 4], [0; 2]);
        for index in 0..2 {
            let [before, behind] = [self.pad[index], self.pad[index + 2]].map(signed);
            let axis = Axis {
                extent: extents[index],
                kernel: kernel[index],
                stride: self.stride[index],
                dilation: self.dilation[index],
                before,
                behind,
                out: 0,
            };
            let axis = axis.padded(self.auto_pad).unwrap_or(Axis { before: 0, behind: 0, ..axis });
            let Axis { kernel, dilation, extent, before, behind, .. } = axis;
            let placed = axis.placed(ceil_mode).ok_or_else(|| {
                at.wrong(format!(
                    "a window of {kernel} with dilation {dilation} does not fit {extent} elements padded by {before} and {behind}"
                ))
            })?;
            (pad[index], pad[index + 2], out[index]) = (before as usize, behind as usize, placed.out);
        }
        Ok((pad, out))
    }
}

/// A window along one axis.
#[derive(Clone, Copy)]
pub(crate) struct Axis {
    pub(crate) extent: usize,
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    pub(crate) dilation: usize,
    /// Padding, or what is cut off.
    pub(crate) before: i64,
    pub(crate) behind: i64,
    /// Places that the window has, once they are known.
    pub(crate) out: usize,
}

impl Axis {
    /// An axis of one element.
    pub(crate) const ONE: Self =
        Self { extent: 1, kernel: 1, stride: 1, dilation: 1, before: 0, behind: 0, out: 1 };

    /// Elements from the window's first to its last tap.
    fn reach(&self) -> Option<usize> {
        self.kernel.checked_sub(1)?.checked_mul(self.dilation)?.checked_add(1)
    }

    /// What is to be said of a pool whose steps are longer than its window by two and more: with `SAME`, runtimes begin within the map,
    /// by half of what is too much, where convolutions begin with it.
    pub(crate) fn same_over_steps(&self, auto_pad: AutoPad) -> Option<String> {
        let same = matches!(auto_pad, AutoPad::SameUpper | AutoPad::SameLower);
        let seen =
            (self.extent.div_ceil(self.stride).checked_sub(1)? * self.stride).checked_add(self.reach()?)?;
        let over = self.extent.saturating_sub(seen);
        (same && over > 1).then(|| {
            format!(
                "auto_pad of a pool of {} in steps of {} over {} elements: the steps leave {over} elements, and where the first window \
                 begins is not settled; write pads",
                self.kernel, self.stride, self.extent
            )
        })
    }

    /// With the padding that it gets.
    pub(crate) fn padded(mut self, auto_pad: AutoPad) -> Option<Self> {
        (self.before, self.behind) = match auto_pad {
            AutoPad::Explicit => (self.before, self.behind),
            AutoPad::Valid => (0, 0),
            AutoPad::SameUpper | AutoPad::SameLower => {
                let out = self.extent.div_ceil(self.stride);
                let needed = out.checked_sub(1)?.checked_mul(self.stride)?.checked_add(self.reach()?)?;
                let total = i64::try_from(needed.saturating_sub(self.extent)).ok()?;
                let (small, large) = (total / 2, total - total / 2);
                if auto_pad == AutoPad::SameUpper { (small, large) } else { (large, small) }
            }
        };
        Some(self)
    }

    /// With the places that the window has over its padding.
    pub(crate) fn placed(mut self, ceil_mode: bool) -> Option<Self> {
        let behind = i64::try_from(self.extent).ok()?.checked_add(self.before)?;
        let (room, reach) = (usize::try_from(behind.checked_add(self.behind)?).ok()?, self.reach()?);
        self.out = match room.checked_sub(reach) {
            Some(steps) if ceil_mode => steps.div_ceil(self.stride) + 1,
            Some(steps) => steps / self.stride + 1,
            // One that hangs over by less than a step.
            None if ceil_mode && reach - room < self.stride => 1,
            None => return None,
        };
        // A window that would start in the padding behind the input does not count.
        if ceil_mode && signed((self.out - 1).checked_mul(self.stride)?) >= behind {
            self.out -= 1;
        }
        Some(self)
    }

    /// Elements from the first that the window sees to its last.
    pub(crate) fn span(&self) -> i64 {
        signed((self.out.max(1) - 1) * self.stride + self.reach().unwrap_or(1))
    }

    /// Where a tap stands at a place of the window; below 0, on the padding.
    pub(crate) fn at(&self, tap: usize, place: usize) -> i64 {
        signed(place * self.stride + tap * self.dilation) - self.before
    }

    /// For each place, how many taps stand on elements, those of the padding counted or not.
    pub(crate) fn counts(&self, padding: bool) -> Vec<f64> {
        let extent = signed(self.extent);
        let seen = if padding { -self.before..extent + self.behind } else { 0..extent };
        let inside =
            |place: usize| (0..self.kernel).filter(|&tap| seen.contains(&self.at(tap, place))).count() as f64;
        (0..self.out).map(inside).collect()
    }
}

/// An extent among those that can be negative.
fn signed(extent: usize) -> i64 {
    i64::try_from(extent).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(extent: usize, kernel: usize, stride: usize, dilation: usize) -> Axis {
        Axis { extent, kernel, stride, dilation, ..Axis::ONE }
    }

    impl Axis {
        fn output(self, before: i64, behind: i64, ceil_mode: bool) -> Option<usize> {
            Self { before, behind, ..self }.placed(ceil_mode).map(|axis| axis.out)
        }

        fn pads(self, auto_pad: AutoPad, [before, behind]: [i64; 2]) -> Option<(i64, i64)> {
            Self { before, behind, ..self }.padded(auto_pad).map(|axis| (axis.before, axis.behind))
        }
    }

    #[test]
    fn outputs_are_those_of_the_definition() {
        assert_eq!(axis(224, 7, 2, 1).output(3, 3, false), Some(112));
        assert_eq!(axis(10, 3, 1, 3).output(0, 0, false), Some(4));
        assert_eq!(axis(2, 3, 1, 1).output(0, 0, false), None);
        assert_eq!(
            [1, 2, 3].map(|stride| axis(2, 3, stride, 1).output(0, 0, true)),
            [None, Some(1), Some(1)]
        );
        assert_eq!([2, 3].map(|stride| axis(2, 4, stride, 1).output(0, 0, true)), [None, Some(1)]);
        assert_eq!(axis(0, 3, 4, 1).output(0, 0, true), Some(0));
        assert_eq!(axis(usize::MAX, 3, 1, 1).output(1, 1, false), None);
        // 13 columns, window 3, step 2: the last window of 111 → 55 (floor) or 56 (ceil, half outside).
        assert_eq!(axis(112, 3, 2, 1).output(0, 0, false), Some(55));
        assert_eq!(axis(112, 3, 2, 1).output(0, 0, true), Some(56));
        // Ceil would put a window wholly behind the input.
        assert_eq!(axis(3, 1, 3, 1).output(0, 1, true), Some(1));
    }

    #[test]
    fn pools_whose_steps_leave_much_are_told() {
        let told =
            |extent, kernel, stride| axis(extent, kernel, stride, 1).same_over_steps(AutoPad::SameLower);
        assert_eq!([told(4, 1, 2), told(7, 2, 2), told(6, 3, 1)], [None, None, None]);
        let reason = told(6, 1, 3).expect("it skips 2 of 6");
        assert!(
            reason.contains("a pool of 1 in steps of 3 over 6 elements: the steps leave 2 elements"),
            "{reason}"
        );
        assert_eq!(axis(6, 1, 3, 1).same_over_steps(AutoPad::Valid), None);
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

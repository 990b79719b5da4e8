//! Inputs that commands read where the caller has them, instead of copies in the device's memory.

use super::{Border, SegmentKind, SegmentTable, operands::SegRange};

/// Alignment in bytes of the widest element. Offsets of operands are multiples of their element, so a base that is aligned so
/// makes every operand fit its type, as a segment's base does.
const ALIGNMENT: usize = 8;

/// The caller's side of a run.
#[derive(Clone, Copy)]
pub(super) struct Outside<'a> {
    border: &'a dyn Border,
    /// By the segment's index: the input's number. Segments come in this order: inputs one behind the other.
    first: usize,
    count: usize,
}

impl<'a> Outside<'a> {
    /// `None` when no segment is an input, or inputs do not follow each other.
    pub(super) fn new(segments: &SegmentTable, border: &'a dyn Border) -> Option<Self> {
        let is_input = |index: &usize| segments.segments()[*index].kind == SegmentKind::Input;
        let all = 0..segments.segments().len();
        let first = all.clone().find(is_input)?;
        let count = all.clone().filter(is_input).count();
        (all.skip(first).take_while(is_input).count() == count).then_some(Self { border, first, count })
    }

    /// Whether commands read input `number` where it is; the others are copied to their segments.
    pub(super) fn has(&self, number: usize) -> bool {
        number < self.count && self.border.input(number).as_ptr().addr().is_multiple_of(ALIGNMENT)
    }

    /// The bytes of a range, if it lies in such an input.
    pub(super) fn bytes(&self, range: SegRange) -> Option<&'a [u8]> {
        let number = usize::from(range.segment).checked_sub(self.first).filter(|&number| self.has(number))?;
        let start = usize::try_from(range.start).ok()?;
        let end = start.checked_add(usize::try_from(range.len).ok()?)?;
        self.border.input(number).get(start..end)
    }
}

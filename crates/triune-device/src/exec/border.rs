//! Inputs that commands read, and outputs that they write, where the caller has them, instead of copies in the device's memory.

use super::{Inputs, Outputs, Prepared, Segment, SegmentKind, SegmentTable, operands::SegRange};

/// Alignment in bytes of the widest element. Offsets of operands are multiples of their element, so a base that is aligned so
/// makes every operand fit its type, as a segment's base does.
const ALIGNMENT: usize = 8;

fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(ALIGNMENT)
}

/// The segments of a kind: one behind the other, which is the order in which a caller numbers them.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// The first one's index.
    first: usize,
    count: usize,
}

impl Row {
    /// Empty when no segment is of the kind, or they do not follow each other.
    fn new(segments: &[Segment], kind: SegmentKind) -> Self {
        let is_one = |segment: &Segment| segment.kind == kind;
        let first = segments.iter().position(is_one).unwrap_or(0);
        let count = segments.iter().filter(|segment| is_one(segment)).count();
        let follow = segments[first..].iter().take_while(|segment| is_one(segment)).count() == count;
        Self { first, count: if follow { count } else { 0 } }
    }

    /// The number of a segment, if it is one of these.
    fn number(self, segment: u16) -> Option<usize> {
        usize::from(segment).checked_sub(self.first).filter(|&number| number < self.count)
    }
}

/// Which of a caller's tensors a program may use where they are.
#[derive(Clone, Debug)]
pub(super) struct InPlace {
    inputs: Row,
    outputs: Row,
    /// Of each output, whether no command reads it: what is read must not lie where something else is written.
    only_written: Box<[bool]>,
}

impl InPlace {
    pub(super) fn new(segments: &SegmentTable, steps: &[Prepared]) -> Self {
        let segments = segments.segments();
        let outputs = Row::new(segments, SegmentKind::Output);
        let mut only_written = vec![true; outputs.count].into_boxed_slice();
        for read in steps.iter().flat_map(Prepared::read_segments) {
            if let Some(number) = outputs.number(read) {
                only_written[number] = false;
            }
        }
        Self { inputs: Row::new(segments, SegmentKind::Input), outputs, only_written }
    }
}

/// Where a run's inputs are.
#[derive(Clone, Copy)]
pub(super) struct Sources<'a> {
    inputs: &'a dyn Inputs,
    row: Row,
}

impl<'a> Sources<'a> {
    pub(super) fn new(places: &InPlace, inputs: &'a dyn Inputs) -> Self {
        Self { inputs, row: places.inputs }
    }

    /// Whether commands read input `number` where it is; the others are copied to their segments.
    pub(super) fn has(&self, number: usize) -> bool {
        number < self.row.count && is_aligned(self.inputs.input(number))
    }

    /// The bytes of a range, if it lies in such an input.
    pub(super) fn bytes(&self, range: SegRange) -> Option<&'a [u8]> {
        let number = self.row.number(range.segment).filter(|&number| self.has(number))?;
        self.inputs.input(number).get(range.indices()?)
    }
}

/// Where a run's outputs shall be.
pub(super) struct Targets<'a> {
    outputs: &'a mut dyn Outputs,
    places: &'a InPlace,
}

impl<'a> Targets<'a> {
    pub(super) fn new(places: &'a InPlace, outputs: &'a mut dyn Outputs) -> Self {
        Self { outputs, places }
    }

    /// Whether commands write output `number` where the caller wants it; the others are copied from their segments.
    pub(super) fn has(&mut self, number: usize) -> bool {
        self.places.only_written.get(number) == Some(&true) && is_aligned(self.outputs.output(number))
    }

    /// The bytes of a range, if it lies in such an output.
    pub(super) fn bytes(&mut self, range: SegRange) -> Option<&mut [u8]> {
        let number = self.places.outputs.number(range.segment).filter(|&number| self.has(number))?;
        self.outputs.output(number).get_mut(range.indices()?)
    }

    /// An output's bytes.
    pub(super) fn output(&mut self, number: usize) -> &mut [u8] {
        self.outputs.output(number)
    }
}

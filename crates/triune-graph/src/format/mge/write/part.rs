//! Strided parts.

use super::site::Site;
use crate::{Error, ops::Slice};

impl Site<'_, '_> {
    pub(super) fn slice(&mut self) -> Result<u32, Error> {
        let result = self.result.clone();
        let from = self.variable(0)?.shape;
        let ranges = self.ints(1).zip(self.ints(2)).and_then(|(starts, ends)| {
            Slice::ranges(&from, &starts, &ends, self.ints(3).as_deref(), self.ints(4).as_deref())
        });
        let ranges = ranges.ok_or_else(|| self.unsupported("a computed range"))?;
        let mut taken = Vec::new();
        for (axis, range) in ranges.iter().enumerate() {
            if range.length == from[axis] && range.step == 1 {
                continue;
            }
            // One past the last element, from either side.
            let step = range.step as i64;
            let last = range.start as i64 + (range.length as i64 - 1).max(0) * step;
            let end = if range.length == 0 { range.start as i64 } else { last + step.signum() };
            taken.push((axis, [range.start as i64, end, step]));
        }
        let x = self.input(0)?;
        self.writer.subtensor(x, &taken, &result)
    }
}

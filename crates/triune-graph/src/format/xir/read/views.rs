//! One view of a tensor from another: axes in another order, blocks joined or split, padding left out or put in.

use super::{Form, View, node::Reader};
use crate::{
    Error, Op, ValueId,
    ops::{Concat, Pad, PadMode, Slice},
};

impl Reader<'_, '_> {
    /// A view of a tensor as another view. `fill` is what padding holds.
    pub(super) fn seen_as(
        &mut self,
        id: ValueId,
        form: &Form,
        from: View,
        to: View,
        fill: i64,
    ) -> Result<ValueId, Error> {
        if from == to {
            return Ok(id);
        }
        let flat = match from {
            View::Flat => id,
            View::Open => {
                let back: Vec<usize> = (0..form.open.len()).map(|axis| form.open_axis(axis)).collect();
                self.transpose(id, &back)?
            }
            View::Stored => self.joined(id, form)?,
        };
        match to {
            View::Flat => Ok(flat),
            View::Open => self.transpose(flat, &form.open),
            View::Stored => self.blocked(flat, form, fill),
        }
    }

    /// Stored to flat: split axes joined, padding gone.
    fn joined(&mut self, id: ValueId, form: &Form) -> Result<ValueId, Error> {
        let perm: Vec<usize> =
            form.flat.iter().flat_map(|axis| std::iter::once(axis.upper).chain(axis.lower)).collect();
        let moved = self.transpose(id, &perm)?;
        let totals: Vec<Option<usize>> = form.flat.iter().map(|axis| axis.total).collect();
        let mut value = if form.flat.iter().any(|axis| axis.lower.is_some()) {
            self.reshape(moved, &totals)?
        } else {
            moved
        };
        for (axis, own) in form.flat.iter().enumerate().filter(|(_, own)| !own.valid.is_empty()) {
            let mut parts = Vec::with_capacity(own.valid.len());
            for &(start, end) in &own.valid {
                parts.push(self.part(value, axis, start, end)?);
            }
            value = self.together(&parts, axis)?;
        }
        Ok(value)
    }

    /// Flat to stored: padding added, axes split.
    fn blocked(&mut self, id: ValueId, form: &Form, fill: i64) -> Result<ValueId, Error> {
        let mut value = id;
        for (axis, own) in form.flat.iter().enumerate().filter(|(_, own)| !own.valid.is_empty()) {
            let total = own.total.unwrap_or(0);
            let (mut parts, mut at, mut taken) = (Vec::new(), 0, 0);
            for (number, &(start, end)) in own.valid.iter().enumerate() {
                let next = own.valid.get(number + 1).map_or(total, |&(next, _)| next);
                let part = if own.valid.len() == 1 {
                    value
                } else {
                    self.part(value, axis, taken, taken + end - start)?
                };
                // Before the first section, and behind each one up to the next.
                let before = if number == 0 { start } else { 0 };
                parts.push(self.padded(part, form.flat.len(), axis, before, next - end, fill)?);
                (at, taken) = (next, taken + end - start);
            }
            debug_assert_eq!(at, total);
            value = self.together(&parts, axis)?;
        }
        let mut extents = Vec::with_capacity(form.stored.len());
        let mut places = Vec::with_capacity(form.stored.len());
        for axis in &form.flat {
            places.push(axis.upper);
            places.extend(axis.lower);
        }
        extents.extend(places.iter().map(|&place| form.stored[place]));
        if form.flat.iter().any(|axis| axis.lower.is_some()) {
            value = self.reshape(value, &extents)?;
        }
        let perm: Option<Vec<usize>> =
            (0..places.len()).map(|stored| places.iter().position(|&place| place == stored)).collect();
        let perm = perm.ok_or_else(|| self.wrong("a layout that leaves axes out"))?;
        self.transpose(value, &perm)
    }

    /// The elements from `start` to `end` along an axis.
    fn part(&mut self, x: ValueId, axis: usize, start: usize, end: usize) -> Result<ValueId, Error> {
        let starts = self.list("start", &[start as i64])?;
        let ends = self.list("end", &[end as i64])?;
        let axes = self.list("axis", &[axis as i64])?;
        self.emit(Op::Slice(Slice), &[x, starts, ends, axes])
    }

    fn together(&mut self, parts: &[ValueId], axis: usize) -> Result<ValueId, Error> {
        match parts {
            [one] => Ok(*one),
            all => self.emit(Op::Concat(Concat { axis: axis as isize }), all),
        }
    }

    fn padded(
        &mut self,
        x: ValueId,
        rank: usize,
        axis: usize,
        before: usize,
        behind: usize,
        fill: i64,
    ) -> Result<ValueId, Error> {
        if before + behind == 0 {
            return Ok(x);
        }
        let mut pads = vec![0; 2 * rank];
        (pads[axis], pads[rank + axis]) = (before as i64, behind as i64);
        let pads = self.list("pads", &pads)?;
        let dtype = self.dtype(x).ok_or_else(|| self.unsupported("padding of an unknown type"))?;
        let fill = self.integer(dtype, &[fill], &[])?;
        self.emit(Op::Pad(Pad { mode: PadMode::Constant }), &[x, pads, fill])
    }
}

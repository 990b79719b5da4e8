//! Buffers that share bytes on purpose: an in-place operator's output, the inputs of a concatenation, a view.
//!
//! A step before planning: what shares becomes one buffer, which any planner places; afterwards each part gets its
//! own offset back. Knows nothing of operators: who may share with whom is the caller's knowledge.

use crate::{Buffer, Plan};

/// `child` lies `offset` bytes into `parent`, whatever address that gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Index of the buffer that gives up its own place.
    pub child: usize,
    /// Index of the buffer that holds it; may be a child itself.
    pub parent: usize,
    /// Bytes from the parent's start; a multiple of the child's alignment.
    pub offset: u64,
}

/// Buffers to plan instead of the given ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// One buffer per group of sharing ones: alive from the first start to the last end, as large as all need.
    pub buffers: Vec<Buffer>,
    /// For each given buffer, its group and the offset in it.
    places: Vec<(usize, u64)>,
}

impl Merged {
    /// The plan of the given buffers that follows from a plan of [`Self::buffers`]; `None` when that plan is not one
    /// of these buffers.
    pub fn expand(&self, plan: &Plan) -> Option<Plan> {
        if plan.offsets.len() != self.buffers.len() {
            return None;
        }
        let offsets = self.places.iter().map(|&(group, offset)| plan.offsets[group].checked_add(offset));
        Some(Plan { offsets: offsets.collect::<Option<_>>()?, ..*plan })
    }
}

/// Merges what shares. `None` when an index is out of range, a buffer has two parents or is its own ancestor, an
/// offset breaks an alignment, an alignment is not a power of two, or sizes overflow.
pub fn merge(buffers: &[Buffer], shares: &[Share]) -> Option<Merged> {
    let mut parents: Vec<Option<Share>> = vec![None; buffers.len()];
    for share in shares {
        if share.parent >= buffers.len() || parents.get_mut(share.child)?.replace(*share).is_some() {
            return None;
        }
    }
    // Each buffer's root and offset from it. A path longer than the number of shares is a circle.
    let mut roots = Vec::with_capacity(buffers.len());
    for index in 0..buffers.len() {
        let (mut root, mut offset, mut steps) = (index, 0_u64, 0);
        while let Some(share) = parents[root] {
            (root, offset, steps) = (share.parent, offset.checked_add(share.offset)?, steps + 1);
            if steps > shares.len() {
                return None;
            }
        }
        roots.push((root, offset));
    }
    let mut groups = vec![usize::MAX; buffers.len()];
    let mut merged: Vec<Buffer> = Vec::new();
    let mut places = Vec::with_capacity(buffers.len());
    for (buffer, &(root, offset)) in buffers.iter().zip(&roots) {
        if !buffer.alignment.is_power_of_two() || !offset.is_multiple_of(buffer.alignment) {
            return None;
        }
        let end = offset.checked_add(buffer.size)?;
        if groups[root] == usize::MAX {
            groups[root] = merged.len();
            merged.push(Buffer { size: end, ..*buffer });
        }
        let group = &mut merged[groups[root]];
        group.lower = group.lower.min(buffer.lower);
        group.upper = group.upper.max(buffer.upper);
        group.size = group.size.max(end);
        group.alignment = group.alignment.max(buffer.alignment);
        places.push((groups[root], offset));
    }
    Some(Merged { buffers: merged, places })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{plan, validate};

    fn buffer(lower: u64, upper: u64, size: u64) -> Buffer {
        Buffer { lower, upper, size, alignment: 16 }
    }

    #[test]
    fn a_concatenation_and_an_operator_in_place() {
        // 0 and 1 are the halves of 2; 3 is 2 in place; 4 is of its own.
        let buffers =
            [buffer(0, 2, 64), buffer(1, 2, 32), buffer(2, 4, 96), buffer(3, 5, 96), buffer(0, 5, 16)];
        let share = |child, parent, offset| Share { child, parent, offset };
        let merged = merge(&buffers, &[share(0, 2, 0), share(1, 2, 64), share(3, 2, 0)]).unwrap();
        assert_eq!(merged.buffers, [buffer(0, 5, 96), buffer(0, 5, 16)]);
        let small = plan(&merged.buffers).unwrap();
        let whole = merged.expand(&small).unwrap();
        assert_eq!(whole.peak, 112);
        let base = whole.offsets[2];
        assert_eq!(whole.offsets[..4], [base, base + 64, base, base]);
        // Whatever does not share stays apart.
        let apart = [buffers[2], buffers[4]];
        let offsets = vec![whole.offsets[2], whole.offsets[4]];
        assert_eq!(validate(&apart, &Plan { offsets, ..whole }), Ok(()));
        assert_eq!(merged.expand(&plan(&[]).unwrap()), None);
    }

    #[test]
    fn chains_add_up_and_alignment_rises() {
        let mut buffers = [buffer(0, 1, 64), buffer(0, 1, 32), buffer(0, 1, 64)];
        buffers[2].alignment = 32;
        let shares = [Share { child: 2, parent: 1, offset: 32 }, Share { child: 1, parent: 0, offset: 32 }];
        let merged = merge(&buffers, &shares).unwrap();
        assert_eq!(merged.buffers, [Buffer { alignment: 32, ..buffer(0, 1, 128) }]);
        assert_eq!(merged.expand(&plan(&merged.buffers).unwrap()).unwrap().offsets, [0, 32, 64]);
    }

    #[test]
    fn refuses_what_cannot_be() {
        let buffers = [buffer(0, 1, 64), buffer(0, 1, 64)];
        let share = |child, parent, offset| Share { child, parent, offset };
        for wrong in [
            vec![share(0, 2, 0)],
            vec![share(2, 0, 0)],
            vec![share(0, 0, 0)],
            vec![share(0, 1, 0), share(1, 0, 0)],
            vec![share(0, 1, 0), share(0, 1, 16)],
            vec![share(0, 1, 8)],
            vec![share(0, 1, u64::MAX - 15)],
        ] {
            assert_eq!(merge(&buffers, &wrong), None, "{wrong:?}");
        }
    }
}

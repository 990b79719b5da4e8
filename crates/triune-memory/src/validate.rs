//! Checks a plan without knowing how it was found: the quadratic definition, written down.

use crate::{Buffer, Plan};

/// What a plan breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Not one offset per buffer.
    #[error("{offsets} offsets for {buffers} buffers")]
    Count {
        /// Offsets in the plan.
        offsets: usize,
        /// Buffers to place.
        buffers: usize,
    },
    /// An offset is not a multiple of its buffer's alignment.
    #[error("buffer {0} is misaligned")]
    Misaligned(usize),
    /// A buffer ends above the plan's peak.
    #[error("buffer {0} ends above the peak")]
    AbovePeak(usize),
    /// Two buffers that are alive in a common step share bytes.
    #[error("buffers {0} and {1} are alive together and overlap")]
    Overlap(usize, usize),
}

/// Checks alignment, peak and disjointness of every pair of buffers that are alive together.
pub fn validate(buffers: &[Buffer], plan: &Plan) -> Result<(), Violation> {
    if plan.offsets.len() != buffers.len() {
        return Err(Violation::Count { offsets: plan.offsets.len(), buffers: buffers.len() });
    }
    for (index, (buffer, &offset)) in buffers.iter().zip(&plan.offsets).enumerate() {
        if offset % buffer.alignment != 0 {
            return Err(Violation::Misaligned(index));
        }
        if offset.checked_add(buffer.size).is_none_or(|end| end > plan.peak) {
            return Err(Violation::AbovePeak(index));
        }
        for (other, (earlier, &at)) in buffers.iter().zip(&plan.offsets).take(index).enumerate() {
            if buffer.coexists(earlier) && offset < at + earlier.size && at < offset + buffer.size {
                return Err(Violation::Overlap(other, index));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_each_fault() {
        let buffers = [
            Buffer { lower: 0, upper: 2, size: 64, alignment: 64 },
            Buffer { lower: 1, upper: 3, size: 64, alignment: 64 },
        ];
        let plan = |offsets: [u64; 2], peak| Plan {
            offsets: offsets.to_vec(),
            peak,
            lower_bound: 128,
            proven_optimal: false,
        };
        assert_eq!(validate(&buffers, &plan([0, 64], 128)), Ok(()));
        assert_eq!(validate(&buffers, &plan([0, 32], 128)), Err(Violation::Misaligned(1)));
        assert_eq!(validate(&buffers, &plan([64, 0], 100)), Err(Violation::AbovePeak(0)));
        assert_eq!(validate(&buffers, &plan([0, 0], 128)), Err(Violation::Overlap(0, 1)));
        let short = Plan { offsets: vec![0], peak: 64, lower_bound: 128, proven_optimal: false };
        assert_eq!(validate(&buffers, &short), Err(Violation::Count { offsets: 1, buffers: 2 }));
    }
}

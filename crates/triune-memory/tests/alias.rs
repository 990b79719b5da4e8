//! Buffers that share, in any order and depth: a group holds all of its parts for as long as any of them is needed.

use proptest::prelude::*;
use triune_memory::{Buffer, Plan, Share, merge};

proptest! {
    #[test]
    fn groups_hold_their_parts(
        parts in prop::collection::vec((0_u64..9, 1_u64..9, 1_u64..9, 0_u32..3), 1..8),
        parents in prop::collection::vec(0_usize..8, 8),
    ) {
        let buffers: Vec<Buffer> = parts
            .iter()
            .map(|&(lower, length, size, bits)| Buffer {
                lower,
                upper: lower + length,
                size: 16 * size,
                alignment: 4 << bits,
            })
            .collect();
        // A part shares with a later one, so that there are no circles; the last of all never does.
        let shares: Vec<Share> = (0..buffers.len() - 1)
            .filter(|&child| parents[child] % 3 > 0)
            .map(|child| Share {
                child,
                parent: child + 1 + parents[child] % (buffers.len() - 1 - child),
                offset: 16 * (parents[child] as u64 % 4),
            })
            .collect();
        let merged = merge(&buffers, &shares).expect("no circle");
        prop_assert_eq!(merged.buffers.len(), buffers.len() - shares.len());
        // With the groups far apart, a buffer's offset tells its group and its place there.
        let offsets = (0..merged.buffers.len() as u64).map(|group| group << 32).collect();
        let whole = merged.expand(&Plan { offsets, peak: 0, lower_bound: 0, proven_optimal: false }).expect("its own plan");
        for share in &shares {
            prop_assert_eq!(whole.offsets[share.child], whole.offsets[share.parent] + share.offset);
        }
        for (group, found) in merged.buffers.iter().enumerate() {
            let own = || (0..buffers.len()).filter(|&at| whole.offsets[at] >> 32 == group as u64);
            let end = |at: usize| (whole.offsets[at] & 0xFFFF_FFFF) + buffers[at].size;
            prop_assert_eq!(Some(found.lower), own().map(|at| buffers[at].lower).min());
            prop_assert_eq!(Some(found.upper), own().map(|at| buffers[at].upper).max());
            prop_assert_eq!(Some(found.size), own().map(end).max());
            prop_assert_eq!(Some(found.alignment), own().map(|at| buffers[at].alignment).max());
        }
    }
}

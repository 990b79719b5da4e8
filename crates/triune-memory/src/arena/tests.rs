//! Shadow models: a map of every byte decides what each step must give, and the arena's own structure is checked
//! after each.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Lists, classes, index and counters agree with the blocks in address order.
fn check(arena: &Arena) {
    let (mut start, mut used, mut gaps, mut chunks) = (0, 0, 0, 0);
    let (mut below, mut number, mut was_free) = (NONE, if arena.size > 0 { 0 } else { NONE }, false);
    while number != NONE {
        let block = &arena.blocks[number as usize];
        assert_eq!((block.start, block.below), (start, below));
        assert!(block.size > 0 && !(was_free && block.free()), "an empty block, or two gaps side by side");
        if block.free() {
            gaps += 1;
            let class = Bins::class(block.size);
            assert_eq!(arena.class(class).filter(|&(other, _)| other == number).count(), 1);
        } else {
            (chunks, used) = (chunks + 1, used + block.size);
            assert_eq!(arena.live.get(start, |number| arena.blocks[number as usize].start), Some(number));
        }
        for offset in [start, start + block.size / 2, start + block.size - 1] {
            assert_eq!(arena.covering(offset), number);
        }
        (start, was_free, below, number) = (start + block.size, block.free(), number, block.above);
    }
    assert_eq!((start, used, chunks), (arena.size, arena.used, arena.live.len()));
    assert_eq!(arena.blocks.len() - arena.spare.len(), gaps + chunks);
    let (mut class, mut listed) = (0, 0);
    while let Some(found) = arena.bins.at_least(class) {
        listed += arena.class(found).count();
        class = found + 1;
    }
    assert_eq!(listed, gaps);
}

#[test]
fn fixed_offsets_and_merging() {
    let mut arena = Arena::new(1024);
    assert!(arena.allocate_at(100, 50));
    assert!(!arena.allocate_at(120, 1));
    assert!(!arena.allocate_at(99, 2));
    assert!(!arena.allocate_at(1000, 25));
    assert!(!arena.allocate_at(1024, 1));
    assert!(!arena.allocate_at(u64::MAX, 2));
    assert!(!arena.allocate_at(0, 0));
    assert_eq!(arena.find(99), None);
    assert_eq!(arena.find(149), Some((100, 50)));
    assert_eq!(arena.find(150), None);
    assert_eq!(arena.find(u64::MAX), None);
    assert_eq!(arena.report(), Report { size: 1024, used: 50, chunks: 1, gaps: 2, largest_gap: 874 });
    assert_eq!(arena.free(100), Some(50));
    assert_eq!(arena.free(100), None);
    assert_eq!(arena.largest_gap(), 1024);
}

#[test]
fn refuses_what_cannot_be() {
    let mut arena = Arena::new(64);
    assert_eq!(arena.allocate(0, 1), None);
    assert_eq!(arena.allocate(8, 3), None);
    assert_eq!(arena.allocate(65, 1), None);
    assert_eq!(arena.allocate(u64::MAX, 1 << 63), None);
    assert_eq!(arena.allocate(64, 64), Some(0));
    assert_eq!(Arena::new(0).allocate(1, 1), None);
    assert_eq!(Arena::new(0).find(0), None);
    assert!(!Arena::new(0).allocate_at(0, 1));
}

#[test]
fn the_whole_of_u64() {
    let mut arena = Arena::new(u64::MAX);
    assert_eq!(arena.allocate(u64::MAX, 1), Some(0));
    assert_eq!(arena.free(0), Some(u64::MAX));
    assert!(arena.allocate_at(u64::MAX - 1, 1));
    assert_eq!(arena.allocate(1 << 63, 1 << 63), Some(0));
    assert_eq!(arena.allocate(1, 1 << 63), Some(1 << 63));
    assert_eq!(arena.find(u64::MAX - 1), Some((u64::MAX - 1, 1)));
    check(&arena);
}

/// More gaps of one class than a glance sees, of which only the one at the far end of the list is large enough.
#[test]
fn a_request_sees_every_gap_before_it_fails() {
    let mut arena = Arena::new(100 * 2000);
    for chunk in 0..100_u64 {
        // Sizes 1001 and 1000 share a class; the larger one is freed first and so comes last in the list.
        let size = if chunk == 0 { 1001 } else { 1000 };
        assert!(arena.allocate_at(chunk * 2000, size));
        assert!(arena.allocate_at(chunk * 2000 + size, 2000 - size));
    }
    (0..100).for_each(|chunk| assert!(arena.free(chunk * 2000).is_some()));
    assert_eq!(arena.allocate(1001, 1), Some(0));
    assert_eq!(arena.allocate(1001, 1), None);
    check(&arena);
}

#[test]
fn lookups_agree_while_the_index_comes_and_goes() {
    let mut arena = Arena::new(1 << 20);
    let starts: Vec<u64> = (0..5000).map(|_| arena.allocate(96, 64).unwrap()).collect();
    starts.iter().step_by(3).for_each(|&start| assert_eq!(arena.free(start), Some(96)));
    check(&arena);
}

#[test]
fn chunks_fill_granules_and_keep_their_size() {
    let mut arena = Arena::with_granule(1000, 64);
    assert_eq!(arena.size(), 960);
    assert_eq!(arena.allocate(100, 1), Some(0));
    assert_eq!(arena.allocate(1, 16), Some(128));
    assert!(!arena.allocate_at(200, 8));
    assert!(arena.allocate_at(192, 65));
    assert!(!arena.allocate_at(256, 64));
    assert_eq!(arena.find(99), Some((0, 100)));
    assert_eq!(arena.find(100), None);
    assert!(arena.live().eq([(0, 100), (128, 1), (192, 65)]));
    assert_eq!(arena.used(), 128 + 64 + 128);
    check(&arena);
    assert_eq!(arena.free(192), Some(65));
    assert_eq!(arena.free(0), Some(100));
    assert_eq!(arena.allocate(961 - 192, 1), None);
    assert_eq!(arena.allocate(960 - 192, 256), None);
    assert_eq!(arena.allocate(960 - 192, 64), Some(192));
    check(&arena);
}

#[derive(Clone, Debug)]
enum Step {
    Allocate(u64, u32),
    At(u64, u64),
    Free(usize),
}

fn steps(bytes: u64) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..bytes / 4, 0_u32..8).prop_map(|(size, shift)| Step::Allocate(size, shift)),
        1 => (0..bytes, 0..bytes / 4).prop_map(|(start, size)| Step::At(start, size)),
        3 => any::<usize>().prop_map(Step::Free),
    ];
    prop::collection::vec(step, 1..200)
}

proptest! {
    /// Chunks never overlap and are aligned, a failed request really had no place, and a gap that was chosen is at
    /// most 1/64 larger than the smallest that would have done.
    #[test]
    fn agrees_with_a_byte_map(steps in steps(512)) {
        let mut arena = Arena::new(512);
        let mut bytes = [false; 512];
        let mut live = BTreeMap::new();
        for step in steps {
            match step {
                Step::Allocate(size, shift) => {
                    let alignment = 1_u64 << shift;
                    let fits = |start: u64| size > 0 && start + size <= 512
                        && bytes[start as usize..(start + size) as usize].iter().all(|taken| !taken);
                    // The length of the gap round a free byte.
                    let gap = |start: u64| {
                        let below = bytes[..start as usize].iter().rev().take_while(|taken| !**taken).count();
                        below + bytes[start as usize..].iter().take_while(|taken| !**taken).count()
                    };
                    let smallest = (0..512).step_by(alignment as usize).filter(|&at| fits(at)).map(gap).min();
                    if let Some(start) = arena.allocate(size, alignment) {
                        prop_assert!(start % alignment == 0 && fits(start));
                        prop_assert!(gap(start) <= smallest.unwrap() * 65 / 64);
                        bytes[start as usize..(start + size) as usize].fill(true);
                        live.insert(start, size);
                    } else {
                        prop_assert_eq!(smallest, None);
                    }
                }
                Step::At(start, size) => {
                    let end = start + size;
                    let fits = size > 0 && end <= 512
                        && bytes[start as usize..end as usize].iter().all(|taken| !taken);
                    prop_assert_eq!(arena.allocate_at(start, size), fits);
                    if fits {
                        bytes[start as usize..end as usize].fill(true);
                        live.insert(start, size);
                    }
                }
                Step::Free(which) => {
                    prop_assert_eq!(arena.free(600), None);
                    let Some((&start, &size)) = live.iter().nth(which % live.len().max(1)) else { continue };
                    if size > 1 {
                        prop_assert_eq!(arena.free(start + 1), None);
                    }
                    prop_assert_eq!(arena.free(start), Some(size));
                    live.remove(&start);
                    bytes[start as usize..(start + size) as usize].fill(false);
                }
            }
            check(&arena);
            prop_assert!(arena.live().eq(live.iter().map(|(&start, &size)| (start, size))));
            for offset in 0..512 {
                let chunk = live.range(..=offset).next_back().map(|(&start, &size)| (start, size));
                prop_assert_eq!(arena.find(offset), chunk.filter(|(start, size)| offset - start < *size));
            }
        }
    }
}

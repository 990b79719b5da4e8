//! Every policy against all subsets of a few candidates.

use proptest::prelude::*;

use super::*;
use crate::Plan;

fn candidate(lower: u64, upper: u64, size: u64, reads: u64) -> Candidate {
    Candidate { buffer: Buffer { lower, upper, size, alignment: 1 }, reads }
}

/// The best value of all subsets that can be alive within the capacity, and of those that can be placed.
fn brute(candidates: &[Candidate], capacity: u64) -> (u64, u64) {
    let (mut alive, mut placed) = (0, 0);
    for mask in 0_u32..1 << candidates.len() {
        let subset: Vec<&Candidate> = candidates
            .iter()
            .enumerate()
            .filter(|(bit, _)| mask >> bit & 1 == 1)
            .map(|(_, each)| each)
            .collect();
        let value = subset.iter().map(|each| each.value()).sum();
        let peak = |step: u64| -> u64 {
            let live = subset.iter().filter(|each| each.buffer.lower <= step && step < each.buffer.upper);
            live.map(|each| each.buffer.size).sum()
        };
        if (0..12).map(peak).max() > Some(capacity) {
            continue;
        }
        alive = alive.max(value);
        let buffers: Vec<Buffer> = subset.iter().map(|each| each.buffer).collect();
        if value > placed
            && matches!(solve(&buffers, capacity, Limits::placements(u64::MAX)), Some(Outcome::Fits(_)))
        {
            placed = value;
        }
    }
    (alive, placed)
}

pub(super) fn check(candidates: &[Candidate], capacity: u64, found: &Residency) {
    let chosen: Vec<(&Candidate, u64)> =
        candidates.iter().zip(&found.offsets).filter_map(|(each, offset)| Some((each, (*offset)?))).collect();
    let buffers: Vec<Buffer> = chosen.iter().map(|(each, _)| each.buffer).collect();
    let offsets = chosen.iter().map(|&(_, offset)| offset).collect();
    let plan = Plan { offsets, peak: found.peak, lower_bound: 0, proven_optimal: false };
    assert_eq!(validate(&buffers, &plan), Ok(()));
    assert!(found.peak <= capacity);
    assert_eq!(found.value, chosen.iter().map(|(each, _)| each.value()).sum::<u64>());
    assert!(found.value <= found.bound && (0.0..=1.0).contains(&found.gap()));
    assert_eq!(found.proven_optimal(), found.gap() == 0.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn agrees_with_all_subsets(
        raw in prop::collection::vec((0_u64..8, 1_u64..5, 0_u64..9, 0_u64..4), 0..9),
        capacity in 0_u64..20,
    ) {
        let candidates: Vec<Candidate> =
            raw.into_iter().map(|(lower, life, size, reads)| candidate(lower, lower + life, size, reads)).collect();
        let (alive, placed) = brute(&candidates, capacity);
        let mut options = 0;
        for policy in Policy::ALL {
            let found = choose(&candidates, capacity, policy).unwrap();
            check(&candidates, capacity, &found);
            prop_assert_eq!(found.bound, alive);
            prop_assert!(found.value <= placed);
            match policy {
                Policy::None => prop_assert_eq!(found.value, 0),
                Policy::Option1 | Policy::Option2 | Policy::Option3 => options = options.max(found.value),
                Policy::BestScore if alive == placed => prop_assert!(found.value >= options),
                Policy::BestScore => {}
                Policy::Exact if alive == placed => prop_assert_eq!(found.value, placed),
                Policy::Exact => prop_assert!(found.value > 0 || placed == 0),
            }
        }
    }

    #[test]
    fn alignment_is_kept(
        raw in prop::collection::vec((0_u64..20, 1_u64..8, 1_u64..300, 0_u64..4, 0_u32..7), 0..30),
        capacity in 0_u64..1000,
    ) {
        let candidates: Vec<Candidate> = raw
            .into_iter()
            .map(|(lower, life, size, reads, shift)| Candidate {
                buffer: Buffer { lower, upper: lower + life, size, alignment: 1 << shift },
                reads,
            })
            .collect();
        for policy in Policy::ALL {
            check(&candidates, capacity, &choose(&candidates, capacity, policy).unwrap());
        }
    }
}

/// A chain with a long skip: the skip scores low, but leaving it out helps nobody when the rest is small.
#[test]
fn options_differ_where_they_should() {
    // One large buffer over all steps, worth 100 × 2, against four short ones worth 60 × 2 each.
    let mut candidates = vec![candidate(0, 8, 100, 1)];
    candidates.extend((0..4).map(|step| candidate(2 * step, 2 * step + 2, 60, 1)));
    for policy in [Policy::Option1, Policy::Option3, Policy::BestScore, Policy::Exact] {
        assert_eq!(choose(&candidates, 100, policy).unwrap().value, 480, "{policy:?}");
    }
    // A knapsack of one step sees 200 against 120.
    let local = choose(&candidates, 100, Policy::Option2).unwrap();
    assert_eq!((local.value, local.bound), (200, 480));
    assert_eq!(choose(&candidates, 160, Policy::Option2).unwrap().gap(), 0.0);
}

#[test]
fn refuses_what_cannot_be() {
    let good = candidate(0, 1, 8, 1);
    let with = |change: &dyn Fn(&mut Candidate)| {
        let mut wrong = good;
        change(&mut wrong);
        choose(&[good, wrong], 100, Policy::Exact)
    };
    assert!(with(&|_| {}).is_some());
    assert_eq!(with(&|wrong| wrong.buffer.upper = 0), None);
    assert_eq!(with(&|wrong| wrong.buffer.alignment = 3), None);
    assert_eq!(with(&|wrong| wrong.reads = u64::MAX), None);
    assert_eq!(with(&|wrong| wrong.buffer.size = u64::MAX), None);
    assert_eq!(choose(&[], 0, Policy::Exact).unwrap().gap(), 0.0);
}

/// More live sets than are kept: still a valid answer, with an honest bound.
#[test]
fn many_live_sets_end_in_time() {
    let candidates: Vec<Candidate> =
        (0..60).map(|i| candidate(i % 5, 40 + i % 7, 1000 + i * i * 37 % 911, i * 7 % 5)).collect();
    let found = choose(&candidates, 20_000, Policy::Exact).unwrap();
    check(&candidates, 20_000, &found);
    assert!(found.value >= choose(&candidates, 20_000, Policy::BestScore).unwrap().value);
}

/// Sizes whose sums all differ, so that none of the sets is smaller and more valuable than another: only the fullest are kept,
/// where all of them would take time and memory without end.
#[test]
fn of_sets_that_all_differ_the_fullest_are_kept() {
    let candidates: Vec<Candidate> = (0..22).map(|bit| candidate(0, 1, 1 << bit, 1)).collect();
    let capacity = (1 << 21) + 0x5_5555;
    let found = choose(&candidates, capacity, Policy::Option2).unwrap();
    check(&candidates, capacity, &found);
    // Binary digits make every number, so that all sets would give the whole capacity.
    assert!(found.value < 2 * capacity, "{}", found.value);
    assert!(found.value > 2 * capacity / 10 * 8, "{}", found.value);
}

/// What a set of feature maps takes is counted in steps of their least alignment: counted in larger ones, what fits would not.
#[test]
fn sizes_are_padded_to_the_least_alignment() {
    let aligned =
        |size, alignment| Candidate { buffer: Buffer { lower: 0, upper: 2, size, alignment }, reads: 0 };
    for candidates in [[aligned(3, 1), aligned(4, 8)], [aligned(4, 8), aligned(3, 1)]] {
        for policy in Policy::ALL {
            let found = choose(&candidates, 8, policy).unwrap();
            check(&candidates, 8, &found);
            let value = if policy == Policy::None { 0 } else { 7 };
            assert_eq!((found.value, found.bound), (value, 7), "{policy:?}");
        }
    }
    // Of equal alignments, every size is a whole number of steps, and so is the room: the last map may end within a step.
    let candidates = [aligned(3, 4), aligned(5, 4)];
    for (capacity, bound) in [(8, 5), (9, 8)] {
        assert_eq!(choose(&candidates, capacity, Policy::ALL[0]).unwrap().bound, bound, "{capacity}");
    }
}

/// Traffic avoided per byte and step, not per buffer: a small one that is read in the next step comes before a large one that
/// waits.
#[test]
fn scores_are_per_byte_and_step() {
    let candidates = [candidate(0, 1, 2, 0), candidate(0, 4, 100, 1)];
    let found = choose(&candidates, 101, Policy::Option1).unwrap();
    assert_eq!(found.offsets, [Some(0), None]);
    assert_eq!(choose(&candidates, 101, Policy::Exact).unwrap().value, 200);
}

/// Each size and all values fit, but not the sizes in whole alignments.
#[test]
fn sizes_that_overflow_once_they_are_aligned_are_refused() {
    let buffer = Buffer { lower: 0, upper: 1, size: (1 << 63) - 10, alignment: 64 };
    let given = [Candidate { buffer, reads: 0 }; 2];
    assert_eq!(choose(&given, 1 << 20, Policy::Exact), None);
    assert!(choose(&given[..1], 1 << 20, Policy::Exact).is_some());
}

//! Driving the exact search: greedy first, then a portfolio of orders with growing limits and restarts.

use std::time::{Duration, Instant};

use super::{
    Buffer, Plan, live_lower_bound, plan,
    search::{Key, Search, Verdict},
    sections::Sections,
};
use crate::validate;

/// More buffers are not searched: the depth of the recursion is their number.
const MOST: usize = 1024;
/// Addresses from here on are not searched, so that sums cannot overflow.
const HIGHEST: u64 = 1 << 61;
/// The first share of each order, in placements per buffer.
const FIRST_SHARE: u64 = 8;
/// Orders that win on different instances.
const ORDERS: [[Key; 3]; 3] = [
    [Key::Width, Key::Area, Key::Total],
    [Key::Total, Key::Area, Key::Width],
    [Key::Total, Key::Width, Key::Area],
];

/// How long to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Wall clock; `None` for no end. It only cuts: what is found before does not depend on it.
    pub time: Option<Duration>,
    /// Placements to try, some two million per second.
    pub placements: u64,
}

impl Limits {
    /// A limit on the clock alone.
    pub const fn time(limit: Duration) -> Self {
        Self { time: Some(limit), placements: u64::MAX }
    }

    /// A limit on the work alone: equal results on every machine.
    pub const fn placements(limit: u64) -> Self {
        Self { time: None, placements: limit }
    }
}

/// What came of a search for one capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A plan whose peak is at most the capacity.
    Fits(Plan),
    /// There is none: proven.
    Infeasible,
    /// A limit was reached first, or there are too many buffers to search (more than 1,024).
    Undecided,
}

/// Looks for a plan within `capacity` bytes: greedy first, then exactly. `None` for buffers that [`plan`] refuses.
pub fn solve(buffers: &[Buffer], capacity: u64, limits: Limits) -> Option<Outcome> {
    let greedy = plan(buffers)?;
    if greedy.peak <= capacity {
        return Some(Outcome::Fits(greedy));
    }
    if greedy.lower_bound > capacity {
        return Some(Outcome::Infeasible);
    }
    if !is_searched(buffers) {
        return Some(Outcome::Undecided);
    }
    Some(Effort::new(limits).attempt(buffers, &Sections::new(buffers), capacity, limits.placements))
}

/// The lowest peak that the limits allow: greedy first; where that is not proven optimal, exact search at the bound,
/// then by bisection. `lower_bound` rises with what is proven on the way. `None` for buffers that [`plan`] refuses.
pub fn minimize(buffers: &[Buffer], limits: Limits) -> Option<Plan> {
    let mut best = plan(buffers)?;
    if best.proven_optimal {
        return Some(best);
    }
    // Every height of a plan in which nothing can sink is a multiple of this.
    let unit = buffers.iter().fold(0, |unit, buffer| gcd(gcd(unit, buffer.size), buffer.alignment)).max(1);
    let mut proven = best.lower_bound.next_multiple_of(unit);
    if is_searched(buffers) {
        proven = improve(&mut best, buffers, limits, unit, proven);
    }
    best.lower_bound = proven.min(best.peak);
    best.proven_optimal = best.peak == best.lower_bound;
    Some(best)
}

/// Searches below the best plan's peak, from `proven` up; gives what is proven in the end.
fn improve(best: &mut Plan, buffers: &[Buffer], limits: Limits, unit: u64, mut proven: u64) -> u64 {
    let mut effort = Effort::new(limits);
    if effort.over() {
        return proven;
    }
    let sections = Sections::new(buffers);
    let mut low = proven;
    let mut first = true;
    while low < best.peak {
        let capacity = if first { low } else { low + (best.peak - unit - low) / 2 / unit * unit };
        first = false;
        let share = limits.placements.saturating_sub(effort.spent) / 2;
        match effort.attempt(buffers, &sections, capacity, share) {
            Outcome::Fits(plan) => *best = plan,
            Outcome::Infeasible => {
                proven = proven.max(capacity + unit);
                low = capacity + unit;
            }
            Outcome::Undecided if effort.over() => break,
            Outcome::Undecided => low = capacity + unit,
        }
    }
    proven
}

/// Whether there are few enough buffers for a search. Telling takes no time: comparing all pairs would.
fn is_searched(buffers: &[Buffer]) -> bool {
    buffers.iter().filter(|buffer| buffer.size > 0).count() <= MOST
}

/// What is left of the limits.
struct Effort {
    deadline: Option<Instant>,
    limit: u64,
    spent: u64,
}

impl Effort {
    fn new(limits: Limits) -> Self {
        let deadline = limits.time.and_then(|time| Instant::now().checked_add(time));
        Self { deadline, limit: limits.placements, spent: 0 }
    }

    fn over(&self) -> bool {
        self.spent >= self.limit || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Runs the portfolio for one capacity and at most `placements`.
    fn attempt(
        &mut self,
        buffers: &[Buffer],
        sections: &Sections,
        capacity: u64,
        placements: u64,
    ) -> Outcome {
        let highest = buffers.iter().map(|buffer| buffer.alignment).fold(capacity, u64::max);
        if highest >= HIGHEST {
            self.spent = self.limit;
            return Outcome::Undecided;
        }
        let mut search = Search::new(sections, capacity, self.deadline);
        let verdict = portfolio(&mut search, sections.items.len() as u64, placements);
        self.spent = self.spent.saturating_add(search.tried());
        match verdict {
            Verdict::Found => {
                let mut offsets = vec![0; buffers.len()];
                for (&buffer, &offset) in sections.buffers.iter().zip(search.offsets()) {
                    offsets[buffer] = offset;
                }
                let ends = offsets.iter().zip(buffers).map(|(offset, buffer)| offset + buffer.size);
                let peak = ends.max().unwrap_or(0);
                let lower_bound = live_lower_bound(buffers).unwrap_or(0);
                let plan = Plan { offsets, peak, lower_bound, proven_optimal: peak == lower_bound };
                let valid = peak <= capacity && validate(buffers, &plan).is_ok();
                debug_assert!(valid, "the search made an invalid plan");
                if valid { Outcome::Fits(plan) } else { Outcome::Undecided }
            }
            Verdict::Infeasible => Outcome::Infeasible,
            Verdict::Exhausted | Verdict::Late => Outcome::Undecided,
        }
    }
}

/// Each order in turn with the same share, and one of them disturbed; then the share doubles.
fn portfolio(search: &mut Search<'_>, items: u64, placements: u64) -> Verdict {
    let mut share = items.max(8).saturating_mul(FIRST_SHARE);
    for round in 0_u64.. {
        share = share.saturating_mul(2);
        let disturbed = (ORDERS[round as usize % ORDERS.len()], round + 1);
        let runs = ORDERS.map(|order| (order, 0)).into_iter().chain([disturbed]);
        for (order, noise) in runs {
            let left = placements.saturating_sub(search.tried());
            if left == 0 {
                return Verdict::Exhausted;
            }
            let verdict = search.run(order, noise, share.min(left));
            if verdict != Verdict::Exhausted {
                return verdict;
            }
        }
    }
    Verdict::Exhausted
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Tries every offset that is a multiple of the alignment, in the order given: exponential, and plainly right.
    fn brute(buffers: &[Buffer], capacity: u64, offsets: &mut Vec<u64>) -> bool {
        let Some(buffer) = buffers.get(offsets.len()) else { return true };
        let mut offset = 0;
        while offset + buffer.size <= capacity {
            let free = offsets.iter().zip(buffers).all(|(&at, other)| {
                !other.coexists(buffer) || at + other.size <= offset || offset + buffer.size <= at
            });
            if free {
                offsets.push(offset);
                if brute(buffers, capacity, offsets) {
                    return true;
                }
                offsets.pop();
            }
            offset += buffer.alignment;
        }
        false
    }

    fn few() -> impl Strategy<Value = Vec<Buffer>> {
        prop::collection::vec((0_u64..6, 1_u64..5, 0_u64..6, 0_u32..3), 0..8).prop_map(|raw| {
            raw.into_iter()
                .map(|(lower, life, size, shift)| Buffer {
                    lower,
                    upper: lower + life,
                    size,
                    alignment: 1 << shift,
                })
                .collect()
        })
    }

    /// The search alone: greedy and the bound would hide it on small cases.
    fn search_alone(buffers: &[Buffer], capacity: u64) -> Outcome {
        let sections = Sections::new(buffers);
        Effort::new(Limits::placements(u64::MAX)).attempt(buffers, &sections, capacity, u64::MAX)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn the_search_agrees_with_brute_force(buffers in few(), slack in 0_u64..3) {
            let bound = live_lower_bound(&buffers).unwrap();
            let capacity = (bound + slack).saturating_sub(1);
            let fits = brute(&buffers, capacity, &mut Vec::new());
            match search_alone(&buffers, capacity) {
                Outcome::Fits(plan) => {
                    prop_assert!(plan.peak <= capacity);
                    prop_assert_eq!(validate(&buffers, &plan), Ok(()));
                    prop_assert!(fits);
                }
                Outcome::Infeasible => prop_assert!(!fits, "there is a plan"),
                Outcome::Undecided => prop_assert!(false, "there was no limit"),
            }
        }

        #[test]
        fn minimize_finds_the_optimum(buffers in few()) {
            let plan = minimize(&buffers, Limits::placements(u64::MAX)).unwrap();
            prop_assert_eq!(validate(&buffers, &plan), Ok(()));
            prop_assert!(plan.proven_optimal && plan.lower_bound == plan.peak);
            prop_assert!(plan.peak == 0 || !brute(&buffers, plan.peak - 1, &mut Vec::new()));
        }
    }

    proptest! {
        #[test]
        fn equal_limits_give_equal_plans_and_valid_ones(
            raw in prop::collection::vec((0_u64..40, 1_u64..12, 1_u64..900, 0_u32..7), 0..60),
            placements in 0_u64..4000,
        ) {
            let buffers: Vec<Buffer> = raw
                .into_iter()
                .map(|(lower, life, size, shift)| Buffer { lower, upper: lower + life, size, alignment: 1 << shift })
                .collect();
            let first = minimize(&buffers, Limits::placements(placements)).unwrap();
            prop_assert_eq!(validate(&buffers, &first), Ok(()));
            prop_assert!(first.lower_bound <= first.peak && first.peak <= plan(&buffers).unwrap().peak);
            prop_assert_eq!(minimize(&buffers, Limits::placements(placements)).unwrap(), first);
        }
    }

    #[test]
    fn limits_cut() {
        let buffers: Vec<Buffer> = (0..40)
            .map(|i| Buffer { lower: i * 7 % 20, upper: i * 7 % 20 + 5, size: 11 + i * i % 17, alignment: 1 })
            .collect();
        let greedy = plan(&buffers).unwrap();
        assert!(!greedy.proven_optimal, "the case is too easy to test a limit");
        let bound = greedy.lower_bound;
        assert_eq!(solve(&buffers, bound, Limits::placements(3)), Some(Outcome::Undecided));
        let none = Limits { time: Some(Duration::ZERO), placements: u64::MAX };
        assert_eq!(minimize(&buffers, none).unwrap().offsets.len(), 40);
        assert_eq!(solve(&buffers, bound - 1, none), Some(Outcome::Infeasible));
        assert!(matches!(solve(&buffers, greedy.peak, none), Some(Outcome::Fits(plan)) if plan == greedy));
    }

    #[test]
    fn huge_sizes_and_alignments_are_not_searched() {
        let huge = |lower, size, alignment| Buffer { lower, upper: lower + 2, size, alignment };
        let buffers = [huge(0, 3, 1), huge(1, 5, 1 << 62), huge(2, 4, 1), huge(1, 2, 1 << 62)];
        assert_eq!(solve(&buffers, 1 << 61, Limits::placements(1000)), Some(Outcome::Undecided));
        assert!(minimize(&buffers, Limits::placements(1000)).is_some());
    }

    /// The deepest recursion there is, on a small stack.
    #[test]
    fn the_most_buffers_need_little_stack() {
        let run = || {
            // All alive at once: every item is one level. Capacity for all, so the search goes to the bottom.
            let buffers: Vec<Buffer> = (0..MOST as u64)
                .map(|i| Buffer { lower: i, upper: MOST as u64 + i + 1, size: 1 + i % 3, alignment: 1 })
                .collect();
            let bound = live_lower_bound(&buffers).unwrap();
            let sections = Sections::new(&buffers);
            let outcome =
                Effort::new(Limits::placements(100_000)).attempt(&buffers, &sections, bound, 100_000);
            assert!(matches!(outcome, Outcome::Fits(_)), "{outcome:?}");
        };
        let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap();
        thread.join().unwrap();
    }
}

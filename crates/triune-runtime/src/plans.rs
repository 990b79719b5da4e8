//! Compiled programs that are kept for when they serve again.

use crate::{Error, engine::Engine};

/// Engines with what each was compiled for, and the bytes that it takes.
#[derive(Debug)]
pub(crate) struct PlanCache<K> {
    plans: Vec<Plan<K>>,
    /// The place of what was used last.
    last: usize,
    /// How often one was used.
    uses: u64,
    chance: u64,
}

#[derive(Debug)]
struct Plan<K> {
    key: K,
    engine: Engine,
    bytes: u64,
    /// Its last use.
    used: u64,
    /// The place of what was used after it the last time, if that is still there.
    next: usize,
}

impl<K> Default for PlanCache<K> {
    fn default() -> Self {
        Self { plans: Vec::new(), last: 0, uses: 0, chance: 0 }
    }
}

/// Programs that are kept whatever they take: those that were used last.
const FEW: usize = 64;
/// Bytes that more than those may take together. A cache that grows with each run has as many extents as it has places, and they come
/// again with the next text.
const ROOM: u64 = 64 << 20;

impl<K> PlanCache<K> {
    pub(crate) fn len(&self) -> usize {
        self.plans.len()
    }

    /// What was used last.
    pub(crate) fn last(&self) -> Option<&Engine> {
        self.plans.get(self.last).map(|plan| &plan.engine)
    }

    /// The engine that serves, made if there is none. Others are dropped for its sake once there are too many.
    pub(crate) fn serving(
        &mut self,
        serves: impl Fn(&K) -> bool,
        make: impl FnOnce() -> Result<(K, Engine), Error>,
    ) -> Result<&mut Engine, Error> {
        // The same one again, or the one that came next the last time: rounds are gone through again and again.
        let next = self.plans.get(self.last).map_or(0, |plan| plan.next);
        let is = |&place: &usize| self.plans.get(place).is_some_and(|plan| serves(&plan.key));
        let found = [self.last, next].into_iter().find(is);
        let found = found.or_else(|| self.plans.iter().position(|plan| serves(&plan.key)));
        let place = if let Some(place) = found {
            place
        } else {
            let (key, engine) = make()?;
            let bytes = engine.bytes();
            let about = |plan: &Plan<K>| (plan.used, plan.bytes);
            make_room(&mut self.plans, about, bytes, &mut self.chance);
            self.plans.push(Plan { key, engine, bytes, used: 0, next: 0 });
            self.plans.len() - 1
        };
        if let Some(last) = self.plans.get_mut(self.last).filter(|_| place != self.last) {
            last.next = place;
        }
        self.uses += 1;
        self.last = place;
        let plan = self.plans.get_mut(place);
        let plan = plan.ok_or_else(|| Error::internal("a program that was just made is gone"))?;
        plan.used = self.uses;
        Ok(&mut plan.engine)
    }
}

/// Drops programs for one of so many bytes more; `about` says when one was used last, and its bytes. Which of those that were not used
/// lately is left to chance: of texts with more places than there is room for, the one that was not used for longest is the one that
/// comes next.
fn make_room<P>(plans: &mut Vec<P>, about: impl Fn(&P) -> (u64, u64), bytes: u64, chance: &mut u64) {
    /// 2⁶⁴ over the golden ratio: multiples of it, as fractions, lie evenly and in no order.
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut all = plans.iter().map(|plan| about(plan).1).fold(bytes, u64::saturating_add);
    while plans.len() >= FEW && all > ROOM {
        *chance = chance.wrapping_add(STEP);
        let older = (plans.len() + 1 - FEW) as u128;
        let chosen = ((u128::from(*chance) * older) >> 64) as usize;
        let mut by_use: Vec<(u64, usize)> =
            plans.iter().enumerate().map(|(place, plan)| (about(plan).0, place)).collect();
        let (_, &mut (_, place), _) = by_use.select_nth_unstable(chosen);
        let dropped = plans.swap_remove(place);
        all = all.saturating_sub(about(&dropped).1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_are_kept_and_more_while_there_is_room() {
        const PART: u64 = ROOM / 256;
        let left = |count: usize, each: u64, bytes: u64| {
            let mut plans = vec![each; count];
            make_room(&mut plans, |bytes| (0, *bytes), bytes, &mut 0);
            plans.len()
        };
        assert_eq!(left(0, 0, u64::MAX), 0);
        assert_eq!(left(FEW - 1, u64::MAX, u64::MAX), FEW - 1);
        assert_eq!(left(FEW, u64::MAX, u64::MAX), FEW - 1);
        assert_eq!(left(255, PART, PART), 255);
        assert_eq!(left(256, PART, PART), 255);
        assert_eq!(left(256, PART, ROOM / 2), 128);
        assert_eq!(left(256, PART, ROOM), FEW - 1);
    }

    /// Of 300 extents that come one after the other, time and again, with room for 256.
    #[test]
    fn rounds_longer_than_the_room_find_most_of_what_was_there() {
        let (mut plans, mut chance, mut found): (Vec<(u64, u64)>, _, _) = (Vec::new(), 0, 0);
        for turn in 0..3000 {
            let own = turn % 300;
            if let Some(plan) = plans.iter_mut().find(|plan| plan.0 == own) {
                plan.1 = turn;
                found += 1;
            } else {
                make_room(&mut plans, |plan| (plan.1, ROOM / 256), ROOM / 256, &mut chance);
                plans.push((own, turn));
            }
            let newer = plans.iter().filter(|plan| plan.1 + FEW as u64 > turn).count();
            assert!(plans.len() <= 256 && newer == FEW.min(turn as usize + 1));
        }
        assert!(found > 2700 * 6 / 10, "{found} of 2700");
    }
}

//! Compiled programs that are kept for when they serve again.

use crate::{Error, engine::Engine};

/// Engines with what each was compiled for and the bytes that it takes, in the order of their last use.
#[derive(Debug)]
pub(crate) struct PlanCache<K> {
    plans: Vec<(K, Engine, u64)>,
    chance: u64,
}

impl<K> Default for PlanCache<K> {
    fn default() -> Self {
        Self { plans: Vec::new(), chance: 0 }
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
        self.plans.last().map(|(_, engine, _)| engine)
    }

    /// The engine that serves, made if there is none. Others are dropped for its sake once there are too many.
    pub(crate) fn serving(
        &mut self,
        serves: impl Fn(&K) -> bool,
        make: impl FnOnce() -> Result<(K, Engine), Error>,
    ) -> Result<&mut Engine, Error> {
        let used = match self.plans.iter().rposition(|(key, ..)| serves(key)) {
            // Nothing moves where the same one runs again and again.
            Some(found) if found + 1 == self.plans.len() => None,
            Some(found) => Some(self.plans.remove(found)),
            None => {
                let (key, engine) = make()?;
                let bytes = engine.bytes();
                make_room(&mut self.plans, |(.., bytes)| *bytes, bytes, &mut self.chance);
                Some((key, engine, bytes))
            }
        };
        self.plans.extend(used);
        let last = self.plans.last_mut().map(|(_, engine, _)| engine);
        last.ok_or_else(|| Error::internal("a program that was just made is gone"))
    }
}

/// Drops programs for one of so many bytes more. Which of those that were not used lately is left to chance: of texts with more places
/// than there is room for, the one that was not used for longest is the one that comes next.
fn make_room<P>(plans: &mut Vec<P>, bytes_of: impl Fn(&P) -> u64, bytes: u64, chance: &mut u64) {
    /// 2⁶⁴ over the golden ratio: multiples of it, as fractions, lie evenly and in no order.
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut all = plans.iter().map(&bytes_of).fold(bytes, u64::saturating_add);
    while plans.len() >= FEW && all > ROOM {
        *chance = chance.wrapping_add(STEP);
        let older = (plans.len() + 1 - FEW) as u128;
        let dropped = plans.remove(((u128::from(*chance) * older) >> 64) as usize);
        all = all.saturating_sub(bytes_of(&dropped));
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
            make_room(&mut plans, |bytes| *bytes, bytes, &mut 0);
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
        let (mut plans, mut chance, mut found) = (Vec::new(), 0, 0);
        for turn in 0..3000 {
            let own = turn % 300;
            if let Some(at) = plans.iter().rposition(|&plan| plan == own) {
                plans.remove(at);
                found += 1;
            } else {
                make_room(&mut plans, |_| ROOM / 256, ROOM / 256, &mut chance);
            }
            plans.push(own);
            assert!(plans.len() <= 256 && plans[plans.len().saturating_sub(FEW)..].contains(&own));
        }
        assert!(found > 2700 * 6 / 10, "{found} of 2700");
    }
}

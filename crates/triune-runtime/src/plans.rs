//! Compiled programs that are kept for when they serve again.

use crate::{Error, engine::Engine};

/// Engines with what each was compiled for, in the order of their last use.
#[derive(Debug)]
pub(crate) struct PlanCache<K>(Vec<(K, Engine)>);

impl<K> Default for PlanCache<K> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K> PlanCache<K> {
    /// Programs that are kept; beyond them, the one that was not used for longest is dropped.
    const KEPT: usize = 64;

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// What was used last.
    pub(crate) fn last(&self) -> Option<&Engine> {
        self.0.last().map(|(_, engine)| engine)
    }

    /// The engine that serves, made if there is none.
    pub(crate) fn serving(
        &mut self,
        serves: impl Fn(&K) -> bool,
        make: impl FnOnce() -> Result<(K, Engine), Error>,
    ) -> Result<&mut Engine, Error> {
        let used = match self.0.iter().rposition(|(key, _)| serves(key)) {
            // Nothing moves where the same one runs again and again.
            Some(found) if found + 1 == self.0.len() => None,
            Some(found) => Some(self.0.remove(found)),
            None => {
                let new = make()?;
                if self.0.len() >= Self::KEPT {
                    self.0.remove(0);
                }
                Some(new)
            }
        };
        self.0.extend(used);
        let last = self.0.last_mut().map(|(_, engine)| engine);
        last.ok_or_else(|| Error::internal("a program that was just made is gone"))
    }
}

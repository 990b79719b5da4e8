//! Handles: numbers in the place of pointers, each given out once, so that one that is no more is told from one that lives.

use std::{
    collections::BTreeMap,
    ptr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use triune::internals::fork::Brief;

/// As pointers that an allocator gives are: never NULL, and far enough from it that nobody takes them for small numbers.
static NEXT: AtomicUsize = AtomicUsize::new(0x1_0000);
const STEP: usize = 16;

/// What handles stand for.
pub(crate) struct Table<T> {
    living: Brief<BTreeMap<usize, Arc<T>>>,
}

impl<T> Table<T> {
    pub(crate) const fn new() -> Self {
        Self { living: Brief::new(BTreeMap::new()) }
    }

    /// A handle of something new, which is made knowing it.
    pub(crate) fn add(&self, make: impl FnOnce(usize) -> T) -> usize {
        let handle = NEXT.fetch_add(STEP, Ordering::Relaxed);
        let item = Arc::new(make(handle));
        self.living.lock().insert(handle, item);
        handle
    }

    /// What a handle stands for, if that is there.
    pub(crate) fn find<H>(&self, handle: *const H) -> Option<Arc<T>> {
        self.living.lock().get(&handle.addr()).cloned()
    }

    /// Takes out all that `chosen` says, the last made first.
    pub(crate) fn take(&self, mut chosen: impl FnMut(usize, &T) -> bool) -> Vec<Arc<T>> {
        let mut living = self.living.lock();
        let handles: Vec<usize> = living
            .iter()
            .filter(|(handle, item)| chosen(**handle, item))
            .map(|(handle, _)| *handle)
            .collect();
        handles.iter().rev().filter_map(|handle| living.remove(handle)).collect()
    }
}

/// A handle as C has it.
pub(crate) fn pointer<H>(handle: usize) -> *mut H {
    ptr::without_provenance_mut(handle)
}

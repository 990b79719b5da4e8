//! Locks that are held for a moment, and never at a fork.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::gate::Section;

/// Guards plain data that every step leaves valid: a panic while it is held carries no news.
///
/// Whoever holds one waits for nothing but other [`Brief`]s: a fork of any thread waits meanwhile.
#[derive(Default)]
pub struct Brief<T> {
    value: Mutex<T>,
}

/// The right to use what a [`Brief`] guards.
#[derive(Debug)]
pub struct BriefGuard<'a, T> {
    // Given back first: at the end of the section, nothing is held.
    value: MutexGuard<'a, T>,
    _section: Section,
}

impl<T> Brief<T> {
    /// With a value.
    pub const fn new(value: T) -> Self {
        Self { value: Mutex::new(value) }
    }

    /// Waits until nobody else has it.
    pub fn lock(&self) -> BriefGuard<'_, T> {
        let section = Section::enter();
        BriefGuard { value: self.value.lock().unwrap_or_else(PoisonError::into_inner), _section: section }
    }

    /// The value, which nobody else can have.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: fmt::Debug> fmt::Debug for Brief<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T> Deref for BriefGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for BriefGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

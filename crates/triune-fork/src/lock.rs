//! Locks that are held while work is done.

use std::{
    fmt,
    mem::ManuallyDrop,
    ops::{Deref, DerefMut},
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
    thread,
    time::{Duration, Instant},
};

use crate::{Forked, Turn, TurnGuard, turn::Answer};

/// Guards a value that is worked on for any length of time. As with [`Mutex`], a thread that takes it twice waits for ever.
///
/// In a child of a fork that came upon a thread at work, the value is left alone for good: it is in the middle of a change.
pub struct Lock<T> {
    turn: Turn,
    /// Taken by whoever has the turn, and by nobody else.
    value: ManuallyDrop<Mutex<T>>,
}

/// The right to use what a [`Lock`] guards.
#[derive(Debug)]
pub struct LockGuard<'a, T> {
    // Given back first: whoever has the turn finds the value free.
    value: MutexGuard<'a, T>,
    _turn: TurnGuard<'a>,
}

impl<T> Lock<T> {
    /// With a value.
    pub fn new(value: T) -> Self {
        Self { turn: Turn::default(), value: ManuallyDrop::new(Mutex::new(value)) }
    }

    /// Waits until nobody else has it. What a panic left behind is given out all the same, see [`Self::is_poisoned`].
    ///
    /// # Errors
    /// [`Forked`] if a thread has it that is not in this process.
    pub fn lock(&self) -> Result<LockGuard<'_, T>, Forked> {
        loop {
            match self.turn.ask(false)? {
                Answer::Yours => break,
                Answer::Already | Answer::Wait => thread::park(),
            }
        }
        Ok(self.guard())
    }

    /// As [`Self::lock`]; asks after every `pause` of waiting whether to go on, and gives `None` when not.
    ///
    /// # Errors
    /// As [`Self::lock`].
    pub fn lock_while(
        &self,
        pause: Duration,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<Option<LockGuard<'_, T>>, Forked> {
        // Who need not wait reads no clock.
        let mut asked = None;
        loop {
            if let Answer::Yours = self.turn.ask(false)? {
                return Ok(Some(self.guard()));
            }
            let since = *asked.get_or_insert_with(Instant::now);
            thread::park_timeout(pause);
            if since.elapsed() >= pause {
                if !go_on() {
                    return Ok(None);
                }
                asked = None;
            }
        }
    }

    /// The value, unless somebody has it.
    ///
    /// # Errors
    /// As [`Self::lock`].
    pub fn try_lock(&self) -> Result<Option<LockGuard<'_, T>>, Forked> {
        Ok(matches!(self.turn.ask(false)?, Answer::Yours).then(|| self.guard()))
    }

    /// For a thread that has the turn.
    fn guard(&self) -> LockGuard<'_, T> {
        let turn = TurnGuard::new(&self.turn);
        LockGuard { value: self.value.lock().unwrap_or_else(PoisonError::into_inner), _turn: turn }
    }

    /// Whether a thread has it that is not in this process.
    pub fn is_forked(&self) -> bool {
        self.turn.is_forked()
    }

    /// Whether a thread panicked while it had it.
    pub fn is_poisoned(&self) -> bool {
        self.value.is_poisoned()
    }
}

impl<T> Drop for Lock<T> {
    fn drop(&mut self) {
        if !self.turn.is_abandoned() {
            // SAFETY: this is the end of it, and nothing looks at the value afterwards.
            #[expect(unsafe_code, reason = "a value that is half changed must not be dropped")]
            unsafe {
                ManuallyDrop::drop(&mut self.value);
            }
        }
    }
}

impl<T: Default> Default for Lock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for Lock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value.try_lock() {
            Ok(value) => value.fmt(f),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().fmt(f),
            Err(TryLockError::WouldBlock) => f.write_str("<at work>"),
        }
    }
}

impl<T> Deref for LockGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for LockGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

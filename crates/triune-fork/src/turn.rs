//! Whose turn it is: a lock that guards work, and remembers which process its holder is in.

use std::{
    marker::PhantomData,
    thread::{self, Thread, ThreadId},
    time::{Duration, Instant},
};

use crate::{Brief, Forked, Origin, gate::Section};

/// A lock around work of any length. A thread may take it again while it has it, and gives it back as often.
#[derive(Debug, Default)]
pub struct Turn {
    state: Brief<State>,
}

#[derive(Debug, Default)]
struct State {
    holder: Option<Holder>,
    waiting: Vec<Thread>,
}

#[derive(Debug)]
struct Holder {
    thread: ThreadId,
    origin: Origin,
    times: usize,
}

/// What a thread that asks is told.
pub(crate) enum Answer {
    /// It has the turn.
    Yours,
    /// It had the turn already, and does not have it another time.
    Already,
    /// Another thread has.
    Wait,
}

/// A turn; it ends when this is dropped.
#[derive(Debug)]
pub struct TurnGuard<'a> {
    turn: &'a Turn,
    /// Bound to its thread.
    _thread: PhantomData<*const ()>,
}

impl<'a> TurnGuard<'a> {
    /// For a thread that has the turn.
    pub(crate) fn new(turn: &'a Turn) -> Self {
        Self { turn, _thread: PhantomData }
    }
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        self.turn.give();
    }
}

impl Turn {
    /// Waits for the turn.
    ///
    /// # Errors
    /// [`Forked`] if a thread has it that is not in this process.
    pub fn take(&self) -> Result<TurnGuard<'_>, Forked> {
        while !self.take_within(Duration::MAX)? {}
        Ok(TurnGuard::new(self))
    }

    /// Waits for the turn, but no longer than that; gives whether this thread has it, who then has to [`Self::give`] it back.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn take_within(&self, time: Duration) -> Result<bool, Forked> {
        let end = Instant::now().checked_add(time);
        loop {
            match self.ask(true)? {
                Answer::Yours | Answer::Already => return Ok(true),
                Answer::Wait => {}
            }
            match end.map(|end| end.saturating_duration_since(Instant::now())) {
                None => thread::park(),
                Some(Duration::ZERO) => return Ok(false),
                Some(left) => thread::park_timeout(left),
            }
        }
    }

    /// Takes the turn if nobody has it, or, if `again`, this thread. Otherwise this thread is woken when it is worth asking once
    /// more.
    pub(crate) fn ask(&self, again: bool) -> Result<Answer, Forked> {
        debug_assert!(!Section::is_inside(), "whoever holds a Brief waits for nothing else");
        let own = thread::current();
        let mut state = self.state.lock();
        match &mut state.holder {
            None => {
                state.holder = Some(Holder { thread: own.id(), origin: Origin::here(), times: 1 });
                return Ok(Answer::Yours);
            }
            // The thread that forked is in the child.
            Some(holder) if holder.thread == own.id() => {
                if again {
                    holder.times += 1;
                }
                return Ok(Answer::Already);
            }
            Some(holder) if !holder.origin.is_here() => return Err(Forked),
            Some(_) => {}
        }
        state.waiting.retain(|each| each.id() != own.id());
        state.waiting.push(own);
        Ok(Answer::Wait)
    }

    /// Gives a turn back. Does nothing on a thread that has none.
    pub fn give(&self) {
        let mut state = self.state.lock();
        let own = thread::current().id();
        let Some(holder) = state.holder.as_mut().filter(|holder| holder.thread == own) else { return };
        holder.times -= 1;
        if holder.times > 0 {
            return;
        }
        state.holder = None;
        // Those that a fork left behind hear nothing, which does no harm.
        state.waiting.drain(..).for_each(|thread| thread.unpark());
    }

    /// Whether a thread has it that is not in this process.
    pub fn is_forked(&self) -> bool {
        let own = thread::current().id();
        let state = self.state.lock();
        state.holder.as_ref().is_some_and(|holder| holder.thread != own && !holder.origin.is_here())
    }

    /// Whether somebody has it who will never give it back, as nobody else can have this.
    pub(crate) fn is_abandoned(&mut self) -> bool {
        self.state.get_mut().holder.is_some()
    }
}

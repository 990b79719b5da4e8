//! Locks that stand a fork.
//!
//! A forked child has the thread that forked and no other, and the memory as it was at that moment. What another thread
//! held then stays held for ever, and what it was changing stays half changed. So every lock here is one of two kinds:
//!
//! - A [`Brief`] is held for the time of a look or a change, and no fork happens meanwhile: a fork waits for the threads
//!   that hold one, and threads that want one wait for the fork. No child finds one taken.
//! - A [`Lock`], or a [`Turn`] where there is no value to guard, is held while work is done, for however long, and forks do
//!   not wait for that. A child that wants one which a thread outside of it had gets [`Forked`] instead, and what
//!   it guards is never touched again in that child, not even to be dropped.
//!
//! From this follows the one rule: whoever holds a [`Brief`] may take others, but waits for nothing else: no `Lock`, no
//! other thread, no socket. Holders of a `Lock` may do as they like.
//!
//! [`Origin`] tells a process from its parent, for what a fork does not copy: threads, and ends of connections.

mod brief;
mod gate;
mod lock;
mod turn;

pub use brief::{Brief, BriefGuard};
pub use gate::Origin;
pub use lock::{Lock, LockGuard};
pub use turn::{Turn, TurnGuard};

/// What a thread was at work with when the process was forked cannot be used in the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a run of another thread was under way when this process was forked; open the session or board again in this process"
)]
pub struct Forked;

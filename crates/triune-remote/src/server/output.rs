//! What the threads of a connection send through, and what of theirs may panic.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, PoisonError, TryLockError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use triune_device::Error;

use super::{Event, Shared};
use crate::{
    lock,
    protocol::{Kind, MAX_PAYLOAD, encode_error},
    wire::{Fault, Outgoing, Wire},
};

/// What one connection's threads send through.
pub(super) struct Output {
    pub(super) shared: Arc<Shared>,
    pub(super) connection: u64,
    pub(super) wire: Arc<Wire>,
    pub(super) outgoing: Mutex<Outgoing>,
    /// Requests that are being worked on.
    pub(super) busy: AtomicUsize,
    /// Set when the connection ends.
    pub(super) ended: Mutex<bool>,
    pub(super) end: Condvar,
}

impl Output {
    pub(super) fn send(&self, kind: Kind, request: u64, payload: &[u8]) -> Result<(), Fault> {
        let sent = lock(&self.outgoing).send(kind, request, [payload, &[]]);
        if sent.is_err() {
            self.wire.shutdown();
        }
        sent
    }

    /// Answers a request, in as many frames as it takes.
    pub(super) fn answer(&self, request: u64, answer: Result<&[u8], &Error>) -> Result<(), Fault> {
        match answer {
            Ok(mut payload) => {
                while let Some((part, rest)) = payload.split_at_checked(MAX_PAYLOAD)
                    && !rest.is_empty()
                {
                    self.send(Kind::Part, request, part)?;
                    payload = rest;
                }
                self.send(Kind::Done, request, payload)
            }
            Err(error) => self.send(Kind::Failed, request, &encode_error(error)),
        }
    }

    /// A request is done.
    pub(super) fn idle(&self) {
        self.busy.fetch_sub(1, Ordering::Relaxed);
    }

    /// Tells a client that waits that this side lives.
    pub(super) fn beat(&self, every: Duration) {
        let mut ended = lock(&self.ended);
        while !*ended {
            ended = self.end.wait_timeout(ended, every).unwrap_or_else(PoisonError::into_inner).0;
            if *ended || self.busy.load(Ordering::Relaxed) == 0 {
                continue;
            }
            drop(ended);
            let outgoing = match self.outgoing.try_lock() {
                Ok(outgoing) => Some(outgoing),
                Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                // Something is being sent, which is as good.
                Err(TryLockError::WouldBlock) => None,
            };
            if let Some(mut outgoing) = outgoing
                && outgoing.idle() >= every / 2
                && outgoing.send(Kind::Beat, 0, [&[], &[]]).is_err()
            {
                self.wire.shutdown();
            }
            ended = lock(&self.ended);
        }
    }
}

/// Does what a board does; a panic of it becomes an error.
pub(super) fn contained<T>(output: &Output, act: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
        let reason = words(&*panic);
        let error = Error::Board(format!("the board failed: {reason}"));
        output.shared.tell(&Event::Panicked { connection: output.connection, reason });
        Err(error)
    })
}

/// What a panic said.
pub(super) fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}

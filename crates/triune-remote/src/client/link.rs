//! Questions and answers over one connection, for any number of threads.
//!
//! There is no thread that reads. Whoever waits for an answer reads; if it is another's, it is put aside and the other
//! one woken. One thread alone reads its answers straight to where they belong. A thread that is stopped
//! ([`cancel`]) leaves its question behind: the server is told to stop, and the answer is thrown away when it comes.
//!
//! A server that cannot send its answers takes no questions: two that wait for each other, if nobody waits for the
//! answers yet. So when sending stalls, the thread that beats reads until it goes on.

use std::{
    cell::Cell,
    collections::HashMap,
    fmt,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError},
    time::Duration,
};

use triune_device::{Error, cancel};
use triune_fork::Origin;

use crate::{
    link, lock,
    protocol::{FrameError, Header, Kind, MAX_PAYLOAD, decode_error},
    wire::{Fault, Incoming, Outgoing, Wire},
};

/// Posts that may be unanswered. Their answers fit into the system's buffers while nobody reads.
const MAX_POSTS: usize = 256;
/// How often the thread that beats looks whether it has to read.
const STALLED: Duration = Duration::from_millis(10);
/// Bytes of an answer in several frames at most.
const MAX_ANSWER: usize = 256 << 20;

pub(super) struct Link {
    name: String,
    /// The process that connected. A fork of it has the socket, but neither the threads nor the turn.
    origin: Origin,
    wire: Arc<Wire>,
    sender: Mutex<Sender>,
    incoming: Mutex<Incoming>,
    state: Mutex<State>,
    /// Something came.
    changed: Condvar,
    /// The thread that beats has something to do.
    wake: Condvar,
}

struct Sender {
    outgoing: Outgoing,
    /// The last request's number.
    last: u64,
}

#[derive(Default)]
struct State {
    slots: HashMap<u64, Slot>,
    /// Posts without an answer.
    posts: usize,
    /// Somebody reads.
    reading: bool,
    /// Sending has stalled.
    stalled: bool,
    /// Requests that were left behind, and that the server has not been told of.
    left: Vec<u64>,
    /// Why nothing goes any more.
    dead: Option<String>,
}

enum Slot {
    /// Nobody waits for the answer.
    Post,
    /// What came of the answer.
    Asked(Vec<u8>),
    /// Whoever waited was stopped.
    Left,
    Answered(Result<Vec<u8>, Error>),
}

/// The request whose answer is read straight to where it belongs, if it has that length.
type Target<'a> = Option<(u64, &'a mut [u8])>;

impl Link {
    pub(super) fn new(name: String, wire: Arc<Wire>, incoming: Incoming, outgoing: Outgoing) -> Self {
        Self {
            name,
            origin: Origin::here(),
            wire,
            sender: Mutex::new(Sender { outgoing, last: 0 }),
            incoming: Mutex::new(incoming),
            state: Mutex::default(),
            changed: Condvar::new(),
            wake: Condvar::new(),
        }
    }

    /// What it leads to, for people.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Asks and waits.
    pub(super) fn call(&self, kind: Kind, payload: &[u8]) -> Result<Vec<u8>, Error> {
        let request = self.ask(kind, payload)?;
        self.answer(request, &mut None)?
    }

    /// Waits for an answer; one that is not waited for to the end is left behind.
    fn answer(&self, request: u64, target: &mut Target<'_>) -> Result<Result<Vec<u8>, Error>, Error> {
        let answer = self.until(target, |state| state.take(request));
        if let Err(Error::Cancelled) = &answer {
            let mut state = lock(&self.state);
            if let Some(Slot::Answered(_)) = state.slots.insert(request, Slot::Left) {
                state.slots.remove(&request);
            } else {
                state.left.push(request);
                self.wake.notify_all();
            }
        }
        answer
    }

    /// Asks; the answer has to be waited for with [`Self::answer_into`].
    pub(super) fn ask(&self, kind: Kind, payload: &[u8]) -> Result<u64, Error> {
        self.send(kind, [payload, &[]], Slot::Asked(Vec::new()))
    }

    /// Waits for an answer of a length.
    pub(super) fn answer_into(&self, request: u64, out: &mut [u8]) -> Result<(), Error> {
        let length = out.len();
        let mut target = Some((request, out));
        let bytes = self.answer(request, &mut target)??;
        let Some((_, out)) = target else { return Ok(()) };
        if bytes.len() != length {
            return Err(self.give_up_because("an answer has the wrong length"));
        }
        out.copy_from_slice(&bytes);
        Ok(())
    }

    /// Sends what nobody waits for, unless too much is on its way.
    pub(super) fn post(&self, kind: Kind, head: &[u8], bytes: &[u8]) -> Result<(), Error> {
        self.check_own()?;
        if lock(&self.state).posts >= MAX_POSTS {
            self.until(&mut None, |state| (state.posts <= MAX_POSTS / 2).then_some(()))?;
        }
        self.send(kind, [head, bytes], Slot::Post).map(drop)
    }

    /// Whether this process is the one that connected.
    pub(super) fn is_own(&self) -> bool {
        self.origin.is_here()
    }

    /// To be asked before anything of the link's is touched: its locks are the other process's.
    fn check_own(&self) -> Result<(), Error> {
        if self.is_own() {
            return Ok(());
        }
        Err(self.lost("the connection belongs to the process that this one was forked from"))
    }

    fn send(&self, kind: Kind, pieces: [&[u8]; 2], slot: Slot) -> Result<u64, Error> {
        self.check_own()?;
        let mut sender = lock(&self.sender);
        let request = sender.last + 1;
        {
            let mut state = lock(&self.state);
            self.alive(&state)?;
            state.posts += usize::from(matches!(slot, Slot::Post));
            state.slots.insert(request, slot);
        }
        sender.last = request;
        let stalled = Cell::new(false);
        let sent = sender.outgoing.send_or(kind, request, pieces, || {
            if !stalled.replace(true) {
                lock(&self.state).stalled = true;
                self.wake.notify_all();
            }
        });
        if stalled.get() {
            lock(&self.state).stalled = false;
        }
        if let Err(Fault::Stopped) = sent {
            // Nothing has gone: the next request has this number.
            sender.last -= 1;
            let mut state = lock(&self.state);
            if let Some(Slot::Post) = state.slots.remove(&request) {
                state.posts -= 1;
            }
        }
        drop(sender);
        match sent {
            Ok(()) => Ok(request),
            Err(Fault::Stopped) => Err(Error::Cancelled),
            Err(fault) => {
                self.last_words();
                Err(self.give_up(fault))
            }
        }
    }

    /// Waits until something is so, and reads meanwhile if nobody else does.
    fn until<T>(
        &self,
        target: &mut Target<'_>,
        mut ready: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<T, Error> {
        let mut state = lock(&self.state);
        loop {
            if let Some(value) = ready(&mut state) {
                return Ok(value);
            }
            self.alive(&state)?;
            if state.reading && cancel::is_asking() {
                // Perhaps it is this thread that reads, and was interrupted.
                return Err(cancel::NoLock::Reentered.into());
            }
            if state.reading {
                let wait = self.changed.wait_timeout(state, cancel::GLANCE);
                let timeout;
                (state, timeout) = wait.unwrap_or_else(PoisonError::into_inner);
                if timeout.timed_out() {
                    drop(state);
                    if cancel::requested_waiting() {
                        return Err(Error::Cancelled);
                    }
                    state = lock(&self.state);
                }
            } else {
                let stopped;
                (state, stopped) = self.take_turn(state, target);
                if stopped {
                    return Err(Error::Cancelled);
                }
            }
        }
    }

    /// Reads one frame, which nobody else does; gives whether it was stopped before.
    fn take_turn<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        target: &mut Target<'_>,
    ) -> (MutexGuard<'a, State>, bool) {
        state.reading = true;
        drop(state);
        let turn = Turn(self);
        let received = self.receive(&mut lock(&self.incoming), target);
        let stopped = matches!(received, Err(Fault::Stopped));
        if let Err(fault) = received
            && !stopped
        {
            self.give_up(fault);
        }
        drop(turn);
        (lock(&self.state), stopped)
    }

    /// Receives one frame.
    fn receive(&self, incoming: &mut Incoming, target: &mut Target<'_>) -> Result<(), Fault> {
        let header = incoming.header(MAX_PAYLOAD)?;
        if let Some((request, out)) = target
            && header.request == *request
            && header.kind == Kind::Done
            && header.length as usize == out.len()
        {
            incoming.payload(&header, out)?;
            let mut state = lock(&self.state);
            state.slots.insert(header.request, Slot::Answered(Ok(Vec::new())));
            *target = None;
            return Ok(());
        }
        let payload = incoming.whole_payload(&header)?;
        match header.kind {
            Kind::Beat => Ok(()),
            Kind::Closing => {
                let reason = decode_error(&payload)?;
                self.give_up_because(&reason.to_string());
                Ok(())
            }
            Kind::Done | Kind::Part | Kind::Failed => Ok(lock(&self.state).answered(&header, payload)?),
            kind => Err(unexpected(kind, "no server sends it").into()),
        }
    }

    fn alive(&self, state: &State) -> Result<(), Error> {
        state.dead.as_ref().map_or(Ok(()), |reason| Err(self.lost(reason)))
    }

    fn lost(&self, reason: &str) -> Error {
        link(format!("{}: {reason}", self.name))
    }

    /// Ends the connection and gives the error that says why, which is the first reason that there was.
    pub(super) fn give_up(&self, fault: Fault) -> Error {
        self.give_up_because(&match fault {
            Fault::Closed => "the server closed the connection".to_owned(),
            fault => format!("the connection was lost: {fault}"),
        })
    }

    pub(super) fn give_up_because(&self, reason: &str) -> Error {
        let mut state = lock(&self.state);
        let was_alive = state.dead.is_none();
        let reason = state.dead.get_or_insert_with(|| reason.to_owned()).clone();
        drop(state);
        if was_alive {
            log::info!(target: "triune::remote", "{}: {reason}", self.name);
        }
        self.wire.shutdown();
        self.changed.notify_all();
        self.wake.notify_all();
        self.lost(&reason)
    }

    /// Reads what the server may have said before it closed the connection that could not be sent on.
    fn last_words(&self) {
        {
            let mut state = lock(&self.state);
            if state.reading || state.dead.is_some() {
                return;
            }
            state.reading = true;
        }
        let _turn = Turn(self);
        let mut incoming = lock(&self.incoming);
        // What was answered before does not matter any more; a silent server has closed nothing, and is not waited for.
        if incoming.set_patience(Duration::from_millis(100)).is_ok() {
            for _ in 0..=MAX_POSTS {
                if self.receive(&mut incoming, &mut None).is_err() || lock(&self.state).dead.is_some() {
                    break;
                }
            }
        }
    }

    /// Makes the good-bye of a board that nobody uses any more short.
    pub(super) fn hurry(&self) {
        if let Ok(mut incoming) = self.incoming.try_lock() {
            let _ = incoming.set_patience(Duration::from_secs(1));
        }
    }

    /// Says good-bye, once.
    pub(super) fn close(&self) {
        // What is on its way arrives; a connection that is lost is as good as closed.
        let arrived = self.until(&mut None, |state| (state.posts == 0).then_some(()));
        if arrived.is_ok() {
            let _ = lock(&self.sender).outgoing.send(Kind::Bye, 0, [&[], &[]]);
        }
        self.give_up_because("it was closed");
    }

    /// Tells the server now and then that this side lives, and reads while sending stalls, until the connection ends.
    pub(super) fn beat(&self, every: Duration) {
        let mut state = lock(&self.state);
        while state.dead.is_none() {
            if state.stalled && !state.reading {
                state = self.take_turn(state, &mut None).0;
                continue;
            }
            if !state.left.is_empty() {
                state = self.tell_left(state);
                continue;
            }
            let pause = if state.stalled { STALLED } else { every };
            let wait = self.wake.wait_timeout(state, pause);
            let timeout;
            (state, timeout) = wait.unwrap_or_else(PoisonError::into_inner);
            if timeout.timed_out() && !state.stalled {
                state = self.beat_once(every, state);
            }
        }
    }

    /// Tells the server which answers nobody wants any more.
    fn tell_left<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let left = std::mem::take(&mut state.left);
        drop(state);
        for request in left {
            if let Err(fault) = lock(&self.sender).outgoing.send(Kind::Cancel, request, [&[], &[]]) {
                self.give_up(fault);
            }
        }
        lock(&self.state)
    }

    fn beat_once<'a>(&'a self, every: Duration, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        drop(state);
        let sender = match self.sender.try_lock() {
            Ok(sender) => Some(sender),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            // Something is being sent, which is as good.
            Err(TryLockError::WouldBlock) => None,
        };
        if let Some(mut sender) = sender
            && sender.outgoing.idle() >= every / 2
            && let Err(fault) = sender.outgoing.send(Kind::Beat, 0, [&[], &[]])
        {
            drop(sender);
            self.give_up(fault);
        }
        lock(&self.state)
    }
}

impl State {
    /// The answer to a request, once it is whole.
    fn take(&mut self, request: u64) -> Option<Result<Vec<u8>, Error>> {
        match self.slots.get(&request) {
            Some(Slot::Answered(_)) => match self.slots.remove(&request) {
                Some(Slot::Answered(answer)) => Some(answer),
                _ => None,
            },
            _ => None,
        }
    }

    fn answered(&mut self, header: &Header, payload: Vec<u8>) -> Result<(), FrameError> {
        let slot = self.slots.get_mut(&header.request);
        match (header.kind, slot) {
            (Kind::Done, Some(Slot::Post)) => {
                self.slots.remove(&header.request);
                self.posts -= 1;
            }
            (Kind::Part | Kind::Done, Some(slot @ Slot::Asked(_))) => {
                let Slot::Asked(parts) = slot else { return Ok(()) };
                if parts.is_empty() {
                    *parts = payload;
                } else if parts.len() + payload.len() <= MAX_ANSWER {
                    parts
                        .try_reserve(payload.len())
                        .map_err(|_| unexpected(header.kind, "there is no memory for the answer"))?;
                    parts.extend_from_slice(&payload);
                } else {
                    return Err(unexpected(header.kind, "the answer is too long"));
                }
                if header.kind == Kind::Done {
                    let whole = std::mem::take(parts);
                    *slot = Slot::Answered(Ok(whole));
                }
            }
            (Kind::Part, Some(Slot::Left)) => {}
            (Kind::Done | Kind::Failed, Some(Slot::Left)) => {
                self.slots.remove(&header.request);
                self.left.retain(|request| *request != header.request);
            }
            (Kind::Failed, Some(slot @ Slot::Asked(_))) => {
                *slot = Slot::Answered(Err(decode_error(&payload)?));
            }
            _ => {
                let problem = format!("nobody asked for the answer to {}", header.request);
                return Err(unexpected(header.kind, &problem));
            }
        }
        Ok(())
    }
}

fn unexpected(kind: Kind, problem: &str) -> FrameError {
    FrameError::Payload { kind, problem: problem.to_owned() }
}

/// The turn to read; it ends, and the next one's begins, when this is dropped.
struct Turn<'a>(&'a Link);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).reading = false;
        self.0.changed.notify_all();
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a server sends of one answer ends at the limit, however it is cut.
    #[test]
    fn an_answer_does_not_grow_without_end() {
        let part = |kind| Header { kind, request: 7, length: 0, payload: 0 };
        let asked = || {
            let mut state = State::default();
            state.slots.insert(7, Slot::Asked(Vec::new()));
            state
        };
        let bytes = || vec![0; MAX_ANSWER / 4];
        let mut state = asked();
        for _ in 0..3 {
            state.answered(&part(Kind::Part), bytes()).expect("room");
        }
        state.answered(&part(Kind::Done), bytes()).expect("the limit itself");
        assert_eq!(state.take(7).expect("whole").expect("an answer").len(), MAX_ANSWER);
        let mut state = asked();
        for _ in 0..4 {
            state.answered(&part(Kind::Part), bytes()).expect("room");
        }
        let error = state.answered(&part(Kind::Done), vec![0]).expect_err("one byte more").to_string();
        assert!(error.contains("too long"), "{error}");
        // Nor do answers come that nobody asked for.
        for mut state in [State::default(), state] {
            state.slots.insert(8, Slot::Post);
            let other = Header { request: 9, ..part(Kind::Done) };
            let error = state.answered(&other, Vec::new()).expect_err("nobody asked").to_string();
            assert!(error.contains("nobody asked"), "{error}");
        }
    }
}

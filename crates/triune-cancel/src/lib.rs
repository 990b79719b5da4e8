//! Stopping work that is under way: who asks for it, and where the work looks whether somebody has.
//!
//! Work that is done under a [`CancelToken`] looks at it between the tasks of a pool, inside of tasks that take long, between
//! commands, and while it waits for others. The token is the thread's while the work lasts, and that of the pool's
//! threads while they take part; so nobody in between has to pass it on, and work under none pays for one comparison.
//!
//! Kernels that are stopped leave their outputs half written: whoever called them asks [`requested`] before using any.

use std::{
    cell::Cell,
    ops::Range,
    ptr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use triune_fork::{Forked, Lock, LockGuard};

/// Elements, or steps that take as long, between two looks inside of a task: at most some milliseconds of the slowest
/// functions. A multiple of every kernel's lanes and tiles, so that cutting there changes no bit.
pub const SPAN: usize = 1 << 18;

/// How long somebody who waits sleeps between two looks.
pub const GLANCE: Duration = Duration::from_millis(20);

/// Stops work from another thread, or from a signal's handler.
///
/// ```
/// use triune_cancel::{self as cancel, CancelToken};
///
/// let token = CancelToken::new();
/// let stopper = token.clone();
/// std::thread::spawn(move || stopper.cancel());
/// // Work that never ends by itself.
/// token.during(|| while !cancel::requested() {});
/// ```
#[derive(Clone, Debug, Default)]
pub struct CancelToken {
    cancelled: Arc<AtomicBool>,
}

impl CancelToken {
    /// A token that nobody has cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops all work under the token, and what begins under it later: it is never taken back.
    pub fn cancel(&self) {
        self.cancelled.store(true, Relaxed);
    }

    /// Whether somebody cancelled it.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Relaxed)
    }

    /// Does the work under this token, besides those that this thread works under already.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        during(Some(self), None, work)
    }
}

/// When work asks whether it is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// It is computing, and asks often.
    Busy,
    /// It has waited for [`GLANCE`].
    Idle,
}

/// Somebody to ask, beside tokens, whether work is to stop. Only the thread that began the work asks.
pub type Asker<'a> = dyn Fn(Occasion) -> bool + 'a;

/// What work is done under.
struct Scope {
    /// The asker said so.
    stopped: AtomicBool,
    token: *const CancelToken,
    /// What the thread worked under before.
    outer: *const Scope,
}

/// What a thread works under now.
#[derive(Clone, Copy)]
pub struct Current {
    scope: *const Scope,
    /// Only with the thread that began the work.
    asker: Option<&'static Asker<'static>>,
}

// SAFETY: a scope outlives all work under it, in whatever thread: `during` and `Pool::run` return when that is done. What
// can be reached through it is Sync; the asker stays with its thread, see `shared`.
unsafe impl Send for Current {}

const NOTHING: Current = Current { scope: ptr::null(), asker: None };

thread_local! {
    static CURRENT: Cell<Current> = const { Cell::new(NOTHING) };
    /// Whether this thread is just asking somebody.
    static ASKING: Cell<bool> = const { Cell::new(false) };
}

/// Does the work under a token, and with somebody to ask, besides those that this thread works under already. Without any,
/// it is simply done.
pub fn during<T>(token: Option<&CancelToken>, asker: Option<&Asker<'_>>, work: impl FnOnce() -> T) -> T {
    let outer = CURRENT.get();
    let token = token.map_or(ptr::null(), ptr::from_ref);
    let scope = Scope { stopped: AtomicBool::new(false), token, outer: outer.scope };
    let asker = asker.map(|asker| {
        // SAFETY: only the lifetime changes; nobody asks any more once `work` has returned.
        unsafe { std::mem::transmute::<&Asker<'_>, &'static Asker<'static>>(asker) }
    });
    let _entered = Entered::new(Current { scope: &raw const scope, asker: asker.or(outer.asker) });
    work()
}

/// What this thread works under, for other threads that take part in it.
///
/// # Safety
/// Nobody uses it once the work that this thread is in has returned.
pub unsafe fn current() -> Current {
    CURRENT.get()
}

/// Whether the work that this thread does is to stop. Work looks often enough that it stops within some milliseconds.
#[inline]
pub fn requested() -> bool {
    CURRENT.get().requested(Occasion::Busy)
}

/// As [`requested`], for who has slept for [`GLANCE`] or so since it looked last.
pub fn requested_waiting() -> bool {
    CURRENT.get().requested(Occasion::Idle)
}

/// `0..items` in pieces of about [`SPAN`] steps, `weight` steps an item, as long as nobody stops the work.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a single piece, the usual case, must cost nothing")]
pub fn spans(items: usize, weight: usize) -> impl Iterator<Item = Range<usize>> {
    let step = if items.saturating_mul(weight) <= SPAN { items } else { (SPAN / weight.max(1)).max(1) };
    let mut next = 0;
    std::iter::from_fn(move || {
        if next >= items || (next > 0 && requested()) {
            return None;
        }
        let range = next..items.min(next.saturating_add(step));
        next = range.end;
        Some(range)
    })
}

/// Counts steps of work, and looks after [`SPAN`] of them.
#[derive(Debug)]
pub struct Pace {
    left: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Self::new()
    }
}

impl Pace {
    /// Looks first after [`SPAN`] steps.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a subtraction in an inner loop")]
    pub const fn new() -> Self {
        Self { left: SPAN }
    }

    /// Looks before the first step, too.
    pub const fn due() -> Self {
        Self { left: 0 }
    }

    /// Before so many more steps: whether the work is to stop.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as above")]
    pub fn stops(&mut self, steps: usize) -> bool {
        if let Some(left) = self.left.checked_sub(steps) {
            self.left = left;
            return false;
        }
        self.left = SPAN;
        requested()
    }
}

/// Copies as many bytes as both slices have, in pieces, as long as nobody stops the work.
pub fn copy(from: &[u8], to: &mut [u8]) {
    // Memory moves many bytes per step.
    const BYTES: usize = 64;
    let len = from.len().min(to.len());
    for span in spans(len.div_ceil(BYTES), 1) {
        let range = span.start * BYTES..len.min(span.end * BYTES);
        to[range.clone()].copy_from_slice(&from[range]);
    }
}

impl Current {
    /// Whether there is somebody to ask.
    pub fn has_asker(self) -> bool {
        self.asker.is_some()
    }

    /// The same for other threads that take part in the work.
    #[must_use]
    pub fn shared(self) -> Self {
        Self { asker: None, ..self }
    }

    /// Whether the work is to stop.
    #[inline]
    pub fn requested(self, occasion: Occasion) -> bool {
        // SAFETY: the scope lives as long as the work under it, which this is.
        match unsafe { self.scope.as_ref() } {
            None => false,
            Some(scope) => self.look(scope, occasion),
        }
    }

    fn look(self, innermost: &Scope, occasion: Occasion) -> bool {
        let mut each = Some(innermost);
        while let Some(scope) = each {
            // SAFETY: token and outer scopes live longer than the scope.
            let (token, outer) = unsafe { (scope.token.as_ref(), scope.outer.as_ref()) };
            if scope.stopped.load(Relaxed) || token.is_some_and(CancelToken::is_cancelled) {
                return true;
            }
            each = outer;
        }
        let Some(asker) = self.asker else { return false };
        // Whoever is asked may call what is stoppable itself, under nothing of ours.
        let entered = (Entered::new(NOTHING), Asking(ASKING.replace(true)));
        let stop = asker(occasion);
        drop(entered);
        if stop {
            innermost.stopped.store(true, Relaxed);
        }
        stop
    }

    /// Makes this what the thread works under, until what is returned goes.
    pub fn enter(self) -> Entered {
        Entered::new(self)
    }
}

/// Puts back what the thread worked under before.
pub struct Entered(Current);

impl Entered {
    fn new(current: Current) -> Self {
        Self(CURRENT.replace(current))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Puts back whether the thread was asking before.
struct Asking(bool);

impl Drop for Asking {
    fn drop(&mut self) {
        ASKING.set(self.0);
    }
}

/// Why there is no lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoLock {
    /// The wait was stopped.
    Cancelled,
    /// Somebody who was asked whether work is to stop wants what is held as long as that work lasts.
    Reentered,
    /// A thread has it that is not in this process.
    Forked(Forked),
}

impl From<Forked> for NoLock {
    fn from(forked: Forked) -> Self {
        Self::Forked(forked)
    }
}

/// Takes a lock that others hold as long as their work lasts; the wait can be stopped.
///
/// # Errors
/// [`NoLock`].
pub fn lock<T>(lock: &Lock<T>) -> Result<LockGuard<'_, T>, NoLock> {
    if is_asking() {
        return lock.try_lock()?.ok_or(NoLock::Reentered);
    }
    lock.lock_while(GLANCE, || !requested_waiting())?.ok_or(NoLock::Cancelled)
}

/// Whether this thread is just being asked whether work that it does is to stop.
pub fn is_asking() -> bool {
    ASKING.get()
}

/// Sleeps, unless the work is to stop. Whether it slept to the end.
pub fn sleep(mut time: Duration) -> bool {
    while !time.is_zero() {
        let pause = time.min(GLANCE);
        thread::sleep(pause);
        time -= pause;
        if requested_waiting() {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn work_under_nothing_is_never_stopped() {
        assert!(!requested());
        assert!(CURRENT.get().scope.is_null());
        assert!(!CancelToken::new().during(requested));
        assert!(CURRENT.get().scope.is_null(), "what was entered was left");
    }

    #[test]
    fn tokens_stop_what_is_within() {
        let (outer, inner) = (CancelToken::new(), CancelToken::new());
        outer.during(|| {
            inner.during(|| {
                assert!(!requested());
                inner.cancel();
                assert!(requested());
            });
            assert!(!requested(), "the outer work goes on");
            outer.cancel();
            assert!(CancelToken::new().during(requested), "and stops all that is within");
        });
    }

    #[test]
    fn spans_cover_everything_once_unless_stopped() {
        for (items, weight) in [(0, 1), (1, 1), (SPAN, 1), (SPAN + 1, 1), (5, usize::MAX), (1000, SPAN / 3)] {
            let mut next = 0;
            for span in spans(items, weight) {
                assert_eq!(span.start, next);
                assert!(span.len() == 1 || span.len() * weight <= SPAN, "{items} of {weight}: {span:?}");
                next = span.end;
            }
            assert_eq!(next, items, "{items} of {weight}");
        }
        let token = CancelToken::new();
        token.during(|| {
            let mut spans = spans(usize::MAX, 1);
            assert!(spans.next().is_some());
            token.cancel();
            assert_eq!(spans.next(), None);
        });
        let bytes: Vec<u8> = (0..1000).map(|index| index as u8).collect();
        let mut copied = vec![0; bytes.len()];
        copy(&bytes, &mut copied);
        assert_eq!(bytes, copied);
    }

    #[test]
    fn waits_for_locks_can_be_stopped() {
        let taken = Lock::new(());
        let (held, done) = (Barrier::new(2), Barrier::new(2));
        thread::scope(|scope| {
            scope.spawn(|| {
                let _guard = taken.lock();
                held.wait();
                done.wait();
            });
            held.wait();
            stop_waiting_for(&taken);
            done.wait();
        });
        assert!(lock(&taken).is_ok());
    }

    fn stop_waiting_for(taken: &Lock<()>) {
        let stop = |occasion: Occasion| occasion == Occasion::Idle;
        during(None, Some(&stop), || {
            assert_eq!(lock(taken).err(), Some(NoLock::Cancelled));
            assert!(!sleep(Duration::from_hours(1)));
        });
        let again = |_: Occasion| {
            assert_eq!(lock(taken).err(), Some(NoLock::Reentered));
            true
        };
        assert!(during(None, Some(&again), requested));
    }
}

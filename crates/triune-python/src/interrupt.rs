//! Signals while native code works: the main thread looks after them now and then, and lets Python's handlers run.
//!
//! Python notes a signal and leaves it to the main thread to call the handler, which native code keeps from doing so. So work
//! on the main thread asks here whether to stop, whenever it looks at its token. That takes up the interpreter every
//! few dozen milliseconds, from the first dozens on: short work never does. A handler that raises stops the work, with its
//! exception; one that returns lets it go on. Other threads have no signals, and are not asked.

use std::{
    cell::{Cell, RefCell},
    time::{Duration, Instant},
};

use pyo3::prelude::*;
use triune::internals::kernels::cancel::{self, CancelToken, Occasion};

/// Time between two looks after signals.
const PAUSE: Duration = Duration::from_millis(25);
/// The same, when other threads keep the interpreter busy and each look costs some milliseconds.
const LONGEST_PAUSE: Duration = Duration::from_millis(60);
/// Share of its time that work spends on looking, at most: one in so many.
const SHARE: u32 = 16;
/// Times that busy work asks until the clock is read, which takes longer than most of what happens between.
const TIMES: u32 = 16;
/// The same for the first time, when nobody knows how long that takes.
const FIRST_TIMES: u32 = 8;
/// Work that asks less often than this has the clock read each time.
const RARELY: Duration = Duration::from_micros(400);

thread_local! {
    /// Whether this is the main thread, once somebody wanted to know.
    static IS_MAIN: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Whether Python calls signals' handlers in this thread.
///
/// Raises what a signal's handler does meanwhile.
fn is_main(py: Python<'_>) -> PyResult<bool> {
    if let Some(known) = IS_MAIN.get() {
        return Ok(known);
    }
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    let found = main.eq(threading.call_method0("get_ident")?)?;
    IS_MAIN.set(Some(found));
    Ok(found)
}

/// Called in a forked child: the thread that forked is the main thread there.
pub(crate) fn in_child() {
    IS_MAIN.set(None);
}

/// Looks after signals for one piece of work.
struct Signals {
    /// Times that the clock is not read: as set last, and still left.
    times: Cell<[u32; 2]>,
    /// When the clock was read last.
    read: Cell<Option<Instant>>,
    /// When to look next.
    due: Cell<Option<Instant>>,
    raised: RefCell<Option<PyErr>>,
}

impl Signals {
    const fn new() -> Self {
        let times = Cell::new([FIRST_TIMES - 1; 2]);
        Self { times, read: Cell::new(None), due: Cell::new(None), raised: RefCell::new(None) }
    }

    /// Whether a signal's handler has raised.
    fn stop(&self, occasion: Occasion) -> bool {
        let [all, left] = self.times.get();
        if occasion == Occasion::Busy && left > 0 {
            self.times.set([all, left - 1]);
            return false;
        }
        if self.raised.borrow().is_some() {
            return true;
        }
        let now = Instant::now();
        let rarely = self.read.replace(Some(now)).is_some_and(|last| now - last > RARELY * (all + 1));
        self.times.set([if rarely { 0 } else { TIMES - 1 }; 2]);
        match (self.due.get(), occasion) {
            (None, Occasion::Busy) => {
                self.due.set(Some(now + PAUSE));
                false
            }
            (Some(due), _) if now < due => false,
            _ => self.look(now),
        }
    }

    fn look(&self, start: Instant) -> bool {
        #[expect(
            clippy::redundant_closure_for_method_calls,
            reason = "the method serves one lifetime, the closure every"
        )]
        let found = Python::attach(|py| py.check_signals());
        let end = Instant::now();
        self.read.set(Some(end));
        self.due.set(Some(end + ((end - start) * SHARE).clamp(PAUSE, LONGEST_PAUSE)));
        match found {
            Ok(()) => false,
            Err(error) => {
                self.raised.replace(Some(error));
                true
            }
        }
    }
}

/// What decides, with the interpreter held, whether work on this thread looks after signals.
#[derive(Clone, Copy)]
pub(crate) struct Watch {
    signals: bool,
}

impl Watch {
    /// Raises what a signal's handler does meanwhile.
    pub(crate) fn new(py: Python<'_>) -> PyResult<Self> {
        Ok(Self { signals: is_main(py)? })
    }

    /// Does the work, without the interpreter; gives what a signal's handler raised in place of its result. A token stops it,
    /// too.
    pub(crate) fn during<T>(self, token: Option<&CancelToken>, work: impl FnOnce() -> T) -> PyResult<T> {
        if !self.signals {
            return Ok(match token {
                Some(token) => token.during(work),
                None => work(),
            });
        }
        let signals = Signals::new();
        let stop = |occasion| signals.stop(occasion);
        let result = cancel::during(token, Some(&stop), work);
        match signals.raised.take() {
            Some(error) => Err(error),
            None => Ok(result),
        }
    }
}

//! The interpreter's end: daemon threads that are in native code then must not come back.
//!
//! A thread that takes up the interpreter while it shuts down is ended by it on the spot, through the native frames
//! below, which aborts the process. So from `atexit` on, threads other than the one that shuts down stay where they are:
//! their work goes on, its results reach nobody.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

use pyo3::prelude::*;

/// The thread that shuts the interpreter down, once it does.
static ENDING: OnceLock<ThreadId> = OnceLock::new();
/// Threads that have decided to come back and have not arrived.
static RETURNING: AtomicUsize = AtomicUsize::new(0);
/// How long the end waits for them; they only need the interpreter's lock.
const PATIENCE: Duration = Duration::from_secs(5);

/// Called detached, as the last step before the interpreter is taken up again. Does not return at the interpreter's end.
pub(crate) fn before_return() {
    RETURNING.fetch_add(1, Ordering::SeqCst);
    if ENDING.get().is_some_and(|&ending| ending != thread::current().id()) {
        RETURNING.fetch_sub(1, Ordering::SeqCst);
        loop {
            thread::park();
        }
    }
}

/// Called when the interpreter has been taken up again.
pub(crate) fn after_return() {
    RETURNING.fetch_sub(1, Ordering::SeqCst);
}

/// Called in a forked child: the threads that were on their way back are not in it.
pub(crate) fn in_child() {
    RETURNING.store(0, Ordering::SeqCst);
}

/// Registered with `atexit`: from here on, no other thread comes back.
#[pyfunction]
fn end(py: Python<'_>) {
    let _ = ENDING.set(thread::current().id());
    let deadline = Instant::now() + PATIENCE;
    py.detach(|| {
        while RETURNING.load(Ordering::SeqCst) > 0 && Instant::now() < deadline {
            thread::sleep(Duration::from_micros(100));
        }
    });
}

/// Makes the interpreter announce its end.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    py.import("atexit")?.call_method1("register", (wrap_pyfunction!(end, module)?,))?;
    Ok(())
}

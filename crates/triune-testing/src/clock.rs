//! Time that tests may compare: what a thread computed for, not what passed while others did.

use std::time::{Duration, Instant};

/// Runs `work` and gives the time that this thread was on a processor for it; the time that passed where the system does not
/// tell.
pub fn thread_time<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let (start, before) = (Instant::now(), on_processor());
    let result = work();
    let passed = match (before, on_processor()) {
        (Some(before), Some(after)) => Duration::from_nanos(after.saturating_sub(before)),
        _ => start.elapsed(),
    };
    (result, passed)
}

/// Nanoseconds of the calling thread, by Linux's account.
fn on_processor() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

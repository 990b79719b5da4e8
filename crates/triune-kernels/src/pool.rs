//! Threads that a session owns.

/// A set of threads that run the tasks of one kernel at a time.
#[derive(Debug)]
pub struct Pool {
    threads: usize,
}

impl Pool {
    /// A pool of `threads` threads, the caller's included; 0 means one per core.
    pub fn new(threads: usize) -> Self {
        let threads =
            if threads == 0 { std::thread::available_parallelism().map_or(1, usize::from) } else { threads };
        Self { threads }
    }

    /// Threads that take part, the caller's included.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Calls `f(task, worker)` once for every task below `tasks` and returns when all are done.
    pub fn run(&self, tasks: usize, f: &(dyn Fn(usize, usize) + Sync)) {
        for task in 0..tasks {
            f(task, 0);
        }
    }
}

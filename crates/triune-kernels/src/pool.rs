//! Threads that a session owns. Knows tasks by number only.
//!
//! One run is broadcast to all workers by a generation counter; whoever wakes in time joins and takes task numbers from
//! an atomic counter. The caller closes the run when the numbers are used up, so that a worker that wakes late
//! goes back to sleep instead of being waited for. Between tasks all look whether the run is to stop.

use std::{
    any::Any,
    cell::UnsafeCell,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread::JoinHandle,
};

use triune_fork::Origin;

use crate::cancel::{self, Current, Occasion};

/// Threads above this number are not started: more would only be a wrong argument.
const MAX_THREADS: usize = 256;

/// Turns of a waiting loop before a thread sleeps: some 20 µs, longer than the gap between two operators of a network.
const SPINS: usize = 1000;

/// Set in [`Shared::state`] while workers may join the run.
const OPEN: usize = 1 << (usize::BITS - 1);

type Task = dyn Fn(usize, usize) + Sync;

/// A set of threads that run the tasks of one kernel at a time.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// The process that has the workers: a child that it forks has none of them, and does without.
    origin: Origin,
    /// Held by the thread whose run is broadcast.
    broadcast: Mutex<()>,
}

struct Shared {
    /// Counts runs; a change wakes the workers.
    generation: AtomicUsize,
    /// [`OPEN`] and the number of workers inside of the run.
    state: AtomicUsize,
    /// The next task to take.
    next: AtomicUsize,
    /// Written by the caller while `state` is 0, read by workers that are inside.
    job: UnsafeCell<Option<Job>>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    shutdown: AtomicBool,
    wake: Sleepers,
    done: Sleepers,
}

#[derive(Clone, Copy)]
struct Job {
    f: *const Task,
    tasks: usize,
    /// What the caller works under.
    under: Current,
}

// SAFETY: `job` is the only part that is not Sync. It is written only while `state` is 0 and no worker is inside, and read
// only by workers that joined; joining and leaving are sequentially consistent operations on `state`. The closure
// that it points to is Sync.
unsafe impl Sync for Shared {}
// SAFETY: as above; nothing in it belongs to a thread.
unsafe impl Send for Shared {}

/// Threads that wait for a condition on atomics, asleep after a while of spinning.
struct Sleepers {
    asleep: AtomicUsize,
    lock: Mutex<()>,
    bell: Condvar,
}

impl Sleepers {
    const fn new() -> Self {
        Self { asleep: AtomicUsize::new(0), lock: Mutex::new(()), bell: Condvar::new() }
    }

    /// Waits, and calls `glance` now and then if there is one.
    fn wait(&self, ready: impl Fn() -> bool, glance: Option<&dyn Fn()>) {
        for _ in 0..SPINS {
            if ready() {
                return;
            }
            std::hint::spin_loop();
        }
        let mut guard = lock(&self.lock);
        // Announced before the condition is read again: whoever changes the condition afterwards sees a sleeper.
        self.asleep.fetch_add(1, SeqCst);
        while !ready() {
            let Some(glance) = glance else {
                guard = self.bell.wait(guard).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let waited = self.bell.wait_timeout(guard, cancel::GLANCE);
            let timeout;
            (guard, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            if timeout.timed_out() {
                drop(guard);
                glance();
                guard = lock(&self.lock);
            }
        }
        self.asleep.fetch_sub(1, SeqCst);
    }

    /// To be called after the condition has changed.
    fn notify(&self) {
        if self.asleep.load(SeqCst) > 0 {
            let _guard = lock(&self.lock);
            self.bell.notify_all();
        }
    }
}

/// No panic happens while one of the locks is held in the middle of a change, so poisoning carries no news.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// A pool of `threads` threads, the caller's included; 0 means one per core. At most 256, and fewer if
    /// the system refuses to start them; a pool of 1 starts none.
    pub fn new(threads: usize) -> Self {
        let threads =
            if threads == 0 { std::thread::available_parallelism().map_or(1, usize::from) } else { threads };
        let shared = Arc::new(Shared {
            generation: AtomicUsize::new(0),
            state: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
            job: UnsafeCell::new(None),
            panic: Mutex::new(None),
            shutdown: AtomicBool::new(false),
            wake: Sleepers::new(),
            done: Sleepers::new(),
        });
        let mut workers = Vec::new();
        for worker in 1..threads.min(MAX_THREADS) {
            let shared = Arc::clone(&shared);
            let builder = std::thread::Builder::new().name(format!("triune-{worker}"));
            match builder.spawn(move || shared.serve(worker)) {
                Ok(handle) => workers.push(handle),
                Err(_) => break,
            }
        }
        Self { shared, workers, origin: Origin::here(), broadcast: Mutex::new(()) }
    }

    /// Threads that take part, the caller's included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `f(task, worker)` once for every task below `tasks` and returns when all are done; `worker` is below
    /// [`Pool::threads`] and no two tasks of one run have the same at the same time.
    ///
    /// While another run is going on (called from a task, or from a second thread), and in a forked child, the tasks run on
    /// the calling thread, as worker 0. A panic in a task is passed on when all running tasks have ended; tasks that
    /// were not started then may be left out, and so may they when the work is stopped ([`cancel::requested`]).
    pub fn run(&self, tasks: usize, f: &(dyn Fn(usize, usize) + Sync)) {
        let guard = if tasks <= 1 || self.workers.is_empty() || !self.origin.is_here() {
            None
        } else {
            match self.broadcast.try_lock() {
                Ok(guard) => Some(guard),
                Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                Err(std::sync::TryLockError::WouldBlock) => None,
            }
        };
        // SAFETY: this thread's work goes on until this function returns, and all workers have left the run by then.
        let under = unsafe { cancel::current() };
        let Some(guard) = guard else {
            for task in 0..tasks {
                if task > 0 && under.requested(Occasion::Busy) {
                    return;
                }
                f(task, 0);
            }
            return;
        };
        let shared = &*self.shared;
        // SAFETY: only the lifetime changes. The run is closed and left by every worker before this function returns
        // or unwinds, so nobody calls `f` later.
        let f = unsafe { std::mem::transmute::<&(dyn Fn(usize, usize) + Sync), &'static Task>(f) };
        let job = Job { f, tasks, under: under.shared() };
        shared.next.store(0, SeqCst);
        // SAFETY: `state` is 0 and the lock is held: no worker is inside and no other caller writes.
        unsafe { *shared.job.get() = Some(job) };
        shared.state.store(OPEN, SeqCst);
        shared.generation.fetch_add(1, SeqCst);
        shared.wake.notify();
        shared.work(Job { under, ..job }, 0);
        shared.state.fetch_and(!OPEN, SeqCst);
        // The others see what this thread is told.
        let glance = || {
            under.requested(Occasion::Idle);
        };
        let glance: Option<&dyn Fn()> = if under.has_asker() { Some(&glance) } else { None };
        shared.done.wait(|| shared.state.load(SeqCst) == 0, glance);
        let panic = lock(&shared.panic).take();
        drop(guard);
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }
}

impl Shared {
    /// The life of a worker.
    fn serve(&self, worker: usize) {
        let mut seen = 0;
        loop {
            self.wake.wait(|| self.generation.load(SeqCst) != seen, None);
            seen = self.generation.load(SeqCst);
            if self.shutdown.load(SeqCst) {
                return;
            }
            let join = |state| if state & OPEN == 0 { None } else { Some(state + 1) };
            if self.state.fetch_update(SeqCst, SeqCst, join).is_err() {
                continue;
            }
            // SAFETY: this worker is inside, so the caller does not write.
            if let Some(job) = unsafe { *self.job.get() } {
                let _under = job.under.enter();
                self.work(job, worker);
            }
            if self.state.fetch_sub(1, SeqCst) == 1 {
                self.done.notify();
            }
        }
    }

    /// Takes tasks until none is left, one panics, or the work is to stop.
    fn work(&self, job: Job, worker: usize) {
        let result = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the caller of `run` keeps the closure alive until this thread has left the run.
            let f = unsafe { &*job.f };
            loop {
                let task = self.next.fetch_add(1, SeqCst);
                if task >= job.tasks || job.under.requested(Occasion::Busy) {
                    break;
                }
                f(task, worker);
            }
        }));
        if let Err(payload) = result {
            lock(&self.panic).get_or_insert(payload);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if !self.origin.is_here() {
            // In a forked child nobody would ever answer; the handles of threads that are elsewhere are left alone.
            std::mem::forget(std::mem::take(&mut self.workers));
            return;
        }
        self.shared.shutdown.store(true, SeqCst);
        self.shared.generation.fetch_add(1, SeqCst);
        self.shared.wake.notify();
        for worker in self.workers.drain(..) {
            // A worker catches every panic of a task; its own end is of no consequence here.
            let _ = worker.join();
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, collections::HashSet, time::Duration};

    use super::*;
    use crate::CancelToken;

    fn counters(len: usize) -> Vec<AtomicUsize> {
        (0..len).map(|_| AtomicUsize::new(0)).collect()
    }

    #[test]
    fn every_task_runs_once() {
        for threads in [1, 2, 3, 8] {
            let pool = Pool::new(threads);
            assert_eq!(pool.threads(), threads);
            for tasks in [0, 1, 2, 7, 100] {
                let hits = counters(tasks);
                pool.run(tasks, &|task, worker| {
                    assert!(worker < threads);
                    hits[task].fetch_add(1, SeqCst);
                });
                assert!(hits.iter().all(|hit| hit.load(SeqCst) == 1), "{threads} threads, {tasks} tasks");
            }
        }
    }

    #[test]
    fn many_short_runs_and_long_gaps() {
        let pool = Pool::new(4);
        let sum = AtomicUsize::new(0);
        for round in 0..20_000 {
            pool.run(5, &|task, _| {
                sum.fetch_add(task, SeqCst);
            });
            if round % 4000 == 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        assert_eq!(sum.load(SeqCst), 20_000 * 10);
    }

    #[test]
    fn workers_are_exclusive_and_take_part() {
        let pool = Pool::new(3);
        let busy = counters(3);
        let seen = Mutex::new(HashSet::new());
        pool.run(60, &|_, worker| {
            assert_eq!(busy[worker].fetch_add(1, SeqCst), 0);
            std::thread::sleep(Duration::from_millis(1));
            seen.lock().unwrap().insert((worker, std::thread::current().id()));
            busy[worker].fetch_sub(1, SeqCst);
        });
        assert_eq!(seen.lock().unwrap().len(), 3);
    }

    #[test]
    fn panics_reach_the_caller_and_the_pool_lives_on() {
        for threads in [1, 3] {
            let pool = Pool::new(threads);
            let running = AtomicUsize::new(0);
            let payload = catch_unwind(AssertUnwindSafe(|| {
                pool.run(50, &|task, _| {
                    running.fetch_add(1, SeqCst);
                    std::thread::sleep(Duration::from_micros(200));
                    running.fetch_sub(1, SeqCst);
                    assert!(task != 7, "task seven");
                });
            }))
            .unwrap_err();
            assert_eq!(running.load(SeqCst), 0, "a task outlived the run");
            let message = payload.downcast_ref::<&str>().map(ToString::to_string);
            assert_eq!(message.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap(), "task seven");
            let hits = AtomicUsize::new(0);
            pool.run(9, &|_, _| {
                hits.fetch_add(1, SeqCst);
            });
            assert_eq!(hits.load(SeqCst), 9);
        }
    }

    #[test]
    fn nested_runs_are_inline() {
        let pool = Pool::new(3);
        let hits = AtomicUsize::new(0);
        pool.run(10, &|_, _| {
            let outer = std::thread::current().id();
            pool.run(10, &|_, worker| {
                assert_eq!((std::thread::current().id(), worker), (outer, 0));
                hits.fetch_add(1, SeqCst);
            });
        });
        assert_eq!(hits.load(SeqCst), 100);
    }

    #[test]
    fn two_callers_at_once() {
        let pool = Pool::new(3);
        std::thread::scope(|scope| {
            for caller in 0..4 {
                let pool = &pool;
                scope.spawn(move || {
                    for round in 0..2000 {
                        let hits = counters(6);
                        pool.run(6, &|task, _| {
                            hits[task].fetch_add(1, SeqCst);
                        });
                        assert!(
                            hits.iter().all(|hit| hit.load(SeqCst) == 1),
                            "caller {caller}, round {round}"
                        );
                    }
                });
            }
        });
    }

    #[test]
    fn drop_joins_sleeping_and_fresh_workers() {
        for pause in [0, 5] {
            for _ in 0..20 {
                let pool = Pool::new(4);
                std::thread::sleep(Duration::from_millis(pause));
                drop(pool);
            }
        }
    }

    #[test]
    fn who_is_asked_is_asked_by_one_thread_and_obeyed_by_all() {
        let pool = Pool::new(3);
        let asked = RefCell::new(0);
        let (started, ran) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let asker = |_: Occasion| {
            assert!(!cancel::requested(), "whoever is asked is under nothing");
            *asked.borrow_mut() += 1;
            *asked.borrow() >= 3
        };
        cancel::during(None, Some(&asker), || {
            pool.run(1 << 30, &|_, _| {
                started.fetch_add(1, SeqCst);
                std::thread::sleep(Duration::from_micros(100));
                ran.fetch_add(1, SeqCst);
            });
            assert!(cancel::requested());
            assert_eq!(*asked.borrow(), 3, "once it is to stop, nobody asks again");
        });
        assert_eq!(started.load(SeqCst), ran.load(SeqCst), "a task outlived the run");
        assert!(ran.load(SeqCst) < 1 << 20);
    }

    #[test]
    fn a_run_on_one_thread_stops_between_tasks() {
        let token = CancelToken::new();
        let ran = AtomicUsize::new(0);
        token.during(|| {
            Pool::new(1).run(1000, &|task, _| {
                ran.fetch_add(1, SeqCst);
                if task == 7 {
                    token.cancel();
                }
            });
        });
        assert_eq!(ran.load(SeqCst), 8);
    }
}

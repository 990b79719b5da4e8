//! Forks that fall into other threads' work.
#![cfg(unix)]
#![expect(unsafe_code, reason = "forks")]

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    thread,
    time::Duration,
};

use triune_fork::{Brief, Forked, Lock, Origin, Turn};

/// Seconds after which the system ends a child that hangs.
const DEADLINE: u32 = 20;

/// Forks; the child does its work and says whether it went well.
fn fork(work: impl FnOnce() -> bool) -> libc::pid_t {
    // SAFETY: the child calls nothing of the test's harness and leaves without unwinding into it.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0, "no fork");
        if child == 0 {
            libc::alarm(DEADLINE);
            let well = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(false);
            libc::_exit(i32::from(!well));
        }
        child
    }
}

/// How a child ended: 0 if all went well there, a signal's number beyond 128 if the system ended it.
fn join(child: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: plain numbers.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    if libc::WIFSIGNALED(status) { 128 + libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) }
}

#[test]
fn no_child_finds_a_brief_lock_taken() {
    let (outer, inner) = (Brief::new(0_u64), Brief::new(0_u64));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(SeqCst) {
                    let mut first = outer.lock();
                    *first += 1;
                    // Both or none, also in a child.
                    for _ in 0..100 {
                        std::hint::spin_loop();
                    }
                    *inner.lock() += 1;
                }
            });
        }
        for round in 0..100 {
            let child = fork(|| {
                let first = outer.lock();
                let equal = *first == *inner.lock();
                drop(first);
                // A grandchild, of threads of the child's own.
                let grandchild = thread::scope(|scope| {
                    scope.spawn(|| (0..1000).for_each(|_| *outer.lock() += 1));
                    fork(|| *outer.lock() < u64::MAX)
                });
                equal && join(grandchild) == 0
            });
            assert_eq!(join(child), 0, "child {round}");
        }
        stop.store(true, SeqCst);
    });
    assert_eq!(*outer.lock(), *inner.lock());
}

#[test]
fn threads_fork_at_the_same_time() {
    let brief = Brief::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let child = fork(|| {
                        *brief.lock() += 1;
                        join(fork(|| *brief.lock() > 0)) == 0
                    });
                    *brief.lock() += 1;
                    assert_eq!(join(child), 0);
                }
            });
        }
    });
    assert_eq!(*brief.lock(), 100);
}

#[test]
fn a_thread_forks_while_it_has_a_brief_lock() {
    let brief = Brief::new(1);
    let guard = brief.lock();
    let child = fork(|| {
        drop(guard);
        // This thread is in no section any more, so others' forks are not held up by it.
        *brief.lock() == 1 && join(fork(|| *brief.lock() == 1)) == 0
    });
    assert_eq!(join(child), 0);
    assert_eq!(*brief.lock(), 1);
}

#[test]
fn any_number_of_threads_has_brief_locks() {
    let brief = Brief::new(0);
    // More than the square of the number of shards.
    for _ in 0..300 {
        thread::scope(|scope| {
            scope.spawn(|| *brief.lock() += 1);
        });
    }
    assert_eq!(*brief.lock(), 300);
}

#[test]
fn a_panic_is_remembered() {
    let lock = Lock::new(0);
    assert!(!lock.is_poisoned());
    let ended = thread::scope(|scope| {
        let panics = || {
            let _guard = lock.lock().expect("free");
            panic!("on purpose");
        };
        scope.spawn(panics).join()
    });
    assert!(ended.is_err() && lock.is_poisoned());
    // The value is there all the same.
    assert_eq!(*lock.lock().expect("given back"), 0);
}

/// Counts how often it is dropped.
struct Dropped<'a>(&'a AtomicUsize);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn what_a_thread_is_at_work_with_is_refused_in_a_child_and_left_alone() {
    let drops = AtomicUsize::new(0);
    let lock = Lock::new(Dropped(&drops));
    let free = Lock::new(7);
    for _ in 0..20 {
        let (taken, go) = (Barrier::new(2), Barrier::new(2));
        thread::scope(|scope| {
            scope.spawn(|| {
                let _guard = lock.lock().expect("free");
                taken.wait();
                go.wait();
            });
            taken.wait();
            let here = !lock.is_forked();
            let child = fork(|| {
                let refused = lock.is_forked()
                    && lock.lock().is_err_and(|error| error == Forked)
                    && lock.try_lock().is_err();
                // A thread of the child's hears the same.
                let there = thread::scope(|scope| scope.spawn(|| lock.lock().is_err()).join());
                // SAFETY: the child ends without dropping it another time; the parent's is in its own memory.
                drop(unsafe { std::ptr::read(&raw const lock) });
                refused && matches!(there, Ok(true)) && drops.load(SeqCst) == 0 && free.lock().is_ok()
            });
            go.wait();
            assert_eq!((join(child), here), (0, true));
        });
        assert!(lock.lock().is_ok());
    }
    drop(lock);
    assert_eq!(drops.load(SeqCst), 1);
}

#[test]
fn a_child_has_locks_of_its_own_and_threads_that_wait_for_them() {
    let lock = Lock::new(0);
    let waited = AtomicUsize::new(0);
    thread::scope(|scope| {
        // Threads of the parent wait for it at the fork.
        let guard = lock.lock().expect("free");
        for _ in 0..3 {
            scope.spawn(|| {
                waited.fetch_add(1, SeqCst);
                *lock.lock().expect("this process's") += 1;
            });
        }
        while waited.load(SeqCst) < 3 {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(5));
        let child = fork(|| {
            // The thread that forked has it, and is here.
            drop(guard);
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| (0..500).for_each(|_| *lock.lock().expect("this process's") += 1));
                }
            });
            *lock.lock().expect("free") == 2000
        });
        assert_eq!(join(child), 0);
        // The parent's end of the closure has dropped its guard.
    });
    assert_eq!(*lock.lock().expect("free"), 3);
}

#[test]
fn a_turn_is_taken_again_by_its_thread_also_in_a_child() {
    let turn = Turn::default();
    let outer = turn.take().expect("free");
    let inner = turn.take().expect("this thread's");
    let child = fork(|| {
        let again = turn.take().is_ok();
        // A thread of the child's cannot know that it will be given back.
        let refused = thread::scope(|scope| scope.spawn(|| turn.take().err()).join());
        drop(inner);
        drop(outer);
        let free = thread::scope(|scope| scope.spawn(|| turn.take().is_ok()).join());
        again && !turn.is_forked() && matches!(refused, Ok(Some(Forked))) && matches!(free, Ok(true))
    });
    assert_eq!(join(child), 0);
}

#[test]
fn a_turn_is_waited_for_so_long() {
    let turn = Turn::default();
    let (taken, hold) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let guard = turn.take();
            taken.send(()).expect("a receiver");
            while !turn.take_within(Duration::ZERO).expect("this thread's") {}
            turn.give();
            thread::sleep(Duration::from_millis(30));
            drop(guard);
        });
        hold.recv().expect("a sender");
        let mut refused = 0;
        while !turn.take_within(Duration::from_millis(1)).expect("this process's") {
            refused += 1;
        }
        assert!(refused > 0);
        turn.give();
        // Whoever has none gives none back.
        turn.give();
        assert!(turn.take_within(Duration::ZERO).expect("free"));
        turn.give();
    });
}

#[test]
fn processes_are_told_apart() {
    let here = Origin::here();
    assert!(here.is_here());
    let child = fork(|| {
        let there = Origin::here();
        !here.is_here() && there.is_here() && join(fork(|| !here.is_here() && !there.is_here())) == 0
    });
    assert_eq!(join(child), 0);
    assert!(here.is_here());
}

#[test]
fn a_lock_is_waited_for_as_long_as_it_is_worth_it() {
    let lock = Lock::new(5);
    let pause = Duration::from_millis(2);
    // Nobody is asked who need not wait.
    let free = lock.lock_while(pause, || panic!("free")).expect("this process's");
    assert_eq!(free.map(|value| *value), Some(5));
    let held = lock.try_lock().expect("this process's").expect("free");
    assert!(lock.try_lock().expect("this process's").is_none());
    let mut asked = Vec::new();
    let since = std::time::Instant::now();
    // Also by the thread that has it, which then has it no more often than before.
    let refused = lock.lock_while(pause, || {
        asked.push(since.elapsed());
        asked.len() < 3
    });
    assert!(refused.expect("this process's").is_none());
    assert_eq!(asked.len(), 3);
    assert!(asked.iter().zip(1..).all(|(&at, times)| at >= pause * times), "{asked:?}");
    drop(held);
    assert!(lock.try_lock().expect("this process's").is_some());
    // It comes as soon as it is given back, not only when somebody is asked.
    let held = lock.lock().expect("free");
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let found = lock.lock_while(Duration::from_mins(10), || false).expect("this process's");
            found.map(|value| *value)
        });
        thread::sleep(Duration::from_millis(20));
        drop(held);
        assert_eq!(waits.join().expect("no panic"), Some(5));
    });
}

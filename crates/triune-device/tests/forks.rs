//! Forks that fall into leases of other threads.
#![cfg(unix)]
#![expect(unsafe_code, reason = "forks")]

use std::{sync::Barrier, thread};

use triune_device::{Board, DeviceSpec, Error, LocalBoard, Memory, RangeAccess};
use triune_fork::Forked;

/// Seconds after which the system ends a child that hangs.
const DEADLINE: u32 = 20;

/// Whether all went well in a forked child.
fn child(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child calls nothing of the test's harness and leaves without unwinding into it.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0, "no fork");
        if child == 0 {
            libc::alarm(DEADLINE);
            let well = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(false);
            libc::_exit(i32::from(!well));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
    }
}

#[test]
fn what_another_thread_leased_is_refused_in_a_child() {
    let memory = Memory::new(&DeviceSpec::builtin("zg330").expect("builtin")).expect("address space");
    let ddr = memory.region("ddr").expect("ddr");
    let start = memory.allocate(ddr, 128, 64).expect("room");
    let (theirs, other) =
        ([RangeAccess::exclusive(ddr, start, 64)], [RangeAccess::exclusive(ddr, start + 64, 64)]);
    let (taken, go) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            let _lease = memory.lease(&theirs).expect("free");
            taken.wait();
            go.wait();
        });
        taken.wait();
        assert!(matches!(memory.lease(&theirs), Err(Error::Busy { .. })));
        let well = child(|| {
            let refused = |result: Result<_, Error>| matches!(result, Err(Error::Forked(Forked)));
            refused(memory.lease(&theirs).map(drop))
                && refused(memory.lease_wait(&theirs).map(drop))
                && refused(memory.write(ddr, start, &[1]))
                // The rest is as it was, and a lease of the child's own is waited for.
                && memory.write(ddr, start + 64, &[1]).is_ok()
                && {
                    let (taken, own) = (Barrier::new(2), memory.lease(&other).expect("free"));
                    thread::scope(|scope| {
                        let waits = scope.spawn(|| {
                            taken.wait();
                            memory.lease_wait(&other).map(drop).is_ok()
                        });
                        taken.wait();
                        drop(own);
                        waits.join().is_ok_and(|waited| waited)
                    })
                }
                && memory.allocate(ddr, 64, 64).is_ok()
                && memory.free(ddr, start).is_ok()
        });
        assert!(well);
        go.wait();
    });
    memory.write(ddr, start, &[1]).expect("the parent's goes on");
}

/// Copies of other threads are under way at most forks: a child goes on, or is refused.
#[test]
fn a_board_is_used_in_a_child() {
    let board = LocalBoard::open("zg330", false, 1).expect("builtin");
    let ddr = triune_device::RegionId(0);
    let places = [0; 3].map(|_| board.allocate(ddr, 1 << 20, 64).expect("room"));
    let stop = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        for place in &places[1..] {
            let (board, stop) = (&board, &stop);
            scope.spawn(move || {
                let mut bytes = vec![0; 1 << 20];
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    board.write(ddr, *place, &bytes).expect("its own");
                    board.read(ddr, *place, &mut bytes).expect("its own");
                    board.configure(&board.settings().expect("readable")).expect("as before");
                    board.free(ddr, board.allocate(ddr, 64, 64).expect("room")).expect("allocated");
                }
            });
        }
        for round in 0..30 {
            let well = child(|| {
                let fine = |result: Result<(), Error>| matches!(result, Ok(()) | Err(Error::Forked(Forked)));
                // Nobody else touches the first place.
                board.write(ddr, places[0], &[7; 64]).is_ok()
                    && fine(board.write(ddr, places[1], &[7; 64]))
                    && fine(board.settings().map(drop))
                    && board.allocate(ddr, 64, 64).is_ok_and(|start| board.free(ddr, start).is_ok())
            });
            assert!(well, "child {round}");
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

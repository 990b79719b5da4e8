//! The switch of planted faults: `TRIUNE_MUTANT=17` turns the 17th on, for the process and those that it starts.
//!
//! With `TRIUNE_MUTANTS_REACHED=FILE`, none is on; instead the byte of each fault whose place is reached becomes 1 in the file,
//! which is as long as there are faults, and one more. Whoever runs tests may read and clear it between them.

use std::{
    env,
    fs::OpenOptions,
    os::fd::AsRawFd,
    ptr::{self, NonNull},
    sync::{
        OnceLock,
        atomic::{AtomicU8, AtomicU32, Ordering},
    },
};

/// Before anything was asked, and for as long as places are noted.
const UNKNOWN: u32 = u32::MAX;

static ON: AtomicU32 = AtomicU32::new(UNKNOWN);

/// Whether a fault is on. Faults count from 1.
#[inline(always)]
pub fn planted(fault: u32) -> bool {
    let on = ON.load(Ordering::Relaxed);
    on == fault || (on == UNKNOWN && ask(fault))
}

/// The file of places that are reached, shared with whoever else has it.
struct Reached {
    first: NonNull<u8>,
    count: usize,
}

// SAFETY: every byte is written as an atomic, and the mapping is never given up.
unsafe impl Send for Reached {}
// SAFETY: as above.
unsafe impl Sync for Reached {}

#[cold]
#[inline(never)]
fn ask(fault: u32) -> bool {
    static REACHED: OnceLock<Option<Reached>> = OnceLock::new();
    let Some(reached) = REACHED.get_or_init(open) else {
        let on = env::var("TRIUNE_MUTANT").map_or(0, |on| on.parse().expect("TRIUNE_MUTANT is a number"));
        ON.store(on, Ordering::Relaxed);
        return on == fault;
    };
    assert!((fault as usize) < reached.count, "fault {fault} has no byte in the file of what is reached");
    // SAFETY: the byte lies within the mapping.
    let byte = unsafe { AtomicU8::from_ptr(reached.first.as_ptr().add(fault as usize)) };
    byte.store(1, Ordering::Relaxed);
    false
}

fn open() -> Option<Reached> {
    let path = env::var_os("TRIUNE_MUTANTS_REACHED")?;
    let file =
        OpenOptions::new().read(true).write(true).open(path).expect("the file of what is reached opens");
    let count = file.metadata().expect("a file has a length").len() as usize;
    // SAFETY: a new mapping overlaps nothing; the file keeps its length.
    let first = unsafe {
        libc::mmap(
            ptr::null_mut(),
            count,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    assert!(first != libc::MAP_FAILED, "the file of what is reached can be mapped");
    Some(Reached { first: NonNull::new(first.cast())?, count })
}

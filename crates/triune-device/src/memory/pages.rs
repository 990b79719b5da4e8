//! Address space, with memory behind what of it is touched.
#![cfg_attr(windows, expect(unsafe_code, reason = "the system's own calls"))]

pub(super) use imp::Pages;

#[cfg(not(windows))]
mod imp {
    use std::{io, ops::Range};

    use memmap2::{MmapOptions, MmapRaw};

    /// Zeroed memory, which the system commits page by page when touched; its base is aligned to a page.
    pub(in super::super) struct Pages(MmapRaw);

    impl Pages {
        /// Reserves address space, without swap or memory behind it yet.
        pub(in super::super) fn reserve(len: usize) -> io::Result<Self> {
            Ok(Self(MmapOptions::new().len(len).no_reserve_swap().map_anon()?.into()))
        }

        #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "fails where pages are asked for")]
        pub(in super::super) fn commit(&self, _range: Range<usize>) -> io::Result<()> {
            Ok(())
        }

        pub(in super::super) fn len(&self) -> usize {
            self.0.len()
        }

        pub(in super::super) fn as_mut_ptr(&self) -> *mut u8 {
            self.0.as_mut_ptr()
        }
    }
}

#[cfg(windows)]
mod imp {
    use std::{
        io,
        ops::Range,
        ptr::{self, NonNull},
        sync::atomic::{AtomicU64, Ordering},
    };

    use windows_sys::Win32::System::Memory::{
        MEM_COMMIT, MEM_RELEASE, MEM_RESERVE, PAGE_READWRITE, VirtualAlloc, VirtualFree,
    };

    /// Bytes that are committed at once.
    const STEP: usize = 1 << 20;

    /// Zeroed memory, asked for before it is touched: the system commits nothing by itself, and a mapping all at once.
    pub(in super::super) struct Pages {
        start: NonNull<u8>,
        len: usize,
        /// A bit for each step that is committed.
        committed: Vec<AtomicU64>,
    }

    // SAFETY: it owns the address space, and hands out nothing but its start.
    unsafe impl Send for Pages {}
    // SAFETY: as above; what changes is atomic.
    unsafe impl Sync for Pages {}

    impl Pages {
        /// Reserves address space, without memory behind it yet.
        pub(in super::super) fn reserve(len: usize) -> io::Result<Self> {
            // SAFETY: the system chooses where; nothing is there yet.
            let start = unsafe { VirtualAlloc(ptr::null(), len.max(1), MEM_RESERVE, PAGE_READWRITE) };
            let start = NonNull::new(start.cast()).ok_or_else(io::Error::last_os_error)?;
            let words = len.div_ceil(STEP).div_ceil(64);
            Ok(Self { start, len, committed: (0..words).map(|_| AtomicU64::new(0)).collect() })
        }

        /// Has memory behind a range. What has it already stays as it is, so that two threads may ask at once.
        pub(in super::super) fn commit(&self, range: Range<usize>) -> io::Result<()> {
            assert!(range.end <= self.len, "a range in the region");
            if range.is_empty() {
                return Ok(());
            }
            for step in range.start / STEP..range.end.div_ceil(STEP) {
                let (word, bit) = (&self.committed[step / 64], 1 << (step % 64));
                if word.load(Ordering::Acquire) & bit != 0 {
                    continue;
                }
                let from = step * STEP;
                let len = STEP.min(self.len - from);
                // SAFETY: the step lies in the address space that was reserved.
                let place = unsafe { self.start.as_ptr().add(from) };
                // SAFETY: as above.
                if unsafe { VirtualAlloc(place.cast(), len, MEM_COMMIT, PAGE_READWRITE) }.is_null() {
                    return Err(io::Error::last_os_error());
                }
                word.fetch_or(bit, Ordering::Release);
            }
            Ok(())
        }

        pub(in super::super) fn len(&self) -> usize {
            self.len
        }

        pub(in super::super) fn as_mut_ptr(&self) -> *mut u8 {
            self.start.as_ptr()
        }
    }

    impl Drop for Pages {
        fn drop(&mut self) {
            // SAFETY: all that was reserved, which nobody has any more.
            let freed = unsafe { VirtualFree(self.start.as_ptr().cast(), 0, MEM_RELEASE) };
            debug_assert_ne!(freed, 0, "{}", io::Error::last_os_error());
        }
    }
}

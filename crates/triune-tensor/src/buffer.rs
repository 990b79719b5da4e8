//! Bytes that a whole model is read into or packed into: aligned for vectors, on large pages where they are many.
//!
//! Such memory is written once, front to back, when a model is loaded. Handed out in pages of 4 KiB, it costs more time in
//! the system than in the copy; where the system has large pages (Linux: transparent ones, of 2 MiB) they are asked for.

use std::{
    fmt,
    ops::{Deref, DerefMut},
};

use memmap2::MmapMut;

use crate::memory;

/// Bytes of a large page.
const LARGE_PAGE: usize = 2 << 20;

/// Least bytes that are worth large pages: smaller memory comes from the heap, which may have it from before.
const LARGE: usize = 2 * LARGE_PAGE;

/// A fixed number of bytes, zero at first, that start on a boundary of [`Self::ALIGNMENT`].
pub struct Buffer {
    storage: Storage,
    start: usize,
    len: usize,
}

enum Storage {
    Heap(Vec<u8>),
    Pages(MmapMut),
}

impl Buffer {
    /// Alignment in bytes: a cache line, and the widest vector.
    pub const ALIGNMENT: usize = 64;

    /// `len` zeros; `None` when there is no memory for them.
    pub fn zeroed(len: usize) -> Option<Self> {
        if len < LARGE {
            return Some(Self::on_heap(memory::filled(len + Self::ALIGNMENT, 0).ok()?, len));
        }
        if let Some(pages) = pages(len) {
            let start = pages.as_ptr().align_offset(LARGE_PAGE).min(LARGE_PAGE);
            #[cfg(target_os = "linux")]
            {
                // Only pages that the bytes fill: the rest would be memory for nothing. Advice, which a system without
                // large pages refuses: everything works without.
                let _ = pages.advise_range(memmap2::Advice::HugePage, start, len / LARGE_PAGE * LARGE_PAGE);
            }
            return Some(Self { storage: Storage::Pages(pages), start, len });
        }
        Some(Self::on_heap(memory::filled(len.checked_add(Self::ALIGNMENT)?, 0).ok()?, len))
    }

    /// As [`Self::zeroed`], for later: the memory is set aside now and touched when the bytes are asked for.
    pub fn later(len: usize) -> Option<impl FnOnce() -> Self + Send + 'static> {
        let pages = if len < LARGE { None } else { Some(Self::zeroed(len)?) };
        let whole = if pages.is_some() { 0 } else { len + Self::ALIGNMENT };
        let mut heap = memory::with_room(whole).ok()?;
        Some(move || {
            pages.unwrap_or_else(|| {
                heap.resize(whole, 0);
                Self::on_heap(heap, len)
            })
        })
    }

    fn on_heap(heap: Vec<u8>, len: usize) -> Self {
        let start = heap.as_ptr().align_offset(Self::ALIGNMENT).min(Self::ALIGNMENT);
        Self { storage: Storage::Heap(heap), start, len }
    }
}

/// Pages for `len` bytes that start on the boundary of a large one; `None` when the system refuses.
fn pages(len: usize) -> Option<MmapMut> {
    MmapMut::map_anon(len.checked_add(LARGE_PAGE)?).ok()
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let bytes: &[u8] = match &self.storage {
            Storage::Heap(heap) => heap,
            Storage::Pages(pages) => pages,
        };
        &bytes[self.start..][..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let bytes: &mut [u8] = match &mut self.storage {
            Storage::Heap(heap) => heap,
            Storage::Pages(pages) => pages,
        };
        &mut bytes[self.start..][..self.len]
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sizes_are_zero_aligned_and_writable_to_the_end() {
        for len in [0, 1, 63, 64, 4097, LARGE - 1, LARGE, LARGE + 12_345] {
            let mut buffer = Buffer::zeroed(len).unwrap();
            assert_eq!(buffer.len(), len);
            assert!(buffer.as_ptr().addr().is_multiple_of(Buffer::ALIGNMENT), "{len}");
            assert!(buffer.iter().all(|&byte| byte == 0), "{len}");
            buffer.fill(0xA5);
            assert!(buffer.as_ref().iter().all(|&byte| byte == 0xA5), "{len}");
            assert_eq!(matches!(buffer.storage, Storage::Pages(_)), len >= LARGE, "{len}");
        }
    }

    #[test]
    fn later_ones_are_no_different() {
        for len in [0, 1, 4097, LARGE - 1, LARGE + 1] {
            let (now, later) = (Buffer::zeroed(len).unwrap(), Buffer::later(len).unwrap()());
            assert_eq!(*now, *later);
            assert!(later.as_ptr().addr().is_multiple_of(Buffer::ALIGNMENT), "{len}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for len in [usize::MAX, usize::MAX / 2, 1 << 62] {
            assert!(Buffer::zeroed(len).is_none(), "{len}");
            assert!(Buffer::later(len).is_none(), "{len}");
        }
    }

    #[test]
    fn large_ones_start_on_a_large_page() {
        let buffer = Buffer::zeroed(LARGE + 1).unwrap();
        assert_eq!(buffer.as_ptr().addr() % LARGE_PAGE, 0);
    }
}

//! Memory whose size comes from outside: from a file, a stream, a shape, a caller. Where there is none, that is an error and
//! the process goes on.
//!
//! The ordinary ways to allocate end the process then. Whatever is sized by a number that somebody else wrote comes from
//! here: in one piece ([`filled`], [`copied`], [`collected`], [`with_room`], [`grow`]), or as the [`Room`] that work with many small parts
//! claims before it makes them.

mod room;

use std::fmt;

pub use room::{Room, claimed};

/// The host has no memory of that size for this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Bytes that were asked for.
    pub bytes: u64,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of memory are needed at once, and this process cannot have them", self.bytes)
    }
}

impl std::error::Error for OutOfMemory {}

/// Room for `count` elements.
pub fn with_room<T>(count: usize) -> Result<Vec<T>, OutOfMemory> {
    let mut elements = Vec::new();
    grow(&mut elements, count)?;
    Ok(elements)
}

/// Makes room for `more` elements.
pub fn grow<T>(elements: &mut Vec<T>, more: usize) -> Result<(), OutOfMemory> {
    let all = (elements.len() as u64).saturating_add(more as u64);
    let bytes = all.saturating_mul(size_of::<T>().max(1) as u64);
    let none = OutOfMemory { bytes };
    if bytes > SMALL && all > elements.capacity() as u64 {
        // What other threads were promised stays theirs.
        let others = room::claimed_by_others();
        if others > 0 {
            room::probe(bytes.saturating_add(others)).map_err(|_| none)?;
        }
    }
    elements.try_reserve(more).map_err(|_| none)
}

/// `count` elements, all of one value.
pub fn filled<T: Copy>(count: usize, value: T) -> Result<Vec<T>, OutOfMemory> {
    let mut elements = with_room(count)?;
    elements.resize(count, value);
    Ok(elements)
}

/// The elements of an iterator.
pub fn collected<T>(from: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>, OutOfMemory> {
    let mut elements = with_room(from.len())?;
    elements.extend(from);
    Ok(elements)
}

/// The elements of a slice.
pub fn copied<T: Copy>(slice: &[T]) -> Result<Vec<T>, OutOfMemory> {
    let mut elements = with_room(slice.len())?;
    elements.extend_from_slice(slice);
    Ok(elements)
}

/// Sizes that are not worth a question.
const SMALL: u64 = 1 << 20;

/// Whether there is room for so many bytes now, beside all that is claimed: for one piece that is allocated in the ordinary
/// way at once.
pub fn check_room(bytes: u64) -> Result<(), OutOfMemory> {
    if bytes <= SMALL { Ok(()) } else { Room::of(bytes).map(drop) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_process_has_is_an_error() {
        for count in [usize::MAX, usize::MAX / 2, 1 << 55] {
            assert!(with_room::<u8>(count).is_err(), "{count}");
            assert!(filled(count, 0_u64).is_err(), "{count}");
            assert_eq!(check_room(count as u64), Err(OutOfMemory { bytes: count as u64 }));
        }
        assert_eq!(with_room::<u32>(1 << 61), Err(OutOfMemory { bytes: 1 << 63 }));
    }

    #[test]
    fn what_is_claimed_is_promised_once() {
        // Bytes that there are, but not twice.
        let most = (20..56).map(|bits| 1 << bits).take_while(|&bytes| Room::of(bytes).is_ok()).last();
        let most: u64 = most.expect("a mebibyte");
        let mut first = Room::of(most).expect("just had");
        // Not to another thread, neither in parts nor in one piece; to the same one as its own.
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                assert_eq!(Room::of(most).map(drop), Err(OutOfMemory { bytes: most }));
                assert_eq!(check_room(most), Err(OutOfMemory { bytes: most }));
                assert!(with_room::<u8>(most as usize).is_err());
            });
            other.join().expect("a thread");
        });
        assert!(with_room::<u8>(most as usize).is_ok());
        assert_eq!(first.take(most), Err(OutOfMemory { bytes: 2 * most }));
        // A refused part changes nothing, and what is given back is there again.
        assert_eq!(first.take(0), Ok(()));
        drop(first);
        assert!(Room::of(most).is_ok());
    }

    #[test]
    fn what_there_is_comes() {
        assert_eq!(filled(3, 7_u16), Ok(vec![7; 3]));
        assert_eq!(copied(&[1, 2]), Ok(vec![1, 2]));
        let mut grown = vec![1_u8];
        grow(&mut grown, 4096).unwrap();
        assert!(grown.capacity() > 4096);
        assert_eq!(check_room(1 << 21), Ok(()));
    }
}

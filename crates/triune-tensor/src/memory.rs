//! Memory whose size comes from outside: from a file, a stream, a shape, a caller. Where there is none, that is an error and
//! the process goes on.
//!
//! The ordinary ways to allocate end the process then. Whatever is sized by a number that somebody else wrote comes from
//! here; what grows with data that are in memory already need not.

use std::fmt;

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
    elements
        .try_reserve(more)
        .map_err(|_| OutOfMemory { bytes: all.saturating_mul(size_of::<T>().max(1) as u64) })
}

/// `count` elements, all of one value.
pub fn filled<T: Copy>(count: usize, value: T) -> Result<Vec<T>, OutOfMemory> {
    let mut elements = with_room(count)?;
    elements.resize(count, value);
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

/// Whether there is room for so many bytes now: for work whose many parts are allocated in the ordinary way, before it
/// begins.
pub fn check_room(bytes: u64) -> Result<(), OutOfMemory> {
    if bytes <= SMALL {
        return Ok(());
    }
    let count = usize::try_from(bytes).map_err(|_| OutOfMemory { bytes })?;
    with_room::<u8>(count).map(drop)
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
    fn what_there_is_comes() {
        assert_eq!(filled(3, 7_u16), Ok(vec![7; 3]));
        assert_eq!(copied(&[1, 2]), Ok(vec![1, 2]));
        let mut grown = vec![1_u8];
        grow(&mut grown, 4096).unwrap();
        assert!(grown.capacity() > 4096);
        assert_eq!(check_room(1 << 21), Ok(()));
    }
}

//! What kernels write between reading and storing, from one run to the next.

use triune_tensor::{OutOfMemory, memory};

/// Bytes whose pages are there before the first run. What is beyond comes as it is touched: a few bytes of a file can ask for
/// extents of any size.
pub const AT_ONCE: usize = 24 << 20;

/// Kernels' scratch, on a boundary of 64 bytes.
#[derive(Debug, Default)]
pub struct Scratch(Vec<u8>);

impl Scratch {
    const ALIGNMENT: usize = 64;

    /// Makes room, every page of it up to [`AT_ONCE`].
    ///
    /// # Errors
    /// [`OutOfMemory`]; what was there is given back then.
    pub fn reserve(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        let need = bytes.saturating_add(Self::ALIGNMENT);
        if self.0.len() < need {
            self.0 = Vec::new();
            self.0 = if need <= AT_ONCE {
                memory::filled(need, 0xA5)?
            } else {
                // Where there is none, that is known before zeros are asked for, which the system hands out page by page when
                // they are first touched.
                memory::check_room(need as u64)?;
                vec![0; need]
            };
        }
        Ok(())
    }

    /// All of it.
    pub fn bytes(&mut self) -> &mut [u8] {
        let skip = self.0.as_ptr().align_offset(Self::ALIGNMENT).min(self.0.len());
        &mut self.0[skip..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Room that is there is taken again; it begins on a boundary and is as long as was asked for.
    #[test]
    fn scratch_grows_when_it_has_to() {
        let mut scratch = Scratch::default();
        scratch.reserve(1000).expect("room");
        let place = scratch.bytes().as_ptr();
        assert!(place.addr().is_multiple_of(64) && scratch.bytes().len() >= 1000);
        assert_eq!(scratch.0.len(), 1064);
        assert!(scratch.bytes().iter().all(|&byte| byte == 0xA5), "every page is there");
        scratch.bytes()[0] = 3;
        for bytes in [1000, 10, 0] {
            scratch.reserve(bytes).expect("room");
            assert_eq!((scratch.bytes().as_ptr(), scratch.bytes()[0]), (place, 3));
        }
        scratch.reserve(1001).expect("room");
        assert_eq!((scratch.0.len(), scratch.bytes()[0]), (1065, 0xA5));
        scratch.reserve(AT_ONCE).expect("room");
        assert!(scratch.bytes().iter().all(|&byte| byte == 0), "pages come as they are touched");
        assert!(scratch.reserve(usize::MAX).is_err());
    }
}

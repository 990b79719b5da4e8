//! Scratch addresses before and after the memory plan.

use triune_device::{Addr, Command, command::Use};

use crate::Program;

/// Of an address that is not placed yet; the others of an offset are the buffer's.
const OFFSET_BITS: u32 = 34;

/// Largest offset in one buffer.
pub(super) const MAX_OFFSET: u64 = (1 << OFFSET_BITS) - 1;

/// An address that stands for byte `offset` of scratch buffer `index` until the plan is known.
pub fn pack(index: u32, offset: u64) -> Option<Addr> {
    let fits = u64::from(index) < 1 << (Addr::OFFSET_BITS - OFFSET_BITS) && offset <= MAX_OFFSET;
    fits.then(|| Addr::new(Program::SCRATCH, u64::from(index) << OFFSET_BITS | offset))
}

/// Buffer index and offset of an address made by [`pack`].
pub fn unpack(addr: Addr) -> (usize, u64) {
    ((addr.offset() >> OFFSET_BITS) as usize, addr.offset() & MAX_OFFSET)
}

/// Calls `f` on every address of feature maps in the command; constants never move.
pub fn addresses(command: &mut Command, f: &mut dyn FnMut(&mut Addr)) {
    command.addresses(&mut |used, _, addr| {
        if used != Use::Const {
            f(addr);
        }
    });
}

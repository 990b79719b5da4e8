//! What a program has of the memories that the cores of a device share: so much that every core has as much.

use super::{DeviceSpec, MemorySpec};
use crate::Error;

/// What a program of some images has of the memories for constants and feature maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Whether its constants lie where the description places them; else they stream from the memory that the host reaches.
    pub constants_near: bool,
    /// Bytes of the memory for feature maps that each image has, beside the constants if they lie there, too.
    pub scratch: u64,
}

impl DeviceSpec {
    /// What a program of `images` images on `cores` cores and so many bytes of constants has: `percent` of the memories, or the part
    /// that these are of the device's cores.
    ///
    /// # Errors
    /// [`Error::UnknownMemory`] for a placement in a memory that the description does not have.
    pub fn share(
        &self,
        images: usize,
        cores: usize,
        constants: u64,
        percent: Option<u32>,
    ) -> Result<Share, Error> {
        let memory =
            |name: &str| -> Result<&MemorySpec, Error> { Ok(&self.memory[self.memory_index(name)?]) };
        let place = &self.placement;
        let constants_near = constants <= self.own_bytes(memory(&place.constants)?, cores, percent);
        let beside = if constants_near && place.constants == place.scratch { constants } else { 0 };
        let scratch = memory(&place.scratch)?;
        let sides = if scratch.per_core { 1 } else { images.max(1) as u64 };
        let scratch = self.own_bytes(scratch, cores, percent).saturating_sub(beside) / sides;
        Ok(Share { constants_near, scratch })
    }

    /// Bytes of a memory that a program on `cores` cores has: `percent` of it, or the part that these are of the cores that share it.
    pub fn own_bytes(&self, memory: &MemorySpec, cores: usize, percent: Option<u32>) -> u64 {
        let (usable, all) = (u128::from(memory.usable_bytes()), u128::from(self.cores.max(1)));
        let own = match percent {
            Some(percent) => usable * u128::from(percent) / 100,
            None if memory.per_core => usable,
            None => usable * (cores.max(1) as u128).min(all) / all,
        };
        u64::try_from(own).unwrap_or(u64::MAX)
    }

    /// Whether feature maps that the memory for them has no room for have one behind it: the one that the host reaches.
    pub fn spills(&self) -> bool {
        self.placement.scratch != self.placement.io
    }
}

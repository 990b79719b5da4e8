//! Memory that a program's own functions give, for the tensors of a network.

use std::{
    ffi::{c_int, c_void},
    ptr::NonNull,
};

use super::{
    failure::{Failure, failure},
    network::with,
    types::{CPU, Handle},
};

/// What is given, and asked for, as tensors' memory.
pub(super) const ALIGNMENT: usize = 64;

type Allocate = unsafe extern "C" fn(c_int, c_int, usize, usize) -> *mut c_void;
type Free = unsafe extern "C" fn(c_int, c_int, *mut c_void);

/// The program's functions, with the device that they are called for.
#[derive(Clone, Copy)]
pub(super) struct Allocator {
    allocate: Allocate,
    free: Free,
    device_id: c_int,
}

impl Allocator {
    /// The same for another device.
    pub(super) fn of(self, device_id: c_int) -> Self {
        Self { device_id, ..self }
    }

    /// Memory of so many bytes, all of them 0.
    pub(super) fn allocate(&self, bytes: usize) -> Result<NonNull<u8>, Failure> {
        // SAFETY: the program gave the function, to be called like this.
        let place = unsafe { (self.allocate)(CPU, self.device_id, bytes, ALIGNMENT) };
        let start = NonNull::new(place.cast::<u8>()).ok_or_else(|| {
            failure(format!("the program's allocator gave no memory for a tensor of {bytes} bytes"))
        })?;
        // SAFETY: it says that there are so many bytes.
        unsafe { start.write_bytes(0, bytes) };
        Ok(start)
    }

    pub(super) fn free(&self, start: NonNull<u8>) {
        // SAFETY: the program gave both functions; the place is one that the other gave.
        unsafe { (self.free)(CPU, self.device_id, start.as_ptr().cast()) };
    }
}

/// `LITE_set_memory_allocator`: for the inputs and outputs of models that are loaded from now on. Runs read and write them where they are;
/// what they compute in between lies in a workspace, whose addresses are planned before.
///
/// # Safety
/// The functions can be called as the header says, by any thread, until all tensors have gone.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_set_memory_allocator(
    network: Handle,
    allocate_fun: Option<Allocate>,
    free_fun: Option<Free>,
) -> c_int {
    with(network, |inner| {
        let allocate = allocate_fun.ok_or_else(|| failure("allocate_fun: expected a function, got NULL"))?;
        let free = free_fun.ok_or_else(|| failure("free_fun: expected a function, got NULL"))?;
        inner.settable("the allocator")?.allocator = Some(Allocator { allocate, free, device_id: 0 });
        Ok(())
    })
}

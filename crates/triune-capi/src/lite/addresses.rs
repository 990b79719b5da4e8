//! Pairs of virtual and physical addresses, as programs note them.

use std::{
    collections::BTreeMap,
    ffi::{c_int, c_void},
};

use triune::internals::fork::Brief;

use super::failure::{Failure, done, failure, give};
use super::types::{CPU, DEVICE_DEFAULT};

/// By device type and virtual address: the physical one, and how many bytes.
static PAIRS: Brief<BTreeMap<(c_int, usize), (usize, usize)>> = Brief::new(BTreeMap::new());

fn place(device: c_int, backend: c_int) -> Result<c_int, Failure> {
    if backend != 0 {
        return Err(failure(format!("backend: expected LITE_DEFAULT, got {backend}")));
    }
    if (CPU..=DEVICE_DEFAULT).contains(&device) {
        return Ok(device);
    }
    Err(failure(format!("device: expected a LiteDeviceType, got {device}")))
}

fn address(name: &str, pointer: *mut c_void) -> Result<usize, Failure> {
    if pointer.is_null() {
        Err(failure(format!("{name}: expected an address, got NULL")))
    } else {
        Ok(pointer.addr())
    }
}

/// `LITE_register_memory_pair`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn LITE_register_memory_pair(
    vir_ptr: *mut c_void,
    phy_ptr: *mut c_void,
    length: usize,
    device: c_int,
    backend: c_int,
) -> c_int {
    done(|| {
        let device = place(device, backend)?;
        let (virtual_, physical) = (address("vir_ptr", vir_ptr)?, address("phy_ptr", phy_ptr)?);
        if length == 0 || virtual_.checked_add(length).is_none() || physical.checked_add(length).is_none() {
            return Err(failure(format!(
                "length: expected at least 1, and no more than there are addresses, got {length}"
            )));
        }
        let mut pairs = PAIRS.lock();
        let crossed = pairs.range((device, 0)..=(device, usize::MAX)).find(|&(&(_, start), &(_, extent))| {
            start != virtual_ && virtual_ < start + extent && start < virtual_ + length
        });
        if let Some((&(_, start), _)) = crossed {
            return Err(failure(format!("vir_ptr: {virtual_:#x} overlaps the pair at {start:#x}")));
        }
        pairs.insert((device, virtual_), (physical, length));
        Ok(())
    })
}

/// `LITE_clear_memory_pair`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn LITE_clear_memory_pair(
    vir_ptr: *mut c_void,
    phy_ptr: *mut c_void,
    device: c_int,
    backend: c_int,
) -> c_int {
    done(|| {
        let device = place(device, backend)?;
        let (virtual_, physical) = (address("vir_ptr", vir_ptr)?, address("phy_ptr", phy_ptr)?);
        let mut pairs = PAIRS.lock();
        if pairs.get(&(device, virtual_)).is_none_or(|(found, _)| *found != physical) {
            return Err(failure(format!(
                "vir_ptr: there is no pair {virtual_:#x}, {physical:#x} on device type {device}"
            )));
        }
        pairs.remove(&(device, virtual_));
        Ok(())
    })
}

/// `LITE_lookup_physic_ptr`: the address may lie anywhere in the bytes of a pair.
///
/// # Safety
/// `phy_ptr` is NULL or can be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_lookup_physic_ptr(
    vir_ptr: *mut c_void,
    phy_ptr: *mut *mut c_void,
    device: c_int,
    backend: c_int,
) -> c_int {
    done(|| {
        let device = place(device, backend)?;
        let virtual_ = address("vir_ptr", vir_ptr)?;
        let pairs = PAIRS.lock();
        let found = pairs.range((device, 0)..=(device, virtual_)).next_back();
        let found = found.filter(|&(&(_, start), &(_, extent))| virtual_ - start < extent);
        let (&(_, start), &(physical, _)) = found.ok_or_else(|| {
            failure(format!("vir_ptr: {virtual_:#x} is in no registered pair on device type {device}"))
        })?;
        // SAFETY: the caller's promise.
        unsafe { give("phy_ptr", phy_ptr, std::ptr::without_provenance_mut(physical + virtual_ - start)) }
    })
}

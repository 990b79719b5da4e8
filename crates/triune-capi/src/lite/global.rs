//! What belongs to no network, and the headers' defaults.

use std::{
    cell::UnsafeCell,
    ffi::{c_int, c_void},
    ptr,
    sync::atomic::{AtomicI32, Ordering},
};

use super::{
    failure::{done, failure, give},
    types::{CPU, Config, DEVICE_DEFAULT, IO_VALUE, Io, Layout, NetworkIo, Options, TensorDesc},
};

/// The vendor's release whose interface this is.
const VERSION: [c_int; 3] = [1, 13, 0];
/// `INFO`, at first. Nothing here logs.
static LEVEL: AtomicI32 = AtomicI32::new(1);

/// `default_layout`.
#[unsafe(no_mangle)]
pub(crate) static default_layout: Layout = Layout::EMPTY;
/// `default_desc`.
#[unsafe(no_mangle)]
pub(crate) static default_desc: TensorDesc =
    TensorDesc { is_pinned_host: 0, layout: Layout::EMPTY, device_type: CPU, device_id: 0 };
/// `default_option`.
#[unsafe(no_mangle)]
pub(crate) static default_option: Options = Options::DEFAULT;
/// `default_io`.
#[unsafe(no_mangle)]
pub(crate) static default_io: Io =
    Io { name: ptr::null(), is_host: 1, io_type: IO_VALUE, config_layout: Layout::EMPTY };

thread_local! {
    static CONFIG: UnsafeCell<Config> = const { UnsafeCell::new(Config::DEFAULT) };
    static NETWORK_IO: UnsafeCell<NetworkIo> = const { UnsafeCell::new(NetworkIo::DEFAULT) };
}

/// `default_config`: the defaults, whatever the program wrote there before; one per thread.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn default_config() -> *mut Config {
    CONFIG.with(|config| {
        // SAFETY: this thread's own, and nobody borrows it.
        unsafe { config.get().write(Config::DEFAULT) };
        config.get()
    })
}

/// `default_network_io`, likewise.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn default_network_io() -> *mut NetworkIo {
    NETWORK_IO.with(|io| {
        // SAFETY: this thread's own, and nobody borrows it.
        unsafe { io.get().write(NetworkIo::DEFAULT) };
        io.get()
    })
}

/// `LITE_get_version`.
///
/// # Safety
/// The places are NULL or can be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_get_version(
    major: *mut c_int,
    minor: *mut c_int,
    patch: *mut c_int,
) -> c_int {
    done(|| {
        for (name, place, value) in
            [("major", major, VERSION[0]), ("minor", minor, VERSION[1]), ("patch", patch, VERSION[2])]
        {
            // SAFETY: the caller's promise.
            unsafe { give(name, place, value) }?;
        }
        Ok(())
    })
}

/// `LITE_get_device_count`: of the host, its CPUs; there is nothing else here.
///
/// # Safety
/// `count` is NULL or can be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_get_device_count(device_type: c_int, count: *mut usize) -> c_int {
    done(|| {
        if !(CPU..=DEVICE_DEFAULT).contains(&device_type) {
            return Err(failure(format!("device_type: expected a LiteDeviceType, got {device_type}")));
        }
        let host = matches!(device_type, CPU | DEVICE_DEFAULT);
        let there = if host { std::thread::available_parallelism().map_or(1, usize::from) } else { 0 };
        // SAFETY: the caller's promise.
        unsafe { give("count", count, there) }
    })
}

/// `LITE_try_coalesce_all_free_memory`: memory is given back when it is no longer used.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn LITE_try_coalesce_all_free_memory() -> c_int {
    0
}

/// `LITE_set_log_level`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn LITE_set_log_level(level: c_int) -> c_int {
    done(|| {
        if !(0..=3).contains(&level) {
            return Err(failure(format!("set_log_level: expected a LiteLogLevel (0 to 3), got {level}")));
        }
        LEVEL.store(level, Ordering::Relaxed);
        Ok(())
    })
}

/// `LITE_get_log_level`.
///
/// # Safety
/// `level` is NULL or can be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_get_log_level(level: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    done(|| unsafe { give("level", level, LEVEL.load(Ordering::Relaxed)) })
}

/// `LITE_memset`, as `memset`.
///
/// # Safety
/// So many bytes can be written there.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_memset(s: *mut c_void, c: c_int, n: usize) -> *mut c_void {
    if !s.is_null() {
        // SAFETY: the caller's promise.
        unsafe { ptr::write_bytes(s.cast::<u8>(), c as u8, n) };
    }
    s
}

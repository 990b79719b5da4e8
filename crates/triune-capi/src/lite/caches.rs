//! What programs written for other devices ask for, and what has no effect here: files of caches are kept, a library is not loaded.

use std::{
    ffi::{c_char, c_int},
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use triune::internals::{files, fork::Brief};

use super::{
    failure::{Failure, done, failure, path},
    network::with,
    types::Handle,
};
/// What a fast-run cache of no categories holds: their number.
const EMPTY_CACHE: [u8; 4] = [0; 4];
/// As many bytes as a file of a cache may have.
const MOST_BYTES: u64 = 1 << 33;
/// How shared libraries begin: ELF, and Mach-O for one architecture or several.
const LIBRARIES: [&[u8]; 3] = [b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe"];

static PERSISTENT: Brief<Option<Vec<u8>>> = Brief::new(None);
static TENSORRT: Brief<Option<PathBuf>> = Brief::new(None);

fn unusable(function: &str, path: &Path, error: impl std::fmt::Display) -> Failure {
    failure(format!("{function}: '{}': {error}", path.display()))
}

/// `LITE_set_persistent_cache`: kept for `LITE_dump_persistent_cache`, without effect, as there is no search among algorithms. A file
/// that is missing is an empty one.
///
/// # Safety
/// `cache_path` is NULL or a text.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_set_persistent_cache(
    cache_path: *const c_char,
    _always_sync: c_int,
) -> c_int {
    done(|| {
        // SAFETY: the caller's promise.
        let path = unsafe { path("cache_path", cache_path) }?;
        let content = if fs::symlink_metadata(path).is_ok() {
            Some(
                files::read(path, MOST_BYTES)
                    .map_err(|error| failure(format!("set_persistent_cache: {error}")))?,
            )
        } else {
            None
        };
        *PERSISTENT.lock() = content;
        Ok(())
    })
}

/// `LITE_dump_persistent_cache`: what was set, or an empty cache.
///
/// # Safety
/// `cache_path` is NULL or a text.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_dump_persistent_cache(cache_path: *const c_char) -> c_int {
    done(|| {
        // SAFETY: the caller's promise.
        let path = unsafe { path("cache_path", cache_path) }?;
        let content = PERSISTENT.lock().clone();
        let content = content.as_deref().unwrap_or(&EMPTY_CACHE);
        files::write(path, content).map_err(|error| failure(format!("dump_persistent_cache: {error}")))
    })
}

/// `LITE_set_tensor_rt_cache`: no effect, as there is no `TensorRT`.
///
/// # Safety
/// `cache_path` is NULL or a text.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_set_tensor_rt_cache(cache_path: *const c_char) -> c_int {
    done(|| {
        // SAFETY: the caller's promise.
        *TENSORRT.lock() = Some(unsafe { path("cache_path", cache_path) }?.to_path_buf());
        Ok(())
    })
}

/// `LITE_dump_tensor_rt_cache`: the file that was named stays as it is, or is made empty.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn LITE_dump_tensor_rt_cache() -> c_int {
    done(|| {
        let path = TENSORRT.lock().clone();
        let path = path.ok_or_else(|| {
            failure("dump_tensor_rt_cache: call LITE_set_tensor_rt_cache first, to name a file")
        })?;
        let opened = fs::OpenOptions::new().append(true).create(true).open(&path);
        opened.map(drop).map_err(|error| unusable("dump_tensor_rt_cache", &path, error))
    })
}

/// `LITE_set_loader_lib_path`: the library is there, and not loaded. A model with machine code for it is refused, all others run.
///
/// # Safety
/// `loader_path` is NULL or a text.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_set_loader_lib_path(loader_path: *const c_char) -> c_int {
    done(|| {
        // SAFETY: the caller's promise.
        let path = unsafe { path("loader_path", loader_path) }?;
        let mut start = Vec::new();
        let file = fs::File::open(path).map_err(|error| unusable("set_loader_lib_path", path, error))?;
        file.take(4).read_to_end(&mut start).map_err(|error| unusable("set_loader_lib_path", path, error))?;
        if LIBRARIES.contains(&start.as_slice()) {
            return Ok(());
        }
        Err(failure(format!("set_loader_lib_path: '{}' is no shared library", path.display())))
    })
}

/// `LITE_use_tensorrt`: no effect, as there is no `TensorRT`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn LITE_use_tensorrt(network: Handle) -> c_int {
    with(network, |inner| inner.settable("TensorRT").map(|_| ()))
}

/// `LITE_enable_global_layout_transform`: no effect on runs, as kernels choose their layouts; the model's bytes are kept.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn LITE_enable_global_layout_transform(network: Handle) -> c_int {
    with(network, |inner| {
        inner.settable("the layout transform")?.keeps_bytes = true;
        Ok(())
    })
}

/// `LITE_dump_layout_transform_model`: the model as it was loaded, which can be loaded again.
///
/// # Safety
/// `dump_file_path` is NULL or a text.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_dump_layout_transform_model(
    network: Handle,
    dump_file_path: *const c_char,
) -> c_int {
    with(network, |inner| {
        // SAFETY: the caller's promise.
        let path = unsafe { path("dump_file_path", dump_file_path) }?;
        let bytes = inner.loaded()?.bytes.clone();
        let bytes = bytes.ok_or_else(|| {
            failure("dump_layout_transform_model: call LITE_enable_global_layout_transform before loading")
        })?;
        files::write(path, &bytes).map_err(|error| failure(format!("dump_layout_transform_model: {error}")))
    })
}

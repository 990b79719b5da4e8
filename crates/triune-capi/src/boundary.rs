//! What every function of either interface does at the border: texts in and out, arrays, and panics kept inside.

use std::{
    any::Any,
    cell::RefCell,
    ffi::{CStr, CString, OsStr, c_char},
    os::unix::ffi::OsStrExt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    slice,
};

/// Runs `work`; a panic becomes its text.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| panic_text(panic.as_ref()))
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "unknown panic".to_owned())
}

/// A text of C's; nothing for NULL. Bytes that are no UTF-8 are replaced.
///
/// # Safety
/// `text` is NULL or ends with a zero.
pub(crate) unsafe fn text(text: *const c_char) -> Option<String> {
    // SAFETY: the caller's promise.
    let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })?;
    Some(text.to_string_lossy().into_owned())
}

/// A path of C's, with the bytes that it has; nothing for NULL.
///
/// # Safety
/// `path` is NULL, or ends with a zero and stays as it is for `'a`.
pub(crate) unsafe fn path<'a>(path: *const c_char) -> Option<&'a Path> {
    // SAFETY: the caller's promise.
    let path = (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) })?;
    Some(Path::new(OsStr::from_bytes(path.to_bytes())))
}

/// An array of C's; nothing for NULL, unless there is nothing in it.
///
/// # Safety
/// `items` is NULL or has `count` items, which stay as they are for `'a`.
pub(crate) unsafe fn array<'a, T>(items: *const T, count: usize) -> Option<&'a [T]> {
    match (items.is_null(), count) {
        (_, 0) => Some(&[]),
        (true, _) => None,
        // SAFETY: the caller's promise.
        (false, _) => Some(unsafe { slice::from_raw_parts(items, count) }),
    }
}

/// A text as C has it: what is behind a zero is left out.
pub(crate) fn c_text(text: &str) -> CString {
    let text = text.split('\0').next().unwrap_or_default();
    // No zero is left.
    CString::new(text).unwrap_or_default()
}

thread_local! {
    static GIVEN: RefCell<CString> = RefCell::default();
}

/// Gives C a text of this thread's, which stays until the thread is given the next one.
pub(crate) fn give_text(text: &str) -> *const c_char {
    GIVEN.with_borrow_mut(|given| {
        *given = c_text(text);
        given.as_ptr()
    })
}

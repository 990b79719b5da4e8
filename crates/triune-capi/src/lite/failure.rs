//! What goes wrong: a text, which the thread keeps, and a code.

use std::{
    cell::{Cell, RefCell},
    ffi::{CString, c_char, c_int},
    path::Path,
};

use triune::internals::{
    fork::Forked,
    tensor::{OutOfMemory, text},
};

use crate::boundary;

/// An error of the interface.
#[derive(Debug)]
pub(crate) struct Failure(String);

/// The failure with a text, which is shortened where it is long.
pub(crate) fn failure(text: impl AsRef<str>) -> Failure {
    Failure(text::message(text))
}

impl From<triune::Error> for Failure {
    fn from(error: triune::Error) -> Self {
        failure(error.to_string())
    }
}

impl From<Forked> for Failure {
    fn from(error: Forked) -> Self {
        failure(error.to_string())
    }
}

impl From<OutOfMemory> for Failure {
    fn from(error: OutOfMemory) -> Self {
        failure(error.to_string())
    }
}

/// `ErrorCode`.
const OK: c_int = 0;
const INTERNAL_ERROR: c_int = 1;
const UNKNOWN_ERROR: c_int = 2;

thread_local! {
    static CODE: Cell<c_int> = const { Cell::new(OK) };
    static TEXT: RefCell<CString> = RefCell::default();
}

/// Does `work`; gives 0, or -1 and keeps why.
pub(crate) fn done(work: impl FnOnce() -> Result<(), Failure>) -> c_int {
    let (code, text) = match boundary::caught(work) {
        Ok(Ok(())) => return 0,
        Ok(Err(Failure(text))) => (INTERNAL_ERROR, text),
        Err(panic) => (UNKNOWN_ERROR, panic),
    };
    CODE.set(code);
    TEXT.set(boundary::c_text(&text));
    -1
}

/// `LITE_get_last_error`: the text stays until the next error of this thread.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn LITE_get_last_error() -> *const c_char {
    TEXT.with_borrow(|text| text.as_ptr())
}

/// `LITE_get_last_error_code`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn LITE_get_last_error_code() -> c_int {
    CODE.get()
}

/// `LITE_clear_last_error`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn LITE_clear_last_error() {
    CODE.set(OK);
    TEXT.take();
}

/// The path that an argument is.
///
/// # Safety
/// `path` is NULL, or a text that stays as it is for `'a`.
pub(crate) unsafe fn path<'a>(argument: &str, path: *const c_char) -> Result<&'a Path, Failure> {
    // SAFETY: the caller's promise.
    let path = unsafe { boundary::path(path) };
    path.ok_or_else(|| failure(format!("{argument}: expected a path, got NULL")))
}

/// What an argument points at, to write there.
///
/// # Safety
/// `place` is NULL or can be written.
pub(crate) unsafe fn give<T>(name: &str, place: *mut T, value: T) -> Result<(), Failure> {
    if place.is_null() {
        return Err(failure(format!("{name}: expected a place for the result, got NULL")));
    }
    // SAFETY: the caller's promise.
    unsafe { place.write(value) };
    Ok(())
}

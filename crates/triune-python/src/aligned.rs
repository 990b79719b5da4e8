//! Memory of numpy's arrays that begins with a cache line: vectors that are stored across two lines cost twice.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::ffi::{CStr, c_void};

use numpy::npyffi::PY_ARRAY_API;
use pyo3::{prelude::*, sync::PyOnceLock, types::PyCapsule};

/// Bytes of a cache line.
const LINE: usize = 64;

/// Smaller arrays lie as numpy has them, which takes less time.
pub(crate) const LEAST: usize = 1 << 12;

/// Numpy's functions for an array's memory, `PyDataMem_Handler` of its headers (since 1.22).
#[repr(C)]
struct Handler {
    /// Text with a 0 at its end.
    name: [u8; 127],
    version: u8,
    context: *mut c_void,
    alloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    zeroed: unsafe extern "C" fn(*mut c_void, usize, usize) -> *mut c_void,
    resize: unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void, *mut c_void, usize),
}

// SAFETY: nothing of it changes, and its context is never looked at.
unsafe impl Sync for Handler {}

const fn name() -> [u8; 127] {
    let (text, mut name, mut index) = (b"triune_lines", [0; 127], 0);
    while index < text.len() {
        name[index] = text[index];
        index += 1;
    }
    name
}

static HANDLER: Handler = Handler {
    name: name(),
    version: 1,
    context: std::ptr::null_mut(),
    alloc: line_alloc,
    zeroed: line_zeroed,
    resize: line_resize,
    free: line_free,
};

/// The memory behind an array of so many bytes: a line that says how many there are goes before them.
fn layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size.max(1).checked_add(LINE)?, LINE).ok()
}

/// What [`behind`] was told of the memory at `block`.
///
/// # Safety
/// It made that memory an array's.
unsafe fn size_at(block: *const u8) -> usize {
    // SAFETY: as the caller says.
    usize::from_ne_bytes(unsafe { block.cast::<[u8; size_of::<usize>()]>().read() })
}

/// Where the array's bytes begin.
///
/// # Safety
/// `block` is null or has `layout(size)`.
unsafe fn behind(block: *mut u8, size: usize) -> *mut c_void {
    if block.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: a line and more, as the caller says.
    unsafe {
        block.cast::<[u8; size_of::<usize>()]>().write(size.to_ne_bytes());
        block.add(LINE).cast()
    }
}

unsafe extern "C" fn line_alloc(_: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: never of no bytes.
    layout(size).map_or(std::ptr::null_mut(), |layout| unsafe { behind(alloc(layout), size) })
}

unsafe extern "C" fn line_zeroed(_: *mut c_void, count: usize, each: usize) -> *mut c_void {
    let size = count.checked_mul(each);
    let known = size.and_then(|size| layout(size).map(|layout| (size, layout)));
    // SAFETY: never of no bytes.
    known.map_or(std::ptr::null_mut(), |(size, layout)| unsafe { behind(alloc_zeroed(layout), size) })
}

unsafe extern "C" fn line_resize(context: *mut c_void, array: *mut c_void, size: usize) -> *mut c_void {
    if array.is_null() {
        // SAFETY: what numpy means by it.
        return unsafe { line_alloc(context, size) };
    }
    let Some(new) = layout(size) else { return std::ptr::null_mut() };
    // SAFETY: numpy gives back what came from here, before which there is the line with its size.
    unsafe {
        let block = array.cast::<u8>().sub(LINE);
        let old = layout(size_at(block));
        old.map_or(std::ptr::null_mut(), |old| behind(realloc(block, old, new.size()), size))
    }
}

unsafe extern "C" fn line_free(_: *mut c_void, array: *mut c_void, _: usize) {
    if array.is_null() {
        return;
    }
    // SAFETY: as for `line_resize`.
    unsafe {
        let block = array.cast::<u8>().sub(LINE);
        if let Some(old) = layout(size_at(block)) {
            dealloc(block, old);
        }
    }
}

/// Has numpy take the memory of arrays that `make` makes from here.
pub(crate) fn within<T>(py: Python<'_>, make: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    /// Gives numpy back what it had.
    struct Back<'py>(Bound<'py, PyAny>);
    impl Drop for Back<'_> {
        fn drop(&mut self) {
            // SAFETY: a handler that numpy had; what it returns is a reference of our own.
            unsafe {
                let ours = PY_ARRAY_API.PyDataMem_SetHandler(self.0.py(), self.0.as_ptr());
                if let Err(error) = Bound::from_owned_ptr_or_err(self.0.py(), ours) {
                    error.write_unraisable(self.0.py(), None);
                }
            }
        }
    }
    const KIND: &CStr = c"mem_handler";
    static CAPSULE: PyOnceLock<Py<PyCapsule>> = PyOnceLock::new();
    let capsule = CAPSULE.get_or_try_init(py, || {
        // SAFETY: a handler of the form that numpy has, which is there for ever and only read.
        unsafe {
            let handler = (&raw const HANDLER).cast_mut().cast::<c_void>();
            let capsule = pyo3::ffi::PyCapsule_New(handler, KIND.as_ptr(), None);
            Ok::<_, PyErr>(Bound::from_owned_ptr_or_err(py, capsule)?.cast_into::<PyCapsule>()?.unbind())
        }
    })?;
    // SAFETY: a capsule with a handler; what is returned is a reference of our own.
    let before = unsafe {
        let before = PY_ARRAY_API.PyDataMem_SetHandler(py, capsule.as_ptr());
        Back(Bound::from_owned_ptr_or_err(py, before)?)
    };
    let made = make();
    drop(before);
    made
}

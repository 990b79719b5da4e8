//! Arrays keep their memory while the interpreter runs other threads.
//!
//! `ndarray.resize(refcheck=False)` moves an array's elements whoever uses them, buffers that were exported included; only a weak
//! reference keeps it from that. So every call that lets go of the interpreter has one to each array that its memory may belong to,
//! and a resize in another thread meanwhile raises numpy's own error there.

use numpy::PyUntypedArray;
use pyo3::{intern, prelude::*, types::PyWeakrefReference};

/// Arrays that cannot be resized while this lives.
#[derive(Default)]
pub(crate) struct Held<'py>(
    #[expect(dead_code, reason = "they are held")] Vec<Bound<'py, PyWeakrefReference>>,
);

impl<'py> Held<'py> {
    /// Holds arrays, and those that they are views of.
    pub(crate) fn new<'a>(arrays: impl IntoIterator<Item = &'a Bound<'py, PyUntypedArray>>) -> PyResult<Self>
    where
        'py: 'a,
    {
        let mut held = Vec::new();
        for array in arrays {
            let mut owner = Some(array.as_any().clone());
            // An array's base is None where the memory is its own.
            while let Some(object) = owner.filter(|object| !object.is_none()) {
                let py = object.py();
                owner = if object.is_instance_of::<PyUntypedArray>() {
                    held.push(PyWeakrefReference::new(&object)?);
                    Some(object.getattr(intern!(py, "base"))?)
                } else {
                    // A memoryview has an array behind it, too; what else exports a buffer does not move it meanwhile.
                    object.getattr_opt(intern!(py, "obj"))?
                };
            }
        }
        Ok(Self(held))
    }
}

//! Arrays that a session reads and writes in place, run after run.
//!
//! Why it is sound. A [`Bound`] owns references to its arrays, so their memory lives at least as long; a run holds the
//! `Bound` by an `Arc`, so a new binding cannot free what a run under way uses. Between runs, an array can be moved by
//! `resize(refcheck=False)`: its address and size are compared with those of the binding, with the interpreter held,
//! before every run, and it is held for the run. Outputs share no byte with any other bound array, which is checked when they are bound, so the slices
//! of a run alias nothing that Rust knows of. That nobody else writes the arrays during a run is the caller's part, as for
//! every operation of numpy that releases the interpreter.
#![expect(unsafe_code, reason = "reads the addresses of arrays, and their bytes; see above")]

use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods, npyffi::NPY_ARRAY_WRITEABLE};
use pyo3::prelude::*;
use triune::internals::{
    runtime::{Inputs, Outputs, Tensor},
    tensor::DType,
};

use crate::{array, error, held::Held};

/// What an array must be.
pub(crate) struct Expected<'a> {
    pub(crate) name: String,
    pub(crate) dtype: DType,
    pub(crate) shape: &'a [usize],
}

/// One array: a reference that keeps it alive, and where its elements were when it was bound.
struct Array {
    name: String,
    object: Py<PyUntypedArray>,
    data: *mut u8,
    bytes: usize,
}

/// A session's inputs and outputs.
pub(crate) struct Bound {
    inputs: Vec<Array>,
    /// `None` where the session keeps the result itself.
    outputs: Vec<Option<Array>>,
    plan: u64,
}

// SAFETY: the pointers are only followed under the conditions that the module describes, on whatever thread.
unsafe impl Send for Bound {}
// SAFETY: as above; a session runs one at a time, so no two threads write through them.
unsafe impl Sync for Bound {}

impl Array {
    fn new(object: &pyo3::Bound<'_, PyAny>, expected: &Expected<'_>, written: bool) -> PyResult<Self> {
        let array = array::check(&expected.name, object, expected.dtype, Some(expected.shape))?;
        let (data, writeable) = address(array);
        if written && !writeable {
            let text = format!("{}: expected a writeable array, got a read-only one", expected.name);
            return Err(error::argument(text));
        }
        let bytes = array.len() * expected.dtype.bytes();
        Ok(Self { name: expected.name.clone(), object: array.clone().unbind(), data, bytes })
    }

    /// Refuses an array whose elements have moved since it was bound.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        let array = self.object.bind(py);
        if address(array).0 == self.data && array.len() * array.dtype().itemsize() == self.bytes {
            return Ok(());
        }
        Err(error::argument(format!(
            "{}: the array was resized after it was bound; bind it again",
            self.name
        )))
    }

    fn overlaps(&self, other: &Self) -> bool {
        let (a, b) = (self.data.addr(), other.data.addr());
        self.bytes > 0 && other.bytes > 0 && a < b + other.bytes && b < a + self.bytes
    }
}

/// Where an array's elements are, and whether they may be written.
fn address(array: &pyo3::Bound<'_, PyUntypedArray>) -> (*mut u8, bool) {
    let array = array.as_array_ptr();
    // SAFETY: the interpreter is held and the object is alive and an array, says the type.
    unsafe { ((*array).data.cast(), (*array).flags & NPY_ARRAY_WRITEABLE != 0) }
}

impl Bound {
    /// Binds arrays, each with what it must be. Raises `ArgumentError` if one does not fit, or is written and shares
    /// memory with another.
    pub(crate) fn new(
        inputs: &[(pyo3::Bound<'_, PyAny>, Expected<'_>)],
        outputs: &[Option<(pyo3::Bound<'_, PyAny>, Expected<'_>)>],
        plan: u64,
    ) -> PyResult<Self> {
        let inputs: Vec<Array> = inputs
            .iter()
            .map(|(object, expected)| Array::new(object, expected, false))
            .collect::<PyResult<_>>()?;
        let outputs: Vec<Option<Array>> = outputs
            .iter()
            .map(|output| {
                output.as_ref().map(|(object, expected)| Array::new(object, expected, true)).transpose()
            })
            .collect::<PyResult<_>>()?;
        let written: Vec<&Array> = outputs.iter().flatten().collect();
        for (index, &array) in written.iter().enumerate() {
            if let Some(other) =
                inputs.iter().chain(written[..index].iter().copied()).find(|each| each.overlaps(array))
            {
                let text = format!(
                    "{}: expected memory of its own, got memory that {} has, too",
                    array.name, other.name
                );
                return Err(error::argument(text));
            }
        }
        Ok(Self { inputs, outputs, plan })
    }

    /// Holds the arrays for a run, before every run; refuses those that have moved since they were bound.
    pub(crate) fn hold<'py>(&self, py: Python<'py>) -> PyResult<Held<'py>> {
        let arrays = || self.inputs.iter().chain(self.outputs.iter().flatten());
        arrays().try_for_each(|array| array.check(py))?;
        Held::new(arrays().map(|array| array.object.bind(py)))
    }

    /// The plan that the arrays were bound for.
    pub(crate) fn plan(&self) -> u64 {
        self.plan
    }

    /// Whether output `index` is an array of the caller's.
    pub(crate) fn has_output(&self, index: usize) -> bool {
        matches!(self.outputs.get(index), Some(Some(_)))
    }
}

/// The bytes of bound inputs for one run.
///
/// To be made and used by one thread at a time, while what [`Bound::hold`] gave is held, and before the interpreter is held again.
pub(crate) struct Given<'a>(pub(crate) &'a Bound);

impl Inputs for Given<'_> {
    fn input(&self, index: usize) -> &[u8] {
        let array = &self.0.inputs[index];
        // SAFETY: alive and of this size as `hold` found; an array always has an address, an empty one, too.
        unsafe { std::slice::from_raw_parts(array.data, array.bytes) }
    }
}

/// The bytes of bound outputs for one run, and room for those without an array; to be used as [`Given`] is, and but one of them.
pub(crate) struct Taken<'a> {
    pub(crate) bound: &'a Bound,
    pub(crate) own: &'a mut [Option<Tensor>],
}

impl Taken<'_> {
    /// The bytes of each output, `None` of one without an array.
    pub(crate) fn arrays(&mut self) -> impl Iterator<Item = Option<&mut [u8]>> {
        self.bound.outputs.iter().map(|array| {
            // SAFETY: as for inputs; disjoint from every other bound array as `new` found, given out once, and borrowed as this is.
            array.as_ref().map(|array| unsafe { std::slice::from_raw_parts_mut(array.data, array.bytes) })
        })
    }
}

impl Outputs for Taken<'_> {
    fn output(&mut self, index: usize) -> &mut [u8] {
        match (&self.bound.outputs[index], &mut self.own[index]) {
            // SAFETY: as for inputs; disjoint from every other bound array as `new` found, and borrowed as this is.
            (Some(array), _) => unsafe { std::slice::from_raw_parts_mut(array.data, array.bytes) },
            (None, Some(tensor)) => &mut tensor.bytes,
            (None, None) => &mut [],
        }
    }
}

//! Numpy arrays as bytes, both ways without a copy. What does not fit is named, with what was expected and what came.

use std::{
    io::ErrorKind,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use bytemuck::{cast_slice, cast_slice_mut};
use numpy::{
    BorrowError, PyArray1, PyArrayDescr, PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyReadonlyArray1,
    PyReadonlyArrayDyn, PyReadwriteArray1, PyReadwriteArrayDyn, PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::{
    exceptions::{PyImportError, PyMemoryError},
    intern,
    prelude::*,
    sync::PyOnceLock,
    types::{PyBytes, PyList, PyString, PyTuple},
};
use triune::internals::{
    runtime::StringTensor,
    tensor::{
        DType, MAX_RANK, Shape,
        memory::{self, Room},
    },
};

use crate::{aligned, error, held::Held, interpreter};

/// Looks up the C interface of a numpy that is imported, once for all: before the first work, which comes before the first array.
///
/// That takes several steps of Python, and the numpy crate panics where a signal's handler raises in one of them. Handlers run in
/// the main thread alone, so another one does it.
///
/// Raises `ImportError` if it is not there, and what a signal's handler does meanwhile.
pub(crate) fn prepare(py: Python<'_>) -> PyResult<()> {
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.load(Ordering::Acquire) || !py.import("sys")?.getattr("modules")?.contains("numpy")? {
        return Ok(());
    }
    // What an element takes is asked through the interface, in words that hang on its version.
    let look = |py: Python<'_>| {
        numpy::dtype::<u8>(py).itemsize();
    };
    let found = if interpreter::is_main(py) {
        let thread = std::thread::Builder::new();
        let spawned = py.detach(|| thread.spawn(move || Python::attach(look)).map(JoinHandle::join));
        spawned.map_err(|error| match error.kind() {
            // What the system says of a process that may have no more memory, or no more threads.
            ErrorKind::WouldBlock => PyMemoryError::new_err(format!(
                "no thread can be started: its stack has no room, or this process has as many as it may ({error})"
            )),
            _ => error.into(),
        })?
    } else {
        catch_unwind(AssertUnwindSafe(|| look(py)))
    };
    found.map_err(|panic| PyImportError::new_err(error::panic_text(panic.as_ref())))?;
    DONE.store(true, Ordering::Release);
    Ok(())
}

/// The numpy descriptor of an element type.
pub(crate) fn descriptor(py: Python<'_>, dtype: DType) -> PyResult<Bound<'_, PyArrayDescr>> {
    Ok(match dtype {
        DType::Bool => numpy::dtype::<bool>(py),
        DType::U8 => numpy::dtype::<u8>(py),
        DType::I8 => numpy::dtype::<i8>(py),
        DType::U16 => numpy::dtype::<u16>(py),
        DType::I16 => numpy::dtype::<i16>(py),
        DType::U32 => numpy::dtype::<u32>(py),
        DType::I32 => numpy::dtype::<i32>(py),
        DType::U64 => numpy::dtype::<u64>(py),
        DType::I64 => numpy::dtype::<i64>(py),
        DType::F16 => PyArrayDescr::new(py, dtype.name())?,
        DType::F32 => numpy::dtype::<f32>(py),
        DType::F64 => numpy::dtype::<f64>(py),
        // Those that numpy does not have itself come with ml_dtypes; without it, arrays hold their patterns.
        _ => match py.import(intern!(py, "ml_dtypes")) {
            Ok(extension) => {
                extension.getattr(dtype.name()).and_then(|dtype| PyArrayDescr::new(py, dtype))?
            }
            Err(error) if error.is_instance_of::<PyImportError>(py) => patterns(py, dtype),
            Err(error) => return Err(error),
        },
    })
}

/// The descriptor of as many bytes as an element has.
fn patterns(py: Python<'_>, dtype: DType) -> Bound<'_, PyArrayDescr> {
    if dtype.bytes() == 1 { numpy::dtype::<u8>(py) } else { numpy::dtype::<u16>(py) }
}

/// A Python tuple's spelling of a shape.
pub(crate) fn tuple(shape: &[usize]) -> String {
    match shape {
        [one] => format!("({one},)"),
        all => format!("({})", all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// Checks that `object` is a C-contiguous array of that type and shape (any shape where it is `None`).
pub(crate) fn check<'a, 'py>(
    name: &str,
    object: &'a Bound<'py, PyAny>,
    dtype: DType,
    shape: Option<&[usize]>,
) -> PyResult<&'a Bound<'py, PyUntypedArray>> {
    let fail = |expected: String, got: String| {
        Err(error::argument(format!("{name}: expected {expected}, got {got}")))
    };
    if is_masked(object)? {
        return fail("an array".to_owned(), MASKED.to_owned());
    }
    let Ok(array) = object.cast::<PyUntypedArray>() else {
        let got =
            object.get_type().name().map_or_else(|_| "another object".to_owned(), |name| name.to_string());
        return fail(format!("a numpy array of {dtype}"), got);
    };
    let found = array.dtype();
    let is_stored = dtype.is_storage() || dtype == DType::BF16;
    let expected = descriptor(object.py(), dtype)?;
    // Numpy has one object for each type of its own; whether two are alike takes longer.
    let fits = found.is(&expected)
        || found.is_equiv_to(&expected)
        || is_stored && found.is_equiv_to(&patterns(object.py(), dtype));
    if !fits {
        let hint =
            if dtype.is_quantized() && found.kind() == b'f' { " (quantize and pad it first)" } else { "" };
        return fail(format!("dtype {dtype}"), format!("{found}{hint}"));
    }
    if let Some(shape) = shape
        && array.shape() != shape
    {
        return fail(format!("shape {}", tuple(shape)), tuple(array.shape()));
    }
    if !array.is_c_contiguous() {
        return fail(
            "a C-contiguous array".to_owned(),
            "another layout (use numpy.ascontiguousarray)".to_owned(),
        );
    }
    Ok(array)
}

/// What is said to a masked array.
const MASKED: &str = "a masked one, which has elements without a value: pass array.filled(value)";

/// Whether `object` is a masked array of numpy's, whose memory holds numbers that its owner has struck out.
fn is_masked(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    if object.is_exact_instance_of::<PyUntypedArray>() || object.cast::<PyUntypedArray>().is_err() {
        return Ok(false);
    }
    object.is_instance(&py.import(intern!(py, "numpy.ma"))?.getattr(intern!(py, "MaskedArray"))?)
}

/// The error for an array that somebody else uses.
pub(crate) fn in_use(name: &str, error: &BorrowError) -> PyErr {
    error::argument(match error {
        BorrowError::NotWriteable => format!("{name}: expected a writeable array, got a read-only one"),
        _ => {
            format!(
                "{name}: expected an array that nobody else uses, got one that another argument or call uses now"
            )
        }
    })
}

/// The elements of an array of str, or of UTF-8 in bytes: one of objects, or of one of numpy's own types for them.
pub(crate) fn strings(name: &str, object: &Bound<'_, PyAny>) -> PyResult<StringTensor> {
    let py = object.py();
    let fail =
        |expected: &str, got: String| error::argument(format!("{name}: expected {expected}, got {got}"));
    let Ok(array) = object.cast::<PyUntypedArray>() else {
        let got = object.get_type().name()?;
        return Err(fail("a numpy array of strings", got.to_string()));
    };
    if !matches!(array.dtype().kind(), b'O' | b'U' | b'S' | b'T') {
        return Err(fail("a numpy array of strings", array.dtype().to_string()));
    }
    let shape = Shape::new(array.shape());
    let shape = shape
        .ok_or_else(|| fail(&format!("{MAX_RANK} dimensions at most"), array.shape().len().to_string()))?;
    let list = array.call_method1(intern!(py, "reshape"), (-1,))?.call_method0(intern!(py, "tolist"))?;
    let list = list.cast_into::<PyList>()?;
    let mut texts = memory::with_room(list.len()).map_err(error::out_of_memory)?;
    let mut room = Room::new();
    for (index, element) in list.iter().enumerate() {
        heed_signals(py, index)?;
        let text = if let Ok(text) = element.cast::<PyString>() {
            text.to_str()
                .map_err(|_| fail("strings of Unicode", format!("element {index} with half a pair")))?
        } else if let Ok(bytes) = element.cast::<PyBytes>() {
            let text = std::str::from_utf8(bytes.as_bytes());
            text.map_err(|_| fail("UTF-8", format!("other bytes in element {index}")))?
        } else {
            let got = element.get_type().name()?;
            return Err(fail("strings", format!("{got} in element {index}")));
        };
        room.take(text.len() as u64 + 32).map_err(error::out_of_memory)?;
        texts.push(Arc::from(text));
    }
    Ok(StringTensor { shape, texts })
}

/// Lets a signal's handler end a loop that makes many objects of Python's, or looks at them, and holds the interpreter meanwhile.
pub(crate) fn heed_signals(py: Python<'_>, round: usize) -> PyResult<()> {
    const ROUNDS: usize = 4096;
    if round.is_multiple_of(ROUNDS) { py.check_signals() } else { Ok(()) }
}

/// Strings as an array of objects.
pub(crate) fn from_strings<'py>(py: Python<'py>, strings: &StringTensor) -> PyResult<Bound<'py, PyAny>> {
    let texts = PyList::empty(py);
    for (index, text) in strings.texts.iter().enumerate() {
        heed_signals(py, index)?;
        // In general, PyO3 panics when there is no memory for a string.
        texts.append(PyString::from_bytes(py, text.as_bytes())?)?;
    }
    let object = PyArrayDescr::new(py, "object")?;
    let numpy = py.import(intern!(py, "numpy"))?;
    let flat = numpy.call_method1(intern!(py, "array"), (texts, object))?;
    flat.call_method1(intern!(py, "reshape"), (PyTuple::new(py, strings.shape.iter())?,))
}

/// The array as a flat view of its bytes; no copy, as it is contiguous.
fn bytes_view<'py>(array: &Bound<'py, PyUntypedArray>) -> PyResult<Bound<'py, PyArray1<u8>>> {
    let py = array.py();
    let flat = array.call_method1(intern!(py, "reshape"), (-1,))?;
    Ok(flat.call_method1(intern!(py, "view"), (descriptor(py, DType::U8)?,))?.cast_into::<PyArray1<u8>>()?)
}

/// An array that is read; nobody writes or resizes it while this lives.
pub(crate) struct Input<'py> {
    elements: Read<'py>,
    _held: Held<'py>,
}

/// Elements as what they are where that is common: a view in bytes takes two calls of numpy.
enum Read<'py> {
    I8(PyReadonlyArrayDyn<'py, i8>),
    U8(PyReadonlyArrayDyn<'py, u8>),
    F32(PyReadonlyArrayDyn<'py, f32>),
    I64(PyReadonlyArrayDyn<'py, i64>),
    Other(PyReadonlyArray1<'py, u8>),
}

impl<'py> Input<'py> {
    /// Borrows an array that [`check`] has passed.
    pub(crate) fn new(name: &str, array: &Bound<'py, PyUntypedArray>) -> PyResult<Self> {
        let used = |error| in_use(name, &error);
        let held = Held::new([array])?;
        let elements = if let Ok(array) = array.cast::<PyArrayDyn<f32>>() {
            Read::F32(array.try_readonly().map_err(used)?)
        } else if let Ok(array) = array.cast::<PyArrayDyn<u8>>() {
            Read::U8(array.try_readonly().map_err(used)?)
        } else if let Ok(array) = array.cast::<PyArrayDyn<i8>>() {
            Read::I8(array.try_readonly().map_err(used)?)
        } else if let Ok(array) = array.cast::<PyArrayDyn<i64>>() {
            Read::I64(array.try_readonly().map_err(used)?)
        } else {
            Read::Other(bytes_view(array)?.try_readonly().map_err(used)?)
        };
        Ok(Self { elements, _held: held })
    }

    /// The array's bytes.
    pub(crate) fn bytes(&self) -> PyResult<&[u8]> {
        Ok(match &self.elements {
            Read::I8(array) => cast_slice(array.as_slice()?),
            Read::U8(array) => array.as_slice()?,
            Read::F32(array) => cast_slice(array.as_slice()?),
            Read::I64(array) => cast_slice(array.as_slice()?),
            Read::Other(array) => array.as_slice()?,
        })
    }
}

/// An array that is written; nobody else uses or resizes it while this lives.
pub(crate) struct Output<'py> {
    elements: Written<'py>,
    _held: Held<'py>,
}

/// Its elements by their type, written in place.
enum Written<'py> {
    I8(PyReadwriteArrayDyn<'py, i8>),
    U8(PyReadwriteArrayDyn<'py, u8>),
    F32(PyReadwriteArrayDyn<'py, f32>),
    I64(PyReadwriteArrayDyn<'py, i64>),
    Other(PyReadwriteArray1<'py, u8>),
}

impl<'py> Output<'py> {
    /// Borrows an array that [`check`] has passed.
    pub(crate) fn new(name: &str, array: &Bound<'py, PyUntypedArray>) -> PyResult<Self> {
        let used = |error| in_use(name, &error);
        let held = Held::new([array])?;
        let elements = if let Ok(array) = array.cast::<PyArrayDyn<f32>>() {
            Written::F32(array.try_readwrite().map_err(used)?)
        } else if let Ok(array) = array.cast::<PyArrayDyn<u8>>() {
            Written::U8(array.try_readwrite().map_err(used)?)
        } else if let Ok(array) = array.cast::<PyArrayDyn<i8>>() {
            Written::I8(array.try_readwrite().map_err(used)?)
        } else if let Ok(array) = array.cast::<PyArrayDyn<i64>>() {
            Written::I64(array.try_readwrite().map_err(used)?)
        } else {
            Written::Other(bytes_view(array)?.try_readwrite().map_err(used)?)
        };
        Ok(Self { elements, _held: held })
    }

    /// The array's bytes.
    pub(crate) fn bytes(&mut self) -> PyResult<&mut [u8]> {
        Ok(match &mut self.elements {
            Written::I8(array) => cast_slice_mut(array.as_slice_mut()?),
            Written::U8(array) => array.as_slice_mut()?,
            Written::F32(array) => cast_slice_mut(array.as_slice_mut()?),
            Written::I64(array) => cast_slice_mut(array.as_slice_mut()?),
            Written::Other(array) => array.as_slice_mut()?,
        })
    }
}

/// A new array of whatever lay there. What there is no memory for is `MemoryError`, as numpy has it.
pub(crate) fn empty<'py>(
    py: Python<'py>,
    dtype: DType,
    shape: &[usize],
) -> PyResult<Bound<'py, PyUntypedArray>> {
    // Kept, as an import takes longer than a small array.
    static EMPTY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let empty = EMPTY.import(py, "numpy", "empty")?;
    let shaped = (PyTuple::new(py, shape)?, descriptor(py, dtype)?);
    let bytes = shape.iter().try_fold(dtype.bytes(), |bytes, &extent| bytes.checked_mul(extent));
    let small = bytes.is_some_and(|bytes| bytes < aligned::LEAST);
    let empty = if small { empty.call1(shaped)? } else { aligned::within(py, || empty.call1(shaped))? };
    Ok(empty.cast_into::<PyUntypedArray>()?)
}

/// A new array of zeros. What there is no memory for is `MemoryError`, as numpy has it.
pub(crate) fn zeros<'py>(
    py: Python<'py>,
    dtype: DType,
    shape: &[usize],
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let numpy = py.import(intern!(py, "numpy"))?;
    let zeros =
        numpy.call_method1(intern!(py, "zeros"), (PyTuple::new(py, shape)?, descriptor(py, dtype)?))?;
    Ok(zeros.cast_into::<PyUntypedArray>()?)
}

/// A new array of that type and shape that holds `bytes`.
pub(crate) fn from_bytes<'py>(
    py: Python<'py>,
    dtype: DType,
    shape: &Shape,
    bytes: Vec<u8>,
) -> PyResult<Bound<'py, PyAny>> {
    /// Bytes that are copied rather than given away: what keeps a vector for numpy is made without asking whether there is
    /// memory, which lists of many small tensors use up.
    const SMALL: usize = 1 << 12;
    let flat = if bytes.len() <= SMALL {
        let flat = empty(py, DType::U8, &[bytes.len()])?.cast_into::<PyArray1<u8>>()?;
        flat.try_readwrite().map_err(PyErr::from)?.as_slice_mut()?.copy_from_slice(&bytes);
        flat
    } else {
        PyArray1::from_vec(py, bytes)
    };
    let typed = flat.call_method1(intern!(py, "view"), (descriptor(py, dtype)?,))?;
    typed.call_method1(intern!(py, "reshape"), (shape.to_vec(),))
}

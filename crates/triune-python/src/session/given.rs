//! What one run is given by name, and what it gives back.

use numpy::PyUntypedArrayMethods;
use pyo3::{prelude::*, types::PyList};
use triune::internals::{
    runtime::{Maps, Model, StringTensor, Tensor, TensorRef, Value, ValueInfo, ValueKind, ValueRef},
    tensor::{DType, MAX_RANK, OutOfMemory, Shape, memory},
};

use super::maps;
use crate::{
    array::{self, Input},
    error,
};

/// An array that a run takes, which nobody changes meanwhile.
pub(super) struct Array<'py> {
    dtype: DType,
    shape: Vec<usize>,
    input: Input<'py>,
}

/// What a run takes for an input.
pub(super) enum Given<'py> {
    Tensor(Array<'py>),
    Sequence(Vec<Array<'py>>),
    Strings(StringTensor),
    Map(Maps),
    Nothing,
}

impl<'py> Given<'py> {
    pub(super) fn new(info: &ValueInfo, object: &Bound<'py, PyAny>) -> PyResult<Self> {
        let name = format!("input '{}'", info.name);
        let array = |name: &str, object: &Bound<'py, PyAny>| -> PyResult<Array<'py>> {
            let array = array::check(name, object, info.dtype, None)?;
            let shape = array.shape().to_vec();
            if info.kind != ValueKind::Tensor && shape.len() > MAX_RANK {
                let text = format!("{name}: expected {MAX_RANK} dimensions at most, got {}", shape.len());
                return Err(error::argument(text));
            }
            Ok(Array { dtype: info.dtype, shape, input: Input::new(name, array)? })
        };
        match info.kind {
            ValueKind::Optional | ValueKind::OptionalSequence if object.is_none() => Ok(Self::Nothing),
            ValueKind::Strings => Ok(Self::Strings(array::strings(&name, object)?)),
            ValueKind::Map(map) => Ok(Self::Map(maps::given(&name, object, info, map)?)),
            ValueKind::Maps(_) => Err(error::argument(format!("{name}: a sequence of maps cannot be given"))),
            ValueKind::Tensor | ValueKind::Optional => Ok(Self::Tensor(array(&name, object)?)),
            ValueKind::Sequence | ValueKind::OptionalSequence => {
                let Ok(list) = object.cast::<PyList>() else {
                    let got = object.get_type().name()?;
                    let text = format!("{name}: expected a list of arrays of {}, got {got}", info.dtype);
                    return Err(error::argument(text));
                };
                let arrays = list.iter().enumerate();
                let arrays = arrays.map(|(index, object)| array(&format!("{name}[{index}]"), &object));
                Ok(Self::Sequence(arrays.collect::<PyResult<_>>()?))
            }
        }
    }

    pub(super) fn parts(&self) -> PyResult<Parts<'_>> {
        Ok(match self {
            Self::Tensor(array) => Parts::Tensor(array.tensor()?),
            Self::Sequence(list) => Parts::Sequence(list.iter().map(Array::tensor).collect::<PyResult<_>>()?),
            Self::Strings(strings) => Parts::Strings(strings),
            Self::Map(map) => Parts::Map(map),
            Self::Nothing => Parts::Nothing,
        })
    }
}

impl Array<'_> {
    fn tensor(&self) -> PyResult<TensorRef<'_>> {
        Ok(TensorRef { dtype: self.dtype, shape: &self.shape, bytes: self.input.bytes()? })
    }
}

/// The elements of what a run takes.
pub(super) enum Parts<'a> {
    Tensor(TensorRef<'a>),
    Sequence(Vec<TensorRef<'a>>),
    Strings(&'a StringTensor),
    Map(&'a Maps),
    Nothing,
}

impl<'a> Parts<'a> {
    /// The tensors of a list, copied.
    pub(super) fn owned(&self) -> Result<Vec<Tensor>, OutOfMemory> {
        let Self::Sequence(list) = self else { return Ok(Vec::new()) };
        let mut owned = memory::with_room(list.len())?;
        for tensor in list {
            let bytes = memory::copied(tensor.bytes)?;
            // Arrays of more axes have been refused.
            let shape = Shape::new(tensor.shape).unwrap_or_else(|| Shape::from([0]));
            owned.push(Tensor { dtype: tensor.dtype, shape, bytes });
        }
        Ok(owned)
    }

    /// A tensor's.
    fn shape(&self) -> Option<&[usize]> {
        match self {
            Self::Tensor(tensor) => Some(tensor.shape),
            Self::Sequence(_) | Self::Strings(_) | Self::Map(_) | Self::Nothing => None,
        }
    }

    pub(super) fn value(&self, list: &'a [Tensor]) -> ValueRef<'a> {
        match self {
            Self::Tensor(tensor) => ValueRef::Tensor(*tensor),
            Self::Sequence(_) => ValueRef::Sequence(list),
            Self::Strings(strings) => ValueRef::Strings(strings),
            Self::Map(map) => ValueRef::Map(map),
            Self::Nothing => ValueRef::Nothing,
        }
    }
}

/// What the last run whose results were made anew took and gave: results of the next one like it are arrays of numpy's from the
/// start, which its memory is cheaper for than bytes of zeros.
pub(super) struct Last {
    inputs: Vec<Vec<usize>>,
    pub(super) outputs: Vec<(DType, Vec<usize>)>,
}

impl Last {
    /// `None` where a value is no tensor.
    pub(super) fn of(inputs: &[Parts<'_>], outputs: &[Option<Value>], model: &Model) -> Option<Self> {
        let outputs = outputs.iter().zip(model.outputs()).map(|(value, info)| match value {
            Some(Value::Tensor(tensor)) if info.kind == ValueKind::Tensor => {
                Some((tensor.dtype, tensor.shape.to_vec()))
            }
            _ => None,
        });
        let inputs = inputs.iter().map(|parts| parts.shape().map(<[usize]>::to_vec));
        Some(Self { inputs: inputs.collect::<Option<_>>()?, outputs: outputs.collect::<Option<_>>()? })
    }

    pub(super) fn is_for(&self, inputs: &[Parts<'_>]) -> bool {
        self.inputs.len() == inputs.len()
            && self.inputs.iter().zip(inputs).all(|(own, parts)| parts.shape() == Some(own))
    }
}

/// A result as Python has it.
pub(super) fn result(py: Python<'_>, value: Value) -> PyResult<Bound<'_, PyAny>> {
    let array = |tensor: Tensor| array::from_bytes(py, tensor.dtype, &tensor.shape, tensor.bytes);
    match value {
        Value::Tensor(tensor) => array(tensor),
        Value::Sequence(list) => {
            let arrays = PyList::empty(py);
            for (index, tensor) in list.into_iter().enumerate() {
                array::heed_signals(py, index)?;
                arrays.append(array(tensor)?)?;
            }
            Ok(arrays.into_any())
        }
        Value::Strings(strings) => array::from_strings(py, &strings),
        Value::Map(maps) => maps::result(py, maps),
        Value::Nothing => Ok(py.None().into_bound(py)),
    }
}

//! Maps that a run takes or gives, as dicts.

use std::sync::Arc;

use pyo3::{
    prelude::*,
    types::{PyDict, PyList, PyString},
};
use triune::internals::{
    runtime::{MapElements, MapType, Maps, StringTensor, Tensor, ValueInfo},
    tensor::{DType, Shape, memory},
};

use crate::{array, error};

/// A dict as a map, in the order of its keys.
pub(super) fn given(name: &str, object: &Bound<'_, PyAny>, info: &ValueInfo, map: MapType) -> PyResult<Maps> {
    let fail = |expected: &str, got: &Bound<'_, PyAny>| -> PyErr {
        let got = got.get_type().name().map_or_else(|_| "something else".into(), |name| name.to_string());
        error::argument(format!("{name}: expected {expected}, got {got}"))
    };
    let half = |what: &str, text: &Bound<'_, PyAny>| -> PyErr {
        let text = text.repr().map_or_else(|_| "a string".into(), |text| text.to_string());
        error::argument(format!("{name}: expected {what} of Unicode, got {text} with half a surrogate pair"))
    };
    let Ok(dict) = object.cast::<PyDict>() else { return Err(fail("a dict", object)) };
    let count = dict.len();
    let room = error::out_of_memory;
    let mut entries: Vec<(Key, Bound<'_, PyAny>)> = memory::with_room(count).map_err(room)?;
    for (index, (key, value)) in dict.iter().enumerate() {
        array::heed_signals(object.py(), index)?;
        let own = if map.string_keys {
            let key = key.cast::<PyString>().map_err(|_| fail("keys of str", &key))?;
            Key::Text(key.to_str().map_err(|_| half("keys", key))?.into())
        } else {
            Key::Integer(key.extract().map_err(|_| fail("keys of int", &key))?)
        };
        entries.push((own, value));
    }
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    let shape = Shape::from([count]);
    let values = if map.string_values {
        let mut texts = memory::with_room(count).map_err(room)?;
        for (_, value) in &entries {
            let value = value.cast::<PyString>().map_err(|_| fail("values of str", value))?;
            texts.push(Arc::from(value.to_str().map_err(|_| half("values", value.as_any()))?));
        }
        MapElements::Strings(StringTensor { shape, texts })
    } else {
        let mut bytes = memory::with_room(count * info.dtype.bytes()).map_err(room)?;
        for (_, value) in &entries {
            let word = match info.dtype {
                DType::F32 => value.extract::<f64>().map(|real| (real as f32).to_le_bytes().to_vec()),
                DType::F64 => value.extract::<f64>().map(|real| real.to_le_bytes().to_vec()),
                DType::I64 => value.extract::<i64>().map(|integer| integer.to_le_bytes().to_vec()),
                dtype => {
                    return Err(error::argument(format!("{name}: maps to {dtype} are not supported")));
                }
            };
            bytes.extend(word.map_err(|_| fail(&format!("values of {}", info.dtype), value))?);
        }
        MapElements::Numbers(Tensor { dtype: info.dtype, shape, bytes })
    };
    let (mut texts, mut integers) = (Vec::new(), Vec::new());
    for (key, _) in entries {
        match key {
            Key::Text(text) => texts.push(text),
            Key::Integer(integer) => integers.extend_from_slice(&integer.to_le_bytes()),
        }
    }
    let keys = if map.string_keys {
        MapElements::Strings(StringTensor { shape, texts })
    } else {
        MapElements::Numbers(Tensor { dtype: DType::I64, shape, bytes: integers })
    };
    Ok(Maps { keys, values })
}

/// A key of a dict.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Integer(i64),
    Text(Arc<str>),
}

/// A dict, or a list of dicts where there are several maps.
pub(super) fn result(py: Python<'_>, maps: Maps) -> PyResult<Bound<'_, PyAny>> {
    let elements = |elements: MapElements| {
        let array = match elements {
            MapElements::Numbers(tensor) => array::from_bytes(py, tensor.dtype, &tensor.shape, tensor.bytes)?,
            MapElements::Strings(strings) => array::from_strings(py, &strings)?,
        };
        array.call_method0("tolist")
    };
    let several = match &maps.values {
        MapElements::Numbers(tensor) => tensor.shape.rank() > 1,
        MapElements::Strings(strings) => strings.shape.rank() > 1,
    };
    let (keys, values) = (elements(maps.keys)?.cast_into::<PyList>()?, elements(maps.values)?);
    let dict = |values: &Bound<'_, PyAny>| -> PyResult<_> {
        let dict = PyDict::new(py);
        for (key, value) in keys.iter().zip(values.cast::<PyList>()?) {
            dict.set_item(key, value)?;
        }
        Ok(dict)
    };
    if !several {
        return Ok(dict(&values)?.into_any());
    }
    let dicts = PyList::empty(py);
    for (index, row) in values.cast::<PyList>()?.iter().enumerate() {
        array::heed_signals(py, index)?;
        dicts.append(dict(&row)?)?;
    }
    Ok(dicts.into_any())
}

//! Where a session's model comes from.

use std::{path::PathBuf, sync::Arc};

use pyo3::{
    buffer::PyBuffer,
    prelude::*,
    pybacked::PyBackedBytes,
    types::{PyBytes, PyDict},
};
use triune::internals::{
    graph::format::xir,
    runtime::{self, Model, ModelOptions},
};

use crate::{error, list};

/// A model that is open, or what to read it from.
pub(super) enum Source {
    File(PathBuf),
    Bytes(PyBackedBytes, Option<PathBuf>),
    Document { json: PyBackedBytes, params: Vec<(i64, bytes::Bytes)>, fake_qf: bool },
    Open(Arc<Model>),
}

impl Source {
    pub(super) fn new(
        model: Option<&Bound<'_, PyAny>>,
        folder: Option<PathBuf>,
        params: Option<&Bound<'_, PyDict>>,
        fake_qf: bool,
    ) -> PyResult<Self> {
        let none = || error::argument("model: expected a path or bytes, or a session to share weights with");
        let model = model.ok_or_else(none)?;
        if params.is_none() && !fake_qf {
            return Ok(match model.cast::<PyBytes>() {
                Ok(bytes) => Self::Bytes(bytes.clone().into(), folder),
                Err(_) => Self::File(model.extract()?),
            });
        }
        let json = model.cast::<PyBytes>().map_err(|_| {
            error::argument("model: expected the bytes of an XIR document beside params or fake_qf")
        })?;
        let params = params.iter().flat_map(|params| params.iter()).map(|(v_id, data)| {
            let data: PyBuffer<u8> = data.extract()?;
            Ok((v_id.extract()?, list::bytes(model.py(), &data)?.into()))
        });
        let params = params.collect::<PyResult<_>>()?;
        Ok(Self::Document { json: json.clone().into(), params, fake_qf })
    }

    pub(super) fn model(self, options: ModelOptions) -> Result<Arc<Model>, runtime::Error> {
        match self {
            Self::File(path) => Model::open(&path, &options),
            // The weights stay where Python has them.
            Self::Bytes(bytes, folder) => {
                Model::from_bytes_beside(bytes::Bytes::from_owner(bytes), folder.as_deref(), &options)
            }
            Self::Document { json, params, fake_qf } => {
                let mut document = xir::Document::read(&json, None)?;
                for (v_id, data) in params {
                    document.give(v_id, data)?;
                }
                Ok(Model::new(xir::to_graph(&document, &xir::Options { fake_qf })?))
            }
            Self::Open(model) => Ok(model),
        }
    }
}

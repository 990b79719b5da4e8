//! A model as sessions share it: the graph that was read, and its weights, once.

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use triune_device::Library;
use triune_files::{FolderLock, MODEL_LIMIT};
use triune_graph::{
    Dim, Error as GraphError, Graph, ValueId,
    format::{self, mge, onnx, xir},
};
use triune_tensor::{DType, Shape};

use crate::Error;

/// What a model takes or gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueInfo {
    /// Name in the model.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Extents; symbols are bound by each call.
    pub dims: Vec<Dim>,
}

/// How a model file is to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelOptions {
    /// Whether every tensor of a MegEngine file is compressed; the file does not tell. Other formats ignore it.
    pub compressed: bool,
}

/// A model in memory. Sessions over the same one share its weights, packed ones included.
#[derive(Debug)]
pub struct Model {
    pub(crate) graph: Graph,
    pub(crate) library: Arc<Library>,
    inputs: Vec<ValueInfo>,
    outputs: Vec<ValueInfo>,
    default_shapes: Option<Vec<Shape>>,
}

impl Model {
    /// Reads a model file of any format, told by its content: ONNX, whose external data is looked for below the file's
    /// folder, a bare MegEngine model, or an XIR document, whose RAW file lies beside it.
    pub fn open(path: &Path, options: &ModelOptions) -> Result<Arc<Self>, Error> {
        let name = || path.display().to_string();
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let _lock = FolderLock::to_read(folder);
        let bytes = format::contents(path, MODEL_LIMIT)?;
        let model = if xir::Document::is_document(&bytes) {
            let document = xir::Document::read_beside(path, &bytes);
            document.and_then(|document| Ok(Self::new(xir::to_graph(&document, &xir::Options::default())?)))
        } else {
            Self::read(bytes, Some(folder), *options)
        };
        model.map_err(|source| GraphError::File { path: name(), source: Box::new(source) }.into())
    }

    /// Reads a model in memory; external data is not available.
    pub fn from_bytes(bytes: impl Into<Bytes>, options: &ModelOptions) -> Result<Arc<Self>, Error> {
        Ok(Self::read(bytes.into(), None, *options)?)
    }

    fn read(bytes: Bytes, folder: Option<&Path>, options: ModelOptions) -> Result<Arc<Self>, GraphError> {
        if xir::Document::is_document(&bytes) {
            let document = xir::Document::read(&bytes, None)?;
            return Ok(Self::new(xir::to_graph(&document, &xir::Options::default())?));
        }
        if !mge::is_model(&bytes) {
            return Ok(Self::new(onnx::read_bytes(bytes, folder)?));
        }
        let model = mge::read(bytes, &mge::ReadOptions { compressed: options.compressed })?;
        let shapes = model.default_shapes.iter().map(|dims| Shape::new(dims)).collect();
        Ok(Self::with_default_shapes(model.graph, shapes))
    }

    /// A model that is a graph already.
    pub fn new(graph: Graph) -> Arc<Self> {
        let shapes = graph.inputs.iter().map(|&id| graph.value(id).fixed_shape()).collect();
        Self::with_default_shapes(graph, shapes)
    }

    fn with_default_shapes(graph: Graph, default_shapes: Option<Vec<Shape>>) -> Arc<Self> {
        let info = |ids: &[ValueId]| {
            ids.iter()
                .map(|&id| {
                    let value = graph.value(id);
                    ValueInfo {
                        name: value.name.clone(),
                        dtype: value.dtype.unwrap_or(DType::F32),
                        dims: value.shape.clone().unwrap_or_default(),
                    }
                })
                .collect()
        };
        let (inputs, outputs) = (info(&graph.inputs), info(&graph.outputs));
        Arc::new(Self { graph, library: Arc::default(), inputs, outputs, default_shapes })
    }

    /// What a run takes.
    pub fn inputs(&self) -> &[ValueInfo] {
        &self.inputs
    }

    /// What a run gives.
    pub fn outputs(&self) -> &[ValueInfo] {
        &self.outputs
    }

    /// The shapes that the file gives the inputs, unless it leaves an extent open.
    pub fn default_shapes(&self) -> Option<&[Shape]> {
        self.default_shapes.as_deref()
    }

    /// The model's weights.
    pub fn library(&self) -> &Arc<Library> {
        &self.library
    }

    /// The graph with its inputs bound.
    pub(crate) fn bound(&self, shapes: &[Shape]) -> Result<Graph, Error> {
        let mut graph = self.graph.clone();
        let named: Vec<(&str, &[usize])> =
            self.inputs.iter().map(|input| &*input.name).zip(shapes.iter().map(|shape| &**shape)).collect();
        graph.bind(&named)?;
        Ok(graph)
    }
}

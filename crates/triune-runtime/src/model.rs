//! A model as sessions share it: the graph that was read, and its weights, once.

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use triune_device::Library;
pub use triune_graph::format::{Metadata, ReadOptions as ModelOptions};
use triune_graph::{Constant, DefaultInput, Dim, Graph, ValueId, ValueKind, format::Source, infer::infer};
use triune_tensor::{DType, Shape, memory::Room};

use crate::{Error, constants::fold_constants};

/// What a model takes or gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueInfo {
    /// Name in the model.
    pub name: String,
    /// What it is.
    pub kind: ValueKind,
    /// Element type; of a sequence, of each of its tensors.
    pub dtype: DType,
    /// Extents; symbols are bound by each call. Where the model does not even say how many there are, one symbol stands for any
    /// number of them: [`ValueInfo::ANY`].
    pub dims: Vec<Dim>,
}

impl ValueInfo {
    /// The symbol that stands for any number of extents, where it is the only one.
    pub const ANY: &str = "...";

    fn any() -> Vec<Dim> {
        vec![Dim::Symbol(Self::ANY.into())]
    }

    /// Whether the model says how many extents there are.
    pub fn is_ranked(&self) -> bool {
        !matches!(&*self.dims, [Dim::Symbol(only)] if &**only == Self::ANY)
    }
}

/// A model in memory. Sessions over the same one share its weights, packed ones included.
#[derive(Debug)]
pub struct Model {
    pub(crate) graph: Graph,
    pub(crate) library: Arc<Library>,
    inputs: Vec<ValueInfo>,
    outputs: Vec<ValueInfo>,
    default_shapes: Option<Vec<Shape>>,
    metadata: Metadata,
    /// Bytes of memory that the graph takes, its constants' elements apart.
    footprint: u64,
}

impl Model {
    /// Reads a model file of any format, told by its content: ONNX, whose external data is looked for below the file's
    /// folder, a bare MegEngine model, or an XIR document, whose RAW file lies beside it.
    pub fn open(path: &Path, options: &ModelOptions) -> Result<Arc<Self>, Error> {
        Self::of(Source::open(path, *options)?)
    }

    /// Reads a model in memory; external data is not available.
    pub fn from_bytes(bytes: impl Into<Bytes>, options: &ModelOptions) -> Result<Arc<Self>, Error> {
        Self::from_bytes_beside(bytes, None, options)
    }

    /// The same with external data of an ONNX model looked for below `folder`.
    pub fn from_bytes_beside(
        bytes: impl Into<Bytes>,
        folder: Option<&Path>,
        options: &ModelOptions,
    ) -> Result<Arc<Self>, Error> {
        Self::of(Source::read(bytes, folder, *options)?)
    }

    fn of(source: Source) -> Result<Arc<Self>, Error> {
        let shapes = match source.default_shapes {
            Some(shapes) => shapes.iter().map(|dims| Shape::new(dims)).collect(),
            None => fixed_shapes(&source.graph),
        };
        Ok(Self::described(fold_constants(source.graph)?, shapes, source.metadata))
    }

    /// A model that is a graph already.
    pub fn new(graph: Graph) -> Arc<Self> {
        let shapes = fixed_shapes(&graph);
        Self::described(graph, shapes, Metadata::default())
    }

    fn described(graph: Graph, default_shapes: Option<Vec<Shape>>, metadata: Metadata) -> Arc<Self> {
        let own = graph.values.iter().filter_map(|value| value.constant.as_ref());
        let library = Arc::new(Library::beside(own.map(Constant::held)));
        Self::built(graph, default_shapes, metadata, library)
    }

    fn built(
        graph: Graph,
        default_shapes: Option<Vec<Shape>>,
        metadata: Metadata,
        library: Arc<Library>,
    ) -> Arc<Self> {
        let inferred = inferred(&graph, default_shapes.as_deref());
        let info = |ids: &[ValueId]| {
            ids.iter()
                .map(|&id| {
                    let (value, found) = (graph.value(id), inferred.as_ref().map(|graph| graph.value(id)));
                    let found_shape =
                        found.filter(|_| default_shapes.is_some()).and_then(|found| found.shape.as_ref());
                    ValueInfo {
                        name: value.name.clone(),
                        kind: value.kind,
                        dtype: value.dtype.or_else(|| found?.dtype).unwrap_or(DType::F32),
                        dims: value.shape.as_ref().or(found_shape).cloned().unwrap_or_else(ValueInfo::any),
                    }
                })
                .collect()
        };
        let (inputs, outputs) = (info(&graph.inputs), info(&graph.outputs));
        let footprint = graph.footprint();
        Arc::new(Self { graph, library, inputs, outputs, default_shapes, metadata, footprint })
    }

    /// The model with inputs that it has constants for, and may be left out: those of these names come behind the others.
    ///
    /// One that the model does not have, or whose constant made operators what they are, is an error that says so.
    pub fn taking(&self, names: &[&str]) -> Result<Arc<Self>, Error> {
        let mut graph = self.graph.clone();
        names.iter().try_for_each(|name| graph.take_instead(name))?;
        let shapes = fixed_shapes(&graph);
        Ok(Self::built(graph, shapes, self.metadata.clone(), Arc::clone(&self.library)))
    }

    /// Inputs that the model has constants for, which a run takes unless [`Self::taking`] says otherwise.
    pub fn defaults(&self) -> Vec<ValueInfo> {
        let info = |default: &DefaultInput| {
            let value = self.graph.value(default.value);
            ValueInfo {
                name: value.name.clone(),
                kind: value.kind,
                dtype: value.dtype.unwrap_or(DType::F32),
                dims: default.shape.clone().unwrap_or_else(ValueInfo::any),
            }
        };
        self.graph.defaults.iter().map(info).collect()
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

    /// What the file says of itself; empty for a graph that no file was read for.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The model's weights.
    pub fn library(&self) -> &Arc<Library> {
        &self.library
    }

    /// Refuses another number of values than of inputs.
    pub(crate) fn check_count(&self, what: &str, got: usize) -> Result<(), Error> {
        let expected = self.inputs().len();
        if expected == got {
            return Ok(());
        }
        Err(Error::Operand { what: what.into(), expected: expected.to_string(), got: got.to_string() })
    }

    /// Refuses results of other element types than the file declares for its outputs.
    pub(crate) fn check_results(&self, dtypes: impl Iterator<Item = Option<DType>>) -> Result<(), Error> {
        for (&id, made) in self.graph.outputs.iter().zip(dtypes) {
            let value = self.graph.value(id);
            if let (Some(declared), Some(made)) = (value.dtype, made)
                && declared != made
            {
                let name = &value.name;
                return Err(triune_graph::Error::Graph(format!(
                    "output '{name}' is declared as {declared}, and what makes it gives {made}; one of the two has to be mended in the file"
                ))
                .into());
            }
        }
        Ok(())
    }

    /// The graph with its inputs bound.
    pub(crate) fn bound(&self, shapes: &[Shape]) -> Result<Graph, Error> {
        let _room = Room::of(self.footprint)?;
        let mut graph = self.graph.clone();
        let tensors = self.inputs.iter().zip(shapes).filter(|(input, _)| input.kind.is_tensor());
        let named: Vec<(&str, &[usize])> = tensors.map(|(input, shape)| (&*input.name, &**shape)).collect();
        graph.bind(&named)?;
        Ok(graph)
    }
}

/// The graph with types where the file gives an output none, as far as they follow from those of the inputs; open extents are 1 for
/// that, and the extents that come of it mean nothing.
fn inferred(graph: &Graph, shapes: Option<&[Shape]>) -> Option<Graph> {
    if graph.outputs.iter().all(|&id| graph.value(id).dtype.is_some()) {
        return None;
    }
    let one = |dim: &Dim| if let Dim::Fixed(extent) = dim { *extent } else { 1 };
    let mut known = graph.clone();
    let mut named: Vec<(&str, Vec<usize>)> = Vec::new();
    for (index, &id) in graph.inputs.iter().enumerate() {
        let value = graph.value(id);
        if !value.kind.is_tensor() {
            continue;
        }
        let declared = || Some(value.shape.as_ref()?.iter().map(one).collect());
        named.push((&value.name, shapes.map_or_else(declared, |shapes| Some(shapes.get(index)?.to_vec()))?));
    }
    let named: Vec<(&str, &[usize])> = named.iter().map(|(name, dims)| (*name, &**dims)).collect();
    known.bind(&named).and_then(|()| infer(&mut known)).ok()?;
    Some(known)
}

/// The inputs' shapes, unless an extent is open.
fn fixed_shapes(graph: &Graph) -> Option<Vec<Shape>> {
    graph.inputs.iter().map(|&id| graph.value(id).fixed_shape()).collect()
}

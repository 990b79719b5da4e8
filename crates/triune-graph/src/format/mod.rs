//! Model files: one module per format. Versions and dialects of a format end here; what leaves is the one IR.

#[cfg(any(feature = "megengine", feature = "xir"))]
mod flatbuffer;
pub mod json;
mod kind;
#[cfg(feature = "megengine")]
pub mod mge;
mod names;
pub mod onnx;
mod protobuf;
#[cfg(feature = "xir")]
pub mod xir;

use std::path::Path;

use bytes::Bytes;
use triune_files::{FolderLock, Input, MODEL_LIMIT};
use triune_tensor::{Buffer, OutOfMemory};

use crate::{Error, Graph};
use kind::Kind;

/// How a model file is to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// Whether every tensor of a MegEngine file is compressed; the file does not tell. Other formats ignore it.
    pub compressed: bool,
}

/// What a model file holds.
#[derive(Clone, Debug)]
pub struct Source {
    /// The network.
    pub graph: Graph,
    /// For every input of the graph, its extents in the file, where the format has any besides those of the graph.
    pub default_shapes: Option<Vec<Vec<usize>>>,
    /// What the file says of itself.
    pub metadata: Metadata,
}

/// What a model file says of itself; nothing of it changes what the model computes. What a format has no place for is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The format, such as `ONNX`.
    pub format: &'static str,
    /// The program that wrote the file.
    pub producer: String,
    /// That program's version.
    pub producer_version: String,
    /// Whose model it is, as a reversed domain name.
    pub domain: String,
    /// The model's own version.
    pub version: i64,
    /// A text for people.
    pub description: String,
    /// Name of the network.
    pub graph: String,
    /// Version of the file format.
    pub format_version: i64,
    /// Domain and version of each operator set; the default domain is empty.
    pub opsets: Vec<(String, i64)>,
    /// The writer's own keys and values, in the file's order.
    pub properties: Vec<(String, String)>,
}

impl Source {
    #[cfg(any(feature = "megengine", feature = "xir"))]
    fn new(graph: Graph, format: &'static str) -> Self {
        let metadata = Metadata { format, graph: graph.name.clone(), ..Metadata::default() };
        Self { graph, default_shapes: None, metadata }
    }

    /// Reads a model file of any supported format, told by its content: ONNX, a bare MegEngine model, or an XIR document.
    ///
    /// External data of an ONNX file is looked for below the file's folder, the RAW file of an XIR document beside it under
    /// the same name. Errors name the file.
    pub fn open(path: &Path, options: ReadOptions) -> Result<Self, Error> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let _lock = FolderLock::to_read(folder);
        let bytes = contents(path, MODEL_LIMIT)?;
        Self::read_beside(bytes, Some(path), Some(folder), options)
            .map_err(|source| Error::File { path: path.display().to_string(), source: Box::new(source) })
    }

    /// Reads a model of any supported format from memory; see [`Self::open`]. Without a folder an ONNX model has no external
    /// data; an XIR document has no constants.
    pub fn read(bytes: impl Into<Bytes>, folder: Option<&Path>, options: ReadOptions) -> Result<Self, Error> {
        Self::read_beside(bytes.into(), None, folder, options)
    }

    fn read_beside(
        bytes: Bytes,
        path: Option<&Path>,
        folder: Option<&Path>,
        options: ReadOptions,
    ) -> Result<Self, Error> {
        match Kind::of(&bytes) {
            Kind::Onnx => {
                let (graph, metadata) = onnx::read_described(bytes, folder)?;
                Ok(Self { graph, default_shapes: None, metadata })
            }
            Kind::MegEngine(_) => Self::megengine(bytes, options),
            Kind::Xir => Self::xir(&bytes, path),
        }
    }

    #[cfg(feature = "megengine")]
    fn megengine(bytes: Bytes, options: ReadOptions) -> Result<Self, Error> {
        let model = mge::read(bytes, &mge::ReadOptions { compressed: options.compressed })?;
        let default_shapes = Some(model.default_shapes);
        Ok(Self { default_shapes, ..Self::new(model.graph, "MegEngine") })
    }

    #[cfg(not(feature = "megengine"))]
    fn megengine(_: Bytes, _: ReadOptions) -> Result<Self, Error> {
        Err(left_out("a MegEngine model", "megengine"))
    }

    #[cfg(feature = "xir")]
    fn xir(bytes: &[u8], path: Option<&Path>) -> Result<Self, Error> {
        let document = match path {
            Some(path) => xir::Document::read_beside(path, bytes)?,
            None => xir::Document::read(bytes, None)?,
        };
        Ok(Self::new(xir::to_graph(&document, &xir::Options::default())?, "XIR"))
    }

    #[cfg(not(feature = "xir"))]
    fn xir(_: &[u8], _: Option<&Path>) -> Result<Self, Error> {
        Err(left_out("a network of Icraft", "icraft"))
    }
}

#[cfg(not(all(feature = "megengine", feature = "xir")))]
fn left_out(what: &str, feature: &str) -> Error {
    Error::Graph(format!("this is {what}, which this build cannot read: enable Triune's feature '{feature}'"))
}

/// Reads a model file of any supported format: see [`Source::open`].
pub fn read(path: impl AsRef<Path>) -> Result<Graph, Error> {
    Ok(Source::open(path.as_ref(), ReadOptions::default())?.graph)
}

/// Reads a model of any supported format from memory: see [`Source::read`].
pub fn read_bytes(bytes: impl Into<Bytes>, folder: Option<&Path>) -> Result<Graph, Error> {
    Ok(Source::read(bytes, folder, ReadOptions::default())?.graph)
}

/// The bytes of a plain file of at most `limit` bytes, as readers take them: in memory once, aligned to 64 bytes.
///
/// A file that is written to meanwhile is refused: part of it could be the old one. The error is [`Error::Io`] or
/// [`Error::Memory`].
pub fn contents(path: &Path, limit: u64) -> Result<Bytes, Error> {
    // Read, not mapped: a mapped file that someone truncates kills the process.
    let mut input = Input::open(path, limit)?;
    if input.size() == 0 {
        return Ok(input.read()?.into());
    }
    let buffer = usize::try_from(input.size()).ok().and_then(Buffer::zeroed);
    let mut buffer = buffer.ok_or(OutOfMemory { bytes: input.size() })?;
    let filled = input.fill(&mut buffer)?;
    input.check_unchanged()?;
    Ok(Bytes::from_owner(buffer).slice(..filled))
}

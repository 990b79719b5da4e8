//! Model files: one module per format. Versions and dialects of a format end here; what leaves is the one IR.

mod flatbuffer;
pub mod mge;
pub mod onnx;
mod protobuf;
pub mod xir;

use std::path::Path;

use bytes::Bytes;
use triune_files::{FolderLock, Input, MODEL_LIMIT};
use triune_tensor::{Buffer, OutOfMemory};

use crate::{Error, Graph};

/// Reads a model file of any supported format, told by its content: ONNX, a bare MegEngine model, or an XIR document.
///
/// External data of an ONNX file is looked for below the file's folder, the RAW file of an XIR document beside it under the same
/// name. Errors name the file.
pub fn read(path: impl AsRef<Path>) -> Result<Graph, Error> {
    let path = path.as_ref();
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let _lock = FolderLock::to_read(folder);
    let bytes = contents(path, MODEL_LIMIT)?;
    let graph = if xir::Document::is_document(&bytes) {
        let document = xir::Document::read_beside(path, &bytes);
        document.and_then(|document| xir::to_graph(&document, &xir::Options::default()))
    } else {
        read_bytes(bytes, Some(folder))
    };
    graph.map_err(|source| Error::File { path: path.display().to_string(), source: Box::new(source) })
}

/// Reads a model of any supported format from memory; see [`read`]. An XIR document has no constants then.
pub fn read_bytes(bytes: impl Into<Bytes>, folder: Option<&Path>) -> Result<Graph, Error> {
    let bytes = bytes.into();
    if mge::is_model(&bytes) {
        return mge::read(bytes, &mge::ReadOptions::default()).map(|model| model.graph);
    }
    if xir::Document::is_document(&bytes) {
        return xir::to_graph(&xir::Document::read(&bytes, None)?, &xir::Options::default());
    }
    onnx::read_bytes(bytes, folder)
}

/// The bytes of a plain file of at most `limit` bytes, as readers take them: in memory once, aligned to 64 bytes.
///
/// A file that grows meanwhile is read as far as it went when it was opened. The error is [`Error::Io`] or [`Error::Memory`].
pub fn contents(path: &Path, limit: u64) -> Result<Bytes, Error> {
    // Read, not mapped: a mapped file that someone truncates kills the process.
    let mut input = Input::open(path, limit)?;
    if input.size() == 0 {
        return Ok(input.read()?.into());
    }
    let buffer = usize::try_from(input.size()).ok().and_then(Buffer::zeroed);
    let mut buffer = buffer.ok_or(OutOfMemory { bytes: input.size() })?;
    let filled = input.fill(&mut buffer)?;
    Ok(Bytes::from_owner(buffer).slice(..filled))
}

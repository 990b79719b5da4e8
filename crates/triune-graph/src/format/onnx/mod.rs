//! ONNX files: opsets 1 to 28 in, opset 13 (or the first that has all operators) out.
//!
//! Everything that differs between opsets ends here, in `ops`: attributes that became operands, operators that were
//! renamed, defaults that changed.

mod nested;
mod node;
mod ops;
mod proto;
mod read;
mod spelled;
mod tensor;
mod weighed;
mod write;

use std::path::Path;

use bytes::Bytes;

use node::{NodeReader, NodeWriter};
pub use ops::{Version, versions};
pub use write::write;

use triune_files::MODEL_LIMIT;
use triune_tensor::{Requantize, memory::Room};

use super::Metadata;
use crate::{Error, Graph, Strings};

/// The opsets of the default domain that are read.
const OPSETS: std::ops::RangeInclusive<i64> = 1..=28;

/// Reads an ONNX file; external data is looked for below the file's folder.
///
/// Symbolic and unknown extents stay symbols; [`Graph::bind`] fixes them. Errors name the file, and the node,
/// operator and attribute where one is to blame.
pub fn read(path: impl AsRef<Path>) -> Result<Graph, Error> {
    let path = path.as_ref();
    read_titled(path, path)
}

/// As [`read`], for a file that was made from another one: errors name that one, which the user knows.
pub fn read_titled(path: &Path, title: &Path) -> Result<Graph, Error> {
    let bytes = super::contents(path, MODEL_LIMIT)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    read_bytes(bytes, Some(folder))
        .map_err(|source| Error::File { path: title.display().to_string(), source: Box::new(source) })
}

/// Reads an ONNX model from memory; external data is looked for below `folder` and is an error without one.
///
/// Initializers with raw data share the given buffer.
pub fn read_bytes(bytes: impl Into<Bytes>, folder: Option<&Path>) -> Result<Graph, Error> {
    Ok(read_described(bytes, folder)?.0)
}

/// The same without external data, and with strings that have numbers already.
pub fn read_with(bytes: impl Into<Bytes>, strings: Strings) -> Result<Graph, Error> {
    Ok(described(&bytes.into(), None, strings)?.0)
}

/// The property of a file whose integer operators have factors m·2⁻ⁿ, as the device that it is a part for.
const FIXED: (&str, &str) = ("triune.requantize", "fixed");

/// The same with what the file says of itself.
pub(super) fn read_described(
    bytes: impl Into<Bytes>,
    folder: Option<&Path>,
) -> Result<(Graph, Metadata), Error> {
    described(&bytes.into(), folder, Strings::default())
}

fn described(bytes: &Bytes, folder: Option<&Path>, strings: Strings) -> Result<(Graph, Metadata), Error> {
    if bytes.get(4..8) == Some(b"ORTM") {
        return Err(malformed(
            "it has ONNX Runtime's own form (.ort), which is made of an ONNX file: open that one",
        ));
    }
    let mut room = Room::new();
    let mut model = proto::model(bytes, &mut room)?;
    let mut metadata = std::mem::take(&mut model.metadata);
    metadata.opsets = model.opsets.iter().map(|&(domain, version)| (domain.to_owned(), version)).collect();
    let mut graph = read::graph(model, bytes, folder, strings)?;
    weighed::put_together(&mut graph);
    if metadata.properties.iter().any(|(key, value)| (&**key, &**value) == FIXED) {
        graph.requantize = Requantize::Fixed;
    }
    metadata.graph.clone_from(&graph.name);
    Ok((graph, metadata))
}

/// The error for bytes that are not what ONNX calls for.
pub(super) fn malformed(reason: impl Into<String>) -> Error {
    Error::Malformed { format: "ONNX", reason: reason.into() }
}

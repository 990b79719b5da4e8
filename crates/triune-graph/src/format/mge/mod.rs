//! MegEngine's model files: versions 1 and 2 in, version 2 out, and what they come wrapped in.
//!
//! What differs from the rest of the world ends here: tensors without a rank of 0, shapes as 32-bit tensors, reductions
//! that keep their axis, grouped weights with an axis of their own, parameters that a file leaves out where they are
//! the default. Facts of the format: upstream's schemas `schema_v2.fbs`, `schema.fbs` and `opr_param_defs.py`.

pub mod cipher;
mod element;
mod file;
mod node;
mod ops;
pub mod packed;
mod read;
mod registry;
mod tensor;
mod write;

use bytes::Bytes;

use super::kind::Kind;
use crate::{
    Error, Graph,
    format::flatbuffer::{Buffer, Wrong},
};
pub use registry::OPERATORS;
pub use write::{default_shapes, write};

/// How a model file is to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// Whether every tensor's bytes begin with a compression method; the file does not tell.
    pub compressed: bool,
}

/// A model file's contents.
#[derive(Clone, Debug)]
pub struct Model {
    /// The network. Every extent of an input is a symbol called `"<input>.<axis>"`: each run may choose.
    pub graph: Graph,
    /// For every input of the graph, the extents in the file.
    pub default_shapes: Vec<Vec<usize>>,
    /// The version of the container: 1 or 2.
    pub container: u32,
    /// The version of the library that wrote the file, such as 11300 · 100 for 1.13.0's 101300; 0 if unknown.
    pub library: u32,
    /// What a user may want to know although the file could be read.
    pub warnings: Vec<String>,
}

/// Reads a bare model, of version 1 or 2.
///
/// Constants share the given buffer. Inputs come in the order in which upstream lists them, the reverse of the file's;
/// outputs come in the file's. An operator, mode or element type that is not supported is an
/// [`Error::Unsupported`] that names the node.
pub fn read(bytes: impl Into<Bytes>, options: &ReadOptions) -> Result<Model, Error> {
    let bytes = bytes.into();
    match Kind::of(&bytes) {
        Kind::MegEngine(2) => {
            let buffer = file::v2_buffer(&bytes).map_err(damaged)?;
            let file = file::v2(&buffer).map_err(|reason| wrong(&buffer, reason))?;
            read::model(&file, &bytes, *options)
        }
        Kind::MegEngine(_) => {
            let (buffer, blobs) = file::v1_buffer(&bytes).map_err(damaged)?;
            let file = file::v1(&buffer, blobs).map_err(|reason| wrong(&buffer, reason))?;
            read::model(&file, &bytes, *options)
        }
        _ => Err(malformed("invalid model format: the bytes begin neither with a model of version 1 nor 2")),
    }
}

/// The error for bytes that are not what the format calls for.
fn malformed(reason: impl Into<String>) -> Error {
    Error::Malformed { format: "MGE (MegEngine)", reason: reason.into() }
}

/// The error for what is wrong with a file's buffer, unless there was no memory for its parts.
fn wrong(buffer: &Buffer<'_>, reason: Wrong) -> Error {
    buffer.refused().map_or_else(|| damaged(reason), Error::Memory)
}

/// The error for a file whose parts do not fit together.
fn damaged(reason: impl Into<String>) -> Error {
    malformed(format!("model verification failed (invalid or corrupted model?): {}", reason.into()))
}

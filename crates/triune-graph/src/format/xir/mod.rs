//! XIR documents: the JSON text and the RAW container in which Icraft's tools keep a network.
//!
//! A document is kept as it is written, values and attributes with the vendor's names.

mod arrays;
mod attach;
mod cursor;
mod document;
mod flat;
mod json;
mod number;
mod raw;
mod read;
mod text;
mod write;

pub use document::{
    Attribute, Axis, Chip, Document, ElementType, ExpScale, Fill, Layout, Mem, MergedDistr, Operation,
    Params, Runs, Scalar, Scale, Section, Tags, Target, TensorType, Value,
};
pub use raw::{RawEntry, md5, raw_table, raw_table_bytes, raw_table_of};

pub use read::{CUSTOM, CUSTOM_OPERATORS, OPERATORS, Options, to_graph};

use crate::Error;

fn malformed(reason: impl Into<String>) -> Error {
    Error::Malformed { format: "XIR", reason: reason.into() }
}

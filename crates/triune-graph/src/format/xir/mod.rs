//! XIR documents: the JSON text and the RAW container in which Icraft's tools keep a network.
//!
//! A document is kept as it is written, values and attributes with the vendor's names.

mod document;

pub use document::{
    Attribute, Axis, Chip, Document, ElementType, ExpScale, Fill, Layout, Mem, MergedDistr, Operation,
    Params, Runs, Scalar, Scale, Section, Tags, Target, TensorType, Value,
};

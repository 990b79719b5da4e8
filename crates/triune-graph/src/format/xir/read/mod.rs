//! A document as a graph: what its operators compute.
//!
//! A quantized value is its integers behind a `QuantizeLinear`, and a `DequantizeLinear` before whoever takes it, as in ONNX: the
//! passes that make integer operators of those are the same ones. Layouts, blocks and padding end here (see [`form`]); what they
//! cost is one movement where a network begins or ends, or where an operator is about stored axes.

mod constant;
mod form;
mod meaning;
mod node;
mod ops;
mod registry;
mod values;
mod views;

use std::collections::HashMap;

use triune_tensor::{DType, Requantize, memory::Room};

use super::{Attribute, Document, ElementType, Operation, Scale, malformed};
use crate::{Error, Graph, ValueId, format::names::Names, ops::infer::TensorType as Found, walk::Walk};
use form::Form;
use meaning::Meaning;
use node::Reader;
pub use registry::{CUSTOM, CUSTOM_OPERATORS, OPERATORS};

/// How a document is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether quantized values are computed as the reals that they stand for: no rounding, no saturation. Inputs and outputs of
    /// a quantized type are f32 then; constants stay the numbers that they are.
    pub fake_qf: bool,
}

/// The graph of a document whose constants have their data.
///
/// Inputs are what `Input` makes, outputs what `Output` takes, in their order and as they are stored; a value without a name is
/// called `v<v_id>`. An extent of -1 is a symbol.
///
/// # Errors
/// [`Error::Unsupported`] and [`Error::Shape`] name the operation and say what is wrong with it; a document that does not hold
/// together is [`Error::Malformed`].
pub fn to_graph(document: &Document, options: &Options) -> Result<Graph, Error> {
    check_indices(document)?;
    let (ops, values) = (document.ops.len() as u64, document.values.len() as u64);
    let _room = Room::of(ops * OPERATION + values * VALUE)?;
    let mut builder = Builder::new(document, *options);
    builder.graph.requantize = requantize(document);
    let mut outputs = None;
    let mut walk = Walk::new();
    for op in &document.ops {
        walk.node()?;
        let mut reader = Reader::new(&mut builder, op);
        match reader.kind() {
            "Input" => reader.input()?,
            "Output" => {
                if outputs.is_some() {
                    return Err(reader.unsupported("the document has several"));
                }
                outputs = Some(op);
            }
            kind => {
                let read = registry::find(kind).ok_or_else(|| reader.unknown())?;
                read(&mut reader)?;
                reader.check_made()?;
            }
        }
    }
    let output = outputs.ok_or_else(|| malformed("the document has no Output"))?;
    Reader::new(&mut builder, output).output()?;
    Ok(builder.graph)
}

/// About what a document's operation, and a value of it, takes in memory while a graph is made of it, with what becomes of it:
/// views of values in other layouts are nodes of their own.
const OPERATION: u64 = 4096;
const VALUE: u64 = 2048;

/// Operations may refer to values that are there.
fn check_indices(document: &Document) -> Result<(), Error> {
    fn within(attribute: &Attribute, count: usize) -> bool {
        match attribute {
            Attribute::Value(index) => *index < count,
            Attribute::List(items) => items.iter().all(|item| within(item, count)),
            Attribute::Map(items) => items.values().all(|item| within(item, count)),
            _ => true,
        }
    }
    let count = document.values.len();
    for op in &document.ops {
        let known = op.inputs.iter().flatten().chain(&op.outputs).all(|&index| index < count)
            && op.attributes.values().all(|attribute| within(attribute, count));
        if !known {
            return Err(malformed(format!("operation {} refers to a value that is not there", op.op_id)));
        }
    }
    Ok(())
}

/// Scales of m · 2^-exp are those of an accelerator that multiplies with nothing else.
fn requantize(document: &Document) -> Requantize {
    let fixed = document.values.iter().any(|value| match &value.dtype.element {
        ElementType::Quantized { scale, .. } | ElementType::NormalizedQuantized { scale, .. } => {
            matches!(scale, Scale::Exp(_))
        }
        _ => false,
    });
    if fixed { Requantize::Fixed } else { Requantize::Float }
}

/// What is known of a value of the document.
struct Typed {
    /// Type of the stored elements in the graph.
    dtype: DType,
    meaning: Meaning,
    form: Form,
}

/// One of the tensors that stand for a value of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    Stored,
    Flat,
    Open,
}

/// The tensors that stand for a value of the document so far, by view: what is stored, and the reals of it.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    kept: [Option<ValueId>; 3],
    dequantized: [Option<ValueId>; 3],
}

/// The graph under construction.
struct Builder<'d> {
    document: &'d Document,
    options: Options,
    graph: Graph,
    /// By value of the document.
    held: Vec<Held>,
    /// By value of the graph, its type when all extents are known.
    found: Vec<Option<Found>>,
    /// By name, the first value of the document that has it.
    first: HashMap<&'d str, usize>,
    names: Names<'d>,
    node_names: Names<'d>,
}

impl<'d> Builder<'d> {
    fn new(document: &'d Document, options: Options) -> Self {
        let graph = Graph { name: document.name.clone(), ..Graph::default() };
        // Names of the document's own values are theirs.
        let mut first = HashMap::new();
        let mut names = Names::default();
        for (index, value) in document.values.iter().enumerate() {
            first.entry(value.name.as_str()).or_insert(index);
            names.take(value.name.as_str());
            names.take(format!("v{}", value.v_id));
        }
        Self {
            document,
            options,
            graph,
            held: vec![Held::default(); document.values.len()],
            found: Vec::new(),
            first,
            names,
            node_names: Names::default(),
        }
    }

    /// The name of a value of the document at the graph's border.
    fn border_name(&self, index: usize) -> String {
        let value = &self.document.values[index];
        if value.name.is_empty() || self.first.get(value.name.as_str()) != Some(&index) {
            format!("v{}", value.v_id)
        } else {
            value.name.clone()
        }
    }
}

/// The name of an operation for messages and nodes.
fn name_of(op: &Operation) -> String {
    let kind = op.type_key.rsplit("::").next().unwrap_or(&op.type_key);
    if op.name.is_empty() { format!("{kind}_{}", op.op_id) } else { op.name.clone() }
}

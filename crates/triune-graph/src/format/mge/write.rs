//! From a [`Graph`] to a model file of version 2, with operators that upstream's library has.
//!
//! The graph is bound to default extents and its shape arithmetic folded first, so that what is written is plain
//! computation; reading it back gives the same numbers, operator by operator.

mod function;
mod part;
mod product;
mod site;
mod window;

use std::collections::HashMap;

use triune_tensor::{DType, QuantParams};

use super::{super::kind::MEGENGINE_2, element::Element, registry};
use crate::{
    Constant, Dim, Error, Graph, Node, Op, Value, ValueId,
    format::flatbuffer::{self, Part, TableBuilder},
    passes,
};
use site::Site;

/// The library's version that files say they are from: 1.13.0, whose schema they have.
const LIBRARY: u32 = 101_300;
const MODEL: u32 = 2;
/// Where upstream is to put every variable: the default device.
const PLACE: &str = "xpux:0";
/// Alignment of tensors' bytes in the file.
const ALIGNMENT: usize = 64;

/// The bytes of a model file with the same network, for inputs of `default_shapes` (in the order of the graph's
/// inputs; see [`default_shapes`]).
///
/// Integers of 64 bits become ones of 32, scalars get an axis. Extents that the network computes are those of the
/// default shapes. Operators that upstream does not have, such as tables and fused steps, are an
/// [`Error::Unsupported`] that names the node; so are quantized operators, which are written as conversions to reals
/// and back only.
pub fn write(graph: &Graph, default_shapes: &[Vec<usize>]) -> Result<Vec<u8>, Error> {
    graph.expect_numbers()?;
    let graph = plain(graph, default_shapes)?;
    let mut writer = Writer {
        graph: &graph,
        quants: graph.meanings(),
        operators: Vec::new(),
        variables: Vec::new(),
        numbers: HashMap::new(),
    };
    // The file's order is the reverse of the one that readers give inputs in.
    for &id in graph.inputs.iter().rev() {
        writer.input(id)?;
    }
    for node in &graph.nodes {
        writer.node(node)?;
    }
    let mut outputs = Vec::new();
    for &id in &graph.outputs {
        let number = writer.number(id)?;
        outputs.push(TableBuilder::default().u32(0, number).u32(1, number));
    }
    let metadata = TableBuilder::default().u8(0, 1);
    let model = TableBuilder::default()
        .u32(0, LIBRARY)
        .u32(1, MODEL)
        .tables(2, writer.operators)
        .tables(3, writer.variables)
        .tables(4, outputs)
        .table(7, metadata);
    // The length in front counts nothing of itself; references and alignments do not care.
    let mut file = vec![0; 4];
    flatbuffer::write(&mut file, MEGENGINE_2, model);
    let length = u32::try_from(file.len() - 4)
        .map_err(|_| Error::Graph("the model is larger than the format's limit of 4 GiB".into()))?;
    file[..4].copy_from_slice(&length.to_le_bytes());
    Ok(file)
}

/// Extents for every input of the graph: those given by name, and 1 for what is open otherwise.
///
/// A name that no input has is an error.
pub fn default_shapes<S: std::hash::BuildHasher>(
    graph: &Graph,
    given: &HashMap<String, Vec<usize>, S>,
) -> Result<Vec<Vec<usize>>, Error> {
    let known = |name: &String| graph.inputs.iter().any(|&id| graph.value(id).name == *name);
    if let Some(name) = given.keys().find(|name| !known(name)) {
        return Err(Error::Graph(format!("no input is called '{name}'")));
    }
    let shape = |&id: &ValueId| {
        let value = graph.value(id);
        let open = |dim: &Dim| if let Dim::Fixed(extent) = dim { *extent } else { 1 };
        given.get(&value.name).cloned().unwrap_or_else(|| value.shape.iter().flatten().map(open).collect())
    };
    Ok(graph.inputs.iter().map(shape).collect())
}

/// The graph bound to its default extents, with everything folded that follows from them.
fn plain(graph: &Graph, default_shapes: &[Vec<usize>]) -> Result<Graph, Error> {
    if default_shapes.len() != graph.inputs.len() {
        let (given, wanted) = (default_shapes.len(), graph.inputs.len());
        return Err(Error::Graph(format!("{given} default shapes for {wanted} inputs")));
    }
    let mut graph = graph.clone();
    let names: Vec<String> = graph.inputs.iter().map(|&id| graph.value(id).name.clone()).collect();
    let shapes: Vec<(&str, &[usize])> =
        names.iter().map(String::as_str).zip(default_shapes.iter().map(Vec::as_slice)).collect();
    graph.bind(&shapes)?;
    passes::dead_code(&mut graph)?;
    passes::fold_constants(&mut graph)?;
    passes::fold_dequantize(&mut graph)?;
    passes::fold_constants(&mut graph)?;
    passes::dead_code(&mut graph)?;
    crate::infer::infer(&mut graph)?;
    Ok(graph)
}

struct Writer<'g> {
    graph: &'g Graph,
    operators: Vec<TableBuilder>,
    /// The variables' names and extents.
    variables: Vec<TableBuilder>,
    numbers: HashMap<ValueId, u32>,
    /// For every value, what its integers mean: in the format that is part of a variable's type.
    quants: Vec<Option<QuantParams>>,
}

/// An operator to be written.
struct Operator<'a> {
    kind: &'a str,
    param: Option<(u8, TableBuilder)>,
    inputs: Vec<u32>,
    tensors: Vec<TableBuilder>,
}

/// What a file's variable is: name, element type and extents.
#[derive(Clone)]
struct Variable {
    name: String,
    element: Element,
    shape: Vec<usize>,
}

impl Variable {
    /// Extents as the format has them: at least one axis.
    fn extents(&self) -> impl Iterator<Item = u32> {
        let scalar = self.shape.is_empty().then_some(1);
        self.shape.iter().map(|&extent| extent as u32).chain(scalar)
    }
}

fn place() -> TableBuilder {
    TableBuilder::default().text(0, PLACE)
}

fn int(slot: usize, value: i32) -> TableBuilder {
    TableBuilder::default().i32(slot, value)
}

impl Writer<'_> {
    /// Adds an operator that makes one variable, and gives its number.
    fn add(&mut self, operator: Operator<'_>, variable: &Variable) -> Result<u32, Error> {
        self.add_many(operator, std::slice::from_ref(variable), 0)
    }

    /// Adds an operator that makes variables, and gives the number of variable `result`.
    fn add_many(
        &mut self,
        operator: Operator<'_>,
        variables: &[Variable],
        result: usize,
    ) -> Result<u32, Error> {
        let first = self.variables.len() as u32;
        for variable in variables {
            let element = Self::element_table(variable)?;
            self.variables.push(
                TableBuilder::default()
                    .text(0, &variable.name)
                    .u32s(1, variable.extents())
                    .table(2, place())
                    .table(3, element),
            );
        }
        let (id, version) = registry::id_of(operator.kind);
        let mut table = TableBuilder::default()
            .text(0, operator.kind)
            .u64(1, id)
            .u32s(7, operator.inputs)
            .u32s(8, first..first + variables.len() as u32)
            .tables(9, [place()])
            .u32(12, version);
        if let Some((kind, params)) = operator.param {
            table = table.u8(3, kind).table(4, params);
        }
        if !operator.tensors.is_empty() {
            table = table.tables(11, operator.tensors);
        }
        self.operators.push(table);
        Ok(first + result as u32)
    }

    fn element_table(variable: &Variable) -> Result<TableBuilder, Error> {
        variable.element.write().ok_or_else(|| Error::Unsupported {
            node: variable.name.clone(),
            op: "value".into(),
            reason: format!("the format has no element type {}", variable.element.dtype),
        })
    }

    /// What a value becomes in the file.
    fn variable(&self, id: ValueId) -> Result<Variable, Error> {
        let value = self.graph.value(id);
        let (Some(dtype), Some(shape)) = (value.dtype, value.fixed_shape()) else {
            return Err(Error::Graph(format!("value '{}' has no known type and extents", value.name)));
        };
        let quant = self.quants[id.0 as usize].filter(|_| dtype.is_quantized());
        let element = Element { dtype: narrow(dtype), quant };
        Ok(Variable { name: value.name.clone(), element, shape: shape.to_vec() })
    }

    fn input(&mut self, id: ValueId) -> Result<(), Error> {
        let variable = self.variable(id)?;
        let tensor = TableBuilder::default()
            .text(0, &variable.name)
            .u32s(1, variable.extents())
            .table(2, place())
            .table(3, Self::element_table(&variable)?)
            .u8(4, 1)
            .table(5, TableBuilder::default());
        let operator = Operator {
            kind: "Host2DeviceCopy",
            param: Some((63, TableBuilder::default())),
            inputs: Vec::new(),
            tensors: vec![tensor],
        };
        let number = self.add(operator, &variable)?;
        self.numbers.insert(id, number);
        Ok(())
    }

    /// The variable of a value; constants are written where they are first read.
    fn number(&mut self, id: ValueId) -> Result<u32, Error> {
        if let Some(&number) = self.numbers.get(&id) {
            return Ok(number);
        }
        let value: &Value = self.graph.value(id);
        let constant = value
            .constant
            .as_ref()
            .ok_or_else(|| Error::Graph(format!("value '{}' is made by no node", value.name)))?;
        let number = self.constant(constant, self.quants[id.0 as usize], &value.name)?;
        self.numbers.insert(id, number);
        Ok(number)
    }

    fn constant(
        &mut self,
        constant: &Constant,
        quant: Option<QuantParams>,
        name: &str,
    ) -> Result<u32, Error> {
        let dtype = narrow(constant.dtype());
        let unsupported =
            |reason: String| Error::Unsupported { node: name.into(), op: "constant".into(), reason };
        let bytes = if dtype == constant.dtype() {
            constant.bytes().to_vec()
        } else {
            let values = constant.to_i64().ok_or_else(|| unsupported("values above 2^63".into()))?;
            // Ends of slices and the like say "as far as it goes".
            values
                .iter()
                .flat_map(|&value| (value.clamp(i32::MIN.into(), i32::MAX.into()) as i32).to_le_bytes())
                .collect()
        };
        let shape = constant.shape().to_vec();
        let variable = Variable { name: name.into(), element: Element { dtype, quant }, shape };
        let mut tensor = TableBuilder::default()
            .u32s(1, variable.extents())
            .table(2, place())
            .table(3, Self::element_table(&variable)?)
            .u8(4, 1)
            .table(5, TableBuilder::default());
        tensor = tensor.part(6, Part::Vector(bytes.len(), ALIGNMENT, bytes.into()));
        let operator =
            Operator { kind: "ImmutableTensor", param: None, inputs: Vec::new(), tensors: vec![tensor] };
        self.add(operator, &variable)
    }

    fn ints(&mut self, values: &[i64], name: &str) -> Result<u32, Error> {
        let constant = Constant::from_i64([values.len()].into(), values)
            .ok_or_else(|| Error::Graph(format!("too many integers for '{name}'")))?;
        self.constant(&constant, None, name)
    }

    fn scalar(&mut self, value: f32, name: &str) -> Result<u32, Error> {
        let constant = Constant::from_f32([1].into(), &[value]);
        let constant = constant.ok_or_else(|| Error::Graph("one value".into()))?;
        self.constant(&constant, None, name)
    }
}

/// The element type that stands for one that the format lacks.
fn narrow(dtype: DType) -> DType {
    if matches!(dtype, DType::I64 | DType::U32) { DType::I32 } else { dtype }
}

impl Writer<'_> {
    fn node(&mut self, node: &Node) -> Result<(), Error> {
        let unsupported = |reason: &str| Error::Unsupported {
            node: node.name.clone(),
            op: node.op.name().into(),
            reason: format!("{reason}, which a MegEngine model cannot express"),
        };
        if let Op::Split(op) = &node.op {
            return self.split(node, op.axis);
        }
        let [Some(output)] = *node.outputs.as_slice() else { return Err(unsupported("several results")) };
        let result = self.variable(output)?;
        // Operands that only describe are read from the graph, not the file.
        let data = match &node.op {
            Op::Reshape(_)
            | Op::Slice(_)
            | Op::Expand(_)
            | Op::Pad(_)
            | Op::Resize(_)
            | Op::Clip(_)
            | Op::QuantizeLinear(_)
            | Op::DequantizeLinear(_)
            | Op::Gather(_)
            | Op::Reduce(_) => 1,
            _ => node.inputs.len(),
        };
        let mut inputs = Vec::with_capacity(data);
        for input in node.inputs.iter().take(data) {
            inputs.push(match input {
                Some(id) => Some(self.number(*id)?),
                None => None,
            });
        }
        let number = Site { writer: self, node, inputs, result }.write()?;
        self.numbers.insert(output, number);
        Ok(())
    }

    /// Parts along an axis, an operator each.
    fn split(&mut self, node: &Node, axis: isize) -> Result<(), Error> {
        let x = node.inputs.first().copied().flatten();
        let x = x.ok_or_else(|| Error::Graph(format!("node '{}' has no operand", node.name)))?;
        let number = self.number(x)?;
        let rank = self.variable(x)?.shape.len();
        let axis = if axis < 0 { axis + rank as isize } else { axis } as usize;
        let mut start = 0;
        for output in node.outputs.iter().flatten() {
            let result = self.variable(*output)?;
            let end = start + result.shape[axis] as i64;
            let part = self.subtensor(number, &[(axis, [start, end, 1])], &result)?;
            self.numbers.insert(*output, part);
            start = end;
        }
        Ok(())
    }

    /// A strided part; per axis the start, end and step.
    fn subtensor(&mut self, x: u32, ranges: &[(usize, [i64; 3])], result: &Variable) -> Result<u32, Error> {
        let mut items = Vec::new();
        let mut inputs = vec![x];
        for &(axis, [start, end, step]) in ranges {
            // A walk to the front has no number for where it ends.
            let open = step < 0 && end < 0;
            items.extend_from_slice(&[axis as u8, 1, u8::from(!open), 1, 0]);
            inputs.push(self.ints(&[start], &format!("{}.start", result.name))?);
            if !open {
                inputs.push(self.ints(&[end], &format!("{}.end", result.name))?);
            }
            inputs.push(self.ints(&[step], &format!("{}.step", result.name))?);
        }
        let params = TableBuilder::default().part(0, Part::Vector(ranges.len(), 1, items.into()));
        self.add(
            Operator { kind: "Subtensor", param: Some((66, params)), inputs, tensors: Vec::new() },
            result,
        )
    }
}

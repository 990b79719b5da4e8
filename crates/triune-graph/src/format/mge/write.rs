//! From a [`Graph`] to a model file of version 2, with operators that upstream's library has.
//!
//! The graph is bound to default extents and its shape arithmetic folded first, so that what is written is plain
//! computation; reading it back gives the same numbers, operator by operator.

use std::collections::HashMap;

use triune_tensor::{DType, QuantParams};

use super::{element::Element, registry};
use crate::{
    Constant, Dim, Error, Graph, Node, Op, Value, ValueId,
    format::flatbuffer::{self, Part, TableBuilder},
    ops::{
        BinaryKind, CoordinateMode, NearestMode, PadMode, PoolKind, ReduceKind, ResizeMode, Slice, UnaryKind,
    },
    passes,
};

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
    let graph = plain(graph, default_shapes)?;
    let mut writer = Writer {
        graph: &graph,
        operators: Vec::new(),
        variables: Vec::new(),
        numbers: HashMap::new(),
        quants: HashMap::new(),
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
    flatbuffer::write(&mut file, super::file::V2_IDENTIFIER, model);
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
    /// What integers that a conversion made mean.
    quants: HashMap<ValueId, QuantParams>,
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
        let quant = value.quant.filter(|_| dtype.is_quantized());
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
        let number = self.constant(constant, value.quant, &value.name)?;
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
        tensor = tensor.part(6, Part::Vector(bytes.len(), ALIGNMENT, bytes));
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

/// One node while its operators are written.
struct Site<'w, 'g> {
    writer: &'w mut Writer<'g>,
    node: &'w Node,
    inputs: Vec<Option<u32>>,
    result: Variable,
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
        let params = TableBuilder::default().part(0, Part::Vector(ranges.len(), 1, items));
        self.add(
            Operator { kind: "Subtensor", param: Some((66, params)), inputs, tensors: Vec::new() },
            result,
        )
    }
}

impl Site<'_, '_> {
    fn unsupported(&self, reason: impl std::fmt::Display) -> Error {
        Error::Unsupported {
            node: self.node.name.clone(),
            op: self.node.op.name().into(),
            reason: format!("{reason} cannot be written as a MegEngine model"),
        }
    }

    fn input(&self, index: usize) -> Result<u32, Error> {
        self.inputs
            .get(index)
            .copied()
            .flatten()
            .ok_or_else(|| self.unsupported(format!("a missing input {index}")))
    }

    fn variable(&self, index: usize) -> Result<Variable, Error> {
        let id = self.node.inputs.get(index).copied().flatten();
        self.writer.variable(id.ok_or_else(|| self.unsupported(format!("a missing input {index}")))?)
    }

    fn known(&self, index: usize) -> Option<&Constant> {
        self.writer.graph.value(self.node.inputs.get(index).copied().flatten()?).constant.as_ref()
    }

    fn ints(&self, index: usize) -> Option<Vec<i64>> {
        self.known(index)?.to_i64()
    }

    /// A variable between this node's operators, like the result.
    fn inner(&self, suffix: &str) -> Variable {
        Variable { name: format!("{}.{suffix}", self.result.name), ..self.result.clone() }
    }

    fn add(
        &mut self,
        kind: &str,
        param: Option<(u8, TableBuilder)>,
        inputs: &[u32],
        to: &Variable,
    ) -> Result<u32, Error> {
        self.writer.add(Operator { kind, param, inputs: inputs.to_vec(), tensors: Vec::new() }, to)
    }

    /// A function by its number in the schema's `ElemwiseMode`.
    fn elemwise(&mut self, mode: u32, inputs: &[u32], to: &Variable) -> Result<u32, Error> {
        self.add("Elemwise", Some((17, TableBuilder::default().u32(0, mode))), inputs, to)
    }

    fn convert(&mut self, x: u32, to: &Variable) -> Result<u32, Error> {
        let params = Writer::element_table(to)?;
        self.add("TypeCvtV2", Some((67, params)), &[x], to)
    }

    fn reshape(&mut self, x: u32, to: &Variable) -> Result<u32, Error> {
        let dims: Vec<i64> = to.extents().map(i64::from).collect();
        let wish = self.writer.ints(&dims, &format!("{}.shape", to.name))?;
        self.add("ReshapeV1", Some((54, TableBuilder::default())), &[x, wish], to)
    }

    fn write(mut self) -> Result<u32, Error> {
        let result = self.result.clone();
        let epilogue = match &self.node.op {
            Op::Conv(op) => Some(&op.epilogue),
            Op::Gemm(op) => Some(&op.epilogue),
            Op::MatMul(op) => Some(&op.epilogue),
            Op::Binary(op) => Some(&op.epilogue),
            _ => None,
        };
        if epilogue.is_some_and(|epilogue| !epilogue.stages.is_empty()) {
            return Err(self.unsupported("a fused epilogue"));
        }
        if result.element.quant.is_some() {
            return Err(self.unsupported("an operator over quantized values"));
        }
        match &self.node.op {
            Op::Conv(op) => {
                let pad = op.pad;
                let groups = op.groups;
                let x = self.padded(pad, 0.0)?;
                let mut params = TableBuilder::default();
                for (slot, value) in [
                    (1, if symmetric(pad) { pad[0] } else { 0 }),
                    (2, if symmetric(pad) { pad[1] } else { 0 }),
                    (3, op.stride[0]),
                    (4, op.stride[1]),
                    (5, op.dilation[0]),
                    (6, op.dilation[1]),
                    (7, usize::from(groups > 1)),
                ] {
                    params = params.u32(slot, value as u32);
                }
                let mut weights = self.input(1)?;
                if groups > 1 {
                    let mut grouped = self.variable(1)?;
                    grouped.shape[0] /= groups;
                    grouped.shape.insert(0, groups);
                    grouped.name = format!("{}.grouped", result.name);
                    weights = self.reshape(weights, &grouped)?;
                }
                let bias = self.inputs.get(2).copied().flatten();
                let product = if bias.is_some() { self.inner("product") } else { result.clone() };
                let y = self.add("Convolution", Some((3, params)), &[x, weights], &product)?;
                match bias {
                    None => Ok(y),
                    Some(bias) => {
                        let mut row = self.inner("bias");
                        row.shape = vec![1, result.shape[1], 1, 1];
                        let row = self.reshape(bias, &row)?;
                        self.elemwise(16, &[y, row], &result)
                    }
                }
            }
            Op::Gemm(op) => {
                let (alpha, beta) = (op.alpha, op.beta);
                let params = TableBuilder::default().u8(0, u8::from(op.trans_a)).u8(1, u8::from(op.trans_b));
                let addend = self.inputs.get(2).copied().flatten();
                let (a, b) = (self.input(0)?, self.input(1)?);
                let last = alpha == 1.0 && addend.is_none();
                let to = if last { result.clone() } else { self.inner("product") };
                let mut y = self.add("MatrixMulV2", Some((20, params)), &[a, b], &to)?;
                if alpha != 1.0 {
                    let factor = self.writer.scalar(alpha, &format!("{}.alpha", result.name))?;
                    let to = if addend.is_none() { result.clone() } else { self.inner("scaled") };
                    y = self.elemwise(21, &[y, factor], &to)?;
                }
                let Some(mut addend) = addend else { return Ok(y) };
                if beta != 1.0 {
                    let factor = self.writer.scalar(beta, &format!("{}.beta", result.name))?;
                    let mut to = self.variable(2)?;
                    to.name = format!("{}.addend", result.name);
                    addend = self.elemwise(21, &[addend, factor], &to)?;
                }
                self.elemwise(16, &[y, addend], &result)
            }
            Op::MatMul(_) => {
                let (a, b) = (self.variable(0)?.shape, self.variable(1)?.shape);
                let inputs = [self.input(0)?, self.input(1)?];
                let kind = match (a.len(), b.len()) {
                    (2, 2) => "MatrixMulV2",
                    (m, n) if m == n && a[..m - 2] == b[..m - 2] => "BatchedMatrixMulV2",
                    _ => return Err(self.unsupported(format!("a product of {a:?} and {b:?}"))),
                };
                self.add(kind, Some((20, TableBuilder::default())), &inputs, &result)
            }
            Op::BatchNormalization(op) => {
                let params = TableBuilder::default().u32(0, 2).u32(1, 1).f64(2, f64::from(op.epsilon));
                if result.shape.len() != 4 {
                    return Err(self.unsupported(format!("normalization of {:?}", result.shape)));
                }
                let mut row = self.inner("parameter");
                row.shape = vec![1, result.shape[1], 1, 1];
                let mut inputs = vec![self.input(0)?];
                for index in 1..5 {
                    let operand = self.input(index)?;
                    inputs.push(self.reshape(operand, &row)?);
                }
                let mut nothing = self.inner("reserve");
                nothing.shape = vec![0];
                let variables = [row.clone(), row, nothing, result.clone()];
                let operator =
                    Operator { kind: "BatchNormV1", param: Some((11, params)), inputs, tensors: Vec::new() };
                self.writer.add_many(operator, &variables, 3)
            }
            Op::Pool(op) => {
                if op.dilation != [1; 2] {
                    return Err(self.unsupported("a dilated window"));
                }
                let (mode, fill) = match op.kind {
                    PoolKind::Max => (0, f32::NEG_INFINITY),
                    PoolKind::Average { count_include_pad: true } => (1, 0.0),
                    PoolKind::Average { count_include_pad: false } => (2, 0.0),
                };
                let x_shape = self.variable(0)?.shape;
                let fits = |axis: usize| {
                    let padded = x_shape[axis + 2] + op.pad[axis] + op.pad[axis + 2];
                    padded >= op.kernel[axis]
                        && (padded - op.kernel[axis]) / op.stride[axis] + 1 == result.shape[axis + 2]
                };
                if op.ceil_mode && !(fits(0) && fits(1)) || !symmetric(op.pad) && mode == 2 {
                    return Err(self.unsupported("partial windows at one end"));
                }
                let pad = op.pad;
                let own = if symmetric(pad) { [pad[0], pad[1]] } else { [0; 2] };
                let mut params = TableBuilder::default().u32(0, mode);
                let values = [own, op.stride, op.kernel].concat();
                for (index, value) in values.into_iter().enumerate() {
                    params = params.u32(index + 1, value as u32);
                }
                let x = self.padded(pad, fill)?;
                self.add("PoolingV1", Some((9, params)), &[x], &result)
            }
            Op::GlobalPool(op) => {
                let mode = if op.kind == PoolKind::Max { 0 } else { 2 };
                let [_, _, rows, columns] = *self.variable(0)?.shape else {
                    return Err(self.unsupported("an operand without rows and columns"));
                };
                let mut params = TableBuilder::default().u32(0, mode);
                for (slot, value) in [(3, rows), (4, columns), (5, rows), (6, columns)] {
                    params = params.u32(slot, value as u32);
                }
                let x = self.input(0)?;
                self.add("PoolingV1", Some((9, params)), &[x], &result)
            }
            Op::Binary(op) => {
                let mode = match op.kind {
                    BinaryKind::Add => 16,
                    BinaryKind::Sub => 24,
                    BinaryKind::Mul => 21,
                    BinaryKind::Div if result.element.dtype.is_float() => 27,
                    BinaryKind::Min => 19,
                    BinaryKind::Max => 18,
                    BinaryKind::Pow => 22,
                    BinaryKind::FloorDiv => 17,
                    BinaryKind::Rem => 20,
                    BinaryKind::LogAddExp => 28,
                    BinaryKind::ShiftLeft => 32,
                    BinaryKind::ShiftRight => 33,
                    BinaryKind::MulHigh => 43,
                    BinaryKind::Atan2 => 44,
                    BinaryKind::And => 53,
                    BinaryKind::Or => 54,
                    BinaryKind::Xor => 55,
                    BinaryKind::PRelu => 73,
                    BinaryKind::Div => return Err(self.unsupported("a division of integers")),
                    BinaryKind::Mod
                    | BinaryKind::Equal
                    | BinaryKind::NotEqual
                    | BinaryKind::Less
                    | BinaryKind::LessOrEqual
                    | BinaryKind::Greater
                    | BinaryKind::GreaterOrEqual => return Err(self.unsupported("this function")),
                };
                let inputs = [self.input(0)?, self.input(1)?];
                self.elemwise(mode, &inputs, &result)
            }
            Op::Unary(op) => self.unary(op.kind),
            Op::Softmax(op) => {
                if op.flatten {
                    return Err(self.unsupported("a softmax over several axes"));
                }
                let x = self.input(0)?;
                self.add("Softmax", Some((90, int(0, op.axis as i32))), &[x], &result)
            }
            Op::Reshape(_) | Op::Flatten(_) | Op::Squeeze(_) | Op::Unsqueeze(_) => {
                let x = self.input(0)?;
                self.reshape(x, &result)
            }
            Op::Transpose(op) => {
                let pattern: Vec<u8> = op.perm.iter().flat_map(|&axis| (axis as i32).to_le_bytes()).collect();
                let rank = op.perm.len();
                let params =
                    TableBuilder::default().part(0, Part::Vector(rank, 4, pattern)).u32(1, rank as u32);
                let x = self.input(0)?;
                self.add("Dimshuffle", Some((64, params)), &[x], &result)
            }
            Op::Concat(op) => {
                let axis = op.axis as i32;
                let inputs: Result<Vec<u32>, Error> =
                    (0..self.inputs.len()).map(|index| self.input(index)).collect();
                self.add("Concat", Some((2, int(0, axis))), &inputs?, &result)
            }
            Op::Slice(_) => {
                let from = self.variable(0)?.shape;
                let ranges = self.ints(1).zip(self.ints(2)).and_then(|(starts, ends)| {
                    Slice::ranges(&from, &starts, &ends, self.ints(3).as_deref(), self.ints(4).as_deref())
                });
                let ranges = ranges.ok_or_else(|| self.unsupported("a computed range"))?;
                let mut taken = Vec::new();
                for (axis, range) in ranges.iter().enumerate() {
                    if range.length == from[axis] && range.step == 1 {
                        continue;
                    }
                    // One past the last element, from either side.
                    let step = range.step as i64;
                    let last = range.start as i64 + (range.length as i64 - 1).max(0) * step;
                    let end = if range.length == 0 { range.start as i64 } else { last + step.signum() };
                    taken.push((axis, [range.start as i64, end, step]));
                }
                let x = self.input(0)?;
                self.writer.subtensor(x, &taken, &result)
            }
            Op::Expand(_) => {
                let dims: Vec<i64> = result.extents().map(i64::from).collect();
                let wish = self.writer.ints(&dims, &format!("{}.shape", result.name))?;
                let x = self.input(0)?;
                self.add("Broadcast", Some((1, TableBuilder::default())), &[x, wish], &result)
            }
            Op::Identity(_) => {
                let x = self.input(0)?;
                self.add("Identity", Some((1, TableBuilder::default())), &[x], &result)
            }
            Op::Cast(_) => {
                let x = self.input(0)?;
                self.convert(x, &result)
            }
            Op::Resize(op) => {
                let mode = match (op.mode, op.coordinates) {
                    (ResizeMode::Nearest(NearestMode::Floor), CoordinateMode::Asymmetric) => 0,
                    (ResizeMode::Linear, CoordinateMode::HalfPixel | CoordinateMode::PytorchHalfPixel) => 1,
                    _ => return Err(self.unsupported("this choice of coordinates")),
                };
                let x_shape = self.variable(0)?.shape;
                let ([n, c, ..], [rows, columns]) = (&*x_shape, &result.shape[result.shape.len().min(2)..])
                else {
                    return Err(self.unsupported("an operand without rows and columns"));
                };
                if result.shape[..2] != [*n, *c] {
                    return Err(self.unsupported("resampled channels"));
                }
                let sizes = [*rows as i64, *columns as i64];
                let sizes = self.writer.ints(&sizes, &format!("{}.size", result.name))?;
                let params = TableBuilder::default().u32(0, mode).u32(1, 0);
                let x = self.input(0)?;
                self.add("ResizeV2", Some((40, params)), &[x, sizes], &result)
            }
            Op::QuantizeLinear(_) | Op::DequantizeLinear(_) => self.border(),
            Op::Reduce(op) => {
                let mode = match op.kind {
                    ReduceKind::Sum => 0,
                    ReduceKind::SumSquare => 1,
                    ReduceKind::Product => 2,
                    ReduceKind::Min => 3,
                    ReduceKind::Max => 4,
                    ReduceKind::Mean => 5,
                };
                if self.node.inputs.len() > 1 {
                    return Err(self.unsupported("a reduction to a shape"));
                }
                let mut inner = self.variable(0)?;
                inner.name = format!("{}.partial", result.name);
                let rank = inner.shape.len() as isize;
                let axes = op.axes.clone().unwrap_or_else(|| (0..rank).collect());
                let mut y = self.input(0)?;
                if axes.len() > 1 && op.kind == ReduceKind::SumSquare {
                    return Err(self.unsupported("a sum of squares over several axes"));
                }
                for axis in axes {
                    let axis = if axis < 0 { axis + rank } else { axis };
                    inner.shape[axis as usize] = 1;
                    let params = TableBuilder::default().u32(0, mode).i32(1, axis as i32);
                    y = self.add("ReduceV2", Some((23, params)), &[y], &inner)?;
                }
                self.reshape(y, &result)
            }
            Op::Pad(op) => {
                let mode = match op.mode {
                    PadMode::Constant => 2,
                    PadMode::Reflect => 1,
                    PadMode::Edge => 0,
                };
                let rank = result.shape.len();
                let value = match self.known(2) {
                    Some(value) => value.scalar_f32(),
                    None => Some(0.0).filter(|_| self.node.inputs.get(2).copied().flatten().is_none()),
                };
                let amounts = self
                    .ints(1)
                    .and_then(|pads| crate::ops::Pad::amounts(rank, &pads, self.ints(3).as_deref()));
                let (Some(value), Some(amounts)) = (value, amounts) else {
                    return Err(self.unsupported("computed padding"));
                };
                if rank > 7 || amounts.iter().any(|&(before, behind)| before < 0 || behind < 0) {
                    return Err(self.unsupported("this padding"));
                }
                let params = padding(&amounts, value, mode);
                let x = self.input(0)?;
                self.add("Padding", Some((82, params)), &[x], &result)
            }
            other => Err(self.unsupported(format!("the operator {}", other.name()))),
        }
    }

    /// Operand 0 with its border added, when the operator cannot add it itself.
    fn padded(&mut self, pad: [usize; 4], fill: f32) -> Result<u32, Error> {
        let x = self.input(0)?;
        if symmetric(pad) {
            return Ok(x);
        }
        let mut to = self.variable(0)?;
        to.name = format!("{}.padded", self.result.name);
        to.shape[2] += pad[0] + pad[2];
        to.shape[3] += pad[1] + pad[3];
        let amounts = [(0, 0), (0, 0), (pad[0] as i64, pad[2] as i64), (pad[1] as i64, pad[3] as i64)];
        self.add("Padding", Some((82, padding(&amounts, fill, 2))), &[x], &to)
    }

    fn unary(&mut self, kind: UnaryKind) -> Result<u32, Error> {
        let result = self.result.clone();
        let x = self.input(0)?;
        let mode = match kind {
            UnaryKind::Relu => 0,
            UnaryKind::Abs => 1,
            UnaryKind::Ceil => 4,
            UnaryKind::Exp => 6,
            UnaryKind::Floor => 8,
            UnaryKind::Log => 9,
            UnaryKind::Neg => 11,
            UnaryKind::Sigmoid => 12,
            UnaryKind::Tanh => 14,
            UnaryKind::Erf => 45,
            UnaryKind::HardSwish => 49,
            UnaryKind::Silu => 56,
            UnaryKind::Gelu => 58,
            UnaryKind::Softplus => 76,
            UnaryKind::Clip([0.0, 6.0]) => 78,
            UnaryKind::Sqrt => 83,
            UnaryKind::LeakyRelu(alpha) => {
                let alpha = self.writer.scalar(alpha, &format!("{}.alpha", result.name))?;
                return self.elemwise(73, &[x, alpha], &result);
            }
            UnaryKind::Clip([low, high]) => {
                let low = self.writer.scalar(low, &format!("{}.low", result.name))?;
                let high = self.writer.scalar(high, &format!("{}.high", result.name))?;
                return self.elemwise(74, &[x, low, high], &result);
            }
            UnaryKind::Reciprocal => {
                let one = self.writer.scalar(1.0, &format!("{}.one", result.name))?;
                return self.elemwise(27, &[one, x], &result);
            }
            UnaryKind::HardSigmoid { alpha, beta } => {
                let mut number =
                    |value: f32, name: &str| self.writer.scalar(value, &format!("{}.{name}", result.name));
                let (alpha, beta) = (number(alpha, "alpha")?, number(beta, "beta")?);
                let (low, high) = (number(0.0, "low")?, number(1.0, "high")?);
                let inner = self.inner("line");
                let line = self.elemwise(35, &[x, alpha, beta], &inner)?;
                return self.elemwise(74, &[line, low, high], &result);
            }
            other => return Err(self.unsupported(format!("the function {}", other.name()))),
        };
        self.elemwise(mode, &[x], &result)
    }

    /// Reals to integers or back, with one scale.
    fn border(&mut self) -> Result<u32, Error> {
        let scale = self.known(1).and_then(Constant::scalar_f32);
        let zero_point = match self.node.inputs.get(2).copied().flatten() {
            None => Some(0),
            Some(_) => match self.ints(2).as_deref() {
                Some(&[zero_point]) => i32::try_from(zero_point).ok(),
                _ => None,
            },
        };
        let (Some(scale), Some(zero_point)) = (scale, zero_point) else {
            return Err(self.unsupported("quantization with several or computed scales"));
        };
        let quant = QuantParams { scale, zero_point };
        let mut result = self.result.clone();
        if matches!(self.node.op, Op::QuantizeLinear(_)) {
            result.element.quant = Some(quant);
            self.writer.quants.extend(self.node.outputs.iter().flatten().map(|&id| (id, quant)));
            let x = self.input(0)?;
            return self.convert(x, &result);
        }
        // What a variable's integers mean is part of its type, which says it to every reader.
        let source = self.node.inputs.first().copied().flatten();
        let x = match self.known(0).cloned() {
            Some(constant) => {
                self.writer.constant(&constant, Some(quant), &format!("{}.integers", result.name))?
            }
            None if source.and_then(|id| self.writer.quants.get(&id)) == Some(&quant) => self.input(0)?,
            None => {
                return Err(self.unsupported("integers that do not come from a quantization with this scale"));
            }
        };
        self.convert(x, &result)
    }
}

fn symmetric(pad: [usize; 4]) -> bool {
    pad[0] == pad[2] && pad[1] == pad[3]
}

/// A `Padding` table: what is added in front of each of seven axes, then behind, the value and the mode.
fn padding(amounts: &[(i64, i64)], value: f32, mode: u32) -> TableBuilder {
    let mut params = TableBuilder::default();
    for (axis, &(before, behind)) in amounts.iter().enumerate() {
        params = params.u32(axis, before as u32).u32(axis + 7, behind as u32);
    }
    params.f32(14, value).u32(15, mode)
}

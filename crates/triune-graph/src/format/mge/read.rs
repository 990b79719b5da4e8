//! From a file's operators to a [`Graph`]: numbers to values, operators by the registry.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use bytes::Bytes;
use triune_tensor::{DType, QuantParams, Rounding};

use super::{
    Model, ReadOptions, damaged,
    file::{File, Operator},
    node::NodeReader,
    registry::{self, Blocks},
    tensor,
};
use crate::{
    Constant, Dim, Error, Graph, Op, Value, ValueId,
    evaluate::Evaluator,
    format::names::Names,
    infer::{Expanded, of_function},
    ops::{
        CondTake, Hosted, NonZero,
        infer::{Operand, Operands, TensorType},
    },
    walk::Walk,
};

/// The version of the library that this reader knows; files of younger ones may use what it does not.
const LIBRARY: u32 = 101_399;
/// Most operators that a file's composite ones become, and bytes of constants with them: a small file costs little to read.
const MOST_NODES: usize = 1 << 17;
const MOST_BYTES: usize = 1 << 30;

/// The graph while it grows, with what every operator may need.
pub(super) struct Builder<'f> {
    pub(super) graph: Graph,
    pub(super) bytes: &'f Bytes,
    pub(super) options: ReadOptions,
    /// For every value of the graph, what its integers mean: in the format that is part of a variable's type.
    quants: Vec<Option<QuantParams>>,
    /// For every value of the graph, its type and extents with the file's default shapes.
    types: Vec<Option<TensorType>>,
    /// For every value, its elements where they follow from those shapes.
    folded: Vec<Option<Constant>>,
    evaluator: Evaluator,
    names: Names<'static>,
    node_names: Names<'static>,
    /// For every variable of the file, the value it became.
    pub(super) variables: Vec<Option<ValueId>>,
    pub(super) default_shapes: Vec<Vec<usize>>,
    /// Values (N, C, H, W) of variables that the file has as (N, C/b, H, W, b), with that b.
    pub(super) blocks: HashMap<ValueId, usize>,
    /// Values whose extents depend on data: their types here are for the case that everything is taken.
    guessed: HashSet<ValueId>,
    /// What composite operators have become so far: finding their types means to expand them.
    expanded: Expanded,
}

/// Builds the graph of a file whose bytes are `bytes`.
pub(super) fn model(file: &File<'_>, bytes: &Bytes, options: ReadOptions) -> Result<Model, Error> {
    let mut builder = Builder {
        graph: Graph { rounding: Rounding::HalfAwayFromZero, ..Graph::default() },
        bytes,
        options,
        quants: Vec::new(),
        types: Vec::new(),
        folded: Vec::new(),
        evaluator: Evaluator::new(64 << 10),
        names: Names::default(),
        node_names: Names::default(),
        variables: Vec::new(),
        default_shapes: Vec::new(),
        blocks: HashMap::new(),
        guessed: HashSet::new(),
        expanded: Expanded::default(),
    };
    // The file's names are taken before any is made up; of equal ones, the first keeps it.
    let variables = file.operators.last().map_or(0, |operator| operator.outputs.end);
    let mut names: Vec<String> = Vec::new();
    for operator in &file.operators {
        for variable in operator.outputs.clone() {
            let own = file.names.get(variable as usize).cloned().flatten();
            // An input goes by its tensor's name, which a caller knows.
            let own = if registry::is_input(&operator.kind) {
                operator.tensors.first().and_then(|tensor| tensor.name.clone()).or(own)
            } else {
                own
            };
            let name = own.unwrap_or_else(|| format!("{}[{variable}]", operator.kind));
            names.push(builder.names.unique(name));
        }
    }
    debug_assert_eq!(names.len(), variables as usize);
    let mut walk = Walk::new();
    for operator in &file.operators {
        walk.node()?;
        builder.variables.resize(operator.outputs.end as usize, None);
        read_operator(&mut builder, file, operator, &names)?;
    }
    let mut taken: HashSet<ValueId> = builder.graph.inputs.iter().copied().collect();
    for (variable, alias) in &file.outputs {
        let id = builder.variables.get(*variable as usize).copied().flatten();
        let id = id.ok_or_else(|| match left_out(file, *variable) {
            Some((operator, result)) => Error::Unsupported {
                node: operator.name.clone().unwrap_or_else(|| operator.kind.clone()),
                op: operator.kind.clone(),
                reason: format!("its result {result}, an output of the model, is not computed"),
            },
            None => damaged(format!("output {variable} is made by no operator")),
        })?;
        let id = output(&mut builder, file, *variable, id)?;
        if let Some(alias) = alias {
            let name = &builder.graph.value(id).name;
            if name != alias && !taken.contains(&id) {
                let name = builder.names.unique(alias.clone());
                builder.graph.value_mut(id).name = name;
            }
        }
        taken.insert(id);
        builder.graph.outputs.push(id);
    }
    if builder.graph.outputs.is_empty() {
        return Err(damaged("the model has no outputs"));
    }
    // Upstream keeps inputs in a map that gives them back in this order.
    builder.graph.inputs.reverse();
    builder.default_shapes.reverse();
    let mut warnings = Vec::new();
    if file.library > LIBRARY {
        let [major, minor, patch] = [file.library / 10_000, file.library / 100 % 100, file.library % 100];
        warnings.push(format!("the model was written by a younger library, version {major}.{minor}.{patch}"));
    }
    Ok(Model {
        graph: builder.graph,
        default_shapes: builder.default_shapes,
        container: file.container,
        library: file.library,
        warnings,
    })
}

/// The operator that has a variable for a result, and the result's number: where no value came of it, its reader leaves that out.
fn left_out<'a>(file: &'a File<'_>, variable: u32) -> Option<(&'a Operator<'a>, u32)> {
    // Operators number their results one after the other.
    let maker = file.operators.partition_point(|operator| operator.outputs.end <= variable);
    let operator = file.operators.get(maker)?;
    Some((operator, variable.checked_sub(operator.outputs.start)?))
}

fn read_operator(
    builder: &mut Builder<'_>,
    file: &File<'_>,
    operator: &Operator<'_>,
    names: &[String],
) -> Result<(), Error> {
    let results = operator.outputs.start as usize..operator.outputs.end as usize;
    let own_names = names.get(results.clone()).unwrap_or_default();
    let requested = operator.name.as_ref().or_else(|| own_names.last()).unwrap_or(&operator.kind);
    let name = builder.node_names.unique(requested.clone());
    let unsupported =
        |reason: String| Error::Unsupported { node: name.clone(), op: operator.kind.clone(), reason };
    let entry = registry::find(&operator.kind).ok_or_else(|| {
        unsupported(if registry::is_machine_code(&operator.kind) {
            "it is machine code for third-party hardware, which a loader library runs there and nothing runs here; \
             dump the model without it"
                .into()
        } else {
            "operators of this type are not supported".into()
        })
    })?;
    let (low, high) = entry.inputs;
    if operator.inputs.len() < low || operator.inputs.len() > high {
        return Err(unsupported(format!("{} inputs; {low} to {high} are expected", operator.inputs.len())));
    }
    let mut inputs = Vec::with_capacity(operator.inputs.len());
    for &input in &operator.inputs {
        let id = builder.variables.get(input as usize).copied().flatten();
        let missing =
            || match left_out(file, input).filter(|(maker, _)| maker.outputs.end <= operator.outputs.start) {
                Some((maker, result)) => {
                    let name = maker.name.as_ref().unwrap_or(&maker.kind);
                    unsupported(format!(
                        "it reads result {result} of '{name}' ({}), which is not computed",
                        maker.kind
                    ))
                }
                None => unsupported(format!("input {input} is made by no operator before it")),
            };
        inputs.push(id.ok_or_else(missing)?);
    }
    let mut node = NodeReader { builder, operator, name: name.clone(), names: own_names, inputs };
    let kept = match registry::blocks(&operator.kind) {
        Blocks::Own => None,
        Blocks::Kept => node.unblock_alike()?,
        Blocks::Opened => {
            for index in 0..node.inputs.len() {
                node.inputs[index] = node.as_in_file(node.inputs[index])?;
            }
            None
        }
    };
    let value = (entry.read)(&mut node)?;
    if let Some(block) = kept {
        node.builder.blocks.insert(value, block);
    }
    node.finish(entry.result(own_names.len()), value)
}

/// A result of the network, with the axes that the file has.
fn output(builder: &mut Builder<'_>, file: &File<'_>, variable: u32, id: ValueId) -> Result<ValueId, Error> {
    // Operators number their results one after the other.
    let maker = file.operators.partition_point(|operator| operator.outputs.end <= variable);
    let operator = file.operators.get(maker).filter(|_| builder.blocks.contains_key(&id));
    let Some(operator) = operator else { return Ok(id) };
    let name = builder.graph.value(id).name.clone();
    let planes = builder.unique_name(format!("{name}.planes"));
    builder.graph.value_mut(id).name = planes;
    let mut node = NodeReader { builder, operator, name: name.clone(), names: &[], inputs: Vec::new() };
    let opened = node.as_in_file(id)?;
    builder.graph.value_mut(opened).name = name;
    Ok(opened)
}

impl Builder<'_> {
    /// A name that no value has yet.
    pub(super) fn unique_name(&mut self, name: String) -> String {
        self.names.unique(name)
    }

    /// A name that no node has yet.
    pub(super) fn unique_node_name(&mut self, name: String) -> String {
        self.node_names.unique(name)
    }

    /// Adds a value whose name is taken for it, with its type under the default shapes.
    pub(super) fn add(&mut self, value: Value, found: Option<TensorType>) -> ValueId {
        let id = self.graph.add_value(value);
        self.quants.push(None);
        self.types.push(found);
        self.folded.push(None);
        id
    }

    /// Adds a constant.
    pub(super) fn add_constant(&mut self, name: String, constant: Constant) -> ValueId {
        let found = TensorType { dtype: constant.dtype(), shape: constant.shape() };
        let id = self.graph.add_constant(name, constant);
        self.quants.push(None);
        self.types.push(Some(found));
        self.folded.push(None);
        id
    }

    /// What the integers of a value mean, if it is quantized.
    pub(super) fn quant(&self, id: ValueId) -> Option<QuantParams> {
        self.quants[id.0 as usize]
    }

    /// Says what the integers of a value mean.
    pub(super) fn set_quant(&mut self, id: ValueId, quant: Option<QuantParams>) {
        self.quants[id.0 as usize] = quant;
    }

    /// Adds an input with these default extents.
    pub(super) fn add_input(&mut self, name: &str, found: TensorType, quant: Option<QuantParams>) -> ValueId {
        let dim = |axis: usize| Dim::Symbol(Arc::from(format!("{name}.{axis}")));
        let value = Value {
            dtype: Some(found.dtype),
            shape: Some((0..found.shape.rank()).map(dim).collect()),
            ..Value::named(name)
        };
        let id = self.add(value, Some(found));
        self.set_quant(id, quant);
        self.graph.inputs.push(id);
        self.default_shapes.push(found.shape.to_vec());
        id
    }

    /// Type and extents of a value under the default shapes; `None` behind something that depends on data.
    pub(super) fn type_of(&self, id: ValueId) -> Option<TensorType> {
        self.types[id.0 as usize]
    }

    /// The elements of a value under the default shapes, where they follow from those.
    pub(super) fn folded(&self, id: ValueId) -> Option<&Constant> {
        self.graph.value(id).constant.as_ref().or(self.folded[id.0 as usize].as_ref())
    }

    /// The results' types, and elements where known, of an operator that would make the values `outputs`; of type `quantized`,
    /// if it computes on integers that mean reals.
    pub(super) fn infer(
        &mut self,
        node: &str,
        op: &Op,
        inputs: &[Option<ValueId>],
        outputs: &[ValueId],
        quantized: Option<DType>,
    ) -> Result<(), Error> {
        let guessed = inputs.iter().flatten().any(|id| self.guessed.contains(id));
        if guessed || op.runs_between_stages() {
            self.guessed.extend(outputs);
        }
        let mut operands = Vec::with_capacity(inputs.len());
        for input in inputs {
            operands.push(match input {
                None => None,
                Some(id) => {
                    let Some(TensorType { dtype, shape }) = self.type_of(*id) else { return Ok(()) };
                    let constant =
                        self.graph.value(*id).constant.as_ref().or(self.folded[id.0 as usize].as_ref());
                    Some(Operand { dtype, shape, constant })
                }
            });
        }
        let at = Operands { node, op: op.name(), inputs: &operands, quantized };
        if let Op::Function(function) = op {
            let found = match of_function(function, &at, outputs.len(), &mut self.expanded) {
                // What is guessed need not fit.
                Err(_) if guessed => return Ok(()),
                found => found?,
            };
            let Expanded { nodes, bytes } = self.expanded;
            if nodes > MOST_NODES || bytes > MOST_BYTES {
                let reason =
                    format!("composite operators become {nodes} operators and {bytes} bytes of constants");
                return Err(Error::Unsupported { node: node.into(), op: op.name().into(), reason });
            }
            for (&id, (found, folded)) in outputs.iter().zip(found) {
                self.types[id.0 as usize] = Some(found);
                self.folded[id.0 as usize] = folded.filter(|_| !guessed);
                self.graph.value_mut(id).dtype = Some(found.dtype);
            }
            return Ok(());
        }
        // On a copy: what inference fixes may differ for other extents.
        let found = match (op, op.clone().infer(&at, outputs.len())) {
            (Op::Hosted(Hosted::CondTake(_)), Err(_)) => CondTake::most(&at)?,
            (Op::Hosted(Hosted::NonZero(_)), Err(_)) => NonZero::most(&at)?,
            // What is guessed need not fit.
            (_, Err(_)) if guessed => return Ok(()),
            (_, found) => found?,
        };
        let values = if guessed { None } else { self.evaluator.evaluate(op, &at, &found) };
        for (index, (&id, found)) in outputs.iter().zip(&found).enumerate() {
            self.types[id.0 as usize] = Some(*found);
            self.folded[id.0 as usize] = values.as_ref().and_then(|values| values.get(index).cloned());
            self.graph.value_mut(id).dtype = Some(found.dtype);
        }
        Ok(())
    }

    /// The constant of an operator's tensor.
    pub(super) fn tensor(&self, tensor: &super::file::Tensor) -> Result<Constant, String> {
        tensor::constant(tensor, self.bytes, self.options)
    }
}

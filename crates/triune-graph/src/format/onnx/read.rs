//! From ONNX's messages to a [`Graph`]: names to ids, nodes to execution order, operators by the registry.

use std::{
    borrow::Cow,
    cell::RefCell,
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, HashSet},
    fmt::Display,
    path::Path,
    sync::Arc,
};

use bytes::Bytes;
use triune_tensor::{DType, Shape};

use super::{
    NodeReader, OPSETS, malformed,
    nested::{self, Outer, Scope},
    ops::{self, DEFAULT_DOMAIN, Meaning, Signature},
    proto::{Attribute, AttributeValue, DimInfo, Model, Network, NodeProto, TensorProto, ValueInfo},
    tensor::{self, Source},
};
use crate::{
    Constant, DefaultInput, Dim, Error, Graph, Node, Op, Strings, Value, ValueId, ValueKind,
    format::names::Names, walk::Walk,
};

/// The graph while it grows, with what every node may need.
pub(super) struct Builder<'b> {
    pub(super) graph: Graph,
    pub(super) source: Source<'b>,
    /// The file's values by name.
    symbols: Symbols<'b>,
    /// Constants whose elements made operators what they are.
    pub(super) decided: RefCell<HashSet<ValueId>>,
    /// How many axes values have of which the file does not say it, as far as their makers tell.
    ranks: HashMap<ValueId, usize>,
    /// Values of bytes of which the file does not say it, as far as their makers tell.
    bytes: HashMap<ValueId, DType>,
    /// By value: whether some node or the caller reads it. Values that the file does not name have no entry.
    used: Vec<bool>,
    /// Names besides those that the file has for its values.
    value_names: Names<'b>,
    node_names: Names<'b>,
}

impl<'b> Builder<'b> {
    /// A name that no value has yet.
    pub(super) fn unique_value_name(&mut self, name: String) -> String {
        let symbols = &self.symbols;
        self.value_names.unique_beside(name, |name| symbols.get(name).is_some())
    }

    /// How many axes a value has, when the file tells.
    pub(super) fn rank(&self, id: ValueId) -> Option<usize> {
        let said = self.graph.value(id).shape.as_ref().map(Vec::len);
        said.or_else(|| self.ranks.get(&id).copied())
    }

    /// The type of a value's elements, when the file tells.
    pub(super) fn dtype(&self, id: ValueId) -> Option<DType> {
        self.graph.value(id).dtype.or_else(|| self.bytes.get(&id).copied())
    }

    /// A name that no node has yet.
    pub(super) fn unique_node_name(&mut self, name: impl Into<Cow<'b, str>>) -> String {
        self.node_names.unique(name)
    }

    /// The elements of a tensor, which may be strings; `what` names it in errors.
    pub(super) fn constant(
        &mut self,
        scope: &Scope<'b>,
        tensor: &TensorProto<'b>,
        what: &dyn Display,
    ) -> Result<(Constant, ValueKind), Error> {
        if tensor.data_type != ops::STRING {
            return Ok((self.source.constant(tensor, what)?, ValueKind::Tensor));
        }
        Ok((tensor::strings(tensor, &mut scope.strings(), what)?, ValueKind::Strings))
    }

    /// Whether some node or the caller reads a value of the file.
    pub(super) fn is_used(&self, id: ValueId) -> bool {
        self.used.get(id.0 as usize).copied().unwrap_or(false)
    }
}

/// The number of a value's name in the file. Every occurrence is looked up once; what is known of a value is then found by
/// its number.
type Symbol = u32;

/// The number that stands for no name.
const NOTHING: Symbol = Symbol::MAX;

/// The names of the file's values.
struct Symbols<'b> {
    numbers: HashMap<&'b str, Symbol>,
}

impl<'b> Symbols<'b> {
    /// The number of a name, a new one if it has none.
    fn add(&mut self, name: &'b str) -> Symbol {
        let next = self.numbers.len() as Symbol;
        *self.numbers.entry(name).or_insert(next)
    }

    fn get(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).map(|&symbol| symbol as usize)
    }

    /// The name with this number. It takes a while: for messages.
    fn name(&self, symbol: Symbol) -> &'b str {
        self.numbers.iter().find(|(_, number)| **number == symbol).map_or("", |(name, _)| name)
    }
}

/// The operands and results of all nodes by their numbers.
struct Wires {
    symbols: Vec<Symbol>,
    /// Where each node's operands begin, what its networks see of this one, and its results.
    starts: Vec<[usize; 3]>,
}

impl Wires {
    /// Values that are `absent` are operands that are left out.
    fn new<'b>(
        nodes: &[NodeProto<'b>],
        symbols: &mut Symbols<'b>,
        absent: &HashSet<&str>,
    ) -> Result<Self, Error> {
        let mut walk = Walk::new();
        let mut wires = Self { symbols: Vec::new(), starts: Vec::with_capacity(nodes.len() + 1) };
        for node in nodes {
            walk.node()?;
            let mut add = |name: &'b str| {
                let left_out = name.is_empty() || absent.contains(name);
                wires.symbols.push(if left_out { NOTHING } else { symbols.add(name) });
            };
            let seen = nested::seen(node);
            for name in node.inputs.iter().chain(&seen).chain(&node.outputs) {
                add(name);
            }
            let end = wires.symbols.len();
            let results = end - node.outputs.len();
            wires.starts.push([results - seen.len() - node.inputs.len(), results - seen.len(), results]);
        }
        wires.starts.push([wires.symbols.len(); 3]);
        Ok(wires)
    }

    /// A node's operands; [`NOTHING`] for one that is left out.
    fn inputs(&self, node: usize) -> &[Symbol] {
        let [start, end, _] = self.starts[node];
        &self.symbols[start..end]
    }

    /// What a node's networks see of this one, as [`nested::seen`] has it.
    fn seen(&self, node: usize) -> &[Symbol] {
        let [_, start, end] = self.starts[node];
        &self.symbols[start..end]
    }

    /// Both.
    fn read(&self, node: usize) -> &[Symbol] {
        let [start, _, end] = self.starts[node];
        &self.symbols[start..end]
    }

    /// A node's results; [`NOTHING`] for one that is left out.
    fn outputs(&self, node: usize) -> &[Symbol] {
        &self.symbols[self.starts[node][2]..self.starts[node + 1][0]]
    }
}

/// What the file says of its values, by their numbers.
struct Said<'p, 'b> {
    /// The values that there are so far.
    ids: Vec<Option<ValueId>>,
    /// Element types and extents.
    infos: Vec<Option<&'p ValueInfo<'b>>>,
    /// Whether some node or the caller reads it.
    used: Vec<bool>,
}

/// Builds the graph of a model whose file is `bytes`.
pub(super) fn graph<'b>(
    mut model: Model<'b>,
    bytes: &'b Bytes,
    folder: Option<&'b Path>,
    strings: Strings,
) -> Result<Graph, Error> {
    let scope = Scope::new(opsets(&model)?, std::mem::take(&mut model.functions));
    *scope.strings() = strings;
    let proto = model.graph.as_ref().ok_or_else(|| malformed("no graph"))?;
    let source = Source::new(bytes, folder);
    let (mut graph, _) = network(&scope, proto, &proto.inputs, Vec::new(), source)?;
    graph.strings = std::mem::take(&mut *scope.strings());
    Ok(graph)
}

/// Builds the graph of a network with the inputs that it has itself, `formals`, and what it sees of the one around it.
///
/// Of the latter, what is not known becomes inputs, too, behind the others and in order.
pub(super) fn network<'b>(
    scope: &Scope<'b>,
    proto: &Network<'b>,
    formals: &[ValueInfo<'b>],
    outer: Vec<(&'b str, Outer)>,
    source: Source<'b>,
) -> Result<(Graph, Source<'b>), Error> {
    if proto.has_sparse {
        return Err(malformed("sparse initializers are not supported"));
    }
    // In general, a node gives one name.
    let given = proto.nodes.len() + proto.initializers.len() + formals.len();
    let mut symbols = Symbols { numbers: HashMap::with_capacity(given) };
    let initializers: Vec<Symbol> =
        proto.initializers.iter().map(|tensor| symbols.add(tensor.name)).collect();
    let inputs: Vec<Symbol> = formals.iter().map(|info| symbols.add(info.name)).collect();
    let outputs: Vec<Symbol> = proto.outputs.iter().map(|info| symbols.add(info.name)).collect();
    let absent = outer.iter().filter(|(_, value)| matches!(value, Outer::Absent));
    let absent: HashSet<&str> = absent.map(|(name, _)| *name).collect();
    let wires = Wires::new(&proto.nodes, &mut symbols, &absent)?;
    let around: Vec<Symbol> = outer.iter().map(|(name, _)| symbols.add(name)).collect();
    let count = symbols.numbers.len();
    let mut said = Said { ids: vec![None; count], infos: vec![None; count], used: vec![false; count] };
    for info in proto.infos.iter().chain(&proto.outputs) {
        if let Some(symbol) = symbols.get(info.name) {
            said.infos[symbol] = Some(info);
        }
    }
    let read = (0..proto.nodes.len()).flat_map(|index| wires.read(index));
    for &symbol in read.chain(&outputs).filter(|symbol| **symbol != NOTHING) {
        said.used[symbol as usize] = true;
    }
    let mut builder = Builder {
        graph: Graph {
            name: proto.name.into(),
            values: Vec::with_capacity(count),
            nodes: Vec::with_capacity(proto.nodes.len()),
            ..Graph::default()
        },
        source,
        symbols,
        decided: RefCell::default(),
        ranks: HashMap::new(),
        bytes: HashMap::new(),
        used: Vec::new(),
        value_names: Names::default(),
        node_names: Names::with_capacity(proto.nodes.len()),
    };
    boundary(&mut builder, scope, proto, formals, [&inputs, &initializers], &mut said.ids)?;
    for ((name, value), &symbol) in outer.into_iter().zip(&around) {
        let Outer::Value(value) = value else { continue };
        let constant = value.constant.is_some();
        let value = Value { name: name.into(), ..*value };
        let id = declare(&mut builder.graph, &mut said.ids, symbol, value, "outer value")?;
        if !constant {
            builder.graph.inputs.push(id);
        }
    }
    let names = node_names(&mut builder, &proto.nodes)?;
    let mut walk = Walk::new();
    for index in execution_order(&proto.nodes, &names, &wires, &said.ids, &builder.symbols)? {
        walk.node()?;
        let wires = [wires.inputs(index), wires.seen(index), wires.outputs(index)];
        node(&mut builder, &mut said, &proto.nodes[index], wires, &names[index], scope)?;
    }
    for (info, &symbol) in proto.outputs.iter().zip(&outputs) {
        let id = said.ids[symbol as usize].ok_or_else(|| {
            Error::Graph(format!("output '{}' is neither an input nor made by a node", info.name))
        })?;
        builder.graph.outputs.push(id);
    }
    let decided = builder.decided.into_inner();
    for default in &mut builder.graph.defaults {
        default.decides = decided.contains(&default.value);
    }
    Ok((builder.graph, builder.source))
}

/// The version of each domain that the model imports.
pub(super) type Opsets<'b> = HashMap<&'b str, i64>;

fn opsets<'b>(model: &Model<'b>) -> Result<Opsets<'b>, Error> {
    let opsets: Opsets<'b> =
        model.opsets.iter().map(|&(domain, version)| (ops::canonical(domain), version)).collect();
    let opset = match opsets.get(DEFAULT_DOMAIN) {
        Some(&opset) => opset,
        // Without operators of its own it does not matter which.
        None if opsets.is_empty() => return Err(malformed("no import of the default operator set")),
        None => *OPSETS.end(),
    };
    if !OPSETS.contains(&opset) {
        let (first, last) = OPSETS.into_inner();
        let reason = format!(
            "the model is of operator set {opset}, and {first} to {last} are read; export it with one of them, or convert it \
             (onnx.version_converter)"
        );
        return Err(Error::Version { format: "ONNX", reason });
    }
    Ok(opsets)
}

/// Adds inputs and initializers.
fn boundary<'b>(
    builder: &mut Builder<'b>,
    scope: &Scope<'b>,
    network: &Network<'b>,
    formals: &[ValueInfo<'b>],
    [inputs, initializers]: [&[Symbol]; 2],
    ids: &mut [Option<ValueId>],
) -> Result<(), Error> {
    // Initializers that are inputs, too, are what those have unless a caller gives something else. Files before IR version 4 list
    // all of them so.
    let mut declared: HashMap<Symbol, Option<Vec<Dim>>> = HashMap::new();
    let mut initialized = vec![false; ids.len()];
    for &symbol in initializers {
        initialized[symbol as usize] = true;
    }
    for (info, &symbol) in formals.iter().zip(inputs) {
        let mut value = Value::named(info.name);
        describe(&mut value, info)?;
        if let ValueKind::Maps(_) = value.kind {
            return Err(malformed(format!(
                "input '{}' is a sequence of maps; a map at a time is supported",
                info.name
            )));
        }
        if initialized[symbol as usize] {
            declared.insert(symbol, value.shape);
            continue;
        }
        let id = declare(&mut builder.graph, ids, symbol, value, "input")?;
        builder.graph.inputs.push(id);
    }
    for (tensor, &symbol) in network.initializers.iter().zip(initializers) {
        let what = format_args!("initializer '{}'", tensor.name);
        let (constant, kind) = builder.constant(scope, tensor, &what)?;
        let id = declare(&mut builder.graph, ids, symbol, Value::named(tensor.name), "initializer")?;
        if let Some(shape) = declared.remove(&symbol) {
            builder.graph.defaults.push(DefaultInput { value: id, shape, decides: false });
        }
        builder.graph.set_constant(id, constant);
        builder.graph.value_mut(id).kind = kind;
    }
    Ok(())
}

fn declare(
    graph: &mut Graph,
    ids: &mut [Option<ValueId>],
    symbol: Symbol,
    value: Value,
    what: &str,
) -> Result<ValueId, Error> {
    if value.name.is_empty() {
        return Err(Error::Graph(format!("an {what} has no name")));
    }
    let id = &mut ids[symbol as usize];
    if id.is_some() {
        return Err(Error::Graph(format!("value '{}' is defined twice", value.name)));
    }
    Ok(*id.insert(graph.add_value(value)))
}

/// Gives a value the element type and extents that the file declares.
fn describe(value: &mut Value, info: &ValueInfo<'_>) -> Result<(), Error> {
    if info.is_foreign {
        return Err(malformed(format!(
            "value '{}' is of a type of its own; tensors, sequences of them, optionals and maps of int64 or strings are supported",
            info.name
        )));
    }
    value.kind = info.kind;
    if info.data_type == ops::STRING && info.kind.is_map() {
        value.dtype = Some(DType::I64);
    } else if info.data_type == ops::STRING {
        if info.kind != ValueKind::Tensor {
            let (name, kind) = (info.name, info.kind.name());
            return Err(malformed(format!(
                "value '{name}' is a {kind} of strings; tensors of them are supported"
            )));
        }
        value.kind = ValueKind::Strings;
        value.dtype = Some(DType::I64);
    } else if info.data_type != 0 {
        let dtype = tensor::dtype(info.data_type).ok_or_else(|| {
            malformed(format!("value '{}': element type {} is not supported", info.name, info.data_type))
        })?;
        value.dtype = Some(dtype);
    }
    // Elements of a sequence have extents of their own.
    let shape = info.shape.as_ref().filter(|_| value.kind.is_tensor());
    value.shape = shape.map(|dims| {
        let dim = |(axis, dim): (usize, &DimInfo<'_>)| match *dim {
            DimInfo::Value(extent) if extent >= 0 => Dim::Fixed(extent as usize),
            // Some exporters write '?' for every extent that they do not know.
            DimInfo::Param(name) if name.contains(char::is_alphanumeric) => Dim::Symbol(Arc::from(name)),
            // What nobody named still has to be told apart from every other extent.
            _ => Dim::Symbol(Arc::from(format!("{}:{axis}", info.name))),
        };
        dims.iter().enumerate().map(dim).collect()
    });
    Ok(())
}

/// Unique names for messages; nameless nodes are called after their operator and position.
fn node_names<'b>(builder: &mut Builder<'b>, nodes: &[NodeProto<'b>]) -> Result<Vec<String>, Error> {
    let mut walk = Walk::new();
    let name = |(index, node): (usize, &NodeProto<'b>)| {
        walk.node()?;
        Ok(if node.name.is_empty() {
            builder.unique_node_name(format!("{}_{index}", node.op_type))
        } else {
            builder.unique_node_name(node.name)
        })
    };
    nodes.iter().enumerate().map(name).collect()
}

/// Indices of the nodes such that operands come before their use; the file's own order where it is one.
fn execution_order(
    nodes: &[NodeProto<'_>],
    names: &[String],
    wires: &Wires,
    ids: &[Option<ValueId>],
    symbols: &Symbols<'_>,
) -> Result<Vec<usize>, Error> {
    let mut makers: Vec<Option<usize>> = vec![None; ids.len()];
    for (index, node) in nodes.iter().enumerate() {
        for (&symbol, output) in wires.outputs(index).iter().zip(&node.outputs) {
            if symbol == NOTHING {
                continue;
            }
            if ids[symbol as usize].is_some() || makers[symbol as usize].replace(index).is_some() {
                return Err(Error::Graph(format!(
                    "node '{}' ({}) makes value '{output}', which is there already",
                    names[index], node.op_type
                )));
            }
        }
    }
    // The operands of a node that other nodes make.
    let computed = |index: usize| {
        let operands = wires.read(index).iter();
        operands.filter(|symbol| **symbol != NOTHING && ids[**symbol as usize].is_none())
    };
    let is_sound = |index: usize| {
        computed(index).all(|&symbol| makers[symbol as usize].is_some_and(|maker| maker < index))
    };
    if (0..nodes.len()).all(is_sound) {
        return Ok((0..nodes.len()).collect());
    }
    let mut waiting = vec![0_usize; nodes.len()];
    let mut readers = vec![Vec::new(); nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        for &symbol in computed(index) {
            let maker = makers[symbol as usize].ok_or_else(|| {
                let input = symbols.name(symbol);
                Error::Graph(format!(
                    "node '{}' ({}) reads value '{input}', which is neither an input, an initializer nor made by a node",
                    names[index], node.op_type
                ))
            })?;
            waiting[index] += 1;
            readers[maker].push(index);
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> =
        (0..nodes.len()).filter(|&index| waiting[index] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(Reverse(index)) = ready.pop() {
        order.push(index);
        for &reader in &readers[index] {
            waiting[reader] -= 1;
            if waiting[reader] == 0 {
                ready.push(Reverse(reader));
            }
        }
    }
    match (0..nodes.len()).find(|&index| waiting[index] > 0) {
        None => Ok(order),
        Some(index) => Err(Error::Graph(format!(
            "node '{}' ({}) is part of or behind a cycle",
            names[index], nodes[index].op_type
        ))),
    }
}

fn node<'b>(
    builder: &mut Builder<'b>,
    said: &mut Said<'_, 'b>,
    proto: &NodeProto<'b>,
    [inputs, seen, outputs]: [&[Symbol]; 3],
    name: &str,
    scope: &Scope<'b>,
) -> Result<(), Error> {
    let unsupported =
        |reason: String| Error::Unsupported { node: name.into(), op: proto.op_type.into(), reason };
    let attributes = scope.resolve(&proto.attributes).map_err(&unsupported)?;
    let [inputs, seen] = [inputs, seen].map(|symbols| -> Vec<Option<ValueId>> {
        symbols.iter().map(|&symbol| said.ids.get(symbol as usize).copied().flatten()).collect()
    });
    let mut results = Vec::with_capacity(outputs.len());
    let mut declared = Vec::new();
    for (&output, &symbol) in proto.outputs.iter().zip(outputs) {
        if symbol == NOTHING {
            results.push(None);
            continue;
        }
        let symbol = symbol as usize;
        let mut value = Value::named(output);
        let info = said.infos[symbol];
        if let Some(info) = info {
            describe(&mut value, info)?;
        }
        // What its maker makes shows below.
        let said_kind = value.kind;
        if said_kind == ValueKind::Strings || said_kind.is_map() {
            value.kind = ValueKind::Tensor;
        }
        let id = builder.graph.add_value(value);
        builder.used.resize(id.0 as usize, false);
        builder.used.push(said.used[symbol]);
        said.ids[symbol] = Some(id);
        results.push(Some(id));
        if info.is_some_and(|info| info.data_type != 0) {
            declared.push((id, said_kind));
        }
    }
    if let (Some(&Some(x)), Some(&Some(y))) = (inputs.first(), results.first())
        && keeps_extents(proto)
        && let Some(rank) = builder.rank(x)
    {
        builder.ranks.insert(y, rank);
    }
    made(builder, proto, &attributes, [inputs, results], seen, name.to_owned(), scope)?;
    for (id, said) in declared {
        let Value { name, kind: made, .. } = builder.graph.value(id);
        let counts = |kind: ValueKind| kind == ValueKind::Strings || kind.is_map();
        if said != *made && (counts(said) || counts(*made)) {
            let what = |kind: ValueKind| match kind {
                ValueKind::Tensor => "numbers",
                ValueKind::Map(_) => "a map of its own types",
                ValueKind::Maps(_) => "a sequence of maps of its own types",
                other => other.name(),
            };
            let (said, made) = (what(said), what(*made));
            return Err(unsupported(format!(
                "the file has '{name}' as {said}, but the operator makes {made}"
            )));
        }
    }
    Ok(())
}

/// Whether a node's first result has the extents of its first operand, which tells how many axes weights have that are no
/// initializer themselves.
fn keeps_extents(proto: &NodeProto<'_>) -> bool {
    ops::canonical(proto.domain) == DEFAULT_DOMAIN
        && matches!(proto.op_type, "Cast" | "DequantizeLinear" | "Identity" | "QuantizeLinear")
}

/// Adds what a node becomes; its results are there.
fn made<'b>(
    builder: &mut Builder<'b>,
    proto: &NodeProto<'b>,
    attributes: &[Attribute<'b>],
    [inputs, outputs]: [Vec<Option<ValueId>>; 2],
    seen: Vec<Option<ValueId>>,
    name: String,
    scope: &Scope<'b>,
) -> Result<(), Error> {
    let unsupported =
        |reason: String| Error::Unsupported { node: name.clone(), op: proto.op_type.into(), reason };
    if ops::canonical(proto.domain) == DEFAULT_DOMAIN && proto.op_type == "Constant" {
        return constant(builder, scope, attributes, &name, outputs.first().copied().flatten());
    }
    if let Some(function) = scope.function(proto) {
        return nested::call(builder, scope, &function, attributes, &name, [&inputs, &outputs]);
    }
    check_attributes(attributes).map_err(&unsupported)?;
    let operator = ops::find(proto.domain, proto.op_type).ok_or_else(|| {
        let domain = ops::canonical(proto.domain);
        unsupported(match domain {
            DEFAULT_DOMAIN => "no operator of ONNX that Triune reads has this name".into(),
            _ => format!("operator of domain '{domain}' is not supported"),
        })
    })?;
    // A domain that is used without being imported is taken at its first version.
    let opset = scope.opset(operator.domain);
    let (since, signature, read) = match operator.at(opset) {
        Some((since, Meaning::Read(signature, read))) => (since, signature, read),
        Some((since, Meaning::Refused(reason))) => {
            return Err(unsupported(format!("version {since} of the operator is not supported: {reason}")));
        }
        None => {
            let first = operator.first();
            return Err(unsupported(format!(
                "opset {opset} does not have the operator, opset {first} is the first"
            )));
        }
    };
    check_arity(signature, &inputs, &outputs).map_err(&unsupported)?;
    let mut reader = NodeReader {
        builder,
        scope,
        seen: nested::seen(proto).into_iter().zip(seen).collect(),
        attributes,
        taken: vec![false; attributes.len()],
        name,
        op_type: operator.name,
        since,
        inputs,
        outputs,
        after: Vec::new(),
    };
    if since < 6 {
        // Which operands' memory an operator may reuse, in files of the first operator sets.
        reader.ignore(&["consumed_inputs"]);
    }
    ops::settle_strings(&mut reader, operator.domain)?;
    ops::settle_maps(&mut reader)?;
    let op = read(&mut reader)?;
    if let Some(left) = reader.taken.iter().position(|taken| !taken) {
        let attribute = reader.attributes[left].name;
        return Err(reader.unsupported(format!("attribute '{attribute}' is not supported")));
    }
    // A function's body makes all results, wanted or not.
    let makes_any = matches!(op, Op::Function(_)) || signature.outputs == ops::MANY;
    if reader.outputs.first().copied().flatten().is_none() && !makes_any {
        return Err(reader.unsupported("the first output is missing"));
    }
    let NodeReader { name, inputs, outputs, after, .. } = reader;
    let first = builder.graph.nodes.len();
    builder.graph.nodes.push(Node::new(name, op, inputs, outputs));
    builder.graph.nodes.extend(after);
    for index in first..builder.graph.nodes.len() {
        let Some(dtype) = bytes(builder, &builder.graph.nodes[index]) else { continue };
        builder.bytes.extend(builder.graph.nodes[index].outputs.iter().flatten().map(|&id| (id, dtype)));
    }
    Ok(())
}

/// The type of the bytes that a node makes, as far as it tells that itself, for those behind it that have other forms over bytes:
/// files need not state types.
fn bytes(builder: &Builder<'_>, node: &Node) -> Option<DType> {
    let of = |index: usize| builder.dtype((*node.inputs.get(index)?)?);
    let found = match &node.op {
        Op::QuantizeLinear(op) => of(2).unwrap_or(op.dtype),
        Op::Cast(op) => op.to,
        op if op.moves() => of(0)?,
        // Of operators over integers that say what these stand for, the result's zero point or a like operand tells.
        Op::Function(function) => match function.name() {
            "QLinearConcat" | "QLinearWhere" => of(1)?,
            "Resize" | "Upsample" => of(0)?,
            "QLinearMatMul" => of(7)?,
            "QGemm" => of(8)?,
            name if name.starts_with("QLinear") => of(0)?,
            _ => return None,
        },
        _ => node.quant.as_ref()?.dtype,
    };
    found.is_quantized().then_some(found)
}

/// Makes the value of a `Constant` node known; no node is left of it.
fn constant<'b>(
    builder: &mut Builder<'b>,
    scope: &Scope<'b>,
    attributes: &[Attribute<'b>],
    name: &str,
    output: Option<ValueId>,
) -> Result<(), Error> {
    let unsupported =
        |reason: &str| Error::Unsupported { node: name.into(), op: "Constant".into(), reason: reason.into() };
    let [attribute] = attributes else {
        return Err(unsupported("exactly one of the value attributes is expected"));
    };
    let mut kind = ValueKind::Tensor;
    let what = format_args!("node '{name}' (Constant)");
    let texts = |dims: &[usize], texts: &[&[u8]]| tensor::numbered(texts, dims, &mut scope.strings(), &what);
    let constant = match (attribute.name, &attribute.value) {
        ("value", AttributeValue::Tensor(tensor)) => {
            let (constant, found) = builder.constant(scope, tensor, &what)?;
            kind = found;
            Some(constant)
        }
        ("value_string", &AttributeValue::Text(text)) => {
            kind = ValueKind::Strings;
            Some(texts(&[], &[text])?)
        }
        ("value_strings", AttributeValue::Texts(list)) => {
            kind = ValueKind::Strings;
            Some(texts(&[list.len()], list)?)
        }
        ("value_float", &AttributeValue::Float(value)) => Constant::from_f32(Shape::from([]), &[value]),
        ("value_int", &AttributeValue::Int(value)) => Constant::from_i64(Shape::from([]), &[value]),
        ("value_floats", AttributeValue::Floats(values)) => {
            Constant::from_f32(Shape::from([values.len()]), values)
        }
        ("value_ints", AttributeValue::Ints(values)) => {
            Constant::from_i64(Shape::from([values.len()]), values)
        }
        _ => None,
    };
    let constant = constant
        .ok_or_else(|| unsupported(&format!("attribute '{}' is not supported here", attribute.name)))?;
    let output = output.ok_or_else(|| unsupported("the output is missing"))?;
    builder.graph.set_constant(output, constant);
    builder.graph.value_mut(output).kind = kind;
    Ok(())
}

fn check_attributes(attributes: &[Attribute<'_>]) -> Result<(), String> {
    let mut seen = HashSet::new();
    for attribute in attributes {
        if !seen.insert(attribute.name) {
            return Err(format!("attribute '{}' is given twice", attribute.name));
        }
        if let AttributeValue::Other = attribute.value {
            return Err(format!(
                "attribute '{}' holds lists of networks or types, or sparse tensors, which are not supported",
                attribute.name
            ));
        }
    }
    Ok(())
}

fn check_arity(
    signature: Signature,
    inputs: &[Option<ValueId>],
    outputs: &[Option<ValueId>],
) -> Result<(), String> {
    let (low, high) = signature.inputs;
    if !(low..=high).contains(&inputs.len()) {
        return Err(format!("{} inputs, but the operator takes {low} to {high}", inputs.len()));
    }
    if let Some(missing) = inputs.iter().take(low).position(Option::is_none) {
        return Err(format!("input {missing} is missing"));
    }
    if outputs.len() > signature.outputs {
        return Err(format!("{} outputs, but the operator has at most {}", outputs.len(), signature.outputs));
    }
    if outputs.iter().all(Option::is_none) && signature.outputs != ops::MANY {
        return Err("the first output is missing".into());
    }
    Ok(())
}

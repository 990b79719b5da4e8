//! From ONNX's messages to a [`Graph`]: names to ids, nodes to execution order, operators by the registry.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, HashSet},
    path::Path,
    sync::Arc,
};

use bytes::Bytes;
use triune_tensor::Shape;

use super::{
    NodeReader, OPSETS, malformed,
    ops::{self, DEFAULT_DOMAIN, Meaning, Signature},
    proto::{Attribute, AttributeValue, DimInfo, Model, Network, NodeProto, ValueInfo},
    tensor::{self, Source},
};
use crate::{Constant, Dim, Error, Graph, Node, Value, ValueId};

/// The graph while it grows, with what every node may need.
pub(super) struct Builder<'b> {
    pub(super) graph: Graph,
    pub(super) source: Source<'b>,
    /// Names that some node or the caller reads.
    pub(super) used: HashSet<&'b str>,
    /// Names that are taken, each with the number that the next one like it gets.
    value_names: HashMap<String, usize>,
    node_names: HashMap<String, usize>,
}

impl Builder<'_> {
    /// A name that no value has yet.
    pub(super) fn unique_value_name(&mut self, wish: &str) -> String {
        unique(&mut self.value_names, wish)
    }

    /// A name that no node has yet.
    pub(super) fn unique_node_name(&mut self, wish: &str) -> String {
        unique(&mut self.node_names, wish)
    }
}

fn unique(names: &mut HashMap<String, usize>, wish: &str) -> String {
    let Some(&start) = names.get(wish) else {
        names.insert(wish.into(), 2);
        return wish.into();
    };
    // The count goes on where it stopped: a file may call all its nodes the same.
    let mut number = start;
    let name = loop {
        let name = format!("{wish}_{number}");
        number += 1;
        if !names.contains_key(&name) {
            break name;
        }
    };
    names.insert(wish.into(), number);
    names.insert(name.clone(), 2);
    name
}

/// Builds the graph of a model whose file is `bytes`.
pub(super) fn graph(model: &Model<'_>, bytes: &Bytes, folder: Option<&Path>) -> Result<Graph, Error> {
    let opsets = opsets(model)?;
    let network = model.graph.as_ref().ok_or_else(|| malformed("no graph"))?;
    if network.has_sparse {
        return Err(malformed("sparse initializers are not supported"));
    }
    let mut builder = Builder {
        graph: Graph { name: network.name.into(), ..Graph::default() },
        source: Source::new(bytes, folder),
        used: HashSet::new(),
        value_names: HashMap::new(),
        node_names: HashMap::new(),
    };
    let mut ids = boundary(&mut builder, network)?;

    builder.used.extend(network.nodes.iter().flat_map(|node| &node.inputs).copied());
    builder.used.extend(network.outputs.iter().map(|info| info.name));
    // Names of the file are taken before any name is made up.
    builder
        .value_names
        .extend(network.nodes.iter().flat_map(|node| &node.outputs).map(|&name| (String::from(name), 2)));
    let names = node_names(&mut builder, &network.nodes);
    let infos: HashMap<&str, &ValueInfo<'_>> =
        network.infos.iter().chain(&network.outputs).map(|info| (info.name, info)).collect();

    for index in execution_order(&network.nodes, &names, &ids)? {
        node(&mut builder, &mut ids, &infos, &network.nodes[index], &names[index], &opsets)?;
    }
    for output in &network.outputs {
        let id = *ids.get(output.name).ok_or_else(|| {
            Error::Graph(format!("output '{}' is neither an input nor made by a node", output.name))
        })?;
        builder.graph.outputs.push(id);
    }
    Ok(builder.graph)
}

/// The version of each domain that the model imports.
type Opsets<'b> = HashMap<&'b str, i64>;

fn opsets<'b>(model: &Model<'b>) -> Result<Opsets<'b>, Error> {
    let opsets: Opsets<'b> =
        model.opsets.iter().map(|&(domain, version)| (ops::canonical(domain), version)).collect();
    let opset =
        *opsets.get(DEFAULT_DOMAIN).ok_or_else(|| malformed("no import of the default operator set"))?;
    if !OPSETS.contains(&opset) {
        return Err(malformed(format!(
            "opset {opset} is not supported; convert the model to one of {} to {}",
            OPSETS.start(),
            OPSETS.end()
        )));
    }
    Ok(opsets)
}

/// Adds inputs and initializers.
fn boundary<'b>(
    builder: &mut Builder<'b>,
    network: &Network<'b>,
) -> Result<HashMap<&'b str, ValueId>, Error> {
    let mut ids = HashMap::new();
    // Files before IR version 4 list initializers as inputs, too; they are weights, not what a caller gives.
    let initialized: HashSet<&str> = network.initializers.iter().map(|tensor| tensor.name).collect();
    for info in &network.inputs {
        if initialized.contains(info.name) {
            continue;
        }
        let mut value = Value::named(info.name);
        describe(&mut value, info)?;
        declare(&mut ids, info.name, builder.graph.values.len(), "input")?;
        let id = builder.graph.add_value(value);
        builder.graph.inputs.push(id);
    }
    for tensor in &network.initializers {
        let what = format!("initializer '{}'", tensor.name);
        let constant = builder.source.constant(tensor, &what)?;
        declare(&mut ids, tensor.name, builder.graph.values.len(), "initializer")?;
        builder.graph.add_constant(tensor.name, constant);
    }
    builder.value_names.extend(ids.keys().map(|&name| (String::from(name), 2)));
    Ok(ids)
}

fn declare<'b>(
    ids: &mut HashMap<&'b str, ValueId>,
    name: &'b str,
    index: usize,
    what: &str,
) -> Result<(), Error> {
    if name.is_empty() {
        return Err(Error::Graph(format!("an {what} has no name")));
    }
    let id = ValueId(u32::try_from(index).map_err(|_| malformed("too many values"))?);
    match ids.insert(name, id) {
        None => Ok(()),
        Some(_) => Err(Error::Graph(format!("value '{name}' is defined twice"))),
    }
}

/// Gives a value the element type and extents that the file declares.
fn describe(value: &mut Value, info: &ValueInfo<'_>) -> Result<(), Error> {
    if info.not_tensor {
        return Err(malformed(format!("value '{}' is not a tensor, only tensors are supported", info.name)));
    }
    if info.data_type != 0 {
        let dtype = tensor::dtype(info.data_type).ok_or_else(|| {
            malformed(format!("value '{}': element type {} is not supported", info.name, info.data_type))
        })?;
        value.dtype = Some(dtype);
    }
    value.shape = info.shape.as_ref().map(|dims| {
        let dim = |(axis, dim): (usize, &DimInfo<'_>)| match *dim {
            DimInfo::Value(extent) if extent >= 0 => Dim::Fixed(extent as usize),
            DimInfo::Param(name) if !name.is_empty() => Dim::Symbol(Arc::from(name)),
            // What nobody named still has to be told apart from every other extent.
            _ => Dim::Symbol(Arc::from(format!("{}:{axis}", info.name))),
        };
        dims.iter().enumerate().map(dim).collect()
    });
    Ok(())
}

/// Unique names for messages; nameless nodes are called after their operator and position.
fn node_names<'b>(builder: &mut Builder<'b>, nodes: &[NodeProto<'b>]) -> Vec<String> {
    let name = |(index, node): (usize, &NodeProto<'b>)| {
        if node.name.is_empty() {
            builder.unique_node_name(&format!("{}_{index}", node.op_type))
        } else {
            builder.unique_node_name(node.name)
        }
    };
    nodes.iter().enumerate().map(name).collect()
}

/// Indices of the nodes such that operands come before their use; the file's own order where it is one.
fn execution_order(
    nodes: &[NodeProto<'_>],
    names: &[String],
    ids: &HashMap<&str, ValueId>,
) -> Result<Vec<usize>, Error> {
    let mut makers = HashMap::new();
    for (index, node) in nodes.iter().enumerate() {
        for &output in node.outputs.iter().filter(|output| !output.is_empty()) {
            if ids.contains_key(output) || makers.insert(output, index).is_some() {
                return Err(Error::Graph(format!(
                    "node '{}' ({}) makes value '{output}', which is there already",
                    names[index], node.op_type
                )));
            }
        }
    }
    let mut waiting = vec![0_usize; nodes.len()];
    let mut readers = vec![Vec::new(); nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        for &input in node.inputs.iter().filter(|input| !input.is_empty() && !ids.contains_key(*input)) {
            let maker = *makers.get(input).ok_or_else(|| {
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
    ids: &mut HashMap<&'b str, ValueId>,
    infos: &HashMap<&str, &ValueInfo<'_>>,
    proto: &NodeProto<'b>,
    name: &str,
    opsets: &Opsets<'_>,
) -> Result<(), Error> {
    let unsupported =
        |reason: String| Error::Unsupported { node: name.into(), op: proto.op_type.into(), reason };
    check_attributes(&proto.attributes).map_err(&unsupported)?;
    let inputs = proto
        .inputs
        .iter()
        .map(|input| if input.is_empty() { None } else { ids.get(input).copied() })
        .collect::<Vec<_>>();
    let mut outputs = Vec::with_capacity(proto.outputs.len());
    for &output in &proto.outputs {
        if output.is_empty() {
            outputs.push(None);
            continue;
        }
        let mut value = Value::named(output);
        if let Some(info) = infos.get(output) {
            describe(&mut value, info)?;
        }
        let id = builder.graph.add_value(value);
        ids.insert(output, id);
        outputs.push(Some(id));
    }

    if ops::canonical(proto.domain) == DEFAULT_DOMAIN && proto.op_type == "Constant" {
        return constant(builder, proto, name, outputs.first().copied().flatten());
    }
    let operator = ops::find(proto.domain, proto.op_type)
        .ok_or_else(|| unsupported(format!("operator of domain '{}' is not supported", proto.domain)))?;
    // A domain that is used without being imported is taken at its first version.
    let opset = opsets.get(operator.domain).copied().unwrap_or(1);
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
        attributes: &proto.attributes,
        taken: vec![false; proto.attributes.len()],
        name: name.into(),
        op_type: proto.op_type,
        since,
        inputs,
        outputs,
        after: Vec::new(),
    };
    if since < 6 {
        // Which operands' memory an operator may reuse, in files of the first operator sets.
        reader.ignore(&["consumed_inputs"]);
    }
    let op = read(&mut reader)?;
    if let Some(left) = reader.taken.iter().position(|taken| !taken) {
        let attribute = reader.attributes[left].name;
        return Err(reader.unsupported(format!("attribute '{attribute}' is not supported")));
    }
    let NodeReader { inputs, outputs, after, .. } = reader;
    builder.graph.nodes.push(Node::new(name, op, inputs, outputs));
    builder.graph.nodes.extend(after);
    Ok(())
}

/// Makes the value of a `Constant` node known; no node is left of it.
fn constant(
    builder: &mut Builder<'_>,
    proto: &NodeProto<'_>,
    name: &str,
    output: Option<ValueId>,
) -> Result<(), Error> {
    let unsupported =
        |reason: &str| Error::Unsupported { node: name.into(), op: "Constant".into(), reason: reason.into() };
    let [attribute] = proto.attributes.as_slice() else {
        return Err(unsupported("exactly one of the value attributes is expected"));
    };
    let constant = match (attribute.name, &attribute.value) {
        ("value", AttributeValue::Tensor(tensor)) => {
            Some(builder.source.constant(tensor, &format!("node '{name}' (Constant)"))?)
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
    Ok(())
}

fn check_attributes(attributes: &[Attribute<'_>]) -> Result<(), String> {
    let mut seen = HashSet::new();
    for attribute in attributes {
        if !seen.insert(attribute.name) {
            return Err(format!("attribute '{}' is given twice", attribute.name));
        }
        if let AttributeValue::Other | AttributeValue::Texts = attribute.value {
            return Err(format!(
                "attribute '{}' holds subgraphs, strings, sparse tensors or types, which are not supported",
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
    if outputs.first().copied().flatten().is_none() {
        return Err("the first output is missing".into());
    }
    Ok(())
}

//! Networks within networks, and operators that a model defines itself.
//!
//! A network sees the values of those around it by name. Those that it reads become inputs of its graph and operands of the node
//! that has it, except those that are known: they are constants in it as they are outside. A model's own function is read for
//! each call, as a network whose inputs are the call's operands, and its nodes take the call's place.

use std::{
    borrow::Cow,
    cell::{Cell, RefCell, RefMut},
    collections::{HashMap, HashSet},
    rc::Rc,
    sync::Arc,
};

use super::{
    ops::canonical,
    proto::{Attribute, AttributeValue, FunctionProto, Network, NodeProto},
    read::{self, Builder, Opsets},
};
use crate::{Error, Node, Strings, Value, ValueId, ops::Body, walk::Walk};

/// Nodes that calls of a model's own functions may become: a few lines can call each other without end.
const MOST_NODES: usize = 1 << 18;
/// Functions within functions.
const DEEPEST: usize = 32;

/// What the nodes of a network are read by.
pub(super) struct Scope<'b> {
    file: Rc<File<'b>>,
    opsets: Opsets<'b>,
    /// The attributes of the function's call, if it is a function's network.
    attributes: HashMap<&'b str, AttributeValue<'b>>,
    depth: usize,
}

/// What all networks of a file have in common.
struct File<'b> {
    /// By domain, name and overload.
    functions: HashMap<[&'b str; 3], Rc<FunctionProto<'b>>>,
    /// How many nodes calls have become.
    nodes: Cell<usize>,
    /// The strings of all networks.
    strings: RefCell<Strings>,
}

/// A value of the network around one.
pub(super) enum Outer {
    /// An operand that a function's call leaves out.
    Absent,
    Value(Box<Value>),
}

impl<'b> Scope<'b> {
    /// For a file's own network.
    pub(super) fn new(opsets: Opsets<'b>, functions: Vec<FunctionProto<'b>>) -> Self {
        let by_name = |function: FunctionProto<'b>| {
            let key = [canonical(function.domain), function.body.name, function.overload];
            (key, Rc::new(function))
        };
        let functions = functions.into_iter().map(by_name).collect();
        let file = Rc::new(File { functions, nodes: Cell::new(0), strings: RefCell::default() });
        Self { file, opsets, attributes: HashMap::new(), depth: 0 }
    }

    /// The strings of the file so far.
    pub(super) fn strings(&self) -> RefMut<'_, Strings> {
        self.file.strings.borrow_mut()
    }

    /// The operator set of a domain; one that is used without being imported is taken at its first version.
    pub(super) fn opset(&self, domain: &str) -> i64 {
        self.opsets.get(domain).copied().unwrap_or(1)
    }

    /// The model's own function that a node calls.
    pub(super) fn function(&self, node: &NodeProto<'b>) -> Option<Rc<FunctionProto<'b>>> {
        self.file.functions.get(&[canonical(node.domain), node.op_type, node.overload]).cloned()
    }

    /// A node's attributes, those of the function around it in the place of references to them.
    pub(super) fn resolve<'a>(
        &self,
        attributes: &'a [Attribute<'b>],
    ) -> Result<Cow<'a, [Attribute<'b>]>, String> {
        let is_reference =
            |attribute: &&Attribute<'b>| matches!(attribute.value, AttributeValue::Reference(_));
        let Some(reference) = attributes.iter().find(is_reference) else {
            return Ok(Cow::Borrowed(attributes));
        };
        if self.depth == 0 {
            let name = reference.name;
            return Err(format!("attribute '{name}' refers to a function's, but there is none around"));
        }
        let resolved = attributes.iter().filter_map(|Attribute { name, value }| {
            let value = match value {
                // One that the call leaves out is left out here, too.
                AttributeValue::Reference(of) => self.attributes.get(of)?,
                value => value,
            };
            Some(Attribute { name, value: value.clone() })
        });
        Ok(Cow::Owned(resolved.collect()))
    }
}

/// The names that a node's networks see of those around them, each once.
pub(super) fn seen<'b>(node: &NodeProto<'b>) -> Vec<&'b str> {
    let mut names = Vec::new();
    for attribute in &node.attributes {
        if let AttributeValue::Graph(network) = &attribute.value {
            names.extend(free(network));
        }
    }
    each_once(names)
}

fn each_once(mut names: Vec<&str>) -> Vec<&str> {
    let mut known = HashSet::new();
    names.retain(|name| known.insert(*name));
    names
}

/// The names that a network reads and does not define, each once.
fn free<'b>(network: &Network<'b>) -> Vec<&'b str> {
    let inputs = network.inputs.iter().map(|info| info.name);
    let initializers = network.initializers.iter().map(|tensor| tensor.name);
    let made = network.nodes.iter().flat_map(|node| node.outputs.iter().copied());
    let own: HashSet<&str> = inputs.chain(initializers).chain(made).collect();
    let read = network.nodes.iter().flat_map(|node| node.inputs.iter().copied().chain(seen(node)));
    let results = network.outputs.iter().map(|info| info.name);
    each_once(read.chain(results).filter(|name| !name.is_empty() && !own.contains(name)).collect())
}

/// A network of a node, and the values around it that are its last inputs.
pub(super) fn body<'b>(
    builder: &mut Builder<'b>,
    scope: &Scope<'b>,
    network: &Network<'b>,
    seen: &[(&'b str, Option<ValueId>)],
) -> Result<(Body, Vec<ValueId>), Error> {
    let seen: HashMap<&str, Option<ValueId>> = seen.iter().copied().collect();
    let (mut outer, mut captured) = (Vec::new(), Vec::new());
    for name in free(network) {
        outer.push((name, seen_within(builder, seen.get(name).copied().flatten(), &mut captured)));
    }
    let mut graph = enter(builder, scope, network, &network.inputs, outer)?;
    let own = graph.inputs.len() - captured.len();
    let rank = |id: &ValueId| graph.value(*id).shape.as_ref().map(Vec::len);
    let ranks = graph.inputs.iter().take(own).map(rank).collect();
    // What comes in has the extents that it has: those of a state may change from round to round.
    for id in graph.inputs.clone() {
        graph.value_mut(id).shape = None;
    }
    Ok((Body { graph: Arc::new(graph), captures: captured.len(), ranks }, captured))
}

/// A value as a network within that of the builder sees it; what is not known becomes one of its inputs.
fn seen_within(builder: &Builder<'_>, id: Option<ValueId>, inputs: &mut Vec<ValueId>) -> Outer {
    let Some(id) = id else { return Outer::Absent };
    let value = builder.graph.value(id).clone();
    if value.constant.is_none() {
        inputs.push(id);
    } else {
        // The network within has it as it is now.
        builder.decided.borrow_mut().insert(id);
    }
    Outer::Value(Box::new(value))
}

/// Reads a network within that of the builder.
fn enter<'b>(
    builder: &mut Builder<'b>,
    scope: &Scope<'b>,
    network: &Network<'b>,
    formals: &[super::proto::ValueInfo<'b>],
    outer: Vec<(&'b str, Outer)>,
) -> Result<crate::Graph, Error> {
    let source = builder.source.take();
    let (graph, source) = read::network(scope, network, formals, outer, source)?;
    builder.source = source;
    Ok(graph)
}

/// Puts the nodes of a model's own function in the place of its call.
pub(super) fn call<'b>(
    builder: &mut Builder<'b>,
    scope: &Scope<'b>,
    function: &FunctionProto<'b>,
    attributes: &[Attribute<'b>],
    name: &str,
    [inputs, outputs]: [&[Option<ValueId>]; 2],
) -> Result<(), Error> {
    let unsupported =
        |reason: String| Error::Unsupported { node: name.into(), op: function.body.name.into(), reason };
    let formals = &function.body.inputs;
    if inputs.len() > formals.len() || outputs.len() > function.body.outputs.len() {
        return Err(unsupported(format!(
            "{} inputs and {} outputs, but the model's own function has {} and {}",
            inputs.len(),
            outputs.len(),
            formals.len(),
            function.body.outputs.len()
        )));
    }
    if scope.depth == DEEPEST {
        return Err(unsupported(format!("more than {DEEPEST} functions within each other")));
    }
    let nodes = scope.file.nodes.get() + function.body.nodes.len();
    if nodes > MOST_NODES {
        return Err(unsupported(format!(
            "the calls of the model's own functions are more than {MOST_NODES} nodes"
        )));
    }
    scope.file.nodes.set(nodes);
    let defaults = function.defaults.iter().chain(attributes);
    let inner = Scope {
        file: Rc::clone(&scope.file),
        opsets: function.opsets.iter().map(|&(domain, version)| (canonical(domain), version)).collect(),
        attributes: defaults.map(|attribute| (attribute.name, attribute.value.clone())).collect(),
        depth: scope.depth + 1,
    };
    let (mut outer, mut operands) = (Vec::new(), Vec::new());
    for (index, formal) in formals.iter().enumerate() {
        outer.push((formal.name, seen_within(builder, inputs.get(index).copied().flatten(), &mut operands)));
    }
    let graph = enter(builder, &inner, &function.body, &[], outer)?;
    let operands: Vec<Option<ValueId>> = operands.into_iter().map(Some).collect();
    // The builder names the values that its graph takes over.
    let mut taker = std::mem::take(&mut builder.graph);
    let unique = |inner: &str| builder.unique_value_name(format!("{name}/{inner}"));
    let nodes = taker.adopt(&graph, &operands, outputs, unique, unsupported);
    builder.graph = taker;
    let mut walk = Walk::new();
    for node in nodes? {
        walk.node()?;
        let name = builder.unique_node_name(format!("{name}/{}", node.name));
        builder.graph.nodes.push(Node { name, ..node });
    }
    Ok(())
}

//! Element types and extents of every value of a bound graph, by the rules of the operators; composite operators become
//! graphs of primitive ones on the way, since only here their operands' types and extents are known.

use std::{
    cell::Cell,
    collections::{HashMap, HashSet},
    sync::Arc,
};

use crate::{
    Constant, Dim, Error, Graph, Node, Op, Provenance, Value, ValueId, ValueKind,
    evaluate::Evaluator,
    functions::{Function, Scope},
    graph::Origin,
    ops::{
        Hosted, If,
        infer::{Operand, Operands, TensorType, is_countable},
    },
    walk::Walk,
};

/// Values up to this many elements are followed through shape arithmetic.
const KNOWN_ELEMENTS: usize = 1024;
/// Composite operators and networks within each other.
const DEEPEST: usize = 64;

/// Gives every value its element type and fixed extents, puts graphs of primitive operators in the place of composite ones,
/// and fixes what operators leave open until then: automatic padding, a kernel's extents, an empty permutation.
///
/// All inputs need a type and fixed extents (see [`Graph::bind`]). Shapes that are computed from extents, such as the
/// operand of a reshape, are followed; one that depends on data is an error. Errors name the node and say what was
/// expected and what was found.
pub fn infer(graph: &mut Graph) -> Result<(), Error> {
    let mut nodes = std::mem::take(&mut graph.nodes);
    let mut inference = match Inference::new(graph) {
        Ok(inference) => inference,
        Err(error) => {
            graph.nodes = nodes;
            return Err(error);
        }
    };
    // Nodes stay where they are until one becomes several.
    let mut at = 0;
    let mut result = Ok(());
    while let Some(node) = nodes.get_mut(at)
        && !inference.becomes_others(node)
        && result.is_ok()
    {
        result = inference.look_at(node);
        at += 1;
    }
    let mut done = nodes;
    if result.is_ok() && at < done.len() {
        let mut left = done.split_off(at).into_iter();
        done.reserve(left.len());
        result = left.try_for_each(|node| inference.place(node, &mut done, 0));
        done.extend(left);
    }
    let types = inference.types;
    graph.nodes = done;
    result?;
    for (value, found) in graph.values.iter_mut().zip(types) {
        if let Some(TensorType { dtype, shape }) = found {
            value.dtype = Some(dtype);
            if value.fixed_shape() != Some(shape) {
                value.shape = Some(shape.iter().map(|&extent| Dim::Fixed(extent)).collect());
            }
        }
    }
    for &id in &graph.outputs {
        if graph.value(id).fixed_shape().is_none() {
            return Err(Error::Graph(format!("output '{}' is not made by any node", graph.value(id).name)));
        }
    }
    Ok(())
}

/// What functions become.
#[cfg(feature = "megengine")]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Expanded {
    /// Operators.
    pub(crate) nodes: usize,
    /// Bytes of constants.
    pub(crate) bytes: usize,
}

/// What a function makes of operands of these types: the results' types, and elements where they follow from extents. What it
/// becomes is added to `expanded`.
#[cfg(feature = "megengine")]
pub(crate) fn of_function(
    function: &Function,
    at: &Operands<'_>,
    results: usize,
    expanded: &mut Expanded,
) -> Result<Vec<(TensorType, Option<Constant>)>, Error> {
    let mut graph = Graph::default();
    let mut inputs = Vec::with_capacity(at.inputs.len());
    for (index, operand) in at.inputs.iter().enumerate() {
        let Some(operand) = operand else {
            inputs.push(None);
            continue;
        };
        let name = format!("input {index}");
        let id = if let Some(constant) = operand.constant {
            graph.add_constant(name, constant.clone())
        } else {
            let shape = operand.shape.iter().map(|&extent| Dim::Fixed(extent)).collect();
            let id = graph.add_value(Value {
                dtype: Some(operand.dtype),
                shape: Some(shape),
                ..Value::named(name)
            });
            graph.inputs.push(id);
            id
        };
        inputs.push(Some(id));
    }
    let outputs: Vec<ValueId> =
        (0..results).map(|index| graph.add_value(Value::named(format!("result {index}")))).collect();
    let made: Vec<_> = outputs.iter().copied().map(Some).collect();
    let node = Node::new(at.node, function.clone(), inputs, made);
    let given = graph.values.len();
    let mut inference = Inference::new(&mut graph)?;
    let mut nodes = Vec::new();
    inference.place(node, &mut nodes, 0)?;
    let made = inference.graph.values[given..].iter().filter_map(|value| value.constant.as_ref());
    expanded.bytes = made.fold(expanded.bytes, |sum, constant| sum.saturating_add(constant.byte_len()));
    expanded.nodes += nodes.len();
    let missing = || Error::Graph(format!("node '{}' makes fewer than {results} results", at.node));
    let of = |id: ValueId| {
        let found = inference.tensor_type(id).ok_or_else(missing)?;
        Ok((found, inference.constant(id).cloned()))
    };
    outputs.into_iter().map(of).collect()
}

/// What is known of a graph's values while its nodes are looked at in order.
pub(crate) struct Inference<'g> {
    graph: &'g mut Graph,
    types: Vec<Option<TensorType>>,
    /// Elements that follow from extents and constants, by value; few have any.
    folded: HashMap<ValueId, Constant>,
    evaluator: Evaluator,
    /// What `DequantizeLinear` makes: operators over it may become ones over integers, as they are.
    dequantized: HashSet<ValueId>,
    /// The values' names that one that is made up can be like, once one has been added.
    names: Option<HashSet<String>>,
    /// Elements that functions may still lay out as constants: a file that asks for many costs nothing to write.
    lists: Cell<usize>,
    walk: Walk,
}

impl<'g> Inference<'g> {
    /// Looks at what is there before any node.
    fn new(graph: &'g mut Graph) -> Result<Self, Error> {
        let mut types: Vec<Option<TensorType>> = vec![None; graph.values.len()];
        for (index, value) in graph.values.iter().enumerate() {
            let Some(constant) = &value.constant else { continue };
            if !is_countable(&constant.shape()) {
                return Err(Error::Graph(format!(
                    "'{}' has too many elements: {}",
                    value.name,
                    constant.shape()
                )));
            }
            types[index] = Some(TensorType { dtype: constant.dtype(), shape: constant.shape() });
        }
        for &id in &graph.inputs {
            let value = graph.value(id);
            let (Some(dtype), Some(shape)) = (value.dtype, value.fixed_shape()) else {
                return Err(Error::Graph(format!(
                    "input '{}' needs an element type and fixed extents, bind its shape first",
                    value.name
                )));
            };
            if !is_countable(&shape) {
                return Err(Error::Graph(format!("input '{}' has too many elements: {shape}", value.name)));
            }
            types[id.0 as usize] = Some(TensorType { dtype, shape });
        }
        let folded = HashMap::new();
        let evaluator = Evaluator::new(8 * KNOWN_ELEMENTS);
        Ok(Self {
            graph,
            types,
            folded,
            evaluator,
            dequantized: HashSet::new(),
            names: None,
            lists: Cell::new(4 * Scope::MOST),
            walk: Walk::new(),
        })
    }

    /// Whether other nodes take a node's place.
    fn becomes_others(&self, node: &Node) -> bool {
        match &node.op {
            Op::Function(_) => true,
            Op::Hosted(Hosted::If(_)) => {
                let condition = node.inputs.first().copied().flatten();
                condition.is_some_and(|condition| self.constant(condition).is_some())
            }
            _ => false,
        }
    }

    /// Finds what a node makes, and puts it, or what it is made of, behind the nodes that are `done`.
    fn place(&mut self, mut node: Node, done: &mut Vec<Node>, depth: usize) -> Result<(), Error> {
        if let Op::Function(function) = &node.op {
            let function = function.clone();
            return self.expand(&node, &function, done, depth);
        }
        if let Op::Hosted(Hosted::If(op)) = &node.op
            && let Some(condition) = node.inputs.first().copied().flatten()
            && let Some(condition) = self.constant(condition)
        {
            let holds = condition.to_i64().is_some_and(|elements| elements.first().is_some_and(|&x| x != 0));
            let op = op.clone();
            return self.choose(&node, &op, holds, done, depth);
        }
        self.look_at(&mut node)?;
        done.push(node);
        Ok(())
    }

    /// The types, and where possible the elements, of what a primitive operator makes.
    pub(crate) fn look_at(&mut self, node: &mut Node) -> Result<(), Error> {
        self.walk.node()?;
        let mut operands = Vec::with_capacity(node.inputs.len());
        for input in &node.inputs {
            operands.push(match input {
                None => None,
                Some(id) => {
                    let index = id.0 as usize;
                    let TensorType { dtype, shape } = self.types[index].ok_or_else(|| {
                        let name = &self.graph.values[index].name;
                        Error::Graph(format!("node '{}' reads value '{name}' before it is made", node.name))
                    })?;
                    Some(Operand { dtype, shape, constant: constant(self.graph, &self.folded, *id) })
                }
            });
        }
        let quantized = node.quant.as_ref().map(|quant| quant.dtype);
        let (name, op) = match &node.origin {
            Some(origin) => (&*origin.node, &*origin.op),
            None => (&*node.name, node.op.name()),
        };
        let at = Operands { node: name, op, inputs: &operands, quantized };
        let results = node.op.infer(&at, node.outputs.len())?;
        if matches!(node.op, Op::DequantizeLinear(_)) {
            self.dequantized.extend(node.outputs.iter().flatten());
        }
        let values = self.evaluator.evaluate(&node.op, &at, &results);
        for (index, output) in node.outputs.iter().enumerate() {
            let Some(id) = output else { continue };
            self.types[id.0 as usize] = results.get(index).copied();
            if let Some(value) = values.as_ref().and_then(|values| values.get(index)) {
                self.folded.insert(*id, value.clone());
            }
        }
        Ok(())
    }

    /// Whether a value stands for integers that it was made from.
    pub(crate) fn is_dequantized(&self, id: ValueId) -> bool {
        self.dequantized.contains(&id)
    }

    /// Puts a function's body in the place of its node.
    fn expand(
        &mut self,
        node: &Node,
        function: &Function,
        done: &mut Vec<Node>,
        depth: usize,
    ) -> Result<(), Error> {
        let origin = node
            .origin
            .clone()
            .unwrap_or_else(|| Arc::new(Origin { node: node.name.clone(), op: function.name().into() }));
        if depth == DEEPEST {
            return Err(Error::Unsupported {
                node: origin.node.clone(),
                op: origin.op.clone(),
                reason: "functions within functions without end".into(),
            });
        }
        if let Some(id) = node.inputs.iter().flatten().find(|id| self.types[id.0 as usize].is_none()) {
            let name = &self.graph.value(*id).name;
            return Err(Error::Graph(format!("node '{}' reads value '{name}' before it is made", node.name)));
        }
        let mut scope = Scope::new(self, node, origin, depth);
        let results = function.body(&mut scope)?;
        let mut nodes = scope.into_nodes();
        for (index, output) in node.outputs.iter().enumerate() {
            let Some(output) = *output else { continue };
            let Some(&result) = results.get(index) else {
                let reason = format!("output {index} is not supported");
                let (node, op) = (node.name.clone(), function.name().into());
                return Err(Error::Unsupported { node, op, reason });
            };
            self.hand_over(node, result, output, &mut nodes)?;
        }
        if let [only] = nodes.as_mut_slice() {
            // Nothing but another name for one operator.
            (only.name, only.origin) = (node.name.clone(), node.origin.clone());
        }
        done.extend(nodes);
        Ok(())
    }

    /// Puts one of two networks in the place of the node that chooses between them.
    fn choose(
        &mut self,
        node: &Node,
        op: &If,
        holds: bool,
        done: &mut Vec<Node>,
        depth: usize,
    ) -> Result<(), Error> {
        let refuse = |reason: String| Error::Unsupported { node: node.name.clone(), op: "If".into(), reason };
        if depth == DEEPEST {
            return Err(refuse(format!("more than {DEEPEST} within each other")));
        }
        let (body, first) = if holds { (&op.then, 1) } else { (&op.otherwise, 1 + op.then.captures) };
        let operands = node.inputs.get(first..).unwrap_or_default();
        let nodes = self.adopt(&body.graph, operands, &node.outputs, &node.name, refuse)?;
        for inner in nodes {
            let name = format!("{}/{}", node.name, inner.name);
            self.place(Node { name, ..inner }, done, depth + 1)?;
        }
        Ok(())
    }

    /// Takes over another network's values and gives its nodes, which are yet to be placed: see [`Graph::adopt`]. What has no
    /// name here is called after `name`.
    pub(crate) fn adopt(
        &mut self,
        network: &Graph,
        operands: &[Option<ValueId>],
        results: &[Option<ValueId>],
        name: &str,
        refuse: impl Fn(String) -> Error,
    ) -> Result<Vec<Node>, Error> {
        let mut names = self.take_names();
        let mut number = self.graph.values.len();
        let unique = |inner: &str| {
            loop {
                let name = format!("{name}/{inner}#{number}");
                number += 1;
                if names.insert(name.clone()) {
                    break name;
                }
            }
        };
        let nodes = self.graph.adopt(network, operands, results, unique, refuse);
        self.names = Some(names);
        for value in &self.graph.values[self.types.len()..] {
            let constant = value.constant.as_ref();
            let dtype =
                constant.map(|constant| TensorType { dtype: constant.dtype(), shape: constant.shape() });
            self.types.push(dtype);
        }
        nodes
    }

    /// Lets what a function's body makes as `result` be the network's value `output`.
    fn hand_over(
        &mut self,
        node: &Node,
        result: ValueId,
        output: ValueId,
        nodes: &mut Vec<Node>,
    ) -> Result<(), Error> {
        let own = nodes.iter().any(|made| made.outputs.contains(&Some(result)));
        if own && self.graph.value(result).provenance == Provenance::Pass {
            let renamed = nodes.iter_mut().flat_map(|node| node.inputs.iter_mut().chain(&mut node.outputs));
            renamed.filter(|id| **id == Some(result)).for_each(|id| *id = Some(output));
            self.types[output.0 as usize] = self.types[result.0 as usize];
            if let Some(constant) = self.folded.remove(&result) {
                self.folded.insert(output, constant);
            }
            return Ok(());
        }
        // An operand, a constant or another result.
        let mut copy = Node::new(
            format!("{}.Identity", node.name),
            Op::Identity(crate::ops::Identity),
            vec![Some(result)],
            vec![Some(output)],
        );
        self.look_at(&mut copy)?;
        nodes.push(copy);
        Ok(())
    }

    /// As [`Self::place`], for a node within a function.
    pub(crate) fn place_inner(
        &mut self,
        node: Node,
        nodes: &mut Vec<Node>,
        depth: usize,
    ) -> Result<(), Error> {
        self.place(node, nodes, depth + 1)
    }

    /// Type and extents of a value; `None` before it is made.
    pub(crate) fn tensor_type(&self, id: ValueId) -> Option<TensorType> {
        self.types[id.0 as usize]
    }

    /// The elements of a value, where they are known.
    pub(crate) fn constant(&self, id: ValueId) -> Option<&Constant> {
        constant(self.graph, &self.folded, id)
    }

    /// Adds a value under a name made unique from `stem`.
    pub(crate) fn add_value(&mut self, stem: &str) -> ValueId {
        let mut names = self.take_names();
        let mut number = self.graph.values.len();
        let name = loop {
            let name = format!("{stem}#{number}");
            if names.insert(name.clone()) {
                break name;
            }
            number += 1;
        };
        self.names = Some(names);
        self.types.push(None);
        self.graph.add_value(Value { provenance: Provenance::Pass, ..Value::named(name) })
    }

    /// Counts elements that a function lays out as a constant, and says whether there may be so many.
    pub(crate) fn lay_out(&self, count: usize) -> bool {
        let left = self.lists.get().checked_sub(count);
        self.lists.set(left.unwrap_or(0));
        left.is_some()
    }

    /// The names that one that is made up can be like; whoever takes them gives them back.
    fn take_names(&mut self) -> HashSet<String> {
        self.names.take().unwrap_or_else(|| {
            let names = self.graph.values.iter().map(|value| value.name.as_str());
            names.filter(|name| name.contains('#')).map(String::from).collect()
        })
    }

    /// Adds a constant under a name made unique from `stem`.
    pub(crate) fn add_constant(&mut self, stem: &str, constant: Constant) -> ValueId {
        let id = self.add_value(stem);
        self.types[id.0 as usize] = Some(TensorType { dtype: constant.dtype(), shape: constant.shape() });
        self.graph.set_constant(id, constant);
        id
    }

    /// Says of a value that it is of strings.
    pub(crate) fn makes_strings(&mut self, id: ValueId) {
        self.graph.value_mut(id).kind = ValueKind::Strings;
    }
}

fn constant<'a>(
    graph: &'a Graph,
    folded: &'a HashMap<ValueId, Constant>,
    id: ValueId,
) -> Option<&'a Constant> {
    graph.value(id).constant.as_ref().or_else(|| folded.get(&id))
}

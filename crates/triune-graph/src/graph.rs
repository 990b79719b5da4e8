//! The graph itself: values in an arena, nodes in execution order, names kept for messages and files.

use std::sync::Arc;

use smallvec::SmallVec;
use triune_tensor::{DType, MAX_RANK, QuantParams, Requantize, Rounding, Shape};

use crate::{Constant, Error, Op, Strings};

/// Index of a value in [`Graph::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub u32);

/// Index of a node in [`Graph::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// One extent of a value's shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    /// Known.
    Fixed(usize),
    /// Bound when a caller gives shapes, such as the batch `N`.
    Symbol(Arc<str>),
}

/// What a value is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ValueKind {
    /// A tensor.
    #[default]
    Tensor,
    /// A list of tensors of one element type, each with extents of its own.
    Sequence,
    /// A tensor, or nothing.
    Optional,
    /// A list of tensors, or nothing.
    OptionalSequence,
    /// A tensor of strings, as their numbers in [`Graph::strings`] and in the tables that runs add to it.
    Strings,
    /// A map: within a run a list of two tensors, its keys and its values.
    Map(MapType),
    /// A list of maps with the same keys: within a run a list of two tensors, the keys and a row of values for each map.
    Maps(MapType),
}

/// What a map is of; numbers among its keys are i64, and among its values of the value's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MapType {
    /// Whether keys are strings.
    pub string_keys: bool,
    /// Whether values are.
    pub string_values: bool,
}

impl ValueKind {
    /// Whether there is one tensor in any case.
    pub const fn is_tensor(self) -> bool {
        matches!(self, Self::Tensor | Self::Strings)
    }

    /// Whether it is a map, or several.
    pub const fn is_map(self) -> bool {
        matches!(self, Self::Map(_) | Self::Maps(_))
    }

    /// The kind in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tensor => "tensor",
            Self::Sequence => "sequence",
            Self::Optional => "optional",
            Self::OptionalSequence => "optional sequence",
            Self::Strings => "strings",
            Self::Map(_) => "map",
            Self::Maps(_) => "sequence of maps",
        }
    }
}

/// One value of the network, a tensor unless [`Value::kind`] says otherwise: an input, a constant, or what a node makes.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Unique name.
    pub name: String,
    /// What it is.
    pub kind: ValueKind,
    /// Element type, once known.
    pub dtype: Option<DType>,
    /// Logical extents (NCHW order for images, as ONNX has them), once known.
    pub shape: Option<Vec<Dim>>,
    /// The elements, when they are known before the network runs.
    pub constant: Option<Constant>,
    /// Where it comes from.
    pub provenance: Provenance,
}

/// Where a value comes from. Names do not say: a network may call its own values as passes call those that they add.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Provenance {
    /// The network has it under its name.
    #[default]
    Network,
    /// A pass added it: integers that, taken for what `quant` says, stand for the same reals as a value of the network.
    Same {
        /// The name of the real value.
        value: String,
        /// What the integers stand for.
        quant: QuantParams,
    },
    /// A pass added it: the integers to which the network quantizes its value of this name further on.
    Quantized(String),
    /// A pass added it.
    Pass,
}

impl Value {
    /// A value of which only the name is known.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind: ValueKind::Tensor,
            dtype: None,
            shape: None,
            constant: None,
            provenance: Provenance::Network,
        }
    }

    /// The extents, when all are fixed.
    pub fn fixed_shape(&self) -> Option<Shape> {
        let declared = self.shape.as_ref()?;
        let mut dims = [0; MAX_RANK];
        let dims = dims.get_mut(..declared.len())?;
        for (extent, dim) in dims.iter_mut().zip(declared) {
            *extent = match dim {
                Dim::Fixed(extent) => *extent,
                Dim::Symbol(_) => return None,
            };
        }
        Shape::new(dims)
    }
}

/// Operands or results of a node, or places for them: most nodes have one or two, which lie in the node itself.
pub type ValueIds = SmallVec<[Option<ValueId>; 2]>;

/// One operator of the network.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Name for messages; unique after import.
    pub name: String,
    /// What it computes.
    pub op: Op,
    /// Operands; `None` for an optional one that is left out.
    pub inputs: ValueIds,
    /// Results; `None` for an optional one that nobody asked for.
    pub outputs: ValueIds,
    /// What its integers stand for, if it computes on integers that stand for reals.
    pub quant: Option<Box<Quantization>>,
    /// The composite operator of the network that it is a part of, if it is.
    pub origin: Option<Arc<Origin>>,
}

/// An operator of the network that became several nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The node's name.
    pub node: String,
    /// The operator.
    pub op: String,
}

impl Node {
    /// An operator that computes on its operands as they are.
    pub fn new(
        name: impl Into<String>,
        op: impl Into<Op>,
        inputs: impl Into<ValueIds>,
        outputs: impl Into<ValueIds>,
    ) -> Self {
        let (inputs, outputs) = (inputs.into(), outputs.into());
        Self { name: name.into(), op: op.into(), inputs, outputs, quant: None, origin: None }
    }

    /// Name and operator for messages: those that the network has it under.
    pub fn title(&self) -> (&str, &str) {
        match &self.origin {
            Some(origin) => (&origin.node, &origin.op),
            None => (&self.name, self.op.name()),
        }
    }

    /// What others that take this one's place come from.
    pub(crate) fn as_origin(&self) -> Arc<Origin> {
        let new = || Arc::new(Origin { node: self.name.clone(), op: self.op.name().to_owned() });
        self.origin.clone().unwrap_or_else(new)
    }
}

/// What an operator takes the integers that it reads for, and what the integers that it makes stand for.
///
/// A tensor of integers is just that: scales and zero points belong to the operators. Whoever reads the same integers may
/// take them for other reals.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantization {
    /// Per operand; `None` for weights and for what has no scale of its own, such as a bias.
    pub operands: Vec<Option<QuantParams>>,
    /// Scales of a product's constant weights, whose zero point is 0: one, or one per output channel. Empty for other operators.
    pub weights: Arc<[f32]>,
    /// The result's element type.
    pub dtype: DType,
    /// What the result's integers stand for.
    pub result: QuantParams,
}

impl Quantization {
    /// What operand `index` is taken for.
    pub fn operand(&self, index: usize) -> Option<QuantParams> {
        self.operands.get(index).copied().flatten()
    }
}

/// A constant that the file lists as an input, too.
#[derive(Clone, Debug, PartialEq)]
pub struct DefaultInput {
    /// The constant.
    pub value: ValueId,
    /// The extents that it may have, as the file declares them for the input.
    pub shape: Option<Vec<Dim>>,
    /// Whether its elements made the network what it is: they cannot be others then.
    pub decides: bool,
}

/// A network. `nodes` are in an order in which every operand is made before it is used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// The network's name.
    pub name: String,
    /// All tensors; nodes refer to them by [`ValueId`].
    pub values: Vec<Value>,
    /// All operators, in execution order.
    pub nodes: Vec<Node>,
    /// The tensors that a caller gives, in order.
    pub inputs: Vec<ValueId>,
    /// The tensors that a caller gets, in order.
    pub outputs: Vec<ValueId>,
    /// Constants that a caller may give other elements for ([`Graph::take_instead`]).
    pub defaults: Vec<DefaultInput>,
    /// The strings that constants and operators have.
    pub strings: Strings,
    /// How operators over 8-bit values make integers of reals: half to even unless the source format says otherwise.
    ///
    /// An operator with a [`Node::quant`] is an integer operator: `Conv` (x, weights of zero point 0, bias in i32 of the
    /// scale x · weights and of shape (O)), `Gemm` and `MatMul` with constant weights, `Binary` Add and Mul, average pools,
    /// `Softmax`, `Unary` over 16 bits, [`crate::ops::Table`]. A Relu behind one of them is
    /// [`crate::ops::PostOp::Clamp`] with the result's zero point as lower limit, other functions of one value are tables
    /// ([`crate::passes::table`]). What has no integer form (other functions of two operands, products of activations)
    /// goes by way of `DequantizeLinear` and `QuantizeLinear`, which the quantization pass fuses where it can. Without a
    /// [`Node::quant`], integers are integers: operators that move elements look at no scale. docs/numerics.md has the
    /// formulas of both roundings.
    pub rounding: Rounding,
    /// What the factors of these operators are: f32 unless the source format or the device wants multipliers m·2⁻ⁿ.
    ///
    /// Operators keep the scales that they have; every factor that comes of scales (of a product, of each operand of an
    /// addition, of a mean) is rounded where it is used.
    pub requantize: Requantize,
}

impl Graph {
    /// Adds a value and returns its id.
    ///
    /// # Panics
    /// Above 2³² − 1 values, which no file that fits memory has.
    pub fn add_value(&mut self, value: Value) -> ValueId {
        let id = ValueId(u32::try_from(self.values.len()).expect("fewer than 2^32 values"));
        self.values.push(value);
        id
    }

    /// Adds a constant under `name` and returns its id.
    ///
    /// # Panics
    /// As [`Graph::add_value`].
    pub fn add_constant(&mut self, name: impl Into<String>, constant: Constant) -> ValueId {
        let shape = constant.shape().iter().map(|&dim| Dim::Fixed(dim)).collect();
        self.add_value(Value {
            dtype: Some(constant.dtype()),
            shape: Some(shape),
            constant: Some(constant),
            ..Value::named(name)
        })
    }

    /// Makes the elements of a value known, and with them its type and shape.
    pub fn set_constant(&mut self, id: ValueId, constant: Constant) {
        let value = self.value_mut(id);
        value.dtype = Some(constant.dtype());
        value.shape = Some(constant.shape().iter().map(|&dim| Dim::Fixed(dim)).collect());
        value.constant = Some(constant);
    }

    /// Makes a constant of [`Graph::defaults`] the last input.
    ///
    /// One that there is not, or that made the network what it is, is an error.
    pub fn take_instead(&mut self, name: &str) -> Result<(), Error> {
        let default = self.defaults.iter().position(|default| self.value(default.value).name == name);
        let default = default.ok_or_else(|| Error::Graph(format!("no input is called '{name}'")))?;
        let DefaultInput { value, shape, decides } = self.defaults.remove(default);
        if decides {
            return Err(Error::Graph(format!(
                "input '{name}' has a constant of the file, which made operators what they are and cannot be replaced"
            )));
        }
        let own = self.value_mut(value);
        own.constant = None;
        own.shape = shape;
        self.inputs.push(value);
        Ok(())
    }

    /// Refuses a network in which there are strings: MegEngine's files and devices have no place for them.
    pub fn expect_numbers(&self) -> Result<(), Error> {
        match self.values.iter().find(|value| value.kind == ValueKind::Strings) {
            None => Ok(()),
            Some(Value { name, .. }) => Err(Error::Graph(format!(
                "'{name}' is of strings, which sessions and ONNX files have and nothing else"
            ))),
        }
    }

    /// The value with this id.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0 as usize]
    }

    /// The value with this id, to be changed.
    pub fn value_mut(&mut self, id: ValueId) -> &mut Value {
        &mut self.values[id.0 as usize]
    }

    /// For every value, the node that makes it.
    pub fn producers(&self) -> Vec<Option<NodeId>> {
        let mut producers = vec![None; self.values.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for output in node.outputs.iter().flatten() {
                producers[output.0 as usize] = Some(NodeId(index as u32));
            }
        }
        producers
    }

    /// For every value, the nodes that read it, once per operand position.
    pub fn consumers(&self) -> Vec<Vec<NodeId>> {
        let mut consumers = vec![Vec::new(); self.values.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for input in node.inputs.iter().flatten() {
                consumers[input.0 as usize].push(NodeId(index as u32));
            }
        }
        consumers
    }

    /// About the bytes of memory that the graph takes, its constants' elements apart.
    pub fn footprint(&self) -> u64 {
        let node = |node: &Node| {
            let operands = node.inputs.len() + node.outputs.len();
            size_of::<Node>() + node.name.len() + operands * size_of::<Option<ValueId>>()
        };
        let value = |value: &Value| {
            let dims = value.shape.as_ref().map_or(0, Vec::len);
            size_of::<Value>() + value.name.len() + dims * size_of::<Dim>()
        };
        let all = self.nodes.iter().map(node).chain(self.values.iter().map(value));
        // What an allocation takes besides: a node has three, a value two.
        all.map(|bytes| bytes as u64 + 64).sum()
    }

    /// The id of the value called `name`.
    pub fn find_value(&self, name: &str) -> Option<ValueId> {
        self.values.iter().position(|value| value.name == name).map(|index| ValueId(index as u32))
    }
}

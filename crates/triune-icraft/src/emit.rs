//! From a network to a document: values in the vendor's order of axes, conversions where operators want another one.
//!
//! Knows no operator; those are in `ops`.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use triune_graph::{
    Constant, Node, Op, ValueId,
    format::xir::{
        Attribute, Document, ElementType, Mem, Operation, Params, Runs, Scalar, Scale, Target, TensorType,
        Value,
    },
};
use triune_tensor::{DType, Shape, text::List};

use super::{
    commands::Compiled,
    form::{Form, Style, scalar, stored, tensor},
    logic::{DetPost, Image},
    source::{Integers, Meaning, Source},
};
use crate::Error;
use triune_compiler::partition::put_off;

/// What all stages have in common: the numbers of values and operators by their names, and how results lie at the border.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    values: HashMap<String, i64>,
    /// With the class that each has.
    ops: HashMap<String, (i64, String)>,
    /// Operators that have a number.
    numbered: i64,
    results: HashMap<String, Form>,
}

impl Ids {
    /// The number of the value that is known under this name.
    pub(crate) fn value(&mut self, key: &str) -> i64 {
        number(&mut self.values, key)
    }

    /// The number of the operator that is known under this name. One of another class than in an earlier stage, where several
    /// operators may have become one, is another.
    pub(crate) fn op(&mut self, key: &str, kind: &str) -> i64 {
        if let Some((id, own)) = self.ops.get(key)
            && own == kind
        {
            return *id;
        }
        let id = self.numbered;
        self.numbered += 1;
        self.ops.insert(key.to_owned(), (id, kind.to_owned()));
        id
    }

    /// The number of an operator of an earlier stage.
    pub(crate) fn listed_op(&self, key: &str) -> Option<i64> {
        self.ops.get(key).map(|(id, _)| *id)
    }
}

fn number(table: &mut HashMap<String, i64>, key: &str) -> i64 {
    let next = table.len() as i64;
    *table.entry(key.to_owned()).or_insert(next)
}

/// What documents of a step of the compiler say of a network, and in which words.
#[derive(Clone, Debug)]
pub(crate) struct Dialect {
    /// The words for quantized values; `None` for a network in reals.
    pub(crate) style: Option<Style>,
    /// Names of the operators on the accelerator, and how many channels of how many bytes make a block.
    pub(crate) hardware: Option<Hardware>,
}

/// The part of a network on an accelerator.
#[derive(Clone, Debug)]
pub(crate) struct Hardware {
    pub(crate) nodes: HashSet<String>,
    pub(crate) target: Target,
    /// Bytes of a block of channels.
    pub(crate) block_bytes: usize,
    /// Images at the border whose few channels have blocks of their own, and how many channels those have.
    pub(crate) images: HashMap<ValueId, usize>,
}

/// One stored form of a network's value.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) index: usize,
    pub(super) form: Form,
    pub(super) meaning: Option<Meaning>,
}

pub(crate) struct Emitter<'a> {
    pub(crate) source: &'a Source,
    pub(crate) dialect: Dialect,
    pub(crate) document: Document,
    ids: &'a mut Ids,
    pub(super) values: HashMap<ValueId, Vec<Stored>>,
    /// Who runs the operator that makes a value.
    pub(super) makers: HashMap<ValueId, Target>,
    /// Names in this document, to tell the second use of one from the first.
    used: HashSet<String>,
    /// Who runs the operators that are being emitted.
    pub(crate) target: Target,
    /// Classes of the operators of the stage before, by number.
    before: HashMap<i64, String>,
    /// Whether the accelerator's operators are commands.
    commands: bool,
    /// Where a picture enters by way of logic, if it does.
    image: Option<&'a Image>,
    /// Logic behind the results.
    det_post: Option<&'a DetPost>,
}

impl<'a> Emitter<'a> {
    pub(crate) fn new(source: &'a Source, dialect: Dialect, ids: &'a mut Ids) -> Self {
        let target = Target::Host;
        let document = Document { name: source.graph.name.clone(), ..Document::default() };
        Self {
            source,
            dialect,
            document,
            ids,
            values: HashMap::new(),
            makers: HashMap::new(),
            used: HashSet::new(),
            target,
            before: HashMap::new(),
            commands: false,
            image: None,
            det_post: None,
        }
    }

    /// Says which operators the stage before had.
    pub(crate) fn after(mut self, document: &Document) -> Self {
        self.before = document.ops.iter().map(|op| (op.op_id, op.type_key.clone())).collect();
        self
    }

    /// Puts logic in front of the accelerator and behind it.
    pub(crate) fn with_logic(mut self, image: Option<&'a Image>, det_post: Option<&'a DetPost>) -> Self {
        (self.image, self.det_post) = (image, det_post);
        self
    }

    /// All operators, between `Input` and `Output`; with commands instead of the accelerator's, if there are any.
    pub(crate) fn run(mut self, mut compiled: Option<&mut Compiled<'_>>) -> Result<Document, Error> {
        let graph = &self.source.graph;
        self.commands = compiled.is_some();
        if let Some(image) = self.image {
            self.image_make(image)?;
        } else {
            self.inputs()?;
        }
        let mut stages = 0;
        let mut last = None;
        let mut replaced: HashSet<&str> = self.image.map_or_else(HashSet::new, |image| {
            image.replaced.iter().map(|id| &*graph.nodes[id.0 as usize].name).collect()
        });
        if self.det_post.is_some() {
            let renamed = graph.outputs.iter().filter_map(|&id| self.renames(id));
            replaced.extend(renamed.map(|(node, _)| &*node.name).collect::<Vec<_>>());
        }
        for (stage, node) in self.order() {
            if replaced.contains(&*node.name) {
                continue;
            }
            self.target = self.target_of(node);
            if self.target == Target::Host || !self.commands {
                self.make_again(node.inputs.iter().flatten().copied())?;
                self.node(node)?;
            } else if let Some(compiled) = &mut compiled
                && last.replace(stage) != Some(stage)
            {
                if stages >= compiled.core.turns.stages.len() {
                    return Err(Error::internal("the accelerator runs more often than its program"));
                }
                self.hard_ops(compiled, stages)?;
                stages += 1;
            }
        }
        if compiled.is_some_and(|compiled| stages < compiled.core.turns.stages.len()) {
            return Err(Error::internal("the accelerator runs less often than its program"));
        }
        self.target = Target::Host;
        if let Some(post) = self.det_post {
            let outputs = self.det_post(post)?;
            self.push("Output", "Output", outputs, Vec::new(), Vec::new());
            self.tag("detpost", true);
            return Ok(self.document);
        }
        self.make_again(graph.outputs.iter().copied())?;
        let mut outputs = Vec::with_capacity(graph.outputs.len());
        for &id in &graph.outputs {
            let form = self.border(id)?;
            let meaning = self.meaning(id);
            let index = self.operand(id, &form, meaning)?;
            outputs.push(Some(self.named_as(id, index, &form)));
        }
        self.push("Output", "Output", outputs, Vec::new(), Vec::new());
        Ok(self.document)
    }

    /// Makes on the host what it reads, of these values, and commands keep to themselves: the accelerator gives the same elements back
    /// under other extents, from which two changes of shape were left out, or they are an operator's that changes no integer.
    fn make_again(&mut self, wanted: impl IntoIterator<Item = ValueId>) -> Result<(), Error> {
        if !self.commands {
            return Ok(());
        }
        let graph = &self.source.graph;
        let mut missing: Vec<ValueId> = wanted.into_iter().collect();
        let mut again = BTreeSet::new();
        while let Some(id) = missing.pop() {
            if self.constant(id).is_some() || self.values.contains_key(&id) {
                continue;
            }
            let maker = graph.nodes.iter().position(|node| node.outputs.contains(&Some(id)));
            if let Some(maker) = maker.filter(|maker| again.insert(*maker)) {
                missing.extend(graph.nodes[maker].inputs.iter().flatten());
            }
        }
        again.into_iter().try_for_each(|maker| self.node(&graph.nodes[maker]))
    }

    /// The node that makes a value.
    fn maker(&self, id: ValueId) -> Option<&'a Node> {
        self.source.graph.nodes.iter().find(|node| node.outputs.contains(&Some(id)))
    }

    /// The node that only gives a value another name, and the value that it names.
    pub(super) fn renames(&self, id: ValueId) -> Option<(&'a Node, ValueId)> {
        let node = self.maker(id)?;
        let named = matches!(node.op, Op::Identity(_)).then(|| node.inputs.first().copied().flatten())??;
        (self.meaning(named) == self.meaning(id)).then_some((node, named))
    }

    /// The network's inputs as they are.
    fn inputs(&mut self) -> Result<(), Error> {
        let graph = &self.source.graph;
        let mut inputs = Vec::with_capacity(graph.inputs.len());
        for &id in &graph.inputs {
            let last = self.has_channels_last(id);
            let form = if last { Form::plain(4) } else { Form::natural(self.dims(id)?.rank()) };
            let index = self.define(id, form)?;
            if last {
                self.document.values[index].dtype.layout = super::form::layout("NHWC");
            }
            inputs.push(index);
        }
        self.push("Input", "Input", Vec::new(), inputs, Vec::new());
        Ok(())
    }

    /// How a result lies at the border: as in the first stage, wherever the accelerator has it.
    fn border(&mut self, id: ValueId) -> Result<Form, Error> {
        let (value, own) = (self.source.graph.value(id), self.form(id)?.unblocked());
        let known = self.ids.results.get(&value.name).filter(|form| form.order.len() == own.order.len());
        if let Some(form) = known {
            return Ok(form.clone());
        }
        let image = own == Form::image() || self.is_joined_image(id);
        let form = if image { Form::image() } else { Form::plain(own.order.len()) };
        self.ids.results.insert(value.name.clone(), form.clone());
        Ok(form)
    }

    /// A result under its form's names of axes, which a value that is only seen under other axes may not have.
    fn named_as(&mut self, id: ValueId, index: usize, form: &Form) -> usize {
        let (own, layout) = (&self.document.values[index].dtype, form.layout());
        if own.layout == layout {
            return index;
        }
        let dtype = TensorType { layout, ..own.clone() };
        self.reshape(&format!("{}:named", self.source.graph.value(id).name), index, dtype)
    }

    /// Who runs a node.
    pub(crate) fn target_of(&self, node: &Node) -> Target {
        let hardware = self.dialect.hardware.as_ref().filter(|hardware| hardware.nodes.contains(&node.name));
        hardware.map_or(Target::Host, |hardware| hardware.target)
    }

    /// The operators with their stages, in an order in which the accelerator's of one stage follow each other: the host has the
    /// even stages, the accelerator the odd ones, and what the host makes for no stage of it is in the last.
    pub(crate) fn order(&self) -> Vec<(u32, &'a Node)> {
        let graph = &self.source.graph;
        let mut made = vec![0_u32; graph.values.len()];
        let stage = |node: &Node| {
            let after = node.inputs.iter().flatten().map(|id| made[id.0 as usize]).max().unwrap_or(0);
            let hardware = self.target_of(node) != Target::Host;
            let stage = if hardware { after | 1 } else { after.next_multiple_of(2) };
            node.outputs.iter().flatten().for_each(|id| made[id.0 as usize] = stage);
            stage
        };
        let stages = graph.nodes.iter().map(stage).collect();
        let mut order: Vec<(u32, &Node)> = put_off(graph, stages).into_iter().zip(&graph.nodes).collect();
        order.sort_by_key(|(stage, _)| *stage);
        order
    }

    // ---- values ----

    /// A value's extents in the network's order.
    pub(crate) fn dims(&self, id: ValueId) -> Result<Shape, Error> {
        let value = self.source.graph.value(id);
        value
            .fixed_shape()
            .ok_or_else(|| Error::target(format!("the shape of '{}' is not known", value.name)))
    }

    /// What a value's integers mean at this stage.
    pub(crate) fn meaning(&self, id: ValueId) -> Option<Meaning> {
        self.dialect.style.and_then(|_| self.source.meaning(id))
    }

    /// Whether the value is known before the network runs.
    pub(crate) fn constant(&self, id: ValueId) -> Option<&'a Constant> {
        self.source.graph.value(id).constant.as_ref()
    }

    /// The form in which operators of the current target take what they would take in `form`: images in blocks.
    pub(crate) fn native(&self, id: ValueId, form: Form, meaning: Option<Meaning>) -> Form {
        match (&self.dialect.hardware, meaning) {
            (Some(hardware), Some(meaning)) if self.target != Target::Host && form == Form::image() => {
                let block = hardware.block_bytes / meaning.dtype.bytes();
                Form::blocked(4, hardware.images.get(&id).copied().unwrap_or(block))
            }
            _ => form,
        }
    }

    /// The form that a value has already.
    pub(crate) fn form(&self, id: ValueId) -> Result<Form, Error> {
        if self.constant(id).is_some() {
            return Ok(Form::natural(self.dims(id)?.rank()));
        }
        match self.values.get(&id).and_then(|stored| stored.first()) {
            Some(stored) => Ok(stored.form.clone()),
            None => Err(Error::internal(format!(
                "'{}' is read before anything makes it",
                self.source.graph.value(id).name
            ))),
        }
    }

    /// A new value of the document for what a node makes.
    pub(crate) fn define(&mut self, id: ValueId, form: Form) -> Result<usize, Error> {
        self.makers.insert(id, self.target);
        let meaning = self.meaning(id);
        let (dims, element) = (self.dims(id)?, self.element(id, meaning, &form)?);
        let name = self.source.graph.value(id).name.clone();
        let index = self.value(&name, stored(element, dims, &form), None);
        self.document.values[index].name = name;
        self.values.entry(id).or_default().push(Stored { index, form, meaning });
        Ok(index)
    }

    /// Lets a value be another one, whose axes it has in the order `axes` (axis i of the new is axis `axes[i]` of the old).
    pub(crate) fn alias(&mut self, id: ValueId, of: ValueId, axes: &[usize]) -> Result<(), Error> {
        let form = self.form(of)?.unblocked();
        let meaning = self.meaning(of);
        let index = self.operand(of, &form, meaning)?;
        let back = |axis: &usize| axes.iter().position(|each| each == axis);
        let order: Option<Vec<usize>> = form.order.iter().map(back).collect();
        let Some(order) = order else {
            return Err(Error::internal(format!(
                "'{}': {} are no axes",
                self.source.graph.value(id).name,
                List(axes)
            )));
        };
        self.makers.insert(id, self.target);
        let stored = Stored { index, form: Form { order, block: None }, meaning };
        let own = self.meaning(id);
        if own.is_some() && own != meaning {
            // It is quantized by itself: nobody reads the elements as they were before that, not in reals either.
            self.cast(id, self.dims(id)?, &stored, own)?;
            return Ok(());
        }
        self.values.entry(id).or_default().push(stored);
        Ok(())
    }

    pub(super) fn element(
        &self,
        id: ValueId,
        meaning: Option<Meaning>,
        form: &Form,
    ) -> Result<ElementType, Error> {
        let value = self.source.graph.value(id);
        if let (Some(style), Some(meaning)) = (self.dialect.style, meaning) {
            return Ok(style.activation(meaning, form.channels(&self.dims(id)?)));
        }
        let dtype = value.dtype.unwrap_or(DType::F32);
        // A border of integers stands for reals in a network of reals.
        let reals = self.source.meaning(id).is_some();
        Ok(ElementType::Scalar(scalar(if reals { DType::F32 } else { dtype })))
    }

    /// Adds a value under a name that says what it is, whatever the stage.
    pub(crate) fn value(&mut self, key: &str, dtype: TensorType, data: Option<Constant>) -> usize {
        let key = self.unique(key);
        let params = data.map(|data| Params { allow_no_data: false, data: Some(data.bytes().clone()) });
        let v_id = self.ids.value(&key);
        let name = String::new();
        let mtype = Mem::Host;
        self.document.values.push(Value { v_id, name, dtype, mtype, tags: BTreeMap::new(), params });
        self.document.values.len() - 1
    }

    fn unique(&mut self, key: &str) -> String {
        let mut name = key.to_owned();
        let mut count = 1;
        while !self.used.insert(name.clone()) {
            count += 1;
            name = format!("{key}:{count}");
        }
        name
    }

    // ---- constants ----

    /// A constant operand in a form: integers where quantization left some, else reals.
    pub(super) fn place_constant(
        &mut self,
        id: ValueId,
        constant: &Constant,
        form: &Form,
    ) -> Result<usize, Error> {
        let integers = self.dialect.style.and_then(|_| self.source.integers(id));
        if let Some(integers) = integers {
            let plain = form.unblocked();
            if form.block.is_none() || integers.scales.len() == 1 {
                let index = self.integers(id, integers, &plain.order, plain.layout())?;
                return self.by_blocks(id, index, form);
            }
        }
        let name = self.source.graph.value(id).name.clone();
        let data = permuted(constant, &form.order, &name)?;
        let layout = form.unblocked().layout();
        let dtype = tensor(ElementType::Scalar(scalar(data.dtype())), &data.shape(), layout);
        let index = self.value(&name, dtype, Some(data));
        self.by_blocks(id, index, form)
    }

    /// Splits the channels of a constant of the document into the form's blocks, zeros behind the last ones.
    fn by_blocks(&mut self, id: ValueId, index: usize, form: &Form) -> Result<usize, Error> {
        let Some(block) = form.block else { return Ok(index) };
        let dims = self.dims(id)?;
        let value = &mut self.document.values[index];
        let wrong = || Error::internal(format!("a constant of {dims} by blocks of {block} channels"));
        let data = value.params.as_mut().and_then(|params| params.data.as_mut()).ok_or_else(wrong)?;
        let channels = form.order.last().map(|&axis| dims[axis]).filter(|&channels| channels > 0);
        let channels = channels.ok_or_else(wrong)?;
        let size = data.len() / dims.iter().product::<usize>().max(1);
        let blocks = channels.div_ceil(block);
        let mut whole = Vec::with_capacity(data.len() / channels * blocks * block);
        for row in data.chunks_exact(channels * size) {
            whole.extend_from_slice(row);
            whole.resize(whole.len().next_multiple_of(block * blocks * size), 0);
        }
        // The blocks go where the form counts them.
        let before: usize = form.stored(&dims)[..form.blocks_at()].iter().product();
        let between = whole.len() / (before * blocks * block * size).max(1);
        let mut split = Vec::with_capacity(whole.len());
        for outer in 0..before {
            for at in 0..blocks {
                for inner in 0..between {
                    let from = ((outer * between + inner) * blocks + at) * block * size;
                    split.extend_from_slice(&whole[from..][..block * size]);
                }
            }
        }
        *data = split.into();
        value.dtype = stored(value.dtype.element.clone(), dims, form);
        Ok(index)
    }

    /// A constant of integers with plain scales, axes in `order`.
    pub(crate) fn integers(
        &mut self,
        id: ValueId,
        integers: &Integers,
        order: &[usize],
        layout: triune_graph::format::xir::Layout,
    ) -> Result<usize, Error> {
        let name = self.source.graph.value(id).name.clone();
        let data = permuted(&integers.constant, order, &name)?;
        let axis = order.iter().position(|&axis| axis == integers.axis).unwrap_or(0) as i64;
        let axis = if integers.scales.len() == 1 { -1 } else { axis };
        let scales = Runs::from_values(axis, integers.scales.iter().copied());
        let zero_points = if integers.zero_points.iter().all(|&zero| zero == 0) {
            Vec::new()
        } else {
            integers.zero_points.clone()
        };
        let element = quantized(data.dtype(), Scale::Plain(scales), zero_points);
        let dtype = tensor(element, &data.shape(), layout);
        Ok(self.value(&name, dtype, Some(data)))
    }

    // ---- operators ----

    /// The number and class of an operator of the stage before, by the node's name.
    pub(crate) fn written(&self, node: &str) -> Option<(i64, String)> {
        let id = self.ids.listed_op(&format!("op {node}"))?;
        self.before.get(&id).map(|kind| (id, kind.clone()))
    }

    /// A number for an operator of this stage.
    pub(crate) fn op_number(&mut self, key: &str, kind: &str) -> i64 {
        let key = self.unique(&format!("op {key}"));
        self.ids.op(&key, kind)
    }

    /// From now on, `index` is where a value is found.
    pub(crate) fn settle(&mut self, id: ValueId, index: usize, form: Form) {
        let meaning = self.meaning(id);
        self.makers.insert(id, self.target);
        self.values.insert(id, vec![Stored { index, form, meaning }]);
    }

    /// Appends an operator of the intermediate representation.
    pub(crate) fn push(
        &mut self,
        kind: &str,
        key: &str,
        inputs: Vec<Option<usize>>,
        outputs: Vec<usize>,
        attributes: Vec<(&str, Attribute)>,
    ) {
        // An operator and a value may share a name.
        let op_id = self.op_number(key, kind);
        let attributes = attributes.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        self.document.ops.push(Operation {
            type_key: format!("icraft::xir::{kind}"),
            op_id,
            name: String::new(),
            target: self.target,
            tags: BTreeMap::new(),
            inputs,
            outputs,
            attributes,
        });
    }
}

/// A quantized element type that stands for f32.
pub(crate) fn quantized(dtype: DType, scale: Scale, zero_points: Vec<i64>) -> ElementType {
    ElementType::Quantized { storage: scalar(dtype), expressed: Scalar::Float(32), scale, zero_points }
}

/// A node's operand.
pub(crate) fn input(node: &Node, index: usize) -> Result<ValueId, Error> {
    let id = node.inputs.get(index).copied().flatten();
    id.ok_or_else(|| Error::unsupported(node, format!("operand {index} is missing")))
}

/// A list of whole numbers.
pub(crate) fn ints(values: impl IntoIterator<Item = i64>) -> Attribute {
    Attribute::List(values.into_iter().map(Attribute::Int).collect())
}

/// A constant with its axes in `order`.
pub(crate) fn permuted(constant: &Constant, order: &[usize], name: &str) -> Result<Constant, Error> {
    let moved = constant.permuted(order);
    moved.ok_or_else(|| {
        Error::internal(format!("constant '{name}' of shape {} has other axes", constant.shape()))
    })
}

//! Documents by hand, and tensors in and out of layouts, element by element.

use std::collections::BTreeMap;

use bytes::Bytes;
use triune_graph::{
    Graph,
    format::xir::{
        Attribute, Document, ElementType, Fill, Layout, Mem, MergedDistr, Operation, Options, Params, Runs,
        Scalar, Scale, Section, Target, TensorType, Value, to_graph,
    },
};
use triune_testing::{Tensor, interpret};

/// A document under construction.
#[derive(Default)]
pub(crate) struct Net {
    pub(crate) document: Document,
    inputs: Vec<usize>,
}

impl Net {
    fn value(&mut self, dtype: TensorType, params: Option<Params>) -> usize {
        let index = self.document.values.len();
        let (mtype, tags) = (Mem::Host, BTreeMap::new());
        self.document.values.push(Value {
            v_id: index as i64,
            name: String::new(),
            dtype,
            mtype,
            tags,
            params,
        });
        index
    }

    pub(crate) fn input(&mut self, dtype: TensorType) -> usize {
        let index = self.value(dtype, None);
        self.inputs.push(index);
        index
    }

    /// A constant of a tensor that is laid out already.
    pub(crate) fn constant(&mut self, dtype: TensorType, data: &Tensor) -> usize {
        let params = Params { allow_no_data: false, data: Some(Bytes::from(data.to_bytes())) };
        self.value(dtype, Some(params))
    }

    pub(crate) fn op(
        &mut self,
        kind: &str,
        inputs: &[usize],
        result: TensorType,
        attributes: &[(&str, Attribute)],
    ) -> usize {
        let y = self.value(result, None);
        self.op_into(kind, inputs, &[y], attributes);
        y
    }

    /// An operation with several results.
    pub(crate) fn op_many(
        &mut self,
        kind: &str,
        inputs: &[usize],
        results: &[TensorType],
        attributes: &[(&str, Attribute)],
    ) -> Vec<usize> {
        let made: Vec<usize> = results.iter().map(|result| self.value(result.clone(), None)).collect();
        self.op_into(kind, inputs, &made, attributes);
        made
    }

    fn op_into(&mut self, kind: &str, inputs: &[usize], outputs: &[usize], attributes: &[(&str, Attribute)]) {
        let op_id = self.document.ops.len() as i64 + 1;
        self.document.ops.push(Operation {
            type_key: if kind.contains("::") { kind.to_owned() } else { format!("icraft::xir::{kind}") },
            op_id,
            name: String::new(),
            target: Target::Host,
            tags: BTreeMap::new(),
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: outputs.to_vec(),
            attributes: attributes.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect(),
        });
    }

    pub(crate) fn finish(mut self, outputs: &[usize]) -> Document {
        let inputs = std::mem::take(&mut self.inputs);
        self.op_into("Input", &[], &inputs, &[]);
        let input = self.document.ops.pop().expect("just pushed");
        self.document.ops.insert(0, input);
        self.op_into("Output", outputs, &[], &[]);
        self.document.ops.first_mut().expect("the input").op_id = 0;
        self.document
    }
}

/// A type of plain numbers.
pub(crate) fn plain(scalar: Scalar, layout: &str, shape: &[usize]) -> TensorType {
    of(ElementType::Scalar(scalar), layout, shape)
}

/// A type of reals.
pub(crate) fn real(layout: &str, shape: &[usize]) -> TensorType {
    plain(Scalar::Float(32), layout, shape)
}

/// A type of any elements.
pub(crate) fn of(element: ElementType, layout: &str, shape: &[usize]) -> TensorType {
    TensorType {
        element,
        shape: shape.iter().map(|&extent| extent as i64).collect(),
        layout: layout.parse().expect("a layout"),
        merged: Vec::new(),
    }
}

/// s8 with plain scales.
pub(crate) fn quantized(axis: i64, scales: &[f32], zero_point: i64) -> ElementType {
    ElementType::Quantized {
        storage: Scalar::Signed(8),
        expressed: Scalar::Float(32),
        scale: Scale::Plain(Runs::from_values(axis, scales.iter().copied())),
        zero_points: if zero_point == 0 { Vec::new() } else { vec![zero_point; scales.len()] },
    }
}

/// An axis with padding: its name, the sections that are not padding, all elements.
type Padded = (char, Vec<(usize, usize)>, usize);

/// How a tensor with named axes lies: the layout, and for padded axes which of how many elements are there.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) layout: Layout,
    /// Upper-case name, valid sections, all elements.
    pub(crate) padded: Vec<Padded>,
}

impl Place {
    pub(crate) fn new(layout: &str) -> Self {
        Self { layout: layout.parse().expect("a layout"), padded: Vec::new() }
    }

    pub(crate) fn padded(mut self, name: char, valid: &[(usize, usize)], total: usize) -> Self {
        self.padded.push((name, valid.to_vec(), total));
        self
    }

    /// Positions among all elements of those that are there.
    fn positions(&self, name: char, extent: usize) -> (Vec<usize>, usize) {
        match self.padded.iter().find(|(own, ..)| *own == name) {
            Some((_, valid, total)) => (valid.iter().flat_map(|&(start, end)| start..end).collect(), *total),
            None => ((0..extent).collect(), extent.next_multiple_of(self.unit(name))),
        }
    }

    fn unit(&self, name: char) -> usize {
        let inner =
            self.layout.axes.iter().find(|axis| axis.unit > 0 && axis.name == name.to_ascii_lowercase());
        inner.map_or(1, |axis| axis.unit as usize)
    }

    /// Stored extents of a tensor whose axes are called `names`.
    pub(crate) fn shape(&self, names: &str, extents: &[usize]) -> Vec<usize> {
        self.layout
            .axes
            .iter()
            .map(|axis| {
                if axis.unit > 0 {
                    return axis.unit as usize;
                }
                let at = names.find(axis.name).expect("an axis of that name");
                self.positions(axis.name, extents[at]).1 / self.unit(axis.name)
            })
            .collect()
    }

    /// The type, with what its padding is.
    pub(crate) fn dtype(&self, element: ElementType, names: &str, extents: &[usize]) -> TensorType {
        let shape = self.shape(names, extents);
        let mut dtype = TensorType {
            element,
            shape: shape.iter().map(|&extent| extent as i64).collect(),
            layout: self.layout.clone(),
            merged: Vec::new(),
        };
        for (at, name) in names.chars().enumerate() {
            let (positions, total) = self.positions(name, extents[at]);
            if positions.len() == total {
                continue;
            }
            let axes = self.layout.axes.iter().enumerate();
            let axes =
                axes.filter(|(_, axis)| axis.name.eq_ignore_ascii_case(&name)).map(|(index, _)| index as i64);
            let mut sections: Vec<Section> = Vec::new();
            for element in 0..total {
                let valid = positions.contains(&element);
                match sections.last_mut() {
                    Some(last) if last.valid == valid => last.end += 1,
                    _ => sections.push(Section { valid, start: element as u64, end: element as u64 + 1 }),
                }
            }
            dtype.merged.push(MergedDistr { axes: axes.collect(), fill: Some(Fill::Zero), sections });
        }
        dtype
    }

    /// For every stored element, which one of the tensor it is, or none for padding.
    fn map(&self, names: &str, extents: &[usize]) -> (Vec<usize>, Vec<Option<usize>>) {
        let shape = self.shape(names, extents);
        let count: usize = shape.iter().product();
        let strides: Vec<usize> =
            (0..extents.len()).map(|axis| extents[axis + 1..].iter().product()).collect();
        let map = (0..count)
            .map(|element| {
                let mut rest = element;
                let mut index = vec![0; shape.len()];
                for axis in (0..shape.len()).rev() {
                    index[axis] = rest % shape[axis];
                    rest /= shape[axis];
                }
                let mut at = 0;
                for (axis, name) in names.chars().enumerate() {
                    let mut position = 0;
                    for (stored, own) in self.layout.axes.iter().enumerate() {
                        if own.name == name {
                            position += index[stored] * self.unit(name);
                        } else if own.name.eq_ignore_ascii_case(&name) {
                            position += index[stored];
                        }
                    }
                    let place =
                        self.positions(name, extents[axis]).0.iter().position(|&valid| valid == position)?;
                    at += place * strides[axis];
                }
                Some(at)
            })
            .collect();
        (shape, map)
    }

    /// The tensor as it is stored, `fill` where there is padding.
    pub(crate) fn store(&self, names: &str, tensor: &Tensor, fill: f64) -> Tensor {
        let (shape, map) = self.map(names, &tensor.shape);
        if tensor.dtype().is_float() {
            let values = tensor.reals();
            let stored: Vec<f64> = map.iter().map(|at| at.map_or(fill, |at| values[at])).collect();
            return Tensor::of_floats(tensor.dtype(), &shape, &stored);
        }
        let values = tensor.integers();
        let stored: Vec<i64> = map.iter().map(|at| at.map_or(fill as i64, |at| values[at])).collect();
        Tensor::of_integers(tensor.dtype(), &shape, &stored)
    }
}

/// The document's network by definition, on its inputs in order.
pub(crate) fn run(document: &Document, inputs: &[Tensor]) -> Vec<Tensor> {
    let graph = graph(document);
    let named: Vec<(&str, Tensor)> = graph
        .inputs
        .iter()
        .zip(inputs)
        .map(|(&id, input)| (graph.value(id).name.as_str(), input.clone()))
        .collect();
    interpret(&graph, &named)
}

/// The graph of a document, which must hold together.
pub(crate) fn graph(document: &Document) -> Graph {
    let mut graph = to_graph(document, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
    triune_graph::infer::infer(&mut graph).unwrap_or_else(|error| panic!("{error}"));
    graph
}

/// A list of integers as an attribute.
pub(crate) fn ints(values: &[i64]) -> Attribute {
    Attribute::List(values.iter().copied().map(Attribute::Int).collect())
}

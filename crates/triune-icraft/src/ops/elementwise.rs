//! Functions element by element, and reductions.

use triune_graph::{
    Constant, Node, ValueId,
    format::xir::{Attribute, ElementType, TensorType},
    ops::{ArgReduce, Binary, BinaryKind, LayerNorm, Reduce, ReduceKind, Softmax, UnaryKind},
};
use triune_tensor::{DType, Shape, text::List};

use super::super::{
    emit::{Emitter, input, ints},
    form::{Form, scalar, stored, tensor},
    source::{Meaning, ends},
};
use crate::Error;

impl Emitter<'_> {
    pub(super) fn unary(&mut self, node: &Node, kind: UnaryKind) -> Result<(), Error> {
        let float = |value: f32| Attribute::Float(f64::from(value));
        let relu = |alpha: f32, most: f32| {
            vec![("alpha", float(alpha)), ("max_value", float(most)), ("threshold", float(0.0))]
        };
        let clamp = |low: f32, high: f32| ("ClampScalar", vec![("max", float(high)), ("min", float(low))]);
        let (name, attributes) = match kind {
            UnaryKind::Reciprocal => {
                let form = self.form(input(node, 0)?)?.unblocked();
                let one = self.row(&format!("{}:one", node.name), &[1.0])?;
                let x = self.taken(node, 0, &form)?;
                let y = self.made(node, 0, &form)?;
                let mode = vec![("rounding_mode", Attribute::Text("NONE".to_owned()))];
                self.push("Div", &node.name, vec![Some(one), Some(x)], vec![y], mode);
                return Ok(());
            }
            // Between integers of different scales, where the real stays.
            UnaryKind::Identity => clamp(f32::NEG_INFINITY, f32::INFINITY),
            UnaryKind::Relu => ("ReLU", relu(0.0, f32::INFINITY)),
            UnaryKind::LeakyRelu(alpha) => ("ReLU", relu(alpha, f32::INFINITY)),
            UnaryKind::Clip([0.0, high]) if high > 0.0 => ("ReLU", relu(0.0, high)),
            UnaryKind::Clip([low, high]) => clamp(low, high),
            UnaryKind::Elu(alpha) => ("ELU", vec![("alpha", float(alpha))]),
            UnaryKind::HardSigmoid { alpha, beta } => {
                ("Hardsigmoid", vec![("alpha", float(alpha)), ("beta", float(beta))])
            }
            UnaryKind::Softplus => ("Softplus", vec![("beta", float(1.0)), ("threshold", float(20.0))]),
            UnaryKind::Sigmoid => ("Sigmoid", Vec::new()),
            UnaryKind::Silu => ("SiLU", Vec::new()),
            UnaryKind::HardSwish => ("Hardswish", Vec::new()),
            UnaryKind::Tanh => ("Tanh", Vec::new()),
            UnaryKind::Gelu => ("GELU", Vec::new()),
            UnaryKind::Log => ("Log", Vec::new()),
            UnaryKind::Sqrt => ("Sqrt", Vec::new()),
            UnaryKind::Abs => ("Abs", Vec::new()),
            UnaryKind::Neg => ("Neg", Vec::new()),
            UnaryKind::Sin => ("Sin", Vec::new()),
            UnaryKind::Cos => ("Cos", Vec::new()),
            UnaryKind::Tan => ("Tan", Vec::new()),
            UnaryKind::Asin => ("ASin", Vec::new()),
            UnaryKind::Acos => ("ACos", Vec::new()),
            UnaryKind::Atan => ("ATan", Vec::new()),
            UnaryKind::Sinh => ("Sinh", Vec::new()),
            UnaryKind::Cosh => ("Cosh", Vec::new()),
            UnaryKind::Asinh => ("ASinh", Vec::new()),
            UnaryKind::Acosh => ("ACosh", Vec::new()),
            UnaryKind::Atanh => ("ATanh", Vec::new()),
            UnaryKind::LogSigmoid => ("LogSigmoid", Vec::new()),
            UnaryKind::Softsign => ("Softsign", Vec::new()),
            UnaryKind::Square => {
                let form = self.form(input(node, 0)?)?.unblocked();
                let x = self.taken(node, 0, &form)?;
                let y = self.made(node, 0, &form)?;
                let scale = vec![("cut_scale", super::product::no_scale())];
                self.push("Multiply", &node.name, vec![Some(x), Some(x)], vec![y], scale);
                return Ok(());
            }
            UnaryKind::Exp
            | UnaryKind::Erf
            | UnaryKind::Floor
            | UnaryKind::Ceil
            | UnaryKind::Round
            | UnaryKind::Expm1
            | UnaryKind::Log1p
            | UnaryKind::Erfc
            | UnaryKind::ErfInv
            | UnaryKind::ErfcInv
            | UnaryKind::FastTanh
            | UnaryKind::RoundHalfAway
            | UnaryKind::Sign
            | UnaryKind::Rsqrt
            | UnaryKind::Affine { .. }
            | UnaryKind::ThresholdedRelu(_)
            | UnaryKind::ScaledTanh { .. }
            | UnaryKind::Gate { .. } => {
                let parameters = kind.parameters();
                let attributes = ["alpha", "beta"].into_iter().zip(parameters.map(float));
                let attributes = if parameters == [0.0; 2] { Vec::new() } else { attributes.collect() };
                self.simple(node, kind.name(), attributes)?;
                self.make_custom();
                return Ok(());
            }
        };
        self.simple(node, name, attributes)
    }

    pub(super) fn clip(&mut self, node: &Node) -> Result<(), Error> {
        let limit = |index: usize, default: f32| match node.inputs.get(index).copied().flatten() {
            None => Some(default),
            Some(id) => self.constant(id)?.scalar_f32(),
        };
        let limits = limit(1, f32::NEG_INFINITY).zip(limit(2, f32::INFINITY));
        let (low, high) =
            limits.ok_or_else(|| Error::unsupported(node, "its limits are not constant reals"))?;
        self.unary(node, UnaryKind::Clip([low, high]))
    }

    pub(super) fn binary(&mut self, node: &Node, op: &Binary) -> Result<(), Error> {
        if !op.epilogue.post_ops.is_empty() {
            return Err(Error::unsupported(node, "it is fused with what follows"));
        }
        let factor = |beta: f64| {
            let one = |value| Attribute::List(vec![Attribute::Float(value)]);
            vec![("alpha", one(1.0)), ("beta", one(beta)), ("cut_scale", super::product::no_scale())]
        };
        let (kind, attributes) = match op.kind {
            BinaryKind::Add => ("Add", factor(1.0)),
            BinaryKind::Sub => ("Add", factor(-1.0)),
            BinaryKind::Mul => ("Multiply", vec![("cut_scale", super::product::no_scale())]),
            BinaryKind::Div => ("Div", vec![("rounding_mode", Attribute::Text("NONE".to_owned()))]),
            BinaryKind::FloorDiv => ("Div", vec![("rounding_mode", Attribute::Text("FLOOR".to_owned()))]),
            BinaryKind::Min => ("Minimum", Vec::new()),
            BinaryKind::Max => ("Maximum", Vec::new()),
            BinaryKind::Equal => ("Equal", Vec::new()),
            BinaryKind::NotEqual => ("NotEqual", Vec::new()),
            BinaryKind::Less => ("Less", Vec::new()),
            BinaryKind::LessOrEqual => ("LessEqual", Vec::new()),
            BinaryKind::Greater => ("Greater", Vec::new()),
            BinaryKind::GreaterOrEqual => ("GreaterEqual", Vec::new()),
            BinaryKind::PRelu => return self.prelu(node),
            BinaryKind::Pow if self.exponent(node) == Some(2.0) => {
                let form = self.common(node, 1)?;
                let x = self.broadcast(node, 0, &form)?;
                let y = self.made(node, 0, &form)?;
                let scale = vec![("cut_scale", super::product::no_scale())];
                self.push("Multiply", &node.name, vec![Some(x), Some(x)], vec![y], scale);
                return Ok(());
            }
            BinaryKind::Pow if self.exponent(node) == Some(0.5) => {
                return self.simple(node, "Sqrt", Vec::new());
            }
            BinaryKind::Pow
            | BinaryKind::Mod
            | BinaryKind::Rem
            | BinaryKind::Atan2
            | BinaryKind::LogAddExp
            | BinaryKind::And
            | BinaryKind::Or
            | BinaryKind::Xor
            | BinaryKind::ShiftLeft
            | BinaryKind::ShiftRight
            | BinaryKind::MulHigh => ("", Vec::new()),
        };
        let custom = kind.is_empty();
        let kind = if custom { op.kind.to_string() } else { kind.to_owned() };
        let form = self.common(node, 2)?;
        let (a, b) = (self.broadcast(node, 0, &form)?, self.broadcast(node, 1, &form)?);
        let y = self.made(node, 0, &form)?;
        self.push(&kind, &node.name, vec![Some(a), Some(b)], vec![y], attributes);
        if custom {
            self.make_custom();
        }
        Ok(())
    }

    /// The one constant that a power has for an exponent.
    fn exponent(&self, node: &Node) -> Option<f32> {
        self.constant(node.inputs.get(1).copied().flatten()?)?.scalar_f32()
    }

    /// A slope, or one for each index of an axis, which is the last one then.
    fn prelu(&mut self, node: &Node) -> Result<(), Error> {
        let (x, slopes) = (input(node, 0)?, input(node, 1)?);
        let dims = self.dims(x)?;
        let wrong = || Error::unsupported(node, "its slopes are not one constant, or one for each channel");
        let known = self.constant(slopes).ok_or_else(wrong)?;
        let values = known.to_f32().ok_or_else(wrong)?;
        let form = if let [_] = *values {
            self.form(x)?.unblocked()
        } else {
            let shape = known.shape();
            let along = (0..shape.rank()).find(|&axis| shape[axis] == values.len()).ok_or_else(wrong)?;
            let axis = (along + dims.rank()).checked_sub(shape.rank()).ok_or_else(wrong)?;
            (dims[axis] == values.len()).then_some(()).ok_or_else(wrong)?;
            Form::with_last(dims.rank(), axis)
        };
        let alpha = self.row(&format!("{}:alpha", node.name), &values)?;
        let x = self.taken(node, 0, &form)?;
        let y = self.made(node, 0, &form)?;
        self.push("PReLU", &node.name, vec![Some(x)], vec![y], vec![("alpha", Attribute::Value(alpha))]);
        Ok(())
    }

    pub(super) fn choose(&mut self, node: &Node) -> Result<(), Error> {
        let form = self.common(node, 3)?;
        let condition = self.broadcast(node, 0, &form)?;
        let (a, b) = (self.broadcast(node, 1, &form)?, self.broadcast(node, 2, &form)?);
        let y = self.made(node, 0, &form)?;
        self.push("Where", &node.name, vec![Some(a), Some(b), Some(condition)], vec![y], Vec::new());
        Ok(())
    }

    /// The form that a node's operands are brought to: that of the first that has the result's rank and is computed.
    fn common(&self, node: &Node, operands: usize) -> Result<Form, Error> {
        let rank = self.dims(ends(node)?.1)?.rank();
        for index in 0..operands {
            let id = input(node, index)?;
            if self.constant(id).is_none() && self.dims(id)?.rank() == rank {
                return Ok(self.form(id)?.unblocked());
            }
        }
        Ok(Form::natural(rank))
    }

    /// An operand with extents of 1 in front, in a form.
    pub(super) fn broadcast(&mut self, node: &Node, index: usize, form: &Form) -> Result<usize, Error> {
        let (id, rank) = (input(node, index)?, form.order.len());
        let dims = self.dims(id)?;
        if dims.rank() == rank {
            return self.taken(node, index, form);
        }
        let mut full = vec![1; rank - dims.rank()];
        full.extend_from_slice(&dims);
        let shape =
            Shape::new(&full).ok_or_else(|| Error::unsupported(node, format!("extents {}", List(&full))))?;
        if let Some(constant) = self.constant(id) {
            return self.spread_constant(node, id, constant, shape, form);
        }
        let meaning = self.wanted(node, id);
        let x = self.operand(id, &Form::plain(dims.rank()), meaning)?;
        let mut dtype = self.document.values[x].dtype.clone();
        let plain = Form::plain(rank);
        dtype = stored(dtype.element, shape, &plain);
        let x = self.reshape(&format!("{}:operand{index}", node.name), x, dtype.clone());
        if *form == plain {
            return Ok(x);
        }
        let name = format!("{}:operand{index}:moved", node.name);
        let dtype = stored(dtype.element, shape, form);
        Ok(self.move_axes(&name, x, &form.order, dtype))
    }

    fn spread_constant(
        &mut self,
        node: &Node,
        id: ValueId,
        constant: &Constant,
        shape: Shape,
        form: &Form,
    ) -> Result<usize, Error> {
        let wrong = || Error::unsupported(node, "an operand's extents do not fit its elements");
        if let Some(integers) = self.dialect.style.and_then(|_| self.source.integers(id)) {
            let mut integers = integers.clone();
            integers.axis += shape.rank() - integers.constant.shape().rank();
            integers.constant = integers.constant.reshaped(shape).ok_or_else(wrong)?;
            return self.integers(id, &integers, &form.order, form.layout());
        }
        let reshaped = constant.reshaped(shape).ok_or_else(wrong)?;
        self.floats(id, &reshaped, &form.order, form.layout())
    }

    pub(super) fn softmax(&mut self, node: &Node, op: Softmax) -> Result<(), Error> {
        let id = input(node, 0)?;
        let (dims, form) = (self.dims(id)?, self.form(id)?.unblocked());
        let axis = Self::axis(node, op.axis, dims.rank())?;
        let class = if op.log { "LogSoftmax" } else { "Softmax" };
        if op.flatten && dims[axis + 1..].iter().any(|&extent| extent != 1) {
            if op.log {
                return Err(Error::unsupported(node, "the logarithm of a softmax over several axes"));
            }
            return self.flat_softmax(node, axis);
        }
        let native = self.native(id, form, self.wanted(node, id));
        self.simple(node, class, vec![("axis", super::product::number(native.axis(axis)))])
    }

    /// A softmax over an axis and all behind it, as ONNX had it before operator set 13: over one that all of them make.
    fn flat_softmax(&mut self, node: &Node, axis: usize) -> Result<(), Error> {
        let (x, y) = ends(node)?;
        let dims = self.dims(x)?;
        let form = Form::plain(dims.rank());
        let meaning = self.wanted(node, x);
        let from = self.operand(x, &form, meaning)?;
        let rows = Shape::from([dims[..axis].iter().product(), dims[axis..].iter().product::<usize>()]);
        let flat = Form::plain(2);
        let element = |emitter: &Self, meaning: Option<Meaning>| match (emitter.dialect.style, meaning) {
            (Some(style), Some(meaning)) => style.activation(meaning, rows[1]),
            _ => ElementType::Scalar(scalar(DType::F32)),
        };
        let dtype = stored(element(self, meaning), rows, &flat);
        let from = self.reshape(&format!("{}:rows", node.name), from, dtype);
        let dtype = stored(element(self, self.meaning(y)), rows, &flat);
        let made = self.value(&format!("{}:made", node.name), dtype, None);
        self.push("Softmax", &node.name, vec![Some(from)], vec![made], vec![("axis", Attribute::Int(1))]);
        let to = self.define(y, form)?;
        self.reshape_into(&format!("{}:back", node.name), made, to);
        Ok(())
    }

    /// Blocks of channels have no axis whose elements are those of an image: the operand lies without.
    pub(super) fn layer_norm(&mut self, node: &Node, op: LayerNorm) -> Result<(), Error> {
        let (x, y) = ends(node)?;
        let dims = self.dims(x)?;
        let [first, end] = op.axes;
        let form = if end - first == 1 { self.form(x)?.unblocked() } else { Form::plain(dims.rank()) };
        let meaning = self.wanted(node, x);
        let from = self.operand(x, &form, meaning)?;
        let mut attributes = vec![
            ("axis", ints((first..end).map(|axis| form.position(axis) as i64))),
            ("eps", Attribute::Float(f64::from(op.epsilon))),
        ];
        // Constants lie in the order in which a reader comes upon them, and keys are read in that of the alphabet.
        for (index, key) in [(2, "beta"), (1, "gamma")] {
            let Some(id) = node.inputs.get(index).copied().flatten() else { continue };
            let shape = Shape::new(&dims[first..end]);
            let row = self.constant(id).and_then(|row| row.reshaped(shape?));
            let row = row.ok_or_else(|| Error::unsupported(node, "its factors are not constant"))?;
            let element = ElementType::Scalar(scalar(DType::F32));
            let dtype = tensor(element, &row.shape(), Form::plain(end - first).layout());
            let value = self.value(&format!("{}:{key}", node.name), dtype, Some(row));
            attributes.push((key, Attribute::Value(value)));
        }
        let to = self.define(y, form)?;
        let kind = if op.centred { "LayerNorm" } else { "RMSNorm" };
        self.push(kind, &node.name, vec![Some(from)], vec![to], attributes);
        if !op.centred {
            self.make_custom();
        }
        Ok(())
    }

    pub(super) fn reduce(&mut self, node: &Node, op: &Reduce) -> Result<(), Error> {
        let id = input(node, 0)?;
        let rank = self.dims(id)?.rank();
        let kind = match op.kind {
            ReduceKind::Mean => "Mean",
            ReduceKind::Sum | ReduceKind::SumSquare => "Sum",
            ReduceKind::Max => "Max",
            ReduceKind::Min => "Min",
            ReduceKind::Product => {
                return Err(Error::unsupported(
                    node,
                    "the vendor's intermediate representation has no product along an axis",
                ));
            }
        };
        let gone =
            op.reduced(rank).ok_or_else(|| Error::unsupported(node, "its axes do not fit its operand"))?;
        // Axes that stay must lie as they do in the network when others go.
        let form = if op.keep_dims { self.form(id)?.unblocked() } else { Form::plain(rank) };
        let own = self.native(id, form.clone(), self.wanted(node, id));
        let axes: Vec<usize> = (0..rank).filter(|&axis| gone[axis]).collect();
        let along: Vec<i64> = axes.iter().map(|&axis| own.axis(axis) as i64).collect();
        let mut x = self.taken(node, 0, &form)?;
        if op.kind == ReduceKind::SumSquare {
            let dtype = self.document.values[x].dtype.clone();
            let dtype = TensorType { element: ElementType::Scalar(scalar(DType::F32)), ..dtype };
            let key = format!("{}:squares", node.name);
            let squares = self.value(&key, dtype, None);
            let scale = vec![("cut_scale", super::product::no_scale())];
            self.push("Multiply", &key, vec![Some(x), Some(x)], vec![squares], scale);
            x = squares;
        }
        let dim = match (kind, along.as_slice()) {
            ("Max" | "Min", &[axis]) => Attribute::Int(axis),
            ("Max" | "Min", [others @ .., last]) => {
                // One axis after the other, the last one as it was asked for.
                let all = others.iter().chain(Some(last).filter(|_| !op.keep_dims));
                let mut dims = self.dims(id)?;
                for (&axis, &of) in all.zip(&axes) {
                    dims.dims_mut()[of] = 1;
                    let TensorType { element, layout, .. } = self.document.values[x].dtype.clone();
                    let element = match (self.dialect.style, self.wanted(node, id)) {
                        (Some(style), Some(meaning)) => style.activation(meaning, own.channels(&dims)),
                        _ => element,
                    };
                    let dtype = TensorType { layout, ..stored(element, dims, &own) };
                    let key = format!("{}:axis{axis}", node.name);
                    let part = self.value(&key, dtype, None);
                    let attributes = vec![("dim", Attribute::Int(axis)), ("keepdim", Attribute::Bool(true))];
                    self.push(kind, &key, vec![Some(x)], vec![part], attributes);
                    x = part;
                }
                if !op.keep_dims {
                    let y = ends(node)?.1;
                    let to = self.define(y, Form::plain(self.dims(y)?.rank()))?;
                    self.reshape_into(&node.name, x, to);
                    return Ok(());
                }
                Attribute::Int(*last)
            }
            _ => ints(along),
        };
        let result = if op.keep_dims { form } else { Form::plain(self.dims(ends(node)?.1)?.rank()) };
        let y = self.made(node, 0, &result)?;
        let attributes = vec![("dim", dim), ("keepdim", Attribute::Bool(op.keep_dims))];
        self.push(kind, &node.name, vec![Some(x)], vec![y], attributes);
        Ok(())
    }

    pub(super) fn arg_reduce(&mut self, node: &Node, op: ArgReduce) -> Result<(), Error> {
        let id = input(node, 0)?;
        let rank = self.dims(id)?.rank();
        if op.last {
            return Err(Error::unsupported(node, "the last of equal extremes"));
        }
        let form = if op.keep_dims { self.form(id)?.unblocked() } else { Form::plain(rank) };
        let axis =
            self.native(id, form.clone(), self.wanted(node, id)).axis(Self::axis(node, op.axis, rank)?);
        let kind = if op.kind == ReduceKind::Min { "Argmin" } else { "Argmax" };
        let x = self.taken(node, 0, &form)?;
        let result = if op.keep_dims { form } else { Form::plain(rank - 1) };
        let y = self.made(node, 0, &result)?;
        let attributes =
            vec![("dim", Attribute::Int(axis as i64)), ("keepdim", Attribute::Bool(op.keep_dims))];
        self.push(kind, &node.name, vec![Some(x)], vec![y], attributes);
        Ok(())
    }
}

//! Arithmetic on other types than f32, comparisons, conversions and choices.

use triune_device::command::{self, Convert, FeatureMap, Operand, Select};
use triune_graph::{
    Node, ValueId,
    ops::{BinaryKind, Cast, UnaryKind},
};
use triune_tensor::{DType, MAX_RANK, Shape};

use super::{Form, Lowering, extents, has_contiguous_channels, lowers, operand, result};
use crate::{
    Error,
    view::{Home, View, merge_axes},
};

lowers! {
    Where => |to, node, _| to.choose(node);
    Clip => |to, node, _| to.clip(node);
    Cast => |to, node, op| to.cast(node, *op);
}

/// How an elementwise command walks: extents, operands, and where those lie.
type Walk<const N: usize> = ([u32; 6], [Operand; N], [View; N]);

/// Elements that an operand has one behind the other, or one that is repeated, for which a row of them takes no longer than they do.
const RUN: usize = 16;
/// Elements that are written out where there are fewer.
const WRITTEN: usize = 64;
/// Results from which on a copy of an operand pays.
const MANY: usize = 2048;

/// Which axes of an operand have to be written out, whether they repeat or not, so that it goes in step with the output; `None` where it
/// does as it lies, and where nothing would help.
fn out_of_step(view: &View, output: &View, order: &[usize]) -> Option<[bool; MAX_RANK]> {
    let elements: usize = output.dims.iter().product();
    if elements < MANY || view.blocks.is_some() || output.blocks.is_some() {
        return None;
    }
    // Elements from the last one on that a stride leads through, and of the output alone.
    let run = |views: &[&View]| {
        let mut wanted: Vec<u64> = Vec::new();
        let mut count = 1;
        for &axis in order.iter().rev().filter(|&&axis| output.dims[axis] > 1) {
            let strides = views.iter().map(|view| view.strides[axis]);
            if wanted.is_empty() {
                wanted = strides.collect();
            } else if !strides.eq(wanted.iter().map(|stride| stride * count as u64)) {
                break;
            }
            count *= output.dims[axis];
        }
        (count, wanted)
    };
    let (alone, steps) = run(&[output]);
    let (together, own_steps) = run(&[output, view]);
    let (&[step], &[_, own_step]) = (steps.as_slice(), own_steps.as_slice()) else { return None };
    let in_line = own_step == 0 || own_step == view.dtype.bytes() as u64;
    if step != output.dtype.bytes() as u64 || in_line && (together >= RUN || together == alone) {
        return None;
    }
    let mut axes = [false; MAX_RANK];
    let mut count = 1;
    for &axis in order.iter().rev() {
        if count >= WRITTEN.min(alone) {
            break;
        }
        axes[axis] = true;
        count *= output.dims[axis];
    }
    Some(axes)
}

impl Lowering<'_> {
    /// Operands of an elementwise command in as few dimensions as their strides allow, and where they lie now; the last is the
    /// output. An operand that lies in another order, or repeats after a few elements, is copied so that both go in step.
    pub(super) fn strided_operands<const N: usize>(&mut self, views: [&View; N]) -> Result<Walk<N>, Error> {
        let output = *views[N - 1];
        // Walk in the output's own order, so that neighbouring axes merge.
        let order = output.physical_order();
        let mut own = views.map(|view| *view);
        for view in &mut own[..N - 1] {
            if let Some(axes) = out_of_step(view, &output, &order) {
                *view = self.in_step(view, &output, axes)?;
            }
        }
        let merged = |views: &[View; N]| merge_axes::<6>(&views.map(|view| view.permuted(&order)).each_ref());
        if merged(&own).is_none() {
            for view in &mut own[..N - 1] {
                *view = self.in_step(view, &output, [true; MAX_RANK])?;
            }
        }
        let (dims, strides) = merged(&own)
            .ok_or_else(|| Error::Target("an elementwise operator over more than six axes".into()))?;
        let mut operands = [Operand { addr: self.addr(&output)?, dtype: DType::F32, strides: [0; 6] }; N];
        for ((operand, view), strides) in operands.iter_mut().zip(&own).zip(strides) {
            *operand = Operand { addr: self.addr(view)?, dtype: view.dtype, strides };
        }
        Ok((extents(dims)?, operands, own))
    }

    /// A copy whose axes lie in the order of the output's; of those that repeat the marked ones are written out.
    fn in_step(&mut self, view: &View, output: &View, axes: [bool; MAX_RANK]) -> Result<View, Error> {
        let (mut from, mut like) = (*view, *output);
        for (axis, written) in axes.into_iter().enumerate().take(output.dims.rank()) {
            if view.strides[axis] == 0 && !written {
                from.dims.dims_mut()[axis] = 1;
                like.dims.dims_mut()[axis] = 1;
            }
        }
        let own = like.compact_like(self.new_scratch(from.dims, view.dtype), view.dtype);
        self.copy(&from, &own)?;
        own.broadcast(output.dims)
            .ok_or_else(|| Error::Internal("an operand of other extents than its copy".into()))
    }

    /// How a result of these extents should lie that is made of `views`.
    pub(super) fn form_like(dims: Shape, views: &[View]) -> Form {
        let lead = views.iter().find(|view| view.dims == dims && !view.home.is_constant());
        match lead {
            Some(view) if view.dims.rank() == 4 && has_contiguous_channels(view) => Form::ChannelsLast,
            Some(view) if view.is_compact() => Form::Like(*view),
            _ if dims.rank() == 4 => Form::ChannelsLast,
            _ => Form::Dense,
        }
    }

    fn broadcast(node: &Node, view: &View, dims: Shape) -> Result<View, Error> {
        view.broadcast(dims)
            .ok_or_else(|| Error::unsupported(node, format!("{} does not broadcast to {dims}", view.dims)))
    }

    /// A function of two operands of one type other than f32, or a question about them.
    pub(super) fn typed_binary(
        &mut self,
        node: &Node,
        kind: BinaryKind,
        a: &View,
        b: &View,
        output: &View,
    ) -> Result<(), Error> {
        if output.dims.contains(&0) {
            return Ok(());
        }
        let computes = kind.comparison().is_some()
            || match a.dtype {
                DType::F64 => triune_kernels::has_double(kind),
                _ => triune_kernels::has_integer(kind),
            };
        if !computes || a.dtype.is_half() || a.dtype.is_storage() {
            return Err(Error::unsupported(node, format!("{} operands", a.dtype)));
        }
        let (dims, [a, b, output], views) = self.strided_operands([a, b, output])?;
        self.emit(command::Binary { dims, kind, a, b, output }, &views.each_ref());
        Ok(())
    }

    /// A constant of one element seen as `like`.
    fn scalar(&mut self, value: i64, like: &View) -> View {
        let bytes = match like.dtype {
            DType::F64 => (value as f64).to_le_bytes().to_vec(),
            dtype => value.to_le_bytes()[..dtype.bytes()].to_vec(),
        };
        let offset = self.constants.add(&bytes);
        let view = View::dense(Home::Constants, like.dtype, Shape::from([])).at(offset);
        View { dims: like.dims, strides: [0; triune_tensor::MAX_RANK], ..view }
    }

    /// A function of one operand of another type than f32.
    pub(super) fn typed_unary(&mut self, node: &Node, kind: UnaryKind) -> Result<(), Error> {
        let (x, y) = (operand(node, 0)?, result(node)?);
        let from = self.view(x)?;
        let dtype = from.dtype;
        if node.quant.is_some() || dtype.is_half() || dtype.is_storage() || dtype == DType::Bool {
            return Err(Error::unsupported(node, format!("{dtype} operand")));
        }
        let integer = !dtype.is_float();
        let signed = matches!(dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::F64);
        let unchanged = integer
            && matches!(
                kind,
                UnaryKind::Floor | UnaryKind::Ceil | UnaryKind::Round | UnaryKind::RoundHalfAway
            )
            || !signed && matches!(kind, UnaryKind::Abs | UnaryKind::Relu);
        if unchanged {
            return self.alias(node);
        }
        let form = Self::form_like(from.dims, &[from]);
        let to = self.place(y, form)?;
        match kind {
            UnaryKind::Relu => {
                let zero = self.scalar(0, &from);
                self.typed_binary(node, BinaryKind::Max, &from, &zero, &to)
            }
            UnaryKind::Neg => {
                let minus_one = self.scalar(-1, &from);
                self.typed_binary(node, BinaryKind::Mul, &from, &minus_one, &to)
            }
            UnaryKind::Abs => {
                let minus_one = self.scalar(-1, &from);
                let negative = self.temporary(&to, dtype);
                self.typed_binary(node, BinaryKind::Mul, &from, &minus_one, &negative)?;
                self.typed_binary(node, BinaryKind::Max, &from, &negative, &to)
            }
            UnaryKind::Sign if integer => {
                let (low, high) = (self.scalar(if signed { -1 } else { 0 }, &from), self.scalar(1, &from));
                let inner = self.temporary(&to, dtype);
                self.typed_binary(node, BinaryKind::Max, &from, &low, &inner)?;
                self.typed_binary(node, BinaryKind::Min, &inner, &high, &to)
            }
            UnaryKind::Square => self.typed_binary(node, BinaryKind::Mul, &from, &from, &to),
            _ if dtype == DType::F64 => {
                let from = if from.is_compact() { from } else { self.densified(&from)? };
                // Another form was placed above; a result is placed once, so both are seen as they lie.
                let target = if to.same_layout(&from.compact_like(to.home, dtype)) {
                    to
                } else {
                    self.temporary(&from, dtype)
                };
                let flat = |view: &View| -> Result<FeatureMap, Error> {
                    let [elements] = extents([view.dims.iter().product::<usize>()])?;
                    Ok(FeatureMap::dense(self.addr(view)?, dtype, [1, 1, 1, elements]))
                };
                let command = command::FUnary { input: flat(&from)?, output: flat(&target)?, function: kind };
                if target != to {
                    self.emit(command, &[&from, &target]);
                    return self.copy(&target, &to);
                }
                self.emit(command, &[&from, &to]);
                Ok(())
            }
            _ => Err(Error::unsupported(node, format!("{dtype} operand"))),
        }
    }

    /// Limits that are not constant, or of another type than f32.
    pub(super) fn clip(&mut self, node: &Node) -> Result<(), Error> {
        let (x, y) = (operand(node, 0)?, result(node)?);
        let limits = [(1, BinaryKind::Max), (2, BinaryKind::Min)];
        let given: Vec<(ValueId, BinaryKind)> = limits
            .into_iter()
            .filter_map(|(index, kind)| Some((node.inputs.get(index).copied().flatten()?, kind)))
            .collect();
        if given.is_empty() {
            return self.alias(node);
        }
        let mut from = self.view(x)?;
        let form = Self::form_like(from.dims, &[from]);
        let to = self.place(y, form)?;
        for (index, &(limit, kind)) in given.iter().enumerate() {
            let limit = self.view(limit)?;
            let limit = View { dims: from.dims, strides: [0; triune_tensor::MAX_RANK], ..limit };
            let target = if index + 1 == given.len() { to } else { self.temporary(&to, from.dtype) };
            if from.dtype == DType::F32 {
                self.emit_binary(node, kind, &from, &limit, &target, UnaryKind::Identity)?;
            } else {
                self.typed_binary(node, kind, &from, &limit, &target)?;
            }
            from = target;
        }
        Ok(())
    }

    pub(super) fn cast(&mut self, node: &Node, op: Cast) -> Result<(), Error> {
        let (x, y) = (operand(node, 0)?, result(node)?);
        let from = self.view(x)?;
        if from.dtype == op.to {
            return self.alias(node);
        }
        let form = Self::form_like(from.dims, &[from]);
        let to = self.place(y, form)?;
        self.convert(&from, &to)
    }

    /// Elements in another type.
    pub(super) fn convert(&mut self, from: &View, to: &View) -> Result<(), Error> {
        if to.dims.contains(&0) {
            return Ok(());
        }
        let (dims, [input, output], views) = self.strided_operands([from, to])?;
        self.emit(Convert { dims, input, output }, &views.each_ref());
        Ok(())
    }

    pub(super) fn choose(&mut self, node: &Node) -> Result<(), Error> {
        let y = result(node)?;
        let (dims, _) = self.meta(y)?;
        let mut views = Vec::with_capacity(3);
        for index in 0..3 {
            let view = self.view(operand(node, index)?)?;
            views.push(Self::broadcast(node, &view, dims)?);
        }
        let form = Self::form_like(dims, &views[1..]);
        let to = self.place(y, form)?;
        if dims.contains(&0) {
            return Ok(());
        }
        let [condition, a, b] = [views[0], views[1], views[2]];
        let (dims, [condition, a, b, output], views) = self.strided_operands([&condition, &a, &b, &to])?;
        self.emit(Select { dims, condition, a, b, output }, &views.each_ref());
        Ok(())
    }
}

//! Reductions along axes of a value, however it lies.

use triune_device::command::{self, Fill, Operand};
use triune_graph::{
    Node, ValueId,
    ops::{ArgReduce, Reduce, ReduceKind, Running},
};
use triune_tensor::{DType, Shape, text::List};

use super::{Form, Lowering, extents, lowers, operand, result};
use crate::{
    Error,
    view::{View, merge_axes},
};

/// A reduction's operands in a command's terms.
struct Nest {
    dims: [u32; 6],
    /// Bit i: axis i goes.
    axes: u32,
    input: Operand,
    output: Operand,
    from: View,
    to: View,
}

lowers! {
    Running => |to, node, op| to.running(node, *op);
    Reduce => |to, node, op| to.reduce(node, op);
    ArgReduce => |to, node, op| to.arg_reduce(node, *op);
}

impl Lowering<'_> {
    pub(super) fn reduce(&mut self, node: &Node, op: &Reduce) -> Result<(), Error> {
        let (x, y) = (operand(node, 0)?, result(node)?);
        if node.quant.is_some() {
            return Err(Error::unsupported(node, "quantized operands"));
        }
        let (dims, dtype) = self.meta(x)?;
        let reduced = op.reduced(dims.rank()).ok_or_else(|| {
            Error::unsupported(
                node,
                format!("axes {} of rank {}", List(op.axes.as_deref().unwrap_or_default()), dims.rank()),
            )
        })?;
        if dims.contains(&0) {
            return self.empty_reduction(node, op.kind, y);
        }
        if dtype.is_half() {
            return Err(Error::unsupported(node, format!("{dtype} operand")));
        }
        let Nest { dims, axes, input, output, from, to } = self.reduction(node, x, y, &reduced)?;
        self.emit(command::Reduce { dims, axes, kind: op.kind, input, output }, &[&from, &to]);
        Ok(())
    }

    pub(super) fn running(&mut self, node: &Node, op: Running) -> Result<(), Error> {
        let from = self.dense(operand(node, 0)?)?;
        let to = self.place(result(node)?, Form::Dense)?;
        let (before, behind) = from.dims.split_at(op.axis);
        let outer = before.iter().product();
        let dims = extents([outer, behind[0], behind[1..].iter().product()])?;
        let command = command::Running {
            input: self.addr(&from)?,
            output: self.addr(&to)?,
            dtype: from.dtype,
            dims,
            product: op.product,
            exclusive: op.exclusive,
            reverse: op.reverse,
        };
        self.emit(command, &[&from, &to]);
        Ok(())
    }

    pub(super) fn arg_reduce(&mut self, node: &Node, op: ArgReduce) -> Result<(), Error> {
        let (x, y) = (operand(node, 0)?, result(node)?);
        let (dims, dtype) = self.meta(x)?;
        let rank = dims.rank();
        if dims.contains(&0) {
            self.place(y, Form::Dense)?;
            return Ok(());
        }
        if dtype.is_half() || dtype == DType::Bool {
            return Err(Error::unsupported(node, format!("{dtype} operand")));
        }
        let at = if op.axis < 0 { op.axis + rank as isize } else { op.axis };
        let reduced: Vec<bool> = (0..rank).map(|axis| axis as isize == at).collect();
        let Nest { dims, axes, input, output, from, to } = self.reduction(node, x, y, &reduced)?;
        let command = command::ArgReduce {
            dims,
            // An axis of one element has vanished; any axis of extent 1 stands for it.
            axis: if axes == 0 { unit_axis(node, &dims)? } else { axes.trailing_zeros() },
            largest: op.kind == ReduceKind::Max,
            last: op.last,
            input,
            output,
        };
        self.emit(command, &[&from, &to]);
        Ok(())
    }

    /// Places the result in the operand's order of axes and merges what lies together.
    fn reduction(&mut self, node: &Node, x: ValueId, y: ValueId, reduced: &[bool]) -> Result<Nest, Error> {
        let mut from = self.view(x)?;
        let (dims, _) = self.meta(y)?;
        let kept: Vec<usize> =
            (0..from.dims.rank()).filter(|&axis| dims.rank() == from.dims.rank() || !reduced[axis]).collect();
        let mut like = from.permuted(&kept);
        like.dims = dims;
        let to = self.place(y, Form::Like(like))?;
        // The result seen under the operand's axes, those that go repeated.
        let mut seen = View { dims: from.dims, strides: [0; triune_tensor::MAX_RANK], ..to };
        for (at, &axis) in kept.iter().enumerate().filter(|&(_, &axis)| !reduced[axis]) {
            seen.strides[axis] = to.strides[at];
        }
        let mut order = from.physical_order();
        let merged =
            |from: &View, order: &[usize]| merge_axes::<6>(&[&from.permuted(order), &seen.permuted(order)]);
        let merged = match merged(&from, &order) {
            None => {
                // Axes that stay and go take turns too often for a command: those that stay come first in a copy.
                order.sort_by_key(|&axis| reduced[axis]);
                from = self.copy_in_order(&from, &order)?;
                merged(&from, &order)
            }
            found => found,
        };
        let (dims, strides) =
            merged.ok_or_else(|| Error::unsupported(node, "more than six separate axes"))?;
        let axes = (0..6)
            .filter(|&axis| dims[axis] > 1 && strides[1][axis] == 0)
            .fold(0, |axes, axis| axes | 1 << axis);
        let operand = |view: &View, strides: [u64; 6]| {
            Ok::<_, Error>(Operand { addr: self.addr(view)?, dtype: view.dtype, strides })
        };
        let (input, output) = (operand(&from, strides[0])?, operand(&to, strides[1])?);
        Ok(Nest { dims: extents(dims)?, axes, input, output, from, to })
    }

    /// A copy whose axes lie in this order.
    fn copy_in_order(&mut self, from: &View, order: &[usize]) -> Result<View, Error> {
        let own = from.permuted(order);
        let copy = View::dense(self.new_scratch(own.dims, from.dtype), from.dtype, own.dims);
        self.copy(&own, &copy)?;
        let mut back = order.to_vec();
        order.iter().enumerate().for_each(|(at, &axis)| back[axis] = at);
        Ok(copy.permuted(&back))
    }

    /// The result over no elements.
    fn empty_reduction(&mut self, node: &Node, kind: ReduceKind, y: ValueId) -> Result<(), Error> {
        let to = self.place(y, Form::Dense)?;
        let count = to.dims.iter().product::<usize>();
        if count == 0 {
            return Ok(());
        }
        let value = of_nothing(kind, to.dtype).filter(|_| node.quant.is_none());
        let value = value.ok_or_else(|| Error::unsupported(node, "an operand without elements"))?;
        let bytes = to.dtype.bytes();
        let command = Fill {
            elem_bytes: bytes as u32,
            dims: extents([1, 1, 1, 1, 1, count])?,
            dst: self.addr(&to)?,
            dst_strides: [0, 0, 0, 0, 0, bytes as u64],
            value,
        };
        let dense = View::dense(to.home, to.dtype, Shape::from([count])).at(to.offset);
        self.emit(command, &[&dense]);
        Ok(())
    }
}

/// The bits of what a reduction makes of nothing: where it starts from. Means are 0 then, as in ONNX Runtime.
fn of_nothing(kind: ReduceKind, dtype: DType) -> Option<u64> {
    let real = match kind {
        ReduceKind::Sum | ReduceKind::SumSquare | ReduceKind::Mean => 0.0,
        ReduceKind::Product => 1.0,
        ReduceKind::Min => f64::INFINITY,
        ReduceKind::Max => f64::NEG_INFINITY,
    };
    let whole = 1_u64.unbounded_shl(dtype.bits() as u32).wrapping_sub(1);
    Some(match dtype {
        DType::Bool => u64::from(real > 0.0),
        DType::F32 => (real as f32).to_bits().into(),
        DType::F64 => real.to_bits(),
        DType::F16 | DType::BF16 => dtype.encode(real)?.into(),
        _ if real.is_finite() => real as u64,
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => {
            if real > 0.0 {
                whole
            } else {
                0
            }
        }
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => {
            if real > 0.0 {
                whole >> 1
            } else {
                (whole >> 1) + 1
            }
        }
        _ => return None,
    })
}

/// An axis of extent 1.
fn unit_axis(node: &Node, dims: &[u32; 6]) -> Result<u32, Error> {
    let axis = dims.iter().position(|&dim| dim == 1);
    axis.map(|axis| axis as u32).ok_or_else(|| Error::unsupported(node, "more than five separate axes"))
}

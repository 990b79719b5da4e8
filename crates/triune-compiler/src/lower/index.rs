//! Elements picked by index, and the first elements in order.

use triune_device::command::{Order, Put, Take};
use triune_graph::{
    Node, Op, ValueId,
    ops::{Gather, GatherElements, GatherNd, Index, ScatterElements, ScatterKind, ScatterNd, TopK},
};
use triune_tensor::{DType, MAX_RANK, Shape, text::List};

use super::{Form, Lowering, extents, lowers, operand, result};
use crate::{
    Error,
    view::{View, merge_axes},
};

/// What is picked: how the source and the indices lie under the result's axes.
struct Indexing {
    /// The source under the result's extents; stride 0 along what only indices decide.
    source: View,
    /// The indices under the result's extents.
    indices: View,
    /// Bytes from an index along one axis to that along the next.
    index_stride: u64,
    /// Extent and stride of each indexed axis.
    axes: Vec<(usize, u64)>,
}

/// The same as the fields of a command.
struct Indexed {
    dims: [u32; 6],
    /// Strides of what is written by a take, and put by a put.
    own: [u64; 6],
    /// Strides of the fixed places.
    source: [u64; 6],
    indices: triune_device::command::Operand,
    extents: [u32; 6],
    axis_strides: [u64; 6],
}

lowers! {
    GatherElements => |to, node, op| to.gather_elements(node, *op);
    GatherNd => |to, node, op| to.gather_nd(node, *op);
    ScatterElements => |to, node, op| to.scatter_elements(node, *op);
    ScatterNd => |to, node, op| to.scatter_nd(node, *op);
    Index => |to, node, op| to.index(node, op);
    TopK => |to, node, op| to.top_k(node, *op);
}

impl Lowering<'_> {
    /// Places the result and picks its elements.
    fn take(&mut self, node: &Node, y: ValueId, indexing: &Indexing) -> Result<(), Error> {
        let output = self.place(y, Form::Dense)?;
        self.take_into(node, &output, indexing)
    }

    fn take_into(&mut self, node: &Node, output: &View, indexing: &Indexing) -> Result<(), Error> {
        if output.dims.contains(&0) {
            return Ok(());
        }
        let Indexed { dims, own, source, indices, extents, axis_strides } =
            self.indexed(node, output, indexing)?;
        let command = Take {
            elem_bytes: output.dtype.bytes() as u32,
            dims,
            src: self.addr(&indexing.source)?,
            src_strides: source,
            indices,
            count: indexing.axes.len() as u32,
            index_stride: indexing.index_stride,
            extents,
            axis_strides,
            dst: self.addr(output)?,
            dst_strides: own,
        };
        self.emit(command, &[&indexing.source, &indexing.indices, output]);
        Ok(())
    }

    /// How a command has elements that lie as `own` beside the places and the indices of `indexing`.
    fn indexed(&self, node: &Node, own: &View, indexing: &Indexing) -> Result<Indexed, Error> {
        if indexing.axes.len() > 6 {
            return Err(Error::unsupported(node, "more than six indexed axes"));
        }
        if let Some(axis) = indexing.axes.iter().position(|&(extent, _)| extent == 0) {
            // Whatever the indices are, all of them lead out of it.
            return Err(triune_graph::Error::Shape {
                node: node.name.clone(),
                op: node.op.name().into(),
                reason: format!("indexed axis {axis} has extent 0, where every index is outside"),
            }
            .into());
        }
        if !matches!(indexing.indices.dtype, DType::I32 | DType::I64) {
            return Err(Error::unsupported(node, format!("indices of type {}", indexing.indices.dtype)));
        }
        let (dims, [own, source, strides]) = merge_axes::<6>(&[own, &indexing.source, &indexing.indices])
            .and_then(|(dims, strides)| Some((dims, <[_; 3]>::try_from(strides).ok()?)))
            .ok_or_else(|| Error::unsupported(node, "more than six separate axes"))?;
        let (mut axis_extents, mut axis_strides) = ([1; 6], [0; 6]);
        for (axis, &(extent, stride)) in indexing.axes.iter().enumerate() {
            (axis_extents[axis], axis_strides[axis]) = (extent, stride);
        }
        let indices = triune_device::command::Operand {
            addr: self.addr(&indexing.indices)?,
            dtype: indexing.indices.dtype,
            strides,
        };
        let (dims, extents) = (extents(dims)?, extents(axis_extents)?);
        Ok(Indexed { dims, own, source, indices, extents, axis_strides })
    }

    /// The axes of a node's first operand that its other operands index.
    pub(super) fn indexed_axes(&self, node: &Node) -> Vec<u32> {
        let dims = |index: usize| {
            let id = node.inputs.get(index).copied().flatten()?;
            self.graph.value(id).fixed_shape()
        };
        let Some(rank) = dims(0).map(|dims| dims.rank()) else { return Vec::new() };
        let axes: Vec<usize> = match &node.op {
            Op::Gather(op) => axis(node, op.axis, rank).into_iter().collect(),
            Op::GatherElements(op) => axis(node, op.axis, rank).into_iter().collect(),
            Op::ScatterElements(op) => axis(node, op.axis, rank).into_iter().collect(),
            Op::GatherNd(_) | Op::ScatterNd(_) => {
                let batch = if let Op::GatherNd(op) = &node.op { op.batch_dims } else { 0 };
                let count = dims(1).and_then(|dims| dims.last().copied()).unwrap_or(0);
                (batch..rank).take(count).collect()
            }
            Op::Index(op) => op.resolve(rank).map(|(axes, _)| axes).unwrap_or_default(),
            _ => Vec::new(),
        };
        axes.into_iter().map(|axis| axis as u32).collect()
    }

    /// A gather whose indices are data, or too many for copies.
    pub(super) fn gather_by_data(&mut self, node: &Node, op: Gather) -> Result<(), Error> {
        let y = result(node)?;
        let (dims, _) = self.meta(y)?;
        let (x, index) = (self.view(operand(node, 0)?)?, self.view(operand(node, 1)?)?);
        let axis = axis(node, op.axis, x.dims.rank())?;
        let count = index.dims.rank();
        let mut source = under(dims, &x);
        let mut indices = under(dims, &index);
        for at in 0..dims.rank() {
            if at < axis {
                source.strides[at] = x.strides[at];
            } else if at < axis + count {
                indices.strides[at] = index.strides[at - axis];
            } else {
                source.strides[at] = x.strides[at + 1 - count];
            }
        }
        let axes = vec![(x.dims[axis], x.strides[axis])];
        self.take(node, y, &Indexing { source, indices, index_stride: 0, axes })
    }

    pub(super) fn gather_elements(&mut self, node: &Node, op: GatherElements) -> Result<(), Error> {
        let y = result(node)?;
        let (x, index) = (self.view(operand(node, 0)?)?, self.view(operand(node, 1)?)?);
        let axis = axis(node, op.axis, x.dims.rank())?;
        let indexing = Self::elements_along(&x, index, axis);
        self.take(node, y, &indexing)
    }

    fn elements_along(x: &View, indices: View, axis: usize) -> Indexing {
        let mut source = View { dims: indices.dims, ..*x };
        source.strides[axis] = 0;
        Indexing { source, indices, index_stride: 0, axes: vec![(x.dims[axis], x.strides[axis])] }
    }

    pub(super) fn gather_nd(&mut self, node: &Node, op: GatherNd) -> Result<(), Error> {
        let y = result(node)?;
        let (dims, _) = self.meta(y)?;
        let (x, index) = (self.view(operand(node, 0)?)?, self.view(operand(node, 1)?)?);
        let indexing = Self::parts_at(node, dims, &x, &index, op.batch_dims)?;
        self.take(node, y, &indexing)
    }

    /// The parts of `x`, which have the extents `dims`, at coordinates behind the axes of the batch.
    fn parts_at(node: &Node, dims: Shape, x: &View, index: &View, batch: usize) -> Result<Indexing, Error> {
        let rows = index
            .dims
            .rank()
            .checked_sub(1)
            .ok_or_else(|| Error::unsupported(node, "indices without an axis of coordinates"))?;
        let count = index.dims[rows];
        let mut source = under(dims, x);
        let mut indices = under(dims, index);
        for at in 0..dims.rank() {
            if at < batch {
                source.strides[at] = x.strides[at];
            }
            if at < rows {
                indices.strides[at] = index.strides[at];
            } else {
                source.strides[at] = x.strides[at - rows + batch + count];
            }
        }
        let axes = (batch..batch + count).map(|axis| (x.dims[axis], x.strides[axis])).collect();
        Ok(Indexing { source, indices, index_stride: index.strides[rows], axes })
    }

    pub(super) fn index(&mut self, node: &Node, op: &Index) -> Result<(), Error> {
        let y = result(node)?;
        let (dims, _) = self.meta(y)?;
        let x = self.view(operand(node, 0)?)?;
        let (axes, place) = op.resolve(x.dims.rank()).ok_or_else(|| {
            Error::unsupported(node, format!("axes {} of rank {}", List(&op.axes), x.dims.rank()))
        })?;
        let rest: Vec<usize> = (0..x.dims.rank()).filter(|axis| !axes.contains(axis)).collect();
        let picked = dims.rank() - rest.len();
        let shape = Shape::new(&dims[place..place + picked])
            .ok_or_else(|| Error::unsupported(node, "indices of this rank"))?;
        // One tensor as it is; several side by side, so that one command finds all coordinates of a result.
        let (index, index_stride) = if axes.len() == 1 {
            let view = self.view(operand(node, 1)?)?;
            (broadcast(node, &view, shape)?, 0)
        } else {
            let mut stacked = vec![axes.len()];
            stacked.extend_from_slice(&shape);
            let stacked =
                Shape::new(&stacked).ok_or_else(|| Error::unsupported(node, "indices of this rank"))?;
            let all = View::dense(self.new_scratch(stacked, DType::I64), DType::I64, stacked);
            let own = View::dense(all.home, DType::I64, shape);
            for at in 0..axes.len() {
                let view = self.view(operand(node, at + 1)?)?;
                let view = broadcast(node, &view, shape)?;
                let slot = own.at(at as u64 * all.strides[0]);
                if view.dtype == DType::I64 { self.copy(&view, &slot)? } else { self.convert(&view, &slot)? }
            }
            (own, all.strides[0])
        };
        let mut source = under(dims, &x);
        let mut indices = under(dims, &index);
        for at in 0..dims.rank() {
            if (place..place + picked).contains(&at) {
                indices.strides[at] = index.strides[at - place];
            } else {
                let from = rest[if at < place { at } else { at - picked }];
                source.strides[at] = x.strides[from];
            }
        }
        let axes = axes.iter().map(|&axis| (x.dims[axis], x.strides[axis])).collect();
        self.take(node, y, &Indexing { source, indices, index_stride, axes })
    }

    pub(super) fn scatter_elements(&mut self, node: &Node, op: ScatterElements) -> Result<(), Error> {
        let (output, index) = (self.scattered(node)?, self.view(operand(node, 1)?)?);
        let axis = axis(node, op.axis, output.dims.rank())?;
        let indexing = Self::elements_along(&output, index, axis);
        self.put(node, op.kind, &indexing)
    }

    pub(super) fn scatter_nd(&mut self, node: &Node, op: ScatterNd) -> Result<(), Error> {
        let (output, index) = (self.scattered(node)?, self.view(operand(node, 1)?)?);
        let (dims, _) = self.meta(operand(node, 2)?)?;
        let indexing = Self::parts_at(node, dims, &output, &index, 0)?;
        self.put(node, op.kind, &indexing)
    }

    /// The result, which is the first operand until something is put into it.
    fn scattered(&mut self, node: &Node) -> Result<View, Error> {
        let x = self.view(operand(node, 0)?)?;
        let output = self.place(result(node)?, Form::Dense)?;
        self.copy(&x, &output)?;
        Ok(output)
    }

    /// Puts the third operand where it would be picked from.
    fn put(&mut self, node: &Node, kind: ScatterKind, indexing: &Indexing) -> Result<(), Error> {
        // They are put in the order in which they lie.
        let updates = self.dense(operand(node, 2)?)?;
        if updates.dims.contains(&0) {
            return Ok(());
        }
        let Indexed { dims, own, source, indices, extents, axis_strides } =
            self.indexed(node, &updates, indexing)?;
        let command = Put {
            dtype: updates.dtype,
            kind,
            dims,
            src: self.addr(&updates)?,
            src_strides: own,
            indices,
            count: indexing.axes.len() as u32,
            index_stride: indexing.index_stride,
            extents,
            axis_strides,
            dst: self.addr(&indexing.source)?,
            dst_strides: source,
        };
        self.emit(command, &[&updates, &indexing.indices, &indexing.source]);
        Ok(())
    }

    pub(super) fn top_k(&mut self, node: &Node, op: TopK) -> Result<(), Error> {
        let x = self.dense(operand(node, 0)?)?;
        if x.dtype.is_half() || x.dtype == DType::Bool {
            return Err(Error::unsupported(node, format!("{} operand", x.dtype)));
        }
        let axis = axis(node, op.axis, x.dims.rank())?;
        let output = |index: usize| node.outputs.get(index).copied().flatten();
        let (values, indices) = (output(0), output(1));
        let Some(shaped) = values.or(indices) else { return Ok(()) };
        let (dims, _) = self.meta(shaped)?;
        // Indices in i64 first: where nobody asked for them, or for i32, they lie in scratch.
        let own = match indices {
            Some(id) if op.index_dtype == DType::I64 => self.place(id, Form::Dense)?,
            _ => View::dense(self.new_scratch(dims, DType::I64), DType::I64, dims),
        };
        let own_values = values.map(|id| self.place(id, Form::Dense)).transpose()?;
        let own_narrow = match indices {
            Some(id) if op.index_dtype != DType::I64 => Some(self.place(id, Form::Dense)?),
            _ => None,
        };
        if dims.contains(&0) {
            return Ok(());
        }
        let product = |dims: &[usize]| dims.iter().product::<usize>();
        let [outer, len, inner] =
            extents([product(&x.dims[..axis]), x.dims[axis], product(&x.dims[axis + 1..])])?;
        let [k] = extents([dims[axis]])?;
        let command = Order {
            input: self.addr(&x)?,
            dtype: x.dtype,
            dims: [outer, len, inner],
            k,
            descending: op.largest,
            output: self.addr(&own)?,
        };
        self.emit(command, &[&x, &own]);
        if let Some(view) = own_values {
            self.take_into(node, &view, &Self::elements_along(&x, own, axis))?;
        }
        if let Some(narrow) = own_narrow {
            self.convert(&own, &narrow)?;
        }
        Ok(())
    }
}

/// A view's first element under other extents, repeated along all axes.
fn under(dims: Shape, view: &View) -> View {
    View { dims, strides: [0; MAX_RANK], ..*view }
}

fn broadcast(node: &Node, view: &View, dims: Shape) -> Result<View, Error> {
    view.broadcast(dims)
        .ok_or_else(|| Error::unsupported(node, format!("{} does not broadcast to {dims}", view.dims)))
}

/// An axis counted from the front.
fn axis(node: &Node, axis: isize, rank: usize) -> Result<usize, Error> {
    super::movement::axis(node, axis, rank)
}

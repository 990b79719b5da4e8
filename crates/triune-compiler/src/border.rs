//! How tensors lie at an NPU's border: rows, columns and channels padded as the array wants them.
//!
//! The multiples are the device description's ([`BorderSpec`]): those of channels, and of images with few channels; and
//! whether an input carries the padding of the one convolution that reads it. Nothing here knows a device.

use triune_device::spec::BorderSpec;
use triune_graph::{
    Graph, Op, ValueId,
    ops::{AutoPad, Conv},
};
use triune_tensor::{DType, Shape};

use crate::{
    Error, TensorIo,
    lower::{InputPlan, IoPlan, filling},
    partition::End,
    view::{Home, View},
};

/// The border of one image, and how callers see it for a whole batch.
pub struct Borders {
    /// Where the core's border tensors lie.
    pub plan: IoPlan,
    /// The inputs, as callers give them.
    pub inputs: Vec<TensorIo>,
    /// The outputs, as callers get them.
    pub outputs: Vec<TensorIo>,
}

/// Lays out the border of an integer core; `inputs` and `outputs` are what callers are told.
pub fn npu(
    spec: &BorderSpec,
    graph: &Graph,
    inputs: &[End],
    outputs: &[End],
    batch: usize,
    block: Option<u32>,
) -> Result<Borders, Error> {
    let plan = IoPlan { block, ..IoPlan::default() };
    let mut borders = Borders { plan, inputs: Vec::new(), outputs: Vec::new() };
    for (index, (&id, end)) in graph.inputs.iter().zip(inputs).enumerate() {
        let conv = only_reader(graph, id, end).filter(|_| spec.window_padding);
        let padded = Padded::of(spec, graph, id, end, conv, block)?;
        let home = Home::Input(index as u32);
        let bordered = conv
            .filter(|_| padded.dims.rank() == 4 && padded.block.is_none())
            .map(|conv| padded.bordered(home, conv));
        borders.plan.inputs.push(InputPlan { view: padded.view(home), bordered });
        borders.inputs.push(padded.io(end, batch));
    }
    for (index, (&id, end)) in graph.outputs.iter().zip(outputs).enumerate() {
        let padded = Padded::of(spec, graph, id, end, None, block)?;
        borders.plan.outputs.push(padded.view(Home::Output(index as u32)));
        borders.outputs.push(padded.io(end, batch));
    }
    Ok(borders)
}

/// The convolution that is an input's only reader, if its padding can be part of the buffer: callers pad with the zero point
/// that they are told.
fn only_reader<'g>(graph: &'g Graph, id: ValueId, end: &End) -> Option<&'g Conv> {
    let mut readers = graph.nodes.iter().filter(|node| node.inputs.contains(&Some(id)));
    let reader = readers.next()?;
    let alone = readers.next().is_none() && !graph.outputs.contains(&id);
    match &reader.op {
        Op::Conv(conv) if alone && conv.groups == 1 && conv.auto_pad == AutoPad::Explicit => {
            let once = reader.inputs.iter().filter(|&&input| input == Some(id)).count() == 1;
            let taken = reader.quant.as_ref().and_then(|quant| quant.operand(0));
            let same = taken.map(|taken| taken.zero_point) == end.quant.map(|own| own.zero_point);
            (once && same).then_some(conv)
        }
        _ => None,
    }
}

/// A tensor of one image as it lies in memory: logical extents, physical ones (N, H, W, C), padding between them.
struct Padded {
    dims: Shape,
    dtype: DType,
    /// Whether it is an image, whose padded channels the convolution reads.
    image: bool,
    physical: [usize; 4],
    padding: [(usize, usize); 4],
    /// Channels of a block, if they lie in blocks, and what fills the last one.
    block: Option<(usize, u32)>,
}

impl Padded {
    fn of(
        spec: &BorderSpec,
        graph: &Graph,
        id: ValueId,
        end: &End,
        conv: Option<&Conv>,
        block: Option<u32>,
    ) -> Result<Self, Error> {
        let value = graph.value(id);
        let (Some(dims), Some(dtype)) = (value.fixed_shape(), value.dtype) else {
            return Err(Error::Target(format!("the shape of '{}' is not known", value.name)));
        };
        let [n, h, w, c] = physical(dims);
        let [top, left, bottom, right] = conv.map_or([0; 4], |conv| conv.pad);
        let image_channels = spec.image_channels as usize;
        let image = dims.rank() == 4 && c <= image_channels && graph.inputs.contains(&id);
        let block = block.filter(|_| dims.rank() == 4 && !image && dtype.holds_quantized());
        let block = block.map(|bytes| (bytes as usize / dtype.bytes()).max(1));
        let columns = left + w + right;
        let (columns, channels) = if image {
            (columns.next_multiple_of(spec.image_columns as usize), image_channels)
        } else {
            (columns, c.next_multiple_of(block.unwrap_or(spec.channels as usize)))
        };
        Ok(Self {
            dims,
            dtype,
            image,
            physical: [n, top + h + bottom, columns, channels],
            padding: [(0, 0), (top, bottom), (left, columns - left - w), (0, channels - c)],
            block: block.map(|block| (block, filling(end.quant.map_or(0, |quant| quant.zero_point), dtype))),
        })
    }

    /// The whole buffer, in logical order (N, C, H, W).
    fn whole(&self, home: Home) -> View {
        View::dense(home, self.dtype, Shape::from(self.physical)).permuted(&[0, 3, 1, 2])
    }

    /// The data in the buffer, under its logical extents.
    fn view(&self, home: Home) -> View {
        let [_, (top, _), (left, _), _] = self.padding;
        if let (Some((block, fill)), &[n, c, _, _]) = (self.block, &*self.dims) {
            let [_, h, w, _] = self.physical;
            let inner = View::blocked(home, self.dtype, [n, c, h, w], block, fill);
            return inner.sliced(2, top, self.dims[2], 1).sliced(3, left, self.dims[3], 1);
        }
        if let [_, c, h, w] = *self.dims {
            return self.whole(home).sliced(1, 0, c, 1).sliced(2, top, h, 1).sliced(3, left, w, 1);
        }
        // Other ranks lie in their own order, padded along the last axis.
        let mut rows = self.dims;
        if let Some(last) = rows.dims_mut().last_mut() {
            *last = self.physical[3];
        }
        View { dims: self.dims, ..View::dense(home, self.dtype, rows) }
    }

    /// The data with the border that `conv` slides over; images have their padded channels.
    fn bordered(&self, home: Home, conv: &Conv) -> View {
        let [top, left, bottom, right] = conv.pad;
        let (c, h, w) = (self.dims[1], self.dims[2], self.dims[3]);
        let channels = if self.image { self.physical[3] } else { c };
        self.whole(home).sliced(1, 0, channels, 1).sliced(2, 0, top + h + bottom, 1).sliced(
            3,
            0,
            left + w + right,
            1,
        )
    }

    fn io(&self, end: &End, batch: usize) -> TensorIo {
        let quant = end.quant;
        TensorIo {
            name: end.name.clone(),
            dtype: self.dtype,
            shape: times_batch(Shape::from(self.physical), batch),
            padding: self.padding.to_vec(),
            block: self.block.map(|(channels, _)| channels),
            scale: quant.map_or(1.0, |quant| quant.scale),
            zero_point: quant.map_or(0, |quant| quant.zero_point),
            model_shape: times_batch(self.dims, batch),
            model_dtype: end.dtype.unwrap_or(DType::F32),
        }
    }
}

/// A tensor that callers give for the host alone, batch included: laid out as those at the device's border, without padding. `None` for
/// bytes, which callers take for integers of the device, and for what has no fixed extents.
pub fn beside(graph: &Graph, id: ValueId) -> Option<TensorIo> {
    let value = graph.value(id);
    let (shape, dtype) = (value.fixed_shape()?, value.dtype?);
    (value.kind.is_tensor() && !dtype.is_quantized()).then(|| TensorIo {
        name: value.name.clone(),
        dtype,
        shape: Shape::from(physical(shape)),
        padding: vec![(0, 0); 4],
        scale: 1.0,
        zero_point: 0,
        block: None,
        model_shape: shape,
        model_dtype: dtype,
    })
}

/// The extents of an image's tensor as the array has them (N, H, W, C): channels of rank 4 go last, any other rank lies in its
/// own order of elements, with the last axis for channels and what is between it and the first for columns.
fn physical(dims: Shape) -> [usize; 4] {
    match *dims {
        [n, c, h, w] => [n, h, w, c],
        [n, ref between @ .., c] => [n, 1, between.iter().product(), c],
        [c] => [1, 1, 1, c],
        [] => [1; 4],
    }
}

/// A shape with its first extent multiplied: that of a batch of such images.
fn times_batch(mut shape: Shape, batch: usize) -> Shape {
    if let Some(first) = shape.dims_mut().first_mut() {
        *first *= batch;
    }
    shape
}

//! Operators that work element by element, over one or two operands.

use triune_device::{
    FeatureMap,
    command::{self, AddParams, FBinary, FTriple, FUnary, Operand, QMul, RequantTarget, Table, Tables},
};
use triune_graph::{
    Node, Op, ValueId,
    ops::{self, Binary, BinaryKind, PostOp, Rotate, UnaryKind},
    passes,
};
use triune_kernels::QAdd;
use triune_tensor::{DType, QuantParams, Shape};

use super::{
    Form, Lowering, activation_first,
    conv::{add_params, integer_range, q8},
    extents, filling, has_contiguous_channels, lowers, operand, result,
};
use crate::{Error, view::View};

lowers! {
    Binary => |to, node, op| to.binary(node, op);
    Rotate => |to, node, op| to.rotate(node, *op);
    Unary => |to, node, op| to.unary(node, op.kind);
    Table => |to, node, op| to.table(node, &op.table);
    Tables => |to, node, op| to.tables(node, op);
}

impl Lowering<'_> {
    /// Rows turned in pairs by angles.
    fn rotate(&mut self, node: &Node, op: Rotate) -> Result<(), Error> {
        let mut views = Vec::with_capacity(3);
        for index in 0..3 {
            let view = self.view(operand(node, index)?)?;
            let in_line = view.strides[3] == view.dtype.bytes() as u64;
            views.push(if in_line { view } else { self.densified(&view)? });
        }
        let [x, cosines, sines] = [views[0], views[1], views[2]];
        let dims = x.dims;
        let mut angles = dims;
        angles.dims_mut()[3] = cosines.dims[3];
        let spread = |view: &View| {
            let mut spread = view
                .broadcast(angles)
                .ok_or_else(|| Error::unsupported(node, format!("angles {} for {dims}", view.dims)))?;
            // One angle has no next one, and no step there.
            spread.strides[3] = view.dtype.bytes() as u64;
            Ok::<View, Error>(spread)
        };
        let (cosines, sines) = (spread(&cosines)?, spread(&sines)?);
        let result = result(node)?;
        let placed = self.place(result, Form::Like(x))?;
        let in_line = placed.blocks.is_none() && placed.strides[3] == placed.dtype.bytes() as u64;
        let to = if in_line {
            placed
        } else {
            View::dense(self.new_scratch(dims, placed.dtype), placed.dtype, dims)
        };
        let [first, second, third, len] = extents([dims[0], dims[1], dims[2], dims[3]])?;
        let [pairs] = extents([angles[3]])?;
        let operand = |view: &View| -> Result<Operand, Error> {
            let [a, b, c, d] = [0, 1, 2, 3].map(|axis| view.strides[axis]);
            Ok(Operand { addr: self.addr(view)?, dtype: view.dtype, strides: [0, 0, a, b, c, d] })
        };
        let command = command::Rotate {
            dims: [1, 1, first, second, third, len],
            pairs,
            interleaved: op.interleaved,
            input: operand(&x)?,
            cosines: operand(&cosines)?,
            sines: operand(&sines)?,
            output: operand(&to)?,
        };
        self.emit(command, &[&x, &cosines, &sines, &to]);
        if in_line { Ok(()) } else { self.copy(&to, &placed) }
    }

    pub(super) fn unary(&mut self, node: &Node, kind: UnaryKind) -> Result<(), Error> {
        let (x, y) = (operand(node, 0)?, result(node)?);
        let dtype = self.meta(x)?.1;
        if dtype == DType::I16
            && let Some(quant) = &node.quant
        {
            let from =
                quant.operand(0).ok_or_else(|| Error::unsupported(node, "an operand without a scale"))?;
            let table = passes::q16_table(kind, from, quant.result, self.graph.rounding);
            let bytes: Vec<u8> = table.iter().flat_map(|q| q.to_le_bytes()).collect();
            let (from, to) = self.elementwise(x, y)?;
            return self.emit_table(&bytes, &from, &to);
        }
        if dtype != DType::F32 {
            return self.typed_unary(node, kind);
        }
        let (from, to) = self.elementwise(x, y)?;
        self.float_unary(node, kind, &from, &to)
    }

    fn float_unary(&mut self, node: &Node, kind: UnaryKind, from: &View, to: &View) -> Result<(), Error> {
        if from.dtype != DType::F32 {
            return Err(Error::unsupported(node, format!("{} operand", from.dtype)));
        }
        let command = FUnary { input: self.flat_map(from)?, output: self.flat_map(to)?, function: kind };
        self.emit(command, &[from, to]);
        Ok(())
    }

    pub(super) fn table(&mut self, node: &Node, table: &[u8; 256]) -> Result<(), Error> {
        if self.passes_on(node) {
            return self.alias(node);
        }
        let (from, to) = self.elementwise(operand(node, 0)?, result(node)?)?;
        self.emit_table(table, &from, &to)
    }

    pub(super) fn tables(&mut self, node: &Node, op: &ops::Tables) -> Result<(), Error> {
        let (x, y) = (operand(node, 0)?, result(node)?);
        let from = self.mapped(x)?;
        let rank = from.dims.rank();
        let (input, output, by_rows, [from, to]) =
            if rank == 4 && op.axis == 1 && has_contiguous_channels(&from) {
                let to = self.place(y, Form::ChannelsLast)?;
                (self.map(&from)?, self.map(&to)?, false, [from, to])
            } else {
                let gapless = from.blocks.is_none() && from.is_compact();
                let from = if gapless { from } else { self.densified(&from)? };
                let to = self.place(y, Form::Like(from))?;
                // The axis with what lies outside of it and within.
                let order = from.physical_order();
                let at = order.iter().position(|&axis| axis == op.axis).unwrap_or(0);
                let count = |axes: &[usize]| axes.iter().map(|&axis| from.dims[axis]).product::<usize>();
                let (outer, own, inner) = (count(&order[..at]), from.dims[op.axis], count(&order[at + 1..]));
                let by_rows = inner != 1;
                let dims = extents(if by_rows { [outer, own, inner, 1] } else { [1, outer, 1, own] })?;
                let dense = |view: &View| -> Result<FeatureMap, Error> {
                    Ok(FeatureMap::dense(self.addr(view)?, view.dtype, dims))
                };
                (dense(&from)?, dense(&to)?, by_rows, [from, to])
            };
        let tables = super::constant(self.constants.add(op.tables.as_flattened()));
        self.emit(Tables { input, output, tables, by_rows }, &[&from, &to]);
        Ok(())
    }

    /// Looks up every element, by its unsigned pattern, in entries of its own size.
    pub(super) fn emit_table(&mut self, table: &[u8], from: &View, to: &View) -> Result<(), Error> {
        let table = super::constant(self.constants.add(table));
        let command = Table { input: self.flat_map(from)?, output: self.flat_map(to)?, table };
        self.emit(command, &[from, to]);
        Ok(())
    }

    pub(super) fn binary(&mut self, node: &Node, op: &Binary) -> Result<(), Error> {
        let (a, b, y) = (operand(node, 0)?, operand(node, 1)?, result(node)?);
        let (dims, dtype) = self.meta(y)?;
        for (product, addend) in [(a, b), (b, a)] {
            if let Some(factors) = self.products.remove(&product) {
                return self.product_with(node, op, &factors, addend);
            }
        }
        let (a_view, b_view) = (self.mapped(a)?, self.mapped(b)?);
        let lead = [&a_view, &b_view].into_iter().find(|view| view.dims == dims && !view.home.is_constant());
        let form = match lead {
            Some(view) if view.dims.rank() == 4 && has_contiguous_channels(view) => Form::ChannelsLast,
            Some(view) if view.is_compact() => Form::Like(*view),
            _ if dims.rank() == 4 => Form::ChannelsLast,
            _ => Form::Dense,
        };
        if node.quant.is_none() {
            let [a_view, b_view] = [self.view(a)?, self.view(b)?].map(|view| spread_over(node, &view, dims));
            let (a_view, b_view) = (a_view?, b_view?);
            if self.waits_for_another(node, op, y)? {
                self.products.insert(y, [a_view, b_view]);
                return Ok(());
            }
            let output = self.place(y, form)?;
            if dtype == DType::F32 {
                return self.float_binary(node, op, &a_view, &b_view, &output);
            }
            if !op.epilogue.post_ops.is_empty() {
                return Err(Error::unsupported(node, "an epilogue that no command has"));
            }
            return self.typed_binary(node, op.kind, &a_view, &b_view, &output);
        }
        let mut clamp = integer_range(dtype);
        for post_op in &op.epilogue.post_ops {
            let PostOp::Clamp { limits } = post_op else {
                return Err(Error::unsupported(node, "an epilogue that no command has"));
            };
            clamp = [clamp[0].max(limits[0]), clamp[1].min(limits[1])];
        }
        let quants = [self.operand_quant(node, 0)?, self.operand_quant(node, 1)?, self.result_quant(node)?];
        let zero_points = quants.map(|quant| quant.zero_point);
        let placed = self.place(y, form)?;
        let zero_stays = (clamp[0]..=clamp[1]).contains(&zero_points[2]);
        if let Some([a_view, b_view, output]) =
            whole_blocks([&a_view, &b_view, &placed], zero_points, zero_stays)
        {
            let channels = placed.dims[1];
            let padded = output.dims[1] * output.dims[4];
            let counted = if channels == padded { [0, 0] } else { extents([channels, padded])? };
            return self.integer_binary(node, op, quants, [&a_view, &b_view, &output], clamp, counted);
        }
        let [a_view, b_view] = [self.view(a)?, self.view(b)?].map(|view| spread_over(node, &view, dims));
        let (a_view, b_view) = (a_view?, b_view?);
        let output = match placed.blocks {
            Some(_) => View::channels_last(self.new_scratch(dims, dtype), dtype, dims),
            None => placed,
        };
        self.integer_binary(node, op, quants, [&a_view, &b_view, &output], clamp, [0, 0])?;
        if output == placed { Ok(()) } else { self.copy(&output, &placed) }
    }

    /// Whether a node is a product of reals that nothing but one sum or product of the same extents reads, whose command makes both.
    fn waits_for_another(&self, node: &Node, op: &Binary, y: ValueId) -> Result<bool, Error> {
        let (dims, dtype) = self.meta(y)?;
        if op.kind != BinaryKind::Mul
            || dtype != DType::F32
            || !op.epilogue.post_ops.is_empty()
            || dims.contains(&0)
            || self.io.block.is_some()
            || self.outputs.contains_key(&y)
        {
            return Ok(false);
        }
        let Some(reader) = self.only_reader(y) else { return Ok(false) };
        if self.attentions.waits(self.readers[y.0 as usize].1.0 as usize) {
            return Ok(false);
        }
        let Op::Binary(other_op) = &reader.op else { return Ok(false) };
        // Not an addition behind the reader's own function.
        let [Some(a), Some(b)] = reader.inputs[..] else { return Ok(false) };
        let other = [a, b].into_iter().find(|id| *id != y);
        // A product that meets another one which waits need not.
        let waits = other.is_some_and(|id| self.products.contains_key(&id));
        Ok(matches!(other_op.kind, BinaryKind::Add | BinaryKind::Mul)
            && reader.quant.is_none()
            && node.quant.is_none()
            && other.is_some()
            && !waits
            && self.meta(result(reader)?)? == (dims, dtype))
    }

    /// The sum or product of a product that has waited for it and another operand.
    fn product_with(
        &mut self,
        node: &Node,
        op: &Binary,
        factors: &[View; 2],
        other: ValueId,
    ) -> Result<(), Error> {
        let y = result(node)?;
        let (dims, _) = self.meta(y)?;
        let other = self.view(other)?;
        let lead = factors.iter().chain([&other]).find(|view| {
            // Whole: no axis but those of one element is repeated.
            let whole = view.axes().all(|(extent, stride)| extent == 1 || stride != 0);
            view.dims == dims && !view.home.is_constant() && whole
        });
        let form = match lead {
            Some(view) if view.dims.rank() == 4 && has_contiguous_channels(view) => Form::ChannelsLast,
            Some(view) if view.is_compact() => Form::Like(*view),
            _ if dims.rank() == 4 => Form::ChannelsLast,
            _ => Form::Dense,
        };
        let other = spread_over(node, &other, dims)?;
        let output = self.place(y, form)?;
        let post_ops = op.epilogue.post_ops.as_slice();
        let target = if post_ops.is_empty() { output } else { self.temporary(&output, DType::F32) };
        self.emit_triple(op.kind, [&factors[0], &factors[1], &other], &target)?;
        self.float_post_ops(node, &target, post_ops, &output)
    }

    /// The product of the first two with the third one added to it or multiplied by it.
    pub(super) fn emit_triple(
        &mut self,
        then: BinaryKind,
        [a, b, c]: [&View; 3],
        output: &View,
    ) -> Result<(), Error> {
        let (dims, [a, b, c, output], views) = self.strided_operands([a, b, c, output])?;
        self.emit(FTriple { dims, then, a, b, c, output }, &views.each_ref());
        Ok(())
    }

    /// The sum, difference or product of two quantized operands, of which `counted` results are no padding.
    fn integer_binary(
        &mut self,
        node: &Node,
        op: &Binary,
        [a_quant, b_quant, y_quant]: [QuantParams; 3],
        views: [&View; 3],
        clamp: [i32; 2],
        counted: [u32; 2],
    ) -> Result<(), Error> {
        let wide = views.map(|view| view.dtype == DType::I16);
        if wide[0] != wide[2] || wide[1] != wide[2] {
            return Err(Error::unsupported(node, "operands of 8 and of 16 bits"));
        }
        let [a_q8, b_q8, y_q8] = [(views[0], a_quant), (views[1], b_quant), (views[2], y_quant)]
            .map(|(view, quant)| q8(view.dtype, quant));
        let (dims, [a, b, output], views) = self.strided_operands(views)?;
        let views = views.each_ref();
        match op.kind {
            BinaryKind::Add | BinaryKind::Sub => {
                let less = op.kind == BinaryKind::Sub;
                let (a_scale, b_scale, y_scale) = (a_quant.scale, b_quant.scale, y_quant.scale);
                let (rounding, requantize) = (self.graph.rounding, self.graph.requantize);
                if wide[2] {
                    let rb = self.factor(node, b_scale / y_scale, DType::I16)?;
                    let target = RequantTarget { dtype: DType::I16, zero_point: 0 };
                    let params = AddParams {
                        a: target,
                        b: target,
                        out: target,
                        ra: self.factor(node, a_scale / y_scale, DType::I16)?,
                        rb: if less { -rb } else { rb },
                        k: 0.0,
                        rounding,
                        clamp,
                    };
                    self.emit(command::QAdd { dims, a, b, output, params, counted }, &views);
                    return Ok(());
                }
                let add = QAdd::new(a_q8, a_scale, b_q8, b_scale, y_q8, y_scale, rounding, requantize)
                    .map_err(|error| Error::unsupported(node, error.to_string()))?;
                let add = if less { add.difference() } else { add };
                let params = add_params(&QAdd { clamp, ..add });
                self.emit(command::QAdd { dims, a, b, output, params, counted }, &views);
            }
            BinaryKind::Mul => {
                let command = QMul {
                    dims,
                    a,
                    b,
                    output,
                    zero_points: [a_quant.zero_point, b_quant.zero_point, y_quant.zero_point],
                    multiplier: self.factor(
                        node,
                        a_quant.scale * b_quant.scale / y_quant.scale,
                        views[2].dtype,
                    )?,
                    rounding: self.graph.rounding,
                    clamp,
                    counted,
                };
                self.emit(command, &views);
            }
            _ => return Err(Error::unsupported(node, "it has no form over quantized integers")),
        }
        Ok(())
    }

    fn float_binary(
        &mut self,
        node: &Node,
        op: &Binary,
        a: &View,
        b: &View,
        output: &View,
    ) -> Result<(), Error> {
        let (activation, post_ops) = activation_first(&op.epilogue.post_ops);
        let target = if post_ops.is_empty() { *output } else { self.temporary(output, DType::F32) };
        self.emit_binary(node, op.kind, a, b, &target, activation)?;
        self.float_post_ops(node, &target, post_ops, output)
    }

    pub(super) fn emit_binary(
        &mut self,
        node: &Node,
        kind: BinaryKind,
        a: &View,
        b: &View,
        output: &View,
        activation: UnaryKind,
    ) -> Result<(), Error> {
        if !triune_kernels::has_float(kind) {
            return Err(Error::unsupported(node, "reals"));
        }
        let (dims, [a, b, output], views) = self.strided_operands([a, b, output])?;
        self.emit(FBinary { dims, kind, a, b, output, activation }, &views.each_ref());
        Ok(())
    }

    /// Runs what is left of a float epilogue as commands of their own, from `from` into `output`.
    pub(super) fn float_post_ops(
        &mut self,
        node: &Node,
        from: &View,
        post_ops: &[PostOp],
        output: &View,
    ) -> Result<(), Error> {
        let mut from = *from;
        for (index, post_op) in post_ops.iter().enumerate() {
            let last = index + 1 == post_ops.len();
            let to = if last { *output } else { self.temporary(output, DType::F32) };
            match post_op {
                PostOp::Activation(kind) => self.float_unary(node, *kind, &from, &to)?,
                PostOp::Residual(_) => {
                    let id = operand(node, node.inputs.len() - 1)?;
                    let other = self.view(id)?;
                    let other = other
                        .reshaped(to.dims)
                        .ok_or_else(|| Error::unsupported(node, "a fused addition of another shape"))?;
                    self.emit_binary(node, BinaryKind::Add, &from, &other, &to, UnaryKind::Identity)?;
                }
                PostOp::Clamp { .. } | PostOp::Table { .. } => {
                    return Err(Error::unsupported(node, "an integer epilogue behind a float operator"));
                }
            }
            from = to;
        }
        Ok(())
    }
}

/// The operand over the result's extents.
pub(super) fn spread_over(node: &Node, view: &View, dims: Shape) -> Result<View, Error> {
    view.broadcast(dims)
        .ok_or_else(|| Error::unsupported(node, format!("{} does not broadcast to {dims}", view.dims)))
}

/// Two operands and a result in blocks as (N, blocks, H, W, channels of a block), what fills the last block included: at
/// the operands' zero points it gives the result's, if that `zero_stays` within the result's limits.
fn whole_blocks([a, b, output]: [&View; 3], zero_points: [i32; 3], zero_stays: bool) -> Option<[View; 3]> {
    let channels = output.blocks?.channels;
    let exact = output.dims[1].is_multiple_of(channels);
    let whole = |view: &View, zero_point: i32| {
        let blocks = view.blocks.filter(|blocks| view.dims == output.dims && blocks.channels == channels);
        let same = blocks.is_some();
        let filled =
            blocks.is_some_and(|blocks| blocks.filled && blocks.fill == filling(zero_point, view.dtype));
        if same {
            return view.whole_blocks(channels).filter(|_| exact || filled && zero_stays);
        }
        view.plain().filter(|_| exact)?.broadcast(output.dims)?.whole_blocks(channels)
    };
    let [a_zero, b_zero, y_zero] = zero_points;
    Some([whole(a, a_zero)?, whole(b, b_zero)?, whole(output, y_zero)?])
}

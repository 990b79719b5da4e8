//! Values of the document as tensors of the graph: views of them, and between what is stored and the reals.

use std::collections::HashSet;

use triune_tensor::{DType, Shape, half::f16_of_f32, text::List};

use super::{
    Form, Meaning, Typed, View,
    node::{MOST_CHANNELS, Reader},
};
use crate::{
    Constant, Dim, Error, Op, Value, ValueId,
    ops::{BinaryKind, DequantizeLinear, QuantizeLinear, infer::TensorType as Found},
};

impl Reader<'_, '_> {
    // ---- what is there ----

    /// What is stored of value `index`, in a view.
    pub(super) fn kept(&mut self, index: usize, view: View) -> Result<ValueId, Error> {
        if let Some(id) = self.builder.held[index].kept[view as usize] {
            return Ok(id);
        }
        if self.is_constant(index) && self.builder.held[index].kept == [None; 3] {
            let id = self.load(index)?;
            self.builder.held[index].kept[View::Stored as usize] = Some(id);
        }
        let held = self.builder.held[index].kept;
        let Some(from) =
            [View::Open, View::Flat, View::Stored].into_iter().find(|&from| held[from as usize].is_some())
        else {
            return Err(self.wrong(format!(
                "value {} is read before it is made",
                self.builder.document.values[index].v_id
            )));
        };
        let typed = self.typed(index)?;
        let id = held[from as usize].expect("just found");
        let fill = match &typed.meaning {
            Meaning::Quantized { zero_points, .. } if self.dtype(id) == Some(typed.dtype) => zero_points[0],
            _ => 0,
        };
        let id = self.seen_as(id, &typed.form, from, view, fill)?;
        self.builder.held[index].kept[view as usize] = Some(id);
        Ok(id)
    }

    /// The reals that value `index` stands for, or the elements of a value that is not quantized, in a view.
    pub(super) fn in_floats(&mut self, index: usize, view: View) -> Result<ValueId, Error> {
        if let Some(id) = self.builder.held.get(index).and_then(|held| held.dequantized[view as usize]) {
            return Ok(id);
        }
        let typed = self.typed(index)?;
        let id = match &typed.meaning {
            Meaning::Plain => self.kept(index, view)?,
            Meaning::Ratio(ratios) => {
                let x = self.kept(index, View::Open)?;
                let x = self.cast(x, DType::F32)?;
                let ratios = self.per_channel(&typed, ratios)?;
                let open = self.binary(BinaryKind::Mul, x, ratios)?;
                self.seen_as(open, &typed.form, View::Open, view, 0)?
            }
            Meaning::Quantized { scales, zero_points } if scales.len() == 1 => {
                let x = self.kept(index, view)?;
                self.dequantize(x, typed.dtype, 0, scales, zero_points)?
            }
            Meaning::Quantized { scales, zero_points } => {
                let x = self.kept(index, View::Open)?;
                let (axis, positions) = self.channels(&typed)?;
                let (scales, zero_points) = self.selected(scales, zero_points, &typed, &positions)?;
                let open = self.dequantize(x, typed.dtype, axis, &scales, &zero_points)?;
                self.seen_as(open, &typed.form, View::Open, view, 0)?
            }
        };
        self.builder.held[index].dequantized[view as usize] = Some(id);
        Ok(id)
    }

    // ---- what is made ----

    /// Makes value `index` of the reals (or the elements, when it is not quantized) in a view.
    pub(super) fn define(&mut self, index: usize, view: View, reals: ValueId) -> Result<(), Error> {
        let typed = self.typed(index)?;
        self.check_extents(index, &typed.form, view, reals)?;
        if self.is_constant(index) || self.builder.held[index].kept != [None; 3] {
            let v_id = self.builder.document.values[index].v_id;
            return Err(self.wrong(format!("value {v_id} is made twice, or is a constant")));
        }
        let (id, view) = match &typed.meaning {
            Meaning::Plain => (self.as_declared(reals, typed.dtype)?, view),
            Meaning::Ratio(ratios) => {
                let open = self.seen_as(reals, &typed.form, view, View::Open, 0)?;
                let ratios = self.per_channel(&typed, ratios)?;
                let x = self.binary(BinaryKind::Div, open, ratios)?;
                (self.as_declared(x, typed.dtype)?, View::Open)
            }
            Meaning::Quantized { scales, zero_points } if scales.len() == 1 => {
                (self.quantize(reals, typed.dtype, 0, scales, zero_points)?, view)
            }
            Meaning::Quantized { scales, zero_points } => {
                let open = self.seen_as(reals, &typed.form, view, View::Open, 0)?;
                let (axis, positions) = self.channels(&typed)?;
                let (scales, zero_points) = self.selected(scales, zero_points, &typed, &positions)?;
                (self.quantize(open, typed.dtype, axis, &scales, &zero_points)?, View::Open)
            }
        };
        self.builder.held[index].kept[view as usize] = Some(id);
        Ok(())
    }

    /// Every result must have been made.
    pub(super) fn check_made(&self) -> Result<(), Error> {
        match self.op.outputs.iter().find(|&&index| self.builder.held[index].kept == [None; 3]) {
            None => Ok(()),
            Some(&index) => {
                let v_id = self.builder.document.values[index].v_id;
                Err(self.wrong(format!("result {v_id} is one that the operator does not have")))
            }
        }
    }

    /// The declared extents must be the ones that came out.
    fn check_extents(&self, index: usize, form: &Form, view: View, id: ValueId) -> Result<(), Error> {
        let Some(Found { shape, .. }) = self.found(id) else { return Ok(()) };
        let declared = match view {
            View::Stored => form.stored.clone(),
            View::Flat => form.flat_extents(),
            View::Open => form.open_extents(),
        };
        let fits = declared.len() == shape.rank()
            && declared
                .iter()
                .zip(shape.iter())
                .all(|(declared, own)| declared.is_none_or(|declared| declared == *own));
        if fits {
            return Ok(());
        }
        let value = &self.builder.document.values[index];
        let (layout, extents) = (&value.dtype.layout, &value.dtype.shape);
        let declared: Vec<_> = declared
            .into_iter()
            .map(|extent| extent.map_or_else(|| "?".to_owned(), |extent| extent.to_string()))
            .collect();
        let reason = format!(
            "value {} is declared {} as {layout}, in the order of computation ({}); computed are {shape}",
            value.v_id,
            List(extents),
            declared.join(", ")
        );
        Err(self.wrong(reason))
    }

    /// Integers of another width, or reals of another precision, as declared.
    fn as_declared(&mut self, id: ValueId, to: DType) -> Result<ValueId, Error> {
        match self.dtype(id) {
            Some(own) if own == to => Ok(id),
            Some(own) if own.is_float() == to.is_float() => self.cast(id, to),
            Some(own) => Err(self.wrong(format!("its result is of type {own}, declared is {to}"))),
            None => Ok(id),
        }
    }

    /// Integers (or whole reals) as a constant of a type.
    pub(super) fn integer(
        &mut self,
        dtype: DType,
        values: &[i64],
        shape: &[usize],
    ) -> Result<ValueId, Error> {
        let bytes: Option<Vec<u8>> = values
            .iter()
            .map(|&value| {
                Some(match dtype {
                    DType::Bool => vec![u8::try_from(value).ok().filter(|&value| value < 2)?],
                    DType::U8 => vec![u8::try_from(value).ok()?],
                    DType::I8 => i8::try_from(value).ok()?.to_le_bytes().to_vec(),
                    DType::U16 => u16::try_from(value).ok()?.to_le_bytes().to_vec(),
                    DType::I16 => i16::try_from(value).ok()?.to_le_bytes().to_vec(),
                    DType::U32 => u32::try_from(value).ok()?.to_le_bytes().to_vec(),
                    DType::I32 => i32::try_from(value).ok()?.to_le_bytes().to_vec(),
                    DType::U64 => u64::try_from(value).ok()?.to_le_bytes().to_vec(),
                    DType::I64 => value.to_le_bytes().to_vec(),
                    DType::F16 => f16_of_f32(value as f32).to_le_bytes().to_vec(),
                    DType::F32 => (value as f32).to_le_bytes().to_vec(),
                    DType::F64 => (value as f64).to_le_bytes().to_vec(),
                    // The format has none of these.
                    _ => return None,
                })
            })
            .collect::<Option<Vec<_>>>()
            .map(|parts| parts.concat());
        let constant =
            bytes.zip(Shape::new(shape)).and_then(|(bytes, shape)| Constant::new(dtype, shape, bytes));
        let constant = constant.ok_or_else(|| self.unsupported(format!("{} as {dtype}", List(values))))?;
        Ok(self.constant("integer", constant))
    }

    /// Where channels lie in the open view, and which of all of them are valid.
    fn channels(&self, typed: &Typed) -> Result<(usize, Vec<usize>), Error> {
        let axis = typed.form.named('C');
        let axis =
            axis.filter(|&axis| typed.form.flat[axis].total.is_some_and(|total| total <= MOST_CHANNELS));
        let found =
            axis.and_then(|axis| Some((typed.form.open_axis(axis), typed.form.flat[axis].positions()?)));
        found.ok_or_else(|| self.unsupported("several scales for a value without one axis of channels"))
    }

    /// One scale and zero point for each valid channel.
    fn selected(
        &self,
        scales: &[f32],
        zero_points: &[i64],
        typed: &Typed,
        positions: &[usize],
    ) -> Result<(Vec<f32>, Vec<i64>), Error> {
        let total = typed.form.named('C').and_then(|axis| typed.form.flat[axis].total);
        if scales.len() == positions.len() {
            Ok((scales.to_vec(), zero_points.to_vec()))
        } else if Some(scales.len()) == total {
            Ok(positions.iter().map(|&at| (scales[at], zero_points[at])).unzip())
        } else {
            Err(self.unsupported(format!("{} scales for {} channels", scales.len(), positions.len())))
        }
    }

    /// Factors that an open view is multiplied with: one, or one per channel.
    fn per_channel(&mut self, typed: &Typed, factors: &[f32]) -> Result<ValueId, Error> {
        if let &[factor] = factors {
            return Ok(self.scalar(factor));
        }
        let (axis, positions) = self.channels(typed)?;
        let (factors, _) = self.selected(factors, &vec![0; factors.len()], typed, &positions)?;
        let mut shape = vec![1; typed.form.flat.len()];
        shape[axis] = factors.len();
        let constant = Shape::new(&shape).and_then(|shape| Constant::from_f32(shape, &factors));
        let constant = constant.ok_or_else(|| self.unsupported("too many axes"))?;
        Ok(self.constant("ratios", constant))
    }

    fn parameters(
        &mut self,
        dtype: DType,
        scales: &[f32],
        zero_points: &[i64],
    ) -> Result<[ValueId; 2], Error> {
        if let &[scale] = scales {
            return Ok([self.scalar(scale), self.integer(dtype, zero_points, &[])?]);
        }
        Ok([self.row("scales", scales)?, self.integer(dtype, zero_points, &[scales.len()])?])
    }

    /// Reals of integers.
    pub(super) fn dequantize(
        &mut self,
        x: ValueId,
        dtype: DType,
        axis: usize,
        scales: &[f32],
        zero_points: &[i64],
    ) -> Result<ValueId, Error> {
        let [scale, zero_point] = self.parameters(dtype, scales, zero_points)?;
        let op = DequantizeLinear { axis: axis as isize };
        // Weights and biases have none, as in ONNX.
        let inputs = if dtype == DType::I32 { vec![x, scale] } else { vec![x, scale, zero_point] };
        let result = self.emit(Op::DequantizeLinear(op), &inputs)?;
        self.builder.graph.value_mut(result).dtype = Some(DType::F32);
        Ok(result)
    }

    fn quantize(
        &mut self,
        x: ValueId,
        dtype: DType,
        axis: usize,
        scales: &[f32],
        zero_points: &[i64],
    ) -> Result<ValueId, Error> {
        let x = self.cast(x, DType::F32)?;
        let [scale, zero_point] = self.parameters(dtype, scales, zero_points)?;
        let op = QuantizeLinear { axis: axis as isize, dtype };
        let result = self.emit(Op::QuantizeLinear(op), &[x, scale, zero_point])?;
        self.builder.graph.value_mut(result).dtype = Some(dtype);
        Ok(result)
    }

    // ---- the border ----

    /// The network's inputs, as they are stored.
    pub(super) fn input(&mut self) -> Result<(), Error> {
        for &index in &self.op.outputs {
            let typed = self.typed(index)?;
            let name = self.builder.border_name(index);
            let dims = typed.form.stored.iter().enumerate().map(|(axis, extent)| match extent {
                Some(extent) => Dim::Fixed(*extent),
                None => Dim::Symbol(format!("{name}.{axis}").into()),
            });
            let value = Value { dtype: Some(typed.dtype), shape: Some(dims.collect()), ..Value::named(name) };
            let found = value.fixed_shape().map(|shape| Found { dtype: typed.dtype, shape });
            if self.builder.held[index].kept != [None; 3] {
                let v_id = self.builder.document.values[index].v_id;
                return Err(self.wrong(format!("value {v_id} is made twice")));
            }
            let id = self.add(value, found);
            self.builder.graph.inputs.push(id);
            self.builder.held[index].kept[View::Stored as usize] = Some(id);
        }
        Ok(())
    }

    /// The network's outputs, as they are stored.
    pub(super) fn output(&mut self) -> Result<(), Error> {
        let graph = &self.builder.graph;
        let mut border: HashSet<ValueId> = graph.inputs.iter().chain(&graph.outputs).copied().collect();
        for number in 0..self.op.inputs.len() {
            let index = self.operand(number)?;
            let mut id = self.kept(index, View::Stored)?;
            if border.contains(&id) || self.builder.graph.value(id).constant.is_some() {
                id = self.copy(id)?;
            } else {
                let name = self.builder.border_name(index);
                self.builder.graph.value_mut(id).name = name;
            }
            border.insert(id);
            self.builder.graph.outputs.push(id);
        }
        Ok(())
    }

    /// A constant of the document as it is stored.
    fn load(&mut self, index: usize) -> Result<ValueId, Error> {
        let typed = self.typed(index)?;
        let constant = self.stored_constant(index, typed.dtype)?;
        let requested = self.builder.border_name(index);
        let name = self.builder.names.unique(format!("{requested}.data"));
        self.builder.found.push(Some(Found { dtype: constant.dtype(), shape: constant.shape() }));
        Ok(self.builder.graph.add_constant(name, constant))
    }
}

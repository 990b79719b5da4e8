//! Pools, borders and resampling.

use super::site::Site;
use crate::{
    Error,
    format::flatbuffer::TableBuilder,
    ops::{self, CoordinateMode, NearestMode, PadMode, PoolKind, ResizeMode},
};

impl Site<'_, '_> {
    pub(super) fn pool(&mut self, op: &ops::Pool) -> Result<u32, Error> {
        let result = self.result.clone();
        if op.dilation != [1; 2] {
            return Err(self.unsupported("a dilated window"));
        }
        let (mode, fill) = match op.kind {
            PoolKind::Max => (0, f32::NEG_INFINITY),
            PoolKind::Average { count_include_pad: true } => (1, 0.0),
            PoolKind::Average { count_include_pad: false } => (2, 0.0),
        };
        let x_shape = self.variable(0)?.shape;
        let fits = |axis: usize| {
            let padded = x_shape[axis + 2] + op.pad[axis] + op.pad[axis + 2];
            padded >= op.kernel[axis]
                && (padded - op.kernel[axis]) / op.stride[axis] + 1 == result.shape[axis + 2]
        };
        if op.ceil_mode && !(fits(0) && fits(1)) || !symmetric(op.pad) && mode == 2 {
            return Err(self.unsupported("partial windows at one end"));
        }
        let pad = op.pad;
        let own = if symmetric(pad) { [pad[0], pad[1]] } else { [0; 2] };
        let mut params = TableBuilder::default().u32(0, mode);
        let values = [own, op.stride, op.kernel].concat();
        for (index, value) in values.into_iter().enumerate() {
            params = params.u32(index + 1, value as u32);
        }
        let x = self.padded(pad, fill)?;
        self.add("PoolingV1", Some((9, params)), &[x], &result)
    }

    pub(super) fn global_pool(&mut self, op: ops::GlobalPool) -> Result<u32, Error> {
        let result = self.result.clone();
        let mode = if op.kind == PoolKind::Max { 0 } else { 2 };
        let [_, _, rows, columns] = *self.variable(0)?.shape else {
            return Err(self.unsupported("an operand without rows and columns"));
        };
        let mut params = TableBuilder::default().u32(0, mode);
        for (slot, value) in [(3, rows), (4, columns), (5, rows), (6, columns)] {
            params = params.u32(slot, value as u32);
        }
        let x = self.input(0)?;
        self.add("PoolingV1", Some((9, params)), &[x], &result)
    }

    pub(super) fn resize(&mut self, op: ops::Resize) -> Result<u32, Error> {
        let result = self.result.clone();
        let mode = match (op.mode, op.coordinates) {
            (ResizeMode::Nearest(NearestMode::Floor), CoordinateMode::Asymmetric) => 0,
            (ResizeMode::Linear, CoordinateMode::HalfPixel | CoordinateMode::PytorchHalfPixel) => 1,
            _ => return Err(self.unsupported("this choice of coordinates")),
        };
        let x_shape = self.variable(0)?.shape;
        let ([n, c, ..], [rows, columns]) = (&*x_shape, &result.shape[result.shape.len().min(2)..]) else {
            return Err(self.unsupported("an operand without rows and columns"));
        };
        if result.shape[..2] != [*n, *c] {
            return Err(self.unsupported("resampled channels"));
        }
        let sizes = [*rows as i64, *columns as i64];
        let sizes = self.writer.ints(&sizes, &format!("{}.size", result.name))?;
        let params = TableBuilder::default().u32(0, mode).u32(1, 0);
        let x = self.input(0)?;
        self.add("ResizeV2", Some((40, params)), &[x, sizes], &result)
    }

    pub(super) fn pad(&mut self, op: ops::Pad) -> Result<u32, Error> {
        let result = self.result.clone();
        let mode = match op.mode {
            PadMode::Constant => 2,
            PadMode::Reflect => 1,
            PadMode::Edge => 0,
        };
        let rank = result.shape.len();
        let value = match self.constant(2) {
            Some(value) => value.scalar_f32(),
            None => Some(0.0).filter(|_| self.node.inputs.get(2).copied().flatten().is_none()),
        };
        let amounts = self.ints(1).and_then(|pads| ops::Pad::amounts(rank, &pads, self.ints(3).as_deref()));
        let (Some(value), Some(amounts)) = (value, amounts) else {
            return Err(self.unsupported("computed padding"));
        };
        if rank > 7 || amounts.iter().any(|&(before, behind)| before < 0 || behind < 0) {
            return Err(self.unsupported("this padding"));
        }
        let params = padding(&amounts, value, mode);
        let x = self.input(0)?;
        self.add("Padding", Some((82, params)), &[x], &result)
    }

    /// Operand 0 with its border added, when the operator cannot add it itself.
    pub(super) fn padded(&mut self, pad: [usize; 4], fill: f32) -> Result<u32, Error> {
        let x = self.input(0)?;
        if symmetric(pad) {
            return Ok(x);
        }
        let mut to = self.variable(0)?;
        to.name = format!("{}.padded", self.result.name);
        to.shape[2] += pad[0] + pad[2];
        to.shape[3] += pad[1] + pad[3];
        let amounts = [(0, 0), (0, 0), (pad[0] as i64, pad[2] as i64), (pad[1] as i64, pad[3] as i64)];
        self.add("Padding", Some((82, padding(&amounts, fill, 2))), &[x], &to)
    }
}

pub(super) fn symmetric(pad: [usize; 4]) -> bool {
    pad[0] == pad[2] && pad[1] == pad[3]
}

/// A `Padding` table: what is added in front of each of seven axes, then behind, the value and the mode.
fn padding(amounts: &[(i64, i64)], value: f32, mode: u32) -> TableBuilder {
    let mut params = TableBuilder::default();
    for (axis, &(before, behind)) in amounts.iter().enumerate() {
        params = params.u32(axis, before as u32).u32(axis + 7, behind as u32);
    }
    params.f32(14, value).u32(15, mode)
}

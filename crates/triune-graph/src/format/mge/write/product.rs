//! Convolutions, matrix products and normalization.

use super::{Operator, site::Site, window::symmetric};
use crate::{Error, format::flatbuffer::TableBuilder, ops};
use triune_tensor::text::List;

impl Site<'_, '_> {
    pub(super) fn conv(&mut self, op: &ops::Conv) -> Result<u32, Error> {
        let result = self.result.clone();
        let pad = op.pad;
        let groups = op.groups;
        let x = self.padded(pad, 0.0)?;
        let mut params = TableBuilder::default();
        for (slot, value) in [
            (1, if symmetric(pad) { pad[0] } else { 0 }),
            (2, if symmetric(pad) { pad[1] } else { 0 }),
            (3, op.stride[0]),
            (4, op.stride[1]),
            (5, op.dilation[0]),
            (6, op.dilation[1]),
            (7, usize::from(groups > 1)),
        ] {
            params = params.u32(slot, value as u32);
        }
        let mut weights = self.input(1)?;
        if groups > 1 {
            let mut grouped = self.variable(1)?;
            grouped.shape[0] /= groups;
            grouped.shape.insert(0, groups);
            grouped.name = format!("{}.grouped", result.name);
            weights = self.reshape(weights, &grouped)?;
        }
        let bias = self.inputs.get(2).copied().flatten();
        let product = if bias.is_some() { self.inner("product") } else { result.clone() };
        let y = self.add("Convolution", Some((3, params)), &[x, weights], &product)?;
        match bias {
            None => Ok(y),
            Some(bias) => {
                let mut row = self.inner("bias");
                row.shape = vec![1, result.shape[1], 1, 1];
                let row = self.reshape(bias, &row)?;
                self.elemwise(16, &[y, row], &result)
            }
        }
    }

    pub(super) fn gemm(&mut self, op: &ops::Gemm) -> Result<u32, Error> {
        let result = self.result.clone();
        let (alpha, beta) = (op.alpha, op.beta);
        let params = TableBuilder::default().u8(0, u8::from(op.trans_a)).u8(1, u8::from(op.trans_b));
        let addend = self.inputs.get(2).copied().flatten();
        let (a, b) = (self.input(0)?, self.input(1)?);
        let last = alpha == 1.0 && addend.is_none();
        let to = if last { result.clone() } else { self.inner("product") };
        let mut y = self.add("MatrixMulV2", Some((20, params)), &[a, b], &to)?;
        if alpha != 1.0 {
            let factor = self.writer.scalar(alpha, &format!("{}.alpha", result.name))?;
            let to = if addend.is_none() { result.clone() } else { self.inner("scaled") };
            y = self.elemwise(21, &[y, factor], &to)?;
        }
        let Some(mut addend) = addend else { return Ok(y) };
        if beta != 1.0 {
            let factor = self.writer.scalar(beta, &format!("{}.beta", result.name))?;
            let mut to = self.variable(2)?;
            to.name = format!("{}.addend", result.name);
            addend = self.elemwise(21, &[addend, factor], &to)?;
        }
        self.elemwise(16, &[y, addend], &result)
    }

    pub(super) fn mat_mul(&mut self) -> Result<u32, Error> {
        let result = self.result.clone();
        let (a, b) = (self.variable(0)?.shape, self.variable(1)?.shape);
        let inputs = [self.input(0)?, self.input(1)?];
        let kind = match (a.len(), b.len()) {
            (2, 2) => "MatrixMulV2",
            (m, n) if m == n && a[..m - 2] == b[..m - 2] => "BatchedMatrixMulV2",
            _ => return Err(self.unsupported(format!("a product of {} and {}", List(&a), List(&b)))),
        };
        self.add(kind, Some((20, TableBuilder::default())), &inputs, &result)
    }

    pub(super) fn batch_normalization(&mut self, op: ops::BatchNormalization) -> Result<u32, Error> {
        let result = self.result.clone();
        let params = TableBuilder::default().u32(0, 2).u32(1, 1).f64(2, f64::from(op.epsilon));
        if result.shape.len() != 4 {
            return Err(self.unsupported(format!("normalization of {}", List(&result.shape))));
        }
        let mut row = self.inner("parameter");
        row.shape = vec![1, result.shape[1], 1, 1];
        let mut inputs = vec![self.input(0)?];
        for index in 1..5 {
            let operand = self.input(index)?;
            inputs.push(self.reshape(operand, &row)?);
        }
        let mut nothing = self.inner("reserve");
        nothing.shape = vec![0];
        let variables = [row.clone(), row, nothing, result.clone()];
        let operator =
            Operator { kind: "BatchNormV1", param: Some((11, params)), inputs, tensors: Vec::new() };
        self.writer.add_many(operator, &variables, 3)
    }
}

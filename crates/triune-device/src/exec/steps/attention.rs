//! Attention over heads.

use triune_kernels::{Attention, AttentionSpec};
use triune_tensor::DType;

use super::super::{
    check::{Checker, Placed, Result, bad, expect_dtype, refused},
    operands::{Prepared, with_scratch},
};
use super::{Prepare, elements, elements_mut};
use crate::command::{self, Operand};

/// Elements from one head to the next along both axes, from row to row, and within a row.
fn steps(placed: &Placed) -> [usize; 4] {
    let [_, _, steps @ ..] = placed.element_strides();
    steps
}

impl Prepare for command::FAttention {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        let [outer, inner] = self.heads;
        let place = |field: &'static str, operand: &Operand, rows: u32, len: u32| {
            expect_dtype(field, operand.dtype, &[DType::F32])?;
            checker.operand(field, operand, [1, 1, outer, inner, rows, len])
        };
        let q = place("q", &self.q, self.queries, self.width)?;
        let k = place("k", &self.k, self.keys, self.width)?;
        let v = place("v", &self.v, self.keys, self.elements)?;
        let output = place("output", &self.output, self.queries, self.elements)?;
        let bias = match self.bias {
            Some(addr) => Some(place(
                "bias",
                &Operand { addr, dtype: DType::F32, strides: self.bias_strides },
                self.queries,
                self.keys,
            )?),
            None => None,
        };
        // Strides of single elements are of no account, and say 0.
        let rows = |field: &'static str, placed: &Placed, len: u32| match steps(placed) {
            [first, second, row, 1] => Ok([first, second, row]),
            [first, second, row, _] if len == 1 => Ok([first, second, row]),
            _ => bad(field, "has gaps between the elements of a row"),
        };
        let [first, second, key, element] = steps(&k);
        let spec = AttentionSpec {
            heads: [outer as usize, inner as usize],
            queries: self.queries as usize,
            keys: self.keys as usize,
            width: self.width as usize,
            elements: self.elements as usize,
            scale: self.scale,
            q: rows("q", &q, self.width)?,
            k: [
                first,
                second,
                if self.keys == 1 { 1 } else { key },
                if self.width == 1 { 1 } else { element },
            ],
            v: rows("v", &v, self.elements)?,
            bias: bias.as_ref().map(|bias| rows("bias", bias, self.keys)).transpose()?,
            y: rows("output", &output, self.elements)?,
        };
        let attention = Attention::new(&spec, checker.isa).map_err(refused("heads"))?;
        let step = with_scratch(
            attention,
            Attention::scratch_bytes,
            |attention, [q, k, v, bias, ..], write, scratch, pool| {
                let operands = [elements(q)?, elements(k)?, elements(v)?];
                attention.run(operands, elements(bias)?, elements_mut(write)?, scratch, pool)
            },
        );
        checker.finish_some([Some(q), Some(k), Some(v), bias], &output, false, step)
    }
}

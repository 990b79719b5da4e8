//! Softmax and normalization over dense tensors.

use triune_kernels::{AxisShape, NormRow, QNorm, QNormSpec};
use triune_tensor::{DType, QuantParams};

use super::super::{
    check::{Checker, Placed, Result, bad, expect_dtype, refused},
    operands::{Prepared, Rows, in_rows, plain},
};
use super::conv::q8;
use super::{EIGHT_BIT, Prepare, elements, elements_mut, expect_scale};
use crate::{Addr, command};

fn dense(
    checker: &Checker<'_>,
    field: &'static str,
    addr: Addr,
    elem_bytes: u64,
    dims: [u32; 3],
) -> Result<Placed> {
    let [outer, len, inner] = dims.map(u64::from);
    let strides = [len.saturating_mul(inner), inner, 1].map(|stride| stride.saturating_mul(elem_bytes));
    checker.strided(
        field,
        addr,
        elem_bytes,
        [1, 1, 1, outer, len, inner],
        [0, 0, 0, strides[0], strides[1], strides[2]],
    )
}

fn axis([outer, len, inner]: [u32; 3]) -> AxisShape {
    AxisShape { outer: outer as usize, len: len as usize, inner: inner as usize }
}

impl Prepare for command::QSoftmax {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        let command::QSoftmax { input, output, dtype, dims, input_quant, output_quant } = *self;
        expect_dtype("dtype", dtype, EIGHT_BIT)?;
        let input = dense(checker, "input", input, 1, dims)?;
        let output = dense(checker, "output", output, 1, dims)?;
        expect_scale("input_quant.scale", input_quant.scale)?;
        expect_scale("output_quant.scale", output_quant.scale)?;
        let target = q8("dtype", "output_quant.zero_point", dtype, output_quant.zero_point)?;
        let shape = axis(dims);
        let (isa, softmax) =
            (checker.isa, checker.softmax(shape.len, target, [input_quant.scale, output_quant.scale])?);
        checker.finish(
            [input],
            &output,
            true,
            plain(move |[input, ..], write, pool| softmax.run(isa, shape, input, write, pool)),
        )
    }
}

/// A softmax of f32, or its logarithm.
fn reals(checker: &Checker<'_>, log: bool, [input, output]: [Addr; 2], dims: [u32; 3]) -> Result<Prepared> {
    let input = dense(checker, "input", input, 4, dims)?;
    let output = dense(checker, "output", output, 4, dims)?;
    let shape = axis(dims);
    let isa = checker.isa;
    let bytes = size_of::<f32>() * shape.len * shape.inner;
    let step = in_rows(Rows::dense(shape.outer, [bytes], bytes), move |count, [input, ..], write, pool| {
        let shape = AxisShape { outer: count.unwrap_or(shape.outer), ..shape };
        let (x, y) = (elements(input)?, elements_mut(write)?);
        if log {
            triune_kernels::log_softmax(isa, shape, x, y, pool)
        } else {
            triune_kernels::softmax(isa, shape, x, y, pool)
        }
    });
    checker.finish([input], &output, true, step)
}

impl Prepare for command::FSoftmax {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        reals(checker, false, [self.input, self.output], self.dims)
    }
}

impl Prepare for command::FLogSoftmax {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        reals(checker, true, [self.input, self.output], self.dims)
    }
}

/// Constants for the elements of a row.
fn row(
    checker: &Checker<'_>,
    field: &'static str,
    addr: Option<Addr>,
    elements: u32,
) -> Result<Option<Vec<f32>>> {
    addr.map(|addr| {
        checker.keep(field, 4 * u64::from(elements))?;
        checker.floats(field, addr, Some(elements.into()))
    })
    .transpose()
}

impl Prepare for command::FNorm {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        let command::FNorm { dims: [rows, len], epsilon, .. } = *self;
        let input = dense(checker, "input", self.input, 4, [1, rows, len])?;
        let output = dense(checker, "output", self.output, 4, [1, rows, len])?;
        if !(epsilon.is_finite() && epsilon >= 0.0) {
            return bad("epsilon", format!("{epsilon} is below 0 or no number"));
        }
        let gamma = row(checker, "gamma", self.gamma, len)?;
        let beta = row(checker, "beta", self.beta, len)?;
        let len = len as usize;
        let isa = checker.isa;
        let bytes = size_of::<f32>() * len;
        let step = in_rows(Rows::dense(rows as usize, [bytes], bytes), move |_, [input, ..], write, pool| {
            let row = NormRow { len, epsilon, gamma: gamma.as_deref(), beta: beta.as_deref() };
            triune_kernels::normalize(isa, row, elements(input)?, elements_mut(write)?, pool)
        });
        checker.finish([input], &output, true, step)
    }
}

impl Prepare for command::QNorm {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        let command::QNorm { dtype, dims, input_quant, output_quant, epsilon, rounding, centred, .. } = *self;
        expect_dtype("dtype", dtype, EIGHT_BIT)?;
        let input = dense(checker, "input", self.input, 1, dims)?;
        let output = dense(checker, "output", self.output, 1, dims)?;
        expect_scale("input_quant.scale", input_quant.scale)?;
        expect_scale("output_quant.scale", output_quant.scale)?;
        q8("dtype", "output_quant.zero_point", dtype, output_quant.zero_point)?;
        if !centred {
            q8("dtype", "input_quant.zero_point", dtype, input_quant.zero_point)?;
        }
        if !(epsilon.is_finite() && epsilon > 0.0) {
            return bad("epsilon", format!("{epsilon} is not above 0"));
        }
        let shape = axis(dims);
        if shape.len > QNorm::MAX_LEN {
            return bad("dims", format!("an axis of {} elements, of at most {}", shape.len, QNorm::MAX_LEN));
        }
        let gamma = row(checker, "gamma", self.gamma, dims[1])?;
        let beta = row(checker, "beta", self.beta, dims[1])?;
        let norm = QNorm::new(&QNormSpec {
            len: shape.len,
            signed: dtype == DType::I8,
            about: (!centred).then_some(input_quant.zero_point),
            scale: input_quant.scale,
            epsilon,
            gamma: gamma.as_deref(),
            beta: beta.as_deref(),
            output: QuantParams { scale: output_quant.scale, zero_point: output_quant.zero_point },
            rounding,
        })
        .map_err(refused("dims"))?;
        let isa = checker.isa;
        let step = plain(move |[input, ..], write, pool| norm.run(isa, shape, input, write, pool));
        checker.finish([input], &output, true, step)
    }
}

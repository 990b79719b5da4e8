//! Perspective warps and weighted sums: maps, matrices and indices checked, the element type chosen.

use triune_kernels::{WarpSpec, WeighSpec};
use triune_tensor::DType;

use super::super::{
    check::{Checker, Result, bad, expect_dtype},
    operands::{Prepared, plain, with_scratch},
};
use super::{Prepare, elements, elements_mut};
use crate::command;

impl Prepare for command::Warp {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        expect_dtype("input", self.input.dtype, &[DType::F32, DType::I8, DType::U8])?;
        expect_dtype("output", self.output.dtype, &[self.input.dtype])?;
        let input = checker.map("input", &self.input)?;
        let output = checker.output_map("output", &self.output)?;
        let (from, to) = (input.nhwc, output.nhwc);
        if from.c != to.c {
            return bad("output", format!("has {} channels, the input {}", to.c, from.c));
        }
        if from.span() == 0 && to.span() > 0 {
            return bad("input", "is empty, and the output is not");
        }
        if self.images.is_none() && from.n != to.n {
            return bad(
                "output",
                format!("has {} images, the input {}, and no indices say which", to.n, from.n),
            );
        }
        if !self.border.value().is_finite() {
            return bad("border", "its value is not finite");
        }
        let images = to.n as u64;
        let matrices = checker.dense("matrices", self.matrices, 4, 9 * images)?;
        let spec = WarpSpec { sampling: self.sampling, border: self.border };
        let (dtype, indexed, isa) = (self.input.dtype, self.images.is_some(), checker.isa);
        let step = plain(move |[x, matrices, images, ..], write, pool| {
            let images = if indexed { Some(elements(images)?) } else { None };
            macro_rules! warp {
                ($type:ty) => {{
                    let (x, y, matrices) = (elements::<$type>(x)?, elements_mut(write)?, elements(matrices)?);
                    triune_kernels::warp_perspective(isa, &spec, matrices, images, x, from, y, to, pool)
                }};
            }
            match dtype {
                DType::U8 => warp!(u8),
                DType::I8 => warp!(i8),
                _ => warp!(f32),
            }
        });
        match self.images {
            Some(addr) => {
                let indices = checker.dense("images", addr, 4, images)?;
                checker.finish([input.placed, matrices, indices], &output.placed, false, step)
            }
            None => checker.finish([input.placed, matrices], &output.placed, false, step),
        }
    }
}

impl Prepare for command::Weigh {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        let command::Weigh { batch, channels, elements, count, taps, shared, .. } = *self;
        let floats = |factors: [u32; 3]| {
            factors.into_iter().fold(1_u64, |product, factor| product.saturating_mul(factor.into()))
        };
        let own = floats([if shared { 1 } else { batch }, taps, count]);
        let input = checker.dense("input", self.input, 4, floats([batch, channels, elements]))?;
        let indices = checker.dense("indices", self.indices, 4, own)?;
        let factors = self.factors.map(|addr| checker.dense("factors", addr, 4, own)).transpose()?;
        let output = checker.dense("output", self.output, 4, floats([batch, channels, count]))?;
        let [batch, channels, elements, count, taps] =
            [batch, channels, elements, count, taps].map(|extent| extent as usize);
        let spec = WeighSpec { batch, channels, elements, count, taps, shared };
        let (weighted, isa) = (factors.is_some(), checker.isa);
        let step = with_scratch(
            spec,
            |spec, threads| spec.scratch_floats(threads).saturating_mul(4),
            move |spec, [x, indices, factors, ..], write, scratch, pool| {
                let factors = if weighted { Some(super::elements(factors)?) } else { None };
                let (x, indices, write) =
                    (super::elements(x)?, super::elements(indices)?, elements_mut(write)?);
                triune_kernels::weigh(isa, spec, x, indices, factors, write, elements_mut(scratch)?, pool)
            },
        );
        checker.finish_some([Some(input), Some(indices), factors], &output, false, step)
    }
}

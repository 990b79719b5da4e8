//! Reductions: sums, products, extremes and their positions.

use triune_kernels::Reduction;
use triune_tensor::{DType, function::ReduceKind};

use super::super::{
    check::{Checker, Placed, Result, bad, expect_dtype, refused},
    operands::{Prepared, Rows, in_rows, plain},
};
use super::{Prepare, elements, elements_mut, with_number};
use crate::command::{self, Operand};

/// Checks both operands and makes the loop nest.
fn nest(
    checker: &Checker<'_>,
    dims: [u32; 6],
    reduced: [bool; 6],
    input: &Operand,
    output: &Operand,
) -> Result<(Placed, Placed, Reduction)> {
    let mut kept = dims;
    for (dim, _) in kept.iter_mut().zip(reduced).filter(|(_, reduced)| *reduced) {
        *dim = 1;
    }
    let input = checker.operand("input", input, dims)?;
    let output = checker.operand("output", output, kept)?;
    let extents = dims.map(|dim| dim as usize);
    let nest = Reduction::new(extents, input.element_strides(), output.element_strides(), reduced)
        .map_err(refused("dims"))?;
    Ok((input, output, nest))
}

impl Prepare for command::Reduce {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        let &command::Reduce { ref dims, ref axes, kind, ref input, ref output } = self;
        if *axes >= 1 << 6 {
            return bad("axes", format!("{axes:#x} names axes beyond the sixth"));
        }
        if input.dtype.is_half() || input.dtype.is_storage() {
            return bad("input", "half precision is converted before it is computed on");
        }
        expect_dtype("output", output.dtype, &[input.dtype])?;
        if input.dtype == DType::Bool && !matches!(kind, ReduceKind::Min | ReduceKind::Max) {
            return bad("kind", format!("no {kind} of bool"));
        }
        let dtype = input.dtype;
        let reduced = std::array::from_fn(|axis| axes >> axis & 1 == 1);
        let (input, output, nest) = nest(checker, *dims, reduced, input, output)?;
        let isa = checker.isa;
        let rows = Rows::nest(nest.rows(), [dtype.bytes(); 2]);
        let step = in_rows(rows, move |count, [x, ..], write, pool| {
            let nest = count.map_or(nest, |count| nest.of_rows(count));
            with_number!(dtype, T => {
                triune_kernels::reduce::<T>(isa, kind, &nest, elements(x)?, elements_mut(write)?, pool)
            })
        });
        checker.finish([input], &output, false, step)
    }
}

impl Prepare for command::ArgReduce {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        let command::ArgReduce { dims, axis, largest, last, input, output } = self;
        if *axis >= 6 {
            return bad("axis", format!("{axis} is none of six axes"));
        }
        if input.dtype.is_half() || input.dtype.is_storage() || input.dtype == DType::Bool {
            return bad(
                "input",
                format!("the type is {}, it can be an integer type, float32 or float64", input.dtype),
            );
        }
        expect_dtype("output", output.dtype, &[DType::I32, DType::I64])?;
        let (dtype, wide) = (input.dtype, output.dtype == DType::I64);
        let reduced = std::array::from_fn(|index| index == *axis as usize);
        let (input, output, nest) = nest(checker, *dims, reduced, input, output)?;
        let (largest, last, isa) = (*largest, *last, checker.isa);
        let step = plain(move |[x, ..], write, pool| {
            with_number!(dtype, T => {
                let x = elements::<T>(x)?;
                if wide {
                    triune_kernels::arg_reduce::<T, i64>(isa, largest, last, &nest, x, elements_mut(write)?, pool)
                } else {
                    triune_kernels::arg_reduce::<T, i32>(isa, largest, last, &nest, x, elements_mut(write)?, pool)
                }
            })
        });
        checker.finish([input], &output, false, step)
    }
}

//! Elements picked by index, and the order of elements along an axis.

use triune_kernels::{Error as KernelError, OrderSpec, Pool, Take, TakeSpec};
use triune_tensor::DType;

use super::super::{
    check::{Checker, Result, bad, expect_dtype, refused},
    operands::{MAX_READS, Prepared, Step},
};
use super::{elements, elements_mut, with_number};
use crate::command;

#[derive(Debug)]
struct TakeStep {
    take: Take,
    bytes: u32,
    wide: bool,
}

impl Step for TakeStep {
    fn run(
        &self,
        [source, indices, ..]: [&[u8]; MAX_READS],
        write: &mut [u8],
        _scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), KernelError> {
        macro_rules! take {
            ($type:ty) => {
                if self.wide {
                    self.take.run::<$type, i64>(
                        elements(source)?,
                        elements(indices)?,
                        elements_mut(write)?,
                        pool,
                    )
                } else {
                    self.take.run::<$type, i32>(
                        elements(source)?,
                        elements(indices)?,
                        elements_mut(write)?,
                        pool,
                    )
                }
            };
        }
        match self.bytes {
            1 => take!(u8),
            2 => take!(u16),
            4 => take!(u32),
            _ => take!(u64),
        }
    }
}

pub(super) fn take(checker: &Checker<'_>, command: &command::Take) -> Result<Prepared> {
    let command::Take {
        elem_bytes,
        dims,
        src,
        src_strides,
        indices,
        count,
        index_stride,
        extents,
        axis_strides,
        dst,
        dst_strides,
    } = command;
    if ![1, 2, 4, 8].contains(elem_bytes) {
        return bad("elem_bytes", format!("{elem_bytes} is not 1, 2, 4 or 8"));
    }
    if *count == 0 || *count > 6 {
        return bad("count", format!("{count} indexed axes, 1 to 6 are possible"));
    }
    expect_dtype("indices", indices.dtype, &[DType::I32, DType::I64])?;
    let elem = u64::from(*elem_bytes);
    let index_bytes = indices.dtype.bytes() as u64;
    let axes = *count as usize;
    let wide_dims = dims.map(u64::from);
    // The bytes that any index can lead to: the indexed axes' whole extents beside the fixed places.
    let mut reach = 0_u64;
    for axis in 0..axes {
        if extents[axis] == 0 {
            return bad("extents", format!("extent {axis} is 0"));
        }
        if !axis_strides[axis].is_multiple_of(elem) {
            return bad("axis_strides", format!("{} is not a multiple of {elem}", axis_strides[axis]));
        }
        let more = u64::from(extents[axis] - 1).checked_mul(axis_strides[axis]);
        let Some(sum) = more.and_then(|more| reach.checked_add(more)) else {
            return bad("axis_strides", "the indexed extents overflow");
        };
        reach = sum;
    }
    let fixed = checker.strided("src", *src, elem, wide_dims, *src_strides)?;
    let source = checker.widened(&fixed, reach)?;
    let operand = checker.strided("indices", indices.addr, index_bytes, wide_dims, indices.strides)?;
    if !index_stride.is_multiple_of(index_bytes) {
        return bad("index_stride", format!("{index_stride} is not a multiple of {index_bytes}"));
    }
    let Some(more) = index_stride.checked_mul(u64::from(count - 1)) else {
        return bad("index_stride", "the indices overflow");
    };
    let index_operand = checker.widened(&operand, more)?;
    let output = checker.strided("dst", *dst, elem, wide_dims, *dst_strides)?;
    let spec = TakeSpec {
        dims: dims.map(|dim| dim as usize),
        source: fixed.element_strides(),
        indices: operand.element_strides(),
        output: output.element_strides(),
        count: axes,
        index_stride: (index_stride / index_bytes) as usize,
        extents: extents.map(|extent| extent as usize),
        strides: axis_strides.map(|stride| (stride / elem) as usize),
    };
    let take = Take::new(spec).map_err(refused("dims"))?;
    let step = TakeStep { take, bytes: *elem_bytes, wide: indices.dtype == DType::I64 };
    checker.finish([source, index_operand], &output, false, step)
}

#[derive(Debug)]
struct OrderStep {
    spec: OrderSpec,
    dtype: DType,
}

impl Step for OrderStep {
    fn scratch_bytes(&self, threads: usize) -> usize {
        self.spec.scratch_words(threads).saturating_mul(4)
    }

    fn run(
        &self,
        [x, ..]: [&[u8]; MAX_READS],
        write: &mut [u8],
        scratch: &mut [u8],
        pool: &Pool,
    ) -> Result<(), KernelError> {
        let scratch = elements_mut(&mut scratch[..self.scratch_bytes(pool.threads())])?;
        with_number!(self.dtype, T => {
            triune_kernels::order::<T>(&self.spec, elements(x)?, elements_mut(write)?, scratch, pool)
        })
    }
}

pub(super) fn order(checker: &Checker<'_>, command: &command::Order) -> Result<Prepared> {
    let command::Order { input, dtype, dims, k, descending, output } = command;
    if matches!(dtype, DType::F16 | DType::Bool) {
        return bad("dtype", format!("the type is {dtype}, it can be an integer type, float32 or float64"));
    }
    let [outer, len, inner] = dims.map(u64::from);
    if u64::from(*k) > len {
        return bad("k", format!("{k} of {len} elements"));
    }
    let rows = outer.saturating_mul(inner);
    let bytes = dtype.bytes() as u64;
    let input = checker.dense("input", *input, bytes, rows.saturating_mul(len))?;
    let output = checker.dense("output", *output, 8, rows.saturating_mul(u64::from(*k)))?;
    let [outer, len, inner] = dims.map(|dim| dim as usize);
    let spec = OrderSpec { outer, len, inner, k: *k as usize, descending: *descending };
    checker.finish([input], &output, false, OrderStep { spec, dtype: *dtype })
}

//! Elements picked by index, and their order and running sums along an axis.

use triune_kernels::{OrderSpec, RunningSpec, Take, TakeSpec};
use triune_tensor::{DType, function::ScatterKind};

use super::super::{
    check::{Checker, Placed, Result, bad, expect_dtype, refused},
    operands::{Prepared, plain, with_scratch},
};
use super::{Prepare, elements, elements_mut, with_number};
use crate::command;

/// How indices lead to places beside the fixed ones.
struct Indexed<'c> {
    dims: [u32; 6],
    indices: &'c command::Operand,
    count: u32,
    index_stride: u64,
    extents: &'c [u32; 6],
    axis_strides: &'c [u64; 6],
}

impl Indexed<'_> {
    /// The bytes that any index can lead to beyond a fixed place: the indexed axes' whole extents.
    fn reach(&self, elem: u64) -> Result<u64> {
        let Self { count, extents, axis_strides, .. } = self;
        if *count == 0 || *count > 6 {
            return bad("count", format!("{count} indexed axes, 1 to 6 are possible"));
        }
        expect_dtype("indices", self.indices.dtype, &[DType::I32, DType::I64])?;
        let mut reach = 0_u64;
        for axis in 0..*count as usize {
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
        Ok(reach)
    }

    /// The indices of all elements: those along the first indexed axis, and all of them.
    fn operands(&self, checker: &Checker<'_>) -> Result<[Placed; 2]> {
        let Self { indices, count, index_stride, .. } = self;
        let bytes = indices.dtype.bytes() as u64;
        let first =
            checker.strided("indices", indices.addr, bytes, self.dims.map(u64::from), indices.strides)?;
        if !index_stride.is_multiple_of(bytes) {
            return bad("index_stride", format!("{index_stride} is not a multiple of {bytes}"));
        }
        let Some(more) = index_stride.checked_mul(u64::from(count - 1)) else {
            return bad("index_stride", "the indices overflow");
        };
        Ok([first, checker.widened(&first, more)?])
    }

    /// For elements that lie `fixed` in what is indexed, and `own` by themselves.
    fn kernel(&self, first: &Placed, fixed: &Placed, own: &Placed, elem: u64) -> Result<Take> {
        let spec = TakeSpec {
            dims: self.dims.map(|dim| dim as usize),
            source: fixed.element_strides(),
            indices: first.element_strides(),
            output: own.element_strides(),
            count: self.count as usize,
            index_stride: (self.index_stride / self.indices.dtype.bytes() as u64) as usize,
            extents: self.extents.map(|extent| extent as usize),
            strides: self.axis_strides.map(|stride| (stride / elem) as usize),
        };
        Take::new(spec).map_err(refused("dims"))
    }
}

impl Prepare for command::Take {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
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
        } = self;
        if ![1, 2, 4, 8].contains(elem_bytes) {
            return bad("elem_bytes", format!("{elem_bytes} is not 1, 2, 4 or 8"));
        }
        let elem = u64::from(*elem_bytes);
        let indexed = Indexed {
            dims: *dims,
            indices,
            count: *count,
            index_stride: *index_stride,
            extents,
            axis_strides,
        };
        let reach = indexed.reach(elem)?;
        let fixed = checker.strided("src", *src, elem, dims.map(u64::from), *src_strides)?;
        let source = checker.widened(&fixed, reach)?;
        let [first, all] = indexed.operands(checker)?;
        let output = checker.strided("dst", *dst, elem, dims.map(u64::from), *dst_strides)?;
        let take = indexed.kernel(&first, &fixed, &output, elem)?;
        let bytes = *elem_bytes;
        let wide = indices.dtype == DType::I64;
        let isa = checker.isa;
        let step = plain(move |[source, indices, ..], write, pool| {
            macro_rules! take {
                ($type:ty) => {
                    if wide {
                        take.run::<$type, i64>(
                            isa,
                            elements(source)?,
                            elements(indices)?,
                            elements_mut(write)?,
                            pool,
                        )
                    } else {
                        take.run::<$type, i32>(
                            isa,
                            elements(source)?,
                            elements(indices)?,
                            elements_mut(write)?,
                            pool,
                        )
                    }
                };
            }
            match bytes {
                1 => take!(u8),
                2 => take!(u16),
                4 => take!(u32),
                _ => take!(u64),
            }
        });
        checker.finish([source, all], &output, false, step)
    }
}

impl Prepare for command::Put {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        let command::Put {
            dtype,
            kind,
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
        } = self;
        if *kind != ScatterKind::Set && (dtype.is_half() || dtype.is_storage() || *dtype == DType::Bool) {
            return bad(
                "dtype",
                format!("the type is {dtype}, it can be an integer type, float32 or float64"),
            );
        }
        let elem = dtype.bytes() as u64;
        let indexed = Indexed {
            dims: *dims,
            indices,
            count: *count,
            index_stride: *index_stride,
            extents,
            axis_strides,
        };
        let reach = indexed.reach(elem)?;
        let updates = checker.strided("src", *src, elem, dims.map(u64::from), *src_strides)?;
        let fixed = checker.strided("dst", *dst, elem, dims.map(u64::from), *dst_strides)?;
        let [first, all] = indexed.operands(checker)?;
        let places = indexed.kernel(&first, &fixed, &updates, elem)?;
        // Elements go anywhere between the first and the last one.
        let Some(bytes) = fixed.range.len.checked_add(reach) else {
            return bad("dst", "its extents overflow");
        };
        let target = checker.dense("dst", *dst, elem, bytes / elem)?;
        let kind = *kind;
        let dtype = *dtype;
        let wide = indices.dtype == DType::I64;
        let step = plain(move |[updates, indices, ..], write, _pool| {
            macro_rules! with_indices {
            ($method:ident::<$type:ty>($($more:expr),*)) => {{
                let (updates, target) = (elements(updates)?, elements_mut(write)?);
                if wide {
                    places.$method::<$type, i64>(updates, elements(indices)?, target $(, $more)*)
                } else {
                    places.$method::<$type, i32>(updates, elements(indices)?, target $(, $more)*)
                }
            }};
        }
            if kind != ScatterKind::Set {
                return with_number!(dtype, T => with_indices!(put_with::<T>(kind)));
            }
            match dtype.bytes() {
                1 => with_indices!(put::<u8>()),
                2 => with_indices!(put::<u16>()),
                4 => with_indices!(put::<u32>()),
                _ => with_indices!(put::<u64>()),
            }
        });
        checker.finish([updates, all], &target, false, step)
    }
}

impl Prepare for command::Order {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        let command::Order { input, dtype, dims, k, descending, output } = self;
        if dtype.is_half() || dtype.is_storage() || *dtype == DType::Bool {
            return bad(
                "dtype",
                format!("the type is {dtype}, it can be an integer type, float32 or float64"),
            );
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
        let dtype = *dtype;
        let step = with_scratch(
            spec,
            |spec, threads| spec.scratch_words(threads).saturating_mul(8),
            move |spec, [x, ..], write, scratch, pool| {
                with_number!(dtype, T => {
                    triune_kernels::order::<T>(spec, elements(x)?, elements_mut(write)?, elements_mut(scratch)?, pool)
                })
            },
        );
        checker.finish([input], &output, false, step)
    }
}

impl Prepare for command::Running {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        let command::Running { input, output, dtype, dims, product, exclusive, reverse } = self;
        if dtype.is_half() || dtype.is_storage() || *dtype == DType::Bool {
            return bad(
                "dtype",
                format!("the type is {dtype}, it can be an integer type, float32 or float64"),
            );
        }
        let count = dims.iter().fold(1_u64, |product, &dim| product.saturating_mul(dim.into()));
        let bytes = dtype.bytes() as u64;
        let input = checker.dense("input", *input, bytes, count)?;
        let output = checker.dense("output", *output, bytes, count)?;
        let [outer, len, inner] = dims.map(|dim| dim as usize);
        let (product, exclusive, reverse) = (*product, *exclusive, *reverse);
        let spec = RunningSpec { outer, len, inner, product, exclusive, reverse };
        let dtype = *dtype;
        let isa = checker.isa;
        checker.finish(
            [input],
            &output,
            false,
            plain(move |[x, ..], write, pool| {
                with_number!(dtype, T => {
                    triune_kernels::running::<T>(isa, &spec, elements(x)?, elements_mut(write)?, pool)
                })
            }),
        )
    }
}

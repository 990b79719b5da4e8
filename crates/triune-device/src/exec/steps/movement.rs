//! Copies, fills and resampling: elements move, or are made from their neighbours.

use triune_kernels::{CopyNd, CopySpec, QResize, Resize, ResizeSpec};
use triune_tensor::{DType, function::ResizeMode};

use super::super::{
    check::{Checker, Result, bad, expect_dtype, refused},
    operands::{Prepared, Rows, in_rows, plain},
};
use super::{Prepare, conv::q8, elements, elements_mut, expect_scale};
use crate::command;

/// Refuses element sizes that there is no type of.
fn expect_elem_bytes(elem_bytes: u32) -> Result<()> {
    if [1, 2, 4, 8].contains(&elem_bytes) {
        Ok(())
    } else {
        bad("elem_bytes", format!("{elem_bytes} is not 1, 2, 4 or 8"))
    }
}

impl Prepare for command::Copy {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        let command::Copy { elem_bytes, dims, src, src_strides, dst, dst_strides } = *self;
        expect_elem_bytes(elem_bytes)?;
        let extents = dims.map(u64::from);
        let src = checker.strided("src", src, elem_bytes.into(), extents, src_strides)?;
        let dst = checker.strided("dst", dst, elem_bytes.into(), extents, dst_strides)?;
        let spec = CopySpec {
            elem_bytes: elem_bytes as usize,
            dims: dims.map(|dim| dim as usize),
            src_offset: 0,
            src_strides: src.strides().map(u64::cast_signed),
            dst_strides: dst.strides().map(|stride| stride as usize),
        };
        let copy = CopyNd::new(&spec).map_err(refused("dims"))?;
        let outermost = outermost(&spec);
        let rows = outermost.and_then(|axis| {
            let (count, row) = (spec.dims[axis], spec.dst_strides[axis]);
            Rows::dense(count, [spec.src_strides[axis] as usize], row)
        });
        let step = in_rows(rows, move |some, [src, ..], write, pool| match (some, outermost) {
            (Some(count), Some(axis)) => {
                let mut spec = spec;
                spec.dims[axis] = count;
                CopyNd::new(&spec)?.run(src, write, pool)
            }
            _ => copy.run(src, write, pool),
        });
        checker.finish([src], &dst, false, step)
    }
}

/// The axis that a copy can be cut along: the outermost one of a destination without gaps, unless the source's neighbours lie along it,
/// which are to be read together.
fn outermost(spec: &CopySpec) -> Option<usize> {
    let axis = spec.dims.iter().position(|&dim| dim > 1)?;
    let mut dense = spec.elem_bytes;
    for at in (axis..spec.dims.len()).rev().filter(|&at| spec.dims[at] > 1) {
        if spec.dst_strides[at] != dense {
            return None;
        }
        dense = dense.checked_mul(spec.dims[at])?;
    }
    (spec.src_strides[axis] > spec.elem_bytes as i64).then_some(axis)
}

impl Prepare for command::Fill {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        let command::Fill { elem_bytes, dims, dst, dst_strides, value } = *self;
        expect_elem_bytes(elem_bytes)?;
        if elem_bytes < 8 && value >> (8 * elem_bytes) != 0 {
            return bad("value", format!("{value:#x} has more than {elem_bytes} bytes"));
        }
        let dst = checker.strided("dst", dst, elem_bytes.into(), dims.map(u64::from), dst_strides)?;
        let strides = dst.strides().map(|stride| stride as usize);
        let fill = CopyNd::fill(elem_bytes as usize, dims.map(|dim| dim as usize), strides)
            .map_err(refused("dims"))?;
        let value = value.to_le_bytes();
        let elem_bytes = elem_bytes as usize;
        let step = plain(move |_reads, write, pool| fill.run(&value[..elem_bytes], write, pool));
        checker.finish([], &dst, false, step)
    }
}

impl Prepare for command::Resize {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        let (mode, coordinates) = (self.mode, self.coordinates);
        let mut blend = None;
        if mode == ResizeMode::Linear {
            expect_dtype("input", self.input.dtype, &[DType::F32, DType::I8, DType::U8])?;
            if self.input.dtype != DType::F32 {
                let [input, output] = self.zero_points;
                let bytes = |zero_point| q8("input", "zero_points", self.input.dtype, zero_point);
                expect_scale("factor", self.factor)?;
                let (factor, rounding) = (self.factor, self.rounding);
                blend = Some(QResize { input: bytes(input)?, output: bytes(output)?, factor, rounding });
            }
        }
        expect_dtype("output", self.output.dtype, &[self.input.dtype])?;
        let input = checker.map("input", &self.input)?;
        let output = checker.output_map("output", &self.output)?;
        let (from, to) = (input.nhwc, output.nhwc);
        if (from.n, from.c) != (to.n, to.c) {
            return bad("output", format!("has n, c = {}, {}, the input {}, {}", to.n, to.c, from.n, from.c));
        }
        let spec = ResizeSpec {
            mode,
            coordinates,
            input: [from.h, from.w],
            output: [to.h, to.w],
            scales: (self.scales != [0.0; 2]).then_some(self.scales),
        };
        checker.keep("output", Resize::table_bytes(&spec) as u64)?;
        let resize = Resize::new(&spec).map_err(refused("scales"))?;
        let (dtype, isa) = (self.input.dtype, checker.isa);
        let step = plain(move |[x, ..], write, pool| {
            if let Some(blend) = blend {
                return resize.run_q8(isa, blend, x, from, write, to, pool);
            }
            macro_rules! nearest {
                ($type:ty) => {
                    resize.run_nearest::<$type>(elements(x)?, from, elements_mut(write)?, to, pool)
                };
            }
            match (dtype, dtype.bytes()) {
                (DType::F32, _) => resize.run_f32(isa, elements(x)?, from, elements_mut(write)?, to, pool),
                (_, 1) => nearest!(u8),
                (_, 2) => nearest!(u16),
                (_, 4) => nearest!(u32),
                _ => nearest!(u64),
            }
        });
        checker.finish([input.placed], &output.placed, false, step)
    }
}

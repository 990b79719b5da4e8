//! Element by element: additions, multiplications, functions, tables.

use triune_kernels::{Broadcast, Nhwc, Q16Target, QMul, Rotation, Row, Then, Triple};
use triune_tensor::{
    DType,
    function::{BinaryKind, UnaryKind},
};

use super::super::{
    check::{Checker, Placed, Result, bad, expect_dtype, expect_same_extents, refused},
    operands::{Prepared, Rows, in_rows, plain, with_scratch},
};
use super::conv::{expect_clamp, q8, qadd_params};
use super::{EIGHT_BIT, FLOAT, Prepare, SIXTEEN_BIT, SIXTEEN_BIT_RANGE, elements, elements_mut, expect_zero};
use crate::command::{self, Operand};

/// Three checked operands and their loop nest.
pub(super) struct Binaries {
    pub(super) a: Placed,
    pub(super) b: Placed,
    pub(super) output: Placed,
    pub(super) shape: Broadcast,
}

/// Maps without gaps element by element, of so many bytes each, as rows.
pub(super) fn flat_rows(from: Nhwc, to: Nhwc, bytes: [usize; 2]) -> Option<Rows> {
    let dense = from.is_dense() && to.is_dense();
    Rows::dense(from.elements(), [bytes[0]], bytes[1]).filter(|_| dense)
}

/// So many of these elements.
pub(super) const fn flat(count: usize) -> (Nhwc, Nhwc) {
    let map = Nhwc::dense(1, 1, count, 1);
    (map, map)
}

pub(super) fn broadcast(
    checker: &Checker<'_>,
    dims: [u32; 6],
    a: &Operand,
    b: &Operand,
    output: &Operand,
) -> Result<Binaries> {
    let placed = [
        checker.operand("a", a, dims)?,
        checker.operand("b", b, dims)?,
        checker.operand("output", output, dims)?,
    ];
    let [x, y, out] = placed.map(|operand| operand.element_strides());
    let shape = Broadcast::new(dims.map(|dim| dim as usize), x, y, out).map_err(refused("dims"))?;
    let [a, b, output] = placed;
    Ok(Binaries { a, b, output, shape })
}

impl Prepare for command::QAdd {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        let command::QAdd { dims, a, b, output, params, .. } = self;
        if a.dtype == DType::I16 {
            return q16_add(checker, self);
        }
        let add = qadd_params(params, true).map_err(|error| error.within("params"))?;
        expect_dtype("a", a.dtype, &[params.a.dtype])?;
        expect_dtype("b", b.dtype, &[params.b.dtype])?;
        expect_dtype("output", output.dtype, &[params.out.dtype])?;
        let Binaries { a, b, output, shape } = broadcast(checker, *dims, a, b, output)?;
        let isa = checker.isa;
        checker.finish(
            [a, b],
            &output,
            true,
            plain(move |[a, b, ..], write, pool| {
                triune_kernels::q8_add(isa, &add, &shape, a, b, write, pool)
            }),
        )
    }
}

impl Prepare for command::QMul {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        let command::QMul { dims, a, b, output, zero_points, multiplier, rounding, clamp, .. } = self;
        if a.dtype == DType::I16 {
            return q16_mul(checker, self);
        }
        let [za, zb, zout] = *zero_points;
        let mul = QMul {
            a: q8("a", "zero_points.0", a.dtype, za)?,
            b: q8("b", "zero_points.1", b.dtype, zb)?,
            out: q8("output", "zero_points.2", output.dtype, zout)?,
            multiplier: *multiplier,
            rounding: *rounding,
            clamp: *clamp,
        };
        expect_clamp("clamp", *clamp, mul.out.range())?;
        mul.check().map_err(refused("multiplier"))?;
        let Binaries { a, b, output, shape } = broadcast(checker, *dims, a, b, output)?;
        let isa = checker.isa;
        checker.finish(
            [a, b],
            &output,
            true,
            plain(move |[a, b, ..], write, pool| {
                triune_kernels::q8_mul(isa, &mul, &shape, a, b, write, pool)
            }),
        )
    }
}

fn q16_add(checker: &Checker<'_>, command: &command::QAdd) -> Result<Prepared> {
    let command::QAdd { dims, a, b, output, params, .. } = command;
    for (field, operand, target) in [("a", a, params.a), ("b", b, params.b), ("output", output, params.out)] {
        expect_dtype(field, operand.dtype, SIXTEEN_BIT)?;
        expect_dtype(field, target.dtype, SIXTEEN_BIT)?;
        expect_zero(field, target.zero_point)?;
    }
    expect_clamp("params.clamp", params.clamp, SIXTEEN_BIT_RANGE)?;
    if params.k != 0.0 || !params.ra.is_finite() || !params.rb.is_finite() {
        return bad("params", "a constant that is not 0, or a factor that is not finite");
    }
    let Binaries { a, b, output, shape } = broadcast(checker, *dims, a, b, output)?;
    let target = Q16Target { rounding: params.rounding, clamp: params.clamp };
    let factors = [params.ra, params.rb];
    let step = plain(move |[a, b, ..], write, pool| {
        let (a, b, write) = (elements(a)?, elements(b)?, elements_mut(write)?);
        triune_kernels::q16_add(factors, target, &shape, a, b, write, pool)
    });
    checker.finish([a, b], &output, true, step)
}

fn q16_mul(checker: &Checker<'_>, command: &command::QMul) -> Result<Prepared> {
    let command::QMul { dims, a, b, output, zero_points, multiplier, rounding, clamp, .. } = command;
    for ((field, operand), zero_point) in
        [("a", a), ("b", b), ("output", output)].into_iter().zip(zero_points)
    {
        expect_dtype(field, operand.dtype, SIXTEEN_BIT)?;
        expect_zero(field, *zero_point)?;
    }
    expect_clamp("clamp", *clamp, SIXTEEN_BIT_RANGE)?;
    if !multiplier.is_finite() {
        return bad("multiplier", "is not finite");
    }
    let Binaries { a, b, output, shape } = broadcast(checker, *dims, a, b, output)?;
    let target = Q16Target { rounding: *rounding, clamp: *clamp };
    let factor = *multiplier;
    let step = plain(move |[a, b, ..], write, pool| {
        let (a, b, write) = (elements(a)?, elements(b)?, elements_mut(write)?);
        triune_kernels::q16_mul(factor, target, &shape, a, b, write, pool)
    });
    checker.finish([a, b], &output, true, step)
}

impl Prepare for command::FBinary {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        let command::FBinary { dims, kind, a, b, output, activation } = self;
        expect_dtype("a", a.dtype, FLOAT)?;
        expect_dtype("b", b.dtype, FLOAT)?;
        expect_dtype("output", output.dtype, FLOAT)?;
        let kind = *kind;
        if !triune_kernels::has_float(kind) {
            return bad("kind", format!("no {kind} of reals here"));
        }
        let activation = *activation;
        let Binaries { a, b, output, mut shape } = broadcast(checker, *dims, a, b, output)?;
        let isa = checker.isa;
        if activation != UnaryKind::Identity {
            let Some(map) = output.collapse() else {
                return bad(
                    "activation",
                    "needs an output of at most four separate axes, the last contiguous",
                );
            };
            let dense = Nhwc::dense(map.n, map.h, map.w, map.c);
            let [x, y] = [a, b].map(|operand| operand.element_strides());
            shape = Broadcast::new(dims.map(|dim| dim as usize), x, y, output.dense_strides())
                .map_err(refused("dims"))?;
            // The function's results go to scratch, densely, and from there to the output.
            let step = with_scratch(
                shape,
                move |_, _| 4 * dense.elements(),
                move |shape, [a, b, ..], write, scratch, pool| {
                    let raw = elements_mut(scratch)?;
                    triune_kernels::binary(isa, kind, shape, elements(a)?, elements(b)?, raw, pool)?;
                    triune_kernels::unary(isa, activation, raw, dense, elements_mut(write)?, map, pool)
                },
            );
            return checker.finish([a, b], &output, true, step);
        }
        let rows = Rows::nest(shape.rows(), [size_of::<f32>(); 3]);
        let step = in_rows(rows, move |count, [a, b, ..], write, pool| {
            let shape = count.map_or(shape, |count| shape.of_rows(count));
            triune_kernels::binary(isa, kind, &shape, elements(a)?, elements(b)?, elements_mut(write)?, pool)
        });
        checker.finish([a, b], &output, true, step)
    }
}

impl Prepare for command::FTriple {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        let command::FTriple { dims, then, a, b, c, output } = self;
        for (field, operand) in [("a", a), ("b", b), ("c", c), ("output", output)] {
            expect_dtype(field, operand.dtype, FLOAT)?;
        }
        let then = match then {
            BinaryKind::Add => Then::Add,
            BinaryKind::Mul => Then::Mul,
            other => return bad("then", format!("{other} of a product; it can be add or mul")),
        };
        let [a, b, c] = [
            checker.operand("a", a, *dims)?,
            checker.operand("b", b, *dims)?,
            checker.operand("c", c, *dims)?,
        ];
        let output = checker.operand("output", output, *dims)?;
        let strides = [a, b, c].map(|operand| operand.element_strides());
        let shape = Triple::new(dims.map(|dim| dim as usize), strides, output.element_strides())
            .map_err(refused("dims"))?;
        let isa = checker.isa;
        let rows = Rows::nest(shape.rows(), [size_of::<f32>(); 4]);
        let step = in_rows(rows, move |count, [a, b, c, ..], write, pool| {
            let shape = count.map_or(shape, |count| shape.of_rows(count));
            let operands = [elements(a)?, elements(b)?, elements(c)?];
            triune_kernels::triple(isa, then, &shape, operands, elements_mut(write)?, pool)
        });
        checker.finish([a, b, c], &output, true, step)
    }
}

impl Prepare for command::Rotate {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        let command::Rotate { dims, pairs, interleaved, input, cosines, sines, output } = self;
        for (field, operand) in [("input", input), ("cosines", cosines), ("sines", sines), ("output", output)]
        {
            expect_dtype(field, operand.dtype, FLOAT)?;
            if operand.strides[5] != size_of::<f32>() as u64 {
                return bad(field, "has gaps between the elements of a row");
            }
        }
        let [.., len] = *dims;
        let mut angles = *dims;
        angles[5] = *pairs;
        let operands = [
            checker.operand("input", input, *dims)?,
            checker.operand("cosines", cosines, angles)?,
            checker.operand("sines", sines, angles)?,
        ];
        let output = checker.operand("output", output, *dims)?;
        let row = Row { len: len as usize, pairs: *pairs as usize, interleaved: *interleaved };
        let [x, cosines, sines] = operands;
        let strides = [output, x, cosines, sines].map(|operand| operand.element_strides());
        let mut rows = dims.map(|dim| dim as usize);
        rows[5] = 1;
        let shape = Rotation::new(rows, row, strides).map_err(refused("dims"))?;
        let isa = checker.isa;
        let step = plain(move |[x, cosines, sines, ..], write, pool| {
            let operands = [elements(x)?, elements(cosines)?, elements(sines)?];
            triune_kernels::rotate(isa, &shape, operands, elements_mut(write)?, pool)
        });
        checker.finish(operands, &output, false, step)
    }
}

impl Prepare for command::FUnary {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        let function = self.function;
        if self.input.dtype == DType::F64 {
            expect_dtype("output", self.output.dtype, &[DType::F64])?;
            let input = checker.map("input", &self.input)?;
            let output = checker.output_map("output", &self.output)?;
            expect_same_extents("output", &output.nhwc, &input.nhwc)?;
            if [&self.input, &self.output].iter().any(|map| !map.is_dense()) {
                return bad("input", "float64 elements lie one after the other");
            }
            let isa = checker.isa;
            let rows = Rows::dense(input.nhwc.elements(), [size_of::<f64>()], size_of::<f64>());
            let step = in_rows(rows, move |_, [x, ..], write, pool| {
                triune_kernels::double_unary(isa, function, elements(x)?, elements_mut(write)?, pool)
            });
            return checker.finish([input.placed], &output.placed, true, step);
        }
        expect_dtype("input", self.input.dtype, FLOAT)?;
        expect_dtype("output", self.output.dtype, FLOAT)?;
        let input = checker.map("input", &self.input)?;
        let output = checker.output_map("output", &self.output)?;
        expect_same_extents("output", &output.nhwc, &input.nhwc)?;
        let (from, to, isa) = (input.nhwc, output.nhwc, checker.isa);
        let rows = flat_rows(from, to, [size_of::<f32>(); 2]);
        let step = in_rows(rows, move |count, [x, ..], write, pool| {
            let (from, to) = count.map_or((from, to), flat);
            triune_kernels::unary(isa, function, elements(x)?, from, elements_mut(write)?, to, pool)
        });
        checker.finish([input.placed], &output.placed, true, step)
    }
}

impl Prepare for command::Table {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        if self.input.dtype == DType::I16 {
            return q16_table(checker, self);
        }
        expect_dtype("input", self.input.dtype, EIGHT_BIT)?;
        expect_dtype("output", self.output.dtype, EIGHT_BIT)?;
        let table = Box::new(checker.table("table", self.table)?);
        let input = checker.map("input", &self.input)?;
        let output = checker.output_map("output", &self.output)?;
        expect_same_extents("output", &output.nhwc, &input.nhwc)?;
        let (from, to, isa) = (input.nhwc, output.nhwc, checker.isa);
        let step = in_rows(flat_rows(from, to, [1, 1]), move |count, [x, ..], write, pool| {
            let (from, to) = count.map_or((from, to), flat);
            triune_kernels::table(isa, &table, x, from, write, to, pool)
        });
        checker.finish([input.placed], &output.placed, true, step)
    }
}

impl Prepare for command::Tables {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        expect_dtype("input", self.input.dtype, EIGHT_BIT)?;
        expect_dtype("output", self.output.dtype, EIGHT_BIT)?;
        let count = if self.by_rows { self.input.h } else { self.input.c };
        let tables = checker.byte_tables("tables", self.tables, count)?;
        let input = checker.map("input", &self.input)?;
        let output = checker.output_map("output", &self.output)?;
        expect_same_extents("output", &output.nhwc, &input.nhwc)?;
        let (from, to, isa, by_rows) = (input.nhwc, output.nhwc, checker.isa, self.by_rows);
        let step = plain(move |[x, ..], write, pool| {
            triune_kernels::tables(isa, &tables, by_rows, x, from, write, to, pool)
        });
        checker.finish([input.placed], &output.placed, true, step)
    }
}

fn q16_table(checker: &Checker<'_>, command: &command::Table) -> Result<Prepared> {
    expect_dtype("output", command.output.dtype, SIXTEEN_BIT)?;
    let table = checker.q16_table("table", command.table)?;
    let input = checker.map("input", &command.input)?;
    let output = checker.output_map("output", &command.output)?;
    expect_same_extents("output", &output.nhwc, &input.nhwc)?;
    let (from, to) = (input.nhwc, output.nhwc);
    let step = plain(move |[x, ..], write, pool| {
        triune_kernels::q16_table(&table, elements(x)?, from, elements_mut(write)?, to, pool)
    });
    checker.finish([input.placed], &output.placed, true, step)
}

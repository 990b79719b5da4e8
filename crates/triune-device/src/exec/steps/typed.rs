//! Arithmetic, comparisons and conversions over every number type, and choices between two operands.

use triune_kernels::{BF16, Broadcast, Choice, Error as KernelError, F16, Isa, Pool, Truth};
use triune_tensor::{DType, function::BinaryKind};

use super::super::{
    check::{Checker, Result, bad, expect_dtype, refused},
    operands::{Prepared, Rows, Step, in_rows, with_scratch},
};
use super::{Prepare, elements, elements_mut, with_number};
use crate::command;

/// A function of two elements of a type.
fn binary_step(isa: Isa, kind: BinaryKind, dtype: DType, shape: Broadcast) -> impl Step + 'static {
    let bytes = dtype.bytes();
    let written = if kind.comparison().is_some() { 1 } else { bytes };
    let rows = Rows::nest(shape.rows(), [written, bytes, bytes]);
    in_rows(rows, move |count, [a, b, ..], write, pool| {
        let shape = &count.map_or(shape, |count| shape.of_rows(count));
        if let Some(kind) = kind.comparison() {
            return with_number!(dtype, T => {
                triune_kernels::compare::<T>(isa, kind, shape, elements(a)?, elements(b)?, write, pool)
            });
        }
        macro_rules! integer {
            ($type:ty) => {
                triune_kernels::integer_binary::<$type>(
                    isa,
                    kind,
                    shape,
                    elements(a)?,
                    elements(b)?,
                    elements_mut(write)?,
                    pool,
                )
            };
        }
        match dtype {
            DType::Bool | DType::U8 => integer!(u8),
            DType::I8 => integer!(i8),
            DType::U16 => integer!(u16),
            DType::I16 => integer!(i16),
            DType::U32 => integer!(u32),
            DType::I32 => integer!(i32),
            DType::U64 => integer!(u64),
            DType::I64 => integer!(i64),
            DType::F64 => {
                let (a, b) = (elements(a)?, elements(b)?);
                triune_kernels::double_binary(isa, kind, shape, a, b, elements_mut(write)?, pool)
            }
            _ => Err(KernelError::Invalid("the type has no arithmetic here")),
        }
    })
}

impl Prepare for command::Binary {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        let command::Binary { dims, kind, a, b, output } = self;
        let (kind, dtype) = (*kind, a.dtype);
        expect_dtype("b", b.dtype, &[dtype])?;
        if dtype.is_half() || dtype.is_storage() {
            return bad("a", format!("{dtype} is converted before it is computed on"));
        }
        if kind.comparison().is_some() {
            expect_dtype("output", output.dtype, &[DType::Bool])?;
        } else {
            expect_dtype("output", output.dtype, &[dtype])?;
            let logic = matches!(
                kind,
                BinaryKind::And | BinaryKind::Or | BinaryKind::Xor | BinaryKind::Min | BinaryKind::Max
            );
            let fits = match dtype {
                DType::F32 => false,
                DType::F64 => triune_kernels::has_double(kind),
                DType::Bool => logic,
                _ => triune_kernels::has_integer(kind),
            };
            if !fits {
                return bad("kind", format!("no {kind} of {dtype} here"));
            }
        }
        let [a, b, output] = [
            checker.operand("a", a, *dims)?,
            checker.operand("b", b, *dims)?,
            checker.operand("output", output, *dims)?,
        ];
        let [x, y, out] = [a, b, output].map(|operand| operand.element_strides());
        let shape = Broadcast::new(dims.map(|dim| dim as usize), x, y, out).map_err(refused("dims"))?;
        checker.finish([a, b], &output, true, binary_step(checker.isa, kind, dtype, shape))
    }
}

/// Whether a pair of types has a loop of its own; the others go by way of 64 bits, which keeps the program small.
fn is_direct(from: DType, to: DType) -> bool {
    use DType::{BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U64};
    if from.is_storage() || to.is_storage() {
        return matches!(to, I64 | F32 | F64) || matches!(from, I64 | F32 | F64);
    }
    matches!(to, I64) && !from.is_float()
        || matches!(to, F64) && from.is_float()
        || matches!(from, I64 | F64)
        || matches!((from, to), (U64, F16 | BF16 | F32 | F64))
        || matches!(
            (from, to),
            (Bool | U8 | I8 | U16 | I16 | I32 | F16 | BF16, F32)
                | (F32, Bool | U8 | I8 | U16 | I16 | I32 | I64 | F16 | BF16)
        )
}

/// Converts between two types that [`is_direct`] has.
fn convert_direct(
    isa: Isa,
    from: DType,
    to: DType,
    shape: &Broadcast,
    x: &[u8],
    write: &mut [u8],
    pool: &Pool,
) -> Result<(), KernelError> {
    macro_rules! stored {
        ($convert:ident, $dtype:expr, $other:expr) => {
            match $other {
                DType::I64 => stored!(@$convert i64),
                DType::F32 => stored!(@$convert f32),
                DType::F64 => stored!(@$convert f64),
                _ => Err(KernelError::Invalid("a conversion without a loop")),
            }
        };
        (@widen $type:ty) => { triune_kernels::widen::<$type>(from, shape, x, elements_mut(write)?, pool) };
        (@narrow $type:ty) => { triune_kernels::narrow::<$type>(to, shape, elements(x)?, write, pool) };
    }
    if from.is_storage() {
        return stored!(widen, from, to);
    }
    if to.is_storage() {
        return stored!(narrow, to, from);
    }
    match (from, to) {
        (DType::F16, DType::F32) => {
            return triune_kernels::f16_to_f32(isa, shape, elements(x)?, elements_mut(write)?, pool);
        }
        (DType::F32, DType::F16) => {
            return triune_kernels::f32_to_f16(isa, shape, elements(x)?, elements_mut(write)?, pool);
        }
        _ => {}
    }
    macro_rules! pairs {
        ($($from:ident: $source:ty => [$($to:ident: $target:ty),*]),* $(,)?) => {
            match (from, to) {
                $($((DType::$from, DType::$to) => triune_kernels::convert::<$source, $target>(
                    isa,
                    shape,
                    elements(x)?,
                    elements_mut(write)?,
                    pool,
                ),)*)*
                _ => Err(KernelError::Invalid("a conversion without a loop")),
            }
        };
    }
    pairs!(
        Bool: Truth => [I64: i64, F32: f32],
        U8: u8 => [I64: i64, F32: f32],
        I8: i8 => [I64: i64, F32: f32],
        U16: u16 => [I64: i64, F32: f32],
        I16: i16 => [I64: i64, F32: f32],
        U32: u32 => [I64: i64],
        I32: i32 => [I64: i64, F32: f32],
        U64: u64 => [I64: i64, F16: F16, BF16: BF16, F32: f32, F64: f64],
        I64: i64 => [
            Bool: Truth, U8: u8, I8: i8, U16: u16, I16: i16, U32: u32, I32: i32, U64: u64, I64: i64, F16: F16, BF16: BF16, F32: f32,
            F64: f64
        ],
        F16: F16 => [F64: f64],
        BF16: BF16 => [F32: f32, F64: f64],
        F32: f32 => [
            Bool: Truth, U8: u8, I8: i8, U16: u16, I16: i16, I32: i32, I64: i64, BF16: BF16, F64: f64
        ],
        F64: f64 => [
            Bool: Truth, U8: u8, I8: i8, U16: u16, I16: i16, U32: u32, I32: i32, U64: u64, I64: i64, F16: F16, BF16: BF16, F32: f32,
            F64: f64
        ],
    )
}

impl Prepare for command::Convert {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        let command::Convert { dims, input, output } = self;
        let (from, to) = (input.dtype, output.dtype);
        let input = checker.operand("input", input, *dims)?;
        let output = checker.operand("output", output, *dims)?;
        let (x, out) = (input.element_strides(), output.element_strides());
        let extents = dims.map(|dim| dim as usize);
        let nest = |from, to| Broadcast::new(extents, from, [0; 6], to).map_err(refused("dims"));
        let isa = checker.isa;
        let may_alias = from.bytes() == to.bytes();
        if is_direct(from, to) {
            let shape = nest(x, out)?;
            // The second operand is none.
            let rows = shape.rows().map(|(count, [out, x, _])| (count, [out, x]));
            let rows = Rows::nest(rows, [to.bytes(), from.bytes()]);
            let step = in_rows(rows, move |count, [x, ..], write, pool| {
                let shape = count.map_or(shape, |count| shape.of_rows(count));
                convert_direct(isa, from, to, &shape, x, write, pool)
            });
            return checker.finish([input], &output, may_alias, step);
        }
        let dense = input.dense_strides();
        let shapes = [nest(x, dense)?, nest(dense, out)?];
        // Reals hold what a u64 has beyond i64, as far as other reals can tell.
        let real = from.is_real() || from == DType::U64 && to.is_real();
        let wide = if real { DType::F64 } else { DType::I64 };
        let bytes = extents.iter().product::<usize>().saturating_mul(8);
        let step = with_scratch(
            shapes,
            move |_, _| bytes,
            move |[first, second], [x, ..], write, buffer, pool| {
                convert_direct(isa, from, wide, first, x, buffer, pool)?;
                convert_direct(isa, wide, to, second, buffer, write, pool)
            },
        );
        checker.finish([input], &output, may_alias, step)
    }
}

impl Prepare for command::Select {
    fn prepare(&self, checker: &Checker<'_>) -> Result<Prepared> {
        let command::Select { dims, condition, a, b, output } = self;
        expect_dtype("condition", condition.dtype, &[DType::Bool])?;
        expect_dtype("b", b.dtype, &[a.dtype])?;
        expect_dtype("output", output.dtype, &[a.dtype])?;
        let bytes = a.dtype.bytes();
        let condition = checker.operand("condition", condition, *dims)?;
        let [a, b, output] = [
            checker.operand("a", a, *dims)?,
            checker.operand("b", b, *dims)?,
            checker.operand("output", output, *dims)?,
        ];
        let [c, x, y, out] = [condition, a, b, output].map(|operand| operand.element_strides());
        let choice = Choice::new(dims.map(|dim| dim as usize), c, x, y, out).map_err(refused("dims"))?;
        let isa = checker.isa;
        let rows = Rows::nest(choice.rows(), [bytes, 1, bytes, bytes]);
        checker.finish(
            [condition, a, b],
            &output,
            true,
            in_rows(rows, move |count, [condition, a, b, ..], write, pool| {
                let choice = count.map_or(choice, |count| choice.of_rows(count));
                macro_rules! select {
                    ($type:ty) => {
                        triune_kernels::select::<$type>(
                            isa,
                            &choice,
                            condition,
                            elements(a)?,
                            elements(b)?,
                            elements_mut(write)?,
                            pool,
                        )
                    };
                }
                match bytes {
                    1 => select!(u8),
                    2 => select!(u16),
                    4 => select!(u32),
                    _ => select!(u64),
                }
            }),
        )
    }
}

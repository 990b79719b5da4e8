//! Rows shared out among a pool's threads in blocks, each of which has its own part of two results.

use triune_device::work;
use triune_fork::Brief;
use triune_kernels::Pool;
use triune_tensor::{DType, memory};

use crate::{Error, TensorRef};

/// How rows are cut, and how many bytes each has in either result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocks {
    pub(super) rows: usize,
    pub(super) block: usize,
    pub(super) bytes: [usize; 2],
}

/// A block's part of both results.
pub(super) type Parts<'a> = [&'a mut [u8]; 2];

impl Blocks {
    /// Both results, of what `f` makes of the first row of a block and its parts.
    pub(super) fn run(
        self,
        pool: &Pool,
        f: &(dyn Fn(usize, Parts<'_>) -> Result<(), Error> + Sync),
    ) -> Result<[Vec<u8>; 2], Error> {
        let Self { rows, block, bytes } = self;
        let mut first = memory::filled(rows.saturating_mul(bytes[0]), 0)?;
        let mut second = memory::filled(rows.saturating_mul(bytes[1]), 0)?;
        let count = rows.div_ceil(block);
        if count <= 1 {
            if count == 1 {
                f(0, [&mut first, &mut second])?;
            }
            return Ok([first, second]);
        }
        let mut parts = memory::with_room(count)?;
        let (mut rest, mut other) = (&mut first[..], &mut second[..]);
        for index in 0..count {
            let own = block.min(rows - index * block);
            let (part, behind) = rest.split_at_mut(own * bytes[0]);
            let (beside, others) = other.split_at_mut(own * bytes[1]);
            (rest, other) = (behind, others);
            parts.push(Brief::new(Some([part, beside])));
        }
        let failed = Brief::new(None);
        pool.run(count, &|task, _| {
            let part = parts[task].lock().take();
            if let Some(part) = part
                && let Err(error) = f(task * block, part)
            {
                failed.lock().get_or_insert(error);
            }
        });
        drop(parts);
        if let Some(error) = failed.lock().take() {
            return Err(error);
        }
        work::go_on()?;
        Ok([first, second])
    }
}

/// What elements are turned into before anything is computed of them.
pub(super) trait Real: Copy {
    fn of_real(element: f64) -> Self;
    fn of_narrow(element: f32) -> Self;
    fn of_integer(element: i64) -> Self;
}

macro_rules! real {
    ($real:ident) => {
        impl Real for $real {
            fn of_real(element: f64) -> Self {
                element as $real
            }

            fn of_narrow(element: f32) -> Self {
                element.into()
            }

            fn of_integer(element: i64) -> Self {
                element as $real
            }
        }
    };
}

real!(f32);
real!(f64);

/// The elements of some rows of a tensor of f32, f64, i32 or i64.
pub(super) fn elements<T: Real>(
    x: TensorRef<'_>,
    columns: usize,
    first: usize,
    rows: usize,
) -> Result<Vec<T>, Error> {
    let size = x.dtype.bytes();
    let bytes = &x.bytes[first * columns * size..][..rows * columns * size];
    let mut elements = memory::with_room(rows * columns)?;
    match x.dtype {
        DType::F32 => {
            let words = bytes.as_chunks::<4>().0.iter();
            elements.extend(words.map(|&word| T::of_narrow(f32::from_le_bytes(word))));
        }
        DType::F64 => {
            let words = bytes.as_chunks::<8>().0.iter();
            elements.extend(words.map(|&word| T::of_real(f64::from_le_bytes(word))));
        }
        DType::I32 => {
            let words = bytes.as_chunks::<4>().0.iter();
            elements.extend(words.map(|&word| T::of_integer(i32::from_le_bytes(word).into())));
        }
        _ => {
            let words = bytes.as_chunks::<8>().0.iter();
            elements.extend(words.map(|&word| T::of_integer(i64::from_le_bytes(word))));
        }
    }
    Ok(elements)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_its_own_part() {
        let pool = Pool::new(3);
        for (rows, block) in [(0, 4), (1, 4), (4, 4), (9, 4), (10, 1)] {
            let blocks = Blocks { rows, block, bytes: [1, 2] };
            let made = blocks.run(&pool, &|first, [a, b]| {
                assert_eq!(2 * a.len(), b.len());
                for (index, place) in a.iter_mut().enumerate() {
                    *place = (first + index) as u8;
                    b[2 * index] = *place;
                }
                Ok(())
            });
            let [a, b] = made.unwrap();
            let expected: Vec<u8> = (0..rows as u8).collect();
            assert_eq!(a, expected);
            assert_eq!(b, expected.iter().flat_map(|&row| [row, 0]).collect::<Vec<u8>>());
        }
        let failing = Blocks { rows: 9, block: 2, bytes: [1, 0] };
        let failed = failing.run(&pool, &|first, _| {
            if first == 4 { Err(Error::internal("the third")) } else { Ok(()) }
        });
        assert!(failed.is_err_and(|error| error.to_string().contains("the third")));
    }
}

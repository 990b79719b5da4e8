//! Determinants.

use triune_device::work;
use triune_tensor::{memory, text::List};

use super::Operands;
use crate::{Error, Tensor};

/// The determinant of `size` rows: the product of the pivots of Gauss's elimination, the largest of each column first.
fn determinant(rows: &mut [f64], size: usize) -> Result<f64, Error> {
    let mut product = 1.0;
    for column in 0..size {
        work::go_on()?;
        let largest = (column..size).max_by(|&a, &b| {
            let [a, b] = [a, b].map(|row| rows[row * size + column].abs());
            a.total_cmp(&b)
        });
        let pivot = largest.unwrap_or(column);
        if pivot != column {
            (0..size).for_each(|at| rows.swap(pivot * size + at, column * size + at));
            product = -product;
        }
        let own = rows[column * size + column];
        product *= own;
        if own == 0.0 {
            // 0 whatever the rest is, unless that is no number.
            return Ok(if rows.iter().all(|element| element.is_finite()) { 0.0 } else { f64::NAN });
        }
        let (above, below) = rows.split_at_mut((column + 1) * size);
        let top = &above[column * size..];
        for row in below.chunks_exact_mut(size) {
            let factor = row[column] / own;
            row[column..].iter_mut().zip(&top[column..]).for_each(|(own, top)| *own -= factor * top);
        }
    }
    Ok(product)
}

pub(super) fn determinants(at: &Operands<'_>) -> Result<Tensor, Error> {
    let x = at.input(0)?;
    let (batch, size) = match x.shape {
        [batch @ .., rows, columns] if rows == columns && x.dtype.is_float() => (batch, *rows),
        _ => {
            let shape = List(x.shape);
            return Err(at.wrong(format!("{} {shape} is not of square matrices of reals", x.dtype)));
        }
    };
    let mut elements = at.doubles(0)?;
    let count = batch.iter().product::<usize>();
    let mut results = memory::with_room(count)?;
    for index in 0..count {
        let area = size * size;
        results.push(determinant(&mut elements[index * area..][..area], size)?);
    }
    at.tensor(x.dtype, batch, results.into_iter())
}

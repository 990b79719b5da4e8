//! Determinants, inverses and singular values.

use triune_device::work;
use triune_tensor::{memory, text::List};

use super::Operands;
use crate::{Error, Tensor};

/// The row at or below `column` with the largest element there, of rows of `width`.
fn pivot_of(rows: &[f64], size: usize, width: usize, column: usize) -> usize {
    let largest = (column..size).max_by(|&a, &b| {
        let [a, b] = [a, b].map(|row| rows[row * width + column].abs());
        a.total_cmp(&b)
    });
    largest.unwrap_or(column)
}

/// The determinant of `size` rows: the product of the pivots of Gauss's elimination, the largest of each column first.
fn determinant(rows: &mut [f64], size: usize) -> Result<f64, Error> {
    let mut product = 1.0;
    for column in 0..size {
        work::go_on()?;
        let pivot = pivot_of(rows, size, size, column);
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

/// The leading extents of square matrices, and their size.
fn squares<'a>(at: &Operands<'a>) -> Result<(&'a [usize], usize), Error> {
    let x = at.input(0)?;
    match x.shape {
        [batch @ .., rows, columns] if rows == columns && x.dtype.is_float() => Ok((batch, *rows)),
        _ => {
            let shape = List(x.shape);
            Err(at.wrong(format!("{} {shape} is not of square matrices of reals", x.dtype)))
        }
    }
}

pub(super) fn determinants(at: &Operands<'_>) -> Result<Tensor, Error> {
    let x = at.input(0)?;
    let (batch, size) = squares(at)?;
    let mut elements = at.doubles(0)?;
    let count = batch.iter().product::<usize>();
    let mut results = memory::with_room(count)?;
    for index in 0..count {
        let area = size * size;
        results.push(determinant(&mut elements[index * area..][..area], size)?);
    }
    at.tensor(x.dtype, batch, results.into_iter())
}

/// Leaves the inverse of a matrix in the right halves of rows that begin with it and end with the identity, by Gauss's and Jordan's
/// elimination, the largest of each column first; `false` if there is none.
fn invert(rows: &mut [f64], size: usize) -> Result<bool, Error> {
    let width = 2 * size;
    for column in 0..size {
        work::go_on()?;
        let pivot = pivot_of(rows, size, width, column);
        if rows[pivot * width + column] == 0.0 {
            return Ok(false);
        }
        (0..width).for_each(|at| rows.swap(pivot * width + at, column * width + at));
        let (above, rest) = rows.split_at_mut(column * width);
        let (own, below) = rest.split_at_mut(width);
        let factor = own[column];
        for element in own.iter_mut() {
            *element /= factor;
        }
        for row in above.chunks_exact_mut(width).chain(below.chunks_exact_mut(width)) {
            let factor = row[column];
            row.iter_mut().zip(&*own).for_each(|(element, own)| *element -= factor * own);
        }
    }
    Ok(true)
}

pub(super) fn inverses(at: &Operands<'_>) -> Result<Tensor, Error> {
    let x = at.input(0)?;
    let (batch, size) = squares(at)?;
    let elements = at.doubles(0)?;
    let mut results = memory::with_room(elements.len())?;
    let mut rows = memory::filled(2 * size * size, 0.0)?;
    for (index, matrix) in elements.chunks_exact((size * size).max(1)).enumerate() {
        for (row, (own, from)) in rows.chunks_exact_mut(2 * size).zip(matrix.chunks_exact(size)).enumerate() {
            own[..size].copy_from_slice(from);
            own[size..].fill(0.0);
            own[size + row] = 1.0;
        }
        if !invert(&mut rows, size)? {
            let which = if batch.is_empty() {
                "the matrix".into()
            } else {
                format!("matrix {index} of {}", List(batch))
            };
            return Err(at.wrong(format!("{which} is singular: it has no inverse")));
        }
        rows.chunks_exact(2 * size).for_each(|row| results.extend_from_slice(&row[size..]));
    }
    at.tensor(x.dtype, x.shape, results.into_iter())
}

/// Rounds of rotations that are enough for any matrix; some ten are usual.
const MOST_ROUNDS: usize = 60;

/// Turns columns (one after the other, each of `height`) until all are at right angles, by Hestenes' rotations: their lengths are the
/// matrix's singular values.
fn turn(columns: &mut [f64], height: usize) -> Result<(), Error> {
    let count = columns.len() / height;
    for _ in 0..MOST_ROUNDS {
        let mut turned = false;
        for left in 0..count {
            work::go_on()?;
            for right in left + 1..count {
                let (before, behind) = columns.split_at_mut(right * height);
                let (a, b) = (&mut before[left * height..][..height], &mut behind[..height]);
                let (mut own, mut other, mut both) = (0.0, 0.0, 0.0);
                for (a, b) in a.iter().zip(&*b) {
                    own += a * a;
                    other += b * b;
                    both += a * b;
                }
                if both.abs() <= f64::EPSILON * (own * other).sqrt() || both == 0.0 {
                    continue;
                }
                turned = true;
                let slope = (other - own) / (2.0 * both);
                let tangent = slope.signum() / (slope.abs() + (1.0 + slope * slope).sqrt());
                let cosine = 1.0 / (1.0 + tangent * tangent).sqrt();
                let sine = cosine * tangent;
                for (a, b) in a.iter_mut().zip(b) {
                    (*a, *b) = (cosine * *a - sine * *b, sine * *a + cosine * *b);
                }
            }
        }
        if !turned {
            break;
        }
    }
    Ok(())
}

pub(super) fn singular_values(at: &Operands<'_>) -> Result<Tensor, Error> {
    let x = at.input(0)?;
    let (batch, height, width) = match x.shape {
        [batch @ .., height, width] if x.dtype.is_float() => (batch, *height, *width),
        _ => return Err(at.wrong(format!("{} {} is not of matrices of reals", x.dtype, List(x.shape)))),
    };
    let elements = at.doubles(0)?;
    let (count, tall) = (height.min(width), height.max(width));
    let mut results = memory::with_room(batch.iter().product::<usize>() * count)?;
    let mut columns = memory::filled(count * tall, 0.0)?;
    for matrix in elements.chunks_exact((height * width).max(1)) {
        // A matrix and its transpose have the same ones: the fewer columns are turned. They are of any size: the largest element is 1 meanwhile.
        let largest = matrix.iter().fold(0.0, |most: f64, element| most.max(element.abs()));
        if matrix.iter().any(|element| !element.is_finite()) {
            results.extend(std::iter::repeat_n(f64::NAN, count));
            continue;
        }
        let scale = if largest > 0.0 { largest } else { 1.0 };
        for (place, element) in columns.iter_mut().enumerate() {
            let (column, row) = (place / tall, place % tall);
            let from = if width <= height { row * width + column } else { column * width + row };
            *element = matrix[from] / scale;
        }
        turn(&mut columns, tall)?;
        let start = results.len();
        results.extend(
            columns
                .chunks_exact(tall)
                .map(|own| scale * own.iter().fold(0.0, |sum: f64, element| sum + element * element).sqrt()),
        );
        results[start..].sort_by(|a: &f64, b: &f64| b.total_cmp(a));
    }
    at.tensor(x.dtype, &[batch, &[count]].concat(), results.into_iter())
}

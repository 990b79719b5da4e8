//! Images sampled at places that the network computes.

use triune_tensor::{DType, function::BorderMode};

use super::Scope;
use crate::{
    Error, ValueId,
    ops::{BinaryKind, UnaryKind},
};

/// Images whose pixels are rows of a table: pixel (h, w) of image i is row i·H·W + h·W + w.
#[derive(Clone, Copy)]
pub(crate) struct Pixels {
    /// (images · H · W, channels), f32.
    table: ValueId,
    /// H and W, which are not 0.
    extents: [usize; 2],
}

impl Pixels {
    /// Pixels of images (N, C, H, W), taken as f32.
    pub(crate) fn of(f: &mut Scope<'_, '_>, images: ValueId) -> Result<Self, Error> {
        let shape = f.shape(images);
        let &[n, channels, h, w] = &*shape else {
            return Err(f.wrong(format!("input {shape} is no image")));
        };
        if h == 0 || w == 0 {
            return Err(f.wrong(format!("input {shape} has no pixels")));
        }
        let images = f.cast(images, DType::F32)?;
        let last = f.transpose(images, &[0, 2, 3, 1])?;
        f.product(&[h, w])?;
        let rows = f.product(&[n, h, w])?;
        Ok(Self { table: f.reshape(last, &[rows, channels])?, extents: [h, w] })
    }

    /// What lies at (row, column) of image `image`, made of the four pixels around: places (B, P) of f32, images (B, 1) or (B, P)
    /// of i64; the result is (B, P, channels). A pixel outside is what the border says.
    pub(crate) fn bilinear(
        self,
        f: &mut Scope<'_, '_>,
        image: ValueId,
        [row, column]: [ValueId; 2],
        border: BorderMode,
    ) -> Result<ValueId, Error> {
        let first = self.first(f, image)?;
        let (rows, below) = halves(f, row)?;
        let (columns, right) = halves(f, column)?;
        let mut total = None;
        for (row, vertical) in rows.into_iter().zip(shares(f, below)?) {
            for (column, horizontal) in columns.into_iter().zip(shares(f, right)?) {
                let pixel = self.pixel(f, first, [row, column], border)?;
                let share = f.mul(horizontal, vertical)?;
                let share = behind(f, share)?;
                let part = f.mul(pixel, share)?;
                total = Some(match total {
                    Some(total) => f.add(total, part)?,
                    None => part,
                });
            }
        }
        total.ok_or_else(|| f.wrong("no pixels"))
    }

    /// What lies at the nearest whole place, half to even.
    pub(crate) fn nearest(
        self,
        f: &mut Scope<'_, '_>,
        image: ValueId,
        [row, column]: [ValueId; 2],
        border: BorderMode,
    ) -> Result<ValueId, Error> {
        let first = self.first(f, image)?;
        let row = f.unary(UnaryKind::Round, row)?;
        let column = f.unary(UnaryKind::Round, column)?;
        self.pixel(f, first, [row, column], border)
    }

    /// The row of the table that an image begins with.
    fn first(self, f: &mut Scope<'_, '_>, image: ValueId) -> Result<ValueId, Error> {
        let [h, w] = self.extents;
        let size = f.integer((h * w) as i64, DType::I64);
        f.mul(image, size)
    }

    /// The pixels at whole places (B, P), as (B, P, channels).
    fn pixel(
        self,
        f: &mut Scope<'_, '_>,
        first: ValueId,
        place: [ValueId; 2],
        border: BorderMode,
    ) -> Result<ValueId, Error> {
        let mut index = first;
        let mut inside = None;
        for (axis, place) in place.into_iter().enumerate() {
            let extent = self.extents[axis];
            if let BorderMode::Constant(_) = border {
                let last = f64::from(extent as f32 - 1.0);
                let low = f.compare(BinaryKind::GreaterOrEqual, place, 0.0)?;
                let high = f.compare(BinaryKind::LessOrEqual, place, last)?;
                let both = f.binary(BinaryKind::And, low, high)?;
                inside = Some(match inside {
                    Some(other) => f.binary(BinaryKind::And, other, both)?,
                    None => both,
                });
            }
            let place = within(f, place, extent, border)?;
            let place = f.cast(place, DType::I64)?;
            let place = if axis == 0 {
                let width = f.integer(self.extents[1] as i64, DType::I64);
                f.mul(place, width)?
            } else {
                place
            };
            index = f.add(index, place)?;
        }
        let pixels = f.gather(self.table, 0, index)?;
        match (inside, border) {
            (Some(inside), BorderMode::Constant(value)) => {
                let inside = behind(f, inside)?;
                let outside = f.scalar(f64::from(value), DType::F32);
                f.choose(inside, pixels, outside)
            }
            _ => Ok(pixels),
        }
    }
}

/// One axis more behind the others.
fn behind(f: &mut Scope<'_, '_>, x: ValueId) -> Result<ValueId, Error> {
    let dims = [&*f.shape(x), &[1]].concat();
    f.reshape(x, &dims)
}

/// The whole places before and behind one, and how far it lies from the first.
fn halves(f: &mut Scope<'_, '_>, place: ValueId) -> Result<([ValueId; 2], ValueId), Error> {
    let low = f.unary(UnaryKind::Floor, place)?;
    let high = f.add_number(low, 1.0)?;
    Ok(([low, high], f.sub(place, low)?))
}

/// 1 − x and x.
fn shares(f: &mut Scope<'_, '_>, x: ValueId) -> Result<[ValueId; 2], Error> {
    let one = f.scalar(1.0, DType::F32);
    Ok([f.sub(one, x)?, x])
}

/// Whole places brought into 0 … extent − 1 as the border continues an axis; what a constant border replaces goes anywhere.
fn within(
    f: &mut Scope<'_, '_>,
    place: ValueId,
    extent: usize,
    border: BorderMode,
) -> Result<ValueId, Error> {
    let last = extent as f64 - 1.0;
    let turned = match border {
        BorderMode::Constant(_) | BorderMode::Replicate => place,
        BorderMode::Wrap => rest(f, place, extent as f64)?,
        BorderMode::Reflect101 if extent == 1 => f.mul_number(place, 0.0)?,
        BorderMode::Reflect | BorderMode::Reflect101 => {
            let (period, turn) = if border == BorderMode::Reflect {
                (2.0 * extent as f64, 2.0 * last + 1.0)
            } else {
                (2.0 * last, 2.0 * last)
            };
            let place = rest(f, place, period)?;
            let turn = f.scalar(turn, DType::F32);
            let back = f.sub(turn, place)?;
            let beyond = f.compare(BinaryKind::Greater, place, last)?;
            f.choose(beyond, back, place)?
        }
    };
    // Roundings, and places that are no numbers, must not lead outside.
    f.unary(UnaryKind::Clip([0.0, last as f32]), turned)
}

/// x − period · ⌊x / period⌋.
fn rest(f: &mut Scope<'_, '_>, x: ValueId, period: f64) -> Result<ValueId, Error> {
    let period = f.scalar(period, DType::F32);
    let times = f.div(x, period)?;
    let times = f.unary(UnaryKind::Floor, times)?;
    let whole = f.mul(times, period)?;
    f.sub(x, whole)
}

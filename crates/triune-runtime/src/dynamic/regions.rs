//! Samples of maps in parts of regions.

use triune_device::work;
use triune_graph::ops::RoiAlign;
use triune_tensor::{memory, text::List};

use super::{Element, Elements, Operands};
use crate::{Error, Tensor};

/// Where a sample's neighbours lie along an axis, and how much of either it has; `None` beyond the map.
fn neighbours(at: f64, extent: usize) -> Option<[(usize, f64); 2]> {
    // A pixel beyond the border belongs to it; NaN to nothing.
    if !(-1.0..=extent as f64).contains(&at) {
        return None;
    }
    let at = at.max(0.0);
    let low = at as usize;
    if low + 1 >= extent {
        return Some([(extent - 1, 1.0), (extent - 1, 0.0)]);
    }
    let ratio = at - low as f64;
    Some([(low, 1.0 - ratio), (low + 1, ratio)])
}

pub(super) fn align(at: &Operands<'_>, op: RoiAlign) -> Result<Tensor, Error> {
    let (x, regions, images) = (at.input(0)?, at.input(1)?, at.input(2)?);
    let (&[count, channels, height, width], &[number, 4], &[indices]) =
        (x.shape, regions.shape, images.shape)
    else {
        let [x, regions, images] = [x, regions, images].map(|tensor| List(tensor.shape).to_string());
        return Err(at.wrong(format!("a map {x}, regions {regions} and images {images}")));
    };
    if indices != number || !x.dtype.is_float() || regions.dtype != x.dtype {
        return Err(at.wrong(format!(
            "{indices} images for {number} regions, of {} for a map of {}",
            regions.dtype, x.dtype
        )));
    }
    let [rows, columns] = op.size;
    let shape = [number, channels, rows, columns];
    let total = shape.iter().try_fold(1_usize, |product, &extent| product.checked_mul(extent));
    let total = total.ok_or_else(|| at.wrong("too many results"))?;
    let (pixels, corners) = (at.reals(0)?, at.reals(1)?);
    if total > 0 && (height == 0 || width == 0) {
        return Err(at.wrong(format!("a map {} has no elements to take", List(x.shape))));
    }
    let mut results = memory::with_room(total)?;
    let offset = if op.half_pixel { 0.5 } else { 0.0 };
    for ((region, corners), image) in corners.chunks_exact(4).enumerate().zip(Elements::of(images)) {
        let image = match image {
            Element::Integer(image) => usize::try_from(image).ok().filter(|image| *image < count),
            Element::Float(_) | Element::Unsigned(_) => None,
        };
        let image = image.ok_or_else(|| at.wrong(format!("region {region} is of no image of {count}")))?;
        let place = |index: usize| corners[index] * f64::from(op.scale) - offset;
        let (left, top) = (place(0), place(1));
        let least = if op.half_pixel { f64::NEG_INFINITY } else { 1.0 };
        let size = [(place(3) - top).max(least), (place(2) - left).max(least)];
        let part = [size[0] / rows as f64, size[1] / columns as f64];
        let samples = part.map(|part| op.samples.unwrap_or_else(|| part.ceil().max(0.0) as usize));
        let number = samples[0].saturating_mul(samples[1]);
        // As many samples as the map has pixels do, however large a region is.
        if number > height.saturating_mul(width).saturating_add(1).saturating_mul(1 << 12) {
            return Err(at.wrong(format!("region {region} takes {number} samples of each of its parts")));
        }
        let stand = |start: f64, axis: usize, part_at: usize, sample: usize| {
            start + part_at as f64 * part[axis] + (sample as f64 + 0.5) * part[axis] / samples[axis] as f64
        };
        for channel in 0..channels {
            let plane = &pixels[(image * channels + channel) * height * width..][..height * width];
            for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
                let (mut sum, mut most) = (0.0, f64::NEG_INFINITY);
                for sample in 0..number {
                    if sample.is_multiple_of(1 << 10) {
                        work::go_on()?;
                    }
                    let y = neighbours(stand(top, 0, row, sample / samples[1]), height);
                    let x = neighbours(stand(left, 1, column, sample % samples[1]), width);
                    let (Some(y), Some(x)) = (y, x) else {
                        most = most.max(0.0);
                        continue;
                    };
                    for (&(y, above), &(x, beside)) in y.iter().flat_map(|y| x.iter().map(move |x| (y, x))) {
                        let own = above * beside * plane[y * width + x];
                        sum += own;
                        most = if own > most || own.is_nan() { own } else { most };
                    }
                }
                let largest = if number == 0 { 0.0 } else { most };
                results.push(if op.max { largest } else { sum / number.max(1) as f64 });
            }
        }
    }
    at.tensor(x.dtype, &shape, results.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share_a_sample() {
        assert_eq!(neighbours(1.25, 4), Some([(1, 0.75), (2, 0.25)]));
        assert_eq!(neighbours(-0.5, 4), Some([(0, 1.0), (1, 0.0)]));
        assert_eq!(neighbours(3.5, 4), Some([(3, 1.0), (3, 0.0)]));
        assert_eq!(neighbours(4.0, 4), Some([(3, 1.0), (3, 0.0)]));
        for outside in [-1.01, 4.01, f64::NAN, f64::INFINITY] {
            assert_eq!(neighbours(outside, 4), None);
        }
    }
}

//! Samples of maps in parts of regions.

use std::ops::Range;

use triune_device::work;
use triune_graph::ops::{RoiAlign, RoiPool};
use triune_kernels::{Isa, SAMPLE_CHANNELS, SampleMap, SamplePlace};
use triune_tensor::{DType, memory, text::List};

use super::{Element, Elements, Operands};
use crate::{Error, Tensor};

/// Where a sample's neighbours lie along an axis, and how much of either it has; `None` beyond the map.
fn neighbours(at: f64, extent: usize) -> SamplePlace {
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
    let (pixels, corners) = (at.doubles(0)?, at.doubles(1)?);
    if total > 0 && (height == 0 || width == 0) {
        return Err(at.wrong(format!("a map {} has no elements to take", List(x.shape))));
    }
    let (isa, is_finite) = (Isa::best(), pixels.iter().fold(true, |all, pixel| all & pixel.is_finite()));
    let mut results = memory::filled(total, 0.0)?;
    // Channels last, as many as are computed at once: a sample's neighbours of all of them lie side by side.
    let groups = channels.div_ceil(SAMPLE_CHANNELS);
    let area = height * width;
    let mut map: Vec<[f64; SAMPLE_CHANNELS]> = memory::filled(count * groups * area, [0.0; SAMPLE_CHANNELS])?;
    for (plane, pixels) in pixels.chunks_exact(area.max(1)).enumerate() {
        work::go_on()?;
        let (image, channel) = (plane / channels, plane % channels);
        let group = &mut map[(image * groups + channel / SAMPLE_CHANNELS) * area..][..area];
        group.iter_mut().zip(pixels).for_each(|(to, &from)| to[channel % SAMPLE_CHANNELS] = from);
    }
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
        // Where samples stand along either axis, part by part: the same for all channels.
        let along = |start: f64, axis: usize, extent: usize| -> Result<Vec<SamplePlace>, Error> {
            let parts = op.size[axis];
            let mut places = memory::with_room(parts.saturating_mul(samples[axis]))?;
            for place in 0..parts * samples[axis] {
                let (own, sample) = (place / samples[axis], place % samples[axis]);
                let inside = (sample as f64 + 0.5) * part[axis] / samples[axis] as f64;
                places.push(neighbours(start + own as f64 * part[axis] + inside, extent));
            }
            Ok(places)
        };
        let (down, across) = if number == 0 {
            (Vec::new(), Vec::new())
        } else {
            (along(top, 0, height)?, along(left, 1, width)?)
        };
        for group in 0..groups {
            let first = group * SAMPLE_CHANNELS;
            let some = SAMPLE_CHANNELS.min(channels - first);
            let pixels = &map[(image * groups + group) * area..][..area];
            let map = SampleMap::new(isa, pixels, width, is_finite);
            let results =
                &mut results[(region * channels + first) * rows * columns..][..some * rows * columns];
            for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
                work::go_on()?;
                let down = down.get(row * samples[0]..).unwrap_or_default();
                let down = &down[..samples[0].min(down.len())];
                let across = across.get(column * samples[1]..).unwrap_or_default();
                let across = &across[..samples[1].min(across.len())];
                let (mut sums, mut most) = ([0.0; SAMPLE_CHANNELS], [f64::NEG_INFINITY; SAMPLE_CHANNELS]);
                for down in down.chunks((1 << 10) / samples[1].max(1) + 1) {
                    if op.max {
                        map.largest(down, across, &mut most);
                    } else {
                        map.add(down, across, &mut sums);
                    }
                    work::go_on()?;
                }
                let own = results[row * columns + column..].iter_mut().step_by(rows * columns);
                for (lane, result) in own.enumerate() {
                    *result = match (op.max, number) {
                        (_, 0) => 0.0,
                        (true, _) => most[lane],
                        (false, _) => sums[lane] / number as f64,
                    };
                }
            }
        }
    }
    at.tensor(x.dtype, &shape, results.into_iter())
}

/// Where the parts of a region from one element to another lie along an axis of a map, as ONNX Runtime divides it: in f32, from the
/// rounded product with a part's number on, to the next one's rounded up.
fn parts(first: i64, last: i64, count: usize, extent: usize) -> impl Iterator<Item = Range<usize>> {
    let each = last.saturating_sub(first).saturating_add(1).max(1) as f32 / count as f32;
    let inside = move |place: f32| first.saturating_add(place as i64).clamp(0, extent as i64) as usize;
    (0..count)
        .map(move |part| inside((part as f32 * each).floor())..inside(((part + 1) as f32 * each).ceil()))
}

pub(super) fn pool(at: &Operands<'_>, op: RoiPool) -> Result<Tensor, Error> {
    let (x, regions) = (at.input(0)?, at.input(1)?);
    let (&[count, channels, height, width], &[number, 5]) = (x.shape, regions.shape) else {
        return Err(at.wrong(format!("a map {} and regions {}", List(x.shape), List(regions.shape))));
    };
    if !x.dtype.is_float() || regions.dtype != x.dtype {
        return Err(at.wrong(format!("regions of {} for a map of {}", regions.dtype, x.dtype)));
    }
    let [rows, columns] = op.size;
    let shape = [number, channels, rows, columns];
    let total = shape.iter().try_fold(1_usize, |product, &extent| product.checked_mul(extent));
    let mut results = memory::with_room(total.ok_or_else(|| at.wrong("too many results"))?)?;
    let (pixels, corners) = (at.doubles(0)?, at.doubles(1)?);
    let lowest = match x.dtype {
        DType::F64 => f64::MIN,
        DType::F16 => -65_504.0,
        _ => f32::MIN.into(),
    };
    for (region, corners) in corners.chunks_exact(5).enumerate() {
        let image = corners[0];
        if !(0.0..count as f64).contains(&image) {
            return Err(at.wrong(format!("region {region} is of no image of {count}")));
        }
        // `as` cuts what is behind the point, as the conversion there does, and saturates.
        let place = |index: usize| (corners[index] as f32 * op.scale).round() as i64;
        let down: Vec<Range<usize>> = parts(place(2), place(4), rows, height).collect();
        let across: Vec<Range<usize>> = parts(place(1), place(3), columns, width).collect();
        for channel in 0..channels {
            let plane = &pixels[(image as usize * channels + channel) * height * width..][..height * width];
            for (down, across) in down.iter().flat_map(|down| across.iter().map(move |across| (down, across)))
            {
                work::go_on()?;
                let mut most = None;
                for row in down.clone() {
                    let own = plane[row * width..][..width].get(across.clone()).unwrap_or_default();
                    // NaN is never larger.
                    let least = most.unwrap_or(lowest);
                    let largest =
                        own.iter().fold(least, |most, &pixel| if pixel > most { pixel } else { most });
                    most = if own.is_empty() { most } else { Some(largest) };
                }
                results.push(most.unwrap_or(0.0));
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

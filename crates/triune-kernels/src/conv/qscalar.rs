//! The quantized convolution as a loop nest: the specification of every SIMD path.

use crate::{Pool, cancel::spans};

use super::qconv::{Params, Views};

/// Computes the output from weights in the order of [`super::QConvSpec`].
pub(crate) fn run(p: &Params, weights: &[i8], views: &Views<'_>, pool: &Pool) {
    let out = views.out_map;
    pool.run(out.n * out.h, &|task, _| {
        let (n, y) = (task / out.h, task % out.h);
        for x in spans(out.w, weights.len()).flatten() {
            for channel in spans(out.c, weights.len() / out.c.max(1)).flatten() {
                let sum = accumulate(p, weights, views, [n, y, x], channel);
                let mut byte = requantize(p, sum, channel);
                if let Some(table) = &p.table {
                    byte = table[usize::from(byte)];
                }
                if let (Some(add), Some((other, map))) = (&p.residual, views.residual) {
                    let other = other[map.offset(n, y, x) + channel];
                    byte = if add.conv_is_a { add.apply(byte, other) } else { add.apply(other, byte) };
                }
                // SAFETY: `run` checked that the output covers its map and that no two pixels share a byte.
                unsafe { *views.output.add(out.offset(n, y, x) + channel) = byte };
            }
        }
    });
}

fn accumulate(p: &Params, weights: &[i8], views: &Views<'_>, [n, y, x]: [usize; 3], channel: usize) -> i32 {
    let (g, map) = (&p.geometry, views.in_map);
    let [kh, kw] = g.kernel;
    let depth = p.in_channels / g.groups;
    let first = channel / (p.out_channels / g.groups) * depth;
    let weights = &weights[channel * kh * kw * depth..][..kh * kw * depth];
    let mut sum = p.bias[channel];
    for ky in 0..kh {
        // Padding taps are at the zero point and add nothing.
        let Some(row) = (y * g.stride[0] + ky * g.dilation[0]).checked_sub(g.pad[0]).filter(|&r| r < map.h)
        else {
            continue;
        };
        for kx in 0..kw {
            let column = (x * g.stride[1] + kx * g.dilation[1]).checked_sub(g.pad[1]);
            let Some(column) = column.filter(|&c| c < map.w) else { continue };
            let taps = &views.input[map.offset(n, row, column) + first..][..depth];
            for (&byte, &w) in taps.iter().zip(&weights[(ky * kw + kx) * depth..]) {
                sum += i32::from(w) * (p.input.value(byte) - p.input.zero_point);
            }
        }
    }
    sum
}

/// clamp(round(f32(sum) · multiplier) + zero point), as a byte of the output's type.
pub(crate) fn requantize(p: &Params, sum: i32, channel: usize) -> u8 {
    let rounded = p.rounding.round(sum as f32 * p.multiplier[channel]);
    // The bounds are integers in f32, so clamping before the conversion changes nothing but the overflow.
    let zero_point = p.output.zero_point;
    let [low, high] = p.clamp;
    (rounded.clamp((low - zero_point) as f32, (high - zero_point) as f32) as i32 + zero_point) as u8
}

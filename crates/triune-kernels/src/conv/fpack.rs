//! Packing of f32 weights into panels: rows of k, one column per output channel.

use super::fconv::Filter;
use super::fgemm::Panels;

/// Rows of a panel that are written together: they stay in the first-level cache meanwhile.
const ROWS: usize = 128;

/// Values of a panel or a filter, which are moved only.
pub(super) type Word = [u8; size_of::<f32>()];

/// Packs one panel, which is zero, of the channels whose first value is value `start` of the filter's.
pub(super) fn pack(panels: &Panels, index: usize, filter: &Filter<'_>, start: usize, panel: &mut [Word]) {
    let [by_channel, by_tap, by_input] = filter.strides;
    let (width, used) = (panels.width(index), panels.used(index));
    let (values, _) = filter.bytes.as_chunks();
    let (taps, inputs) = (filter.taps, filter.group_channels);
    let inner_taps = is_inner_taps(filter);
    if inner_taps || (by_tap == inputs && by_input == 1) {
        pack_channels(&values[start..], by_channel, [taps, inputs], inner_taps, [width, used], panel);
    } else {
        for (row, to) in panel.chunks_exact_mut(width).take(taps * inputs).enumerate() {
            let at = start + row / inputs * by_tap + row % inputs * by_input;
            for (to, from) in to[..used].iter_mut().zip(values[at..].iter().step_by(by_channel.max(1))) {
                *to = native(*from);
            }
        }
    }
}

/// Packs channels whose values are contiguous, taps or input channels innermost.
///
/// They are `by_channel` apart, as a rule a multiple of a large power of two, so that reading a row of the panel would take
/// columns that compete for the same lines of the cache. So four channels at a time are read front to back, for as many rows
/// as the cache holds, and turned around in squares of four.
fn pack_channels(
    values: &[Word],
    by_channel: usize,
    [taps, inputs]: [usize; 2],
    inner_taps: bool,
    [width, used]: [usize; 2],
    panel: &mut [Word],
) {
    let k = taps * inputs;
    let mut rows = [0; ROWS];
    let (mut tap, mut input) = (0, 0);
    for from in (0..k).step_by(ROWS) {
        // Where the rows of the channels' next values start.
        let rows = &mut rows[..ROWS.min(k - from)];
        for row in &mut *rows {
            *row = (tap * inputs + input) * width;
            let (inner, outer, extent) =
                if inner_taps { (&mut tap, &mut input, taps) } else { (&mut input, &mut tap, inputs) };
            *inner += 1;
            if *inner == extent {
                (*inner, *outer) = (0, *outer + 1);
            }
        }
        let channel = |column: usize| &values[column * by_channel + from..][..rows.len()];
        let squares = used / 4 * 4;
        for column in (0..squares).step_by(4) {
            let mut put = |row: usize, words: [&Word; 4]| {
                panel[row + column..][..4].copy_from_slice(&words.map(|word| native(*word)));
            };
            let [a, b, c, d] = [0, 1, 2, 3].map(|next| channel(column + next).as_chunks::<4>());
            let (whole, rest) = rows.as_chunks::<4>();
            for ((((row, a), b), c), d) in whole.iter().zip(a.0).zip(b.0).zip(c.0).zip(d.0) {
                for i in 0..4 {
                    put(row[i], [&a[i], &b[i], &c[i], &d[i]]);
                }
            }
            for ((((row, a), b), c), d) in rest.iter().zip(a.1).zip(b.1).zip(c.1).zip(d.1) {
                put(*row, [a, b, c, d]);
            }
        }
        for column in squares..used {
            for (row, value) in rows.iter().zip(channel(column)) {
                panel[row + column] = native(*value);
            }
        }
    }
}

/// Whether a channel's values are contiguous, taps innermost.
const fn is_inner_taps(filter: &Filter<'_>) -> bool {
    let [_, by_tap, by_input] = filter.strides;
    (by_tap == 1 || filter.taps == 1) && by_input == filter.taps
}

/// As [`pack`], of values that `read` writes from a place on: those of one panel at a time, in `own`. `false` if they lie so that a
/// panel's are all over the place; nothing is packed then.
pub(super) fn pack_read(
    panels: &Panels,
    index: usize,
    filter: &Filter<'_>,
    start: usize,
    panel: &mut [Word],
    own: &mut Vec<u8>,
    read: &mut dyn FnMut(usize, &mut [u8]),
) -> bool {
    let [by_channel, by_tap, by_input] = filter.strides;
    let (inputs, used, k) = (filter.group_channels, panels.used(index), filter.taps * filter.group_channels);
    own.clear();
    let is_row = is_inner_taps(filter) || (by_tap == inputs && by_input == 1);
    let strides = if by_channel == 1 {
        own.resize(k * used * size_of::<Word>(), 0);
        for (row, to) in own.chunks_exact_mut(used * size_of::<Word>()).enumerate() {
            read(start + row / inputs * by_tap + row % inputs * by_input, to);
        }
        [1, inputs * used, used]
    } else if is_row && by_channel >= k {
        own.resize(((used - 1) * by_channel + k) * size_of::<Word>(), 0);
        read(start, own);
        filter.strides
    } else {
        return false;
    };
    pack(panels, index, &Filter { bytes: own, strides, ..*filter }, 0, panel);
    true
}

/// A little-endian value as the machine has it.
fn native(word: Word) -> Word {
    u32::from_le_bytes(word).to_ne_bytes()
}

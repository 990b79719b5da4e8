//! Packing of f32 weights into panels: rows of k, one column per output channel.

use super::fgemm::Panels;
use crate::Error;

/// Rows of a panel that are written together: they stay in the first-level cache meanwhile.
const ROWS: usize = 128;

/// Values of a panel or a filter, which are moved only.
pub(super) type Word = [u8; size_of::<f32>()];

/// The weights of an f32 convolution as they lie before packing.
#[derive(Clone, Copy, Debug)]
pub struct Filter<'a> {
    /// Little-endian f32 values, at any address.
    pub bytes: &'a [u8],
    /// Output channels, all groups together.
    pub out_channels: usize,
    /// Positions of the window: rows times columns.
    pub taps: usize,
    /// Input channels of one group.
    pub group_channels: usize,
    /// Values from one output channel, tap and input channel to the next.
    pub strides: [usize; 3],
}

impl<'a> Filter<'a> {
    /// Weights in the order output channel, tap, input channel.
    pub fn dense(bytes: &'a [u8], out_channels: usize, taps: usize, group_channels: usize) -> Self {
        let strides = [taps.saturating_mul(group_channels), group_channels, 1];
        Self { bytes, out_channels, taps, group_channels, strides }
    }

    /// Checks the extents in so many groups, and that all values are among `len`, so that [`Self::get`] is in bounds for them where they
    /// are there. Gives the input channels of all groups, and the values of an output channel.
    pub(super) fn check(&self, groups: usize, len: usize) -> Result<(usize, usize), Error> {
        let Self { out_channels, taps, group_channels, .. } = *self;
        if groups == 0 || out_channels == 0 || taps == 0 || group_channels == 0 {
            return Err(Error::Invalid("zero channels, groups or window"));
        }
        if !out_channels.is_multiple_of(groups) {
            return Err(Error::Invalid("groups do not divide the channels"));
        }
        let last = [out_channels, taps, group_channels]
            .into_iter()
            .zip(self.strides)
            .try_fold(1_usize, |sum, (extent, stride)| {
                sum.checked_add(extent.checked_sub(1)?.checked_mul(stride)?)
            });
        Error::check_len("weights", len, last.unwrap_or(usize::MAX))?;
        let in_channels = group_channels.checked_mul(groups);
        let in_channels = in_channels.ok_or(Error::Invalid("channel count overflows"))?;
        let k = taps.checked_mul(group_channels).ok_or(Error::Invalid("kernel size overflows"))?;
        Ok((in_channels, k))
    }

    pub(super) fn get(&self, channel: usize, tap: usize, input: usize) -> f32 {
        let [by_channel, by_tap, by_input] = self.strides;
        let at = (channel * by_channel + tap * by_tap + input * by_input) * size_of::<f32>();
        let mut word = [0; size_of::<f32>()];
        word.copy_from_slice(&self.bytes[at..at + size_of::<f32>()]);
        f32::from_le_bytes(word)
    }
}

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
    let is_row = is_inner_taps(filter) || (by_tap == inputs && by_input == 1);
    if by_channel == 1 {
        // Some rows of the panel at a time: all would be as much again.
        let width = panels.width(index);
        for from in (0..k).step_by(ROWS) {
            let rows = ROWS.min(k - from);
            own.clear();
            own.resize(rows * used * size_of::<Word>(), 0);
            for (row, to) in (from..).zip(own.chunks_exact_mut(used * size_of::<Word>())) {
                read(start + row / inputs * by_tap + row % inputs * by_input, to);
            }
            let part = Filter {
                bytes: own,
                taps: 1,
                group_channels: rows,
                strides: [1, rows * used, used],
                ..*filter
            };
            pack(panels, index, &part, 0, &mut panel[from * width..][..rows * width]);
        }
        return true;
    }
    let strides = if is_row && by_channel >= k {
        own.clear();
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

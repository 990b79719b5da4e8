//! Strided views: where each logical element of a value lies in a buffer.
//!
//! Slices, transposes, splits and most reshapes only change a view; a copy is emitted when a consumer needs elements
//! in another order. Logical extents are the graph's (NCHW for images), strides say how they really lie (NHWC).

use triune_tensor::{DType, MAX_RANK, Shape};

/// The buffer that a view looks into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Home {
    /// The constants segment; offsets are final.
    Constants,
    /// A scratch buffer by index; the memory plan gives it an address.
    Scratch(u32),
    /// The segment of an input.
    Input(u32),
    /// The segment of an output.
    Output(u32),
    /// The segment of a table: a large constant that lies where other programs of the model have it, too.
    Table(u32),
}

impl Home {
    /// Whether what lies there never changes.
    pub const fn is_constant(self) -> bool {
        matches!(self, Self::Constants | Self::Table(_))
    }
}

/// Channels in blocks: see [`View::blocked`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Channels of a block.
    pub channels: usize,
    /// Bytes from one block to the next.
    pub stride: u64,
    /// The element that stands behind the last channel in the last block.
    pub fill: u32,
    /// Whether it does stand there: not in a part of a map that ends within a block.
    pub filled: bool,
}

/// Elements of a buffer seen under logical extents. Strides and offset are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// The buffer.
    pub home: Home,
    /// Where the first element lies in it.
    pub offset: u64,
    /// The elements' type.
    pub dtype: DType,
    /// Logical extents.
    pub dims: Shape,
    /// From one element to the next along each axis.
    pub strides: [u64; MAX_RANK],
    /// How axis 1 of a rank-4 view lies in blocks; its stride is then that within a block. Whoever moves axes about wants
    /// a [`View::plain`] view.
    pub blocks: Option<Blocks>,
}

impl View {
    /// Row-major without gaps.
    pub fn dense(home: Home, dtype: DType, dims: Shape) -> Self {
        let mut strides = [0; MAX_RANK];
        for (stride, elements) in strides.iter_mut().zip(dims.strides().iter()) {
            *stride = (elements * dtype.bytes()) as u64;
        }
        Self { home, offset: 0, dtype, dims, strides, blocks: None }
    }

    /// Logical (N, C, H, W) lying as N, H, W, C without gaps; other ranks lie row-major.
    pub fn channels_last(home: Home, dtype: DType, dims: Shape) -> Self {
        let [n, c, h, w] = *dims else { return Self::dense(home, dtype, dims) };
        let physical = Self::dense(home, dtype, Shape::from([n, h, w, c]));
        physical.permuted(&[0, 3, 1, 2])
    }

    /// Logical (N, C, H, W) lying as N, blocks of C, H, W, channels of a block without gaps; the last block is filled up.
    pub fn blocked(home: Home, dtype: DType, dims: [usize; 4], channels: usize, fill: u32) -> Self {
        let [n, c, h, w] = dims;
        let blocks = Shape::from([n, c.div_ceil(channels), h, w, channels]);
        let physical = Self::dense(home, dtype, blocks);
        let [stride_n, stride, stride_h, stride_w, stride_c] =
            [0, 1, 2, 3, 4].map(|axis| physical.strides[axis]);
        let mut view = Self { dims: Shape::from(dims), strides: [0; MAX_RANK], ..physical };
        view.strides[..4].copy_from_slice(&[stride_n, stride_c, stride_h, stride_w]);
        view.blocks = Some(Blocks { channels, stride, fill, filled: true });
        view
    }

    /// The same elements without blocks, where a stride leads from each channel to the next. To be read only: what
    /// fills the last block is lost from sight.
    pub fn plain(&self) -> Option<Self> {
        let Some(blocks) = self.blocks else { return Some(*self) };
        let one = self.dims[1] <= blocks.channels;
        let in_line = blocks.stride == blocks.channels as u64 * self.strides[1];
        (one || in_line).then_some(Self { blocks: None, ..*self })
    }

    /// Channels from `start`, of a map in blocks where these are whole ones, or end where the map does.
    pub fn channels(&self, start: usize, length: usize) -> Option<Self> {
        let Some(blocks) = self.blocks else { return Some(self.sliced(1, start, length, 1)) };
        let filled =
            blocks.filled && start + length == self.dims[1] || length.is_multiple_of(blocks.channels);
        let mut view = Self { blocks: Some(Blocks { filled, ..blocks }), ..*self };
        view.offset += (start / blocks.channels) as u64 * blocks.stride;
        view.dims.dims_mut()[1] = length;
        start.is_multiple_of(blocks.channels).then_some(view)
    }

    /// The whole blocks of a rank-4 view as (N, blocks, channels of a block, H, W), and the channels behind them; either
    /// can be missing. Channels that lie in no blocks are counted by `channels`.
    pub fn in_blocks(&self, channels: usize) -> (Option<Self>, Option<Self>) {
        let [n, c, h, w] = [0, 1, 2, 3].map(|axis| self.dims[axis]);
        let [stride_n, stride_c, stride_h, stride_w] = [0, 1, 2, 3].map(|axis| self.strides[axis]);
        let stride = self.blocks.map_or(channels as u64 * stride_c, |blocks| blocks.stride);
        let (count, rest) = (c / channels, c % channels);
        let mut whole = Self { dims: Shape::from([n, count, channels, h, w]), blocks: None, ..*self };
        whole.strides[..5].copy_from_slice(&[stride_n, stride, stride_c, stride_h, stride_w]);
        let mut tail = Self { dims: Shape::from([n, rest, h, w]), blocks: None, ..*self };
        tail.offset += count as u64 * stride;
        ((count > 0).then_some(whole), (rest > 0).then_some(tail))
    }

    /// All blocks with what fills the last one, as (N, blocks, H, W, channels of a block).
    pub fn whole_blocks(&self, channels: usize) -> Option<Self> {
        let mut padded = *self;
        padded.dims.dims_mut()[1] = self.dims[1].next_multiple_of(channels);
        padded.in_blocks(channels).0.map(|whole| whole.permuted(&[0, 1, 3, 4, 2]))
    }

    /// What fills the last block, if it is filled up.
    pub fn filling(&self) -> Option<Self> {
        let blocks = self.blocks?;
        let mut tail = self.in_blocks(blocks.channels).1?;
        let used = tail.dims[1];
        tail.offset += used as u64 * tail.strides[1];
        tail.dims.dims_mut()[1] = blocks.channels - used;
        Some(tail)
    }

    /// Bytes from the first element to one past the last; 0 when empty.
    #[cfg(test)]
    pub fn span(&self) -> u64 {
        if self.dims.contains(&0) {
            return 0;
        }
        let last: u64 =
            self.dims.iter().zip(&self.strides).map(|(&dim, &stride)| (dim as u64 - 1) * stride).sum();
        last + self.dtype.bytes() as u64
    }

    /// Axis i of the result is axis `perm[i]` of this view.
    #[must_use]
    pub fn permuted(&self, perm: &[usize]) -> Self {
        let mut view = *self;
        for (axis, &from) in perm.iter().enumerate() {
            view.dims.dims_mut()[axis] = self.dims[from];
            view.strides[axis] = self.strides[from];
        }
        view
    }

    /// The view that [`View::permuted`] makes this one of: axis `perm[i]` of the result is axis i of this view.
    #[must_use]
    pub fn restored(&self, perm: &[usize]) -> Self {
        let mut inverse = [0; MAX_RANK];
        for (axis, &from) in perm.iter().enumerate() {
            inverse[from] = axis;
        }
        self.permuted(&inverse[..perm.len()])
    }

    /// `length` positions of `axis` from `start`, every `step`-th.
    #[must_use]
    pub fn sliced(&self, axis: usize, start: usize, length: usize, step: usize) -> Self {
        let mut view = *self;
        view.offset += start as u64 * self.strides[axis];
        view.dims.dims_mut()[axis] = length;
        view.strides[axis] *= step as u64;
        view
    }

    /// The same elements under other extents when strides allow it, as numpy reshapes without a copy. Blocks are of the extents that
    /// a view has.
    pub fn reshaped(&self, dims: Shape) -> Option<Self> {
        if self.dims.elements()? != dims.elements()? || self.blocks.is_some() && self.dims != dims {
            return None;
        }
        let mut view = Self { dims, strides: [0; MAX_RANK], ..*self };
        if dims.contains(&0) {
            return Some(Self { ..Self::dense(self.home, self.dtype, dims) }.at(self.offset));
        }
        // Extents of 1 have no say; each run of old axes must merge to cover the same number of elements as a run of
        // new axes.
        let old: Vec<(usize, u64)> = self.axes().filter(|&(dim, _)| dim != 1).collect();
        let (mut i, mut j) = (0, 0);
        while i < old.len() {
            let (mut have, mut want) = (old[i].0, 1);
            let (from_i, from_j) = (i, j);
            i += 1;
            while have != want {
                if want < have {
                    want *= *dims.get(j)?;
                    j += 1;
                } else {
                    have *= old.get(i)?.0;
                    i += 1;
                }
            }
            for pair in old[from_i..i].windows(2) {
                if pair[0].1 != pair[1].1.checked_mul(pair[1].0 as u64)? {
                    return None;
                }
            }
            let mut stride = old[i - 1].1;
            for axis in (from_j..j).rev() {
                view.strides[axis] = stride;
                stride = stride.checked_mul(dims[axis] as u64)?;
            }
        }
        Some(view)
    }

    /// The view `bytes` further into its buffer's origin.
    #[must_use]
    pub fn at(&self, offset: u64) -> Self {
        Self { offset, ..*self }
    }

    /// Broadcast to `dims` as numpy does: new axes in front and extents of 1 repeat with stride 0.
    pub fn broadcast(&self, dims: Shape) -> Option<Self> {
        let lead = dims.rank().checked_sub(self.dims.rank())?;
        let mut view = Self { dims, strides: [0; MAX_RANK], ..*self };
        for axis in 0..self.dims.rank() {
            match self.dims[axis] {
                1 => {}
                dim if dim == dims[axis + lead] => view.strides[axis + lead] = self.strides[axis],
                _ => return None,
            }
        }
        Some(view)
    }

    /// Axes from the outermost in memory to the innermost; axes of extent 1 come first.
    pub fn physical_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.dims.rank()).collect();
        order.sort_by_key(|&axis| {
            let trivial = self.dims[axis] == 1;
            (!trivial, std::cmp::Reverse(self.strides[axis]))
        });
        order
    }

    /// Whether the elements fill one run of memory in row-major order.
    pub fn is_dense(&self) -> bool {
        let dense = Self::dense(self.home, self.dtype, self.dims);
        self.dims.contains(&0)
            || self.plain().is_some()
                && (0..self.dims.rank())
                    .all(|axis| self.dims[axis] == 1 || self.strides[axis] == dense.strides[axis])
    }

    /// Whether the elements fill one run of memory, in whatever order of axes.
    pub fn is_compact(&self) -> bool {
        self.permuted(&self.physical_order()).is_dense()
    }

    /// Whether two views of equal extents lie in the same order with the same gaps.
    pub fn same_layout(&self, other: &Self) -> bool {
        self.dims == other.dims
            && self.blocks.map(|blocks| blocks.stride) == other.blocks.map(|blocks| blocks.stride)
            && (0..self.dims.rank())
                .all(|axis| self.dims[axis] == 1 || self.strides[axis] == other.strides[axis])
    }

    /// A gapless view of another buffer and element type whose axes lie in this view's order.
    #[must_use]
    pub fn compact_like(&self, home: Home, dtype: DType) -> Self {
        if let (Some(Blocks { channels, fill, .. }), &[n, c, h, w]) = (self.blocks, &*self.dims) {
            return Self::blocked(home, dtype, [n, c, h, w], channels, fill);
        }
        let order = self.physical_order();
        let mut physical = self.dims;
        for (axis, &from) in order.iter().enumerate() {
            physical.dims_mut()[axis] = self.dims[from];
        }
        Self::dense(home, dtype, physical).restored(&order)
    }

    /// (extent, stride) of each axis.
    pub fn axes(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.dims.iter().copied().zip(self.strides.iter().copied())
    }
}

/// Merges neighbouring axes that every operand walks through in one stride, outermost first, extents of 1 dropped.
/// Returns extents and, per operand, strides in bytes; `None` when more than `max` axes remain.
pub fn merge_axes<const MAX: usize>(views: &[&View]) -> Option<([usize; MAX], Vec<[u64; MAX]>)> {
    let rank = views.first()?.dims.rank();
    let mut dims: Vec<usize> = Vec::with_capacity(rank);
    let mut strides: Vec<Vec<u64>> = vec![Vec::with_capacity(rank); views.len()];
    for axis in 0..rank {
        let dim = views[0].dims[axis];
        if dim == 1 {
            continue;
        }
        let merges = !dims.is_empty()
            && views
                .iter()
                .zip(&strides)
                .all(|(view, own)| own.last() == Some(&(view.strides[axis] * dim as u64)));
        if merges {
            *dims.last_mut()? *= dim;
        } else {
            dims.push(dim);
        }
        for (view, own) in views.iter().zip(&mut strides) {
            if merges {
                *own.last_mut()? = view.strides[axis];
            } else {
                own.push(view.strides[axis]);
            }
        }
    }
    // Right-aligned: unused leading axes have extent 1.
    let lead = MAX.checked_sub(dims.len())?;
    let mut out_dims = [1; MAX];
    out_dims[lead..].copy_from_slice(&dims);
    let out_strides = strides
        .into_iter()
        .map(|own| {
            let mut aligned = [0; MAX];
            aligned[lead..].copy_from_slice(&own);
            aligned
        })
        .collect();
    Some((out_dims, out_strides))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: Home = Home::Constants;

    #[test]
    fn channels_last_strides() {
        let view = View::channels_last(HOME, DType::F32, Shape::from([2, 3, 4, 5]));
        assert_eq!(&view.strides[..4], &[240, 4, 60, 12]);
        assert!(view.is_compact() && !view.is_dense());
        assert_eq!(view.span(), 480);
        // Channels last, seen as (N, H, W, C), is row-major: a head's transpose and reshape cost nothing.
        let transposed = view.permuted(&[0, 2, 3, 1]);
        assert!(transposed.is_dense());
        assert!(transposed.reshaped(Shape::from([2, 20, 3])).is_some_and(|view| view.is_dense()));
    }

    #[test]
    fn reshape_needs_mergeable_axes() {
        let view = View::channels_last(HOME, DType::I8, Shape::from([1, 8, 2, 2]));
        assert_eq!(view.reshaped(Shape::from([1, 32])), None);
        assert!(view.reshaped(Shape::from([8, 4])).is_some());
        let pooled = View::channels_last(HOME, DType::I8, Shape::from([3, 8, 1, 1]));
        assert!(pooled.reshaped(Shape::from([3, 8])).is_some_and(|view| view.is_dense()));
        let slice = View::dense(HOME, DType::I8, Shape::from([4, 6])).sliced(1, 1, 2, 2);
        assert_eq!((slice.offset, slice.strides[1], slice.span()), (1, 2, 21));
        assert_eq!(slice.reshaped(Shape::from([8])), None);
        assert!(slice.reshaped(Shape::from([2, 2, 1, 2])).is_some());
    }

    #[test]
    fn blocks_of_channels() {
        let view = View::blocked(HOME, DType::I8, [2, 70, 3, 5], 32, 9);
        assert_eq!(&view.strides[..4], &[3 * 480, 1, 160, 32]);
        assert_eq!(view.blocks, Some(Blocks { channels: 32, stride: 480, fill: 9, filled: true }));
        assert_eq!(view.plain(), None);
        let part = view.channels(32, 38).unwrap();
        assert_eq!((part.offset, part.dims[1]), (480, 38));
        assert_eq!(view.channels(31, 2), None);
        assert_eq!(
            [(32, 38), (32, 32), (32, 20)].map(|(start, length)| view
                .channels(start, length)
                .unwrap()
                .blocks
                .unwrap()
                .filled),
            [true, true, false]
        );
        let (whole, tail) = view.in_blocks(32);
        assert_eq!(&*whole.unwrap().dims, &[2, 2, 32, 3, 5]);
        assert_eq!((tail.unwrap().offset, &*tail.unwrap().dims), (960, &[2, 6, 3, 5][..]));
        let filling = view.filling().unwrap();
        assert_eq!((filling.offset, &*filling.dims), (966, &[2, 26, 3, 5][..]));
        let all = view.whole_blocks(32).unwrap();
        assert!(all.is_dense());
        assert_eq!(&*all.dims, &[2, 3, 3, 5, 32]);
        // One block, or one pixel: channels in one line.
        assert!(View::blocked(HOME, DType::I8, [2, 20, 3, 5], 32, 0).plain().is_some());
        let pixel = View::blocked(HOME, DType::I8, [1, 70, 1, 1], 32, 0);
        assert!(pixel.plain().is_some_and(|view| view.is_dense()));
        // Other extents have no blocks of channels, which writers would fill up.
        assert!(pixel.reshaped(pixel.dims).is_some());
        assert_eq!(pixel.reshaped(Shape::from([70, 1])), None);
        assert_eq!(View::blocked(HOME, DType::I16, [1, 32, 2, 2], 16, 0).filling(), None);
    }

    #[test]
    fn broadcast_and_merge() {
        let a = View::dense(HOME, DType::F32, Shape::from([2, 3, 4]));
        let b = View::dense(HOME, DType::F32, Shape::from([3, 1])).broadcast(a.dims).unwrap();
        assert_eq!(&b.strides[..3], &[0, 4, 0]);
        let (dims, strides) = merge_axes::<4>(&[&a, &b]).unwrap();
        assert_eq!(dims, [1, 2, 3, 4]);
        assert_eq!(strides[1], [0, 0, 4, 0]);
        let (dims, strides) = merge_axes::<4>(&[&a, &a]).unwrap();
        assert_eq!((dims, strides[0]), ([1, 1, 1, 24], [0, 0, 0, 4]));
        assert!(b.broadcast(Shape::from([2, 2, 4])).is_none());
    }

    #[test]
    fn compact_like_keeps_the_order() {
        let view = View::channels_last(HOME, DType::I8, Shape::from([2, 3, 4, 5])).sliced(1, 0, 2, 1);
        let like = view.compact_like(Home::Scratch(1), DType::F32);
        assert_eq!(&like.strides[..4], &[160, 4, 40, 8]);
        assert!(like.is_compact());
    }
}

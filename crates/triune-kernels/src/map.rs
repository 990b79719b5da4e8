//! How a feature map lies in memory, and how a window slides over it.

use crate::Error;

/// The layout of a feature map: batch, rows, columns, channels, with channels contiguous and free strides above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Nhwc {
    /// Images.
    pub n: usize,
    /// Rows.
    pub h: usize,
    /// Columns.
    pub w: usize,
    /// Channels.
    pub c: usize,
    /// Elements from one image to the next.
    pub stride_n: usize,
    /// Elements from one row to the next.
    pub stride_h: usize,
    /// Elements from one column to the next.
    pub stride_w: usize,
}

impl Nhwc {
    /// The layout without gaps.
    pub const fn dense(n: usize, h: usize, w: usize, c: usize) -> Self {
        let stride_h = w.saturating_mul(c);
        Self { n, h, w, c, stride_n: h.saturating_mul(stride_h), stride_h, stride_w: c }
    }

    /// Elements from the first to one past the last; 0 when the map is empty. Saturates.
    pub const fn span(&self) -> usize {
        if self.n == 0 || self.h == 0 || self.w == 0 || self.c == 0 {
            return 0;
        }
        (self.n - 1)
            .saturating_mul(self.stride_n)
            .saturating_add((self.h - 1).saturating_mul(self.stride_h))
            .saturating_add((self.w - 1).saturating_mul(self.stride_w))
            .saturating_add(self.c)
    }

    /// Index of channel 0 of a pixel.
    #[inline]
    pub const fn offset(&self, n: usize, h: usize, w: usize) -> usize {
        n * self.stride_n + h * self.stride_h + w * self.stride_w
    }

    /// Pixels in all images.
    pub const fn pixels(&self) -> usize {
        self.n * self.h * self.w
    }

    /// Elements that the map holds, gaps not counted.
    pub const fn elements(&self) -> usize {
        self.pixels() * self.c
    }

    /// Whether the map has no gaps.
    pub fn is_dense(&self) -> bool {
        (self.w <= 1 || self.stride_w == self.c)
            && (self.h <= 1 || self.stride_h == self.w * self.c)
            && (self.n <= 1 || self.stride_n == self.h * self.w * self.c)
    }

    /// Whether two pixels can share an element, which an output must not allow.
    pub fn overlaps_itself(&self) -> bool {
        if self.span() == 0 {
            return false;
        }
        let row = (self.w - 1).saturating_mul(self.stride_w).saturating_add(self.c);
        let image = (self.h - 1).saturating_mul(self.stride_h).saturating_add(row);
        (self.w > 1 && self.stride_w < self.c)
            || (self.h > 1 && self.stride_h < row)
            || (self.n > 1 && self.stride_n < image)
    }
}

/// The layout of planes: batch, channels, rows, columns, with columns contiguous and free strides above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Planes {
    /// Images.
    pub n: usize,
    /// Channels.
    pub c: usize,
    /// Rows.
    pub h: usize,
    /// Columns.
    pub w: usize,
    /// Elements from one image to the next.
    pub stride_n: usize,
    /// Elements from one channel to the next.
    pub stride_c: usize,
    /// Elements from one row to the next.
    pub stride_h: usize,
}

impl Planes {
    /// Elements from the first to one past the last; 0 when there are none. Saturates.
    pub const fn span(&self) -> usize {
        if self.n == 0 || self.c == 0 || self.h == 0 || self.w == 0 {
            return 0;
        }
        (self.n - 1)
            .saturating_mul(self.stride_n)
            .saturating_add((self.c - 1).saturating_mul(self.stride_c))
            .saturating_add((self.h - 1).saturating_mul(self.stride_h))
            .saturating_add(self.w)
    }

    /// A map of the same extents with channels last, without gaps.
    pub const fn channels_last(&self) -> Nhwc {
        Nhwc::dense(self.n, self.h, self.w, self.c)
    }
}

/// How a convolution's or a pool's window slides: rows first, columns second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvGeometry {
    /// Window rows and columns.
    pub kernel: [usize; 2],
    /// Step of the window.
    pub stride: [usize; 2],
    /// Distance of two taps.
    pub dilation: [usize; 2],
    /// Padding: top, left, bottom, right.
    pub pad: [usize; 4],
    /// Channel groups; each sees `in_channels / groups` inputs.
    pub groups: usize,
}

impl ConvGeometry {
    /// A 1×1 window, stride 1, without padding, one group.
    pub const fn pointwise() -> Self {
        Self { kernel: [1, 1], stride: [1, 1], dilation: [1, 1], pad: [0; 4], groups: 1 }
    }

    /// Rows and columns of the output, ⌊(in + pads − dilated window) / stride⌋ + 1, or `None` when the window
    /// does not fit, a parameter is zero or the arithmetic overflows.
    pub fn output(&self, in_h: usize, in_w: usize) -> Option<[usize; 2]> {
        let extent = |axis: usize, size: usize| {
            let window =
                self.kernel[axis].checked_sub(1)?.checked_mul(self.dilation[axis])?.checked_add(1)?;
            let padded = size.checked_add(self.pad[axis])?.checked_add(self.pad[axis + 2])?;
            padded.checked_sub(window)?.checked_div(self.stride[axis])?.checked_add(1)
        };
        if self.dilation.contains(&0) {
            return None;
        }
        Some([extent(0, in_h)?, extent(1, in_w)?])
    }

    /// Errors: a window without extent, or one that does not move on.
    pub(crate) fn check_window(&self) -> Result<(), Error> {
        if [self.kernel, self.stride, self.dilation].iter().any(|each| each.contains(&0)) {
            return Err(Error::Invalid("zero kernel, stride or dilation"));
        }
        Ok(())
    }

    /// How many products the sum of a result has, and how many weights there are in all, from `inputs` channels to `outputs`.
    ///
    /// Errors: zero extents, channels that the groups do not divide, more than can be counted.
    pub(crate) fn weights(&self, inputs: usize, outputs: usize) -> Result<[usize; 2], Error> {
        if [inputs, outputs, self.groups].contains(&0) {
            return Err(Error::Invalid("zero channels or groups"));
        }
        self.check_window()?;
        if !inputs.is_multiple_of(self.groups) || !outputs.is_multiple_of(self.groups) {
            return Err(Error::Invalid("groups do not divide the channels"));
        }
        let [rows, columns] = self.kernel;
        let depth = rows.checked_mul(columns).and_then(|taps| taps.checked_mul(inputs / self.groups));
        let depth = depth.ok_or(Error::Invalid("kernel size overflows"))?;
        let all = depth.checked_mul(outputs).ok_or(Error::Invalid("weight size overflows"))?;
        Ok([depth, all])
    }

    /// Errors: maps of other channels, or an output that is not what the window makes of the input.
    pub(crate) fn check_maps(
        &self,
        [inputs, outputs]: [usize; 2],
        input: Nhwc,
        output: Nhwc,
    ) -> Result<(), Error> {
        Error::check_eq("input channels", inputs, input.c)?;
        Error::check_eq("output channels", outputs, output.c)?;
        Error::check_eq("batch", input.n, output.n)?;
        let extents = self.output(input.h, input.w);
        let [rows, columns] = extents.ok_or(Error::Invalid("the window does not fit the padded input"))?;
        Error::check_eq("output rows", rows, output.h)?;
        Error::check_eq("output columns", columns, output.w)
    }
}

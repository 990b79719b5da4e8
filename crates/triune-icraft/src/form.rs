//! How a value's elements are stored, and the document's words for it.

use triune_graph::format::xir::{
    Axis, ElementType, ExpScale, Fill, Layout, MergedDistr, Runs, Scalar, Scale, Section, TensorType,
};
use triune_tensor::{DType, Shape};

use super::source::Meaning;

/// The stored order of a value's axes: stored axis i is the network's axis `order[i]`; channels by blocks, if they are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Form {
    pub(crate) order: Vec<usize>,
    /// Channels per block. The stored axes are then: the others but the last two in `order`'s order, see [`Form::shape`].
    pub(crate) block: Option<usize>,
}

/// The axis of channels of an image batch.
const CHANNELS: usize = 1;

impl Form {
    /// The axes as the network has them.
    pub(crate) fn plain(rank: usize) -> Self {
        Self { order: (0..rank).collect(), block: None }
    }

    /// Rows, columns, channels.
    pub(crate) fn image() -> Self {
        Self { order: vec![0, 2, 3, 1], block: None }
    }

    /// The network's axis `last` behind the others.
    pub(crate) fn with_last(rank: usize, last: usize) -> Self {
        let others = (0..rank).filter(|&axis| axis != last);
        Self { order: others.chain([last]).collect(), block: None }
    }

    /// How a value of this rank is best stored: images with channels last.
    pub(crate) fn natural(rank: usize) -> Self {
        if rank == 4 { Self::image() } else { Self::plain(rank) }
    }

    /// What operators on the accelerator take: an image's channels, or the last axis of what is none, by blocks.
    pub(crate) fn blocked(rank: usize, block: usize) -> Self {
        let form = if rank == 4 { Self::image() } else { Self::plain(rank) };
        Self { block: Some(block), ..form }
    }

    /// The same without blocks.
    pub(crate) fn unblocked(&self) -> Self {
        Self { block: None, ..self.clone() }
    }

    fn is_image(&self) -> bool {
        self.order == [0, 2, 3, CHANNELS]
    }

    /// The stored extents before channels are split.
    pub(crate) fn stored(&self, dims: &[usize]) -> Vec<usize> {
        self.order.iter().map(|&axis| dims[axis]).collect()
    }

    /// All stored extents.
    pub(crate) fn shape(&self, dims: &[usize]) -> Vec<usize> {
        let mut stored = self.stored(dims);
        let (Some(block), Some(channels)) = (self.block, stored.pop()) else { return self.stored(dims) };
        let blocks = channels.div_ceil(block);
        stored.insert(self.blocks_at(), blocks);
        stored.push(block);
        stored
    }

    /// The stored axis that counts blocks.
    pub(crate) fn blocks_at(&self) -> usize {
        if self.is_image() { CHANNELS } else { self.order.len().saturating_sub(1) }
    }

    /// The position in `order` of a network's axis.
    pub(crate) fn position(&self, axis: usize) -> usize {
        self.order.iter().position(|&each| each == axis).unwrap_or(axis)
    }

    /// The stored axis of a network's axis; that which counts blocks, of channels in blocks.
    pub(crate) fn axis(&self, axis: usize) -> usize {
        let position = self.position(axis);
        match self.block {
            Some(_) if position + 1 == self.order.len() => self.blocks_at(),
            Some(_) if position >= self.blocks_at() => position + 1,
            _ => position,
        }
    }

    /// Channels with those that fill the last block; 1 for scalars.
    pub(crate) fn channels(&self, dims: &[usize]) -> usize {
        let channels = self.order.last().map_or(1, |&axis| dims[axis]);
        self.block.map_or(channels, |block| channels.next_multiple_of(block))
    }

    /// The axes' names.
    pub(crate) fn layout(&self) -> Layout {
        let mut names: Vec<char> = if self.is_image() {
            vec!['N', 'H', 'W', 'C']
        } else {
            let mut names = vec!['*'; self.order.len()];
            if let Some(last) = names.last_mut() {
                *last = 'C';
            }
            names
        };
        let mut axes: Vec<Axis> = Vec::with_capacity(names.len() + 1);
        if let Some(block) = self.block {
            names.pop();
            names.insert(self.blocks_at(), 'C');
            axes.extend(names.into_iter().map(|name| Axis { name, unit: 0 }));
            axes.push(Axis { name: 'c', unit: block as u64 });
        } else {
            axes.extend(names.into_iter().map(|name| Axis { name, unit: 0 }));
        }
        Layout { axes }
    }

    /// Which of the stored channels are valid; nothing without blocks.
    pub(crate) fn merged(&self, dims: &[usize]) -> Vec<MergedDistr> {
        if self.block.is_none() {
            return Vec::new();
        }
        let valid = self.order.last().map_or(1, |&axis| dims[axis]);
        let axes = vec![self.blocks_at() as i64, self.order.len() as i64];
        vec![padded(axes, valid, self.channels(dims))]
    }
}

/// The first `valid` of `all` elements are valid.
pub(crate) fn padded(axes: Vec<i64>, valid: usize, all: usize) -> MergedDistr {
    let section = |valid, start: usize, end: usize| Section { valid, start: start as u64, end: end as u64 };
    let mut sections = vec![section(true, 0, valid)];
    if valid < all {
        sections.push(section(false, valid, all));
    }
    MergedDistr { axes, fill: Some(Fill::Zero), sections }
}

/// Which words a target has for quantized values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Scales are plain numbers.
    Plain,
    /// Activations have a ratio per channel, weights a multiplier m·2⁻ⁿ.
    Fixed,
}

impl Style {
    /// The element type of an activation whose `channels` all mean the same.
    pub(crate) fn activation(self, meaning: Meaning, channels: usize) -> ElementType {
        let count = channels as u64;
        let scale = Runs { axis: -1, runs: vec![(count, meaning.params.scale)] };
        let (storage, expressed) = (scalar(meaning.dtype), Scalar::Float(32));
        let zero_points = match meaning.params.zero_point {
            0 => Vec::new(),
            zero_point => vec![i64::from(zero_point)],
        };
        match self {
            Self::Plain => {
                ElementType::Quantized { storage, expressed, scale: Scale::Plain(scale), zero_points }
            }
            Self::Fixed => {
                let one = ExpScale { m: 1, exp: 0, origin: 1.0 };
                let unit = Scale::Exp(Runs { axis: -1, runs: vec![(count, one)] });
                ElementType::NormalizedQuantized {
                    storage,
                    expressed,
                    ratio: scale,
                    scale: unit,
                    zero_points,
                }
            }
        }
    }
}

/// The number format of a type.
pub(crate) fn scalar(dtype: DType) -> Scalar {
    let bits = dtype.bits() as u16;
    let split = |exponent, mantissa| Scalar::Split { exponent, mantissa, bits };
    match dtype {
        DType::Bool => Scalar::Bool,
        DType::U2 | DType::U4 | DType::U8 | DType::U16 | DType::U32 | DType::U64 => Scalar::Unsigned(bits),
        DType::I2 | DType::I4 | DType::I8 | DType::I16 | DType::I32 | DType::I64 => Scalar::Signed(bits),
        DType::F16 | DType::F32 | DType::F64 => Scalar::Float(bits),
        DType::BF16 => Scalar::BFloat(bits),
        DType::F8E4M3FN | DType::F8E4M3FNUZ => split(4, 3),
        DType::F8E5M2 | DType::F8E5M2FNUZ => split(5, 2),
        DType::F8E8M0 => split(8, 0),
        DType::F4E2M1 => split(2, 1),
    }
}

/// A layout of plain axes by their names.
pub(crate) fn layout(names: &str) -> Layout {
    Layout { axes: names.chars().map(|name| Axis { name, unit: 0 }).collect() }
}

/// A tensor of plain axes.
pub(crate) fn tensor(element: ElementType, dims: &[usize], layout: Layout) -> TensorType {
    let shape = dims.iter().map(|&dim| dim as i64).collect();
    TensorType { element, shape, layout, merged: Vec::new() }
}

/// The type of a value that is stored in `form`.
pub(crate) fn stored(element: ElementType, dims: Shape, form: &Form) -> TensorType {
    let shape = form.shape(&dims).iter().map(|&dim| dim as i64).collect();
    TensorType { element, shape, layout: form.layout(), merged: form.merged(&dims) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bits of the exponent and of the mantissa, as the types' own names say.
    #[test]
    fn types_have_the_formats_of_their_names() {
        for (dtype, exponent, mantissa, bits) in [
            (DType::F8E4M3FN, 4, 3, 8),
            (DType::F8E4M3FNUZ, 4, 3, 8),
            (DType::F8E5M2, 5, 2, 8),
            (DType::F8E5M2FNUZ, 5, 2, 8),
            (DType::F8E8M0, 8, 0, 8),
            (DType::F4E2M1, 2, 1, 4),
        ] {
            assert_eq!(scalar(dtype), Scalar::Split { exponent, mantissa, bits }, "{dtype}");
        }
        assert_eq!(scalar(DType::BF16), Scalar::BFloat(16));
        assert_eq!((scalar(DType::F16), scalar(DType::F64)), (Scalar::Float(16), Scalar::Float(64)));
        assert_eq!((scalar(DType::U4), scalar(DType::I64)), (Scalar::Unsigned(4), Scalar::Signed(64)));
        assert_eq!(scalar(DType::Bool), Scalar::Bool);
    }

    /// Extents as stored, with and without blocks; where axes and blocks are, and which channels are valid.
    #[test]
    fn forms_store_axes_in_their_order() {
        let dims = [2, 5, 3, 4];
        let image = Form::image();
        assert_eq!((image.shape(&dims), image.stored(&dims)), (vec![2, 3, 4, 5], vec![2, 3, 4, 5]));
        assert_eq!([0, 1, 2, 3].map(|axis| image.axis(axis)), [0, 3, 1, 2]);
        assert_eq!((image.channels(&dims), image.merged(&dims)), (5, Vec::new()));
        let blocked = Form::blocked(4, 4);
        assert_eq!(blocked.shape(&dims), [2, 2, 3, 4, 4]);
        assert_eq!([0, 1, 2, 3].map(|axis| blocked.axis(axis)), [0, 1, 2, 3]);
        assert_eq!([0, 1, 2, 3].map(|axis| blocked.position(axis)), [0, 3, 1, 2]);
        assert_eq!((blocked.blocks_at(), blocked.channels(&dims)), (1, 8));
        let section = |valid, start, end| Section { valid, start, end };
        let merged = |axes: &[i64], sections: &[Section]| {
            vec![MergedDistr { axes: axes.to_vec(), fill: Some(Fill::Zero), sections: sections.to_vec() }]
        };
        assert_eq!(blocked.merged(&dims), merged(&[1, 4], &[section(true, 0, 5), section(false, 5, 8)]));
        assert_eq!(blocked.merged(&[2, 8, 3, 4]), merged(&[1, 4], &[section(true, 0, 8)]));
        assert_eq!(blocked.unblocked(), image);
        // What is no image has blocks of its last axis, in front of which they are counted.
        let flat = Form::blocked(3, 4);
        let dims = [7, 3, 6];
        assert_eq!((flat.shape(&dims), flat.blocks_at()), (vec![7, 3, 2, 4], 2));
        assert_eq!([0, 1, 2].map(|axis| flat.axis(axis)), [0, 1, 2]);
        assert_eq!(flat.merged(&dims), merged(&[2, 3], &[section(true, 0, 6), section(false, 6, 8)]));
        assert_eq!(flat.unblocked(), Form::plain(3));
        let turned = Form { order: vec![2, 0, 1], block: None };
        assert_eq!((turned.shape(&dims), turned.axis(2), turned.position(1)), (vec![6, 7, 3], 0, 2));
        assert_eq!((Form::natural(4), Form::natural(3)), (Form::image(), Form::plain(3)));
        let scalar = Form::plain(0);
        assert_eq!((scalar.shape(&[]), scalar.channels(&[])), (vec![], 1));
    }

    #[test]
    fn layouts_name_axes_and_blocks() {
        let named =
            |form: Form| form.layout().axes.iter().map(|axis| (axis.name, axis.unit)).collect::<Vec<_>>();
        let plain = |names: &str| names.chars().map(|name| (name, 0)).collect::<Vec<_>>();
        assert_eq!(named(Form::image()), plain("NHWC"));
        assert_eq!(named(Form::plain(3)), plain("**C"));
        assert_eq!(named(Form::plain(4)), plain("***C"));
        assert_eq!(named(Form::plain(0)), []);
        assert_eq!(named(Form::blocked(4, 32)), [plain("NCHW"), vec![('c', 32)]].concat());
        assert_eq!(named(Form::blocked(2, 16)), [plain("*C"), vec![('c', 16)]].concat());
        let tensor = tensor(ElementType::Scalar(Scalar::Bool), &[3, 4], layout("OI"));
        assert_eq!((tensor.shape, tensor.layout), (vec![3, 4], layout("OI")));
        let stored =
            stored(ElementType::Scalar(Scalar::Bool), Shape::from([2, 5, 3, 4]), &Form::blocked(4, 4));
        assert_eq!((stored.shape, stored.merged.len()), (vec![2, 2, 3, 4, 4], 1));
    }

    /// One run of channels of one scale; a zero point only where it is not 0.
    #[test]
    fn activations_have_the_words_of_their_style() {
        for zero_point in [0, -7] {
            let params = triune_tensor::QuantParams { scale: 0.25, zero_point };
            let meaning = Meaning { dtype: DType::U8, params };
            let runs = Runs { axis: -1, runs: vec![(6, 0.25)] };
            let wanted = if zero_point == 0 { vec![] } else { vec![-7] };
            let (storage, expressed) = (Scalar::Unsigned(8), Scalar::Float(32));
            assert_eq!(
                Style::Plain.activation(meaning, 6),
                ElementType::Quantized {
                    storage,
                    expressed,
                    scale: Scale::Plain(runs.clone()),
                    zero_points: wanted.clone(),
                }
            );
            let unit = Runs { axis: -1, runs: vec![(6, ExpScale { m: 1, exp: 0, origin: 1.0 })] };
            assert_eq!(
                Style::Fixed.activation(meaning, 6),
                ElementType::NormalizedQuantized {
                    storage,
                    expressed,
                    ratio: runs,
                    scale: Scale::Exp(unit),
                    zero_points: wanted,
                }
            );
        }
    }
}

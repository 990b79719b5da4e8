//! Weights that programs share without a copy in any device's memory, and their packed forms.
//!
//! A program's constants lie in its own segment, as on a device. Where the same model is compiled again and again on the
//! host, for other shapes or for other sessions, that would be one copy of the weights each, and one packed copy more.
//! A library holds the model's weights where its file put them, under addresses of a segment that no program has, and
//! hands out each packed form once for all programs that are alive. Elements that a pass made of the file's (widened,
//! dequantized, transposed) are not kept beside their packed form. Those with a recipe are known by it: they are made only to be
//! packed. The others are made again by who compiles again.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    ops::{Deref, Range},
    sync::{Arc, Weak},
};

use bytes::Bytes;
use triune_fork::{Brief, BriefGuard};
use triune_kernels::{
    BlockMatMul, BlockSpec, Error as KernelError, Filter, Isa, PackedBytes, PackedFilter, QConv, QConvSpec,
};
use triune_tensor::{Buffer, OutOfMemory, Recipe};
use twox_hash::XxHash3_128;

use crate::Addr;

/// Weights of a convolution, in whatever order of axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weights {
    /// The elements, little-endian; none of them if there is a recipe.
    pub bytes: Bytes,
    /// What makes the elements when they are packed.
    pub recipe: Option<Recipe>,
    /// Bytes of an element.
    pub elem_bytes: usize,
    /// Output channels, taps of the window, input channels of one group.
    pub extents: [usize; 3],
    /// Elements from one index along each of them to the next.
    pub strides: [usize; 3],
}

impl Weights {
    /// Elements in all, unless their number overflows.
    fn elements(&self) -> Option<usize> {
        self.extents.iter().try_fold(1_usize, |product, &extent| product.checked_mul(extent))
    }

    /// Bytes of the elements.
    fn len(&self) -> usize {
        self.recipe.as_ref().map_or(self.bytes.len(), Recipe::len)
    }

    /// What their elements lie in, or are made of.
    fn source(&self) -> &Bytes {
        self.recipe.as_ref().map_or(&self.bytes, Recipe::source)
    }

    /// What tells them apart once that is gone.
    fn digest(&self) -> u128 {
        let how = self.recipe.as_ref().map_or(&[][..], Recipe::how);
        XxHash3_128::oneshot(self.source()) ^ XxHash3_128::oneshot(how).rotate_left(1)
    }

    /// The weights with their elements made, if need be.
    pub fn made(&self) -> Result<Cow<'_, Self>, OutOfMemory> {
        let Some(recipe) = &self.recipe else { return Ok(Cow::Borrowed(self)) };
        let bytes = recipe.made().ok_or(OutOfMemory { bytes: recipe.len() as u64 })?;
        Ok(Cow::Owned(Self { bytes, recipe: None, ..*self }))
    }

    /// Whether every element lies in the bytes.
    fn is_whole(&self) -> bool {
        let last = self.extents.iter().zip(self.strides).try_fold(0_usize, |sum, (&extent, stride)| {
            sum.checked_add(extent.checked_sub(1)?.checked_mul(stride)?)
        });
        let end = last.and_then(|last| last.checked_add(1)?.checked_mul(self.elem_bytes));
        end.is_some_and(|end| end <= self.len()) && self.elements().is_some()
    }

    /// The elements in the order of the extents, without gaps.
    pub fn dense(&self) -> Bytes {
        let [channels, taps, inputs] = self.extents;
        let length = channels * taps * inputs * self.elem_bytes;
        if self.strides == [taps * inputs, inputs, 1] {
            return self.bytes.slice(..length);
        }
        let mut dense = vec![0; length];
        match self.elem_bytes {
            1 => self.copy_dense::<1>(&mut dense),
            4 => self.copy_dense::<4>(&mut dense),
            bytes => {
                for (index, to) in dense.chunks_exact_mut(bytes).enumerate() {
                    let at = [index / inputs / taps, index / inputs % taps, index % inputs];
                    let at: usize = at.iter().zip(self.strides).map(|(index, stride)| index * stride).sum();
                    to.copy_from_slice(&self.bytes[at * bytes..][..bytes]);
                }
            }
        }
        dense.into()
    }

    /// As [`Self::dense`] for elements of `N` bytes, fast.
    fn copy_dense<const N: usize>(&self, dense: &mut [u8]) {
        let [_, taps, inputs] = self.extents;
        let (source, _) = self.bytes.as_chunks::<N>();
        let (dense, _) = dense.as_chunks_mut::<N>();
        for (channel, dense) in dense.chunks_exact_mut(taps * inputs).enumerate() {
            for (tap, dense) in dense.chunks_exact_mut(inputs).enumerate() {
                let first = channel * self.strides[0] + tap * self.strides[1];
                for (to, from) in dense.iter_mut().zip(source[first..].iter().step_by(self.strides[2].max(1)))
                {
                    *to = *from;
                }
            }
        }
    }

    /// The weights as f32 kernels take them.
    pub(super) fn filter(&self) -> Filter<'_> {
        let [out_channels, taps, group_channels] = self.extents;
        Filter { bytes: &self.bytes, out_channels, taps, group_channels, strides: self.strides }
    }
}

/// What weights are packed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Packing {
    /// Convolutions.
    Convolution,
    /// Products with one matrix per group.
    Matrices,
    /// Convolutions of 3×3 by Winograd's filtering.
    Winograd,
}

impl Packing {
    /// Packs weights, each time anew.
    pub(super) fn pack(
        self,
        filter: &Filter<'_>,
        groups: usize,
        isa: Isa,
    ) -> Result<PackedFilter, KernelError> {
        match self {
            Self::Convolution => PackedFilter::new(filter, groups, isa),
            Self::Matrices => PackedFilter::matrices(filter, groups, isa),
            Self::Winograd => PackedFilter::winograd(filter, isa),
        }
    }

    /// Packs weights that a recipe makes, which has more than a part of them at one time only where they lie all over the place.
    fn read(
        self,
        extents: &Filter<'_>,
        recipe: &Recipe,
        groups: usize,
        isa: Isa,
    ) -> Result<PackedFilter, KernelError> {
        let size = size_of::<f32>();
        if self == Self::Winograd {
            // A filter's taps lie all over the place: all of them at a time.
            let bytes = Buffer::zeroed(recipe.len());
            let mut bytes = bytes.ok_or(KernelError::Invalid("more weights than there is memory for"))?;
            recipe.part(0, &mut bytes);
            return PackedFilter::winograd(&Filter { bytes: &bytes, ..*extents }, isa);
        }
        let mut read = |from: usize, to: &mut [u8]| recipe.part(from * size, to);
        PackedFilter::read(extents, groups, isa, self == Self::Matrices, recipe.len() / size, &mut read)
    }
}

fn place(bytes: &Bytes) -> Range<usize> {
    let start = bytes.as_ptr() as usize;
    start..start + bytes.len()
}

/// How bytes are read: their number, bytes of an element, extents and strides.
type Form = (usize, usize, [usize; 3], [usize; 3]);

/// Weights at an address.
#[derive(Debug)]
struct Piece {
    /// Without their elements once they are [`Piece::spent`].
    weights: Weights,
    /// Commands that have not been made ready yet.
    awaited: usize,
    /// What tells the elements apart once they are gone.
    spent: Option<u128>,
}

impl Piece {
    /// Whether its elements are, or were, these. The same place in memory as a rule; else a comparison, which ends at the first
    /// difference.
    fn has(&self, weights: &Weights) -> bool {
        match (self.spent, &self.weights.recipe, &weights.recipe) {
            (Some(digest), ..) => digest == weights.digest(),
            (None, Some(own), Some(other)) => own == other,
            (None, None, None) => {
                let (own, other) = (&self.weights.bytes, &weights.bytes);
                own.as_ptr() == other.as_ptr() || own == other
            }
            _ => false,
        }
    }
}

#[derive(Debug, Default)]
struct State {
    pieces: BTreeMap<u64, Piece>,
    /// The pieces of each form.
    offsets: HashMap<Form, Vec<u64>>,
    end: u64,
    packed: HashMap<(u64, usize, Isa, Packing), Weak<PackedFilter>>,
    quantized: HashMap<(u64, Isa), Vec<Weak<QConv>>>,
    matrices: HashMap<(u64, bool, Isa), Weak<PackedBytes>>,
    blocks: HashMap<(u64, BlockSpec, Isa), Weak<BlockMatMul>>,
}

/// The weights of a model.
#[derive(Debug, Default)]
pub struct Library {
    /// Where bytes lie that stay there anyway, in order of their addresses.
    kept: Vec<Range<usize>>,
    state: Brief<State>,
}

impl Library {
    /// The segment of the library's addresses; no table has so many.
    pub const SEGMENT: u16 = Addr::MAX_SEGMENT;

    /// A library for the weights of a model that has these bytes itself as long as the library is there. Others are kept until the
    /// commands that want them are ready.
    pub fn beside<'b>(own: impl IntoIterator<Item = &'b Bytes>) -> Self {
        let mut kept: Vec<Range<usize>> = own.into_iter().map(place).collect();
        kept.sort_unstable_by_key(|own| own.start);
        Self { kept, state: Brief::default() }
    }

    /// Whether the bytes are some of those that the model has itself.
    pub fn has(&self, bytes: &Bytes) -> bool {
        let Range { start, end } = place(bytes);
        let before = self.kept.partition_point(|own| own.start <= start);
        before.checked_sub(1).is_some_and(|last| end <= self.kept[last].end)
    }

    /// The address of these weights; the same for equal bytes that are read the same way. `None` unless the bytes hold all
    /// elements.
    pub fn add(&self, weights: &Weights) -> Option<Addr> {
        if !weights.is_whole() {
            return None;
        }
        let form: Form = (weights.len(), weights.elem_bytes, weights.extents, weights.strides);
        let mut state = self.lock();
        let State { pieces, offsets, end, .. } = &mut *state;
        let known = offsets.entry(form).or_default();
        let same = |offset: &&u64| pieces.get(offset).is_some_and(|piece| piece.has(weights));
        if let Some(&offset) = known.iter().find(same) {
            if let Some(piece) = pieces.get_mut(&offset) {
                // The caller's own: nobody lets go of them before it has said which commands want them.
                piece.weights = weights.clone();
                piece.spent = None;
            }
            return Some(Addr::new(Self::SEGMENT, offset));
        }
        let offset = *end;
        *end += (weights.len() as u64).max(1).next_multiple_of(64);
        known.push(offset);
        pieces.insert(offset, Piece { weights: weights.clone(), awaited: 0, spent: None });
        Some(Addr::new(Self::SEGMENT, offset))
    }

    /// Says that a command will want the weights at an address that [`Self::add`] gave: until it is ready, their bytes stay.
    pub fn expect(&self, addr: Addr) {
        if let Some(piece) = self.lock().pieces.get_mut(&addr.offset()) {
            piece.awaited += 1;
        }
    }

    /// The weights at an address that [`Self::add`] gave, for a command that is made ready.
    pub(super) fn get(&self, addr: Addr) -> Option<Loan<'_>> {
        let weights = self.lock().pieces.get(&addr.offset())?.weights.clone();
        Some(Loan { library: self, addr, weights })
    }

    /// A command is ready: bytes that no other waits for, and that the model does not have, go.
    fn done(&self, addr: Addr) {
        let mut state = self.lock();
        let Some(piece) = state.pieces.get_mut(&addr.offset()) else { return };
        piece.awaited = piece.awaited.saturating_sub(1);
        if piece.awaited == 0 && piece.spent.is_none() && !self.has(piece.weights.source()) {
            piece.spent = Some(piece.weights.digest());
            piece.weights.bytes = Bytes::new();
            piece.weights.recipe = None;
        }
    }

    /// Bytes of the weights that are kept as they were added.
    pub fn bytes(&self) -> usize {
        self.lock().pieces.values().map(|piece| piece.weights.bytes.len()).sum()
    }

    /// Bytes of packed weights that programs alive use: f32, and integers of up to 8 bits.
    pub fn packed_bytes(&self) -> usize {
        let state = self.lock();
        let floats = state.packed.values().filter_map(Weak::upgrade).map(|packed| packed.bytes());
        let quantized = state.quantized.values().flatten().filter_map(Weak::upgrade).map(|conv| conv.bytes());
        let matrices = state.matrices.values().filter_map(Weak::upgrade).map(|packed| packed.bytes());
        let blocks = state.blocks.values().filter_map(Weak::upgrade).map(|packed| packed.bytes());
        floats.chain(quantized).chain(matrices).chain(blocks).sum()
    }

    /// The packed form of f32 weights.
    pub(super) fn packed(
        &self,
        addr: Addr,
        weights: &Weights,
        groups: usize,
        isa: Isa,
        packing: Packing,
    ) -> Result<Arc<PackedFilter>, KernelError> {
        // Held while packing: whoever asks for the same meanwhile gets this one.
        let mut state = self.lock();
        let slot = state.packed.entry((addr.offset(), groups, isa, packing)).or_default();
        if let Some(packed) = slot.upgrade() {
            return Ok(packed);
        }
        let packed = Arc::new(match &weights.recipe {
            Some(recipe) => packing.read(&weights.filter(), recipe, groups, isa)?,
            None => packing.pack(&weights.filter(), groups, isa)?,
        });
        *slot = Arc::downgrade(&packed);
        Ok(packed)
    }

    /// The convolution that `spec` calls for, made unless one that is equal is alive.
    pub(super) fn quantized(
        &self,
        addr: Addr,
        spec: &QConvSpec<'_>,
        isa: Isa,
    ) -> Result<Arc<QConv>, KernelError> {
        let mut state = self.lock();
        let slot = state.quantized.entry((addr.offset(), isa)).or_default();
        slot.retain(|each| each.strong_count() > 0);
        if let Some(found) = slot.iter().filter_map(Weak::upgrade).find(|each| each.has_parameters(spec)) {
            return Ok(found);
        }
        let new = Arc::new(QConv::new(spec, isa)?);
        slot.push(Arc::downgrade(&new));
        Ok(new)
    }

    /// The packed form of a matrix of bytes: a row per input channel, a column per output channel.
    pub(super) fn packed_bytes_of(
        &self,
        addr: Addr,
        weights: &Weights,
        signed: bool,
        isa: Isa,
    ) -> Result<Arc<PackedBytes>, KernelError> {
        let mut state = self.lock();
        let slot = state.matrices.entry((addr.offset(), signed, isa)).or_default();
        if let Some(packed) = slot.upgrade() {
            return Ok(packed);
        }
        let (extents, strides) = (weights.extents, weights.strides);
        let packed = PackedBytes::new(
            &weights.bytes,
            [extents[2], extents[0]],
            [strides[2], strides[0]],
            signed,
            isa,
        )?;
        let packed = Arc::new(packed);
        *slot = Arc::downgrade(&packed);
        Ok(packed)
    }

    /// The packed form of a matrix of integers in blocks, a column per output channel; `pack` makes it unless one is alive.
    pub(super) fn packed_blocks<E>(
        &self,
        addr: Addr,
        spec: &BlockSpec,
        isa: Isa,
        pack: impl FnOnce() -> Result<BlockMatMul, E>,
    ) -> Result<Arc<BlockMatMul>, E> {
        let mut state = self.lock();
        let slot = state.blocks.entry((addr.offset(), *spec, isa)).or_default();
        if let Some(packed) = slot.upgrade() {
            return Ok(packed);
        }
        let packed = Arc::new(pack()?);
        *slot = Arc::downgrade(&packed);
        Ok(packed)
    }

    fn lock(&self) -> BriefGuard<'_, State> {
        self.state.lock()
    }
}

impl Loan<'_> {
    /// Makes the elements, if they are to be made.
    pub(super) fn make(mut self) -> Result<Self, OutOfMemory> {
        self.weights = self.weights.made()?.into_owned();
        Ok(self)
    }
}

/// Weights while a command is made ready.
pub(super) struct Loan<'a> {
    pub(super) library: &'a Library,
    addr: Addr,
    weights: Weights,
}

impl Deref for Loan<'_> {
    type Target = Weights;

    fn deref(&self) -> &Weights {
        &self.weights
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        self.weights.bytes = Bytes::new();
        self.weights.recipe = None;
        self.library.done(self.addr);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(strides: [usize; 3]) -> Weights {
        Weights {
            bytes: Bytes::from((0..24).collect::<Vec<u8>>()),
            elem_bytes: 1,
            recipe: None,
            extents: [2, 4, 3],
            strides,
        }
    }

    #[test]
    fn one_address_per_content() {
        let library = Library::default();
        let outer_taps = weights([12, 3, 1]);
        let address = library.add(&outer_taps).unwrap();
        assert_eq!(address.segment(), Library::SEGMENT);
        assert_eq!(library.add(&outer_taps.clone()), Some(address));
        let other = library.add(&Weights { strides: [12, 1, 4], ..outer_taps.clone() }).unwrap();
        assert_ne!(other, address);
        assert_eq!(library.add(&weights([12, 3, 1])), Some(address), "equal bytes elsewhere in memory");
        let mut changed = outer_taps.bytes.to_vec();
        changed[23] ^= 1;
        let changed = Weights { bytes: changed.into(), ..outer_taps.clone() };
        assert!(![address, other].contains(&library.add(&changed).unwrap()));
        assert_eq!(library.get(address).as_deref(), Some(&outer_taps));
    }

    #[test]
    fn bytes_that_the_model_does_not_have_go_with_their_last_command() {
        let file = weights([12, 1, 4]);
        let library = Library::beside([&Bytes::from_static(b"another"), &file.bytes]);
        let own = library.add(&weights([12, 3, 1])).unwrap();
        let kept = library.add(&file).unwrap();
        for addr in [own, own, kept] {
            library.expect(addr);
        }
        assert_eq!(library.bytes(), 48);
        let first = library.get(own).unwrap();
        assert_eq!(first.bytes.len(), 24);
        drop(first);
        assert_eq!(library.bytes(), 48, "another command waits for them");
        drop(library.get(kept));
        assert_eq!(library.bytes(), 48, "the model has them");
        drop(library.get(own));
        assert_eq!(library.bytes(), 24);
        // Who makes them again finds them under their address, and brings them back.
        assert_eq!(library.add(&weights([12, 3, 1])), Some(own));
        assert_eq!(library.bytes(), 48);
        let mut other = file.bytes.to_vec();
        other[0] = 9;
        library.expect(own);
        drop(library.get(own));
        let other = Weights { bytes: other.into(), ..weights([12, 3, 1]) };
        assert!(![own, kept].contains(&library.add(&other).unwrap()));
    }

    #[test]
    fn a_recipe_is_followed_while_nobody_has_what_it_makes() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let library = Library::default();
        let (of, made) = (Bytes::from(vec![7; 24]), Arc::new(AtomicUsize::new(0)));
        let weights = |how: u8| {
            let (of, made) = (of.clone(), Arc::clone(&made));
            let recipe = Recipe::new(of, vec![how], 96, move |_, to| {
                made.fetch_add(1, Ordering::Relaxed);
                to.fill(0);
            });
            Weights { bytes: Bytes::new(), elem_bytes: 4, recipe: Some(recipe), ..weights([12, 3, 1]) }
        };
        let pack = |weights: &Weights| {
            let addr = library.add(weights).unwrap();
            library.expect(addr);
            let own = library.get(addr).unwrap();
            (addr, library.packed(addr, &own, 1, Isa::Scalar, Packing::Convolution).unwrap())
        };
        let (addr, first) = pack(&weights(0));
        let (again, second) = pack(&weights(0));
        assert_eq!((addr, made.load(Ordering::Relaxed)), (again, 1));
        assert!(Arc::ptr_eq(&first, &second));
        assert_ne!(pack(&weights(1)).0, addr, "the same of the same, otherwise");
        assert_eq!((library.bytes(), made.load(Ordering::Relaxed)), (0, 2));
        drop((first, second));
        assert_eq!((pack(&weights(0)).0, made.load(Ordering::Relaxed)), (addr, 3));
        // As bytes they are others.
        let bytes = Weights { bytes: vec![0; 96].into(), recipe: None, ..weights(0) };
        assert_ne!(library.add(&bytes).unwrap(), addr);
    }

    #[test]
    fn what_a_recipe_is_followed_with_goes_with_its_last_command() {
        let of = |value: u8| Bytes::from(vec![value; 24]);
        let weights = |of: Bytes, how: u8| {
            let recipe = Recipe::new(of, vec![how], 96, |_, to| to.fill(0));
            Weights { bytes: Bytes::new(), elem_bytes: 4, recipe: Some(recipe), ..weights([12, 3, 1]) }
        };
        let (own, other) = (of(1), of(2));
        let library = Library::beside([&own]);
        let recipe_at = |addr: Addr| library.lock().pieces[&addr.offset()].weights.recipe.is_some();
        let [kept, made] = [&own, &other].map(|of| {
            let addr = library.add(&weights(of.clone(), 0)).unwrap();
            library.expect(addr);
            drop(library.get(addr));
            addr
        });
        assert!(recipe_at(kept), "the model has what it is made of");
        assert!(!recipe_at(made));
        assert!(other.is_unique(), "nobody else holds it");
        // Whoever comes with the same again finds it.
        assert_eq!(library.add(&weights(of(2), 0)), Some(made));
        assert!(recipe_at(made));
        library.expect(made);
        drop(library.get(made));
        for different in [weights(of(2), 1), weights(of(3), 0)] {
            assert!(![kept, made].contains(&library.add(&different).unwrap()));
        }
    }

    #[test]
    fn weights_that_leave_their_bytes_are_refused() {
        let library = Library::default();
        for strides in [[13, 3, 1], [12, 4, 1], [usize::MAX, 3, 1]] {
            assert_eq!(library.add(&weights(strides)), None, "{strides:?}");
        }
        let empty = Weights { extents: [0, 4, 3], ..weights([12, 3, 1]) };
        assert_eq!(library.add(&empty), None);
        assert_eq!(library.add(&Weights { elem_bytes: 4, ..weights([12, 3, 1]) }), None);
    }

    #[test]
    fn dense_follows_the_strides() {
        assert_eq!(weights([12, 3, 1]).dense(), weights([12, 3, 1]).bytes);
        let dense = weights([12, 1, 4]).dense();
        assert_eq!(&dense[..12], [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]);
        assert_eq!(dense[12], 12);
        // Wider elements, those with a path of their own and others.
        for elem_bytes in [2, 4, 8] {
            let wide: Vec<u8> = (0..24_u8).flat_map(|value| vec![value; elem_bytes]).collect();
            let wide = Weights { bytes: wide.into(), elem_bytes, ..weights([12, 1, 4]) };
            let narrow: Vec<u8> = wide.dense().chunks(elem_bytes).map(|element| element[0]).collect();
            assert_eq!(narrow, dense);
            assert!(
                wide.dense().chunks(elem_bytes).all(|element| element.iter().all(|byte| *byte == element[0]))
            );
        }
    }
}

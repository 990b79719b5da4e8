//! Tensors: a layout, and memory that is there once something asks for it, zero and aligned to 64 bytes, or the program's own.

use std::{
    alloc::{self, Layout as Extent},
    ffi::{c_int, c_void},
    ptr::{self, NonNull},
    slice,
    sync::Arc,
};

use triune::internals::fork::Brief;

use super::{
    allocator::{ALIGNMENT, Allocator},
    failure::{Failure, done, failure, give},
    types::{CPU, DEVICE_DEFAULT, Handle, Layout, MAX_DIMS, TensorDesc, dtype},
};
use crate::{
    boundary,
    handle::{self, Table},
};

pub(crate) static TENSORS: Table<Tensor> = Table::new();

/// A `LiteTensor`.
pub(crate) struct Tensor {
    pub(crate) state: Brief<State>,
    /// The network whose input or output it is, with which it goes.
    pub(crate) network: Option<usize>,
}

/// Memory of the interface's own, or of the program's allocator.
pub(crate) struct Block {
    start: NonNull<u8>,
    source: Source,
}

enum Source {
    Own(Extent),
    Program(Allocator),
}

// SAFETY: the block is whose it is, wherever that goes; what is in it, the program guards.
unsafe impl Send for Block {}
// SAFETY: nobody reads or writes it through the block.
unsafe impl Sync for Block {}

impl Block {
    fn new(bytes: usize, allocator: Option<Allocator>) -> Result<Arc<Self>, Failure> {
        let extent = Extent::from_size_align(bytes.max(1), ALIGNMENT)
            .map_err(|_| failure("the tensor has too many bytes"))?;
        if let Some(allocator) = allocator {
            let start = allocator.allocate(extent.size())?;
            return Ok(Arc::new(Self { start, source: Source::Program(allocator) }));
        }
        // SAFETY: the size is not zero.
        let start = NonNull::new(unsafe { alloc::alloc_zeroed(extent) });
        let none = || failure(format!("the machine has no memory for a tensor of {bytes} bytes"));
        Ok(Arc::new(Self { start: start.ok_or_else(none)?, source: Source::Own(extent) }))
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        match &self.source {
            // SAFETY: allocated with that extent.
            Source::Own(extent) => unsafe { alloc::dealloc(self.start.as_ptr(), *extent) },
            Source::Program(allocator) => allocator.free(self.start),
        }
    }
}

/// Where the elements are.
#[derive(Clone)]
struct Memory {
    start: *mut u8,
    bytes: usize,
    /// Of the program's own where there is none.
    block: Option<Arc<Block>>,
}

// SAFETY: as for blocks; the program's memory it gave away for that.
unsafe impl Send for Memory {}

#[derive(Clone)]
pub(crate) struct State {
    pub(crate) shape: Vec<usize>,
    pub(crate) kind: c_int,
    device_type: c_int,
    device_id: c_int,
    pinned: bool,
    memory: Option<Memory>,
    /// Elements from one to the next along each axis, for what lies with gaps.
    strides: Option<Vec<usize>>,
    /// What gives memory, where the program said so.
    pub(super) allocator: Option<Allocator>,
}

impl State {
    pub(crate) fn new(layout: &Layout, device_type: c_int, device_id: c_int) -> Result<Self, Failure> {
        if !matches!(device_type, CPU | DEVICE_DEFAULT) {
            return Err(failure(format!(
                "not implemented: tensors on device type {device_type}; there is LITE_CPU"
            )));
        }
        let mut state = Self {
            shape: Vec::new(),
            kind: 0,
            device_type,
            device_id,
            pinned: false,
            memory: None,
            strides: None,
            allocator: None,
        };
        state.relayout(layout.shape()?, layout.data_type)?;
        Ok(state)
    }

    fn size_of(shape: &[usize], kind: c_int) -> Result<usize, Failure> {
        let item = dtype(kind)?.bytes();
        let elements = shape.iter().try_fold(item, |product, &extent| product.checked_mul(extent));
        let bytes = elements.filter(|&bytes| isize::try_from(bytes).is_ok());
        let bytes =
            bytes.ok_or_else(|| failure(format!("a tensor of {} has too many bytes", shown(shape))))?;
        Ok(if shape.is_empty() { 0 } else { bytes })
    }

    pub(crate) fn bytes(&self) -> Result<usize, Failure> {
        Self::size_of(&self.shape, self.kind)
    }

    fn item(&self) -> Result<usize, Failure> {
        Ok(dtype(self.kind)?.bytes())
    }

    /// Takes a layout: in the memory there is if it suffices, else in memory still to be allocated.
    pub(crate) fn relayout(&mut self, shape: &[usize], kind: c_int) -> Result<(), Failure> {
        if shape == self.shape && kind == self.kind {
            return Ok(());
        }
        if self.strides.is_some() {
            return Err(failure("the tensor is a slice with gaps: copy it to a tensor of its own first"));
        }
        let bytes = Self::size_of(shape, kind)?;
        if self.memory.as_ref().is_some_and(|memory| memory.bytes < bytes) || shape.is_empty() {
            self.memory = None;
        }
        (self.shape, self.kind) = (shape.to_vec(), kind);
        Ok(())
    }

    /// Where the elements begin, allocated if need be.
    pub(crate) fn start(&mut self) -> Result<*mut u8, Failure> {
        if self.shape.is_empty() {
            return Err(failure("the tensor's layout is empty: set a layout or data first"));
        }
        if let Some(memory) = &self.memory {
            return Ok(memory.start);
        }
        let bytes = self.bytes()?;
        let block = Block::new(bytes, self.allocator)?;
        let start = block.start.as_ptr();
        self.memory = Some(Memory { start, bytes, block: Some(block) });
        Ok(start)
    }

    /// The program's own memory in the place of what there is.
    fn take(&mut self, start: *mut c_void, bytes: usize) -> Result<(), Failure> {
        let needed = self.bytes()?;
        if start.is_null() || bytes < needed {
            let got = if start.is_null() { "NULL".to_owned() } else { bytes.to_string() };
            return Err(failure(format!("prepared_data: expected at least {needed} bytes, got {got}")));
        }
        self.strides = None;
        self.memory = Some(Memory { start: start.cast(), bytes, block: None });
        Ok(())
    }

    pub(crate) fn layout(&self) -> Layout {
        Layout::new(&self.shape, self.kind)
    }

    fn strides(&self) -> Vec<usize> {
        self.strides.clone().unwrap_or_else(|| dense(&self.shape))
    }

    /// The offsets of all elements in their order, in elements.
    fn offsets(&self) -> Vec<usize> {
        let mut offsets = vec![0];
        for (&extent, stride) in self.shape.iter().zip(self.strides()) {
            offsets =
                offsets.iter().flat_map(|at| (0..extent).map(move |index| at + index * stride)).collect();
        }
        offsets
    }

    /// The elements one after the other, copied.
    pub(crate) fn gathered(&mut self) -> Result<Vec<u8>, Failure> {
        let (start, item, bytes) = (self.start()?, self.item()?, self.bytes()?);
        let mut all = triune::internals::tensor::memory::filled(bytes, 0u8)?;
        if self.strides.is_none() {
            // SAFETY: the tensor has so many bytes there.
            unsafe { ptr::copy_nonoverlapping(start, all.as_mut_ptr(), bytes) };
            return Ok(all);
        }
        for (to, at) in all.chunks_exact_mut(item).zip(self.offsets()) {
            // SAFETY: the offset is one of the tensor's elements.
            unsafe { ptr::copy_nonoverlapping(start.add(at * item), to.as_mut_ptr(), item) };
        }
        Ok(all)
    }

    /// Writes the elements from some that lie one after the other.
    pub(crate) fn scatter(&mut self, all: &[u8]) -> Result<(), Failure> {
        let (start, item) = (self.start()?, self.item()?);
        debug_assert_eq!(self.bytes().ok(), Some(all.len()));
        if self.strides.is_none() {
            // SAFETY: the tensor has so many bytes there.
            unsafe { ptr::copy_nonoverlapping(all.as_ptr(), start, all.len()) };
            return Ok(());
        }
        for (from, at) in all.chunks_exact(item).zip(self.offsets()) {
            // SAFETY: the offset is one of the tensor's elements.
            unsafe { ptr::copy_nonoverlapping(from.as_ptr(), start.add(at * item), item) };
        }
        Ok(())
    }

    /// Whether anything asked for the memory yet.
    pub(super) fn has_memory(&self) -> bool {
        self.memory.is_some()
    }

    /// Whether the elements lie in memory of the program's own.
    pub(super) fn is_programs(&self) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.block.is_none())
    }

    pub(crate) fn is_dense(&self) -> bool {
        self.strides.is_none()
    }
}

/// Numbers as messages show them.
fn shown<T: ToString>(numbers: &[T]) -> String {
    format!("[{}]", numbers.iter().map(T::to_string).collect::<Vec<_>>().join(", "))
}

fn dense(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides
}

/// The tensor that an argument names.
pub(crate) fn find(name: &str, tensor: Handle) -> Result<Arc<Tensor>, Failure> {
    TENSORS.find(tensor).ok_or_else(|| {
        let got = if tensor.is_null() { "NULL" } else { "one that has been destroyed, or never was one" };
        failure(format!("{name}: expected a LiteTensor, got {got}"))
    })
}

fn add(state: State) -> Handle {
    handle::pointer(TENSORS.add(|_| Tensor { state: Brief::new(state), network: None }))
}

/// A tensor that goes with a network, and its handle.
pub(super) fn of_network(state: State, network: usize) -> Result<(usize, Arc<Tensor>), Failure> {
    let handle = TENSORS.add(|_| Tensor { state: Brief::new(state), network: Some(network) });
    Ok((handle, find("tensor", handle::pointer(handle))?))
}

/// What one tensor is asked for.
fn with(tensor: Handle, work: impl FnOnce(&mut State) -> Result<(), Failure>) -> c_int {
    done(|| work(&mut find("tensor", tensor)?.state.lock()))
}

/// `LITE_make_tensor`.
///
/// # Safety
/// `tensor` is NULL or can be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_make_tensor(tensor_describe: TensorDesc, tensor: *mut Handle) -> c_int {
    done(|| {
        let described = &tensor_describe;
        let mut state = State::new(&described.layout, described.device_type, described.device_id)?;
        state.pinned = described.is_pinned_host != 0;
        if tensor.is_null() {
            return Err(failure("tensor: expected a place for the result, got NULL"));
        }
        // SAFETY: the caller's promise.
        unsafe { give("tensor", tensor, add(state)) }
    })
}

/// `LITE_destroy_tensor`: one that is no more is nothing to end; those of a network go with it.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn LITE_destroy_tensor(tensor: Handle) -> c_int {
    done(|| {
        if tensor.is_null() {
            return Err(failure("tensor: expected a LiteTensor, got NULL"));
        }
        TENSORS.take(|handle, found| handle == tensor.addr() && found.network.is_none());
        Ok(())
    })
}

/// `LITE_set_tensor_layout`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn LITE_set_tensor_layout(tensor: Handle, layout: Layout) -> c_int {
    with(tensor, |state| state.relayout(layout.shape()?, layout.data_type))
}

/// `LITE_reset_tensor_memory`.
///
/// # Safety
/// The memory is there until the tensor is destroyed or has another.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_reset_tensor_memory(
    tensor: Handle,
    prepared_data: *mut c_void,
    length: usize,
) -> c_int {
    with(tensor, |state| state.take(prepared_data, length))
}

/// `LITE_reset_tensor`.
///
/// # Safety
/// As for `LITE_reset_tensor_memory`, of the layout's size.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_reset_tensor(
    tensor: Handle,
    layout: Layout,
    prepared_data: *mut c_void,
) -> c_int {
    with(tensor, |state| {
        let mut taken = state.clone();
        (taken.memory, taken.strides) = (None, None);
        taken.relayout(layout.shape()?, layout.data_type)?;
        let bytes = taken.bytes()?;
        taken.take(prepared_data, bytes)?;
        *state = taken;
        Ok(())
    })
}

/// `LITE_tensor_reshape`.
///
/// # Safety
/// `shape` has `size` numbers.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_tensor_reshape(
    tensor: Handle,
    shape: *const c_int,
    size: c_int,
) -> c_int {
    with(tensor, |state| {
        // SAFETY: the caller's promise.
        let wanted =
            unsafe { boundary::array(shape, usize::try_from(size).unwrap_or_default()) }.unwrap_or_default();
        let open = wanted.iter().filter(|&&extent| extent == -1).count();
        if wanted.is_empty()
            || wanted.len() >= MAX_DIMS
            || open > 1
            || wanted.iter().any(|&e| e == 0 || e < -1)
        {
            return Err(failure(format!(
                "reshape: expected 1 to {} extents of at least 1, of which one may be -1, got {}",
                MAX_DIMS - 1,
                shown(wanted)
            )));
        }
        if state.strides.is_some() {
            return Err(failure(
                "reshape: the tensor is a slice with gaps; copy it to a tensor of its own first",
            ));
        }
        let count: usize = if state.shape.is_empty() { 0 } else { state.shape.iter().product() };
        let known = wanted
            .iter()
            .filter(|&&extent| extent > 0)
            .try_fold(1usize, |product, &e| product.checked_mul(e as usize));
        let rest =
            known.filter(|known| open == 1 && count.is_multiple_of(*known)).map_or(1, |known| count / known);
        let new: Vec<usize> =
            wanted.iter().map(|&extent| if extent == -1 { rest } else { extent as usize }).collect();
        if new.iter().try_fold(1usize, |product, &extent| product.checked_mul(extent)) != Some(count) {
            let (wanted, old) = (shown(wanted), shown(&state.shape));
            return Err(failure(format!("reshape: {wanted} has another number of elements than {old}")));
        }
        state.shape = new;
        Ok(())
    })
}

/// `LITE_tensor_slice`.
///
/// # Safety
/// The arrays have `size` numbers, `step` may be NULL, and `slice_tensor` is NULL or can be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_tensor_slice(
    tensor: Handle,
    start: *const usize,
    end: *const usize,
    step: *const usize,
    size: usize,
    slice_tensor: *mut Handle,
) -> c_int {
    with(tensor, |state| {
        // SAFETY: the caller's promise.
        let (first, last, steps) = unsafe {
            (boundary::array(start, size), boundary::array(end, size), boundary::array(step, size))
        };
        let (Some(first), Some(last)) = (first, last) else {
            return Err(failure("slice: expected arrays of starts and ends, got NULL"));
        };
        if size > state.shape.len() {
            return Err(failure(format!("slice: {size} axes of a tensor that has {}", state.shape.len())));
        }
        if slice_tensor.is_null() {
            return Err(failure("slice_tensor: expected a place for the result, got NULL"));
        }
        let (base, item) = (state.start()?, state.item()?);
        let mut part = state.clone();
        let (mut strides, mut offset) = (state.strides(), 0);
        for axis in 0..size {
            let step = steps.map_or(1, |steps| steps[axis]);
            if step == 0 {
                return Err(failure("slice: a step is 0"));
            }
            let end = last[axis].min(state.shape[axis]);
            let begin = first[axis].min(end);
            part.shape[axis] = (end - begin).div_ceil(step);
            offset += begin * strides[axis];
            strides[axis] *= step;
        }
        let memory = part.memory.as_mut().ok_or_else(|| failure("the tensor has no memory"))?;
        if part.shape.iter().all(|&extent| extent > 0) {
            // SAFETY: the first element of the part is one of the tensor's.
            memory.start = unsafe { base.add(offset * item) };
        }
        part.strides = Some(strides).filter(|strides| *strides != dense(&part.shape));
        memory.bytes = if part.strides.is_none() { State::size_of(&part.shape, part.kind)? } else { 0 };
        // SAFETY: the caller's promise.
        unsafe { give("slice_tensor", slice_tensor, add(part)) }
    })
}

/// `LITE_tensor_fill_zero`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn LITE_tensor_fill_zero(tensor: Handle) -> c_int {
    with(tensor, |state| {
        let zeros = triune::internals::tensor::memory::filled(state.bytes()?, 0u8)?;
        state.scatter(&zeros)
    })
}

/// `LITE_tensor_copy`: the layout, too, unless there are gaps, where it must be the same.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn LITE_tensor_copy(dst_tensor: Handle, src_tensor: Handle) -> c_int {
    done(|| {
        let (to, from) = (find("dst_tensor", dst_tensor)?, find("src_tensor", src_tensor)?);
        let mut from = {
            let mut state = from.state.lock();
            state.start()?;
            state.clone()
        };
        let all = from.gathered()?;
        let mut state = to.state.lock();
        state.relayout(&from.shape, from.kind)?;
        state.scatter(&all)
    })
}

/// `LITE_tensor_share_memory_with`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn LITE_tensor_share_memory_with(dst_tensor: Handle, src_tensor: Handle) -> c_int {
    done(|| {
        let (to, from) = (find("dst_tensor", dst_tensor)?, find("src_tensor", src_tensor)?);
        let from = {
            let mut state = from.state.lock();
            state.start()?;
            state.clone()
        };
        *to.state.lock() = from;
        Ok(())
    })
}

/// `LITE_get_tensor_memory`.
///
/// # Safety
/// `data` is NULL or can be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_get_tensor_memory(tensor: Handle, data: *mut *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    with(tensor, |state| unsafe { give("data", data, state.start()?.cast()) })
}

/// `LITE_get_tensor_memory_with_index`.
///
/// # Safety
/// `index` has `size` numbers, and `data` is NULL or can be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_get_tensor_memory_with_index(
    tensor: Handle,
    index: *const usize,
    size: usize,
    data: *mut *mut c_void,
) -> c_int {
    with(tensor, |state| {
        // SAFETY: the caller's promise.
        let index = unsafe { boundary::array(index, size) }
            .ok_or_else(|| failure("index: expected numbers, got NULL"))?;
        if size > state.shape.len() || index.iter().zip(&state.shape).any(|(at, extent)| at >= extent) {
            let (index, shape) = (shown(index), shown(&state.shape));
            return Err(failure(format!("index: {index} is no element of a tensor of {shape}")));
        }
        let offset: usize = index.iter().zip(state.strides()).map(|(at, stride)| at * stride).sum();
        let (start, item) = (state.start()?, state.item()?);
        // SAFETY: it is one of the tensor's elements; the place, the caller's promise.
        unsafe { give("data", data, start.add(offset * item).cast()) }
    })
}

/// `LITE_copy_server_tensor_memory`: there is no server here, and both are memory of this process.
///
/// # Safety
/// So many bytes can be read at one, and written at the other.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_copy_server_tensor_memory(
    server_ptr: *mut c_void,
    client_ptr: *mut c_void,
    size_in_byte: usize,
) -> c_int {
    done(|| {
        if server_ptr.is_null() || client_ptr.is_null() {
            return Err(failure("copy_server_tensor_memory: expected memory, got NULL"));
        }
        // SAFETY: the caller's promise.
        unsafe { ptr::copy(server_ptr.cast::<u8>(), client_ptr.cast::<u8>(), size_in_byte) };
        Ok(())
    })
}

macro_rules! getters {
    ($($name:ident: $kind:ty = $place:literal, $value:expr;)+) => {
        $(
            #[doc = concat!("`", stringify!($name), "`.\n\n# Safety\nThe place is NULL or can be written.")]
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name(tensor: Handle, place: *mut $kind) -> c_int {
                let value: fn(&State) -> Result<$kind, Failure> = $value;
                // SAFETY: the caller's promise.
                with(tensor, |state| unsafe { give($place, place, value(state)?) })
            }
        )+
    };
}

getters! {
    LITE_get_tensor_total_size_in_byte: usize = "size", State::bytes;
    LITE_get_tensor_layout: Layout = "layout", |state| Ok(state.layout());
    LITE_get_tensor_device_type: c_int = "device_type", |state| Ok(state.device_type);
    LITE_get_tensor_device_id: c_int = "device_id", |state| Ok(state.device_id);
    LITE_is_pinned_host: c_int = "is_pinned_host", |state| Ok(c_int::from(state.pinned));
    LITE_is_memory_continue: c_int = "is_continue", |state| Ok(c_int::from(state.is_dense()));
}

/// `LITE_tensor_concat`.
///
/// # Safety
/// `tensors` has so many handles, and `result_tensor` is NULL or can be written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn LITE_tensor_concat(
    tensors: *mut Handle,
    nr_tensor: c_int,
    dim: c_int,
    dst_device: c_int,
    device_id: c_int,
    result_tensor: *mut Handle,
) -> c_int {
    done(|| {
        // SAFETY: the caller's promise.
        let handles = unsafe { boundary::array(tensors, usize::try_from(nr_tensor).unwrap_or_default()) };
        let handles = handles
            .filter(|handles| !handles.is_empty())
            .ok_or_else(|| failure("concat: expected tensors, got none"))?;
        let mut parts = Vec::new();
        for &handle in handles {
            let tensor = find("tensors", handle)?;
            let mut state = tensor.state.lock();
            parts.push((state.gathered()?, state.clone()));
        }
        let first = &parts[0].1;
        let axis = usize::try_from(dim).ok().filter(|&axis| axis < first.shape.len());
        let axis = axis
            .ok_or_else(|| failure(format!("concat: no axis {dim} of tensors of {}", shown(&first.shape))))?;
        let mut shape = first.shape.clone();
        shape[axis] = 0;
        for (_, part) in &parts {
            let mut rest = part.shape.clone();
            let extent = rest.get(axis).copied().unwrap_or_default();
            if let Some(extent) = rest.get_mut(axis) {
                *extent = shape[axis];
            }
            if rest != shape || part.kind != first.kind {
                let (one, other) = (shown(&part.shape), shown(&first.shape));
                return Err(failure(format!("concat: {one} goes not with {other} along axis {dim}")));
            }
            shape[axis] += extent;
        }
        let inner: usize = shape[axis + 1..].iter().product::<usize>() * first.item()?;
        let outer: usize = shape[..axis].iter().product();
        let mut all = Vec::new();
        for row in 0..outer {
            for (bytes, part) in &parts {
                let length = part.shape[axis] * inner;
                all.extend_from_slice(&bytes[row * length..][..length]);
            }
        }
        let device = if dst_device == DEVICE_DEFAULT { first.device_type } else { dst_device };
        let number = if device_id == -1 { first.device_id } else { device_id };
        let mut state = State::new(&Layout::new(&shape, first.kind), device, number)?;
        state.scatter(&all)?;
        if result_tensor.is_null() {
            return Err(failure("result_tensor: expected a place for the result, got NULL"));
        }
        // SAFETY: the caller's promise.
        unsafe { give("result_tensor", result_tensor, add(state)) }
    })
}

/// The bytes of a tensor without gaps.
///
/// # Safety
/// Nobody writes the tensor's memory, or gives it another, for `'a`.
pub(crate) unsafe fn bytes<'a>(state: &mut State) -> Result<&'a [u8], Failure> {
    let (start, size) = (state.start()?, state.bytes()?);
    // SAFETY: the tensor has so many bytes there; the rest, the caller's promise.
    Ok(unsafe { slice::from_raw_parts(start, size) })
}

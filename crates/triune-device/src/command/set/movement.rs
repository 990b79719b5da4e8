//! Commands that move elements.

use triune_tensor::{DType, function::ScatterKind};

use super::super::{
    access::{bytes, dense, operand, strided},
    table::commands,
    types::{Addr, Operand},
};

commands! {
    movement_list ($)
    /// Ends the program; words behind it are not read.
    End = 0x0000, "end" {}

    /// Copies elements between two strided layouts: transposes, slices, parts of a concatenation, broadcasts.
    Copy = 0x0001, "copy", makes(|c| c.dims) {
        /// Bytes of one element: 1, 2, 4 or 8.
        elem_bytes: u32,
        /// Extents, outermost first; unused ones are 1.
        dims: [u32; 6],
        /// First element read.
        [in; |c| strided(c.elem_bytes, c.dims, c.src_strides)] src: Addr,
        /// Bytes from one element read to the next; 0 repeats.
        src_strides: [u64; 6],
        /// First element written.
        [out; |c| strided(c.elem_bytes, c.dims, c.dst_strides)] dst: Addr,
        /// Bytes from one element written to the next.
        dst_strides: [u64; 6],
    }

    /// Writes one value to every element of a strided layout.
    Fill = 0x0002, "fill", makes(|c| c.dims) {
        /// Bytes of one element: 1, 2, 4 or 8.
        elem_bytes: u32,
        /// Extents, outermost first; unused ones are 1.
        dims: [u32; 6],
        /// First element written.
        [out; |c| strided(c.elem_bytes, c.dims, c.dst_strides)] dst: Addr,
        /// Bytes from one element written to the next.
        dst_strides: [u64; 6],
        /// The element's bytes, little endian, in the low `elem_bytes` bytes; the others 0.
        value: u64,
    }

    /// Elements picked by index. Each result has a fixed place in the source and, along `count` further axes of it, an
    /// index of its own; a negative one counts from the back, one outside of its axis stops the program.
    Take = 0x0072, "take", makes(|c| c.dims) {
        /// Bytes of one element: 1, 2, 4 or 8.
        elem_bytes: u32,
        /// The output's extents, outermost first; unused ones are 1.
        dims: [u32; 6],
        /// The source's first element.
        [in; |c| dense(c.elem_bytes, c.dims)] src: Addr,
        /// Bytes from one result's fixed place to the next.
        src_strides: [u64; 6],
        /// The indices along the first indexed axis, `i32` or `i64`.
        [in; |c| operand(&c.indices, c.dims).times(c.count)] indices: Operand,
        /// Indexed axes, 1 to 6.
        count: u32,
        /// Bytes from an index along one indexed axis to that along the next.
        index_stride: u64,
        /// Extents of the indexed axes; unused ones are 1.
        extents: [u32; 6],
        /// Bytes from one element to the next along the indexed axes.
        axis_strides: [u64; 6],
        /// First element written.
        [out; |c| dense(c.elem_bytes, c.dims)] dst: Addr,
        /// Bytes from one element written to the next.
        dst_strides: [u64; 6],
    }

    /// Elements put where indices say, one after the other as they lie at `src`. Each has a fixed place in the target and, along
    /// `count` further axes of it, an index of its own; a negative one counts from the back, one outside of its axis stops
    /// the program. What lies in the target beforehand stays where nothing is put.
    Put = 0x0074, "put", makes(|c| c.dims) {
        /// Type of the elements: any for [`ScatterKind::Set`], otherwise any integer type, f32 or f64.
        dtype: DType,
        /// What becomes of an element that another one is put on.
        kind: ScatterKind,
        /// The extents of what is put, outermost first; unused ones are 1.
        dims: [u32; 6],
        /// The first element that is put.
        [in; |c| dense(bytes(c.dtype), c.dims)] src: Addr,
        /// Bytes from one to the next.
        src_strides: [u64; 6],
        /// The indices along the first indexed axis, `i32` or `i64`.
        [in; |c| operand(&c.indices, c.dims).times(c.count)] indices: Operand,
        /// Indexed axes, 1 to 6.
        count: u32,
        /// Bytes from an index along one indexed axis to that along the next.
        index_stride: u64,
        /// Extents of the indexed axes; unused ones are 1.
        extents: [u32; 6],
        /// Bytes of the target from one element to the next along the indexed axes.
        axis_strides: [u64; 6],
        /// The target's first element.
        [out; |c| dense(bytes(c.dtype), c.dims)] dst: Addr,
        /// Bytes from one fixed place in the target to the next.
        dst_strides: [u64; 6],
    }

    /// Positions of the first elements in order over the middle of `[outer, len, inner]`, dense. Of equal elements the one
    /// that stands first comes first; NaN counts as larger than every number.
    Order = 0x0073, "order", makes(|c| [c.dims[0], c.k, c.dims[2]]) {
        /// Input.
        [in; |c| dense(bytes(c.dtype), c.dims)] input: Addr,
        /// The input's type: any integer type, f32 or f64.
        dtype: DType,
        /// Extents: outer, len, inner.
        dims: [u32; 3],
        /// Positions per row, at most `len`.
        k: u32,
        /// Whether the largest come first.
        descending: bool,
        /// `[outer, k, inner]` positions along the middle, i64.
        [out; |c| dense(8, [c.dims[0], c.k, c.dims[2]])] output: Addr,
    }

    /// Running sums or products along the middle of `[outer, len, inner]`, dense: one element after the other in their own type,
    /// integers wrapping around.
    Running = 0x0075, "running", makes(|c| c.dims) {
        /// Input.
        [in; |c| dense(bytes(c.dtype), c.dims)] input: Addr,
        /// Output.
        [out; |c| dense(bytes(c.dtype), c.dims)] output: Addr,
        /// Any integer type, f32 or f64, of both.
        dtype: DType,
        /// Extents: outer, len, inner.
        dims: [u32; 3],
        /// Whether products are made instead of sums.
        product: bool,
        /// Whether an element itself is left out.
        exclusive: bool,
        /// Whether the last element comes first.
        reverse: bool,
    }
}

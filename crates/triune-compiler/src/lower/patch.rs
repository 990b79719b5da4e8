//! Scratch addresses before and after the memory plan.

use triune_device::{Addr, Command};

use crate::Program;

const OFFSET_BITS: u32 = 36;

/// Largest offset in one buffer.
pub(super) const MAX_OFFSET: u64 = (1 << OFFSET_BITS) - 1;

/// An address that stands for byte `offset` of scratch buffer `index` until the plan is known.
pub fn pack(index: u32, offset: u64) -> Option<Addr> {
    let fits = u64::from(index) < 1 << (56 - OFFSET_BITS) && offset <= MAX_OFFSET;
    fits.then(|| Addr::new(Program::SCRATCH, u64::from(index) << OFFSET_BITS | offset))
}

/// Buffer index and offset of an address made by [`pack`].
pub fn unpack(addr: Addr) -> (usize, u64) {
    ((addr.offset() >> OFFSET_BITS) as usize, addr.offset() & MAX_OFFSET)
}

/// Calls `f` on every address of feature maps in the command; constants never move.
pub fn addresses(command: &mut Command, f: &mut dyn FnMut(&mut Addr)) {
    match command {
        Command::End(_) => {}
        Command::Copy(c) => {
            f(&mut c.src);
            f(&mut c.dst);
        }
        Command::Fill(c) => f(&mut c.dst),
        Command::QConv(c) => {
            f(&mut c.input.addr);
            f(&mut c.output.addr);
            if let Some(residual) = &mut c.residual {
                f(&mut residual.addr);
            }
        }
        Command::FConv(c) => {
            f(&mut c.input.addr);
            f(&mut c.output.addr);
            if let Some(residual) = &mut c.residual {
                f(&mut residual.addr);
            }
        }
        Command::FMatMul(c) => {
            f(&mut c.a);
            f(&mut c.b);
            f(&mut c.output);
        }
        Command::Pool(c) => {
            f(&mut c.input.addr);
            f(&mut c.output.addr);
        }
        Command::GlobalPool(c) => {
            f(&mut c.input.addr);
            f(&mut c.output.addr);
        }
        Command::QAdd(c) => {
            for operand in [&mut c.a, &mut c.b, &mut c.output] {
                f(&mut operand.addr);
            }
        }
        Command::QMul(c) => {
            for operand in [&mut c.a, &mut c.b, &mut c.output] {
                f(&mut operand.addr);
            }
        }
        Command::FBinary(c) => {
            for operand in [&mut c.a, &mut c.b, &mut c.output] {
                f(&mut operand.addr);
            }
        }
        Command::FUnary(c) => {
            f(&mut c.input.addr);
            f(&mut c.output.addr);
        }
        Command::Table(c) => {
            f(&mut c.input.addr);
            f(&mut c.output.addr);
        }
        Command::Quantize(c) => {
            f(&mut c.input.addr);
            f(&mut c.output.addr);
        }
        Command::Dequantize(c) => {
            f(&mut c.input.addr);
            f(&mut c.output.addr);
        }
        Command::QSoftmax(c) => {
            f(&mut c.input);
            f(&mut c.output);
        }
        Command::FSoftmax(c) => {
            f(&mut c.input);
            f(&mut c.output);
        }
        Command::Resize(c) => {
            f(&mut c.input.addr);
            f(&mut c.output.addr);
        }
        Command::Binary(c) => {
            for operand in [&mut c.a, &mut c.b, &mut c.output] {
                f(&mut operand.addr);
            }
        }
        Command::Select(c) => {
            for operand in [&mut c.condition, &mut c.a, &mut c.b, &mut c.output] {
                f(&mut operand.addr);
            }
        }
        Command::Convert(c) => {
            f(&mut c.input.addr);
            f(&mut c.output.addr);
        }
        Command::Take(c) => {
            f(&mut c.src);
            f(&mut c.indices.addr);
            f(&mut c.dst);
        }
        Command::Order(c) => {
            f(&mut c.input);
            f(&mut c.output);
        }
        Command::Reduce(c) => {
            f(&mut c.input.addr);
            f(&mut c.output.addr);
        }
        Command::ArgReduce(c) => {
            f(&mut c.input.addr);
            f(&mut c.output.addr);
        }
        Command::Warp(c) => {
            f(&mut c.input.addr);
            f(&mut c.output.addr);
            f(&mut c.matrices);
            if let Some(images) = &mut c.images {
                f(images);
            }
        }
    }
}

/// Whether the command writes no element: what depends on data may come out empty, and then there is nothing to run.
pub(super) fn writes_nothing(command: &Command) -> bool {
    match command {
        Command::End(_) => false,
        Command::Copy(c) => c.dims.contains(&0),
        Command::Fill(c) => c.dims.contains(&0),
        Command::QConv(c) => c.output.elements() == 0,
        Command::FConv(c) => c.output.elements() == 0,
        Command::FMatMul(c) => [c.batch, c.m, c.n].contains(&0),
        Command::Pool(c) => c.output.elements() == 0,
        Command::GlobalPool(c) => c.output.elements() == 0,
        Command::QAdd(c) => c.dims.contains(&0),
        Command::QMul(c) => c.dims.contains(&0),
        Command::FBinary(c) => c.dims.contains(&0),
        Command::FUnary(c) => c.output.elements() == 0,
        Command::Table(c) => c.output.elements() == 0,
        Command::Quantize(c) => c.output.elements() == 0,
        Command::Dequantize(c) => c.output.elements() == 0,
        Command::QSoftmax(c) => c.dims.contains(&0),
        Command::FSoftmax(c) => c.dims.contains(&0),
        Command::Resize(c) => c.output.elements() == 0,
        Command::Warp(c) => c.output.elements() == 0,
        Command::Binary(c) => c.dims.contains(&0),
        Command::Select(c) => c.dims.contains(&0),
        Command::Convert(c) => c.dims.contains(&0),
        Command::Take(c) => c.dims.contains(&0),
        Command::Order(c) => c.k == 0 || c.dims[0] == 0 || c.dims[2] == 0,
        Command::Reduce(c) => (0..6).any(|axis| c.dims[axis] == 0 && c.axes >> axis & 1 == 0),
        Command::ArgReduce(c) => (0..6).any(|axis| c.dims[axis] == 0 && c.axis as usize != axis),
    }
}

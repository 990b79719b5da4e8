//! Operators with commands on a simulated device, one by one or in a row, with their values where the plan has them.

use std::sync::Arc;

use triune_fork::Lock;

use super::{
    load::{HardNetwork, Place},
    made::made,
};
use crate::Error;
use triune_runtime::{Device, Parts};

/// The accelerator's operators of a network, in a device's memory.
///
/// Values lie where their document says, and share memory in turn: a value holds until an operator writes another one to its
/// place.
#[derive(Debug)]
pub struct HardOps {
    network: Arc<HardNetwork>,
    /// One run at a time.
    parts: Lock<Parts>,
}

impl HardOps {
    /// Loads instructions and constants into a device's memory. Runs use `threads` threads, 0 means one per CPU core.
    ///
    /// # Errors
    /// [`Error::Argument`](triune_compiler::Error::Argument) for a device of another kind, [`Error::Program`](triune_compiler::Error::Program) for a value that lies outside of the program's
    /// memory, [`Error::Device`](triune_compiler::Error::Device) when the device's is full.
    pub fn new(device: &Arc<Device>, network: &Arc<HardNetwork>, threads: usize) -> Result<Self, Error> {
        let parts =
            Parts::new(device, network.program(), network.steps.iter().map(|step| step.bytes), threads)?;
        for (v_id, place) in &network.values {
            let span = place.span().unwrap_or(u64::MAX);
            if !parts.holds(place.segment, place.offset, span) {
                return Err(Error::program(format!(
                    "value {v_id} of {span} bytes lies outside of the program's memory"
                )));
            }
        }
        Ok(Self { network: Arc::clone(network), parts: Lock::new(parts) })
    }

    /// The network.
    pub fn network(&self) -> &Arc<HardNetwork> {
        &self.network
    }

    /// Extents of a value as it is stored.
    ///
    /// # Errors
    /// [`Error::Argument`](triune_compiler::Error::Argument) for a value that no operator reads or makes.
    pub fn extents(&self, v_id: i64) -> Result<&[usize], Error> {
        Ok(&self.place(v_id)?.extents)
    }

    /// Bytes of a value's elements.
    ///
    /// # Errors
    /// As [`Self::extents`].
    pub fn bytes(&self, v_id: i64) -> Result<usize, Error> {
        let place = self.place(v_id)?;
        place.bytes().ok_or_else(|| Error::program(format!("value {v_id} has too many elements")))
    }

    /// Writes a value's elements, row-major in their stored extents.
    ///
    /// # Errors
    /// As [`Self::extents`]; [`Error::Operand`] for another number of bytes.
    pub fn write(&self, v_id: i64, bytes: &[u8]) -> Result<(), Error> {
        let parts = self.parts.lock()?;
        self.put(&parts, v_id, bytes)
    }

    /// Reads a value's elements, row-major in their stored extents.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn read(&self, v_id: i64, bytes: &mut [u8]) -> Result<(), Error> {
        let parts = self.parts.lock()?;
        self.take(&parts, v_id, bytes)
    }

    /// Runs the operators from `first` to `last`, both by their number, on the values in memory.
    ///
    /// # Errors
    /// [`Error::Argument`](triune_compiler::Error::Argument) for numbers that are not there or in the wrong order, [`Error::Device`](triune_compiler::Error::Device) as the commands have it.
    pub fn run(&self, first: i64, last: i64) -> Result<(), Error> {
        let parts = self.parts.lock()?;
        self.execute(&parts, self.step(first)?, self.step(last)?)
    }

    /// Writes values, runs the operators from `first` to `last`, and reads values, with nobody between.
    ///
    /// # Errors
    /// As [`Self::write`], [`Self::run`] and [`Self::read`].
    pub fn forward(
        &self,
        first: i64,
        last: i64,
        inputs: &[(i64, &[u8])],
        outputs: &mut [(i64, &mut [u8])],
    ) -> Result<(), Error> {
        let parts = self.parts.lock()?;
        for (v_id, bytes) in inputs {
            self.put(&parts, *v_id, bytes)?;
        }
        self.execute(&parts, self.step(first)?, self.step(last)?)?;
        for (v_id, bytes) in outputs {
            self.take(&parts, *v_id, bytes)?;
        }
        Ok(())
    }

    /// Numbers of the values that an operator reads and makes.
    ///
    /// # Errors
    /// [`Error::Argument`](triune_compiler::Error::Argument) for a number that is not there.
    pub fn operands(&self, op_id: i64) -> Result<(&[i64], &[i64]), Error> {
        let step = &self.network.steps[self.step(op_id)?];
        Ok((&step.inputs, &step.outputs))
    }

    fn execute(&self, parts: &Parts, first: usize, last: usize) -> Result<(), Error> {
        if first > last {
            return Err(Error::argument("the first operator comes behind the last"));
        }
        if parts.is_watched() {
            let steps = self.network.steps[first..=last].iter();
            let place = |v_id| self.network.values.get(&v_id).map(|place| (place.segment, place.offset));
            for (segment, start, bytes) in made(&self.network, steps, place)? {
                parts.forget(segment, start, bytes)?;
            }
        }
        (first..=last).try_for_each(|step| parts.run(step))
    }

    fn step(&self, op_id: i64) -> Result<usize, Error> {
        let found = self.network.steps.iter().position(|step| step.op_id == op_id);
        found.ok_or_else(|| Error::argument(format!("{op_id} is no HardOp of the network")))
    }

    fn place(&self, v_id: i64) -> Result<&Place, Error> {
        let found = self.network.values.get(&v_id);
        found.ok_or_else(|| Error::argument(format!("no HardOp of the network reads or makes value {v_id}")))
    }

    fn put(&self, parts: &Parts, v_id: i64, bytes: &[u8]) -> Result<(), Error> {
        let place = self.sized(v_id, bytes.len())?;
        let mut rest = bytes;
        rows(place, &mut |offset, length| {
            let (row, behind) = rest.split_at(length);
            rest = behind;
            parts.write(place.segment, offset, row)
        })
    }

    fn take(&self, parts: &Parts, v_id: i64, bytes: &mut [u8]) -> Result<(), Error> {
        let place = self.sized(v_id, bytes.len())?;
        let mut at = 0;
        rows(place, &mut |offset, length| {
            at += length;
            parts.read(place.segment, offset, &mut bytes[at - length..at])
        })
    }

    fn sized(&self, v_id: i64, bytes: usize) -> Result<&Place, Error> {
        let place = self.place(v_id)?;
        place.expect(v_id, bytes)?;
        Ok(place)
    }
}

/// Calls `each` with the offset and the bytes of every run of elements that lie without gaps, in row-major order.
pub(super) fn rows(
    place: &Place,
    each: &mut dyn FnMut(u64, usize) -> Result<(), Error>,
) -> Result<(), Error> {
    if place.extents.contains(&0) {
        return Ok(());
    }
    let (mut outer, mut run) = (place.extents.len(), place.element_bytes as u64);
    while outer > 0 && (place.extents[outer - 1] == 1 || place.strides[outer - 1] == run) {
        outer -= 1;
        run *= place.extents[outer] as u64;
    }
    let mut at = vec![0; outer];
    loop {
        let within: u64 = at.iter().zip(&place.strides).map(|(&index, &stride)| index as u64 * stride).sum();
        each(place.offset + within, run as usize)?;
        let mut axis = outer;
        loop {
            if axis == 0 {
                return Ok(());
            }
            axis -= 1;
            at[axis] += 1;
            if at[axis] < place.extents[axis] {
                break;
            }
            at[axis] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_elements_without_gaps() {
        let of = |extents: &[usize], strides: &[u64]| {
            let place = Place {
                segment: 2,
                offset: 1000,
                extents: extents.to_vec(),
                strides: strides.to_vec(),
                element_bytes: 2,
            };
            let mut found = Vec::new();
            rows(&place, &mut |offset, bytes| {
                found.push((offset, bytes));
                Ok(())
            })
            .unwrap();
            found
        };
        assert_eq!(of(&[], &[]), [(1000, 2)]);
        assert_eq!(of(&[2, 3], &[6, 2]), [(1000, 12)]);
        assert_eq!(of(&[2, 3], &[8, 2]), [(1000, 6), (1008, 6)]);
        assert_eq!(of(&[2, 3], &[2, 4]), [1000, 1004, 1008, 1002, 1006, 1010].map(|at| (at, 2)));
        // Whatever the step along one element is.
        assert_eq!(of(&[2, 1, 3], &[6, 99, 2]), [(1000, 12)]);
        assert_eq!(of(&[2, 2, 3], &[100, 10, 2]), [(1000, 6), (1010, 6), (1100, 6), (1110, 6)]);
        assert_eq!(of(&[2, 0, 3], &[6, 6, 2]), []);
    }

    #[test]
    fn one_copy_is_all_rows() {
        let place = |extents: &[usize], strides: &[u64], element_bytes: usize| Place {
            segment: 0,
            offset: 64,
            extents: extents.to_vec(),
            strides: strides.to_vec(),
            element_bytes,
        };
        let pool = triune_kernels::Pool::new(1);
        for place in [
            place(&[], &[], 4),
            place(&[1, 3, 7, 5], &[9, 1, 60, 12], 1),
            place(&[2, 2, 3], &[100, 10, 2], 2),
            place(&[2, 1, 3, 4, 1, 2, 3, 2, 1], &[512, 7, 128, 24, 3, 12, 4, 2, 5], 2),
            place(&[4, 0, 3], &[1, 1, 1], 1),
        ] {
            let span: Vec<u8> = (0..place.span().unwrap()).map(|at| (at * 37 % 251) as u8).collect();
            let mut gathered = vec![0; place.bytes().unwrap()];
            place.copy(false).unwrap().run(&span, &mut gathered, &pool).unwrap();
            let mut wanted = Vec::new();
            let mut scattered = vec![0; span.len()];
            rows(&place, &mut |offset, bytes| {
                let row = (offset - place.offset) as usize..(offset - place.offset) as usize + bytes;
                wanted.extend_from_slice(&span[row.clone()]);
                scattered[row.clone()].copy_from_slice(&span[row]);
                Ok(())
            })
            .unwrap();
            assert_eq!(gathered, wanted, "{place:?}");
            let mut back = vec![0; span.len()];
            place.copy(true).unwrap().run(&gathered, &mut back, &pool).unwrap();
            assert_eq!(back, scattered, "{place:?}");
        }
        // Repeated elements are read so, and not written.
        let repeated = place(&[3, 2], &[0, 1], 1);
        let mut found = [0; 6];
        repeated.copy(false).unwrap().run(&[5, 6], &mut found, &pool).unwrap();
        assert_eq!(found, [5, 6, 5, 6, 5, 6]);
        assert_eq!(repeated.copy(true), None);
        assert_eq!(place(&[2; 7], &[640, 320, 160, 80, 40, 20, 2], 1).copy(false), None);
        assert_eq!(place(&[2, 2], &[9, 3], 3).copy(false), None);
    }
}

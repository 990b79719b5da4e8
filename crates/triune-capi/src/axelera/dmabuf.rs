//! Buffers behind file descriptors: dma-buf heaps, memfd, or any other file.
//!
//! What nobody can shorten is mapped for the run: dma-bufs, and memfds that are sealed against it. All else is read before the run
//! and written behind it: a mapping that is shortened meanwhile ends the process. The program owns the descriptor.

use std::{ffi::c_int, io, mem::MaybeUninit, ptr, slice};

use super::failure::{Failure, argument};

/// linux/dma-buf.h: `_IOW('b', 0, struct { __u64 flags; })`.
const SYNC: libc::Ioctl = 0x4008_6200;
const READ: u64 = 1;
const WRITE: u64 = 2;
const END: u64 = 4;

/// One descriptor, for one run.
pub(crate) struct Buffer {
    name: String,
    fd: c_int,
    write: bool,
    /// What tells the buffer from others: device and inode.
    pub(crate) identity: (u64, u64),
    held: Held,
}

enum Held {
    Mapped { start: *mut u8, size: usize, coherent: bool },
    Copy(Vec<u8>),
}

impl Buffer {
    /// Opens what lies behind `fd` for the tensor's `size` bytes.
    pub(crate) fn open(
        name: &str,
        fd: c_int,
        tensor: &str,
        size: usize,
        write: bool,
    ) -> Result<Self, Failure> {
        let mut status = MaybeUninit::<libc::stat>::uninit();
        // SAFETY: it is written, or the call fails.
        if unsafe { libc::fstat(fd, status.as_mut_ptr()) } != 0 {
            let error = io::Error::last_os_error();
            return Err(argument(format!("{name}: expected an open file descriptor, got {fd} ({error})")));
        }
        // SAFETY: the call went well.
        let status = unsafe { status.assume_init() };
        let there = usize::try_from(status.st_size).unwrap_or_default();
        if there < size {
            return Err(argument(format!(
                "{name}: expected a buffer of at least {size} bytes for tensor '{tensor}', got descriptor {fd} of {there} bytes"
            )));
        }
        let identity = (status.st_dev, status.st_ino);
        let mut buffer = Self { name: name.to_owned(), fd, write, identity, held: Held::Copy(Vec::new()) };
        let access = if write { WRITE } else { READ };
        // A dma-buf has one size for life, and is what knows this request.
        let dma = sync(fd, access);
        // SAFETY: any descriptor can be asked; others than memfds say no.
        let seals = unsafe { libc::fcntl(fd, libc::F_GET_SEALS) };
        if dma || (seals >= 0 && seals & libc::F_SEAL_SHRINK != 0) {
            let protection = libc::PROT_READ | if write { libc::PROT_WRITE } else { 0 };
            // SAFETY: a new mapping of a file of that size, which nobody shortens.
            let start =
                unsafe { libc::mmap(ptr::null_mut(), size.max(1), protection, libc::MAP_SHARED, fd, 0) };
            if start == libc::MAP_FAILED {
                return Err(buffer.unusable(&io::Error::last_os_error()));
            }
            buffer.held = Held::Mapped { start: start.cast(), size, coherent: !dma };
        } else {
            buffer.held = Held::Copy(buffer.read(size)?);
        }
        Ok(buffer)
    }

    /// The tensor's bytes; those of an input are not written.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        match &mut self.held {
            // SAFETY: the mapping has so many bytes and lives as long as the buffer.
            Held::Mapped { start, size, .. } => unsafe { slice::from_raw_parts_mut(*start, *size) },
            Held::Copy(bytes) => bytes,
        }
    }

    /// Writes what a run that went well put into a copy.
    pub(crate) fn put_back(&mut self) -> Result<(), Failure> {
        let Held::Copy(bytes) = &self.held else { return Ok(()) };
        let mut done = 0;
        while done < bytes.len() {
            let rest = &bytes[done..];
            // SAFETY: `rest` is as long as is said.
            let count =
                unsafe { libc::pwrite(self.fd, rest.as_ptr().cast(), rest.len(), done as libc::off_t) };
            match usize::try_from(count) {
                Ok(count) => done += count,
                Err(_) => return Err(self.unusable(&io::Error::last_os_error())),
            }
        }
        Ok(())
    }

    fn read(&self, size: usize) -> Result<Vec<u8>, Failure> {
        let mut bytes = vec![0u8; size];
        if self.write {
            // SAFETY: any descriptor can be asked.
            let flags = unsafe { libc::fcntl(self.fd, libc::F_GETFL) };
            if flags & libc::O_ACCMODE != libc::O_RDWR {
                return Err(self.unusable(&io::Error::from_raw_os_error(libc::EACCES)));
            }
            if flags & libc::O_APPEND != 0 {
                // The system writes behind what there is then, wherever it is told to.
                let why = "it was opened to append, and results go to its beginning";
                return Err(self.unusable(&io::Error::other(why)));
            }
        }
        // Outputs, too: a run need not write them.
        let mut done = 0;
        while done < size {
            let rest = &mut bytes[done..];
            // SAFETY: `rest` is as long as is said.
            let count =
                unsafe { libc::pread(self.fd, rest.as_mut_ptr().cast(), rest.len(), done as libc::off_t) };
            match usize::try_from(count) {
                Ok(0) => {
                    return Err(self.unusable(&io::Error::other(format!("it was shortened to {done} bytes"))));
                }
                Ok(count) => done += count,
                Err(_) => return Err(self.unusable(&io::Error::last_os_error())),
            }
        }
        Ok(bytes)
    }

    fn unusable(&self, error: &io::Error) -> Failure {
        let mode = if self.write { "read and written" } else { "read" };
        argument(format!("{}: descriptor {} cannot be {mode} ({error})", self.name, self.fd))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Held::Mapped { start, size, coherent } = self.held {
            // SAFETY: the mapping is this buffer's, and goes with it.
            unsafe { libc::munmap(start.cast(), size.max(1)) };
            if !coherent {
                sync(self.fd, END | if self.write { WRITE } else { READ });
            }
        }
    }
}

/// Tells the exporter of a dma-buf that the CPU starts or ends its access; returns whether it is one.
fn sync(fd: c_int, flags: u64) -> bool {
    // SAFETY: what knows the request reads eight bytes; anything else refuses it.
    unsafe { libc::ioctl(fd, SYNC, &raw const flags) == 0 }
}

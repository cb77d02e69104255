//! The io_uring, and the memory in which the kernel describes requests. All unsafe code of the package is here.
#![allow(unsafe_code, reason = "the kernel uses memory that commands name; each use says why it may")]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::abi::{COMMAND_BYTES, COMMIT_AND_FETCH, DESCRIPTION_BYTES, Description, FETCH, control_command, io_command};

/// An io_uring for the commands of one device.
pub(super) struct Ring(IoUring<squeue::Entry128, cqueue::Entry>);

impl Ring {
    /// Sets up a ring of at least `entries` entries.
    ///
    /// # Errors
    /// The kernel has no io_uring of large entries (Linux 5.19), or forbids it.
    pub(super) fn new(entries: u32) -> io::Result<Ring> {
        IoUring::builder().build(entries.next_power_of_two()).map(Ring)
    }

    /// Runs a command of the control device to its end. No other command may be in the ring. Returns the buffer with what
    /// the driver wrote there.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn control(
        &mut self,
        control: &File,
        operation: u32,
        device: u32,
        mut buffer: Vec<u8>,
    ) -> io::Result<Vec<u8>> {
        let command = control_command(device, (buffer.as_mut_ptr() as u64, buffer.len() as u16), 0);
        self.push(control, operation, command, 0)?;
        while let Err(error) = self.0.submit_and_wait(1) {
            if error.kind() != io::ErrorKind::Interrupted {
                // The command may be running still.
                std::mem::forget(buffer);
                return Err(error);
            }
        }
        let (_, result) = self.next().ok_or_else(|| io::Error::other("a command has no result"))?;
        if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(buffer) }
    }

    /// Begins a command of the control device that has no buffer. Its result comes with `user_data`.
    ///
    /// # Errors
    /// The ring is full.
    pub(super) fn begin(
        &mut self,
        control: &File,
        (operation, number): (u32, u64),
        device: u32,
        user_data: u64,
    ) -> io::Result<()> {
        self.push(control, operation, control_command(device, (0, 0), number), user_data)
    }

    /// Fetches the next request of a tag, after its result if it has one. The request comes with the tag as user data.
    ///
    /// # Errors
    /// The ring is full.
    pub(super) fn fetch(&mut self, device: &File, tag: u16, result: Option<i32>) -> io::Result<()> {
        let operation = if result.is_some() { COMMIT_AND_FETCH } else { FETCH };
        self.push(device, operation, io_command(tag, result.unwrap_or(0)), u64::from(tag))
    }

    fn push(&mut self, file: &File, operation: u32, command: [u8; COMMAND_BYTES], user_data: u64) -> io::Result<()> {
        let entry = opcode::UringCmd80::new(Fd(file.as_raw_fd()), operation).cmd(command).build().user_data(user_data);
        // SAFETY: only commands of `control` name memory. It lives until their result is there, or for ever.
        unsafe { self.0.submission().push(&entry) }.map_err(io::Error::other)
    }

    /// Passes the commands so far to the kernel.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn submit(&mut self) -> io::Result<()> {
        while !self.0.submission().is_empty() {
            match self.0.submit() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => drop(other?),
            }
        }
        Ok(())
    }

    /// The next result, with the user data of its command.
    pub(super) fn next(&mut self) -> Option<(u64, i32)> {
        self.0.completion().next().map(|entry| (entry.user_data(), entry.result()))
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring keeps its descriptor open as long as it lives.
        unsafe { BorrowedFd::borrow_raw(self.0.as_raw_fd()) }
    }
}

/// The memory in which the kernel describes the request of each tag.
pub(super) struct Descriptions {
    begin: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to no thread, and is only read.
unsafe impl Send for Descriptions {}

impl Descriptions {
    /// Maps the descriptions of `depth` tags.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn map(device: &File, depth: u16) -> io::Result<Descriptions> {
        let bytes = (usize::from(depth) * DESCRIPTION_BYTES).next_multiple_of(rustix::param::page_size());
        // SAFETY: the kernel chooses an address where nothing is.
        let begin = unsafe { mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, device, 0) }?;
        let begin = NonNull::new(begin.cast()).ok_or_else(|| io::Error::other("nothing is mapped"))?;
        Ok(Descriptions { begin, bytes })
    }

    /// That of a tag whose request the ring has given.
    pub(super) fn of(&self, tag: u16) -> Description {
        let at = usize::from(tag) * DESCRIPTION_BYTES;
        assert!(at + DESCRIPTION_BYTES <= self.bytes, "a tag beyond the depth");
        // SAFETY: the range is mapped. The kernel wrote it before it gave the tag and changes it after its result.
        let bytes = unsafe { self.begin.add(at).cast::<[u8; DESCRIPTION_BYTES]>().read_volatile() };
        Description::parse(&bytes)
    }
}

impl Drop for Descriptions {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the mapping any more. It fails only if there is none.
        let _ = unsafe { munmap(self.begin.as_ptr().cast(), self.bytes) };
    }
}

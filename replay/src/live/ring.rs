//! Requests through io_uring. The only unsafe code of the package: the kernel uses memory that a request names.
#![allow(
    unsafe_code,
    reason = "the kernel reads and writes the memory of requests in flight; each use says why it may"
)]

use std::io;
use std::os::fd::AsRawFd;

use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use traces::{Nanos, Operation, Request, RequestId, Sectors};

use super::aligned::{AlignedBuffer, WriteBuffers, fill};
use super::device::{Failure, Finished, LiveDevice};
use super::target::{Action, Job, Target};

/// The most requests in flight.
const ENTRIES_MAX: u32 = 4096;

/// A device behind an io_uring.
pub struct Ring {
    target: Target,
    ring: IoUring,
    entries: usize,
    /// By id: the requests in flight, a write with its data.
    slots: Vec<Option<InFlight>>,
    in_flight: usize,
    /// All reads go to this memory, which nobody looks at.
    scratch: AlignedBuffer,
    writes: WriteBuffers,
}

struct InFlight {
    bytes: u64,
    action: Action,
    data: Option<AlignedBuffer>,
}

/// Sets up an io_uring of `entries` entries.
fn set_up(entries: u32) -> io::Result<IoUring> {
    let ring = IoUring::new(entries)?;
    if !ring.params().is_feature_ext_arg() {
        return Err(io::Error::other("its io_uring cannot wait for a time, as since Linux 5.11"));
    }
    Ok(ring)
}

impl Ring {
    /// Checks that a ring can be set up.
    ///
    /// # Errors
    /// As [`Ring::new`].
    pub fn check() -> io::Result<()> {
        set_up(1).map(drop)
    }

    /// Sets up a ring for at most `depth` requests in flight, or 4,096.
    ///
    /// # Errors
    /// The kernel has no io_uring or forbids it.
    pub fn new(target: Target, depth: u32) -> io::Result<Ring> {
        let entries = depth.clamp(1, ENTRIES_MAX).next_power_of_two();
        let ring = set_up(entries)?;
        let scratch = AlignedBuffer::new(target.bytes_max());
        Ok(Ring {
            target,
            ring,
            entries: entries as usize,
            slots: Vec::new(),
            in_flight: 0,
            scratch,
            writes: WriteBuffers::default(),
        })
    }

    /// The entry of the submission queue for `job`, and the data of a write.
    fn entry(&mut self, job: Job) -> (squeue::Entry, Option<AlignedBuffer>) {
        let Job { action, offset, bytes } = job;
        let file = Fd(self.target.file.as_raw_fd());
        match action {
            Action::Read => {
                let memory = self.scratch.bytes().as_mut_ptr();
                (opcode::Read::new(file, memory, bytes as u32).offset(offset).build(), None)
            }
            Action::Write { durable } => {
                let mut data = self.writes.take(bytes as usize);
                fill(self.target.seed, job.sector(), &mut data.bytes()[..bytes as usize]);
                let flags = if durable { libc::RWF_DSYNC } else { 0 };
                let write = opcode::Write::new(file, data.bytes().as_ptr(), bytes as u32);
                (write.offset(offset).rw_flags(flags).build(), Some(data))
            }
            Action::Flush => (opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(), None),
            Action::Discard => {
                let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                (opcode::Fallocate::new(file, bytes).offset(offset).mode(mode).build(), None)
            }
        }
    }
}

impl LiveDevice for Ring {
    fn capacity(&self) -> Sectors {
        self.target.capacity
    }

    fn accepts(&self, request: &Request) -> bool {
        let has_memory = request.operation != Operation::Write
            || self.writes.has((request.sectors().bytes() + 2 * self.target.block.bytes()) as usize);
        self.in_flight < self.entries && has_memory
    }

    fn submit(&mut self, id: RequestId, request: &Request) {
        let job = self.target.job(request);
        let (entry, data) = self.entry(job);
        if id.index() >= self.slots.len() {
            self.slots.resize_with(id.index() + 1, || None);
        }
        self.slots[id.index()] = Some(InFlight { bytes: job.bytes, action: job.action, data });
        self.in_flight += 1;
        let entry = entry.user_data(u64::from(id.0));
        // SAFETY: the entry names the file, the memory for reads or the data of a write. The file and the memory for
        // reads live as long as the ring; nothing in the program refers to that memory's content, so that several reads
        // may go there at once. The data of a write stay in the request's slot, untouched, until its completion. `Drop`
        // leaks all of it if requests are still in flight.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("no more requests are accepted than the queue has entries");
    }

    fn start(&mut self) -> io::Result<()> {
        if self.ring.submission().is_empty() {
            return Ok(());
        }
        ignoring_passing_errors(self.ring.submit())
    }

    fn poll(&mut self, finished: &mut Vec<Finished>) {
        for completion in self.ring.completion() {
            let id = RequestId(completion.user_data() as u32);
            let Some(request) = self.slots.get_mut(id.index()).and_then(Option::take) else { continue };
            self.in_flight -= 1;
            if let Some(data) = request.data {
                self.writes.give_back(data);
            }
            let moves_data = matches!(request.action, Action::Read | Action::Write { .. });
            let failure = match completion.result() {
                result if result < 0 => Some(Failure::Errno(-result)),
                result if moves_data && result as u64 != request.bytes => Some(Failure::Short),
                _ => None,
            };
            finished.push(Finished { id, failure });
        }
    }

    fn is_gone(&mut self) -> bool {
        self.target.is_gone()
    }

    fn wait(&mut self, timeout: Nanos) -> io::Result<()> {
        let seconds = timeout.as_ns() / 1_000_000_000;
        let time = Timespec::new().sec(seconds).nsec((timeout.as_ns() % 1_000_000_000) as u32);
        ignoring_passing_errors(self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time)))
    }
}

/// Errors after which the same call may succeed: the time is over, a signal came, or completions must be read first.
fn ignoring_passing_errors(outcome: io::Result<usize>) -> io::Result<()> {
    match outcome {
        Err(error)
            if ![libc::ETIME, libc::EINTR, libc::EAGAIN, libc::EBUSY].contains(&error.raw_os_error().unwrap_or(0)) =>
        {
            Err(error)
        }
        _ => Ok(()),
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.in_flight > 0 {
            // The kernel may use this memory until the requests end, which may be after the ring is closed.
            std::mem::forget(std::mem::replace(&mut self.scratch, AlignedBuffer::new(0)));
            std::mem::forget(std::mem::take(&mut self.slots));
        }
    }
}

//! The behaviour of a process: the trait that every generated workload implements.

use traces::{Flags, Nanos, Operation, Sectors, Timestamp};

use super::files::{FileId, Files, OutOfSpace};

/// An access to a part of a file. The raw device is a file too ([`Files::raw_device`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// A read or a write; a discard bypasses the cache.
    pub operation: Operation,
    /// The file.
    pub file: FileId,
    /// The offset in the file.
    pub offset: Sectors,
    /// The length; the part after the end of the file is cut off.
    pub sectors: Sectors,
    /// Whether it bypasses the page cache (`O_DIRECT`). Without a cache every access does.
    pub direct: bool,
    /// The flags of its requests, in addition to [`Flags::SYNC`] if a process waits.
    pub flags: Flags,
}

impl Access {
    /// A read through the page cache, if there is one.
    pub fn read(file: FileId, offset: Sectors, sectors: Sectors) -> Access {
        Access { operation: Operation::Read, file, offset, sectors, direct: false, flags: Flags::empty() }
    }

    /// A write through the page cache, if there is one.
    pub fn write(file: FileId, offset: Sectors, sectors: Sectors) -> Access {
        Access { operation: Operation::Write, ..Access::read(file, offset, sectors) }
    }

    /// The same access, bypassing the page cache.
    #[must_use]
    pub fn direct(mut self) -> Access {
        self.direct = true;
        self
    }
}

/// A named event of a guest that processes wait for: an index, small and dense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event(pub u32);

/// The next step of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Sleeps for this time, or computes on a processor of its own.
    Sleep(Nanos),
    /// Computes for this time on the processor of the guest, which its processes share, first come, first served.
    Compute(Nanos),
    /// Makes an access and waits until it is complete.
    Access(Access),
    /// Begins an access and continues (asynchronous I/O). Only direct accesses are asynchronous. An access through the
    /// page cache waits as `Access` does, as in Linux.
    Start(Access),
    /// Waits until at most this number of its started accesses are unfinished.
    AwaitAtMost(u32),
    /// Makes the written data of a file durable and waits for it (`fsync`).
    Sync(FileId),
    /// Counts one more occurrence of an event.
    Post(Event),
    /// Waits until an event has occurred this number of times.
    Await(Event, u64),
    /// Ends the process.
    Exit,
}

/// The behaviour of one process. It is asked for its next step whenever the step before is complete. Random numbers
/// come from its own generator, seeded when it is created.
pub trait Program: Send {
    /// The next step. Files are created, grown and removed at once and without cost.
    ///
    /// # Errors
    /// The file system is full.
    fn step(&mut self, now: Timestamp, files: &mut Files) -> Result<Step, OutOfSpace>;
}

impl<P: Program + ?Sized> Program for Box<P> {
    fn step(&mut self, now: Timestamp, files: &mut Files) -> Result<Step, OutOfSpace> {
        (**self).step(now, files)
    }
}

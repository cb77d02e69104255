//! What a process does: the trait that every generated workload implements.

use traces::{Flags, Nanos, Operation, Sectors, Timestamp};

use super::files::{FileId, Files, OutOfSpace};

/// An access to a part of a file. The raw device is a file too ([`Files::raw_device`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// A read or a write; a discard goes past the cache.
    pub operation: Operation,
    /// Which file.
    pub file: FileId,
    /// Where in the file it begins.
    pub offset: Sectors,
    /// How much; what lies behind the end of the file is cut off.
    pub sectors: Sectors,
    /// Whether it goes past the page cache (`O_DIRECT`). Without a cache every access does.
    pub direct: bool,
    /// Flags of the requests it becomes, beside [`Flags::SYNC`] where somebody waits.
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

    /// The same past the page cache.
    #[must_use]
    pub fn direct(mut self) -> Access {
        self.direct = true;
        self
    }
}

/// A named event of a guest that processes wait for: an index, small and dense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event(pub u32);

/// What a process does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Computes or sleeps for so long.
    Sleep(Nanos),
    /// Makes an access and waits until it is done.
    Access(Access),
    /// Begins an access and goes on (asynchronous I/O). Only direct accesses are asynchronous; one
    /// through the page cache waits as `Access` does, as in Linux.
    Start(Access),
    /// Waits until at most so many of its started accesses are unfinished.
    AwaitAtMost(u32),
    /// Makes a file's written data durable and waits for it (`fsync`).
    Sync(FileId),
    /// Counts one more occurrence of an event.
    Post(Event),
    /// Waits until an event has occurred so many times.
    Await(Event, u64),
    /// Ends the process.
    Exit,
}

/// The behaviour of one process. It is asked for its next step whenever the one before is done.
/// Randomness comes from a generator of its own, seeded when it is made.
pub trait Program: Send {
    /// The next step; files are created, grown and removed at once and cost nothing by themselves.
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

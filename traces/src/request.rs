//! One block-layer request, at most 32 bytes, and the identities it carries.

use std::fmt;

use bitflags::bitflags;
use serde::{Deserialize, Serialize};

use crate::units::{Lba, Sectors, Timestamp};

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Operation {
    /// Read data.
    Read = 0,
    /// Write data.
    Write = 1,
    /// Make everything written so far durable; carries no data and no address.
    Flush = 2,
    /// Tell the device that the sectors hold nothing of value (trim, unmap).
    Discard = 3,
}

impl Operation {
    /// Every operation, in the order of their numbers.
    pub const ALL: [Operation; 4] = [Operation::Read, Operation::Write, Operation::Flush, Operation::Discard];

    /// How many move data, [`Operation::Read`] and [`Operation::Write`]: these have the lowest numbers.
    pub const MOVING_DATA: usize = 2;

    /// The operation with this number in stored traces.
    pub fn from_number(number: u8) -> Option<Operation> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Flush => "flush",
            Operation::Discard => "discard",
        }
    }

    /// Whether the request moves data between host and device.
    pub const fn moves_data(self) -> bool {
        matches!(self, Operation::Read | Operation::Write)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

bitflags! {
    /// Properties of a request, after the block layer's `REQ_*` flags.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Flags: u8 {
        /// Somebody waits for it (`REQ_SYNC`; blktrace `S`). Reads are synchronous with or without it.
        const SYNC = 1;
        /// Forced unit access: durable when it completes (blktrace `F` after the operation).
        const FUA = 1 << 1;
        /// The device's cache is flushed first (blktrace `F` before the operation).
        const PREFLUSH = 1 << 2;
        /// File-system metadata (blktrace `M`).
        const META = 1 << 3;
        /// Read-ahead, may be dropped (blktrace `A`).
        const AHEAD = 1 << 4;
    }
}

/// I/O priority: class and level as in Linux `ioprio.h` (class << 3 | level).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Priority(u8);

impl Priority {
    /// No priority was set; schedulers treat it as best effort, level 4.
    pub const NONE: Priority = Priority(0);

    /// Class 0 none, 1 real time, 2 best effort, 3 idle; level 0 (first) to 7.
    /// `None` if either is out of range.
    pub const fn new(class: u8, level: u8) -> Option<Priority> {
        if class > 3 || level > 7 { None } else { Some(Priority(class << 3 | level)) }
    }

    /// The stored byte, class << 3 | level.
    pub const fn as_byte(self) -> u8 {
        self.0
    }

    /// From the stored byte; `None` if the class is out of range.
    pub const fn from_byte(byte: u8) -> Option<Priority> {
        Priority::new(byte >> 3, byte & 7)
    }

    /// 0 none, 1 real time, 2 best effort, 3 idle.
    pub const fn class(self) -> u8 {
        self.0 >> 3
    }

    /// 0 (first) to 7 within the class.
    pub const fn level(self) -> u8 {
        self.0 & 7
    }
}

/// The VM a request came from: an index into [`crate::TraceMeta::vms`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VmId(pub u16);

/// The stream of dependent requests a request belongs to: a process or a cgroup of its VM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StreamId(pub u32);

/// The identity of a request while it is outstanding. Ids are small and reused after completion,
/// so that whoever keeps something per request keeps it in a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u32);

impl RequestId {
    /// The id as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One request as it arrives. What happened to it afterwards is kept apart, in [`crate::Observed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it arrived at the layer the trace was taken at.
    pub arrival: Timestamp,
    /// First sector; zero for a flush.
    pub lba: Lba,
    sectors: u32,
    /// Process or cgroup.
    pub stream: StreamId,
    /// VM.
    pub vm: VmId,
    /// Processor it was queued on.
    pub cpu: u16,
    /// What it asks for.
    pub operation: Operation,
    /// Its properties.
    pub flags: Flags,
    /// Its I/O priority.
    pub priority: Priority,
}

const _: () = assert!(size_of::<Request>() <= 32, "a request is at most 32 bytes");

impl Request {
    /// The longest request that can be expressed: just under 2 TiB.
    pub const SECTORS_MAX: Sectors = Sectors::new(u32::MAX as u64);

    /// A request without flags, priority, VM or stream.
    ///
    /// # Panics
    /// If `sectors` is above [`Request::SECTORS_MAX`]; readers check before.
    pub fn new(arrival: Timestamp, operation: Operation, lba: Lba, sectors: Sectors) -> Request {
        let mut request = Request {
            arrival,
            lba,
            sectors: 0,
            stream: StreamId(0),
            vm: VmId(0),
            cpu: 0,
            operation,
            flags: Flags::empty(),
            priority: Priority::NONE,
        };
        request.set_sectors(sectors);
        request
    }

    /// Its length.
    pub const fn sectors(&self) -> Sectors {
        Sectors::new(self.sectors as u64)
    }

    /// Changes its length.
    ///
    /// # Panics
    /// If `sectors` is above [`Request::SECTORS_MAX`].
    pub fn set_sectors(&mut self, sectors: Sectors) {
        assert!(sectors <= Self::SECTORS_MAX, "{sectors} sectors do not fit one request");
        self.sectors = sectors.count() as u32;
    }

    /// The first sector behind it.
    pub const fn end(&self) -> Lba {
        self.lba.saturating_add(self.sectors())
    }

    /// Whether a process waits for it, as by the kernel's `op_is_sync`: always for reads, and for writes and flushes
    /// with [`Flags::SYNC`], [`Flags::FUA`] or [`Flags::PREFLUSH`].
    pub const fn is_sync(&self) -> bool {
        matches!(self.operation, Operation::Read)
            || self.flags.intersects(Flags::SYNC.union(Flags::FUA).union(Flags::PREFLUSH))
    }

    /// Whether the two touch a common sector.
    pub fn overlaps(&self, other: &Request) -> bool {
        self.lba < other.end() && other.lba < self.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_survives_its_byte_and_refuses_what_linux_has_not() {
        for class in 0..4 {
            for level in 0..8 {
                let priority = Priority::new(class, level).unwrap();
                assert_eq!((priority.class(), priority.level()), (class, level));
                assert_eq!(Priority::from_byte(priority.as_byte()), Some(priority));
            }
        }
        assert_eq!(Priority::new(4, 0), None);
        assert_eq!(Priority::new(0, 8), None);
        assert_eq!(Priority::from_byte(4 << 3), None);
    }

    #[test]
    fn reads_are_synchronous_and_writes_only_when_marked() {
        let mut request = Request::new(Timestamp::ZERO, Operation::Read, Lba::ZERO, Sectors::new(8));
        assert!(request.is_sync());
        request.operation = Operation::Write;
        assert!(!request.is_sync());
        request.flags = Flags::FUA;
        assert!(request.is_sync());
    }

    #[test]
    fn overlap_needs_a_common_sector() {
        let at = |lba, sectors| Request::new(Timestamp::ZERO, Operation::Read, Lba::new(lba), Sectors::new(sectors));
        assert!(at(0, 8).overlaps(&at(7, 1)));
        assert!(!at(0, 8).overlaps(&at(8, 8)));
        assert!(!at(8, 0).overlaps(&at(8, 8)));
    }

    #[test]
    #[should_panic(expected = "do not fit one request")]
    fn a_length_beyond_32_bits_is_refused() {
        let _ = Request::new(Timestamp::ZERO, Operation::Discard, Lba::ZERO, Sectors::new(1 << 32));
    }
}

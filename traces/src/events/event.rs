//! One event of the block layer, in the terms of blktrace: action, sectors, time, CPU and process. Source: Linux 6.1,
//! `include/uapi/linux/blktrace_api.h` and `kernel/trace/blktrace.c` (which event is written when).

use bitflags::bitflags;

use crate::request::{Flags, Priority};
use crate::units::SECTOR_BYTES;

/// The action: the lower 8 bits of [`Event::action`], `__BLK_TA_*`. A plain number and not an
/// enum, because a capture of a newer kernel may hold numbers that are not known here.
pub mod action {
    /// Q: a bio was queued.
    pub const QUEUE: u8 = 1;
    /// M: a bio (or, in newer kernels, a request) was merged to the end of a request.
    pub const BACK_MERGE: u8 = 2;
    /// F: a bio was merged to the front of a request.
    pub const FRONT_MERGE: u8 = 3;
    /// G: a request was allocated for a bio.
    pub const GET_REQUEST: u8 = 4;
    /// S: a bio waits for a request.
    pub const SLEEP: u8 = 5;
    /// R: the device was busy, an issued request was taken back.
    pub const REQUEUE: u8 = 6;
    /// D: a request was issued to the driver.
    pub const ISSUE: u8 = 7;
    /// C: a request, or a bio of a device without requests, completed.
    pub const COMPLETE: u8 = 8;
    /// P: a task began to collect requests.
    pub const PLUG: u8 = 9;
    /// U: the collected requests were passed on.
    pub const UNPLUG: u8 = 10;
    /// UT: the same, because the task went to sleep.
    pub const UNPLUG_TIMER: u8 = 11;
    /// I: a request was given to the scheduler.
    pub const INSERT: u8 = 12;
    /// X: a bio was split.
    pub const SPLIT: u8 = 13;
    /// B: a bio's pages were copied; older kernels only.
    pub const BOUNCE: u8 = 14;
    /// A: a bio came from another device, e.g. a partition.
    pub const REMAP: u8 = 15;
    /// A request was given up; no longer written.
    pub const ABORT: u8 = 16;
    /// Data of the driver's own.
    pub const DRIVER_DATA: u8 = 17;
    /// Bit of [`super::Event::action`]: the payload begins with the number of a cgroup (8 bytes).
    pub const CGROUP: u32 = 1 << 8;
}

/// The kind of a notify record: the lower 8 bits of [`Event::action`], `__BLK_TN_*`.
pub mod notify {
    /// The payload is the name of the process, at most 16 bytes.
    pub const PROCESS: u8 = 0;
    /// The payload is the wall-clock time: seconds and nanoseconds, 4 bytes each.
    pub const TIMESTAMP: u8 = 1;
    /// The payload is free text.
    pub const MESSAGE: u8 = 2;
}

bitflags! {
    /// The upper 16 bits of [`Event::action`], `BLK_TC_*`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Category: u16 {
        /// Every operation that moves no data to the device.
        const READ = 1;
        /// Every operation with an odd number: writes, discards, zeroing, zone commands.
        const WRITE = 1 << 1;
        /// `REQ_PREFLUSH` and `REQ_OP_FLUSH`; in old kernels a barrier.
        const FLUSH = 1 << 2;
        /// `REQ_SYNC`.
        const SYNC = 1 << 3;
        /// Q, G, M, F, I, P and U.
        const QUEUE = 1 << 4;
        /// R.
        const REQUEUE = 1 << 5;
        /// D.
        const ISSUE = 1 << 6;
        /// C.
        const COMPLETE = 1 << 7;
        /// An event of a request of the block layer.
        const FS = 1 << 8;
        /// An event of a passed-through command, e.g. one of SCSI, with no address.
        const PASSTHROUGH = 1 << 9;
        /// A notify record.
        const NOTIFY = 1 << 10;
        /// `REQ_RAHEAD`.
        const AHEAD = 1 << 11;
        /// `REQ_META`.
        const META = 1 << 12;
        /// `REQ_OP_DISCARD` and secure erase.
        const DISCARD = 1 << 13;
        /// Data of the driver's own.
        const DRIVER_DATA = 1 << 14;
        /// `REQ_FUA`.
        const FUA = 1 << 15;
    }
}

impl Category {
    /// The bits as they stand in [`Event::action`].
    pub const fn in_action(self) -> u32 {
        (self.bits() as u32) << 16
    }
}

/// One event, as the kernel wrote it.
// In the order of blktrace's record, so that decoding one is a few wide moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Event {
    /// The cgroup it is accounted to, 0 if the capture does not have it.
    pub cgroup: u64,
    /// The I/O priority, if the capture has it.
    pub priority: Priority,
    /// Number of the event on its CPU, from 1; 0 in notify records.
    pub sequence: u32,
    /// Nanoseconds of the monotonic clock.
    pub time: u64,
    /// First sector (512 bytes).
    pub sector: u64,
    /// Length in bytes.
    pub bytes: u32,
    /// [`action`] or [`notify`] in the lower 8 bits, [`Category`] in the upper 16.
    pub action: u32,
    /// The process that was running, not always the one that sent the request.
    pub pid: u32,
    /// Device number: major in the upper 12 bits, minor in the lower 20.
    pub device: u32,
    /// The CPU it happened on.
    pub cpu: u32,
    /// The negative error number of a completion, in two's complement.
    pub error: u16,
}

impl Event {
    /// The kind of the event, [`action`] or [`notify`].
    pub const fn code(&self) -> u8 {
        self.action as u8
    }

    /// Its category bits.
    pub const fn category(&self) -> Category {
        Category::from_bits_retain((self.action >> 16) as u16)
    }

    /// Whether a category bit is set.
    pub const fn is(&self, category: Category) -> bool {
        self.action & category.in_action() != 0
    }

    /// Its length in sectors; a part of a sector counts as one.
    pub const fn sectors(&self) -> u64 {
        (self.bytes as u64 + (SECTOR_BYTES - 1)) >> SECTOR_BYTES.trailing_zeros()
    }

    /// The first sector behind it.
    pub const fn end(&self) -> u64 {
        self.sector.saturating_add(self.sectors())
    }

    /// Its properties as flags of a request.
    pub fn flags(&self) -> Flags {
        const OF_CATEGORY: [(Category, Flags); 5] = [
            (Category::SYNC, Flags::SYNC),
            (Category::FUA, Flags::FUA),
            (Category::FLUSH, Flags::PREFLUSH),
            (Category::META, Flags::META),
            (Category::AHEAD, Flags::AHEAD),
        ];
        let mut flags = Flags::empty();
        for (category, flag) in OF_CATEGORY {
            flags.set(flag, self.is(category));
        }
        flags
    }

    /// The error number of a completion as Linux's `errno.h` has it, 0 for success.
    pub fn errno(&self) -> i32 {
        i32::from(self.error as i16).abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_numbers_are_positive() {
        assert_eq!(Event { error: (-5i16) as u16, ..Event::default() }.errno(), 5);
        assert_eq!(Event { error: i16::MIN as u16, ..Event::default() }.errno(), 32_768);
    }
}

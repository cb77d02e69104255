//! Reads and writes of bytes, as all programs use them: the access to whole sectors, and the processor time.

use std::collections::VecDeque;

use traces::{Nanos, Operation, SECTOR_BYTES, Sectors};

use crate::guest::files::FileId;
use crate::guest::program::{Access, Step};

/// Processor time for entering and leaving the kernel, with the work of a call in memory. An assumption, of the order
/// that lmbench reports for a `read` of a cached page.
pub(super) const CALL: Nanos = Nanos::from_us(1);

/// Bytes that the processor copies to or from the page cache in a nanosecond: 4 GB/s, an assumption.
const COPIED_PER_NS: u64 = 4;

/// Processor time for copying bytes between a process and the page cache. It is never zero, so that a workload whose
/// data is all in memory takes time and the clock of its guest advances.
pub(super) fn copying(bytes: u64) -> Nanos {
    CALL + Nanos::from_ns(bytes / COPIED_PER_NS)
}

/// A read or write of bytes of a file, through the page cache or direct.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub(super) operation: Operation,
    pub(super) file: FileId,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) direct: bool,
}

impl Transfer {
    /// The access to the sectors that hold these bytes.
    pub(super) fn access(self) -> Access {
        let first = self.offset / SECTOR_BYTES;
        let end = (self.offset + self.bytes).div_ceil(SECTOR_BYTES);
        let read = Access::read(self.file, Sectors::new(first), Sectors::new(end - first));
        Access { operation: self.operation, direct: self.direct, ..read }
    }

    /// Queues the access and, if it goes through the cache, its processor time before it. Zero bytes need neither.
    pub(super) fn queue(self, steps: &mut VecDeque<Step>) {
        if self.bytes == 0 {
            return;
        }
        if !self.direct {
            steps.push_back(Step::Sleep(copying(self.bytes)));
        }
        steps.push_back(Step::Access(self.access()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_covers_every_sector_that_holds_a_byte() {
        let file = FileId(3);
        for (offset, bytes, first, sectors) in [(0, 512, 0, 1), (511, 2, 0, 2), (512, 1, 1, 1), (4096, 8192, 8, 16)] {
            let transfer = Transfer { operation: Operation::Write, file, offset, bytes, direct: true };
            let access = transfer.access();
            assert_eq!((access.offset, access.sectors), (Sectors::new(first), Sectors::new(sectors)));
            assert!(access.direct && access.operation == Operation::Write);
        }
    }

    #[test]
    fn only_cached_accesses_take_processor_time() {
        let mut steps = VecDeque::new();
        let cached = Transfer { operation: Operation::Read, file: FileId(0), offset: 0, bytes: 4096, direct: false };
        cached.queue(&mut steps);
        assert_eq!(steps.pop_front(), Some(Step::Sleep(Nanos::from_ns(1000 + 1024))));
        assert!(matches!(steps.pop_front(), Some(Step::Access(_))));
        Transfer { direct: true, ..cached }.queue(&mut steps);
        Transfer { bytes: 0, ..cached }.queue(&mut steps);
        assert_eq!(steps.len(), 1);
    }
}

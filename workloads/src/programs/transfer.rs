//! What every program does with bytes: accesses to whole sectors, and the processor's time for them.

use std::collections::VecDeque;

use traces::{Nanos, Operation, SECTOR_BYTES, Sectors};

use crate::guest::files::FileId;
use crate::guest::program::{Access, Step};

/// Time of the processor for entering and leaving the kernel, with what a call does in memory. An
/// assumption of the order of what lmbench reports for a `read` of a cached page.
pub(super) const CALL: Nanos = Nanos::from_us(1);

/// Bytes that the processor copies to or from the page cache in a nanosecond: 4 GB/s, an assumption.
const COPIED_PER_NS: u64 = 4;

/// Time of the processor for moving so many bytes between a process and the page cache. It is never
/// zero, so that a workload that finds everything in memory takes time and a guest's clock moves.
pub(super) fn copying(bytes: u64) -> Nanos {
    CALL + Nanos::from_ns(bytes / COPIED_PER_NS)
}

/// Bytes of a file, and whether they are moved past the page cache.
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

    /// The access and, if it goes through the cache, the processor's time before it. Nothing for no bytes.
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
    fn an_access_covers_every_sector_that_holds_a_byte() {
        let file = FileId(3);
        for (offset, bytes, first, sectors) in [(0, 512, 0, 1), (511, 2, 0, 2), (512, 1, 1, 1), (4096, 8192, 8, 16)] {
            let transfer = Transfer { operation: Operation::Write, file, offset, bytes, direct: true };
            let access = transfer.access();
            assert_eq!((access.offset, access.sectors), (Sectors::new(first), Sectors::new(sectors)));
            assert!(access.direct && access.operation == Operation::Write);
        }
    }

    #[test]
    fn only_what_goes_through_the_cache_costs_the_processor_time() {
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

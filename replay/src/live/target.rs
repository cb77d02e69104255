//! The file or block device that requests go to.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use traces::{Flags, Operation, Request, SECTOR_BYTES, Sectors};

/// The longest request that a live replay sends to a device. The stage must split longer ones.
pub const LONGEST_REQUEST: Sectors = Sectors::new(8 << 11);

/// An open file or block device.
#[derive(Clone, Debug)]
pub struct Target {
    /// The file, open for the operations of the replay.
    pub file: Arc<File>,
    /// Its size.
    pub capacity: Sectors,
    /// The alignment of requests: the logical block of the device.
    pub block: Sectors,
    /// The seed of the data that is written.
    pub seed: u64,
    /// Requests that were widened to whole blocks.
    pub widened: Arc<AtomicU64>,
}

/// What a request asks of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Read,
    /// With `durable`, data must be durable on completion (forced unit access).
    Write {
        durable: bool,
    },
    Flush,
    Discard,
}

/// A request in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) action: Action,
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

impl Job {
    pub(super) fn sector(self) -> u64 {
        self.offset / SECTOR_BYTES
    }
}

impl Target {
    /// The request in bytes. One that does not begin and end at a block of the device is widened to whole blocks, and
    /// counted.
    pub(super) fn job(&self, request: &Request) -> Job {
        let action = match request.operation {
            Operation::Read => Action::Read,
            Operation::Write => Action::Write { durable: request.flags.contains(Flags::FUA) },
            Operation::Flush => Action::Flush,
            Operation::Discard => Action::Discard,
        };
        let (begin, end) = (request.lba.sector(), request.end().sector());
        let block = self.block.count();
        let (from, to) = (begin / block * block, end.next_multiple_of(block));
        if action != Action::Flush && (from, to) != (begin, end) {
            self.widened.fetch_add(1, Ordering::Relaxed);
        }
        Job { action, offset: from * SECTOR_BYTES, bytes: (to - from) * SECTOR_BYTES }
    }

    /// Whether the device has disappeared: the kernel then sets its size to zero.
    pub(super) fn is_gone(&self) -> bool {
        (&*self.file).seek(SeekFrom::End(0)).map_or(true, |bytes| bytes == 0)
    }

    /// The most bytes of one request, widened.
    pub(super) fn bytes_max(&self) -> usize {
        (LONGEST_REQUEST.bytes() + 2 * self.block.bytes()) as usize
    }
}

#[cfg(test)]
mod tests {
    use traces::{Lba, Timestamp};

    use super::*;

    #[test]
    fn requests_are_widened_to_whole_blocks() {
        let file = Arc::new(File::open("/dev/null").unwrap());
        let (capacity, widened) = (Sectors::new(1 << 20), Arc::default());
        let target = Target { file, capacity, block: Sectors::new(8), seed: 1, widened };
        let job = |lba: u64, sectors: u64| {
            let request = Request::new(Timestamp::ZERO, Operation::Read, Lba::new(lba), Sectors::new(sectors));
            let job = target.job(&request);
            (job.offset / 512, job.bytes / 512)
        };
        assert_eq!([job(8, 8), job(0, 16)], [(8, 8), (0, 16)]);
        assert_eq!(target.widened.load(Ordering::Relaxed), 0);
        assert_eq!([job(9, 7), job(8, 7), job(7, 2), job(3, 1)], [(8, 8), (8, 8), (0, 16), (0, 8)]);
        assert_eq!(target.widened.load(Ordering::Relaxed), 4);
    }
}

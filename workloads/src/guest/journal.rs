//! The journal of a guest's file system, a simplified model of that of ext3 and ext4 (`fs/jbd2/commit.c`, ordered
//! data). It covers the writes of a commit and the processes that wait for it. A commit sequentially writes the blocks
//! of metadata changed since the last one, then a commit block after a flush of the drive. A process that asks for a
//! commit while one is running waits for the next, which serves all processes that ask in the meantime.
//!
//! Approximated: the number of metadata blocks that a change touches (fixed for each creation, removal and growth of a
//! file). Left out: checkpoints, which write metadata to its final place, and revocations.

use traces::{Flags, Lba, Operation, Request, Sectors, Timestamp};

use super::files::{BLOCK, FileId, Files, OutOfSpace};

/// The size of the journal: 128 MiB, the default of `mke2fs` for a disk of some tens of gigabytes.
const SIZE: Sectors = Sectors::new(262_144);

/// The most blocks of one commit, since many changes touch the same blocks.
const COMMIT_BLOCKS_MAX: u64 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    /// The metadata blocks are being written.
    Blocks,
    /// The commit block is being written.
    Commit,
}

/// The journal and its state.
#[derive(Debug)]
pub struct Journal {
    place: Lba,
    head: Sectors,
    state: State,
    /// The processes that the running commit serves, and those of the next one.
    current: Vec<u32>,
    next: Vec<u32>,
    is_wanted: bool,
}

impl Journal {
    /// The journal of an empty file system, at the start of the disk.
    ///
    /// # Errors
    /// The disk is too small.
    pub fn new(files: &mut Files) -> Result<Journal, OutOfSpace> {
        let size = SIZE.min(Sectors::new(files.capacity().count() / 16 / BLOCK.count() * BLOCK.count()));
        let file: FileId = files.create(0, size)?;
        let place = files.extent_at(file, Sectors::ZERO).ok_or(OutOfSpace { capacity: files.capacity() })?.lba;
        files.take_changes();
        Ok(Journal {
            place,
            head: Sectors::ZERO,
            state: State::Idle,
            current: Vec::new(),
            next: Vec::new(),
            is_wanted: false,
        })
    }

    /// Makes a process wait for a commit of its changes so far.
    pub fn wait(&mut self, process: u32) {
        self.next.push(process);
        self.is_wanted = true;
    }

    /// Requests a commit for which no process waits.
    pub fn want(&mut self) {
        self.is_wanted = true;
    }

    /// The first write of the next commit, if one is requested and none is running.
    pub fn begin(&mut self, now: Timestamp, files: &mut Files) -> Option<Request> {
        if self.state != State::Idle || !self.is_wanted {
            return None;
        }
        self.is_wanted = false;
        std::mem::swap(&mut self.current, &mut self.next);
        self.state = State::Blocks;
        // The descriptor block and the changed blocks.
        let blocks = 1 + files.take_changes().min(COMMIT_BLOCKS_MAX);
        Some(self.write(now, files, blocks, Flags::SYNC | Flags::META))
    }

    /// A write has completed. Returns the next one; after the last, appends the processes whose wait is over to `done`.
    pub fn completed(&mut self, now: Timestamp, files: &Files, done: &mut Vec<u32>) -> Option<Request> {
        if self.state == State::Blocks {
            self.state = State::Commit;
            return Some(self.write(now, files, 1, Flags::SYNC | Flags::META | Flags::PREFLUSH | Flags::FUA));
        }
        self.state = State::Idle;
        done.append(&mut self.current);
        None
    }

    fn write(&mut self, now: Timestamp, files: &Files, blocks: u64, flags: Flags) -> Request {
        let size = SIZE.min(Sectors::new(files.capacity().count() / 16 / BLOCK.count() * BLOCK.count()));
        let sectors = Sectors::new((blocks * BLOCK.count()).min(size.count()));
        if self.head + sectors > size {
            self.head = Sectors::ZERO;
        }
        let mut request = Request::new(now, Operation::Write, self.place.saturating_add(self.head), sectors);
        request.flags = flags;
        self.head += sectors;
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::ZERO;

    #[test]
    fn commit_serves_processes_that_asked_before_it_and_others_wait() {
        let mut files = Files::new(Sectors::new(1 << 23));
        let mut journal = Journal::new(&mut files).unwrap();
        files.create(0, Sectors::new(8)).unwrap();
        journal.wait(1);
        let blocks = journal.begin(NOW, &mut files).unwrap();
        assert_eq!((blocks.lba, blocks.sectors()), (Lba::ZERO, Sectors::new(5 * 8)), "a descriptor and four");
        journal.wait(2);
        journal.wait(3);
        assert_eq!(journal.begin(NOW, &mut files), None);
        let mut done = Vec::new();
        let commit = journal.completed(NOW, &files, &mut done).unwrap();
        assert_eq!((commit.lba, commit.sectors()), (Lba::new(40), Sectors::new(8)));
        assert!(commit.flags.contains(Flags::PREFLUSH | Flags::FUA) && done.is_empty());
        assert_eq!(journal.completed(NOW, &files, &mut done), None);
        assert_eq!(done, [1]);
        let blocks = journal.begin(NOW, &mut files).unwrap();
        assert_eq!((blocks.lba, blocks.sectors()), (Lba::new(48), Sectors::new(8)), "nothing changed: a descriptor");
        journal.completed(NOW, &files, &mut done);
        journal.completed(NOW, &files, &mut done);
        assert_eq!(done, [1, 2, 3]);
        assert_eq!(journal.begin(NOW, &mut files), None);
    }

    #[test]
    fn journal_wraps_around_within_its_extent() {
        let mut files = Files::new(Sectors::new(16 * 80));
        let mut journal = Journal::new(&mut files).unwrap();
        for _ in 0..20 {
            journal.want();
            let blocks = journal.begin(NOW, &mut files).unwrap();
            let commit = journal.completed(NOW, &files, &mut Vec::new()).unwrap();
            assert!(blocks.end() <= Lba::new(80) && commit.end() <= Lba::new(80));
            journal.completed(NOW, &files, &mut Vec::new());
        }
    }
}

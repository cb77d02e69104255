//! The state of a process while it runs: its pending wait and the read-ahead state of its open files.

use traces::StreamId;

use crate::guest::read_ahead::ReadAhead;
use crate::guest::transfer::Transfer;
use crate::guest::{FileId, Program};

/// The number of open files whose read-ahead state is kept for each process.
const OPEN_FILES: usize = 8;

/// The wait of a process, as far as it must be known when the process continues.
#[derive(Clone, Copy, Debug)]
pub(super) enum Waits {
    /// No wait, or a wait after which the next step follows.
    Nothing,
    /// An access through the page cache.
    Transfer(Transfer),
    /// A wait until at most this number of its accesses are unfinished.
    Started(u32),
}

pub(super) struct Process {
    pub(super) program: Box<dyn Program>,
    pub(super) guest: u16,
    pub(super) stream: StreamId,
    pub(super) waits: Waits,
    /// The number of unfinished accesses that were started and are not awaited.
    pub(super) started: u32,
    /// The next process in the list of those that wait for the same page.
    pub(super) next_waiter: u32,
    /// The read-ahead state of its files, the file used last first.
    read_ahead: Vec<(FileId, ReadAhead)>,
}

impl Process {
    pub(super) fn new(program: Box<dyn Program>, guest: u16, stream: StreamId) -> Process {
        Process {
            program,
            guest,
            stream,
            waits: Waits::Nothing,
            started: 0,
            next_waiter: super::NO_PROCESS,
            read_ahead: Vec::new(),
        }
    }

    /// The read-ahead state of a file. It starts anew if [`OPEN_FILES`] others were used since.
    pub(super) fn read_ahead_of(&mut self, file: FileId) -> &mut ReadAhead {
        match self.read_ahead.iter().position(|(known, _)| *known == file) {
            Some(0) => {}
            Some(place) => self.read_ahead[..=place].rotate_right(1),
            None => {
                self.read_ahead.truncate(OPEN_FILES - 1);
                self.read_ahead.insert(0, (file, ReadAhead::default()));
            }
        }
        &mut self.read_ahead[0].1
    }
}

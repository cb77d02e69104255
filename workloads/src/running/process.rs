//! A process while it runs.

use traces::StreamId;

use crate::guest::read_ahead::ReadAhead;
use crate::guest::transfer::Transfer;
use crate::guest::{FileId, Program};

/// How many open files a process's read-ahead is remembered of.
const OPEN_FILES: usize = 8;

/// What a process waits for, as far as it needs to be known when it goes on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Waits {
    /// Nothing, or something that leaves it ready for its next step.
    Nothing,
    /// An access through the page cache.
    Transfer(Transfer),
    /// That at most so many of its accesses are unfinished.
    Started(u32),
}

pub(super) struct Process {
    pub(super) program: Box<dyn Program>,
    pub(super) guest: u16,
    pub(super) stream: StreamId,
    pub(super) waits: Waits,
    /// Accesses begun and not awaited that are unfinished.
    pub(super) started: u32,
    /// The next in the list of those that wait for the same page.
    pub(super) next_waiter: u32,
    /// Read-ahead of its files, the one used last first.
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
            next_waiter: super::NOBODY,
            read_ahead: Vec::new(),
        }
    }

    /// The read-ahead of a file, which begins anew if many others were used since.
    pub(super) fn read_ahead_of(&mut self, file: FileId) -> &mut ReadAhead {
        match self.read_ahead.iter().position(|(known, _)| *known == file) {
            Some(place) => self.read_ahead[..=place].rotate_right(1),
            None => {
                self.read_ahead.truncate(OPEN_FILES - 1);
                self.read_ahead.insert(0, (file, ReadAhead::default()));
            }
        }
        &mut self.read_ahead[0].1
    }
}

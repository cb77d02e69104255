//! A guest while it runs.

use traces::{Lba, Operation, Request, Sectors, StreamId, Timestamp, VmId};

use crate::guest::files::BLOCK;
use crate::guest::journal::Journal;
use crate::guest::memory::{Memory, PageRun};
use crate::guest::{FileId, Files};

/// A guest while it runs.
pub(super) struct RunningGuest {
    pub(super) name: String,
    pub(super) place: Lba,
    pub(super) files: Files,
    pub(super) journal: Option<Journal>,
    pub(super) memory: Option<Memory>,
    /// The first process that waits for a page, by slot.
    pub(super) page_waiters: Vec<u32>,
    /// Processes that wait for memory, or until less is dirty.
    pub(super) starved: Vec<u32>,
    /// Processes that wait until a file's writes are done.
    pub(super) syncing: Vec<(u32, FileId)>,
    /// How often each event has occurred and when last, and who waits for how many.
    pub(super) events: Vec<(u64, Timestamp)>,
    pub(super) waiting_for_events: Vec<(u32, u32, u64)>,
}

impl RunningGuest {
    pub(super) fn place_of(&self, lba: Lba) -> Lba {
        Lba::new(self.place.sector() + lba.sector())
    }

    pub(super) fn request(
        &self,
        now: Timestamp,
        operation: Operation,
        run: PageRun,
        (vm, stream): (VmId, StreamId),
    ) -> Request {
        let lba = self.place_of(Lba::new(u64::from(run.start) * BLOCK.count()));
        let mut request = Request::new(now, operation, lba, Sectors::new(u64::from(run.pages) * BLOCK.count()));
        (request.vm, request.stream) = (vm, stream);
        request
    }
}

/// The pages that a request of a guest's memory moves.
pub(super) fn pages_of(place: Lba, request: &Request, file: FileId) -> PageRun {
    let start = (request.lba.sector() - place.sector()) / BLOCK.count();
    PageRun { file, start: start as u32, pages: (request.sectors().count() / BLOCK.count()) as u32 }
}

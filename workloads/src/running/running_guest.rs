//! The state of a guest while it runs: its file system, its memory and the waits of its processes.

use traces::{Lba, Operation, Request, Sectors, StreamId, Timestamp, VmId};

use super::Occurrences;
use crate::guest::files::BLOCK;
use crate::guest::journal::Journal;
use crate::guest::memory::{Memory, PageRun};
use crate::guest::{FileId, Files};

/// The state of a guest while it runs.
pub(super) struct RunningGuest {
    pub(super) name: String,
    pub(super) place: Lba,
    pub(super) files: Files,
    pub(super) journal: Option<Journal>,
    pub(super) memory: Option<Memory>,
    /// The first process that waits for a page, by slot of the page.
    pub(super) page_waiters: Vec<u32>,
    /// Processes that wait for a free page, or until fewer pages are dirty.
    pub(super) starved: Vec<u32>,
    /// Processes that wait until the writes of a file have completed.
    pub(super) syncing: Vec<(u32, FileId)>,
    /// The occurrences of each event.
    pub(super) events: Vec<Option<Occurrences>>,
    /// Processes that wait for an event, with the event and the number of occurrences that they wait for.
    pub(super) waiting_for_events: Vec<(u32, u32, u64)>,
    /// When the guest's processor has computed all that it was asked for.
    pub(super) processor_free: Timestamp,
    /// Processes that have not ended.
    pub(super) running: usize,
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

/// The pages that a request of the memory of a guest moves.
pub(super) fn pages_of(place: Lba, request: &Request, file: FileId) -> PageRun {
    let start = (request.lba.sector() - place.sector()) / BLOCK.count();
    PageRun { file, start: start as u32, pages: (request.sectors().count() / BLOCK.count()) as u32 }
}

//! The trace of a replay: every arrival when it was handed on, with the times at which it was issued and completed.
//!
//! An arrival that was split, or that needed a flush first, has no single time of issue and no error number; these are
//! left out. `failed_requests` in the provenance counts every failure.

use std::path::{Path, PathBuf};

use anyhow::Result;
use replay::Observer;
use serve::log::{Log, format_of};
use traces::{Layer, Observed, Record, Request, RequestId, Timestamp, TraceMeta};

/// The clock of the times.
pub const CLOCK: &str = "monotonic";

/// Writes the trace while the replay runs.
pub struct RunTrace {
    path: PathBuf,
    format: &'static str,
    log: Log,
    /// By id.
    slots: Vec<Slot>,
    arrivals: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    number: u64,
    arrived: Timestamp,
    /// The request that it was merged into.
    leader: Option<RequestId>,
    issued: Option<Timestamp>,
    error: i32,
}

impl RunTrace {
    /// Begins the trace of these VMs.
    ///
    /// # Errors
    /// A file that cannot be written, or whose ending is of no format.
    pub fn begin(path: &Path, vms: Vec<String>) -> Result<RunTrace> {
        let format = format_of(path)?.name;
        let meta = TraceMeta { vms, ..TraceMeta::new(format, Layer::GuestQueue, CLOCK) };
        let log = Log::without_tail(path, meta)?;
        Ok(RunTrace { path: path.to_owned(), format, log, slots: Vec::new(), arrivals: 0 })
    }

    /// The name of the trace's format.
    pub fn format(&self) -> &'static str {
        self.format
    }

    /// Completes the file.
    ///
    /// # Errors
    /// The first error since the trace began.
    pub fn finish(self, meta: TraceMeta) -> Result<()> {
        self.log.finish(&self.path, meta)?;
        Ok(())
    }

    /// Ends the trace of a replay that is made again. The next one replaces it.
    ///
    /// # Errors
    /// As [`RunTrace::finish`].
    pub fn give_up(self) -> Result<()> {
        let meta = TraceMeta::new(self.format, Layer::GuestQueue, CLOCK);
        self.finish(meta)
    }

    fn slot(&mut self, id: RequestId) -> &mut Slot {
        if id.index() >= self.slots.len() {
            self.slots.resize(id.index() + 1, Slot::default());
        }
        &mut self.slots[id.index()]
    }

    /// The request that `id` went to the device in.
    fn sent(&self, id: RequestId) -> Slot {
        let mut slot = self.slots[id.index()];
        while let Some(leader) = slot.leader {
            slot = self.slots[leader.index()];
        }
        slot
    }
}

impl Observer for RunTrace {
    fn arrived(&mut self, now: Timestamp, id: RequestId, _request: &Request) {
        let number = self.arrivals;
        self.arrivals += 1;
        *self.slot(id) = Slot { number, arrived: now, ..Slot::default() };
    }

    fn inserted(&mut self, _now: Timestamp, id: RequestId, _request: &Request) {
        // A part of an arrival takes an id without an arrival.
        let slot = self.slot(id);
        (slot.leader, slot.issued, slot.error) = (None, None, 0);
    }

    fn merged(&mut self, _now: Timestamp, into: RequestId, from: RequestId, _request: &Request, _was_waiting: bool) {
        self.slot(from).leader = Some(into);
    }

    fn issued(&mut self, now: Timestamp, id: RequestId, _request: &Request) {
        self.slot(id).issued = Some(now);
    }

    fn failed(&mut self, _now: Timestamp, id: RequestId, errno: i32) {
        self.slot(id).error = errno;
    }

    fn completed(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        let Slot { number, arrived, .. } = self.slots[id.index()];
        let Slot { issued, error, .. } = self.sent(id);
        let mut request = *request;
        request.arrival = arrived;
        let observed = Observed { inserted: None, issued, completed: Some(now), error };
        self.log.put(number, Record { request, observed });
    }
}

//! What the records read of a VM have shown.

use traces::{Record, Timestamp};

use super::write_back::{Progress, WriteBack};

/// The counts of the records read of one VM.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) requests: u64,
    pub(super) completions: u64,
    /// Whether its trace has shown a flag.
    pub(super) flags: bool,
    /// How far the processes that write have come.
    pub(super) progress: Progress,
    pub(super) write_back: WriteBack,
    /// The most requests of write-back that its kernel has outstanding, if that is known.
    pub(super) write_back_depth: Option<u64>,
    /// The stream of all its write-back, if its threads take turns.
    pub(super) flusher: Option<u32>,
    /// When all durable writes have completed.
    pub(super) durable_until: Timestamp,
    /// The first and the latest arrival that was read, in the time of the trace.
    pub(super) recorded_from: Option<Timestamp>,
    pub(super) recorded_to: Timestamp,
    /// Its arrivals in the replay.
    pub(super) arrivals: u64,
    /// When the VM had used up its trace, and the arrivals until then.
    pub(super) used_up: Option<(Timestamp, u64)>,
    /// Records that have not arrived yet.
    pub(super) buffered: u64,
    /// Whether the waits of its flushes behind write-back are made outside, and not think time.
    pub(super) waits_outside: bool,
    /// Whether its trace has no further records.
    pub(super) is_read: bool,
    /// Whether its end was announced.
    pub(super) has_ended: bool,
}

impl Seen {
    /// When a flush would have completed if the kernel had issued it as soon as the flush machine let it. The kernel
    /// throttles flushes together with background writes (`block/blk-wbt.c`, Linux 6.1), which no replay on a drive
    /// does. So this wait becomes think time. Without the time of issue it is not known. If the drive has nothing to flush,
    /// all the rest of it is the way, behind other requests, and becomes think time too.
    pub(super) fn flush_without_wait(&self, record: &Record, has_nothing: bool) -> Option<Timestamp> {
        let (completed, arrival) = (record.observed.completed?, record.request.arrival);
        if self.waits_outside {
            return Some(completed);
        }
        let Some(issued) = record.observed.issued.filter(|issued| *issued <= completed) else { return Some(completed) };
        let could = self.durable_until.min(issued).max(arrival);
        Some(if has_nothing { could } else { could + completed.since(issued) })
    }
}

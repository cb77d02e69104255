//! The isolated trace: every request of a VM that ran alone on the device.
//!
//! [`IsolatedTraceBuilder`] makes it of the records of any trace format. It puts the clock's zero at the first arrival,
//! brings addresses onto the device and joins records that one merged request left (same times, adjacent addresses).
//! Requests without a completion are counted and left out; the first of them are kept apart, since they still show what
//! the device dispatched before them.

use std::collections::BTreeMap;

use traces::{Flags, Lba, Observed, Operation, Record, Request, Sectors, StreamId, Timestamp, VmId};

/// The requests of a VM alone as the device received them, on the device's addresses and on a clock that begins with
/// the first arrival.
#[derive(Clone, Debug, Default)]
pub struct IsolatedTrace {
    /// By arrival. Records of one merged request, which share their times and are adjacent, are one request.
    pub(crate) requests: Vec<TracedRequest>,
    /// Capacity of the device, if known.
    pub(crate) device: Option<Sectors>,
    /// Whether any request was merged of several.
    pub(crate) merges: bool,
    /// Number of records without a completion.
    pub(crate) incomplete: u64,
    /// The first of these that were issued. They wait for ever, and show only what was dispatched before them.
    pub(crate) unfinished: Vec<TracedRequest>,
}

/// A request of an isolated trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TracedRequest {
    /// Arrival of the first request that was merged into it.
    pub(crate) arrival: Timestamp,
    pub(crate) issued: Timestamp,
    pub(crate) completed: Timestamp,
    pub(crate) lba: Lba,
    pub(crate) sectors: u32,
    pub(crate) stream: StreamId,
    pub(crate) operation: Operation,
    pub(crate) sync: bool,
    /// Whether it is a write with a flush before or after it ([`Flags::PREFLUSH`], [`Flags::FUA`]).
    pub(crate) durable: bool,
    /// As recorded.
    pub(crate) flags: Flags,
}

impl TracedRequest {
    /// A synchronous request of eight sectors that is issued on arrival at `at_us` and completes `took_us` later.
    #[cfg(test)]
    pub(crate) fn sent(operation: Operation, stream: u32, at_us: u64, took_us: u64) -> TracedRequest {
        let arrival = Timestamp::from_ns(at_us * 1000);
        TracedRequest {
            arrival,
            issued: arrival,
            completed: arrival + traces::Nanos::from_us(took_us),
            lba: Lba::ZERO,
            sectors: 8,
            stream: StreamId(stream),
            operation,
            sync: true,
            durable: false,
            flags: Flags::SYNC,
        }
    }

    pub(crate) fn end(&self) -> Lba {
        self.lba.saturating_add(Sectors::new(self.sectors.into()))
    }

    /// Whether it moves data. A request that moves none never waits for the device's mechanics.
    pub(crate) fn moves_data(&self) -> bool {
        (self.operation as usize) < Operation::MOVING_DATA && self.sectors > 0
    }

    /// The same request, sent again by `vm` at `now`.
    pub(crate) fn request(&self, vm: VmId, now: Timestamp) -> Request {
        let mut request = Request::new(now, self.operation, self.lba, Sectors::new(self.sectors.into()));
        request.vm = vm;
        request.stream = self.stream;
        request.flags.set(Flags::SYNC, self.sync);
        request.flags.set(Flags::FUA, self.durable);
        request
    }

    /// The record of the request, by `vm`. A write with a flush before it has one after it instead: the device's model
    /// knows durable writes and no flushes.
    pub(crate) fn record(&self, vm: VmId) -> Record {
        let mut request = self.request(vm, self.arrival);
        request.flags = self.flags - Flags::PREFLUSH;
        if self.operation == Operation::Write {
            request.flags.set(Flags::SYNC, self.sync);
            request.flags.set(Flags::FUA, self.durable);
        }
        let observed = Observed { issued: Some(self.issued), completed: Some(self.completed), ..Observed::default() };
        Record { request, observed }
    }
}

/// Calls `see` for each of `requests` in the order of issue, with the requests that are in flight then, by completion.
pub(crate) fn each_issued<'a>(
    requests: impl Iterator<Item = &'a TracedRequest>,
    mut see: impl FnMut(&'a TracedRequest, &BTreeMap<(Timestamp, usize), &'a TracedRequest>),
) {
    let mut issued: Vec<&TracedRequest> = requests.collect();
    issued.sort_by_key(|request| (request.issued, request.completed, request.lba));
    let mut in_flight: BTreeMap<(Timestamp, usize), &TracedRequest> = BTreeMap::new();
    for (index, request) in issued.into_iter().enumerate() {
        while let Some(first) = in_flight.first_entry().filter(|first| first.key().0 <= request.issued) {
            first.remove();
        }
        see(request, &in_flight);
        in_flight.insert((request.completed, index), request);
    }
}

/// The most requests without a completion that are kept. Set by judgement; not varied.
const UNFINISHED_KEPT_MAX: usize = 64;

/// Builds an isolated trace from a VM's records, which it takes in the order of arrival.
#[derive(Clone, Debug)]
pub struct IsolatedTraceBuilder {
    records: Vec<TracedRequest>,
    zero: Option<Timestamp>,
    place: Sectors,
    device: Option<Sectors>,
    incomplete: u64,
    unfinished: Vec<TracedRequest>,
}

impl IsolatedTraceBuilder {
    /// A builder for a VM whose sector 0 is sector `place` of the device. `device` is the capacity of the device, if
    /// known.
    pub fn new(place: Sectors, device: Option<Sectors>) -> IsolatedTraceBuilder {
        IsolatedTraceBuilder { records: Vec::new(), zero: None, place, device, incomplete: 0, unfinished: Vec::new() }
    }

    /// Takes a record from before the time window. If it never completes, it waits during the whole trace.
    pub fn before(&mut self, record: &Record) {
        let Record { request, observed } = record;
        if observed.completed.is_none() && observed.issued.is_some() && self.unfinished.len() < UNFINISHED_KEPT_MAX {
            let traced = self.traced(record, request.arrival);
            self.unfinished.push(TracedRequest { arrival: Timestamp::ZERO, issued: Timestamp::ZERO, ..traced });
        }
    }

    /// Takes the next record. A record without an issue time counts as issued on arrival.
    pub fn record(&mut self, record: &Record) {
        let Record { request, observed } = record;
        let zero = *self.zero.get_or_insert(request.arrival);
        let traced = self.traced(record, zero);
        if observed.completed.is_some() {
            self.records.push(traced);
            return;
        }
        self.incomplete += 1;
        if observed.issued.is_some() && self.unfinished.len() < UNFINISHED_KEPT_MAX {
            self.unfinished.push(traced);
        }
    }

    /// The request of a record, on a clock that begins at `zero` and at the device's addresses.
    fn traced(&self, record: &Record, zero: Timestamp) -> TracedRequest {
        let Record { request, observed } = record;
        let since = |time: Timestamp| Timestamp::ZERO + time.saturating_since(zero);
        let arrival = since(request.arrival);
        let issued = since(observed.issued.unwrap_or(request.arrival)).max(arrival);
        TracedRequest {
            arrival,
            issued,
            completed: observed.completed.map_or(Timestamp::MAX, since).max(issued),
            lba: request.lba.saturating_add(self.place),
            sectors: u32::try_from(request.sectors().count()).unwrap_or(u32::MAX),
            stream: request.stream,
            operation: request.operation,
            sync: request.is_sync() || request.operation == Operation::Flush,
            durable: request.operation == Operation::Write && request.flags.intersects(Flags::PREFLUSH | Flags::FUA),
            flags: request.flags,
        }
    }

    /// Ends the trace.
    pub fn finish(self) -> IsolatedTrace {
        let IsolatedTraceBuilder { mut records, device, incomplete, unfinished, .. } = self;
        let total = records.len();
        records.sort_by_key(|record| {
            (record.issued, record.completed, record.operation, record.lba, record.arrival, record.stream)
        });
        records.dedup_by(|next, kept| {
            let alike = (next.issued, next.completed, next.operation) == (kept.issued, kept.completed, kept.operation);
            let joined = alike && next.moves_data() && next.lba == kept.end();
            let sectors = if joined { kept.sectors.checked_add(next.sectors) } else { None };
            let Some(sectors) = sectors else { return false };
            if next.arrival < kept.arrival {
                (kept.arrival, kept.stream) = (next.arrival, next.stream);
            }
            kept.sectors = sectors;
            kept.sync |= next.sync;
            kept.durable |= next.durable;
            true
        });
        let merges = records.len() < total;
        records.sort_by_key(|record| (record.arrival, record.issued, record.lba));
        IsolatedTrace { requests: records, device, merges, incomplete, unfinished }
    }
}

impl IsolatedTrace {
    /// Number of requests.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// The trace of the same VM whose disk begins `by` sectors further behind on the device.
    #[must_use]
    pub fn moved(&self, by: Sectors) -> IsolatedTrace {
        let mut moved = self.clone();
        for request in moved.requests.iter_mut().chain(&mut moved.unfinished) {
            request.lba = request.lba.saturating_add(by);
        }
        moved
    }

    /// The sectors of the device up to the end of the last request.
    pub fn sectors(&self) -> Sectors {
        Sectors::new(self.end().sector())
    }

    /// The requests that move data.
    pub(crate) fn moving(&self) -> impl Iterator<Item = &TracedRequest> {
        self.requests.iter().filter(|request| request.moves_data())
    }

    /// The end of the highest request: one sector past the last that is read or written.
    pub(crate) fn end(&self) -> Lba {
        self.moving().map(TracedRequest::end).max().unwrap_or_default()
    }

    /// Arrival of the last request.
    pub(crate) fn span(&self) -> Timestamp {
        self.requests.last().map_or(Timestamp::ZERO, |last| last.arrival)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(at_ms: u64, issued: bool, completed: bool) -> Record {
        let at = |ms: u64| Timestamp::from_ns(ms * 1_000_000);
        let request = Request::new(at(at_ms), Operation::Write, Lba::new(at_ms * 8), Sectors::new(8));
        let issued = issued.then(|| at(at_ms + 1));
        Record {
            request,
            observed: Observed { issued, completed: completed.then(|| at(at_ms + 3)), ..Observed::default() },
        }
    }

    #[test]
    fn request_without_completion_waits_from_its_issue_or_from_the_start_of_the_trace() {
        let mut builder = IsolatedTraceBuilder::new(Sectors::new(800), None);
        builder.before(&record(5, true, true));
        builder.before(&record(6, true, false));
        builder.before(&record(7, false, false));
        builder.record(&record(10, true, true));
        builder.record(&record(20, true, false));
        builder.record(&record(30, false, false));
        let trace = builder.finish();
        assert_eq!((trace.len(), trace.incomplete), (1, 2));
        let waits: Vec<(u64, u64)> =
            trace.unfinished.iter().map(|request| (request.issued.as_ns() / 1_000_000, request.lba.sector())).collect();
        assert_eq!(waits, [(0, 848), (11, 960)]);
        assert!(trace.unfinished.iter().all(|request| request.completed == Timestamp::MAX));
    }
}

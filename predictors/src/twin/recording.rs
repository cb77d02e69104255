//! What a machine alone did, request by request.

use std::collections::BTreeMap;

use traces::{Flags, Lba, Operation, Record, Request, Sectors, StreamId, Timestamp, VmId};

/// A machine's requests alone, as its device saw them, on the device's addresses and on a clock that begins with the first.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// By arrival. A request that its machine made of several, with the same times and next to one another, is one.
    pub(super) requests: Vec<Recorded>,
    /// How much the device holds, where that is known.
    pub(super) device: Option<Sectors>,
    /// Whether any request was made of several.
    pub(super) merges: bool,
    /// Records that have no completion.
    pub(super) incomplete: u64,
    /// The first of these that were issued: they wait for ever, and only tell what was taken before them.
    pub(super) unfinished: Vec<Recorded>,
}

/// A request alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Recorded {
    /// Arrival of the first that it was made of.
    pub(super) arrival: Timestamp,
    pub(super) issued: Timestamp,
    pub(super) completed: Timestamp,
    pub(super) lba: Lba,
    pub(super) sectors: u32,
    pub(super) stream: StreamId,
    pub(super) operation: Operation,
    pub(super) sync: bool,
    /// A write with a flush before or behind it ([`Flags::PREFLUSH`], [`Flags::FUA`]).
    pub(super) durable: bool,
}

impl Recorded {
    /// Eight sectors that somebody waits for, sent and issued at `at_us` and done `took_us` later.
    #[cfg(test)]
    pub(super) fn sent(operation: Operation, stream: u32, at_us: u64, took_us: u64) -> Recorded {
        let arrival = Timestamp::from_ns(at_us * 1000);
        Recorded {
            arrival,
            issued: arrival,
            completed: arrival + traces::Nanos::from_us(took_us),
            lba: Lba::ZERO,
            sectors: 8,
            stream: StreamId(stream),
            operation,
            sync: true,
            durable: false,
        }
    }

    pub(super) fn end(&self) -> Lba {
        self.lba.saturating_add(Sectors::new(self.sectors.into()))
    }

    /// Whether it moves data; what does not never waits for the device's mechanics.
    pub(super) fn moves_data(&self) -> bool {
        (self.operation as usize) < Operation::MOVING_DATA && self.sectors > 0
    }

    /// As machine `vm` sends it again, `now`.
    pub(super) fn request(&self, vm: VmId, now: Timestamp) -> Request {
        let mut request = Request::new(now, self.operation, self.lba, Sectors::new(self.sectors.into()));
        request.vm = vm;
        request.stream = self.stream;
        request.flags.set(Flags::SYNC, self.sync);
        request.flags.set(Flags::FUA, self.durable);
        request
    }
}

/// Shows `see` each of `requests` in the order of their issue, with those that are under way then by completion.
pub(super) fn each_issued<'a>(
    requests: impl Iterator<Item = &'a Recorded>,
    mut see: impl FnMut(&'a Recorded, &BTreeMap<(Timestamp, usize), &'a Recorded>),
) {
    let mut issued: Vec<&Recorded> = requests.collect();
    issued.sort_by_key(|request| (request.issued, request.completed, request.lba));
    let mut under_way: BTreeMap<(Timestamp, usize), &Recorded> = BTreeMap::new();
    for (index, request) in issued.into_iter().enumerate() {
        while let Some(first) = under_way.first_entry().filter(|first| first.key().0 <= request.issued) {
            first.remove();
        }
        see(request, &under_way);
        under_way.insert((request.completed, index), request);
    }
}

/// So many requests without a completion are kept.
const UNFINISHED: usize = 64;

/// Takes a machine's records while they are read, in the order of their arrival.
#[derive(Clone, Debug)]
pub struct Recorder {
    records: Vec<Recorded>,
    zero: Option<Timestamp>,
    place: Sectors,
    device: Option<Sectors>,
    incomplete: u64,
    unfinished: Vec<Recorded>,
}

impl Recorder {
    /// Of a machine whose sector 0 is sector `place` of a device that holds `device`, if that is known.
    pub fn new(place: Sectors, device: Option<Sectors>) -> Recorder {
        Recorder { records: Vec::new(), zero: None, place, device, incomplete: 0, unfinished: Vec::new() }
    }

    /// A record from before what is recorded. If it never completes it waits all the time.
    pub fn before(&mut self, record: &Record) {
        let Record { request, observed } = record;
        if observed.completed.is_none() && observed.issued.is_some() && self.unfinished.len() < UNFINISHED {
            let recorded = self.recorded(record, request.arrival);
            self.unfinished.push(Recorded { arrival: Timestamp::ZERO, issued: Timestamp::ZERO, ..recorded });
        }
    }

    /// The next record. One that does not tell when it was issued counts as issued on arrival.
    pub fn record(&mut self, record: &Record) {
        let Record { request, observed } = record;
        let zero = *self.zero.get_or_insert(request.arrival);
        let recorded = self.recorded(record, zero);
        if observed.completed.is_some() {
            self.records.push(recorded);
            return;
        }
        self.incomplete += 1;
        if observed.issued.is_some() && self.unfinished.len() < UNFINISHED {
            self.unfinished.push(recorded);
        }
    }

    /// On a clock that begins at `zero`, and at this device's addresses.
    fn recorded(&self, record: &Record, zero: Timestamp) -> Recorded {
        let Record { request, observed } = record;
        let since = |time: Timestamp| Timestamp::ZERO + time.saturating_since(zero);
        let arrival = since(request.arrival);
        let issued = since(observed.issued.unwrap_or(request.arrival)).max(arrival);
        Recorded {
            arrival,
            issued,
            completed: observed.completed.map_or(Timestamp::MAX, since).max(issued),
            lba: request.lba.saturating_add(self.place),
            sectors: u32::try_from(request.sectors().count()).unwrap_or(u32::MAX),
            stream: request.stream,
            operation: request.operation,
            sync: request.is_sync() || request.operation == Operation::Flush,
            durable: request.operation == Operation::Write && request.flags.intersects(Flags::PREFLUSH | Flags::FUA),
        }
    }

    /// The end of the trace.
    pub fn finish(self) -> Recording {
        let Recorder { mut records, device, incomplete, unfinished, .. } = self;
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
        Recording { requests: records, device, merges, incomplete, unfinished }
    }
}

impl Recording {
    /// How many requests the device was given.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether it was given none.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// The requests that move data.
    pub(super) fn moving(&self) -> impl Iterator<Item = &Recorded> {
        self.requests.iter().filter(|request| request.moves_data())
    }

    /// The last sector that is read or written, and one.
    pub(super) fn end(&self) -> Lba {
        self.moving().map(Recorded::end).max().unwrap_or_default()
    }

    /// When the last request arrived.
    pub(super) fn span(&self) -> Timestamp {
        self.requests.last().map_or(Timestamp::ZERO, |last| last.arrival)
    }
}

#[cfg(test)]
mod tests {
    use traces::Observed;

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
    fn what_never_completes_waits_from_its_issue_or_from_the_beginning() {
        let mut recorder = Recorder::new(Sectors::new(800), None);
        recorder.before(&record(5, true, true));
        recorder.before(&record(6, true, false));
        recorder.before(&record(7, false, false));
        recorder.record(&record(10, true, true));
        recorder.record(&record(20, true, false));
        recorder.record(&record(30, false, false));
        let recording = recorder.finish();
        assert_eq!((recording.len(), recording.incomplete), (1, 2));
        let waits: Vec<(u64, u64)> = recording
            .unfinished
            .iter()
            .map(|request| (request.issued.as_ns() / 1_000_000, request.lba.sector()))
            .collect();
        assert_eq!(waits, [(0, 848), (11, 960)]);
        assert!(recording.unfinished.iter().all(|request| request.completed == Timestamp::MAX));
    }
}

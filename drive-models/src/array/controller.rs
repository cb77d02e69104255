//! The controller of an array: its caches, and the array operations that each request waits for.

use std::collections::VecDeque;

use schedulers::AccessCost;
use traces::{Flags, Lba, Nanos, Operation, Request, RequestId, Sectors, Timestamp};

use super::contents::Contents;
use super::plan::UnitWrite;
use super::raid::{EndedOperation, OperationId, Raid};
use super::read_cache::{ArrayReadCache, hull, spans};
use super::settings::ArraySettings;
use super::tracks::TrackSlot;
use super::write_cache::ArrayWriteCache;
use crate::drive::{self, Completion, DriveModel};

/// A request that has not completed.
#[derive(Clone, Copy, Debug)]
struct OutstandingRequest {
    request: Request,
    submitted: Timestamp,
    /// Operations that it waits for.
    pending: u32,
    started: Timestamp,
    seek: Sectors,
    hit: bool,
}

/// The purpose of an operation of the members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum OperationPurpose {
    /// The requests that wait for it.
    #[default]
    Requests,
    /// To fill the read cache, and the requests that wait for it.
    Fetch,
    /// To free capacity in the write cache.
    Destage,
}

#[derive(Debug, Default)]
struct OutstandingOperation {
    purpose: OperationPurpose,
    start: u64,
    end: u64,
    /// The request that began it, then those that have joined.
    waiters: Vec<RequestId>,
    /// Whether the first of those began it; if not, the controller did.
    demanded: bool,
    /// Tracks that leave the write cache.
    slots: Vec<TrackSlot>,
}

/// An array with its controller.
pub struct Array {
    raid: Raid,
    overhead: Nanos,
    track: u64,
    read_cache: Option<ArrayReadCache>,
    write_cache: Option<ArrayWriteCache>,
    /// By request id.
    outstanding: Vec<OutstandingRequest>,
    /// By operation id.
    operations: Vec<OutstandingOperation>,
    /// Completions, the earliest first: each is one overhead after the last event that it waited for.
    completing: VecDeque<Completion>,
    position: Lba,
    /// The write cache of the members' drives.
    write_cache_below: drive::WriteCache,
    // Reused so that nothing is allocated per request.
    done: Vec<EndedOperation>,
    wait_for: Vec<OperationId>,
    written: Vec<UnitWrite>,
    slots: Vec<TrackSlot>,
}

impl Array {
    /// An idle array with empty caches.
    pub fn new(settings: &ArraySettings, raid: Raid) -> Array {
        let track = settings.track;
        let tracks = raid.geometry().capacity().count() / track;
        Array {
            overhead: settings.overhead,
            track,
            read_cache: (settings.read_cache > 0)
                .then(|| ArrayReadCache::new(settings.read_cache as usize, track, settings.prefetch, tracks)),
            write_cache: settings.write_cache.map(|limits| ArrayWriteCache::new(track, limits)),
            write_cache_below: raid.write_cache(),
            raid,
            outstanding: Vec::new(),
            operations: Vec::new(),
            completing: VecDeque::new(),
            position: Lba::ZERO,
            done: Vec::new(),
            wait_for: Vec::new(),
            written: Vec::new(),
            slots: Vec::new(),
        }
    }

    /// The same array, its read cache filled with `contents`.
    pub(super) fn with_contents(settings: &ArraySettings, raid: Raid, contents: Option<Contents>) -> Array {
        Array { read_cache: contents.map(Contents::into_cache), ..Array::new(settings, raid) }
    }

    /// Whether the read cache holds all sectors that `request` reads, or they are being fetched.
    pub fn holds(&self, request: &Request) -> bool {
        self.read_cache.as_ref().is_some_and(|cache| cache.holds(request.lba.sector(), request.end().sector()))
    }

    /// Puts the sectors that `request` writes into the read cache; the write itself went elsewhere.
    pub fn written(&mut self, request: &Request) {
        if let Some(cache) = &mut self.read_cache {
            cache.put(request.lba.sector(), request.end().sector());
        }
    }

    fn read(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        let (start, end) = (request.lba.sector(), request.end().sector());
        let mut wait_for = std::mem::take(&mut self.wait_for);
        let write_cache = &self.write_cache;
        let written = |track| write_cache.as_ref().map_or(0, |cache| cache.held(track));
        let missing = match &mut self.read_cache {
            Some(cache) => cache.read(start, end, written, &mut wait_for),
            None => missing(spans(self.track, start, end), self.track, written),
        };
        for operation in wait_for.drain(..) {
            self.wait(id, operation);
        }
        self.wait_for = wait_for;
        if let Some(missing) = missing {
            self.fetch(now, Some(id), *request, missing);
        }
        if let Some(ahead) = self.read_cache.as_mut().and_then(|cache| cache.read_ahead(start, end)) {
            let mut request = *request;
            request.flags.insert(Flags::AHEAD);
            self.fetch(now, None, request, ahead);
        }
        let outstanding = &mut self.outstanding[id.index()];
        if outstanding.pending == 0 {
            outstanding.started = now;
            self.finish(now, id);
        }
    }

    /// Reads a span from the members, for a request or ahead of one.
    fn fetch(&mut self, now: Timestamp, by: Option<RequestId>, like: Request, (start, end): (u64, u64)) {
        let mut request = like;
        request.lba = Lba::new(start);
        request.set_sectors(Sectors::new(end - start));
        let operation_id = self.raid.read(now, &request);
        let mut purpose = OperationPurpose::Requests;
        if let Some(cache) = &mut self.read_cache {
            cache.fetching(start, end, operation_id);
            purpose = OperationPurpose::Fetch;
        }
        let operation = begun(&mut self.operations, operation_id, purpose);
        (operation.start, operation.end, operation.demanded) = (start, end, by.is_some());
        if let Some(id) = by {
            self.wait(id, operation_id);
        }
    }

    fn write(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        let (start, end) = (request.lba.sector(), request.end().sector());
        match &mut self.write_cache {
            Some(cache) if cache.could_hold(start, end) => {
                if cache.has_capacity(start, end) {
                    self.take_in(now, id, true);
                } else {
                    cache.wait(id);
                }
                self.destage(now);
                return;
            }
            Some(cache) => cache.supersede(start, end),
            None => {}
        }
        if let Some(cache) = &mut self.read_cache {
            cache.put(start, end);
        }
        let operation = self.raid.write(now, request);
        begun(&mut self.operations, operation, OperationPurpose::Requests).demanded = true;
        self.wait(id, operation);
    }

    /// Takes a write into the write cache, which has the capacity for it.
    fn take_in(&mut self, now: Timestamp, id: RequestId, hit: bool) {
        let outstanding = &mut self.outstanding[id.index()];
        (outstanding.started, outstanding.hit) = (now, hit);
        let (start, end) = span(outstanding);
        if let Some(cache) = &mut self.write_cache {
            cache.put(start, end);
        }
        if let Some(cache) = &mut self.read_cache {
            cache.put(start, end);
        }
        self.finish(now, id);
    }

    /// Begins to destage as many rows as are due.
    fn destage(&mut self, now: Timestamp) {
        let Some(cache) = &mut self.write_cache else { return };
        while cache.wants_destage() {
            self.written.clear();
            let Some(row) = cache.take_row(self.raid.geometry(), &mut self.written, &mut self.slots) else { return };
            let like = Request::new(now, Operation::Write, Lba::ZERO, Sectors::ZERO);
            let id = self.raid.write_row(now, like, row, &self.written);
            let operation = begun(&mut self.operations, id, OperationPurpose::Destage);
            std::mem::swap(&mut operation.slots, &mut self.slots);
        }
    }

    /// The write cache has free capacity: takes in writes that have waited for it.
    fn admit(&mut self, now: Timestamp) {
        while let Some(cache) = &mut self.write_cache {
            let outstanding = &self.outstanding;
            let Some(id) = cache.admit(|id| span(&outstanding[id.index()])) else { break };
            self.take_in(now, id, false);
        }
        self.destage(now);
    }

    fn wait(&mut self, id: RequestId, operation: OperationId) {
        self.operations[operation.0 as usize].waiters.push(id);
        self.outstanding[id.index()].pending += 1;
    }

    /// A request no longer waits for anything.
    fn finish(&mut self, now: Timestamp, id: RequestId) {
        let OutstandingRequest { started, seek, hit, .. } = self.outstanding[id.index()];
        let finished = now.saturating_add(self.overhead);
        self.completing.push_back(Completion { id, started, finished, seek, hit });
    }

    /// Simulates the members up to `now`.
    fn run(&mut self, now: Timestamp) {
        loop {
            let time = self.raid.next_event();
            if time > now || time == Timestamp::MAX {
                return;
            }
            let mut done = std::mem::take(&mut self.done);
            self.raid.advance(time, &mut done);
            for done in done.drain(..) {
                self.operation_done(time, &done);
            }
            self.done = done;
        }
    }

    fn operation_done(&mut self, now: Timestamp, done: &EndedOperation) {
        let operation = &mut self.operations[done.id.0 as usize];
        let mut waiters = std::mem::take(&mut operation.waiters);
        match operation.purpose {
            OperationPurpose::Requests => {}
            OperationPurpose::Fetch => {
                if let Some(cache) = &mut self.read_cache {
                    cache.fetched(operation.start, operation.end, done.id);
                }
            }
            OperationPurpose::Destage => {
                if let Some(cache) = &mut self.write_cache {
                    cache.destaged(&mut operation.slots);
                }
                self.admit(now);
            }
        }
        let demanded = self.operations[done.id.0 as usize].demanded;
        for (place, id) in waiters.drain(..).enumerate() {
            let outstanding = &mut self.outstanding[id.index()];
            outstanding.pending -= 1;
            outstanding.started = outstanding.started.min(done.started.max(outstanding.submitted));
            // A request that has joined moved no arm and was no hit in a member's cache.
            let began = demanded && place == 0;
            if began {
                outstanding.seek += done.seek;
            }
            outstanding.hit &= began && done.hit;
            if outstanding.pending == 0 {
                self.finish(now, id);
            }
        }
        self.operations[done.id.0 as usize].waiters = waiters;
        self.raid.forget(done.id);
    }

    /// Whether the caches hold all sectors of a read, or have the capacity for a write.
    fn is_hit(&self, request: &Request) -> bool {
        let (start, end) = (request.lba.sector(), request.end().sector());
        match (request.operation, &self.write_cache) {
            (Operation::Write, Some(cache)) => cache.could_hold(start, end) && cache.has_capacity(start, end),
            (Operation::Read, write_cache) => spans(self.track, start, end).all(|(track, sectors)| {
                let read = self.read_cache.as_ref().map_or(0, |cache| cache.held(track));
                sectors & !read & !write_cache.as_ref().map_or(0, |cache| cache.held(track)) == 0
            }),
            _ => false,
        }
    }
}

fn span(outstanding: &OutstandingRequest) -> (u64, u64) {
    (outstanding.request.lba.sector(), outstanding.request.end().sector())
}

/// Notes the purpose of an operation that has begun.
fn begun(
    operations: &mut Vec<OutstandingOperation>,
    id: OperationId,
    purpose: OperationPurpose,
) -> &mut OutstandingOperation {
    let at = id.0 as usize;
    if at >= operations.len() {
        operations.resize_with(at + 1, OutstandingOperation::default);
    }
    let operation = &mut operations[at];
    (operation.purpose, operation.demanded) = (purpose, false);
    operation
}

/// The span from the first to the last of some sectors that are not held.
fn missing(spans: impl Iterator<Item = (u64, u128)>, track: u64, held: impl Fn(u64) -> u128) -> Option<(u64, u64)> {
    spans.fold(None, |missing, (number, sectors)| hull(missing, number * track, sectors & !held(number)))
}

impl AccessCost for Array {
    fn position(&self) -> Lba {
        self.position
    }

    fn capacity(&self) -> Sectors {
        self.raid.geometry().capacity()
    }

    /// The time that one member takes to read at most a stripe unit.
    fn between(&self, from: Lba, to: Lba, sectors: Sectors) -> Nanos {
        self.overhead + self.raid.expected(from, to, sectors)
    }

    fn access(&self, _now: Timestamp, request: &Request) -> Nanos {
        if self.is_hit(request) { self.overhead } else { self.between(self.position, request.lba, request.sectors()) }
    }
}

impl DriveModel for Array {
    fn capacity(&self) -> Sectors {
        AccessCost::capacity(self)
    }

    fn accepts(&self, _request: &Request) -> bool {
        true
    }

    fn submit(&mut self, now: Timestamp, id: RequestId, request: &Request) {
        self.run(now);
        let outstanding = OutstandingRequest {
            request: *request,
            submitted: now,
            pending: 0,
            started: Timestamp::MAX,
            seek: Sectors::ZERO,
            hit: true,
        };
        if id.index() >= self.outstanding.len() {
            self.outstanding.resize(id.index() + 1, outstanding);
        }
        self.outstanding[id.index()] = outstanding;
        let empty = request.sectors() == Sectors::ZERO;
        match request.operation {
            Operation::Flush if self.write_cache() != drive::WriteCache::Through => {
                let operation = self.raid.flush(now, request);
                begun(&mut self.operations, operation, OperationPurpose::Requests).demanded = true;
                self.wait(id, operation);
            }
            Operation::Read if !empty => self.read(now, id, request),
            Operation::Write if !empty => self.write(now, id, request),
            _ => {
                self.outstanding[id.index()].started = now;
                self.finish(now, id);
                return;
            }
        }
        if request.operation.moves_data() {
            self.position = request.end();
        }
    }

    fn next_event(&self) -> Option<Timestamp> {
        let completing = self.completing.front().map_or(Timestamp::MAX, |completion| completion.finished);
        Some(completing.min(self.raid.next_event())).filter(|&time| time != Timestamp::MAX)
    }

    fn advance(&mut self, now: Timestamp, completions: &mut Vec<Completion>) {
        self.run(now);
        while let Some(completion) = self.completing.front().copied() {
            if completion.finished > now {
                break;
            }
            self.completing.pop_front();
            completions.push(completion);
        }
    }

    fn cost(&self) -> &dyn AccessCost {
        self
    }

    /// With a non-volatile cache a completed write is durable; without, the members decide.
    fn write_cache(&self) -> drive::WriteCache {
        if self.write_cache.is_some() { drive::WriteCache::Through } else { self.write_cache_below }
    }

    fn discards(&self) -> bool {
        false
    }
}

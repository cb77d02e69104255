//! The requests of a capture from their insertion to their completion, found by the sector and operation of an event.

use std::collections::{BTreeMap, BTreeSet};

use traces::events::{Category, Event};
use traces::{Lba, Operation, Request, RequestId, Sectors, StreamId, Timestamp};

/// A request that was inserted and has not completed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) request: Request,
    pub(super) inserted: Timestamp,
    /// Its number in the order of insertions.
    pub(super) number: u64,
    /// Whether the scheduler is informed of its completion.
    pub(super) is_completion_reported: bool,
}

/// Finds requests by the data of events. Of several requests at one sector, the first inserted comes first.
#[derive(Debug, Default)]
pub(super) struct Requests {
    known: Vec<Option<Known>>,
    free: Vec<u32>,
    /// Ids of requests that were joined to others since the last issue. The scheduler learns of that at the next issue,
    /// so that they are not given out before.
    joined: Vec<u32>,
    inserted: u64,
    /// (first sector, number, id).
    waiting: BTreeSet<(u64, u64, u32)>,
    /// (number, id).
    by_age: BTreeSet<(u64, u32)>,
    in_flight: BTreeSet<(u64, u64, u32)>,
    came_back: BTreeSet<(u64, u64, u32)>,
    /// The CPU on which the request at a sector was allocated.
    allocated: BTreeMap<u64, u32>,
}

impl Requests {
    pub(super) fn known(&self, id: RequestId) -> &Known {
        self.known[id.index()].as_ref().expect("an id that was given out and not taken back")
    }

    pub(super) fn known_mut(&mut self, id: RequestId) -> &mut Known {
        self.known[id.index()].as_mut().expect("an id that was given out and not taken back")
    }

    /// The number that the next insertion will have.
    pub(super) fn next_number(&self) -> u64 {
        self.inserted
    }

    /// A request was allocated. It is queued on the CPU of its allocation, wherever it is inserted.
    pub(super) fn allocate(&mut self, event: &Event) {
        self.allocated.insert(event.sector, event.cpu);
    }

    pub(super) fn insert(&mut self, now: Timestamp, event: &Event) -> RequestId {
        let sectors = Sectors::new(event.sectors());
        let mut request = Request::new(now, operation(event), Lba::new(event.sector), sectors);
        let cpu = self.allocated.remove(&event.sector).unwrap_or(event.cpu);
        request.cpu = u16::try_from(cpu).unwrap_or(u16::MAX);
        request.stream = StreamId(event.pid);
        request.flags = event.flags();
        request.priority = event.priority;
        let number = self.inserted;
        self.inserted += 1;
        let known = Some(Known { request, inserted: now, number, is_completion_reported: false });
        let id = if let Some(id) = self.free.pop() {
            self.known[id as usize] = known;
            id
        } else {
            self.known.push(known);
            self.known.len() as u32 - 1
        };
        self.waiting.insert((event.sector, number, id));
        self.by_age.insert((number, id));
        RequestId(id)
    }

    /// Returns the request that is inserted again after a requeue, if it is one.
    pub(super) fn insert_again(&mut self, event: &Event) -> Option<RequestId> {
        let id = self.at(&self.came_back, event)?;
        let key = self.key(id);
        self.came_back.remove(&key);
        self.waiting.insert(key);
        self.by_age.insert((key.1, key.2));
        Some(id)
    }

    /// The waiting request that an issue event is about.
    pub(super) fn find_to_issue(&mut self, event: &Event) -> Option<RequestId> {
        self.allocated.remove(&event.sector);
        self.at(&self.waiting, event)
    }

    /// Marks a waiting request as issued.
    pub(super) fn issue(&mut self, id: RequestId) {
        let key = self.key(id);
        self.waiting.remove(&key);
        self.by_age.remove(&(key.1, key.2));
        self.in_flight.insert(key);
        self.free.append(&mut self.joined);
    }

    /// Takes back the request in flight that the device could not accept.
    pub(super) fn take_back(&mut self, event: &Event) -> Option<RequestId> {
        let id = self.at(&self.in_flight, event)?;
        let key = self.key(id);
        self.in_flight.remove(&key);
        self.came_back.insert(key);
        Some(id)
    }

    /// The request that has completed with this event. Of a partly completed request, the rest stays in flight.
    pub(super) fn complete(&mut self, event: &Event) -> Option<(RequestId, Known)> {
        let id = self.at(&self.in_flight, event)?;
        let key = self.key(id);
        self.in_flight.remove(&key);
        let known = self.known_mut(id);
        let left = known.request.sectors().count().saturating_sub(event.sectors());
        if left > 0 && event.bytes > 0 {
            known.request.lba = Lba::new(event.end());
            known.request.set_sectors(Sectors::new(left));
            let key = self.key(id);
            self.in_flight.insert(key);
            return None;
        }
        self.free.push(id.0);
        self.known[id.index()].take().map(|known| (id, known))
    }

    /// Handles a merge: returns the waiting request that has grown, and the request that was joined to it, unless it
    /// was a bio. `None` if neither waits, as for merges into requests that a process still collects.
    pub(super) fn merge(&mut self, event: &Event, at_end: bool) -> Option<(RequestId, Option<RequestId>)> {
        let into = if at_end { self.ending_at(event.sector, event) } else { self.starting_at(event.end(), event) }?;
        let sectors = self.known(into).request.sectors().count() + event.sectors();
        if Sectors::new(sectors) > Request::SECTORS_MAX {
            return None;
        }
        let joined = self
            .at(&self.waiting, event)
            .filter(|&id| id != into && self.known(id).request.sectors().count() == event.sectors());
        if let Some(joined) = joined {
            let key = self.key(joined);
            self.waiting.remove(&key);
            self.by_age.remove(&(key.1, key.2));
            self.joined.push(joined.0);
        }
        let old = self.key(into);
        let request = &mut self.known_mut(into).request;
        request.set_sectors(Sectors::new(sectors));
        request.lba = request.lba.min(Lba::new(event.sector));
        self.waiting.remove(&old);
        let new = self.key(into);
        self.waiting.insert(new);
        Some((into, joined))
    }

    /// The oldest waiting request that was inserted before `number`.
    pub(super) fn oldest(&self, before: u64) -> Option<RequestId> {
        self.by_age.first().filter(|(number, _)| *number < before).map(|&(_, id)| RequestId(id))
    }

    /// The first waiting request from `sector` upwards that was inserted before `number`, or else the first from sector
    /// 0.
    pub(super) fn upwards(&self, sector: u64, before: u64) -> Option<RequestId> {
        let above = self.waiting.range((sector, 0, 0)..);
        let found = above.chain(&self.waiting).find(|(_, number, _)| *number < before);
        found.map(|&(_, _, id)| RequestId(id))
    }

    /// The waiting requests that were first inserted before `number`, the youngest first.
    pub(super) fn youngest_before(&self, number: u64) -> impl Iterator<Item = (RequestId, &Known)> {
        let ids = self.by_age.range(..(number, 0)).rev();
        ids.map(|&(_, id)| (RequestId(id), self.known(RequestId(id))))
    }

    fn key(&self, id: RequestId) -> (u64, u64, u32) {
        let known = self.known(id);
        (known.request.lba.sector(), known.number, id.0)
    }

    /// The oldest request of `among` with the first sector and the operation of the event.
    fn at(&self, among: &BTreeSet<(u64, u64, u32)>, event: &Event) -> Option<RequestId> {
        let there = among.range((event.sector, 0, 0)..=(event.sector, u64::MAX, u32::MAX));
        let mut same = there.map(|&(_, _, id)| RequestId(id)).filter(|&id| self.is_same(id, event));
        same.next()
    }

    fn starting_at(&self, sector: u64, event: &Event) -> Option<RequestId> {
        let there = self.waiting.range((sector, 0, 0)..=(sector, u64::MAX, u32::MAX));
        let mut same = there.map(|&(_, _, id)| RequestId(id)).filter(|&id| self.is_same(id, event));
        same.next()
    }

    fn ending_at(&self, sector: u64, event: &Event) -> Option<RequestId> {
        let below = self.waiting.range(..(sector, 0, 0)).rev().map(|&(_, _, id)| RequestId(id));
        let mut ending = below.filter(|&id| self.known(id).request.end().sector() == sector);
        ending.find(|&id| self.is_same(id, event))
    }

    fn is_same(&self, id: RequestId, event: &Event) -> bool {
        self.known(id).request.operation == operation(event)
    }
}

fn operation(event: &Event) -> Operation {
    if event.is(Category::DISCARD) {
        Operation::Discard
    } else if event.is(Category::WRITE) {
        Operation::Write
    } else {
        Operation::Read
    }
}
